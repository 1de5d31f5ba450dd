/* Recurrent Gemma (Botev et al. 2024): Gemma's shape with linear recurrences in most layers and
 * windowed attention in the others, half of the columns rotated; biases almost everywhere. */
#include <math.h>

#include "arch/gemma.h"
#include "base/fp.h"

static bool read_width(const Decoder *d, RgLruSpec *s, Err *err) {
    int64_t width, kernel;
    if (!config_int(d->config, "lru_width", d->hidden, 1, 1 << 20, &width, err)) return false;
    if (!config_int(d->config, "conv1d_width", 4, 2, CONV_MAX_KERNEL, &kernel, err)) return false;
    if (width % d->layer.n_heads)
        return err_set(err, ERR_INPUT, "lru_width %lld does not divide over %u heads",
                       (long long)width, d->layer.n_heads);
    *s = (RgLruSpec){(uint32_t)width, d->layer.n_heads, (uint32_t)kernel};
    return true;
}

static bool adjust(Decoder *d, Err *err) {
    LayerSpec *l = &d->layer;
    int64_t window;
    double cap;
    if (!gemma_shared(d, err)) return false;
    /* kept in bf16 by the reference, whatever the weights are */
    d->embed_scale = fp_bf16_to_f32(fp_f32_to_bf16(d->embed_scale));
    if (l->ffn_width % 2)
        return err_set(err, ERR_INPUT, "intermediate_size %u is not even", l->ffn_width);
    l->ffn_width /= 2;              /* it counts gate and up */
    l->mlp_bias = l->o_bias = true; /* attention_bias is that of queries, keys and values */
    if (!config_int(d->config, "attention_window_size", 2048, 1, UINT32_MAX, &window, err) ||
        !config_float(d->config, "logits_soft_cap", 30, 1e-6, 1e6, &cap, err))
        return false;
    l->window = (uint32_t)window;
    d->logit_softcap = (float)cap;
    return read_width(d, &l->lru, err);
}

static bool layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    const Str *types;
    size_t n;
    bool attn = i % 3 == 2;
    if (!config_strs(d->config, "block_types|_block_types", d->arena, &types, &n, err))
        return false;
    if (n) {
        const Str type = types[(size_t)i % n];
        attn = str_eqc(type, "attention");
        if (!attn && !str_eqc(type, "recurrent"))
            return err_set(err, ERR_INPUT,
                           "block type \"" STR_F "\", accepted: recurrent, attention", STR_A(type));
    }
    if (!attn) l->mixer = MIXER_RG_LRU;
    return true;
}

static const RoleDelta NAMES[] = {
    {ROLE_FINAL_NORM, {"final_norm", NULL}},
    {ROLE_ATTN_NORM, {"layers.%d.temporal_pre_norm", NULL}},
    {ROLE_FFN_NORM, {"layers.%d.channel_pre_norm", NULL}},
    {ROLE_Q, {"layers.%d.temporal_block.q_proj", NULL}},
    {ROLE_K, {"layers.%d.temporal_block.k_proj", NULL}},
    {ROLE_V, {"layers.%d.temporal_block.v_proj", NULL}},
    {ROLE_O, {"layers.%d.temporal_block.o_proj", NULL}},
    {ROLE_GATE, {"layers.%d.mlp_block.gate_proj", NULL}},
    {ROLE_UP, {"layers.%d.mlp_block.up_proj", NULL}},
    {ROLE_DOWN, {"layers.%d.mlp_block.down_proj", NULL}},
    {ROLE_LRU_IN, {"layers.%d.temporal_block.linear_x", NULL}},
    {ROLE_LRU_GATE, {"layers.%d.temporal_block.linear_y", NULL}},
    {ROLE_LRU_CONV, {"layers.%d.temporal_block.conv_1d", NULL}},
    {ROLE_LRU_INPUT, {"layers.%d.temporal_block.rg_lru.input_gate_weight", NULL}},
    {ROLE_LRU_INPUT_BIAS, {"layers.%d.temporal_block.rg_lru.input_gate_bias", NULL}},
    {ROLE_LRU_DECAY_GATE, {"layers.%d.temporal_block.rg_lru.recurrent_gate_weight", NULL}},
    {ROLE_LRU_DECAY_BIAS, {"layers.%d.temporal_block.rg_lru.recurrent_gate_bias", NULL}},
    {ROLE_LRU_DECAY, {"layers.%d.temporal_block.rg_lru.recurrent_param", NULL}},
    {ROLE_LRU_OUT, {"layers.%d.temporal_block.linear_out", NULL}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_RECURRENT_GEMMA = {
    .name = "recurrent_gemma",
    .kind = "text",
    .model_types = (const char *const[]){"recurrent_gemma", NULL},
    .hf_class = "RecurrentGemmaForCausalLM",
    .names = NAMES,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .rope_share = 0.5,
    .endless = true,
    .adjust = adjust,
    .layer = layer,
};
