/* Any numbers of images, tiles and sizes as a request to LLaVA-NeXT: a plan that is made has the rows
 * of whole tiles, and an order that names rows of its own image or the row behind lines. Bytes: flags,
 * images, tiles an image, then height and width of each image (2 each). */
#include <stdlib.h>

#include "arch/fuzz_bytes.h"
#include "arch/llava.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const ArchMedia MEDIA_LLAVA_NEXT;

enum { MAX_IMAGES = 7, MAX_TILES = 15, MAX_SIDE = 4 };

/* Small numbers, and some that are large or negative. */
static int64_t side(Bytes *b) {
    uint32_t low = next(b), high = next(b);
    return high < 240 ? low | high % 4 << 8 : (int64_t)((uint64_t)(low + 1) << (high - 240) * 4);
}

static void check(const LlavaNext *m, const MediaPlan *p) {
    uint32_t area = m->tiles.side * m->tiles.side, n = area + m->base.tower.has_class, row = 0,
             out = 0, embed = 0;
    for (uint32_t s = 0; s < p->n_seqs; s++) {
        const MediaSeq *q = &p->seqs[s];
        if (!q->n_rows || q->n_rows % n || q->n_out != q->n_rows / n * area) abort();
        for (uint32_t i = 0; i < q->n_rows; i++, row++) {
            const StepRow *r = &p->rows[row];
            if (r->slot != i || r->lo != i / n * n || r->hi != r->lo + n) abort();
        }
        for (uint32_t i = 0; i < q->n_embeds; i++, embed++) {
            uint32_t at = p->order[embed];
            if ((at < out || at >= out + q->n_out) && at != p->n_out) abort();
        }
        out += q->n_out;
    }
    if (row != p->n_rows || out != p->n_out || embed != p->n_embeds) abort();
    for (uint32_t i = 0; i < out; i++)
        if (p->out_rows[i] >= row || (i && p->out_rows[i] <= p->out_rows[i - 1])) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const float PIXELS[MAX_IMAGES * MAX_TILES * MAX_SIDE * MAX_SIDE];
    static const TileSize SIZES[] = {{1, 2}, {2, 1}, {2, 2}, {3, 1}, {1, 3}, {3, 4}};
    static const float NEWLINE[1] = {0};
    Bytes b = {data, size};
    Arena a = {.max_bytes = 1 << 22};
    int64_t sizes[MAX_IMAGES * 2];
    uint32_t flags = next(&b), n = next(&b) % (MAX_IMAGES + 1), tiles = next(&b) % (MAX_TILES + 1);
    LlavaNext m = {.tiles = {.sizes = SIZES, .n = 1 + flags / 32 % 6, .side = 1 + flags % MAX_SIDE},
                   .newline = NEWLINE};
    m.tiles.tile = m.tiles.side;
    m.base.tower = (ClipTower){.image_size = m.tiles.tile,
                               .side = m.tiles.side,
                               .has_class = flags & 8,
                               .patches = {.channels = 1, .patch = 1, .block = 1}};
    for (uint32_t i = 0; i < 2 * n; i++) sizes[i] = side(&b);
    const MediaTensor inputs[2] = {
        {"pixel_values", MEDIA_F32, 5, {n, tiles, 1, m.tiles.tile, m.tiles.tile}, PIXELS},
        {"image_sizes", MEDIA_I64, 2, {flags & 16 ? n + 1 : n, 2}, sizes}};
    bool used[2] = {false};
    const ArchModel model = {.media_spec = &m};
    MediaPlan plan = {0};
    Err err = {0};
    if (MEDIA_LLAVA_NEXT.plan(&model, &(MediaAsk){inputs, 2, NULL, 0, used}, &a, &plan, &err))
        check(&m, &plan);
    else if (err.kind != ERR_INPUT && err.kind != ERR_LIMIT && err.kind != ERR_NOMEM)
        abort();
    arena_deinit(&a);
    return 0;
}
