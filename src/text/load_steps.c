/* The "normalizer", "pre_tokenizer" and "decoder" values of a tokenizer.json. */
#include <string.h>

#include "base/utf8.h"
#include "text/base64.h"
#include "text/tok_decoder.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"

enum { MAX_DEPTH = 64, MAX_STEPS = 4096 };

static bool too_deep(const char *what, int depth, size_t n, Err *err) {
    if (depth > MAX_DEPTH) {
        (void)err_set(err, ERR_LIMIT, "%s is nested more than %d deep", what, MAX_DEPTH);
        return true;
    }
    if (n >= MAX_STEPS) {
        (void)err_set(err, ERR_LIMIT, "%s has more than %d steps", what, MAX_STEPS);
        return true;
    }
    return false;
}

static bool no_type(const char *what, Err *err) {
    return err_set(err, ERR_INPUT, "%s has no \"type\"", what);
}

static bool unknown(const char *what, Str type, Err *err) {
    return err_set(err, ERR_UNSUPPORTED, "%s \"" STR_F "\" is not known", what, STR_A(type));
}

static bool want_bool(const Json *j, const char *key, bool dflt, bool *out, Err *err) {
    const Json *v = json_get(j, key);
    *out = dflt;
    if (!v || v->type == JSON_NULL || json_bool(v, out)) return true;
    return err_set(err, ERR_INPUT, "\"%s\" must be true or false, it is %s", key,
                   jsontype_name(v->type));
}

static bool want_text(const Json *j, const char *key, const char *dflt, Arena *a, Str *out,
                      Err *err) {
    const Json *v = json_get(j, key);
    if (!v && dflt) return *out = str_c(dflt), true;
    if (!json_str(v, out))
        return err_set(err, ERR_INPUT, "\"%s\" must be a string, it is %s", key,
                       v ? jsontype_name(v->type) : "absent");
    size_t n = out->n;
    *out = arena_dup(a, *out);
    return out->p || n == 0 || err_nomem(err, key);
}

static bool want_char(const Json *j, const char *key, const char *dflt, Arena *a, Str *out,
                      Err *err) {
    if (!want_text(j, key, dflt, a, out, err)) return false;
    if (!utf8_valid(*out) || utf8_count(*out) != 1)
        return err_set(err, ERR_INPUT, "\"%s\" must be one character, it is \"" STR_F "\"", key,
                       STR_A(*out));
    return true;
}

static bool want_size(const Json *j, const char *key, int64_t dflt, uint64_t *out, Err *err) {
    int64_t v = dflt;
    const Json *x = json_get(j, key);
    if ((x && !json_i64(x, &v)) || v < 0)
        return err_set(err, ERR_INPUT, "\"%s\" must be a number of characters", key);
    *out = (uint64_t)v;
    return true;
}

/* {"String": s} or {"Regex": s}. */
static bool want_pattern(const Json *j, Arena *a, Str *text, bool *is_regex, Err *err) {
    const Json *p = json_get(j, "pattern");
    *is_regex = json_get(p, "Regex") != NULL;
    if (!json_is(p, JSON_OBJECT) || p->n != 1 || !(*is_regex || json_get(p, "String")))
        return err_set(err, ERR_INPUT, "\"pattern\" must be {\"String\": ...} or {\"Regex\": ...}");
    return want_text(p, *is_regex ? "Regex" : "String", NULL, a, text, err);
}

static bool is(Str a, const char *b) { return str_eqc(a, b); }

/* --- normalizer --- */

static bool load_charsmap(const Json *j, Arena *a, Charsmap *m, Err *err) {
    const Json *v = json_get(j, "precompiled_charsmap");
    *m = (Charsmap){0};
    if (v && v->type == JSON_NULL) return true;
    Str s;
    if (!json_str(v, &s))
        return err_set(err, ERR_INPUT, "\"precompiled_charsmap\" must be a string");
    Str blob = {0};
    char *to = arena_alloc(a, s.n / 4 * 3 + 3);
    if (!to) return err_nomem(err, "character map");
    if (!base64_decode(s, to, &blob.n))
        return err_set(err, ERR_INPUT, "\"precompiled_charsmap\" is not base64");
    blob.p = to;
    return charsmap_open(m, blob, err);
}

