/* job_media.h: the media of one request: its tensors, the family's plan for them, and, once the tower
 * has run, the rows that take the places of the prompt's placeholders.
 *
 *     Media *m;  media_new(model, inputs, n_inputs, tokens, n_tokens, &m, err)       checks everything; any thread
 *     job_new(... JobParams.media = m ...)                                          the engine runs the tower when the job starts
 *     media_output(m, "image_embeds", &tensor)                                       after the job ended
 *     media_free(m)
 *
 * The submitter owns it and keeps it until the job's last event. */
#ifndef MLXCEL_ENGINE_JOB_MEDIA_H
#define MLXCEL_ENGINE_JOB_MEDIA_H

#include "arch/media.h"
#include "engine/model.h"
#include "engine/prefill_plan.h"

typedef struct Media Media;

/* The tensors are copied. ERR_UNSUPPORTED: the model takes no media. ERR_INPUT: shapes, or a number
 * of placeholders in the prompt, that do not fit. */
bool media_new(const Model *m, const MediaTensor *inputs, size_t n_inputs, const uint32_t *tokens,
               size_t n_tokens, Media **out, Err *err) MUST_CHECK;
void media_free(Media *m); /* NULL is allowed */
/* What the tower gave, by name, and "position_ids"; ERR_NOT_FOUND names those there are. Its data
 * is the Media's. */
bool media_output(const Media *m, const char *name, MediaTensor *out, Err *err) MUST_CHECK;

#endif
