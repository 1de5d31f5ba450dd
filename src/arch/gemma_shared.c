#include "arch/gemma_shared.h"

#include <math.h>

#include "arch/gguf_keys.h"

enum { MAX_INPUTS_DIM = 1 << 14 };

bool gemma_net_read(GemmaNet *g, Err *err) {
    Decoder *d = g->d;
    const Config *c = d->config;
    int64_t shared, inputs, window;
    double cap;
    if (!decoder_read(d, err)) return false;
    uint32_t dflt = g->default_shared, keyed = g->default_keyed;
    if (c->gguf) dflt = keyed && keyed < d->n_layers ? d->n_layers - keyed : 0;
    if (dflt >= d->n_layers) dflt = d->n_layers - 1;
    bool no_inputs = c->gguf && !weights_has(d->weights, ROLE_INPUTS_EMBED, -1, ".weight");
    if (!config_has(c, "hidden_activation|hidden_act")) d->layer.act = ACT_GELU_TANH;
    d->layer.attn_scale = 1;
    d->norm_add = 0;
    d->embed_scale = (float)sqrt((double)d->hidden);
    const Config *tie = c->parent && !config_has(c, "tie_word_embeddings") ? c->parent : c;
    if (!config_int(c, "num_kv_shared_layers", dflt, 0, d->n_layers - 1, &shared, err) ||
        !config_int(c, "hidden_size_per_layer_input", no_inputs ? 0 : 256, 0, MAX_INPUTS_DIM,
                    &inputs, err) ||
        !config_int(c, "sliding_window", c->gguf ? CONFIG_REQUIRED : 512, 1, UINT32_MAX, &window,
                    err) ||
        !config_float(c, "final_logit_softcapping", g->default_softcap, 0, 1e6, &cap, err) ||
        !config_bool(tie, "tie_word_embeddings", true, &d->tied, err) || !decoder_attn_bias(d, err))
        return false;
    Str ways;
    Err kind = {0}; /* false, null or "vision": text goes one way */
    if (config_str(c, "use_bidirectional_attention", "vision", &ways, &kind) &&
        !str_eqc(ways, "vision"))
        return err_set(err, ERR_UNSUPPORTED,
                       "use_bidirectional_attention is \"" STR_F "\"; \"vision\" is accepted",
                       STR_A(ways));
    g->n_shared = (uint32_t)shared;
    g->inputs_dim = (uint32_t)inputs;
    g->window = (uint32_t)window;
    d->logit_softcap = (float)cap;
    for (int k = 0; k < GEMMA_KINDS; k++) g->planes[k].k = g->planes[k].v = PLANE_NONE;
    return true;
}

bool gemma_net_is_full(const GemmaNet *g, int i, int64_t pattern, bool *full, Err *err) {
    if (g->d->config->gguf) {
        bool sliding, ok = decoder_layer_type(g->d, i, "sliding_attention", (i + 1) % pattern != 0,
                                              &sliding, err);
        *full = ok && !sliding;
        return ok;
    }
    return decoder_layer_type(g->d, i, "full_attention", (i + 1) % pattern == 0, full, err);
}

/* Window layers have no scaling; a divisor for each pair, if there are some, is for full layers. */
static bool gguf_rope(GemmaNet *g, bool full, uint32_t head_dim, Err *err) {
    Decoder *d = g->d;
    RopeSpec *r = &g->rope[full];
    if (full) {
        if (!rope_config_read(d->config, d->arena, head_dim, 1e6, 1, r, err)) return false;
        r->short_factor = d->layer.rope_spec.short_factor;
        return true;
    }
    int64_t dim;
    *r = (RopeSpec){.kind = ROPE_PLAIN, .factor = 1};
    if (!config_int(d->config, ".rope.dimension_count_swa", head_dim, 2, head_dim, &dim, err) ||
        !config_float(d->config, "rope_local_base_freq", 1e4, 1e-3, 1e30, &r->theta, err))
        return false;
    r->rot_dim = r->freq_dim = (uint32_t)dim / 2 * 2;
    return true;
}

