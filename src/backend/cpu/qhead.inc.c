/* Kernels of all other codes: 1 to 8 bits, tables, groups of 16, two-level scales. Scales come
 * decoded. */
#include "backend/cpu/qtile.inc.c"

#if defined(Q_ALL_ROWS)
enum { N_SIZES = 4 };
static const uint32_t SIZES[N_SIZES] = {1, 2, 4, 8};
#define EACH_SIZE(M, ...) M(1, __VA_ARGS__) M(2, __VA_ARGS__) M(4, __VA_ARGS__) M(8, __VA_ARGS__)
#elif defined(Q_FOUR_ROWS)
enum { N_SIZES = 3 };
static const uint32_t SIZES[N_SIZES] = {1, 2, 4};
#define EACH_SIZE(M, ...) M(1, __VA_ARGS__) M(2, __VA_ARGS__) M(4, __VA_ARGS__)
#else
enum { N_SIZES = 2 };
static const uint32_t SIZES[N_SIZES] = {1, 2};
#define EACH_SIZE(M, ...) M(1, __VA_ARGS__) M(2, __VA_ARGS__)
#endif
#define DEFINE(R, bits, name, offset, values_are)                                                  \
    Q_KERNEL(head_##bits##_##name##_##R, R, bits, offset, true, values_are)
#define ENTRY(R, bits, name) head_##bits##_##name##_##R,
#define OFFSETS(bits)                                                                              \
    EACH_SIZE(DEFINE, bits, const, WOFFSET_CONST, Q_CODES)                                         \
    EACH_SIZE(DEFINE, bits, zero, WOFFSET_ZERO, Q_CODES)                                           \
    EACH_SIZE(DEFINE, bits, bias, WOFFSET_BIAS, Q_CODES)
#define ROW(bits)                                                                                  \
    {                                                                                              \
        {EACH_SIZE(ENTRY, bits, const)}, {EACH_SIZE(ENTRY, bits, zero)}, {                         \
            EACH_SIZE(ENTRY, bits, bias)                                                           \
        }                                                                                          \
    }

OFFSETS(1)
OFFSETS(2)
OFFSETS(3)
OFFSETS(4)
OFFSETS(5)
OFFSETS(6)
OFFSETS(7)
OFFSETS(8)
EACH_SIZE(DEFINE, 4, table, WOFFSET_CONST, Q_TABLE)
EACH_SIZE(DEFINE, 3, table, WOFFSET_CONST, Q_TABLE)
EACH_SIZE(DEFINE, 2, table, WOFFSET_CONST, Q_TABLE)
EACH_SIZE(DEFINE, 1, table, WOFFSET_CONST, Q_TABLE)
EACH_SIZE(DEFINE, 8, book, WOFFSET_CONST, Q_SEVEN)

/* By bits - 1, WOffset (CONST, ZERO, BIAS), size. */
static QKernel *const KERNELS[8][3][N_SIZES] = {ROW(1), ROW(2), ROW(3), ROW(4),
                                                ROW(5), ROW(6), ROW(7), ROW(8)};
static QKernel *const TABLES[4][N_SIZES] = {{EACH_SIZE(ENTRY, 1, table)},
                                            {EACH_SIZE(ENTRY, 2, table)},
                                            {EACH_SIZE(ENTRY, 3, table)},
                                            {EACH_SIZE(ENTRY, 4, table)}};
static QKernel *const BOOKS[N_SIZES] = {EACH_SIZE(ENTRY, 8, book)};

QKernel *ISA(qhead_kernel)(const PackedMat *m, uint32_t *n_rows) {
    int i = N_SIZES - 1;
    while (SIZES[i] > *n_rows) i--;
    *n_rows = SIZES[i];
    if (m->kind == PACKED_BOOK) return BOOKS[i];
    return m->has_table ? TABLES[m->bits - 1][i] : KERNELS[m->bits - 1][m->offset][i];
}
