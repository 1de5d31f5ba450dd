/* Gemma 3n (Gemma Team 2025): the residual is a matrix of several streams (AltUp, Baykal et al. 2023): a
 * layer predicts all of them from a mix, computes on one, and corrects the others by what came out;
 * a low-rank residual beside attention (LAuReL, Menghani et al. 2024), inputs of each layer's own,
 * last layers that share keys and values, and gates of the first layers cut to their largest
 * entries by mean and deviation. */
#include <math.h>

#include "arch/gemma_shared.h"
#include "arch/gguf_keys.h"

enum {
    PATTERN = 5,
    MAX_STREAMS = 16,
    MAX_RANK = 1 << 14,
    MAX_WIDTH = 1 << 20,
    CUT_LAYERS = 10,
    MAX_CUT = 40,
    SHARED = 15,
    KEYED = 20
};

static const double CUT_SHARE = 0.95;

typedef struct Gemma3n {
    GemmaNet g;
    uint32_t n_streams, active, rank;
    bool scaled; /* the active stream, before its layer input */
    const int64_t *widths;
    size_t n_widths;
    /* of each layer's gate what is below mean + cut * deviation goes; -infinity: nothing does */
    const double *cuts;
} Gemma3n;

static bool list_check(const Gemma3n *m, const char *key, size_t n, Err *err) {
    return n <= 1 || n == m->g.d->n_layers ||
           err_set(err, ERR_INPUT, "%s has %zu entries for %u layers", key, n, m->g.d->n_layers);
}

/* z with a share p of a normal distribution below it. */
static double normal_quantile(double p) {
    double lo = -40, hi = 40;
    for (int i = 0; i < 200; i++) {
        double mid = (lo + hi) / 2;
        if (0.5 * erfc(-mid * M_SQRT1_2) < p)
            lo = mid;
        else
            hi = mid;
    }
    return (lo + hi) / 2;
}

/* Shares of entries that go, or in GGUF files already what of a normal distribution they are below; in
 * files without, of models of some depth, the first layers'. */
static bool read_cuts(Gemma3n *m, Err *err) {
    const Decoder *d = m->g.d;
    const Config *c = d->config;
    const char *key = c->gguf ? ".activation_sparsity_scale" : "activation_sparsity_pattern";
    const double *list;
    size_t n;
    if (!config_floats(c, key, d->arena, &list, &n, err) || !list_check(m, key, n, err))
        return false;
    double *cuts = arena_array(d->arena, double, d->n_layers);
    if (!cuts) return err_nomem(err, key);
    for (size_t i = 0; i < d->n_layers; i++) {
        double dflt = i < CUT_LAYERS && d->n_layers > CUT_LAYERS ? CUT_SHARE : 0;
        double v = n ? list[n > 1 ? i : 0] : dflt;
        bool share = !n || !c->gguf;
        if (share ? !(v >= 0 && v < 1) : !(fabs(v) <= MAX_CUT || (isinf(v) && v < 0)))
            return err_set(err, ERR_INPUT, "%s has %g; %s are accepted", key, v,
                           share ? "0 to below 1" : "-40 to 40 and -infinity");
        cuts[i] = !share ? v : v > 0 ? normal_quantile(v) : -(double)INFINITY;
    }
    m->cuts = cuts;
    return true;
}

static bool read(Gemma3n *m, Err *err) {
    Decoder *d = m->g.d;
    const Config *c = d->config;
    int64_t streams, active, rank;
    if (!gemma_net_read(&m->g, err)) return false;
    uint32_t rows = c->gguf ? weights_rows(d->weights, ROLE_LAUREL_LEFT, 0) : 0;
    if (!config_int(c, "altup_num_inputs", 4, 2, MAX_STREAMS, &streams, err) ||
        !config_int(c, "altup_active_idx", 0, 0, streams - 1, &active, err) ||
        !config_int(c, "laurel_rank", rows ? rows : 64, 1, MAX_RANK, &rank, err) ||
        !config_bool(c, "altup_correct_scale", true, &m->scaled, err) ||
        !config_ints(c, "intermediate_size", d->arena, &m->widths, &m->n_widths, err) ||
        !list_check(m, "intermediate_size", m->n_widths, err) || !read_cuts(m, err))
        return false;
    for (size_t i = 0; i < m->n_widths; i++)
        if (m->widths[i] < 1 || m->widths[i] > MAX_WIDTH)
            return err_set(err, ERR_INPUT, "intermediate_size is %lld; 1 to %d are accepted",
                           (long long)m->widths[i], MAX_WIDTH);
    m->n_streams = (uint32_t)streams;
    m->active = (uint32_t)active;
    m->rank = (uint32_t)rank;
    return true;
}

