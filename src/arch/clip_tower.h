/* clip_tower.h: the vision towers of CLIP (Radford et al. 2021) and SigLIP (Zhai et al. 2023), which
 * differ in a class row and a norm before the first layer (CLIP has them) and the activation. Images
 * have one size, of which what is less than a patch at the right and lower edges is not seen;
 * learned positions. Input "patches" [T, channels * patch * patch]. */
#ifndef MLXCEL_ARCH_CLIP_TOWER_H
#define MLXCEL_ARCH_CLIP_TOWER_H

#include "arch/vit.h"

typedef struct ClipTower {
    Vit vit;
    uint32_t image_size, side; /* pixels, patches */
    VitPatches patches;
    bool has_class; /* the first row of each image is no patch */
} ClipTower;

/* Where the tower may hang, and what lies beside it. */
extern const char *const CLIP_TOWER_PLACES[][2];

/* d: the tower's, with its config section and names; reads everything but the number of layers that
 * are wanted. */
bool clip_tower_read(ClipTower *c, Decoder *d, Err *err) MUST_CHECK;
/* The embedded rows, before the first layer. */
Val clip_tower_embed(const ClipTower *c);
/* Rows of one image. */
uint32_t clip_tower_count(const ClipTower *c);
/* They, in slots from `slot` on; they see each other. */
void clip_tower_rows(const ClipTower *c, uint32_t slot, StepRow *rows);
/* One sequence for each of the images in pixel_values; out_rows: all but the first `skip` rows of
 * each. */
bool clip_tower_plan(const ClipTower *c, const MediaAsk *ask, uint32_t skip, Arena *a,
                     MediaPlan *out, Err *err) MUST_CHECK;

/* Names of the tower's tensors, for the families' lists. */
#define CLIP_TOWER_ROLES                                                                           \
    {ROLE_PATCH, {"embeddings.patch_embedding", NULL}},                                            \
        {ROLE_CLASS_TOKEN, {"embeddings.class_embedding", NULL}},                                  \
        {ROLE_POS_EMBED, {"embeddings.position_embedding", NULL}},                                 \
        {ROLE_EMBED_NORM, {"pre_layrnorm", NULL}},                                                 \
        {ROLE_ATTN_NORM, {"encoder.layers.%d.layer_norm1", NULL}},                                 \
        {ROLE_Q, {"encoder.layers.%d.self_attn.q_proj", NULL}},                                    \
        {ROLE_K, {"encoder.layers.%d.self_attn.k_proj", NULL}},                                    \
        {ROLE_V, {"encoder.layers.%d.self_attn.v_proj", NULL}},                                    \
        {ROLE_O, {"encoder.layers.%d.self_attn.out_proj", NULL}},                                  \
        {ROLE_FFN_NORM, {"encoder.layers.%d.layer_norm2", NULL}},                                  \
        {ROLE_UP, {"encoder.layers.%d.mlp.fc1", NULL}},                                            \
        {ROLE_DOWN, {"encoder.layers.%d.mlp.fc2", NULL}}, {                                        \
        ROLE_FINAL_NORM, { "post_layernorm", NULL }                                                \
    }

#endif
