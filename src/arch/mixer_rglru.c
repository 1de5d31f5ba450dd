#include "arch/mixer.h"
#include "arch/take.h"
#include "block/mix_rglru.h"

/* Block j's biases are row j of the file's. */
static WeightId take_bias(Decoder *d, const RgLruSpec *s, Role role, int i) {
    const TakePart part = {.role = role, .n = 1, .k = s->width, .cols = s->width / s->n_blocks};
    return arch_take(d, WEIGHT_VECTOR, i, "", &part, 1);
}

static WeightId take_gate(Decoder *d, const RgLruSpec *s, Role role, int i) {
    uint32_t block = s->width / s->n_blocks;
    const TakeExperts gate = {.role = role, .n_experts = s->n_blocks, .n = block, .k = block};
    return arch_take_experts(d, i, &gate, NULL);
}

Val mixer_rglru(Decoder *d, const LayerSpec *l, Val h, int i) {
    const RgLruSpec *s = &l->lru;
    uint32_t n = s->width;
    TakePart in[2] = {{.role = ROLE_LRU_IN, .n = n, .k = d->hidden},
                      {.role = ROLE_LRU_GATE, .n = n, .k = d->hidden}};
    const TakePart conv = {.role = ROLE_LRU_CONV, .n = 1, .k = n * s->kernel, .cols = s->kernel};
    RgLruBlock p = {.width = n, .n_blocks = s->n_blocks, .kernel = s->kernel, .act = l->act};
    p.in = arch_take(d, WEIGHT_MATRIX, i, ".weight", in, 2);
    for (int j = 0; j < 2; j++) in[j].n = 1, in[j].k = n;
    p.in_bias = arch_take(d, WEIGHT_VECTOR, i, ".bias", in, 2);
    p.conv = arch_take(d, WEIGHT_VECTOR, i, ".weight", &conv, 1);
    p.conv_bias = arch_take_vector(d, ROLE_LRU_CONV, i, ".bias", n);
    p.input_gate = take_gate(d, s, ROLE_LRU_INPUT, i);
    p.input_bias = take_bias(d, s, ROLE_LRU_INPUT_BIAS, i);
    p.decay_gate = take_gate(d, s, ROLE_LRU_DECAY_GATE, i);
    p.decay_bias = take_bias(d, s, ROLE_LRU_DECAY_BIAS, i);
    p.decay = arch_take_vector(d, ROLE_LRU_DECAY, i, "", n);
    p.out = arch_take_matrix(d, ROLE_LRU_OUT, i, d->hidden, n);
    p.out_bias = arch_take_vector(d, ROLE_LRU_OUT, i, ".bias", d->hidden);
    return block_rglru(d->b, &p, h, i);
}
