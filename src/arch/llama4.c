/* Llama 4 (Meta 2025): attention in chunks of fixed places where there is rope, over everything where there is
 * none (every fourth layer), with queries that grow warmer with the position there; queries and keys
 * normed per head behind the rope, without weights; experts that get their input scaled by the sigmoid of
 * the router instead of their output, beside a shared one, in some or all layers. */
#include "arch/decoder_config.h"
#include "arch/gguf_keys.h"
#include "arch/mixer.h"
#include "arch/take.h"

enum { MAX_WIDTH = 1 << 20, NOPE_EACH = 4, NOPE_CHUNK = 8192, UNNORMED_EXPERTS = 128 };

typedef struct Llama4 {
    Decoder *d;
    uint32_t chunk; /* 0: no chunks */
    uint32_t n_experts, k, expert_width, dense_width;
    bool qk_norm, tuned;
    OpPosScale warmth;
    Val temperature; /* of the rows, once */
    const int64_t *moe_layers, *rope_layers;
    size_t n_moe, n_rope;
    bool moe_listed;
    int64_t moe_each, nope_each;
} Llama4;

static bool read_attention(Llama4 *m, Err *err) {
    const Config *c = m->d->config;
    int64_t chunk;
    double floor, scale;
    if (!config_int(c, "attention_chunk_size", 8192, 0, UINT32_MAX, &chunk, err) ||
        !config_bool(c, "use_qk_norm", true, &m->qk_norm, err) ||
        !config_bool(c, "attn_temperature_tuning", true, &m->tuned, err) ||
        !config_float(c, "floor_scale", 8192, 1, 1e12, &floor, err) ||
        !config_float(c, "attn_scale", 0.1, 0, 1e6, &scale, err) ||
        !config_ints(c, "no_rope_layers", m->d->arena, &m->rope_layers, &m->n_rope, err) ||
        !config_int(c, "no_rope_layer_interval", NOPE_EACH, 1, INT32_MAX, &m->nope_each, err))
        return false;
    if (m->n_rope && m->n_rope != m->d->n_layers)
        return err_set(err, ERR_INPUT, "no_rope_layers has %zu entries for %u layers", m->n_rope,
                       m->d->n_layers);
    m->chunk = (uint32_t)chunk;
    m->warmth = (OpPosScale){(float)scale, (float)floor, 1};
    return true;
}

/* GGUF files of it say less: the releases' chunks and temperature are a matter of the architecture,
 * no chunks (a window of 0) mean rope in all layers, and of the releases the one with 128 experts has
 * no norms. */
static bool read_gguf(Llama4 *m, Err *err) {
    Decoder *d = m->d;
    const Config *c = d->config;
    int64_t window;
    if (!config_int(c, ".attention.sliding_window", NOPE_CHUNK, 0, UINT32_MAX, &window, err))
        return false;
    m->chunk = window ? NOPE_CHUNK : 0;
    m->nope_each = window ? NOPE_EACH : 0;
    m->warmth = (OpPosScale){0.1f, NOPE_CHUNK, 1};
    m->tuned = true;
    d->layer.qkv_bias = weights_has(d->weights, ROLE_Q, 0, ".bias") ||
                        weights_has(d->weights, ROLE_QKV, 0, ".bias");
    d->layer.o_bias = weights_has(d->weights, ROLE_O, 0, ".bias");
    if (!config_int(c, "interleave_moe_layer_step", CONFIG_REQUIRED, 0, INT32_MAX, &m->moe_each,
                    err) ||
        !decoder_rope_tensors(d, err))
        return false;
    m->dense_width = d->layer.ffn_width;
    if (!m->moe_each) return true;
    if (!config_u32(c, "num_experts", CONFIG_REQUIRED, 1, ROUTE_MAX_EXPERTS, &m->n_experts, err) ||
        !config_u32(c, "num_experts_per_tok", CONFIG_REQUIRED, 1,
                    m->n_experts < ROUTE_MAX_K ? m->n_experts : ROUTE_MAX_K, &m->k, err))
        return false;
    m->qk_norm = m->n_experts != UNNORMED_EXPERTS;
    return config_u32(c, "moe_intermediate_size", CONFIG_REQUIRED, 1, MAX_WIDTH, &m->expert_width,
                      err);
}

