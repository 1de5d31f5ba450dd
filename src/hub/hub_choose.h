/* hub_choose.h: which files of a repository are worth fetching, and which .gguf file a name means.
 *
 *     HubRule rule = {.quant = STR("Q8_0")};
 *     if (!hub_choose(files, n, &rule, &arena, err)) ...      sets .chosen
 *
 * Without patterns: of a repository with safetensors and config.json those, and the texts that belong
 * to a model; of one with .gguf files a single quantization, all parts of it. Nothing that is code,
 * pickled, or weights of another engine. */
#ifndef MLXCEL_HUB_HUB_CHOOSE_H
#define MLXCEL_HUB_HUB_CHOOSE_H

#include "base/arena.h"
#include "base/err.h"

typedef struct HubFile {
    Str path;      /* in the repository; checked by hub_file_check */
    uint64_t size; /* bytes, if has_size */
    bool has_size;
    bool chosen;
    Str sha256; /* 64 hex digits, of large files; empty: unknown */
    Str oid;    /* git's name of a small one, 40 hex digits; empty: unknown */
    Str etag;   /* what the hub calls its contents, when neither is known */
} HubFile;

typedef struct HubRule {
    const char *const *include; /* patterns of hub_glob; any of them; none: the rule above */
    size_t n_include;
    const char *const *exclude; /* win over all */
    size_t n_exclude;
    Str quant; /* of the .gguf files; empty: Q4_K_M or what comes closest */
} HubRule;

/* ERR_NOT_FOUND if nothing is left, naming what there is. */
bool hub_choose(HubFile *files, size_t n, const HubRule *rule, Arena *a, Err *err) MUST_CHECK;

/* The file to open among n names: index of the first part; false: there is none (named for quant). */
bool hub_gguf_pick(const Str *names, size_t n, Str quant, size_t *best);
/* Parts of one split file, "x-00001-of-00003.gguf"; a name is always its own part. */
bool hub_gguf_same(Str a, Str b);
/* A .gguf file that holds a language model: no projector, no calibration data. */
bool hub_is_gguf_model(Str path);
Str hub_base_name(Str path); /* what follows the last '/' */

#endif
