/* config_gguf.h: Hugging Face config keys answered from a GGUF file (the table behind config.h). */
#ifndef MLXCEL_CKPT_CONFIG_GGUF_H
#define MLXCEL_CKPT_CONFIG_GGUF_H

#include "ckpt/config.h"
#include "ckpt/gguf.h"

typedef enum ConfigSource {
    CONFIG_NONE,
    CONFIG_JSON,
    CONFIG_GGUF,
    CONFIG_NUMBER,
    CONFIG_FLAG,
    CONFIG_TEXT
} ConfigSource;

/* A value found for a key: as stored (JSON, GGUF), or computed from several GGUF keys. */
typedef struct ConfigValue {
    ConfigSource source;
    Str key; /* the alternative that was found */
    const Json *json;
    const GgufValue *gguf;
    double number; /* computed numbers; integers among them are exact */
    bool flag;
    Str text;
} ConfigValue;

bool config_gguf_find(const Config *c, Str key, ConfigValue *out); /* false: absent */
/* The GGUF key of the first of the alternatives that has one, for messages; NULL: none has. */
const char *config_gguf_key(const Config *c, const char *keys);

#endif
