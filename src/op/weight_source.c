#include "op/weight_source.h"

#include <string.h>

#include "base/mem.h"

/* The stored rows that hold logical rows [n0, n1): a map inside rope heads keeps them close
 * together. */
static void stored_range(const WeightSource *s, uint32_t n0, uint32_t n1, uint32_t *lo,
                         uint32_t *hi) {
    *lo = UINT32_MAX;
    *hi = 0;
    for (uint32_t n = n0; n < n1; n++) {
        uint32_t r = wsource_stored_row(s, n);
        if (r < *lo) *lo = r;
        if (r + 1 > *hi) *hi = r + 1;
    }
}

static void scratch_turn_to(WeightScratch *sc, const WeightSource *s) {
    if (sc->source == s && sc->ctx == s->ctx && sc->form == s->form) return;
    sc->source = s;
    sc->ctx = s->ctx;
    sc->form = s->form;
    sc->next_row = UINT32_MAX;
    sc->streak = 0;
    memset(sc->n_bytes, 0, sizeof sc->n_bytes);
    memset(sc->pitch, 0, sizeof sc->pitch);
}

/* Up to which stored row to read when [lo, hi) is asked for. Threads that share a matrix take turns
 * and skip rows, so only a caller that has come back for the next rows again and again gets much
 * more than it asked for. */
static uint64_t rows_ahead(const WeightSource *s, uint32_t lo, uint32_t hi, WeightScratch *sc) {
    enum { MAX_STREAK = 16 };
    bool goes_on = lo <= sc->next_row && hi > sc->next_row;
    sc->streak = !goes_on ? 0 : sc->streak < MAX_STREAK ? sc->streak + 1 : MAX_STREAK;
    sc->next_row = hi;
    uint64_t from, n_bytes, more = hi - lo;
    uint64_t lines, line_bytes;
    if (wform_columns(s->form, &s->m, QPART_WEIGHT, lo, hi, &from, &n_bytes, &lines, &line_bytes))
        n_bytes *= lines;
    else
        wform_span(s->form, &s->m, QPART_WEIGHT, lo, hi, &from, &n_bytes);
    if (n_bytes == 0 || n_bytes >= WSOURCE_AHEAD_BYTES || sc->streak == 0 || sc->no_ahead)
        return hi;
    more <<= sc->streak;
    uint64_t most = (uint64_t)(hi - lo) * (WSOURCE_AHEAD_BYTES / n_bytes);
    if (more > most) more = most;
    return lo + more < s->form->n ? lo + more : s->form->n;
}

/* Makes sc hold the part's bytes for stored rows [lo, hi), reading up to row `ahead` if it has to
 * read at all. */
static bool part_hold(const WeightSource *s, QPartId id, uint32_t lo, uint32_t hi, uint64_t ahead,
                      WeightScratch *sc, Err *err) {
    uint64_t from, n_bytes;
    wform_span(s->form, &s->m, id, lo, hi, &from, &n_bytes);
    if (from >= sc->from[id] && from + n_bytes <= sc->from[id] + sc->n_bytes[id]) return true;
    wform_span(s->form, &s->m, id, lo, ahead, &from, &n_bytes);
    Buf *b = &sc->bytes[id];
    sc->n_bytes[id] = 0;
    buf_clear(b);
    b->max = SIZE_MAX;
    if (!buf_reserve(b, n_bytes)) return err_nomem(err, s->name);
    if (!s->fetch(s->ctx, id, from, n_bytes, b->p, err)) return err_wrap(err, "%s", s->name);
    sc->from[id] = from;
    sc->n_bytes[id] = n_bytes;
    return true;
}

/* The same for a part stored [inputs, outputs]: a piece of each of its stored rows, up to output
 * `ahead`. */
static bool columns_hold(const WeightSource *s, QPartId id, uint32_t lo, uint32_t hi,
                         uint64_t ahead, WeightScratch *sc, Err *err) {
    uint64_t from, n_bytes, lines, line_bytes;
    wform_columns(s->form, &s->m, id, lo, hi, &from, &n_bytes, &lines, &line_bytes);
    if (from >= sc->from[id] && from + n_bytes <= sc->from[id] + sc->pitch[id]) return true;
    wform_columns(s->form, &s->m, id, lo, ahead, &from, &n_bytes, &lines, &line_bytes);
    Buf *b = &sc->bytes[id];
    size_t all;
    sc->pitch[id] = 0;
    buf_clear(b);
    b->max = SIZE_MAX;
    if (!size_mul(n_bytes, lines, &all) || !buf_reserve(b, all)) return err_nomem(err, s->name);
    if (n_bytes == line_bytes) {
        if (!s->fetch(s->ctx, id, 0, all, b->p, err)) return err_wrap(err, "%s", s->name);
    } else {
        for (uint64_t i = 0; i < lines; i++)
            if (!s->fetch(s->ctx, id, i * line_bytes + from, n_bytes, b->p + i * n_bytes, err))
                return err_wrap(err, "%s", s->name);
    }
    sc->from[id] = from;
    sc->pitch[id] = n_bytes;
    sc->n_bytes[id] = all;
    return true;
}

