/* gpt-oss (OpenAI 2025): experts in every layer with biases, gate and up rows by turns in one stack
 * (mxfp4 in releases), a clamped swiglu (x sigmoid(1.702 x)) (up + 1), attention sinks, biases
 * everywhere, a window in every other layer, yarn. */
#include "arch/arch.h"

static bool adjust(Decoder *d, Err *err) {
    LayerSpec *l = &d->layer;
    l->sinks = true;
    l->act = ACT_QUICK_GELU;
    if (d->config->gguf) l->rope_spec.truncate = false; /* no key tells there; all releases */
    if (!config_bool(d->config, "attention_bias", true, &l->qkv_bias, err)) return false;
    l->o_bias = l->qkv_bias;
    return true;
}

static bool layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    int64_t window;
    bool sliding;
    double alpha, limit;
    if (!config_int(d->config, "sliding_window", 128, 1, UINT32_MAX, &window, err)) return false;
    if (!decoder_layer_type(d, i, "sliding_attention", i % 2 == 0, &sliding, err)) return false;
    l->window = sliding ? (uint32_t)window : 0;
    if (!config_float(d->config, "swiglu_alpha", 1.702, 0, 1e6, &alpha, err)) return false;
    if (alpha != 1.702)
        return err_set(err, ERR_UNSUPPORTED, "swiglu_alpha is %g; 1.702 is accepted", alpha);
    if (!config_float(d->config, "swiglu_limit", 7, 1e-6, 1e6, &limit, err)) return false;
    if (!decoder_moe(d, d->config->gguf ? "moe_intermediate_size" : "intermediate_size", true,
                     &l->moe, err))
        return false;
    l->moe.normalize = l->moe.biases = true;
    l->moe.interleaved = d->config->json != NULL;
    l->moe.limit = (float)limit;
    l->moe.up_add = 1;
    return true;
}

static const RoleDelta NAMES[] = {
    {ROLE_SINKS, {"layers.%d.self_attn.sinks", "blk.%d.attn_sinks"}},
    {ROLE_FFN_NORM, {"layers.%d.post_attention_layernorm", "blk.%d.post_attention_norm"}},
    {ROLE_ROUTER, {"layers.%d.mlp.router", "blk.%d.ffn_gate_inp"}},
    {ROLE_EXPERT_GATE, {"layers.%d.mlp.experts.gate_up_proj", "blk.%d.ffn_gate_exps"}},
    {ROLE_EXPERT_UP, {"layers.%d.mlp.experts.gate_up_proj", "blk.%d.ffn_up_exps"}},
    {ROLE_EXPERT_DOWN, {"layers.%d.mlp.experts.down_proj", "blk.%d.ffn_down_exps"}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_GPT_OSS = {
    .name = "gpt_oss",
    .kind = "text",
    .model_types = (const char *const[]){"gpt_oss", NULL},
    .hf_class = "GptOssForCausalLM",
    .gguf = (const char *const[]){"gpt-oss", NULL},
    .names = NAMES,
    .rope_whole = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .head_dim = 64,
    .rope_theta = 150000,
    .no_dense = true,
    .adjust = adjust,
    .layer = layer,
};
