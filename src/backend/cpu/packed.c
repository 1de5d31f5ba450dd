/* What a packed matrix looks like, and one row read back out of it. The packer is pack.c. */
#include "backend/cpu/packed.h"

#include <math.h>

#include "backend/cpu/book.h"
#include "backend/cpu/packed_edge.h"
#include "base/mem.h"

/* Tiles of so many bytes begin on cache lines; the padding of smaller ones would be too much. */
enum { ALIGN_FROM = 8192 };

/* Without biases an odd group's scales fill half of their place, which must not weigh. */
static bool rides_in_stream(const WForm *f) {
    bool fills = f->offset == WOFFSET_BIAS || f->n_groups % 2 == 0 || f->k * f->bits >= 1024;
    return fills && f->kind == WFORM_CODES && !f->has_table && f->sub == WSUB_NONE &&
           f->scale_dtype != DTYPE_F32 && (f->bits == 4 || f->bits == 8) &&
           f->offset != WOFFSET_ZERO && f->share.row_div == 1 && f->group % UNIT_COLS == 0 &&
           f->group == f->scale_cols && !f->scale_of && (f->n_groups > 1 || f->group <= 256);
}

PackedHead packed_head(const PackedMat *m, uint32_t lanes) {
    PackedHead h = {0};
    size_t es = dtype_size16(m->scale_dtype), per_scale = (size_t)packed_head_scales(m) * lanes;
    size_t scales = m->sub == WSUB_NONE ? per_scale : (size_t)m->n_super * lanes;
    size_t at = scales * es;
    h.bias = at;
    if (m->offset == WOFFSET_BIAS) at += scales * es;
    if (m->offset == WOFFSET_ZERO) at += packed_head_scales(m) * packed_zero_bytes(m, lanes);
    h.sub = at;
    if (m->sub != WSUB_NONE) at += per_scale;
    h.sub_min = at;
    if (m->sub != WSUB_NONE && m->offset == WOFFSET_BIAS && m->sub_bits != 4) at += per_scale;
    h.end = at;
    return h;
}

size_t packed_unit_at(const PackedMat *m, uint32_t lanes, uint32_t u) {
    const size_t unit_bytes = packed_half_bytes(m, lanes);
    if (m->in_stream) {
        uint32_t n = stream_groups(m) * m->units_per_group;
        return u / n * stream_block_bytes(m, lanes) + 4 * (size_t)lanes + u % n * unit_bytes;
    }
    size_t head = lanes == m->tile_rows ? m->head_bytes
                  : m->is_shared        ? 0
                                        : packed_head(m, lanes).end;
    return head + u * unit_bytes;
}

static size_t tile_size(const PackedMat *m, uint32_t lanes) {
    if (m->kind == PACKED_FLOATS) return (size_t)m->k * lanes * dtype_size16(m->plain);
    if (m->kind == PACKED_BOOK)
        return (size_t)(m->k / BOOK_COLS) * lanes * dtype_info(m->book)->block_bytes;
    size_t codes = m->k / UNIT_COLS * packed_half_bytes(m, lanes) + packed_edge_bytes(m, lanes);
    if (!m->in_stream) return packed_unit_at(m, lanes, 0) + codes;
    uint32_t n = stream_groups(m);
    return (m->n_groups + n - 1) / n * 4 * (size_t)lanes + codes;
}

static void shape_tiles(PackedMat *m) {
    bool codes = m->kind == PACKED_CODES || m->kind == PACKED_WIDEN;
    if (codes && !m->in_stream && !m->is_shared) m->head_bytes = packed_head(m, m->tile_rows).end;
    m->tile_bytes = tile_size(m, m->tile_rows);
    if (m->tile_bytes >= ALIGN_FROM) {
        m->head_bytes = size_align(m->head_bytes, CODE_VEC);
        m->tile_bytes = size_align(tile_size(m, m->tile_rows), CODE_VEC);
    }
    m->n_tiles = (m->n + m->tile_rows - 1) / m->tile_rows;
    m->n_bytes = m->n / m->tile_rows * m->tile_bytes;
    if (m->n % m->tile_rows) m->n_bytes += tile_size(m, m->n % m->tile_rows);
}

static void shape_floats(PackedMat *m, DType plain) {
    m->kind = PACKED_FLOATS;
    m->plain = plain;
    m->tile_rows = FLOAT_TILE_ROWS;
}

