/* tokenizer.json. The file is read once with the pull parser: vocabulary and merges go straight
 * into their tables; the small sections are parsed as trees. */
#include <string.h>

#include "json/json_reader.h"
#include "text/load_model.h"
#include "text/tok_load.h"
#include "text/tokenizer_priv.h"

enum { MAX_DEPTH = 100 };

typedef struct Sections { /* views of the file */
    Str normalizer, pre_tokenizer, post_processor, decoder, added_tokens;
    bool has_model;
} Sections;

/* The text of the value that comes next. */
static bool take_raw(JsonReader *r, Str text, Str *out, Err *err) {
    JsonToken t;
    if (!json_next(r, &t, err)) return false;
    size_t from = (size_t)t.at;
    if (!json_skip(r, &t, err)) return false;
    *out = str_slice(text, from, (size_t)json_reader_offset(r));
    return true;
}

static bool check_version(JsonReader *r, Err *err) {
    JsonToken t;
    if (!json_next(r, &t, err)) return false;
    if (t.event == JSON_EV_STRING && str_eqc(t.raw, "1.0")) return true;
    return err_set(err, ERR_UNSUPPORTED, "tokenizer version is \"" STR_F "\", 1.0 is accepted",
                   STR_A(t.raw));
}

static bool read_sections(Tokenizer *t, Str text, Sections *s, Err *err) {
    JsonReader r;
    JsonToken k;
    JsonOptions opt = {.max_depth = MAX_DEPTH, .max_bytes = TOK_MAX_FILE_BYTES};
    if (!json_reader_open(&r, text, &opt, err)) return false;
    bool ok = json_expect(&r, &k, JSON_EV_OBJECT, "tokenizer.json", err);
    while (ok) {
        ok = json_next(&r, &k, err);
        if (!ok || k.event != JSON_EV_KEY) break;
        Str skipped, *to = str_eqc(k.raw, "normalizer")       ? &s->normalizer
                           : str_eqc(k.raw, "pre_tokenizer")  ? &s->pre_tokenizer
                           : str_eqc(k.raw, "post_processor") ? &s->post_processor
                           : str_eqc(k.raw, "decoder")        ? &s->decoder
                           : str_eqc(k.raw, "added_tokens")   ? &s->added_tokens
                                                              : &skipped;
        if (str_eqc(k.raw, "version")) {
            ok = check_version(&r, err);
        } else if (str_eqc(k.raw, "model")) {
            if (s->has_model) ok = err_set(err, ERR_INPUT, "tokenizer has two models");
            ok = ok && load_model(t, &r, text, err);
            s->has_model = true;
        } else {
            ok = take_raw(&r, text, to, err);
        }
    }
    if (ok) ok = json_next(&r, &k, err); /* nothing may follow */
    json_reader_deinit(&r);
    if (ok && !s->has_model) return err_set(err, ERR_INPUT, "tokenizer has no model");
    return ok;
}

static bool parse_section(Str raw, const char *name, Arena *a, const Json **out, Err *err) {
    Json *j = NULL;
    JsonOptions opt = {
        .max_depth = MAX_DEPTH, .dup = JSON_DUP_LAST, .max_bytes = TOK_MAX_FILE_BYTES};
    *out = NULL;
    if (raw.n == 0) return true;
    if (!json_parse(raw, &opt, a, &j, err)) return err_wrap(err, "%s", name);
    *out = j;
    return true;
}

static bool want_flag(const Json *j, const char *key, bool dflt, bool *out, Err *err) {
    const Json *v = json_get(j, key);
    *out = dflt;
    if (!v || json_bool(v, out)) return true;
    return err_set(err, ERR_INPUT, "added token: \"%s\" must be true or false", key);
}

static bool load_added(Tokenizer *t, const Json *list, Err *err) {
    if (!list || list->type == JSON_NULL) return true;
    if (list->type != JSON_ARRAY) return err_set(err, ERR_INPUT, "added_tokens must be an array");
    for (size_t i = 0; i < list->n; i++) {
        const Json *j = &list->items[i];
        AddedToken a = {.id = TOK_NONE};
        int64_t id;
        if (!json_str(json_get(j, "content"), &a.text))
            return err_set(err, ERR_INPUT, "added_tokens[%zu] has no content", i);
        if (!json_i64(json_get(j, "id"), &id) || id < 0 || id > UINT32_MAX)
            return err_set(err, ERR_INPUT,
                           "added token \"" STR_F "\" has no id from 0 to 4294967295",
                           STR_A(a.text));
        if (!want_flag(j, "special", false, &a.special, err) ||
            !want_flag(j, "single_word", false, &a.single_word, err) ||
            !want_flag(j, "lstrip", false, &a.lstrip, err) ||
            !want_flag(j, "rstrip", false, &a.rstrip, err) ||
            !want_flag(j, "normalized", !a.special, &a.normalized, err) ||
            !tokenizer_add_token(t, a, err))
            return false;
    }
    return true;
}

static bool load_sections(Tokenizer *t, const Sections *s, Arena *tmp, Err *err) {
    const Json *j = NULL;
    return parse_section(s->normalizer, "normalizer", tmp, &j, err) &&
           normalizer_load(&t->norm, j, &t->arena, err) &&
           parse_section(s->pre_tokenizer, "pre_tokenizer", tmp, &j, err) &&
           pretok_load(&t->pretok, j, &t->arena, err) &&
           parse_section(s->post_processor, "post_processor", tmp, &j, err) &&
           postproc_load(&t->post, j, err) && parse_section(s->decoder, "decoder", tmp, &j, err) &&
           decoder_load(&t->dec, j, &t->arena, err) &&
           parse_section(s->added_tokens, "added_tokens", tmp, &j, err) && load_added(t, j, err);
}

bool load_json_into(Tokenizer *t, Str text, Err *err) {
    Sections s = {0};
    Arena tmp = {0};
    bool ok = read_sections(t, text, &s, err) && load_sections(t, &s, &tmp, err);
    arena_deinit(&tmp);
    return ok;
}

bool tokenizer_load_json(Str text, Tokenizer **out, Err *err) {
    Tokenizer *t = tokenizer_new();
    if (!t) return err_nomem(err, "tokenizer");
    if (!load_json_into(t, text, err) || !tokenizer_finish(t, err)) {
        tokenizer_free(t);
        return false;
    }
    *out = t;
    return true;
}