static bool load_replace(NormStep *st, const Json *j, Arena *a, Err *err) {
    bool regex;
    st->kind = NORM_REPLACE;
    if (!want_pattern(j, a, &st->text, &regex, err) ||
        !want_text(j, "content", NULL, a, &st->content, err))
        return false;
    return !(regex || st->text.n == 0) || tokregex_new(st->text, &st->regex, err);
}

static bool load_bert(NormStep *st, const Json *j, Err *err) {
    st->kind = NORM_BERT;
    return want_bool(j, "clean_text", true, &st->clean, err) &&
           want_bool(j, "handle_chinese_chars", true, &st->chinese, err) &&
           want_bool(j, "lowercase", true, &st->lowercase, err) &&
           want_bool(j, "strip_accents", st->lowercase, &st->strip_accents, err);
}

static bool load_norm(Normalizer *nz, const Json *j, Arena *a, int depth, Err *err) {
    Str t;
    NormStep st = {0};
    bool ok = true;
    if (too_deep("normalizer", depth, nz->n, err)) return false;
    if (!json_str(json_get(j, "type"), &t)) return no_type("normalizer", err);
    if (is(t, "Sequence")) {
        const Json *list = json_get(j, "normalizers");
        if (!json_is(list, JSON_ARRAY))
            return err_set(err, ERR_INPUT, "\"normalizers\" must be an array");
        for (size_t i = 0; i < list->n; i++)
            if (!load_norm(nz, &list->items[i], a, depth + 1, err)) return false;
        return true;
    }
    if (is(t, "NFC"))
        st.form = UNICODE_NFC;
    else if (is(t, "NFD"))
        st.form = UNICODE_NFD;
    else if (is(t, "NFKC"))
        st.form = UNICODE_NFKC;
    else if (is(t, "NFKD"))
        st.form = UNICODE_NFKD;
    else if (is(t, "Lowercase"))
        st.kind = NORM_LOWERCASE;
    else if (is(t, "StripAccents"))
        st.kind = NORM_STRIP_ACCENTS;
    else if (is(t, "Nmt"))
        st.kind = NORM_NMT;
    else if (is(t, "ByteLevel"))
        st.kind = NORM_BYTE_LEVEL;
    else if (is(t, "Replace"))
        ok = load_replace(&st, j, a, err);
    else if (is(t, "BertNormalizer") || is(t, "Bert"))
        ok = load_bert(&st, j, err);
    else if (is(t, "Prepend")) {
        st.kind = NORM_PREPEND;
        ok = want_text(j, "prepend", NULL, a, &st.text, err);
    } else if (is(t, "Strip")) {
        st.kind = NORM_STRIP;
        ok = want_bool(j, "strip_left", true, &st.left, err) &&
             want_bool(j, "strip_right", true, &st.right, err);
    } else if (is(t, "Precompiled")) {
        st.kind = NORM_PRECOMPILED;
        ok = load_charsmap(j, a, &st.map, err);
    } else {
        return unknown("normalizer", t, err);
    }
    if (!ok) {
        tokregex_free(st.regex);
        return false;
    }
    return normalizer_push(nz, st, err);
}

bool normalizer_load(Normalizer *nz, const Json *j, Arena *a, Err *err) {
    return !j || j->type == JSON_NULL || load_norm(nz, j, a, 0, err);
}

/* --- pre-tokenizer --- */

bool splitbehavior_parse(Str name, SplitBehavior *out) {
    static const char *const names[][2] = {{"Removed", "removed"},
                                           {"Isolated", "isolated"},
                                           {"MergedWithPrevious", "merged_with_previous"},
                                           {"MergedWithNext", "merged_with_next"},
                                           {"Contiguous", "contiguous"}};
    for (int i = 0; i < 5; i++)
        if (str_eqc(name, names[i][0]) || str_eqc(name, names[i][1]))
            return *out = (SplitBehavior)i, true;
    return false;
}

