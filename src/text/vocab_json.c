#include "text/vocab_json.h"

#include <stdlib.h>

#include "base/log.h"
#include "ckpt/gguf.h"
#include "json/json_writer.h"
#include "text/gguf_pre.h"
#include "text/tokenizer_priv.h"

static void put_bool(JsonWriter *w, const char *key, bool v) {
    json_w_key(w, str_c(key));
    json_w_bool(w, v);
}

static void put_str(JsonWriter *w, const char *key, Str v) {
    json_w_key(w, str_c(key));
    json_w_str(w, v);
}

static void put_null(JsonWriter *w, const char *key) {
    json_w_key(w, str_c(key));
    json_w_null(w);
}

/* An object whose type is named; the caller ends it. */
static void open_typed(JsonWriter *w, const char *type) {
    json_w_object(w);
    put_str(w, "type", str_c(type));
}

static void put_added(JsonWriter *w, const Tokenizer *t) {
    json_w_key(w, STR("added_tokens"));
    json_w_array(w);
    for (size_t i = 0; i < t->added.n; i++) {
        const AddedToken *a = &t->added.tokens[t->added.by_id[i]];
        json_w_object(w);
        json_w_key(w, STR("id"));
        json_w_u64(w, a->id);
        put_str(w, "content", a->text);
        put_bool(w, "single_word", a->single_word);
        put_bool(w, "lstrip", a->lstrip);
        put_bool(w, "rstrip", a->rstrip);
        put_bool(w, "normalized", a->normalized);
        put_bool(w, "special", a->special);
        json_w_end(w);
    }
    json_w_end(w);
}

/* kind: "String", "Regex" */
static void put_replace(JsonWriter *w, const char *kind, Str from, Str to) {
    open_typed(w, "Replace");
    json_w_key(w, STR("pattern"));
    json_w_object(w);
    put_str(w, kind, from);
    json_w_end(w);
    put_str(w, "content", to);
    json_w_end(w);
}

/* RFC 4648, padded; the three strings as one. */
static bool put_base64(JsonWriter *w, const Str parts[3], Err *err) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    Buf all = {0}, out = {0};
    for (int i = 0; i < 3; i++) buf_put(&all, parts[i]);
    for (size_t i = 0; !all.failed && i < all.n; i += 3) {
        uint32_t v = 0;
        size_t n = all.n - i < 3 ? all.n - i : 3;
        for (size_t k = 0; k < 3; k++) v = v << 8 | (k < n ? (uint8_t)all.p[i + k] : 0);
        for (size_t k = 0; k < 4; k++) buf_putc(&out, k > n ? '=' : DIGITS[v >> (18 - 6 * k) & 63]);
    }
    bool ok =
        buf_check(&all, "a map of characters", err) && buf_check(&out, "a map of characters", err);
    if (ok) json_w_str(w, buf_str(&out));
    buf_deinit(&all);
    buf_deinit(&out);
    return ok;
}

static bool put_map(JsonWriter *w, const Charsmap *m, Err *err) {
    char length[4];
    for (int i = 0; i < 4; i++) length[i] = (char)(m->trie.n >> (8 * i) & 0xFF);
    if (!m->trie.n) return true;
    open_typed(w, "Precompiled");
    json_w_key(w, STR("precompiled_charsmap"));
    if (!put_base64(w, (const Str[3]){{length, 4}, m->trie, m->pool}, err)) return false;
    json_w_end(w);
    return true;
}