/* relu(x - (mean + z * deviation)) */
static Val cut(ProgBuilder *b, Val x, double z) {
    Val centred = prog_add(b, x, prog_reduce(b, x, REDUCE_MEAN, 0, 0), -1);
    Val deviation = prog_reduce(b, centred, REDUCE_RMS, 0, 0);
    return prog_act(b, prog_add(b, centred, deviation, -(float)z), ACT_RELU, 0);
}

static Val feed_forward(const Gemma3n *m, Val x, int i) {
    Decoder *d = m->g.d;
    uint32_t n = (uint32_t)m->widths[m->n_widths > 1 ? (size_t)i : 0];
    const TakePart in[2] = {{.role = ROLE_GATE, .n = n, .k = d->hidden},
                            {.role = ROLE_UP, .n = n, .k = d->hidden}};
    Val h = prog_linear(d->b, x, arch_take(d, WEIGHT_MATRIX, i, ".weight", in, 2), W_NONE);
    Val gate = prog_view(d->b, h, 0, n), up = prog_view(d->b, h, n, n);
    if (!isinf(m->cuts[i])) gate = cut(d->b, gate, m->cuts[i]);
    h = prog_glu(d->b, gate, up, d->layer.act);
    return prog_linear(d->b, h, arch_take_matrix(d, ROLE_DOWN, i, d->hidden, n), W_NONE);
}

/* tanh of the row's mix of the router, one number per stream. */
static Val modalities(const Gemma3n *m, Val x, int i) {
    Decoder *d = m->g.d;
    Val h = prog_scale(d->b, gemma_net_norm(&m->g, x, ROLE_STREAM_NORM, i), 1 / (float)d->hidden);
    WeightId w = arch_take_matrix(d, ROLE_STREAM_ROUTER, i, m->n_streams, d->hidden);
    return prog_act(d->b, prog_linear(d->b, h, w, W_NONE), ACT_TANH, 0);
}

static Val stream(const Gemma3n *m, Val x, uint32_t s) {
    return prog_view(m->g.d->b, x, s * m->g.d->hidden, m->g.d->hidden);
}

static Val predict(const Gemma3n *m, Val x, int i) {
    Decoder *d = m->g.d;
    uint32_t n = m->n_streams;
    WeightId w = arch_take_matrix(d, ROLE_STREAM_PREDICT, i, n * n, n);
    Val coef = prog_linear(d->b, modalities(m, stream(m, x, m->active), i), w, W_NONE);
    return prog_add(d->b, x, prog_mix(d->b, x, coef, n, n), 1);
}

static Val correct(const Gemma3n *m, Val predicted, Val came, int i) {
    Decoder *d = m->g.d;
    uint32_t n = m->n_streams;
    WeightId w = arch_take_matrix(d, ROLE_STREAM_CORRECT, i, n, n);
    Val coef = prog_affine(d->b, prog_linear(d->b, modalities(m, came, i), w, W_NONE), 1, 1);
    Val news = prog_add(d->b, came, stream(m, predicted, m->active), -1);
    return prog_add(d->b, predicted, prog_mix(d->b, news, coef, 1, n), 1);
}

static Val laurel(const Gemma3n *m, Val x, int i) {
    Decoder *d = m->g.d;
    Val h =
        prog_linear(d->b, x, arch_take_matrix(d, ROLE_LAUREL_LEFT, i, m->rank, d->hidden), W_NONE);
    h = prog_linear(d->b, h, arch_take_matrix(d, ROLE_LAUREL_RIGHT, i, d->hidden, m->rank), W_NONE);
    return prog_add(d->b, x, gemma_net_norm(&m->g, h, ROLE_LAUREL_NORM, i), 1);
}

