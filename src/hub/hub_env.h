/* hub_env.h: what the environment says about models: where they lie, where they come from.
 *
 *     HubEnv env;
 *     if (!hub_env_read(&arena, &env, err)) return false;
 *
 * Read once per command; the strings live in the arena and end with a NUL. An empty variable counts
 * as unset. */
#ifndef MLXCEL_HUB_HUB_ENV_H
#define MLXCEL_HUB_HUB_ENV_H

#include "base/arena.h"
#include "base/err.h"

typedef struct HubEnv {
    /* $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub */
    Str cache;
    /* $HF_ENDPOINT without a slash at its end, or the public hub's address */
    Str endpoint;
    /* $HF_TOKEN, the file $HF_TOKEN_PATH, or the file "token" of $HF_HOME; .p NULL: none */
    Str token;
    Str default_org;  /* of bare names: $MLXCEL_DEFAULT_ORG, mlx-community */
    Str models_dir;   /* $MLXCEL_MODELS_DIR; .p NULL: none */
    Str own_dir;      /* $MLXCEL_CACHE_DIR/models, ~/.cache/mlxcel/models; .p NULL: no home */
    Str home;         /* $HOME; .p NULL: none */
    Str ca_file;      /* $MLXCEL_EXTRA_CA_CERTS; .p NULL: none */
    bool offline;     /* $HF_HUB_OFFLINE or $MLXCEL_OFFLINE */
    bool insecure_ok; /* $MLXCEL_ALLOW_INSECURE_ENDPOINT */
} HubEnv;

bool hub_env_read(Arena *a, HubEnv *env, Err *err) MUST_CHECK;
/* The parts put together, with a NUL behind; .p NULL: no memory. */
Str hub_join(Arena *a, Str first, const char *second, Str third);
/* A yes-or-no variable: 1, true, yes or on, in any case. */
bool hub_env_flag(const char *name);

#endif
