#include "quant/blocks.h"

#include <stddef.h>

/* fp4 (E2M1) times two, so that values are integers: its unit is 1/2. ggml has no -0. */
static const int8_t fp4x2[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t sign_values[2] = {-1, 1};

/* One float scale per group, constant zero point. */
#define FLAT(fn, bits_, group_, zero_)                                                             \
    { .unpack = fn, .kind = WFORM_CODES, .bits = bits_, .group = group_, .zero = zero_, .unit = 1 }
#define FLAT_BIAS(fn, bits_)                                                                       \
    {                                                                                              \
        .unpack = fn, .kind = WFORM_CODES, .bits = bits_, .group = 32, .offset = WOFFSET_BIAS,     \
        .unit = 1                                                                                  \
    }
#define FLAT_TABLE(fn, bits_, group_, table_)                                                      \
    {                                                                                              \
        .unpack = fn, .kind = WFORM_CODES, .bits = bits_, .group = group_, .table = table_,        \
        .unit = 1                                                                                  \
    }
/* d per 256 and a small integer per group. */
#define SUPER(fn, bits_, group_, zero_, table_, sub_bits_)                                         \
    {                                                                                              \
        .unpack = fn, .kind = WFORM_CODES, .bits = bits_, .group = group_, .zero = zero_,          \
        .table = table_, .sub = WSUB_INT, .sub_bits = sub_bits_, .has_d = true, .unit = 1          \
    }
#define SUPER_BIAS(fn, bits_, group_, sub_bits_)                                                   \
    {                                                                                              \
        .unpack = fn, .kind = WFORM_CODES, .bits = bits_, .group = group_, .offset = WOFFSET_BIAS, \
        .sub = WSUB_INT, .sub_bits = sub_bits_, .has_d = true, .unit = 1                           \
    }
#define FP4(fn, group_, sub_)                                                                      \
    {                                                                                              \
        .unpack = fn, .kind = WFORM_CODES, .bits = 4, .group = group_, .table = fp4x2,             \
        .sub = sub_, .sub_bits = 8, .unit = 0.5f                                                   \
    }
#define BOOK(fn, group_, unit_)                                                                    \
    {                                                                                              \
        .unpack = fn, .kind = WFORM_CODEBOOK, .bits = 8, .group = group_, .zero = 128,             \
        .sub = WSUB_INT, .sub_bits = 8, .has_d = true, .unit = unit_                               \
    }

static const BlockLayout layouts[DTYPE_COUNT] = {
    [DTYPE_Q4_0] = FLAT(block_unpack_q4_0, 4, 32, 8),
    [DTYPE_Q4_1] = FLAT_BIAS(block_unpack_q4_1, 4),
    [DTYPE_Q5_0] = FLAT(block_unpack_q5_0, 5, 32, 16),
    [DTYPE_Q5_1] = FLAT_BIAS(block_unpack_q5_1, 5),
    [DTYPE_Q8_0] = FLAT(block_unpack_q8_0, 8, 32, 128),
    [DTYPE_IQ4_NL] = FLAT_TABLE(block_unpack_q4_0, 4, 32, iq4_values),
    [DTYPE_Q1_0] = FLAT_TABLE(block_unpack_q1_0, 1, 128, sign_values),
    [DTYPE_Q2_0] = FLAT(block_unpack_q2_0, 2, 64, 1),
    [DTYPE_MXFP4] = FP4(block_unpack_mxfp4, 32, WSUB_E8M0_GGML),
    [DTYPE_NVFP4] = FP4(block_unpack_nvfp4, 16, WSUB_E4M3),
    [DTYPE_Q2_K] = SUPER_BIAS(block_unpack_q2_k, 2, 16, 4),
    [DTYPE_Q3_K] = SUPER(block_unpack_q3_k, 3, 16, 4, NULL, 6),
    [DTYPE_Q4_K] = SUPER_BIAS(block_unpack_q4_k, 4, 32, 6),
    [DTYPE_Q5_K] = SUPER_BIAS(block_unpack_q5_k, 5, 32, 6),
    [DTYPE_Q6_K] = SUPER(block_unpack_q6_k, 6, 16, 32, NULL, 8),
    [DTYPE_IQ4_XS] = SUPER(block_unpack_iq4_xs, 4, 32, 0, iq4_values, 6),
    [DTYPE_TQ2_0] = FLAT(block_unpack_tq2_0, 2, 256, 1),
    [DTYPE_TQ1_0] = {.unpack = block_unpack_tq1_0,
                     .kind = WFORM_CODEBOOK,
                     .bits = 8,
                     .group = 256,
                     .zero = 128,
                     .unit = 1},
    [DTYPE_IQ2_XXS] = BOOK(block_unpack_iq2_xxs, 32, 0.125f),
    [DTYPE_IQ2_XS] = BOOK(block_unpack_iq2_xs, 16, 0.125f),
    [DTYPE_IQ2_S] = BOOK(block_unpack_iq2_s, 16, 0.125f),
    [DTYPE_IQ3_XXS] = BOOK(block_unpack_iq3_xxs, 32, 0.25f),
    [DTYPE_IQ3_S] = BOOK(block_unpack_iq3_s, 32, 1),
    [DTYPE_IQ1_S] = BOOK(block_unpack_iq1_s, 32, 0.125f),
    [DTYPE_IQ1_M] = BOOK(block_unpack_iq1_m, 16, 0.125f),
};

const BlockLayout *block_layout(DType t) {
    return (unsigned)t < DTYPE_COUNT && layouts[t].unpack ? &layouts[t] : NULL;
}
