/* loader.h: reads and packs a model's weights in the order in which they lie in the files, with the
 * device reading on ahead (ckpt_stream.h), so that neither it nor the packers rest.
 *
 *     if (!loader_run(m, err)) return false;
 *
 * m->packed is full then; a run that was stopped can be taken up again. */
#ifndef MLXCEL_ENGINE_LOADER_H
#define MLXCEL_ENGINE_LOADER_H

#include "engine/model.h"

bool loader_run(Model *m, Err *err) MUST_CHECK;
/* What weight i of the table will take, packed. */
uint64_t loader_packed_bytes(const Model *m, uint32_t i);
/* What it takes itself while it runs. */
uint64_t loader_bytes(const Model *m);

#endif