/* All streams but the first take in the layer's own input. */
static Val add_input(Gemma3n *m, Val x, int i) {
    Decoder *d = m->g.d;
    Val first = stream(m, x, m->active);
    const char *suffix = d->config->gguf ? ".weight" : "";
    if (m->scaled)
        first = prog_col_scale(d->b, first,
                               arch_take_vector(d, ROLE_STREAM_SCALE, i, suffix, d->hidden), W_NONE,
                               COL_PLAIN);
    Val add = gemma_net_input(&m->g, first, i), all = add;
    for (uint32_t s = 2; s < m->n_streams; s++) all = prog_concat(d->b, all, add);
    Val rest = prog_view(d->b, x, d->hidden, (m->n_streams - 1) * d->hidden);
    return prog_concat(d->b, stream(m, x, 0), prog_add(d->b, rest, all, 1));
}

static Val layer(Gemma3n *m, const GemmaAttn *attn, Val x, int i) {
    GemmaNet *g = &m->g;
    ProgBuilder *b = g->d->b;
    Val predicted = prog_probe(b, predict(m, x, i), "layers.%d.predicted", i);
    Val active = stream(m, predicted, m->active);
    Val normed = gemma_net_norm(g, active, ROLE_ATTN_NORM, i);
    Val h = gemma_net_norm(g, gemma_net_attn(g, attn, normed, i), ROLE_POST_ATTN_NORM, i);
    h = prog_add(b, prog_add(b, active, h, 1), laurel(m, normed, i), 1);
    h = prog_probe(b, prog_scale(b, h, (float)M_SQRT1_2), "layers.%d.mid", i);
    Val f = feed_forward(m, gemma_net_norm(g, h, ROLE_FFN_NORM, i), i);
    h = prog_add(b, h, gemma_net_norm(g, f, ROLE_POST_FFN_NORM, i), 1);
    x = correct(m, predicted, h, i);
    if (g->inputs_dim) x = add_input(m, x, i);
    return prog_probe(b, x, "layers.%d.out", i);
}

/* The projected streams, each as long as the first one. */
static Val as_long(const Gemma3n *m, Val first, Val others) {
    Decoder *d = m->g.d;
    Val length = prog_reduce(d->b, first, REDUCE_RMS, 0, 0);
    return prog_mul(d->b, prog_rms_norm(d->b, others, W_NONE, d->hidden, 1e-10f, 0), length);
}

/* One matrix for each stream but the first. */
static WeightId projections(const Gemma3n *m, Role role) {
    Decoder *d = m->g.d;
    const TakeExperts p = {
        .role = role, .n_experts = m->n_streams - 1, .n = d->hidden, .k = d->hidden};
    return arch_take_experts(d, -1, &p, NULL);
}

static Val spread(const Gemma3n *m, Val x) {
    Val others = prog_linear(m->g.d->b, x, projections(m, ROLE_STREAM_PROJ), W_NONE);
    return prog_concat(m->g.d->b, x, as_long(m, x, others));
}

static Val gather(const Gemma3n *m, Val x) {
    Decoder *d = m->g.d;
    Val first = stream(m, x, 0), sum = first;
    Val others = prog_view(d->b, x, d->hidden, (m->n_streams - 1) * d->hidden);
    others = prog_block_linear(d->b, others, projections(m, ROLE_STREAM_UNPROJ), m->n_streams - 1,
                               d->hidden);
    others = as_long(m, first, others);
    for (uint32_t s = 0; s + 1 < m->n_streams; s++)
        sum = prog_add(d->b, sum, stream(m, others, s), 1);
    return prog_scale(d->b, sum, 1 / (float)m->n_streams);
}

static bool build(Decoder *d, ArchModel *out, Err *err) {
    Gemma3n m = {
        .g = {.d = d, .default_shared = SHARED, .default_keyed = KEYED, .default_softcap = 30}};
    if (!read(&m, err)) return false;
    WeightId table = arch_take_table(d, ROLE_EMBED, d->vocab, d->hidden);
    Val x = prog_probe(d->b, prog_embed(d->b, table, d->embed_scale), "embed");
    if (!gemma_net_inputs(&m.g, x, err)) return false;
    for (int full = 0; full < GEMMA_KINDS; full++)
        if (!gemma_net_rope(&m.g, full, d->layer.head_dim, err)) return false;
    x = spread(&m, x);
    for (uint32_t i = 0; i < d->n_layers; i++) {
        GemmaAttn attn = {.n_kv_heads = d->layer.n_kv_heads, .head_dim = d->layer.head_dim};
        if (!gemma_net_is_full(&m.g, (int)i, PATTERN, &attn.full, err)) return false;
        x = layer(&m, &attn, x, (int)i);
    }
    return gemma_net_finish(&m.g, gather(&m, prog_select(d->b, x)), out, err);
}

