/* quant_encode_k.h: one block of a K-quant from 256 floats. Inside quant/ only: others use
 * encode_rows() of quant_encode.h. */
#ifndef MLXCEL_QUANT_QUANT_ENCODE_K_H
#define MLXCEL_QUANT_QUANT_ENCODE_K_H

#include <stdint.h>

#include "quant/dtype.h"

bool encode_k_supports(DType t); /* Q2_K Q3_K Q4_K Q5_K Q6_K */
/* x: 256 finite values. false: the scales do not fit f16. */
bool encode_k_block(DType t, const float *x, uint8_t *out);

#endif
