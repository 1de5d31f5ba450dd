/* Roles to names of tensors, under whichever prefix and spelling the file has them. */
#include <stdio.h>
#include <string.h>

#include "arch/weights_private.h"

const RoleName ROLE_NAMES[ROLE_COUNT] = {
    [ROLE_EMBED] = {"embed_tokens", "token_embd"},
    [ROLE_HEAD] = {"/lm_head", "output"},
    [ROLE_FINAL_NORM] = {"norm", "output_norm"},
    [ROLE_ROPE_FREQS] = {NULL, "rope_freqs"},
    [ROLE_ROPE_LONG] = {NULL, "rope_factors_long"},
    [ROLE_ROPE_SHORT] = {NULL, "rope_factors_short"},
    [ROLE_ATTN_NORM] = {"layers.%d.input_layernorm", "blk.%d.attn_norm"},
    [ROLE_Q] = {"layers.%d.self_attn.q_proj", "blk.%d.attn_q"},
    [ROLE_K] = {"layers.%d.self_attn.k_proj", "blk.%d.attn_k"},
    [ROLE_V] = {"layers.%d.self_attn.v_proj", "blk.%d.attn_v"},
    [ROLE_QKV] = {"layers.%d.self_attn.qkv_proj", "blk.%d.attn_qkv"},
    [ROLE_O] = {"layers.%d.self_attn.o_proj", "blk.%d.attn_output"},
    [ROLE_Q_NORM] = {"layers.%d.self_attn.q_norm", "blk.%d.attn_q_norm"},
    [ROLE_K_NORM] = {"layers.%d.self_attn.k_norm", "blk.%d.attn_k_norm"},
    [ROLE_SINKS] = {"layers.%d.self_attn.sinks", NULL},
    [ROLE_POST_ATTN_NORM] = {NULL, "blk.%d.post_attention_norm"},
    [ROLE_FFN_NORM] = {"layers.%d.post_attention_layernorm", "blk.%d.ffn_norm"},
    [ROLE_GATE] = {"layers.%d.mlp.gate_proj", "blk.%d.ffn_gate"},
    [ROLE_UP] = {"layers.%d.mlp.up_proj", "blk.%d.ffn_up"},
    [ROLE_GATE_UP] = {"layers.%d.mlp.gate_up_proj", "blk.%d.ffn_up"},
    [ROLE_DOWN] = {"layers.%d.mlp.down_proj", "blk.%d.ffn_down"},
    [ROLE_POST_FFN_NORM] = {NULL, "blk.%d.post_ffw_norm"},
    [ROLE_ROUTER] = {"layers.%d.mlp.gate", "blk.%d.ffn_gate_inp"},
    [ROLE_EXPERT_GATE] = {"layers.%d.mlp.experts.%e.gate_proj", "blk.%d.ffn_gate_exps"},
    [ROLE_EXPERT_UP] = {"layers.%d.mlp.experts.%e.up_proj", "blk.%d.ffn_up_exps"},
    [ROLE_EXPERT_DOWN] = {"layers.%d.mlp.experts.%e.down_proj", "blk.%d.ffn_down_exps"},
    [ROLE_EXPERT_GATE_UP] = {"layers.%d.mlp.experts.gate_up_proj", "blk.%d.ffn_gate_up_exps"},
    [ROLE_EXPERT_DOWNS] = {"layers.%d.mlp.experts.down_proj", "blk.%d.ffn_down_exps"},
    [ROLE_SELECT_BIAS] = {"layers.%d.mlp.gate.e_score_correction_bias", "blk.%d.exp_probs_b"},
    [ROLE_SHARED_GATE] = {"layers.%d.mlp.shared_expert.gate_proj", "blk.%d.ffn_gate_shexp"},
    [ROLE_SHARED_UP] = {"layers.%d.mlp.shared_expert.up_proj", "blk.%d.ffn_up_shexp"},
    [ROLE_SHARED_DOWN] = {"layers.%d.mlp.shared_expert.down_proj", "blk.%d.ffn_down_shexp"},
    [ROLE_SHARED_SWITCH] = {"layers.%d.mlp.shared_expert_gate", "blk.%d.ffn_gate_inp_shexp"},
    [ROLE_MLA_Q_DOWN] = {"layers.%d.self_attn.q_a_proj", "blk.%d.attn_q_a"},
    [ROLE_MLA_Q_NORM] = {"layers.%d.self_attn.q_a_layernorm", "blk.%d.attn_q_a_norm"},
    [ROLE_MLA_Q_UP] = {"layers.%d.self_attn.q_b_proj", "blk.%d.attn_q_b"},
    [ROLE_MLA_KV_DOWN] = {"layers.%d.self_attn.kv_a_proj_with_mqa", "blk.%d.attn_kv_a_mqa"},
    [ROLE_MLA_KV_NORM] = {"layers.%d.self_attn.kv_a_layernorm", "blk.%d.attn_kv_a_norm"},
    [ROLE_MLA_KV_UP] = {"layers.%d.self_attn.kv_b_proj", "blk.%d.attn_kv_b"},
    [ROLE_MLA_K_UP] = {"layers.%d.self_attn.embed_q", "blk.%d.attn_k_b"},
    [ROLE_MLA_V_UP] = {"layers.%d.self_attn.unembed_out", "blk.%d.attn_v_b"},
    [ROLE_INDEX_Q] = {"layers.%d.self_attn.indexer.wq_b", "blk.%d.indexer.attn_q_b"},
    [ROLE_INDEX_K] = {"layers.%d.self_attn.indexer.wk", "blk.%d.indexer.attn_k"},
    [ROLE_INDEX_K_NORM] = {"layers.%d.self_attn.indexer.k_norm", "blk.%d.indexer.k_norm"},
    [ROLE_INDEX_WEIGHTS] = {"layers.%d.self_attn.indexer.weights_proj", "blk.%d.indexer.proj"},
    [ROLE_COMPRESS_KV] = {"layers.%d.attn.compressor.wkv", "blk.%d.attn_compressor_kv"},
    [ROLE_COMPRESS_GATE] = {"layers.%d.attn.compressor.wgate", "blk.%d.attn_compressor_gate"},
    [ROLE_COMPRESS_BIAS] = {"layers.%d.attn.compressor.ape", "blk.%d.attn_compressor_ape"},
    [ROLE_COMPRESS_NORM] = {"layers.%d.attn.compressor.norm", "blk.%d.attn_compressor_norm"},
    [ROLE_INDEX_COMPRESS_KV] = {"layers.%d.attn.indexer.compressor.wkv",
                                "blk.%d.indexer_compressor_kv"},
    [ROLE_INDEX_COMPRESS_GATE] = {"layers.%d.attn.indexer.compressor.wgate",
                                  "blk.%d.indexer_compressor_gate"},
    [ROLE_INDEX_COMPRESS_BIAS] = {"layers.%d.attn.indexer.compressor.ape",
                                  "blk.%d.indexer_compressor_ape"},
    [ROLE_INDEX_COMPRESS_NORM] = {"layers.%d.attn.indexer.compressor.norm",
                                  "blk.%d.indexer_compressor_norm"},
    [ROLE_O_DOWN] = {"layers.%d.attn.wo_a", "blk.%d.attn_output_a"},
    [ROLE_HYPER_ATTN] = {"layers.%d.hc_attn", "blk.%d.hc_attn"},
    [ROLE_HYPER_FFN] = {"layers.%d.hc_ffn", "blk.%d.hc_ffn"},
    [ROLE_HYPER_HEAD] = {"hc_head", "output_hc"},
    [ROLE_ROUTE_TABLE] = {"layers.%d.ffn.gate.tid2eid", "blk.%d.ffn_gate_tid2eid"},
    [ROLE_CONV_IN] = {"layers.%d.conv.in_proj", "blk.%d.shortconv.in_proj"},
    [ROLE_CONV] = {"layers.%d.conv.conv", "blk.%d.shortconv.conv"},
    [ROLE_CONV_OUT] = {"layers.%d.conv.out_proj", "blk.%d.shortconv.out_proj"},
    [ROLE_DELTA_QKVZ] = {"layers.%d.linear_attn.in_proj_qkvz", "blk.%d.ssm_in"},
    [ROLE_DELTA_BA] = {"layers.%d.linear_attn.in_proj_ba", "blk.%d.ssm_ba"},
    [ROLE_DELTA_QKV] = {"layers.%d.linear_attn.in_proj_qkv", "blk.%d.attn_qkv"},
    [ROLE_DELTA_Z] = {"layers.%d.linear_attn.in_proj_z", "blk.%d.attn_gate"},
    [ROLE_DELTA_B] = {"layers.%d.linear_attn.in_proj_b", "blk.%d.ssm_beta"},
    [ROLE_DELTA_A] = {"layers.%d.linear_attn.in_proj_a", "blk.%d.ssm_alpha"},
    [ROLE_DELTA_CONV] = {"layers.%d.linear_attn.conv1d", "blk.%d.ssm_conv1d"},
    [ROLE_DELTA_DECAY] = {"layers.%d.linear_attn.A_log", "blk.%d.ssm_a"},
    [ROLE_DELTA_DT] = {"layers.%d.linear_attn.dt_bias", "blk.%d.ssm_dt"},
    [ROLE_DELTA_NORM] = {"layers.%d.linear_attn.norm", "blk.%d.ssm_norm"},
    [ROLE_DELTA_OUT] = {"layers.%d.linear_attn.out_proj", "blk.%d.ssm_out"},
    [ROLE_MAMBA_IN] = {"layers.%d.mamba.in_proj", "blk.%d.ssm_in"},
    [ROLE_MAMBA_CONV] = {"layers.%d.mamba.conv1d", "blk.%d.ssm_conv1d"},
    [ROLE_MAMBA_PROJ] = {"layers.%d.mamba.x_proj", "blk.%d.ssm_x"},
    [ROLE_MAMBA_STEP] = {"layers.%d.mamba.dt_proj", "blk.%d.ssm_dt"},
    [ROLE_MAMBA_STEP_BIAS] = {"layers.%d.mamba.dt_bias", "blk.%d.ssm_dt"},
    [ROLE_MAMBA_STEP_NORM] = {"layers.%d.mamba.dt_layernorm", "blk.%d.ssm_dt_norm"},
    [ROLE_MAMBA_B_NORM] = {"layers.%d.mamba.b_layernorm", "blk.%d.ssm_b_norm"},
    [ROLE_MAMBA_C_NORM] = {"layers.%d.mamba.c_layernorm", "blk.%d.ssm_c_norm"},
    [ROLE_MAMBA_DECAY] = {"layers.%d.mamba.A_log", "blk.%d.ssm_a"},
    [ROLE_MAMBA_SKIP] = {"layers.%d.mamba.D", "blk.%d.ssm_d"},
    [ROLE_MAMBA_NORM] = {"layers.%d.mamba.norm", "blk.%d.ssm_norm"},
    [ROLE_MAMBA_OUT] = {"layers.%d.mamba.out_proj", "blk.%d.ssm_out"},
};

