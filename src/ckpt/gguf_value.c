/* Reading the typed values of a GGUF file (gguf.h). The parse has checked every length, so
 * positions here are safe. */
#include "ckpt/gguf.h"

#include <inttypes.h>
#include <string.h>

#include "base/cursor.h"

static bool is_integer(GgufType t) { return t <= GGUF_I32 || t == GGUF_U64 || t == GGUF_I64; }

/* One integer of type t at p; *wide is set when a u64 does not fit. */
static int64_t integer_at(GgufType t, Cursor *c, bool *wide) {
    uint64_t u;
    switch (t) {
    case GGUF_U8:
    case GGUF_BOOL:
        return cursor_u8(c);
    case GGUF_I8:
        return (int8_t)cursor_u8(c);
    case GGUF_U16:
        return cursor_u16(c);
    case GGUF_I16:
        return (int16_t)cursor_u16(c);
    case GGUF_U32:
        return cursor_u32(c);
    case GGUF_I32:
        return (int32_t)cursor_u32(c);
    case GGUF_I64:
        return (int64_t)cursor_u64(c);
    default:
        break;
    }
    u = cursor_u64(c);
    if (u > INT64_MAX) *wide = true;
    return (int64_t)u;
}

static double float_at(GgufType t, Cursor *c) {
    bool wide = false;
    if (t == GGUF_F32) return (double)cursor_f32(c);
    if (t == GGUF_F64) return cursor_f64(c);
    if (t == GGUF_U64) return (double)cursor_u64(c);
    return (double)integer_at(t, c, &wide);
}

bool gguf_int(const GgufValue *v, int64_t *out) {
    if (!v || !is_integer(v->type)) return false;
    Cursor c = cursor_over(v->bytes);
    bool wide = false;
    int64_t value = integer_at(v->type, &c, &wide);
    if (wide) return false;
    *out = value;
    return true;
}

bool gguf_float(const GgufValue *v, double *out) {
    if (!v || !(v->type == GGUF_F32 || v->type == GGUF_F64 || is_integer(v->type))) return false;
    Cursor c = cursor_over(v->bytes);
    *out = float_at(v->type, &c);
    return true;
}

bool gguf_bool(const GgufValue *v, bool *out) {
    int64_t i = 0;
    if (v && v->type == GGUF_BOOL)
        i = v->bytes.p[0] != 0;
    else if (!gguf_int(v, &i) || (i != 0 && i != 1))
        return false;
    *out = i != 0;
    return true;
}

bool gguf_str(const GgufValue *v, Str *out) {
    if (!v || v->type != GGUF_STRING) return false;
    *out = v->bytes;
    return true;
}

/* The element type of an array, or the type of a scalar, which counts as an array of one. */
static GgufType element_type(const GgufValue *v) {
    return v->type == GGUF_ARRAY ? v->element : v->type;
}

/* An empty array has no elements of a wrong type. */
static bool is_empty(const GgufValue *v, size_t *n) { return (*n = 0, v->n == 0); }

static bool wrong_elements(const GgufValue *v, const char *wanted, Err *err) {
    return err_set(err, ERR_CORRUPT, "key " STR_F " holds %s%s, %s are needed", STR_A(v->key),
                   v->type == GGUF_ARRAY ? "an array of " : "", gguftype_name(element_type(v)),
                   wanted);
}

bool gguf_strs(const GgufValue *v, Arena *a, const Str **out, size_t *n, Err *err) {
    if (is_empty(v, n)) return *out = NULL, true;
    if (element_type(v) != GGUF_STRING) return wrong_elements(v, "strings", err);
    Str *list = arena_array(a, Str, v->n);
    if (!list) return err_nomem(err, "GGUF strings");
    if (v->type == GGUF_STRING) {
        list[0] = v->bytes;
    } else {
        Cursor c = cursor_over(v->bytes);
        for (uint64_t i = 0; i < v->n; i++) list[i] = cursor_bytes(&c, cursor_u64(&c));
    }
    *out = list;
    *n = (size_t)v->n;
    return true;
}

bool gguf_ints(const GgufValue *v, Arena *a, const int64_t **out, size_t *n, Err *err) {
    if (is_empty(v, n)) return *out = NULL, true;
    GgufType t = element_type(v);
    if (!is_integer(t) && t != GGUF_BOOL) return wrong_elements(v, "integers", err);
    int64_t *list = arena_array(a, int64_t, v->n);
    if (!list) return err_nomem(err, "GGUF integers");
    Cursor c = cursor_over(v->bytes);
    bool wide = false;
    for (uint64_t i = 0; i < v->n; i++) list[i] = integer_at(t, &c, &wide);
    if (wide)
        return err_set(err, ERR_CORRUPT, "key " STR_F " holds an integer above 2^63 - 1",
                       STR_A(v->key));
    *out = list;
    *n = (size_t)v->n;
    return true;
}

bool gguf_floats(const GgufValue *v, Arena *a, const double **out, size_t *n, Err *err) {
    if (is_empty(v, n)) return *out = NULL, true;
    GgufType t = element_type(v);
    if (t != GGUF_F32 && t != GGUF_F64 && !is_integer(t)) return wrong_elements(v, "numbers", err);
    double *list = arena_array(a, double, v->n);
    if (!list) return err_nomem(err, "GGUF numbers");
    Cursor c = cursor_over(v->bytes);
    for (uint64_t i = 0; i < v->n; i++) list[i] = float_at(t, &c);
    *out = list;
    *n = (size_t)v->n;
    return true;
}

bool gguf_f32s(const GgufValue *v, Arena *a, const float **out, size_t *n, Err *err) {
    if (is_empty(v, n)) return *out = NULL, true;
    if (element_type(v) != GGUF_F32) return wrong_elements(v, "f32 numbers", err);
    float *list = arena_array(a, float, v->n);
    if (!list) return err_nomem(err, "GGUF numbers");
    if (v->n) memcpy(list, v->bytes.p, v->n * sizeof *list);
    *out = list;
    *n = (size_t)v->n;
    return true;
}

GgufIter gguf_iter(const GgufValue *array) { return (GgufIter){.array = array}; }

bool gguf_next(GgufIter *it, GgufValue *element) {
    const GgufValue *v = it->array;
    if (!v || v->type != GGUF_ARRAY || v->element == GGUF_ARRAY || it->i >= v->n) return false;
    Cursor c = cursor_over(v->bytes);
    c.at = it->at;
    uint64_t n = v->element == GGUF_STRING ? cursor_u64(&c) : v->bytes.n / v->n;
    *element = (GgufValue){.key = v->key, .type = v->element, .n = 1, .bytes = cursor_bytes(&c, n)};
    it->at = c.at;
    it->i++;
    return !c.failed;
}

const char *gguftype_name(GgufType t) {
    static const char *const names[GGUF_TYPE_COUNT] = {"u8",  "i8",  "u16",  "i16",    "u32",
                                                       "i32", "f32", "bool", "string", "array",
                                                       "u64", "i64", "f64"};
    return (unsigned)t < GGUF_TYPE_COUNT ? names[t] : "unknown";
}
