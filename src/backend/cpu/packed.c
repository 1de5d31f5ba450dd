/* What a packed matrix looks like, and one row read back out of it. The packer is pack.c. */
#include "backend/cpu/packed.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/book.h"
#include "base/fp.h"
#include "base/mem.h"

static bool rides_in_stream(const WForm *f) {
    return f->kind == WFORM_CODES && !f->has_table && f->sub == WSUB_NONE &&
           f->scale_dtype != DTYPE_F32 && (f->bits == 4 || f->bits == 8) &&
           f->offset != WOFFSET_ZERO && f->group >= 32 && f->group <= 256 &&
           f->group % UNIT_COLS == 0;
}

PackedHead packed_head(const PackedMat *m) {
    PackedHead h = {0};
    size_t es = dtype_size16(m->scale_dtype), per_group = (size_t)m->n_groups * m->tile_rows;
    size_t scales = m->sub == WSUB_NONE ? per_group : (size_t)m->n_super * m->tile_rows;
    size_t at = scales * es;
    h.bias = at;
    if (m->offset == WOFFSET_BIAS) at += scales * es;
    if (m->offset == WOFFSET_ZERO) at += per_group * m->zero_bits / 8;
    h.sub = at;
    if (m->sub != WSUB_NONE) at += per_group;
    h.sub_min = at;
    if (m->sub != WSUB_NONE && m->offset == WOFFSET_BIAS && m->sub_bits != 4) at += per_group;
    h.end = size_align(at, CODE_VEC);
    return h;
}

static void shape_floats(PackedMat *m, DType plain) {
    m->kind = PACKED_FLOATS;
    m->plain = plain;
    m->tile_rows = FLOAT_TILE_ROWS;
    m->tile_bytes = (size_t)m->k * FLOAT_TILE_ROWS * dtype_size16(plain);
}

/* Codes stay blocks; what the kernels see is 8-bit codes with scales at the head. */
static void shape_book(PackedMat *m, const WeightSource *s) {
    m->kind = PACKED_BOOK;
    m->book = s->m.part[QPART_WEIGHT].dtype;
    m->bits = 8;
    m->zero = BOOK_ZERO;
    m->tile_bytes = (size_t)(m->k / BOOK_COLS) * TILE_ROWS * dtype_info(m->book)->block_bytes;
}

static void shape_scales(PackedMat *m, const WForm *f) {
    m->n_units = (m->k + UNIT_COLS - 1) / UNIT_COLS;
    m->group = (uint32_t)(f->group < f->k ? f->group : f->k);
    m->n_groups = (uint32_t)f->n_groups;
    m->units_per_group = m->n_groups == 1 ? m->n_units : m->group / UNIT_COLS;
    m->offset = f->offset;
    m->zero = f->zero;
    m->zero_base = f->zero_base;
    m->zero_bits = f->bits <= 2 ? 2 : f->bits <= 4 ? 4 : 8;
    m->scale_dtype = f->scale_dtype;
    m->sub = f->sub;
    m->sub_bits = f->sub_bits;
    m->super = (uint32_t)(f->super < f->k ? f->super : f->k);
    m->n_super = (uint32_t)f->n_super;
    m->unit = f->unit;
    m->row_acts = f->row_acts;
    m->nested_offset = f->nested_offset;
}

static void shape_codes(PackedMat *m, const WeightSource *s) {
    const WForm *f = s->form;
    bool widen = f->kind == WFORM_FLOAT8 || f->kind == WFORM_LUT;
    m->kind = widen ? PACKED_WIDEN : PACKED_CODES;
    m->tile_rows = widen ? FLOAT_TILE_ROWS : TILE_ROWS;
    m->bits = f->kind == WFORM_FLOAT8 ? 8 : f->bits;
    shape_scales(m, f);
    if (f->kind == WFORM_CODEBOOK) {
        shape_book(m, s);
        return;
    }
    m->in_stream = rides_in_stream(f);
    m->plain = f->plain;
    if (f->has_table) {
        m->has_table = true;
        m->zero = 128;
        for (int i = 0; i < 16; i++) m->table[i] = (uint8_t)(f->table[i] + 128);
    }
    if (f->kind == WFORM_LUT) memcpy(m->values, f->values, sizeof m->values);
    size_t units = (size_t)m->n_units * m->bits * CODE_VEC * (m->tile_rows / TILE_ROWS);
    if (m->in_stream) {
        uint32_t n = stream_groups(m);
        m->tile_bytes = (size_t)((m->n_groups + n - 1) / n) * CODE_VEC + units;
    } else {
        m->head_bytes = packed_head(m).end;
        m->tile_bytes = m->head_bytes + units;
    }
}

