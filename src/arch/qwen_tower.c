#include "arch/qwen_tower.h"

#include <math.h>
#include <string.h>

enum {
    MAX_WIDTH = GATHER_MAX_COLS,
    MAX_LAYERS = 1024,
    MAX_HEADS = 1024,
    MAX_PATCH = 128,
    MAX_FRAMES = 16,
    MAX_CHANNELS = 16,
    MAX_MERGE = 8,
    N_TAPS = 4
};

const char *const QWEN_TOWER_PLACES[][2] = {
    {"model.visual.", "model."}, {"visual.", ""}, {"vision_tower.", ""}, {NULL, NULL}};

/* ---- the program ---- */

static bool sizes_read(QwenTower *t, const QwenTowerKind *kind, Err *err) {
    const Config *v = t->d.config;
    Str act;
    return config_u32(v, kind->width_key, kind->width, 1, MAX_WIDTH, &t->d.hidden, err) &&
           config_u32(v, kind->out_key, kind->out, 1, MAX_WIDTH, &t->out_width, err) &&
           config_u32(v, "depth|num_hidden_layers", kind->depth, 1, MAX_LAYERS, &t->d.n_layers,
                      err) &&
           config_u32(v, "num_heads|num_attention_heads", kind->n_heads, 1, MAX_HEADS,
                      &t->vit.n_heads, err) &&
           config_u32(v, "in_channels", 3, 1, MAX_CHANNELS, &t->channels, err) &&
           config_u32(v, "patch_size", kind->patch, 1, MAX_PATCH, &t->patch, err) &&
           config_u32(v, "temporal_patch_size", 2, 1, MAX_FRAMES, &t->frames, err) &&
           config_u32(v, "spatial_merge_size", 2, 1, MAX_MERGE, &t->grid.merge, err) &&
           config_str(v, "hidden_act", kind->act, &act, err) && act_parse(act, &t->vit.act, err);
}

/* Lines turn the first half of each head's pairs, columns the second, with the same frequencies. */
static bool rope_read(QwenTower *t, Err *err) {
    uint32_t dim = t->vit.head_dim;
    RopeSpec spec = {.kind = ROPE_PLAIN,
                     .rot_dim = dim,
                     .freq_dim = dim / 2,
                     .factor = 1,
                     .sections = {dim / 4, dim / 4},
                     .sections_restart = true};
    if (!vit_rope_theta(t->d.config, &spec.theta, err)) return false;
    t->vit.rope = true;
    t->vit.rope_spec = prog_rope_spec(t->d.b, spec);
    return true;
}

static bool heads_read(QwenTower *t, Err *err) {
    uint32_t n = t->vit.n_heads;
    if (t->d.hidden % n || t->d.hidden / n % 4 || t->d.hidden / n > 2 * ROPE_MAX_PAIRS)
        return err_set(err, ERR_INPUT,
                       "a tower %u wide with %u heads; heads of a multiple of 4 columns, at most "
                       "%d, are accepted",
                       t->d.hidden, n, 2 * ROPE_MAX_PAIRS);
    t->vit.head_dim = t->d.hidden / n;
    return true;
}

bool qwen_tower_read(QwenTower *t, Decoder *d, const QwenTowerKind *kind, ArchModel *out,
                     Err *err) {
    Config *vision = arena_new(d->arena, Config);
    if (!vision) return err_nomem(err, "tower");
    if (!media_section(d->config, "vision_config", vision, err)) return false;
    t->d = *d;
    t->d.config = vision;
    t->d.eps = 1e-6F; /* no key says another */
    t->vit = (Vit){.d = &t->d, .rms = kind->rms, .fused_qkv = true};
    if (!sizes_read(t, kind, err) || !heads_read(t, err) || !rope_read(t, err) ||
        !config_u32(d->config, "image_token_id", 151655, 0, INT32_MAX, &t->grid.image_token, err) ||
        !config_u32(d->config, "video_token_id", 151656, 0, INT32_MAX, &t->grid.video_token, err))
        return false;
    t->grid.cols = t->channels * t->frames * t->patch * t->patch;
    t->grid.frames_apart = kind->frames_apart;
    t->channels_last = t->patch != t->channels &&
                       weights_last(d->weights, ROLE_PATCH, -1, ".weight") == t->channels;
    out->media_spec = t;
    out->placeholders[0] = t->grid.image_token;
    out->placeholders[1] = t->grid.video_token;
    out->n_placeholders = 2;
    vit_begin(&t->vit);
    return true;
}

