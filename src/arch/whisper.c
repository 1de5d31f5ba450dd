#include "arch/whisper.h"

#include <math.h>

enum {
    MAX_WIDTH = 1 << 16,
    MAX_FFN = 1 << 20,
    MAX_LAYERS = 1024,
    MAX_HEADS = 1024,
    MAX_MELS = 1 << 12,
    MAX_POSITIONS = 1 << 20
};

/* ---- both sides ---- */

/* MLX files keep OpenAI's names of sizes, whose feed-forwards are four times as wide. */
bool whisper_read(const Config *c, Whisper *out, Err *err) {
    const bool brief = config_has(c, "n_audio_state");
    WhisperSide *e = &out->encoder, *d = &out->decoder;
    Str act;
    if (!config_u32(c, "d_model|hidden_size|n_audio_state", 384, 1, MAX_WIDTH, &out->width, err) ||
        !config_u32(c, "vocab_size|n_vocab", 51865, 1, INT32_MAX, &out->vocab, err) ||
        !config_u32(c, "num_mel_bins|n_mels", 80, 1, MAX_MELS, &out->n_mels, err) ||
        !config_u32(c, "max_source_positions|n_audio_ctx", 1500, 1, MAX_POSITIONS, &out->n_source,
                    err) ||
        !config_u32(c, "max_target_positions|n_text_ctx", 448, 1, MAX_POSITIONS, &out->n_target,
                    err) ||
        !config_u32(c, "encoder_layers|num_hidden_layers|n_audio_layer", 4, 0, MAX_LAYERS,
                    &e->n_layers, err) ||
        !config_u32(c, "encoder_attention_heads|num_attention_heads|n_audio_head", 6, 1, MAX_HEADS,
                    &e->n_heads, err) ||
        !config_u32(c, "decoder_layers|n_text_layer", 4, 1, MAX_LAYERS, &d->n_layers, err) ||
        !config_u32(c, "decoder_attention_heads|n_text_head", 6, 1, MAX_HEADS, &d->n_heads, err))
        return false;
    uint32_t ffn = brief ? 4 * out->width : 1536, text_width;
    if (!config_u32(c, "encoder_ffn_dim", ffn, 1, MAX_FFN, &e->ffn_width, err) ||
        !config_u32(c, "decoder_ffn_dim", ffn, 1, MAX_FFN, &d->ffn_width, err) ||
        !config_u32(c, "n_text_state", out->width, 1, MAX_WIDTH, &text_width, err) ||
        !config_bool(c, "tie_word_embeddings", true, &out->tied, err) ||
        !config_str(c, "activation_function", "gelu", &act, err) || !act_parse(act, &out->act, err))
        return false;
    if (text_width != out->width)
        return err_set(err, ERR_UNSUPPORTED, "n_text_state %u beside n_audio_state %u", text_width,
                       out->width);
    if (out->width % e->n_heads || out->width % d->n_heads)
        return err_set(err, ERR_INPUT, "d_model %u does not divide over %u and %u heads",
                       out->width, e->n_heads, d->n_heads);
    return true;
}

Vit whisper_side(const Whisper *w, const WhisperSide *s, Decoder *d) {
    d->hidden = w->width;
    d->n_layers = s->n_layers;
    d->vocab = w->vocab;
    d->eps = 1e-5F;
    return (Vit){.d = d,
                 .n_heads = s->n_heads,
                 .head_dim = w->width / s->n_heads,
                 .ffn_width = s->ffn_width,
                 .act = w->act};
}

/* Keys have no bias. */
static Val project(const Vit *v, Val x, Role role, int i) {
    Decoder *d = v->d;
    WeightId w = arch_take_matrix(d, role, i, d->hidden, d->hidden), bias = W_NONE;
    if (role != ROLE_K && role != ROLE_CROSS_K)
        bias = arch_take_vector(d, role, i, ".bias", d->hidden);
    return prog_linear_precise(d->b, x, w, bias);
}

