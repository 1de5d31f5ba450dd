/* deepseek.h: what the families after DeepSeek-V2 share: latent attention with a rotated part, dense
 * layers first, experts chosen by groups. */
#ifndef MLXCEL_ARCH_DEEPSEEK_H
#define MLXCEL_ARCH_DEEPSEEK_H

#include "arch/arch.h"

typedef struct DeepseekDefaults { /* of keys that a config may leave out */
    bool v2;                      /* router by softmax; else by sigmoid and a bias */
    uint32_t nope_dim, v_dim, q_rank, n_groups, k_groups;
} DeepseekDefaults;

extern const DeepseekDefaults DEEPSEEK_V3;
extern const RoleDelta DEEPSEEK_NAMES[];

bool deepseek_adjust(Decoder *d, const DeepseekDefaults *dflt, Err *err) MUST_CHECK;
bool deepseek_layer(const Decoder *d, const DeepseekDefaults *dflt, int i, LayerSpec *l,
                    Err *err) MUST_CHECK;

#endif
