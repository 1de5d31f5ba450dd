#include "arch/take.h"

WeightId arch_take(Decoder *d, WeightKind kind, int layer, const char *suffix,
                   const TakePart *parts, int n_parts) {
    uint32_t n = 0, k = 0;
    for (int i = 0; i < n_parts; i++) {
        n += parts[i].n;
        k = kind == WEIGHT_VECTOR ? k + parts[i].k : parts[i].k;
    }
    int32_t source = weights_take(d->weights, kind, layer, suffix, parts, n_parts);
    if (source < 0) return W_NONE;
    return prog_weight(d->b, kind, kind == WEIGHT_VECTOR ? 1 : n, k, source,
                       weights_get(d->weights, source)->name);
}

WeightId arch_take_biases(Decoder *d, int layer, const TakePart *parts, int n_parts) {
    enum { MAX_PARTS = 4 };
    TakePart biases[MAX_PARTS];
    if (n_parts > MAX_PARTS) return W_NONE;
    for (int i = 0; i < n_parts; i++) {
        biases[i] = parts[i];
        biases[i].k = parts[i].n;
        biases[i].n = 1;
    }
    return arch_take(d, WEIGHT_VECTOR, layer, ".bias", biases, n_parts);
}

WeightId arch_take_vector(Decoder *d, Role role, int layer, const char *suffix, uint32_t n) {
    return arch_take(d, WEIGHT_VECTOR, layer, suffix, &(TakePart){.role = role, .n = 1, .k = n}, 1);
}

WeightId arch_take_matrix(Decoder *d, Role role, int layer, uint32_t n, uint32_t k) {
    return arch_take(d, WEIGHT_MATRIX, layer, ".weight", &(TakePart){.role = role, .n = n, .k = k},
                     1);
}

const uint32_t *arch_every(Decoder *d, uint32_t n, uint32_t run, uint32_t first, uint32_t step) {
    uint32_t *rows = arena_array(d->arena, uint32_t, n);
    for (uint32_t i = 0; rows && i < n; i++) rows[i] = first + i / run * step + i % run;
    return rows;
}

const uint32_t *arch_repeat(Decoder *d, uint32_t n, uint32_t times) {
    uint32_t *rows = arena_array(d->arena, uint32_t, n);
    for (uint32_t i = 0; rows && i < n; i++) rows[i] = i / times;
    return rows;
}

WeightId arch_take_experts(Decoder *d, int i, const TakeExperts *p, WeightId *bias) {
    uint32_t n = p->n_experts * p->n;
    int32_t source = weights_take_experts(d->weights, i, p);
    int32_t b = bias ? weights_take_expert_biases(d->weights, i, p) : -1;
    if (b >= 0) *bias = prog_weight(d->b, WEIGHT_VECTOR, 1, n, b, weights_get(d->weights, b)->name);
    if (source < 0) return W_NONE;
    return prog_weight(d->b, WEIGHT_MATRIX, n, p->k, source, weights_get(d->weights, source)->name);
}

WeightId arch_take_table(Decoder *d, Role role, uint32_t n, uint32_t k) {
    return arch_take(d, WEIGHT_TABLE, -1, ".weight", &(TakePart){.role = role, .n = n, .k = k}, 1);
}

FfnBlock arch_take_gated(Decoder *d, int layer, const Role roles[3], uint32_t width, Act act) {
    const TakePart in[2] = {{.role = roles[0], .n = width, .k = d->hidden},
                            {.role = roles[1], .n = width, .k = d->hidden}};
    FfnBlock p = {
        .width = width, .gated = true, .act = act, .in_bias = W_NONE, .down_bias = W_NONE};
    p.in = arch_take(d, WEIGHT_MATRIX, layer, ".weight", in, 2);
    p.down = arch_take_matrix(d, roles[2], layer, d->hidden, width);
    return p;
}
