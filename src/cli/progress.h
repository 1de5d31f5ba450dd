/* progress.h: one line at the bottom of a terminal that says how far something long is: downloads,
 * loading, quantizing. One at a time; nothing is drawn where stderr is no terminal, or where
 * MLXCEL_NO_PROGRESS or HF_HUB_DISABLE_PROGRESS_BARS says so.
 *
 *     progress_begin(progress_delay());            nothing is seen of what is done sooner
 *     while (...) progress_show(done, total, "loading");
 *     progress_hide();                             or progress_keep(): the line stays
 *
 * Whatever else is printed hides the line first (out.h, log.h); the next progress_show draws it anew. */
#ifndef MLXCEL_CLI_PROGRESS_H
#define MLXCEL_CLI_PROGRESS_H

#include "base/buf.h"

void progress_begin(double delay_s);
/* Seconds until a wait is worth a line: MLXCEL_PROGRESS_DELAY, else 1. */
double progress_delay(void);
bool progress_allowed(void); /* no variable turns it off */
/* " 42% 1.2 GB of 2.8 GB, MORE, 95 MB/s, left 0:17" */
void progress_put(Buf *b, uint64_t done, uint64_t total, const char *more);
void progress_show(uint64_t done, uint64_t total, const char *more);
void progress_hide(void);
void progress_keep(void);
void progress_abandon(void); /* for the handler of a signal that ends the program */
/* The callback of mlxcel_model_options. */
bool progress_of_loading(void *ctx, uint64_t done, uint64_t total);
/* "1.23 GB" */
void progress_put_bytes(Buf *b, uint64_t n);

#endif
