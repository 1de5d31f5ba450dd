/* config.h: one look-up over config.json and GGUF metadata, by the Hugging Face spelling of a
 * key.
 *
 * A Config is a view: over a JSON object (the root of config.json, or a section of it such as
 * text_config), or over the keys of a GGUF file, where a table maps "hidden_size" to
 * "<arch>.embedding_length" and so on. Architectures ask for Hugging Face names only. A key may
 * be given as alternatives, tried in order: "num_key_value_heads|num_kv_heads". JSON null counts
 * as absent. A key with a dot is a GGUF key as it is (".attention.scale" gets the architecture
 * in front) and absent in JSON. A value of the wrong type or out of range is ERR_INPUT naming
 * key, value and range.
 *
 *     if (!config_int(c, "num_hidden_layers", CONFIG_REQUIRED, 1, 4096, &n, err)) return false;
 *     if (!config_float(c, "rms_norm_eps", 1e-6, 0, 1, &eps, err)) return false; */
#ifndef MLXCEL_CKPT_CONFIG_H
#define MLXCEL_CKPT_CONFIG_H

#include "json/json.h"

typedef struct Gguf Gguf;

typedef struct Config {
    const Json *json; /* object; NULL when over a GGUF */
    const Gguf *gguf; /* NULL when over JSON */
    Str model_type;   /* config.json's model_type (of this section), or the GGUF architecture */
    /* A nested section falls back to nothing; parent is for explicit look-ups. */
    const struct Config *parent;
    /* Over a GGUF: the section this view stands for ("rope_scaling"); NULL at the root. */
    const char *section;
} Config;

#define CONFIG_REQUIRED INT64_MIN /* as default: absence is an error that names the key */
#define CONFIG_REQUIRED_F (-1.0e300)
#define CONFIG_MAX_KEYS 4096 /* of one object: look-ups walk over them, some for every layer */
#define CONFIG_MAX_LIST 4096 /* elements; most lists have one for each layer */

bool config_has(const Config *c, const char *key);
bool config_int(const Config *c, const char *key, int64_t dflt, int64_t min, int64_t max,
                int64_t *out, Err *err) MUST_CHECK;
/* The same into 32 bits; max is at most UINT32_MAX, and min not below 0. */
bool config_u32(const Config *c, const char *key, int64_t dflt, int64_t min, int64_t max,
                uint32_t *out, Err *err) MUST_CHECK;
/* Finite doubles only; min and max inclusive. */
bool config_float(const Config *c, const char *key, double dflt, double min, double max,
                  double *out, Err *err) MUST_CHECK;
bool config_bool(const Config *c, const char *key, bool dflt, bool *out, Err *err) MUST_CHECK;
/* dflt NULL: required. */
bool config_str(const Config *c, const char *key, const char *dflt, Str *out, Err *err) MUST_CHECK;
/* A list of numbers, or one number (n = 1). Absent: *n = 0. Views into arena memory. */
bool config_floats(const Config *c, const char *key, Arena *a, const double **out, size_t *n,
                   Err *err) MUST_CHECK;
bool config_ints(const Config *c, const char *key, Arena *a, const int64_t **out, size_t *n,
                 Err *err) MUST_CHECK;
bool config_strs(const Config *c, const char *key, Arena *a, const Str **out, size_t *n,
                 Err *err) MUST_CHECK;
/* A nested object, e.g. "rope_scaling", "text_config". false = absent or null (no error);
 * another type: false and err->kind set (callers reset err first). For a GGUF, "rope_scaling" is
 * synthesised from <arch>.rope.scaling.*. */
bool config_section(const Config *c, const char *key, Config *out, Err *err);

#endif
