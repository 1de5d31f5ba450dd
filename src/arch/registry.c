/* The families that there are. Nothing is listed that no golden test covers. */
#include "arch/arch.h"

extern const Arch ARCH_BERT, ARCH_GEMMA, ARCH_GEMMA2, ARCH_GEMMA3, ARCH_GPT_OSS, ARCH_LFM2,
    ARCH_LFM2_MOE, ARCH_QWEN3_5, ARCH_QWEN3_5_MOE, ARCH_LLAMA, ARCH_MISTRAL, ARCH_MIXTRAL,
    ARCH_OLMOE, ARCH_PHI3, ARCH_QWEN2, ARCH_QWEN2_MOE, ARCH_QWEN3, ARCH_QWEN3_MOE, ARCH_QWEN3_NEXT;

static const Arch *const FAMILIES[] = {
    &ARCH_BERT,      &ARCH_GEMMA,    &ARCH_GEMMA2,    &ARCH_GEMMA3,      &ARCH_GPT_OSS,
    &ARCH_LFM2,      &ARCH_LFM2_MOE, &ARCH_QWEN3_5,   &ARCH_QWEN3_5_MOE, &ARCH_LLAMA,
    &ARCH_MISTRAL,   &ARCH_MIXTRAL,  &ARCH_OLMOE,     &ARCH_PHI3,        &ARCH_QWEN2,
    &ARCH_QWEN2_MOE, &ARCH_QWEN3,    &ARCH_QWEN3_MOE, &ARCH_QWEN3_NEXT};
enum { N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

const Arch *const *arch_list(size_t *n) {
    *n = N_FAMILIES;
    return FAMILIES;
}

const Arch *arch_find(const Checkpoint *ck) {
    for (size_t i = 0; i < N_FAMILIES; i++) {
        const char *const *names =
            ck->kind == CKPT_GGUF ? FAMILIES[i]->gguf : FAMILIES[i]->model_types;
        for (size_t j = 0; names && names[j]; j++)
            if (str_eqc(ck->config.model_type, names[j])) return FAMILIES[i];
    }
    return NULL;
}

bool arch_build(const Checkpoint *ck, Arena *a, ArchModel *out, Err *err) {
    const Arch *arch = arch_find(ck);
    if (!arch)
        return err_set(err, ERR_UNSUPPORTED,
                       "model type \"" STR_F "\" is not known (mlxcel arch lists those that are)",
                       STR_A(ck->config.model_type));
    Decoder d = {.arch = arch, .config = &ck->config, .arena = a};
    d.weights = weights_new(ck, arch->names, arch->ignored, a);
    d.b = prog_begin(a, "text");
    if (!d.weights || !d.b) return err_nomem(err, "model description");
    *out = (ArchModel){.arch = arch, .weights = d.weights};
    return arch->build ? arch->build(&d, out, err) : decoder_build(&d, out, err);
}
