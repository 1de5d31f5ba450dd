/* media_grid.h: images and videos that come as rows of patches with a grid for each, as Qwen's
 * processors give them: pixel_values [rows, columns] and image_grid_thw [images, 3] (patches in
 * time, height and width), pixel_values_videos and video_grid_thw. The patches of a frame lie in
 * blocks of merge x merge, blocks in reading order, and so do the patches of a block; a block gives one row to
 * the text model, so an item takes t * h * w / merge^2 placeholders that follow one another.
 *
 * Rope coordinates are three: a token of text advances all of them, an item counts frames, lines
 * and columns from where the text before it ends, and the text behind it goes on at the longer side
 * (Wang et al. 2024, Qwen2-VL section 2.1; Bai et al. 2025, Qwen2.5-VL section 2.1.2 on time). */
#ifndef MLXCEL_ARCH_MEDIA_GRID_H
#define MLXCEL_ARCH_MEDIA_GRID_H

#include "arch/media.h"

typedef struct MediaGridRules {
    uint32_t image_token, video_token; /* placeholders */
    uint32_t cols;                     /* of a row of patches */
    uint32_t merge;
    bool frames_apart; /* each frame of a video is an item of its own, text between them */
    /* Steps of the time coordinate in a second of video (input second_per_grid_ts: seconds from
     * frame to frame of each video, 1 if it is not given); 0: a step a frame */
    float tokens_per_second;
} MediaGridRules;

typedef struct MediaGridItem {
    const float *patches; /* t * h * w rows */
    uint32_t t, h, w;     /* h and w are multiples of merge */
    float interval;       /* steps of the time coordinate from frame to frame */
    uint32_t token;       /* its first placeholder */
} MediaGridItem;

typedef struct MediaGrid { /* in the order of the prompt */
    MediaGridItem *items;
    uint32_t n;
    uint32_t n_frames, n_rows, n_embeds; /* of all */
} MediaGrid;

/* ERR_INPUT, ERR_LIMIT: grids that are not the patches', or not the prompt's. */
bool media_grid_read(const MediaGridRules *r, const MediaAsk *ask, Arena *a, MediaGrid *out,
                     Err *err) MUST_CHECK;
/* out->pos and out->delta. */
bool media_grid_positions(const MediaGrid *g, uint32_t merge, uint32_t n_tokens, Arena *a,
                          MediaPlan *out, Err *err) MUST_CHECK;
/* How far frame i is behind the first one on the time coordinate. */
int32_t media_grid_time(const MediaGridItem *item, uint32_t i);

#endif