bool gemma_net_rope(GemmaNet *g, bool full, uint32_t head_dim, Err *err) {
    Decoder *d = g->d;
    RopeSpec *r = &g->rope[full];
    double theta = full ? 1e6 : 1e4;
    if (g->rope_of[full] == head_dim) return true; /* one spec for all layers of a kind */
    g->rope_of[full] = head_dim;
    if (d->config->gguf) return gguf_rope(g, full, head_dim, err);
    if (rope_config_has_kinds(d->config))
        return rope_config_kind(d->config, d->arena, full ? "full_attention" : "sliding_attention",
                                head_dim, theta, ROPE_WHOLE, r, err);
    *r = (RopeSpec){.kind = ROPE_PLAIN, .rot_dim = head_dim, .freq_dim = head_dim, .factor = 1};
    return config_float(d->config, full ? "rope_theta" : "rope_local_base_freq", theta, 1e-3, 1e30,
                        &r->theta, err);
}

bool gemma_net_gguf_keys(GemmaNet *g, int64_t pattern, GgufKeys *k, Err *err) {
    uint32_t n = g->d->n_layers;
    bool *windowed = arena_array(k->a, bool, n), full;
    if (!windowed) return err_nomem(err, "GGUF keys");
    for (uint32_t i = 0; i < n; i++) {
        if (!gemma_net_is_full(g, (int)i, pattern, &full, err)) return false;
        windowed[i] = !full;
    }
    gguf_write_bools(k->out, gguf_keys_name(k, "attention.sliding_window_pattern"), windowed, n);
    gguf_keys_u32(k, "attention.sliding_window", g->window);
    gguf_keys_u32(k, "attention.shared_kv_layers", g->n_shared);
    gguf_keys_u32(k, "embedding_length_per_layer_input", g->inputs_dim);
    return true;
}

bool gemma_net_reuses(const GemmaNet *g, int i) {
    return (uint32_t)i >= g->d->n_layers - g->n_shared;
}

Val gemma_net_norm(const GemmaNet *g, Val x, Role role, int i) {
    Decoder *d = g->d;
    return prog_rms_norm(d->b, x, arch_take_vector(d, role, i, ".weight", d->hidden), 0, d->eps, 0);
}

static Val head_norm(GemmaNet *g, Val x, Role role, int i, uint32_t head_dim) {
    Decoder *d = g->d;
    WeightId w = role == ROLE_COUNT ? W_NONE : arch_take_vector(d, role, i, ".weight", head_dim);
    return prog_rms_norm(d->b, x, w, head_dim, d->eps, 0);
}

static void write_planes(GemmaNet *g, const GemmaAttn *p, Val k, Val v, int i) {
    ProgPlane plane = {.layer = i,
                       .heads = p->n_kv_heads,
                       .head_cols = p->head_dim,
                       .keep = p->full ? KEEP_ALL : KEEP_WINDOW,
                       .span = g->window,
                       .use = PLANE_KEY};
    g->planes[p->full].k = prog_plane(g->d->b, plane);
    plane.use = PLANE_VALUE;
    g->planes[p->full].v = prog_plane(g->d->b, plane);
    prog_kv_write(g->d->b, k, g->planes[p->full].k);
    prog_kv_write(g->d->b, v, g->planes[p->full].v);
}

