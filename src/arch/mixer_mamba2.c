#include "arch/mixer.h"
#include "arch/take.h"

static WeightId take_norm(Decoder *d, const MambaSpec *s, int i) {
    uint32_t n = s->n_heads * s->head_dim;
    const TakePart norm = {.role = ROLE_MAMBA_NORM,
                           .n = 1,
                           .k = n,
                           .cols = d->config->gguf ? n / s->n_groups : 0}; /* a row a group */
    return s->norms == MAMBA_NO_NORMS ? W_NONE
                                      : arch_take(d, WEIGHT_VECTOR, i, ".weight", &norm, 1);
}

Mamba2Block mixer_mamba2_take(Decoder *d, const LayerSpec *l, int i) {
    const MambaSpec *s = &l->mamba;
    bool gguf = d->config->gguf != NULL;
    uint32_t n = s->n_heads * s->head_dim, n_conv = n + 2 * s->n_groups * s->n_state,
             n_in = n + n_conv + s->n_heads;
    const TakePart conv = {
        .role = ROLE_MAMBA_CONV, .n = 1, .k = n_conv * s->kernel, .cols = s->kernel};
    Mamba2Block p = {.shape = {.n_heads = s->n_heads,
                               .head_dim = s->head_dim,
                               .n_state = s->n_state,
                               .n_groups = s->n_groups,
                               .a_log = !gguf},
                     .kernel = s->kernel,
                     .act = s->act,
                     .in_bias = W_NONE,
                     .conv_bias = W_NONE,
                     .dt_min = s->dt_min,
                     .dt_max = s->dt_max,
                     .norm_first = s->norm_first,
                     .norm_eps = s->norm_eps,
                     .out_bias = W_NONE};
    p.in = arch_take_matrix(d, ROLE_MAMBA_IN, i, n_in, d->hidden);
    p.conv = arch_take(d, WEIGHT_VECTOR, i, ".weight", &conv, 1);
    p.dt_bias = arch_take_vector(d, ROLE_MAMBA_STEP_BIAS, i, gguf ? ".bias" : "", s->n_heads);
    p.a = arch_take_vector(d, ROLE_MAMBA_DECAY, i, "", s->n_heads);
    p.skip = arch_take_vector(d, ROLE_MAMBA_SKIP, i, "", s->n_heads);
    p.norm = take_norm(d, s, i);
    p.out = arch_take_matrix(d, ROLE_MAMBA_OUT, i, d->hidden, n);
    if (s->in_bias) p.in_bias = arch_take_vector(d, ROLE_MAMBA_IN, i, ".bias", n_in);
    if (s->conv_bias) p.conv_bias = arch_take_vector(d, ROLE_MAMBA_CONV, i, ".bias", n_conv);
    if (s->out_bias) p.out_bias = arch_take_vector(d, ROLE_MAMBA_OUT, i, ".bias", d->hidden);
    return p;
}

Val mixer_mamba2(Decoder *d, const LayerSpec *l, Val h, int i) {
    Mamba2Block p = mixer_mamba2_take(d, l, i);
    return block_mamba2(d->b, &p, h, i);
}
