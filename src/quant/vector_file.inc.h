/* vector_file.inc.h: for the tests of quant/ only: reads a small .safetensors of test vectors
 * whole. Not hardened: the files are our own. (ckpt/ has the real reader, a layer above.) Include
 * after cmocka.h. */
#ifndef MLXCEL_QUANT_VECTOR_FILE_INC_H
#define MLXCEL_QUANT_VECTOR_FILE_INC_H

#include <string.h>

#include "base/os.h"
#include "json/json.h"
#include "quant/qmatrix.h"

typedef struct Golden {
    Arena arena;
    Buf file;
    const Json *header, *meta;
    Str data;
} Golden;

static void golden_close(Golden *g) {
    arena_deinit(&g->arena);
    buf_deinit(&g->file);
}

static void golden_open(Golden *g, const char *path) {
    Err err = {0};
    *g = (Golden){0};
    if (!os_read_file(path, 1 << 26, &g->file, &err)) fail_msg("%s: %s", path, err.msg);
    uint64_t n = 0;
    memcpy(&n, g->file.p, 8);
    Json *root, *meta;
    if (!json_parse((Str){g->file.p + 8, n}, NULL, &g->arena, &root, &err))
        fail_msg("%s: %s", path, err.msg);
    Str text;
    assert_true(json_str(json_get(json_get(root, "__metadata__"), "meta"), &text));
    assert_true(json_parse(text, NULL, &g->arena, &meta, &err));
    g->header = root;
    g->meta = meta;
    g->data = (Str){g->file.p + 8 + n, g->file.n - 8 - n};
}

/* The tensor as a part; not there: DTYPE_NONE. */
static QPart golden_part(const Golden *g, const char *name) {
    const Json *t = json_get(g->header, name);
    if (!t) return (QPart){0};
    Str dtype;
    uint64_t shape[QPART_MAX_DIMS] = {0};
    int64_t v, begin = 0, end = 0;
    const Json *dims = json_get(t, "shape"), *offsets = json_get(t, "data_offsets");
    assert_true(json_str(json_get(t, "dtype"), &dtype));
    assert_true(dims->n <= QPART_MAX_DIMS);
    for (size_t i = 0; i < dims->n; i++) {
        assert_true(json_i64(json_at(dims, i), &v));
        shape[i] = (uint64_t)v;
    }
    assert_true(json_i64(json_at(offsets, 0), &begin) && json_i64(json_at(offsets, 1), &end));
    assert_true((size_t)end <= g->data.n);
    DType type = dtype_from_safetensors(dtype);
    assert_int_not_equal(type, DTYPE_NONE);
    return qpart_of(type, (int)dims->n, shape, g->data.p + begin, (uint64_t)(end - begin));
}

#endif