/* Where the text model's tensors may hang, longest first; "" is a bare model. The head hangs beside
 * the last "model.". */
static const char *const PREFIXES[] = {
    "model.", "",        "language_model.model.", "model.language_model.", "backbone.",
    "bert.",  "roberta."};

/* '*' matches any run of characters: on a mismatch the last star takes one more. */
bool weights_glob(const char *pattern, Str s) {
    Str p = str_c(pattern);
    size_t i = 0, j = 0, star = STR_NPOS, from = 0;
    while (j < s.n) {
        if (i < p.n && p.p[i] == '*') {
            star = i++;
            from = j;
        } else if (i < p.n && p.p[i] == s.p[j]) {
            i++, j++;
        } else if (star != STR_NPOS) {
            i = star + 1;
            j = ++from;
        } else {
            return false;
        }
    }
    while (i < p.n && p.p[i] == '*') i++;
    return i == p.n;
}

static const char *pattern_of(const WeightTable *t, CkptKind kind, Role role) {
    return kind == CKPT_GGUF ? t->n.names[role]->gguf : t->n.names[role]->hf;
}

const char *weights_role_pattern(const WeightTable *t, Role role) {
    return pattern_of(t, t->ck->kind, role);
}

/* The tensor's full name; false where this kind of file has none for the role. */
static bool fill_name(const WeightTable *t, const char *p, bool from_root, int layer,
                      uint32_t expert, const char *suffix, char out[WEIGHTS_MAX_NAME]) {
    size_t n = 0;
    Str prefix = from_root ? STR_NONE : p[0] == '/' ? t->n.root : t->n.prefix;
    if (prefix.n >= WEIGHTS_MAX_NAME) return false;
    if (prefix.n) memcpy(out, prefix.p, n = prefix.n);
    for (p += p[0] == '/'; *p && n < WEIGHTS_MAX_NAME - 16; p++) {
        bool hole = p[0] == '%' && (p[1] == 'd' || p[1] == 'e');
        if (!hole)
            out[n++] = *p;
        else
            n += (size_t)snprintf(out + n, 16, "%u", *++p == 'd' ? (unsigned)layer : expert);
    }
    size_t tail = strlen(suffix);
    if (*p || n + tail >= WEIGHTS_MAX_NAME) return false;
    memcpy(out + n, suffix, tail + 1);
    return true;
}

