/* OLMoE (Muennighoff et al. 2024): experts in every layer, their probabilities not renormalised,
 * q/k norms over the whole row, optional clipping of q, k and v. */
#include "arch/arch.h"

static bool adjust(Decoder *d, Err *err) {
    d->layer.qk_norm = d->layer.qk_norm_whole = true;
    if (config_has(d->config, "clip_qkv"))
        return err_set(err, ERR_UNSUPPORTED, "clip_qkv is set; only null is accepted");
    return decoder_attn_bias(d, err);
}

static bool layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    (void)i;
    return decoder_moe(d, "intermediate_size", false, &l->moe, err);
}

const Arch ARCH_OLMOE = {
    .name = "olmoe",
    .kind = "text",
    .model_types = (const char *const[]){"olmoe", NULL},
    .hf_class = "OlmoeForCausalLM",
    .gguf = (const char *const[]){"olmoe", NULL},
    .rope_whole = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .adjust = adjust,
    .layer = layer,
};
