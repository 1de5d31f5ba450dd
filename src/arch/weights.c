#include "arch/weights.h"

#include <stdio.h>
#include <string.h>

#include "arch/module_source.h"

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
    [ROLE_EXPERT_GATE_UP] = {"layers.%d.mlp.experts.gate_up_proj", NULL},
    [ROLE_EXPERT_DOWNS] = {"layers.%d.mlp.experts.down_proj", NULL},
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
    [ROLE_INDEX_Q] = {"layers.%d.self_attn.indexer.wq_b", NULL},
    [ROLE_INDEX_K] = {"layers.%d.self_attn.indexer.wk", NULL},
    [ROLE_INDEX_K_NORM] = {"layers.%d.self_attn.indexer.k_norm", NULL},
    [ROLE_INDEX_WEIGHTS] = {"layers.%d.self_attn.indexer.weights_proj", NULL},
    [ROLE_COMPRESS_KV] = {"layers.%d.attn.compressor.wkv", NULL},
    [ROLE_COMPRESS_GATE] = {"layers.%d.attn.compressor.wgate", NULL},
    [ROLE_COMPRESS_BIAS] = {"layers.%d.attn.compressor.ape", NULL},
    [ROLE_COMPRESS_NORM] = {"layers.%d.attn.compressor.norm", NULL},
    [ROLE_INDEX_COMPRESS_KV] = {"layers.%d.attn.indexer.compressor.wkv", NULL},
    [ROLE_INDEX_COMPRESS_GATE] = {"layers.%d.attn.indexer.compressor.wgate", NULL},
    [ROLE_INDEX_COMPRESS_BIAS] = {"layers.%d.attn.indexer.compressor.ape", NULL},
    [ROLE_INDEX_COMPRESS_NORM] = {"layers.%d.attn.indexer.compressor.norm", NULL},
    [ROLE_O_DOWN] = {"layers.%d.attn.wo_a", NULL},
    [ROLE_HYPER_ATTN] = {"layers.%d.hc_attn", NULL},
    [ROLE_HYPER_FFN] = {"layers.%d.hc_ffn", NULL},
    [ROLE_HYPER_HEAD] = {"hc_head", NULL},
    [ROLE_ROUTE_TABLE] = {"layers.%d.ffn.gate.tid2eid", NULL},
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

enum { MAX_NAME = WEIGHTS_MAX_NAME, MAX_BIAS = 1 << 22 };

typedef struct WeightNames {
    const RoleName *names[ROLE_COUNT];
    Str prefix; /* of the HF names */
    Str root;   /* of those with a leading '/' */
} WeightNames;

struct WeightTable {
    const Checkpoint *ck;
    WeightNames n; /* in force */
    const char *const *ignored;
    Arena *a;
    QuantConfig config;
    ModuleFinder finder; /* its used: per checkpoint tensor */
    ArchWeight *weights;
    uint32_t n_weights, cap;
    Err err;
};

