/* The vocabulary inside a GGUF: tokenizer.ggml.model says which kind, the other keys fill it. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ckpt/gguf.h"
#include "text/gguf_pre.h"
#include "text/load_model.h"
#include "text/spm_build.h"
#include "text/tokenizer_priv.h"

typedef struct Source {
    const Gguf *g;
    Tokenizer *t;
    const Str *tokens;
    uint8_t *kinds; /* of each token; SPM_NORMAL if the file says nothing */
    float *scores;  /* 0 if the file says nothing */
    size_t n;
    Arena tmp;
    const GgufPre *pre;
    bool add_bos, add_eos, add_sep, space_prefix;
} Source;

static bool flag(const Gguf *g, const char *key, bool dflt) {
    bool v;
    return gguf_bool(gguf_get(g, key), &v) ? v : dflt;
}

static bool read_tokens(Source *s, Err *err) {
    const GgufValue *v = gguf_get(s->g, "tokenizer.ggml.tokens");
    if (!v) return err_set(err, ERR_INPUT, "GGUF has no tokenizer.ggml.tokens");
    if (!gguf_strs(v, &s->tmp, &s->tokens, &s->n, err)) return false;
    s->kinds = arena_array(&s->tmp, uint8_t, s->n + 1);
    s->scores = arena_array(&s->tmp, float, s->n + 1);
    if (!s->kinds || !s->scores) return err_nomem(err, "vocabulary");
    memset(s->kinds, SPM_NORMAL, s->n);
    const int64_t *kinds;
    const float *scores;
    size_t n;
    v = gguf_get(s->g, "tokenizer.ggml.token_type");
    if (v && !gguf_ints(v, &s->tmp, &kinds, &n, err)) return false;
    if (v && n < s->n)
        return err_set(err, ERR_CORRUPT, "GGUF has %zu tokens, but %zu token types", s->n, n);
    for (size_t i = 0; v && i < s->n; i++)
        s->kinds[i] = kinds[i] >= 0 && kinds[i] <= 6 ? (uint8_t)kinds[i] : SPM_NORMAL;
    v = gguf_get(s->g, "tokenizer.ggml.scores");
    if (v && !gguf_f32s(v, &s->tmp, &scores, &n, err)) return false;
    if (v && n < s->n)
        return err_set(err, ERR_CORRUPT, "GGUF has %zu tokens, but %zu scores", s->n, n);
    if (v) memcpy(s->scores, scores, s->n * sizeof *scores);
    return true;
}

static bool fill_vocab(Source *s, Err *err) {
    if (!vocab_reserve(&s->t->vocab, s->n)) return err_nomem(err, "vocabulary");
    for (size_t i = 0; i < s->n; i++)
        if (!vocab_add(&s->t->vocab, s->tokens[i], (uint32_t)i))
            return err_nomem(err, "vocabulary");
    return true;
}

/* Control and unknown tokens are special; user-defined ones are found in any text. */
static bool fill_added(Source *s, Err *err) {
    Str name = STR_NONE;
    (void)gguf_str(gguf_get(s->g, "general.name"), &name);
    bool phi3 = false; /* Phi-3 strips the white space behind its markers; the file cannot say so */
    for (size_t i = 0; i < name.n && !phi3; i++)
        phi3 = str_ieq(str_slice(name, i, i + 5), STR("phi-3")) ||
               str_ieq(str_slice(name, i, i + 4), STR("phi3"));
    for (size_t i = 0; i < s->n; i++) {
        if (s->kinds[i] != SPM_CONTROL && s->kinds[i] != SPM_UNKNOWN &&
            s->kinds[i] != SPM_USER_DEFINED)
            continue;
        AddedToken a = {
            .text = s->tokens[i], .id = (uint32_t)i, .special = s->kinds[i] != SPM_USER_DEFINED};
        a.rstrip = phi3 && !str_eqc(a.text, "<unk>") && !str_eqc(a.text, "<s>") &&
                   !str_eqc(a.text, "<|endoftext|>");
        a.lstrip =
            str_eqc(a.text, "<mask>") || (s->t->kind == MODEL_BPE && str_eqc(a.text, "[MASK]"));
        if (!tokenizer_add_token(s->t, a, err)) return false;
    }
    return true;
}

