#include "arch/pixtral_tower.h"

#include <math.h>

enum {
    MAX_WIDTH = 1 << 16,
    MAX_LAYERS = 1024,
    MAX_HEADS = 1024,
    MAX_PATCH = 128,
    MAX_CHANNELS = 16,
    MAX_IMAGES = 4096,
    MAX_ROWS = 1 << 24
};

/* ---- the program ---- */

/* Of the series that a head has in text models lines take the even frequencies and columns the odd
 * ones, side by side: two series of every second one, the second begun one step further on. */
static bool rope_read(PixtralTower *t, Err *err) {
    Decoder *d = t->vit.d;
    uint32_t dim = t->vit.head_dim, pairs = dim / 2, lines = (pairs + 1) / 2;
    double *divisor = arena_array(d->arena, double, pairs);
    if (!divisor) return err_nomem(err, "tower");
    RopeSpec spec = {.kind = ROPE_PLAIN,
                     .rot_dim = dim,
                     .freq_dim = pairs,
                     .factor = 1,
                     .short_factor = divisor,
                     .sections = {lines, pairs - lines},
                     .sections_restart = true};
    if (!vit_rope_theta(d->config, &spec.theta, err)) return false;
    for (uint32_t i = 0; i < pairs; i++) divisor[i] = i < lines ? 1 : pow(spec.theta, 2.0 / dim);
    t->vit.rope = true;
    t->vit.rope_spec = prog_rope_spec(d->b, spec);
    return true;
}

static bool heads_read(PixtralTower *t, Err *err) {
    Decoder *d = t->vit.d;
    uint32_t n = t->vit.n_heads, dim = d->hidden / n, named;
    if (d->hidden % n || dim % 2 || dim > 2 * ROPE_MAX_PAIRS)
        return err_set(err, ERR_INPUT,
                       "a tower %u wide with %u heads; heads of an even number of columns, at most "
                       "%d, are accepted",
                       d->hidden, n, 2 * ROPE_MAX_PAIRS);
    if (!config_u32(d->config, "head_dim", dim, 1, MAX_WIDTH, &named, err)) return false;
    if (named != dim)
        return err_set(err, ERR_UNSUPPORTED,
                       "vision head_dim %u; hidden_size / num_attention_heads, %u, is accepted",
                       named, dim);
    t->vit.head_dim = dim;
    return true;
}

bool pixtral_tower_read(PixtralTower *t, Decoder *d, uint32_t merge, Err *err) {
    const Config *v = d->config;
    VitPatches *p = &t->patches;
    Str act;
    t->merge = merge;
    t->vit = (Vit){.d = d, .rms = true, .gated = true, .no_bias = true};
    if (!config_u32(v, "hidden_size", 1024, 1, MAX_WIDTH, &d->hidden, err) ||
        !config_u32(v, "num_hidden_layers", 24, 1, MAX_LAYERS, &d->n_layers, err) ||
        !config_u32(v, "num_attention_heads", 16, 1, MAX_HEADS, &t->vit.n_heads, err) ||
        !config_u32(v, "intermediate_size", 4096, 1, MAX_WIDTH, &t->vit.ffn_width, err) ||
        !config_u32(v, "patch_size", 16, 1, MAX_PATCH, &p->patch, err) ||
        !config_u32(v, "num_channels", 3, 1, MAX_CHANNELS, &p->channels, err) ||
        !config_str(v, "hidden_act", "gelu", &act, err) || !act_parse(act, &t->vit.act, err) ||
        !heads_read(t, err))
        return false;
    d->eps = 1e-5F; /* no key says another */
    p->block = 1;
    p->channels_last = p->patch != p->channels &&
                       weights_last(d->weights, ROLE_PATCH, -1, ".weight") == p->channels;
    vit_begin(&t->vit);
    return rope_read(t, err);
}

