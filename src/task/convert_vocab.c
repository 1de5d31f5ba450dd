/* The vocabulary of a GGUF from tokenizer.json: byte-level BPE ("gpt2", with merges and the name of
 * its way of cutting text), SentencePiece-like BPE ("llama", with scores that order the merges) and
 * Unigram ("t5", with its scores and its map of characters), these two from tokenizer.model too, and
 * WordPiece ("bert", words with U+2581 in front instead of continuations with ##).
 * A checkpoint without a tokenizer gives a file without one. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/os.h"
#include "task/convert_plan.h"
#include "text/gguf_pre.h"
#include "text/spm_build.h"
#include "text/tokenizer.h"
#include "text/vocab_parts.h"

enum { /* tokenizer.ggml.token_type */
       NORMAL = 1,
       UNKNOWN = 2,
       CONTROL = 3,
       USER_DEFINED = 4,
       UNUSED = 5,
       BYTE = 6
};

typedef struct Vocabulary {
    const ConvertPlan *p;
    GgufOut *out;
    Tokenizer *t;
    const Json *json; /* tokenizer.json */
    const Json *model;
    size_t n; /* tokens: as many as the model has rows */
    Str *tokens;
    int32_t *types;
    Arena *a;
} Vocabulary;

static int32_t type_of(const Vocabulary *v, uint32_t id, Str text, bool is_spm) {
    if (tokenizer_role(v->t, TOK_UNK) == id && is_spm) return UNKNOWN;
    if (is_spm && text.n == 6 && str_starts(text, STR("<0x")) && text.p[5] == '>') {
        char digits[3] = {text.p[3], text.p[4], 0};
        if (strspn(digits, "0123456789ABCDEF") == 2) return BYTE;
    }
    if (tokenizer_is_special(v->t, id)) return CONTROL;
    if (is_spm && spm_is_kept(v->t, text)) return USER_DEFINED;
    return tokenizer_is_added(v->t, id) ? USER_DEFINED : NORMAL;
}

static bool list_tokens(Vocabulary *v, bool is_spm, Err *err) {
    v->n = v->p->arch.vocab;
    v->tokens = arena_array(v->a, Str, v->n);
    v->types = arena_array(v->a, int32_t, v->n);
    if (!v->tokens || !v->types) return err_nomem(err, "a vocabulary");
    size_t known = tokenizer_n_vocab(v->t);
    if (known > v->n)
        log_warn("%zu tokens of the tokenizer lie above the model's %zu and are left out",
                 known - v->n, v->n);
    for (size_t i = 0; i < v->n; i++) {
        Str text = tokenizer_token_text(v->t, (uint32_t)i);
        if (text.p) {
            v->tokens[i] = text;
            v->types[i] = type_of(v, (uint32_t)i, text, is_spm);
            continue;
        }
        char *pad = arena_array(v->a, char, 24);
        if (!pad) return err_nomem(err, "a vocabulary");
        v->tokens[i] = (Str){pad, (size_t)snprintf(pad, 24, "[PAD%zu]", i)};
        v->types[i] = UNUSED;
    }
    return true;
}

/* One entry of "merges": "a b", or ["a", "b"]. */
static bool merge_at(const Json *j, Str *left, Str *right) {
    Str text;
    if (j->type == JSON_ARRAY)
        return j->n == 2 && json_str(&j->items[0], left) && json_str(&j->items[1], right);
    if (!json_str(j, &text)) return false;
    size_t blank = str_find_char(text, ' ', 1);
    *left = str_slice(text, 0, blank);
    *right = blank == STR_NPOS ? STR_NONE : str_from(text, blank + 1);
    return blank != STR_NPOS;
}

static bool joined(Arena *a, Str l, const char *between, Str r, Str *out) {
    size_t mid = strlen(between), n;
    if (!size_add(l.n, r.n, &n) || !size_add(n, mid, &n)) return false;
    char *p = arena_array(a, char, n + 1);
    if (!p) return false;
    if (l.n) memcpy(p, l.p, l.n);
    memcpy(p + l.n, between, mid);
    if (r.n) memcpy(p + l.n + mid, r.p, r.n);
    *out = (Str){p, n};
    return true;
}

static bool put_merges(Vocabulary *v, Err *err) {
    const Json *list = json_get(v->model, "merges");
    size_t n = json_is(list, JSON_ARRAY) ? list->n : 0;
    Str *merges = arena_array(v->a, Str, n + 1), l, r;
    if (!merges) return err_nomem(err, "merges");
    for (size_t i = 0; i < n; i++) {
        if (!merge_at(&list->items[i], &l, &r))
            return err_set(err, ERR_CORRUPT, "tokenizer.json: merge %zu is no pair", i);
        if (str_find_char(l, ' ', 0) != STR_NPOS || str_find_char(r, ' ', 0) != STR_NPOS)
            return err_set(err, ERR_UNSUPPORTED, "tokenizer.json: merge %zu has a blank", i);
        if (!joined(v->a, l, " ", r, &merges[i])) return err_nomem(err, "merges");
    }
    gguf_write_strs(v->out, "tokenizer.ggml.merges", merges, n);
    return true;
}

