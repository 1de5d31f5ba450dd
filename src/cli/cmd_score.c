/* score: runs tokens through the model: logits to a file, likelihood, and how far from another
 * run's logits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/gen.h"
#include "cli/npy_read.h"
#include "cli/npy_write.h"
#include "cli/term.h"
#include "json/json_writer.h"

typedef struct Score {
    Gen g;
    uint32_t n_vocab;
    const char *logits_path, *base_path;
    NpyOut out;
    NpyIn base;
    float *base_row;
    double *kl; /* per position */
    double nll; /* sum */
    size_t n_scored, n_rows, n_agree;
    mlxcel_timings timings;
    bool finished;
    Err err;
} Score;

static size_t best_of(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static double log_sum(const float *x, size_t n) {
    double top = x[best_of(x, n)], sum = 0;
    for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - top);
    return top + log(sum);
}

/* KL(base, model) of one position. */
static double divergence(const float *base, const float *x, size_t n) {
    double zb = log_sum(base, n), zx = log_sum(x, n), sum = 0;
    for (size_t i = 0; i < n; i++) {
        double lb = (double)base[i] - zb, p = exp(lb);
        if (p > 0) sum += p * (lb - ((double)x[i] - zx));
    }
    return sum > 0 ? sum : 0;
}

static bool on_logits(void *ctx, uint32_t position, const float *logits) {
    Score *s = ctx;
    size_t next = (size_t)position + 1;
    s->n_rows++;
    if (s->logits_path && !npy_put(&s->out, logits, s->n_vocab, &s->err)) return false;
    double sum = log_sum(logits, s->n_vocab);
    if (!isfinite(sum))
        return err_set(&s->err, ERR_CORRUPT,
                       "the logits after token %u are not finite: weights or cache overflow",
                       position);
    if (next < s->g.n_ids) {
        s->nll += sum - (double)logits[s->g.ids[next]];
        s->n_scored++;
    }
    if (s->base_path) {
        if (!npy_row(&s->base, position, s->base_row, &s->err)) return false;
        s->kl[position] = divergence(s->base_row, logits, s->n_vocab);
        s->n_agree += best_of(s->base_row, s->n_vocab) == best_of(logits, s->n_vocab);
    }
    return true;
}

static bool on_event(void *ctx, const mlxcel_event *e) {
    Score *s = ctx;
    if (e->kind != MLXCEL_EVENT_DONE) return true;
    s->timings = e->timings;
    s->finished = strcmp(e->finish_reason, "cancelled") != 0;
    return true;
}

