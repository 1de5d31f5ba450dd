#include "ckpt/config_gguf.h"

#include <string.h>

/* How a GGUF key answers for a Hugging Face one. */
typedef enum Rule {
    PLAIN,
    NONZERO,   /* 0 means absent */
    LENGTH,    /* elements of the array */
    TENSORS,   /* true if the tensor exists */
    NO_TENSOR, /* true if it does not */
    LAYERS,    /* minus .nextn_predict_layers, which the count includes */
    NOPE,      /* minus .rope.dimension_count */
    ROTARY,    /* divided by the head size */
    TENFOLD,   /* stored as a tenth */
    GATING,    /* enumeration -> scoring_func */
    SCALING    /* .rope.scaling.type, longrope by its tensors, linear by the old key */
} Rule;

typedef struct Entry {
    const char *hf;   /* names in config.json, separated by '|' */
    const char *gguf; /* with a leading dot: behind the architecture's name */
    Rule rule;
} Entry;

/* Several lines for one name are tried in order. */
static const Entry root_table[] = {
    {"vocab_size", ".vocab_size", PLAIN},
    {"vocab_size", "tokenizer.ggml.tokens", LENGTH},
    {"hidden_size|n_embd|d_model|dim", ".embedding_length", PLAIN},
    {"num_hidden_layers|n_layer|num_layers|n_layers", ".block_count", LAYERS},
    {"num_nextn_predict_layers|mtp_num_hidden_layers", ".nextn_predict_layers", PLAIN},
    {"intermediate_size|n_inner|ffn_dim|ffn_hidden_size|dense_intermediate_size",
     ".feed_forward_length", NONZERO},
    {"intermediate_size|mamba_d_ssm|d_inner", ".ssm.inner_size", PLAIN},
    {"max_position_embeddings|n_positions|n_ctx|max_sequence_length", ".context_length", PLAIN},
    {"num_attention_heads|n_head|num_heads", ".attention.head_count", PLAIN},
    {"num_key_value_heads|num_kv_heads|n_head_kv|multi_query_group_num", ".attention.head_count_kv",
     PLAIN},
    {"head_dim|qk_head_dim", ".attention.key_length_mla", PLAIN},
    {"head_dim|qk_head_dim|attention_head_dim|kv_channels", ".attention.key_length", PLAIN},
    {"v_head_dim", ".attention.value_length_mla", PLAIN},
    {"v_head_dim|attention_value_head_dim", ".attention.value_length", PLAIN},
    {"swa_head_dim", ".attention.key_length_swa", PLAIN},
    {"swa_v_head_dim", ".attention.value_length_swa", PLAIN},
    {"qk_rope_head_dim|rotary_dim|rope_dim|n_rot", ".rope.dimension_count", PLAIN},
    {"qk_nope_head_dim", ".attention.key_length_mla", NOPE},
    {"qk_nope_head_dim", ".attention.key_length", NOPE},
    {"partial_rotary_factor|rotary_pct|rope_pct|rope_percent", ".rope.dimension_count", ROTARY},
    {"q_lora_rank", ".attention.q_lora_rank", NONZERO},
    {"kv_lora_rank", ".attention.kv_lora_rank", PLAIN},
    {"index_n_heads", ".attention.indexer.head_count", PLAIN},
    {"index_head_dim", ".attention.indexer.key_length", PLAIN},
    {"index_topk", ".attention.indexer.top_k", PLAIN},
    {"compress_ratios", ".attention.compress_ratios", PLAIN},
    {"compress_rope_theta", ".attention.compress_rope_freq_base", PLAIN},
    {"o_groups", ".attention.output_group_count", PLAIN},
    {"o_lora_rank", ".attention.output_lora_rank", PLAIN},
    {"hc_mult", ".hyper_connection.count", PLAIN},
    {"hc_sinkhorn_iters", ".hyper_connection.sinkhorn_iterations", PLAIN},
    {"hc_eps", ".hyper_connection.epsilon", PLAIN},
    {"num_hash_layers", ".hash_layer_count", PLAIN},
    {"rms_norm_eps|norm_eps|layernorm_epsilon", ".attention.layer_norm_rms_epsilon", PLAIN},
    {"layer_norm_eps|layer_norm_epsilon|norm_epsilon|norm_eps|layernorm_epsilon",
     ".attention.layer_norm_epsilon", PLAIN},
    {"group_norm_eps|group_norm_epsilon", ".attention.group_norm_epsilon", PLAIN},
    {"rope_theta|rotary_emb_base|rotary_base|rope_base", ".rope.freq_base", PLAIN},
    {"rope_local_base_freq|swa_rope_theta|local_rope_theta", ".rope.freq_base_swa", PLAIN},
    {"mrope_section", ".rope.dimension_sections", PLAIN},
    {"original_max_position_embeddings", ".rope.scaling.original_context_length", PLAIN},
    {"sliding_window|attention_window_size|local_attention_window", ".attention.sliding_window",
     NONZERO},
    {"sliding_window_pattern", ".attention.sliding_window_pattern", PLAIN},
    {"full_attention_interval|attn_layer_period", ".full_attention_interval", PLAIN},
    {"num_kv_shared_layers", ".attention.shared_kv_layers", PLAIN},
    {"attn_logit_softcapping|attention_logit_softcapping", ".attn_logit_softcapping", NONZERO},
    {"final_logit_softcapping", ".final_logit_softcapping", NONZERO},
    {"router_logit_softcapping|moe_router_logit_softcapping", ".router_logit_softcapping", NONZERO},
    {"attention_multiplier|attention_scale", ".attention.scale", NONZERO},
    {"attention_output_scale|attn_output_multiplier", ".attention.output_scale", PLAIN},
    {"attn_scale|attn_temperature_scale", ".attention.temperature_scale", PLAIN},
    {"floor_scale|attn_temperature_length", ".attention.temperature_length", PLAIN},
    {"clip_qkv", ".attention.clamp_kqv", NONZERO},
    {"alibi_bias_max|max_alibi_bias", ".attention.max_alibi_bias", NONZERO},
    {"is_causal|causal_attention", ".attention.causal", PLAIN},
    {"use_parallel_residual|parallel_attn", ".use_parallel_residual", PLAIN},
    {"relative_attention_num_buckets", ".attention.relative_buckets_count", PLAIN},
    {"embedding_multiplier|embedding_scale|scale_emb", ".embedding_scale", PLAIN},
    {"residual_multiplier|residual_scale", ".residual_scale", PLAIN},
    {"logits_scaling|logit_scale|lm_head_multiplier", ".logit_scale", PLAIN},
    {"num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_experts_total",
     ".expert_count", NONZERO},
    {"num_experts_per_tok|num_experts_per_token|moe_topk|moe_k|experts_per_token|top_k_experts",
     ".expert_used_count", NONZERO},
    {"moe_intermediate_size|expert_ffn_hidden_size|moe_ffn_hidden_size",
     ".expert_feed_forward_length", NONZERO},
    {"shared_expert_intermediate_size|shared_intermediate_size|moe_shared_expert_intermediate_size",
     ".expert_shared_feed_forward_length", NONZERO},
    {"n_shared_experts|num_shared_experts|num_shared_expert|moe_num_shared_experts",
     ".expert_shared_count", PLAIN},
    {"first_k_dense_replace|num_dense_layers|moe_layer_start_index|moe_first_k_dense",
     ".leading_dense_block_count", PLAIN},
    {"n_group", ".expert_group_count", NONZERO},
    {"topk_group", ".expert_group_used_count", NONZERO},
    {"routed_scaling_factor|router_scaling_factor|moe_routed_scaling_factor",
     ".expert_weights_scale", NONZERO},
    {"norm_topk_prob|route_norm", ".expert_weights_norm", PLAIN},
    {"scoring_func|moe_router_activation_func|score_function", ".expert_gating_func", GATING},
    {"interleave_moe_layer_step|decoder_sparse_step", ".interleave_moe_layer_step", PLAIN},
    {"moe_layer_freq|moe_every_n_layers|moe_layer_interval", ".moe_every_n_layers", PLAIN},
    {"moe_latent_size", ".moe_latent_size", PLAIN},
    {"hidden_size_per_layer_input", ".embedding_length_per_layer_input", PLAIN},
    {"altup_num_inputs", ".altup.num_inputs", PLAIN},
    {"altup_active_idx", ".altup.active_idx", PLAIN},
    {"activation_sparsity_scale", ".activation_sparsity_scale", PLAIN},
    {"swiglu_limit", ".swiglu_clamp_exp", PLAIN},
    {"swiglu_limit_shared", ".swiglu_clamp_shexp", PLAIN},
    {"conv_kernel|mamba_d_conv|d_conv|linear_conv_kernel_dim|short_conv_kernel_size",
     ".ssm.conv_kernel", PLAIN},
    {"state_size|mamba_d_state|d_state|ssm_state_size|linear_key_head_dim", ".ssm.state_size",
     PLAIN},
    {"time_step_rank|mamba_dt_rank|dt_rank|mamba_n_heads|mamba_num_heads|linear_num_value_heads",
     ".ssm.time_step_rank", PLAIN},
    {"n_groups|mamba_n_groups|linear_num_key_heads", ".ssm.group_count", PLAIN},
    {"use_dt_b_c_rms", ".ssm.dt_b_c_rms", PLAIN},
    {"conv_L_cache", ".shortconv.l_cache", PLAIN},
    {"kda_head_dim", ".kda.head_dim", PLAIN},
    {"head_size|wkv_head_size", ".wkv.head_size", PLAIN},
    {"rescale_every", ".rescale_every_n_layers", PLAIN},
    {"decay_low_rank_dim", ".attention.decay_lora_rank", PLAIN},
    {"a_low_rank_dim", ".attention.iclr_lora_rank", PLAIN},
    {"v_low_rank_dim", ".attention.value_residual_mix_lora_rank", PLAIN},
    {"gate_low_rank_dim", ".attention.gate_lora_rank", PLAIN},
    {"num_decoder_layers", ".decoder_block_count", PLAIN},
    {"decoder_start_token_id", ".decoder_start_token_id", PLAIN},
    {"type_vocab_size", "tokenizer.ggml.token_type_count", PLAIN},
    {"num_deepstack_layers", ".n_deepstack_layers", PLAIN},
    {"embedding_length_out|embedding_size_out", ".embedding_length_out", PLAIN},
    {"pooling_type", ".pooling_type", PLAIN},
    {"classifier_labels", ".classifier.output_labels", PLAIN},
    {"tie_word_embeddings", "output.weight", NO_TENSOR},
    {"attention_bias|qkv_bias|use_qkv_bias|bias", "blk.0.attn_q.bias|blk.0.attn_qkv.bias", TENSORS},
    {"attention_out_bias|o_bias", "blk.0.attn_output.bias", TENSORS},
    {"mlp_bias|use_mlp_bias", "blk.0.ffn_up.bias", TENSORS},
    {"use_qk_norm|qk_layernorm|qk_norm", "blk.0.attn_q_norm.weight", TENSORS},
    {"bos_token_id", "tokenizer.ggml.bos_token_id", PLAIN},
    {"eos_token_id", "tokenizer.ggml.eos_token_id", PLAIN},
    {"pad_token_id", "tokenizer.ggml.padding_token_id", PLAIN},
    {"unk_token_id", "tokenizer.ggml.unknown_token_id", PLAIN},
    {"sep_token_id", "tokenizer.ggml.seperator_token_id", PLAIN}, /* spelt so in the format */
    {"mask_token_id", "tokenizer.ggml.mask_token_id", PLAIN},
    {"temperature", "general.sampling.temp", PLAIN},
    {"top_k", "general.sampling.top_k", PLAIN},
    {"top_p", "general.sampling.top_p", PLAIN},
    {"min_p", "general.sampling.min_p", PLAIN},
    {"repetition_penalty", "general.sampling.penalty_repeat", PLAIN},
};