/* Gets the bytes of every part that stored rows [lo, hi) need, and points a copy of the matrix at
 * them. */
static bool load_parts(const WeightSource *s, uint32_t lo, uint32_t hi, QMatrix *m,
                       WeightScratch *sc, Err *err) {
    *m = s->m;
    scratch_turn_to(sc, s);
    uint64_t ahead = rows_ahead(s, lo, hi, sc);
    for (int id = 0; id < QPART_COUNT; id++) {
        QPart *part = &m->part[id];
        if (part->dtype == DTYPE_NONE || part->data) continue;
        uint64_t from, n_bytes, lines, line_bytes;
        bool columns = wform_columns(s->form, &s->m, (QPartId)id, lo, hi, &from, &n_bytes, &lines,
                                     &line_bytes);
        if (columns ? !columns_hold(s, (QPartId)id, lo, hi, ahead, sc, err)
                    : !part_hold(s, (QPartId)id, lo, hi, ahead, sc, err))
            return false;
        part->pitch = columns ? sc->pitch[id] : 0;
        part->data = (const uint8_t *)sc->bytes[id].p;
        part->from = sc->from[id];
        part->n_bytes = sc->n_bytes[id];
    }
    return true;
}

/* Rows [n0, n1) of a transposed source, as stored elements of `size` bytes: each is a column of the
 * stored matrix. */
static bool gather_columns(const WeightSource *s, uint32_t n0, uint32_t n1, void *out, size_t size,
                           WeightScratch *sc, Err *err) {
    QMatrix m;
    if (!load_parts(s, s->row0, s->row0 + s->k, &m, sc, err)) return false;
    const QPart *part = &m.part[QPART_WEIGHT];
    size_t row = (size_t)s->form->k * size;
    if (part->from > (uint64_t)s->row0 * row ||
        part->from + part->n_bytes < ((uint64_t)s->row0 + s->k) * row)
        return err_set(err, ERR_INTERNAL, "%s: inputs are outside the bytes read", s->name);
    const uint8_t *base = part->data + ((uint64_t)s->row0 * row - part->from);
    for (uint32_t n = n0; n < n1; n++) {
        uint64_t column = s->row_map ? s->row_map[n] : n;
        for (uint32_t k = 0; k < s->k; k++)
            memcpy((char *)out + ((size_t)(n - n0) * s->k + k) * size,
                   base + k * row + column * size, size);
    }
    return true;
}

static bool transposed_f32(const WeightSource *s, uint32_t n0, uint32_t n1, float *out,
                           WeightScratch *sc, Err *err) {
    size_t size = dtype_info(s->form->plain)->block_bytes, bytes = (size_t)(n1 - n0) * s->k * size;
    buf_clear(&sc->rows);
    sc->rows.max = SIZE_MAX;
    if (!buf_reserve(&sc->rows, bytes)) return err_nomem(err, s->name);
    return gather_columns(s, n0, n1, sc->rows.p, size, sc, err) &&
           decode_rows(s->form->plain, sc->rows.p, bytes, n1 - n0, s->k, out, err);
}

/* Columns of n rows, as stored or decoded, into the order of taps. */
static bool turn_columns(const WeightSource *s, uint32_t n, void *out, size_t size,
                         WeightScratch *sc, Err *err) {
    size_t row = (size_t)s->k * size, groups = s->k / s->taps;
    buf_clear(&sc->rows);
    sc->rows.max = SIZE_MAX;
    if (!buf_reserve(&sc->rows, row)) return err_nomem(err, s->name);
    for (char *o = out, *end = o + n * row; o < end; o += row) {
        memcpy(sc->rows.p, o, row);
        for (size_t g = 0; g < groups; g++)
            for (size_t t = 0; t < s->taps; t++)
                memcpy(o + (t * groups + g) * size, sc->rows.p + (g * s->taps + t) * size, size);
    }
    return true;
}

