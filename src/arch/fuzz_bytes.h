/* fuzz_bytes.h: a fuzzer's input taken as small numbers, for the targets of this folder. Not part of the
 * library. */
#ifndef MLXCEL_ARCH_FUZZ_BYTES_H
#define MLXCEL_ARCH_FUZZ_BYTES_H

#include <stddef.h>
#include <stdint.h>

typedef struct Bytes {
    const uint8_t *p;
    size_t n;
} Bytes;

/* 0 behind the end */
static inline uint32_t next(Bytes *b) {
    if (!b->n) return 0;
    b->n--;
    return *b->p++;
}

#endif
