/* lane.h: one thread that does jobs in the order in which they were given. Arguments are copied, so
 * the giver may forget them; what they point to must live until lane_wait().
 *
 *     Lane *l = lane_new(err);
 *     lane_put(l, copy_job, &args, sizeof args);     waits only when LANE_JOBS are ahead
 *     lane_wait(l);                                    everything given so far is done
 *     lane_free(l);                                    waits first
 *
 * One thread gives and waits. */
#ifndef MLXCEL_BASE_LANE_H
#define MLXCEL_BASE_LANE_H

#include <stddef.h>

#include "base/err.h"

enum { LANE_JOBS = 64, LANE_ARG_BYTES = 96 };

typedef struct Lane Lane;
typedef void LaneFn(void *args);

Lane *lane_new(Err *err);
void lane_free(Lane *l); /* NULL is allowed */
/* n at most LANE_ARG_BYTES. */
void lane_put(Lane *l, LaneFn *fn, const void *args, size_t n);
void lane_wait(Lane *l);

#endif
