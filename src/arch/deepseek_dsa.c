/* DeepSeek-V3.2 (DeepSeek-AI 2025): DeepSeek-V3 whose rows attend to the keys that a small indexer
 * scores highest. GLM-5 (Zhipu AI 2026): the same with other sizes and a rope of neighbouring pairs
 * in the indexer; some layers do not choose, they take the choice of the last one that did. */
#include "arch/deepseek.h"

static bool read_index(Decoder *d, uint32_t n_heads, Err *err) {
    const Config *c = d->config;
    MlaSpec *m = &d->layer.mla;
    IndexSpec *s = &m->index;
    if (!m->q_rank)
        return err_set(err, ERR_UNSUPPORTED,
                       "queries without a latent (q_lora_rank), which the indexer needs");
    bool gguf = c->gguf != NULL; /* it says every size */
    return config_u32(c, "index_n_heads", gguf ? CONFIG_REQUIRED : n_heads, 1, 1024, &s->n_heads,
                      err) &&
           config_u32(c, "index_head_dim", gguf ? CONFIG_REQUIRED : 128, m->rope_dim, PICK_MAX_COLS,
                      &s->head_dim, err) &&
           config_u32(c, "index_topk", gguf ? CONFIG_REQUIRED : 2048, 1, PICK_MAX_KEYS, &s->k, err);
}

static bool adjust(Decoder *d, Err *err) {
    return deepseek_adjust(d, &DEEPSEEK_V3, err) && read_index(d, 64, err);
}

static bool layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    return deepseek_layer(d, &DEEPSEEK_V3, i, l, err);
}

static const DeepseekDefaults GLM = {
    .nope_dim = 192, .v_dim = 256, .q_rank = 2048, .n_groups = 1, .k_groups = 1};

static bool glm_adjust(Decoder *d, Err *err) {
    if (!config_has(d->config, "rms_norm_eps")) d->eps = 1e-5f;
    d->layer.mla.index.interleaved = true;
    return deepseek_adjust(d, &GLM, err) && read_index(d, 32, err);
}

/* Whether layer i takes an earlier layer's choice: by a list of "full" and "shared", a text or list
 * of F and S, or one choice every so many layers from some layer on. */
static bool glm_shares(const Decoder *d, int i, bool *shared, Err *err) {
    const Config *c = d->config;
    const Str *types;
    size_t n;
    int64_t every, first;
    const char *key = config_has(c, "indexer_types") ? "indexer_types" : "index_topk_pattern";
    if (!config_strs(c, key, d->arena, &types, &n, err)) return false;
    if (n == 0) {
        if (!config_int(c, "index_topk_freq", 1, INT32_MIN, INT32_MAX, &every, err) ||
            !config_int(c, "index_skip_topk_offset", 2, INT32_MIN, INT32_MAX, &first, err))
            return false;
        int64_t behind = i - first + 1;
        *shared = behind > 0 && behind % (every > 1 ? every : 1);
        return true;
    }
    bool letters = n == 1 && types[0].n == d->n_layers && d->n_layers > 1;
    if (n != d->n_layers && !letters)
        return err_set(err, ERR_INPUT, "%s has %zu entries for %u layers", key, n, d->n_layers);
    Str type = letters ? str_slice(types[0], (size_t)i, (size_t)i + 1) : types[i];
    *shared = str_eqc(type, "shared") || str_eqc(type, "S");
    if (!*shared && !str_eqc(type, "full") && !str_eqc(type, "F"))
        return err_set(err, ERR_INPUT, "%s has \"" STR_F "\"; full and shared are accepted", key,
                       STR_A(type));
    return true;
}

enum { GLM_LONG_CONTEXT = 1 << 20 };

/* A flag for each layer, true where it chooses. In files of before there were flags all choose, but for
 * those of the long context, where from layer 3 on every fourth does. */
static bool glm_gguf_shares(const Decoder *d, int i, bool *shared, Err *err) {
    const int64_t *chooses;
    size_t n;
    if (!config_ints(d->config, ".attention.indexer.types", d->arena, &chooses, &n, err))
        return false;
    if (n == 0) {
        *shared = d->max_positions >= GLM_LONG_CONTEXT && i > 2 && (i - 2) % 4;
        return true;
    }
    if (n > 1 && n != d->n_layers)
        return err_set(err, ERR_INPUT, "attention.indexer.types has %zu entries for %u layers", n,
                       d->n_layers);
    *shared = !chooses[n > 1 ? i : 0];
    return true;
}

static const Role INDEX_ROLES[] = {ROLE_INDEX_Q, ROLE_INDEX_K, ROLE_INDEX_K_NORM,
                                   ROLE_INDEX_WEIGHTS};

static bool glm_layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    bool *shared = &l->mla.index.shared, gguf = d->config->gguf != NULL;
    if (gguf ? !glm_gguf_shares(d, i, shared, err) : !glm_shares(d, i, shared, err)) return false;
    if (*shared && i == 0)
        return err_set(err, ERR_INPUT, "layer 0 shares a choice of keys that no layer makes");
    for (size_t k = 0; *shared && gguf && k < sizeof INDEX_ROLES / sizeof *INDEX_ROLES; k++)
        weights_ignore(d->weights, INDEX_ROLES[k], i); /* some files have them in every layer */
    return deepseek_layer(d, &GLM, i, l, err);
}

const Arch ARCH_DEEPSEEK_V32 = {
    .name = "deepseek_v32",
    .kind = "text",
    .model_types = (const char *const[]){"deepseek_v32", NULL},
    .hf_class = "DeepseekV32ForCausalLM",
    .gguf = (const char *const[]){"deepseek32", NULL},
    .names = DEEPSEEK_NAMES,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .head_dim = 64,
    .adjust = adjust,
    .layer = layer,
};

const Arch ARCH_GLM_DSA = {
    .name = "glm_moe_dsa",
    .kind = "text",
    .model_types = (const char *const[]){"glm_moe_dsa", NULL},
    .hf_class = "GlmMoeDsaForCausalLM",
    .gguf = (const char *const[]){"glm-dsa", NULL},
    .names = DEEPSEEK_NAMES,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .head_dim = 64,
    .adjust = glm_adjust,
    .layer = glm_layer,
};
