#include "task/encoder.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/os.h"
#include "cache/pages.h"
#include "engine/budget.h"

enum { DEFAULT_ROWS = 512, MAX_ROWS = 1 << 20, MAX_SEQS = 64 };

struct Encoder {
    Model *m;
    EncoderOptions opt;
    BackPlanes *planes;
    BackExec *exec;
    Step *step;
    uint32_t output, width, max_rows, max_seqs, n_pages;
};

uint32_t encoder_width(const Encoder *e) { return e->width; }
Pooling encoder_pooling(const Encoder *e) { return e->opt.pooling; }
bool encoder_normalizes(const Encoder *e) { return !e->opt.no_normalize; }

static bool output_find(Encoder *e, Err *err) {
    const Program *p = e->m->arch.text;
    const char *want = e->opt.scores ? "scores" : pooling_name(e->opt.pooling);
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        if (!str_eqc(str_c(p->outputs[i].name), want)) continue;
        e->output = i;
        e->width = p->vals[p->outputs[i].val].cols;
        return true;
    }
    return err_set(err, ERR_UNSUPPORTED, "this %s checkpoint gives no %s", e->m->arch.arch->name,
                   e->opt.scores ? "scores: it has no classifier" : "sequence vectors");
}

static bool options_resolve(Encoder *e, Err *err) {
    EncoderOptions *o = &e->opt;
    Pooling pooling;
    bool normalize;
    uint64_t context = e->m->arch.context;
    if (!o->scores) {
        if (!pooling_read(e->m->ck, &pooling, &normalize, err)) return false;
        if (o->pooling == POOLING_AUTO)
            o->pooling = pooling == POOLING_AUTO ? POOLING_MEAN : pooling;
        o->no_normalize |= !normalize;
    }
    if (o->max_length == 0 || o->max_length > context)
        o->max_length = context > MAX_ROWS ? MAX_ROWS : (uint32_t)context;
    uint32_t rows = o->batch_rows ? o->batch_rows : DEFAULT_ROWS;
    e->max_rows = rows < o->max_length ? o->max_length : rows < MAX_ROWS ? rows : MAX_ROWS;
    e->max_seqs = e->max_rows < MAX_SEQS ? e->max_rows : MAX_SEQS;
    /* every sequence begins a page */
    e->n_pages = (uint32_t)pages_for(e->max_rows) + e->max_seqs;
    return output_find(e, err);
}

static bool memory_check(const Encoder *e, const PlanesAsk *ask, const ExecLimits *limits,
                         Err *err) {
    const BackendApi *api = e->m->be->api;
    const Program *p = e->m->arch.text;
    Budget b = {.weight_bytes = e->m->weight_bytes};
    b.n_ctx = e->max_rows;
    for (uint32_t g = 0; g < p->n_groups; g++)
        b.kv_bytes += ask->n_pages[g] * api->page_bytes(e->m->be, p, g, ask->k, ask->v);
    b.scratch_bytes = api->exec_bytes(e->m->be, p, limits);
    b.other_bytes = budget_other_bytes(e->m, b.kv_bytes + b.scratch_bytes);
    b.total_bytes = b.weight_bytes + b.kv_bytes + b.scratch_bytes + b.other_bytes;
    b.available_bytes = os_memory_available_bytes();
    return e->opt.force || budget_check(&b, err);
}

static bool open_parts(Encoder *e, Err *err) {
    const BackendApi *api = e->m->be->api;
    const Program *p = e->m->arch.text;
    if (!options_resolve(e, err)) return false;
    PlanesAsk ask = {.k = PLANE_F32, .v = PLANE_F32};
    const ExecLimits limits = {e->max_rows, 1, e->max_seqs};
    for (uint32_t g = 0; g < p->n_groups; g++) ask.n_pages[g] = e->n_pages;
    if (!memory_check(e, &ask, &limits, err) || !model_load(e->m, err)) return false;
    if (!api->planes_new(e->m->be, p, &ask, &e->planes, err)) return false;
    if (!api->exec_new(e->m->be, p, e->m->weights, e->planes, &limits, &e->exec, err)) return false;
    e->step = mem_alloc(step_bytes(e->max_rows, 1, e->max_seqs, e->n_pages * p->n_groups));
    return e->step || err_nomem(err, "step");
}

