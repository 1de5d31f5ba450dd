/* wform.h: the weight form (DESIGN.md section 6): what every quantized matrix [N, K] is, whatever
 * file it came from.
 *
 *     w[n,k] = scale[n,s] * (value(code[n,k]) - zero[n,s]) + bias[n,s]   s: wform_scale_of(k / group)
 *
 * Packers ask for the form once, allocate from it, then take rows in canonical, unpacked arrays:
 *
 *     if (!wform_init(&wf, &m, &arena, err)) return false;
 *     WRows r = {.codes = u8[16 * wf.k], .scale = f32[16 * wf.n_scales], .zero = ...};
 *     for (n = 0; n < wf.n; n += 16)
 *         if (!wform_rows(&wf, &m, n, n + 16, &r, err)) return false;
 *
 * A WForm is read-only after init and may be used by any thread; its perm lives in the arena. */
#ifndef MLXCEL_QUANT_WFORM_H
#define MLXCEL_QUANT_WFORM_H

#include "base/arena.h"
#include "quant/qmatrix.h"

/* Groups are what kernels take with one scale: 16 columns, a multiple of 32, or all. The file's are
 * taken as they are, or cut into sixteens that share its scale; where neither goes (groups of 24, a
 * ragged g_idx), group is 0 and every column has a scale by itself: wform_scale_of(column).
 *
 * Exactness: with bias, w is fmaf(scale, value, bias); without, scale * (value - zero) in f32:
 * bit-equal to the reference decode except for the sign of zeros, and for nvfp4 with a second
 * scale (two roundings: one part in 2^23).
 *
 * Two-level scales: scale[n,s] = unit * d * widen(sub[n,s]); bias[n,s] = -dmin * sub_min[n,s]
 *                   (K-quants with mins); d and dmin of (n, column / super), or with flat_super
 *                   d number (n * k + column) / flat_super of the matrix: wform_flat_d().
 *                   NESTED: scale[n,s] = nested[sub[n,s]] * d + nested_offset, in f32.
 *
 * Rows may share all their scales (blocks of fp8, one scale for all): WShare.
 *
 * What a packer does per kind:
 *   PLAIN     no codes. Read m.part[QPART_WEIGHT] (wf.plain: F32 F16 BF16 ...), or decode_matrix().
 *   CODES     unsigned codes of wf.bits bits. has_table: value = table[code], small integers; else
 *             value = code.
 *   FLOAT8    one byte per weight, value = fp_e4m3_to_f32 or fp_e5m2_to_f32, as wf.plain says.
 *   CODEBOOK  IQ1 IQ2 IQ3 TQ1_0. Codes come out expanded: int8 value + 128, zero = 128. To stay at
 *             file size keep the blocks and call wform_rows again per tile.
 *   LUT       4 bits, value = wf.values[code], any floats (bitsandbytes).
 * For all but PLAIN, wf.values[code] is the value. */
typedef enum WKind { WFORM_PLAIN, WFORM_CODES, WFORM_FLOAT8, WFORM_CODEBOOK, WFORM_LUT } WKind;
typedef enum WOffset {
    WOFFSET_CONST, /* zero is wf.zero everywhere (0 for tables) */
    WOFFSET_ZERO,  /* an integer zero point per group */
    WOFFSET_BIAS   /* a float bias per group */
} WOffset;
/* How scale bytes widen. NONE: the scale is a float, there is no sub. */
typedef enum WSub {
    WSUB_NONE,
    WSUB_INT,       /* int8 */
    WSUB_E4M3,      /* fp_e4m3_to_f32 */
    WSUB_E8M0,      /* 2^(b-127), 255 is NaN */
    WSUB_E8M0_GGML, /* 2^(b-127), 255 is 2^128 (times unit 1/2) */
    WSUB_NESTED     /* an index into the 256 values of `nested` */
} WSub;

/* Which rows have all their scales and zero points in common: those of the same wshare_row(). */
typedef struct WShare {
    uint64_t stack_rows, scale_rows; /* of a stack item: rows, and rows of scales */
    uint64_t row_div;                /* rows per row of scales; 1: nobody shares; 0: all do */
} WShare;

static inline uint64_t wshare_row(const WShare *s, uint64_t n) {
    return s->row_div ? n / s->stack_rows * s->scale_rows + n % s->stack_rows / s->row_div : 0;
}
static inline uint64_t wshare_first(const WShare *s, uint64_t r) { /* the first row of those */
    return r / s->scale_rows * s->stack_rows + r % s->scale_rows * s->row_div;
}

