/* The generic decoder: Llama's shape, driven by LayerSpecs. */
#include "arch/decoder_config.h"
#include "arch/mixer.h"
#include "arch/take.h"
#include "block/attn.h"
#include "block/moe.h"

static AttnBlock attn_block(Decoder *d, const LayerSpec *l, int i) {
    uint32_t nq = l->n_heads * l->head_dim, nk = l->n_kv_heads * l->head_dim,
             nv = l->n_kv_heads * l->v_dim;
    Transform t = d->arch->gguf_unpermute ? TRANSFORM_UNPERMUTE : TRANSFORM_NONE;
    TakePart qkv[4] = {
        {.role = ROLE_Q, .n = nq, .k = d->hidden, .transform = t, .head_dim = l->head_dim},
        {.role = ROLE_K, .n = nk, .k = d->hidden, .transform = t, .head_dim = l->head_dim},
        {.role = ROLE_V, .n = nv, .k = d->hidden}};
    int n_parts = 3;
    if (l->gate_in_q) {
        qkv[3] = qkv[0];
        for (int j = 0; j < 2; j++) {
            qkv[3 * j].n_stored = 2 * nq;
            qkv[3 * j].rows =
                arch_every(d, nq, l->head_dim, (uint32_t)j * l->head_dim, 2 * l->head_dim);
        }
        n_parts = 4;
    }
    AttnBlock p = {
        .n_heads = l->n_heads,
        .n_kv_heads = l->n_kv_heads,
        .head_dim = l->head_dim,
        .v_dim = l->v_dim,
        .window = l->window,
        .scale = l->attn_scale,
        .softcap = l->attn_softcap,
        .rope = l->rope,
        .interleaved = l->rope_interleaved,
        .warmth = d->layer.warmth.scale != 0 ? d->warmth : VAL_NONE,
        .qkv_bias = W_NONE,
        .q_norm = W_NONE,
        .k_norm = W_NONE,
        .sinks = W_NONE,
        .o_bias = W_NONE,
        .norm_eps = d->eps,
        .norm_w_add = d->norm_add,
        .qk_norm_whole = l->qk_norm_whole,
        .gated = l->gate_in_q,
    };
    if (l->rope) p.rope_spec = prog_rope_spec(d->b, l->rope_spec);
    p.qkv = l->fused_qkv ? arch_take_matrix(d, ROLE_QKV, i, nq + nk + nv, d->hidden)
                         : arch_take(d, WEIGHT_MATRIX, i, ".weight", qkv, n_parts);
    if (l->qkv_bias) p.qkv_bias = arch_take_biases(d, i, qkv, n_parts);
    if (l->qk_norm) {
        p.q_norm =
            arch_take_vector(d, ROLE_Q_NORM, i, ".weight", l->qk_norm_whole ? nq : l->head_dim);
        p.k_norm =
            arch_take_vector(d, ROLE_K_NORM, i, ".weight", l->qk_norm_whole ? nk : l->head_dim);
    }
    if (l->sinks) /* a parameter without a module, but for GGUF */
        p.sinks = arch_take_vector(d, ROLE_SINKS, i, d->config->gguf ? ".weight" : "", l->n_heads);
    p.o = arch_take_matrix(d, ROLE_O, i, d->hidden, l->n_heads * l->v_dim);
    if (l->o_bias) p.o_bias = arch_take_vector(d, ROLE_O, i, ".bias", d->hidden);
    return p;
}

FfnBlock mixer_ffn_take(Decoder *d, const LayerSpec *l, int i) {
    TakePart in[2] = {{.role = ROLE_GATE, .n = l->ffn_width, .k = d->hidden},
                      {.role = ROLE_UP, .n = l->ffn_width, .k = d->hidden}};
    const TakePart *first = l->gated ? in : in + 1;
    int n_in = l->gated ? 2 : 1;
    FfnBlock p = {.width = l->ffn_width,
                  .gated = l->gated,
                  .act = l->act,
                  .in_bias = W_NONE,
                  .down_bias = W_NONE};
    p.in = l->fused_gate_up ? arch_take_matrix(d, ROLE_GATE_UP, i, 2 * l->ffn_width, d->hidden)
                            : arch_take(d, WEIGHT_MATRIX, i, ".weight", first, n_in);
    p.down = arch_take_matrix(d, ROLE_DOWN, i, d->hidden, l->ffn_width);
    if (l->mlp_bias) {
        p.in_bias = arch_take_biases(d, i, first, n_in);
        p.down_bias = arch_take_vector(d, ROLE_DOWN, i, ".bias", d->hidden);
    }
    return p;
}