bool weights_expert_name(const WeightTable *t, Role role, int layer, uint32_t expert,
                         const char *suffix, char out[WEIGHTS_MAX_NAME]) {
    const char *p = weights_role_pattern(t, role);
    return p && fill_name(t, p, t->ck->kind == CKPT_GGUF, layer, expert, suffix, out);
}

/* MLX keeps the experts of a layer in three modules, "mlp.experts.%e.w1" in
 * "mlp.switch_mlp.gate_proj", and "mlp.experts.gate_up_proj" in "mlp.experts.gate_proj" and
 * "up_proj"; a name that ends like one of the three is its. false: the pattern is of no such kind. */
bool weights_mlx_expert_name(const WeightTable *t, const WeightOrigin *o,
                             char out[WEIGHTS_MAX_NAME]) {
    bool down = o->role == ROLE_EXPERT_DOWN || o->role == ROLE_EXPERT_DOWNS;
    const char *leaf = down                                    ? "down_proj"
                       : o->role == ROLE_EXPERT_UP || o->first ? "up_proj"
                                                               : "gate_proj";
    const char *p = pattern_of(t, CKPT_SAFETENSORS, o->role);
    const char *hole = p ? strstr(p, "experts.") : NULL;
    char pattern[WEIGHTS_MAX_NAME];
    if (!hole) return false;
    bool each = str_starts(str_c(hole), STR("experts.%e."));
    if (!each && !strcmp(strrchr(p, '.') + 1, leaf))
        return fill_name(t, p, false, o->layer, 0, "", out);
    int n = snprintf(pattern, sizeof pattern, "%.*s%s.%s", (int)(hole - p), p,
                     each ? "switch_mlp" : "experts", leaf);
    return n > 0 && n < WEIGHTS_MAX_NAME && fill_name(t, pattern, false, o->layer, 0, "", out);
}

