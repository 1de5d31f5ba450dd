/* embed, rerank: texts to vectors, and how well documents answer a query. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/out.h"
#include "json/json_writer.h"

enum { MAX_TEXTS = 1 << 16 };

typedef struct Job { /* the inputs of one command, and what came of them */
    const Args *a;
    Arena arena;
    mlxcel_model *model;
    mlxcel_encoder *encoder;
    mlxcel_encoder_input *in;
    mlxcel_prompt **prompts; /* of in, NULL where ids were given */
    size_t n;
    float *rows;
    uint32_t width;
} Job;

static void job_close(Job *j) {
    for (size_t i = 0; j->prompts && i < j->n; i++) mlxcel_prompt_free(j->prompts[i]);
    mlxcel_encoder_close(j->encoder);
    mlxcel_model_close(j->model);
    mem_free(j->rows);
    arena_deinit(&j->arena);
}

static bool ids_input(Job *j, const char *ids, const char *types, Err *err) {
    uint32_t *v, *t = NULL;
    size_t n, n_types = 0;
    if (!flags_ids(str_c(ids), &v, &n, &j->arena, err)) return false;
    if (types && !flags_ids(str_c(types), &t, &n_types, &j->arena, err)) return false;
    if (types && n_types != n)
        return err_set(err, ERR_INPUT, "%zu token types for %zu ids; one for each is accepted",
                       n_types, n);
    j->in[j->n++] = (mlxcel_encoder_input){v, t, n};
    return true;
}

static bool text_input(Job *j, const char *query, const char *text, mlxcel_error *err) {
    mlxcel_prompt **p = &j->prompts[j->n];
    bool ok = query ? mlxcel_pair_prompt(j->model, query, strlen(query), text, strlen(text), p, err)
                    : mlxcel_text_prompt(j->model, text, strlen(text), true, false, p, err);
    if (!ok) return false;
    j->in[j->n++] = (mlxcel_encoder_input){mlxcel_prompt_ids(*p), mlxcel_prompt_types(*p),
                                           mlxcel_prompt_n_ids(*p)};
    return true;
}

/* Opens the model, encodes the texts of `flag` (with query: as pairs) or --ids, runs them. */
static int job_run(Job *j, const char *flag, const char *query,
                   const mlxcel_encoder_options *options) {
    mlxcel_error why;
    Err err = {0};
    const char *path = flags_model(j->a), *ids = args_text(j->a, "ids"), *text;
    size_t n = 0;
    if (!path) return CLI_USAGE;
    for (size_t i = 0; args_next(j->a, flag, &i);) n++;
    if (!ids == !n) return cli_usage("either --%s or --ids is needed", flag);
    if (!ids && args_has(j->a, "token-types")) return cli_usage("--token-types needs --ids");
    if (n > MAX_TEXTS) return cli_usage("%zu texts, %d are accepted", n, MAX_TEXTS);
    const mlxcel_model_options o = flags_model_options(j->a);
    if (!mlxcel_model_open(path, &o, &j->model, &why)) return cli_fail(&why);
    if (!mlxcel_encoder_open(j->model, options, &j->encoder, &why)) return cli_fail(&why);
    j->in = arena_array(&j->arena, mlxcel_encoder_input, n + 1);
    j->prompts = arena_array(&j->arena, mlxcel_prompt *, n + 1);
    j->width = mlxcel_encoder_width(j->encoder);
    j->rows = mem_calloc(n + 1, j->width * sizeof(float));
    if (!j->in || !j->prompts || !j->rows) return err_nomem(&err, "inputs"), cli_fail_err(&err);
    if (ids && !ids_input(j, ids, args_text(j->a, "token-types"), &err)) return cli_fail_err(&err);
    for (size_t i = 0; (text = args_next(j->a, flag, &i)) != NULL;)
        if (!text_input(j, query, text, &why)) return cli_fail(&why);
    if (!mlxcel_encoder_run(j->encoder, j->in, j->n, j->rows, &why)) return cli_fail(&why);
    return CLI_OK;
}

static void put_row(JsonWriter *w, const float *row, uint32_t n) {
    json_w_array(w);
    for (uint32_t i = 0; i < n; i++) json_w_f32(w, row[i]);
    json_w_end(w);
}

static void put_rows(JsonWriter *w, const Job *j) {
    json_w_array(w);
    for (size_t i = 0; i < j->n; i++) put_row(w, j->rows + i * j->width, j->width);
    json_w_end(w);
}

static uint64_t n_tokens(const Job *j) {
    uint64_t sum = 0;
    for (size_t i = 0; i < j->n; i++) sum += j->in[i].n_ids;
    return sum;
}

static int put_json(Buf *text) {
    Err err = {0};
    buf_putc(text, '\n');
    bool ok = buf_check(text, "result", &err);
    if (ok) out_put(buf_str(text));
    buf_deinit(text);
    return ok ? CLI_OK : cli_fail_err(&err);
}

static int embed_json(const Job *j) {
    Buf text = {0};
    JsonWriter w = {.out = &text};
    json_w_object(&w);
    json_w_key(&w, STR("embeddings"));
    put_rows(&w, j);
    json_w_key(&w, STR("pooling"));
    json_w_str(&w, str_c(mlxcel_encoder_pooling(j->encoder)));
    json_w_key(&w, STR("normalized"));
    json_w_bool(&w, mlxcel_encoder_normalizes(j->encoder));
    json_w_key(&w, STR("prompt_tokens"));
    json_w_u64(&w, n_tokens(j));
    json_w_end(&w);
    return put_json(&text);
}