Val qwen_tower_embed(const QwenTower *t) {
    const Decoder *d = &t->d;
    Val x = prog_input(d->b, "patches", SPACE_T, t->grid.cols);
    x = vit_linear(&t->vit, x, ROLE_PATCH, -1, d->hidden, t->grid.cols);
    if (t->side) {
        WeightId table = arch_take_table(t->vit.d, ROLE_POS_EMBED, t->n_places, d->hidden);
        Val places = prog_input(d->b, "places", SPACE_T, 2 * N_TAPS);
        x = prog_add(d->b, x, prog_gather_sum(d->b, places, table), 1);
    }
    return prog_probe(d->b, x, "embed");
}

Val qwen_tower_join(const QwenTower *t, Val x) {
    uint32_t area = t->grid.merge * t->grid.merge;
    return prog_unfold(t->d.b, x, prog_space(t->d.b, 1, area),
                       (OpUnfold){.kernel = area, .stride = area});
}

Val qwen_tower_merge(const QwenTower *t, Val joined, const Role roles[2], int i) {
    uint32_t width = t->d.hidden * t->grid.merge * t->grid.merge;
    Val x = vit_linear(&t->vit, joined, roles[0], i, width, width);
    x = prog_act(t->d.b, x, ACT_GELU, 0);
    return vit_linear(&t->vit, x, roles[1], i, t->out_width, width);
}

Val qwen_tower_embeds(const QwenTower *t, Val x) {
    static const Role ROLES[2] = {ROLE_PROJ_1, ROLE_PROJ_2};
    x = qwen_tower_join(t, vit_norm(&t->vit, x, ROLE_PROJ_NORM, -1));
    return qwen_tower_merge(t, x, ROLES, -1);
}

int qwen_tower_listed(const int64_t *layers, size_t n, uint32_t i) {
    for (size_t k = 0; k < n; k++)
        if (layers[k] == i) return (int)k;
    return -1;
}

/* ---- a request ---- */

typedef struct Writer { /* what is filled row by row, and how far it is */
    const QwenTower *t;
    MediaSeq *seqs;
    StepRow *rows;
    uint32_t *order;
    float *patches, *places;
    uint32_t n_seqs, n_rows;
} Writer;

/* A row as the file has the kernel: channels outermost, or innermost as in MLX files. */
static void patch_copy(const QwenTower *t, const float *in, float *out) {
    uint32_t n = t->frames * t->patch * t->patch;
    if (!t->channels_last) {
        memcpy(out, in, t->grid.cols * sizeof *out);
        return;
    }
    for (uint32_t c = 0; c < t->channels; c++)
        for (uint32_t i = 0; i < n; i++) out[i * t->channels + c] = *in++;
}

/* Between which two of `side` learned places the i-th of n lies, the first and last on the edges;
 * in f32, as the reference has it. */
static void taps(uint32_t i, uint32_t n, uint32_t side, float at[2], float weight[2]) {
    float from = (float)i * (float)(side - 1) / (float)(n > 1 ? n - 1 : 1), low = floorf(from),
          last = (float)(side - 1);
    at[0] = low < last ? low : last;
    at[1] = low + 1 < last ? low + 1 : last;
    weight[1] = from - low;
    weight[0] = 1 - weight[1];
}

/* [numbers | weights] of the four learned positions around a patch. */
static void places_write(const QwenTower *t, const MediaGridItem *it, uint32_t y, uint32_t x,
                         float out[2 * N_TAPS]) {
    float line[2], column[2], by_line[2], by_column[2];
    taps(y, it->h, t->side, line, by_line);
    taps(x, it->w, t->side, column, by_column);
    for (int i = 0; i < N_TAPS; i++) {
        out[i] = line[i / 2] * (float)t->side + column[i % 2];
        out[N_TAPS + i] = by_line[i / 2] * by_column[i % 2];
    }
}

