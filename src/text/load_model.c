#include "text/load_model.h"

#include <string.h>

#include "text/tokenizer_priv.h"

typedef struct Fields { /* of the model object, before its type is known */
    Tokenizer *t;
    Str text; /* the whole file */
    Str type, unk_token, prefix, suffix;
    bool has_type, has_unk, has_prefix, fuse_unk, byte_fallback, ignore_merges;
    bool has_vocab, vocab_is_list, has_merges, has_max_chars;
    Str merges_raw; /* met before the vocabulary: read at the end */
    int64_t unk_id; /* -1: none */
    uint64_t max_chars;
    size_t n_scores, cap_scores;
    Arena tmp;
} Fields;

static bool wrong(const char *key, const JsonToken *t, const char *want, Err *err) {
    return err_set(err, ERR_INPUT, "model.%s must be %s, it is %s", key, want,
                   jsonevent_name(t->event));
}

static bool take_string(JsonReader *r, const char *key, Arena *a, Str *out, bool *has,
                        Err *err) { /* or null */
    JsonToken t;
    if (!json_next(r, &t, err)) return false;
    if (t.event == JSON_EV_NULL) return true;
    if (t.event != JSON_EV_STRING) return wrong(key, &t, "a string", err);
    Str s;
    if (!json_token_str(&t, a, &s, err)) return false;
    *out = arena_dup(a, s);
    *has = true;
    return out->p || s.n == 0 || err_nomem(err, key);
}

static bool take_bool(JsonReader *r, const char *key, bool *out, Err *err) { /* or null */
    JsonToken t;
    if (!json_next(r, &t, err)) return false;
    if (t.event == JSON_EV_TRUE)
        *out = true;
    else if (t.event != JSON_EV_FALSE && t.event != JSON_EV_NULL)
        return wrong(key, &t, "true or false", err);
    return true;
}

static bool id_of(const JsonToken *t, uint32_t *out) {
    uint64_t v;
    if (t->event != JSON_EV_NUMBER || !str_to_u64(t->raw, &v) || v >= TOK_NONE) return false;
    *out = (uint32_t)v;
    return true;
}

/* Tokens wait a moment between having their slot asked for and being put there. */
enum { QUEUE = 16 };
typedef struct TokenQueue {
    Str text[QUEUE];
    uint64_t hash[QUEUE];
    uint32_t id[QUEUE];
    size_t n;
} TokenQueue;

static bool queue_flush(TokenQueue *q, Vocab *v, Err *err) {
    for (size_t i = 0; i < q->n; i++)
        if (!vocab_add_hashed(v, q->text[i], q->hash[i], q->id[i]))
            return err_nomem(err, "vocabulary");
    q->n = 0;
    return true;
}

static bool queue_push(TokenQueue *q, Vocab *v, Str text, uint32_t id, Err *err) {
    q->text[q->n] = text;
    q->id[q->n] = id;
    vocab_prefetch(v, q->hash[q->n] = vocab_hash_of(v, text));
    return ++q->n < QUEUE || queue_flush(q, v, err);
}

static bool vocab_reserve_guess(Fields *f, Err *err) { /* grows from a guess by the file's size */
    size_t guess = (f->text.n / 40) & ~(size_t)1023;
    if (guess > 300000) guess = 300000;
    return vocab_reserve(&f->t->vocab, guess ? guess : 64) || err_nomem(err, "vocabulary");
}

/* {"token": id, ...} */
static bool take_vocab_object(Fields *f, JsonReader *r, Err *err) {
    JsonToken k, v;
    Vocab *vocab = &f->t->vocab;
    TokenQueue q = {.n = 0};
    if (!vocab_reserve_guess(f, err)) return false;
    for (;;) {
        Str s;
        uint32_t id;
        if (q.n == 0) arena_reset(&f->tmp);
        if (!json_next(r, &k, err)) return false;
        if (k.event == JSON_EV_OBJECT_END) return queue_flush(&q, vocab, err);
        if (!json_token_str(&k, &f->tmp, &s, err) || !json_next(r, &v, err)) return false;
        if (!id_of(&v, &id))
            return err_set(err, ERR_INPUT,
                           "model.vocab: token \"" STR_F
                           "\" must have an id from 0 to 4294967294, it has " STR_F,
                           STR_A(s), STR_A(v.raw));
        if (!queue_push(&q, vocab, s, id, err)) return false;
    }
}

