#include "ckpt/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "ckpt/config_gguf.h"

static bool find_one(const Config *c, Str key, ConfigValue *v) {
    *v = (ConfigValue){.key = key};
    if (c->gguf) return config_gguf_find(c, key, v);
    v->json = json_find(c->json, key);
    v->source = CONFIG_JSON;
    return v->json && v->json->type != JSON_NULL;
}

/* Alternatives in order; the first that is there. */
static bool find(const Config *c, const char *key, ConfigValue *v) {
    Str rest = str_c(key), part;
    while (str_split(&rest, '|', &part)) {
        if (find_one(c, part, v)) return true;
    }
    *v = (ConfigValue){.key = str_c(key)};
    return false;
}

bool config_has(const Config *c, const char *key) {
    ConfigValue v;
    return find(c, key, &v);
}

/* What was found, for a message. */
static Str shown(const ConfigValue *v, char *out, size_t n) {
    double d;
    int len = 0;
    switch (v->source) {
    case CONFIG_JSON: {
        JsonType t = v->json->type;
        Str text = str_slice(v->json->text, 0, 60);
        if (t == JSON_NUMBER) return text;
        if (t == JSON_NULL) return STR("null");
        if (t == JSON_TRUE || t == JSON_FALSE) return t == JSON_TRUE ? STR("true") : STR("false");
        if (t == JSON_STRING)
            len = snprintf(out, n, "\"" STR_F "\"", STR_A(text));
        else
            len = snprintf(out, n, "an %s", jsontype_name(t));
        break;
    }
    case CONFIG_GGUF:
        if (gguf_float(v->gguf, &d))
            len = snprintf(out, n, "%s %.17g", gguftype_name(v->gguf->type), d);
        else
            len = snprintf(out, n, "of type %s", gguftype_name(v->gguf->type));
        break;
    case CONFIG_NUMBER:
        len = snprintf(out, n, "%.17g", v->number);
        break;
    case CONFIG_FLAG:
        return v->flag ? STR("true") : STR("false");
    case CONFIG_TEXT:
        return v->text;
    default:
        break;
    }
    return (Str){out, len < 0 ? 0 : (size_t)len < n ? (size_t)len : n - 1};
}

static bool wrong(const Config *c, const ConfigValue *v, const char *wanted, Err *err) {
    char text[100];
    Str found = shown(v, text, sizeof text);
    if (c->gguf && v->gguf) {
        Str key = v->gguf->key;
        return err_set(err, ERR_INPUT, "GGUF key " STR_F " (" STR_F ") is " STR_F ", %s is needed",
                       STR_A(key), STR_A(v->key), STR_A(found), wanted);
    }
    return err_set(err, ERR_INPUT, "%s: " STR_F " is " STR_F ", %s is needed",
                   c->gguf ? "GGUF metadata" : "config", STR_A(v->key), STR_A(found), wanted);
}

static bool missing(const Config *c, const char *key, Err *err) {
    const char *gguf = c->gguf ? config_gguf_key(c, key) : NULL;
    if (gguf)
        return err_set(err, ERR_INPUT, "GGUF metadata: %s (%s) is missing", gguf + (*gguf == '.'),
                       key);
    return err_set(err, ERR_INPUT, "%s: %s is missing", c->gguf ? "GGUF metadata" : "config", key);
}

/* Arrays with one entry per layer often repeat one value; then it is that value. */
static bool uniform(const GgufValue *v, GgufValue *one) {
    GgufValue next;
    GgufIter it = gguf_iter(v);
    if (!gguf_next(&it, one)) return false;
    while (gguf_next(&it, &next)) {
        if (!str_eq(next.bytes, one->bytes)) return false;
    }
    return true;
}

static bool as_int(const ConfigValue *v, int64_t *out) {
    GgufValue one;
    switch (v->source) {
    case CONFIG_JSON:
        return json_i64(v->json, out);
    case CONFIG_GGUF:
        if (v->gguf->type == GGUF_ARRAY) return uniform(v->gguf, &one) && gguf_int(&one, out);
        return gguf_int(v->gguf, out);
    case CONFIG_NUMBER:
        if (!(v->number >= -9e15 && v->number <= 9e15) || v->number != floor(v->number))
            return false;
        *out = (int64_t)v->number;
        return true;
    default:
        return false;
    }
}

