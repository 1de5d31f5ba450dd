#include "arch/media_grid.h"

#include <math.h>
#include <string.h>

enum { MAX_ITEMS = 1 << 16, MAX_SIDE = 1 << 16, MAX_ROWS = 1 << 24, MAX_POSITION = 1 << 30 };

typedef struct Kind { /* images or videos of a request */
    const char *noun, *pixels, *grid;
    uint32_t token;
    MediaGridItem *items;
    uint32_t n, next; /* next: the first that no placeholder stands for yet */
} Kind;

static const MediaTensor *given(const MediaAsk *ask, const char *name) {
    for (size_t i = 0; i < ask->n_inputs; i++)
        if (str_eqc(str_c(ask->inputs[i].name), name)) return &ask->inputs[i];
    return NULL;
}

/* ---- the tensors ---- */

static bool item_read(const Kind *k, const int64_t thw[3], uint32_t merge, uint64_t rows_left,
                      MediaGridItem *out, Err *err) {
    for (int i = 0; i < 3; i++)
        if (thw[i] < 1 || thw[i] > MAX_SIDE)
            return err_set(err, ERR_INPUT,
                           "%s has a grid of %lld x %lld x %lld, 1 to %d each is "
                           "accepted",
                           k->grid, (long long)thw[0], (long long)thw[1], (long long)thw[2],
                           MAX_SIDE);
    if (thw[1] % merge || thw[2] % merge)
        return err_set(err, ERR_INPUT,
                       "%s has a grid of %lld x %lld patches, multiples of %u are accepted",
                       k->grid, (long long)thw[1], (long long)thw[2], merge);
    if ((uint64_t)(thw[0] * thw[1] * thw[2]) > rows_left)
        return err_set(err, ERR_INPUT, "%s has more patches than %s has rows", k->grid, k->pixels);
    *out = (MediaGridItem){
        .t = (uint32_t)thw[0], .h = (uint32_t)thw[1], .w = (uint32_t)thw[2], .interval = 1};
    return true;
}

static bool pixels_find(const MediaGridRules *r, const MediaAsk *ask, const Kind *k,
                        const MediaTensor **pixels, const MediaTensor **grid, Err *err) {
    if (!media_find(ask, k->pixels, MEDIA_F32, 2, pixels, err) ||
        !media_find(ask, k->grid, MEDIA_I64, 2, grid, err))
        return false;
    const uint64_t *p = (*pixels)->dims, *g = (*grid)->dims;
    if (p[1] != r->cols)
        return err_set(err, ERR_INPUT, "%s has %llu columns, %u are accepted", k->pixels,
                       (unsigned long long)p[1], r->cols);
    if (g[0] < 1 || g[0] > MAX_ITEMS || g[1] != 3)
        return err_set(err, ERR_INPUT, "%s is [%llu, %llu], [1 to %d, 3] is accepted", k->grid,
                       (unsigned long long)g[0], (unsigned long long)g[1], MAX_ITEMS);
    return p[0] <= MAX_ROWS || err_set(err, ERR_LIMIT, "%s has %llu rows, at most %d are accepted",
                                       k->pixels, (unsigned long long)p[0], MAX_ROWS);
}

/* Seconds from frame to frame of each video; *out NULL: not given. */
static bool seconds_find(const MediaAsk *ask, uint64_t n_videos, const MediaTensor **out,
                         Err *err) {
    static const char NAME[] = "second_per_grid_ts";
    const MediaTensor *t = given(ask, NAME);
    *out = NULL;
    if (!t) return true;
    if (!media_find(ask, NAME, t->type, 1, out, err)) return false;
    return t->dims[0] == n_videos ||
           err_set(err, ERR_INPUT, "%s has %llu numbers for %llu videos", NAME,
                   (unsigned long long)t->dims[0], (unsigned long long)n_videos);
}

