/* iq_grid.h: the code books of the IQ formats (generated: iq_grid_tab.c). An entry is a short
 * vector: eight 2-bit level indices, or four 3-bit ones, element 0 lowest. Levels:
 * blocks_codebook.c. */
#ifndef MLXCEL_QUANT_IQ_GRID_H
#define MLXCEL_QUANT_IQ_GRID_H

#include <stdint.h>

extern const uint16_t iq_grid_2xxs[256]; /* 8 x 2 bits */
extern const uint16_t iq_grid_2xs[512];
extern const uint16_t iq_grid_2s[1024];
extern const uint16_t iq_grid_3xxs[256]; /* 4 x 3 bits */
extern const uint16_t iq_grid_3s[512];
extern const uint16_t iq_grid_1s[2048]; /* 8 x 2 bits; IQ1_M uses it too */

#endif