static bool want_behavior(const Json *j, bool required, SplitBehavior *out, Err *err) {
    Str s;
    const Json *v = json_get(j, "behavior");
    if (!v && !required) return *out = SPLIT_ISOLATED, true;
    if (json_str(v, &s) && splitbehavior_parse(s, out)) return true;
    return err_set(
        err, ERR_INPUT,
        "\"behavior\" must be Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

bool pretok_push(Pretokenizer *p, PretokStep step, Err *err) {
    if (p->n == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 4;
        PretokStep *q = mem_resize_array(p->steps, cap, sizeof *q);
        if (!q) {
            tokregex_free(step.regex);
            return err_nomem(err, "pre-tokenizer");
        }
        p->steps = q;
        p->cap = cap;
    }
    p->steps[p->n++] = step;
    return true;
}

bool pretok_push_regex(Pretokenizer *p, Str pattern, SplitBehavior behavior, bool invert,
                       Err *err) {
    PretokStep st = {.kind = PRETOK_SPLIT,
                     .behavior = behavior,
                     .invert = invert,
                     .rule = splitrule_find(pattern)};
    if (!st.rule && !tokregex_new(pattern, &st.regex, err)) return false;
    return pretok_push(p, st, err);
}

void pretok_deinit(Pretokenizer *p) {
    for (size_t i = 0; i < p->n; i++) tokregex_free(p->steps[i].regex);
    mem_free(p->steps);
    *p = (Pretokenizer){0};
}

bool pretok_leave_mapping(Pretokenizer *p) {
    if (p->n == 0 || p->steps[p->n - 1].kind != PRETOK_BYTE_LEVEL) return false;
    return p->steps[p->n - 1].leave_mapping = true;
}

static bool load_split(Pretokenizer *p, const Json *j, Arena *a, Err *err) {
    PretokStep st = {.kind = PRETOK_SPLIT};
    bool regex;
    if (!want_pattern(j, a, &st.text, &regex, err) || !want_behavior(j, true, &st.behavior, err) ||
        !want_bool(j, "invert", false, &st.invert, err))
        return false;
    if (regex || st.text.n == 0) return pretok_push_regex(p, st.text, st.behavior, st.invert, err);
    return pretok_push(p, st, err);
}

static bool load_metaspace(PretokStep *st, const Json *j, Arena *a, Err *err) {
    bool add = true;
    Str scheme = STR("always");
    const Json *s = json_get(j, "prepend_scheme");
    st->kind = PRETOK_METASPACE;
    if (!want_char(j, "replacement", NULL, a, &st->text, err) ||
        !want_bool(j, "split", true, &st->cuts, err) ||
        !want_bool(j, "add_prefix_space", true, &add, err))
        return false;
    if (s && !json_str(s, &scheme)) scheme = STR("?");
    if (is(scheme, "always"))
        st->prepend = PREPEND_ALWAYS;
    else if (is(scheme, "first"))
        st->prepend = PREPEND_FIRST;
    else if (is(scheme, "never"))
        st->prepend = PREPEND_NEVER;
    else
        return err_set(err, ERR_INPUT, "\"prepend_scheme\" must be always, first or never");
    if (!add) st->prepend = PREPEND_NEVER;
    return true;
}

static bool load_pretok(Pretokenizer *p, const Json *j, Arena *a, int depth, Err *err) {
    Str t;
    PretokStep st = {0};
    bool ok = true;
    if (too_deep("pre_tokenizer", depth, p->n, err)) return false;
    if (!json_str(json_get(j, "type"), &t)) return no_type("pre_tokenizer", err);
    if (is(t, "Sequence")) {
        const Json *list = json_get(j, "pretokenizers");
        if (!json_is(list, JSON_ARRAY))
            return err_set(err, ERR_INPUT, "\"pretokenizers\" must be an array");
        for (size_t i = 0; i < list->n; i++)
            if (!load_pretok(p, &list->items[i], a, depth + 1, err)) return false;
        return true;
    }
    if (is(t, "Split")) return load_split(p, j, a, err);
    if (is(t, "ByteLevel")) {
        st.kind = PRETOK_BYTE_LEVEL;
        ok = want_bool(j, "add_prefix_space", true, &st.add_prefix_space, err) &&
             want_bool(j, "use_regex", true, &st.use_regex, err);
    } else if (is(t, "Digits")) {
        st.kind = PRETOK_DIGITS;
        ok = want_bool(j, "individual_digits", false, &st.individual, err);
    } else if (is(t, "Metaspace")) {
        ok = load_metaspace(&st, j, a, err);
    } else if (is(t, "Whitespace")) {
        st.kind = PRETOK_WHITESPACE;
    } else if (is(t, "WhitespaceSplit")) {
        st.kind = PRETOK_WHITESPACE_SPLIT;
    } else if (is(t, "Punctuation")) {
        st.kind = PRETOK_PUNCTUATION;
        ok = want_behavior(j, false, &st.behavior, err);
    } else if (is(t, "BertPreTokenizer")) {
        st.kind = PRETOK_BERT;
    } else if (is(t, "CharDelimiterSplit") || is(t, "Delimiter")) {
        st.kind = PRETOK_DELIMITER;
        ok = want_char(j, "delimiter", NULL, a, &st.text, err);
    } else if (is(t, "UnicodeScripts")) {
        st.kind = PRETOK_SCRIPTS;
    } else if (is(t, "FixedLength")) {
        st.kind = PRETOK_FIXED_LENGTH;
        ok = want_size(j, "length", 5, &st.length, err);
        if (ok && st.length == 0)
            ok = err_set(err, ERR_INPUT, "FixedLength has length 0, at least 1 is needed");
    } else {
        return unknown("pre_tokenizer", t, err);
    }
    return ok && pretok_push(p, st, err);
}

bool pretok_load(Pretokenizer *p, const Json *j, Arena *a, Err *err) {
    return !j || j->type == JSON_NULL || load_pretok(p, j, a, 0, err);
}

/* --- decoder --- */

static bool load_dec(TokDecoder *d, const Json *j, Arena *a, int depth, Err *err) {
    Str t;
    DecStep st = {0};
    bool ok = true, regex = false;
    if (too_deep("decoder", depth, d->n, err)) return false;
    if (!json_str(json_get(j, "type"), &t)) return no_type("decoder", err);
    if (is(t, "Sequence")) {
        const Json *list = json_get(j, "decoders");
        if (!json_is(list, JSON_ARRAY))
            return err_set(err, ERR_INPUT, "\"decoders\" must be an array");
        for (size_t i = 0; i < list->n; i++)
            if (!load_dec(d, &list->items[i], a, depth + 1, err)) return false;
        return true;
    }
    if (is(t, "ByteLevel")) {
        st.kind = DEC_BYTE_LEVEL;
    } else if (is(t, "BPEDecoder") || is(t, "BPE")) {
        st.kind = DEC_BPE;
        ok = want_text(j, "suffix", "</w>", a, &st.text, err);
    } else if (is(t, "WordPiece")) {
        st.kind = DEC_WORDPIECE;
        ok = want_text(j, "prefix", "##", a, &st.text, err) &&
             want_bool(j, "cleanup", true, &st.cleanup, err);
    } else if (is(t, "Metaspace")) {
        PretokStep m = {0};
        st.kind = DEC_METASPACE;
        ok = load_metaspace(&m, j, a, err);
        st.text = m.text;
        st.drop_first = m.prepend != PREPEND_NEVER;
    } else if (is(t, "CTC")) {
        st.kind = DEC_CTC;
        ok = want_text(j, "pad_token", "<pad>", a, &st.text, err) &&
             want_text(j, "word_delimiter_token", "|", a, &st.content, err) &&
             want_bool(j, "cleanup", true, &st.cleanup, err);
    } else if (is(t, "Replace")) {
        st.kind = DEC_REPLACE;
        ok = want_pattern(j, a, &st.text, &regex, err) &&
             want_text(j, "content", NULL, a, &st.content, err) &&
             (!(regex || st.text.n == 0) || tokregex_new(st.text, &st.regex, err));
    } else if (is(t, "Fuse")) {
        st.kind = DEC_FUSE;
    } else if (is(t, "ByteFallback")) {
        st.kind = DEC_BYTE_FALLBACK;
    } else if (is(t, "Strip")) {
        st.kind = DEC_STRIP;
        ok = want_char(j, "content", NULL, a, &st.text, err) &&
             want_size(j, "start", 0, &st.start, err) && want_size(j, "stop", 0, &st.stop, err);
    } else {
        return unknown("decoder", t, err);
    }
    if (!ok) {
        tokregex_free(st.regex);
        return false;
    }
    return decoder_push(d, st, err);
}

bool decoder_load(TokDecoder *d, const Json *j, Arena *a, Err *err) {
    d->join_blank = !j || j->type == JSON_NULL;
    return d->join_blank || load_dec(d, j, a, 0, err);
}
