#include "text/postproc.h"

enum { MAX_DEPTH = 32, MAX_ITEMS = 65536 };

static bool push(PostList *l, PostItem item, Err *err) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 8;
        if (cap > MAX_ITEMS)
            return err_set(err, ERR_LIMIT, "post-processor has more than %d parts", MAX_ITEMS);
        PostItem *p = mem_resize_array(l->p, cap, sizeof *p);
        if (!p) return err_nomem(err, "post-processor");
        l->p = p;
        l->cap = cap;
    }
    l->p[l->n++] = item;
    return true;
}

static bool push_list(PostList *to, const PostList *from, Err *err) {
    for (size_t i = 0; i < from->n; i++)
        if (!push(to, from->p[i], err)) return false;
    return true;
}

static bool want_token(const Json *j, const char *what, uint32_t *id,
                       Err *err) { /* ["[SEP]", 102] */
    int64_t v;
    if (!json_is(j, JSON_ARRAY) || j->n != 2 || !json_is(&j->items[0], JSON_STRING) ||
        !json_i64(&j->items[1], &v) || v < 0 || v > UINT32_MAX)
        return err_set(err, ERR_INPUT, "post_processor.%s must be [text, id]", what);
    *id = (uint32_t)v;
    return true;
}

static bool wrap_bert(Postproc *pp, const Json *j, bool roberta, Err *err) {
    uint32_t sep = 0, cls = 0;
    if (!want_token(json_get(j, "sep"), "sep", &sep, err) ||
        !want_token(json_get(j, "cls"), "cls", &cls, err))
        return false;
    PostList one = {0}, two = {0};
    PostItem c = {POST_TOKEN, cls, 0}, s = {POST_TOKEN, sep, 0},
             s1 = {POST_TOKEN, sep, roberta ? 0 : 1};
    PostItem b = {POST_B, 0, roberta ? 0 : 1};
    bool ok = push(&one, c, err) && push_list(&one, &pp->single, err) && push(&one, s, err) &&
              push(&two, c, err) && push(&two, (PostItem){POST_A, 0, 0}, err) &&
              push(&two, s, err) && (!roberta || push(&two, s, err)) && push(&two, b, err) &&
              push(&two, s1, err);
    mem_free(pp->single.p);
    mem_free(pp->pair.p);
    pp->single = one;
    pp->pair = two;
    return ok;
}

static bool push_special(PostList *out, const Json *specials, const Json *part, Err *err) {
    Str id;
    int64_t type = 0;
    if (!json_str(json_get(part, "id"), &id) ||
        (json_get(part, "type_id") && !json_i64(json_get(part, "type_id"), &type)))
        return err_set(err, ERR_INPUT,
                       "post_processor: SpecialToken must have an id and a type_id");
    const Json *ids = json_get(json_find(specials, id), "ids");
    if (!json_is(ids, JSON_ARRAY))
        return err_set(err, ERR_INPUT,
                       "post_processor: special token \"" STR_F "\" is not in special_tokens",
                       STR_A(id));
    for (size_t i = 0; i < ids->n; i++) {
        int64_t v;
        if (!json_i64(&ids->items[i], &v) || v < 0 || v > UINT32_MAX)
            return err_set(err, ERR_INPUT,
                           "post_processor: special token \"" STR_F "\" has an id that is no id",
                           STR_A(id));
        if (!push(out, (PostItem){POST_TOKEN, (uint32_t)v, (uint32_t)type}, err)) return false;
    }
    return true;
}

static bool push_template(PostList *out, const PostList *inner, const Json *parts,
                          const Json *specials, const char *name, Err *err) {
    if (!json_is(parts, JSON_ARRAY))
        return err_set(err, ERR_INPUT, "post_processor.%s must be an array", name);
    for (size_t i = 0; i < parts->n; i++) {
        const Json *seq = json_get(&parts->items[i], "Sequence"),
                   *tok = json_get(&parts->items[i], "SpecialToken");
        if (tok) {
            if (!push_special(out, specials, tok, err)) return false;
            continue;
        }
        Str id;
        int64_t type = 0;
        if (!json_str(json_get(seq, "id"), &id) || !(str_eqc(id, "A") || str_eqc(id, "B")) ||
            (json_get(seq, "type_id") && !json_i64(json_get(seq, "type_id"), &type)))
            return err_set(err, ERR_INPUT,
                           "post_processor.%s[%zu] is neither a Sequence A or B nor a SpecialToken",
                           name, i);
        bool b = str_eqc(id, "B");
        bool ok = !b && inner ? push_list(out, inner, err)
                              : push(out, (PostItem){b ? POST_B : POST_A, 0, (uint32_t)type}, err);
        if (!ok) return false;
    }
    return true;
}

