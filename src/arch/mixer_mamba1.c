#include "arch/mixer.h"
#include "arch/take.h"
#include "block/mix_mamba1.h"

static void take_norms(Decoder *d, const MambaSpec *s, int i, Mamba1Block *p) {
    if (s->norms != MAMBA_NORMS) return;
    p->dt_norm = arch_take_vector(d, ROLE_MAMBA_STEP_NORM, i, ".weight", s->rank);
    p->b_norm = arch_take_vector(d, ROLE_MAMBA_B_NORM, i, ".weight", s->n_state);
    p->c_norm = arch_take_vector(d, ROLE_MAMBA_C_NORM, i, ".weight", s->n_state);
}

Val mixer_mamba1(Decoder *d, const LayerSpec *l, Val h, int i) {
    const MambaSpec *s = &l->mamba;
    uint32_t n = s->n_heads, n_proj = s->rank + 2 * s->n_state;
    const TakePart conv = {.role = ROLE_MAMBA_CONV, .n = 1, .k = n * s->kernel, .cols = s->kernel};
    const TakePart decay = {
        .role = ROLE_MAMBA_DECAY, .n = 1, .k = n * s->n_state, .cols = s->n_state};
    Mamba1Block p = {.inner = n,
                     .n_state = s->n_state,
                     .rank = s->rank,
                     .kernel = s->kernel,
                     .act = s->act,
                     .in_bias = W_NONE,
                     .conv_bias = W_NONE,
                     .normed = s->norms != MAMBA_NO_NORMS,
                     .dt_norm = W_NONE,
                     .b_norm = W_NONE,
                     .c_norm = W_NONE,
                     .norm_eps = s->norm_eps,
                     .a_log = d->config->gguf == NULL,
                     .out_bias = W_NONE};
    p.in = arch_take_matrix(d, ROLE_MAMBA_IN, i, 2 * n, d->hidden);
    p.conv = arch_take(d, WEIGHT_VECTOR, i, ".weight", &conv, 1);
    p.proj = arch_take_matrix(d, ROLE_MAMBA_PROJ, i, n_proj, n);
    take_norms(d, s, i, &p);
    p.step = arch_take_matrix(d, ROLE_MAMBA_STEP, i, n, s->rank);
    p.step_bias = arch_take_vector(d, ROLE_MAMBA_STEP, i, ".bias", n);
    p.a = arch_take(d, WEIGHT_VECTOR, i, "", &decay, 1);
    p.skip = arch_take_vector(d, ROLE_MAMBA_SKIP, i, "", n);
    p.out = arch_take_matrix(d, ROLE_MAMBA_OUT, i, d->hidden, n);
    if (s->in_bias) p.in_bias = arch_take_vector(d, ROLE_MAMBA_IN, i, ".bias", 2 * n);
    if (s->conv_bias) p.conv_bias = arch_take_vector(d, ROLE_MAMBA_CONV, i, ".bias", n);
    if (s->out_bias) p.out_bias = arch_take_vector(d, ROLE_MAMBA_OUT, i, ".bias", d->hidden);
    return block_mamba1(d->b, &p, h, i);
}
