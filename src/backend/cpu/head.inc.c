/* Scales of a tile, from where packed.h has them to f32, once for every instruction set (after a
 * vec_*.h). */
#include "backend/cpu/packed.h"

INLINE vf load_scale(const unsigned char *p, DType t, size_t i) {
    if (t == DTYPE_F32) return vf_load((const float *)(const void *)p + i);
    const uint16_t *h = (const uint16_t *)(const void *)p + i;
    return t == DTYPE_F16 ? vf_load_f16(h) : vf_load_bf16(h);
}

/* Widened scale bytes (wform.h, WSub). */
INLINE vf widen_sub(const PackedMat *m, vi b) {
    switch (m->sub) {
    case WSUB_E8M0:
    case WSUB_E8M0_GGML: {
        /* 2^(b - 127): the exponent field, but for 0 (a denormal) and 255. */
        vf v = vi_as_vf(vi_shl(b, 23));
        v = vf_sel(vi_eq(b, vi_set1(0)), vi_as_vf(vi_set1(0x00400000)), v);
        vf top = vi_as_vf(vi_set1(m->sub == WSUB_E8M0 ? 0x7fc00000 : 0x7f800000));
        v = vf_sel(vi_eq(b, vi_set1(255)), top, v);
        if (m->sub == WSUB_E8M0) return vf_mul(v, vf_set1(m->unit));
        /* 2^128 times one half is finite: the half goes in first. */
        vf half =
            vf_sel(vi_eq(b, vi_set1(255)), vi_as_vf(vi_set1(0x7f000000)), vf_mul(v, vf_set1(0.5f)));
        return vf_mul(half, vf_set1(2 * m->unit));
    }
    case WSUB_E4M3:
    case WSUB_NESTED: {
        float f[16];
        int32_t i[16];
        vi_store(i, b);
        for (int l = 0; l < 16; l++)
            f[l] = m->sub == WSUB_NESTED ? m->nested[i[l]] : fp_e4m3_to_f32((uint8_t)i[l]);
        return vf_mul(vf_load(f), vf_set1(m->unit));
    }
    default:
        return vf_mul(vi_to_vf(b), vf_set1(m->unit));
    }
}

INLINE vi load_sub(const PackedMat *m, const unsigned char *p) {
    if (m->sub == WSUB_INT && m->sub_bits != 4) return vi_load_i8((const int8_t *)p);
    return vi_load_u8(p);
}

/* Sixteen lanes of a tile, from `lane` on, that are being decoded. */
typedef struct HeadLanes {
    const unsigned char *head;
    PackedHead h;
    uint32_t lanes, lane;   /* of the head; shared: not lane, but */
    bool one, near;         /* shared: one lane for all; within 16 */
    int32_t from_first[16]; /* shared: behind the first */
    uint32_t shared[16];    /* the lanes there */
    uint64_t at[16];        /* flat_super: element in column 0 */
    float d[16];            /* up to column `until` */
    uint64_t until;
} HeadLanes;

static void head_lanes(const PackedMat *m, uint32_t tile, uint32_t lane, HeadLanes *l) {
    l->lane = lane;
    l->until = 0;
    for (uint32_t i = 0; i < 16 && (m->is_shared || m->flat_super); i++) {
        uint32_t row = tile * m->tile_rows + lane + i;
        if (row >= m->n) row = m->n - 1;
        l->at[i] = (uint64_t)packed_stored_row(m, row) * m->k;
        if (m->is_shared) l->shared[i] = packed_lane(m, row).lane;
    }
    l->one = l->near = m->is_shared && !m->flat_super && !m->flat_scale;
    if (!m->is_shared) l->shared[0] = 0;
    for (uint32_t i = 0; i < 16 && l->near; i++) {
        l->from_first[i] = (int32_t)(l->shared[i] - l->shared[0]);
        l->near = l->shared[i] - l->shared[0] < 16;
        l->one = l->one && l->from_first[i] == 0;
    }
    l->head = m->is_shared ? m->shared : packed_tile(m, tile);
    l->lanes = m->is_shared ? m->n_shared : packed_lanes(m, tile);
    l->h = packed_head(m, l->lanes);
}

/* d of column k and the ones that follow. */
static void flat_move(const PackedMat *m, HeadLanes *l, uint64_t k) {
    const uint64_t each = m->flat_super;
    const int shift = (each & (each - 1)) == 0 ? __builtin_ctzll(each) : -1;
    l->until = UINT64_MAX;
    for (int i = 0; i < 16; i++) {
        uint64_t n = shift >= 0 ? (l->at[i] + k) >> shift : (l->at[i] + k) / each,
                 end = (n + 1) * each - l->at[i];
        l->d[i] = m->flat[n - m->flat_from];
        if (end < l->until) l->until = end;
    }
    if (m->n_flat == 1) l->until = UINT64_MAX;
}

