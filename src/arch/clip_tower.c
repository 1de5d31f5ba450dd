#include "arch/clip_tower.h"

#include <string.h>

enum {
    MAX_WIDTH = 1 << 16,
    MAX_LAYERS = 1024,
    MAX_HEADS = 1024,
    MAX_SIDE = 1 << 14,
    MAX_CHANNELS = 16,
    MAX_PATCHES = 1 << 24
};

const char *const CLIP_TOWER_PLACES[][2] = {{"vision_tower.vision_model.", ""},
                                            {"vision_tower.", ""},
                                            {"model.vision_tower.vision_model.", "model."},
                                            {"model.vision_tower.", "model."},
                                            {NULL, NULL}};

bool clip_tower_read(ClipTower *c, Decoder *d, Err *err) {
    const Config *v = d->config;
    const bool siglip = str_starts(v->model_type, STR("siglip"));
    double eps;
    Str act;
    uint32_t *n_heads = &c->vit.n_heads, *patch = &c->patches.patch;
    if (!config_u32(v, "hidden_size", 768, 1, MAX_WIDTH, &d->hidden, err) ||
        !config_u32(v, "num_hidden_layers", 12, 1, MAX_LAYERS, &d->n_layers, err) ||
        !config_u32(v, "num_attention_heads", 12, 1, MAX_HEADS, n_heads, err) ||
        !config_u32(v, "intermediate_size", 3072, 1, MAX_WIDTH, &c->vit.ffn_width, err) ||
        !config_u32(v, "image_size", 224, 1, MAX_SIDE, &c->image_size, err) ||
        !config_u32(v, "patch_size", siglip ? 16 : 32, 1, MAX_SIDE, patch, err) ||
        !config_u32(v, "num_channels", 3, 1, MAX_CHANNELS, &c->patches.channels, err) ||
        !config_float(v, "layer_norm_eps", siglip ? 1e-6 : 1e-5, 0, 1, &eps, err) ||
        !config_str(v, "hidden_act", siglip ? "gelu_pytorch_tanh" : "quick_gelu", &act, err) ||
        !act_parse(act, &c->vit.act, err))
        return false;
    if (d->hidden % *n_heads)
        return err_set(err, ERR_INPUT, "vision hidden_size %u does not divide over %u heads",
                       d->hidden, *n_heads);
    if (*patch > c->image_size)
        return err_set(err, ERR_INPUT, "patch_size %u of images of %u pixels", *patch,
                       c->image_size);
    d->eps = (float)eps;
    c->vit.d = d;
    c->vit.head_dim = d->hidden / *n_heads;
    c->side = c->image_size / *patch;
    c->patches.block = 1;
    c->patches.channels_last =
        *patch != c->patches.channels &&
        weights_last(d->weights, ROLE_PATCH, -1, ".weight") == c->patches.channels;
    c->has_class = weights_has(d->weights, ROLE_CLASS_TOKEN, -1, "");
    return true;
}

Val clip_tower_embed(const ClipTower *c) {
    Decoder *d = c->vit.d;
    const VitPatches *p = &c->patches;
    uint32_t cols = p->channels * p->patch * p->patch;
    Val x = prog_input(d->b, "patches", SPACE_T, cols);
    x = vit_linear(&c->vit, x, ROLE_PATCH, -1, d->hidden, cols);
    if (c->has_class) {
        /* a table of one row, looked up by a coordinate that is 0 in class rows only */
        WeightId w = arch_take(d, WEIGHT_TABLE, -1, "",
                               &(TakePart){.role = ROLE_CLASS_TOKEN, .n = 1, .k = d->hidden}, 1);
        x = prog_add(d->b, x, prog_embed_key(d->b, w, EMBED_POS1, 0), 1);
    }
    WeightId table = arch_take_table(d, ROLE_POS_EMBED, clip_tower_count(c), d->hidden);
    x = prog_add(d->b, x, prog_embed_key(d->b, table, EMBED_POS0, 0), 1);
    if (weights_has(d->weights, ROLE_EMBED_NORM, -1, ".weight"))
        x = vit_norm(&c->vit, x, ROLE_EMBED_NORM, -1);
    return prog_probe(d->b, x, "embed");
}

