/* out.h: what all commands share: results to stdout, one line of error to stderr, whole files and lines in.
 *
 * stdout goes through one buffer with a sticky state: a full disk is an error at the end (out_close), a reader that left is
 * none, and out_gone() tells a running command to stop. */
#ifndef MLXCEL_CLI_OUT_H
#define MLXCEL_CLI_OUT_H

#include "base/buf.h"
#include "mlxcel.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

void out_put(Str s);
void out_put_c(const char *s);
bool out_flush(void); /* false: nobody reads, or it cannot be written */
bool out_gone(void);
int out_close(int status); /* flushes; the status to end with */

/* Print "mlxcel: ..." as the only line of stderr (warnings held back are dropped) and give the exit status. */
int cli_fail(const mlxcel_error *err);
int cli_fail_err(const Err *err);
int cli_usage(const char *fmt, ...) PRINTF_LIKE(1, 2);
void cli_note(const char *fmt, ...) PRINTF_LIKE(1, 2); /* a line on stderr */
void cli_warn(
    const char *
        text); /* "mlxcel: warning: ...", held back like the library's until the command succeeded */

/* Answers every line of stdin with one line. false from fn: MLXCEL_INPUT is the answer {"error": ...}; else the command fails. */
typedef bool LineFn(void *ctx, const char *line, size_t n_bytes, mlxcel_string **out,
                    mlxcel_error *err);
int lines_answer(LineFn *fn, void *ctx);

bool file_read(const char *path, size_t max_bytes, Buf *out, Err *err) MUST_CHECK; /* "-": stdin */

#endif
