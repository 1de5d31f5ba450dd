/* Whether a GGUF being written will be read as what it was made from. Keys say less than a config:
 * where the program that comes out of them is another one, the file must not appear. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "task/convert_plan.h"
#include "text/tokenizer.h"

/* The listing without the names of weights, and without what the tensors have taken in: the scale of
 * scores, what norms add to their weights, the exponent of decays, the order of heads. */
static void put_listing(const Program *p, Buf *out) {
    static const char *const GONE[] = {"@", "scale=", "w_add=", "-exp", "tiled"};
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
        if (!(fabsf(x[i] - y[i]) <= 1e-5f * fabsf(x[i]) + 1e-25f)) return false;
    return fabsf(fx - fy) <= 1e-5f * fabsf(fx);
}

static bool same_ropes(const Program *a, const Program *b, const char *form, Err *err) {
    bool ok = a->n_ropes == b->n_ropes;
    for (uint32_t i = 0; ok && i < a->n_ropes; i++)
        ok = same_rope(&a->ropes[i], &b->ropes[i], 0) && same_rope(&a->ropes[i], &b->ropes[i], 1);
    return ok || err_set(err, ERR_UNSUPPORTED, "%s cannot say how this model scales rope", form);
}

static bool same_scale(double want, double there, Err *err) {
    return fabs(there / want - 1) <= 1e-5 ||
           err_set(err, ERR_UNSUPPORTED, "scores would be scaled by %g instead of %g", there, want);
}

/* What was folded into the queries, times what readers do, is what the config says; of latents nothing
 * is folded. */
static bool same_scales(const ConvertPlan *p, const ArchModel *b, bool folds, Err *err) {
    const Decoder *a = p->arch.resolved;
    double scale = a->layer.attn_scale;
    double folded = folds && scale != 0 ? scale * sqrt((double)decoder_gguf_scalar(a)) : 1;
    for (uint32_t i = 0; p->arch.layers && b->layers && i < p->arch.n_layers; i++) {
        const LayerSpec *x = &p->arch.layers[i], *y = &b->layers[i];
        bool ok = x->mixer == MIXER_ATTN
                      ? same_scale(x->attn_scale, y->attn_scale * folded, err)
                      : x->mixer != MIXER_MLA || same_scale(x->attn_scale, y->attn_scale, err);
        if (!ok) return false;
    }
    return true;
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
           (folds || same_scales(p, m, to_gguf, err)) && check_vocab(p->ck, ck, err);
}

/* What is stored of norms is less by what the reader adds. */
static void shift_norms(ConvertPlan *p, float norm_add) {
    for (size_t i = 0; i < p->n_items; i++) {
        ConvertItem *it = &p->items[i];
        bool beside = it->is_named && !it->is_text;
        bool is_norm = !beside && it->is_vector && convert_is_norm(p->origins[i]);
        it->add = is_norm ? p->arch.resolved->norm_add - norm_add : 0;
    }
}

bool convert_check(ConvertPlan *p, const char *path, ArchModel *reader, Err *err) {
    Checkpoint *ck;
    if (!checkpoint_open(path, &ck, err)) return false;
    bool ok = p->o->kind == CONVERT_GGUF ? arch_build_text(ck, p->a, reader, err)
                                         : arch_build(ck, p->a, reader, err);
    ok = ok && same_model(p, reader, ck, err);
    if (ok && p->arch.resolved) shift_norms(p, reader->resolved->norm_add);
    checkpoint_close(ck);
    return ok;
}
