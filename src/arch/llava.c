/* LLaVA (Liu et al. 2023): a CLIP (or SigLIP) tower, the rows behind one or more of its layers
 * without the class row, and a projector of two matrices into any text model. */
#include "arch/clip_tower.h"

enum { MAX_FEATURES = 64 };

typedef struct Llava {
    ClipTower tower;
    Decoder d; /* the tower's */
    uint32_t skip;
} Llava;

/* vision_feature_layer: counted from the embedded rows, from the end if negative. */
static bool feature_layers(const Decoder *tower, const Config *c, uint32_t out[MAX_FEATURES],
                           size_t *n, Err *err) {
    const int64_t *v;
    static const int64_t LAST_BUT_ONE = -2;
    if (!config_ints(c, "vision_feature_layer", tower->arena, &v, n, err)) return false;
    if (!*n) v = &LAST_BUT_ONE, *n = 1;
    if (*n > MAX_FEATURES)
        return err_set(err, ERR_INPUT,
                       "vision_feature_layer has %zu layers, at most %d are accepted", *n,
                       MAX_FEATURES);
    for (size_t i = 0; i < *n; i++) {
        int64_t layers = tower->n_layers, at = v[i] < 0 ? layers + 1 + v[i] : v[i];
        if (at < 0 || at > layers)
            return err_set(err, ERR_INPUT, "vision_feature_layer %lld of a tower of %u layers",
                           (long long)v[i], tower->n_layers);
        out[i] = (uint32_t)at;
    }
    return true;
}

static Val features(Llava *m, const uint32_t *layers, size_t n) {
    Val x = clip_tower_embed(&m->tower), found[MAX_FEATURES], all = VAL_NONE;
    uint32_t last = 0;
    for (size_t i = 0; i < n; i++) last = layers[i] > last ? layers[i] : last;
    for (uint32_t at = 0;; at++) {
        for (size_t i = 0; i < n; i++)
            if (layers[i] == at) found[i] = x;
        if (at == last) break;
        x = vit_layer(&m->tower.vit, x, (int)at);
    }
    for (size_t i = 0; i < n; i++) all = i ? prog_concat(m->d.b, all, found[i]) : found[i];
    return prog_select(m->d.b, all);
}

static bool build(Decoder *d, ArchModel *out, Err *err) {
    const Config *c = d->config;
    Config *vision = arena_new(d->arena, Config);
    Llava *m = arena_new(d->arena, Llava);
    Str strategy, act_name;
    Act act;
    uint32_t layers[MAX_FEATURES];
    size_t n;
    if (!vision || !m) return err_nomem(err, "tower");
    if (!media_section(c, "vision_config", vision, err)) return false;
    m->d = *d;
    m->d.config = vision;
    if (!clip_tower_read(&m->tower, &m->d, err) || !feature_layers(&m->d, c, layers, &n, err) ||
        !config_str(c, "vision_feature_select_strategy", "default", &strategy, err) ||
        !config_str(c, "projector_hidden_act", "gelu", &act_name, err) ||
        !act_parse(act_name, &act, err) ||
        !config_u32(c, "image_token_index|image_token_id", 32000, 0, INT32_MAX,
                    &out->placeholders[0], err))
        return false;
    if (!str_eqc(strategy, "default") && !str_eqc(strategy, "full"))
        return err_set(err, ERR_UNSUPPORTED,
                       "vision_feature_select_strategy \"" STR_F
                       "\"; default and full are accepted",
                       STR_A(strategy));
    m->skip = str_eqc(strategy, "default");
    out->n_placeholders = 1;
    out->media_spec = m;
    vit_begin(&m->tower.vit);
    uint32_t k = m->d.hidden * (uint32_t)n;
    Val x = features(m, layers, n);
    uint32_t width = weights_rows(d->weights, ROLE_PROJ_1, -1),
             wide = weights_rows(d->weights, ROLE_PROJ_2, -1);
    x = prog_act(d->b, vit_linear(&m->tower.vit, x, ROLE_PROJ_1, -1, width, k), act, 0);
    x = vit_linear(&m->tower.vit, x, ROLE_PROJ_2, -1, wide, width);
    prog_output(d->b, x, "image_embeds");
    return true;
}

static bool plan(const ArchModel *model, const MediaAsk *ask, Arena *a, MediaPlan *out, Err *err) {
    const Llava *m = model->media_spec;
    return clip_tower_plan(&m->tower, ask, m->skip, a, out, err);
}

static const RoleDelta NAMES[] = {
    CLIP_TOWER_ROLES,
    {ROLE_PROJ_1, {"/multi_modal_projector.linear_1", NULL}},
    {ROLE_PROJ_2, {"/multi_modal_projector.linear_2", NULL}},
    {ROLE_COUNT, {NULL, NULL}},
};

const ArchMedia MEDIA_LLAVA = {
    .name = "llava",
    .kind = "image",
    .model_types = (const char *const[]){"llava", NULL},
    .names = NAMES,
    .places = CLIP_TOWER_PLACES,
    .first = ROLE_PATCH,
    /* layers behind the chosen one, and what pools */
    .ignored = (const char *const[]){"*vision_tower.*", NULL},
    .build = build,
    .plan = plan,
};
