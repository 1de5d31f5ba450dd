/* GGUF files of families: each row makes one of a golden as llama.cpp's converter does (gguf_family.h),
 * and the logits must be those of the reference and of the golden as it is. Then files in which a key
 * or a tensor is missing or makes no sense: refused by name. Reads $MLXCEL_GOLDEN_DIR
 * (tests/data/models.tar.xz). */
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
#include "ckpt/safetensors_write.h"
#include "gguf_family.h"
#include "golden_run.h"
#include "npy.h"

/* ---- what all have ---- */

static const GgufKey BASE_KEYS[] = {
    {"context_length", KEY_INT, "max_position_embeddings", 0},
    {"embedding_length", KEY_INT, "hidden_size", 0},
    {"block_count", KEY_INT, "num_hidden_layers", 0},
    {"feed_forward_length", KEY_INT, "intermediate_size", 0},
    {"attention.head_count", KEY_INT, "num_attention_heads", 0},
    {"attention.layer_norm_rms_epsilon", KEY_REAL, "rms_norm_eps", 0},
    {"rope.freq_base", KEY_REAL, "rope_theta", 0},
    {"rope.freq_base", KEY_REAL, "rope_parameters.rope_theta", 0},
    {"rope.scaling.type", KEY_TEXT, "rope_scaling.type", 0},
    {"rope.scaling.factor", KEY_REAL, "rope_scaling.factor", 0},
    {"rope.scaling.original_context_length", KEY_INT,
     "rope_scaling.original_max_position_embeddings", 0},
    {"rope.scaling.yarn_beta_fast", KEY_REAL, "rope_scaling.beta_fast", 0},
    {"rope.scaling.yarn_beta_slow", KEY_REAL, "rope_scaling.beta_slow", 0},
    {"vocab_size", KEY_INT, "vocab_size", 0},
    {0},
};