static bool push_score(Fields *f, double score) {
    Unigram *u = &f->t->unigram;
    if (f->n_scores == f->cap_scores) {
        size_t cap = f->cap_scores ? f->cap_scores * 2 : 4096;
        double *p = mem_resize_array(u->scores, cap, sizeof *p);
        if (!p) return false;
        u->scores = p;
        f->cap_scores = cap;
    }
    u->scores[f->n_scores++] = score;
    u->n_scores = f->n_scores;
    return true;
}

/* [["token", score], ...] */
static bool take_vocab_list(Fields *f, JsonReader *r, Err *err) {
    JsonToken k, v;
    Vocab *vocab = &f->t->vocab;
    TokenQueue q = {.n = 0};
    if (!vocab_reserve_guess(f, err)) return false;
    for (uint32_t id = 0;; id++) {
        Str s;
        double score;
        if (q.n == 0) arena_reset(&f->tmp);
        if (!json_next(r, &k, err)) return false;
        if (k.event == JSON_EV_ARRAY_END) return queue_flush(&q, vocab, err);
        if (k.event != JSON_EV_ARRAY) return wrong("vocab", &k, "an array of [token, score]", err);
        if (!json_expect(r, &k, JSON_EV_STRING, "model.vocab: token", err)) return false;
        if (!json_token_str(&k, &f->tmp, &s, err)) return false;
        if (!json_expect(r, &v, JSON_EV_NUMBER, "model.vocab: score", err)) return false;
        if (!str_to_f64(v.raw, &score))
            return err_set(err, ERR_INPUT, "model.vocab: score " STR_F " is out of range",
                           STR_A(v.raw));
        if (!queue_push(&q, vocab, s, id, err)) return false;
        if (!push_score(f, score)) return err_nomem(err, "vocabulary");
        if (!json_expect(r, &v, JSON_EV_ARRAY_END, "model.vocab: [token, score]", err))
            return false;
    }
}

static bool take_vocab(Fields *f, JsonReader *r, Err *err) {
    JsonToken t;
    if (f->has_vocab) return err_set(err, ERR_INPUT, "model has two vocabularies");
    if (!json_next(r, &t, err)) return false;
    f->has_vocab = true;
    f->vocab_is_list = t.event == JSON_EV_ARRAY;
    if (t.event == JSON_EV_OBJECT) return take_vocab_object(f, r, err);
    if (t.event == JSON_EV_ARRAY) return take_vocab_list(f, r, err);
    return wrong("vocab", &t, "an object or an array", err);
}

/* --- merges --- */

static bool merge_missing(const MergeAdder *m, Str token, Str l, Str r, Err *err) {
    return err_set(err, ERR_INPUT,
                   "merge %u (\"%.*s\" \"%.*s\") needs \"%.*s\", which the vocabulary lacks",
                   m->rank, (int)(l.n > 60 ? 60 : l.n), l.p, (int)(r.n > 60 ? 60 : r.n), r.p,
                   (int)(token.n > 60 ? 60 : token.n), token.p);
}

static uint32_t result_id(MergeAdder *m, Str joined) {
    const Vocab *v = &m->t->vocab;
    for (size_t i = m->guess; i < m->guess + 2 && i < v->n; i++) {
        const VocabEntry *e = &v->entries[i];
        if (joined.n == 0 || e->n != joined.n || memcmp(v->pool + e->at, joined.p, joined.n) != 0)
            continue;
        m->guess = i;
        return e->id;
    }
    uint32_t id = vocab_find(v, joined);
    if (id < v->n && v->entries[id].id == id) m->guess = id; /* the usual file lists tokens by id */
    return id;
}

