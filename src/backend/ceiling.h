/* ceiling.h: what this machine can do at best, measured: memory read, int8 and float multiply-adds,
 * on so many threads. The numbers that a benchmark is compared with, so they are taken in the same
 * process and the same minute.
 *
 *     Ceiling c;
 *     if (!ceiling_measure(pool, "avx512-vnni", &c, err)) return false;      about half a second */
#ifndef MLXCEL_BACKEND_CEILING_H
#define MLXCEL_BACKEND_CEILING_H

#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"

typedef struct Ceiling {
    double read_gbs;   /* 10^9 bytes a second from memory, caches aside */
    double int8_gmacs; /* 10^9 multiply-adds a second */
    double f32_gmacs;
} Ceiling;

/* isa: as the backend names its own ("avx512...", "avx2...", else portable). */
bool ceiling_measure(Pool *pool, const char *isa, Ceiling *out, Err *err) MUST_CHECK;

/* One instruction set's loops. Results are only there to be used. */
typedef struct CeilingOps {
    uint64_t (*read)(const void *p, size_t n); /* n: a multiple of 1024 */
    int (*int8)(uint64_t n_rounds);
    float (*f32)(uint64_t n_rounds);
    double int8_macs, f32_macs; /* of one round */
} CeilingOps;

extern const CeilingOps CEILING_PORTABLE;
#if defined(__x86_64__)
extern const CeilingOps CEILING_AVX2, CEILING_AVX512;
#endif

#endif
