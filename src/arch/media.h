/* media.h: what a model takes beside tokens (images, sound), given after preprocessing as named
 * tensors (pixel_values, image_grid_thw, input_features, ...).
 *
 * A wrapper family (ArchMedia) records a program of its own, the tower, which turns rows of patches
 * or frames into rows of the text model's width. Its outputs have the names of the text program's
 * inputs, and go there for the rows whose token is a placeholder. Everything about one request that
 * is no arithmetic on activations (which patch is which row, what sees what, rope coordinates, how
 * many rows an image gives) is a MediaPlan, which the family makes from the tensors' shapes and the
 * prompt.
 *
 * An encoder-decoder model has a third program, cross: its input takes the tower's output and its
 * KV_WRITEs fill the text program's CROSS planes. */
#ifndef MLXCEL_ARCH_MEDIA_H
#define MLXCEL_ARCH_MEDIA_H

#include "arch/arch.h"
#include "op/step.h"

enum { MEDIA_MAX_DIMS = 8, MEDIA_MAX_INPUTS = 16 };

typedef enum MediaType { MEDIA_F32, MEDIA_I64 } MediaType;

typedef struct MediaTensor {
    const char *name;
    MediaType type;
    uint32_t n_dims;
    uint64_t dims[MEDIA_MAX_DIMS]; /* outermost first */
    const void *data;              /* row-major, no gaps */
} MediaTensor;

/* One request: its tensors and its prompt. */
typedef struct MediaAsk {
    const MediaTensor *inputs;
    size_t n_inputs;
    const uint32_t *tokens;
    uint32_t n_tokens;
    bool *used; /* per input: media_find() gave it */
} MediaAsk;

/* Rows of the tower that are one sequence: an image, a frame, a window of sound. */
typedef struct MediaSeq {
    uint32_t n_rows;  /* > 0 */
    uint32_t n_out;   /* of its rows, how many are in out_rows */
    uint32_t n_cross; /* rows in CROSS planes of the tower, if it has any: all that attend */
    /* rows of MediaPlan.order that come from it: those of one sequence follow one another */
    uint32_t n_embeds;
} MediaSeq;

/* All of it in the arena that the plan was made in. */
typedef struct MediaPlan {
    MediaSeq *seqs;
    uint32_t n_seqs, n_rows, n_out;
    /* n_rows; slot, pos, lo and hi (within the sequence) and source: STEP_MEDIA_BIT is set where
     * the row has a row of the tower's T inputs, the number is filled in later */
    StepRow *rows;
    uint32_t *out_rows; /* n_out, ascending: rows that SELECT passes on; NULL: none */
    /* per input of the tower: all rows of its space, one sequence behind the other */
    const float *inputs[MEDIA_MAX_INPUTS];
    /* Which row of what the tower gives each placeholder gets; NULL: as it comes. Numbers behind
     * those rows name the constants, which are as wide. */
    const uint32_t *order;
    const float *constants;
    uint32_t n_embeds; /* rows it gives; a text program with inputs has as many placeholders */
    bool by_seq; /* outputs are written as [n_seqs, rows, width]: all sequences give as many */
    /* Rope coordinates of the prompt's tokens, and of those behind it: token index + delta; NULL:
     * the token's index. */
    int32_t (*pos)[4];
    int32_t delta;
    bool both_ways; /* tokens of one run of placeholders see each other */
} MediaPlan;

struct ArchMedia {
    const char *name;
    const char *kind;               /* what it takes: "image" */
    const char *const *model_types; /* config.json's, NULL-terminated */
    const RoleDelta *names;         /* of the tower's tensors */
    /* Where tensors may hang, NULL-terminated pairs: of plain names, of names with a leading '/'. */
    const char *const (*places)[2];
    Role first;                 /* the tower is in the file if its .weight is */
    const char *const *ignored; /* tensors that may lie unused, globs; NULL: none */
    /* Records the tower into d->b (config: the wrapper's) and fills out->media_spec and
     * out->placeholders. */
    bool (*build)(Decoder *d, ArchModel *out, Err *err);
    /* ERR_INPUT: tensors that do not belong to the model or to the prompt. */
    bool (*plan)(const ArchModel *m, const MediaAsk *ask, Arena *a, MediaPlan *out, Err *err);
};

/* For build(): the section of the wrapper's config, which it must have. */
bool media_section(const Config *c, const char *name, Config *out, Err *err) MUST_CHECK;
/* For plan(): the tensor of that name; ERR_INPUT: there is none, or its type or number of dimensions
 * is another. */
bool media_find(const MediaAsk *ask, const char *name, MediaType type, uint32_t n_dims,
                const MediaTensor **out, Err *err) MUST_CHECK;
bool media_has(const MediaAsk *ask, const char *name);
uint64_t media_elements(const MediaTensor *t); /* product of dims */
bool media_is_placeholder(const ArchModel *m, uint32_t token);
/* ERR_INPUT unless the prompt has n placeholders. */
bool media_count_placeholders(const ArchModel *m, const MediaAsk *ask, uint64_t n,
                              Err *err) MUST_CHECK;

#endif
