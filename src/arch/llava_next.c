/* LLaVA-NeXT (Liu et al. 2024): LLaVA whose images come as a view of the whole and tiles, each one
 * image of the tower. The text model gets the view's rows, then those of the picture that the tiles
 * make, line by line, with one row more behind each line. An image is a sequence, in which the rows
 * of a tile see each other; their last two coordinates are where they are in the picture (-1: nowhere),
 * which no op reads, but prefixes with the same tiles and other pictures are not the same. */
#include "arch/llava.h"

static bool build(Decoder *d, ArchModel *out, Err *err) {
    LlavaNext *m = arena_new(d->arena, LlavaNext);
    uint32_t width;
    if (!m) return err_nomem(err, "tower");
    out->media_spec = m;
    if (!llava_build(&m->base, d, out, &width, err)) return false;
    const ClipTower *t = &m->base.tower;
    if (m->base.is_pixtral)
        return err_set(err, ERR_UNSUPPORTED,
                       "vision_config.model_type \"pixtral\" with tiles; towers of one image size "
                       "are accepted");
    if (m->base.skip != t->has_class)
        return err_set(err, ERR_UNSUPPORTED,
                       "the rows of a tile are no square: vision_feature_select_strategy default "
                       "is accepted with a class row, full without one");
    const double *row = weights_values(d->weights, ROLE_NEWLINE, -1, "", width);
    float *newline = arena_array(d->arena, float, width + (size_t)1);
    if (!newline) return err_nomem(err, "tower");
    for (uint32_t i = 0; row && i < width; i++) newline[i] = (float)row[i];
    m->newline = newline;
    return tile_rules_read(&m->tiles, d->config, t->image_size, t->side, d->arena, err);
}

/* ---- a request ---- */

typedef struct Writer { /* what is filled image by image */
    const LlavaNext *m;
    MediaPlan *out;
    float *patches;
    uint32_t *order;
    uint32_t newline; /* in the order: behind all rows of the tower */
} Writer;

static uint32_t tiles_of(const TilePicture *p) { return 1 + p->down * p->across; }

static uint64_t embeds_of(const LlavaNext *m, const TilePicture *p) {
    uint64_t side = m->tiles.side, lines = p->bottom - p->top;
    return side * side + lines * (p->right - p->left + 1);
}

/* The tower's row for a patch of the picture, counted from the image's first; the view is tile 0. */
static uint32_t picture_row(const LlavaNext *m, const TilePicture *p, uint32_t line,
                            uint32_t column) {
    uint32_t side = m->tiles.side, tile = 1 + line / side * p->across + column / side;
    return (tile * side + line % side) * side + column % side;
}

/* The tower's rows from `first` on into the placeholders' order. */
static void order_write(Writer *w, const TilePicture *p, uint32_t first) {
    uint32_t area = w->m->tiles.side * w->m->tiles.side;
    for (uint32_t i = 0; i < area; i++) *w->order++ = first + i;
    for (uint32_t y = p->top; y < p->bottom; y++) {
        for (uint32_t x = p->left; x < p->right; x++)
            *w->order++ = first + picture_row(w->m, p, y, x);
        *w->order++ = w->newline;
    }
}

/* Where the rows of a tile are in the picture; rows: behind the class row. */
static void places_write(const LlavaNext *m, const TilePicture *p, uint32_t tile, StepRow *rows) {
    uint32_t side = m->tiles.side;
    for (uint32_t i = 0; i < side * side; i++) {
        uint32_t y = tile ? (tile - 1) / p->across * side + i / side : 0,
                 x = tile ? (tile - 1) % p->across * side + i % side : 0;
        bool seen = tile && y >= p->top && y < p->bottom && x >= p->left && x < p->right;
        rows[i].pos[2] = seen ? (int32_t)(y - p->top) : -1;
        rows[i].pos[3] = seen ? (int32_t)(x - p->left) : -1;
    }
}

static void image_write(Writer *w, const TilePicture *p, const float *pixels) {
    const ClipTower *t = &w->m->base.tower;
    MediaPlan *out = w->out;
    uint32_t n = clip_tower_count(t), area = t->side * t->side, tiles = tiles_of(p),
             first = out->n_rows, size = t->image_size;
    out->seqs[out->n_seqs++] = (MediaSeq){
        .n_rows = tiles * n, .n_out = tiles * area, .n_embeds = (uint32_t)embeds_of(w->m, p)};
    order_write(w, p, out->n_out);
    for (uint32_t i = 0; i < tiles; i++, pixels += (size_t)t->patches.channels * size * size) {
        StepRow *rows = out->rows + out->n_rows;
        clip_tower_rows(t, out->n_rows - first, rows);
        places_write(w->m, p, i, rows + t->has_class);
        for (uint32_t k = t->has_class; k < n; k++) out->out_rows[out->n_out++] = out->n_rows + k;
        w->patches = vit_patches_write(&t->patches, pixels, size, size, w->patches);
        out->n_rows += n;
    }
}

