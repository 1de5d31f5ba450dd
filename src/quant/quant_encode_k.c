/* K-quant encoders (layouts: blocks_kquant.c): by least squares.
 *
 * A group's scale (and min) come from a search: codes for a scale near the one that spans the group,
 * the best scale and min for those codes in closed form, and the same for its neighbours; the pair
 * with the least squared error stays. Then the block's d (and dmin) are fixed in f16, each group
 * tries the integer scales beside its own, and d and dmin are solved once more for the codes found.
 * All weights count the same: the result is as near to the rows as these steps come. */
#include "quant/quant_encode_k.h"

#include <math.h>
#include <string.h>

#include "base/fp.h"

enum { BLOCK = 256, MAX_GROUP = 32, MAX_GROUPS = 16, N_STEPS = 10, N_ROUNDS = 2 };

/* To the nearest integer, ties to even, |x| below 2^22; unlike rintf() the loops below become
 * vector code. */
static inline float nearest(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }
static inline float clipf(float x, float lo, float hi) { return x < lo ? lo : x > hi ? hi : x; }

typedef struct KFormat {
    int group;        /* elements per scale */
    float lo, hi;     /* codes */
    float s_lo, s_hi; /* integer scales */
    bool has_min;     /* w = d * scale * code - dmin * min; both integers then 0..s_hi */
} KFormat;

static const KFormat Q2K = {16, 0, 3, 0, 15, true}, Q3K = {16, -4, 3, -32, 31, false},
                     Q4K = {32, 0, 15, 0, 63, true}, Q5K = {32, 0, 31, 0, 63, true},
                     Q6K = {16, -32, 31, -128, 127, false};

typedef struct KBlock { /* one block, being encoded */
    const KFormat *f;
    const float *x;
    float scale[MAX_GROUPS], min[MAX_GROUPS]; /* real ones; w = scale * code - min */
    float d, dmin;                            /* exact in f16 */
    float sub[MAX_GROUPS], sub_min[MAX_GROUPS];
    float codes[BLOCK];
} KBlock;

typedef struct Sums { /* of a group and its codes */
    float q, qq, x, xq;
} Sums;

static Sums sums_of(const float *x, const float *q, int n) {
    Sums s = {0};
    for (int i = 0; i < n; i++) {
        s.q += q[i];
        s.qq += q[i] * q[i];
        s.x += x[i];
        s.xq += x[i] * q[i];
    }
    return s;
}

/* Codes of a group for w = scale * code - min; gives the squared error. */
static float group_codes(const KFormat *f, const float *x, float scale, float min, float *q) {
    float inverse = fabsf(scale) < 0x1p-120f ? 0 : 1 / scale, err = 0;
    for (int i = 0; i < f->group; i++) {
        q[i] = nearest(clipf((x[i] + min) * inverse, f->lo, f->hi));
        float e = x[i] + min - scale * q[i];
        err += e * e;
    }
    return err;
}

/* The scale and min that fit given codes best; false where the codes say nothing. */
static bool solve(const KFormat *f, const float *x, const float *q, float *scale, float *min) {
    Sums s = sums_of(x, q, f->group);
    float n = (float)f->group, det = n * s.qq - s.q * s.q;
    *min = 0;
    if (s.qq <= 0) return false;
    if (f->has_min && det > 0) {
        *scale = (n * s.xq - s.x * s.q) / det;
        *min = -(s.x - *scale * s.q) / n;
    }
    if (!f->has_min || det <= 0 || *min < 0) {
        *min = 0;
        *scale = s.xq / s.qq;
    }
    return !f->has_min || *scale > 0;
}

static void group_search(KBlock *b, int g) {
    const KFormat *f = b->f;
    const float *x = b->x + g * f->group;
    float lo = 0, hi = x[0], q[MAX_GROUP], extreme = x[0];
    for (int i = 0; i < f->group; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
        extreme = fabsf(x[i]) > fabsf(extreme) ? x[i] : extreme;
    }
    b->scale[g] = 0;
    b->min[g] = f->has_min ? -lo : 0;
    float span = f->has_min ? hi - lo : extreme, steps = f->has_min ? f->hi : f->lo;
    if (fabsf(span) < 0x1p-100f) return;
    float best = INFINITY;
    for (int step = 0; step <= N_STEPS; step++) {
        /* a little wider and a little narrower than the span */
        float width = steps + 0.2f * (float)(step - N_STEPS / 2), min = 0, scale = 0;
        (void)group_codes(f, x, span / width, f->has_min ? -lo : 0, q);
        if (!solve(f, x, q, &scale, &min)) continue;
        float err = group_codes(f, x, scale, min, q);
        if (!(err < best)) continue;
        best = err;
        b->scale[g] = scale;
        b->min[g] = min;
    }
}