static bool as_float(const ConfigValue *v, double *out) {
    GgufValue one;
    switch (v->source) {
    case CONFIG_JSON:
        return json_f64(v->json, out);
    case CONFIG_GGUF:
        if (v->gguf->type == GGUF_ARRAY) return uniform(v->gguf, &one) && gguf_float(&one, out);
        return gguf_float(v->gguf, out);
    case CONFIG_NUMBER:
        *out = v->number;
        return true;
    default:
        return false;
    }
}

bool config_int(const Config *c, const char *key, int64_t dflt, int64_t min, int64_t max,
                int64_t *out, Err *err) {
    ConfigValue v;
    if (!find(c, key, &v)) {
        if (dflt == CONFIG_REQUIRED) return missing(c, key, err);
        *out = dflt;
        return true;
    }
    int64_t i;
    if (as_int(&v, &i) && i >= min && i <= max) {
        *out = i;
        return true;
    }
    char wanted[100];
    snprintf(wanted, sizeof wanted, "an integer from %" PRId64 " to %" PRId64, min, max);
    return wrong(c, &v, wanted, err);
}

bool config_u32(const Config *c, const char *key, int64_t dflt, int64_t min, int64_t max,
                uint32_t *out, Err *err) {
    int64_t v = 0;
    if (!config_int(c, key, dflt, min, max, &v, err)) return false;
    *out = (uint32_t)v;
    return true;
}

bool config_float(const Config *c, const char *key, double dflt, double min, double max,
                  double *out, Err *err) {
    ConfigValue v;
    if (!find(c, key, &v)) {
        if (dflt == CONFIG_REQUIRED_F) return missing(c, key, err);
        *out = dflt;
        return true;
    }
    double d;
    if (as_float(&v, &d) && isfinite(d) && d >= min && d <= max) {
        *out = d;
        return true;
    }
    char wanted[100];
    snprintf(wanted, sizeof wanted, "a number from %g to %g", min, max);
    return wrong(c, &v, wanted, err);
}

bool config_bool(const Config *c, const char *key, bool dflt, bool *out, Err *err) {
    ConfigValue v;
    if (!find(c, key, &v)) {
        *out = dflt;
        return true;
    }
    bool ok = v.source == CONFIG_JSON   ? json_bool(v.json, out)
              : v.source == CONFIG_GGUF ? gguf_bool(v.gguf, out)
                                        : v.source == CONFIG_FLAG;
    if (v.source == CONFIG_FLAG) *out = v.flag;
    return ok || wrong(c, &v, "true or false", err);
}

bool config_str(const Config *c, const char *key, const char *dflt, Str *out, Err *err) {
    ConfigValue v;
    if (!find(c, key, &v)) {
        if (!dflt) return missing(c, key, err);
        *out = str_c(dflt);
        return true;
    }
    bool ok = v.source == CONFIG_JSON   ? json_str(v.json, out)
              : v.source == CONFIG_GGUF ? gguf_str(v.gguf, out)
                                        : v.source == CONFIG_TEXT;
    if (v.source == CONFIG_TEXT) *out = v.text;
    return ok || wrong(c, &v, "a string", err);
}

/* The elements of a JSON value seen as a list: an array's, or the value itself. */
static size_t list_length(const Json *j) { return j->type == JSON_ARRAY ? j->n : 1; }
static const Json *list_item(const Json *j, size_t i) {
    return j->type == JSON_ARRAY ? &j->items[i] : j;
}

/* Those of any value; families read some lists anew for every layer. */
static bool list_size(const ConfigValue *v, size_t *n, Err *err) {
    bool array = v->source == CONFIG_GGUF && v->gguf->type == GGUF_ARRAY;
    uint64_t size = v->source == CONFIG_JSON ? list_length(v->json) : array ? v->gguf->n : 1;
    *n = (size_t)size;
    return size <= CONFIG_MAX_LIST ||
           err_set(err, ERR_LIMIT,
                   "config: " STR_F " has %" PRIu64 " elements, at most %d are accepted",
                   STR_A(v->key), size, CONFIG_MAX_LIST);
}

static bool wrong_item(const ConfigValue *v, size_t i, const char *wanted, Err *err) {
    ConfigValue item = {.source = CONFIG_JSON, .json = list_item(v->json, i)};
    char text[100];
    Str found = shown(&item, text, sizeof text);
    return err_set(err, ERR_INPUT, "config: " STR_F "[%zu] is " STR_F ", %s is needed",
                   STR_A(v->key), i, STR_A(found), wanted);
}

