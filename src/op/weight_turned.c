/* A matrix of one-byte floats out of a stack stored [inputs, outputs], as the same bytes the other way
 * round: rows are columns of what is stored, blocks of scales likewise. What is fetched is gathered
 * from one item of the stack. */
#include <string.h>

#include "op/weight_source.h"

enum { LINE_BYTES = 64 }; /* rows at a time, so that what is written stays near */

typedef struct Turned {
    WeightSource stored;   /* all items */
    uint32_t row0, column; /* of the stored matrix, where this one begins */
    uint32_t n, k;
    uint64_t scale_cols; /* of the scales as they are given; 0: one scale, or none */
} Turned;

/* Row r of what is fetched is column r of the item, read whole; along its rows, which lie together. */
static bool weight_fetch(const Turned *t, uint64_t from, uint64_t n_bytes, uint8_t *out, Err *err) {
    const WeightSource *s = &t->stored;
    Buf item = {.max = SIZE_MAX};
    size_t bytes = (size_t)t->k * s->k;
    bool ok = buf_reserve(&item, bytes) || err_nomem(err, s->name);
    ok = ok && s->fetch(s->ctx, QPART_WEIGHT, (uint64_t)t->row0 * s->k, bytes, item.p, err);
    uint64_t end = from + n_bytes, r0 = from / t->k, r1 = (end + t->k - 1) / t->k;
    for (uint64_t b = r0; ok && b < r1; b += LINE_BYTES)
        for (uint64_t c = 0; c < t->k; c++) {
            const uint8_t *line = (const uint8_t *)item.p + c * s->k + t->column;
            uint64_t first = b * t->k + c < from ? b + 1 : b,
                     last = b + LINE_BYTES < r1 ? b + LINE_BYTES : r1;
            if ((last - 1) * t->k + c >= end) last--;
            for (uint64_t r = first; r < last; r++) out[r * t->k + c - from] = line[r];
        }
    buf_deinit(&item);
    return ok;
}

static bool scale_fetch(const Turned *t, uint64_t from, uint64_t n_bytes, uint8_t *out, Err *err) {
    const WeightSource *s = &t->stored;
    unsigned size = dtype_info(s->m.part[QPART_SCALE].dtype)->block_bytes;
    const struct WFormStored *f = &s->form->stored;
    for (uint64_t done = 0; done < n_bytes;) {
        uint64_t at = (from + done) / size, within = (from + done) % size, take = size - within;
        uint64_t row = t->scale_cols ? at / t->scale_cols : 0,
                 col = t->scale_cols ? at % t->scale_cols : 0;
        uint64_t i = wform_scale_index(s->form, t->row0 + col * f->row_div,
                                       (t->column + row * f->group) / f->group);
        if (take > n_bytes - done) take = n_bytes - done;
        if (!s->fetch(s->ctx, QPART_SCALE, i * size + within, take, out + done, err)) return false;
        done += take;
    }
    return true;
}

static bool turned_fetch(void *ctx, QPartId part, uint64_t from, uint64_t n_bytes, void *out,
                         Err *err) {
    return (part == QPART_WEIGHT ? weight_fetch : scale_fetch)(ctx, from, n_bytes, out, err);
}

/* Blocks that neither begin nor end within another matrix's. */
static bool blocks_fit(const Turned *t) {
    const struct WFormStored *f = &t->stored.form->stored;
    bool whole = f->group >= t->stored.k;
    return f->row_div > 1 && t->row0 % f->stack_rows % f->row_div == 0 &&
           (whole || t->column % f->group == 0);
}

bool wsource_turned(const WeightSource *s, uint32_t row0, uint32_t column, uint32_t n, uint32_t k,
                    Arena *a, WeightSource *out, bool *done, Err *err) {
    const WForm *f = s->form;
    const QPart *scale = &s->m.part[QPART_SCALE];
    bool one = f->stored.row_stride == 0 && f->stored.group_stride == 0;
    Turned *t = arena_new(a, Turned);
    WForm *form = arena_new(a, WForm);
    if (!t || !form) return err_nomem(err, s->name);
    *t = (Turned){.stored = *s, .row0 = row0, .column = column, .n = n, .k = k};
    *done = s->m.format == QFORMAT_FP8 && (one || blocks_fit(t));
    if (!*done) return true;
    const uint64_t shape[2] = {n, k};
    QMatrix m = {.format = QFORMAT_FP8, .n = n, .k = k};
    m.part[QPART_WEIGHT] = qpart_of(s->m.part[QPART_WEIGHT].dtype, 2, shape, NULL, (uint64_t)n * k);
    if (scale->dtype != DTYPE_NONE) {
        uint64_t bn = f->stored.group < n ? f->stored.group : n,
                 bk = f->stored.row_div < k ? f->stored.row_div : k;
        uint64_t grid[2] = {one ? 1 : (n + bn - 1) / bn, one ? 1 : (k + bk - 1) / bk};
        t->scale_cols = one ? 0 : grid[1];
        m.block_n = one ? 0 : (unsigned)bn;
        m.block_k = one ? 0 : (unsigned)bk;
        m.part[QPART_SCALE] = qpart_of(scale->dtype, 2, grid, NULL,
                                       grid[0] * grid[1] * dtype_info(scale->dtype)->block_bytes);
    }
    if (!wform_init(form, &m, a, err)) return err_wrap(err, "%s", s->name);
    *out = (WeightSource){
        .n = n, .k = k, .m = m, .form = form, .fetch = turned_fetch, .ctx = t, .name = s->name};
    return true;
}
