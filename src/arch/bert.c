/* BERT (Devlin et al. 2019) and XLM-RoBERTa (Conneau et al. 2020): encoders. Learned positions and
 * token types, layer norms behind each sum, plain feed-forward, attention to all rows of the
 * sequence. RoBERTa counts positions from pad_token_id + 1. Heads for sequence classification:
 * BERT's is a pooler (dense, tanh of the first row) and a classifier, RoBERTa's has both inside the
 * classifier. Token types are the second position coordinate. */
#include <math.h>

#include "arch/take.h"

enum { MAX_TYPES = 1024, MAX_LABELS = 1 << 16 };

typedef struct Bert {
    Decoder *d;
    PlaneId k, v; /* of all layers in turn: nobody reads a layer's keys after it */
} Bert;

/* Old files call the weight of a layer norm gamma and its bias beta. */
static Val norm(const Bert *m, Val x, Role role, int i) {
    Decoder *d = m->d;
    bool old = weights_has(d->weights, role, i, ".gamma");
    WeightId w = arch_take_vector(d, role, i, old ? ".gamma" : ".weight", d->hidden),
             bias = arch_take_vector(d, role, i, old ? ".beta" : ".bias", d->hidden);
    return prog_layer_norm(d->b, x, w, bias, 0, d->eps, 0);
}

static Val linear(const Bert *m, Val x, Role role, int i, uint32_t n, uint32_t k) {
    WeightId w = arch_take_matrix(m->d, role, i, n, k),
             bias = arch_take_vector(m->d, role, i, ".bias", n);
    return prog_linear(m->d->b, x, w, bias);
}

static Val attention(const Bert *m, Val x, int i) {
    Decoder *d = m->d;
    const LayerSpec *l = &d->layer;
    uint32_t n = l->n_heads * l->head_dim;
    const Role roles[3] = {ROLE_Q, ROLE_K, ROLE_V};
    TakePart w[3], bias[3];
    for (int j = 0; j < 3; j++) {
        w[j] = (TakePart){.role = roles[j], .n = n, .k = d->hidden};
        bias[j] = (TakePart){.role = roles[j], .n = 1, .k = n};
    }
    WeightId qkv = arch_take(d, WEIGHT_MATRIX, i, ".weight", w, 3),
             qkv_bias = arch_take(d, WEIGHT_VECTOR, i, ".bias", bias, 3);
    Val h = prog_probe(d->b, prog_linear_precise(d->b, x, qkv, qkv_bias), "layers.%d.attn.qkv", i);
    prog_kv_write(d->b, prog_view(d->b, h, n, n), m->k);
    prog_kv_write(d->b, prog_view(d->b, h, 2 * n, n), m->v);
    OpAttn p = {.n_heads = l->n_heads,
                .n_kv_heads = l->n_heads,
                .head_dim = l->head_dim,
                .v_dim = l->head_dim,
                .scale = l->attn_scale};
    h = prog_attn(d->b, prog_view(d->b, h, 0, n), m->k, m->v, W_NONE, p);
    return linear(m, h, ROLE_O, i, d->hidden, n);
}

static Val layer(const Bert *m, Val x, int i) {
    Decoder *d = m->d;
    const LayerSpec *l = &d->layer;
    Val h = attention(m, x, i);
    x = norm(m, prog_add(d->b, x, h, 1), ROLE_POST_ATTN_NORM, i);
    h = prog_act(d->b, linear(m, x, ROLE_UP, i, l->ffn_width, d->hidden), l->act, 0);
    h = linear(m, h, ROLE_DOWN, i, d->hidden, l->ffn_width);
    x = norm(m, prog_add(d->b, x, h, 1), ROLE_POST_FFN_NORM, i);
    return prog_probe(d->b, x, "layers.%d.out", i);
}

static bool embeddings(const Bert *m, Val *out, ArchModel *model, Err *err) {
    Decoder *d = m->d;
    const bool roberta = str_starts(d->config->model_type, STR("xlm-roberta")) ||
                         str_eqc(d->config->model_type, "roberta");
    int64_t types, pad = -1;
    if (!config_int(d->config, "type_vocab_size", weights_rows(d->weights, ROLE_TYPE_EMBED, -1), 0,
                    MAX_TYPES, &types, err) ||
        (roberta && !config_int(d->config, "pad_token_id", 1, 0, d->max_positions - 1, &pad, err)))
        return false;
    model->context = (uint64_t)((int64_t)d->max_positions - (pad + 1));
    model->n_types = (uint32_t)types;
    Val x = prog_embed(d->b, arch_take_table(d, ROLE_EMBED, d->vocab, d->hidden), 1),
        pos = prog_embed_key(d->b, arch_take_table(d, ROLE_POS_EMBED, d->max_positions, d->hidden),
                             EMBED_POS0, (int32_t)pad + 1);
    x = prog_add(d->b, x, pos, 1);
    if (types) {
        WeightId t = arch_take_table(d, ROLE_TYPE_EMBED, (uint32_t)types, d->hidden);
        x = prog_add(d->b, x, prog_embed_key(d->b, t, EMBED_POS1, 0), 1);
    }
    *out = prog_probe(d->b, norm(m, x, ROLE_EMBED_NORM, -1), "embed");
    return true;
}

