#include "arch/mixer.h"
#include "arch/take.h"
#include "block/mix_delta.h"

/* The program's order: q of all heads, k, v, z. Of each key head the file has its q and k, then v
 * and z of the value heads that share it. */
static const uint32_t *by_head(Decoder *d, uint32_t n_groups, const uint32_t *widths, int n) {
    uint32_t group = 0, at = 0, total = 0;
    for (int j = 0; j < n; j++) group += widths[j];
    uint32_t *rows = arena_array(d->arena, uint32_t, (size_t)n_groups * group);
    for (int j = 0; rows && j < n; at += widths[j++])
        for (uint32_t r = 0; r < n_groups * widths[j]; r++)
            rows[total++] = r / widths[j] * group + at + r % widths[j];
    return rows;
}

static WeightId take_rows(Decoder *d, Role role, int i, uint32_t n, const uint32_t *rows) {
    const TakePart part = {.role = role, .n = n, .k = d->hidden, .rows = rows, .n_stored = n};
    return arch_take(d, WEIGHT_MATRIX, i, ".weight", &part, 1);
}

static void take_in(Decoder *d, const DeltaSpec *s, int i, DeltaBlock *p) {
    uint32_t nk = s->n_k_heads * s->k_dim, nv = s->n_heads * s->v_dim;
    uint32_t each = s->n_heads / s->n_k_heads;
    const TakePart in[2] = {{.role = ROLE_DELTA_QKV, .n = 2 * nk + nv, .k = d->hidden},
                            {.role = ROLE_DELTA_Z, .n = nv, .k = d->hidden}};
    const TakePart ba[2] = {{.role = ROLE_DELTA_B, .n = s->n_heads, .k = d->hidden},
                            {.role = ROLE_DELTA_A, .n = s->n_heads, .k = d->hidden}};
    const uint32_t qkvz_widths[4] = {s->k_dim, s->k_dim, each * s->v_dim, each * s->v_dim};
    const uint32_t ba_widths[2] = {each, each};
    bool by_heads = s->form == DELTA_BY_HEAD;
    /* newer GGUF files have the rows apart */
    p->in = by_heads && weights_has(d->weights, ROLE_DELTA_QKVZ, i, ".weight")
                ? take_rows(d, ROLE_DELTA_QKVZ, i, 2 * nk + 2 * nv,
                            by_head(d, s->n_k_heads, qkvz_widths, 4))
                : arch_take(d, WEIGHT_MATRIX, i, ".weight", in, 2);
    p->ba = by_heads ? take_rows(d, ROLE_DELTA_BA, i, 2 * s->n_heads,
                                 by_head(d, s->n_k_heads, ba_widths, 2))
                     : arch_take(d, WEIGHT_MATRIX, i, ".weight", ba, 2);
}

static void take_low_rank(Decoder *d, const DeltaSpec *s, int i, DeltaBlock *p) {
    uint32_t nk = s->n_k_heads * s->k_dim, nv = s->n_heads * s->v_dim;
    uint32_t na = s->by_column ? s->n_heads * s->k_dim : s->n_heads;
    const TakePart in[3] = {{.role = ROLE_DELTA_Q, .n = nk, .k = d->hidden},
                            {.role = ROLE_DELTA_K, .n = nk, .k = d->hidden},
                            {.role = ROLE_DELTA_V, .n = nv, .k = d->hidden}};
    /* some GGUF files have the three in one */
    bool one = d->config->gguf && !weights_has(d->weights, ROLE_DELTA_Q, i, ".weight") &&
               weights_has(d->weights, ROLE_DELTA_QKV, i, ".weight");
    p->in = one ? arch_take_matrix(d, ROLE_DELTA_QKV, i, 2 * nk + nv, d->hidden)
                : arch_take(d, WEIGHT_MATRIX, i, ".weight", in, 3);
    p->ba = arch_take_matrix(d, ROLE_DELTA_B, i, s->n_heads, d->hidden);
    p->a_down = arch_take_matrix(d, ROLE_DELTA_A_DOWN, i, s->rank, d->hidden);
    p->a_up = arch_take_matrix(d, ROLE_DELTA_A_UP, i, na, s->rank);
    p->z_down = arch_take_matrix(d, ROLE_DELTA_Z_DOWN, i, s->rank, d->hidden);
    p->z_up = arch_take_matrix(d, ROLE_DELTA_Z_UP, i, nv, s->rank);
}

/* Over q, k and v together, in one tensor or in three. */
static WeightId take_conv(Decoder *d, const DeltaSpec *s, int i) {
    uint32_t nk = s->n_k_heads * s->k_dim * s->kernel, nv = s->n_heads * s->v_dim * s->kernel;
    const TakePart one = {.role = ROLE_DELTA_CONV, .n = 1, .k = 2 * nk + nv, .cols = s->kernel};
    const TakePart three[3] = {{.role = ROLE_DELTA_CONV_Q, .n = 1, .k = nk, .cols = s->kernel},
                               {.role = ROLE_DELTA_CONV_K, .n = 1, .k = nk, .cols = s->kernel},
                               {.role = ROLE_DELTA_CONV_V, .n = 1, .k = nv, .cols = s->kernel}};
    bool apart = s->form == DELTA_LOW_RANK;
    return arch_take(d, WEIGHT_VECTOR, i, ".weight", apart ? three : &one, apart ? 3 : 1);
}

/* One number a head in the file; by column: for each of the head's. */
static WeightId take_decay(Decoder *d, const DeltaSpec *s, int i) {
    if (!s->by_column) return arch_take_vector(d, ROLE_DELTA_DECAY, i, "", s->n_heads);
    uint32_t n = s->n_heads * s->k_dim;
    const TakePart part = {.role = ROLE_DELTA_DECAY,
                           .n = 1,
                           .k = n,
                           .rows = arch_repeat(d, n, s->k_dim),
                           .n_stored = s->n_heads};
    return arch_take(d, WEIGHT_VECTOR, i, "", &part, 1);
}

Val mixer_delta(Decoder *d, const LayerSpec *l, Val h, int i) {
    const DeltaSpec *s = &l->delta;
    bool gguf = d->config->gguf != NULL;
    uint32_t n_decay = s->by_column ? s->n_heads * s->k_dim : s->n_heads;
    DeltaBlock p = {.shape = {s->n_heads, s->n_k_heads, s->k_dim, s->v_dim, s->tiled},
                    .kernel = s->kernel,
                    .a_down = W_NONE,
                    .a_up = W_NONE,
                    .z_down = W_NONE,
                    .z_up = W_NONE,
                    .decay_fn = gguf ? COL_PLAIN : COL_NEG_EXP,
                    .by_column = s->by_column,
                    .norm_eps = d->eps,
                    .gate = s->gate};
    if (s->form == DELTA_LOW_RANK)
        take_low_rank(d, s, i, &p);
    else
        take_in(d, s, i, &p);
    p.conv = take_conv(d, s, i);
    p.dt = arch_take_vector(d, ROLE_DELTA_DT, i, gguf ? ".bias" : "", n_decay);
    p.decay = take_decay(d, s, i);
    p.norm = arch_take_vector(d, ROLE_DELTA_NORM, i, ".weight", s->v_dim);
    p.out = arch_take_matrix(d, ROLE_DELTA_OUT, i, d->hidden, s->n_heads * s->v_dim);
    return block_delta(d->b, &p, h, i);
}
