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

Val mixer_delta(Decoder *d, const LayerSpec *l, Val h, int i) {
    const DeltaSpec *s = &l->delta;
    bool gguf = d->config->gguf != NULL;
    uint32_t nv = s->n_heads * s->v_dim, columns = 2 * s->n_k_heads * s->k_dim + nv;
    const TakePart conv = {
        .role = ROLE_DELTA_CONV, .n = 1, .k = columns * s->kernel, .cols = s->kernel};
    DeltaBlock p = {.shape = {s->n_heads, s->n_k_heads, s->k_dim, s->v_dim},
                    .kernel = s->kernel,
                    .a_down = W_NONE,
                    .a_up = W_NONE,
                    .z_down = W_NONE,
                    .z_up = W_NONE,
                    .decay_fn = gguf ? COL_PLAIN : COL_NEG_EXP,
                    .by_column = s->by_column,
                    .norm_eps = d->eps,
                    .gate = s->gate};
    take_in(d, s, i, &p);
    p.conv = arch_take(d, WEIGHT_VECTOR, i, ".weight", &conv, 1);
    p.dt = arch_take_vector(d, ROLE_DELTA_DT, i, gguf ? ".bias" : "", s->n_heads);
    p.decay = arch_take_vector(d, ROLE_DELTA_DECAY, i, "", s->n_heads);
    p.norm = arch_take_vector(d, ROLE_DELTA_NORM, i, ".weight", s->v_dim);
    p.out = arch_take_matrix(d, ROLE_DELTA_OUT, i, d->hidden, nv);
    return block_delta(d->b, &p, h, i);
}
