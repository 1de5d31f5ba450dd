#include "engine/job_media.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

struct Media {
    const Model *model;
    Arena arena;
    MediaPlan plan;
    uint32_t n_tokens;
    uint32_t *row_of; /* per token of the prompt; MEDIA_NO_ROW */
    PrefillSpan *spans;
    size_t n_spans;
    int64_t *position_ids; /* [3, n_tokens] */
    /* per output of the tower: n_embeds rows, one output behind the other */
    float *outputs;
    const float **input; /* per input of the text program: the output it takes */
    bool encoded;
};

/* ---- making one ---- */

static const Program *tower_of(const Media *m) { return m->model->arch.tower; }

static bool all_finite(const MediaTensor *t, size_t n, Err *err) {
    const float *x = t->data;
    for (size_t i = 0; t->type == MEDIA_F32 && i < n; i++)
        if (!isfinite(x[i]))
            return err_set(err, ERR_INPUT, "element %zu of input %s is %g: not a finite number", i,
                           t->name, (double)x[i]);
    return true;
}

static bool tensors_copy(Media *m, const MediaTensor *in, size_t n, MediaTensor *out, Err *err) {
    for (size_t i = 0; i < n; i++) {
        out[i] = in[i];
        size_t size = in[i].type == MEDIA_F32 ? sizeof(float) : sizeof(int64_t), count = 1;
        if (in[i].n_dims > MEDIA_MAX_DIMS)
            return err_set(err, ERR_INPUT, "input %s has %u dimensions, at most %d are accepted",
                           in[i].name, in[i].n_dims, MEDIA_MAX_DIMS);
        for (uint32_t k = 0; k < in[i].n_dims; k++) {
            uint64_t dim = in[i].dims[k];
            if (dim && count > SIZE_MAX / 2 / size / dim)
                return err_set(err, ERR_LIMIT, "input %s is too large", in[i].name);
            count *= dim;
        }
        for (size_t k = 0; k < i; k++)
            if (!strcmp(in[k].name, in[i].name))
                return err_set(err, ERR_INPUT, "input %s is given twice", in[i].name);
        out[i].name = arena_dupz(&m->arena, str_c(in[i].name));
        void *data = arena_alloc_n(&m->arena, count + 1, size);
        if (!out[i].name || !data) return err_nomem(err, "media");
        memcpy(data, in[i].data, count * size);
        out[i].data = data;
        if (!all_finite(&out[i], count, err)) return false;
    }
    return true;
}

/* Placeholders get the rows in their order; runs of them are spans where they see each other. */
static bool tokens_place(Media *m, const uint32_t *tokens, Err *err) {
    const ArchModel *a = &m->model->arch;
    uint32_t row = 0;
    m->row_of = arena_array(&m->arena, uint32_t, m->n_tokens);
    m->spans = arena_array(&m->arena, PrefillSpan, m->plan.n_embeds + 1);
    if (!m->row_of || !m->spans) return err_nomem(err, "media");
    for (uint32_t i = 0; i < m->n_tokens; i++) {
        bool is_row = a->text->n_inputs && media_is_placeholder(a, tokens[i]);
        m->row_of[i] = is_row ? row++ : MEDIA_NO_ROW;
        if (!is_row || !m->plan.both_ways) continue;
        if (!i || m->row_of[i - 1] == MEDIA_NO_ROW) m->spans[m->n_spans++].from = i;
        m->spans[m->n_spans - 1].to = i + 1;
    }
    for (size_t i = 0; i < m->n_spans; i++)
        if (m->spans[i].to - m->spans[i].from > a->max_span)
            return err_set(err, ERR_LIMIT,
                           "%u placeholders follow one another at token %u; at most %u may",
                           m->spans[i].to - m->spans[i].from, m->spans[i].from, a->max_span);
    return true;
}

static bool positions_list(Media *m, Err *err) {
    m->position_ids = arena_array(&m->arena, int64_t, 3 * (size_t)m->n_tokens);
    if (!m->position_ids) return err_nomem(err, "positions");
    for (uint32_t i = 0; i < m->n_tokens; i++) {
        int32_t p[4];
        media_pos(m, i, p);
        for (size_t k = 0; k < 3; k++) m->position_ids[k * m->n_tokens + i] = p[k];
    }
    return true;
}

/* Which output of the tower is which input of the text program. */
static bool inputs_match(Media *m, float *const *out, Err *err) {
    const Program *text = m->model->arch.text, *tower = tower_of(m);
    m->input = arena_array(&m->arena, const float *, text->n_inputs + 1);
    if (!m->input) return err_nomem(err, "media");
    for (uint32_t i = 0; i < text->n_inputs; i++) {
        for (uint32_t k = 0; k < tower->n_outputs; k++)
            if (!strcmp(text->inputs[i].name, tower->outputs[k].name) &&
                text->inputs[i].cols == tower->vals[tower->outputs[k].val].cols)
                m->input[i] = out[k];
        if (!m->input[i])
            return err_set(err, ERR_CORRUPT,
                           "the tower gives no \"%s\" of %u columns, which the text model takes",
                           text->inputs[i].name, text->inputs[i].cols);
    }
    return true;
}

