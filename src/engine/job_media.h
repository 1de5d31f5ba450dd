/* job_media.h: the media of one request: its tensors, the family's plan for them, and, once the
 * tower has run, the rows that take the places of the prompt's placeholders.
 *
 *     Media *m;  media_new(model, inputs, n_inputs, tokens, n_tokens, &m, err)       checks everything; any thread
 *     job_new(... JobParams.media = m ...)                                          the engine runs the tower when the job starts
 *     media_output(m, "image_embeds", &tensor)                                       after the job ended
 *     media_free(m)
 *
 * The submitter owns it and keeps it until the job's last event. */
#ifndef MLXCEL_ENGINE_JOB_MEDIA_H
#define MLXCEL_ENGINE_JOB_MEDIA_H

#include "engine/media_names.h"
#include "engine/prefill_plan.h"
#include "engine/tower.h"

typedef struct Media Media;

/* The tensors are copied. ERR_UNSUPPORTED: the model takes no media. ERR_INPUT: shapes, or a number
 * of placeholders in the prompt, that do not fit. */
bool media_new(const Model *m, const MediaTensor *inputs, size_t n_inputs, const uint32_t *tokens,
               size_t n_tokens, Media **out, Err *err) MUST_CHECK;
void media_free(Media *m); /* NULL is allowed */
/* What the tower gave, by name, and "position_ids"; ERR_NOT_FOUND names those there are. Its data
 * is the Media's. */
bool media_output(const Media *m, const char *name, MediaTensor *out, Err *err) MUST_CHECK;

/* --- for the engine --- */

/* Runs the tower, once. */
bool media_encode(Media *m, Tower *t, const atomic_bool *cancel, Err *err) MUST_CHECK;
/* What stands for the prompt's tokens in the prefix tree: placeholders become names of what they
 * show. n_tokens of them. */
bool media_name_tokens(const Media *m, MediaNames *names, uint32_t *tokens, Err *err) MUST_CHECK;
#define MEDIA_NO_ROW UINT32_MAX
/* The media row of the prompt's i-th token; MEDIA_NO_ROW: it is a token. m may be NULL. */
uint32_t media_row(const Media *m, uint32_t i);
/* Rope coordinates of the sequence's i-th token, prompt or not. m may be NULL. */
void media_pos(const Media *m, uint32_t i, int32_t pos[4]);
/* Keys that the i-th token may see: up to its own, or all of its span. */
uint32_t media_hi(const Media *m, uint32_t i);
const PrefillSpan *media_spans(const Media *m, size_t *n); /* never cut */
/* Rows from `row` on of an input of the text program; after media_encode. */
const float *media_input(const Media *m, uint32_t input, uint32_t row);

#endif