static const Entry scaling_table[] = {
    {"rope_type|type", ".rope.scaling.type", SCALING},
    {"factor", ".rope.scaling.factor", NONZERO},
    {"factor", ".rope.scale_linear", NONZERO}, /* files of before the typed keys */
    {"original_max_position_embeddings", ".rope.scaling.original_context_length", NONZERO},
    {"attention_factor|attn_factor", ".rope.scaling.attn_factor", NONZERO},
    {"attention_factor|attn_factor", ".rope.scaling.yarn_attn_factor", NONZERO},
    {"beta_fast", ".rope.scaling.yarn_beta_fast", PLAIN},
    {"beta_slow", ".rope.scaling.yarn_beta_slow", PLAIN},
    {"extrapolation_factor", ".rope.scaling.yarn_ext_factor", PLAIN},
    {"mscale_all_dim|mscale", ".rope.scaling.yarn_log_multiplier", TENFOLD},
    {"alpha", ".rope.scaling.alpha", PLAIN},
    {"finetuned", ".rope.scaling.finetuned", PLAIN},
    {"mrope_section", ".rope.dimension_sections", PLAIN},
};

static const GgufValue *arch_get(const Config *c, const char *key) {
    if (key[0] != '.') return gguf_get(c->gguf, key);
    char full[256];
    size_t n = strlen(key);
    if (c->model_type.n + n > sizeof full) return NULL;
    if (c->model_type.n) memcpy(full, c->model_type.p, c->model_type.n);
    memcpy(full + c->model_type.n, key, n);
    return gguf_find(c->gguf, (Str){full, c->model_type.n + n});
}

