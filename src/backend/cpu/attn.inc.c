/* ATTN on the CPU (DESIGN.md section 7; Milakov, Gimelshein 2018; Dao et al. 2022). Keys go in
 * blocks of 64, a page each, in ascending order; an online softmax runs over a range of 256 keys at
 * an absolute position (short, so that a few hundred keys keep several threads busy); ranges merge
 * in ascending order. What a query computes depends on its own keys alone: scores of a block   one
 * multiply-add chain per key over the columns, all 64 lanes, the invisible ones dropped values one
 * chain per column over the visible keys of the block so tiles of queries, threads and the split
 * over ranges change no bit. A block a query does not see is not touched for it.
 *
 * A query is one head of one row; those of one KV head go together, so that K and V are read once.
 */
#include <math.h>

#include "backend/cpu/cpu_aux.h"
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/kvpage.h"
#include "backend/cpu/vmath.inc.c"

#if defined(Q_ALL_ROWS)
enum { A_MAX = 6 }; /* queries at once: 6 x 4 sums, 4 loads and a broadcast fill 32 registers */
#define A_QUERIES(M) M(0) M(1) M(2) M(3) M(4) M(5)
#define A_SIZES(M) M(1) M(2) M(3) M(4) M(6)
#else
enum { A_MAX = 1 };
#define A_QUERIES(M) M(0)
#define A_SIZES(M) M(1)
#endif

/* Of n queries. Maxima are of scores in units of log 2, so that weights are powers of two; sums are
 * kept in 16 lanes (key j in lane j % 16) and added up once, at the end. */
typedef struct Softmax {
    float *max; /* -FLT_MAX: nothing seen yet */
    float *sum; /* [n][16] */
    float *out; /* [n][v_pad], not yet divided */
} Softmax;

typedef struct Tile { /* the queries of one KV head and a few rows of one sequence */
    const HostExec *ex;
    const Op *op;
    const StepSeq *seq;
    uint32_t row0, n_rows, kv_head, n_group, n; /* n queries = n_rows * n_group */
    KvShape k, v;
    uint32_t v_pad;
    bool latent;               /* one plane, laid out as values: keys are turned into k_block */
    float *q;                  /* [dim][n] */
    float *p;                  /* [n][64] scores, then weights */
    float *rescale;            /* [n] */
    uint8_t *from, *to;        /* [n] visible keys of the block */
    uint32_t all_from, all_to; /* slots that every row sees */
    float *k_block, *v_block;  /* q4_0: codes widened to f32 */
    const float *k_scale, *v_scale; /* quantized: scales of the block's tokens, or NULL */
    float *scale_block;             /* of both, [2][64] */
} Tile;

/* How kernels read a page; q4_0 is widened to f32 first. Quantized codes are summed as they are:
 * the scale of a key goes on its score, that of a value on its weight. */
typedef enum KvRead { READ_F32, READ_F16, READ_BF16, READ_I8, READ_COUNT } KvRead;
static const size_t READ_BYTES[READ_COUNT] = {4, 2, 2, 1};

/* ---- kernels: NQ queries at once ---- */

typedef struct ScoreArgs {
    const void *k;
    const float *q;
    size_t q_stride;
    uint32_t dim;
    float *s;
    const char *ahead; /* the next page, fetched in small steps; or NULL */
} ScoreArgs;

INLINE vf kv_load(const void *p, const KvRead read, size_t i) {
    switch (read) {
    case READ_F16:
        return vf_load_f16((const uint16_t *)p + i);
    case READ_BF16:
        return vf_load_bf16((const uint16_t *)p + i);
    case READ_I8:
        return vi_to_vf(vi_load_i8((const int8_t *)p + i));
    default:
        return vf_load((const float *)p + i);
    }
}

/* Into the second-level cache: the first level has too few misses in flight to hide memory. */
#define KV_PREFETCH(p) __builtin_prefetch(p, 0, 2)

#define S_DECLARE(q)                                                                               \
    vf s##q##0 = vf_zero(), s##q##1 = s##q##0, s##q##2 = s##q##0, s##q##3 = s##q##0;
#define S_STEP(i)                                                                                  \
    if (i < NQ) {                                                                                  \
        vf x = vf_set1(q[i]);                                                                      \
        s##i##0 = vf_fma(x, k0, s##i##0);                                                          \
        s##i##1 = vf_fma(x, k1, s##i##1);                                                          \
        s##i##2 = vf_fma(x, k2, s##i##2);                                                          \
        s##i##3 = vf_fma(x, k3, s##i##3);                                                          \
    }