static float f16_exact(float x) { return fp_f16_to_f32(fp_f32_to_f16(x)); }

/* The group's integer scale and min for the block's d and dmin: those nearest and their
 * neighbours. Gives the squared error. */
static float group_settle(KBlock *b, int g) {
    const KFormat *f = b->f;
    const float *x = b->x + g * f->group;
    float q[MAX_GROUP], best = INFINITY;
    float s0 = b->d != 0 ? nearest(clipf(b->scale[g] / b->d, f->s_lo, f->s_hi)) : 0;
    float m0 = b->dmin != 0 ? nearest(clipf(b->min[g] / b->dmin, 0, f->s_hi)) : 0;
    for (int ds = -1; ds <= 1; ds++)
        for (int dm = -1; dm <= 1; dm++) {
            float s = s0 + (float)ds, m = m0 + (float)dm;
            if (s < f->s_lo || s > f->s_hi || m < 0 || m > f->s_hi) continue;
            if (dm && !f->has_min) continue;
            float err = group_codes(f, x, b->d * s, b->dmin * m, q);
            if (!(err < best)) continue;
            best = err;
            b->sub[g] = s;
            b->sub_min[g] = m;
            memcpy(b->codes + g * f->group, q, (size_t)f->group * sizeof *q);
        }
    return best;
}

static float block_settle(KBlock *b) {
    float err = 0;
    for (int g = 0; g < BLOCK / b->f->group; g++) err += group_settle(b, g);
    return err;
}

/* d and dmin that fit the codes and integer scales best. */
static void block_solve(KBlock *b) {
    double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
    for (int i = 0; i < BLOCK; i++) {
        int g = i / b->f->group;
        double a = (double)b->sub[g] * b->codes[i], m = b->sub_min[g];
        aa += a * a;
        ab += a * m;
        bb += m * m;
        xa += a * b->x[i];
        xb += m * b->x[i];
    }
    double det = aa * bb - ab * ab;
    if (b->f->has_min && det > 1e-9 * aa * bb) {
        double d = (xa * bb - xb * ab) / det, dmin = (xa * ab - xb * aa) / det;
        if (d > 0 && dmin >= 0) {
            b->d = f16_exact((float)d);
            b->dmin = f16_exact((float)dmin);
        }
    } else if (aa > 0) {
        b->d = f16_exact((float)((xa + b->dmin * ab) / aa));
    }
}

/* False if the numbers are beyond what f16 scales can bring back. */
static bool block_encode(KBlock *b, const KFormat *f, const float *x) {
    int n_groups = BLOCK / f->group;
    float top_scale = 0, top_min = 0;
    *b = (KBlock){.f = f, .x = x};
    for (int i = 0; i < BLOCK; i++)
        if (!(fabsf(x[i]) < 1e9f)) return false;
    for (int g = 0; g < n_groups; g++) {
        group_search(b, g);
        if (fabsf(b->scale[g]) > fabsf(top_scale)) top_scale = b->scale[g];
        top_min = fmaxf(top_min, b->min[g]);
    }
    /* signed scales: the one of largest magnitude takes the far end of the range */
    b->d = f16_exact(top_scale / (f->has_min ? f->s_hi : f->s_lo));
    b->dmin = f16_exact(top_min / f->s_hi);
    if (!isfinite(b->d) || !isfinite(b->dmin)) return false;
    float best = block_settle(b);
    for (int round = 0; round < N_ROUNDS; round++) {
        KBlock next = *b;
        block_solve(&next);
        if (!isfinite(next.d) || !isfinite(next.dmin)) break;
        float err = block_settle(&next);
        if (!(err < best)) break;
        best = err;
        *b = next;
    }
    return true;
}

/* ---- the bytes ---- */

