/* hub_find.h: where a named model lies.
 *
 *     Str path;
 *     if (!hub_find(STR("owner/name:Q8_0"), &arena, &path, err)) ...   ERR_NOT_FOUND says where it looked
 *
 * Looked at in this order: the path itself; the Hugging Face cache; $MLXCEL_MODELS_DIR; our own folder;
 * LM Studio's; Ollama's. A bare name is found where only one owner has it, or the default owner does.
 * ":QUANT" chooses among .gguf files (without it Q4_K_M, then what comes closest). Nothing is downloaded. */
#ifndef MLXCEL_HUB_HUB_FIND_H
#define MLXCEL_HUB_HUB_FIND_H

#include "hub/hub_env.h"
#include "hub/hub_name.h"

bool hub_find(Str name, Arena *a, Str *path, Err *err) MUST_CHECK;
/* The cache's folder of a model; folder->p NULL: there is none. */
bool hub_find_folder(const HubEnv *env, const HubName *n, Arena *a, Str *folder,
                     Err *err) MUST_CHECK;
/* What to open of a cached model: a snapshot, or a .gguf file in it. Empty revision: main, or the only
 * one; empty quant: none is preferred. */
bool hub_snapshot_path(Str folder, Str revision, Str quant, Arena *a, Str *path,
                       Err *err) MUST_CHECK;

#endif
