/* Any grids, rows of pixels and prompt as a request to a tower: a plan that is made has rows within
 * its sequences, every row of the tower for one placeholder, and coordinates for all tokens. Bytes:
 * flags, window, then for images and for videos how many there are, rows of pixels (2), grids (6
 * each); seconds of videos (4 each); the rest are tokens. */
#include <stdlib.h>
#include <string.h>

#include "arch/fuzz_bytes.h"
#include "arch/qwen_tower.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { IMAGE = 1, VIDEO = 2, COLS = 2, MAX_GRIDS = 7, MAX_ROWS = 4096, MAX_TOKENS = 4096 };

/* Small numbers, and some that are large or negative. */
static int64_t side(Bytes *b) {
    uint32_t low = next(b), high = next(b);
    return high < 240 ? low % 32 : (int64_t)((uint64_t)(low + 1) << ((high - 240) * 5 % 64));
}

static void check_rows(const MediaPlan *p) {
    uint32_t row = 0, embeds = 0;
    for (uint32_t s = 0; s < p->n_seqs; s++) {
        const MediaSeq *q = &p->seqs[s];
        if (!q->n_rows || q->n_cross != q->n_rows) abort();
        for (uint32_t i = 0; i < q->n_rows; i++, row++) {
            const StepRow *r = &p->rows[row];
            if (r->slot != i || r->lo > i || r->hi <= i || r->hi > q->n_rows) abort();
            if (r->pos[0] < 0 || r->pos[1] < 0) abort();
        }
        embeds += q->n_embeds;
    }
    if (row != p->n_rows || embeds != p->n_embeds) abort();
}

static void check_order(const MediaPlan *p, Arena *a) {
    bool *seen = arena_array(a, bool, p->n_embeds + 1);
    for (uint32_t i = 0; seen && i < p->n_embeds; i++) {
        if (p->order[i] >= p->n_embeds || seen[p->order[i]]) abort();
        seen[p->order[i]] = true;
    }
}

static void check(const QwenTower *t, const MediaAsk *ask, const MediaPlan *p, Arena *a) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < ask->n_tokens; i++) {
        n += ask->tokens[i] == IMAGE || ask->tokens[i] == VIDEO;
        for (int k = 0; k < 4; k++)
            if (p->pos[i][k] < 0 || p->pos[i][k] >= (int64_t)ask->n_tokens + p->delta) abort();
    }
    if (n != p->n_embeds) abort();
    check_rows(p);
    check_order(p, a);
    for (uint32_t i = 0; t->side && i < p->n_rows * 8; i++) {
        float most = i % 8 < 4 ? (float)(t->side * t->side - 1) : 1; /* numbers, then weights */
        if (!(p->inputs[1][i] >= 0 && p->inputs[1][i] <= most)) abort();
    }
}

static void kind(Bytes *b, const char *pixels, const char *grid, const float *rows,
                 int64_t grids[MAX_GRIDS * 3], MediaTensor *inputs, size_t *n_inputs) {
    uint32_t n = next(b), n_rows = next(b);
    n_rows |= next(b) << 8;
    if (!n) return;
    n %= MAX_GRIDS + 1;
    for (uint32_t i = 0; i < n * 3; i++) grids[i] = side(b);
    inputs[(*n_inputs)++] =
        (MediaTensor){pixels, MEDIA_F32, 2, {n_rows % (MAX_ROWS + 1), COLS}, rows};
    inputs[(*n_inputs)++] = (MediaTensor){grid, MEDIA_I64, 2, {n, 3}, grids};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const float ROWS[MAX_ROWS * COLS];
    Bytes b = {data, size};
    Arena a = {.max_bytes = 1 << 24};
    MediaTensor inputs[5];
    int64_t grids[2][MAX_GRIDS * 3];
    float seconds[MAX_GRIDS];
    uint32_t tokens[MAX_TOKENS], flags = next(&b);
    bool used[5] = {false};
    QwenTower t = {.channels = 1, .frames = 1, .patch = 1, .window = next(&b) % 8};
    t.grid = (MediaGridRules){.image_token = IMAGE, .video_token = VIDEO, .cols = COLS};
    t.grid.merge = 1 + flags % 3;
    t.grid.frames_apart = flags & 4;
    t.side = flags & 8 ? 1 + flags / 64 * 5 : 0;
    t.grid.tokens_per_second = flags & 16 ? 2 : 0;
    MediaAsk ask = {inputs, 0, tokens, 0, used};
    kind(&b, "pixel_values", "image_grid_thw", ROWS, grids[0], inputs, &ask.n_inputs);
    kind(&b, "pixel_values_videos", "video_grid_thw", ROWS, grids[1], inputs, &ask.n_inputs);
    if (flags & 32) {
        for (int i = 0; i < MAX_GRIDS; i++) {
            uint32_t bits = next(&b) | next(&b) << 8 | next(&b) << 16 | next(&b) << 24;
            memcpy(&seconds[i], &bits, sizeof bits);
        }
        inputs[ask.n_inputs++] =
            (MediaTensor){"second_per_grid_ts", MEDIA_F32, 1, {flags / 64 + 1}, seconds};
    }
    while (b.n && ask.n_tokens < MAX_TOKENS) tokens[ask.n_tokens++] = next(&b) % 4;
    const ArchModel m = {.media_spec = &t};
    MediaPlan plan = {0};
    Err err = {0};
    bool ok = qwen_tower_plan(&m, &ask, &a, &plan, &err);
    if (ok) check(&t, &ask, &plan, &a);
    if (!ok && err.kind != ERR_INPUT && err.kind != ERR_LIMIT && err.kind != ERR_NOMEM) abort();
    arena_deinit(&a);
    return 0;
}
