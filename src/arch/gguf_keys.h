/* gguf_keys.h: the keys of a GGUF being written, behind its architecture's name. Converters write what
 * all decoders have (task/convert_keys.c); a family that builds for itself adds its own in
 * Arch.gguf_keys.
 *
 *     gguf_keys_u32(k, "altup.num_inputs", n);      gemma3n.altup.num_inputs */
#ifndef MLXCEL_ARCH_GGUF_KEYS_H
#define MLXCEL_ARCH_GGUF_KEYS_H

#include "arch/arch.h"
#include "ckpt/gguf_write.h"

struct GgufKeys { /* arch.h names it */
    GgufOut *out;
    const char *arch;
    Arena *a;
    char name[128];
    /* of rope's frequencies, for the tensor rope_freqs; n_divisors 0: there is none */
    const double *divisors;
    uint32_t n_divisors;
};

const char *gguf_keys_name(GgufKeys *k, const char *rest); /* until the next call */
void gguf_keys_u32(GgufKeys *k, const char *rest, uint32_t v);
void gguf_keys_f32(GgufKeys *k, const char *rest, double v);
void gguf_keys_bool(GgufKeys *k, const char *rest, bool v);

#endif
