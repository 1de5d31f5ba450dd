/* Any bytes as a .gguf file: refused with a message, or every key can be read as whatever it is
 * and every tensor lies inside the file. */
#include "ckpt/gguf.h"

#include "ckpt/fuzz_file.h"

static void read_value(const GgufValue *v) {
    Arena a = {.max_bytes = 1 << 26};
    const Str *s;
    const int64_t *ints;
    const double *doubles;
    const float *floats;
    size_t n;
    int64_t i;
    double d;
    bool b;
    Str text;
    (void)(gguf_int(v, &i) || gguf_float(v, &d) || gguf_bool(v, &b) || gguf_str(v, &text));
    if (gguf_strs(v, &a, &s, &n, NULL)) {
        for (size_t k = 0; k < n; k++) {
            if (s[k].n && s[k].p[s[k].n - 1] == 1) i++;
        }
    }
    if (gguf_ints(v, &a, &ints, &n, NULL) && n != v->n) abort();
    if (gguf_floats(v, &a, &doubles, &n, NULL) && n != v->n) abort();
    if (gguf_f32s(v, &a, &floats, &n, NULL) && n != v->n) abort();
    GgufValue e;
    uint64_t count = 0;
    for (GgufIter it = gguf_iter(v); gguf_next(&it, &e); count++) {
    }
    if (v->type == GGUF_ARRAY && v->element != GGUF_ARRAY && count != v->n) abort();
    arena_deinit(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int fd = fuzz_file(data, size, path);
    Gguf *g;
    Err err = {0};
    if (!gguf_open(path, &g, &err)) {
        if (!err.msg[0]) abort();
        close(fd);
        return 0;
    }
    for (size_t i = 0; i < g->n_keys; i++) {
        read_value(&g->keys[i]);
        if (gguf_find(g, g->keys[i].key) != &g->keys[i]) abort();
    }
    for (size_t i = 0; i < g->n_tensors; i++) {
        const CkptTensor *t = &g->tensors[i];
        if (t->offset < g->data_offset || t->offset + t->n_bytes > size ||
            gguf_tensor(g, t->name) != t)
            abort();
    }
    gguf_close(g);
    close(fd);
    return 0;
}