static bool stored_plain(const WeightSource *s, uint32_t n0, uint32_t n1, void *out,
                         WeightScratch *sc, Err *err) {
    if (s->transposed)
        return gather_columns(s, n0, n1, out, dtype_info(s->form->plain)->block_bytes, sc, err);
    QMatrix m;
    uint32_t lo, hi;
    stored_range(s, n0, n1, &lo, &hi);
    if (!load_parts(s, lo, hi, &m, sc, err)) return false;
    const QPart *part = &m.part[QPART_WEIGHT];
    const DTypeInfo *t = dtype_info(part->dtype);
    size_t row = (size_t)s->k / t->block_elements * t->block_bytes;
    for (uint32_t n = n0, run = 1; n < n1; n += run) {
        uint64_t r = wsource_stored_row(s, n), at = r * row;
        for (run = 1; n + run < n1 && wsource_stored_row(s, n + run) == r + run;) run++;
        if (at < part->from || at + run * row > part->from + part->n_bytes)
            return err_set(err, ERR_INTERNAL, "%s: row %u is outside the bytes read", s->name, n);
        memcpy((char *)out + (size_t)(n - n0) * row, part->data + (at - part->from), run * row);
    }
    return true;
}

bool wsource_plain(const WeightSource *s, uint32_t n0, uint32_t n1, void *out, WeightScratch *sc,
                   Err *err) {
    return stored_plain(s, n0, n1, out, sc, err) &&
           (!s->taps ||
            turn_columns(s, n1 - n0, out, dtype_info(s->form->plain)->block_bytes, sc, err));
}

bool wsource_hold(const WeightSource *s, uint32_t n0, uint32_t n1, QMatrix *held, WeightScratch *sc,
                  Err *err) {
    uint32_t lo, hi;
    stored_range(s, n0, n1, &lo, &hi);
    return load_parts(s, lo, hi, held, sc, err);
}

bool wsource_lines(const WeightSource *s, const QMatrix *held, QPartId id, uint32_t n0, uint32_t n1,
                   const uint8_t **lines, Err *err) {
    const QPart *part = &held->part[id];
    for (uint32_t n = n0; n < n1; n++) {
        uint64_t from, n_bytes, r = wsource_stored_row(s, n);
        wform_span(s->form, &s->m, id, r, r + 1, &from, &n_bytes);
        if (from < part->from || from + n_bytes > part->from + part->n_bytes)
            return err_set(err, ERR_INTERNAL, "%s: row %u is outside the bytes read", s->name, n);
        lines[n - n0] = part->data + (from - part->from);
    }
    return true;
}

static bool stored_f32(const WeightSource *s, uint32_t n0, uint32_t n1, float *out,
                       WeightScratch *sc, Err *err) {
    if (s->transposed) return transposed_f32(s, n0, n1, out, sc, err);
    QMatrix m;
    uint32_t lo, hi;
    stored_range(s, n0, n1, &lo, &hi);
    if (!load_parts(s, lo, hi, &m, sc, err)) return false;
    if (!s->row_map) {
        if (!decode_with(s->form, &m, lo, hi, out, err)) return err_wrap(err, "%s", s->name);
        return true;
    }
    size_t row = (size_t)s->k * sizeof(float), bytes;
    buf_clear(&sc->rows);
    sc->rows.max = SIZE_MAX;
    if (!size_mul(row, hi - lo, &bytes) || !buf_reserve(&sc->rows, bytes))
        return err_nomem(err, s->name);
    float *all = (float *)(void *)sc->rows.p;
    if (!decode_with(s->form, &m, lo, hi, all, err)) return err_wrap(err, "%s", s->name);
    for (uint32_t n = n0; n < n1; n++)
        memcpy(out + (size_t)(n - n0) * s->k, all + (size_t)(wsource_stored_row(s, n) - lo) * s->k,
               row);
    return true;
}

bool wsource_f32(const WeightSource *s, uint32_t n0, uint32_t n1, float *out, WeightScratch *sc,
                 Err *err) {
    return stored_f32(s, n0, n1, out, sc, err) &&
           (!s->taps || turn_columns(s, n1 - n0, out, sizeof *out, sc, err));
}

/* The parts beside the codes, of stored rows [lo, hi). */
static bool load_sides(const WeightSource *s, uint64_t lo, uint64_t hi, QMatrix *m,
                       WeightScratch *sc, Err *err) {
    *m = s->m;
    scratch_turn_to(sc, s);
    m->part[QPART_WEIGHT].dtype = DTYPE_NONE;
    for (int id = 0; id < QPART_COUNT; id++) {
        QPart *part = &m->part[id];
        if (part->dtype == DTYPE_NONE || part->data) continue;
        if (!part_hold(s, (QPartId)id, (uint32_t)lo, (uint32_t)hi, hi, sc, err)) return false;
        part->data = (const uint8_t *)sc->bytes[id].p;
        part->from = sc->from[id];
        part->n_bytes = sc->n_bytes[id];
    }
    return true;
}