static double cosine(const float *a, const float *b, uint32_t n) {
    double ab = 0, aa = 0, bb = 0;
    for (uint32_t i = 0; i < n; i++)
        ab += (double)a[i] * b[i], aa += (double)a[i] * a[i], bb += (double)b[i] * b[i];
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

/* A vector per line; of several texts also how alike they are. */
static void embed_text(const Job *j) {
    Buf text = {0};
    for (size_t i = 0; i < j->n; i++)
        for (uint32_t c = 0; c < j->width; c++)
            buf_putf(&text, "%.7g%c", (double)j->rows[i * j->width + c],
                     c + 1 < j->width ? ' ' : '\n');
    if (j->n > 1) buf_putf(&text, "\ncosine\n");
    for (size_t i = 0; i < j->n && j->n > 1; i++)
        for (size_t k = 0; k < j->n; k++)
            buf_putf(&text, "%7.4f%c",
                     cosine(j->rows + i * j->width, j->rows + k * j->width, j->width),
                     k + 1 < j->n ? ' ' : '\n');
    out_put(buf_str(&text));
    buf_deinit(&text);
}

int cmd_embed(const Args *a) {
    Job j = {.a = a};
    mlxcel_encoder_options o = mlxcel_encoder_options_default();
    if (args_has(a, "pooling")) o.pooling = args_text(a, "pooling");
    o.no_normalize = args_flag(a, "no-normalize");
    int status = job_run(&j, "prompt", NULL, &o);
    if (status == CLI_OK && args_flag(a, "json")) {
        status = embed_json(&j);
    } else if (status == CLI_OK) {
        embed_text(&j);
    }
    job_close(&j);
    return status;
}

/* A classifier of one label gives the probability of it, of several a distribution. */
static void row_scores(const Job *j, size_t i, double *out) {
    const float *x = j->rows + i * j->width;
    double max = x[0], sum = 0;
    if (j->width == 1) {
        out[0] = 1 / (1 + exp(-(double)x[0]));
        return;
    }
    for (uint32_t c = 1; c < j->width; c++) max = x[c] > max ? x[c] : max;
    for (uint32_t c = 0; c < j->width; c++) sum += out[c] = exp(x[c] - max);
    for (uint32_t c = 0; c < j->width; c++) out[c] /= sum;
}

/* Documents are ranked by the first label, as llama-server does. */
static double rank_score(const Job *j, const double *scores, size_t i) {
    return scores[i * j->width];
}

static void ranking(const Job *j, const double *scores, size_t *order) {
    for (size_t i = 0; i < j->n; i++) {
        size_t at = i;
        for (; at && rank_score(j, scores, i) > rank_score(j, scores, order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static int rerank_json(const Job *j, const double *scores, const size_t *order) {
    Buf text = {0};
    JsonWriter w = {.out = &text};
    json_w_object(&w);
    json_w_key(&w, STR("scores"));
    json_w_array(&w);
    for (size_t i = 0; i < j->n; i++) {
        if (j->width > 1) json_w_array(&w);
        for (uint32_t c = 0; c < j->width; c++) json_w_f64(&w, scores[i * j->width + c]);
        if (j->width > 1) json_w_end(&w);
    }
    json_w_end(&w);
    json_w_key(&w, STR("raw_scores"));
    put_rows(&w, j);
    json_w_key(&w, STR("ranking"));
    json_w_array(&w);
    for (size_t i = 0; i < j->n; i++) json_w_u64(&w, order[i]);
    json_w_end(&w);
    json_w_key(&w, STR("kind"));
    json_w_str(&w, STR("classifier"));
    json_w_key(&w, STR("prompt_tokens"));
    json_w_u64(&w, n_tokens(j));
    json_w_end(&w);
    return put_json(&text);
}

static int rerank_put(const Job *j) {
    Err err = {0};
    double *scores = mem_calloc(j->n + 1, j->width * sizeof *scores);
    size_t *order = mem_calloc(j->n + 1, sizeof *order);
    int status = CLI_OK;
    if (!scores || !order) {
        err_nomem(&err, "scores");
        status = cli_fail_err(&err);
    } else {
        for (size_t i = 0; i < j->n; i++) row_scores(j, i, scores + i * j->width);
        ranking(j, scores, order);
        if (args_flag(j->a, "json")) {
            status = rerank_json(j, scores, order);
        } else {
            Buf text = {0};
            for (size_t i = 0; i < j->n; i++)
                buf_putf(&text, "%zu %.6f\n", order[i], rank_score(j, scores, order[i]));
            out_put(buf_str(&text));
            buf_deinit(&text);
        }
    }
    mem_free(scores);
    mem_free(order);
    return status;
}

int cmd_rerank(const Args *a) {
    Job j = {.a = a};
    mlxcel_encoder_options o = mlxcel_encoder_options_default();
    o.scores = true;
    const char *query = args_text(a, "query");
    if (!query && args_has(a, "document")) return cli_usage("--document needs --query");
    if (query && args_has(a, "ids")) return cli_usage("--ids is a whole pair: without --query");
    int status = job_run(&j, "document", query, &o);
    if (status == CLI_OK) status = rerank_put(&j);
    job_close(&j);
    return status;
}