void packed_shape(const WeightSource *s, PackedMat *m) {
    const WForm *f = s->form;
    *m = (PackedMat){.n = s->n, .k = s->k};
    if (f->kind == WFORM_PLAIN) {
        shape_floats(m, f->plain == DTYPE_F16 || f->plain == DTYPE_BF16 ? f->plain : DTYPE_F32);
    } else {
        shape_codes(m, s);
    }
    m->n_tiles = (m->n + m->tile_rows - 1) / m->tile_rows;
    m->n_bytes = m->tile_bytes * m->n_tiles;
}

static uint64_t mat_bytes(const WeightSource *s) {
    PackedMat m;
    packed_shape(s, &m);
    uint64_t sum = sizeof m + mem_pages_bytes(m.n_bytes);
    if (m.kind != PACKED_FLOATS && s->form->perm) sum += (uint64_t)m.k * sizeof *m.perm;
    if (m.sub == WSUB_NESTED) sum += PACKED_NESTED * sizeof *m.nested;
    return sum;
}

uint64_t packed_weight_bytes(WeightKind kind, const WeightSource *parts, int n_parts) {
    uint64_t sum = sizeof(BackWeight);
    for (int i = 0; i < n_parts; i++)
        sum += kind == WEIGHT_VECTOR ? (uint64_t)parts[i].n * parts[i].k * sizeof(float)
                                     : mat_bytes(&parts[i]);
    return kind == WEIGHT_VECTOR ? sum + PACKED_VECTOR_SPARE * sizeof(float) : sum;
}

static float float_at(const unsigned char *p, DType t, size_t i) {
    uint32_t w = 0;
    memcpy(&w, p + i * dtype_size16(t), dtype_size16(t));
    if (t == DTYPE_F32) return fp_from_bits(w);
    return t == DTYPE_F16 ? fp_f16_to_f32((uint16_t)w) : fp_bf16_to_f32((uint16_t)w);
}

static unsigned code_at(const unsigned char *unit, unsigned bits, uint32_t lane, uint32_t k) {
    uint32_t q = k / 4, at = lane * 4 + k % 4;
    if (bits == 8) return unit[q * CODE_VEC + at];
    unsigned code = 0, shift = 0;
    if (bits & 4) {
        code = unit[q / 2 * CODE_VEC + at] >> 4 * (q % 2) & 15;
        unit += 4 * CODE_VEC;
        shift = 4;
    }
    if (bits & 2) {
        code |= (unsigned)(unit[q / 4 * CODE_VEC + at] >> 2 * (q % 4) & 3) << shift;
        unit += 2 * CODE_VEC;
        shift += 2;
    }
    if (bits & 1) code |= (unsigned)(unit[at] >> q & 1) << shift;
    return code;
}

typedef struct GroupScale {
    float scale, bias;
    int zero;
} GroupScale;

static GroupScale scale_in_head(const PackedMat *m, const unsigned char *tile, uint32_t lane,
                                uint32_t g) {
    PackedHead h = packed_head(m);
    GroupScale r = {0, 0, m->zero};
    size_t at = (size_t)g * m->tile_rows + lane;
    if (m->sub == WSUB_NONE) {
        r.scale = float_at(tile + h.scale, m->scale_dtype, at);
        if (m->offset == WOFFSET_BIAS) r.bias = float_at(tile + h.bias, m->scale_dtype, at);
        if (m->offset == WOFFSET_ZERO) r.zero = packed_zero_at(m, tile + h.bias, g, lane);
        return r;
    }
    size_t s = m->n_super ? (size_t)((uint64_t)g * m->group / m->super) * m->tile_rows + lane : 0;
    uint8_t sub = tile[h.sub + at], low = m->sub_bits == 4 ? sub & 15 : sub;
    float d = m->n_super ? float_at(tile + h.scale, m->scale_dtype, s) : 1.0f;
    if (m->sub == WSUB_NESTED) {
        r.scale = m->nested[sub] * d + m->nested_offset;
        return r;
    }
    r.scale = d * (float)((double)m->unit * wform_widen(m->sub, low));
    if (m->offset == WOFFSET_BIAS) {
        uint8_t min = m->sub_bits == 4 ? sub >> 4 : tile[h.sub_min + at];
        r.bias = -(float_at(tile + h.bias, m->scale_dtype, s) * (float)min);
    }
    return r;
}

