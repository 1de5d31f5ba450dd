#include "backend/ref/ref.h"

#include <string.h>

#include "base/mem.h"

static uint64_t weight_bytes(WeightKind kind, const WeightSource *parts, int n_parts) {
    (void)kind;
    uint64_t sum = 0;
    for (int i = 0; i < n_parts; i++) sum += (uint64_t)parts[i].n * parts[i].k * sizeof(float);
    return sum;
}

static void weight_free(BackWeight *w) {
    mem_free_pages(w->p, w->bytes);
    mem_free(w);
}

enum { LOAD_ROWS = 64 }; /* rows decoded at a time */

static bool weight_load(Pool *pool, WeightKind kind, const WeightSource *parts, int n_parts,
                        BackWeight **out, Err *err) {
    (void)pool;
    BackWeight *w = mem_calloc(1, sizeof *w);
    if (!w) return err_nomem(err, parts[0].name);
    WeightScratch sc = {0};
    w->bytes = weight_bytes(kind, parts, n_parts);
    w->k = parts[0].k;
    w->p = mem_alloc_pages(w->bytes);
    bool ok = w->p != NULL || err_nomem(err, parts[0].name);
    float *at = w->p;
    for (int i = 0; ok && i < n_parts; i++) {
        for (uint32_t n = 0; ok && n < parts[i].n; n += LOAD_ROWS) {
            uint32_t n1 = n + LOAD_ROWS < parts[i].n ? n + LOAD_ROWS : parts[i].n;
            ok = wsource_f32(&parts[i], n, n1, at, &sc, err);
            at += (size_t)(n1 - n) * parts[i].k;
        }
        w->n += parts[i].n;
    }
    wsource_scratch_deinit(&sc);
    if (!ok) {
        weight_free(w);
        return false;
    }
    *out = w;
    return true;
}

static size_t plane_page_bytes(const ProgPlane *plane, PlaneType type) {
    size_t rows = host_page_rows(plane);
    return size_align(plane->heads * rows * planetype_row_bytes(type, plane->head_cols), 64);
}

static const float *weight_floats(const BackWeight *w) { return w->p; }

static void table_row(const BackWeight *w, uint32_t n, float *out) {
    memcpy(out, w->p + (size_t)n * w->k, w->k * sizeof *out);
}

static const HostOps REF_OPS = {
    .isa = "portable",
    .weight_bytes = weight_bytes,
    .weight_load = weight_load,
    .weight_free = weight_free,
    .plane_page_bytes = plane_page_bytes,
    .floats = weight_floats,
    .table_row = table_row,
    .plane_row = ref_plane_row,
    .run =
        {
            HOST_SHARED_OPS,
            [OP_LINEAR] = ref_linear,
            [OP_RMS_NORM] = ref_rms_norm,
            [OP_LAYER_NORM] = ref_layer_norm,
            [OP_ROPE_ANGLES] = ref_rope_angles,
            [OP_ROPE] = ref_rope,
            [OP_KV_WRITE] = ref_kv_write,
            [OP_ATTN] = ref_attn,
            [OP_ADD] = ref_add,
            [OP_MUL] = ref_mul,
            [OP_SCALE] = ref_scale,
            [OP_ACT] = ref_act,
            [OP_GLU] = ref_glu,
            [OP_SELECT] = ref_select,
            [OP_EXPERTS] = ref_experts,
        },
};

static bool ref_open(const BackendOptions *opt, Backend **out, Err *err) {
    return host_open(&BACKEND_REF, &REF_OPS, opt->n_threads, out, err);
}

const BackendApi BACKEND_REF = {
    .name = "ref",
    .description = "plain loops, f64 accumulation: the specification",
    .open = ref_open,
    HOST_API,
};
