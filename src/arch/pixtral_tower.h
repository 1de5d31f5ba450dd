/* pixtral_tower.h: Pixtral's vision tower (Agrawal et al. 2024): images of any size, RMS norms, gated
 * feed-forwards, no biases, rope by line and column. Input "patches" [T, channels * patch * patch].
 *
 * Where rows are joined, merge x merge of them, those of a block follow one another; what is less
 * than a block at the right and lower edges comes behind them: other rows see it, no row of the text
 * model comes from it. A sequence is filled up to a multiple of merge * merge rows, which nobody
 * sees. */
#ifndef MLXCEL_ARCH_PIXTRAL_TOWER_H
#define MLXCEL_ARCH_PIXTRAL_TOWER_H

#include "arch/vit.h"

typedef struct PixtralTower {
    Vit vit;
    VitPatches patches; /* one by one */
    uint32_t merge;     /* 1: rows are not joined */
} PixtralTower;

/* d: the tower's, with its config section and names. */
bool pixtral_tower_read(PixtralTower *t, Decoder *d, uint32_t merge, Err *err) MUST_CHECK;
/* The embedded rows, before the first layer. */
Val pixtral_tower_embed(const PixtralTower *t);
/* Rows of merge * merge times the columns: column by column what the rows of a block have there. */
Val pixtral_tower_join(const PixtralTower *t, Val x);
/* A sequence for each image of pixel_values [images, channels, height, width], of which image_sizes
 * [images, 2] says how many lines and columns are the image; without it all are. */
bool pixtral_tower_plan(const PixtralTower *t, const MediaAsk *ask, Arena *a, MediaPlan *out,
                        Err *err) MUST_CHECK;

/* Names of the tower's tensors, for the families' lists. */
#define PIXTRAL_TOWER_ROLES                                                                        \
    {ROLE_PATCH, {"patch_conv", NULL}}, {ROLE_EMBED_NORM, {"ln_pre", NULL}},                       \
        {ROLE_ATTN_NORM, {"transformer.layers.%d.attention_norm", NULL}},                          \
        {ROLE_Q, {"transformer.layers.%d.attention.q_proj", NULL}},                                \
        {ROLE_K, {"transformer.layers.%d.attention.k_proj", NULL}},                                \
        {ROLE_V, {"transformer.layers.%d.attention.v_proj", NULL}},                                \
        {ROLE_O, {"transformer.layers.%d.attention.o_proj", NULL}},                                \
        {ROLE_FFN_NORM, {"transformer.layers.%d.ffn_norm", NULL}},                                 \
        {ROLE_GATE, {"transformer.layers.%d.feed_forward.gate_proj", NULL}},                       \
        {ROLE_UP, {"transformer.layers.%d.feed_forward.up_proj", NULL}}, {                         \
        ROLE_DOWN, { "transformer.layers.%d.feed_forward.down_proj", NULL }                        \
    }

#endif