Val pixtral_tower_embed(const PixtralTower *t) {
    const Decoder *d = t->vit.d;
    uint32_t cols = t->patches.channels * t->patches.patch * t->patches.patch;
    Val x = prog_input(d->b, "patches", SPACE_T, cols);
    x = vit_linear(&t->vit, x, ROLE_PATCH, -1, d->hidden, cols);
    return prog_probe(d->b, vit_norm(&t->vit, x, ROLE_EMBED_NORM, -1), "embed");
}

Val pixtral_tower_join(const PixtralTower *t, Val x) {
    ProgBuilder *b = t->vit.d->b;
    uint32_t n = t->vit.d->hidden, area = t->merge * t->merge;
    if (area == 1) return x;
    const OpUnfold p = {.kernel = area, .stride = area};
    Val wide = prog_unfold(b, x, prog_space(b, 1, area), p), joined = prog_view(b, wide, 0, n);
    for (uint32_t i = 1; i < area; i++)
        joined = prog_concat_groups(b, joined, prog_view(b, wide, i * n, n), n);
    return joined;
}

/* ---- a request ---- */

typedef struct Writer { /* what is filled row by row, and how far it is */
    const PixtralTower *t;
    const float *image; /* of height x width, padding among it */
    uint64_t height, width;
    StepRow *rows;
    float *patches;
    uint32_t *order;
    uint32_t n_rows, n_embeds; /* of all images */
    uint32_t slot, seen;       /* of this one; rows of it that are seen */
} Writer;

/* Rows of an image of so many patches: with those that fill it up. */
static uint64_t rows_for(const PixtralTower *t, uint64_t lines, uint64_t columns) {
    uint64_t area = (uint64_t)t->merge * t->merge;
    return (lines * columns + area - 1) / area * area;
}

static void row_write(Writer *w, uint32_t y, uint32_t x) {
    const VitPatches *p = &w->t->patches;
    w->rows[w->n_rows++] = (StepRow){.slot = w->slot++,
                                     .pos = {(int32_t)y, (int32_t)x},
                                     .hi = w->seen,
                                     .source = STEP_MEDIA_BIT};
    vit_patch(p, w->image, w->height, w->width, y, x, w->patches);
    w->patches += (size_t)p->channels * p->patch * p->patch;
}

/* Whole blocks, what is behind them, what fills the sequence up. */
static MediaSeq image_write(Writer *w, uint32_t lines, uint32_t columns) {
    uint32_t m = w->t->merge, down = lines / m, across = columns / m,
             n = (uint32_t)rows_for(w->t, lines, columns);
    w->slot = 0;
    w->seen = lines * columns;
    for (uint32_t i = 0; i < down * across; i++) w->order[w->n_embeds++] = w->n_rows / (m * m) + i;
    for (uint32_t block = 0; block < down * across; block++)
        for (uint32_t i = 0; i < m * m; i++)
            row_write(w, block / across * m + i / m, block % across * m + i % m);
    for (uint32_t y = 0; y < lines; y++)
        for (uint32_t x = y < down * m ? across * m : 0; x < columns; x++) row_write(w, y, x);
    while (w->slot < n)
        w->rows[w->n_rows++] = (StepRow){.slot = w->slot++, .pos = {-1, -1}, .hi = w->seen};
    return (MediaSeq){.n_rows = n, .n_embeds = down * across};
}

/* Lines and columns of patches of each image: grids [images, 2]. */
static bool grids_read(const PixtralTower *t, const MediaAsk *ask, const MediaTensor *pixels,
                       uint32_t *grids, Err *err) {
    const MediaTensor *sizes = NULL;
    uint64_t n = pixels->dims[0], patch = t->patches.patch, least = patch * t->merge;
    bool sized = media_has(ask, "image_sizes");
    if (sized && !media_find(ask, "image_sizes", MEDIA_I64, 2, &sizes, err)) return false;
    if (sized && (sizes->dims[0] != n || sizes->dims[1] != 2))
        return err_set(err, ERR_INPUT,
                       "image_sizes is [%llu, %llu]; [%llu, 2] is accepted for as many images",
                       (unsigned long long)sizes->dims[0], (unsigned long long)sizes->dims[1],
                       (unsigned long long)n);
    for (uint64_t i = 0; i < 2 * n; i++) {
        uint64_t room = pixels->dims[2 + i % 2];
        int64_t size = sized ? ((const int64_t *)sizes->data)[i] : (int64_t)room;
        if (size < 0 || (uint64_t)size < least || (uint64_t)size > room)
            return err_set(err, ERR_INPUT,
                           "%s: image %llu is %lld pixels %s; %llu to %llu are accepted",
                           sized ? "image_sizes" : "pixel_values", (unsigned long long)(i / 2),
                           (long long)size, i % 2 ? "wide" : "high", (unsigned long long)least,
                           (unsigned long long)room);
        grids[i] = (uint32_t)((uint64_t)size / patch);
    }
    return true;
}

