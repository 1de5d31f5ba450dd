#include "backend/cpu/pack_direct.h"

#include <string.h>

#include "backend/cpu/turn.h"

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

static bool columns_form(const PackedMat *m, const WeightSource *s, DirectForm *d) {
    *d = (DirectForm){.columns = true};
    return m->bits == 4 && m->offset == WOFFSET_ZERO && m->sub == WSUB_NONE && !m->scale_of &&
           !m->flat_scale && !m->is_shared && !s->row_map && s->row0 == 0 &&
           s->n % TILE_ROWS == 0 && s->form->n == s->n && m->group &&
           m->n_scales == (m->k + m->group - 1) / m->group &&
           s->m.part[QPART_SCALE].dtype == m->scale_dtype;
}

bool pack_direct_form(const PackedMat *m, const WeightSource *s, DirectForm *d) {
    if (s->transposed || s->taps) return false;
    if (m->kind == PACKED_FLOATS) {
        *d = (DirectForm){.floats = true};
        return s->form->plain == m->plain;
    }
    if (m->kind != PACKED_CODES || m->perm || m->k % UNIT_COLS) return false;
    if (s->m.format == QFORMAT_GPTQ) return columns_form(m, s, d);
    if (!m->in_stream) return false;
    if (s->m.format == QFORMAT_ROWS) return blocks_form(m, s->m.part[QPART_WEIGHT].dtype, d);
    return s->m.format == QFORMAT_MLX_AFFINE && mlx_form(m, s, d);
}

/* 32 columns of up to 16 rows as words: [column / per word][row]; rows that are not there are 0. */
static void words_load(const uint8_t *const *rows, uint32_t n, size_t at, uint32_t n_words,
                       uint32_t w[][TILE_ROWS]) {
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (uint32_t v = 0; v < n_words; v += 4)
            turn_words(rows + i, at + 4 * v, (uint8_t *)&w[v][i], sizeof *w);
    for (; i < TILE_ROWS; i++)
        for (uint32_t v = 0; v < n_words; v++) {
            w[v][i] = 0;
            if (i < n) memcpy(&w[v][i], rows[i] + at + 4 * v, 4);
        }
}

/* Eight nibbles one after another to bytes of two: columns 0..3 low, 4..7 high. */
static uint32_t nibbles_apart(uint32_t word) {
    uint32_t low = word & 0xffff, high = word >> 16;
    low = (low | low << 8) & 0x00ff00ff;
    high = (high | high << 8) & 0x00ff00ff;
    return ((low | low << 4) & 0x0f0f0f0f) | ((high | high << 4) & 0x0f0f0f0f) << 4;
}

/* Of n lanes. */
static void unit_put(DirectCodes codes, const uint8_t *const *rows, uint32_t n, size_t at,
                     uint8_t *unit) {
    uint32_t w[8][TILE_ROWS], turned[4][TILE_ROWS], (*out)[TILE_ROWS] = turned;
    const uint32_t low = 0x0f0f0f0f, n_words = codes <= DIRECT_NIBBLES_RUN ? 4 : 8;
    words_load(rows, n, at, n_words, w);
    switch (codes) {
    case DIRECT_NIBBLES_SPLIT:
        for (int i = 0; i < TILE_ROWS; i++) {
            out[0][i] = (w[0][i] & low) | (w[1][i] & low) << 4;
            out[1][i] = (w[2][i] & low) | (w[3][i] & low) << 4;
            out[2][i] = (w[0][i] >> 4 & low) | (w[1][i] & ~low);
            out[3][i] = (w[2][i] >> 4 & low) | (w[3][i] & ~low);
        }
        break;
    case DIRECT_NIBBLES_RUN:
        for (int v = 0; v < 4; v++)
            for (int i = 0; i < TILE_ROWS; i++) out[v][i] = nibbles_apart(w[v][i]);
        break;
    case DIRECT_BYTES:
        out = w;
        break;
    case DIRECT_BYTES_SIGNED:
        out = w;
        for (int v = 0; v < 8; v++)
            for (int i = 0; i < TILE_ROWS; i++) w[v][i] ^= 0x80808080;
        break;
    }
    if (n == TILE_ROWS)
        memcpy(unit, out, (size_t)n_words * CODE_VEC);
    else
        for (uint32_t v = 0; v < n_words; v++)
            memcpy(unit + (size_t)v * 4 * n, out[v], 4 * (size_t)n);
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
        unit_put(d->codes, codes, n, at, tile + packed_unit_at(m, n, u));
    }
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

/* Words of eight inputs are what nibbles_apart takes, and zero points lie as in a head. */
static void tile_columns(const PackedMat *m, const QMatrix *held, uint32_t n0, uint8_t *tile) {
    const QPart *w = &held->part[QPART_WEIGHT], *scale = &held->part[QPART_SCALE],
                *zero = &held->part[QPART_ZERO];
    const PackedHead h = packed_head(m, TILE_ROWS);
    const size_t line = w->pitch ? w->pitch : (size_t)m->n * 4, scales = (size_t)m->n * 2,
                 zeros = m->n / 2, z = TILE_ROWS / 2;
    const uint8_t *words = w->data + ((size_t)n0 * 4 - w->from);
    for (uint32_t s = 0; s < m->n_scales; s++) {
        memcpy(tile + h.scale + s * TILE_ROWS * 2UL, scale->data + s * scales + n0 * 2UL,
               TILE_ROWS * 2);
        memcpy(tile + h.bias + s * z, zero->data + s * zeros + n0 / 2, z);
    }
    for (uint32_t u = 0; u < m->n_units; u++) {
        uint32_t in[TILE_ROWS], out[4][TILE_ROWS];
        for (int v = 0; v < 4; v++, words += line) {
            memcpy(in, words, sizeof in);
            for (int i = 0; i < TILE_ROWS; i++) out[v][i] = nibbles_apart(in[i]);
        }
        memcpy(tile + packed_unit_at(m, TILE_ROWS, u), out, sizeof out);
    }
}

bool pack_direct(const DirectForm *d, const PackedMat *m, const WeightSource *s, uint32_t n0,
                 uint32_t n1, WeightScratch *sc, Err *err) {
    const QPartId ids[] = {QPART_WEIGHT, d->scale_part, d->bias_part};
    const uint8_t *lines[3][FLOAT_TILE_ROWS];
    QMatrix held;
    if (!wsource_hold(s, n0, n1, &held, sc, err)) return false;
    for (uint32_t n = n0; n < n1; n += m->tile_rows) {
        uint32_t rows = n1 - n < m->tile_rows ? n1 - n : m->tile_rows;
        if (d->columns) {
            tile_columns(m, &held, n, m->data + m->tile_bytes * (n / TILE_ROWS));
            continue;
        }
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
