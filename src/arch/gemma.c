/* Gemma (Gemma Team 2024): Llama with norms that multiply by 1 + w, embeddings scaled by
 * sqrt(hidden), GELU (tanh) gating, head_dim 256 and a tied head. */
#include "arch/gemma.h"

#include <math.h>

bool gemma_shared(Decoder *d, Err *err) {
    d->norm_add = d->config->gguf ? 0 : 1;
    d->embed_scale = (float)sqrt((double)d->hidden);
    if (!config_has(d->config, "hidden_act") && !config_has(d->config, "hidden_activation"))
        d->layer.act = ACT_GELU_TANH;
    /* early configs say gelu and mean the tanh form */
    if (d->layer.act == ACT_GELU) d->layer.act = ACT_GELU_TANH;
    return config_bool(d->config, "tie_word_embeddings", true, &d->tied, err) &&
           decoder_attn_bias(d, err);
}

bool gemma_sandwich(Decoder *d, Err *err) {
    double scalar, cap;
    d->layer.post_norms = true;
    if (!gemma_shared(d, err)) return false;
    if (!config_float(d->config, "query_pre_attn_scalar",
                      d->config->gguf ? decoder_gguf_scalar(d) : 256, 1e-6, 1e6, &scalar, err))
        return false;
    d->layer.attn_scale = (float)(1 / sqrt(scalar));
    if (!config_float(d->config, "attn_logit_softcapping", 0, 0, 1e6, &cap, err)) return false;
    d->layer.attn_softcap = (float)cap;
    if (!config_float(d->config, "final_logit_softcapping", 0, 0, 1e6, &cap, err)) return false;
    d->logit_softcap = (float)cap;
    return true;
}

const RoleDelta GEMMA_NAMES[] = {
    {ROLE_POST_ATTN_NORM, {"layers.%d.post_attention_layernorm", "blk.%d.post_attention_norm"}},
    {ROLE_FFN_NORM, {"layers.%d.pre_feedforward_layernorm", "blk.%d.ffn_norm"}},
    {ROLE_POST_FFN_NORM, {"layers.%d.post_feedforward_layernorm", "blk.%d.post_ffw_norm"}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_GEMMA = {
    .name = "gemma",
    .kind = "text",
    .model_types = (const char *const[]){"gemma", NULL},
    .hf_class = "GemmaForCausalLM",
    .gguf = (const char *const[]){"gemma", NULL},
    .sizes = {3072, 24576, 28, 16, 16, 8192},
    .rope_whole = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .head_dim = 256,
    .adjust = gemma_shared,
};