static bool arch_number(const Config *c, const char *key, double *out) {
    return gguf_float(arch_get(c, key), out);
}

static bool is_among(Str name, const char *list) {
    Str rest = str_c(list), part;
    while (str_split(&rest, '|', &part)) {
        if (str_eq(part, name)) return true;
    }
    return false;
}

static bool any_tensor(const Gguf *g, const char *names) {
    Str rest = str_c(names), part;
    while (str_split(&rest, '|', &part)) {
        if (gguf_tensor(g, part)) return true;
    }
    return false;
}

static bool put_number(ConfigValue *out, double v) {
    out->source = CONFIG_NUMBER;
    out->number = v;
    return true;
}

static bool put_text(ConfigValue *out, Str s) {
    out->source = CONFIG_TEXT;
    out->text = s;
    return true;
}

/* The head size that rope's share is a share of. */
static bool head_size(const Config *c, double *out) {
    double width, heads;
    /* where keys are latents, key_length is theirs */
    if (arch_number(c, ".attention.key_length_mla", out) ||
        arch_number(c, ".attention.key_length", out))
        return *out > 0;
    if (!arch_number(c, ".embedding_length", &width) ||
        !arch_number(c, ".attention.head_count", &heads) || heads <= 0) {
        return false;
    }
    *out = width / heads;
    return *out > 0;
}

