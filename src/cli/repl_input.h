/* repl_input.h: one message from a terminal, with line editing and history (libedit).
 *
 * A message is a line; lines that are pasted together stay together (input that is already waiting
 * joins), and between lines with three double quotes everything is one message. Characters are
 * UTF-8, wide ones included. */
#ifndef MLXCEL_CLI_REPL_INPUT_H
#define MLXCEL_CLI_REPL_INPUT_H

#include "base/buf.h"

typedef enum InputKind {
    INPUT_MESSAGE,
    INPUT_BLOCK,           /* a message between quotes: never a command */
    INPUT_INTERRUPT,       /* Ctrl-C; the line is dropped */
    INPUT_INTERRUPT_EMPTY, /* the same while nothing was typed */
    INPUT_END              /* Ctrl-D */
} InputKind;

typedef struct ReplInput ReplInput;

/* alone: lines that are whole messages, whatever is waiting behind them (commands). */
ReplInput *repl_input_open(bool (*alone)(Str line), Err *err);
void repl_input_close(ReplInput *in);
InputKind repl_input_read(ReplInput *in, Buf *message);

#endif
