/* GGUF files of more families than gguf_families_test.c has: Gemma 3n and 4, Llama 4, the text models of
 * Qwen-VL and of Mistral 3, Falcon Mamba, as llama.cpp's converter makes them of goldens
 * (gguf_family.h). The logits must be those of the golden as it is and, where the file says all that
 * the config does, of the reference. Then files in which a key or a tensor is missing or makes no
 * sense. Reads $MLXCEL_GOLDEN_DIR. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os.h"
#include "ckpt/checkpoint.h"
#include "gguf_family.h"
#include "golden_run.h"
#include "npy.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- keys ---- */

static const GgufKey BASE_KEYS[] = {
    {"context_length", KEY_INT, "max_position_embeddings", 0},
    {"embedding_length", KEY_INT, "hidden_size", 0},
    {"block_count", KEY_INT, "num_hidden_layers", 0},
    {"attention.head_count", KEY_INT, "num_attention_heads", 0},
    {"attention.layer_norm_rms_epsilon", KEY_REAL, "rms_norm_eps", 0},
    {"rope.freq_base", KEY_REAL, "rope_theta", 0},
    {"rope.freq_base", KEY_REAL, "rope_parameters.rope_theta", 0},
    {0},
};
static const GgufKey KV_HEADS[] = {{"attention.head_count_kv", KEY_INT, "num_key_value_heads", 0},
                                   {"attention.key_length", KEY_INT, "head_dim", 0},
                                   {"attention.value_length", KEY_INT, "head_dim", 0},
                                   {"feed_forward_length", KEY_INT, "intermediate_size", 0},
                                   {0}};
