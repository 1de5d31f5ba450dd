/* term.h: what the terminal can show, and Ctrl-C.
 *
 *     term_init();                        main, once
 *     interrupt_watch(request);           Ctrl-C cancels it; a second one ends the program
 *     ... run ... ; interrupt_watch(NULL); */
#ifndef MLXCEL_CLI_TERM_H
#define MLXCEL_CLI_TERM_H

#include "mlxcel.h"

void term_init(void); /* SIGPIPE, SIGINT, a UTF-8 locale for characters */
bool term_stdout(void);
bool term_stdin(void);
bool term_stderr(void);
/* stdout is a terminal that shows them; NO_COLOR, TERM=dumb and CLICOLOR_FORCE are heard */
bool term_colors(void);

void interrupt_watch(mlxcel_request *request);
void interrupt_hold(bool on); /* on: Ctrl-C is only noted (a prompt waits for input) */
bool interrupted(void);       /* since interrupt_clear */
void interrupt_clear(void);
/* Waits for input on stdin, or for a Ctrl-C that is held, even one from before the call; false: it
 * was a Ctrl-C. (read() alone would sleep through one that came just before it.) */
bool interrupt_or_key(void);

#endif