static bool gguf_keys(Decoder *d, GgufKeys *k, Err *err) {
    Gemma3n m = {
        .g = {.d = d, .default_shared = SHARED, .default_keyed = KEYED, .default_softcap = 30}};
    uint32_t n = d->n_layers;
    int32_t *widths = arena_array(k->a, int32_t, n);
    float *cuts = arena_array(k->a, float, n);
    if (!widths || !cuts) return err_nomem(err, "GGUF keys");
    if (!read(&m, err) || !gemma_net_gguf_keys(&m.g, PATTERN, k, err)) return false;
    for (uint32_t kind = 0; kind < GEMMA_KINDS; kind++)
        if (!gemma_net_rope(&m.g, kind, d->layer.head_dim, err)) return false;
    for (uint32_t i = 0; i < n; i++) {
        widths[i] = (int32_t)m.widths[m.n_widths > 1 ? i : 0];
        cuts[i] = (float)m.cuts[i];
    }
    gguf_write_i32s(k->out, gguf_keys_name(k, "feed_forward_length"), widths, n);
    gguf_write_f32s(k->out, gguf_keys_name(k, "activation_sparsity_scale"), cuts, n);
    gguf_keys_u32(k, "attention.head_count_kv", d->layer.n_kv_heads);
    gguf_keys_u32(k, "attention.key_length", d->layer.head_dim);
    gguf_keys_u32(k, "attention.value_length", d->layer.head_dim);
    gguf_keys_f32(k, "rope.freq_base", m.g.rope[1].theta);
    gguf_keys_f32(k, "rope.freq_base_swa", m.g.rope[0].theta);
    gguf_keys_u32(k, "altup.num_inputs", m.n_streams);
    gguf_keys_u32(k, "altup.active_idx", m.active);
    return true;
}

static const RoleDelta NAMES[] = {
    GEMMA_NET_ROLES,
    {ROLE_STREAM_PROJ, {"altup_projections.%e", "altup_proj"}},
    {ROLE_STREAM_UNPROJ, {"altup_unembed_projections.%e", "altup_unembd_proj"}},
    {ROLE_STREAM_NORM, {"layers.%d.altup.router_norm", "blk.%d.altup_router_norm"}},
    {ROLE_STREAM_ROUTER, {"layers.%d.altup.modality_router", "blk.%d.altup_router"}},
    {ROLE_STREAM_PREDICT, {"layers.%d.altup.prediction_coefs", "blk.%d.altup_predict_coef"}},
    {ROLE_STREAM_CORRECT, {"layers.%d.altup.correction_coefs", "blk.%d.altup_correct_coef"}},
    {ROLE_STREAM_SCALE, {"layers.%d.altup.correct_output_scale", "blk.%d.altup_correct_scale"}},
    {ROLE_LAUREL_LEFT, {"layers.%d.laurel.linear_left", "blk.%d.laurel_l"}},
    {ROLE_LAUREL_RIGHT, {"layers.%d.laurel.linear_right", "blk.%d.laurel_r"}},
    {ROLE_LAUREL_NORM, {"layers.%d.laurel.post_laurel_norm", "blk.%d.laurel_post_norm"}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_GEMMA3N = {
    .name = "gemma3n",
    .kind = "text",
    .model_types = (const char *const[]){"gemma3n_text", NULL},
    .hf_class = "Gemma3nForCausalLM",
    .gguf = (const char *const[]){"gemma3n", NULL},
    .names = NAMES,
    .mlx_same_places = true,
    .ignored = (const char *const[]){"*.rotary_emb.inv_freq", NULL},
    .head_dim = 256,
    .gguf_keys = gguf_keys,
    .build = build,
};
