/* Mistral 3.1 (Mistral AI 2025): Pixtral's tower, whose rows are normed and joined block by block
 * before LLaVA's projector. The tokens between lines of an image are ordinary ones. */
#include "arch/llava.h"

enum { MAX_MERGE = 8 };

typedef struct Mistral3 {
    PixtralTower tower;
    Decoder d; /* the tower's */
    float eps; /* of the projector's norm */
} Mistral3;

/* The norm has the text model's eps. */
static bool eps_read(Mistral3 *m, const Config *c, Err *err) {
    Config text;
    double eps;
    if (!media_section(c, "text_config", &text, err) ||
        !config_float(&text, "rms_norm_eps", 1e-6, 0, 1, &eps, err))
        return false;
    m->eps = (float)eps;
    return true;
}

static Val joined(Mistral3 *m, Val x) {
    Decoder *d = &m->d;
    uint32_t width = d->hidden;
    WeightId norm = arch_take_vector(d, ROLE_PROJ_NORM, -1, ".weight", width);
    x = pixtral_tower_join(&m->tower, prog_rms_norm(d->b, x, norm, 0, m->eps, 0));
    x = vit_linear(&m->tower.vit, x, ROLE_JOIN, -1, width, width * m->tower.merge * m->tower.merge);
    return prog_probe(d->b, x, "joined");
}

static bool config_read(Mistral3 *m, const Config *c, VitFeatures *f, ArchModel *out, Err *err) {
    uint32_t merge;
    Str type = m->d.config->model_type;
    if (type.n && !str_eqc(type, "pixtral"))
        return err_set(err, ERR_UNSUPPORTED,
                       "vision_config.model_type \"" STR_F "\"; pixtral is accepted", STR_A(type));
    if (!config_u32(c, "spatial_merge_size", 2, 1, MAX_MERGE, &merge, err) ||
        !pixtral_tower_read(&m->tower, &m->d, merge, err) ||
        !vit_features_read(f, &m->d, c, -1, err) || !eps_read(m, c, err) ||
        !config_u32(c, "image_token_index|image_token_id", 10, 0, INT32_MAX, &out->placeholders[0],
                    err))
        return false;
    out->n_placeholders = 1;
    return f->n == 1 ||
           err_set(err, ERR_UNSUPPORTED,
                   "vision_feature_layer has %u layers; one is accepted before a norm of the "
                   "tower's width",
                   f->n);
}

static bool build(Decoder *d, ArchModel *out, Err *err) {
    Config *vision = arena_new(d->arena, Config);
    Mistral3 *m = arena_new(d->arena, Mistral3);
    VitFeatures f;
    if (!vision || !m) return err_nomem(err, "tower");
    if (!media_section(d->config, "vision_config", vision, err)) return false;
    m->d = *d;
    m->d.config = vision;
    out->media_spec = m;
    if (!config_read(m, d->config, &f, out, err)) return false;
    Val x = joined(m, vit_features(&m->tower.vit, &f, pixtral_tower_embed(&m->tower)));
    prog_output(d->b, vit_project(&m->tower.vit, x, m->d.hidden, f.act), "image_embeds");
    return true;
}

static bool plan(const ArchModel *model, const MediaAsk *ask, Arena *a, MediaPlan *out, Err *err) {
    const Mistral3 *m = model->media_spec;
    return pixtral_tower_plan(&m->tower, ask, a, out, err);
}

static const RoleDelta NAMES[] = {
    PIXTRAL_TOWER_ROLES,
    LLAVA_PROJECTOR_ROLES,
    {ROLE_PROJ_NORM, {"/multi_modal_projector.norm", NULL}},
    {ROLE_JOIN, {"/multi_modal_projector.patch_merger.merging_layer", NULL}},
    {ROLE_COUNT, {NULL, NULL}},
};

const ArchMedia MEDIA_MISTRAL3 = {
    .name = "mistral3",
    .kind = "image",
    .model_types = (const char *const[]){"mistral3", NULL},
    .names = NAMES,
    .places = CLIP_TOWER_PLACES,
    .first = ROLE_PATCH,
    /* layers behind the chosen one */
    .ignored = (const char *const[]){"*vision_tower.*", NULL},
    .build = build,
    .plan = plan,
};
