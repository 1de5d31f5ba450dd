/* hub_store.h: the models on this machine, whoever put them there.
 *
 *     huggingface   models--OWNER--NAME of the hub's cache; what `download` writes
 *     models_dir    $MLXCEL_MODELS_DIR, and mlxcel: ~/.cache/mlxcel/models: OWNER/NAME, NAME, NAME.gguf
 *     lmstudio      its downloads folder: OWNER/NAME
 *     ollama        manifests that name blobs; NAME:TAG
 *
 * All but the first are read only. */
#ifndef MLXCEL_HUB_HUB_STORE_H
#define MLXCEL_HUB_HUB_STORE_H

#include "hub/hub_env.h"
#include "hub/hub_name.h"

typedef struct HubModel {
    Str name;          /* what -m takes */
    const char *store; /* as above */
    Str path;          /* what to open; empty: not complete */
    uint64_t size_bytes;
    int64_t modified; /* seconds since 1970 */
    bool own;         /* at least part of it was downloaded by this program */
} HubModel;

typedef struct HubModels {
    HubModel *items;
    size_t n, cap;
} HubModels;

bool hub_store_list(const HubEnv *env, Arena *a, HubModels *out, Err *err) MUST_CHECK;
/* In the stores other than the hub's cache; path->p NULL: there is none. */
bool hub_store_find(const HubEnv *env, Str name, Arena *a, Str *path, Err *err) MUST_CHECK;

/* Models of a folder of folders, and of Ollama's; appended. */
bool hub_folder_list(Str root, const char *store, Arena *a, HubModels *out, Err *err) MUST_CHECK;
bool hub_ollama_list(Str root, Arena *a, HubModels *out, Err *err) MUST_CHECK;
bool hub_models_add(HubModels *m, HubModel model, Arena *a, Err *err) MUST_CHECK;
Str hub_lmstudio_root(const HubEnv *env, Arena *a);
Str hub_ollama_root(const HubEnv *env, Arena *a);

typedef struct HubRemoval {
    uint64_t bytes;
    size_t n_files;
    Str folder;
} HubRemoval;

/* Deletes what `download` wrote of a model, and nothing else; dry: only says what that is.
 * ERR_NOT_FOUND: there is no such model, or it is somebody else's. */
bool hub_store_remove(const HubEnv *env, Str name, bool dry, Arena *a, HubRemoval *out,
                      Err *err) MUST_CHECK;

#endif
