/* Qwen2-VL (Wang et al. 2024) and Qwen2.5-VL (Bai et al. 2025). Qwen2-VL's tower has layer norms
 * and a plain feed-forward. Qwen2.5-VL's has RMS norms and a gated one, and in most layers a row
 * sees its window only; its videos count seconds. config.json has the text model's keys at its root
 * or in text_config. */
#include "arch/qwen_tower.h"

enum { MAX_WIDTH = 1 << 20, MAX_RATIO = 64, MAX_WINDOW = 1 << 20 };

static bool qwen2_build(Decoder *d, ArchModel *out, Err *err) {
    static const QwenTowerKind KIND = {.width_key = "embed_dim",
                                       .out_key = "hidden_size",
                                       .width = 1280,
                                       .depth = 32,
                                       .n_heads = 16,
                                       .out = 3584,
                                       .patch = 14,
                                       .act = "quick_gelu"};
    QwenTower *t = arena_new(d->arena, QwenTower);
    uint32_t ratio;
    if (!t) return err_nomem(err, "tower");
    if (!qwen_tower_read(t, d, &KIND, out, err) ||
        !config_u32(t->d.config, "mlp_ratio", 4, 1, MAX_RATIO, &ratio, err))
        return false;
    t->vit.ffn_width = t->d.hidden * ratio;
    Val x = qwen_tower_embed(t);
    for (uint32_t i = 0; i < t->d.n_layers; i++) x = vit_layer(&t->vit, x, (int)i);
    prog_output(d->b, qwen_tower_embeds(t, x), "image_embeds");
    return true;
}

/* window_size is in pixels. */
static bool window_read(QwenTower *t, const int64_t **whole, size_t *n, Err *err) {
    static const int64_t USUAL[] = {7, 15, 23, 31};
    const Config *v = t->d.config;
    uint32_t pixels;
    if (!config_u32(v, "window_size", 112, 1, MAX_WINDOW, &pixels, err) ||
        !config_ints(v, "fullatt_block_indexes", t->d.arena, whole, n, err))
        return false;
    if (!config_has(v, "fullatt_block_indexes")) *whole = USUAL, *n = 4;
    t->window = pixels / t->grid.merge / t->patch;
    return t->window || err_set(err, ERR_INPUT,
                                "window_size is %u, less than the %u x %u pixels of a row of the "
                                "text model",
                                pixels, t->grid.merge * t->patch, t->grid.merge * t->patch);
}

static bool qwen2_5_build(Decoder *d, ArchModel *out, Err *err) {
    static const QwenTowerKind KIND = {.width_key = "hidden_size",
                                       .out_key = "out_hidden_size",
                                       .width = 3584,
                                       .depth = 32,
                                       .n_heads = 16,
                                       .out = 3584,
                                       .patch = 14,
                                       .act = "silu",
                                       .rms = true};
    QwenTower *t = arena_new(d->arena, QwenTower);
    const int64_t *whole;
    size_t n;
    double per_second;
    if (!t) return err_nomem(err, "tower");
    if (!qwen_tower_read(t, d, &KIND, out, err) || !window_read(t, &whole, &n, err) ||
        !config_u32(t->d.config, "intermediate_size", 3420, 1, MAX_WIDTH, &t->vit.ffn_width, err) ||
        !config_float(t->d.config, "tokens_per_second", 4, 1e-3, 1e6, &per_second, err))
        return false;
    t->grid.tokens_per_second = (float)per_second;
    t->vit.gated = true;
    Val x = qwen_tower_embed(t);
    for (uint32_t i = 0; i < t->d.n_layers; i++) {
        t->vit.whole = qwen_tower_listed(whole, n, i) >= 0;
        x = vit_layer(&t->vit, x, (int)i);
    }
    prog_output(d->b, qwen_tower_embeds(t, x), "image_embeds");
    return true;
}

#define MERGER_ROLES                                                                               \
    {ROLE_PROJ_NORM, {"merger.ln_q", NULL}}, {ROLE_PROJ_1, {"merger.mlp.0", NULL}}, {              \
        ROLE_PROJ_2, { "merger.mlp.2", NULL }                                                      \
    }

static const RoleDelta QWEN2_NAMES[] = {
    QWEN_TOWER_ROLES,
    MERGER_ROLES,
    {ROLE_UP, {"blocks.%d.mlp.fc1", NULL}},
    {ROLE_DOWN, {"blocks.%d.mlp.fc2", NULL}},
    {ROLE_COUNT, {NULL, NULL}},
};

static const RoleDelta QWEN2_5_NAMES[] = {
    QWEN_TOWER_ROLES,
    MERGER_ROLES,
    {ROLE_GATE, {"blocks.%d.mlp.gate_proj", NULL}},
    {ROLE_UP, {"blocks.%d.mlp.up_proj", NULL}},
    {ROLE_DOWN, {"blocks.%d.mlp.down_proj", NULL}},
    {ROLE_COUNT, {NULL, NULL}},
};

const ArchMedia MEDIA_QWEN2_VL = {
    .name = "qwen2_vl",
    .kind = "image",
    .model_types = (const char *const[]){"qwen2_vl", NULL},
    .names = QWEN2_NAMES,
    .places = QWEN_TOWER_PLACES,
    .first = ROLE_PATCH,
    .build = qwen2_build,
    .plan = qwen_tower_plan,
};

const ArchMedia MEDIA_QWEN2_5_VL = {
    .name = "qwen2_5_vl",
    .kind = "image",
    .model_types = (const char *const[]){"qwen2_5_vl", NULL},
    .names = QWEN2_5_NAMES,
    .places = QWEN_TOWER_PLACES,
    .first = ROLE_PATCH,
    .build = qwen2_5_build,
    .plan = qwen_tower_plan,
};
