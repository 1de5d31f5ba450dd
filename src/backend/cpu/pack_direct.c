#include "backend/cpu/pack_direct.h"

#include <string.h>

typedef uint16_t Half8 __attribute__((vector_size(16)));
typedef uint32_t Word4 __attribute__((vector_size(16)));

static bool blocks_form(const PackedMat *m, DType t, DirectForm *d) {
    size_t block = dtype_info(t)->block_bytes, floats = t == DTYPE_Q4_1 ? 4 : 2;
    if (t != DTYPE_Q4_0 && t != DTYPE_Q4_1 && t != DTYPE_Q8_0) return false;
    *d = (DirectForm){.codes = t == DTYPE_Q8_0 ? DIRECT_BYTES_SIGNED : DIRECT_NIBBLES_SPLIT,
                      .code_at = floats,
                      .code_step = block,
                      .scale_part = QPART_WEIGHT,
                      .bias_part = QPART_WEIGHT,
                      .bias_at = 2,
                      .scale_step = block};
    return m->scale_dtype == DTYPE_F16 && m->group == UNIT_COLS;
}

static bool mlx_form(const PackedMat *m, const WeightSource *s, DirectForm *d) {
    const QPart *part = s->m.part;
    *d = (DirectForm){.codes = m->bits == 8 ? DIRECT_BYTES : DIRECT_NIBBLES_RUN,
                      .code_step = (size_t)m->bits * UNIT_COLS / 8,
                      .scale_part = QPART_SCALE,
                      .bias_part = QPART_ZERO,
                      .scale_step = 2};
    return m->offset == WOFFSET_BIAS && part[QPART_SCALE].dtype == m->scale_dtype &&
           part[QPART_ZERO].dtype == m->scale_dtype;
}

bool pack_direct_form(const PackedMat *m, const WeightSource *s, DirectForm *d) {
    if (s->transposed || s->taps) return false;
    if (m->kind == PACKED_FLOATS) {
        *d = (DirectForm){.floats = true};
        return s->form->plain == m->plain;
    }
    if (m->kind != PACKED_CODES || !m->in_stream || m->perm || m->k % UNIT_COLS) return false;
    if (s->m.format == QFORMAT_ROWS) return blocks_form(m, s->m.part[QPART_WEIGHT].dtype, d);
    return s->m.format == QFORMAT_MLX_AFFINE && mlx_form(m, s, d);
}

/* Four codes a word, as the packed form has them: for 4 bits the low nibbles first. */
static void nibbles_split(const uint8_t *from, uint8_t *to, size_t vec) {
    const uint64_t low = 0x0f0f0f0f0f0f0f0f;
    uint64_t a, b;
    memcpy(&a, from, 8); /* columns 0..7 low, 16..23 high */
    memcpy(&b, from + 8, 8);
    uint64_t part[4] = {a & low, b & low, a >> 4 & low, b >> 4 & low};
    for (int v = 0; v < 4; v++) {
        uint32_t word = (uint32_t)(part[v] | part[v] >> 28);
        memcpy(to + (size_t)v * vec, &word, 4);
    }
}

static void nibbles_run(const uint8_t *from, uint8_t *to, size_t vec) {
    for (int v = 0; v < 4; v++) {
        uint32_t word;
        memcpy(&word, from + 4 * v, 4);
        uint64_t x = (word & 0xffff) | (uint64_t)(word >> 16) << 32; /* columns 0..3, then 4..7 */
        x = (x | x << 8) & 0x00ff00ff00ff00ff;
        x = (x | x << 4) & 0x0f0f0f0f0f0f0f0f;
        word = (uint32_t)(x | x >> 28);
        memcpy(to + (size_t)v * vec, &word, 4);
    }
}

static void bytes_put(const uint8_t *from, uint32_t flip, uint8_t *to, size_t vec) {
    for (int q = 0; q < 8; q++) {
        uint32_t word;
        memcpy(&word, from + 4 * q, 4);
        word ^= flip;
        memcpy(to + (size_t)q * vec, &word, 4);
    }
}

/* vec: bytes of a vector, 4 for each lane of the tile. */
static inline void unit_put(DirectCodes codes, const uint8_t *const *rows, uint32_t n, size_t at,
                            uint8_t *unit, size_t vec) {
    switch (codes) {
    case DIRECT_NIBBLES_SPLIT:
        for (uint32_t i = 0; i < n; i++) nibbles_split(rows[i] + at, unit + 4 * i, vec);
        break;
    case DIRECT_NIBBLES_RUN:
        for (uint32_t i = 0; i < n; i++) nibbles_run(rows[i] + at, unit + 4 * i, vec);
        break;
    case DIRECT_BYTES:
        for (uint32_t i = 0; i < n; i++) bytes_put(rows[i] + at, 0, unit + 4 * i, vec);
        break;
    case DIRECT_BYTES_SIGNED:
        for (uint32_t i = 0; i < n; i++) bytes_put(rows[i] + at, 0x80808080, unit + 4 * i, vec);
        break;
    }
}