static bool gating_name(const GgufValue *v, ConfigValue *out) {
    static const char *const names[] = {
        [1] = "softmax", [2] = "sigmoid", [3] = "softmax_weight", [4] = "sqrtsoftplus"};
    int64_t i = 0;
    if (!gguf_int(v, &i) || i < 1 || i > 4) { /* the reader of the key then names what it found */
        out->source = CONFIG_GGUF;
        out->gguf = v;
        return true;
    }
    return put_text(out, str_c(names[i]));
}

static bool scaling_name(const Config *c, ConfigValue *out) {
    Str type;
    double factor;
    const GgufValue *v = arch_get(c, ".rope.scaling.type");
    if (gguf_str(v, &type)) return !str_eq(type, STR("none")) && put_text(out, type);
    if (v) { /* the reader of the key then names what it found */
        out->source = CONFIG_GGUF;
        out->gguf = v;
        return true;
    }
    if (gguf_tensor(c->gguf, STR("rope_factors_long.weight")))
        return put_text(out, STR("longrope"));
    if (arch_number(c, ".rope.scale_linear", &factor) && factor > 0)
        return put_text(out, STR("linear"));
    return false;
}

/* A number, or the one that all elements of an array are. */
static bool one_number(const GgufValue *v, double *out) {
    GgufValue item;
    double next;
    if (v->type != GGUF_ARRAY) return gguf_float(v, out);
    GgufIter it = gguf_iter(v);
    if (!gguf_next(&it, &item) || !gguf_float(&item, out)) return false;
    while (gguf_next(&it, &item))
        if (!gguf_float(&item, &next) || next != *out) return false;
    return true;
}

