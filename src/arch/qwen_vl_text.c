/* The text models of Qwen's wrappers: Qwen2, Qwen3 and Qwen3 MoE with rope by three coordinates
 * (M-RoPE), which of text are the same: in sections side by side (Wang et al. 2024, Qwen2-VL), or
 * by turns (Qwen Team 2025, Qwen3-VL). Chosen experts' weights are always renormalised. */
#include "arch/qwen.h"

void qwen_sections(RopeSpec *r, uint32_t time, uint32_t height, uint32_t width) {
    if (r->sections[0] || r->sections[1] || r->sections[2]) return;
    r->sections[0] = time;
    r->sections[1] = height;
    r->sections[2] = width;
}

static bool qwen2_adjust(Decoder *d, Err *err) {
    RopeSpec *r = &d->layer.rope_spec;
    d->layer.qkv_bias = true;
    qwen_sections(r, 16, 24, 24);
    uint32_t sum = r->sections[0] + r->sections[1] + r->sections[2] + r->sections[3];
    return sum == r->rot_dim / 2 ||
           err_set(err, ERR_INPUT, "mrope_section is missing, and %u pairs of columns are not 64",
                   r->rot_dim / 2);
}

static bool vl3_adjust(Decoder *d, Err *err) {
    qwen_sections(&d->layer.rope_spec, 24, 20, 20);
    d->layer.rope_spec.sections_interleaved = true; /* whatever mrope_interleaved says */
    return qwen3_adjust(d, err);
}

static bool moe_layer(const Decoder *d, int i, LayerSpec *l, Err *err) {
    if (!qwen_moe(d, i, l, true, err)) return false;
    l->moe.normalize = true;
    l->moe.stacked = weights_has(d->weights, ROLE_EXPERT_GATE_UP, i, "");
    return true;
}

static const char *const IGNORED[] = {"*.rotary_emb.inv_freq", NULL};

const Arch ARCH_QWEN2_VL = {
    .name = "qwen2_vl",
    .kind = "text",
    .model_types =
        (const char *const[]){"qwen2_5_vl_text", "qwen2_vl_text", "qwen2_5_vl", "qwen2_vl", NULL},
    .gguf = (const char *const[]){"qwen2vl", NULL},
    .rope_whole = true,
    .ignored = IGNORED,
    .rope_theta = 1e6,
    .adjust = qwen2_adjust,
    .layer = qwen_window,
};

const Arch ARCH_QWEN3_VL = {
    .name = "qwen3_vl",
    .kind = "text",
    .model_types = (const char *const[]){"qwen3_vl_text", NULL},
    .gguf = (const char *const[]){"qwen3vl", NULL},
    .rope_whole = true,
    .ignored = IGNORED,
    .head_dim = 128,
    .rope_theta = 5e5,
    .adjust = vl3_adjust,
};

const Arch ARCH_QWEN3_VL_MOE = {
    .name = "qwen3_vl_moe",
    .kind = "text",
    .model_types = (const char *const[]){"qwen3_vl_moe_text", NULL},
    .gguf = (const char *const[]){"qwen3vlmoe", NULL},
    .rope_whole = true,
    .ignored = IGNORED,
    .rope_theta = 5e5,
    .no_dense = true,
    .adjust = vl3_adjust,
    .layer = moe_layer,
};
