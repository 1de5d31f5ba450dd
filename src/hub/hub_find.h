/* hub_find.h: where the models that people already have lie: the Hugging Face cache
 * (models--OWNER--NAME/snapshots/REVISION, REVISION from refs/main).
 *
 *     Str path;
 *     if (!hub_find(STR("owner/name:Q8_0"), &arena, &path, err)) ...   ERR_NOT_FOUND says where it looked
 *
 * A name is "owner/name", or the name alone where only one owner has it; ":QUANT" chooses among the
 * .gguf files of a snapshot (without it Q4_K_M, then the first). Nothing is downloaded here. */
#ifndef MLXCEL_HUB_HUB_FIND_H
#define MLXCEL_HUB_HUB_FIND_H

#include "base/arena.h"
#include "base/err.h"

/* A path that exists is its own answer. */
bool hub_find(Str name, Arena *a, Str *path, Err *err) MUST_CHECK;
/* The cache's folder of models: $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub,
 * ~/.cache/huggingface/hub. */
bool hub_cache_dir(Arena *a, Str *dir, Err *err) MUST_CHECK;

#endif