/* Sixteen scales and biases, number s, of the group that begins with column k. */
INLINE void head_two_level(const PackedMat *m, const HeadLanes *l, uint32_t s, uint32_t k,
                           float *scale, float *bias) {
    size_t super = m->n_super ? (size_t)(k / m->super) * l->lanes + l->lane : 0,
           at = (size_t)s * l->lanes + l->lane;
    vi sub = load_sub(m, l->head + l->h.sub + at), min = sub;
    if (m->sub_bits == 4) {
        min = vi_shr(sub, 4);
        sub = vi_and(sub, vi_set1(15));
    } else if (m->offset == WOFFSET_BIAS) {
        min = vi_load_u8(l->head + l->h.sub_min + at);
    }
    vf v = widen_sub(m, sub);
    if (m->n_super) v = vf_mul(load_scale(l->head + l->h.scale, m->scale_dtype, super), v);
    if (m->flat_super) v = vf_mul(vf_load(l->d), v);
    if (m->sub == WSUB_NESTED) v = vf_add(v, vf_set1(m->nested_offset));
    vf_store(scale, v);
    if (m->offset == WOFFSET_BIAS)
        vf_store(bias,
                 vf_sub(vf_zero(), vf_mul(load_scale(l->head + l->h.bias, m->scale_dtype, super),
                                          vi_to_vf(min))));
}

/* Sixteen zero points, each eight of them in as many bytes as one has bits. */
INLINE void head_zeros(const PackedMat *m, const unsigned char *z, float *out) {
    const uint64_t mask = (1u << m->zero_bits) - 1;
    uint64_t eight[2];
    int32_t zero[16];
    memcpy(&eight[0], z, 8);
    memcpy(&eight[1], z + m->zero_bits, 8);
    for (unsigned i = 0; i < 16; i++)
        zero[i] = m->zero_base + (int32_t)(eight[i / 8] >> i % 8 * m->zero_bits & mask);
    vf_store(out, vi_to_vf(vi_load(zero)));
}

INLINE void head_one_level(const PackedMat *m, const HeadLanes *l, uint32_t s, float *scale,
                           float *bias) {
    size_t at = (size_t)s * l->lanes + l->lane;
    vf_store(scale, load_scale(l->head + l->h.scale, m->scale_dtype, at));
    if (m->offset == WOFFSET_BIAS)
        vf_store(bias, load_scale(l->head + l->h.bias, m->scale_dtype, at));
    if (m->offset != WOFFSET_ZERO) return;
    head_zeros(m,
               l->head + l->h.bias + s * packed_zero_bytes(m, l->lanes) +
                   (size_t)l->lane * m->zero_bits / 8,
               bias);
}

/* Which one of the shared scales each lane has. */
static void shared_places(const PackedMat *m, const HeadLanes *l, uint32_t s, uint32_t k,
                          size_t place[16]) {
    const uint64_t each = m->flat_scale;
    const int shift = (each & (each - 1)) == 0 ? __builtin_ctzll(each | 1ull << 63) : -1;
    for (int i = 0; i < 16; i++)
        place[i] = each == 0    ? (size_t)s * l->lanes + l->shared[i]
                   : shift >= 0 ? ((l->at[i] + k) >> shift) - m->shared_from
                                : (l->at[i] + k) / each - m->shared_from;
}

/* The rows of scales that sixteen lanes have lie next to each other, nearly always: they are loaded
 * and spread. */
static void head_spread(const PackedMat *m, const HeadLanes *l, uint32_t s, float *scale,
                        float *bias) {
    const size_t at = (size_t)s * l->lanes + l->shared[0];
    vf v = m->sub == WSUB_NONE ? load_scale(l->head + l->h.scale, m->scale_dtype, at)
                               : widen_sub(m, vi_load_u8(l->head + l->h.sub + at));
    if (l->one) {
        v = vf_set1(vf_first(v));
    } else {
        vf_store(scale, v);
        v = vf_lookup(vf_table(scale), vi_load(l->from_first));
    }
    vf_store(scale, v);
    if (m->offset != WOFFSET_ZERO) return;
    for (uint32_t i = 0; i < TILE_ROWS; i++)
        bias[i] = (float)packed_zero_at(m, l->head + l->h.bias, l->lanes, s, l->shared[i]);
}

