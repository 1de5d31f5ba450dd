/* flags.h: the groups of flags that commands share. */
#ifndef MLXCEL_CLI_FLAGS_H
#define MLXCEL_CLI_FLAGS_H

#include "base/buf.h"
#include "cli/args.h"
#include "mlxcel.h"

/* Words of --backend, --isa, --cache-type-k and -v. */
#define FLAG_BACKENDS "auto cpu ref ref-delayed"
#define FLAG_ISAS "auto avx512 avx2 portable"
#define FLAG_CACHE_TYPES "f32 f16 bf16 q8_0 q4_0"

extern const OptGroup FLAGS_MODEL;   /* -m */
extern const OptGroup FLAGS_RUNTIME; /* threads, backend, context, cache */
extern const OptGroup FLAGS_PROMPT;  /* -p -f --ids, chat template */
extern const OptGroup FLAGS_MEDIA;   /* --input */
extern const OptGroup FLAGS_SAMPLING;
extern const OptGroup FLAGS_GRAMMAR;
extern const OptGroup FLAGS_DRAFT;
extern const OptGroup FLAGS_OUTPUT;  /* of generate, run and chat */
extern const OptGroup FLAGS_COMPAT;  /* of other engines, without a meaning here */
extern const OptGroup FLAGS_GENERAL; /* -v, --help */

/* Values of FLAGS_COMPAT that would change something elsewhere are told, not passed over in
 * silence. */
void flags_warn_compat(const Args *a);
mlxcel_model_options flags_model_options(const Args *a);
mlxcel_engine_options flags_engine_options(const Args *a);
/* MODEL of -m, or the first argument that is no flag; NULL after saying that it is missing. */
const char *flags_model(const Args *a);
/* A template from a file, never taken for the name of a built-in one. */
bool flags_template(const char *path, Buf *text, Err *err) MUST_CHECK;
/* "1 2 3", "1,2,3" or "[1, 2, 3]". */
bool flags_ids(Str text, uint32_t **ids, size_t *n, Arena *a, Err *err) MUST_CHECK;

#endif