/* Where a frame's rows come from. */
typedef struct Frame {
    const MediaGridItem *item;
    uint32_t i, first; /* of the item; its first row in the tower */
} Frame;

/* One block, whose rows see slots lo..hi. */
static void block_write(Writer *w, const Frame *f, uint32_t by, uint32_t bx, uint32_t lo,
                        uint32_t hi) {
    const MediaGridItem *it = f->item;
    const QwenTower *t = w->t;
    uint32_t m = t->grid.merge, area = m * m, block = by * (it->w / m) + bx;
    const float *patch =
        it->patches + ((size_t)f->i * it->h * it->w + (size_t)block * area) * t->grid.cols;
    w->order[f->first / area + block] = w->n_rows / area;
    for (uint32_t i = 0; i < area; i++, w->n_rows++, patch += t->grid.cols) {
        uint32_t y = by * m + i / m, x = bx * m + i % m, r = w->n_rows;
        w->rows[r] =
            (StepRow){.slot = r - f->first,
                      .pos = {(int32_t)y, (int32_t)x, media_grid_time(it, f->i), (int32_t)f->i},
                      .lo = lo,
                      .hi = hi,
                      .source = STEP_MEDIA_BIT};
        patch_copy(t, patch, w->patches + (size_t)r * t->grid.cols);
        if (t->side) places_write(t, it, y, x, w->places + (size_t)r * 2 * N_TAPS);
    }
}

/* The blocks of lines [y0, y1) and columns [x0, x1), which see each other. */
static void window_write(Writer *w, const Frame *f, uint32_t y0, uint32_t y1, uint32_t x0,
                         uint32_t x1) {
    uint32_t area = w->t->grid.merge * w->t->grid.merge, lo = w->n_rows - f->first,
             hi = lo + (y1 - y0) * (x1 - x0) * area;
    for (uint32_t y = y0; y < y1; y++)
        for (uint32_t x = x0; x < x1; x++) block_write(w, f, y, x, lo, hi);
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Window by window; those at the right and lower edges may be smaller. */
static void frame_write(Writer *w, const MediaGridItem *it, uint32_t i) {
    uint32_t m = w->t->grid.merge, lines = it->h / m, columns = it->w / m, n = it->h * it->w;
    uint32_t side = w->t->window ? w->t->window : lines > columns ? lines : columns;
    const Frame f = {it, i, w->n_rows};
    w->seqs[w->n_seqs++] = (MediaSeq){.n_rows = n, .n_cross = n, .n_embeds = n / (m * m)};
    for (uint32_t y = 0; y < lines; y += side)
        for (uint32_t x = 0; x < columns; x += side)
            window_write(w, &f, y, least(y + side, lines), x, least(x + side, columns));
}

bool qwen_tower_plan(const ArchModel *m, const MediaAsk *ask, Arena *a, MediaPlan *out, Err *err) {
    const QwenTower *t = m->media_spec;
    MediaGrid g;
    if (!media_grid_read(&t->grid, ask, a, &g, err)) return false;
    Writer w = {.t = t,
                .seqs = arena_array(a, MediaSeq, g.n_frames),
                .rows = arena_array(a, StepRow, g.n_rows),
                .order = arena_array(a, uint32_t, g.n_embeds),
                .patches = arena_alloc_n(a, (size_t)g.n_rows * t->grid.cols, sizeof(float)),
                .places = arena_array(a, float, (size_t)g.n_rows * 2 * N_TAPS)};
    if (!w.seqs || !w.rows || !w.order || !w.patches || !w.places) return err_nomem(err, "media");
    for (uint32_t i = 0; i < g.n; i++)
        for (uint32_t k = 0; k < g.items[i].t; k++) frame_write(&w, &g.items[i], k);
    out->seqs = w.seqs;
    out->rows = w.rows;
    out->order = w.order;
    out->n_seqs = w.n_seqs;
    out->n_rows = w.n_rows;
    out->n_embeds = g.n_embeds;
    out->inputs[0] = w.patches;
    out->inputs[1] = w.places;
    return media_grid_positions(&g, t->grid.merge, ask->n_tokens, a, out, err);
}