/* Some files have stacked experts the other way round, [experts, inputs, outputs], which one of
 * the two stacks' shapes tells in any case. */
static bool stacks_turned(const Decoder *d, const MoeSpec *m, int i) {
    uint64_t in = weights_last(d->weights, ROLE_EXPERT_GATE_UP, i, ""),
             down = weights_last(d->weights, ROLE_EXPERT_DOWNS, i, "");
    return 2 * m->width == d->hidden ? down == d->hidden : in && in != d->hidden;
}

static void moe_stacks(const Decoder *d, const MoeSpec *m, int i, TakeExperts *gate,
                       TakeExperts *up, TakeExperts *down) {
    gate->role = up->role = ROLE_EXPERT_GATE_UP, down->role = ROLE_EXPERT_DOWNS;
    if (stacks_turned(d, m, i)) {
        gate->across = up->across = down->across = true;
        gate->stored = up->stored = d->hidden, down->stored = m->width;
        gate->columns = up->columns = 2 * m->width, up->column = m->width;
        return;
    }
    gate->stored = up->stored = 2 * m->width, up->first = m->width;
    down->stored = d->hidden;
}

static void moe_experts(Decoder *d, const MoeSpec *m, int i, MoeBlock *p) {
    TakeExperts gate = {
        .role = ROLE_EXPERT_GATE, .n_experts = m->n_experts, .n = m->width, .k = d->hidden};
    TakeExperts up = gate, down = gate;
    up.role = m->interleaved ? ROLE_EXPERT_GATE : ROLE_EXPERT_UP;
    if (m->interleaved) gate.step = up.step = 2, up.first = 1;
    down.role = ROLE_EXPERT_DOWN, down.n = d->hidden, down.k = m->width;
    /* some GGUF files have them so, whatever the family */
    bool fused = d->config->gguf && weights_has(d->weights, ROLE_EXPERT_GATE_UP, i, ".weight");
    if (m->stacked || fused) moe_stacks(d, m, i, &gate, &up, &down);
    p->gate = arch_take_experts(d, i, &gate, m->biases ? &p->gate_bias : NULL);
    p->up = arch_take_experts(d, i, &up, m->biases ? &p->up_bias : NULL);
    p->down = arch_take_experts(d, i, &down, m->biases ? &p->down_bias : NULL);
}

MoeBlock mixer_moe_take(Decoder *d, const LayerSpec *l, int i) {
    const MoeSpec *m = &l->moe;
    MoeBlock p = {
        .route = {.fn = m->fn,
                  .normalize = m->normalize,
                  .n_experts = m->n_experts,
                  .k = m->k,
                  .n_groups = m->n_groups,
                  .k_groups = m->k_groups,
                  .group_top = m->group_top,
                  .scale = m->scale},
        .width = m->width,
        .hidden = d->hidden,
        .act = l->act,
        .gate_bias = W_NONE,
        .up_bias = W_NONE,
        .down_bias = W_NONE,
        .limit = m->limit,
        .up_add = m->up_add,
        .router_bias = W_NONE,
        .select_bias = W_NONE,
        .shared = m->shared_width > 0,
        .shared_gate = W_NONE,
    };
    p.router = arch_take_matrix(d, ROLE_ROUTER, i, m->n_experts, d->hidden);
    if (m->biases) p.router_bias = arch_take_vector(d, ROLE_ROUTER, i, ".bias", m->n_experts);
    if (m->select_bias) /* a parameter without a module, but for GGUF */
        p.select_bias =
            arch_take_vector(d, ROLE_SELECT_BIAS, i, d->config->gguf ? ".bias" : "", m->n_experts);
    moe_experts(d, m, i, &p);
    if (!p.shared) return p;
    static const Role SHARED[3] = {ROLE_SHARED_GATE, ROLE_SHARED_UP, ROLE_SHARED_DOWN};
    p.shared_ffn = arch_take_gated(d, i, SHARED, m->shared_width, l->act);
    if (m->shared_switch) p.shared_gate = arch_take_matrix(d, ROLE_SHARED_SWITCH, i, 1, d->hidden);
    return p;
}

