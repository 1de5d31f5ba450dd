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

/* ---- the wrapper's choice ---- */

bool vit_rope_theta(const Config *vision, double *theta, Err *err) {
    Config section;
    Err nested = {0};
    Str type = STR("axial");
    if (!config_float(vision, "rope_theta", 10000, 1e-3, 1e30, theta, err)) return false;
    if (config_section(vision, "rope_parameters", &section, &nested)) {
        if (!config_float(&section, "rope_theta", *theta, 1e-3, 1e30, theta, err) ||
            !config_str(&section, "rope_type", "axial", &type, err))
            return false;
    } else if (nested.kind) {
        if (err) *err = nested;
        return false;
    }
    return str_eqc(type, "axial") || str_eqc(type, "default") ||
           err_set(err, ERR_UNSUPPORTED,
                   "vision rope_type \"" STR_F "\"; axial and default are accepted", STR_A(type));
}

bool vit_features_read(VitFeatures *f, const Decoder *tower, const Config *wrapper, int64_t usual,
                       Err *err) {
    const int64_t *v;
    size_t n;
    Str act;
    if (!config_ints(wrapper, "vision_feature_layer", tower->arena, &v, &n, err) ||
        !config_str(wrapper, "projector_hidden_act", "gelu", &act, err) ||
        !act_parse(act, &f->act, err))
        return false;
    if (!n) v = &usual, n = 1;
    if (n > VIT_MAX_FEATURES)
        return err_set(err, ERR_INPUT,
                       "vision_feature_layer has %zu layers, at most %d are accepted", n,
                       VIT_MAX_FEATURES);
    f->n = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        int64_t layers = tower->n_layers, at = v[i] < 0 ? layers + 1 + v[i] : v[i];
        if (at < 0 || at > layers)
            return err_set(err, ERR_INPUT, "vision_feature_layer %lld of a tower of %u layers",
                           (long long)v[i], tower->n_layers);
        f->layers[i] = (uint32_t)at;
    }
    return true;
}

Val vit_features(const Vit *v, const VitFeatures *f, Val x) {
    Val found[VIT_MAX_FEATURES], all = VAL_NONE;
    uint32_t last = 0;
    for (uint32_t i = 0; i < f->n; i++) last = f->layers[i] > last ? f->layers[i] : last;
    for (uint32_t at = 0;; at++) {
        for (uint32_t i = 0; i < f->n; i++)
            if (f->layers[i] == at) found[i] = x;
        if (at == last) break;
        x = vit_layer(v, x, (int)at);
    }
    for (uint32_t i = 0; i < f->n; i++) all = i ? prog_concat(v->d->b, all, found[i]) : found[i];
    return all;
}

Val vit_project(const Vit *v, Val x, uint32_t k, Act act) {
    Decoder *d = v->d;
    uint32_t width = weights_rows(d->weights, ROLE_PROJ_1, -1),
             wide = weights_rows(d->weights, ROLE_PROJ_2, -1);
    x = prog_act(d->b, vit_linear(v, x, ROLE_PROJ_1, -1, width, k), act, 0);
    return vit_linear(v, x, ROLE_PROJ_2, -1, wide, width);
}

/* ---- patches ---- */

void vit_patch(const VitPatches *p, const float *image, uint64_t height, uint64_t width, uint64_t y,
               uint64_t x, float *out) {
    uint32_t n = p->patch, area = n * n;
    for (uint32_t c = 0; c < p->channels; c++)
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < n; k++) {
                size_t at = p->channels_last ? (size_t)(i * n + k) * p->channels + c
                                             : (size_t)c * area + i * n + k;
                out[at] = image[(c * height + y * n + i) * width + x * n + k];
            }
}

float *vit_patches_write(const VitPatches *p, const float *image, uint64_t height, uint64_t width,
                         float *out) {
    size_t cols = (size_t)p->channels * p->patch * p->patch;
    uint64_t lines = height / p->patch, columns = width / p->patch, side = p->block;
    for (uint64_t by = 0; by + side <= lines; by += side)
        for (uint64_t bx = 0; bx + side <= columns; bx += side)
            for (uint64_t y = 0; y < side; y++)
                for (uint64_t x = 0; x < side; x++, out += cols)
                    vit_patch(p, image, height, width, by + y, bx + x, out);
    return out;
}

const float *vit_patches(const VitPatches *p, const MediaTensor *images, Arena *a, Err *err) {
    uint64_t height = images->dims[2], width = images->dims[3];
    float *rows = arena_array(a, float, media_elements(images)), *out = rows;
    if (!rows) return err_nomem(err, "patches"), NULL;
    for (uint64_t i = 0; i < images->dims[0]; i++)
        out = vit_patches_write(p, (const float *)images->data + i * p->channels * height * width,
                                height, width, out);
    return rows;
}