static bool read(Llama4 *m, Err *err) {
    Decoder *d = m->d;
    const Config *c = d->config;
    int64_t n, k, width;
    if (!decoder_read(d, err)) return false;
    if (c->gguf) return read_gguf(m, err);
    if (!read_attention(m, err) || !decoder_attn_bias(d, err)) return false;
    m->moe_listed = config_has(c, "moe_layers");
    if (!config_int(c, "num_local_experts", 16, 1, ROUTE_MAX_EXPERTS, &n, err) ||
        !config_int(c, "num_experts_per_tok", 1, 1, n < ROUTE_MAX_K ? n : ROUTE_MAX_K, &k, err) ||
        !config_int(c, "intermediate_size_mlp", 16384, 1, MAX_WIDTH, &width, err) ||
        !config_int(c, "interleave_moe_layer_step", 1, 1, INT32_MAX, &m->moe_each, err) ||
        !config_ints(c, "moe_layers", d->arena, &m->moe_layers, &m->n_moe, err))
        return false;
    m->n_experts = (uint32_t)n;
    m->k = (uint32_t)k;
    m->expert_width = d->layer.ffn_width;
    m->dense_width = (uint32_t)width;
    return true;
}

static bool has_experts(const Llama4 *m, int i) {
    if (!m->moe_listed) return m->moe_each && (i + 1) % m->moe_each == 0;
    for (size_t k = 0; k < m->n_moe; k++)
        if (m->moe_layers[k] == i) return true;
    return false;
}

static bool has_rope(const Llama4 *m, int i) {
    if (!m->n_rope) return !m->nope_each || (i + 1) % m->nope_each != 0;
    return m->rope_layers[i] != 0;
}

/* Queries or keys behind the projection. */
static Val rotate(const Llama4 *m, Val x, uint32_t n_heads, bool rope) {
    Decoder *d = m->d;
    uint32_t dim = d->layer.head_dim;
    if (!rope) return x;
    x = prog_rope(d->b, x, prog_rope_spec(d->b, d->layer.rope_spec), n_heads, dim, 0, true);
    return m->qk_norm ? prog_rms_norm(d->b, x, W_NONE, dim, d->eps, 0) : x;
}

static Val attention(const Llama4 *m, Val x, int i, bool chunked) {
    Decoder *d = m->d;
    ProgBuilder *b = d->b;
    const LayerSpec *l = &d->layer;
    bool rope = has_rope(m, i);
    uint32_t nq = l->n_heads * l->head_dim, nk = l->n_kv_heads * l->head_dim;
    const TakePart parts[3] = {{.role = ROLE_Q, .n = nq, .k = d->hidden},
                               {.role = ROLE_K, .n = nk, .k = d->hidden},
                               {.role = ROLE_V, .n = nk, .k = d->hidden}};
    WeightId w = arch_take(d, WEIGHT_MATRIX, i, ".weight", parts, 3), bias = W_NONE,
             o = arch_take_matrix(d, ROLE_O, i, d->hidden, nq), o_bias = W_NONE;
    if (l->qkv_bias) bias = arch_take_biases(d, i, parts, 3);
    if (l->o_bias) o_bias = arch_take_vector(d, ROLE_O, i, ".bias", d->hidden);
    Val h = prog_linear_precise(b, x, w, bias);
    prog_probe(b, h, "layers.%d.attn.qkv", i);
    Val q = rotate(m, prog_view(b, h, 0, nq), l->n_heads, rope);
    if (!rope && m->tuned) q = prog_mul(b, q, m->temperature);
    ProgPlane plane = {.layer = i,
                       .heads = l->n_kv_heads,
                       .head_cols = l->head_dim,
                       .keep = chunked ? KEEP_CHUNK : KEEP_ALL,
                       .span = m->chunk,
                       .use = PLANE_KEY};
    PlaneId k = prog_plane(b, plane), v;
    plane.use = PLANE_VALUE;
    v = prog_plane(b, plane);
    prog_kv_write(b, rotate(m, prog_view(b, h, nq, nk), l->n_kv_heads, rope), k);
    prog_kv_write(b, prog_view(b, h, nq + nk, nk), v);
    h = prog_attn(b, q, k, v, W_NONE,
                  (OpAttn){.n_heads = l->n_heads,
                           .n_kv_heads = l->n_kv_heads,
                           .head_dim = l->head_dim,
                           .v_dim = l->head_dim,
                           .chunk = chunked ? m->chunk : 0,
                           .scale = l->attn_scale});
    return prog_probe(b, prog_linear(b, h, o, o_bias), "layers.%d.attn.out", i);
}

