#include "sample/params_json.h"

#include <math.h>
#include <string.h>

enum { BIAS_ENTRIES_MAX = 4096 };

/* The member of object that sets f, under its name or an alias; NULL if there is none or it is
 * null. */
static const Json *member_of(const Json *object, const ParamField *f, Str *name) {
    *name = str_c(f->name);
    Str rest = str_c(f->aliases);
    do {
        const Json *v = json_find(object, *name);
        if (v && !json_is(v, JSON_NULL)) return v;
    } while (rest.n && str_split(&rest, ' ', name));
    return NULL;
}

static bool set_from(SampleParams *p, const ParamField *f, Str name, const Json *v, Err *err) {
    int64_t seed;
    double number;
    bool yes;
    if (f->type == PARAM_SEED && json_i64(v, &seed) && seed >= -1) {
        p->seed = seed;
        return true;
    }
    if (f->type == PARAM_BOOL) {
        if (!json_bool(v, &yes))
            return err_set(err, ERR_INPUT, STR_F " is a %s, true or false is accepted", STR_A(name),
                           jsontype_name(v->type));
        number = yes;
    } else if (!json_f64(v, &number)) {
        return err_set(err, ERR_INPUT, STR_F " is a %s, a number from %.10g to %.10g is accepted",
                       STR_A(name), jsontype_name(v->type), f->min, f->max);
    }
    return params_set_field(p, f, number, err);
}

static bool read_breakers(SampleParams *p, const Json *v, Arena *a, Err *err) {
    if (!json_is(v, JSON_ARRAY))
        return err_set(err, ERR_INPUT,
                       "dry_sequence_breakers is a %s, an array of strings is accepted",
                       jsontype_name(v->type));
    Str *list = arena_array(a, Str, v->n ? v->n : 1);
    if (!list) return err_nomem(err, "dry_sequence_breakers");
    for (size_t i = 0; i < v->n; i++) {
        Str s;
        if (!json_str(json_at(v, i), &s))
            return err_set(err, ERR_INPUT,
                           "dry_sequence_breakers[%zu] is a %s, a string is accepted", i,
                           jsontype_name(v->items[i].type));
        list[i] = arena_dup(a, s);
        if (s.n && !list[i].p) return err_nomem(err, "dry_sequence_breakers");
    }
    p->dry_breakers = list;
    p->n_dry_breakers = v->n;
    return true;
}

/* ---- logit_bias ---- */

typedef struct BiasList {
    LogitBias *entry;
    size_t n, cap;
    const BiasText *text;
    Arena *a;
} BiasList;

static bool add(BiasList *l, uint32_t token, float bias, Err *err) {
    if (l->n == l->cap) { /* doubling in an arena leaves at most as much behind as it keeps */
        size_t cap = l->cap ? 2 * l->cap : 16;
        LogitBias *more = arena_array(l->a, LogitBias, cap);
        if (!more) return err_nomem(err, "logit_bias");
        if (l->n) memcpy(more, l->entry, l->n * sizeof *more);
        l->entry = more;
        l->cap = cap;
    }
    l->entry[l->n++] = (LogitBias){token, bias};
    return true;
}

static bool add_text(BiasList *l, Str text, float bias, Err *err) {
    uint32_t *ids;
    size_t n;
    if (!l->text || !l->text->encode)
        return err_set(err, ERR_INPUT, "logit_bias names \"" STR_F "\", token ids are accepted",
                       STR_A(text));
    if (!l->text->encode(l->text->ctx, text, l->a, &ids, &n, err))
        return err_wrap(err, "logit_bias");
    for (size_t i = 0; i < n; i++)
        if (!add(l, ids[i], bias, err)) return false;
    return true;
}

static bool bias_value(const Json *v, float *out, Err *err) {
    double d;
    if (json_is(v, JSON_FALSE)) {
        *out = -INFINITY;
        return true;
    }
    if (!json_f64(v, &d))
        return err_set(err, ERR_INPUT, "logit_bias has a %s as bias, a number or false is accepted",
                       v ? jsontype_name(v->type) : "missing value");
    *out = (float)d;
    if (!isfinite(*out))
        return err_set(err, ERR_INPUT, "logit_bias has the bias %g, -1e6 to 1e6 are accepted", d);
    return true;
}

static bool token_id(const Json *v, uint32_t *out, Err *err) {
    int64_t id;
    if (!json_i64(v, &id))
        return err_set(err, ERR_INPUT,
                       "logit_bias names a token by a %s, a token id or text is accepted",
                       v ? jsontype_name(v->type) : "missing value");
    if (id < 0 || id > UINT32_MAX)
        return err_set(err, ERR_INPUT,
                       "logit_bias names token %lld, ids of the vocabulary are accepted",
                       (long long)id);
    *out = (uint32_t)id;
    return true;
}