static GroupScale scale_of(const PackedMat *m, const unsigned char *tile, uint32_t lane,
                           uint32_t g) {
    if (!m->in_stream) return scale_in_head(m, tile, lane, g);
    const unsigned char *p = tile + stream_scale_at(m, g);
    GroupScale r = {float_at(p, m->scale_dtype, lane), 0, m->zero};
    if (m->offset == WOFFSET_BIAS) r.bias = float_at(p + 32, m->scale_dtype, lane);
    return r;
}

static float float_value(const PackedMat *m, unsigned code) {
    return m->plain == DTYPE_F8_E4M3   ? fp_e4m3_to_f32((uint8_t)code)
           : m->plain == DTYPE_F8_E5M2 ? fp_e5m2_to_f32((uint8_t)code)
                                       : m->values[code];
}

void packed_decode_cols(const PackedMat *m, uint32_t row, uint32_t k0, uint32_t n, float *out) {
    const unsigned char *tile = packed_tile(m, row / m->tile_rows);
    uint32_t lane = row % m->tile_rows;
    size_t half = (size_t)(lane / TILE_ROWS) * m->bits * CODE_VEC;
    GroupScale s = {0};
    for (uint32_t k = k0; k < k0 + n; k++) {
        if (k == k0 || k % m->group == 0) s = scale_of(m, tile, lane, k / m->group);
        unsigned code = code_at(tile + packed_unit_at(m, k / UNIT_COLS) + half, m->bits,
                                lane % TILE_ROWS, k % UNIT_COLS);
        if (m->kind == PACKED_WIDEN) {
            out[k - k0] = s.scale * float_value(m, code);
        } else {
            int value = m->has_table ? m->table[code] : (int)code;
            out[k - k0] = m->offset == WOFFSET_BIAS ? fmaf(s.scale, (float)value, s.bias)
                                                    : s.scale * (float)(value - s.zero);
        }
    }
}

void packed_decode_row(const PackedMat *m, uint32_t row, float *out) {
    if (m->kind == PACKED_FLOATS) {
        const unsigned char *tile = packed_tile(m, row / FLOAT_TILE_ROWS);
        for (uint32_t k = 0; k < m->k; k++)
            out[k] = float_at(tile, m->plain, (size_t)k * FLOAT_TILE_ROWS + row % FLOAT_TILE_ROWS);
        return;
    }
    if (m->kind == PACKED_BOOK) {
        const size_t block = (size_t)TILE_ROWS * dtype_info(m->book)->block_bytes;
        const unsigned char *p = packed_tile(m, row / TILE_ROWS);
        uint8_t one[256];
        for (uint32_t k = 0; k < m->k; k += BOOK_COLS, p += block) {
            book_get(m->book, p, row % TILE_ROWS, one);
            decode_block(m->book, one, out + k);
        }
        return;
    }
    float part[UNIT_COLS];
    for (uint32_t k = 0; k < m->k; k += UNIT_COLS) {
        uint32_t n = m->k - k < UNIT_COLS ? m->k - k : UNIT_COLS;
        packed_decode_cols(m, row, k, n, m->perm ? part : out + k);
        for (uint32_t i = 0; m->perm && i < n; i++) out[m->perm[k + i]] = part[i];
    }
}

void packed_weight_free(BackWeight *w) {
    if (!w) return;
    for (int i = 0; w->parts && i < w->n_parts; i++) {
        mem_free(w->parts[i].perm);
        mem_free(w->parts[i].nested);
        mem_free_pages(w->parts[i].data, w->parts[i].n_bytes);
    }
    mem_free(w->parts);
    mem_free(w->vector);
    mem_free(w);
}