static bool add_one(MergeAdder *m, size_t i, Err *err) {
    Tokenizer *t = m->t;
    Str l = m->l[i], r = m->r[i];
    uint32_t a = vocab_find_hashed(&t->vocab, l, m->hl[i]),
             b = vocab_find_hashed(&t->vocab, r, m->hr[i]);
    if (a == TOK_NONE) return merge_missing(m, l, l, r, err);
    if (b == TOK_NONE) return merge_missing(m, r, l, r, err);
    Str rest = str_from(r, t->bpe.prefix.n);
    buf_clear(&m->joined);
    buf_put(&m->joined, l);
    buf_put(&m->joined, rest);
    if (m->joined.failed) return err_nomem(err, "merges");
    uint32_t id = result_id(m, buf_str(&m->joined));
    if (id == TOK_NONE) return merge_missing(m, buf_str(&m->joined), l, r, err);
    return bpe_add_merge(&t->bpe, a, b, m->rank++, id) || err_nomem(err, "merges");
}

bool merges_flush(MergeAdder *m, Err *err) {
    const Vocab *v = &m->t->vocab;
    size_t n = m->n;
    m->n = 0;
    for (size_t i = 0; i < n; i++) {
        vocab_prefetch_entry(v, m->hl[i]);
        vocab_prefetch_entry(v, m->hr[i]);
    }
    for (size_t i = 0; i < n; i++) {
        vocab_prefetch_text(v, m->hl[i]);
        vocab_prefetch_text(v, m->hr[i]);
    }
    for (size_t i = 0; i < n; i++)
        if (!add_one(m, i, err)) return false;
    return true;
}

bool merges_known(MergeAdder *m, Str l, Str r) {
    buf_clear(&m->joined);
    buf_put(&m->joined, l);
    buf_put(&m->joined, r);
    const Vocab *v = &m->t->vocab;
    return !m->joined.failed && vocab_find(v, l) != TOK_NONE && vocab_find(v, r) != TOK_NONE &&
           vocab_find(v, buf_str(&m->joined)) != TOK_NONE;
}

/* Look-ups miss the cache; they are asked for in groups so that the misses overlap. */
bool merges_add(MergeAdder *m, Str l, Str r, Err *err) {
    const Vocab *v = &m->t->vocab;
    m->l[m->n] = l;
    m->r[m->n] = r;
    m->hl[m->n] = vocab_hash_of(v, l);
    m->hr[m->n] = vocab_hash_of(v, r);
    vocab_prefetch(v, m->hl[m->n]);
    vocab_prefetch(v, m->hr[m->n]);
    m->n++;
    return m->n < sizeof m->l / sizeof *m->l || merges_flush(m, err);
}

static bool merge_of_line(Str line, Str *l, Str *r) { /* "a b" */
    size_t blank = str_find_char(line, ' ', 0);
    if (blank == STR_NPOS || str_find_char(line, ' ', blank + 1) != STR_NPOS) return false;
    *l = str_slice(line, 0, blank);
    *r = str_from(line, blank + 1);
    return true;
}

static bool take_merge(Fields *f, JsonReader *r, JsonToken *t, Str *a, Str *b, bool *skip,
                       Err *err) {
    *skip = false;
    if (t->event == JSON_EV_STRING) {
        Str s;
        if (!json_token_str(t, &f->tmp, &s, err)) return false;
        if (str_starts(s, STR("#version"))) return *skip = true;
        return merge_of_line(s, a, b) ||
               err_set(err, ERR_INPUT, "merge \"" STR_F "\" must have two parts and one blank",
                       STR_A(s));
    }
    if (t->event != JSON_EV_ARRAY)
        return wrong("merges", t, "an array of pairs or of strings", err);
    return json_expect(r, t, JSON_EV_STRING, "merge: first part", err) &&
           json_token_str(t, &f->tmp, a, err) &&
           json_expect(r, t, JSON_EV_STRING, "merge: second part", err) &&
           json_token_str(t, &f->tmp, b, err) &&
           json_expect(r, t, JSON_EV_ARRAY_END, "merge: pair", err);
}