/* --- byte-level BPE --- */

static bool fill_merges(Source *s, Err *err) {
    const GgufValue *v = gguf_get(s->g, "tokenizer.ggml.merges");
    const Str *merges;
    size_t n = 0, lost = 0;
    if (!v) return err_set(err, ERR_INPUT, "GGUF has no tokenizer.ggml.merges");
    if (!gguf_strs(v, &s->tmp, &merges, &n, err)) return false;
    MergeAdder m = {.t = s->t};
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        size_t blank = str_find_char(merges[i], ' ', 1);
        Str l = str_slice(merges[i], 0, blank),
            r = blank == STR_NPOS ? STR_NONE : str_from(merges[i], blank + 1);
        if (blank == STR_NPOS)
            ok = err_set(err, ERR_CORRUPT, "GGUF merge \"" STR_F "\" has no blank",
                         STR_A(merges[i]));
        else if (!merges_known(&m, l, r))
            lost++; /* converters leave merges of cut vocabularies behind */
        else
            ok = merges_add(&m, l, r, err);
    }
    ok = ok && merges_flush(&m, err);
    buf_deinit(&m.joined);
    if (lost) log_note("%zu of %zu merges name tokens that the vocabulary lacks", lost, n);
    return ok;
}

/* Vocabularies of raw bytes without merges (Kimi): the rank of a token is its id. */
static bool merges_by_id(Source *s, Err *err) {
    for (size_t i = 0; i < s->n; i++) {
        Str t = s->tokens[i];
        if (s->kinds[i] != SPM_NORMAL || t.n == 0 || t.n > 256) continue;
        for (size_t k = utf8_length_of(t.p[0]); k < t.n; k += utf8_length_of(t.p[k])) {
            uint32_t l = vocab_find(&s->t->vocab, str_slice(t, 0, k));
            uint32_t r = l == TOK_NONE ? TOK_NONE : vocab_find(&s->t->vocab, str_from(t, k));
            if (r != TOK_NONE && !bpe_add_merge(&s->t->bpe, l, r, (uint32_t)i, (uint32_t)i))
                return err_nomem(err, "merges");
        }
    }
    return true;
}

/* pre: of models that need not name it; otherwise none. */
static bool load_bpe(Source *s, Str pre, Err *err) {
    Tokenizer *t = s->t;
    Str name = pre;
    if (!name.n) (void)gguf_str(gguf_get(s->g, "tokenizer.ggml.pre"), &name);
    s->pre = ggufpre_find(name);
    if (!s->pre)
        return err_set(err, ERR_UNSUPPORTED, "tokenizer.ggml.pre \"" STR_F "\" is not known",
                       STR_A(name));
    t->kind = MODEL_BPE;
    t->bpe.ignore_merges = s->pre->ignore_merges;
    s->add_bos = s->pre->add_bos;
    s->add_sep = s->pre->add_sep;
    if (s->pre->nfc &&
        !normalizer_push(&t->norm, (NormStep){.kind = NORM_UNICODE, .form = UNICODE_NFC}, err))
        return false;
    bool by_id = str_eqc(name, "kimi-k2") && !gguf_get(s->g, "tokenizer.ggml.merges");
    if (!fill_vocab(s, err) || !(by_id ? merges_by_id(s, err) : fill_merges(s, err))) return false;
    if (s->pre->escape_blanks) {
        NormStep blank = {.kind = NORM_REPLACE, .text = STR(" "), .content = STR("\xE2\x96\x81")};
        t->bpe.byte_fallback = t->bpe.fuse_unk = true;
        return normalizer_push(&t->norm, blank, err) && spm_build_decoder(t, false, err);
    }
    for (int i = 0; i < GGUF_PRE_MAX_PARTS && s->pre->parts[i]; i++)
        if (!pretok_push_regex(&t->pretok, str_c(s->pre->parts[i]), SPLIT_ISOLATED, false, err))
            return false;
    return pretok_push(&t->pretok, (PretokStep){.kind = PRETOK_BYTE_LEVEL}, err) &&
           decoder_push(&t->dec, (DecStep){.kind = DEC_BYTE_LEVEL}, err);
}

