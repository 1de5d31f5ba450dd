/* Qwen3.5 (Qwen Team 2026): Qwen3-Next with the projections of the delta nets apart; dense, or with
 * renormalised experts in every layer, stacked in releases, one module each in other files; rope by
 * three coordinates in turn, which of text are the same. */
#include "arch/qwen.h"

static bool adjust(Decoder *d, Err *err) {
    if (!qwen_next_adjust(d, err)) return false;
    qwen_sections(&d->layer.rope_spec, 11, 11, 10);
    d->layer.rope_spec.sections_interleaved = true;
    d->layer.delta.form = DELTA_APART;
    d->layer.delta.tiled = d->config->gguf != NULL; /* its writers turn the heads round */
    return true;
}

static bool moe_layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    if (!qwen_next_layer(d, i, l, err) ||
        !decoder_moe(d, "moe_intermediate_size", true, &l->moe, err))
        return false;
    l->moe.normalize = true;
    l->moe.stacked = weights_has(d->weights, ROLE_EXPERT_GATE_UP, i, "");
    return qwen_shared(d, l, err);
}

static const RoleDelta NAMES[] = {
    {ROLE_FFN_NORM, {"layers.%d.post_attention_layernorm", "blk.%d.post_attention_norm"}},
    {ROLE_COUNT, {NULL, NULL}},
};

static const char *const IGNORED[] = {"*mtp.*", "*.rotary_emb.inv_freq", NULL};

const Arch ARCH_QWEN3_5 = {
    .name = "qwen3_5",
    .kind = "text",
    .model_types = (const char *const[]){"qwen3_5_text", NULL},
    .hf_class = "Qwen3_5ForCausalLM",
    .gguf = (const char *const[]){"qwen35", NULL},
    .names = NAMES,
    .ignored = IGNORED,
    .head_dim = 256,
    .rope_share = 0.25,
    .adjust = adjust,
    .layer = qwen_next_layer,
};

const Arch ARCH_QWEN3_5_MOE = {
    .name = "qwen3_5_moe",
    .kind = "text",
    .model_types = (const char *const[]){"qwen3_5_moe_text", NULL},
    .hf_class = "Qwen3_5MoeForCausalLM",
    .gguf = (const char *const[]){"qwen35moe", NULL},
    .names = NAMES,
    .ignored = IGNORED,
    .head_dim = 256,
    .rope_share = 0.25,
    .no_dense = true,
    .adjust = adjust,
    .layer = moe_layer,
};
