/* inspect --file: one file alone, whatever it belongs to. */
#include "api/api.h"
#include "base/os.h"
#include "ckpt/gguf.h"
#include "ckpt/safetensors.h"
#include "json/json_writer.h"

enum { MAX_LISTED = 16 }; /* elements of an array that a listing shows */

static void put_tensors(JsonWriter *w, const CkptTensor *tensors, size_t n) {
    json_w_key(w, STR("n_tensors"));
    json_w_u64(w, n);
    json_w_key(w, STR("tensors"));
    json_w_array(w);
    for (size_t i = 0; i < n; i++) api_put_tensor(w, &tensors[i], NULL);
    json_w_end(w);
}

static void begin(JsonWriter *w, const char *path, const char *format) {
    json_w_object(w);
    json_w_key(w, STR("file"));
    json_w_str(w, str_c(path));
    json_w_key(w, STR("format"));
    json_w_str(w, str_c(format));
    json_w_key(w, STR("valid"));
    json_w_bool(w, true);
}

static bool inspect_safetensors(const char *path, JsonWriter *w, Err *err) {
    Safetensors *st;
    if (!safetensors_open(path, &st, err)) return false;
    begin(w, path, "safetensors");
    json_w_key(w, STR("metadata"));
    json_w_object(w);
    for (size_t i = 0; i < st->n_metadata; i++) {
        json_w_key(w, st->metadata[i].key);
        json_w_str(w, st->metadata[i].value);
    }
    json_w_end(w);
    put_tensors(w, st->tensors, st->n_tensors);
    json_w_end(w);
    safetensors_close(st);
    return true;
}

static void put_value(JsonWriter *w, const GgufValue *v);

static void put_array(JsonWriter *w, const GgufValue *v) {
    GgufIter it = gguf_iter(v);
    GgufValue e;
    json_w_object(w);
    json_w_key(w, STR("type"));
    json_w_str(w, str_c(gguftype_name(v->element)));
    json_w_key(w, STR("n"));
    json_w_u64(w, v->n);
    json_w_key(w, STR("first"));
    json_w_array(w);
    for (int i = 0; i < MAX_LISTED && gguf_next(&it, &e); i++) put_value(w, &e);
    json_w_end(w);
    json_w_end(w);
}

static void put_value(JsonWriter *w, const GgufValue *v) {
    int64_t i;
    double f;
    bool b;
    Str s;
    if (v->type == GGUF_ARRAY)
        put_array(w, v);
    else if (v->type == GGUF_BOOL && gguf_bool(v, &b))
        json_w_bool(w, b);
    else if (gguf_str(v, &s))
        json_w_str(w, s);
    else if (gguf_int(v, &i))
        json_w_i64(w, i);
    else if (v->type == GGUF_F32 && gguf_float(v, &f))
        json_w_f32(w, (float)f);
    else if (gguf_float(v, &f))
        json_w_f64(w, f);
    else if (v->type == GGUF_U64 && v->bytes.n == 8) { /* above what int64 holds */
        uint64_t u = 0;
        for (int k = 7; k >= 0; k--) u = u << 8 | (unsigned char)v->bytes.p[k];
        json_w_u64(w, u);
    } else {
        json_w_null(w);
    }
}

static bool inspect_gguf(const char *path, JsonWriter *w, Err *err) {
    Gguf *g;
    if (!gguf_open(path, &g, err)) return false;
    begin(w, path, "gguf");
    json_w_key(w, STR("version"));
    json_w_u64(w, g->version);
    json_w_key(w, STR("alignment"));
    json_w_u64(w, g->alignment);
    json_w_key(w, STR("data_offset"));
    json_w_u64(w, g->data_offset);
    json_w_key(w, STR("keys"));
    json_w_object(w);
    for (size_t i = 0; i < g->n_keys; i++) {
        json_w_key(w, g->keys[i].key);
        put_value(w, &g->keys[i]);
    }
    json_w_end(w);
    put_tensors(w, g->tensors, g->n_tensors);
    json_w_end(w);
    gguf_close(g);
    return true;
}

static bool inspect_json(const char *path, JsonWriter *w, Err *err) {
    Buf text = {0};
    bool ok = os_read_file(path, (size_t)256 << 20, &text, err) &&
              (json_check(buf_str(&text), NULL, err) || err_wrap(err, "%s", path));
    buf_deinit(&text);
    if (!ok) return false;
    json_w_object(w);
    json_w_key(w, STR("valid"));
    json_w_bool(w, true);
    json_w_end(w);
    return true;
}

bool mlxcel_file_inspect(const char *path, mlxcel_string **json, mlxcel_error *error) {
    Err err = {0};
    Buf text = {0};
    JsonWriter w = {.out = &text};
    Str p = str_c(path);
    bool ok;
    if (str_ends(p, STR(".safetensors")))
        ok = inspect_safetensors(path, &w, &err);
    else if (str_ends(p, STR(".gguf")))
        ok = inspect_gguf(path, &w, &err);
    else if (str_ends(p, STR(".json")))
        ok = inspect_json(path, &w, &err);
    else
        ok = os_exists(path) ? err_set(&err, ERR_INPUT,
                                       "%s: .safetensors, .gguf and .json files are accepted", path)
                             : err_set(&err, ERR_NOT_FOUND, "there is no file \"%s\"", path);
    if (ok) return api_string(&text, json, error);
    buf_deinit(&text);
    return api_fail(error, &err);
}