/* SentencePiece merges the pair whose result scores highest: the earliest merge. */
static bool put_scores(Vocabulary *v, Err *err) {
    const Json *list = json_get(v->model, "merges");
    size_t n = json_is(list, JSON_ARRAY) ? list->n : 0;
    float *scores = arena_array(v->a, float, v->n);
    Map first = {0};
    bool ok = scores && map_reserve(&first, n);
    for (size_t i = 0; ok && i < n; i++) {
        Str l, r, whole;
        uint64_t seen;
        if (!merge_at(&list->items[i], &l, &r)) continue;
        ok = joined(v->a, l, "", r, &whole);
        if (ok && !map_get(&first, whole, &seen)) ok = map_put(&first, whole, i);
    }
    for (size_t i = 0; ok && i < v->n; i++) {
        uint64_t rank;
        bool merged = map_get(&first, v->tokens[i], &rank);
        /* what no merge makes ranks behind all; single characters are never compared */
        scores[i] = v->types[i] != NORMAL ? 0 : merged ? -(float)rank : -(float)n - 1;
    }
    map_deinit(&first);
    if (!ok) return err_nomem(err, "scores");
    gguf_write_f32s(v->out, "tokenizer.ggml.scores", scores, v->n);
    return true;
}

static bool has_step(const Json *j, const char *type) {
    Str name;
    if (!j || j->type != JSON_OBJECT) return false;
    if (json_str(json_get(j, "type"), &name) && str_eqc(name, type)) return true;
    static const char *const LISTS[] = {"normalizers", "pretokenizers"};
    for (size_t k = 0; k < 2; k++) {
        const Json *list = json_get(j, LISTS[k]);
        for (size_t i = 0; list && i < list->n; i++)
            if (has_step(&list->items[i], type)) return true;
    }
    return false;
}

/* Does a blank stand in front of a text, before it is tokenized? */
static bool has_prefix_blank(const Vocabulary *v) {
    const Json *pre = json_get(v->json, "pre_tokenizer");
    Str scheme;
    bool add;
    if (has_step(json_get(v->json, "normalizer"), "Prepend")) return true;
    if (!has_step(pre, "Metaspace")) return false;
    if (json_str(json_get(pre, "prepend_scheme"), &scheme)) return !str_eqc(scheme, "never");
    return !json_bool(json_get(pre, "add_prefix_space"), &add) || add;
}

static void put_role(const Vocabulary *v, const char *name, uint32_t id) {
    char key[64];
    if (id == TOK_NONE || id >= v->n) return;
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
    gguf_write_u32(v->out, key, id);
}

/* The tokenizer's, or the first that a config names. */
static uint32_t role_or_config(const Vocabulary *v, TokRole role, const char *key) {
    uint32_t id = tokenizer_role(v->t, role);
    const Config *configs[] = {&v->p->ck->config, &v->p->ck->generation};
    for (int i = 0; i < 2 && id == TOK_NONE; i++) {
        const int64_t *ids;
        size_t n;
        Err ignored = {0};
        if (configs[i]->json && config_ints(configs[i], key, v->a, &ids, &n, &ignored) && n &&
            ids[0] >= 0 && (uint64_t)ids[0] < v->n)
            id = (uint32_t)ids[0];
    }
    return id;
}

static void put_roles(const Vocabulary *v) {
    put_role(v, "bos", role_or_config(v, TOK_BOS, "bos_token_id"));
    put_role(v, "eos", role_or_config(v, TOK_EOS, "eos_token_id"));
    put_role(v, "eot", tokenizer_role(v->t, TOK_EOT));
    put_role(v, "unknown", tokenizer_role(v->t, TOK_UNK));
    put_role(v, "padding", role_or_config(v, TOK_PAD, "pad_token_id"));
    put_role(v, "cls", tokenizer_role(v->t, TOK_CLS));
    put_role(v, "seperator", tokenizer_role(v->t, TOK_SEP)); /* spelt so in the format */
    put_role(v, "mask", tokenizer_role(v->t, TOK_MASK));
}

