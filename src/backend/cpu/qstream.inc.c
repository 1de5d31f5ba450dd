/* Kernels of matrices whose scales ride in the stream: the formats that most weights have, for
 * every number of rows. */
#include "backend/cpu/qtile.inc.c"

#if defined(Q_ALL_ROWS)
#define ROWS_TO_6(M, ...)                                                                          \
    M(1, __VA_ARGS__)                                                                              \
    M(2, __VA_ARGS__) M(3, __VA_ARGS__) M(4, __VA_ARGS__) M(5, __VA_ARGS__) M(6, __VA_ARGS__)
#define ROWS_TO_12(M, ...)                                                                         \
    M(7, __VA_ARGS__)                                                                              \
    M(8, __VA_ARGS__) M(9, __VA_ARGS__) M(10, __VA_ARGS__) M(11, __VA_ARGS__) M(12, __VA_ARGS__)
#define EACH_ROWS(M, ...) ROWS_TO_6(M, __VA_ARGS__) ROWS_TO_12(M, __VA_ARGS__)
#elif defined(Q_FOUR_ROWS)
#define EACH_ROWS(M, ...) M(1, __VA_ARGS__) M(2, __VA_ARGS__) M(3, __VA_ARGS__) M(4, __VA_ARGS__)
#else
#define EACH_ROWS(M, ...) M(1, __VA_ARGS__) M(2, __VA_ARGS__)
#endif
#define DEFINE(R, bits, name, offset)                                                              \
    Q_KERNEL(stream_##bits##_##name##_##R, R, bits, offset, false, Q_CODES)
#define ENTRY(R, bits, name, offset) stream_##bits##_##name##_##R,

EACH_ROWS(DEFINE, 4, const, WOFFSET_CONST)
EACH_ROWS(DEFINE, 4, bias, WOFFSET_BIAS)
EACH_ROWS(DEFINE, 8, const, WOFFSET_CONST)
EACH_ROWS(DEFINE, 8, bias, WOFFSET_BIAS)

static QKernel *const KERNELS[2][2][Q_MAX_ROWS] = {
    {{EACH_ROWS(ENTRY, 4, const, )}, {EACH_ROWS(ENTRY, 4, bias, )}},
    {{EACH_ROWS(ENTRY, 8, const, )}, {EACH_ROWS(ENTRY, 8, bias, )}},
};

QKernel *ISA(qstream_kernel)(const PackedMat *m, uint32_t *n_rows) {
    if (*n_rows > Q_MAX_ROWS) *n_rows = Q_MAX_ROWS;
    return KERNELS[m->bits == 8][m->offset == WOFFSET_BIAS][*n_rows - 1];
}