static bool take_merges(Fields *f, JsonReader *r, Err *err) {
    JsonToken t;
    MergeAdder m = {.t = f->t};
    f->t->bpe.prefix = f->prefix;
    bool ok = json_expect(r, &t, JSON_EV_ARRAY, "model.merges", err);
    while (ok) {
        Str a = STR_NONE, b = STR_NONE;
        bool skip;
        if (m.n == 0) arena_reset(&f->tmp);
        ok = json_next(r, &t, err);
        if (!ok || t.event == JSON_EV_ARRAY_END) break;
        ok = take_merge(f, r, &t, &a, &b, &skip, err) && (skip || merges_add(&m, a, b, err));
    }
    ok = ok && merges_flush(&m, err);
    buf_deinit(&m.joined);
    return ok;
}

static bool take_late_merges(Fields *f, Err *err) {
    JsonReader r;
    JsonOptions opt = {.max_bytes = TOK_MAX_FILE_BYTES};
    if (!json_reader_open(&r, f->merges_raw, &opt, err)) return false;
    bool ok = take_merges(f, &r, err);
    json_reader_deinit(&r);
    return ok;
}

static bool skip_raw(JsonReader *r, Str text, Str *out, Err *err) {
    JsonToken t;
    if (!json_next(r, &t, err)) return false;
    size_t from = (size_t)t.at;
    if (!json_skip(r, &t, err)) return false;
    *out = str_slice(text, from, (size_t)json_reader_offset(r));
    return true;
}

static bool take_number(JsonReader *r, const char *key, bool may_be_null, int64_t *out, Err *err) {
    JsonToken t;
    uint64_t v;
    if (!json_next(r, &t, err)) return false;
    if (t.event == JSON_EV_NULL && may_be_null) return true;
    if (t.event != JSON_EV_NUMBER || !str_to_u64(t.raw, &v) || v > INT64_MAX)
        return err_set(err, ERR_INPUT, "model.%s must be a whole number, it is " STR_F, key,
                       STR_A(t.raw));
    *out = (int64_t)v;
    return true;
}

static bool take_field(Fields *f, JsonReader *r, Str key, Err *err) {
    Arena *a = &f->t->arena;
    bool ignored = false;
    Str skipped;
    if (str_eqc(key, "type")) return take_string(r, "type", a, &f->type, &f->has_type, err);
    if (str_eqc(key, "unk_token"))
        return take_string(r, "unk_token", a, &f->unk_token, &f->has_unk, err);
    if (str_eqc(key, "continuing_subword_prefix"))
        return take_string(r, "continuing_subword_prefix", a, &f->prefix, &f->has_prefix, err);
    if (str_eqc(key, "end_of_word_suffix"))
        return take_string(r, "end_of_word_suffix", a, &f->suffix, &ignored, err);
    if (str_eqc(key, "fuse_unk")) return take_bool(r, "fuse_unk", &f->fuse_unk, err);
    if (str_eqc(key, "byte_fallback")) return take_bool(r, "byte_fallback", &f->byte_fallback, err);
    if (str_eqc(key, "ignore_merges")) return take_bool(r, "ignore_merges", &f->ignore_merges, err);
    if (str_eqc(key, "vocab")) return take_vocab(f, r, err);
    if (str_eqc(key, "unk_id")) return take_number(r, "unk_id", true, &f->unk_id, err);
    if (str_eqc(key, "max_input_chars_per_word")) {
        int64_t v = 0;
        f->has_max_chars = true;
        if (!take_number(r, "max_input_chars_per_word", false, &v, err)) return false;
        f->max_chars = (uint64_t)v;
        return true;
    }
    if (!str_eqc(key, "merges")) return skip_raw(r, f->text, &skipped, err);
    if (f->has_merges) return err_set(err, ERR_INPUT, "model has two lists of merges");
    f->has_merges = true;
    /* The prefix is cut off the right part, so it must be known first too; writers put both
     * before the merges. */
    return f->has_vocab && !f->vocab_is_list ? take_merges(f, r, err)
                                             : skip_raw(r, f->text, &f->merges_raw, err);
}