/* What processors also give and the tokens say already. */
static bool follows_from_tokens(const char *name) {
    return !strcmp(name, "token_type_ids") || !strcmp(name, "mm_token_type_ids") ||
           !strcmp(name, "attention_mask");
}

static bool all_used(const MediaAsk *ask, Err *err) {
    for (size_t i = 0; i < ask->n_inputs; i++)
        if (!ask->used[i] && !follows_from_tokens(ask->inputs[i].name))
            return err_set(err, ERR_INPUT, "this model has no input \"%s\"", ask->inputs[i].name);
    return true;
}

static bool setup(Media *m, const MediaTensor *inputs, size_t n, const uint32_t *tokens, Err *err) {
    const ArchModel *a = &m->model->arch;
    MediaTensor *copy = arena_array(&m->arena, MediaTensor, n + 1);
    if (!copy) return err_nomem(err, "media");
    if (!tensors_copy(m, inputs, n, copy, err)) return false;
    const MediaAsk ask = {copy, n, tokens, m->n_tokens, arena_array(&m->arena, bool, n + 1)};
    if (!ask.used) return err_nomem(err, "media");
    return a->media->plan(a, &ask, &m->arena, &m->plan, err) && all_used(&ask, err) &&
           (!a->text->n_inputs || media_count_placeholders(a, &ask, m->plan.n_embeds, err)) &&
           tokens_place(m, tokens, err) && positions_list(m, err);
}

bool media_new(const Model *model, const MediaTensor *inputs, size_t n_inputs,
               const uint32_t *tokens, size_t n_tokens, Media **out, Err *err) {
    if (!model->arch.tower)
        return err_set(err, ERR_UNSUPPORTED, "this %s checkpoint takes text only",
                       model->arch.arch->name);
    if (n_tokens > INT32_MAX) return err_set(err, ERR_LIMIT, "the prompt is too long");
    Media *m = mem_calloc(1, sizeof *m);
    if (!m) return err_nomem(err, "media");
    m->model = model;
    m->n_tokens = (uint32_t)n_tokens;
    if (!setup(m, inputs, n_inputs, tokens, err)) {
        media_free(m);
        return false;
    }
    *out = m;
    return true;
}

void media_free(Media *m) {
    if (!m) return;
    arena_deinit(&m->arena);
    mem_free(m->outputs);
    mem_free(m);
}

/* ---- the tower ---- */

/* Rows of an output into the placeholders' order. */
static void reorder(const MediaPlan *plan, const float *rows, uint64_t n_rows, size_t cols,
                    float *out) {
    for (size_t i = 0; i < plan->n_embeds; i++) {
        uint64_t r = plan->order[i];
        const float *from = r < n_rows ? rows + r * cols : plan->constants + (r - n_rows) * cols;
        memcpy(out + i * cols, from, cols * sizeof *out);
    }
}

/* The tower gives other rows than the placeholders get, or gives them in another order. */
static bool run_apart(Media *m, Tower *t, float *const *out, const atomic_bool *cancel, Err *err) {
    const Program *p = tower_of(m);
    float **given = arena_array(&m->arena, float *, p->n_outputs + 1);
    bool ok = given || err_nomem(err, "media");
    for (uint32_t i = 0; ok && i < p->n_outputs; i++) {
        uint64_t n = (tower_out_rows(p, i, &m->plan) + 1) * p->vals[p->outputs[i].val].cols;
        given[i] = mem_resize_array(NULL, n, sizeof **given);
        ok = given[i] || err_nomem(err, "media");
    }
    ok = ok && tower_run(t, &m->plan, given, cancel, err);
    for (uint32_t i = 0; ok && i < p->n_outputs; i++)
        reorder(&m->plan, given[i], tower_out_rows(p, i, &m->plan), p->vals[p->outputs[i].val].cols,
                out[i]);
    for (uint32_t i = 0; given && i < p->n_outputs; i++) mem_free(given[i]);
    return ok;
}

static bool run(Media *m, Tower *t, float **out, const atomic_bool *cancel, Err *err) {
    bool ok = m->plan.order ? run_apart(m, t, out, cancel, err)
                            : tower_run(t, &m->plan, out, cancel, err);
    return ok && inputs_match(m, out, err);
}

bool media_encode(Media *m, Tower *t, const atomic_bool *cancel, Err *err) {
    const Program *p = tower_of(m);
    if (m->encoded) return true;
    size_t floats = 0;
    float **out = arena_array(&m->arena, float *, p->n_outputs + 1);
    if (!out) return err_nomem(err, "media");
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        uint64_t rows = tower_out_rows(p, i, &m->plan);
        if (!m->plan.order && rows != m->plan.n_embeds)
            return err_set(err, ERR_INTERNAL,
                           "output %s of the tower has %llu rows, planned are %u",
                           p->outputs[i].name, (unsigned long long)rows, m->plan.n_embeds);
        floats += (size_t)m->plan.n_embeds * p->vals[p->outputs[i].val].cols;
    }
    if (!m->outputs && !(m->outputs = mem_resize_array(NULL, floats + 1, sizeof *m->outputs)))
        return err_nomem(err, "media");
    for (uint32_t i = 0, at = 0; i < p->n_outputs; i++) {
        out[i] = m->outputs + (size_t)at * m->plan.n_embeds;
        at += p->vals[p->outputs[i].val].cols;
    }
    return m->encoded = run(m, t, out, cancel, err);
}