/* Most lanes have the scale that their neighbour has. */
static void head_shared(const PackedMat *m, const HeadLanes *l, uint32_t s, uint32_t k,
                        float *scale, float *bias) {
    float v = 0, z = 0;
    size_t place[16];
    shared_places(m, l, s, k, place);
    for (uint32_t i = 0; i < TILE_ROWS; i++) {
        const size_t at = place[i];
        if (i == 0 || at != place[i - 1]) {
            uint8_t b = m->sub == WSUB_NONE ? 0 : l->head[l->h.sub + at];
            v = m->sub == WSUB_NONE     ? packed_float(l->head + l->h.scale, m->scale_dtype, at)
                : m->sub == WSUB_NESTED ? m->nested[b]
                                        : (float)((double)m->unit * wform_widen(m->sub, b));
            if (m->offset == WOFFSET_ZERO)
                z = (float)packed_zero_at(m, l->head + l->h.bias, l->lanes, s, l->shared[i]);
        }
        scale[i] = m->flat_super ? v * l->d[i] : v;
        if (m->sub == WSUB_NESTED) scale[i] += m->nested_offset;
        if (m->offset == WOFFSET_ZERO) bias[i] = z;
    }
}

/* A scale for each group, and nothing that rows share: nearly always. */
static void head_plain(const PackedMat *m, const HeadLanes *l, uint32_t n, float *scale,
                       float *bias) {
    const uint32_t step = m->tile_rows, cols = m->group ? m->group : m->scale_cols;
    if (m->sub == WSUB_NONE)
        for (uint32_t g = 0; g < n; g++, scale += step, bias += step)
            head_one_level(m, l, g, scale, bias);
    else
        for (uint32_t g = 0; g < n; g++, scale += step, bias += step)
            head_two_level(m, l, g, g * cols, scale, bias);
}

static void head_half(const PackedMat *m, HeadLanes *l, uint32_t n, float *scale, float *bias) {
    const bool each = m->group == 0 || (m->group == m->scale_cols && !m->scale_of);
    const uint32_t step = m->tile_rows, cols = m->group ? m->group : m->scale_cols;
    if (each && !m->is_shared && !m->flat_super) {
        head_plain(m, l, n, scale, bias);
        return;
    }
    for (uint32_t g = 0, prev = UINT32_MAX; g < n; g++, scale += step, bias += step) {
        const uint32_t s = each ? g : packed_scale_of(m, g), k = g * cols;
        if (s == prev) {
            memcpy(scale, scale - step, TILE_ROWS * sizeof *scale);
            memcpy(bias, bias - step, TILE_ROWS * sizeof *bias);
            continue;
        }
        prev = s;
        if (m->flat_super && k >= l->until) flat_move(m, l, k);
        if (l->near)
            head_spread(m, l, s, scale, bias);
        else if (m->is_shared)
            head_shared(m, l, s, k, scale, bias);
        else if (m->sub == WSUB_NONE)
            head_one_level(m, l, s, scale, bias);
        else
            head_two_level(m, l, s, k, scale, bias);
    }
}

/* Scales and biases (or zero points, as floats) that a tile has: [groups][tile_rows] each, or with
 * group 0 [scales][tile_rows]. bias may be scale when there is neither. Lanes that are not there have
 * 0, and so has a missing second half of the last unit with groups of 16. Returns the floats of one
 * of the two. */
static size_t head_decode(const PackedMat *m, uint32_t tile, float *scale, float *bias) {
    const uint32_t lanes = packed_lanes(m, tile);
    uint32_t n = m->group ? m->n_groups : m->n_scales;
    for (uint32_t lane = 0; lane < lanes; lane += TILE_ROWS) {
        HeadLanes l;
        head_lanes(m, tile, lane, &l);
        head_half(m, &l, n, scale + lane, bias + lane);
    }
    for (uint32_t g = 0; lanes < m->tile_rows && g < n; g++) {
        size_t at = (size_t)g * m->tile_rows + lanes,
               bytes = (m->tile_rows - lanes) * sizeof *scale;
        memset(scale + at, 0, bytes);
        memset(bias + at, 0, bytes);
    }
    if (m->group && m->units_per_group == 0 && n % 2) {
        memset(scale + (size_t)n * m->tile_rows, 0, m->tile_rows * sizeof *scale);
        memset(bias + (size_t)n * m->tile_rows, 0, m->tile_rows * sizeof *bias);
        n++;
    }
    return (size_t)n * m->tile_rows;
}
