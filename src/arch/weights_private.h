/* weights_private.h: the WeightTable, for the files of arch/ that share it: weights.c (tensors to
 * sources), weights_names.c (roles to names), weights_experts.c (many matrices as one source). */
#ifndef MLXCEL_ARCH_WEIGHTS_PRIVATE_H
#define MLXCEL_ARCH_WEIGHTS_PRIVATE_H

#include "arch/module_source.h"
#include "arch/weights.h"

struct WeightNames {
    const RoleName *names[ROLE_COUNT];
    Str prefix; /* of the HF names */
    Str root;   /* of those with a leading '/' */
};

struct WeightTable {
    const Checkpoint *ck;
    WeightNames n; /* in force */
    const char *const *ignored;
    Arena *a;
    QuantConfig config;
    ModuleFinder finder; /* its used: per checkpoint tensor */
    const WeightOrigin *
        *values; /* per checkpoint tensor: as what it was read right away, or NULL */
    ArchWeight *weights;
    uint32_t n_weights, cap;
    Err err;
};

/* weights_names.c */
void weights_names_open(WeightTable *t, const RoleDelta *deltas);
bool weights_role_name(const WeightTable *t, Role role, int layer, const char *suffix,
                       char out[WEIGHTS_MAX_NAME]);
bool weights_expert_name(const WeightTable *t, Role role, int layer, uint32_t expert,
                         const char *suffix, char out[WEIGHTS_MAX_NAME]);
/* as MLX keeps them, in one module; false: the role's name is not of that kind */
bool weights_mlx_expert_name(const WeightTable *t, const WeightOrigin *o,
                             char out[WEIGHTS_MAX_NAME]);
/* the name with its holes; NULL: this kind of file has none */
const char *weights_role_pattern(const WeightTable *t, Role role);
/* NULL: the checkpoint has none */
const CkptTensor *weights_role_find(const WeightTable *t, Role role, int layer, const char *suffix);

bool weights_grow(WeightTable *t); /* weights.c: room for one more */

#endif