Val mixer_norm(Decoder *d, Val x, Role role, int i) {
    return prog_rms_norm(d->b, x, arch_take_vector(d, role, i, ".weight", d->hidden), 0, d->eps,
                         d->norm_add);
}

static Val feed_forward(Decoder *d, const LayerSpec *l, Val h, int i) {
    if (l->moe.n_experts) {
        MoeBlock moe = mixer_moe_take(d, l, i);
        return block_moe(d->b, &moe, h, i);
    }
    FfnBlock ffn = mixer_ffn_take(d, l, i);
    return block_ffn(d->b, &ffn, h, i);
}

Val mixer_attn(Decoder *d, const LayerSpec *l, Val h, int i) {
    AttnBlock attn = attn_block(d, l, i);
    return block_attn(d->b, &attn, h, i);
}

static Val mix(Decoder *d, const LayerSpec *l, Val h, int i) {
    switch (l->mixer) {
    case MIXER_SHORTCONV:
        return mixer_shortconv(d, l, h, i);
    case MIXER_DELTA:
        return mixer_delta(d, l, h, i);
    case MIXER_MLA:
        return mixer_mla(d, l, h, i);
    case MIXER_MAMBA1:
        return mixer_mamba1(d, l, h, i);
    case MIXER_MAMBA2:
        return mixer_mamba2(d, l, h, i);
    case MIXER_RG_LRU:
        return mixer_rglru(d, l, h, i);
    case MIXER_ATTN:
        break;
    }
    return mixer_attn(d, l, h, i);
}

static Val build_layer(Decoder *d, const LayerSpec *l, Val x, int i) {
    ProgBuilder *b = d->b;
    Val h = prog_probe(b, mixer_norm(d, x, ROLE_ATTN_NORM, i), "layers.%d.attn.in", i);
    h = mix(d, l, h, i);
    if (l->post_norms) h = mixer_norm(d, h, ROLE_POST_ATTN_NORM, i);
    x = prog_add(b, x, h, l->residual_scale);
    if (!l->ffn_width && !l->moe.n_experts) return prog_probe(b, x, "layers.%d.out", i);
    prog_probe(b, x, "layers.%d.mid", i);
    h = prog_probe(b, mixer_norm(d, x, ROLE_FFN_NORM, i), "layers.%d.ffn.in", i);
    h = feed_forward(d, l, h, i);
    if (l->post_norms) h = mixer_norm(d, h, ROLE_POST_FFN_NORM, i);
    x = prog_add(b, x, h, l->residual_scale);
    return prog_probe(b, x, "layers.%d.out", i);
}

/* A config may ask for a tie where the file has a head of its own: if that differs, it is the head. */
static void untie(Decoder *d) {
    if (d->tied && weights_has(d->weights, ROLE_HEAD, -1, ".weight"))
        d->tied = weights_same(d->weights, ROLE_EMBED, ROLE_HEAD);
}

Val decoder_head(Decoder *d, Val x) {
    ProgBuilder *b = d->b;
    untie(d);
    x = prog_probe(b, mixer_norm(d, x, ROLE_FINAL_NORM, -1), "final_norm");
    prog_output(b, x, "hidden");
    if (d->tied) weights_ignore(d->weights, ROLE_HEAD, -1);
    WeightId head = arch_take_matrix(d, d->tied ? ROLE_EMBED : ROLE_HEAD, -1, d->vocab, d->hidden);
    Val logits = prog_linear_precise(b, x, head, W_NONE);
    if (d->logit_softcap != 0) logits = prog_act(b, logits, ACT_SOFTCAP, d->logit_softcap);
    if (d->logit_scale != 1) logits = prog_scale(b, logits, d->logit_scale);
    return prog_probe(b, logits, "logits");
}

