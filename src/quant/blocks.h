/* blocks.h: the GGUF block formats, one row of a table each, and one function that takes a block
 * apart into unsigned codes and scales (the terms of wform.h). Inside quant/ only: others use
 * wform.h and decode.h.
 *
 * Notation in the blocks_*.c files: byte offsets as in "d f16@0 | qs[16]@2"; j is the element in
 * the block. The formats are ggml's; the layouts were established from its public description and
 * are held by tests/data/quant. */
#ifndef MLXCEL_QUANT_BLOCKS_H
#define MLXCEL_QUANT_BLOCKS_H

#include "quant/bitstream.h"
#include "quant/wform.h"

typedef struct BlockScales {
    float d;         /* WSUB_NONE: the scale; else the block's first level (1 if it has none) */
    float dmin;      /* WOFFSET_BIAS: the bias (WSUB_NONE), or what sub_min is multiplied with */
    uint8_t sub[16]; /* one per group */
    uint8_t sub_min[16];
} BlockScales;

/* codes has room for block_elements. b has block_bytes bytes, any alignment. */
typedef void BlockUnpack(const uint8_t *b, uint8_t *codes, BlockScales *s);

typedef struct BlockLayout {
    BlockUnpack *unpack; /* NULL: not a block type */
    WKind kind;
    unsigned bits, group;
    WOffset offset;
    int zero;
    const int8_t *table; /* 2^bits entries, or NULL */
    WSub sub;
    unsigned sub_bits;
    bool has_d; /* two-level formats whose block has a d of its own */
    float unit;
} BlockLayout;

const BlockLayout *block_layout(DType t); /* NULL unless t is a GGUF block type */

BlockUnpack block_unpack_q4_0, block_unpack_q4_1, block_unpack_q5_0, block_unpack_q5_1,
    block_unpack_q8_0, block_unpack_q1_0, block_unpack_q2_0, block_unpack_mxfp4,
    block_unpack_nvfp4; /* blocks_small.c */
BlockUnpack block_unpack_q2_k, block_unpack_q3_k, block_unpack_q4_k, block_unpack_q5_k,
    block_unpack_q6_k, block_unpack_iq4_xs; /* blocks_kquant.c */
BlockUnpack block_unpack_tq1_0, block_unpack_tq2_0, block_unpack_iq2_xxs, block_unpack_iq2_xs,
    block_unpack_iq2_s, block_unpack_iq3_xxs, block_unpack_iq3_s, block_unpack_iq1_s,
    block_unpack_iq1_m; /* blocks_codebook.c */

#endif
