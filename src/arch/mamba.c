/* Mamba (Gu, Dao 2023) and Falcon Mamba (Zuo et al. 2024): one mixer a layer and nothing else,
 * neither attention nor feed-forward; Falcon Mamba norms time step, B and C, without weights. */
#include "arch/mamba.h"

static const float FALCON_EPS = 1e-6f; /* of Falcon Mamba's norms in the mixer */

static bool adjust(Decoder *d, Err *err) {
    LayerSpec *l = &d->layer;
    if (!config_has(d->config, "layer_norm_epsilon") && !d->config->gguf) d->eps = 1e-5f;
    l->mixer = MIXER_MAMBA1;
    l->ffn_width = 0;
    l->mamba = (MambaSpec){.kernel = 4, .n_state = 16};
    if (!mamba1_config(d, &l->mamba, err)) return false;
    if (!d->config->gguf) return config_bool(d->config, "tie_word_embeddings", true, &d->tied, err);
    bool normed;
    if (!config_bool(d->config, "use_dt_b_c_rms", false, &normed, err)) return false;
    if (!normed) return true;
    l->mamba.norms = MAMBA_BARE_NORMS;
    l->mamba.norm_eps = FALCON_EPS; /* no key has it; that of the layers' norms is another */
    return true;
}

static bool adjust_falcon(Decoder *d, Err *err) {
    double eps;
    if (!adjust(d, err)) return false;
    d->layer.mamba.norms = MAMBA_BARE_NORMS;
    if (!config_float(d->config, "mixer_rms_eps", (double)FALCON_EPS, 0, 1, &eps, err))
        return false;
    d->layer.mamba.norm_eps = (float)eps;
    return true;
}

static const RoleDelta NAMES[] = {
    {ROLE_EMBED, {"embeddings", "token_embd"}},
    {ROLE_FINAL_NORM, {"norm_f", "output_norm"}},
    {ROLE_ATTN_NORM, {"layers.%d.norm", "blk.%d.attn_norm"}},
    {ROLE_MAMBA_IN, {"layers.%d.mixer.in_proj", "blk.%d.ssm_in"}},
    {ROLE_MAMBA_CONV, {"layers.%d.mixer.conv1d", "blk.%d.ssm_conv1d"}},
    {ROLE_MAMBA_PROJ, {"layers.%d.mixer.x_proj", "blk.%d.ssm_x"}},
    {ROLE_MAMBA_STEP, {"layers.%d.mixer.dt_proj", "blk.%d.ssm_dt"}},
    {ROLE_MAMBA_DECAY, {"layers.%d.mixer.A_log", "blk.%d.ssm_a"}},
    {ROLE_MAMBA_SKIP, {"layers.%d.mixer.D", "blk.%d.ssm_d"}},
    {ROLE_MAMBA_OUT, {"layers.%d.mixer.out_proj", "blk.%d.ssm_out"}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_MAMBA = {
    .name = "mamba",
    .kind = "text",
    .model_types = (const char *const[]){"mamba", NULL},
    .hf_class = "MambaForCausalLM",
    .gguf = (const char *const[]){"mamba", NULL},
    .names = NAMES,
    .no_dense = true,
    .no_attn = true,
    .adjust = adjust,
};

const Arch ARCH_FALCON_MAMBA = {
    .name = "falcon_mamba",
    .kind = "text",
    .model_types = (const char *const[]){"falcon_mamba", NULL},
    .hf_class = "FalconMambaForCausalLM",
    .gguf_as = "mamba",
    .names = NAMES,
    .no_dense = true,
    .no_attn = true,
    .adjust = adjust_falcon,
};
