/* Qwen3-VL (Qwen Team 2025), Qwen3.5: the tower has layer norms, a plain feed-forward and learned positions
 * of a square, mixed for each image's grid; what lies behind some of its layers also goes to the
 * text model, behind its first layers (Meng et al. 2024, DeepStack), but in Qwen3.5. The main merger
 * norms rows and joins them, those for the text model's layers join first. */
#include "arch/qwen_tower.h"

enum { MAX_PLACES = 1 << 24, MAX_WIDTH = 1 << 20 };

static const Role STACK[2] = {ROLE_STACK_1, ROLE_STACK_2};

static bool places_read(QwenTower *t, Err *err) {
    uint32_t *n = &t->n_places;
    if (!config_u32(t->d.config, "num_position_embeddings", 2304, 1, MAX_PLACES, n, err))
        return false;
    while ((t->side + 1) * (t->side + 1) <= *n) t->side++;
    return true;
}

static bool stack_read(const QwenTower *t, const int64_t **layers, size_t *n, Err *err) {
    static const int64_t USUAL[] = {8, 16, 24};
    if (!config_ints(t->d.config, "deepstack_visual_indexes", t->d.arena, layers, n, err))
        return false;
    if (!config_has(t->d.config, "deepstack_visual_indexes")) *layers = USUAL, *n = 3;
    if (*n > DECODER_MAX_DEEPSTACK)
        return err_set(err, ERR_UNSUPPORTED,
                       "deepstack_visual_indexes has %zu layers, at most %d are accepted", *n,
                       DECODER_MAX_DEEPSTACK);
    for (size_t i = 0; i < *n; i++)
        if ((*layers)[i] < 0 || (*layers)[i] >= t->d.n_layers ||
            qwen_tower_listed(*layers, i, (uint32_t)(*layers)[i]) >= 0)
            return err_set(err, ERR_INPUT,
                           "deepstack_visual_indexes has %lld; each of the tower's layers 0 to %u "
                           "is accepted once",
                           (long long)(*layers)[i], t->d.n_layers - 1);
    return true;
}

static Val stack(QwenTower *t, Val x, int merger) {
    Decoder *d = &t->d;
    uint32_t width = d->hidden * t->grid.merge * t->grid.merge;
    x = prog_layer_norm(d->b, qwen_tower_join(t, x),
                        arch_take_vector(d, ROLE_STACK_NORM, merger, ".weight", width),
                        arch_take_vector(d, ROLE_STACK_NORM, merger, ".bias", width), 0, d->eps, 0);
    return qwen_tower_merge(t, x, STACK, merger);
}

static bool begin(QwenTower *t, Decoder *d, ArchModel *out, Err *err) {
    static const QwenTowerKind KIND = {.width_key = "hidden_size",
                                       .out_key = "out_hidden_size",
                                       .width = 1152,
                                       .depth = 27,
                                       .n_heads = 16,
                                       .out = 3584,
                                       .patch = 16,
                                       .act = "gelu_pytorch_tanh",
                                       .frames_apart = true};
    return qwen_tower_read(t, d, &KIND, out, err) && places_read(t, err) &&
           config_u32(t->d.config, "intermediate_size", 4304, 1, MAX_WIDTH, &t->vit.ffn_width, err);
}

/* The layers, of which some go to the n mergers for the text model's layers, and the main merger. */
static void record(QwenTower *t, Decoder *d, const int64_t *layers, size_t n) {
    Val x = qwen_tower_embed(t);
    for (uint32_t i = 0; i < t->d.n_layers; i++) {
        x = vit_layer(&t->vit, x, (int)i);
        int merger = qwen_tower_listed(layers, n, i);
        if (merger < 0) continue;
        prog_output(d->b, stack(t, x, merger), decoder_deepstack_name(d->n_deepstack++));
    }
    prog_output(d->b, qwen_tower_embeds(t, x), "image_embeds");
}

static bool build(Decoder *d, ArchModel *out, Err *err) {
    QwenTower *t = arena_new(d->arena, QwenTower);
    const int64_t *layers;
    size_t n;
    if (!t) return err_nomem(err, "tower");
    if (!begin(t, d, out, err) || !stack_read(t, &layers, &n, err)) return false;
    record(t, d, layers, n);
    return true;
}

static bool build_plain(Decoder *d, ArchModel *out, Err *err) {
    QwenTower *t = arena_new(d->arena, QwenTower);
    if (!t) return err_nomem(err, "tower");
    if (!begin(t, d, out, err)) return false;
    record(t, d, NULL, 0);
    return true;
}

static const RoleDelta NAMES[] = {
    QWEN_TOWER_ROLES,
    {ROLE_POS_EMBED, {"pos_embed", NULL}},
    {ROLE_UP, {"blocks.%d.mlp.linear_fc1", NULL}},
    {ROLE_DOWN, {"blocks.%d.mlp.linear_fc2", NULL}},
    {ROLE_PROJ_NORM, {"merger.norm", NULL}},
    {ROLE_PROJ_1, {"merger.linear_fc1", NULL}},
    {ROLE_PROJ_2, {"merger.linear_fc2", NULL}},
    {ROLE_STACK_NORM, {"deepstack_merger_list.%d.norm", NULL}},
    {ROLE_STACK_1, {"deepstack_merger_list.%d.linear_fc1", NULL}},
    {ROLE_STACK_2, {"deepstack_merger_list.%d.linear_fc2", NULL}},
    {ROLE_COUNT, {NULL, NULL}},
};

const ArchMedia MEDIA_QWEN3_VL = {
    .name = "qwen3_vl",
    .kind = "image",
    .model_types = (const char *const[]){"qwen3_vl", "qwen3_vl_moe", NULL},
    .names = NAMES,
    .places = QWEN_TOWER_PLACES,
    .first = ROLE_PATCH,
    .build = build,
    .plan = qwen_tower_plan,
};

const ArchMedia MEDIA_QWEN3_5 = {
    .name = "qwen3_5",
    .kind = "image",
    .model_types = (const char *const[]){"qwen3_5", "qwen3_5_moe", NULL},
    .names = NAMES,
    .places = QWEN_TOWER_PLACES,
    .first = ROLE_PATCH,
    .build = build_plain,
    .plan = qwen_tower_plan,
};