/* '*' matches any run of characters: on a mismatch the last star takes one more. */
static bool glob(const char *pattern, Str s) {
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

static const char *role_pattern(const WeightTable *t, Role role) {
    return pattern_of(t, t->ck->kind, role);
}

/* The tensor's full name; false where this kind of file has none for the role. */
static bool fill_name(const WeightTable *t, const char *p, bool from_root, int layer,
                      uint32_t expert, const char *suffix, char out[MAX_NAME]) {
    size_t n = 0;
    Str prefix = from_root ? STR_NONE : p[0] == '/' ? t->n.root : t->n.prefix;
    if (prefix.n >= MAX_NAME) return false;
    if (prefix.n) memcpy(out, prefix.p, n = prefix.n);
    for (p += p[0] == '/'; *p && n < MAX_NAME - 16; p++) {
        bool hole = p[0] == '%' && (p[1] == 'd' || p[1] == 'e');
        if (!hole)
            out[n++] = *p;
        else
            n += (size_t)snprintf(out + n, 16, "%u", *++p == 'd' ? (unsigned)layer : expert);
    }
    size_t tail = strlen(suffix);
    if (*p || n + tail >= MAX_NAME) return false;
    memcpy(out + n, suffix, tail + 1);
    return true;
}

static bool expert_name(const WeightTable *t, Role role, int layer, uint32_t expert,
                        const char *suffix, char out[MAX_NAME]) {
    const char *p = role_pattern(t, role);
    return p && fill_name(t, p, t->ck->kind == CKPT_GGUF, layer, expert, suffix, out);
}

/* MLX keeps the experts of a layer in three modules, "mlp.experts.%e.w1" in
 * "mlp.switch_mlp.gate_proj", and "mlp.experts.gate_up_proj" in "mlp.experts.gate_proj" and
 * "up_proj". false: the pattern is of neither kind. */
static bool mlx_expert_name(const WeightTable *t, const WeightOrigin *o, char out[MAX_NAME]) {
    const char *leaf = o->role == ROLE_EXPERT_DOWN             ? "down_proj"
                       : o->role == ROLE_EXPERT_UP || o->first ? "up_proj"
                                                               : "gate_proj";
    const char *p = pattern_of(t, CKPT_SAFETENSORS, o->role);
    const char *hole = p ? strstr(p, "experts.") : NULL;
    char pattern[MAX_NAME];
    if (!hole) return false;
    bool each = str_starts(str_c(hole), STR("experts.%e."));
    int n = snprintf(pattern, sizeof pattern, "%.*s%s.%s", (int)(hole - p), p,
                     each ? "switch_mlp" : "experts", leaf);
    return n > 0 && n < MAX_NAME && fill_name(t, pattern, false, o->layer, 0, "", out);
}

bool weights_name(const WeightTable *t, CkptKind kind, const WeightOrigin *o,
                  char out[WEIGHTS_MAX_NAME]) {
    WeightOrigin w = *o;
    if (w.n_experts && kind == CKPT_SAFETENSORS) return mlx_expert_name(t, &w, out);
    if (w.n_experts && w.first) w.role = ROLE_EXPERT_UP;
    const char *p = pattern_of(t, kind, w.role);
    return p && fill_name(t, p, kind == CKPT_GGUF, w.layer, 0, "", out);
}

static bool role_name(const WeightTable *t, Role role, int layer, const char *suffix,
                      char out[MAX_NAME]) {
    return expert_name(t, role, layer, 0, suffix, out);
}

/* ".weight" stands for a module's matrix, which quantized modules keep under other names. */
static const CkptTensor *role_find(const WeightTable *t, Role role, int layer, const char *suffix) {
    char name[MAX_NAME];
    bool matrix = str_eqc(STR(".weight"), suffix);
    if (!role_name(t, role, layer, matrix ? "" : suffix, name)) return NULL;
    return matrix ? modsource_weight(t->ck, str_c(name)) : checkpoint_find(t->ck, str_c(name));
}

/* Whether the embedding table is there, under the role's name or any of the family's. */
static bool has_embed(WeightTable *t, const RoleDelta *deltas) {
    const RoleName *name = t->n.names[ROLE_EMBED];
    bool found = role_find(t, ROLE_EMBED, -1, ".weight") != NULL;
    for (const RoleDelta *d = deltas; !found && d && d->role != ROLE_COUNT; d++) {
        if (d->role != ROLE_EMBED) continue;
        t->n.names[ROLE_EMBED] = &d->name;
        found = role_find(t, ROLE_EMBED, -1, ".weight") != NULL;
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
        if (glob(pattern, t->ck->tensors[i].name)) return true;
    return false;
}

/* Whether the checkpoint has a tensor of this name in any layer; of experts also as MLX has them. */
static bool name_occurs(const WeightTable *t, const char *name) {
    char pattern[MAX_NAME];
    Str prefix = name[0] == '/' ? t->n.root : t->n.prefix;
    size_t n = 0;
    if (prefix.n + strlen(name) + 16 >= MAX_NAME) return false;
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
        if (role_find(t, first, -1, ".weight")) return true;
        names_fill(t, deltas);
    }
    t->n = *old;
    return false;
}

void weights_rename_back(WeightTable *t, const WeightNames *was) { t->n = *was; }

WeightTable *weights_new(const Checkpoint *ck, const RoleDelta *deltas, const char *const *ignored,
                         Arena *a) {
    WeightTable *t = arena_new(a, WeightTable);
    if (!t) return NULL;
    *t = (WeightTable){.ck = ck, .ignored = ignored, .a = a};
    names_fill(t, deltas);
    t->finder = (ModuleFinder){
        .ck = ck, .config = &t->config, .used = arena_array(a, bool, ck->n_tensors + 1), .a = a};
    if (!t->finder.used) return NULL;
    prefix_find(t, deltas);
    names_choose(t, deltas);
    /* reported like the first missing tensor */
    if (!quantconfig_read(&t->config, ck, a, &t->err)) return t;
    return t;
}

bool weights_has(const WeightTable *t, Role role, int layer, const char *suffix) {
    return role_find(t, role, layer, suffix) != NULL;
}

uint32_t weights_rows(const WeightTable *t, Role role, int layer) {
    const CkptTensor *ct = role_find(t, role, layer, ".weight");
    return ct && ct->n_dims >= 1 && ct->shape[0] <= INT32_MAX ? (uint32_t)ct->shape[0] : 0;
}

uint64_t weights_last(const WeightTable *t, Role role, int layer, const char *suffix) {
    const CkptTensor *ct = role_find(t, role, layer, suffix);
    return ct && ct->n_dims ? ct->shape[ct->n_dims - 1] : 0;
}

/* Rows within each head: stored (pair i, half j) at 2i + j; logical at j * d/2 + i. */
static uint32_t *unpermute_map(Arena *a, uint32_t n, uint32_t head_dim) {
    uint32_t *map = arena_array(a, uint32_t, n);
    uint32_t half = head_dim / 2;
    for (uint32_t r = 0; map && r < n; r++) {
        uint32_t in_head = r % head_dim;
        map[r] = r - in_head + (in_head % half) * 2 + in_head / half;
    }
    return map;
}

static bool taps_turn(WeightTable *t, const CkptTensor *ct, const TakePart *p, WeightSource *out) {
    bool plain = out->form->kind == WFORM_PLAIN && dtype_info(out->form->plain)->is_float;
    if (!plain || ct->n_dims != 3 || ct->shape[2] != p->taps) {
        char got[96];
        ckpt_shape_text(ct, got, sizeof got);
        return err_set(
            &t->err, ERR_UNSUPPORTED, "tensor " STR_F " is %s %s; floats [%u, %u, %u] are accepted",
            STR_A(ct->name), dtype_info(ct->dtype)->name, got, p->n, p->k / p->taps, p->taps);
    }
    out->taps = p->taps;
    return true;
}

static bool part_take(WeightTable *t, WeightKind kind, int layer, const char *suffix,
                      const TakePart *p, WeightSource *out) {
    char name[MAX_NAME];
    const CkptTensor *ct = role_find(t, p->role, layer, suffix);
    if (!role_name(t, p->role, layer, suffix, name))
        return err_set(&t->err, ERR_UNSUPPORTED, "GGUF files have no tensor for role %d",
                       (int)p->role);
    if (!ct) return err_set(&t->err, ERR_CORRUPT, "tensor %s is missing", name);
    bool unpermute = p->transform == TRANSFORM_UNPERMUTE && t->ck->kind == CKPT_GGUF;
    if (kind != WEIGHT_VECTOR && strcmp(suffix, ".weight")) { /* a parameter: a row, or rows */
        if (p->n == 1 ? !modsource_vector(&t->finder, ct, p->k, 0, false, out, &t->err)
                      : !modsource_stack_rows(&t->finder, str_c(name), p->integers, 1, p->n, p->k,
                                              out, &t->err))
            return false;
    } else if (kind == WEIGHT_VECTOR) {
        uint32_t n = p->rows ? p->n_stored : p->k;
        if (!modsource_vector(&t->finder, ct, n, p->cols, unpermute || p->rows, out, &t->err))
            return false;
    } else {
        Str module = str_slice(str_c(name), 0, strlen(name) - strlen(suffix));
        if (!modsource_matrix(&t->finder, module, kind == WEIGHT_TABLE, 1,
                              p->rows ? p->n_stored : p->n, p->k, out, &t->err))
            return false;
        if (p->taps && !taps_turn(t, ct, p, out)) return false;
    }
    if (p->rows) {
        out->n = kind == WEIGHT_VECTOR ? p->k : p->n;
        out->row_map = p->rows;
    }
    if (!unpermute) return true;
    out->row_map = unpermute_map(t->a, out->n, p->head_dim);
    return out->row_map || err_nomem(&t->err, "weight table");
}

static bool table_grow(WeightTable *t) {
    if (t->n_weights < t->cap) return true;
    uint32_t cap = t->cap ? t->cap * 2 : 256;
    ArchWeight *w = arena_array(t->a, ArchWeight, cap);
    if (!w) return err_nomem(&t->err, "weight table");
    if (t->n_weights) memcpy(w, t->weights, t->n_weights * sizeof *w);
    t->weights = w;
    t->cap = cap;
    return true;
}

int32_t weights_take(WeightTable *t, WeightKind kind, int layer, const char *suffix,
                     const TakePart *parts, int n_parts) {
    if (t->err.kind) return -1;
    /* A tensor asked for twice (tied embeddings) is one source. */
    const CkptTensor *one =
        n_parts == 1 && !parts[0].rows ? role_find(t, parts[0].role, layer, suffix) : NULL;
    for (uint32_t i = 0; one && i < t->n_weights; i++)
        if (t->weights[i].n_parts == 1 && !t->weights[i].origins[0].n_stored &&
            str_eqc(one->name, t->weights[i].parts[0].name))
            return (int32_t)i;
    WeightSource *src = arena_array(t->a, WeightSource, (size_t)n_parts);
    WeightOrigin *origins = arena_array(t->a, WeightOrigin, (size_t)n_parts);
    if (!src || !origins || !table_grow(t)) {
        err_nomem(&t->err, "weight table");
        return -1;
    }
    for (int i = 0; i < n_parts; i++) {
        const TakePart *p = &parts[i];
        if (!part_take(t, kind, layer, suffix, p, &src[i])) return -1;
        origins[i] = (WeightOrigin){.role = p->role, .layer = layer, .suffix = suffix};
        if (p->transform == TRANSFORM_UNPERMUTE) origins[i].head_dim = p->head_dim;
        if (p->rows) origins[i].n_stored = p->n_stored;
        origins[i].cols = p->cols;
    }
    t->weights[t->n_weights] = (ArchWeight){kind, src, n_parts, src[0].name, origins};
    return (int32_t)t->n_weights++;
}

/* For each of n outputs, where it is stored. */
static const uint32_t *stride_map(WeightTable *t, uint32_t n, uint32_t from, const TakeExperts *p) {
    uint32_t *map = arena_array(t->a, uint32_t, n);
    for (uint32_t i = 0; map && i < n; i++) map[i] = from + p->first + i * p->step;
    if (!map) err_nomem(&t->err, "weight table");
    return map;
}

static bool experts_each(WeightTable *t, int layer, const TakeExperts *p, WeightSource *src) {
    char name[MAX_NAME];
    for (uint32_t e = 0; e < p->n_experts; e++) {
        if (!expert_name(t, p->role, layer, e, "", name))
            return err_set(&t->err, ERR_LIMIT, "a tensor name is too long");
        if (!modsource_matrix(&t->finder, str_c(name), false, 1, p->n, p->k, &src[e], &t->err))
            return false;
    }
    return true;
}

/* The module whose .weight holds the experts' matrices as they are, one after the other. */
static bool experts_in_one(WeightTable *t, Str module, const TakeExperts *p, WeightSource *src) {
    if (!modsource_matrix(&t->finder, module, false, p->n_experts, p->n_experts * p->n, p->k,
                          &src[0], &t->err))
        return false;
    for (uint32_t e = p->n_experts; e-- > 0;) {
        src[e] = src[0];
        src[e].n = p->n;
        src[e].row0 = e * p->n;
    }
    return true;
}

/* Whether the experts lie as MLX writes them, and where. */
static bool takes_mlx(const WeightTable *t, const WeightOrigin *o, char name[MAX_NAME]) {
    return t->ck->kind == CKPT_SAFETENSORS && mlx_expert_name(t, o, name) &&
           modsource_weight(t->ck, str_c(name));
}

/* All experts in one tensor: a module's .weight with the experts outermost, or a parameter of its
 * own (module_source.h). */
static bool experts_stacked(WeightTable *t, int layer, const TakeExperts *p, WeightSource *src) {
    char name[MAX_NAME];
    uint32_t stored = p->n * (p->step ? p->step : 1);
    if (!role_name(t, p->role, layer, "", name))
        return err_set(&t->err, ERR_UNSUPPORTED, "this kind of file has no tensor for role %d",
                       (int)p->role);
    Str path = str_c(name);
    bool module = modsource_weight(t->ck, path) != NULL;
    if (module ? !modsource_matrix(&t->finder, path, false, p->n_experts, p->n_experts * stored,
                                   p->k, &src[0], &t->err)
               : !modsource_stack(&t->finder, path, p->n_experts, stored, p->k, &src[0], &t->err))
        return false;
    for (uint32_t e = p->n_experts; e-- > 0;) {
        src[e] = src[0];
        src[e].n = p->n;
        src[e].row0 = e * (src[e].transposed ? p->k : stored);
        if (!p->step) continue;
        src[e].row_map = stride_map(t, p->n, src[e].transposed ? 0 : e * stored, p);
        if (!src[e].row_map) return false;
    }
    return true;
}

/* Experts' matrices or biases. */
static int32_t table_add(WeightTable *t, WeightKind kind, WeightSource *parts, int n_parts,
                         const WeightOrigin *o) {
    WeightOrigin *own = arena_new(t->a, WeightOrigin);
    if (!own) {
        err_nomem(&t->err, "weight table");
        return -1;
    }
    *own = *o;
    t->weights[t->n_weights] = (ArchWeight){kind, parts, n_parts, parts[0].name, own};
    return (int32_t)t->n_weights++;
}

static WeightOrigin experts_origin(const TakeExperts *p, int layer, const char *suffix) {
    return (WeightOrigin){.role = p->role,
                          .layer = layer,
                          .suffix = suffix,
                          .n_experts = p->n_experts,
                          .step = p->step,
                          .first = p->first};
}

static WeightSource *sources_new(WeightTable *t, uint32_t n) {
    WeightSource *src = arena_array(t->a, WeightSource, n);
    if (src && table_grow(t)) return src;
    err_nomem(&t->err, "weight table");
    return NULL;
}

/* Where all of the experts' rows are: a parameter, or a module. */
static bool rows_whole(WeightTable *t, Str name, const TakeExperts *p, WeightSource *src) {
    uint32_t columns = !p->across ? p->k : p->columns ? p->columns : p->n;
    if (!modsource_weight(t->ck, name))
        return modsource_stack_rows(&t->finder, name, false, p->n_experts, p->stored, columns, src,
                                    &t->err);
    return modsource_matrix(&t->finder, name, false, 1, p->n_experts * p->stored, columns, src,
                            &t->err);
}

static const uint32_t *column_map(WeightTable *t, const TakeExperts *p) {
    uint32_t *map = arena_array(t->a, uint32_t, p->n);
    for (uint32_t i = 0; map && i < p->n; i++) map[i] = p->column + i;
    if (!map) err_nomem(&t->err, "weight table");
    return map;
}

/* Rows [first, first + n) of each of the experts' matrices, which follow one another. */
static bool experts_rows(WeightTable *t, int layer, const TakeExperts *p, WeightSource *src) {
    char name[MAX_NAME];
    if (!role_name(t, p->role, layer, "", name))
        return err_set(&t->err, ERR_UNSUPPORTED, "this kind of file has no tensor for role %d",
                       (int)p->role);
    if (!rows_whole(t, str_c(name), p, &src[0])) return false;
    bool plain = src[0].form->kind == WFORM_PLAIN && src[0].m.format == QFORMAT_ROWS &&
                 dtype_info(src[0].form->plain)->is_float;
    if (p->across && !plain)
        return err_set(&t->err, ERR_UNSUPPORTED,
                       "tensor %s is quantized: only floats can be turned to columns", name);
    const uint32_t *columns = p->columns ? column_map(t, p) : NULL;
    if (p->columns && !columns) return false;
    for (uint32_t e = p->n_experts; e-- > 0;) {
        src[e] = src[0];
        src[e].n = p->n;
        src[e].k = p->k;
        src[e].row0 = e * p->stored + p->first;
        src[e].row_map = columns;
        src[e].transposed = p->across;
    }
    return true;
}

int32_t weights_take_experts(WeightTable *t, int layer, const TakeExperts *p) {
    char name[MAX_NAME];
    WeightSource *src = t->err.kind ? NULL : sources_new(t, p->n_experts);
    if (!src) return -1;
    const char *pattern = role_pattern(t, p->role);
    const WeightOrigin o = experts_origin(p, layer, ".weight");
    bool each = t->ck->kind != CKPT_GGUF && pattern && strstr(pattern, "%e");
    bool ok = p->stored                ? experts_rows(t, layer, p, src)
              : takes_mlx(t, &o, name) ? experts_in_one(t, str_c(name), p, src)
              : each                   ? experts_each(t, layer, p, src)
                                       : experts_stacked(t, layer, p, src);
    return ok ? table_add(t, WEIGHT_MATRIX, src, (int)p->n_experts, &o) : -1;
}

/* Where the experts' biases are: beside the module of an MLX or GGUF file, or a parameter. */
static bool biases_name(WeightTable *t, const WeightOrigin *o, char name[MAX_NAME], bool *module) {
    *module = t->ck->kind == CKPT_GGUF || takes_mlx(t, o, name);
    bool named = t->ck->kind == CKPT_GGUF ? weights_name(t, CKPT_GGUF, o, name)
                                          : *module || role_name(t, o->role, o->layer, "", name);
    const char *suffix = *module ? ".bias" : "_bias";
    size_t n = named ? strlen(name) : 0;
    if (!named || n + strlen(suffix) >= MAX_NAME)
        return err_set(&t->err, ERR_UNSUPPORTED, "this kind of file has no biases for role %d",
                       (int)o->role);
    memcpy(name + n, suffix, strlen(suffix) + 1);
    return true;
}

int32_t weights_take_expert_biases(WeightTable *t, int layer, const TakeExperts *p) {
    char name[MAX_NAME];
    bool module;
    WeightSource *src = t->err.kind ? NULL : sources_new(t, 1);
    const WeightOrigin o = experts_origin(p, layer, "_bias");
    if (!src || !biases_name(t, &o, name, &module)) return -1;
    uint32_t stored = p->n * (p->step && !module ? p->step : 1), n = p->n_experts * p->n;
    if (!modsource_stack_vector(&t->finder, str_c(name), p->n_experts, stored, src, &t->err))
        return -1;
    if (p->step && !module) {
        src->n = n;
        src->row_map = stride_map(t, n, 0, p);
        if (!src->row_map) return -1;
    }
    return table_add(t, WEIGHT_VECTOR, src, 1, &o);
}

const double *weights_values(WeightTable *t, Role role, int layer, const char *suffix, uint32_t n) {
    const TakePart part = {.role = role, .n = 1, .k = n};
    WeightSource src;
    if (t->err.kind || !part_take(t, WEIGHT_VECTOR, layer, suffix, &part, &src)) return NULL;
    float *x = arena_array(t->a, float, n);
    double *out = arena_array(t->a, double, n);
    WeightScratch sc = {0};
    bool ok = x && out && wsource_f32(&src, 0, 1, x, &sc, &t->err);
    wsource_scratch_deinit(&sc);
    for (uint32_t i = 0; ok && i < n; i++) out[i] = x[i];
    return ok ? out : NULL;
}

void weights_ignore(WeightTable *t, Role role, int layer) {
    char module[MAX_NAME];
    if (role_name(t, role, layer, "", module)) modsource_ignore(&t->finder, str_c(module));
}

/* GPTQ writers give every layer a bias; where the architecture has none it must be zero. */
static bool bias_is_zero(WeightTable *t, const CkptTensor *ct, bool *zero, Err *err) {
    Str module = str_slice(ct->name, 0, ct->name.n - strlen(".bias"));
    char qweight[MAX_NAME];
    *zero = false;
    int len = snprintf(qweight, sizeof qweight, "%.*s.qweight", (int)module.n, module.p);
    if (len < 0 || len >= MAX_NAME || !checkpoint_find(t->ck, str_c(qweight))) return true;
    if (ct->n_dims != 1 || ct->shape[0] < 1 || ct->shape[0] > MAX_BIAS)
        return err_set(err, ERR_CORRUPT,
                       "tensor " STR_F " is no bias: 1 to %d elements are accepted",
                       STR_A(ct->name), MAX_BIAS);
    WeightSource src;
    WeightScratch sc = {0};
    uint32_t n = (uint32_t)ct->shape[0];
    if (!modsource_vector(&t->finder, ct, n, 0, false, &src, err)) return false;
    float *x = arena_array(t->a, float, n);
    bool ok = x ? wsource_f32(&src, 0, 1, x, &sc, err) : err_nomem(err, "a bias");
    wsource_scratch_deinit(&sc);
    for (uint32_t i = 0; ok && i < n; i++)
        if (!(x[i] == 0))
            return err_set(err, ERR_UNSUPPORTED,
                           "tensor " STR_F
                           "[%u] is %g; this architecture has no bias there, only zeros are "
                           "accepted",
                           STR_A(ct->name), i, (double)x[i]);
    *zero = ok;
    return ok;
}

/* Unused, and rightly so? */
static bool tensor_is_known(WeightTable *t, const CkptTensor *ct, bool *known, Err *err) {
    bool quantized = t->config.method != QUANT_NONE || t->ck->kind == CKPT_GGUF;
    *known = quantized && modsource_is_calibration(ct->name);
    for (size_t g = 0; !*known && t->ignored && t->ignored[g]; g++)
        *known = glob(t->ignored[g], ct->name);
    if (*known || !str_ends(ct->name, STR(".bias"))) return true;
    return bias_is_zero(t, ct, known, err);
}

bool weights_check(const WeightTable *t, Err *err) {
    if (!t->err.kind) return true;
    if (err) *err = t->err;
    return false;
}

bool weights_finish(WeightTable *t, Err *err) {
    if (!weights_check(t, err)) return false;
    for (size_t i = 0; i < t->ck->n_tensors; i++) {
        const CkptTensor *ct = &t->ck->tensors[i];
        bool known = t->finder.used[i];
        if (!known && !tensor_is_known(t, ct, &known, err)) return false;
        if (!known)
            return err_set(err, ERR_CORRUPT,
                           "tensor " STR_F " belongs to no part of this architecture (" STR_F ")",
                           STR_A(ct->name), STR_A(t->ck->config.model_type));
    }
    return true;
}

uint32_t weights_count(const WeightTable *t) { return t->n_weights; }
const ArchWeight *weights_get(const WeightTable *t, int32_t source) { return &t->weights[source]; }