void whisper_store(const Vit *v, Val x, Role key, Role value, int i, PlaneId k, PlaneId val) {
    prog_kv_write(v->d->b, project(v, x, key, i), k);
    prog_kv_write(v->d->b, project(v, x, value, i), val);
}

Val whisper_attend(const Vit *v, Val x, Role query, Role out, int i, PlaneId k, PlaneId val,
                   bool cross) {
    const OpAttn p = {.n_heads = v->n_heads,
                      .n_kv_heads = v->n_heads,
                      .head_dim = v->head_dim,
                      .v_dim = v->head_dim,
                      .scale = (float)(1 / sqrt((double)v->head_dim)),
                      .cross = cross};
    Val h = prog_attn(v->d->b, project(v, x, query, i), k, val, W_NONE, p);
    return vit_linear(v, h, out, i, v->d->hidden, v->d->hidden);
}

Val whisper_feed(const Vit *v, Val x, int i) {
    ProgBuilder *b = v->d->b;
    Val h = vit_norm(v, x, ROLE_FFN_NORM, i);
    h = prog_act(b, vit_linear(v, h, ROLE_UP, i, v->ffn_width, v->d->hidden), v->act, 0);
    h = vit_linear(v, h, ROLE_DOWN, i, v->d->hidden, v->ffn_width);
    return prog_probe(b, prog_add(b, x, h, 1), "layers.%d.out", i);
}

/* ---- the decoder and the cross program ---- */

typedef struct LayerPlanes {
    PlaneId k, v, cross_k, cross_v;
} LayerPlanes;

static LayerPlanes planes_of(const Vit *v, int i) {
    ProgBuilder *b = v->d->b;
    ProgPlane k = {.layer = i, .heads = v->n_heads, .head_cols = v->head_dim, .use = PLANE_KEY},
              val = k;
    val.use = PLANE_VALUE;
    LayerPlanes p = {.k = prog_plane(b, k), .v = prog_plane(b, val)};
    k.keep = val.keep = KEEP_CROSS;
    p.cross_k = prog_plane(b, k);
    p.cross_v = prog_plane(b, val);
    return p;
}

static Val layer(const Vit *v, const LayerPlanes *p, Val x, int i) {
    ProgBuilder *b = v->d->b;
    Val h = prog_probe(b, vit_norm(v, x, ROLE_ATTN_NORM, i), "layers.%d.attn.in", i);
    whisper_store(v, h, ROLE_K, ROLE_V, i, p->k, p->v);
    h = whisper_attend(v, h, ROLE_Q, ROLE_O, i, p->k, p->v, false);
    x = prog_add(b, x, h, 1);
    h = vit_norm(v, x, ROLE_CROSS_NORM, i);
    h = whisper_attend(v, h, ROLE_CROSS_Q, ROLE_CROSS_O, i, p->cross_k, p->cross_v, true);
    x = prog_probe(b, prog_add(b, x, h, 1), "layers.%d.mid", i);
    return whisper_feed(v, x, i);
}

/* Positions are a module of the file, or a parameter in MLX's. */
static Val embed(const Whisper *w, Decoder *d) {
    const TakePart part = {.role = ROLE_POS_EMBED, .n = w->n_target, .k = w->width};
    const bool module = !weights_has(d->weights, ROLE_POS_EMBED, -1, "");
    WeightId table = arch_take(d, WEIGHT_TABLE, -1, module ? ".weight" : "", &part, 1);
    Val x = prog_embed(d->b, arch_take_table(d, ROLE_EMBED, w->vocab, w->width), 1);
    x = prog_add(d->b, x, prog_embed_key(d->b, table, EMBED_POS0, 0), 1);
    return prog_probe(d->b, x, "embed");
}

