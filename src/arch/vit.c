#include "arch/vit.h"

#include <math.h>
#include <string.h>

Val vit_norm(const Vit *v, Val x, Role role, int i) {
    Decoder *d = v->d;
    WeightId w = arch_take_vector(d, role, i, ".weight", d->hidden);
    if (v->rms) return prog_rms_norm(d->b, x, w, 0, d->eps, 0);
    return prog_layer_norm(d->b, x, w, arch_take_vector(d, role, i, ".bias", d->hidden), 0, d->eps,
                           0);
}

Val vit_linear(const Vit *v, Val x, Role role, int i, uint32_t n, uint32_t k) {
    Decoder *d = v->d;
    WeightId w = arch_take_matrix(d, role, i, n, k), bias = W_NONE;
    if (weights_has(d->weights, role, i, ".bias")) bias = arch_take_vector(d, role, i, ".bias", n);
    return prog_linear(d->b, x, w, bias);
}

void vit_begin(Vit *v) {
    ProgPlane plane = {.heads = v->n_heads, .head_cols = v->head_dim, .use = PLANE_KEY};
    v->k = prog_plane(v->d->b, plane);
    plane.use = PLANE_VALUE;
    v->v = prog_plane(v->d->b, plane);
}

/* Queries, keys and values side by side. */
static Val qkv(const Vit *v, Val x, int i) {
    Decoder *d = v->d;
    static const Role ROLES[3] = {ROLE_Q, ROLE_K, ROLE_V};
    uint32_t n = v->n_heads * v->head_dim;
    TakePart w[3], bias[3];
    if (v->fused_qkv) return vit_linear(v, x, ROLE_QKV, i, 3 * n, d->hidden);
    for (int j = 0; j < 3; j++) {
        w[j] = (TakePart){.role = ROLES[j], .n = n, .k = d->hidden};
        bias[j] = (TakePart){.role = ROLES[j], .n = 1, .k = n};
    }
    WeightId m = arch_take(d, WEIGHT_MATRIX, i, ".weight", w, 3),
             b = v->no_bias ? W_NONE : arch_take(d, WEIGHT_VECTOR, i, ".bias", bias, 3);
    return prog_linear_precise(d->b, x, m, b);
}

static Val turned(const Vit *v, Val x) {
    if (!v->rope) return x;
    return prog_rope(v->d->b, x, v->rope_spec, v->n_heads, v->head_dim, 0, false);
}

static Val attention(const Vit *v, Val x, int i) {
    Decoder *d = v->d;
    uint32_t n = v->n_heads * v->head_dim;
    Val h = prog_probe(d->b, qkv(v, x, i), "layers.%d.attn.qkv", i);
    prog_kv_write(d->b, turned(v, prog_view(d->b, h, n, n)), v->k);
    prog_kv_write(d->b, prog_view(d->b, h, 2 * n, n), v->v);
    const OpAttn p = {.n_heads = v->n_heads,
                      .n_kv_heads = v->n_heads,
                      .head_dim = v->head_dim,
                      .v_dim = v->head_dim,
                      .scale = (float)(1 / sqrt((double)v->head_dim)),
                      .cross = v->whole};
    h = prog_attn(d->b, turned(v, prog_view(d->b, h, 0, n)), v->k, v->v, W_NONE, p);
    return vit_linear(v, h, ROLE_O, i, d->hidden, n);
}

static Val feed_forward(const Vit *v, Val x, int i) {
    Decoder *d = v->d;
    Val h = vit_linear(v, x, ROLE_UP, i, v->ffn_width, d->hidden);
    if (v->gated)
        h = prog_glu(d->b, vit_linear(v, x, ROLE_GATE, i, v->ffn_width, d->hidden), h, v->act);
    else
        h = prog_act(d->b, h, v->act, 0);
    return vit_linear(v, h, ROLE_DOWN, i, d->hidden, v->ffn_width);
}

Val vit_layer(const Vit *v, Val x, int i) {
    ProgBuilder *b = v->d->b;
    x = prog_add(b, x, attention(v, vit_norm(v, x, ROLE_ATTN_NORM, i), i), 1);
    x = prog_add(b, x, feed_forward(v, vit_norm(v, x, ROLE_FFN_NORM, i), i), 1);
    return prog_probe(b, x, "layers.%d.out", i);
}

/* One square of an image, from its pixel (top, left). */
static void square(const VitPatches *p, const float *image, uint64_t height, uint64_t width,
                   uint64_t top, uint64_t left, float *out) {
    uint32_t n = p->patch, area = n * n;
    for (uint32_t c = 0; c < p->channels; c++)
        for (uint32_t y = 0; y < n; y++)
            for (uint32_t x = 0; x < n; x++) {
                size_t at = p->channels_last ? (size_t)(y * n + x) * p->channels + c
                                             : (size_t)c * area + y * n + x;
                out[at] = image[(c * height + top + y) * width + left + x];
            }
}

const float *vit_patches(const VitPatches *p, const MediaTensor *images, Arena *a, Err *err) {
    uint64_t height = images->dims[2], width = images->dims[3], n = p->patch, side = n * p->block;
    size_t cols = (size_t)p->channels * p->patch * p->patch;
    float *rows = arena_array(a, float, media_elements(images));
    if (!rows) return err_nomem(err, "patches"), NULL;
    float *out = rows;
    for (uint64_t i = 0; i < images->dims[0]; i++) {
        const float *image = (const float *)images->data + i * p->channels * height * width;
        for (uint64_t by = 0; by < height; by += side)
            for (uint64_t bx = 0; bx < width; bx += side)
                for (uint64_t y = 0; y < side; y += n)
                    for (uint64_t x = 0; x < side; x += n, out += cols)
                        square(p, image, height, width, by + y, bx + x, out);
    }
    return rows;
}