static bool interval_read(const MediaTensor *seconds, size_t i, float per_second,
                          MediaGridItem *item, Err *err) {
    float s = !seconds                     ? 1
              : seconds->type == MEDIA_F32 ? ((const float *)seconds->data)[i]
                                           : (float)((const int64_t *)seconds->data)[i];
    item->interval = s * per_second;
    if (s >= 0 && (double)item->interval * item->t <= MAX_POSITION) return true;
    return err_set(err, ERR_INPUT,
                   "second_per_grid_ts is %g for a video of %u frames; at least 0, and at most %d "
                   "steps of time in all, are accepted",
                   (double)s, item->t, MAX_POSITION);
}

/* The frames of a video as items. */
static void frames_part(Kind *k, const MediaGridItem *whole, uint64_t cols) {
    for (uint32_t i = 0; i < whole->t; i++) {
        MediaGridItem *item = &k->items[k->n++];
        *item = *whole;
        item->t = 1;
        item->patches += i * cols * whole->h * whole->w;
    }
}

static bool kind_read(const MediaGridRules *r, const MediaAsk *ask, bool video, Kind *k, Arena *a,
                      Err *err) {
    const MediaTensor *pixels, *grid, *seconds = NULL;
    if (!given(ask, k->pixels) && !given(ask, k->grid)) return true;
    if (!pixels_find(r, ask, k, &pixels, &grid, err)) return false;
    bool timed = video && r->tokens_per_second > 0;
    if (timed && !seconds_find(ask, grid->dims[0], &seconds, err)) return false;
    uint64_t left = pixels->dims[0], room = video && r->frames_apart ? left : grid->dims[0];
    const float *patches = pixels->data;
    const int64_t *thw = grid->data;
    k->items = arena_array(a, MediaGridItem, room + 1);
    if (!k->items) return err_nomem(err, "media");
    for (uint64_t i = 0; i < grid->dims[0]; i++, thw += 3) {
        MediaGridItem item;
        if (!item_read(k, thw, r->merge, left, &item, err)) return false;
        if (timed && !interval_read(seconds, i, r->tokens_per_second, &item, err)) return false;
        uint64_t rows = (uint64_t)item.t * item.h * item.w;
        item.patches = patches;
        patches += rows * r->cols;
        left -= rows;
        if (video && r->frames_apart)
            frames_part(k, &item, r->cols);
        else
            k->items[k->n++] = item;
    }
    return !left || err_set(err, ERR_INPUT, "%s has %llu rows more than %s has patches", k->pixels,
                            (unsigned long long)left, k->grid);
}

/* ---- the prompt ---- */

static bool run_holds(const MediaAsk *ask, const Kind *k, uint32_t from, uint32_t n, Err *err) {
    uint32_t has = 0;
    while (has < n && from + has < ask->n_tokens && ask->tokens[from + has] == k->token) has++;
    return has == n ||
           err_set(err, ERR_INPUT,
                   "%s %u needs %u placeholders (token %u), the prompt has %u at its token %u",
                   k->noun, k->next, n, k->token, has, from);
}

static void item_put(MediaGrid *g, const MediaGridItem *item, uint32_t token, uint32_t n_embeds) {
    g->items[g->n] = *item;
    g->items[g->n++].token = token;
    g->n_frames += item->t;
    g->n_rows += item->t * item->h * item->w;
    g->n_embeds += n_embeds;
}

/* Items in the order of their placeholders. */
static bool place(const MediaGridRules *r, const MediaAsk *ask, Kind kinds[2], MediaGrid *out,
                  Err *err) {
    for (uint32_t i = 0; i < ask->n_tokens;) {
        uint32_t token = ask->tokens[i];
        Kind *k = token == kinds[0].token ? &kinds[0] : token == kinds[1].token ? &kinds[1] : NULL;
        if (!k) {
            i++;
            continue;
        }
        if (k->next == k->n)
            return err_set(err, ERR_INPUT,
                           "the prompt's token %u is a placeholder (%u), and no %s is left for it",
                           i, token, k->noun);
        const MediaGridItem *item = &k->items[k->next];
        uint32_t n = item->t * (item->h / r->merge) * (item->w / r->merge);
        if (!run_holds(ask, k, i, n, err)) return false;
        k->next++;
        item_put(out, item, i, n);
        i += n;
    }
    for (int j = 0; j < 2; j++)
        if (kinds[j].next < kinds[j].n)
            return err_set(err, ERR_INPUT,
                           "%s has %u %ss, the prompt has placeholders (token %u) for %u",
                           kinds[j].grid, kinds[j].n, kinds[j].noun, kinds[j].token, kinds[j].next);
    return true;
}