static void head(const Whisper *w, const Vit *v, Val x) {
    Decoder *d = v->d;
    x = prog_probe(d->b, vit_norm(v, prog_select(d->b, x), ROLE_FINAL_NORM, -1), "final_norm");
    prog_output(d->b, x, "hidden");
    if (w->tied) weights_ignore(d->weights, ROLE_HEAD, -1);
    WeightId m = arch_take_matrix(d, w->tied ? ROLE_EMBED : ROLE_HEAD, -1, w->vocab, w->width);
    prog_output(d->b, prog_probe(d->b, prog_linear_precise(d->b, x, m, W_NONE), "logits"),
                "logits");
}

/* What every decoder layer keeps of the encoder's rows. */
static bool record_cross(const Vit *text, const LayerPlanes *planes, ArchModel *out, Err *err) {
    Decoder d = *text->d;
    Vit v = *text;
    v.d = &d;
    d.b = prog_begin(d.arena, "cross");
    if (!d.b) return err_nomem(err, "model description");
    prog_share_planes(d.b, out->text);
    Val x = prog_input(d.b, "encoder_states", SPACE_T, d.hidden);
    for (uint32_t i = 0; i < d.n_layers; i++)
        whisper_store(&v, x, ROLE_CROSS_K, ROLE_CROSS_V, (int)i, planes[i].cross_k,
                      planes[i].cross_v);
    return weights_finish(d.weights, err) && prog_finish(d.b, &out->cross, err);
}

static bool build(Decoder *d, ArchModel *out, Err *err) {
    Whisper w;
    if (!whisper_read(d->config, &w, err)) return false;
    if (!out->tower)
        return err_set(err, ERR_CORRUPT, "the encoder's tensors (encoder.conv1, ...) are missing");
    LayerPlanes *planes = arena_array(d->arena, LayerPlanes, w.decoder.n_layers);
    if (!planes) return err_nomem(err, "model description");
    Vit v = whisper_side(&w, &w.decoder, d);
    Val x = embed(&w, d);
    for (uint32_t i = 0; i < d->n_layers; i++) {
        planes[i] = planes_of(&v, (int)i);
        x = layer(&v, &planes[i], x, (int)i);
    }
    head(&w, &v, x);
    out->context = w.n_target;
    out->cross_rows = w.n_source;
    out->needs_media = true;
    return weights_check(d->weights, err) && decoder_finish(d, out, err) &&
           record_cross(&v, planes, out, err);
}

#define NAME(role, hf, mlx)                                                                        \
    {role, {"decoder." hf, NULL}}, {                                                               \
        role, { "decoder." mlx, NULL }                                                             \
    }

static const RoleDelta NAMES[] = {
    NAME(ROLE_EMBED, "embed_tokens", "token_embedding"),
    NAME(ROLE_POS_EMBED, "embed_positions", "positional_embedding"),
    WHISPER_LAYER_NAMES("decoder."),
    NAME(ROLE_CROSS_NORM, "layers.%d.encoder_attn_layer_norm", "blocks.%d.cross_attn_ln"),
    NAME(ROLE_CROSS_Q, "layers.%d.encoder_attn.q_proj", "blocks.%d.cross_attn.query"),
    NAME(ROLE_CROSS_K, "layers.%d.encoder_attn.k_proj", "blocks.%d.cross_attn.key"),
    NAME(ROLE_CROSS_V, "layers.%d.encoder_attn.v_proj", "blocks.%d.cross_attn.value"),
    NAME(ROLE_CROSS_O, "layers.%d.encoder_attn.out_proj", "blocks.%d.cross_attn.out"),
    NAME(ROLE_FINAL_NORM, "layer_norm", "ln"),
    {ROLE_HEAD, {"/proj_out", NULL}},
    {ROLE_COUNT, {NULL, NULL}},
};

const Arch ARCH_WHISPER = {
    .name = "whisper",
    .kind = "speech",
    .model_types = (const char *const[]){"whisper", NULL},
    .names = NAMES,
    .ignored = (const char *const[]){"alignment_heads", NULL}, /* for times of words */
    .build = build,
};