Val gemma_net_attn(GemmaNet *g, const GemmaAttn *p, Val x, int i) {
    Decoder *d = g->d;
    ProgBuilder *b = d->b;
    bool own = !gemma_net_reuses(g, i);
    uint32_t nq = d->layer.n_heads * p->head_dim, nk = p->n_kv_heads * p->head_dim;
    uint32_t rope = prog_rope_spec(b, g->rope[p->full]);
    const TakePart parts[3] = {{.role = ROLE_Q, .n = nq, .k = d->hidden},
                               {.role = ROLE_K, .n = nk, .k = d->hidden},
                               {.role = ROLE_V, .n = nk, .k = d->hidden}};
    int n_parts = own ? (p->k_is_v ? 2 : 3) : 1;
    WeightId w = arch_take(d, WEIGHT_MATRIX, i, ".weight", parts, n_parts), bias = W_NONE,
             o = arch_take_matrix(d, ROLE_O, i, d->hidden, nq), o_bias = W_NONE;
    if (d->layer.qkv_bias) {
        bias = arch_take_biases(d, i, parts, n_parts);
        o_bias = arch_take_vector(d, ROLE_O, i, ".bias", d->hidden);
    }
    Val h = prog_probe(b, prog_linear_precise(b, x, w, bias), "layers.%d.attn.qkv", i);
    Val q = head_norm(g, prog_view(b, h, 0, nq), ROLE_Q_NORM, i, p->head_dim);
    q = prog_rope(b, q, rope, d->layer.n_heads, p->head_dim, 0, false);
    if (!own) { /* some files keep what nobody uses */
        weights_ignore(d->weights, ROLE_K, i);
        weights_ignore(d->weights, ROLE_V, i);
        weights_ignore(d->weights, ROLE_K_NORM, i);
    } else {
        Val k = prog_view(b, h, nq, nk), v = p->k_is_v ? k : prog_view(b, h, nq + nk, nk);
        k = head_norm(g, k, ROLE_K_NORM, i, p->head_dim);
        k = prog_rope(b, k, rope, p->n_kv_heads, p->head_dim, 0, false);
        write_planes(g, p, k, head_norm(g, v, ROLE_COUNT, i, p->head_dim), i);
    }
    OpAttn attn = {.n_heads = d->layer.n_heads,
                   .n_kv_heads = p->n_kv_heads,
                   .head_dim = p->head_dim,
                   .v_dim = p->head_dim,
                   .window = p->full ? 0 : g->window,
                   .scale = 1};
    h = prog_attn(b, q, g->planes[p->full].k, g->planes[p->full].v, W_NONE, attn);
    return prog_probe(b, prog_linear(b, h, o, o_bias), "layers.%d.attn.out", i);
}

bool gemma_net_inputs(GemmaNet *g, Val embeds, Err *err) {
    Decoder *d = g->d;
    uint32_t n = g->inputs_dim * d->n_layers;
    int64_t rows;
    if (!g->inputs_dim) return true;
    if (!config_int(d->config, "vocab_size_per_layer_input", d->vocab, 1, INT32_MAX, &rows, err))
        return false;
    if (d->config->gguf) rows = weights_rows(d->weights, ROLE_INPUTS_EMBED, -1);
    WeightId table = arch_take_table(d, ROLE_INPUTS_EMBED, (uint32_t)rows, n);
    Val own = prog_embed_known(d->b, table, (float)sqrt((double)g->inputs_dim));
    Val x =
        prog_linear(d->b, embeds, arch_take_matrix(d, ROLE_INPUTS_PROJ, -1, n, d->hidden), W_NONE);
    x = prog_scale(d->b, x, (float)(1 / sqrt((double)d->hidden)));
    x = prog_rms_norm(d->b, x, arch_take_vector(d, ROLE_INPUTS_NORM, -1, ".weight", g->inputs_dim),
                      g->inputs_dim, d->eps, 0);
    g->inputs = prog_scale(d->b, prog_add(d->b, x, own, 1), (float)M_SQRT1_2);
    prog_probe(d->b, g->inputs, "layer_inputs");
    return true;
}

Val gemma_net_input(GemmaNet *g, Val x, int i) {
    Decoder *d = g->d;
    uint32_t n = g->inputs_dim;
    Val own = prog_view(d->b, g->inputs, (uint32_t)i * n, n);
    x = prog_linear(d->b, x, arch_take_matrix(d, ROLE_INPUTS_GATE, i, n, d->hidden), W_NONE);
    x = prog_glu(d->b, x, own, d->layer.act);
    x = prog_linear(d->b, x, arch_take_matrix(d, ROLE_INPUTS_OUT, i, d->hidden, n), W_NONE);
    return prog_probe(d->b, gemma_net_norm(g, x, ROLE_INPUTS_POST_NORM, i), "layers.%d.input", i);
}

bool gemma_net_finish(GemmaNet *g, Val x, ArchModel *out, Err *err) {
    Decoder *d = g->d;
    prog_output(d->b, decoder_head(d, x), "logits");
    return weights_finish(d->weights, err) && decoder_finish(d, out, err);
}
