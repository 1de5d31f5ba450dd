/* tile_picture.h: images cut into tiles of one size, as many as their shape asks for (Liu et al. 2024,
 * LLaVA-NeXT): an image is scaled to fit into one of several sizes (image_grid_pinpoints), in whose
 * middle it lies, and the whole is cut into tiles. What the tower makes of the tiles is laid out as
 * one picture again, without the margins.
 *
 *     if (!tile_rules_read(&rules, config, tile, side, arena, err)) return false;
 *     tile_picture_find(&rules, height, width, &p);
 *     tile p.down * p.across; lines p.top to p.bottom and columns p.left to p.right of patches are the image */
#ifndef MLXCEL_ARCH_TILE_PICTURE_H
#define MLXCEL_ARCH_TILE_PICTURE_H

#include "base/arena.h"
#include "ckpt/config.h"

enum {
    TILE_MAX_SIZES = 4096,
    TILE_MAX_SIDE = 64,        /* tiles */
    TILE_MAX_PIXELS = 1 << 20, /* a side, of an image */
};

typedef struct TileSize {
    uint32_t down, across; /* tiles */
} TileSize;

typedef struct TileRules {
    const TileSize *sizes;
    uint32_t n;
    uint32_t tile, side; /* pixels and patches of a tile's side */
} TileRules;

typedef struct TilePicture {
    uint32_t down, across;
    uint32_t top, bottom, left, right; /* patches; bottom and right are behind the last */
} TilePicture;

/* ERR_INPUT: image_grid_pinpoints is no list of [height, width], multiples of tile. */
bool tile_rules_read(TileRules *r, const Config *c, uint32_t tile, uint32_t side, Arena *a,
                     Err *err) MUST_CHECK;
/* height, width: of the image before it was scaled, 1 to TILE_MAX_PIXELS. */
void tile_picture_find(const TileRules *r, uint32_t height, uint32_t width, TilePicture *out);

#endif
