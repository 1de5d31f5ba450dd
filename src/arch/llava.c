/* LLaVA: llava.h. Pixtral 12B is one, with a tower of its own (names, images of any size). */
#include "arch/llava.h"

/* CLIP's and SigLIP's rows as the projector takes them. */
static bool clip_rows(Llava *m, const Config *c, VitFeatures *f, Val *x, Err *err) {
    Str strategy;
    if (!clip_tower_read(&m->tower, &m->d, err) || !vit_features_read(f, &m->d, c, -2, err) ||
        !config_str(c, "vision_feature_select_strategy", "default", &strategy, err))
        return false;
    if (!str_eqc(strategy, "default") && !str_eqc(strategy, "full"))
        return err_set(err, ERR_UNSUPPORTED,
                       "vision_feature_select_strategy \"" STR_F
                       "\"; default and full are accepted",
                       STR_A(strategy));
    m->skip = str_eqc(strategy, "default");
    vit_begin(&m->tower.vit);
    *x = prog_select(m->d.b, vit_features(&m->tower.vit, f, clip_tower_embed(&m->tower)));
    return true;
}

static bool pixtral_rows(Llava *m, const Config *c, VitFeatures *f, Val *x, Err *err) {
    if (!pixtral_tower_read(&m->pixtral, &m->d, 1, err) || !vit_features_read(f, &m->d, c, -2, err))
        return false;
    *x = vit_features(&m->pixtral.vit, f, pixtral_tower_embed(&m->pixtral));
    return true;
}

bool llava_build(Llava *m, Decoder *d, ArchModel *out, uint32_t *width, Err *err) {
    Config *vision = arena_new(d->arena, Config);
    VitFeatures f;
    Val x;
    if (!vision) return err_nomem(err, "tower");
    if (!media_section(d->config, "vision_config", vision, err)) return false;
    m->d = *d;
    m->d.config = vision;
    m->is_pixtral = str_eqc(vision->model_type, "pixtral");
    if (!(m->is_pixtral ? pixtral_rows : clip_rows)(m, d->config, &f, &x, err) ||
        !config_u32(d->config, "image_token_index|image_token_id", 32000, 0, INT32_MAX,
                    &out->placeholders[0], err))
        return false;
    out->n_placeholders = 1;
    *width = weights_rows(d->weights, ROLE_PROJ_2, -1);
    const Vit *v = m->is_pixtral ? &m->pixtral.vit : &m->tower.vit;
    prog_output(d->b, vit_project(v, x, m->d.hidden * f.n, f.act), "image_embeds");
    return true;
}

static bool build(Decoder *d, ArchModel *out, Err *err) {
    Llava *m = arena_new(d->arena, Llava);
    uint32_t width;
    if (!m) return err_nomem(err, "tower");
    out->media_spec = m;
    return llava_build(m, d, out, &width, err);
}

static bool plan(const ArchModel *model, const MediaAsk *ask, Arena *a, MediaPlan *out, Err *err) {
    const Llava *m = model->media_spec;
    if (m->is_pixtral) return pixtral_tower_plan(&m->pixtral, ask, a, out, err);
    return clip_tower_plan(&m->tower, ask, m->skip, a, out, err);
}

static const RoleDelta NAMES[] = {
    CLIP_TOWER_ROLES,
    PIXTRAL_TOWER_ROLES,
    LLAVA_PROJECTOR_ROLES,
    {ROLE_COUNT, {NULL, NULL}},
};

const ArchMedia MEDIA_LLAVA = {
    .name = "llava",
    .kind = "image",
    .model_types = (const char *const[]){"llava", "pixtral", NULL},
    .names = NAMES,
    .places = CLIP_TOWER_PLACES,
    .first = ROLE_PATCH,
    /* layers behind the chosen one, and what pools */
    .ignored = (const char *const[]){"*vision_tower.*", NULL},
    .build = build,
    .plan = plan,
};
