#include "json/json.h"

#include <math.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "json/json_reader.h"

/* Objects up to this size are searched for duplicates pair by pair, larger ones with a hash map. */
enum { SMALL_OBJECT = 12 };

/* Nodes whose container is still open lie on a stack; when it closes, they move to the arena in
 * one piece. */
typedef struct TreeBuilder {
    Arena *a;
    JsonDup dup;
    const char *from; /* the text */
    char *copy;       /* its copy in the arena, in which strings are unescaped in place */
    Json *stack;
    size_t n, cap;
    size_t opened[JSON_READER_MAX_DEPTH]; /* stack index of each open container */
    int depth;
    Str key; /* of the next value */
} TreeBuilder;

static Json *node_push(TreeBuilder *b, JsonType type, Err *err) {
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 64;
        Json *stack = mem_resize_array(b->stack, cap, sizeof *stack);
        if (!stack) {
            err_nomem(err, "a JSON tree");
            return NULL;
        }
        b->stack = stack;
        b->cap = cap;
    }
    Json *j = &b->stack[b->n++];
    *j = (Json){.type = type, .key = b->key};
    b->key = STR_NONE;
    return j;
}

static Str token_text(TreeBuilder *b, const JsonToken *t) {
    char *p = b->copy + (t->raw.p - b->from);
    return (Str){p, t->escaped ? json_unescape(t->raw, p) : t->raw.n};
}

static bool refuse_dup(Str key, Err *err) {
    return err_set(err, ERR_INPUT, "JSON object has the name \"" STR_F "\" twice", STR_A(key));
}

/* Keeps each name once, where it first stood, with its last value; or refuses the second. */
static bool drop_dups_small(Json *items, size_t *n, bool refuse, Err *err) {
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        size_t k = 0;
        while (k < kept && !str_eq(items[k].key, items[i].key)) k++;
        if (k < kept && refuse) return refuse_dup(items[i].key, err);
        items[k] = items[i];
        if (k == kept) kept++;
    }
    *n = kept;
    return true;
}

static bool drop_dups_large(Json *items, size_t *n, bool refuse, Err *err) {
    Map seen = {0};
    size_t kept = 0;
    bool ok = map_reserve(&seen, *n) || err_nomem(err, "the names of a JSON object");
    for (size_t i = 0; ok && i < *n; i++) {
        uint64_t k = kept;
        if (map_get(&seen, items[i].key, &k)) {
            if (refuse) ok = refuse_dup(items[i].key, err);
        } else {
            ok = map_put(&seen, items[i].key, kept) || err_nomem(err, "the names of a JSON object");
            kept++;
        }
        if (ok) items[k] = items[i];
    }
    map_deinit(&seen);
    *n = kept;
    return ok;
}

static bool container_close(TreeBuilder *b, Err *err) {
    size_t at = b->opened[--b->depth];
    Json *j = &b->stack[at], *items = j + 1;
    size_t n = b->n - at - 1;
    if (j->type == JSON_OBJECT && b->dup != JSON_DUP_KEEP && n > 1) {
        bool refuse = b->dup == JSON_DUP_REFUSE;
        bool ok = n <= SMALL_OBJECT ? drop_dups_small(items, &n, refuse, err)
                                    : drop_dups_large(items, &n, refuse, err);
        if (!ok) return false;
    }
    if (n) {
        j->items = arena_array(b->a, Json, n);
        if (!j->items) return err_nomem(err, "a JSON tree");
        memcpy(j->items, items, n * sizeof *items);
        j->n = n;
    }
    b->n = at + 1;
    return true;
}

static bool tree_add(TreeBuilder *b, const JsonToken *t, Err *err) {
    static const JsonType types[] = {
        [JSON_EV_OBJECT] = JSON_OBJECT, [JSON_EV_ARRAY] = JSON_ARRAY,
        [JSON_EV_STRING] = JSON_STRING, [JSON_EV_NUMBER] = JSON_NUMBER,
        [JSON_EV_TRUE] = JSON_TRUE,     [JSON_EV_FALSE] = JSON_FALSE,
        [JSON_EV_NULL] = JSON_NULL,
    };
    if (t->event == JSON_EV_KEY) {
        b->key = token_text(b, t);
        return true;
    }
    if (t->event == JSON_EV_OBJECT_END || t->event == JSON_EV_ARRAY_END)
        return container_close(b, err);
    Json *j = node_push(b, types[t->event], err);
    if (!j) return false;
    if (t->event == JSON_EV_STRING || t->event == JSON_EV_NUMBER)
        j->text = token_text(b, t);
    else if (j->type == JSON_OBJECT || j->type == JSON_ARRAY)
        b->opened[b->depth++] = b->n - 1;
    return true;
}

static bool tree_build(TreeBuilder *b, JsonReader *r, Err *err) {
    JsonToken t;
    while (json_next(r, &t, err)) {
        if (t.event == JSON_EV_END) return true;
        if (!tree_add(b, &t, err)) return false;
    }
    return false;
}