/* --- SentencePiece --- */

static bool load_llama(Source *s, Err *err) {
    Tokenizer *t = s->t;
    t->kind = MODEL_BPE;
    t->bpe.byte_fallback = t->bpe.fuse_unk = true;
    s->add_bos = true;
    s->space_prefix = flag(s->g, "tokenizer.ggml.add_space_prefix", true);
    for (size_t i = 0; i < s->n && !t->bpe.has_unk; i++)
        if (s->kinds[i] == SPM_UNKNOWN) {
            t->bpe.has_unk = true;
            t->bpe.unk = arena_dup(&t->arena, s->tokens[i]);
        }
    NormStep prefix = {.kind = NORM_PREPEND, .text = STR("\xE2\x96\x81")};
    NormStep blank = {.kind = NORM_REPLACE, .text = STR(" "), .content = STR("\xE2\x96\x81")};
    return fill_vocab(s, err) && spm_build_merges(t, s->scores, s->kinds, s->n, err) &&
           (!s->space_prefix || normalizer_push(&t->norm, prefix, err)) &&
           normalizer_push(&t->norm, blank, err) && spm_build_decoder(t, s->space_prefix, err);
}

static bool load_t5(Source *s, Err *err) {
    Tokenizer *t = s->t;
    const GgufValue *v = gguf_get(s->g, "tokenizer.ggml.precompiled_charsmap");
    NormStep st = {.kind = NORM_SENTENCEPIECE, .escape = true};
    s->add_eos = true;
    st.dummy_prefix = flag(s->g, "tokenizer.ggml.add_space_prefix", true);
    st.squeeze = flag(s->g, "tokenizer.ggml.remove_extra_whitespaces", false);
    if (v && (v->type != GGUF_ARRAY || (v->element != GGUF_U8 && v->element != GGUF_I8)))
        return err_set(err, ERR_CORRUPT,
                       "tokenizer.ggml.precompiled_charsmap must be an array of bytes");
    if (v) {
        Str blob = arena_dup(&t->arena, v->bytes);
        if (!blob.p && v->bytes.n) return err_nomem(err, "character map");
        if (!charsmap_open(&st.map, blob, err)) return false;
    }
    int64_t unk = 2;
    (void)gguf_int(gguf_get(s->g, "tokenizer.ggml.unknown_token_id"), &unk);
    t->unigram.unk_id = unk >= 0 && (uint64_t)unk < s->n ? (uint32_t)unk : TOK_NONE;
    return fill_vocab(s, err) && spm_build_unigram(t, s->scores, s->kinds, s->n, err) &&
           normalizer_push(&t->norm, st, err) && spm_build_decoder(t, st.dummy_prefix, err);
}

/* --- WordPiece: words carry U+2581 in front instead of continuations "##" --- */

