/* golden_run.h: drives the engine for tests: logits of a token sequence, greedy continuation. */
#ifndef MLXCEL_TESTS_GOLDEN_RUN_H
#define MLXCEL_TESTS_GOLDEN_RUN_H

#include "engine/engine.h"
#include "json/json.h"

/* Logits after each of n tokens, [n][vocab], into out. */
bool run_logits(Engine *e, const Model *m, const uint32_t *tokens, size_t n, float *out,
                Err *err) MUST_CHECK;
/* The same with media (NULL: none). */
bool run_media_logits(Engine *e, const Model *m, Media *media, const uint32_t *tokens, size_t n,
                      float *out, Err *err) MUST_CHECK;
/* n_new greedy tokens behind the prompt; end tokens do not stop. */
bool run_greedy(Engine *e, const Model *m, const uint32_t *tokens, size_t n, size_t n_new,
                uint32_t *out, Err *err) MUST_CHECK;
bool run_media_greedy(Engine *e, const Model *m, Media *media, const uint32_t *tokens, size_t n,
                      size_t n_new, uint32_t *out, Err *err) MUST_CHECK;
/* An array of ids; the caller frees nothing: it is the arena's. */
const uint32_t *ids_of(const Json *array, Arena *a, size_t *n);
/* A whole JSON file. */
const Json *json_of(const char *path, Arena *a, Err *err);
/* max |a - b| / rms(b) over n values. */
double max_over_rms(const float *a, const float *b, size_t n);
/* The largest difference of each row over the rms of all; the middle one. */
double middle_over_rms(const float *got, const float *want, size_t rows, size_t n, Arena *a);

/* The files of directory `from` in `to`, config.json as edit() leaves its text. */
bool golden_copy(const char *from, const char *to, void (*edit)(Buf *config, const void *ctx),
                 const void *ctx, Err *err) MUST_CHECK;
/* $MLXCEL_GOLDEN_DIR, or where the Makefile unpacks the goldens. */
const char *golden_dir(void);
/* Whether the registry has the checkpoint's family; kind: "text", "embedding" or NULL: any. */
bool golden_known(const char *path, const char *kind);

#endif
