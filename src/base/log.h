/* log.h: notes and warnings on stderr, the only printing outside cli/. A command that fails must
 * leave exactly one line on stderr, so notes are dropped unless stderr is a terminal or -v was
 * given (log_level), and warnings are held back until log_flush() (success) or dropped by
 * log_discard() (failure). */
#ifndef MLXCEL_BASE_LOG_H
#define MLXCEL_BASE_LOG_H

#include "base/err.h"

typedef enum LogLevel { LOG_QUIET, LOG_WARN, LOG_NOTE, LOG_DEBUG } LogLevel;

void log_set_level(LogLevel level); /* default LOG_WARN */
LogLevel log_level(void);
void log_hold(bool hold); /* while held, warnings wait for log_flush or log_discard */
void log_warn(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_note(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_debug(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* Called before a line is written: who keeps a line of progress on the terminal wipes it. */
void log_before_line(void (*fn)(void));
void log_flush(void);
void log_discard(void);

#endif