/* Lists may say Infinity, as Python writes it (time_step_limit does). */
static bool item_float(const Json *j, double *out) {
    if (json_f64(j, out)) return true;
    if (!json_is(j, JSON_NUMBER)) return false;
    bool plus = str_eqc(j->text, "Infinity"), minus = str_eqc(j->text, "-Infinity");
    *out = plus ? (double)INFINITY : -(double)INFINITY;
    return plus || minus;
}

bool config_floats(const Config *c, const char *key, Arena *a, const double **out, size_t *n,
                   Err *err) {
    ConfigValue v;
    *out = NULL;
    *n = 0;
    if (!find(c, key, &v)) return true;
    size_t count;
    if (!list_size(&v, &count, err)) return false;
    if (v.source == CONFIG_GGUF) return gguf_floats(v.gguf, a, out, n, err);
    double *list = arena_array(a, double, count);
    if (!list) return err_nomem(err, key);
    for (size_t i = 0; i < count; i++) {
        if (v.source != CONFIG_JSON && !as_float(&v, &list[i]))
            return wrong(c, &v, "a number", err);
        if (v.source == CONFIG_JSON && !item_float(list_item(v.json, i), &list[i]))
            return wrong_item(&v, i, "a number", err);
    }
    *out = list;
    *n = count;
    return true;
}

bool config_ints(const Config *c, const char *key, Arena *a, const int64_t **out, size_t *n,
                 Err *err) {
    ConfigValue v;
    *out = NULL;
    *n = 0;
    if (!find(c, key, &v)) return true;
    size_t count;
    if (!list_size(&v, &count, err)) return false;
    if (v.source == CONFIG_GGUF) return gguf_ints(v.gguf, a, out, n, err);
    int64_t *list = arena_array(a, int64_t, count);
    if (!list) return err_nomem(err, key);
    for (size_t i = 0; i < count; i++) {
        if (v.source != CONFIG_JSON && !as_int(&v, &list[i]))
            return wrong(c, &v, "an integer", err);
        if (v.source == CONFIG_JSON && !json_i64(list_item(v.json, i), &list[i]))
            return wrong_item(&v, i, "an integer", err);
    }
    *out = list;
    *n = count;
    return true;
}

bool config_strs(const Config *c, const char *key, Arena *a, const Str **out, size_t *n, Err *err) {
    ConfigValue v;
    *out = NULL;
    *n = 0;
    if (!find(c, key, &v)) return true;
    size_t count;
    if (!list_size(&v, &count, err)) return false;
    if (v.source == CONFIG_GGUF) return gguf_strs(v.gguf, a, out, n, err);
    if (v.source != CONFIG_JSON && v.source != CONFIG_TEXT)
        return wrong(c, &v, "a list of strings", err);
    Str *list = arena_array(a, Str, count);
    if (!list) return err_nomem(err, key);
    for (size_t i = 0; i < count; i++) {
        list[i] = v.text;
        if (v.source == CONFIG_JSON && !json_str(list_item(v.json, i), &list[i]))
            return wrong_item(&v, i, "a string", err);
    }
    *out = list;
    *n = count;
    return true;
}

bool config_section(const Config *c, const char *key, Config *out, Err *err) {
    ConfigValue v;
    *out = (Config){.parent = c, .model_type = c->model_type};
    if (c->gguf) {
        *out = (Config){
            .gguf = c->gguf, .parent = c, .model_type = c->model_type, .section = "rope_scaling"};
        Str rest = str_c(key), part;
        while (str_split(&rest, '|', &part)) {
            if (!c->section && str_eqc(part, "rope_scaling") && config_has(out, "rope_type"))
                return true;
        }
        return false;
    }
    if (!find(c, key, &v)) return false;
    if (v.json->type != JSON_OBJECT) return wrong(c, &v, "an object", err);
    if (v.json->n > CONFIG_MAX_KEYS)
        return err_set(err, ERR_LIMIT, "config: " STR_F " has %zu keys, at most %d are accepted",
                       STR_A(v.key), v.json->n, CONFIG_MAX_KEYS);
    out->json = v.json;
    out->model_type = STR_NONE;
    (void)json_str(json_get(v.json, "model_type"), &out->model_type);
    return true;
}