static bool load_bert(Source *s, Err *err) {
    Tokenizer *t = s->t;
    Buf b = {0};
    bool ok = vocab_reserve(&t->vocab, s->n),
         lower = flag(s->g, "tokenizer.ggml.normalizer.lowercase", true);
    for (size_t i = 0; ok && i < s->n; i++) {
        Str x = s->tokens[i];
        bool bracket = str_starts(x, STR("[")) && str_ends(x, STR("]"));
        buf_clear(&b);
        if (str_starts(x, STR("\xE2\x96\x81")))
            x = str_from(x, 3);
        else if (s->kinds[i] == SPM_NORMAL && !bracket)
            buf_put(&b, STR("##"));
        buf_put(&b, x);
        ok = !b.failed && vocab_add(&t->vocab, buf_str(&b), (uint32_t)i);
    }
    buf_deinit(&b);
    if (!ok) return err_nomem(err, "vocabulary");
    t->kind = MODEL_WORDPIECE;
    t->wordpiece.prefix = STR("##");
    t->wordpiece.max_chars = 100;
    int64_t unk = 100;
    (void)gguf_int(gguf_get(s->g, "tokenizer.ggml.unknown_token_id"), &unk);
    t->wordpiece.unk =
        unk >= 0 && (uint64_t)unk < s->n ? arena_dup(&t->arena, s->tokens[unk]) : STR("[UNK]");
    s->add_bos = s->add_sep = true;
    NormStep norm = {.kind = NORM_BERT, .clean = true, .chinese = true, .lowercase = lower};
    norm.strip_accents = flag(s->g, "tokenizer.ggml.normalizer.strip_accents", lower);
    return normalizer_push(&t->norm, norm, err) &&
           pretok_push(&t->pretok, (PretokStep){.kind = PRETOK_BERT}, err) &&
           decoder_push(&t->dec,
                        (DecStep){.kind = DEC_WORDPIECE, .text = STR("##"), .cleanup = true}, err);
}

/* --- RWKV: greedy longest match over bytes; spellings are escaped --- */

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static void unescape(Str s, Buf *out) {
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '\\' || i + 1 == s.n) {
            buf_putc(out, s.p[i]);
            continue;
        }
        char c = s.p[++i];
        if (c == 'x' && i + 2 < s.n && hex_digit(s.p[i + 1]) >= 0 && hex_digit(s.p[i + 2]) >= 0) {
            buf_putc(out, (char)(hex_digit(s.p[i + 1]) * 16 + hex_digit(s.p[i + 2])));
            i += 2;
        } else {
            buf_putc(out, c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c);
        }
    }
}

static bool load_rwkv(Source *s, Err *err) {
    Tokenizer *t = s->t;
    Buf b = {0};
    bool ok = vocab_reserve(&t->vocab, s->n);
    for (size_t i = 0; ok && i < s->n; i++) {
        buf_clear(&b);
        unescape(s->tokens[i], &b);
        ok = !b.failed && vocab_add(&t->vocab, buf_str(&b), (uint32_t)i);
    }
    buf_deinit(&b);
    Str *keys = mem_resize_array(NULL, t->vocab.n + 1, sizeof *keys);
    uint32_t *ids = mem_resize_array(NULL, t->vocab.n + 1, sizeof *ids);
    size_t n = 0;
    for (size_t i = 0; ok && keys && ids && i < t->vocab.n; i++) {
        const VocabEntry *e = &t->vocab.entries[i];
        if (e->n == 0 || s->kinds[e->id] == SPM_CONTROL) continue;
        keys[n] = vocab_entry_text(&t->vocab, e);
        ids[n++] = e->id;
    }
    t->kind = MODEL_RWKV;
    ok = ok && keys && ids ? trie_build(&t->rwkv, keys, ids, n, err) : err_nomem(err, "vocabulary");
    mem_free(keys);
    mem_free(ids);
    return ok && decoder_push(&t->dec, (DecStep){.kind = DEC_BYTES}, err);
}

/* --- */