static Val dense(const Llama4 *m, Val x, int i, const Role roles[3], uint32_t width) {
    const FfnBlock p = arch_take_gated(m->d, i, roles, width, m->d->layer.act);
    return block_ffn(m->d->b, &p, x, i);
}

/* Gate (0) or up (1) of the experts: apart in MLX and GGUF files, else side by side in one stack of
 * [inputs, outputs]. */
static Val expert_half(const Llama4 *m, Val in, Val routes, int i, uint32_t which) {
    Decoder *d = m->d;
    uint32_t n = m->n_experts, w = m->expert_width;
    TakeExperts p = {
        .role = which ? ROLE_EXPERT_UP : ROLE_EXPERT_GATE, .n_experts = n, .n = w, .k = d->hidden};
    if (!weights_has(d->weights, p.role, i, ".weight")) {
        p.role = ROLE_EXPERT_GATE_UP, p.across = true;
        p.stored = d->hidden, p.columns = 2 * w, p.column = which * w;
    }
    return prog_experts(d->b, in, routes, arch_take_experts(d, i, &p, NULL), W_NONE, n, w);
}

static Val experts(const Llama4 *m, Val x, int i) {
    Decoder *d = m->d;
    ProgBuilder *b = d->b;
    uint32_t n = m->n_experts, w = m->expert_width;
    Val r = prog_linear_precise(b, x, arch_take_matrix(d, ROLE_ROUTER, i, n, d->hidden), W_NONE);
    OpRoute route = {.fn = ROUTE_SIGMOID, .n_experts = n, .k = m->k, .scale = 1};
    Val routes = prog_route(b, prog_probe(b, r, "layers.%d.moe.logits", i), W_NONE, route);
    Val in = VAL_NONE;
    for (uint32_t j = 0; j < m->k; j++) {
        Val scaled = prog_mul(b, x, prog_view(b, routes, m->k + j, 1));
        in = j ? prog_concat(b, in, scaled) : scaled;
    }
    Val gate = expert_half(m, in, routes, i, 0), up = expert_half(m, in, routes, i, 1);
    const TakeExperts down = {.role = ROLE_EXPERT_DOWNS, .n_experts = n, .n = d->hidden, .k = w};
    Val h = prog_glu(b, gate, up, d->layer.act);
    h = prog_experts(b, h, routes, arch_take_experts(d, i, &down, NULL), W_NONE, n, d->hidden);
    static const Role SHARED[3] = {ROLE_SHARED_GATE, ROLE_SHARED_UP, ROLE_SHARED_DOWN};
    Val sum = dense(m, x, i, SHARED, w);
    for (uint32_t j = 0; j < m->k; j++)
        sum = prog_add(b, sum, prog_view(b, h, j * d->hidden, d->hidden), 1);
    return prog_probe(b, sum, "layers.%d.moe.out", i);
}

static Val layer(const Llama4 *m, Val x, int i, bool chunked) {
    static const Role DENSE[3] = {ROLE_GATE, ROLE_UP, ROLE_DOWN};
    ProgBuilder *b = m->d->b;
    Val h = mixer_norm(m->d, x, ROLE_ATTN_NORM, i);
    x = prog_probe(b, prog_add(b, x, attention(m, h, i, chunked), 1), "layers.%d.mid", i);
    h = mixer_norm(m->d, x, ROLE_FFN_NORM, i);
    h = has_experts(m, i) ? experts(m, h, i) : dense(m, h, i, DENSE, m->dense_width);
    return prog_probe(b, prog_add(b, x, h, 1), "layers.%d.out", i);
}