/* Codes stay blocks; what the kernels see is 8-bit codes with scales at the head. */
static void shape_book(PackedMat *m, const WeightSource *s) {
    m->kind = PACKED_BOOK;
    m->book = s->m.part[QPART_WEIGHT].dtype;
    m->bits = 8;
    m->zero = BOOK_ZERO;
}

static void shape_scales(PackedMat *m, const WForm *f) {
    m->n_units = (m->k + UNIT_COLS - 1) / UNIT_COLS;
    m->group = (uint32_t)(f->group < f->k ? f->group : f->k);
    m->n_groups = (uint32_t)f->n_groups;
    m->units_per_group = m->n_groups == 1 ? m->n_units : m->group / UNIT_COLS;
    m->n_scales = (uint32_t)f->n_scales;
    m->scale_cols = (uint32_t)(f->scale_cols < f->k ? f->scale_cols : f->k);
    m->offset = f->offset;
    m->zero = f->zero;
    m->zero_base = f->zero_base;
    m->zero_bits = f->bits;
    m->scale_dtype = f->scale_dtype;
    m->sub = f->sub;
    m->sub_bits = f->sub_bits;
    m->super = (uint32_t)(f->super < f->k ? f->super : f->k);
    m->n_super = (uint32_t)f->n_super;
    m->unit = f->unit;
    m->row_acts = f->row_acts;
    m->nested_offset = f->nested_offset;
}

/* What rows share: which rows of scales, and which d along the flat order, these rows use. */
static void shape_shared(PackedMat *m, const WeightSource *s) {
    const WForm *f = s->form;
    uint64_t lo = UINT64_MAX, hi = 0, first = UINT64_MAX, last = 0;
    m->is_shared = f->share.row_div != 1 || f->flat_scale;
    m->flat_scale = f->flat_scale;
    m->share = f->share;
    m->flat_super = f->flat_super;
    m->row0 = s->row0;
    if (m->n == 0 || (!m->is_shared && !m->flat_super)) return;
    for (uint32_t n = 0; n < m->n; n++) {
        uint64_t row = wsource_stored_row(s, n), r = wshare_row(&m->share, row);
        lo = row < lo ? row : lo;
        hi = row > hi ? row : hi;
        first = r < first ? r : first;
        last = r > last ? r : last;
    }
    if (m->flat_scale) {
        first = lo * m->k / m->flat_scale;
        last = (hi * m->k + m->k - 1) / m->flat_scale;
    }
    if (m->is_shared) {
        m->shared_from = (uint32_t)first;
        m->n_shared = (uint32_t)(last - first + 1);
    }
    if (m->flat_super) {
        m->flat_from = lo * m->k / m->flat_super;
        m->n_flat = (uint32_t)((hi * m->k + m->k - 1) / m->flat_super - m->flat_from + 1);
    }
}

static void *side_take(PackedMat *m, bool wanted, size_t bytes) {
    void *p = wanted && m->sides ? (char *)m->sides + m->side_bytes : NULL;
    if (wanted) m->side_bytes += size_align(bytes, sizeof(float));
    return p;
}

void packed_sides(const WeightSource *s, PackedMat *m) {
    const WForm *f = s->form;
    m->side_bytes = 0;
    if (m->kind == PACKED_FLOATS || m->kind == PACKED_BOOK) return;
    m->n_scale_of = f->scale_of ? (uint32_t)(m->group ? m->n_groups : m->k) : 0;
    bool mapped = s->row_map && (m->n_shared > 1 || m->n_flat > 1);
    m->perm = side_take(m, f->perm, m->k * sizeof *m->perm);
    m->scale_of = side_take(m, m->n_scale_of, m->n_scale_of * sizeof *m->scale_of);
    m->rows = side_take(m, mapped, m->n * sizeof *m->rows);
    m->nested = side_take(m, m->sub == WSUB_NESTED, PACKED_NESTED * sizeof *m->nested);
    m->flat = side_take(m, m->flat_super, m->n_flat * sizeof *m->flat);
    m->shared = side_take(m, m->is_shared, packed_head(m, m->n_shared).end + CODE_VEC);
}