bool encoder_open(Model *m, const EncoderOptions *opt, Encoder **out, Err *err) {
    if (!m->arch.both_ways)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s is a text generator; embedding and reranking need an encoder",
                       m->arch.arch->name);
    Encoder *e = mem_calloc(1, sizeof *e);
    if (!e) return err_nomem(err, "encoder");
    e->m = m;
    e->opt = *opt;
    if (!open_parts(e, err)) {
        encoder_close(e);
        return false;
    }
    *out = e;
    return true;
}

void encoder_close(Encoder *e) {
    if (!e) return;
    const BackendApi *api = e->m->be->api;
    if (e->exec) api->exec_free(e->exec);
    api->planes_free(e->m->be, e->planes);
    mem_free(e->step);
    mem_free(e);
}

static bool input_check(const Encoder *e, const EncoderInput *in, size_t i, Err *err) {
    const ArchModel *a = &e->m->arch;
    if (in->n == 0) return err_set(err, ERR_INPUT, "input %zu has no tokens", i);
    if (in->n > e->opt.max_length)
        return err_set(err, ERR_LIMIT, "input %zu has %u tokens, %u are accepted", i, in->n,
                       e->opt.max_length);
    for (uint32_t k = 0; k < in->n; k++) {
        if (in->ids[k] >= a->vocab)
            return err_set(err, ERR_INPUT, "token id %u, the vocabulary has 0 to %u", in->ids[k],
                           a->vocab - 1);
        if (in->types && in->types[k] && in->types[k] >= a->n_types)
            return err_set(err, ERR_INPUT, "token type %u, the model has %u", in->types[k],
                           a->n_types);
    }
    return true;
}

/* How many inputs from `in` on fit into one step; at least one. */
static size_t batch_take(const Encoder *e, const EncoderInput *in, size_t n, uint32_t *rows) {
    size_t k = 0;
    *rows = 0;
    while (k < n && k < e->max_seqs && in[k].n <= e->max_rows - *rows) *rows += in[k++].n;
    return k;
}

static void batch_write(Encoder *e, const EncoderInput *in, size_t n, uint32_t n_rows) {
    uint32_t n_groups = e->m->arch.text->n_groups, row = 0, page = 0, n_pages = 0, at = 0;
    for (size_t s = 0; s < n; s++) n_pages += (uint32_t)pages_for(in[s].n) * n_groups;
    step_layout(e->step, n_rows, 0, (uint32_t)n, n_pages);
    for (size_t s = 0; s < n; s++) {
        uint32_t pages = (uint32_t)pages_for(in[s].n);
        step_seqs(e->step)[s] =
            (StepSeq){.first_row = row, .n_rows = in[s].n, .first_page = at, .n_pages = pages};
        for (uint32_t g = 0; g < n_groups; g++)
            for (uint32_t i = 0; i < pages; i++) step_pages(e->step)[at++] = page + i;
        page += pages;
        for (uint32_t i = 0; i < in[s].n; i++, row++)
            step_rows(e->step)[row] =
                (StepRow){.seq = (uint32_t)s,
                          .slot = i,
                          .pos = {(int32_t)i, in[s].types ? (int32_t)in[s].types[i] : 0},
                          .hi = in[s].n,
                          .source = in[s].ids[i],
                          .adapter = STEP_NO_ADAPTER,
                          .mark = STEP_NO_MARK};
    }
}

/* To length 1; a row of zeros stays. */
static void normalize(float *row, uint32_t n) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)row[i] * row[i];
    double inv = sum > 0 ? 1 / sqrt(sum) : 0;
    for (uint32_t i = 0; i < n; i++) row[i] = (float)(row[i] * inv);
}

bool encoder_run(Encoder *e, const EncoderInput *in, size_t n, float *rows, Err *err) {
    const BackendApi *api = e->m->be->api;
    for (size_t i = 0; i < n; i++)
        if (!input_check(e, &in[i], i, err)) return false;
    for (size_t i = 0, k; i < n; i += k) {
        uint32_t n_rows;
        float *out = rows + i * e->width;
        k = batch_take(e, in + i, n - i, &n_rows);
        batch_write(e, in + i, k, n_rows);
        if (!api->run(e->exec, e->step, NULL, err) ||
            !api->read(e->exec, e->output, 0, (uint32_t)k, out, err) || !api->wait(e->m->be, err))
            return false;
        for (size_t s = 0; s < k && !e->opt.scores && !e->opt.no_normalize; s++)
            normalize(out + s * e->width, e->width);
    }
    return true;
}