bool json_parse(Str text, const JsonOptions *opt, Arena *a, Json **out, Err *err) {
    TreeBuilder b = {.a = a, .dup = opt ? opt->dup : JSON_DUP_REFUSE, .from = text.p};
    JsonReader r;
    bool ok = false;
    if (!json_reader_open(&r, text, opt, err)) goto done;
    b.copy = arena_alloc(a, text.n + 1);
    if (!b.copy) {
        err_nomem(err, "a JSON text");
        goto done;
    }
    if (text.n) memcpy(b.copy, text.p, text.n);
    if (!tree_build(&b, &r, err)) goto done;
    *out = arena_new(a, Json);
    if (*out) **out = b.stack[0];
    ok = *out || err_nomem(err, "a JSON tree");
done:
    json_reader_deinit(&r);
    mem_free(b.stack);
    return ok;
}

bool json_check(Str text, const JsonOptions *opt, Err *err) {
    JsonOptions strict = opt ? *opt : (JsonOptions){0};
    strict.strict_surrogates = true;
    JsonReader r;
    JsonToken t = {.event = JSON_EV_MORE};
    bool ok = json_reader_open(&r, text, &strict, err);
    while (ok && t.event != JSON_EV_END) ok = json_next(&r, &t, err);
    json_reader_deinit(&r);
    return ok;
}

const Json *json_find(const Json *object, Str key) {
    if (!json_is(object, JSON_OBJECT)) return NULL;
    for (size_t i = object->n; i-- > 0;) {
        if (str_eq(object->items[i].key, key)) return &object->items[i];
    }
    return NULL;
}

const Json *json_get(const Json *object, const char *key) { return json_find(object, str_c(key)); }

const Json *json_at(const Json *array, size_t i) {
    return json_is(array, JSON_ARRAY) && i < array->n ? &array->items[i] : NULL;
}

bool json_is(const Json *j, JsonType type) { return j && j->type == type; }

bool json_bool(const Json *j, bool *out) {
    if (!json_is(j, JSON_TRUE) && !json_is(j, JSON_FALSE)) return false;
    *out = j->type == JSON_TRUE;
    return true;
}

/* The exponent's digits behind 'e', clamped: far beyond any 64-bit integer either way. */
static int64_t exponent_of(Str s) {
    bool negative = s.n && s.p[0] == '-';
    int64_t v = 0;
    for (size_t i = negative || (s.n && s.p[0] == '+'); i < s.n; i++) {
        if (v < ((int64_t)1 << 40)) v = v * 10 + (s.p[i] - '0');
    }
    return negative ? -v : v;
}

/* A number with fraction or exponent whose value is an integer: digits of the mantissa, then
 * zeros by the exponent. */
static bool integer_of(Str s, int64_t *out) {
    bool negative = s.p[0] == '-', in_fraction = false;
    unsigned __int128 v = 0;
    int64_t zeros = 0, n_digits = 0; /* trailing zeros not yet multiplied in; digits of v */
    size_t i = negative;
    int64_t shift = 0;
    if (s.p[i] < '0' || s.p[i] > '9') return false; /* Infinity, NaN */
    for (; i < s.n && s.p[i] != 'e' && s.p[i] != 'E'; i++) {
        if (s.p[i] == '.') {
            in_fraction = true;
            continue;
        }
        shift -= in_fraction;
        zeros++;
        if (s.p[i] == '0') continue;
        for (; zeros > 0; zeros--) {
            if (n_digits > 0 && n_digits++ > 30) return false;
            v *= 10;
        }
        v += (unsigned)(s.p[i] - '0');
        if (!n_digits) n_digits = 1;
    }
    if (!v) return *out = 0, true;
    shift += zeros + (i < s.n ? exponent_of(str_from(s, i + 1)) : 0);
    if (shift < 0 || shift > 19) return false;
    for (; shift > 0; shift--) {
        if (v > (uint64_t)INT64_MAX + 1) return false;
        v *= 10;
    }
    if (v > (uint64_t)INT64_MAX + negative) return false;
    *out = negative ? (int64_t)(0 - (uint64_t)v) : (int64_t)v;
    return true;
}

bool json_i64(const Json *j, int64_t *out) {
    if (!json_is(j, JSON_NUMBER)) return false;
    return str_to_i64(j->text, out) || integer_of(j->text, out);
}

bool json_f64(const Json *j, double *out) {
    return json_is(j, JSON_NUMBER) && str_to_f64(j->text, out) && isfinite(*out);
}

bool json_str(const Json *j, Str *out) {
    if (!json_is(j, JSON_STRING)) return false;
    *out = j->text;
    return true;
}

const char *jsontype_name(JsonType t) {
    static const char *const names[] = {
        [JSON_NULL] = "null",     [JSON_FALSE] = "boolean", [JSON_TRUE] = "boolean",
        [JSON_NUMBER] = "number", [JSON_STRING] = "string", [JSON_ARRAY] = "array",
        [JSON_OBJECT] = "object",
    };
    return (size_t)t < sizeof names / sizeof *names ? names[t] : "unknown";
}