static bool put_normalizer(JsonWriter *w, const Normalizer *n, Err *err) {
    static const char *const FORMS[] = {[UNICODE_NFC] = "NFC",
                                        [UNICODE_NFD] = "NFD",
                                        [UNICODE_NFKC] = "NFKC",
                                        [UNICODE_NFKD] = "NFKD"};
    json_w_key(w, STR("normalizer"));
    if (!n->n) return json_w_null(w), true;
    open_typed(w, "Sequence");
    json_w_key(w, STR("normalizers"));
    json_w_array(w);
    for (size_t i = 0; i < n->n; i++) {
        const NormStep *s = &n->steps[i];
        switch (s->kind) {
        case NORM_UNICODE:
            open_typed(w, FORMS[s->form]);
            json_w_end(w);
            break;
        case NORM_PREPEND:
            open_typed(w, "Prepend");
            put_str(w, "prepend", s->text);
            json_w_end(w);
            break;
        case NORM_REPLACE:
            put_replace(w, "String", s->text, s->content);
            break;
        case NORM_BERT:
            open_typed(w, "BertNormalizer");
            put_bool(w, "clean_text", s->clean);
            put_bool(w, "handle_chinese_chars", s->chinese);
            put_bool(w, "strip_accents", s->strip_accents);
            put_bool(w, "lowercase", s->lowercase);
            json_w_end(w);
            break;
        case NORM_SENTENCEPIECE: /* its blanks become U+2581 behind it */
            if (!put_map(w, &s->map, err)) return false;
            if (!s->squeeze) break;
            put_replace(w, "Regex", STR("\\A +| +\\z"), STR(""));
            put_replace(w, "Regex", STR(" {2,}"), STR(" "));
            break;
        default:
            return err_set(err, ERR_INTERNAL, "a normalizer of kind %d", (int)s->kind);
        }
    }
    json_w_end(w);
    json_w_end(w);
    return true;
}

static void put_byte_level(JsonWriter *w) {
    open_typed(w, "ByteLevel");
    put_bool(w, "add_prefix_space", false);
    put_bool(w, "trim_offsets", true);
    put_bool(w, "use_regex", false);
    json_w_end(w);
}

static void put_metaspace(JsonWriter *w, const NormStep *s) {
    open_typed(w, "Metaspace");
    put_str(w, "replacement", STR("\xE2\x96\x81"));
    put_str(w, "prepend_scheme", s->dummy_prefix ? STR("always") : STR("never"));
    put_bool(w, "split", true);
    json_w_end(w);
}

/* Of the kinds that are not cut by names of regular expressions. */
static void put_other_pretokenizer(JsonWriter *w, const Tokenizer *t) {
    json_w_key(w, STR("pre_tokenizer"));
    if (t->kind == MODEL_UNIGRAM) {
        put_metaspace(w, &t->norm.steps[0]);
        return;
    }
    open_typed(w, "BertPreTokenizer");
    json_w_end(w);
}

/* pre: NULL: texts are not cut. */
static void put_pretokenizer(JsonWriter *w, const GgufPre *pre) {
    json_w_key(w, STR("pre_tokenizer"));
    if (!pre) {
        json_w_null(w);
        return;
    }
    open_typed(w, "Sequence");
    json_w_key(w, STR("pretokenizers"));
    json_w_array(w);
    for (int i = 0; i < GGUF_PRE_MAX_PARTS && pre->parts[i]; i++) {
        open_typed(w, "Split");
        json_w_key(w, STR("pattern"));
        json_w_object(w);
        put_str(w, "Regex", str_c(pre->parts[i]));
        json_w_end(w);
        put_str(w, "behavior", STR("Isolated"));
        put_bool(w, "invert", false);
        json_w_end(w);
    }
    put_byte_level(w);
    json_w_end(w);
    json_w_end(w);
}

static void put_post_list(JsonWriter *w, const Tokenizer *t, const char *key, const PostList *l) {
    json_w_key(w, str_c(key));
    json_w_array(w);
    for (size_t i = 0; i < l->n; i++) {
        const PostItem *p = &l->p[i];
        json_w_object(w);
        json_w_key(w, p->kind == POST_TOKEN ? STR("SpecialToken") : STR("Sequence"));
        json_w_object(w);
        put_str(w, "id",
                p->kind == POST_TOKEN ? tokenizer_token_text(t, p->id)
                : p->kind == POST_A   ? STR("A")
                                      : STR("B"));
        json_w_key(w, STR("type_id"));
        json_w_u64(w, p->type);
        json_w_end(w);
        json_w_end(w);
    }
    json_w_end(w);
}

static bool is_named_before(const PostList *l, size_t end) {
    for (size_t i = 0; i < end; i++)
        if (l->p[i].kind == POST_TOKEN && l->p[i].id == l->p[end].id) return true;
    return false;
}