static bool open_files(Score *s, Err *err) {
    const uint64_t shape[2] = {s->g.n_ids, s->n_vocab};
    if (s->base_path) {
        if (!npy_open(&s->base, s->base_path, err)) return false;
        if (s->base.rows != shape[0] || s->base.cols != shape[1])
            return err_set(err, ERR_INPUT, "%s is [%llu, %llu], the logits here are [%llu, %llu]",
                           s->base_path, (unsigned long long)s->base.rows,
                           (unsigned long long)s->base.cols, (unsigned long long)shape[0],
                           (unsigned long long)shape[1]);
        s->base_row = arena_array(&s->g.arena, float, s->n_vocab);
        s->kl = arena_array(&s->g.arena, double, s->g.n_ids);
        if (!s->base_row || !s->kl) return err_nomem(err, "logits");
    }
    return !s->logits_path ||
           npy_create(&s->out, s->logits_path, MLXCEL_F32, shape, 2, &s->g.arena, err);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct Summary {
    double nll, perplexity, kl_mean, kl_p999, agreement;
} Summary;

static Summary summarize(Score *s) {
    Summary r = {0};
    size_t n = s->n_rows;
    if (s->n_scored) r.nll = s->nll / (double)s->n_scored;
    r.perplexity = exp(r.nll);
    if (!s->base_path || !n) return r;
    for (size_t i = 0; i < n; i++) r.kl_mean += s->kl[i];
    r.kl_mean /= (double)n;
    qsort(s->kl, n, sizeof *s->kl, by_value);
    double at = 0.999 * (double)(n - 1); /* linear between neighbours, as numpy.percentile */
    size_t low = (size_t)at;
    r.kl_p999 = s->kl[low] + (low + 1 < n ? (at - (double)low) * (s->kl[low + 1] - s->kl[low]) : 0);
    r.agreement = (double)s->n_agree / (double)n;
    return r;
}

static void put_num(JsonWriter *w, const char *key, double v) {
    json_w_key(w, str_c(key));
    json_w_f64(w, v);
}

static void print_json(const Score *s, const Summary *r) {
    Buf b = {0};
    JsonWriter w = {.out = &b};
    json_w_object(&w);
    json_w_key(&w, STR("tokens"));
    json_w_u64(&w, s->n_rows);
    json_w_key(&w, STR("scored"));
    json_w_u64(&w, s->n_scored);
    put_num(&w, "nll", r->nll);
    put_num(&w, "nll_sum", s->nll);
    put_num(&w, "perplexity", r->perplexity);
    if (s->base_path) {
        put_num(&w, "kl_mean", r->kl_mean);
        put_num(&w, "kl_p999", r->kl_p999);
        put_num(&w, "top1_agreement", r->agreement);
    }
    json_w_key(&w, STR("n_vocab"));
    json_w_u64(&w, s->n_vocab);
    json_w_key(&w, STR("timings"));
    json_w_object(&w);
    put_num(&w, "load_ms", mlxcel_model_load_ms(s->g.model));
    put_num(&w, "prompt_ms", s->timings.prompt_ms);
    json_w_end(&w);
    json_w_end(&w);
    buf_putc(&b, '\n');
    out_put(buf_str(&b));
    buf_deinit(&b);
}

static void print_text(const Score *s, const Summary *r) {
    Buf b = {0};
    buf_putf(&b, "tokens      %zu\nnll         %.6f\nperplexity  %.6f\n", s->n_rows, r->nll,
             r->perplexity);
    if (s->base_path)
        buf_putf(&b, "kl mean     %.6g\nkl 99.9%%    %.6g\ntop-1 same  %.4f\n", r->kl_mean,
                 r->kl_p999, r->agreement);
    out_put(buf_str(&b));
    buf_deinit(&b);
}

static int run(Score *s) {
    mlxcel_error why = {0};
    mlxcel_request *r = NULL;
    s->n_vocab = mlxcel_model_n_vocab(s->g.model);
    if (!mlxcel_request_new(s->g.engine, s->g.ids, s->g.n_ids, &r, &why)) return cli_fail(&why);
    bool given = media_args_give(&s->g.media, r, &why), ok = given && open_files(s, &s->err);
    mlxcel_request_logits(r, on_logits, s);
    interrupt_watch(r);
    bool ran = ok && mlxcel_request_run(r, on_event, s, &why);
    interrupt_watch(NULL);
    if (ran && s->finished) ran = media_args_write(&s->g.media, r, &s->g.arena, &s->err);
    mlxcel_request_free(r);
    if (s->err.kind) return cli_fail_err(&s->err);
    if (!ran) return cli_fail(&why);
    if (!s->finished) return CLI_INTERRUPTED;
    return !s->logits_path || npy_finish(&s->out, &s->err) ? CLI_OK : cli_fail_err(&s->err);
}

int cmd_score(const Args *a) {
    Score s = {.g = {.args = a},
               .logits_path = args_text(a, "logits"),
               .base_path = args_text(a, "kl-base")};
    if (args_has(a, "output") && !args_has(a, "input"))
        return cli_usage("--output needs --input: it is made of what goes in");
    int status = gen_open(&s.g);
    if (status == CLI_OK) status = gen_prompt(&s.g, false);
    if (status == CLI_OK) status = gen_engine(&s.g, 0);
    if (status == CLI_OK) status = run(&s);
    if (status == CLI_OK) {
        Summary r = summarize(&s);
        mlxcel_log_release(true);
        if (args_flag(a, "json"))
            print_json(&s, &r);
        else
            print_text(&s, &r);
    }
    npy_drop(&s.out);
    npy_close(&s.base);
    gen_close(&s.g);
    return status;
}
