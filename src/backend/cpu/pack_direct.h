/* pack_direct.h: what lies in the file nearly as the kernels read it goes from the file's rows into
 * tiles in one step, without canonical arrays in between: plain floats; codes of 4 and 8 bits whose
 * 16-bit scales ride in the stream (GGUF Q4_0 Q4_1 Q8_0, MLX affine); 4-bit GPTQ in its own order.
 * The bytes of the tiles are those of the general way (pack.c), which takes everything else.
 *
 *     DirectForm d;
 *     if (pack_direct_form(&m, source, &d)) ok = pack_direct(&d, &m, source, n0, n1, &scratch, err); */
#ifndef MLXCEL_BACKEND_CPU_PACK_DIRECT_H
#define MLXCEL_BACKEND_CPU_PACK_DIRECT_H

#include "backend/cpu/packed.h"

/* Where a row's codes and scales are, and how 32 codes lie. */
typedef enum DirectCodes {
    DIRECT_NIBBLES_SPLIT, /* 16 bytes: low nibbles are columns 0..15, high ones 16..31 */
    DIRECT_NIBBLES_RUN,   /* 16 bytes: each byte two columns, low nibble first */
    DIRECT_BYTES,
    DIRECT_BYTES_SIGNED
} DirectCodes;

typedef struct DirectForm {
    bool floats;
    bool columns; /* GPTQ: a stored row has eight inputs of all outputs */
    DirectCodes codes;
    size_t code_at, code_step;            /* bytes: of the first 32 codes in the row, to the next */
    QPartId scale_part, bias_part;        /* QPART_WEIGHT: between the codes */
    size_t scale_at, bias_at, scale_step; /* bytes: of the first group's, to the next group's */
} DirectForm;

bool pack_direct_form(const PackedMat *m, const WeightSource *s, DirectForm *d);
/* Rows [n0, n1) into the tiles; n0 is a multiple of FLOAT_TILE_ROWS. Any thread. */
bool pack_direct(const DirectForm *d, const PackedMat *m, const WeightSource *s, uint32_t n0,
                 uint32_t n1, WeightScratch *sc, Err *err) MUST_CHECK;

#endif