static void put_post(JsonWriter *w, const Tokenizer *t) {
    const PostList *l = &t->post.single;
    bool any = false;
    for (size_t i = 0; i < l->n; i++) any = any || l->p[i].kind == POST_TOKEN;
    json_w_key(w, STR("post_processor"));
    if (!any) {
        json_w_null(w);
        return;
    }
    open_typed(w, "TemplateProcessing");
    put_post_list(w, t, "single", l);
    put_post_list(w, t, "pair", &t->post.pair);
    json_w_key(w, STR("special_tokens"));
    json_w_object(w);
    for (size_t i = 0; i < l->n; i++) {
        if (l->p[i].kind != POST_TOKEN || is_named_before(l, i)) continue;
        Str text = tokenizer_token_text(t, l->p[i].id);
        json_w_key(w, text);
        json_w_object(w);
        put_str(w, "id", text);
        json_w_key(w, STR("ids"));
        json_w_array(w);
        json_w_u64(w, l->p[i].id);
        json_w_end(w);
        json_w_key(w, STR("tokens"));
        json_w_array(w);
        json_w_str(w, text);
        json_w_end(w);
        json_w_end(w);
    }
    json_w_end(w);
    json_w_end(w);
}

static bool put_decoder(JsonWriter *w, const TokDecoder *d, Err *err) {
    json_w_key(w, STR("decoder"));
    open_typed(w, "Sequence");
    json_w_key(w, STR("decoders"));
    json_w_array(w);
    for (size_t i = 0; i < d->n; i++) {
        const DecStep *s = &d->steps[i];
        switch (s->kind) {
        case DEC_BYTE_LEVEL:
            put_byte_level(w);
            break;
        case DEC_REPLACE:
            put_replace(w, "String", s->text, s->content);
            break;
        case DEC_BYTE_FALLBACK:
        case DEC_FUSE:
            open_typed(w, s->kind == DEC_FUSE ? "Fuse" : "ByteFallback");
            json_w_end(w);
            break;
        case DEC_WORDPIECE:
            open_typed(w, "WordPiece");
            put_str(w, "prefix", s->text);
            put_bool(w, "cleanup", s->cleanup);
            json_w_end(w);
            break;
        case DEC_STRIP:
            open_typed(w, "Strip");
            put_str(w, "content", s->text);
            json_w_key(w, STR("start"));
            json_w_u64(w, s->start);
            json_w_key(w, STR("stop"));
            json_w_u64(w, s->stop);
            json_w_end(w);
            break;
        default:
            return err_set(err, ERR_INTERNAL, "a decoder of kind %d", (int)s->kind);
        }
    }
    json_w_end(w);
    json_w_end(w);
    return true;
}

/* Of tokens that are spelled alike a file can keep one. */
static void put_vocab(JsonWriter *w, const Tokenizer *t) {
    size_t n = tokenizer_n_vocab(t), lost = 0;
    json_w_key(w, STR("vocab"));
    json_w_object(w);
    for (size_t id = 0; id < n; id++) {
        uint32_t found;
        Str text = tokenizer_token_text(t, (uint32_t)id);
        if (!text.p) continue;
        if (!tokenizer_find(t, text, &found) || found != id) {
            lost++;
            continue;
        }
        json_w_key(w, text);
        json_w_u64(w, id);
    }
    json_w_end(w);
    if (lost) log_warn("%zu tokens are spelled like others and are left out", lost);
}

/* By rank; of one rank, as sorted pairs. */
static int compare_merges(const void *a, const void *b) {
    const BpeMerge *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return x->pair < y->pair ? -1 : x->pair > y->pair;
}

static bool put_merges(JsonWriter *w, const Tokenizer *t, Err *err) {
    const Bpe *b = &t->bpe;
    size_t n = 0;
    BpeMerge *list = mem_resize_array(NULL, b->n_slots + 1, sizeof *list);
    if (!list) return err_nomem(err, "merges");
    for (size_t i = 0; i < b->n_slots; i++)
        if (b->slots[i].rank != UINT32_MAX) list[n++] = b->slots[i];
    qsort(list, n, sizeof *list, compare_merges);
    json_w_key(w, STR("merges"));
    json_w_array(w);
    for (size_t i = 0; i < n; i++) {
        json_w_array(w);
        json_w_str(w, tokenizer_token_text(t, (uint32_t)(list[i].pair >> 32)));
        json_w_str(w, tokenizer_token_text(t, (uint32_t)list[i].pair));
        json_w_end(w);
    }
    json_w_end(w);
    mem_free(list);
    return true;
}

