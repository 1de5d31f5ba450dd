/* Mixtral (Jiang et al. 2024): Mistral with experts in every layer, the chosen two weighted by
 * their renormalised probabilities. GGUF files of it are of architecture llama, with experts. */
#include "arch/arch.h"

static bool layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    int64_t window;
    (void)i;
    if (!config_int(d->config, "sliding_window", 0, 0, UINT32_MAX, &window, err)) return false;
    l->window = (uint32_t)window;
    return decoder_moe(d, "intermediate_size", true, &l->moe, err);
}

static const RoleDelta NAMES[] = {
    {ROLE_ROUTER, {"layers.%d.block_sparse_moe.gate", "blk.%d.ffn_gate_inp"}},
    {ROLE_EXPERT_GATE, {"layers.%d.block_sparse_moe.experts.%e.w1", "blk.%d.ffn_gate_exps"}},
    {ROLE_EXPERT_UP, {"layers.%d.block_sparse_moe.experts.%e.w3", "blk.%d.ffn_up_exps"}},
    {ROLE_EXPERT_DOWN, {"layers.%d.block_sparse_moe.experts.%e.w2", "blk.%d.ffn_down_exps"}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_MIXTRAL = {
    .name = "mixtral",
    .kind = "text",
    .model_types = (const char *const[]){"mixtral", NULL},
    .hf_class = "MixtralForCausalLM",
    .gguf_as = "llama",
    .gguf_unpermute = true,
    .names = NAMES,
    .rope_whole = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .rope_theta = 1e6,
    .layer = layer,
};
