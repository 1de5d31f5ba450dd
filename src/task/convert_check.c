/* Whether a GGUF being written will be read as what it was made from. Keys say less than a config:
 * where the program that comes out of them is another one, the file must not appear. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "task/convert_plan.h"
#include "text/tokenizer.h"

/* The listing without the names of weights, and without the two numbers that the tensors have taken
 * in: the scale of scores, and what norms add to their weights. */
static void put_listing(const Program *p, Buf *out) {
    static const char *const GONE[] = {"@", "scale=", "w_add="};
    Buf text = {0};
    Str rest, line, word;
    program_dump(p, &text);
    for (rest = buf_str(&text); str_split(&rest, '\n', &line);) {
        size_t comment = str_find_char(line, ';', 0);
        line = str_slice(line, 0, comment);
        while (str_split(&line, ' ', &word)) {
            bool gone = word.n == 0;
            for (size_t i = 0; i < sizeof GONE / sizeof *GONE; i++)
                gone = gone || str_starts(word, str_c(GONE[i]));
            if (gone) continue;
            buf_put(out, word);
            buf_putc(out, ' ');
        }
        buf_putc(out, '\n');
    }
    if (text.failed) out->failed = true;
    buf_deinit(&text);
}

/* The first line that differs, for the message. */
static bool same_listing(const Program *a, const Program *b, const char *form, Err *err) {
    Buf x = {0}, y = {0};
    Str s, t, line = STR_NONE, other = STR_NONE;
    put_listing(a, &x);
    put_listing(b, &y);
    bool ok = buf_check(&x, "a listing", err) && buf_check(&y, "a listing", err);
    if (ok && !str_eq(buf_str(&x), buf_str(&y))) {
        for (s = buf_str(&x), t = buf_str(&y); str_split(&s, '\n', &line);)
            if (!str_split(&t, '\n', &other) || !str_eq(line, other)) break;
        ok = err_set(err, ERR_UNSUPPORTED,
                     "%s cannot say all of this model: \"%.120s\" would be read as \"%.120s\"",
                     form, line.p ? buf_cstr(&x) + (line.p - x.p) : "",
                     other.p ? buf_cstr(&y) + (other.p - y.p) : "");
    }
    buf_deinit(&x);
    buf_deinit(&y);
    return ok;
}

static bool same_rope(const RopeSpec *a, const RopeSpec *b, uint32_t length_class) {
    float x[ROPE_MAX_PAIRS], y[ROPE_MAX_PAIRS], fx, fy;
    if (a->rot_dim != b->rot_dim) return false;
    rope_inv_freq(a, length_class, x, &fx);
    rope_inv_freq(b, length_class, y, &fy);
    for (uint32_t i = 0; i < a->rot_dim / 2; i++)
        if (!(fabsf(x[i] - y[i]) <= 1e-5f * fabsf(x[i]))) return false;
    return fabsf(fx - fy) <= 1e-5f * fabsf(fx);
}

static bool same_ropes(const Program *a, const Program *b, const char *form, Err *err) {
    bool ok = a->n_ropes == b->n_ropes;
    for (uint32_t i = 0; ok && i < a->n_ropes; i++)
        ok = same_rope(&a->ropes[i], &b->ropes[i], 0) && same_rope(&a->ropes[i], &b->ropes[i], 1);
    return ok || err_set(err, ERR_UNSUPPORTED, "%s cannot say how this model scales rope", form);
}

/* What was folded into the queries, times what readers do, is what the config says. */
static bool same_scales(const Decoder *a, const ArchModel *b, bool folds, Err *err) {
    double folded = folds ? a->layer.attn_scale * sqrt((double)decoder_gguf_scalar(a)) : 1;
    double there = b->resolved ? b->resolved->layer.attn_scale * folded : 0;
    bool ok = fabs(there / a->layer.attn_scale - 1) <= 1e-5;
    return ok || err_set(err, ERR_UNSUPPORTED, "scores would be scaled by %g instead of %g", there,
                         (double)a->layer.attn_scale);
}

static bool encode(const Tokenizer *t, TokIds *out, Err *err) {
    static const char TEXT[] = "Hello, world! It's 12345 o'clock \xC3\xA9\xE4\xBD\xA0\xE5\xA5\xBD\n"
                               "  def f(x):\n\treturn x ** 2\n\n<s>[INST] \xF0\x9F\x98\x80 A  b.";
    return tokenizer_encode_text(t, str_c(TEXT), true, false, out, err);
}

static bool check_vocab(const Checkpoint *from, const Checkpoint *to, Err *err) {
    Tokenizer *a = NULL, *b = NULL;
    TokIds x = {0}, y = {0};
    Err absent = {0};
    if (!tokenizer_load_checkpoint(from, &a, &absent)) return true; /* there is none */
    bool ok = tokenizer_load_checkpoint(to, &b, err) && encode(a, &x, err) && encode(b, &y, err);
    if (ok && (x.n != y.n || (x.n && memcmp(x.p, y.p, x.n * sizeof *x.p) != 0)))
        log_warn("the tokenizer as written does not give the same tokens for all texts");
    tokids_deinit(&x);
    tokids_deinit(&y);
    tokenizer_free(a);
    tokenizer_free(b);
    return ok;
}

/* What keys cannot say is asked where a config is made of others. */
static bool same_model(const ConvertPlan *p, const ArchModel *m, const Checkpoint *ck, Err *err) {
    bool to_gguf = p->o->kind == CONVERT_GGUF, kept = !to_gguf && !p->ck->config.gguf;
    const char *form = to_gguf ? "a GGUF" : "config.json";
    bool folds = p->arch.arch->fold != NULL; /* factors are ops before and weights behind */
    if (!folds && !same_listing(p->arch.text, m->text, form, err)) return false;
    if (kept) return true;
    return same_ropes(p->arch.text, m->text, form, err) &&
           same_scales(p->arch.resolved, m, to_gguf, err) && check_vocab(p->ck, ck, err);
}

bool convert_check(const ConvertPlan *p, const char *path, float *norm_add, Err *err) {
    Checkpoint *ck;
    ArchModel m;
    if (!checkpoint_open(path, &ck, err)) return false;
    bool ok = p->o->kind == CONVERT_GGUF ? arch_build_text(ck, p->a, &m, err)
                                         : arch_build(ck, p->a, &m, err);
    ok = ok && same_model(p, &m, ck, err);
    if (ok && norm_add && m.resolved) *norm_add = m.resolved->norm_add;
    checkpoint_close(ck);
    return ok;
}