typedef struct WForm {
    uint64_t n, k;
    WKind kind;
    unsigned bits;     /* of a code, 1..8 */
    uint64_t group;    /* 16, a multiple of 32, or k; 0: none */
    uint64_t n_groups; /* ceil(k / group); the last may be partial; 0 with group 0 */
    uint64_t n_scales; /* of a row, as the file has them */
    /* The scale of a group (of a column, when group is 0); NULL: the one that has its first column,
     * scale_cols each. */
    const uint32_t *scale_of;
    uint64_t scale_cols;
    WShare share;
    /* Not 0: scales run on along the flat order of elements, so many each, over the ends of rows; the
     * n_scales of a row are copies. */
    uint64_t flat_scale;
    bool has_table;
    int8_t table[16];
    WOffset offset;
    int zero;      /* WOFFSET_CONST */
    int zero_base; /* WOFFSET_ZERO: zero points are zero_base .. zero_base + 2^bits - 1 */
    /* F16, BF16 or F32: holds every scale (two-level: d, dmin) and bias exactly. NONE: no
     * floats. */
    DType scale_dtype;
    WSub sub;            /* other than NONE: two-level */
    unsigned sub_bits;   /* WSUB_INT: 4 (Q2_K), 6 or 8; others 8 */
    uint64_t super;      /* two-level: columns per d: 256; 0: d is 1 everywhere, or: */
    uint64_t flat_super; /* d runs on along the flat order of elements, so many each; 0: no */
    uint64_t n_super;    /* ceil(k / super); 0 when super is */
    float unit;          /* a power of two; 1/2 for fp4, whose table is twice the value */
    const float *nested; /* WSUB_NESTED; in the arena */
    float nested_offset;
    /* Act-order: canonical column p is the file's column perm[p]; gather activations so. Or
     * NULL. */
    const uint32_t *perm;
    /* The model was trained with its inputs rounded to int8 with one scale a row (BitNet): x = q / s,
     * s = 127 / max(amax, 1e-5). For backends that round anyway. */
    bool row_acts;
    DType plain;       /* PLAIN: storage type or DTYPE_NONE; FLOAT8: F8_E4M3 or F8_E5M2 */
    float values[256]; /* value(code), all kinds but PLAIN; fp4's -0 included */

    struct WFormStored {                   /* how the parts are laid out; for quant/ only */
        uint64_t group, n_groups;          /* as stored */
        uint64_t row_bytes;                /* of WEIGHT where rows are contiguous; else 0 */
        uint64_t stack_rows;               /* rows per stack item (expert), for scales */
        uint64_t scale_rows;               /* rows of the scale tensor per stack item */
        uint64_t row_div;                  /* scale row = row in stack item / row_div */
        uint64_t row_stride, group_stride; /* of SCALE (and MLX biases), elements */
        uint64_t global_rows;              /* rows per element of GLOBAL */
        double global_div;     /* second scale is GLOBAL / global_div, or 1 / GLOBAL if negative */
        const uint32_t *g_idx; /* group of each column as stored, or NULL: k / group */
        unsigned per_word;     /* codes per 32-bit word, 0: dense stream */
        unsigned zero_per_word;
    } stored;
} WForm;

typedef struct WRows { /* the caller's arrays for n1 - n0 rows; NULL: not wanted */
    uint8_t *codes;    /* [rows, k], columns in canonical order */
    float *scale;      /* [rows, n_scales], levels and unit multiplied, rounded once */
    int16_t *zero;     /* [rows, n_scales]; CONST: filled with wf.zero; BIAS: zeros */
    float *bias;       /* [rows, n_scales]; zeros unless WOFFSET_BIAS */
    float *d;          /* [rows, n_super] two-level only, like the rest */
    float *dmin;       /* [rows, n_super] */
    uint8_t *sub;      /* [rows, n_scales] */
    uint8_t *sub_min;  /* [rows, n_scales] */
} WRows;

/* Checks the parts against each other and against n, k, bits, group; ERR_CORRUPT or
 * ERR_UNSUPPORTED names the part. Needs the bytes of G_IDX and TABLE, and those of NESTED_TABLE to
 * keep nested scales nested; those of the others only later. perm lives in the arena. Also sets m's 0 fields. */
bool wform_init(WForm *wf, QMatrix *m, Arena *a, Err *err) MUST_CHECK;
/* Rows [n0, n1); not for WFORM_PLAIN. ERR_CORRUPT if a part does not hold the bytes. Any thread. */
bool wform_rows(const WForm *wf, const QMatrix *m, uint64_t n0, uint64_t n1, const WRows *out,
                Err *err) MUST_CHECK;
static inline uint64_t wform_scale_of(const WForm *wf, uint64_t g) { /* a group, or a column */
    return wf->scale_of ? wf->scale_of[g] : (wf->group ? g * wf->group : g) / wf->scale_cols;
}
/* Scales of row n without its codes: needs the bytes of all parts but WEIGHT. Not for GGUF blocks. */
bool wform_scales(const WForm *wf, const QMatrix *m, uint64_t n, const WRows *out,
                  Err *err) MUST_CHECK;
/* flat_scale: number i, into element 0 of scale or sub; needs the bytes of all parts but WEIGHT. */
void wform_flat_scale(const WForm *wf, const QMatrix *m, uint64_t i, const WRows *out);
/* flat_super: d number i; needs the bytes of GLOBAL or NESTED_SCALE. */
float wform_flat_d(const WForm *wf, const QMatrix *m, uint64_t i);
/* The bytes of a part that rows [n0, n1) need: for reading piece by piece. A part that is not
 * there: 0 bytes. */
void wform_span(const WForm *wf, const QMatrix *m, QPartId id, uint64_t n0, uint64_t n1,
                uint64_t *from, uint64_t *n_bytes);
/* Parts stored [inputs, outputs] (GPTQ's and AWQ's weight): the bytes [*from, *from + *n_bytes) of
 * each of *n_lines stored rows of *line_bytes are enough (QPart.pitch). False: see wform_span. */
bool wform_columns(const WForm *wf, const QMatrix *m, QPartId id, uint64_t n0, uint64_t n1,
                   uint64_t *from, uint64_t *n_bytes, uint64_t *n_lines, uint64_t *line_bytes);
double wform_widen(WSub sub, uint8_t b);
/* Which element of the scales is that of stored row n and stored group g. */
uint64_t wform_scale_index(const WForm *wf, uint64_t n, uint64_t g);

#endif