static bool pixels_find(const PixtralTower *t, const MediaAsk *ask, const MediaTensor **out,
                        Err *err) {
    if (!media_find(ask, "pixel_values", MEDIA_F32, 4, out, err)) return false;
    const uint64_t *s = (*out)->dims;
    uint64_t max = (uint64_t)MAX_ROWS * t->patches.patch;
    return (s[0] >= 1 && s[0] <= MAX_IMAGES && s[1] == t->patches.channels && s[2] <= max &&
            s[3] <= max) ||
           err_set(err, ERR_INPUT,
                   "pixel_values is [%llu, %llu, %llu, %llu]; [1 to %d, %u, height, width] is "
                   "accepted",
                   (unsigned long long)s[0], (unsigned long long)s[1], (unsigned long long)s[2],
                   (unsigned long long)s[3], MAX_IMAGES, t->patches.channels);
}

/* Room for all rows; false: no memory, or too many. */
static bool writer_init(Writer *w, const MediaTensor *pixels, const uint32_t *grids, Arena *a,
                        MediaPlan *out, Err *err) {
    const VitPatches *p = &w->t->patches;
    uint64_t n_rows = 0, n_patches = 0, n = pixels->dims[0];
    for (uint64_t i = 0; i < n; i++) {
        n_rows += rows_for(w->t, grids[2 * i], grids[2 * i + 1]);
        n_patches += (uint64_t)grids[2 * i] * grids[2 * i + 1];
    }
    if (n_rows > MAX_ROWS)
        return err_set(err, ERR_LIMIT, "pixel_values has %llu patches, at most %d are accepted",
                       (unsigned long long)n_patches, MAX_ROWS);
    w->image = pixels->data;
    w->height = pixels->dims[2];
    w->width = pixels->dims[3];
    w->rows = arena_array(a, StepRow, n_rows);
    w->patches = arena_alloc_n(a, n_patches * p->channels * p->patch * p->patch, sizeof(float));
    w->order = arena_array(a, uint32_t, n_rows / (w->t->merge * w->t->merge));
    out->seqs = arena_array(a, MediaSeq, n);
    out->rows = w->rows;
    out->inputs[0] = w->patches;
    out->order = w->order;
    return (w->rows && w->patches && w->order && out->seqs) || err_nomem(err, "images");
}

bool pixtral_tower_plan(const PixtralTower *t, const MediaAsk *ask, Arena *a, MediaPlan *out,
                        Err *err) {
    const MediaTensor *pixels;
    Writer w = {.t = t};
    if (!pixels_find(t, ask, &pixels, err)) return false;
    uint32_t n = (uint32_t)pixels->dims[0], *grids = arena_array(a, uint32_t, 2 * (size_t)n);
    if (!grids) return err_nomem(err, "images");
    if (!grids_read(t, ask, pixels, grids, err) || !writer_init(&w, pixels, grids, a, out, err))
        return false;
    for (uint32_t i = 0; i < n; i++, w.image += media_elements(pixels) / n)
        out->seqs[i] = image_write(&w, grids[2 * i], grids[2 * i + 1]);
    out->n_seqs = n;
    out->n_rows = w.n_rows;
    out->n_embeds = w.n_embeds;
    return true;
}