/* What stands around a text by itself: keys can say BOS in front and EOS behind. */
static bool put_ends(const Vocabulary *v, Err *err) {
    TokIds bare = {0}, all = {0};
    bool ok = tokenizer_encode_text(v->t, STR("a"), false, false, &bare, err) &&
              tokenizer_encode_text(v->t, STR("a"), true, false, &all, err);
    size_t extra = ok && all.n >= bare.n ? all.n - bare.n : 0;
    bool bos = ok && extra && all.p[0] == role_or_config(v, TOK_BOS, "bos_token_id");
    bool eos = ok && extra > bos && all.p[all.n - 1] == role_or_config(v, TOK_EOS, "eos_token_id");
    if (extra != (size_t)bos + eos)
        log_warn("the tokenizer puts %zu tokens around a text; the GGUF can say %d", extra,
                 bos + eos);
    gguf_write_bool(v->out, "tokenizer.ggml.add_bos_token", bos);
    gguf_write_bool(v->out, "tokenizer.ggml.add_eos_token", eos);
    tokids_deinit(&bare);
    tokids_deinit(&all);
    return ok;
}

static void put_tokens(Vocabulary *v, const char *model, Str pre) {
    gguf_write_str(v->out, "tokenizer.ggml.model", str_c(model));
    gguf_write_str(v->out, "tokenizer.ggml.pre", pre);
    gguf_write_strs(v->out, "tokenizer.ggml.tokens", v->tokens, v->n);
    gguf_write_i32s(v->out, "tokenizer.ggml.token_type", v->types, v->n);
}

/* chat_template.jinja, or "chat_template" of tokenizer_config.json: a text, or the list's
 * "default". */
static bool put_template(const Vocabulary *v, Err *err) {
    Buf text = {0};
    Json *doc;
    Str found = STR_NONE;
    Err absent = {0};
    const Checkpoint *ck = v->p->ck;
    if (checkpoint_read_file(ck, "chat_template.jinja", 1 << 24, &text, &absent)) {
        found = buf_str(&text);
    } else if (checkpoint_read_file(ck, "tokenizer_config.json", 1 << 26, &text, &absent)) {
        const JsonOptions opt = {.dup = JSON_DUP_LAST};
        if (!json_parse(buf_str(&text), &opt, v->a, &doc, err)) {
            buf_deinit(&text);
            return err_wrap(err, "tokenizer_config.json");
        }
        const Json *j = json_get(doc, "chat_template");
        for (size_t i = 0; json_is(j, JSON_ARRAY) && i < j->n; i++) {
            Str name;
            if (json_str(json_get(&j->items[i], "name"), &name) && str_eqc(name, "default"))
                (void)json_str(json_get(&j->items[i], "template"), &found);
        }
        if (j && j->type == JSON_STRING) found = j->text;
    }
    if (found.n) gguf_write_str(v->out, "tokenizer.chat_template", found);
    buf_deinit(&text);
    return true;
}

static bool read_json(Vocabulary *v, Err *err) {
    Buf text = {0};
    Json *doc;
    const JsonOptions opt = {.dup = JSON_DUP_LAST};
    bool ok =
        checkpoint_read_file(v->p->ck, "tokenizer.json", TOK_MAX_FILE_BYTES, &text, err) &&
        (json_parse(buf_str(&text), &opt, v->a, &doc, err) || err_wrap(err, "tokenizer.json"));
    buf_deinit(&text);
    if (!ok) return false;
    v->json = doc;
    v->model = json_get(doc, "model");
    return true;
}

/* From tokenizer.model. */
static bool put_spm(Vocabulary *v, Err *err) {
    bool space = false;
    float *scores = arena_array(v->a, float, v->p->arch.vocab);
    if (!scores) return err_nomem(err, "scores");
    if (!spm_scores(v->t, scores, v->p->arch.vocab, &space, err) || !list_tokens(v, true, err))
        return false;
    for (size_t i = 0; i < v->n; i++)
        if (v->types[i] != NORMAL && v->types[i] != USER_DEFINED) scores[i] = 0;
    put_tokens(v, "llama", STR("default"));
    gguf_write_f32s(v->out, "tokenizer.ggml.scores", scores, v->n);
    gguf_write_bool(v->out, "tokenizer.ggml.add_space_prefix", space);
    put_roles(v);
    return put_ends(v, err) && put_template(v, err);
}

/* ---- Unigram ---- */