static void store_f16(uint8_t *p, float f) {
    uint16_t h = fp_f32_to_f16(f);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* Codes from 0. */
static void codes_of(const KBlock *b, uint8_t *codes) {
    for (int i = 0; i < BLOCK; i++) codes[i] = (uint8_t)(int)(b->codes[i] - b->f->lo);
}

/* Two bits of each of 128 codes into 32 bytes. */
static void join_crumbs(const uint8_t *codes, uint8_t *qs) {
    for (int i = 0; i < 32; i++) {
        qs[i] = 0;
        for (int run = 0; run < 4; run++) qs[i] |= (uint8_t)((codes[32 * run + i] & 3) << 2 * run);
    }
}

/* One bit of each of 256 codes into 32 bytes. */
static void join_bits(const uint8_t *codes, int bit, uint8_t *qh) {
    for (int i = 0; i < 32; i++) {
        qh[i] = 0;
        for (int run = 0; run < 8; run++)
            qh[i] |= (uint8_t)((codes[32 * run + i] >> bit & 1) << run);
    }
}

static void join_nibbles(const uint8_t *codes, uint8_t *qs) {
    for (int pair = 0; pair < 4; pair++)
        for (int i = 0; i < 32; i++)
            qs[32 * pair + i] =
                (uint8_t)((codes[64 * pair + i] & 15) | (codes[64 * pair + 32 + i] & 15) << 4);
}

static void put_scales_6bit(const KBlock *b, uint8_t *y) {
    for (int s = 0; s < 4; s++) {
        int low = (int)b->sub[s], high = (int)b->sub[s + 4];
        int low_min = (int)b->sub_min[s], high_min = (int)b->sub_min[s + 4];
        y[s] = (uint8_t)(low | high >> 4 << 6);
        y[s + 4] = (uint8_t)(low_min | high_min >> 4 << 6);
        y[s + 8] = (uint8_t)((high & 15) | (high_min & 15) << 4);
    }
}

static void put_q2_k(const KBlock *b, const uint8_t *codes, uint8_t *out) {
    for (int g = 0; g < 16; g++) out[g] = (uint8_t)((int)b->sub[g] | (int)b->sub_min[g] << 4);
    join_crumbs(codes, out + 16);
    join_crumbs(codes + 128, out + 48);
    store_f16(out + 80, b->d);
    store_f16(out + 82, b->dmin);
}

static void put_q3_k(const KBlock *b, const uint8_t *codes, uint8_t *out) {
    uint8_t *y = out + 96;
    join_bits(codes, 2, out);
    join_crumbs(codes, out + 32);
    join_crumbs(codes + 128, out + 64);
    memset(y, 0, 12);
    for (int g = 0; g < 16; g++) {
        int s = (int)b->sub[g] + 32;
        y[g % 8] |= (uint8_t)((s & 15) << 4 * (g / 8));
        y[8 + g % 4] |= (uint8_t)(s >> 4 << 2 * (g / 4));
    }
    store_f16(out + 108, b->d);
}

static void put_q4_k(const KBlock *b, const uint8_t *codes, uint8_t *out) {
    store_f16(out, b->d);
    store_f16(out + 2, b->dmin);
    put_scales_6bit(b, out + 4);
    join_nibbles(codes, out + 16);
}

static void put_q5_k(const KBlock *b, const uint8_t *codes, uint8_t *out) {
    store_f16(out, b->d);
    store_f16(out + 2, b->dmin);
    put_scales_6bit(b, out + 4);
    join_bits(codes, 4, out + 16);
    join_nibbles(codes, out + 48);
}

static void put_q6_k(const KBlock *b, const uint8_t *codes, uint8_t *out) {
    for (int half = 0; half < 2; half++) {
        uint8_t *ql = out + 64 * half, *qh = out + 128 + 32 * half;
        const uint8_t *c = codes + 128 * half;
        for (int i = 0; i < 32; i++) {
            ql[i] = (uint8_t)((c[i] & 15) | (c[64 + i] & 15) << 4);
            ql[32 + i] = (uint8_t)((c[32 + i] & 15) | (c[96 + i] & 15) << 4);
            qh[i] = (uint8_t)(c[i] >> 4 | c[32 + i] >> 4 << 2 | c[64 + i] >> 4 << 4 |
                              c[96 + i] >> 4 << 6);
        }
    }
    for (int g = 0; g < 16; g++) out[192 + g] = (uint8_t)(int8_t)b->sub[g];
    store_f16(out + 208, b->d);
}

typedef void PutBlock(const KBlock *b, const uint8_t *codes, uint8_t *out);

static const struct {
    DType type;
    const KFormat *format;
    PutBlock *put;
} KINDS[] = {{DTYPE_Q2_K, &Q2K, put_q2_k},
             {DTYPE_Q3_K, &Q3K, put_q3_k},
             {DTYPE_Q4_K, &Q4K, put_q4_k},
             {DTYPE_Q5_K, &Q5K, put_q5_k},
             {DTYPE_Q6_K, &Q6K, put_q6_k}};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };

bool encode_k_supports(DType t) {
    for (int i = 0; i < N_KINDS; i++)
        if (KINDS[i].type == t) return true;
    return false;
}

bool encode_k_block(DType t, const float *x, uint8_t *out) {
    KBlock b;
    uint8_t codes[BLOCK];
    for (int i = 0; i < N_KINDS; i++) {
        if (KINDS[i].type != t) continue;
        if (!block_encode(&b, KINDS[i].format, x)) return false;
        codes_of(&b, codes);
        KINDS[i].put(&b, codes, out);
        return true;
    }
    return false;
}