static void put_wordpiece(JsonWriter *w, const Tokenizer *t) {
    json_w_key(w, STR("model"));
    open_typed(w, "WordPiece");
    put_str(w, "unk_token", t->wordpiece.unk);
    put_str(w, "continuing_subword_prefix", t->wordpiece.prefix);
    json_w_key(w, STR("max_input_chars_per_word"));
    json_w_u64(w, t->wordpiece.max_chars);
    put_vocab(w, t);
    json_w_end(w);
}

static void put_unigram(JsonWriter *w, const Tokenizer *t) {
    const Unigram *u = &t->unigram;
    size_t n = tokenizer_n_vocab(t);
    json_w_key(w, STR("model"));
    open_typed(w, "Unigram");
    json_w_key(w, STR("unk_id"));
    u->unk_id == TOK_NONE ? json_w_null(w) : json_w_u64(w, u->unk_id);
    json_w_key(w, STR("vocab"));
    json_w_array(w);
    for (size_t id = 0; id < n; id++) {
        json_w_array(w);
        json_w_str(w, tokenizer_token_text(t, (uint32_t)id));
        json_w_f64(w, id < u->n_scores ? u->scores[id] : 0);
        json_w_end(w);
    }
    json_w_end(w);
    put_bool(w, "byte_fallback", u->byte_fallback);
    json_w_end(w);
}

static bool put_model(JsonWriter *w, const Tokenizer *t, Err *err) {
    if (t->kind == MODEL_WORDPIECE) return put_wordpiece(w, t), true;
    if (t->kind == MODEL_UNIGRAM) return put_unigram(w, t), true;
    const Bpe *b = &t->bpe;
    json_w_key(w, STR("model"));
    open_typed(w, "BPE");
    put_null(w, "dropout");
    if (b->has_unk)
        put_str(w, "unk_token", b->unk);
    else
        put_null(w, "unk_token");
    put_null(w, "continuing_subword_prefix");
    put_null(w, "end_of_word_suffix");
    put_bool(w, "fuse_unk", b->fuse_unk);
    put_bool(w, "byte_fallback", b->byte_fallback);
    put_bool(w, "ignore_merges", b->ignore_merges);
    put_vocab(w, t);
    if (!put_merges(w, t, err)) return false;
    json_w_end(w);
    return true;
}

bool vocab_to_json(const Gguf *g, const Tokenizer *t, Buf *out, Err *err) {
    JsonWriter w = {.out = out};
    Str model = STR_NONE, name = STR_NONE;
    (void)gguf_str(gguf_get(g, "tokenizer.ggml.model"), &model);
    (void)gguf_str(gguf_get(g, "tokenizer.ggml.pre"), &name);
    bool other = t->kind == MODEL_WORDPIECE || (t->kind == MODEL_UNIGRAM && t->norm.n == 1);
    if (t->kind != MODEL_BPE && !other)
        return err_set(err, ERR_UNSUPPORTED,
                       "tokenizer.ggml.model \"" STR_F
                       "\": gpt2, gemma4, llama, t5 and bert are written as tokenizer.json",
                       STR_A(model));
    json_w_object(&w);
    put_str(&w, "version", STR("1.0"));
    put_null(&w, "truncation");
    put_null(&w, "padding");
    put_added(&w, t);
    if (!put_normalizer(&w, &t->norm, err)) return false;
    if (other)
        put_other_pretokenizer(&w, t);
    else
        put_pretokenizer(&w, t->pretok.n ? ggufpre_find(name) : NULL);
    put_post(&w, t);
    if (!put_decoder(&w, &t->dec, err) || !put_model(&w, t, err)) return false;
    json_w_end(&w);
    buf_putc(out, '\n');
    return buf_check(out, "tokenizer.json", err);
}