static const GgufKey EXPERT_KEYS[] = {
    {"expert_count", KEY_INT, "n_routed_experts", 0},
    {"expert_used_count", KEY_INT, "num_experts_per_tok", 0},
    {"expert_group_count", KEY_INT, "n_group", 0},
    {"expert_group_used_count", KEY_INT, "topk_group", 0},
    {"expert_gating_func", KEY_GATING, "scoring_func", 0},
    {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", 0},
    {"expert_shared_count", KEY_INT, "n_shared_experts", 0},
    {"expert_weights_scale", KEY_REAL, "routed_scaling_factor", 0},
    {"expert_weights_norm", KEY_IF, "norm_topk_prob", 0},
    {"leading_dense_block_count", KEY_INT, "first_k_dense_replace", 0},
    {0},
};

#define LAYER "model.layers.%d."

static const GgufRule BASE_RULES[] = {
    {LAYER "post_attention_layernorm.weight", "blk.%d.ffn_norm.weight", 0},
    {LAYER "self_attn.q_proj.weight", "blk.%d.attn_q.weight", 0},
    {LAYER "self_attn.k_proj.weight", "blk.%d.attn_k.weight", 0},
    {0},
};

static const GgufRule EXPERT_RULES[] = {
    {LAYER "mlp.gate.weight", "blk.%d.ffn_gate_inp.weight", 0},
    {LAYER "mlp.gate.e_score_correction_bias", "blk.%d.exp_probs_b.bias", 0},
    {LAYER "mlp.experts.%e.gate_proj.weight", "blk.%d.ffn_gate_exps.weight", 0},
    {LAYER "mlp.experts.%e.up_proj.weight", "blk.%d.ffn_up_exps.weight", 0},
    {LAYER "mlp.experts.%e.down_proj.weight", "blk.%d.ffn_down_exps.weight", 0},
    {LAYER "mlp.shared_experts.gate_proj.weight", "blk.%d.ffn_gate_shexp.weight", 0},
    {LAYER "mlp.shared_experts.up_proj.weight", "blk.%d.ffn_up_shexp.weight", 0},
    {LAYER "mlp.shared_experts.down_proj.weight", "blk.%d.ffn_down_shexp.weight", 0},
    {0},
};

/* ---- latent attention ---- */

/* As one key head for all, of latents; and as of old, as many as there are heads. */
static const GgufKey MLA_KEYS[] = {
    {"attention.head_count_kv", KEY_INT, NULL, 1},
    {"attention.q_lora_rank", KEY_INT, "q_lora_rank", 0},
    {"attention.kv_lora_rank", KEY_INT, "kv_lora_rank", 0},
    {"attention.key_length", KEY_INT, "kv_lora_rank+qk_rope_head_dim", 0},
    {"attention.value_length", KEY_INT, "kv_lora_rank", 0},
    {"attention.key_length_mla", KEY_INT, "qk_nope_head_dim+qk_rope_head_dim", 0},
    {"attention.value_length_mla", KEY_INT, "v_head_dim", 0},
    {"rope.dimension_count", KEY_INT, "qk_rope_head_dim", 0},
    {"rope.scaling.yarn_log_multiplier", KEY_TENTH, "rope_scaling.mscale_all_dim", 0},
    {0},
};
static const GgufKey OLD_MLA_KEYS[] = {
    {"attention.head_count_kv", KEY_INT, "num_key_value_heads", 0},
    {"attention.q_lora_rank", KEY_INT, "q_lora_rank", 0},
    {"attention.kv_lora_rank", KEY_INT, "kv_lora_rank", 0},
    {"attention.key_length", KEY_INT, "qk_nope_head_dim+qk_rope_head_dim", 0},
    {"attention.value_length", KEY_INT, "v_head_dim", 0},
    {"rope.dimension_count", KEY_INT, "qk_rope_head_dim", 0},
    {"rope.scaling.yarn_log_multiplier", KEY_TENTH, "rope_scaling.mscale_all_dim", 0},
    {0},
};

#define MLA_RULES_BUT_KV_B                                                                         \
    {LAYER "self_attn.q_a_proj.weight", "blk.%d.attn_q_a.weight", 0},                              \
        {LAYER "self_attn.q_a_layernorm.weight", "blk.%d.attn_q_a_norm.weight", 0},                \
        {LAYER "self_attn.q_b_proj.weight", "blk.%d.attn_q_b.weight", 0},                          \
        {LAYER "self_attn.kv_a_proj_with_mqa.weight", "blk.%d.attn_kv_a_mqa.weight", 0}, {         \
        LAYER "self_attn.kv_a_layernorm.weight", "blk.%d.attn_kv_a_norm.weight", 0                 \
    }

static const GgufRule MLA_RULES[] = {
    MLA_RULES_BUT_KV_B,
    {LAYER "self_attn.kv_b_proj.weight", "blk.%d.attn_k_b.weight", CHANGE_K_UP},
    {LAYER "self_attn.kv_b_proj.weight", "blk.%d.attn_v_b.weight", CHANGE_V_UP},
    {LAYER "self_attn.indexer.wq_b.weight", "blk.%d.indexer.attn_q_b.weight", 0},
    {LAYER "self_attn.indexer.wk.weight", "blk.%d.indexer.attn_k.weight", 0},
    {LAYER "self_attn.indexer.k_norm.weight", "blk.%d.indexer.k_norm.weight", 0},
    {LAYER "self_attn.indexer.k_norm.bias", "blk.%d.indexer.k_norm.bias", 0},
    {LAYER "self_attn.indexer.weights_proj.weight", "blk.%d.indexer.proj.weight", 0},
    {0},
};
static const GgufRule OLD_MLA_RULES[] = {
    MLA_RULES_BUT_KV_B,
    {LAYER "self_attn.kv_b_proj.weight", "blk.%d.attn_kv_b.weight", 0},
    {0},
};

static const GgufKey INDEX_KEYS[] = {
    {"attention.indexer.head_count", KEY_INT, "index_n_heads", 0},
    {"attention.indexer.key_length", KEY_INT, "index_head_dim", 0},
    {"attention.indexer.top_k", KEY_INT, "index_topk", 0},
    {0},
};

/* Whether the i-th of a list of texts is this one. */
static bool list_says(const Json *config, const char *list, size_t i, const char *what) {
    Str text;
    return json_str(json_at(json_get(config, list), i), &text) && str_eqc(text, what);
}

static void glm_more(GgufOut *out, const Json *config) {
    bool chooses[8] = {0};
    size_t n = json_get(config, "indexer_types")->n;
    assert_true(n <= 8);
    for (size_t i = 0; i < n; i++) chooses[i] = list_says(config, "indexer_types", i, "full");
    gguf_write_bools(out, "glm-dsa.attention.indexer.types", chooses, n);
}

/* ---- Kimi Linear ---- */

static const GgufKey KIMI_KEYS[] = {
    {"context_length", KEY_INT, "model_max_length", 0},
    {"attention.kv_lora_rank", KEY_INT, "kv_lora_rank", 0},
    {"attention.key_length", KEY_INT, "kv_lora_rank+qk_rope_head_dim", 0},
    {"attention.value_length", KEY_INT, "head_dim", 0},
    {"attention.key_length_mla", KEY_INT, "qk_nope_head_dim+qk_rope_head_dim", 0},
    {"attention.value_length_mla", KEY_INT, "v_head_dim", 0},
    {"rope.dimension_count", KEY_INT, "qk_rope_head_dim", 0},
    {"ssm.conv_kernel", KEY_INT, "linear_attn_config.short_conv_kernel_size", 0},
    {"kda.head_dim", KEY_INT, "linear_attn_config.head_dim", 0},
    {"expert_count", KEY_INT, "num_experts", 0},
    {"expert_used_count", KEY_INT, "num_experts_per_token", 0},
    {"expert_group_used_count", KEY_INT, "topk_group", 0},
    {"expert_gating_func", KEY_GATING, "moe_router_activation_func", 0},
    {"expert_feed_forward_length", KEY_INT, "moe_intermediate_size", 0},
    {"expert_shared_count", KEY_INT, "num_shared_experts", 0},
    {"expert_weights_scale", KEY_REAL, "routed_scaling_factor", 0},
    {"leading_dense_block_count", KEY_INT, "first_k_dense_replace", 0},
    {0},
};

#define SPARSE LAYER "block_sparse_moe."

static const GgufRule KIMI_RULES[] = {
    {LAYER "self_attn.q_conv1d.weight", "blk.%d.ssm_conv1d_q.weight", CHANGE_TAPS},
    {LAYER "self_attn.k_conv1d.weight", "blk.%d.ssm_conv1d_k.weight", CHANGE_TAPS},
    {LAYER "self_attn.v_conv1d.weight", "blk.%d.ssm_conv1d_v.weight", CHANGE_TAPS},
    {LAYER "self_attn.f_a_proj.weight", "blk.%d.ssm_f_a.weight", 0},
    {LAYER "self_attn.f_b_proj.weight", "blk.%d.ssm_f_b.weight", 0},
    {LAYER "self_attn.g_a_proj.weight", "blk.%d.ssm_g_a.weight", 0},
    {LAYER "self_attn.g_b_proj.weight", "blk.%d.ssm_g_b.weight", 0},
    {LAYER "self_attn.b_proj.weight", "blk.%d.ssm_beta.weight", 0},
    {LAYER "self_attn.A_log", "blk.%d.ssm_a", CHANGE_NEG_EXP},
    {LAYER "self_attn.dt_bias", "blk.%d.ssm_dt.bias", 0},
    {LAYER "self_attn.o_norm.weight", "blk.%d.ssm_norm.weight", 0},
    {SPARSE "gate.weight", "blk.%d.ffn_gate_inp.weight", 0},
    {SPARSE "gate.e_score_correction_bias", "blk.%d.exp_probs_b.bias", 0},
    {SPARSE "experts.%e.w1.weight", "blk.%d.ffn_gate_exps.weight", 0},
    {SPARSE "experts.%e.w3.weight", "blk.%d.ffn_up_exps.weight", 0},
    {SPARSE "experts.%e.w2.weight", "blk.%d.ffn_down_exps.weight", 0},
    {SPARSE "shared_experts.gate_proj.weight", "blk.%d.ffn_gate_shexp.weight", 0},
    {SPARSE "shared_experts.up_proj.weight", "blk.%d.ffn_up_shexp.weight", 0},
    {SPARSE "shared_experts.down_proj.weight", "blk.%d.ffn_down_shexp.weight", 0},
    {0},
};

/* No key heads where there is no attention; full_attn_layers counts from 1. */
static void kimi_more(GgufOut *out, const Json *config) {
    const Json *full = gguf_family_config(config, "linear_attn_config.full_attn_layers");
    int32_t heads[8] = {0};
    int64_t n_layers = 0, layer;
    assert_true(json_i64(json_get(config, "num_hidden_layers"), &n_layers) && n_layers <= 8);
    for (size_t i = 0; i < full->n; i++)
        if (json_i64(json_at(full, i), &layer)) heads[layer - 1] = 1;
    gguf_write_i32s(out, "kimi-linear.attention.head_count_kv", heads, (size_t)n_layers);
}

/* ---- DeepSeek-V4 ---- */

static const GgufKey V4_KEYS[] = {
    {"attention.head_count_kv", KEY_INT, "num_key_value_heads", 0},
    {"attention.key_length", KEY_INT, "head_dim", 0},
    {"attention.value_length", KEY_INT, "head_dim", 0},
    {"attention.q_lora_rank", KEY_INT, "q_lora_rank", 0},
    {"attention.sliding_window", KEY_INT, "sliding_window", 0},
    {"attention.output_group_count", KEY_INT, "o_groups", 0},
    {"attention.output_lora_rank", KEY_INT, "o_lora_rank", 0},
    {"attention.compress_rope_freq_base", KEY_REAL, "compress_rope_theta", 0},
    {"rope.dimension_count", KEY_INT, "qk_rope_head_dim", 0},
    {"hyper_connection.count", KEY_INT, "hc_mult", 0},
    {"hyper_connection.sinkhorn_iterations", KEY_INT, "hc_sinkhorn_iters", 0},
    {"hyper_connection.epsilon", KEY_REAL, "hc_eps", 0},
    {"attention.indexer.head_count", KEY_INT, "index_n_heads", 0},
    {"attention.indexer.key_length", KEY_INT, "index_head_dim", 0},
    {"attention.indexer.top_k", KEY_INT, "index_topk", 0},
    {0},
};

#define V4 "layers.%d."

static const GgufRule V4_RULES[] = {
    {"embed.weight", "token_embd.weight", 0},
    {"norm.weight", "output_norm.weight", 0},
    {"head.weight", "output.weight", 0},
    {"hc_head_fn", "output_hc_fn.weight", 0},
    {"hc_head_base", "output_hc_base.weight", 0},
    {"hc_head_scale", "output_hc_scale.weight", 0},
    {V4 "hc_attn_fn", "blk.%d.hc_attn_fn.weight", 0},
    {V4 "hc_attn_base", "blk.%d.hc_attn_base.weight", 0},
    {V4 "hc_attn_scale", "blk.%d.hc_attn_scale.weight", 0},
    {V4 "hc_ffn_fn", "blk.%d.hc_ffn_fn.weight", 0},
    {V4 "hc_ffn_base", "blk.%d.hc_ffn_base.weight", 0},
    {V4 "hc_ffn_scale", "blk.%d.hc_ffn_scale.weight", 0},
    {V4 "attn_norm.weight", "blk.%d.attn_norm.weight", 0},
    {V4 "ffn_norm.weight", "blk.%d.ffn_norm.weight", 0},
    {V4 "attn.attn_sink", "blk.%d.attn_sinks.weight", 0},
    {V4 "attn.wq_a.weight", "blk.%d.attn_q_a.weight", 0},
    {V4 "attn.wq_b.weight", "blk.%d.attn_q_b.weight", 0},
    {V4 "attn.q_norm.weight", "blk.%d.attn_q_a_norm.weight", 0},
    {V4 "attn.wkv.weight", "blk.%d.attn_kv.weight", 0},
    {V4 "attn.norm.weight", "blk.%d.attn_kv_a_norm.weight", 0}, /* kv_norm in releases */
    {V4 "attn.wo_a.weight", "blk.%d.attn_output_a.weight", 0},
    {V4 "attn.wo_b.weight", "blk.%d.attn_output_b.weight", 0},
    {V4 "attn.compressor.ape", "blk.%d.attn_compressor_ape.weight", 0},
    {V4 "attn.compressor.wkv.weight", "blk.%d.attn_compressor_kv.weight", 0},
    {V4 "attn.compressor.wgate.weight", "blk.%d.attn_compressor_gate.weight", 0},
    {V4 "attn.compressor.norm.weight", "blk.%d.attn_compressor_norm.weight", 0},
    {V4 "attn.indexer.wq_b.weight", "blk.%d.indexer.attn_q_b.weight", 0},
    {V4 "attn.indexer.weights_proj.weight", "blk.%d.indexer.proj.weight", 0},
    {V4 "attn.indexer.compressor.ape", "blk.%d.indexer_compressor_ape.weight", 0},
    {V4 "attn.indexer.compressor.wkv.weight", "blk.%d.indexer_compressor_kv.weight", 0},
    {V4 "attn.indexer.compressor.wgate.weight", "blk.%d.indexer_compressor_gate.weight", 0},
    {V4 "attn.indexer.compressor.norm.weight", "blk.%d.indexer_compressor_norm.weight", 0},
    {V4 "ffn.gate.weight", "blk.%d.ffn_gate_inp.weight", 0},
    {V4 "ffn.gate.bias", "blk.%d.exp_probs_b.bias", 0},
    {V4 "ffn.gate.tid2eid", "blk.%d.ffn_gate_tid2eid.weight", CHANGE_INTS},
    {V4 "ffn.experts.%e.w1.weight", "blk.%d.ffn_gate_exps.weight", 0},
    {V4 "ffn.experts.%e.w2.weight", "blk.%d.ffn_down_exps.weight", 0},
    {V4 "ffn.experts.%e.w3.weight", "blk.%d.ffn_up_exps.weight", 0},
    {V4 "ffn.shared_experts.w1.weight", "blk.%d.ffn_gate_shexp.weight", 0},
    {V4 "ffn.shared_experts.w2.weight", "blk.%d.ffn_down_shexp.weight", 0},
    {V4 "ffn.shared_experts.w3.weight", "blk.%d.ffn_up_shexp.weight", 0},
    {0},
};

enum { V4_LAYERS = 4, V4_RATE = 128 };

static void v4_more(GgufOut *out, const Json *config) {
    int32_t ratios[V4_LAYERS + 1] = {0}; /* one more, for a layer of prediction */
    float limits[V4_LAYERS];
    uint32_t n_hash = 0;
    double limit = 0;
    assert_true(json_f64(json_get(config, "swiglu_limit"), &limit));
    for (size_t i = 0; i < V4_LAYERS; i++) {
        limits[i] = (float)limit;
        if (list_says(config, "layer_types", i, "compressed_sparse_attention")) ratios[i] = 4;
        if (list_says(config, "layer_types", i, "heavily_compressed_attention"))
            ratios[i] = V4_RATE;
        n_hash += list_says(config, "mlp_layer_types", i, "hash_moe");
    }
    gguf_write_i32s(out, "deepseek4.attention.compress_ratios", ratios, V4_LAYERS + 1);
    gguf_write_f32s(out, "deepseek4.swiglu_clamp_exp", limits, V4_LAYERS);
    gguf_write_f32s(out, "deepseek4.swiglu_clamp_shexp", limits, V4_LAYERS);
    gguf_write_u32(out, "deepseek4.hash_layer_count", n_hash);
}

/* The format knows no groups of 8 tokens, which the golden has: a copy of it with 128, whose biases are
 * the golden's over and over. */
static void v4_respell(Buf *config, const void *ctx) {
    static const char *const PAIRS[2][2] = {
        {"\"heavily_compressed_attention\": 8", "\"heavily_compressed_attention\": 128"},
        {"\"max_position_embeddings\": 128", "\"max_position_embeddings\": 1024"}};
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

static bool v4_copy(const char *from, const char *to, Arena *a, Err *err) {
    Checkpoint *ck;
    SafetensorsOut out = {0};
    if (!golden_copy(from, to, v4_respell, NULL, err) || !checkpoint_open(from, &ck, err))
        return false;
    CkptTensor *all = arena_array(a, CkptTensor, ck->n_tensors);
    for (size_t i = 0; i < ck->n_tensors; i++) {
        all[i] = ck->tensors[i];
        if (str_ends(all[i].name, STR(".ape")) && all[i].shape[0] == 8) all[i].shape[0] = V4_RATE;
    }
    bool ok = safetensors_write_open(&out, to, all, ck->n_tensors, UINT64_MAX, a, err);
    for (size_t i = 0; ok && i < ck->n_tensors; i++) {
        const CkptTensor *t = &ck->tensors[i];
        uint8_t *bytes = arena_array(a, uint8_t, t->n_bytes + 1);
        uint64_t times = all[i].n_dims ? all[i].shape[0] / t->shape[0] : 1;
        ok = checkpoint_read(ck, t, 0, bytes, t->n_bytes, err);
        for (uint64_t k = 0; ok && k < times; k++)
            ok = safetensors_write_put(&out, i, k * t->n_bytes, bytes, t->n_bytes, err);
    }
    ok = ok && safetensors_write_finish(&out, err);
    safetensors_write_drop(&out);
    checkpoint_close(ck);
    return ok;
}

/* ---- the rows ---- */

#define DEEPSEEK(name_, golden_)                                                                   \
    {                                                                                              \
        .name = name_, .golden = golden_, .arch = "deepseek2",                                     \
        .keys = {BASE_KEYS, MLA_KEYS, EXPERT_KEYS}, .rules = {                                     \
            gguf_llama_rules,                                                                      \
            BASE_RULES,                                                                            \
            MLA_RULES,                                                                             \
            EXPERT_RULES                                                                           \
        }                                                                                          \
    }
#define OLD_DEEPSEEK(name_, golden_)                                                               \
    {                                                                                              \
        .name = name_, .golden = golden_, .arch = "deepseek2",                                     \
        .keys = {BASE_KEYS, OLD_MLA_KEYS, EXPERT_KEYS}, .rules = {                                 \
            gguf_llama_rules,                                                                      \
            BASE_RULES,                                                                            \
            OLD_MLA_RULES,                                                                         \
            EXPERT_RULES                                                                           \
        }                                                                                          \
    }
#define INDEXED(golden_, arch_, more_)                                                             \
    {                                                                                              \
        .name = golden_, .golden = golden_, .arch = arch_, .picks = true, .more = more_,           \
        .keys = {BASE_KEYS, MLA_KEYS, EXPERT_KEYS, INDEX_KEYS}, .rules = {                         \
            gguf_llama_rules,                                                                      \
            BASE_RULES,                                                                            \
            MLA_RULES,                                                                             \
            EXPERT_RULES                                                                           \
        }                                                                                          \
    }

static const GgufFamily FAMILIES[] = {
    DEEPSEEK("deepseek_v2", "deepseek_v2"),
    DEEPSEEK("deepseek_v2_lite", "deepseek_v2_lite"),
    DEEPSEEK("deepseek_v3", "deepseek_v3"),
    OLD_DEEPSEEK("deepseek_v2.old", "deepseek_v2"),
    OLD_DEEPSEEK("deepseek_v3.old", "deepseek_v3"),
    INDEXED("deepseek_v32", "deepseek32", NULL),
    INDEXED("glm_moe_dsa", "glm-dsa", glm_more),
    {.name = "kimi_linear",
     .golden = "kimi_linear",
     .arch = "kimi-linear",
     .keys = {BASE_KEYS, KIMI_KEYS},
     .rules = {gguf_llama_rules, BASE_RULES, MLA_RULES, KIMI_RULES},
     .more = kimi_more},
    {.name = "deepseek_v4",
     .golden = "deepseek_v4",
     .arch = "deepseek4",
     .keys = {BASE_KEYS, V4_KEYS, EXPERT_KEYS},
     .rules = {V4_RULES},
     .more = v4_more},
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const GgufFamily *family(const char *name) {
    for (size_t i = 0; i < COUNT(FAMILIES); i++)
        if (strcmp(FAMILIES[i].name, name) == 0) return &FAMILIES[i];
    fail_msg("no row %s", name);
    return NULL;
}

typedef struct Case { /* a golden, or the copy that takes its place, and what to ask */
    Arena a;
    char dir[2200], gguf[256];
    uint32_t *ids;
    size_t n;
    bool is_copy;
} Case;

enum { COPY_TIMES = 4 }; /* of the golden's tokens: a group of 128 gets full */

static void case_make(const GgufFamily *f, Case *c) {
    char file[2400];
    Err err = {0};
    size_t n;
    *c = (Case){.is_copy = strcmp(f->name, "deepseek_v4") == 0};
    snprintf(c->dir, sizeof c->dir, "%s/decoder/%s", golden_dir(), f->golden);
    snprintf(file, sizeof file, "%s/golden.json", c->dir);
    if (!os_make_dirs("build/families", &err)) fail_msg("%s", err.msg);
    snprintf(c->gguf, sizeof c->gguf, "build/families/%s.gguf", f->name);
    const Json *golden = json_of(file, &c->a, &err);
    const uint32_t *ids = ids_of(json_at(json_get(golden, "tokens"), 0), &c->a, &n);
    assert_true(ids && n > 0);
    c->n = c->is_copy ? n * COPY_TIMES : n;
    c->ids = arena_array(&c->a, uint32_t, c->n);
    for (size_t i = 0; i < c->n; i++) c->ids[i] = ids[i % n];
    if (!c->is_copy) return;
    char from[2200];
    memcpy(from, c->dir, sizeof from);
    snprintf(c->dir, sizeof c->dir, "build/families/%s", f->name);
    if (!v4_copy(from, c->dir, &c->a, &err)) fail_msg("%s: %s", f->name, err.msg);
}

static float *logits_of(const char *path, const Case *c, Arena *a, size_t *n) {
    Model *m = NULL;
    Engine *e = NULL;
    Err err = {0};
    ModelOptions mo = {.backend = "ref", .be = {.n_threads = 2}};
    EngineOptions eo = engine_options();
    eo.k = eo.v = PLANE_F32;
    eo.n_ctx = 512;
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

/* How far from the reference's logits, over their rms. */
static double off_reference(const GgufFamily *f, Case *c, const float *got, size_t n) {
    char file[2400];
    Err err = {0};
    Npy want = {0};
    snprintf(file, sizeof file, "%s/logits.npy", c->dir);
    if (!npy_load(file, &want, &err)) fail_msg("%s", err.msg);
    assert_int_equal(want.n, n);
    double off = f->picks ? middle_over_rms(got, want.data, c->n, n / c->n, &c->a)
                          : max_over_rms(got, want.data, n);
    npy_free(&want);
    return off;
}

static void ggufs_give_the_goldens_logits(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(FAMILIES); i++) {
        const GgufFamily *f = &FAMILIES[i];
        Case c;
        Err err = {0};
        size_t n = 0, n_own = 0;
        case_make(f, &c);
        if (!gguf_family_write(f, c.dir, c.gguf, NULL, &err)) fail_msg("%s: %s", f->name, err.msg);
        const float *got = logits_of(c.gguf, &c, &c.a, &n),
                    *own = logits_of(c.dir, &c, &c.a, &n_own);
        assert_int_equal(n, n_own);
        double off = max_over_rms(got, own, n);
        if (!(off <= 1e-4)) fail_msg("%s: %.2e from the golden as it is", f->name, off);
        if (!c.is_copy) off = off_reference(f, &c, got, n);
        if (!(off <= 1e-3)) fail_msg("%s: %.2e from the reference", f->name, off);
        arena_deinit(&c.a);
    }
}

/* ---- what is refused ---- */

#define PUT(name_, write_)                                                                         \
    static void name_(GgufOut *out) { write_; }

static const int32_t TWO[2] = {4, 4}, RATIOS[5] = {0, 4, 8, 4, 0}, SHORT[1] = {0};
static const bool FIRST_SHARES[3] = {false, true, true};
PUT(no_heads, gguf_write_u32(out, "deepseek2.attention.head_count", 0))
PUT(two_heads, gguf_write_i32s(out, "deepseek2.attention.kv_lora_rank", TWO, 2))
PUT(wide_rope, gguf_write_u32(out, "deepseek2.rope.dimension_count", 999))
PUT(odd_gating, gguf_write_u32(out, "deepseek2.expert_gating_func", 3))
PUT(many_groups, gguf_write_u32(out, "deepseek2.expert_group_count", 3))
PUT(typed_scaling, gguf_write_u32(out, "deepseek2.rope.scaling.type", 1))
PUT(no_length, gguf_write_f32(out, "deepseek2.attention.temperature_scale", 0.1f))
PUT(first_shares, gguf_write_bools(out, "glm-dsa.attention.indexer.types", FIRST_SHARES, 3))
PUT(few_types, gguf_write_bools(out, "glm-dsa.attention.indexer.types", FIRST_SHARES, 2))
PUT(few_heads, gguf_write_i32s(out, "kimi-linear.attention.head_count_kv", TWO, 2))
PUT(other_ratio, gguf_write_i32s(out, "deepseek4.attention.compress_ratios", RATIOS, 5))
PUT(few_ratios, gguf_write_i32s(out, "deepseek4.attention.compress_ratios", SHORT, 1))
PUT(no_streams, gguf_write_u32(out, "deepseek4.hyper_connection.count", 0))

typedef struct Refusal {
    const char *row;
    GgufEdit edit;
    bool no_more; /* without the row's lists */
    const char *message;
} Refusal;

static const Refusal REFUSALS[] = {
    {"deepseek_v3",
     {.key = "attention.kv_lora_rank"},
     false,
     "attention.kv_lora_rank (kv_lora_rank) is missing"},
    {"deepseek_v3", {.key = "rope.dimension_count"}, false, "is missing"},
    {"deepseek_v3", {.key = "expert_count"}, false, "expert_count (n_routed_experts) is missing"},
    {"deepseek_v3",
     {.key = "expert_group_used_count"},
     false,
     "expert_group_used_count (topk_group) is missing"},
    {"deepseek_v3", {.key = "attention.head_count", .put = no_heads}, false, "head_count"},
    {"deepseek_v3", {.key = "attention.kv_lora_rank", .put = two_heads}, false, "kv_a"},
    {"deepseek_v3",
     {.key = "rope.dimension_count", .put = wide_rope},
     false,
     "partial_rotary_factor"},
    {"deepseek_v3", {.key = "expert_gating_func", .put = odd_gating}, false, "softmax_weight"},
    {"deepseek_v3", {.key = "expert_group_count", .put = many_groups}, false, "over 3 groups"},
    {"deepseek_v3", {.key = "rope.scaling.type", .put = typed_scaling}, false, "scaling.type"},
    {"deepseek_v3", {.put = no_length}, false, "temperature_length is missing"},
    {"deepseek_v3", {.tensor = "blk.1.attn_v_b.weight"}, false, "blk.1.attn_v_b"},
    {"deepseek_v3", {.tensor = "blk.1.attn_k_b.weight"}, false, "blk.1.attn_kv_b"},
    {"deepseek_v2.old", {.tensor = "blk.0.attn_kv_b.weight"}, false, "blk.0.attn_kv_b"},
    {"deepseek_v32",
     {.key = "attention.indexer.top_k"},
     false,
     "indexer.top_k (index_topk) is missing"},
    {"deepseek_v32", {.tensor = "blk.2.indexer.k_norm.bias"}, false, "blk.2.indexer.k_norm.bias"},
    {"glm_moe_dsa", {.put = first_shares}, true, "layer 0 shares"},
    {"glm_moe_dsa", {.put = few_types}, true, "indexer.types has 2 entries"},
    {"kimi_linear", {.put = few_heads}, true, "has 2 entries"},
    {"kimi_linear", {.key = "kda.head_dim"}, false, "kda.head_dim (kda_head_dim) is missing"},
    {"kimi_linear", {.tensor = "blk.0.ssm_a"}, false, "blk.0.ssm_a is missing"},
    {"deepseek_v4", {.put = other_ratio}, true, "compress_ratios has 8; 0, 4 and 128"},
    {"deepseek_v4", {.put = few_ratios}, true, "compress_ratios has 1 entries"},
    {"deepseek_v4",
     {.key = "hyper_connection.count", .put = no_streams},
     false,
     "hyper_connection.count"},
    {"deepseek_v4", {.tensor = "blk.0.ffn_gate_tid2eid.weight"}, false, "ffn_gate_tid2eid"},
    {"deepseek_v4",
     {.key = "attention.output_group_count"},
     false,
     "output_group_count (o_groups) is missing"},
};

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
        if (ok) fail_msg("%s: accepted, not refused for \"%s\"", r->row, r->message);
        if (!strstr(err.msg, r->message))
            fail_msg("%s: \"%s\" says nothing of \"%s\"", r->row, err.msg, r->message);
        arena_deinit(&a);
        arena_deinit(&c.a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ggufs_give_the_goldens_logits),
        cmocka_unit_test(files_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests_name("gguf_families", tests, NULL, NULL);
}
