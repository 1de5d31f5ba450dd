/* turn.h: small squares turned: the rows of a matrix become the lanes of a tile. A square of n x n
 * elements takes log2(n) rounds of a perfect shuffle of its rows.
 *
 *     turn_halves(rows, at, to, step);     8 rows x 8 16-bit columns: column i to `to + i * step` */
#ifndef MLXCEL_BACKEND_CPU_TURN_H
#define MLXCEL_BACKEND_CPU_TURN_H

#include <stdint.h>
#include <string.h>

typedef uint8_t TurnBytes __attribute__((vector_size(16)));
typedef uint16_t TurnHalves __attribute__((vector_size(16)));
typedef uint32_t TurnWords __attribute__((vector_size(16)));

/* at: byte offset in every row; step: bytes between columns of the result. */
static inline void turn_bytes(const uint8_t *const *rows, size_t at, uint8_t *to, size_t step) {
    TurnBytes r[16], t[16];
    for (int i = 0; i < 16; i++) memcpy(&r[i], rows[i] + at, sizeof r[i]);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 8; i++) {
            t[2 * i] = __builtin_shufflevector(r[i], r[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5,
                                               21, 6, 22, 7, 23);
            t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12,
                                                   28, 13, 29, 14, 30, 15, 31);
        }
        memcpy(r, t, sizeof r);
    }
    for (int i = 0; i < 16; i++) memcpy(to + (size_t)i * step, &r[i], sizeof r[i]);
}

static inline void turn_halves(const uint8_t *const *rows, size_t at, uint8_t *to, size_t step) {
    TurnHalves r[8], t[8];
    for (int i = 0; i < 8; i++) memcpy(&r[i], rows[i] + at, sizeof r[i]);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            t[2 * i] = __builtin_shufflevector(r[i], r[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        memcpy(r, t, sizeof r);
    }
    for (int i = 0; i < 8; i++) memcpy(to + (size_t)i * step, &r[i], sizeof r[i]);
}

/* 4 rows x 4 columns of 32 bits. */
static inline void turn_words(const uint8_t *const *rows, size_t at, uint8_t *to, size_t step) {
    TurnWords r[4], t[4];
    for (int i = 0; i < 4; i++) memcpy(&r[i], rows[i] + at, sizeof r[i]);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++) {
            t[2 * i] = __builtin_shufflevector(r[i], r[i + 2], 0, 4, 1, 5);
            t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 2], 2, 6, 3, 7);
        }
        memcpy(r, t, sizeof r);
    }
    for (int i = 0; i < 4; i++) memcpy(to + (size_t)i * step, &r[i], sizeof r[i]);
}

#endif
