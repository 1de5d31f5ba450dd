#include "text/tok_jsonl.h"

#include "json/json.h"
#include "json/json_writer.h"
#include "text/detok.h"

static void put_error(Buf *out, const Err *err) {
    JsonWriter w = {.out = out};
    json_w_object(&w);
    json_w_key(&w, STR("error"));
    json_w_str(&w, str_c(err->msg));
    json_w_end(&w);
}

static bool parse(Str line, Arena *a, Json **j, Err *err) {
    JsonOptions opt = {.max_depth = 8, .dup = JSON_DUP_REFUSE};
    return json_parse(line, &opt, a, j, err);
}

static bool take_flag(const Json *j, const char *key, bool *out, Err *err) {
    const Json *v = json_get(j, key);
    return !v || json_bool(v, out) ||
           err_set(err, ERR_INPUT, "\"%s\" must be true or false, it is %s", key,
                   jsontype_name(v->type));
}

static bool read_text(const Json *j, TokJsonl *opt, Str *text, Err *err) {
    if (json_str(j, text)) return true;
    if (j->type != JSON_OBJECT)
        return err_set(err, ERR_INPUT, "line must be a string or an object with \"text\", it is %s",
                       jsontype_name(j->type));
    if (!json_str(json_get(j, "text"), text))
        return err_set(err, ERR_INPUT, "\"text\" is missing or no string");
    return take_flag(j, "add_special", &opt->add_special, err) &&
           take_flag(j, "parse_special", &opt->parse_special, err);
}

void tok_jsonl_encode(const Tokenizer *t, const TokJsonl *defaults, Str line, Buf *out) {
    Arena a = {0};
    Json *j;
    Err err = {0};
    TokIds ids = {0};
    TokJsonl opt = *defaults;
    Str text;
    if (parse(line, &a, &j, &err) && read_text(j, &opt, &text, &err) &&
        tokenizer_encode_text(t, text, opt.add_special, opt.parse_special, &ids, &err)) {
        buf_putc(out, '[');
        for (size_t i = 0; i < ids.n; i++) buf_putf(out, i ? ",%u" : "%u", ids.p[i]);
        buf_putc(out, ']');
    } else {
        put_error(out, &err);
    }
    tokids_deinit(&ids);
    arena_deinit(&a);
}

static bool read_ids(const Json *j, TokJsonl *opt, TokIds *ids, Err *err) {
    const Json *list = j;
    if (j->type == JSON_OBJECT) {
        list = json_get(j, "ids");
        if (!json_is(list, JSON_ARRAY))
            return err_set(err, ERR_INPUT, "\"ids\" is missing or no array");
        if (!take_flag(j, "skip_special", &opt->skip_special, err)) return false;
    }
    if (!json_is(list, JSON_ARRAY))
        return err_set(err, ERR_INPUT,
                       "line must be an array of ids or an object with \"ids\", it is %s",
                       jsontype_name(j->type));
    for (size_t i = 0; i < list->n; i++) {
        int64_t id;
        if (!json_i64(&list->items[i], &id) || id < 0 || id >= TOK_NONE)
            return err_set(err, ERR_INPUT,
                           "id %zu of the line is not a number from 0 to 4294967294", i);
        tokids_push(ids, (uint32_t)id);
    }
    return !ids->failed || err_nomem(err, "token ids");
}

static bool put_pieces(const Tokenizer *t, const TokJsonl *opt, const TokIds *ids, Buf *out,
                       Err *err) {
    Detok d;
    JsonWriter w = {.out = out};
    Str piece;
    bool ok = true;
    detok_init(&d, t, opt->skip_special);
    json_w_array(&w);
    for (size_t i = 0; ok && i < ids->n; i++) {
        ok = detok_push(&d, ids->p[i], &piece, err);
        if (!ok) break;
        if (piece.p)
            json_w_str(&w, piece);
        else
            json_w_null(&w);
    }
    ok = ok && detok_finish(&d, &piece, err);
    if (ok && piece.p) json_w_str(&w, piece);
    json_w_end(&w);
    detok_deinit(&d);
    return ok;
}

static bool put_text(const Tokenizer *t, const TokJsonl *opt, const TokIds *ids, Buf *out,
                     Err *err) {
    Buf text = {0};
    bool ok = tokenizer_decode(t, ids->p, ids->n, opt->skip_special, &text, err);
    if (ok) json_put_quoted(out, buf_str(&text), false);
    buf_deinit(&text);
    return ok;
}

void tok_jsonl_decode(const Tokenizer *t, const TokJsonl *defaults, Str line, Buf *out) {
    Arena a = {0};
    Json *j;
    Err err = {0};
    TokIds ids = {0};
    TokJsonl opt = *defaults;
    size_t start = out->n;
    bool ok =
        parse(line, &a, &j, &err) && read_ids(j, &opt, &ids, &err) &&
        (opt.pieces ? put_pieces(t, &opt, &ids, out, &err) : put_text(t, &opt, &ids, out, &err));
    if (!ok) {
        out->n = start;
        put_error(out, &err);
    }
    tokids_deinit(&ids);
    arena_deinit(&a);
}
