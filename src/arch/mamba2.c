/* Mamba 2 (Dao, Gu 2024): one mixer a layer and nothing else, neither attention nor
 * feed-forward. */
#include "arch/mamba.h"

static bool adjust(Decoder *d, Err *err) {
    LayerSpec *l = &d->layer;
    if (!config_has(d->config, "layer_norm_epsilon") && !d->config->gguf) d->eps = 1e-5f;
    l->mixer = MIXER_MAMBA2;
    l->ffn_width = 0;
    l->mamba = (MambaSpec){.n_heads = 128,
                           .head_dim = 64,
                           .n_state = 128,
                           .n_groups = 8,
                           .kernel = 4,
                           .norms = MAMBA_NORMS};
    return mamba2_config(d, &l->mamba, err);
}

static const RoleDelta NAMES[] = {
    {ROLE_EMBED, {"embeddings", "token_embd"}},
    {ROLE_FINAL_NORM, {"norm_f", "output_norm"}},
    {ROLE_ATTN_NORM, {"layers.%d.norm", "blk.%d.attn_norm"}},
    {ROLE_MAMBA_IN, {"layers.%d.mixer.in_proj", "blk.%d.ssm_in"}},
    {ROLE_MAMBA_CONV, {"layers.%d.mixer.conv1d", "blk.%d.ssm_conv1d"}},
    {ROLE_MAMBA_STEP_BIAS, {"layers.%d.mixer.dt_bias", "blk.%d.ssm_dt"}},
    {ROLE_MAMBA_DECAY, {"layers.%d.mixer.A_log", "blk.%d.ssm_a"}},
    {ROLE_MAMBA_SKIP, {"layers.%d.mixer.D", "blk.%d.ssm_d"}},
    {ROLE_MAMBA_NORM, {"layers.%d.mixer.norm", "blk.%d.ssm_norm"}},
    {ROLE_MAMBA_OUT, {"layers.%d.mixer.out_proj", "blk.%d.ssm_out"}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_MAMBA2 = {
    .name = "mamba2",
    .kind = "text",
    .model_types = (const char *const[]){"mamba2", NULL},
    .hf_class = "Mamba2ForCausalLM",
    .gguf = (const char *const[]){"mamba2", NULL},
    .names = NAMES,
    .no_dense = true,
    .no_attn = true,
    .adjust = adjust,
};
