#include "arch/tile_picture.h"

#include "json/json.h"

/* Tiles a side; 0: not a multiple, or too many. */
static uint32_t tiles_of(const Json *pixels, uint32_t tile) {
    int64_t n;
    if (!pixels || !json_i64(pixels, &n) || n < 1 || n % tile || n / tile > TILE_MAX_SIDE) return 0;
    return (uint32_t)(n / tile);
}

static bool size_read(const Json *pair, uint32_t tile, size_t i, TileSize *out, Err *err) {
    *out = (TileSize){tiles_of(json_at(pair, 0), tile), tiles_of(json_at(pair, 1), tile)};
    bool is_pair = pair->type == JSON_ARRAY && pair->n == 2;
    return (is_pair && out->down && out->across) ||
           err_set(err, ERR_INPUT,
                   "image_grid_pinpoints[%zu] is no [height, width] of multiples of image_size %u, "
                   "at most %d of them",
                   i, tile, TILE_MAX_SIDE);
}

/* Without a list: sizes of one to three times 336 pixels. */
static bool usual_sizes(TileRules *r, TileSize *sizes, Err *err) {
    static const TileSize USUAL[] = {{1, 2}, {2, 1}, {2, 2}, {3, 1}, {1, 3}};
    enum { PIXELS = 336, N = sizeof USUAL / sizeof *USUAL };
    uint32_t times = PIXELS / r->tile;
    if (PIXELS % r->tile || 3 * times > TILE_MAX_SIDE)
        return err_set(err, ERR_INPUT,
                       "image_grid_pinpoints is missing, without which tiles are %d pixels; "
                       "image_size is %u",
                       PIXELS, r->tile);
    for (r->n = 0; r->n < N; r->n++)
        sizes[r->n] = (TileSize){USUAL[r->n].down * times, USUAL[r->n].across * times};
    return true;
}

bool tile_rules_read(TileRules *r, const Config *c, uint32_t tile, uint32_t side, Arena *a,
                     Err *err) {
    enum { MIN_ROOM = 8 };
    const Json *list = json_get(c->json, "image_grid_pinpoints");
    bool is_list = list && list->type == JSON_ARRAY && list->n && list->n <= TILE_MAX_SIZES;
    TileSize *sizes = arena_array(a, TileSize, is_list ? list->n : MIN_ROOM);
    if (!sizes) return err_nomem(err, "tiles");
    *r = (TileRules){.sizes = sizes, .tile = tile, .side = side};
    if (!list || list->type == JSON_NULL) return usual_sizes(r, sizes, err);
    if (!is_list)
        return err_set(err, ERR_INPUT,
                       "image_grid_pinpoints is no list of 1 to %d pairs [height, width]",
                       TILE_MAX_SIZES);
    for (; r->n < list->n; r->n++)
        if (!size_read(json_at(list, r->n), tile, r->n, &sizes[r->n], err)) return false;
    return true;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* The size that keeps most of the image's pixels, then the one that wastes least. Products are
 * rounded down as the reference's doubles are, which decides near ties. */
static TileSize best_size(const TileRules *r, uint32_t height, uint32_t width) {
    TileSize best = r->sizes[0];
    uint64_t most = 0, wasted = UINT64_MAX;
    for (uint32_t i = 0; i < r->n; i++) {
        uint64_t h = (uint64_t)r->sizes[i].down * r->tile,
                 w = (uint64_t)r->sizes[i].across * r->tile;
        double by_width = (double)w / width, by_height = (double)h / height,
               scale = by_height < by_width ? by_height : by_width;
        uint64_t kept =
            least((uint64_t)(width * scale) * (uint64_t)(height * scale), (uint64_t)width * height);
        if (kept < most || (kept == most && w * h - kept >= wasted)) continue;
        best = r->sizes[i];
        most = kept;
        wasted = w * h - kept;
    }
    return best;
}

/* Lines lo to hi of `all` that are the image, when its side is to the other side as `mine` is to
 * `other` and the picture has `across` patches on the other side. The reference's quotient of
 * doubles is rounded to 7 places first, which makes it this one of whole numbers. */
static void cut(uint64_t all, uint64_t across, uint64_t mine, uint64_t other, uint32_t *lo,
                uint32_t *hi) {
    uint64_t kept = mine * across / other, margin = (all - kept) / 2;
    *lo = (uint32_t)margin;
    *hi = (uint32_t)(all - margin);
}

void tile_picture_find(const TileRules *r, uint32_t height, uint32_t width, TilePicture *out) {
    TileSize s = best_size(r, height, width);
    uint64_t lines = (uint64_t)s.down * r->side, columns = (uint64_t)s.across * r->side;
    *out = (TilePicture){
        .down = s.down, .across = s.across, .bottom = (uint32_t)lines, .right = (uint32_t)columns};
    if (width * lines > height * columns)
        cut(lines, columns, height, width, &out->top, &out->bottom);
    else
        cut(columns, lines, width, height, &out->left, &out->right);
}
