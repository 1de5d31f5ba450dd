#include "backend/cpu/pack_scales.h"

#include "base/mem.h"

bool pack_scales_init(WRows *r, const PackedMat *m, size_t n) {
    size_t scales = n * m->n_scales, supers = n * m->n_super;
    supers += supers == 0; /* without a level above, an array is still asked for */
    if (m->sub == WSUB_NONE) {
        bool zero = m->offset == WOFFSET_ZERO, bias = m->offset == WOFFSET_BIAS;
        r->scale = mem_calloc(scales, sizeof *r->scale);
        if (zero) r->zero = mem_calloc(scales, sizeof *r->zero);
        if (bias) r->bias = mem_calloc(scales, sizeof *r->bias);
        return r->scale && (!zero || r->zero) && (!bias || r->bias);
    }
    r->d = mem_calloc(supers, sizeof *r->d);
    r->dmin = mem_calloc(supers, sizeof *r->dmin);
    r->sub = mem_calloc(scales, 1);
    r->sub_min = mem_calloc(scales, 1);
    return r->d && r->dmin && r->sub && r->sub_min;
}

void pack_scales_deinit(WRows *r) {
    mem_free(r->scale);
    mem_free(r->zero);
    mem_free(r->bias);
    mem_free(r->d);
    mem_free(r->dmin);
    mem_free(r->sub);
    mem_free(r->sub_min);
}

static void float_put(unsigned char *p, DType t, size_t i, float v) {
    uint32_t w = t == DTYPE_F32   ? fp_bits(v)
                 : t == DTYPE_F16 ? fp_f32_to_f16(v)
                                  : fp_f32_to_bf16(v);
    memcpy(p + i * dtype_size16(t), &w, dtype_size16(t));
}

/* Zero points below the base or above what the bits hold are refused. */
static bool put_zero(const PackedMat *m, unsigned char *zeros, uint32_t lanes, uint32_t s,
                     uint32_t lane, int z) {
    if (z < m->zero_base || z - m->zero_base >= 1 << m->zero_bits) return false;
    uint32_t bit = lane * m->zero_bits, v = (uint32_t)(z - m->zero_base) << bit % 8;
    zeros += s * packed_zero_bytes(m, lanes) + bit / 8;
    zeros[0] |= (unsigned char)v;
    if (v >> 8) zeros[1] |= (unsigned char)(v >> 8);
    return true;
}

static void sub_scales(const PackedMat *m, const WRows *r, size_t at, unsigned char *head,
                       uint32_t lanes, uint32_t lane) {
    PackedHead h = packed_head(m, lanes);
    for (uint32_t s = 0, n = packed_head_scales(m); s < n; s++) {
        size_t from = at * n + s, to = (size_t)s * lanes + lane;
        unsigned min = m->offset == WOFFSET_BIAS ? r->sub_min[from] : 0;
        if (m->sub_bits == 4) {
            head[h.sub + to] = (unsigned char)((r->sub[from] & 15u) | (min & 15u) << 4);
            continue;
        }
        head[h.sub + to] = r->sub[from];
        if (m->offset == WOFFSET_BIAS) head[h.sub_min + to] = (unsigned char)min;
    }
    for (uint32_t s = 0; s < m->n_super; s++) {
        size_t from = at * m->n_super + s, to = (size_t)s * lanes + lane;
        float_put(head + h.scale, m->scale_dtype, to, r->d[from]);
        if (m->offset == WOFFSET_BIAS) float_put(head + h.bias, m->scale_dtype, to, r->dmin[from]);
    }
}

bool pack_lane_scales(const PackedMat *m, const WRows *r, size_t at, unsigned char *head,
                      uint32_t lanes, uint32_t lane) {
    if (m->sub != WSUB_NONE) {
        sub_scales(m, r, at, head, lanes, lane);
        return true;
    }
    PackedHead h = packed_head(m, lanes);
    DType t = m->scale_dtype;
    for (uint32_t s = 0, n = packed_head_scales(m); s < n; s++) {
        size_t from = at * n + s, to = (size_t)s * lanes + lane;
        if (m->in_stream) {
            unsigned char *p = head + stream_scale_at(m, lanes, s);
            float_put(p, t, lane, r->scale[from]);
            if (m->offset == WOFFSET_BIAS) float_put(p + 2 * (size_t)lanes, t, lane, r->bias[from]);
            continue;
        }
        float_put(head + h.scale, t, to, r->scale[from]);
        if (m->offset == WOFFSET_BIAS) float_put(head + h.bias, t, to, r->bias[from]);
        if (m->offset == WOFFSET_ZERO && !put_zero(m, head + h.bias, lanes, s, lane, r->zero[from]))
            return false;
    }
    return true;
}

bool pack_zero_refused(const PackedMat *m, const char *name, uint32_t row, Err *err) {
    return err_set(err, ERR_UNSUPPORTED,
                   "%s: a zero point of row %u is outside the range of %u-bit codes", name, row,
                   m->bits);
}

enum { SHARED_STEP = 64 };

static bool shared_fill(const WeightSource *s, PackedMat *m, WeightScratch *sc, Err *err) {
    WRows r = {0};
    bool ok = pack_scales_init(&r, m, SHARED_STEP) || err_nomem(err, s->name);
    for (uint32_t i = 0; ok && i < m->n_shared; i += SHARED_STEP) {
        uint32_t n = m->n_shared - i < SHARED_STEP ? m->n_shared - i : SHARED_STEP;
        uint64_t first = m->shared_from + (uint64_t)i;
        ok = m->flat_scale ? wsource_flat_scales(s, first, first + n, &r, sc, err)
                           : wsource_scales(s, first, first + n, &r, sc, err);
        for (uint32_t j = 0; ok && j < n; j++)
            ok = pack_lane_scales(m, &r, j, m->shared, m->n_shared, i + j) ||
                 pack_zero_refused(m, s->name, (uint32_t)wshare_first(&m->share, first + j), err);
    }
    pack_scales_deinit(&r);
    return ok;
}

bool pack_sides(const WeightSource *s, PackedMat *m, Err *err) {
    const WForm *f = s->form;
    WeightScratch sc = {0};
    bool ok = true;
    if (m->side_bytes == 0) return true;
    if (!(m->sides = mem_calloc(m->side_bytes, 1))) return err_nomem(err, s->name);
    packed_sides(s, m);
    if (m->perm) memcpy(m->perm, f->perm, m->k * sizeof *m->perm);
    if (m->scale_of) memcpy(m->scale_of, f->scale_of, m->n_scale_of * sizeof *m->scale_of);
    if (m->nested) memcpy(m->nested, f->nested, PACKED_NESTED * sizeof *m->nested);
    for (uint32_t n = 0; m->rows && n < m->n; n++) m->rows[n] = wsource_stored_row(s, n);
    if (m->flat) ok = wsource_flat_d(s, m->flat_from, m->flat_from + m->n_flat, m->flat, &sc, err);
    if (ok && m->shared) ok = shared_fill(s, m, &sc, err);
    wsource_scratch_deinit(&sc);
    return ok;
}