bool weights_name(const WeightTable *t, CkptKind kind, const WeightOrigin *o,
                  char out[WEIGHTS_MAX_NAME]) {
    WeightOrigin w = *o;
    if (w.n_experts && kind == CKPT_SAFETENSORS) return weights_mlx_expert_name(t, &w, out);
    if (w.n_experts && w.first) w.role = ROLE_EXPERT_UP;
    const char *p = pattern_of(t, kind, w.role);
    return p && fill_name(t, p, kind == CKPT_GGUF, w.layer, 0, "", out);
}

bool weights_role_name(const WeightTable *t, Role role, int layer, const char *suffix,
                       char out[WEIGHTS_MAX_NAME]) {
    return weights_expert_name(t, role, layer, 0, suffix, out);
}

/* ".weight" stands for a module's matrix, which quantized modules keep under other names. */
const CkptTensor *weights_role_find(const WeightTable *t, Role role, int layer,
                                    const char *suffix) {
    char name[WEIGHTS_MAX_NAME];
    bool matrix = str_eqc(STR(".weight"), suffix);
    if (!weights_role_name(t, role, layer, matrix ? "" : suffix, name)) return NULL;
    return matrix ? modsource_weight(t->ck, str_c(name)) : checkpoint_find(t->ck, str_c(name));
}

/* Whether the embedding table is there, under the role's name or any of the family's. */
static bool has_embed(WeightTable *t, const RoleDelta *deltas) {
    const RoleName *name = t->n.names[ROLE_EMBED];
    bool found = weights_role_find(t, ROLE_EMBED, -1, ".weight") != NULL;
    for (const RoleDelta *d = deltas; !found && d && d->role != ROLE_COUNT; d++) {
        if (d->role != ROLE_EMBED) continue;
        t->n.names[ROLE_EMBED] = &d->name;
        found = weights_role_find(t, ROLE_EMBED, -1, ".weight") != NULL;
    }
    t->n.names[ROLE_EMBED] = name;
    return found;
}

static void prefix_find(WeightTable *t, const RoleDelta *deltas) {
    size_t i = 0, n = sizeof PREFIXES / sizeof *PREFIXES;
    for (; i < n; i++) {
        t->n.prefix = str_c(PREFIXES[i]);
        if (has_embed(t, deltas)) break;
    }
    if (i == n) t->n.prefix = str_c(PREFIXES[0]);
    if (str_eqc(t->n.prefix, "language_model.model.")) t->n.root = STR("language_model.");
}