#define S_STORE(i)                                                                                 \
    if (i < NQ) {                                                                                  \
        vf_store(a->s + i * 64, s##i##0);                                                          \
        vf_store(a->s + i * 64 + 16, s##i##1);                                                     \
        vf_store(a->s + i * 64 + 32, s##i##2);                                                     \
        vf_store(a->s + i * 64 + 48, s##i##3);                                                     \
    }

INLINE void scores(const ScoreArgs *a, const int NQ, const KvRead read) {
    const size_t line = PAGE_TOKENS * (read == READ_F32 ? 4 : read == READ_I8 ? 1 : 2);
    const float *q = a->q;
    A_QUERIES(S_DECLARE)
    for (uint32_t d = 0; d < a->dim; d++, q += a->q_stride) {
        size_t at = (size_t)d * PAGE_TOKENS;
        vf k0 = kv_load(a->k, read, at), k1 = kv_load(a->k, read, at + 16);
        vf k2 = kv_load(a->k, read, at + 32), k3 = kv_load(a->k, read, at + 48);
        if (a->ahead)
            for (size_t l = 0; l < line; l += 64) KV_PREFETCH(a->ahead + d * line + l);
        A_QUERIES(S_STEP)
    }
    A_QUERIES(S_STORE)
}

typedef struct ValueArgs {
    const void *v;
    size_t v_stride;
    const float *p;
    uint32_t from, to; /* keys */
    const float *rescale;
    float *out;
    size_t out_stride;
    const char *ahead;
} ValueArgs;

#define V_DECLARE(i)                                                                               \
    vf o##i##0 = vf_zero(), o##i##1 = o##i##0, o##i##2 = o##i##0, o##i##3 = o##i##0;               \
    if (i < NQ) {                                                                                  \
        vf r = vf_set1(a->rescale[i]);                                                             \
        o##i##0 = vf_mul(r, vf_load(a->out + i * a->out_stride));                                  \
        if (NV > 1) o##i##1 = vf_mul(r, vf_load(a->out + i * a->out_stride + 16));                 \
        if (NV > 2) o##i##2 = vf_mul(r, vf_load(a->out + i * a->out_stride + 32));                 \
        if (NV > 3) o##i##3 = vf_mul(r, vf_load(a->out + i * a->out_stride + 48));                 \
    }
#define V_STEP(i)                                                                                  \
    if (i < NQ) {                                                                                  \
        vf x = vf_set1(a->p[i * 64 + j]);                                                          \
        o##i##0 = vf_fma(x, v0, o##i##0);                                                          \
        if (NV > 1) o##i##1 = vf_fma(x, v1, o##i##1);                                              \
        if (NV > 2) o##i##2 = vf_fma(x, v2, o##i##2);                                              \
        if (NV > 3) o##i##3 = vf_fma(x, v3, o##i##3);                                              \
    }
#define V_STORE(i)                                                                                 \
    if (i < NQ) {                                                                                  \
        vf_store(a->out + i * a->out_stride, o##i##0);                                             \
        if (NV > 1) vf_store(a->out + i * a->out_stride + 16, o##i##1);                            \
        if (NV > 2) vf_store(a->out + i * a->out_stride + 32, o##i##2);                            \
        if (NV > 3) vf_store(a->out + i * a->out_stride + 48, o##i##3);                            \
    }

INLINE void values(const ValueArgs *a, const int NQ, const int NV, const KvRead read) {
    const size_t es = read == READ_F32 ? 4 : read == READ_I8 ? 1 : 2, line = 16 * es * (size_t)NV;
    A_QUERIES(V_DECLARE)
    for (uint32_t j = a->from; j < a->to; j++) {
        size_t at = j * a->v_stride;
        vf v0 = kv_load(a->v, read, at), v1 = v0, v2 = v0, v3 = v0;
        if (NV > 1) v1 = kv_load(a->v, read, at + 16);
        if (NV > 2) v2 = kv_load(a->v, read, at + 32);
        if (NV > 3) v3 = kv_load(a->v, read, at + 48);
        if (a->ahead)
            for (size_t l = 0; l < line; l += 64) KV_PREFETCH(a->ahead + at * es + l);
        A_QUERIES(V_STEP)
    }
    A_QUERIES(V_STORE)
}

typedef void ScoreFn(const ScoreArgs *a);
typedef void ValueFn(const ValueArgs *a);
#define A_READS(M, n)                                                                              \
    M(f32, READ_F32, n) M(f16, READ_F16, n) M(bf16, READ_BF16, n) M(i8, READ_I8, n)
#define A_KERNELS(name, read, n)                                                                   \
    static void scores_##name##_##n(const ScoreArgs *a) { scores(a, n, read); }                    \
    static void values4_##name##_##n(const ValueArgs *a) { values(a, n, 4, read); }                \
    static void values1_##name##_##n(const ValueArgs *a) { values(a, n, 1, read); }
#define A_DEFINE(n) A_READS(A_KERNELS, n)
A_SIZES(A_DEFINE)

typedef struct AttnKernels {
    uint32_t n;
    struct {
        ScoreFn *score;
        ValueFn *value4, *value1;
    } of[READ_COUNT];
} AttnKernels;
#define A_NAMES(name, read, n)                                                                     \
    [read] = {scores_##name##_##n, values4_##name##_##n, values1_##name##_##n},
#define A_ENTRY(n) {n, {A_READS(A_NAMES, n)}},
static const AttnKernels KERNELS[] = {A_SIZES(A_ENTRY)};

static const AttnKernels *kernels_for(uint32_t n) {
    size_t i = sizeof KERNELS / sizeof *KERNELS - 1;
    while (KERNELS[i].n > n) i--;
    return &KERNELS[i];
}

/* ---- pages as kernels read them ---- */

static KvRead kv_read(PlaneType t) {
    return t == PLANE_F16    ? READ_F16
           : t == PLANE_BF16 ? READ_BF16
           : t == PLANE_Q8_0 ? READ_I8
                             : READ_F32;
}

static void widen_scales(const KvShape *s, const unsigned char *head, float *out) {
    for (uint32_t t = 0; t < PAGE_TOKENS; t += 16)
        vf_store(out + t, vf_load_f16((const uint16_t *)(const void *)(head + s->scale_at) + t));
}

INLINE vf nibble_codes(const unsigned char *p, bool high) {
    vi b = vi_load_u8(p);
    return vi_to_vf(vi_add(vi_and(high ? vi_shr(b, 4) : b, vi_set1(15)), vi_set1(-8)));
}

static void widen_keys(const KvShape *s, const unsigned char *head, float *out) {
    for (uint32_t d = 0; d < s->cols; d++)
        for (uint32_t t = 0; t < PAGE_TOKENS; t += 16, out += 16)
            vf_store(out, nibble_codes(head + (size_t)(d / 2) * PAGE_TOKENS + t, d % 2));
}

static void widen_values(const KvShape *s, const unsigned char *head, uint32_t from, uint32_t to,
                         float *out) {
    out += (size_t)from * s->pad_cols;
    for (uint32_t t = from; t < to; t++)
        for (uint32_t c = 0; c < s->pad_cols; c += 16, out += 16)
            vf_store(out,
                     nibble_codes(head + ((size_t)t * s->pad_cols + c / 32 * 32) / 2, c % 32 != 0));
}

/* Keys [from, to) of a latent page, turned and widened (quantized: their codes). */
static void widen_latent(const KvShape *s, const unsigned char *head, uint32_t dim, uint32_t from,
                         uint32_t to, float *out) {
    float x[16];
    const KvRead read = kv_read(s->type);
    for (uint32_t t = from; t < to; t++)
        for (uint32_t c = 0; c < dim; c += 16) {
            size_t at = (size_t)t * s->pad_cols + c;
            vf_store(x, s->type == PLANE_Q4_0 ? nibble_codes(head + (at - c % 32) / 2, c % 32 != 0)
                                              : kv_load(head, read, at));
            for (uint32_t i = 0; i < 16 && c + i < dim; i++) out[(c + i) * PAGE_TOKENS + t] = x[i];
        }
}

/* ---- one block ---- */

/* Visible keys of a row, as slots. */
static void row_keys(const Tile *t, uint32_t row, uint32_t *lo, uint32_t *hi) {
    host_attn_keys(t->ex, &t->op->p.attn, &step_rows(t->ex->step)[t->row0 + row], lo, hi);
}

/* Which keys of the block each query sees; false: none sees any. Also the union. */
static bool block_visible(const Tile *t, uint32_t block, uint32_t *from, uint32_t *to) {
    uint32_t first = block * ATTN_BLOCK;
    if (t->all_from <= first && t->all_to >= first + ATTN_BLOCK) {
        *from = 0;
        *to = ATTN_BLOCK;
        memset(t->from, 0, t->n);
        memset(t->to, ATTN_BLOCK, t->n);
        return true;
    }
    *from = ATTN_BLOCK;
    *to = 0;
    for (uint32_t r = 0, i = 0; r < t->n_rows; r++) {
        uint32_t lo, hi;
        row_keys(t, r, &lo, &hi);
        uint32_t a = lo <= first ? 0 : lo - first < ATTN_BLOCK ? lo - first : ATTN_BLOCK;
        uint32_t b = hi <= first ? 0 : hi - first < ATTN_BLOCK ? hi - first : ATTN_BLOCK;
        if (a >= b) a = b = 0;
        for (uint32_t h = 0; h < t->n_group; h++, i++) {
            t->from[i] = (uint8_t)a;
            t->to[i] = (uint8_t)b;
        }
        if (a == b) continue;
        if (a < *from) *from = a;
        if (b > *to) *to = b;
    }
    return *from < *to;
}

static const float LOG2_E = 1.44269504f;

INLINE vm seen_lanes(const Tile *t, uint32_t i, int j) {
    int a = t->from[i] - 16 * j, b = t->to[i] - 16 * j;
    a = a < 0 ? 0 : a > 16 ? 16 : a;
    b = b < 0 ? 0 : b > 16 ? 16 : b;
    return vm_and(vm_first(b), vm_not(vm_first(a)));
}

/* Scores to weights for query i; how the sums so far must be scaled goes to rescale[i]. whole: it
 * sees all 64 keys; plain: float keys and values, no cap. Both only leave out what would change
 * nothing. */
INLINE void query_softmax(const Tile *t, Softmax *s, uint32_t i, const bool whole,
                          const bool plain) {
    float *p = t->p + (size_t)i * 64, factor = t->op->p.attn.scale * LOG2_E,
          cap = t->op->p.attn.softcap;
    vf v0 = vf_load(p), v1 = vf_load(p + 16), v2 = vf_load(p + 32), v3 = vf_load(p + 48),
       f = vf_set1(factor);
    if (!plain && t->k_scale) {
        v0 = vf_mul(v0, vf_load(t->k_scale));
        v1 = vf_mul(v1, vf_load(t->k_scale + 16));
        v2 = vf_mul(v2, vf_load(t->k_scale + 32));
        v3 = vf_mul(v3, vf_load(t->k_scale + 48));
    }
    if (!plain && cap != 0) {
        vf in = vf_set1(t->op->p.attn.scale / cap), out = vf_set1(cap);
        v0 = vf_mul(out, vf_tanh(vf_mul(v0, in)));
        v1 = vf_mul(out, vf_tanh(vf_mul(v1, in)));
        v2 = vf_mul(out, vf_tanh(vf_mul(v2, in)));
        v3 = vf_mul(out, vf_tanh(vf_mul(v3, in)));
        f = vf_set1(LOG2_E);
    }
    v0 = vf_mul(v0, f);
    v1 = vf_mul(v1, f);
    v2 = vf_mul(v2, f);
    v3 = vf_mul(v3, f);
    vf least = vf_set1(-FLT_MAX);
    vm m0 = vm_first(16), m1 = m0, m2 = m0, m3 = m0;
    if (!whole) {
        m0 = seen_lanes(t, i, 0);
        m1 = seen_lanes(t, i, 1);
        m2 = seen_lanes(t, i, 2);
        m3 = seen_lanes(t, i, 3);
        v0 = vf_sel(m0, v0, least);
        v1 = vf_sel(m1, v1, least);
        v2 = vf_sel(m2, v2, least);
        v3 = vf_sel(m3, v3, least);
    }
    float max = vf_hmax(vf_max(vf_max(v0, v1), vf_max(v2, v3)));
    vf sum = vf_load(s->sum + (size_t)i * 16), r = vf_set1(1);
    if (max > s->max[i]) {
        r = vf_exp2(vf_set1(s->max[i] - max));
        s->max[i] = max;
    } else {
        max = s->max[i];
    }
    vf m = vf_set1(max);
    v0 = vf_exp2(vf_sub(v0, m));
    v1 = vf_exp2(vf_sub(v1, m));
    v2 = vf_exp2(vf_sub(v2, m));
    v3 = vf_exp2(vf_sub(v3, m));
    if (!whole) {
        v0 = vf_sel(m0, v0, vf_zero());
        v1 = vf_sel(m1, v1, vf_zero());
        v2 = vf_sel(m2, v2, vf_zero());
        v3 = vf_sel(m3, v3, vf_zero());
    }
    t->rescale[i] = vf_first(r);
    vf_store(s->sum + (size_t)i * 16, vf_fma(sum, r, vf_add(vf_add(v0, v1), vf_add(v2, v3))));
    if (!plain && t->v_scale) {
        v0 = vf_mul(v0, vf_load(t->v_scale));
        v1 = vf_mul(v1, vf_load(t->v_scale + 16));
        v2 = vf_mul(v2, vf_load(t->v_scale + 32));
        v3 = vf_mul(v3, vf_load(t->v_scale + 48));
    }
    vf_store(p, v0);
    vf_store(p + 16, v1);
    vf_store(p + 32, v2);
    vf_store(p + 48, v3);
}

static void block_softmax(const Tile *t, Softmax *s, uint32_t i, uint32_t n) {
    bool whole = t->from[i] == 0 && t->to[i] == ATTN_BLOCK;
    if (t->k_scale || t->v_scale || t->op->p.attn.softcap != 0) {
        for (uint32_t j = i; j < i + n; j++) query_softmax(t, s, j, false, false);
    } else if (whole) {
        for (uint32_t j = i; j < i + n; j++) query_softmax(t, s, j, true, true);
    } else {
        for (uint32_t j = i; j < i + n; j++) query_softmax(t, s, j, false, true);
    }
}

static void block_values(const Tile *t, Softmax *s, const void *v, KvRead read, uint32_t i,
                         uint32_t n, const char *ahead) {
    const AttnKernels *k = kernels_for(n);
    ValueArgs a = {.v_stride = t->v.pad_cols,
                   .p = t->p + (size_t)i * 64,
                   .from = t->from[i],
                   .to = t->to[i],
                   .rescale = t->rescale + i,
                   .out_stride = t->v_pad};
    for (uint32_t c = 0; c < t->v_pad;) {
        bool four = t->v_pad - c >= 64;
        a.v = (const char *)v + c * READ_BYTES[read];
        a.out = s->out + (size_t)i * t->v_pad + c;
        a.ahead = ahead ? ahead + c * READ_BYTES[read] : NULL;
        (four ? k->of[read].value4 : k->of[read].value1)(&a);
        c += four ? 64 : 16;
    }
}

static const unsigned char *page_head(const Tile *t, PlaneId plane, const KvShape *s,
                                      uint32_t block) {
    uint32_t group = t->ex->program->planes[plane].group,
             page = step_page(t->ex->step, t->seq, group, block * PAGE_TOKENS);
    return host_page(t->ex->planes, plane, page) + s->head_bytes * t->kv_head;
}

/* n queries at once, from query i on, that see the same keys of the block. */
static uint32_t same_view(const Tile *t, uint32_t i) {
    uint32_t n = 1;
    while (n < A_MAX && i + n < t->n && t->from[i + n] == t->from[i] && t->to[i + n] == t->to[i])
        n++;
    return kernels_for(n)->n;
}

static void attend_block(Tile *t, Softmax *s, uint32_t block) {
    uint32_t from, to;
    if (!block_visible(t, block, &from, &to)) return;
    const unsigned char *k_page = page_head(t, t->op->plane[0], &t->k, block);
    const unsigned char *v_page = page_head(t, t->op->plane[1], &t->v, block);
    const char *k_ahead = NULL, *v_ahead = NULL;
    if (t->n <= 2 * A_MAX && t->all_to > (block + 1) * ATTN_BLOCK &&
        block + 1 < t->seq->n_pages) { /* more queries than that are not waiting for memory */
        k_ahead = (const char *)page_head(t, t->op->plane[0], &t->k, block + 1);
        v_ahead = (const char *)page_head(t, t->op->plane[1], &t->v, block + 1);
    }
    if (t->k_scale) widen_scales(&t->k, k_page, t->scale_block);
    if (t->v_scale) widen_scales(&t->v, v_page, t->scale_block + PAGE_TOKENS);
    ScoreArgs a = {.k = k_page, .q_stride = t->n, .dim = t->op->p.attn.head_dim, .ahead = k_ahead};
    if (t->latent) {
        widen_latent(&t->k, k_page, t->op->p.attn.head_dim, from, to, t->k_block);
        a.k = t->k_block;
        a.ahead = NULL;
    } else if (t->k.type == PLANE_Q4_0) {
        widen_keys(&t->k, k_page, t->k_block);
        a.k = t->k_block;
        a.ahead = NULL;
    }
    for (uint32_t i = 0, n; i < t->n; i += n) {
        const AttnKernels *k = kernels_for(t->n - i);
        n = k->n;
        a.q = t->q + i;
        a.s = t->p + (size_t)i * 64;
        k->of[t->latent ? READ_F32 : kv_read(t->k.type)].score(&a);
        a.ahead = NULL;
    }
    const void *v = v_page;
    if (t->v.type == PLANE_Q4_0) {
        widen_values(&t->v, v_page, from, to, t->v_block);
        v = t->v_block;
        v_ahead = NULL;
    }
    for (uint32_t i = 0, n; i < t->n; i += n) {
        n = 1;
        if (t->from[i] == t->to[i]) continue;
        n = same_view(t, i);
        block_softmax(t, s, i, n);
        block_values(t, s, v, kv_read(t->v.type), i, n, v_ahead);
        v_ahead = NULL;
    }
}

/* ---- ranges and their merging ---- */

static void softmax_clear(Softmax *s, uint32_t n, uint32_t v_pad) {
    for (uint32_t i = 0; i < n; i++) s->max[i] = -FLT_MAX;
    memset(s->sum, 0, (size_t)n * 16 * sizeof(float));
    memset(s->out, 0, (size_t)n * v_pad * sizeof(float));
}

/* total takes in the next range. */
static void softmax_merge(Softmax *total, const Softmax *s, uint32_t n, uint32_t v_pad) {
    for (uint32_t i = 0; i < n; i++) {
        if (s->max[i] == -FLT_MAX) continue;
        float *to = total->out + (size_t)i * v_pad, *sum = total->sum + (size_t)i * 16;
        const float *from = s->out + (size_t)i * v_pad;
        if (total->max[i] == -FLT_MAX) {
            total->max[i] = s->max[i];
            memcpy(sum, s->sum + (size_t)i * 16, 16 * sizeof *sum);
            memcpy(to, from, v_pad * sizeof *to);
            continue;
        }
        float max = s->max[i] > total->max[i] ? s->max[i] : total->max[i];
        vf a = vf_exp2(vf_set1(total->max[i] - max)), b = vf_exp2(vf_set1(s->max[i] - max));
        vf_store(sum, vf_add(vf_mul(vf_load(sum), a), vf_mul(vf_load(s->sum + (size_t)i * 16), b)));
        total->max[i] = max;
        for (uint32_t c = 0; c < v_pad; c += 16)
            vf_store(to + c, vf_add(vf_mul(a, vf_load(to + c)), vf_mul(b, vf_load(from + c))));
    }
}

static void attend_range(Tile *t, Softmax *s, uint32_t range) {
    enum { BLOCKS = ATTN_RANGE / ATTN_BLOCK };
    softmax_clear(s, t->n, t->v_pad);
    for (uint32_t b = range * BLOCKS; b < (range + 1) * BLOCKS && b < t->seq->n_pages; b++)
        attend_block(t, s, b);
}

static void tile_write(const Tile *t, const Softmax *s) {
    const OpAttn p = t->op->p.attn;
    Mat out = host_mat(t->ex, t->op->out);
    const float *sinks = t->op->w[0] == W_NONE ? NULL : t->ex->weights[t->op->w[0]]->vector;
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t head = t->kv_head * t->n_group + i % t->n_group, row = t->row0 + i / t->n_group;
        float *o = out.p + (size_t)row * out.stride + (size_t)head * p.v_dim, factor = 1;
        float sum = vf_hsum(vf_load(s->sum + (size_t)i * 16));
        if (sinks && sum != 0) {
            float sink = sinks[head] * LOG2_E, max = sink > s->max[i] ? sink : s->max[i];
            factor = vf_first(vf_exp2(vf_set1(s->max[i] - max)));
            sum = sum * factor + vf_first(vf_exp2(vf_set1(sink - max)));
        }
        vf f = vf_set1(sum == 0 ? 0 : factor / sum);
        for (uint32_t c = 0; c < p.v_dim; c += 16)
            vf_store_n(o + c, vf_mul(f, vf_load(s->out + (size_t)i * t->v_pad + c)),
                       p.v_dim - c < 16 ? (int)(p.v_dim - c) : 16);
    }
}

/* ---- items: (sequence, rows, KV head) ---- */

typedef struct Attn {
    const HostExec *ex;
    const Op *op;
    AuxThread *aux;
    uint32_t rows_per_tile, n_items, n_ranges;
} Attn;

static uint32_t seq_tiles(const StepSeq *s, uint32_t rows) { return (s->n_rows + rows - 1) / rows; }

static Attn attn_of(const HostExec *ex, const Op *op, AuxThread *aux) {
    Attn a = {.ex = ex, .op = op, .aux = aux};
    const OpAttn p = op->p.attn;
    uint32_t group = p.n_heads / p.n_kv_heads;
    a.rows_per_tile = attn_tile_queries(group) / group;
    for (uint32_t s = 0; s < ex->step->n_seqs; s++)
        a.n_items += seq_tiles(&step_seqs(ex->step)[s], a.rows_per_tile) * p.n_kv_heads;
    for (uint32_t r = 0; r < ex->step->n_rows; r++) {
        uint32_t lo, hi;
        host_attn_keys(ex, &p, &step_rows(ex->step)[r], &lo, &hi);
        uint32_t n = (hi + ATTN_RANGE - 1) / ATTN_RANGE;
        if (n > a.n_ranges) a.n_ranges = n;
    }
    return a;
}

/* Item i with the thread's scratch behind it; its queries are gathered. */
static Tile tile_open(const Attn *a, uint32_t item) {
    const OpAttn p = a->op->p.attn;
    const StepSeq *seq = step_seqs(a->ex->step);
    for (uint32_t n; item >= (n = seq_tiles(seq, a->rows_per_tile) * p.n_kv_heads); seq++)
        item -= n;
    uint32_t tile = item / p.n_kv_heads * a->rows_per_tile, left = seq->n_rows - tile;
    const ProgPlane *kp = &a->ex->program->planes[a->op->plane[0]],
                    *vp = &a->ex->program->planes[a->op->plane[1]];
    Tile t = {.ex = a->ex,
              .op = a->op,
              .seq = seq,
              .row0 = seq->first_row + tile,
              .kv_head = item % p.n_kv_heads};
    t.n_rows = left < a->rows_per_tile ? left : a->rows_per_tile;
    t.n_group = p.n_heads / p.n_kv_heads;
    t.n = t.n_rows * t.n_group;
    t.k = kv_shape(kp, host_plane_type(a->ex->planes, kp));
    t.v = kv_shape(vp, host_plane_type(a->ex->planes, vp));
    t.latent = kp->use == PLANE_LATENT;
    t.v_pad = t.latent ? (p.v_dim + 15) / 16 * 16 : t.v.pad_cols;
    uint32_t cap = a->aux->attn_rows;
    float *f = aux_floats(a->ex, a->aux->attn);
    t.k_block = f, f += (size_t)ATTN_BLOCK * a->aux->attn_dim;
    t.v_block = f, f += (size_t)ATTN_BLOCK * a->aux->attn_v_dim;
    t.p = f, f += (size_t)cap * 64;
    t.q = f, f += (size_t)cap * a->aux->attn_dim;
    t.scale_block = f, f += 2 * PAGE_TOKENS;
    if (t.k.type == PLANE_Q8_0 || t.k.type == PLANE_Q4_0) t.k_scale = t.scale_block;
    if (t.v.type == PLANE_Q8_0 || t.v.type == PLANE_Q4_0) t.v_scale = t.scale_block + PAGE_TOKENS;
    t.rescale = f, f += cap;
    t.from = (uint8_t *)f, f += cap / 4 + 1;
    t.to = (uint8_t *)f;
    t.all_to = UINT32_MAX;
    for (uint32_t r = 0; r < t.n_rows; r++) {
        uint32_t lo, hi;
        row_keys(&t, r, &lo, &hi);
        if (lo > t.all_from) t.all_from = lo;
        if (hi < t.all_to) t.all_to = hi;
    }
    Mat q = host_mat(a->ex, a->op->in[0]);
    for (uint32_t i = 0; i < t.n; i++) {
        const float *x = q.p + (t.row0 + i / t.n_group) * q.stride +
                         (t.kv_head * t.n_group + i % t.n_group) * p.head_dim;
        for (uint32_t d = 0; d < p.head_dim; d++) t.q[(size_t)d * t.n + i] = x[d];
    }
    return t;
}

/* [cap][v] outputs, [cap][16] sums, [cap] maxima. */
static Softmax softmax_at(const Attn *a, float *f) {
    size_t cap = a->aux->attn_rows, v = a->aux->attn_v_dim;
    return (Softmax){.out = f, .sum = f + cap * v, .max = f + cap * (v + 16)};
}

/* Two results of a tile behind the scratch that tile_open() uses. */
static Softmax scratch_softmax(const Attn *a, int which) {
    return softmax_at(a,
                      aux_floats(a->ex, a->aux->attn_sums) + (size_t)which * a->aux->slot_floats);
}

static Softmax slot_softmax(const Attn *a, size_t slot) {
    return softmax_at(a, aux_floats(a->ex, a->aux->slots) + slot * a->aux->slot_floats);
}

/* Whole items, dealt out in turn: later rows see more keys. */
static void attend_items(const Attn *a, int i_thread, int n_threads) {
    Softmax total = scratch_softmax(a, 0), s = scratch_softmax(a, 1);
    for (uint32_t i = (uint32_t)i_thread; i < a->n_items; i += (uint32_t)n_threads) {
        Tile t = tile_open(a, i);
        uint32_t first = UINT32_MAX, end = 0;
        for (uint32_t r = 0; r < t.n_rows; r++) {
            uint32_t lo, hi;
            row_keys(&t, r, &lo, &hi);
            if (lo < first) first = lo;
            if (hi > end) end = hi;
        }
        softmax_clear(&total, t.n, t.v_pad);
        for (uint32_t range = first / ATTN_RANGE; range * ATTN_RANGE < end; range++) {
            attend_range(&t, &s, range);
            softmax_merge(&total, &s, t.n, t.v_pad);
        }
        tile_write(&t, &total);
    }
}

/* Few items, many keys: threads take single ranges and leave them in slots; slots 0..n_items-1 hold
 * the totals. */
static void attend_ranges(const Attn *a, int i_thread, int n_threads) {
    uint32_t width = (uint32_t)(a->aux->n_slots - a->n_items) / a->n_items;
    for (uint32_t r0 = 0; r0 < a->n_ranges; r0 += width) {
        uint32_t n = a->n_ranges - r0 < width ? a->n_ranges - r0 : width, from, to;
        host_share(a->n_items * n, i_thread, n_threads, &from, &to);
        Tile t = {0};
        for (uint32_t u = from, open = UINT32_MAX; u < to; u++) {
            if (u / n != open) t = tile_open(a, open = u / n);
            Softmax s = slot_softmax(a, a->n_items + u);
            attend_range(&t, &s, r0 + u % n);
        }
        host_barrier(a->ex);
        for (uint32_t i = (uint32_t)i_thread; i < a->n_items; i += (uint32_t)n_threads) {
            t = tile_open(a, i);
            Softmax total = slot_softmax(a, i);
            if (r0 == 0) softmax_clear(&total, t.n, t.v_pad);
            for (uint32_t k = 0; k < n; k++) {
                Softmax s = slot_softmax(a, a->n_items + (size_t)i * n + k);
                softmax_merge(&total, &s, t.n, t.v_pad);
            }
            if (r0 + n == a->n_ranges) tile_write(&t, &total);
        }
        if (r0 + n < a->n_ranges) host_barrier(a->ex);
    }
}

void ISA(op_attn)(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    if (op->in[1] != VAL_NONE || op->p.attn.joint) {
        host_attn_picked(ex, op, i_thread, n_threads);
        return;
    }
    Attn a = attn_of(ex, op, aux_thread(ex, i_thread, n_threads));
    if (n_threads > 1 && a.n_ranges > 1 && a.n_items < 4 * (uint32_t)n_threads) {
        attend_ranges(&a, i_thread, n_threads);
    } else {
        attend_items(&a, i_thread, n_threads);
    }
}