static const GgufKey MISTRAL_KEYS[] = {
    {"vocab_size", KEY_INT, "vocab_size", 0},
    {"rope.dimension_count", KEY_INT, "head_dim", 0},
    {"rope.scaling.type", KEY_TEXT, "rope_parameters.rope_type", 0},
    {"rope.scaling.factor", KEY_REAL, "rope_parameters.factor", 0},
    {"rope.scaling.original_context_length", KEY_INT,
     "rope_parameters.original_max_position_embeddings", 0},
    {"rope.scaling.yarn_beta_fast", KEY_REAL, "rope_parameters.beta_fast", 0},
    {"rope.scaling.yarn_beta_slow", KEY_REAL, "rope_parameters.beta_slow", 0},
    {"rope.scaling.yarn_log_multiplier", KEY_REAL, "rope_parameters.mscale_all_dim", 0},
    {"attention.temperature_scale", KEY_REAL, "rope_parameters.llama_4_scaling_beta", 0},
    {0},
};
static const GgufKey QWEN_MOE_KEYS[] = {
    {"expert_count", KEY_INT, "num_local_experts", 0},
    {"expert_used_count", KEY_INT, "num_experts_per_tok", 0},
    {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", 0},
    {0},
};
static const GgufKey LLAMA4_KEYS[] = {
    {"vocab_size", KEY_INT, "vocab_size", 0},
    {"attention.head_count_kv", KEY_INT, "num_key_value_heads", 0},
    {"attention.key_length", KEY_INT, "head_dim", 0},
    {"attention.value_length", KEY_INT, "head_dim", 0},
    {"rope.dimension_count", KEY_INT, "head_dim", 0},
    {"feed_forward_length", KEY_INT, "intermediate_size_mlp", 0},
    {"expert_feed_forward_length", KEY_INT, "intermediate_size", 0},
    {"expert_count", KEY_INT, "num_local_experts", 0},
    {"expert_used_count", KEY_INT, "num_experts_per_tok", 0},
    {"interleave_moe_layer_step", KEY_INT, "interleave_moe_layer_step", 0},
    {0},
};
#define GEMMA_KEYS                                                                                 \
    {"rope.freq_base", KEY_REAL, "rope_parameters.full_attention.rope_theta", 0},                  \
        {"rope.freq_base_swa", KEY_REAL, "rope_parameters.sliding_attention.rope_theta", 0},       \
        {"attention.sliding_window", KEY_INT, "sliding_window", 0},                                \
        {"attention.shared_kv_layers", KEY_INT, "num_kv_shared_layers", 0},                        \
        {"embedding_length_per_layer_input", KEY_INT, "hidden_size_per_layer_input", 0}, {         \
        "final_logit_softcapping", KEY_REAL, "final_logit_softcapping", 0                          \
    }
static const GgufKey GEMMA3N_KEYS[] = {
    GEMMA_KEYS,
    {"attention.head_count_kv", KEY_INT, "num_key_value_heads", 0},
    {"attention.key_length", KEY_INT, "head_dim", 0},
    {"attention.value_length", KEY_INT, "head_dim", 0},
    {"altup.active_idx", KEY_INT, "altup_active_idx", 0},
    {"altup.num_inputs", KEY_INT, "altup_num_inputs", 0},
    {0},
};
static const GgufKey GEMMA4_KEYS[] = {
    GEMMA_KEYS,
    {"attention.key_length", KEY_INT, "per_layer_config.1.head_dim", 0},
    {"attention.value_length", KEY_INT, "per_layer_config.1.head_dim", 0},
    {"attention.key_length_swa", KEY_INT, "head_dim", 0},
    {"attention.value_length_swa", KEY_INT, "head_dim", 0},
    {"rope.dimension_count", KEY_INT, "per_layer_config.1.head_dim", 0},
    {"rope.dimension_count_swa", KEY_INT, "head_dim", 0},
    {"expert_count", KEY_INT, "num_experts", 0},
    {"expert_used_count", KEY_INT, "top_k_experts", 0},
    {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", 0},
    {0},
};
static const GgufKey MAMBA_KEYS[] = {
    {"context_length", KEY_INT, NULL, 1 << 20},
    {"embedding_length", KEY_INT, "hidden_size", 0},
    {"feed_forward_length", KEY_INT, NULL, 0},
    {"attention.head_count", KEY_INT, NULL, 0},
    {"block_count", KEY_INT, "num_hidden_layers", 0},
    {"ssm.conv_kernel", KEY_INT, "conv_kernel", 0},
    {"ssm.inner_size", KEY_INT, "intermediate_size", 0},
    {"ssm.state_size", KEY_INT, "state_size", 0},
    {"ssm.time_step_rank", KEY_INT, "time_step_rank", 0},
    {"attention.layer_norm_rms_epsilon", KEY_REAL, "layer_norm_epsilon", 0},
    {0},
};

/* ---- lists ---- */

enum { MAX_LAYERS = 16 };

static void put_pattern(GgufOut *out, const Json *config, const char *key) {
    const Json *types = gguf_family_config(config, "layer_types");
    bool sliding[MAX_LAYERS];
    assert_true(types && types->n <= MAX_LAYERS);
    for (uint32_t i = 0; i < types->n; i++)
        sliding[i] = str_eqc(json_at(types, i)->text, "sliding_attention");
    gguf_write_bools(out, key, sliding, types->n);
}

static int64_t whole(const Json *config, const char *path) {
    int64_t v = 0;
    (void)json_i64(gguf_family_config(config, path), &v);
    return v;
}

/* z with a share p of a normal distribution below it. */
static double quantile(double p) {
    double lo = -20, hi = 20;
    for (int i = 0; i < 100; i++) {
        double mid = (lo + hi) / 2;
        if (erfc(-mid * M_SQRT1_2) / 2 < p)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static void gemma3n_more(GgufOut *out, const Json *config) {
    const Json *shares = gguf_family_config(config, "activation_sparsity_pattern"),
               *widths = gguf_family_config(config, "intermediate_size");
    float scale[MAX_LAYERS];
    int32_t width[MAX_LAYERS];
    for (uint32_t i = 0; i < shares->n; i++) {
        double p = 0;
        int64_t w = 0;
        assert_true(json_f64(json_at(shares, i), &p) && json_i64(json_at(widths, i), &w));
        scale[i] = p > 0 ? (float)quantile(p) : -INFINITY;
        width[i] = (int32_t)w;
    }
    gguf_write_f32s(out, "gemma3n.activation_sparsity_scale", scale, shares->n);
    gguf_write_i32s(out, "gemma3n.feed_forward_length", width, widths->n);
    put_pattern(out, config, "gemma3n.attention.sliding_window_pattern");
}

static void gemma4_more(GgufOut *out, const Json *config) {
    const Json *types = gguf_family_config(config, "layer_types");
    int32_t heads[MAX_LAYERS], widths[MAX_LAYERS];
    int64_t shared = whole(config, "num_kv_shared_layers"),
            full = whole(config, "per_layer_config.1.num_key_value_heads"),
            all = whole(config, "num_key_value_heads"), width = whole(config, "intermediate_size");
    bool wide = false;
    (void)json_bool(gguf_family_config(config, "use_double_wide_mlp"), &wide);
    for (uint32_t i = 0; i < types->n; i++) {
        bool sliding = str_eqc(json_at(types, i)->text, "sliding_attention");
        heads[i] = (int32_t)(sliding || !full ? all : full);
        widths[i] = (int32_t)(wide && (int64_t)i + shared >= (int64_t)types->n ? 2 * width : width);
    }
    put_pattern(out, config, "gemma4.attention.sliding_window_pattern");
    if (full)
        gguf_write_i32s(out, "gemma4.attention.head_count_kv", heads, types->n);
    else
        gguf_write_u32(out, "gemma4.attention.head_count_kv", (uint32_t)all);
    if (wide)
        gguf_write_i32s(out, "gemma4.feed_forward_length", widths, types->n);
    else
        gguf_write_u32(out, "gemma4.feed_forward_length", (uint32_t)width);
}

/* Divisors of the full layers' frequencies: those that do not turn have a huge one. */
static uint32_t gemma4_divisors(const Json *config, float *out) {
    uint32_t n = (uint32_t)whole(config, "per_layer_config.1.head_dim") / 2;
    double share = 1;
    assert_true(
        json_f64(gguf_family_config(config, "rope_parameters.full_attention.partial_rotary_factor"),
                 &share));
    assert_true(n <= GGUF_FAMILY_VALUES);
    for (uint32_t i = 0; i < n; i++) out[i] = i < (uint32_t)(share * n) ? 1 : 1e30f;
    return n;
}

static void sections_more(GgufOut *out, const char *key, const Json *config) {
    const Json *list = gguf_family_config(config, "rope_scaling.mrope_section");
    int32_t four[4] = {0};
    for (uint32_t i = 0; i < list->n; i++) {
        int64_t v = 0;
        assert_true(json_i64(json_at(list, i), &v));
        four[i] = (int32_t)v;
    }
    gguf_write_i32s(out, key, four, 4);
}
static void qwen2_more(GgufOut *out, const Json *config) {
    sections_more(out, "qwen2vl.rope.dimension_sections", config);
}
static void qwen3_more(GgufOut *out, const Json *config) {
    sections_more(out, "qwen3vl.rope.dimension_sections", config);
    gguf_write_u32(out, "qwen3vl.n_deepstack_layers", 2);
}
static void qwen3_moe_more(GgufOut *out, const Json *config) {
    sections_more(out, "qwen3vlmoe.rope.dimension_sections", config);
    gguf_write_u32(out, "qwen3vlmoe.n_deepstack_layers", 2);
}
static void mamba_more(GgufOut *out, const Json *config) {
    (void)config;
    gguf_write_bool(out, "mamba.ssm.dt_b_c_rms", true);
}

/* ---- tensors ---- */

#define LAYER "model.layers.%d."

static const GgufRule TOP_RULES[] = {
    {"model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight", CHANGE_PAD},
    {"model.per_layer_model_projection.weight", "per_layer_model_proj.weight", 0},
    {"model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight", 0},
    {"model.lm_head.weight", "output.weight", 0},
    {"model.model.norm.weight", "output_norm.weight", 0},
    {LAYER "self_attn.v_proj.bias", "blk.%d.attn_v.bias", 0},
    {LAYER "self_attn.q_norm.weight", "blk.%d.attn_q_norm.weight", 0},
    {LAYER "self_attn.k_norm.weight", "blk.%d.attn_k_norm.weight", 0},
    {0},
};
static const GgufRule PLAIN_QK[] = {
    {LAYER "self_attn.q_proj.weight", "blk.%d.attn_q.weight", 0},
    {LAYER "self_attn.k_proj.weight", "blk.%d.attn_k.weight", 0},
    {LAYER "self_attn.q_proj.bias", "blk.%d.attn_q.bias", 0},
    {LAYER "self_attn.k_proj.bias", "blk.%d.attn_k.bias", 0},
    {0},
};
static const GgufRule PERMUTED_QK[] = {
    {LAYER "self_attn.q_proj.weight", "blk.%d.attn_q.weight", CHANGE_Q},
    {LAYER "self_attn.k_proj.weight", "blk.%d.attn_k.weight", CHANGE_K},
    {0},
};
static const GgufRule LLAMA_NORM[] = {
    {LAYER "post_attention_layernorm.weight", "blk.%d.ffn_norm.weight", 0}, {0}};
static const GgufRule QWEN_MOE_RULES[] = {
    {LAYER "post_attention_layernorm.weight", "blk.%d.ffn_norm.weight", 0},
    {LAYER "mlp.gate.weight", "blk.%d.ffn_gate_inp.weight", 0},
    {LAYER "mlp.experts.gate_up_proj", "blk.%d.ffn_gate_exps.weight", CHANGE_TURN_GATE},
    {LAYER "mlp.experts.gate_up_proj", "blk.%d.ffn_up_exps.weight", CHANGE_TURN_UP},
    {LAYER "mlp.experts.down_proj", "blk.%d.ffn_down_exps.weight", CHANGE_TURN},
    {0},
};
#define FFN LAYER "feed_forward."
static const GgufRule LLAMA4_RULES[] = {
    {LAYER "post_attention_layernorm.weight", "blk.%d.ffn_norm.weight", 0},
    {FFN "gate_proj.weight", "blk.%d.ffn_gate.weight", 0},
    {FFN "up_proj.weight", "blk.%d.ffn_up.weight", 0},
    {FFN "down_proj.weight", "blk.%d.ffn_down.weight", 0},
    {FFN "router.weight", "blk.%d.ffn_gate_inp.weight", 0},
    {FFN "experts.gate_up_proj", "blk.%d.ffn_gate_exps.weight", CHANGE_TURN_GATE},
    {FFN "experts.gate_up_proj", "blk.%d.ffn_up_exps.weight", CHANGE_TURN_UP},
    {FFN "experts.down_proj", "blk.%d.ffn_down_exps.weight", CHANGE_TURN},
    {FFN "shared_expert.gate_proj.weight", "blk.%d.ffn_gate_shexp.weight", 0},
    {FFN "shared_expert.up_proj.weight", "blk.%d.ffn_up_shexp.weight", 0},
    {FFN "shared_expert.down_proj.weight", "blk.%d.ffn_down_shexp.weight", 0},
    {0},
};
#define GEMMA_RULES                                                                                \
    {LAYER "post_attention_layernorm.weight", "blk.%d.post_attention_norm.weight", 0},             \
        {LAYER "pre_feedforward_layernorm.weight", "blk.%d.ffn_norm.weight", 0},                   \
        {LAYER "post_feedforward_layernorm.weight", "blk.%d.post_ffw_norm.weight", 0},             \
        {LAYER "per_layer_input_gate.weight", "blk.%d.inp_gate.weight", 0},                        \
        {LAYER "per_layer_projection.weight", "blk.%d.proj.weight", 0}, {                          \
        LAYER "post_per_layer_input_norm.weight", "blk.%d.post_norm.weight", 0                     \
    }
static const GgufRule GEMMA3N_RULES[] = {
    GEMMA_RULES,
    {"model.altup_projections.%e.weight", "altup_proj.weight", 0},
    {"model.altup_unembed_projections.%e.weight", "altup_unembd_proj.weight", 0},
    {LAYER "altup.correct_output_scale", "blk.%d.altup_correct_scale.weight", 0},
    {LAYER "altup.correction_coefs.weight", "blk.%d.altup_correct_coef.weight", 0},
    {LAYER "altup.prediction_coefs.weight", "blk.%d.altup_predict_coef.weight", 0},
    {LAYER "altup.modality_router.weight", "blk.%d.altup_router.weight", 0},
    {LAYER "altup.router_norm.weight", "blk.%d.altup_router_norm.weight", 0},
    {LAYER "laurel.linear_left.weight", "blk.%d.laurel_l.weight", 0},
    {LAYER "laurel.linear_right.weight", "blk.%d.laurel_r.weight", 0},
    {LAYER "laurel.post_laurel_norm.weight", "blk.%d.laurel_post_norm.weight", 0},
    {0},
};
#define GEMMA4_BUT_GATES                                                                           \
    GEMMA_RULES, {LAYER "layer_scalar", "blk.%d.layer_output_scale.weight", 0},                    \
        {LAYER "post_feedforward_layernorm_1.weight", "blk.%d.post_ffw_norm_1.weight", 0},         \
        {LAYER "post_feedforward_layernorm_2.weight", "blk.%d.post_ffw_norm_2.weight", 0},         \
        {LAYER "pre_feedforward_layernorm_2.weight", "blk.%d.pre_ffw_norm_2.weight", 0},           \
        {LAYER "router.proj.weight", "blk.%d.ffn_gate_inp.weight", 0},                             \
        {LAYER "router.scale", "blk.%d.ffn_gate_inp.scale", 0},                                    \
        {LAYER "router.per_expert_scale", "blk.%d.ffn_down_exps.scale", 0}, {                      \
        LAYER "experts.down_proj", "blk.%d.ffn_down_exps.weight", 0                                \
    }
static const GgufRule GEMMA4_RULES[] = {
    GEMMA4_BUT_GATES,
    {LAYER "experts.gate_up_proj", "blk.%d.ffn_gate_up_exps.weight", 0},
    {0},
};
static const GgufRule GEMMA4_HALVES[] = {
    GEMMA4_BUT_GATES,
    {LAYER "experts.gate_up_proj", "blk.%d.ffn_gate_exps.weight", CHANGE_GATE},
    {LAYER "experts.gate_up_proj", "blk.%d.ffn_up_exps.weight", CHANGE_UP},
    {0},
};
#define MIXER "backbone.layers.%d.mixer."
static const GgufRule MAMBA_RULES[] = {
    {"backbone.embeddings.weight", "token_embd.weight", 0},
    {"backbone.norm_f.weight", "output_norm.weight", 0},
    {"lm_head.weight", "output.weight", 0},
    {"backbone.layers.%d.norm.weight", "blk.%d.attn_norm.weight", 0},
    {MIXER "A_log", "blk.%d.ssm_a", CHANGE_NEG_EXP},
    {MIXER "D", "blk.%d.ssm_d", 0},
    {MIXER "conv1d.weight", "blk.%d.ssm_conv1d.weight", CHANGE_SQUEEZE},
    {MIXER "conv1d.bias", "blk.%d.ssm_conv1d.bias", 0},
    {MIXER "dt_proj.weight", "blk.%d.ssm_dt.weight", 0},
    {MIXER "dt_proj.bias", "blk.%d.ssm_dt.bias", 0},
    {MIXER "in_proj.weight", "blk.%d.ssm_in.weight", 0},
    {MIXER "x_proj.weight", "blk.%d.ssm_x.weight", 0},
    {MIXER "out_proj.weight", "blk.%d.ssm_out.weight", 0},
    {0},
};

/* ---- the rows ---- */

#define MISTRAL3(name_, golden_, fuse_)                                                            \
    {                                                                                              \
        .name = name_, .golden = golden_, .arch = "mistral3", .fuse = fuse_,                       \
        .keys = {BASE_KEYS, KV_HEADS, MISTRAL_KEYS}, .rules = {                                    \
            gguf_llama_rules,                                                                      \
            TOP_RULES,                                                                             \
            PERMUTED_QK,                                                                           \
            LLAMA_NORM                                                                             \
        }                                                                                          \
    }
#define QWEN3_MOE(name_, fuse_)                                                                    \
    {                                                                                              \
        .name = name_, .golden = "multimodal/qwen3_vl_moe", .arch = "qwen3vlmoe", .fuse = fuse_,   \
        .keys = {BASE_KEYS, KV_HEADS, QWEN_MOE_KEYS}, .more = qwen3_moe_more, .rules = {           \
            gguf_llama_rules,                                                                      \
            TOP_RULES,                                                                             \
            PLAIN_QK,                                                                              \
            QWEN_MOE_RULES                                                                         \
        }                                                                                          \
    }
#define GEMMA4(name_, golden_, rules_, fuse_)                                                      \
    {                                                                                              \
        .name = name_, .golden = golden_, .arch = "gemma4", .fuse = fuse_,                         \
        .keys = {BASE_KEYS, GEMMA4_KEYS}, .more = gemma4_more, .extra = "rope_freqs.weight",       \
        .values = gemma4_divisors, .rules = {                                                      \
            gguf_llama_rules,                                                                      \
            TOP_RULES,                                                                             \
            PLAIN_QK,                                                                              \
            rules_                                                                                 \
        }                                                                                          \
    }

static const GgufFamily FAMILIES[] = {
    MISTRAL3("ministral3", "decoder/ministral3", false),
    MISTRAL3("ministral3.fused", "decoder/ministral3", true),
    MISTRAL3("mistral3.ministral3", "decoder/mistral3_nested", false),
    MISTRAL3("mistral3.mistral", "decoder/mistral3_mistral", false),
    {.name = "qwen2_5_vl",
     .golden = "multimodal/qwen2_5_vl",
     .arch = "qwen2vl",
     .keys = {BASE_KEYS, KV_HEADS},
     .rules = {gguf_llama_rules, TOP_RULES, PLAIN_QK, LLAMA_NORM},
     .more = qwen2_more},
    {.name = "qwen2_5_vl.fused",
     .golden = "multimodal/qwen2_5_vl",
     .arch = "qwen2vl",
     .keys = {BASE_KEYS, KV_HEADS},
     .rules = {gguf_llama_rules, TOP_RULES, PLAIN_QK, LLAMA_NORM},
     .more = qwen2_more,
     .fuse = true},
    {.name = "qwen3_vl",
     .golden = "multimodal/qwen3_vl",
     .arch = "qwen3vl",
     .keys = {BASE_KEYS, KV_HEADS},
     .rules = {gguf_llama_rules, TOP_RULES, PLAIN_QK, LLAMA_NORM},
     .more = qwen3_more},
    QWEN3_MOE("qwen3_vl_moe", false),
    QWEN3_MOE("qwen3_vl_moe.fused", true),
    {.name = "llama4",
     .golden = "decoder/llama4_text",
     .arch = "llama4",
     .keys = {BASE_KEYS, LLAMA4_KEYS},
     .rules = {gguf_llama_rules, TOP_RULES, PLAIN_QK, LLAMA4_RULES}},
    {.name = "gemma3n",
     .golden = "decoder/gemma3n_text",
     .arch = "gemma3n",
     .keys = {BASE_KEYS, GEMMA3N_KEYS},
     .rules = {gguf_llama_rules, TOP_RULES, PLAIN_QK, GEMMA3N_RULES},
     .more = gemma3n_more},
    GEMMA4("gemma4", "decoder/gemma4_text", GEMMA4_RULES, false),
    GEMMA4("gemma4.fused", "decoder/gemma4_text", GEMMA4_RULES, true),
    GEMMA4("gemma4.moe", "decoder/gemma4_text_moe", GEMMA4_RULES, false),
    GEMMA4("gemma4.moe.halves", "decoder/gemma4_text_moe", GEMMA4_HALVES, false),
    {.name = "falcon_mamba",
     .golden = "decoder/falcon_mamba",
     .arch = "mamba",
     .keys = {MAMBA_KEYS},
     .rules = {MAMBA_RULES},
     .more = mamba_more},
};

/* What the architecture has in GGUF files whatever the config says, put into the golden's. */
static void llama4_releases(Buf *config, const void *ctx) {
    static const char *const PAIRS[2][2] = {
        {"\"attention_chunk_size\": 16", "\"attention_chunk_size\": 8192"},
        {"\"floor_scale\": 8", "\"floor_scale\": 8192"}};
    (void)ctx;
    for (int i = 0; i < 2; i++) {
        Buf out = {0};
        size_t at = str_find(buf_str(config), str_c(PAIRS[i][0]), 0);
        assert_true(at != STR_NPOS);
        buf_put(&out, str_slice(buf_str(config), 0, at));
        buf_put(&out, str_c(PAIRS[i][1]));
        buf_put(&out, str_from(buf_str(config), at + strlen(PAIRS[i][0])));
        buf_deinit(config);
        *config = out;
    }
}

typedef struct Case {
    Arena a;
    char dir[2200], gguf[256];
    uint32_t *ids;
    size_t n;
    const char *logits; /* NULL: the reference's are of another config, or of other tokens */
} Case;

enum {
    KNOWN_TOKENS = 240
}; /* rows of Gemma 3n's table per layer, whose padding is not the reference's */

static void case_make(const GgufFamily *f, Case *c) {
    char file[2400];
    Err err = {0};
    const Json *ids = NULL;
    bool gemma3n = strcmp(f->arch, "gemma3n") == 0, llama4 = strcmp(f->arch, "llama4") == 0;
    *c = (Case){.logits = "logits.npy"};
    snprintf(c->dir, sizeof c->dir, "%s/%s", golden_dir(), f->golden);
    snprintf(file, sizeof file, "%s/golden.json", c->dir);
    if (!os_make_dirs("build/families", &err)) fail_msg("%s", err.msg);
    snprintf(c->gguf, sizeof c->gguf, "build/families/%s.gguf", f->name);
    const Json *golden = json_of(file, &c->a, &err);
    if (!golden) fail_msg("%s", err.msg);
    const Json *cases = json_get(golden, "cases");
    for (uint32_t i = 0; cases && i < cases->n; i++)
        if (str_eqc(json_get(json_at(cases, i), "name")->text, "text"))
            ids = json_get(json_at(cases, i), "tokens");
    if (cases) c->logits = "text_logits.npy";
    if (!cases) ids = json_at(json_get(golden, "tokens"), 0);
    const uint32_t *list = ids_of(ids, &c->a, &c->n);
    assert_true(list && c->n > 0);
    c->ids = arena_array(&c->a, uint32_t, c->n);
    for (size_t i = 0; i < c->n; i++) c->ids[i] = gemma3n ? list[i] % KNOWN_TOKENS : list[i];
    if (gemma3n || llama4) c->logits = NULL;
    if (!llama4) return;
    char from[2200];
    memcpy(from, c->dir, sizeof from);
    snprintf(c->dir, sizeof c->dir, "build/families/%s", f->name);
    if (!golden_copy(from, c->dir, llama4_releases, NULL, &err)) fail_msg("%s", err.msg);
}

static float *logits_of(const char *path, const Case *c, Arena *a, size_t *n) {
    Model *m = NULL;
    Engine *e = NULL;
    Err err = {0};
    ModelOptions mo = {.backend = "ref", .be = {.n_threads = 2}};
    EngineOptions eo = engine_options();
    eo.k = eo.v = PLANE_F32;
    eo.n_ctx = 128;
    float *out = NULL;
    bool ok = model_open(path, &mo, &m, &err) && engine_open(m, &eo, &e, &err);
    if (ok) {
        *n = c->n * m->arch.vocab;
        out = arena_array(a, float, *n);
        ok = run_logits(e, m, c->ids, c->n, out, &err);
    }
    engine_close(e);
    model_close(m);
    if (!ok) fail_msg("%s: %s", path, err.msg);
    return out;
}

static void ggufs_give_the_goldens_logits(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(FAMILIES); i++) {
        const GgufFamily *f = &FAMILIES[i];
        Case c;
        Err err = {0};
        Npy want = {0};
        char file[2400];
        size_t n = 0, n_own = 0;
        case_make(f, &c);
        if (!gguf_family_write(f, c.dir, c.gguf, NULL, &err)) fail_msg("%s: %s", f->name, err.msg);
        const float *got = logits_of(c.gguf, &c, &c.a, &n),
                    *own = logits_of(c.dir, &c, &c.a, &n_own);
        assert_int_equal(n, n_own);
        double off = max_over_rms(got, own, n);
        if (!(off <= 1e-4)) fail_msg("%s: %.2e from the golden as it is", f->name, off);
        snprintf(file, sizeof file, "%s/%s", c.dir, c.logits ? c.logits : "");
        if (c.logits && !npy_load(file, &want, &err)) fail_msg("%s", err.msg);
        if (c.logits) off = max_over_rms(got, want.data, n);
        if (!(off <= 1e-3)) fail_msg("%s: %.2e from the reference", f->name, off);
        if (c.logits) npy_free(&want);
        arena_deinit(&c.a);
    }
}

/* ---- what is refused ---- */

#define PUT(name_, write_)                                                                         \
    static void name_(GgufOut *out) { write_; }

static const int32_t TWO[2] = {4, 4}, ZEROS[4] = {0};
static const bool FEW_TYPES[2] = {true, false};
static const float SHARES[6] = {0, 0, 0, NAN, 0, 0}, FEW_SHARES[2] = {0, 0};
PUT(no_layers, gguf_write_u32(out, "gemma4.block_count", 0))
PUT(small_values, gguf_write_u32(out, "gemma4.attention.value_length", 8))
PUT(few_widths, gguf_write_i32s(out, "gemma4.feed_forward_length", TWO, 2))
PUT(few_heads, gguf_write_u32(out, "gemma4.feed_forward_length", 96);
    gguf_write_i32s(out, "gemma4.attention.head_count_kv", TWO, 2))
PUT(few_types, gguf_write_u32(out, "gemma4.feed_forward_length", 96);
    gguf_write_bools(out, "gemma4.attention.sliding_window_pattern", FEW_TYPES, 2))
PUT(all_shared, gguf_write_u32(out, "gemma4.attention.shared_kv_layers", 6))
PUT(text_window, gguf_write_str(out, "gemma4.attention.sliding_window", STR("wide")))
PUT(text_rope, gguf_write_str(out, "gemma4.rope.dimension_count", STR("32")))
PUT(wide_rope, gguf_write_u32(out, "gemma4.rope.dimension_count_swa", 64))
PUT(many_experts, gguf_write_u32(out, "gemma4.expert_used_count", 9))
PUT(odd_share, gguf_write_u32(out, "gemma3n.feed_forward_length", 96);
    gguf_write_f32s(out, "gemma3n.activation_sparsity_scale", SHARES, 6))
PUT(few_shares, gguf_write_u32(out, "gemma3n.feed_forward_length", 96);
    gguf_write_f32s(out, "gemma3n.activation_sparsity_scale", FEW_SHARES, 2))
PUT(one_stream, gguf_write_u32(out, "gemma3n.altup.num_inputs", 1))
PUT(streams, gguf_write_u32(out, "gemma3n.altup.num_inputs", 5))
PUT(no_experts, gguf_write_u32(out, "llama4.expert_count", 0))
PUT(step_text, gguf_write_str(out, "llama4.interleave_moe_layer_step", STR("2")))
PUT(no_stretch, gguf_write_u32(out, "mistral3.rope.scaling.original_context_length", 0))
PUT(cold, gguf_write_f32(out, "mistral3.attention.temperature_scale", -1))
PUT(no_sections, gguf_write_i32s(out, "qwen2vl.rope.dimension_sections", ZEROS, 4))
PUT(few_sections, gguf_write_i32s(out, "qwen2vl.rope.dimension_sections", ZEROS, 1))

typedef struct Refusal {
    const char *row;
    GgufEdit edit;
    bool no_more; /* without the row's lists */
    const char *message;
} Refusal;

static const Refusal REFUSALS[] = {
    {"gemma4",
     {.key = "attention.sliding_window"},
     false,
     "attention.sliding_window (sliding_window) is missing"},
    {"gemma4",
     {.key = "attention.sliding_window", .put = text_window},
     false,
     "attention.sliding_window"},
    {"gemma4", {.key = "block_count", .put = no_layers}, false, "block_count"},
    {"gemma4", {.key = "attention.value_length", .put = small_values}, false, "values of 8"},
    {"gemma4", {.put = few_widths}, true, "feed_forward_length has 2 entries"},
    {"gemma4.moe", {.put = few_heads}, true, "has 2 entries"},
    {"gemma4", {.put = few_types}, true, "sliding_window_pattern has 2 entries"},
    {"gemma4", {.key = "attention.shared_kv_layers", .put = all_shared}, false, "shared_kv_layers"},
    {"gemma4", {.key = "rope.dimension_count_swa", .put = wide_rope}, false, "dimension_count_swa"},
    {"gemma4", {.key = "rope.dimension_count", .put = text_rope}, false, "rope.dimension_count"},
    {"gemma4", {.tensor = "rope_freqs.weight"}, false, "rope_freqs.weight is missing"},
    {"gemma4", {.tensor = "blk.2.post_norm.weight"}, false, "blk.2.post_norm.weight is missing"},
    {"gemma4.moe", {.key = "expert_count"}, false, "belongs to no part"},
    {"gemma4.moe", {.key = "expert_used_count", .put = many_experts}, false, "expert_used_count"},
    {"gemma4.moe", {.tensor = "blk.1.ffn_gate_inp.scale"}, false, "blk.1.ffn_gate_inp.scale"},
    {"gemma3n", {.put = odd_share}, true, "activation_sparsity_scale has"},
    {"gemma3n", {.put = few_shares}, true, "activation_sparsity_scale has 2 entries"},
    {"gemma3n", {.key = "altup.num_inputs", .put = one_stream}, false, "altup.num_inputs"},
    {"gemma3n", {.key = "altup.num_inputs", .put = streams}, false, "altup_proj"},
    {"gemma3n", {.tensor = "altup_proj.weight"}, false, "altup_proj"},
    {"gemma3n", {.tensor = "blk.0.laurel_l.weight"}, false, "laurel_l"},
    {"llama4",
     {.key = "interleave_moe_layer_step"},
     false,
     "(interleave_moe_layer_step) is missing"},
    {"llama4",
     {.key = "interleave_moe_layer_step", .put = step_text},
     false,
     "interleave_moe_layer_step"},
    {"llama4",
     {.key = "expert_count", .put = no_experts},
     false,
     "expert_count (num_experts) is missing"},
    {"llama4",
     {.key = "expert_feed_forward_length"},
     false,
     "expert_feed_forward_length (moe_intermediate_size) is missing"},
    {"ministral3",
     {.key = "rope.scaling.original_context_length", .put = no_stretch},
     false,
     "original_context_length"},
    {"ministral3", {.key = "rope.scaling.factor"}, false, "scaling.factor (factor) is missing"},
    {"ministral3", {.key = "attention.temperature_scale", .put = cold}, false, "temperature_scale"},
    {"ministral3.fused", {.tensor = "blk.1.attn_output.weight"}, false, "blk.1.attn_output"},
    {"gemma4", {.put = NULL}, true, "feed_forward_length (intermediate_size) is missing"},
    {"qwen2_5_vl", {.put = no_sections}, true, "mrope_section is missing"},
    {"qwen2_5_vl", {.put = few_sections}, true, "mrope_section has 1 numbers"},
    {"qwen3_vl_moe",
     {.key = "expert_used_count"},
     false,
     "expert_used_count (num_experts_per_tok) is missing"},
    {"falcon_mamba", {.key = "ssm.inner_size"}, false, "inner_size"},
};

static const GgufFamily *family(const char *name) {
    for (size_t i = 0; i < COUNT(FAMILIES); i++)
        if (strcmp(FAMILIES[i].name, name) == 0) return &FAMILIES[i];
    fail_msg("no row %s", name);
    return NULL;
}

static void files_that_make_no_sense_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(REFUSALS); i++) {
        const Refusal *r = &REFUSALS[i];
        GgufFamily f = *family(r->row);
        Case c;
        Err err = {0};
        Arena a = {0};
        Checkpoint *ck;
        ArchModel m;
        case_make(&f, &c);
        if (r->no_more) f.more = NULL;
        if (!gguf_family_write(&f, c.dir, c.gguf, &r->edit, &err)) fail_msg("%s", err.msg);
        if (!checkpoint_open(c.gguf, &ck, &err)) fail_msg("%s: %s", r->row, err.msg);
        bool ok = arch_build(ck, &a, &m, &err);
        checkpoint_close(ck);
        if (ok)
            print_error("%s: accepted, not refused for \"%s\"\n", r->row, r->message);
        else if (!strstr(err.msg, r->message))
            print_error("%s: \"%s\" says nothing of \"%s\"\n", r->row, err.msg, r->message);
        arena_deinit(&a);
        arena_deinit(&c.a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ggufs_give_the_goldens_logits),
        cmocka_unit_test(files_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests_name("gguf_text", tests, NULL, NULL);
}
