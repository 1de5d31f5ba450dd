/* Jamba (Lieber et al. 2024): state space mixers with norms on time step, B and C, one attention
 * layer in every so many, without positions; experts in every so many layers. */
#include "arch/mamba.h"

typedef struct Period {
    int64_t period, offset;
} Period;

static bool read_period(const Config *c, const char *period, const char *offset, Period dflt,
                        Period *out, Err *err) {
    return config_int(c, period, dflt.period, 1, 1024, &out->period, err) &&
           config_int(c, offset, dflt.offset, 0, 1024, &out->offset, err);
}

static bool adjust(Decoder *d, Err *err) {
    LayerSpec *l = &d->layer;
    l->rope = false;
    l->mamba = (MambaSpec){.kernel = 4, .n_state = 16, .norms = MAMBA_NORMS};
    return mamba1_config(d, &l->mamba, err);
}

static bool layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    Period attn, expert;
    int64_t n_experts;
    const Config *c = d->config;
    if (!read_period(c, "attn_layer_period", "attn_layer_offset", (Period){8, 4}, &attn, err) ||
        !read_period(c, "expert_layer_period", "expert_layer_offset", (Period){2, 1}, &expert, err))
        return false;
    bool mamba = c->gguf ? l->n_kv_heads == 0 : i % attn.period != attn.offset;
    bool moe = c->gguf ? weights_has(d->weights, ROLE_ROUTER, i, ".weight")
                       : i % expert.period == expert.offset;
    if (mamba) l->mixer = MIXER_MAMBA1;
    if (!config_int(c, "num_experts|num_local_experts", c->gguf ? 1 : 16, 1, ROUTE_MAX_EXPERTS,
                    &n_experts, err))
        return false;
    if (!moe || n_experts == 1) return true;
    if (!decoder_moe(d, "intermediate_size", false, &l->moe, err)) return false;
    l->moe.normalize = false;
    return true;
}

static const RoleDelta NAMES[] = {
    {ROLE_FINAL_NORM, {"final_layernorm", "output_norm"}},
    {ROLE_FFN_NORM, {"layers.%d.pre_ff_layernorm", "blk.%d.ffn_norm"}},
    {ROLE_GATE, {"layers.%d.feed_forward.gate_proj", "blk.%d.ffn_gate"}},
    {ROLE_UP, {"layers.%d.feed_forward.up_proj", "blk.%d.ffn_up"}},
    {ROLE_DOWN, {"layers.%d.feed_forward.down_proj", "blk.%d.ffn_down"}},
    {ROLE_ROUTER, {"layers.%d.feed_forward.router", "blk.%d.ffn_gate_inp"}},
    {ROLE_EXPERT_GATE, {"layers.%d.feed_forward.experts.%e.gate_proj", "blk.%d.ffn_gate_exps"}},
    {ROLE_EXPERT_UP, {"layers.%d.feed_forward.experts.%e.up_proj", "blk.%d.ffn_up_exps"}},
    {ROLE_EXPERT_DOWN, {"layers.%d.feed_forward.experts.%e.down_proj", "blk.%d.ffn_down_exps"}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_JAMBA = {
    .name = "jamba",
    .kind = "text",
    .model_types = (const char *const[]){"jamba", NULL},
    .hf_class = "JambaForCausalLM",
    .gguf = (const char *const[]){"jamba", NULL},
    .names = NAMES,
    .adjust = adjust,
    .layer = layer,
};