static bool build(Decoder *d, ArchModel *out, Err *err) {
    Llama4 m = {.d = d};
    if (!read(&m, err)) return false;
    WeightId table = arch_take_table(d, ROLE_EMBED, d->vocab, d->hidden);
    Val x = prog_probe(d->b, prog_embed(d->b, table, d->embed_scale), "embed");
    m.temperature = prog_pos_scale(d->b, m.warmth);
    for (uint32_t i = 0; i < d->n_layers; i++) {
        bool chunked;
        const char *kind = d->config->gguf ? "sliding_attention" : "chunked_attention";
        if (!decoder_layer_type(d, (int)i, kind, has_rope(&m, (int)i), &chunked, err)) return false;
        x = layer(&m, x, (int)i, chunked && m.chunk);
    }
    prog_output(d->b, decoder_head(d, prog_select(d->b, x)), "logits");
    return weights_finish(d->weights, err) && decoder_finish(d, out, err);
}

/* Experts in every so many layers; whether a list says just that, the reader of the file shows. */
static bool gguf_keys(Decoder *d, GgufKeys *k, Err *err) {
    Llama4 m = {.d = d};
    const LayerSpec *l = &d->layer;
    if (!read(&m, err)) return false;
    int64_t first = m.n_moe ? m.moe_layers[0] : -1;
    bool is_layer = first >= 0 && first < d->n_layers;
    int64_t each = !m.moe_listed ? m.moe_each : is_layer ? first + 1 : 0;
    gguf_keys_u32(k, "feed_forward_length", m.dense_width);
    gguf_keys_u32(k, "attention.head_count_kv", l->n_kv_heads);
    gguf_keys_u32(k, "attention.key_length", l->head_dim);
    gguf_keys_u32(k, "attention.value_length", l->head_dim);
    gguf_keys_u32(k, "rope.dimension_count", l->rope_spec.rot_dim);
    gguf_keys_f32(k, "rope.freq_base", l->rope_spec.theta);
    gguf_keys_u32(k, "interleave_moe_layer_step", (uint32_t)each);
    gguf_keys_u32(k, "expert_count", m.n_experts);
    gguf_keys_u32(k, "expert_used_count", m.k);
    gguf_keys_u32(k, "expert_feed_forward_length", m.expert_width);
    if (!m.chunk) gguf_keys_u32(k, "attention.sliding_window", 0);
    return true;
}

static const RoleDelta NAMES[] = {
    {ROLE_GATE, {"layers.%d.feed_forward.gate_proj", "blk.%d.ffn_gate"}},
    {ROLE_UP, {"layers.%d.feed_forward.up_proj", "blk.%d.ffn_up"}},
    {ROLE_DOWN, {"layers.%d.feed_forward.down_proj", "blk.%d.ffn_down"}},
    {ROLE_ROUTER, {"layers.%d.feed_forward.router", "blk.%d.ffn_gate_inp"}},
    {ROLE_EXPERT_GATE_UP, {"layers.%d.feed_forward.experts.gate_up_proj", NULL}},
    {ROLE_EXPERT_GATE, {"layers.%d.feed_forward.experts.gate_proj", "blk.%d.ffn_gate_exps"}},
    {ROLE_EXPERT_UP, {"layers.%d.feed_forward.experts.up_proj", "blk.%d.ffn_up_exps"}},
    {ROLE_EXPERT_DOWN, {"layers.%d.feed_forward.experts.down_proj", "blk.%d.ffn_down_exps"}},
    {ROLE_EXPERT_DOWNS, {"layers.%d.feed_forward.experts.down_proj", "blk.%d.ffn_down_exps"}},
    {ROLE_SHARED_GATE, {"layers.%d.feed_forward.shared_expert.gate_proj", "blk.%d.ffn_gate_shexp"}},
    {ROLE_SHARED_UP, {"layers.%d.feed_forward.shared_expert.up_proj", "blk.%d.ffn_up_shexp"}},
    {ROLE_SHARED_DOWN, {"layers.%d.feed_forward.shared_expert.down_proj", "blk.%d.ffn_down_shexp"}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_LLAMA4 = {
    .name = "llama4",
    .kind = "text",
    .model_types = (const char *const[]){"llama4_text", NULL},
    .hf_class = "Llama4ForCausalLM",
    .gguf = (const char *const[]){"llama4", NULL},
    .names = NAMES,
    .rope_whole = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .head_dim = 128,
    .rope_theta = 500000,
    .gguf_keys = gguf_keys,
    .build = build,
};
