/* A quantized matrix as the plain floats that it stands for, for what only floats can do: rows read as
 * columns. Its bytes are decoded whenever they are fetched. */
#include <string.h>

#include "op/weight_source.h"

static bool decode_fetch(void *ctx, QPartId part, uint64_t from, uint64_t n_bytes, void *out,
                         Err *err) {
    (void)part;
    const WeightSource *s = ctx;
    size_t row = (size_t)s->k * sizeof(float);
    uint32_t first = (uint32_t)(from / row), end = (uint32_t)((from + n_bytes + row - 1) / row);
    WeightScratch sc = {0};
    Buf rows = {.max = SIZE_MAX};
    bool ok = buf_reserve(&rows, (end - first) * row) || err_nomem(err, s->name);
    ok = ok && wsource_f32(s, first, end, (float *)(void *)rows.p, &sc, err);
    if (ok) memcpy(out, rows.p + (from - first * row), n_bytes);
    buf_deinit(&rows);
    wsource_scratch_deinit(&sc);
    return ok;
}

bool wsource_decoded(const WeightSource *s, Arena *a, WeightSource *out, Err *err) {
    WeightSource *own = arena_new(a, WeightSource);
    WForm *form = arena_new(a, WForm);
    const uint64_t shape[2] = {s->n, s->k};
    if (!own || !form) return err_nomem(err, s->name);
    *own = *s;
    QMatrix m = {.n = s->n, .k = s->k, .format = QFORMAT_ROWS};
    m.part[QPART_WEIGHT] = qpart_of(DTYPE_F32, 2, shape, NULL, shape[0] * shape[1] * sizeof(float));
    if (!wform_init(form, &m, a, err)) return err_wrap(err, "%s", s->name);
    *out = (WeightSource){.n = s->n,
                          .k = s->k,
                          .m = m,
                          .form = form,
                          .fetch = decode_fetch,
                          .ctx = own,
                          .name = s->name};
    return true;
}