/* Of the n rows of a tile. */
static void tile_codes(const DirectForm *d, const PackedMat *m, const uint8_t *const *codes,
                       const uint8_t *const *scales, const uint8_t *const *biases, uint32_t n,
                       uint8_t *tile) {
    const bool biased = m->offset == WOFFSET_BIAS;
    for (uint32_t g = 0; g < m->n_groups; g++) {
        uint8_t *to = tile + stream_scale_at(m, n, g);
        size_t at = g * d->scale_step;
        for (uint32_t i = 0; i < n; i++) memcpy(to + 2 * i, scales[i] + d->scale_at + at, 2);
        for (uint32_t i = 0; biased && i < n; i++)
            memcpy(to + 2 * (n + i), biases[i] + d->bias_at + at, 2);
    }
    for (uint32_t u = 0; u < m->n_units; u++) {
        const size_t at = d->code_at + u * d->code_step;
        uint8_t *to = tile + packed_unit_at(m, n, u);
        if (n == TILE_ROWS)
            unit_put(d->codes, codes, TILE_ROWS, at, to, CODE_VEC);
        else
            unit_put(d->codes, codes, n, at, to, 4 * (size_t)n);
    }
}

/* 8 rows x 8 columns turned: three rounds of a perfect shuffle of the rows. */
static void turn_halves(const uint8_t *const *rows, size_t at, uint8_t *to, size_t line) {
    Half8 r[8], t[8];
    for (int i = 0; i < 8; i++) memcpy(&r[i], rows[i] + at, sizeof r[i]);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            t[2 * i] = __builtin_shufflevector(r[i], r[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        memcpy(r, t, sizeof r);
    }
    for (int i = 0; i < 8; i++) memcpy(to + (size_t)i * line, &r[i], sizeof r[i]);
}

static void turn_words(const uint8_t *const *rows, size_t at, uint8_t *to, size_t line) {
    Word4 r[4], t[4];
    for (int i = 0; i < 4; i++) memcpy(&r[i], rows[i] + at, sizeof r[i]);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++) {
            t[2 * i] = __builtin_shufflevector(r[i], r[i + 2], 0, 4, 1, 5);
            t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 2], 2, 6, 3, 7);
        }
        memcpy(r, t, sizeof r);
    }
    for (int i = 0; i < 4; i++) memcpy(to + (size_t)i * line, &r[i], sizeof r[i]);
}

/* Of the n rows of a tile; squares first, then what is left of rows and columns. */
static void tile_floats(const PackedMat *m, const uint8_t *const *rows, uint32_t n, uint8_t *tile) {
    const size_t size = dtype_size16(m->plain), line = n * size;
    const uint32_t side = size == 2 ? 8 : 4, n_square = n / side * side,
                   k_square = m->k / side * side;
    for (uint32_t k = 0; k < k_square; k += side)
        for (uint32_t i = 0; i < n_square; i += side) {
            uint8_t *to = tile + k * line + i * size;
            if (size == 2)
                turn_halves(rows + i, k * size, to, line);
            else
                turn_words(rows + i, k * size, to, line);
        }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = i < n_square ? k_square : 0; k < m->k; k++)
            memcpy(tile + k * line + i * size, rows[i] + k * size, size);
}

bool pack_direct(const DirectForm *d, const PackedMat *m, const WeightSource *s, uint32_t n0,
                 uint32_t n1, WeightScratch *sc, Err *err) {
    const QPartId ids[] = {QPART_WEIGHT, d->scale_part, d->bias_part};
    const uint8_t *lines[3][FLOAT_TILE_ROWS];
    QMatrix held;
    if (!wsource_hold(s, n0, n1, &held, sc, err)) return false;
    for (uint32_t n = n0; n < n1; n += m->tile_rows) {
        uint32_t rows = n1 - n < m->tile_rows ? n1 - n : m->tile_rows;
        for (int i = 0; i < (d->floats ? 1 : 3); i++)
            if (!wsource_lines(s, &held, ids[i], n, n + rows, lines[i], err)) return false;
        uint8_t *tile = m->data + m->tile_bytes * (n / m->tile_rows);
        if (d->floats)
            tile_floats(m, lines[0], rows, tile);
        else
            tile_codes(d, m, lines[0], lines[1], lines[2], rows, tile);
    }
    return true;
}
