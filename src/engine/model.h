/* model.h: a loaded checkpoint: its description, programs, packed weights, tokenizer. Several
 * engines may share one Model.
 *
 *     Model *m;
 *     if (!model_open(path, &opt, &m, err)) return false;      headers and metadata only: cheap, nothing large is read
 *     ... budget.h says whether it fits ...
 *     if (!model_load(m, err)) return false;                   reads and packs the weights
 *     model_close(m);
 *
 * After model_load it is immutable. */
#ifndef MLXCEL_ENGINE_MODEL_H
#define MLXCEL_ENGINE_MODEL_H

#include "arch/arch.h"
#include "backend/backend.h"
#include "sample/params.h"
#include "text/tokenizer.h"

typedef struct ModelOptions { /* zero-initialised: defaults */
    const char *backend;      /* NULL: "auto" */
    BackendOptions be;
    /* While weights are loaded: bytes packed so far, of how many (the last call: all of them);
     * false: stop. NULL: not asked */
    bool (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
} ModelOptions;

typedef struct Model {
    Arena arena;
    Checkpoint *ck;
    ArchModel arch;
    Backend *be;
    BackWeight **packed; /* per source of the weight table; NULL before model_load */
    bool is_loaded;
    /* of each program, per its weights: those that it uses, several may be one (tied) */
    BackWeight **weights, **tower_weights, **cross_weights;
    Tokenizer *tok; /* NULL: the checkpoint has none; tok_err says why */
    Err tok_err;
    /* tokens that end a generation, from every place that names them, ascending */
    uint32_t *eog;
    size_t n_eog;
    uint64_t weight_bytes; /* packed */
    /* What the process had before, and what opening took: tables, tokenizer */
    uint64_t process_bytes, open_bytes;
    ModelOptions opt;
    double open_ms, load_ms;
} Model;

bool model_open(const char *path, const ModelOptions *opt, Model **out, Err *err) MUST_CHECK;
bool model_load(Model *m, Err *err) MUST_CHECK; /* a second call does nothing */
void model_close(Model *m);                     /* NULL is allowed */
bool model_is_eog(const Model *m, uint32_t token);
/* The checkpoint's generation_config over p. */
bool model_sample_defaults(const Model *m, SampleParams *p, Err *err) MUST_CHECK;
/* ERR_UNSUPPORTED with the reason when the checkpoint has no tokenizer. */
bool model_need_tokenizer(const Model *m, Err *err) MUST_CHECK;

#endif
