/* qwen_tower.h: the vision towers of Qwen's models (Wang et al. 2024, Bai et al. 2025): patches of
 * two frames each, rope by line and column, blocks of merge x merge rows joined to one for the text
 * model. They differ in norms, feed-forwards, learned positions, windows.
 *
 *     if (!qwen_tower_read(&t, d, &KIND, out, err)) return false;    d: the wrapper's; t.d: the tower's
 *     Val x = qwen_tower_embed(&t);
 *     for (i ...) x = vit_layer(&t.vit, x, i);
 *     prog_output(d->b, qwen_tower_merge(&t, qwen_tower_join(&t, norm), ROLES, -1), "image_embeds");
 *
 * Inputs "patches" [T, columns] and, with learned positions, "places" [T, 8]: which four of them
 * are mixed, and how. A row's coordinates are its line and column, then where its frame is in time
 * (which no op reads, but prefixes with the same patches and other times are not the same). */
#ifndef MLXCEL_ARCH_QWEN_TOWER_H
#define MLXCEL_ARCH_QWEN_TOWER_H

#include "arch/media_grid.h"
#include "arch/vit.h"

typedef struct QwenTowerKind { /* config keys and what holds without them */
    const char *width_key, *out_key;
    uint32_t width, depth, n_heads, out, patch;
    const char *act;
    bool rms;
    bool frames_apart;
} QwenTowerKind;

typedef struct QwenTower {
    Vit vit;
    Decoder d;
    MediaGridRules grid;
    uint32_t channels, frames, patch, out_width;
    bool channels_last;
    uint32_t n_places, side; /* learned positions; of the square that they are; 0: none */
    uint32_t window;         /* blocks a side; 0: a row sees all of its frame */
} QwenTower;

/* Where the tower may hang. */
extern const char *const QWEN_TOWER_PLACES[][2];

/* Everything but the feed-forward's width, learned positions and windows; also out->placeholders
 * and out->media_spec. d: the wrapper's, with its config. */
bool qwen_tower_read(QwenTower *t, Decoder *d, const QwenTowerKind *kind, ArchModel *out,
                     Err *err) MUST_CHECK;
Val qwen_tower_embed(const QwenTower *t);
/* The rows of each block side by side. */
Val qwen_tower_join(const QwenTower *t, Val x);
/* The main merger: rows normed, joined and through the roles of PROJ. */
Val qwen_tower_embeds(const QwenTower *t, Val x);
/* Where layer i stands in a list of layers; -1: nowhere. */
int qwen_tower_listed(const int64_t *layers, size_t n, uint32_t i);
/* Two matrices with GELU between them, of layer i (-1: of none). */
Val qwen_tower_merge(const QwenTower *t, Val joined, const Role roles[2], int i);
/* For ArchMedia.plan: a sequence for each frame. */
bool qwen_tower_plan(const ArchModel *m, const MediaAsk *ask, Arena *a, MediaPlan *out,
                     Err *err) MUST_CHECK;

/* Names that all kinds share, for the families' lists. */
#define QWEN_TOWER_ROLES                                                                           \
    {ROLE_PATCH, {"patch_embed.proj", NULL}}, {ROLE_ATTN_NORM, {"blocks.%d.norm1", NULL}},         \
        {ROLE_QKV, {"blocks.%d.attn.qkv", NULL}}, {ROLE_O, {"blocks.%d.attn.proj", NULL}}, {       \
        ROLE_FFN_NORM, { "blocks.%d.norm2", NULL }                                                 \
    }

#endif