static bool apply_bpe(Fields *f, Err *err) {
    Bpe *b = &f->t->bpe;
    f->t->kind = MODEL_BPE;
    if (f->vocab_is_list)
        return err_set(err, ERR_INPUT,
                       "model.vocab of a BPE model must be an object, it is an array");
    if (!f->has_merges) return err_set(err, ERR_INPUT, "BPE model has no merges");
    b->prefix = f->prefix;
    b->suffix = f->suffix;
    b->has_unk = f->has_unk;
    b->unk = f->unk_token;
    b->fuse_unk = f->fuse_unk;
    b->byte_fallback = f->byte_fallback;
    b->ignore_merges = f->ignore_merges;
    return f->merges_raw.n == 0 || take_late_merges(f, err);
}

static bool apply_unigram(Fields *f, Err *err) {
    Unigram *u = &f->t->unigram;
    f->t->kind = MODEL_UNIGRAM;
    if (!f->vocab_is_list)
        return err_set(err, ERR_INPUT,
                       "model.vocab of a Unigram model must be an array of [token, score]");
    if (f->unk_id >= 0 && (uint64_t)f->unk_id >= f->n_scores)
        return err_set(err, ERR_INPUT, "model.unk_id is %lld, the vocabulary has %zu tokens",
                       (long long)f->unk_id, f->n_scores);
    u->unk_id = f->unk_id < 0 ? TOK_NONE : (uint32_t)f->unk_id;
    u->byte_fallback = f->byte_fallback;
    u->min_score = 1e300 * 1e300;
    for (size_t i = 0; i < u->n_scores; i++)
        if (u->scores[i] < u->min_score) u->min_score = u->scores[i];
    return true;
}

static bool apply_words(Fields *f, bool whole_words, Err *err) {
    WordPiece *w = &f->t->wordpiece;
    f->t->kind = whole_words ? MODEL_WORDLEVEL : MODEL_WORDPIECE;
    if (f->vocab_is_list)
        return err_set(err, ERR_INPUT, "model.vocab must be an object, it is an array");
    w->whole_words = whole_words;
    w->unk = f->has_unk ? f->unk_token : whole_words ? STR("<unk>") : STR("[UNK]");
    w->prefix = f->has_prefix ? f->prefix : STR("##");
    w->max_chars = f->has_max_chars ? f->max_chars : 100;
    return true;
}

static bool apply(Fields *f, Err *err) {
    if (!f->has_vocab) return err_set(err, ERR_INPUT, "model has no vocab");
    Str t = f->type;
    if (!f->has_type) /* files from before the field existed */
        t = f->vocab_is_list   ? STR("Unigram")
            : f->has_merges    ? STR("BPE")
            : f->has_max_chars ? STR("WordPiece")
                               : STR("WordLevel");
    if (str_eqc(t, "BPE")) return apply_bpe(f, err);
    if (str_eqc(t, "Unigram")) return apply_unigram(f, err);
    if (str_eqc(t, "WordPiece")) return apply_words(f, false, err);
    if (str_eqc(t, "WordLevel")) return apply_words(f, true, err);
    return err_set(err, ERR_UNSUPPORTED,
                   "model type \"" STR_F "\" is not one of BPE, Unigram, WordPiece, WordLevel",
                   STR_A(t));
}

bool load_model(Tokenizer *t, JsonReader *r, Str text, Err *err) {
    Fields f = {.t = t, .text = text, .unk_id = -1};
    JsonToken k;
    bool ok = json_expect(r, &k, JSON_EV_OBJECT, "model", err);
    while (ok) {
        ok = json_next(r, &k, err);
        if (!ok || k.event == JSON_EV_OBJECT_END) break;
        ok = take_field(&f, r, k.raw, err);
    }
    ok = ok && apply(&f, err);
    arena_deinit(&f.tmp);
    return ok;
}
