/* Any numbers of images and sizes as a request to Pixtral's tower: a plan that is made has every patch
 * of an image once, whole blocks first, and an order of blocks. Bytes: flags, images, height and width
 * of pixel_values, then those of each image (2 each). */
#include <stdlib.h>

#include "arch/fuzz_bytes.h"
#include "arch/pixtral_tower.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_IMAGES = 7, MAX_SIDE = 40 };

/* Small numbers, and some that are large or negative. */
static int64_t side(Bytes *b) {
    uint32_t low = next(b), high = next(b);
    return high < 240 ? low % (MAX_SIDE + 2) : (int64_t)((uint64_t)(low + 1) << (high - 240) * 4);
}

static void check_image(const MediaSeq *q, const StepRow *rows, uint32_t area) {
    bool seen[MAX_SIDE][MAX_SIDE] = {{false}};
    if (!q->n_rows || q->n_rows % area || !q->n_embeds || q->n_embeds > q->n_rows / area) abort();
    for (uint32_t i = 0; i < q->n_rows; i++) {
        const StepRow *r = &rows[i];
        if (r->slot != i || r->lo || r->hi != rows->hi || r->hi + area <= q->n_rows) abort();
        if (!(r->source & STEP_MEDIA_BIT) != (i >= r->hi)) abort();
        if (i >= r->hi) continue;
        bool *patch = &seen[r->pos[0]][r->pos[1]];
        if (*patch) abort();
        *patch = true;
    }
}

static void check(const PixtralTower *t, const MediaPlan *p) {
    uint32_t area = t->merge * t->merge, row = 0, embed = 0;
    for (uint32_t s = 0; s < p->n_seqs; s++) {
        const MediaSeq *q = &p->seqs[s];
        check_image(q, p->rows + row, area);
        for (uint32_t i = 0; i < q->n_embeds; i++)
            if (p->order[embed++] != row / area + i) abort();
        row += q->n_rows;
    }
    if (row != p->n_rows || embed != p->n_embeds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const float PIXELS[MAX_IMAGES * MAX_SIDE * MAX_SIDE];
    Bytes b = {data, size};
    Arena a = {.max_bytes = 1 << 22};
    int64_t sizes[MAX_IMAGES * 2];
    uint32_t flags = next(&b), n = next(&b) % (MAX_IMAGES + 1), height = next(&b) % (MAX_SIDE + 1),
             width = next(&b) % (MAX_SIDE + 1);
    PixtralTower t = {.merge = 1 + flags % 4,
                      .patches = {.channels = 1, .patch = 1 + flags / 4 % 3, .block = 1}};
    for (uint32_t i = 0; i < 2 * n; i++) sizes[i] = side(&b);
    const MediaTensor inputs[2] = {{"pixel_values", MEDIA_F32, 4, {n, 1, height, width}, PIXELS},
                                   {"image_sizes", MEDIA_I64, 2, {n, flags & 16 ? 3 : 2}, sizes}};
    bool used[2] = {false};
    MediaPlan plan = {0};
    Err err = {0};
    const MediaAsk ask = {inputs, flags & 32 ? 1 : 2, NULL, 0, used};
    if (pixtral_tower_plan(&t, &ask, &a, &plan, &err))
        check(&t, &plan);
    else if (err.kind != ERR_INPUT && err.kind != ERR_LIMIT && err.kind != ERR_NOMEM)
        abort();
    arena_deinit(&a);
    return 0;
}
