/* Gemma 3's vision side (Gemma Team 2025): a SigLIP tower, squares of its rows averaged to
 * mm_tokens_per_image, a norm and one matrix. The tokens of an image see each other. */
#include "arch/clip_tower.h"

#include <string.h>

typedef struct Gemma3Vision {
    ClipTower tower;
    Decoder d; /* the tower's */
} Gemma3Vision;

enum { MAX_TOKENS = 1 << 16 };

static bool sizes_read(Gemma3Vision *m, const Config *c, ArchModel *out, Err *err) {
    uint32_t tokens, side = 1;
    if (!config_u32(c, "mm_tokens_per_image", 256, 1, MAX_TOKENS, &tokens, err) ||
        !config_u32(c, "image_token_index|image_token_id", 262144, 0, INT32_MAX,
                    &out->placeholders[0], err))
        return false;
    while (side * side < tokens) side++;
    if (side * side != tokens || m->tower.side % side)
        return err_set(err, ERR_INPUT,
                       "mm_tokens_per_image is %u of %u x %u patches; a square whose side divides "
                       "theirs is accepted",
                       tokens, m->tower.side, m->tower.side);
    m->tower.patches.block = m->tower.side / side;
    out->n_placeholders = 1;
    out->max_span = tokens;
    return true;
}

/* The mean of the rows of each square, which follow one another. */
static Val average(const Gemma3Vision *m, Val x) {
    ProgBuilder *b = m->d.b;
    uint32_t area = m->tower.patches.block * m->tower.patches.block, n = m->d.hidden;
    Val wide =
            prog_unfold(b, x, prog_space(b, 1, area), (OpUnfold){.kernel = area, .stride = area}),
        sum = prog_view(b, wide, 0, n);
    for (uint32_t i = 1; i < area; i++) sum = prog_add(b, sum, prog_view(b, wide, i * n, n), 1);
    return prog_probe(b, prog_scale(b, sum, 1 / (float)area), "pooled");
}

static Val project(Gemma3Vision *m, Val x) {
    Decoder *d = &m->d;
    uint32_t width = (uint32_t)weights_last(d->weights, ROLE_PROJ_1, -1, "");
    const TakeExperts turned = {.role = ROLE_PROJ_1,
                                .n_experts = 1,
                                .n = width,
                                .k = d->hidden,
                                .stored = d->hidden,
                                .across = true};
    WeightId norm = arch_take_vector(d, ROLE_PROJ_NORM, -1, ".weight", d->hidden);
    x = prog_rms_norm(d->b, x, norm, 0, d->eps, 1);
    return prog_linear(d->b, x, arch_take_experts(d, -1, &turned, NULL), W_NONE);
}

static bool build(Decoder *d, ArchModel *out, Err *err) {
    Config *vision = arena_new(d->arena, Config);
    Gemma3Vision *m = arena_new(d->arena, Gemma3Vision);
    if (!vision || !m) return err_nomem(err, "tower");
    if (!media_section(d->config, "vision_config", vision, err)) return false;
    m->d = *d;
    m->d.config = vision;
    if (!clip_tower_read(&m->tower, &m->d, err) || !sizes_read(m, d->config, out, err))
        return false;
    out->media_spec = m;
    vit_begin(&m->tower.vit);
    Val x = clip_tower_embed(&m->tower);
    for (uint32_t i = 0; i < m->d.n_layers; i++) x = vit_layer(&m->tower.vit, x, (int)i);
    x = average(m, vit_norm(&m->tower.vit, x, ROLE_FINAL_NORM, -1));
    prog_output(d->b, project(m, x), "image_embeds");
    return true;
}

static bool plan(const ArchModel *model, const MediaAsk *ask, Arena *a, MediaPlan *out, Err *err) {
    const Gemma3Vision *m = model->media_spec;
    uint32_t area = m->tower.patches.block * m->tower.patches.block;
    if (!clip_tower_plan(&m->tower, ask, 0, a, out, err)) return false;
    out->n_out = 0;
    for (uint32_t i = 0; i < out->n_seqs; i++) {
        out->seqs[i].n_out = 0;
        out->seqs[i].n_embeds = out->seqs[i].n_rows / area;
    }
    out->n_embeds = out->n_rows / area;
    out->both_ways = true;
    return true;
}

static const RoleDelta NAMES[] = {
    CLIP_TOWER_ROLES,
    {ROLE_PROJ_NORM, {"/multi_modal_projector.mm_soft_emb_norm", NULL}},
    {ROLE_PROJ_1, {"/multi_modal_projector.mm_input_projection_weight", NULL}},
    {ROLE_COUNT, {NULL, NULL}},
};

const ArchMedia MEDIA_GEMMA3 = {
    .name = "gemma3",
    .kind = "image",
    .model_types = (const char *const[]){"gemma3", NULL},
    .names = NAMES,
    .places = CLIP_TOWER_PLACES,
    .first = ROLE_PATCH,
    .ignored = (const char *const[]){"*vision_tower.*head.*", NULL}, /* SigLIP's own pooling */
    .build = build,
    .plan = plan,
};