bool media_grid_read(const MediaGridRules *r, const MediaAsk *ask, Arena *a, MediaGrid *out,
                     Err *err) {
    Kind kinds[2] = {
        {"image", "pixel_values", "image_grid_thw", r->image_token, NULL, 0, 0},
        {"video", "pixel_values_videos", "video_grid_thw", r->video_token, NULL, 0, 0}};
    *out = (MediaGrid){0};
    for (int i = 0; i < 2; i++)
        if (!kind_read(r, ask, i == 1, &kinds[i], a, err)) return false;
    if (!kinds[0].n && !kinds[1].n)
        return err_set(err, ERR_INPUT, "input pixel_values or pixel_values_videos is missing");
    out->items = arena_array(a, MediaGridItem, (size_t)kinds[0].n + kinds[1].n);
    return out->items ? place(r, ask, kinds, out, err) : err_nomem(err, "media");
}

/* ---- rope coordinates ---- */

int32_t media_grid_time(const MediaGridItem *item, uint32_t i) {
    return (int32_t)((float)i * item->interval);
}

static void text_positions(int32_t (*pos)[4], uint32_t from, uint32_t to, int32_t first) {
    for (uint32_t i = from; i < to; i++)
        for (int k = 0; k < 4; k++) pos[i][k] = first + (int32_t)(i - from);
}

/* The fourth coordinate is time again, which is what a fourth section of rope turns by. */
static void item_positions(const MediaGridItem *item, uint32_t merge, int32_t first,
                           int32_t (*pos)[4]) {
    for (uint32_t t = 0; t < item->t; t++) {
        int32_t time = first + media_grid_time(item, t);
        for (uint32_t y = 0; y < item->h / merge; y++)
            for (uint32_t x = 0; x < item->w / merge; x++, pos++) {
                const int32_t p[4] = {time, first + (int32_t)y, first + (int32_t)x, time};
                memcpy(*pos, p, sizeof p);
            }
    }
}

bool media_grid_positions(const MediaGrid *g, uint32_t merge, uint32_t n_tokens, Arena *a,
                          MediaPlan *out, Err *err) {
    int64_t next = 0, end = 0; /* where the next token is; behind the largest coordinate so far */
    uint32_t at = 0;
    out->pos = arena_alloc_n(a, (size_t)n_tokens + 1, sizeof *out->pos);
    if (!out->pos) return err_nomem(err, "positions");
    for (uint32_t i = 0; i <= g->n; i++) {
        const MediaGridItem *item = i < g->n ? &g->items[i] : NULL;
        uint32_t to = item ? item->token : n_tokens, longer = 0;
        int32_t time = 0;
        if (item) longer = (item->h > item->w ? item->h : item->w) / merge;
        if (item) time = media_grid_time(item, item->t - 1);
        if (next + to - at + longer + time > MAX_POSITION)
            return err_set(err, ERR_LIMIT, "positions go beyond %d", MAX_POSITION);
        text_positions(out->pos, at, to, (int32_t)next);
        next += to - at;
        end = next > end ? next : end;
        if (!item) break;
        item_positions(item, merge, (int32_t)next, out->pos + to);
        end = next + time + 1 > end ? next + time + 1 : end;
        next += longer;
        end = next > end ? next : end;
        at = to + item->t * (item->h / merge) * (item->w / merge);
    }
    out->delta = (int32_t)(end - n_tokens);
    return true;
}
