/* Whisper's encoder: two convolutions over the frames of a log-mel spectrogram, the second of which
 * halves them, positions, pre-norm layers, a norm. One window of sound fills all its rows. */
#include <math.h>

#include "arch/whisper.h"

/* A convolution over rows. PyTorch keeps its kernel [outputs, inputs, taps], MLX [outputs, taps,
 * inputs]. */
static Val convolution(Decoder *d, const Whisper *w, Val x, Role role, Space space,
                       uint32_t stride) {
    uint32_t in = role == ROLE_FRAMES_1 ? w->n_mels : w->width;
    bool taps_last = in == WHISPER_TAPS || weights_last(d->weights, role, -1, ".weight") != in;
    const TakePart part = {
        .role = role, .n = w->width, .k = WHISPER_TAPS * in, .taps = taps_last ? WHISPER_TAPS : 0};
    const OpUnfold p = {.kernel = WHISPER_TAPS, .stride = stride, .pad = 1};
    WeightId kernel = arch_take(d, WEIGHT_MATRIX, -1, ".weight", &part, 1),
             bias = arch_take_vector(d, role, -1, ".bias", w->width);
    x = prog_linear(d->b, prog_unfold(d->b, x, space, p), kernel, bias);
    return prog_act(d->b, x, ACT_GELU, 0);
}

static Val positions(Decoder *d, const Whisper *w) {
    if (w->sinusoids) return prog_input(d->b, "positions", SPACE_T, w->width);
    WeightId table = arch_take_table(d, ROLE_POS_EMBED, w->n_source, w->width);
    return prog_embed_key(d->b, table, EMBED_POS0, 0);
}

static bool build(Decoder *d, ArchModel *out, Err *err) {
    Whisper *w = arena_new(d->arena, Whisper);
    if (!w) return err_nomem(err, "tower");
    if (!whisper_read(d->config, w, err)) return false;
    w->sinusoids = !weights_has(d->weights, ROLE_POS_EMBED, -1, ".weight");
    out->media_spec = w;
    out->tower_rows = w->n_source;
    ProgBuilder *b = d->b;
    Vit v = whisper_side(w, &w->encoder, d);
    vit_begin(&v);
    Space frames = prog_space(b, 2, 1);
    Val x = prog_input(b, "input_features", frames, w->n_mels);
    x = convolution(d, w, x, ROLE_FRAMES_1, frames, 1);
    x = convolution(d, w, x, ROLE_FRAMES_2, SPACE_T, 2);
    x = prog_probe(b, prog_add(b, x, positions(d, w), 1), "embed");
    for (uint32_t i = 0; i < w->encoder.n_layers; i++) {
        Val h = vit_norm(&v, x, ROLE_ATTN_NORM, (int)i);
        whisper_store(&v, h, ROLE_K, ROLE_V, (int)i, v.k, v.v);
        h = whisper_attend(&v, h, ROLE_Q, ROLE_O, (int)i, v.k, v.v, false);
        x = whisper_feed(&v, prog_add(b, x, h, 1), (int)i);
    }
    prog_output(b, vit_norm(&v, x, ROLE_FINAL_NORM, -1), "encoder_states");
    return true;
}

/* [mels, frames] as rows of frames; NULL: no memory. */
static const float *frames_of(const Whisper *w, const float *in, Arena *a, Err *err) {
    uint32_t n = 2 * w->n_source;
    float *rows = arena_array(a, float, (size_t)n * w->n_mels);
    if (!rows) return err_nomem(err, "frames"), NULL;
    for (uint32_t m = 0; m < w->n_mels; m++)
        for (uint32_t f = 0; f < n; f++) rows[(size_t)f * w->n_mels + m] = *in++;
    return rows;
}

/* Sines of wavelengths from 2 pi to 20000 pi, then their cosines; as Vaswani et al. 2017, not
 * interleaved. */
static const float *sinusoids(const Whisper *w, Arena *a, Err *err) {
    uint32_t half = w->width / 2;
    float *rows = arena_array(a, float, (size_t)w->n_source * w->width);
    if (!rows) return err_nomem(err, "positions"), NULL;
    double step = half > 1 ? log(10000.0) / (half - 1) : 0;
    for (uint32_t r = 0; r < w->n_source; r++)
        for (uint32_t c = 0; c < half; c++) {
            double angle = r * exp(-step * c);
            rows[(size_t)r * w->width + c] = (float)sin(angle);
            rows[(size_t)r * w->width + half + c] = (float)cos(angle);
        }
    return rows;
}

static bool rows_plan(const Whisper *w, Arena *a, MediaPlan *out) {
    uint32_t n = w->n_source;
    out->seqs = arena_new(a, MediaSeq);
    out->rows = arena_array(a, StepRow, n);
    if (!out->seqs || !out->rows) return false;
    *out->seqs = (MediaSeq){.n_rows = n, .n_embeds = n};
    for (uint32_t i = 0; i < n; i++)
        out->rows[i] = (StepRow){.slot = i, .pos = {(int32_t)i}, .hi = n, .source = STEP_MEDIA_BIT};
    out->n_seqs = 1;
    out->n_rows = out->n_embeds = n;
    return true;
}

static bool plan(const ArchModel *model, const MediaAsk *ask, Arena *a, MediaPlan *out, Err *err) {
    const Whisper *w = model->media_spec;
    const MediaTensor *t;
    if (!media_find(ask, "input_features", MEDIA_F32, 3, &t, err)) return false;
    if (t->dims[0] != 1 || t->dims[1] != w->n_mels || t->dims[2] != 2 * (uint64_t)w->n_source)
        return err_set(err, ERR_INPUT,
                       "input_features is [%llu, %llu, %llu]; [1, %u, %llu] is accepted: the input "
                       "must fill max_source_positions",
                       (unsigned long long)t->dims[0], (unsigned long long)t->dims[1],
                       (unsigned long long)t->dims[2], w->n_mels,
                       2 * (unsigned long long)w->n_source);
    if (!(out->inputs[0] = frames_of(w, t->data, a, err))) return false;
    if (w->sinusoids && !(out->inputs[1] = sinusoids(w, a, err))) return false;
    return rows_plan(w, a, out) || err_nomem(err, "frames");
}

#define NAME(role, hf, mlx)                                                                        \
    {role, {hf, NULL}}, {                                                                          \
        role, { mlx, NULL }                                                                        \
    }

static const RoleDelta NAMES[] = {
    {ROLE_FRAMES_1, {"conv1", NULL}},
    {ROLE_FRAMES_2, {"conv2", NULL}},
    {ROLE_POS_EMBED, {"embed_positions", NULL}},
    WHISPER_LAYER_NAMES(""),
    NAME(ROLE_FINAL_NORM, "layer_norm", "ln_post"),
    {ROLE_COUNT, {NULL, NULL}},
};

const ArchMedia MEDIA_WHISPER = {
    .name = "whisper",
    .kind = "sound",
    .model_types = (const char *const[]){"whisper", NULL},
    .names = NAMES,
    .places = (const char *const[][2]){{"model.encoder.", ""}, {"encoder.", ""}, {NULL, NULL}},
    .first = ROLE_FRAMES_1,
    .build = build,
    .plan = plan,
};