bool decoder_finish(Decoder *d, ArchModel *out, Err *err) {
    Decoder *resolved = arena_new(d->arena, Decoder);
    if (!resolved) return err_nomem(err, "model description");
    if (!prog_finish(d->b, &out->text, err)) return false;
    *resolved = *d;
    out->resolved = resolved;
    out->hidden = d->hidden;
    out->n_layers = d->n_layers;
    out->vocab = d->vocab;
    if (!out->context) out->context = decoder_context(d);
    for (uint32_t i = 0; i < out->text->n_ropes && !out->class_rope; i++) {
        RopeKind kind = out->text->ropes[i].kind;
        if (kind == ROPE_DYNAMIC || kind == ROPE_LONG) out->class_rope = &out->text->ropes[i];
    }
    return true;
}

Val decoder_embed(Decoder *d, WeightId table) {
    ProgBuilder *b = d->b;
    if (!d->media) return prog_probe(b, prog_embed(b, table, d->embed_scale), "embed");
    Val media = prog_input(b, "image_embeds", SPACE_T, d->hidden);
    return prog_probe(b, prog_embed_media(b, table, d->embed_scale, media), "embed");
}

const char *decoder_deepstack_name(uint32_t i) {
    static const char *const NAMES[DECODER_MAX_DEEPSTACK] = {
        "deepstack_embeds.0", "deepstack_embeds.1", "deepstack_embeds.2", "deepstack_embeds.3",
        "deepstack_embeds.4", "deepstack_embeds.5", "deepstack_embeds.6", "deepstack_embeds.7"};
    return NAMES[i];
}

Val decoder_deepstack(Decoder *d, Val x, uint32_t i) {
    if (i >= d->n_deepstack) return x;
    return prog_add(d->b, x, prog_input(d->b, decoder_deepstack_name(i), SPACE_T, d->hidden), 1);
}

bool decoder_build(Decoder *d, ArchModel *out, Err *err) {
    if (!decoder_read(d, err) || !decoder_rope_tensors(d, err)) return false;
    if (d->arch->adjust && !d->arch->adjust(d, err)) return false;
    WeightId table = arch_take_table(d, ROLE_EMBED, d->vocab, d->hidden);
    if (table == W_NONE) return weights_finish(d->weights, err);
    Val x = decoder_embed(d, table);
    if (d->layer.warmth.scale != 0) d->warmth = prog_pos_scale(d->b, d->layer.warmth);
    LayerSpec *layers = arena_array(d->arena, LayerSpec, d->n_layers);
    if (!layers) return err_nomem(err, "model description");
    for (uint32_t i = 0; i < d->n_layers; i++) {
        LayerSpec *l = &layers[i];
        *l = d->layer;
        if (d->config->gguf && !d->arch->no_attn &&
            !decoder_kv_heads(d, (int)i, l->n_kv_heads, &l->n_kv_heads, err))
            return false;
        if (d->arch->layer && !d->arch->layer(d, (int)i, l, err)) return false;
        if (l->mixer == MIXER_ATTN && (!l->n_kv_heads || l->n_heads % l->n_kv_heads))
            return err_set(err, ERR_INPUT, "%u attention heads and %u key heads in layer %u",
                           l->n_heads, l->n_kv_heads, i);
        x = d->arch->body ? d->arch->body(d, l, x, (int)i) : build_layer(d, l, x, (int)i);
        x = decoder_deepstack(d, x, i);
    }
    prog_output(d->b, decoder_head(d, prog_select(d->b, x)), "logits");
    out->layers = layers;
    if (!weights_finish(d->weights, err)) return false;
    return decoder_finish(d, out, err);
}
