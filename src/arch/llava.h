/* llava.h: what LLaVA (Liu et al. 2023) and its descendants share: a CLIP or SigLIP tower, the rows
 * behind one or more of its layers with or without the class row, a projector of two matrices into
 * any text model. */
#ifndef MLXCEL_ARCH_LLAVA_H
#define MLXCEL_ARCH_LLAVA_H

#include "arch/clip_tower.h"
#include "arch/pixtral_tower.h"
#include "arch/tile_picture.h"

typedef struct Llava {
    ClipTower tower;
    Decoder d;     /* the tower's */
    uint32_t skip; /* rows of each image that are left out: the class row, or none */
    /* Pixtral's tower instead, with the same projector (vision_config.model_type "pixtral") */
    bool is_pixtral;
    PixtralTower pixtral;
} Llava;

/* LLaVA-NeXT: images as a view of the whole and tiles. */
typedef struct LlavaNext {
    Llava base;
    TileRules tiles;
    const float *newline; /* the row behind each line of the tiles' picture */
} LlavaNext;

/* Reads the config into m, which lies in d's arena, records everything up to "image_embeds", and
 * fills out->placeholders. *width: the text model's. */
bool llava_build(Llava *m, Decoder *d, ArchModel *out, uint32_t *width, Err *err) MUST_CHECK;

#define LLAVA_PROJECTOR_ROLES                                                                      \
    {ROLE_PROJ_1, {"/multi_modal_projector.linear_1", NULL}}, {                                    \
        ROLE_PROJ_2, { "/multi_modal_projector.linear_2", NULL }                                   \
    }

#endif