static void shape_codes(PackedMat *m, const WeightSource *s) {
    const WForm *f = s->form;
    bool floats = f->kind == WFORM_FLOAT8 || f->kind == WFORM_LUT, widen = floats || f->group == 0;
    m->kind = widen ? PACKED_WIDEN : PACKED_CODES;
    m->integers = !floats;
    m->tile_rows = widen ? FLOAT_TILE_ROWS : TILE_ROWS;
    m->bits = f->kind == WFORM_FLOAT8 ? 8 : f->bits;
    shape_scales(m, f);
    if (f->kind == WFORM_CODEBOOK) {
        shape_book(m, s);
        return;
    }
    m->in_stream = !widen && rides_in_stream(f);
    if (f->kind == WFORM_FLOAT8) m->plain = f->plain;
    if (f->has_table) {
        m->has_table = true;
        m->zero = 128;
        for (int i = 0; i < 16; i++) m->table[i] = (uint8_t)(f->table[i] + 128);
    }
    if (f->kind == WFORM_LUT) memcpy(m->values, f->values, sizeof m->values);
    packed_edge_masks(m->bits, m->k % UNIT_COLS, m->tail_mask);
    shape_shared(m, s);
}

void packed_shape(const WeightSource *s, PackedMat *m) {
    const WForm *f = s->form;
    *m = (PackedMat){.n = s->n, .k = s->k};
    if (f->kind == WFORM_PLAIN) {
        shape_floats(m, f->plain == DTYPE_F16 || f->plain == DTYPE_BF16 ? f->plain : DTYPE_F32);
    } else {
        shape_codes(m, s);
    }
    shape_tiles(m);
    packed_sides(s, m);
}

size_t packed_data_bytes(size_t sum, const PackedMat *m) {
    return size_align(sum, CODE_VEC) + m->n_bytes;
}

uint64_t packed_weight_bytes(WeightKind kind, const WeightSource *parts, int n_parts) {
    uint64_t sum = sizeof(BackWeight);
    size_t data = 0;
    for (int i = 0; i < n_parts; i++) {
        PackedMat m;
        if (kind == WEIGHT_VECTOR) {
            sum += (uint64_t)parts[i].n * parts[i].k * sizeof(float);
            continue;
        }
        packed_shape(&parts[i], &m);
        sum += sizeof m + m.side_bytes;
        data = packed_data_bytes(data, &m);
    }
    return sum + (kind == WEIGHT_VECTOR ? PACKED_VECTOR_SPARE * sizeof(float)
                                        : mem_pages_bytes(data + PACKED_SPARE));
}

static unsigned code_at(const PackedMat *m, const unsigned char *unit, uint32_t h, uint32_t lane,
                        uint32_t c) {
    const size_t vec = 4 * (size_t)h;
    uint32_t q = c / 4, at = lane * 4 + c % 4;
    unsigned bits = m->bits, code = 0, shift = 0;
    if (bits == 8) return unit[q * vec + at];
    if (bits & 4) {
        code = unit[q / 2 * vec + at] >> 4 * (q % 2) & 15;
        unit += 4 * vec;
        shift = 4;
    }
    if (bits & 2) {
        code |= (unsigned)(unit[q / 4 * vec + at] >> 2 * (q % 4) & 3) << shift;
        unit += 2 * vec;
        shift += 2;
    }
    if (bits & 1) code |= (unsigned)(unit[at] >> q & 1) << shift;
    return code;
}

typedef struct GroupScale {
    float scale, bias;
    int zero;
} GroupScale;

/* Of the group that has column k; l: where the row's scales are. */
static GroupScale scale_in_head(const PackedMat *m, PackedLane l, uint32_t row, uint32_t k) {
    PackedHead h = packed_head(m, l.lanes);
    GroupScale r = {0, 0, m->zero};
    uint32_t g = m->group ? k / m->group : k, s = packed_scale_of(m, g);
    size_t at = (size_t)s * l.lanes + l.lane;
    const uint64_t flat = (uint64_t)packed_stored_row(m, row) * m->k + k;
    if (m->flat_scale) at = flat / m->flat_scale - m->shared_from;
    if (m->sub == WSUB_NONE) {
        r.scale = packed_float(l.head + h.scale, m->scale_dtype, at);
        if (m->offset == WOFFSET_BIAS) r.bias = packed_float(l.head + h.bias, m->scale_dtype, at);
        if (m->offset == WOFFSET_ZERO)
            r.zero = packed_zero_at(m, l.head + h.bias, l.lanes, s, l.lane);
        return r;
    }
    size_t super = m->n_super ? (size_t)(k / m->super) * l.lanes + l.lane : 0;
    uint8_t sub = l.head[h.sub + at], low = m->sub_bits == 4 ? sub & 15 : sub;
    float d = m->n_super      ? packed_float(l.head + h.scale, m->scale_dtype, super)
              : m->flat_super ? m->flat[flat / m->flat_super - m->flat_from]
                              : 1.0f;
    if (m->sub == WSUB_NESTED) {
        r.scale = m->nested[sub] * d + m->nested_offset;
        return r;
    }
    r.scale = d * (float)((double)m->unit * wform_widen(m->sub, low));
    if (m->offset == WOFFSET_BIAS) {
        uint8_t min = m->sub_bits == 4 ? sub >> 4 : l.head[h.sub_min + at];
        r.bias = -(packed_float(l.head + h.bias, m->scale_dtype, super) * (float)min);
    }
    return r;
}