static bool read_entry(BiasList *l, const Json *v, bool keyed, Err *err) {
    float bias = 0;
    uint64_t id;
    if (keyed) {
        if (!bias_value(v, &bias, err)) return false;
        if (str_to_u64(v->key, &id) && id <= UINT32_MAX) return add(l, (uint32_t)id, bias, err);
        return add_text(l, v->key, bias, err);
    }
    Str text;
    uint32_t token = 0;
    if (!json_is(v, JSON_ARRAY) || v->n != 2)
        return err_set(err, ERR_INPUT,
                       "logit_bias has a %s of %zu as entry, [token, bias] is accepted",
                       jsontype_name(v->type), v->n);
    if (!bias_value(json_at(v, 1), &bias, err)) return false;
    if (json_str(json_at(v, 0), &text)) return add_text(l, text, bias, err);
    return token_id(json_at(v, 0), &token, err) && add(l, token, bias, err);
}

static bool read_bias(SampleParams *p, const Json *v, const BiasText *text, Arena *a, Err *err) {
    bool keyed = json_is(v, JSON_OBJECT);
    if (!keyed && !json_is(v, JSON_ARRAY))
        return err_set(err, ERR_INPUT, "logit_bias is a %s, an array or object is accepted",
                       jsontype_name(v->type));
    if (v->n > BIAS_ENTRIES_MAX)
        return err_set(err, ERR_LIMIT, "logit_bias has %zu entries, at most %d are accepted", v->n,
                       BIAS_ENTRIES_MAX);
    BiasList l = {.text = text, .a = a};
    for (size_t i = 0; i < v->n; i++)
        if (!read_entry(&l, &v->items[i], keyed, err)) return false;
    p->bias = l.entry;
    p->n_bias = l.n;
    return true;
}

/* ---- whole objects ---- */

static bool read_samplers(SampleParams *p, const Json *v, Err *err) {
    Str name;
    if (json_str(v, &name)) return params_set_samplers(p, name, err);
    if (!json_is(v, JSON_ARRAY))
        return err_set(err, ERR_INPUT, "samplers is a %s, an array of strings is accepted",
                       jsontype_name(v->type));
    Buf list = {.max = 4096};
    bool ok = true;
    for (size_t i = 0; ok && i < v->n; i++) {
        ok = json_str(json_at(v, i), &name) && str_find_char(name, ';', 0) == STR_NPOS;
        if (i) buf_putc(&list, ';');
        buf_put(&list, name);
    }
    if (!ok)
        err_set(err, ERR_INPUT,
                "samplers has an entry that is no sampler, " PARAMS_SAMPLERS " are accepted");
    ok = ok && buf_check(&list, "samplers", err) && params_set_samplers(p, buf_str(&list), err);
    buf_deinit(&list);
    return ok;
}

bool params_from_json(SampleParams *p, const Json *object, const BiasText *text, Arena *a,
                      Err *err) {
    size_t n;
    const ParamField *fields = params_fields(&n);
    for (size_t i = 0; i < n; i++) {
        Str name;
        const Json *v = member_of(object, &fields[i], &name);
        if (v && !set_from(p, &fields[i], name, v, err)) return false;
    }
    const Json *breakers = json_get(object, "dry_sequence_breakers"),
               *bias = json_get(object, "logit_bias");
    if (breakers && !json_is(breakers, JSON_NULL) && !read_breakers(p, breakers, a, err))
        return false;
    if (bias && !json_is(bias, JSON_NULL) && !read_bias(p, bias, text, a, err)) return false;
    const Json *samplers = json_get(object, "samplers");
    return !samplers || json_is(samplers, JSON_NULL) || read_samplers(p, samplers, err);
}

bool params_from_generation_config(SampleParams *p, const Json *config, Err *err) {
    static const char *const keys[] = {"temperature", "top_k",     "top_p",
                                       "min_p",       "typical_p", "repetition_penalty"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const Json *v = json_get(config, keys[i]);
        if (!v || json_is(v, JSON_NULL)) continue;
        if (!set_from(p, params_find(str_c(keys[i])), str_c(keys[i]), v, err))
            return err_wrap(err, "generation_config.json");
    }
    bool do_sample;
    if (json_bool(json_get(config, "do_sample"), &do_sample) && !do_sample) p->temperature = 0;
    return true;
}