static void read_roles(Source *s, int64_t bos, int64_t eos, int64_t unk, int64_t sep) {
    static const struct {
        const char *key;
        TokRole role;
    } keys[] = {{"bos", TOK_BOS},         {"eos", TOK_EOS},         {"unknown", TOK_UNK},
                {"seperator", TOK_SEP},   {"padding", TOK_PAD},     {"cls", TOK_CLS},
                {"mask", TOK_MASK},       {"eot", TOK_EOT},         {"eom", TOK_EOM},
                {"fim_pre", TOK_FIM_PRE}, {"fim_suf", TOK_FIM_SUF}, {"fim_mid", TOK_FIM_MID},
                {"fim_pad", TOK_FIM_PAD}, {"fim_rep", TOK_FIM_REP}, {"fim_sep", TOK_FIM_SEP},
                {"prefix", TOK_FIM_PRE},  {"suffix", TOK_FIM_SUF},  {"middle", TOK_FIM_MID}};
    const int64_t dflt[] = {bos, eos, unk, sep};
    for (int i = 0; i < 4; i++)
        if (dflt[i] >= 0 && (uint64_t)dflt[i] < s->n) s->t->roles[keys[i].role] = (uint32_t)dflt[i];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        Buf key = {.max = 128};
        int64_t id;
        buf_putf(&key, "tokenizer.ggml.%s_token_id", keys[i].key);
        if (gguf_int(gguf_find(s->g, buf_str(&key)), &id) && id >= 0 && (uint64_t)id < s->n)
            s->t->roles[keys[i].role] = (uint32_t)id;
        buf_deinit(&key);
    }
}

static bool load_kind(Source *s, Err *err) {
    Str model;
    if (!gguf_str(gguf_get(s->g, "tokenizer.ggml.model"), &model) || str_eqc(model, "none") ||
        str_eqc(model, "no_vocab"))
        return err_set(err, ERR_NOT_FOUND, "GGUF has no tokenizer.ggml.model");
    if (!read_tokens(s, err)) return false;
    if (str_eqc(model, "gpt2")) return read_roles(s, 11, 11, -1, -1), load_bpe(s, STR_NONE, err);
    if (str_eqc(model, "gemma4")) return read_roles(s, -1, -1, -1, -1), load_bpe(s, model, err);
    if (str_eqc(model, "llama")) return read_roles(s, 1, 2, 0, -1), load_llama(s, err);
    if (str_eqc(model, "t5")) return read_roles(s, -1, 1, 2, -1), load_t5(s, err);
    if (str_eqc(model, "plamo2")) {
        read_roles(s, 1, 2, 0, -1);
        s->add_bos = true;
        return fill_vocab(s, err) && plamo_build(s->t, s->scores, s->kinds, s->n, err);
    }
    if (str_eqc(model, "bert")) return read_roles(s, 101, -1, 100, 102), load_bert(s, err);
    if (str_eqc(model, "rwkv")) return read_roles(s, -1, -1, -1, -1), load_rwkv(s, err);
    return err_set(err, ERR_UNSUPPORTED,
                   "tokenizer.ggml.model \"" STR_F "\" is not one of gpt2, llama, t5, bert, rwkv, "
                   "plamo2, gemma4",
                   STR_A(model));
}

static bool load_post(Source *s, Err *err) {
    const uint32_t *r = s->t->roles;
    bool always = s->pre && s->pre->bos_always;
    bool bos = always || flag(s->g, "tokenizer.ggml.add_bos_token", s->add_bos),
         eos = flag(s->g, "tokenizer.ggml.add_eos_token", s->add_eos);
    bool sep = flag(s->g, "tokenizer.ggml.add_sep_token", s->add_sep);
    uint32_t first =
        r[TOK_CLS] != TOK_NONE && s->t->kind == MODEL_WORDPIECE ? r[TOK_CLS] : r[TOK_BOS];
    uint32_t last = sep && r[TOK_SEP] != TOK_NONE ? r[TOK_SEP] : eos ? r[TOK_EOS] : TOK_NONE;
    return postproc_set(&s->t->post, bos ? first : TOK_NONE, last, err);
}

bool tokenizer_load_gguf(const Gguf *g, Tokenizer **out, Err *err) {
    Source s = {.g = g, .t = tokenizer_new()};
    if (!s.t) return err_nomem(err, "tokenizer");
    bool ok = load_kind(&s, err) && fill_added(&s, err) && load_post(&s, err) &&
              tokenizer_finish(s.t, err);
    arena_deinit(&s.tmp);
    if (!ok) {
        tokenizer_free(s.t);
        return false;
    }
    *out = s.t;
    return true;
}
