#include "arch/gguf_keys.h"

#include <stdio.h>

const char *gguf_keys_name(GgufKeys *k, const char *rest) {
    snprintf(k->name, sizeof k->name, "%s.%s", k->arch, rest);
    return k->name;
}

void gguf_keys_u32(GgufKeys *k, const char *rest, uint32_t v) {
    gguf_write_u32(k->out, gguf_keys_name(k, rest), v);
}

void gguf_keys_f32(GgufKeys *k, const char *rest, double v) {
    gguf_write_f32(k->out, gguf_keys_name(k, rest), (float)v);
}

void gguf_keys_bool(GgufKeys *k, const char *rest, bool v) {
    gguf_write_bool(k->out, gguf_keys_name(k, rest), v);
}