static bool wrap_template(Postproc *pp, const Json *j, Err *err) {
    const Json *specials = json_get(j, "special_tokens");
    PostList one = {0}, two = {0};
    if (!json_is(specials, JSON_OBJECT))
        return err_set(err, ERR_INPUT, "post_processor.special_tokens must be an object");
    bool ok = push_template(&one, &pp->single, json_get(j, "single"), specials, "single", err) &&
              push_template(&two, NULL, json_get(j, "pair"), specials, "pair", err);
    mem_free(pp->single.p);
    mem_free(pp->pair.p);
    pp->single = one;
    pp->pair = two;
    return ok;
}

static bool wrap(Postproc *pp, const Json *j, int depth, Err *err) {
    Str type;
    if (depth > MAX_DEPTH)
        return err_set(err, ERR_LIMIT, "post_processor is nested more than %d deep", MAX_DEPTH);
    if (!json_str(json_get(j, "type"), &type))
        return err_set(err, ERR_INPUT, "post_processor has no type");
    if (str_eqc(type, "ByteLevel")) return true;
    if (str_eqc(type, "BertProcessing")) return wrap_bert(pp, j, false, err);
    if (str_eqc(type, "RobertaProcessing")) return wrap_bert(pp, j, true, err);
    if (str_eqc(type, "TemplateProcessing")) return wrap_template(pp, j, err);
    if (!str_eqc(type, "Sequence"))
        return err_set(err, ERR_UNSUPPORTED, "post_processor \"" STR_F "\" is not known",
                       STR_A(type));
    const Json *list = json_get(j, "processors");
    if (!json_is(list, JSON_ARRAY))
        return err_set(err, ERR_INPUT, "post_processor.processors must be an array");
    for (size_t i = 0; i < list->n; i++)
        if (!wrap(pp, &list->items[i], depth + 1, err)) return false;
    return true;
}

bool postproc_load(Postproc *pp, const Json *j, Err *err) {
    return postproc_set(pp, TOK_NONE, TOK_NONE, err) &&
           (!j || j->type == JSON_NULL || wrap(pp, j, 0, err));
}

bool postproc_set(Postproc *pp, uint32_t before, uint32_t after, Err *err) {
    pp->single.n = pp->pair.n = 0;
    PostItem bos = {POST_TOKEN, before, 0}, eos = {POST_TOKEN, after, 0},
             b1 = {POST_TOKEN, before, 1}, e1 = {POST_TOKEN, after, 1};
    PostItem a = {POST_A, 0, 0}, b = {POST_B, 0, 1};
    return (before == TOK_NONE || (push(&pp->single, bos, err) && push(&pp->pair, bos, err))) &&
           push(&pp->single, a, err) && push(&pp->pair, a, err) &&
           (after == TOK_NONE || (push(&pp->single, eos, err) && push(&pp->pair, eos, err))) &&
           (before == TOK_NONE || push(&pp->pair, b1, err)) && push(&pp->pair, b, err) &&
           (after == TOK_NONE || push(&pp->pair, e1, err));
}

void postproc_apply(const PostList *l, bool add_special, const TokIds *a, const TokIds *b,
                    TokIds *out, TokIds *types) {
    for (size_t i = 0; i < l->n; i++) {
        const PostItem *it = &l->p[i];
        if (it->kind == POST_TOKEN) {
            if (!add_special) continue;
            tokids_push(out, it->id);
            if (types) tokids_push(types, it->type);
            continue;
        }
        const TokIds *ids = it->kind == POST_A ? a : b;
        for (size_t k = 0; ids && k < ids->n; k++) {
            tokids_push(out, ids->p[k]);
            if (types) tokids_push(types, it->type);
        }
    }
}

void postproc_deinit(Postproc *pp) {
    mem_free(pp->single.p);
    mem_free(pp->pair.p);
    *pp = (Postproc){0};
}