/* ---- what the engine asks ---- */

/* One sequence of the tower: everything that its rows come from. */
static MediaDigest seq_digest(const Media *m, const MediaNames *names, const TowerRange *seq) {
    const MediaPlan *plan = &m->plan;
    const Program *p = tower_of(m);
    MediaDigest d = {{0}};
    uint64_t from, n;
    media_digest(names, &d, plan->rows + seq->row0, seq->n_rows * sizeof *plan->rows);
    for (uint32_t i = 0; i < p->n_inputs; i++) {
        size_t cols = p->inputs[i].cols;
        tower_input_rows(p, i, seq, &from, &n);
        media_digest(names, &d, plan->inputs[i] + from * cols, n * cols * sizeof(float));
    }
    return d;
}

bool media_name_tokens(const Media *m, MediaNames *names, uint32_t *tokens, Err *err) {
    const MediaPlan *plan = &m->plan;
    TowerRange seq = {0};
    uint32_t *number = mem_resize_array(NULL, (size_t)plan->n_embeds + 1, sizeof *number);
    if (!number) return err_nomem(err, "media");
    for (uint32_t s = 0, embed = 0; s < plan->n_seqs; s++) {
        seq = tower_range_behind(&seq);
        tower_range_add(&seq, plan);
        MediaDigest d = seq_digest(m, names, &seq);
        uint32_t name = STEP_MEDIA_BIT | media_names_number(names, &d);
        for (uint32_t k = 0; k < plan->seqs[s].n_embeds; k++) number[embed++] = name;
    }
    for (uint32_t i = 0; i < m->n_tokens; i++)
        if (m->row_of[i] != MEDIA_NO_ROW) tokens[i] = number[m->row_of[i]];
    mem_free(number);
    return true;
}

uint32_t media_row(const Media *m, uint32_t i) {
    return m && i < m->n_tokens ? m->row_of[i] : MEDIA_NO_ROW;
}

void media_pos(const Media *m, uint32_t i, int32_t pos[4]) {
    if (m && m->plan.pos && i < m->n_tokens) {
        memcpy(pos, m->plan.pos[i], sizeof m->plan.pos[i]);
        return;
    }
    int32_t at = (int32_t)i + (m ? m->plan.delta : 0);
    for (int k = 0; k < 4; k++) pos[k] = at;
}

uint32_t media_hi(const Media *m, uint32_t i) {
    for (size_t k = 0; m && k < m->n_spans; k++)
        if (i >= m->spans[k].from && i < m->spans[k].to) return m->spans[k].to;
    return i + 1;
}

const PrefillSpan *media_spans(const Media *m, size_t *n) {
    *n = m ? m->n_spans : 0;
    return m ? m->spans : NULL;
}

const float *media_input(const Media *m, uint32_t input, uint32_t row) {
    return m->input[input] + (size_t)row * m->model->arch.text->inputs[input].cols;
}

/* ---- outputs ---- */

/* "NAME.0", "NAME.1", ... are one tensor NAME. */
static bool is_part(const char *output, const char *name) {
    size_t n = strlen(name);
    return !strncmp(output, name, n) && output[n] == '.';
}

bool media_output(const Media *m, const char *name, MediaTensor *out, Err *err) {
    const Program *p = tower_of(m);
    uint64_t n_parts = 0, first = 0, at = 0, cols = 0, rows = m->plan.n_embeds;
    if (!m->encoded) return err_set(err, ERR_NOT_FOUND, "the media have not been run");
    if (!strcmp(name, "position_ids")) {
        *out = (MediaTensor){"position_ids", MEDIA_I64, 2, {3, m->n_tokens}, m->position_ids};
        return true;
    }
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        uint64_t width = p->vals[p->outputs[i].val].cols;
        bool whole = !strcmp(p->outputs[i].name, name);
        if (whole || is_part(p->outputs[i].name, name)) {
            if (!cols) first = at, cols = width;
            n_parts += !whole;
        }
        at += width;
    }
    if (!cols)
        return err_set(err, ERR_NOT_FOUND,
                       "there is no output \"%s\"; %s and position_ids are accepted", name,
                       p->outputs[0].name);
    *out = (MediaTensor){.name = name, .type = MEDIA_F32, .data = m->outputs + first * rows};
    if (n_parts) out->dims[out->n_dims++] = n_parts;
    if (m->plan.by_seq) {
        out->dims[out->n_dims++] = m->plan.n_seqs;
        rows /= m->plan.n_seqs;
    }
    out->dims[out->n_dims++] = rows;
    out->dims[out->n_dims++] = cols;
    return true;
}