/* Which patch of the image the i-th row of a block order is. */
static uint32_t patch_at(const ClipTower *c, uint32_t i) {
    uint32_t block = c->patches.block, area = block * block, per_row = c->side / block;
    uint32_t b = i / area, in = i % area;
    uint32_t y = b / per_row * block + in / block, x = b % per_row * block + in % block;
    return y * c->side + x;
}

uint32_t clip_tower_count(const ClipTower *c) { return c->side * c->side + c->has_class; }

void clip_tower_rows(const ClipTower *c, uint32_t slot, StepRow *rows) {
    uint32_t n = clip_tower_count(c);
    for (uint32_t i = 0; i < n; i++) {
        bool is_class = c->has_class && i == 0;
        uint32_t patch = is_class ? 0 : patch_at(c, i - c->has_class) + c->has_class;
        rows[i] = (StepRow){.slot = slot + i,
                            .pos = {(int32_t)patch, !is_class},
                            .lo = slot,
                            .hi = slot + n,
                            .source = is_class ? 0 : STEP_MEDIA_BIT};
    }
}

/* Sequences, rows and chosen rows of n_images images; false: no memory. */
static bool plan_rows(const ClipTower *c, uint32_t n_images, uint32_t skip, Arena *a,
                      MediaPlan *out) {
    uint32_t n = clip_tower_count(c), kept = n - skip;
    out->n_seqs = n_images;
    out->n_rows = n * n_images;
    out->n_out = kept * n_images;
    out->seqs = arena_array(a, MediaSeq, n_images);
    out->rows = arena_array(a, StepRow, out->n_rows);
    out->out_rows = arena_array(a, uint32_t, out->n_out);
    if (!out->seqs || !out->rows || !out->out_rows) return false;
    for (uint32_t i = 0; i < n_images; i++) {
        out->seqs[i] = (MediaSeq){.n_rows = n, .n_out = kept, .n_embeds = kept};
        clip_tower_rows(c, 0, out->rows + (size_t)i * n);
        for (uint32_t k = 0; k < kept; k++) out->out_rows[i * kept + k] = i * n + skip + k;
    }
    out->n_embeds = out->n_out;
    out->by_seq = true;
    return true;
}

bool clip_tower_plan(const ClipTower *c, const MediaAsk *ask, uint32_t skip, Arena *a,
                     MediaPlan *out, Err *err) {
    const MediaTensor *images;
    const VitPatches *p = &c->patches;
    enum { MAX_IMAGES = 4096 };
    if (!media_find(ask, "pixel_values", MEDIA_F32, 4, &images, err)) return false;
    const uint64_t *s = images->dims;
    if (s[0] < 1 || s[0] > MAX_IMAGES || s[1] != p->channels || s[2] != c->image_size ||
        s[3] != c->image_size)
        return err_set(
            err, ERR_INPUT,
            "pixel_values is [%llu, %llu, %llu, %llu]; [1 to %d, %u, %u, %u] is accepted",
            (unsigned long long)s[0], (unsigned long long)s[1], (unsigned long long)s[2],
            (unsigned long long)s[3], MAX_IMAGES, p->channels, c->image_size, c->image_size);
    if ((s[0] * c->side * c->side) > MAX_PATCHES)
        return err_set(err, ERR_LIMIT, "%llu images have too many patches; %d are accepted",
                       (unsigned long long)s[0], MAX_PATCHES);
    out->inputs[0] = vit_patches(p, images, a, err);
    if (!out->inputs[0]) return false;
    return plan_rows(c, (uint32_t)s[0], skip, a, out) || err_nomem(err, "image");
}