static bool put_unigram(Vocabulary *v, Err *err) {
    static const unsigned char LENGTH_BYTES = 4;
    VocabParts parts;
    float *scores = arena_array(v->a, float, v->p->arch.vocab);
    if (!scores) return err_nomem(err, "scores");
    if (!vocab_parts(v->t, &parts, err) || !list_tokens(v, true, err)) return false;
    for (size_t i = 0; i < v->n; i++)
        scores[i] =
            i < parts.n_scores && v->types[i] != UNUSED ? (float)parts.scores[i] : -10000.0f;
    put_tokens(v, "t5", STR("default"));
    gguf_write_f32s(v->out, "tokenizer.ggml.scores", scores, v->n);
    gguf_write_bool(v->out, "tokenizer.ggml.add_space_prefix", parts.dummy_prefix);
    gguf_write_bool(v->out, "tokenizer.ggml.remove_extra_whitespaces", parts.squeeze);
    if (parts.map_trie.n) { /* the length of the first part, then both */
        Buf head = {0};
        for (int i = 0; i < LENGTH_BYTES; i++)
            buf_putc(&head, (char)(parts.map_trie.n >> (8 * i) & 0xFF));
        buf_put(&head, parts.map_trie);
        if (!head.failed)
            gguf_write_bytes(v->out, "tokenizer.ggml.precompiled_charsmap", buf_str(&head),
                             parts.map_pool);
        bool ok = buf_check(&head, "a map of characters", err);
        buf_deinit(&head);
        if (!ok) return false;
    }
    put_roles(v);
    return put_ends(v, err) && put_template(v, err);
}

/* ---- WordPiece ---- */

static bool turn_words(Vocabulary *v, Err *err) {
    static const Str CONTINUES = {"##", 2};
    for (size_t i = 0; i < v->n; i++) {
        Str *t = &v->tokens[i];
        if (v->types[i] == CONTROL || v->types[i] == UNUSED) continue;
        if (str_starts(*t, CONTINUES))
            *t = str_from(*t, CONTINUES.n);
        else if (!joined(v->a, STR_NONE, "\xE2\x96\x81", *t, t))
            return err_nomem(err, "a vocabulary");
    }
    return true;
}

static bool put_wordpiece(Vocabulary *v, Err *err) {
    VocabParts parts;
    TokIds ids = {0};
    if (!vocab_parts(v->t, &parts, err) || !list_tokens(v, false, err) || !turn_words(v, err))
        return false;
    put_tokens(v, "bert", STR("default"));
    gguf_write_bool(v->out, "tokenizer.ggml.normalizer.lowercase", parts.lowercase);
    gguf_write_bool(v->out, "tokenizer.ggml.normalizer.strip_accents", parts.strip_accents);
    put_roles(v);
    bool ok = tokenizer_encode_text(v->t, STR("a"), true, false, &ids, err);
    uint32_t cls = tokenizer_role(v->t, TOK_CLS), sep = tokenizer_role(v->t, TOK_SEP);
    bool first = ok && ids.n && ids.p[0] == cls, last = ok && ids.n && ids.p[ids.n - 1] == sep;
    gguf_write_bool(v->out, "tokenizer.ggml.add_bos_token", first);
    gguf_write_bool(v->out, "tokenizer.ggml.add_sep_token", last);
    tokids_deinit(&ids);
    return ok;
}

static bool put_all(Vocabulary *v, Err *err) {
    Str pre = STR("default");
    bool fallback = false;
    Err why = {0};
    if (str_eqc(str_c(tokenizer_kind(v->t)), "Unigram")) return put_unigram(v, err);
    if (str_eqc(str_c(tokenizer_kind(v->t)), "WordPiece")) return put_wordpiece(v, err);
    if (!read_json(v, &why)) {
        if (why.kind == ERR_NOT_FOUND) return put_spm(v, err);
        if (err) *err = why;
        return false;
    }
    (void)json_bool(json_get(v->model, "byte_fallback"), &fallback);
    bool is_bpe = str_eqc(str_c(tokenizer_kind(v->t)), "BPE");
    if (!is_bpe)
        return err_set(
            err, ERR_UNSUPPORTED,
            "a %s tokenizer: BPE, Unigram and WordPiece vocabularies are written to GGUF "
            "files",
            tokenizer_kind(v->t));
    if (!fallback && !ggufpre_match(v->t, &pre, err)) return false;
    if (!list_tokens(v, fallback, err)) return false;
    put_tokens(v, fallback ? "llama" : "gpt2", pre);
    if (!(fallback ? put_scores(v, err) : put_merges(v, err))) return false;
    if (fallback) gguf_write_bool(v->out, "tokenizer.ggml.add_space_prefix", has_prefix_blank(v));
    put_roles(v);
    return put_ends(v, err) && put_template(v, err);
}

bool convert_vocab(const ConvertPlan *p, GgufOut *out, Err *err) {
    Err why = {0};
    Vocabulary v = {.p = p, .out = out, .a = p->a};
    if (tokenizer_load_checkpoint(p->ck, &v.t, &why)) {
        bool ok = put_all(&v, err);
        tokenizer_free(v.t);
        return ok;
    }
    if (why.kind != ERR_NOT_FOUND) {
        if (err) *err = why;
        return false;
    }
    gguf_write_str(out, "tokenizer.ggml.model", STR("none"));
    return true;
}