static bool entry_apply(const Config *c, const Entry *e, ConfigValue *out) {
    double a, b;
    switch (e->rule) {
    case TENSORS:
    case NO_TENSOR:
        out->source = CONFIG_FLAG;
        out->flag = any_tensor(c->gguf, e->gguf) == (e->rule == TENSORS);
        return true;
    case SCALING:
        return scaling_name(c, out);
    default:
        break;
    }
    const GgufValue *v = arch_get(c, e->gguf);
    if (!v) return false;
    switch (e->rule) {
    case LENGTH:
        return v->type == GGUF_ARRAY && put_number(out, (double)v->n);
    case GATING:
        return gating_name(v, out);
    case NONZERO:
        if (gguf_float(v, &a) && a == 0) return false;
        break;
    case LAYERS:
        if (gguf_float(v, &a) && arch_number(c, ".nextn_predict_layers", &b))
            return put_number(out, a - b);
        break;
    case NOPE:
        return gguf_float(v, &a) && arch_number(c, ".rope.dimension_count", &b) &&
               put_number(out, a - b);
    case ROTARY: /* what is no number the reader of the key names */
        if (one_number(v, &a)) return head_size(c, &b) && put_number(out, a / b);
        break;
    case TENFOLD:
        if (gguf_float(v, &a)) return put_number(out, a * 10);
        break;
    default:
        break;
    }
    out->source = CONFIG_GGUF;
    out->gguf = v;
    return true;
}

static size_t table_of(const Config *c, const Entry **out) {
    *out = c->section ? scaling_table : root_table;
    return c->section ? sizeof scaling_table / sizeof **out : sizeof root_table / sizeof **out;
}

const char *config_gguf_key(const Config *c, const char *keys) {
    Str rest = str_c(keys), key;
    const Entry *table;
    size_t n = table_of(c, &table);
    while (str_split(&rest, '|', &key))
        for (size_t i = 0; i < n; i++)
            if (is_among(key, table[i].hf)) return table[i].gguf;
    return NULL;
}

bool config_gguf_find(const Config *c, Str key, ConfigValue *out) {
    char raw[200];
    if (str_find_char(key, '.', 0) != STR_NPOS) {
        if (key.n >= sizeof raw) return false;
        memcpy(raw, key.p, key.n);
        raw[key.n] = 0;
        out->gguf = arch_get(c, raw);
        out->source = CONFIG_GGUF;
        return out->gguf != NULL;
    }
    const Entry *table;
    size_t n = table_of(c, &table);
    for (size_t i = 0; i < n; i++) {
        if (is_among(key, table[i].hf) && entry_apply(c, &table[i], out)) return true;
    }
    return false;
}