/* The score of a whole sequence, from its first row. */
static void classifier(const Bert *m, Val first, ArchModel *model) {
    Decoder *d = m->d;
    bool inside = weights_has(d->weights, ROLE_CLASS_DENSE, -1, ".weight"),
         pooler = weights_has(d->weights, ROLE_POOLER, -1, ".weight");
    Role out = inside ? ROLE_CLASS_OUT : ROLE_CLASS;
    if (!weights_has(d->weights, out, -1, ".weight")) {
        weights_ignore(d->weights, ROLE_POOLER, -1);
        return;
    }
    if (inside || pooler)
        first = prog_act(
            d->b,
            linear(m, first, inside ? ROLE_CLASS_DENSE : ROLE_POOLER, -1, d->hidden, d->hidden),
            ACT_TANH, 0);
    if (inside && pooler) weights_ignore(d->weights, ROLE_POOLER, -1);
    model->n_labels = weights_rows(d->weights, out, -1);
    prog_output(d->b, linear(m, first, out, -1, model->n_labels, d->hidden), "scores");
}

static bool build(Decoder *d, ArchModel *out, Err *err) {
    Str kind;
    if (!decoder_read(d, err)) return false;
    if (!config_str(d->config, "position_embedding_type", "absolute", &kind, err)) return false;
    if (!str_eqc(kind, "absolute"))
        return err_set(err, ERR_UNSUPPORTED,
                       "position_embedding_type \"" STR_F "\"; \"absolute\" is accepted",
                       STR_A(kind));
    const LayerSpec *l = &d->layer;
    if (d->config->gguf) d->layer.act = ACT_GELU; /* no key tells there */
    ProgPlane plane = {.heads = l->n_heads, .head_cols = l->head_dim, .use = PLANE_KEY};
    Bert m = {.d = d, .k = prog_plane(d->b, plane)};
    plane.use = PLANE_VALUE;
    m.v = prog_plane(d->b, plane);
    Val x;
    if (!embeddings(&m, &x, out, err)) return false;
    for (uint32_t i = 0; i < d->n_layers; i++) x = layer(&m, x, (int)i);
    Val first = prog_pool(d->b, x, POOL_FIRST);
    prog_output(d->b, x, "hidden");
    prog_output(d->b, prog_pool(d->b, x, POOL_MEAN), "mean");
    prog_output(d->b, first, "cls");
    prog_output(d->b, prog_pool(d->b, x, POOL_LAST), "last");
    classifier(&m, first, out);
    out->both_ways = true;
    return weights_finish(d->weights, err) && decoder_finish(d, out, err);
}

static const RoleDelta NAMES[] = {
    {ROLE_EMBED, {"embeddings.word_embeddings", "token_embd"}},
    {ROLE_POS_EMBED, {"embeddings.position_embeddings", "position_embd"}},
    {ROLE_TYPE_EMBED, {"embeddings.token_type_embeddings", "token_types"}},
    {ROLE_EMBED_NORM, {"embeddings.LayerNorm", "token_embd_norm"}},
    {ROLE_Q, {"encoder.layer.%d.attention.self.query", "blk.%d.attn_q"}},
    {ROLE_K, {"encoder.layer.%d.attention.self.key", "blk.%d.attn_k"}},
    {ROLE_V, {"encoder.layer.%d.attention.self.value", "blk.%d.attn_v"}},
    {ROLE_O, {"encoder.layer.%d.attention.output.dense", "blk.%d.attn_output"}},
    {ROLE_POST_ATTN_NORM,
     {"encoder.layer.%d.attention.output.LayerNorm", "blk.%d.attn_output_norm"}},
    {ROLE_UP, {"encoder.layer.%d.intermediate.dense", "blk.%d.ffn_up"}},
    {ROLE_DOWN, {"encoder.layer.%d.output.dense", "blk.%d.ffn_down"}},
    {ROLE_POST_FFN_NORM, {"encoder.layer.%d.output.LayerNorm", "blk.%d.layer_output_norm"}},
    {ROLE_POOLER, {"pooler.dense", "cls"}},
    {ROLE_CLASS, {"/classifier", "cls.output"}},
    {ROLE_CLASS_DENSE, {"/classifier.dense", "cls"}},
    {ROLE_CLASS_OUT, {"/classifier.out_proj", "cls.output"}},
    {ROLE_COUNT, {NULL, NULL}},
};

/* cls.*: the heads of pre-training. */
const Arch ARCH_BERT = {
    .name = "bert",
    .kind = "embedding",
    .model_types = (const char *const[]){"bert", "xlm-roberta", "roberta", NULL},
    .hf_class = "BertModel",
    .hf_labels = "BertForSequenceClassification",
    .hf_labels_prefix = "bert.",
    .gguf = (const char *const[]){"bert", NULL},
    .names = NAMES,
    .ignored = (const char *const[]){"*position_ids", "cls.predictions.*", "cls.seq_relationship.*",
                                     "lm_head.*", NULL},
    .build = build,
};