/* One logical row of every wanted array is `row` elements of `size` bytes further on. */
static WRows rows_at(const WRows *r, const WForm *f, size_t i) {
    WRows o = *r;
    if (o.codes) o.codes += i * f->k;
    if (o.scale) o.scale += i * f->n_scales;
    if (o.zero) o.zero += i * f->n_scales;
    if (o.bias) o.bias += i * f->n_scales;
    if (o.d) o.d += i * f->n_super;
    if (o.dmin) o.dmin += i * f->n_super;
    if (o.sub) o.sub += i * f->n_scales;
    if (o.sub_min) o.sub_min += i * f->n_scales;
    return o;
}

bool wsource_rows(const WeightSource *s, uint32_t n0, uint32_t n1, const WRows *out,
                  WeightScratch *sc, Err *err) {
    QMatrix m;
    uint32_t lo, hi;
    stored_range(s, n0, n1, &lo, &hi);
    if (!load_parts(s, lo, hi, &m, sc, err)) return false;
    for (uint32_t n = n0; n < n1;) {
        /* Stored rows that follow one another are taken in one call. */
        uint32_t run = 1, r = wsource_stored_row(s, n);
        while (n + run < n1 && wsource_stored_row(s, n + run) == r + run) run++;
        WRows at = rows_at(out, s->form, n - n0);
        if (!wform_rows(s->form, &m, r, r + run, &at, err)) return err_wrap(err, "%s", s->name);
        n += run;
    }
    return true;
}

bool wsource_scales(const WeightSource *s, uint64_t r0, uint64_t r1, const WRows *out,
                    WeightScratch *sc, Err *err) {
    QMatrix m;
    if (r0 >= r1) return true;
    uint64_t lo = wshare_first(&s->form->share, r0), hi = wshare_first(&s->form->share, r1 - 1) + 1;
    if (!load_sides(s, lo, hi, &m, sc, err)) return false;
    for (uint64_t r = r0; r < r1; r++) {
        WRows at = rows_at(out, s->form, r - r0);
        if (!wform_scales(s->form, &m, wshare_first(&s->form->share, r), &at, err))
            return err_wrap(err, "%s", s->name);
    }
    return true;
}

bool wsource_flat_scales(const WeightSource *s, uint64_t i0, uint64_t i1, const WRows *out,
                         WeightScratch *sc, Err *err) {
    QMatrix m;
    if (i0 >= i1) return true;
    const uint64_t each = s->form->flat_scale, lo = i0 * each / s->k,
                   hi = (i1 * each - 1) / s->k + 1;
    if (!load_sides(s, lo, hi < s->form->n ? hi : s->form->n, &m, sc, err)) return false;
    for (uint64_t i = i0; i < i1; i++) {
        WRows at = {.scale = out->scale ? out->scale + (i - i0) : NULL,
                    .sub = out->sub ? out->sub + (i - i0) : NULL};
        wform_flat_scale(s->form, &m, i, &at);
    }
    return true;
}

bool wsource_flat_d(const WeightSource *s, uint64_t i0, uint64_t i1, float *out, WeightScratch *sc,
                    Err *err) {
    QMatrix m;
    if (i0 >= i1) return true;
    if (!load_sides(s, 0, 1, &m, sc, err)) return false;
    for (uint64_t i = i0; i < i1; i++) out[i - i0] = wform_flat_d(s->form, &m, i);
    return true;
}

uint64_t wsource_whole_bytes(const WeightSource *s) {
    uint64_t from, n_bytes, lines, line_bytes, sum = 0;
    if (!wform_columns(s->form, &s->m, QPART_WEIGHT, 0, s->n, &from, &n_bytes, &lines, &line_bytes))
        return 0;
    for (int id = 0; id < QPART_COUNT; id++)
        if (!s->m.part[id].data) sum += s->m.part[id].n_bytes;
    return sum;
}

size_t wsource_ranges(const WeightSource *s, WeightRange out[QPART_COUNT]) {
    uint32_t lo = s->row0, hi = s->row0 + s->k;
    size_t n = 0;
    if (!s->locate) return 0;
    if (!s->transposed) stored_range(s, 0, s->n, &lo, &hi);
    for (int id = 0; id < QPART_COUNT; id++) {
        WeightRange *r = &out[n];
        uint64_t from;
        if (s->m.part[id].data) continue; /* read already */
        wform_span(s->form, &s->m, (QPartId)id, lo, hi, &from, &r->n_bytes);
        if (!r->n_bytes) continue;
        s->locate(s->ctx, (QPartId)id, &r->i_file, &r->at);
        r->at += from;
        n++;
    }
    return n;
}

void wsource_scratch_deinit(WeightScratch *sc) {
    for (int id = 0; id < QPART_COUNT; id++) buf_deinit(&sc->bytes[id]);
    buf_deinit(&sc->rows);
}