static bool any_tensor(const WeightTable *t, const char *pattern) {
    for (size_t i = 0; i < t->ck->n_tensors; i++)
        if (weights_glob(pattern, t->ck->tensors[i].name)) return true;
    return false;
}

/* Whether the checkpoint has a tensor of this name in any layer; of experts also as MLX has them. */
static bool name_occurs(const WeightTable *t, const char *name) {
    char pattern[WEIGHTS_MAX_NAME];
    Str prefix = name[0] == '/' ? t->n.root : t->n.prefix;
    size_t n = 0;
    if (prefix.n + strlen(name) + 16 >= WEIGHTS_MAX_NAME) return false;
    if (prefix.n) memcpy(pattern, prefix.p, n = prefix.n);
    for (const char *p = name + (name[0] == '/'); *p; p++) {
        pattern[n++] = *p == '%' ? '*' : *p;
        p += *p == '%';
    }
    memcpy(pattern + n, "*", 2);
    if (any_tensor(t, pattern)) return true;
    char *experts = strstr(pattern, "experts.");
    if (!experts) return false;
    memcpy(experts, "switch_mlp.*", sizeof "switch_mlp.*");
    return any_tensor(t, pattern);
}

static const RoleDelta *next_name(const RoleDelta *d) {
    Role role = d->role;
    for (d++; d->role != ROLE_COUNT; d++)
        if (d->role == role) return d;
    return NULL;
}

/* Of a role's several names in the family's list, the first that occurs. */
static void names_choose(WeightTable *t, const RoleDelta *deltas) {
    if (t->ck->kind == CKPT_GGUF) return;
    for (const RoleDelta *d = deltas; d && d->role != ROLE_COUNT; d++) {
        const RoleDelta *e = t->n.names[d->role] == &d->name && next_name(d) ? d : NULL;
        while (e && !name_occurs(t, e->name.hf)) e = next_name(e);
        if (e) t->n.names[d->role] = &e->name;
    }
}

static void names_fill(WeightTable *t, const RoleDelta *deltas) {
    for (int role = 0; role < ROLE_COUNT; role++) t->n.names[role] = &ROLE_NAMES[role];
    for (const RoleDelta *d = deltas; d && d->role != ROLE_COUNT; d++)
        if (t->n.names[d->role] == &ROLE_NAMES[d->role]) t->n.names[d->role] = &d->name;
}

bool weights_name_mlx(const RoleDelta *names, const char *prefix, const WeightOrigin *o,
                      char out[WEIGHTS_MAX_NAME]) {
    WeightTable t = {.n = {.prefix = str_c(prefix)}};
    names_fill(&t, names);
    return weights_name(&t, CKPT_SAFETENSORS, o, out);
}

/* The first of the family's that has one; the usual one where the family has none of its own. */
bool weights_name_gguf(const RoleDelta *names, const WeightOrigin *o, char out[WEIGHTS_MAX_NAME]) {
    const WeightTable t = {0};
    const char *pattern = NULL;
    bool own = false;
    for (const RoleDelta *d = names; d && d->role != ROLE_COUNT && !pattern; d++) {
        if (d->role != o->role) continue;
        own = true;
        pattern = d->name.gguf;
    }
    if (!own) pattern = ROLE_NAMES[o->role].gguf;
    return pattern && fill_name(&t, pattern, true, o->layer, 0, "", out);
}

bool weights_rename(WeightTable *t, const RoleDelta *deltas, const char *const (*places)[2],
                    Role first, WeightNames **was) {
    WeightNames *old = arena_new(t->a, WeightNames);
    if (!old) return err_nomem(&t->err, "weight table");
    *was = old;
    *old = t->n;
    names_fill(t, deltas);
    for (; (*places)[0]; places++) {
        t->n.prefix = str_c((*places)[0]);
        t->n.root = str_c((*places)[1]);
        names_choose(t, deltas);
        if (weights_role_find(t, first, -1, ".weight")) return true;
        names_fill(t, deltas);
    }
    t->n = *old;
    return false;
}

void weights_rename_back(WeightTable *t, const WeightNames *was) { t->n = *was; }

void weights_names_open(WeightTable *t, const RoleDelta *deltas) {
    names_fill(t, deltas);
    prefix_find(t, deltas);
    names_choose(t, deltas);
}