static GroupScale scale_of(const PackedMat *m, PackedLane l, uint32_t row, uint32_t k) {
    if (!m->in_stream) return scale_in_head(m, l, row, k);
    const unsigned char *p = l.head + stream_scale_at(m, l.lanes, k / m->group);
    GroupScale r = {packed_float(p, m->scale_dtype, l.lane), 0, m->zero};
    if (m->offset == WOFFSET_BIAS)
        r.bias = packed_float(p + 2 * (size_t)l.lanes, m->scale_dtype, l.lane);
    return r;
}

static float float_value(const PackedMat *m, unsigned code) {
    return m->plain == DTYPE_F8_E4M3   ? fp_e4m3_to_f32((uint8_t)code)
           : m->plain == DTYPE_F8_E5M2 ? fp_e5m2_to_f32((uint8_t)code)
                                       : m->values[code];
}

void packed_decode_cols(const PackedMat *m, uint32_t row, uint32_t k0, uint32_t n, float *out) {
    const uint32_t tile = row / m->tile_rows, lanes = packed_lanes(m, tile),
                   lane = row % m->tile_rows;
    const uint32_t first = lanes < TILE_ROWS ? lanes : TILE_ROWS,
                   h = lane < TILE_ROWS ? first : lanes - first;
    const PackedLane place = packed_lane(m, row);
    GroupScale s = {0};
    for (uint32_t k = k0; k < k0 + n; k++) {
        if (k == k0 || m->group == 0 || k % m->group == 0) s = scale_of(m, place, row, k);
        uint32_t u = k / UNIT_COLS;
        const unsigned char *unit = packed_tile(m, tile) + packed_unit_at(m, lanes, u);
        bool last = (u + 1) * UNIT_COLS > m->k;
        if (lane >= TILE_ROWS)
            unit += last ? packed_edge_bytes(m, TILE_ROWS) : packed_half_bytes(m, TILE_ROWS);
        unsigned code = last ? packed_edge_code(m, unit, h, lane % TILE_ROWS, k % UNIT_COLS)
                             : code_at(m, unit, h, lane % TILE_ROWS, k % UNIT_COLS);
        if (!m->integers) {
            out[k - k0] = s.scale * float_value(m, code);
        } else {
            int value = m->has_table ? m->table[code] : (int)code;
            out[k - k0] = m->offset == WOFFSET_BIAS ? fmaf(s.scale, (float)value, s.bias)
                                                    : s.scale * (float)(value - s.zero);
        }
    }
}

static void decode_book(const PackedMat *m, uint32_t row, float *out) {
    const size_t block = dtype_info(m->book)->block_bytes;
    const uint32_t tile = row / TILE_ROWS, lanes = packed_lanes(m, tile), lane = row % TILE_ROWS;
    const unsigned char *p = packed_tile(m, tile);
    uint8_t b[256];
    for (uint32_t k = 0; k < m->k; k += BOOK_COLS, p += lanes * block) {
        if (lanes < TILE_ROWS)
            memcpy(b, p + lane * block, block);
        else
            book_get(m->book, p, lane, b);
        decode_block(m->book, b, out + k);
    }
}

void packed_decode_row(const PackedMat *m, uint32_t row, float *out) {
    if (m->kind == PACKED_FLOATS) {
        const uint32_t tile = row / FLOAT_TILE_ROWS, lanes = packed_lanes(m, tile);
        for (uint32_t k = 0; k < m->k; k++)
            out[k] = packed_float(packed_tile(m, tile), m->plain,
                                  (size_t)k * lanes + row % FLOAT_TILE_ROWS);
        return;
    }
    if (m->kind == PACKED_BOOK) {
        decode_book(m, row, out);
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
    for (int i = 0; w->parts && i < w->n_parts; i++) mem_free(w->parts[i].sides);
    mem_free_pages(w->data, w->n_bytes);
    mem_free(w->parts);
    mem_free(w->vector);
    mem_free(w);
}
