/* mamba.h: what the families with state space mixers share: reading their shape from a config,
 * under whichever prefix its keys have. The spec comes filled with the family's defaults. */
#ifndef MLXCEL_ARCH_MAMBA_H
#define MLXCEL_ARCH_MAMBA_H

#include "arch/arch.h"

bool mamba1_config(const Decoder *d, MambaSpec *s, Err *err) MUST_CHECK;
/* head_dim 0: the config says "auto" or nothing, and the inner width follows from mamba_d_ssm or
 * the expansion. */
bool mamba2_config(const Decoder *d, MambaSpec *s, Err *err) MUST_CHECK;

#endif