/* Room for as many rows as the pictures say; false: no memory, or too many. */
static bool writer_init(Writer *w, const TilePicture *pictures, uint64_t n, Arena *a, Err *err) {
    enum { MAX_ROWS = 1 << 24 };
    const ClipTower *t = &w->m->base.tower;
    MediaPlan *out = w->out;
    uint64_t tiles = 0, embeds = 0, area = (uint64_t)t->side * t->side;
    for (uint64_t i = 0; i < n; i++) {
        tiles += tiles_of(&pictures[i]);
        embeds += embeds_of(w->m, &pictures[i]);
    }
    uint64_t n_rows = tiles * clip_tower_count(t);
    if (n_rows > MAX_ROWS)
        return err_set(err, ERR_LIMIT, "%llu tiles have too many patches; %d are accepted",
                       (unsigned long long)tiles, MAX_ROWS);
    size_t cols = (size_t)t->patches.channels * t->patches.patch * t->patches.patch;
    out->seqs = arena_array(a, MediaSeq, n);
    out->rows = arena_array(a, StepRow, n_rows);
    out->out_rows = arena_array(a, uint32_t, tiles * area);
    out->inputs[0] = w->patches = arena_alloc_n(a, tiles * area * cols, sizeof(float));
    out->order = w->order = arena_array(a, uint32_t, embeds);
    out->constants = w->m->newline;
    out->n_embeds = (uint32_t)embeds;
    w->newline = (uint32_t)(tiles * area);
    return (out->seqs && out->rows && out->out_rows && w->patches && w->order) ||
           err_nomem(err, "images");
}

/* pixel_values [images, tiles, channels, side, side]: images with fewer tiles than others are filled
 * up. */
static bool inputs_find(const LlavaNext *m, const MediaAsk *ask, const MediaTensor **pixels,
                        const MediaTensor **sizes, Err *err) {
    enum { MAX_IMAGES = 4096 };
    const ClipTower *t = &m->base.tower;
    uint64_t size = t->image_size, channels = t->patches.channels;
    if (!media_find(ask, "pixel_values", MEDIA_F32, 5, pixels, err) ||
        !media_find(ask, "image_sizes", MEDIA_I64, 2, sizes, err))
        return false;
    const uint64_t *p = (*pixels)->dims, *s = (*sizes)->dims;
    if (p[0] < 1 || p[0] > MAX_IMAGES || p[2] != channels || p[3] != size || p[4] != size)
        return err_set(err, ERR_INPUT,
                       "pixel_values is [%llu, %llu, %llu, %llu, %llu]; [1 to %d, tiles, %llu, "
                       "%llu, %llu] is accepted",
                       (unsigned long long)p[0], (unsigned long long)p[1], (unsigned long long)p[2],
                       (unsigned long long)p[3], (unsigned long long)p[4], MAX_IMAGES,
                       (unsigned long long)channels, (unsigned long long)size,
                       (unsigned long long)size);
    return (s[0] == p[0] && s[1] == 2) ||
           err_set(err, ERR_INPUT,
                   "image_sizes is [%llu, %llu]; [%llu, 2] is accepted for as many images",
                   (unsigned long long)s[0], (unsigned long long)s[1], (unsigned long long)p[0]);
}

static bool picture_read(const LlavaNext *m, uint64_t i, const int64_t size[2], uint64_t n_tiles,
                         TilePicture *out, Err *err) {
    for (int k = 0; k < 2; k++)
        if (size[k] < 1 || size[k] > TILE_MAX_PIXELS)
            return err_set(
                err, ERR_INPUT, "image_sizes[%llu] is %lld x %lld pixels; 1 to %d are accepted",
                (unsigned long long)i, (long long)size[0], (long long)size[1], TILE_MAX_PIXELS);
    tile_picture_find(&m->tiles, (uint32_t)size[0], (uint32_t)size[1], out);
    return tiles_of(out) <= n_tiles ||
           err_set(err, ERR_INPUT,
                   "pixel_values has %llu tiles an image; image %llu of %lld x %lld pixels has %u "
                   "with the view of the whole",
                   (unsigned long long)n_tiles, (unsigned long long)i, (long long)size[0],
                   (long long)size[1], tiles_of(out));
}

static bool plan(const ArchModel *model, const MediaAsk *ask, Arena *a, MediaPlan *out, Err *err) {
    const LlavaNext *m = model->media_spec;
    const MediaTensor *pixels, *sizes;
    Writer w = {.m = m, .out = out};
    if (!inputs_find(m, ask, &pixels, &sizes, err)) return false;
    uint64_t n = pixels->dims[0], image = media_elements(pixels) / n;
    TilePicture *pictures = arena_array(a, TilePicture, n);
    if (!pictures) return err_nomem(err, "images");
    for (uint64_t i = 0; i < n; i++)
        if (!picture_read(m, i, (const int64_t *)sizes->data + 2 * i, pixels->dims[1], &pictures[i],
                          err))
            return false;
    if (!writer_init(&w, pictures, n, a, err)) return false;
    for (uint64_t i = 0; i < n; i++)
        image_write(&w, &pictures[i], (const float *)pixels->data + i * image);
    return true;
}

static const RoleDelta NAMES[] = {
    CLIP_TOWER_ROLES,
    LLAVA_PROJECTOR_ROLES,
    {ROLE_NEWLINE, {"/image_newline", NULL}},
    {ROLE_COUNT, {NULL, NULL}},
};

const ArchMedia MEDIA_LLAVA_NEXT = {
    .name = "llava_next",
    .kind = "image",
    .model_types = (const char *const[]){"llava_next", NULL},
    .names = NAMES,
    .places = CLIP_TOWER_PLACES,
    .first = ROLE_PATCH,
    /* layers behind the chosen one, and what pools */
    .ignored = (const char *const[]){"*vision_tower.*", NULL},
    .build = build,
    .plan = plan,
};
