/* The families that there are. Nothing is listed that no golden test covers. */
#include <stdio.h>

#include "arch/arch.h"

extern const Arch ARCH_BERT, ARCH_DEEPSEEK, ARCH_DEEPSEEK_V32, ARCH_GLM_DSA, ARCH_GEMMA,
    ARCH_GEMMA2, ARCH_GEMMA3, ARCH_GEMMA3N, ARCH_GEMMA4, ARCH_GPT_OSS, ARCH_KIMI_LINEAR, ARCH_LFM2,
    ARCH_LFM2_MOE, ARCH_QWEN3_5, ARCH_QWEN3_5_MOE, ARCH_LLAMA, ARCH_LLAMA4, ARCH_MISTRAL,
    ARCH_MIXTRAL, ARCH_OLMOE, ARCH_PHI3, ARCH_QWEN2, ARCH_QWEN2_MOE, ARCH_QWEN3, ARCH_QWEN3_MOE,
    ARCH_QWEN3_NEXT, ARCH_FALCON_H1, ARCH_FALCON_MAMBA, ARCH_JAMBA, ARCH_MAMBA, ARCH_MAMBA2,
    ARCH_RECURRENT_GEMMA;

static const Arch *const FAMILIES[] = {
    &ARCH_BERT,        &ARCH_DEEPSEEK,       &ARCH_DEEPSEEK_V32, &ARCH_GLM_DSA, &ARCH_GEMMA,
    &ARCH_GEMMA2,      &ARCH_GEMMA3,         &ARCH_GEMMA3N,      &ARCH_GEMMA4,  &ARCH_GPT_OSS,
    &ARCH_KIMI_LINEAR, &ARCH_LFM2,           &ARCH_LFM2_MOE,     &ARCH_QWEN3_5, &ARCH_QWEN3_5_MOE,
    &ARCH_LLAMA,       &ARCH_LLAMA4,         &ARCH_MISTRAL,      &ARCH_MIXTRAL, &ARCH_OLMOE,
    &ARCH_PHI3,        &ARCH_QWEN2,          &ARCH_QWEN2_MOE,    &ARCH_QWEN3,   &ARCH_QWEN3_MOE,
    &ARCH_QWEN3_NEXT,  &ARCH_FALCON_H1,      &ARCH_FALCON_MAMBA, &ARCH_JAMBA,   &ARCH_MAMBA,
    &ARCH_MAMBA2,      &ARCH_RECURRENT_GEMMA};
enum { N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

const Arch *const *arch_list(size_t *n) {
    *n = N_FAMILIES;
    return FAMILIES;
}

static const Arch *by_type(CkptKind kind, Str type) {
    for (size_t i = 0; i < N_FAMILIES; i++) {
        const char *const *names = kind == CKPT_GGUF ? FAMILIES[i]->gguf : FAMILIES[i]->model_types;
        for (size_t j = 0; names && names[j]; j++)
            if (str_eqc(type, names[j])) return FAMILIES[i];
    }
    return NULL;
}

/* Models that also see or hear keep the text model's config in a section; *out is where it is. */
static const Arch *find(const Checkpoint *ck, Config *out) {
    Err err = {0};
    const Arch *arch = by_type(ck->kind, ck->config.model_type);
    *out = ck->config;
    /* calls its text model kimi_linear, which it is not */
    if (str_eqc(ck->config.model_type, "kimi_k3")) return arch;
    if (arch || !ck->config.json || !config_section(&ck->config, "text_config", out, &err))
        return arch;
    return by_type(ck->kind, out->model_type);
}

/* What wrappers have beside their text model. */
static const char *const TOWERS[] = {"model.visual.*",          "visual.*",
                                     "model.vision_tower.*",    "vision_tower.*",
                                     "model.vision_model.*",    "vision_model.*",
                                     "model.audio_tower.*",     "audio_tower.*",
                                     "model.embed_vision.*",    "model.embed_audio.*",
                                     "multi_modal_projector.*", "model.multi_modal_projector.*"};
enum { N_TOWERS = sizeof TOWERS / sizeof *TOWERS };

enum { MAX_NEXT = 8 };

/* Layers behind the last one predict further tokens; plain decoding leaves them out. */
static size_t next_layers(const Config *c, Arena *a, const char **list) {
    int64_t layers, n;
    size_t put = 0;
    char text[48];
    if (!c->json || !config_int(c, "num_hidden_layers", 0, 0, 1 << 16, &layers, NULL) ||
        !config_int(c, "num_nextn_predict_layers", 0, 0, MAX_NEXT, &n, NULL))
        return 0;
    for (int64_t i = 0; i < n && layers; i++) {
        int size = snprintf(text, sizeof text, "*layers.%d.*", (int)(layers + i));
        const char *copy = arena_dupz(a, (Str){text, (size_t)size});
        if (copy) list[put++] = copy;
    }
    return put;
}

/* The family's list, layers of prediction, and the towers if the text model is inside a wrapper. */
static const char *const *ignored(const Arch *arch, const Config *config, Arena *a) {
    size_t n = 0;
    while (arch->ignored && arch->ignored[n]) n++;
    const char **list = arena_array(a, const char *, n + N_TOWERS + MAX_NEXT + 1);
    if (!list) return NULL;
    for (size_t i = 0; i < n; i++) list[i] = arch->ignored[i];
    n += next_layers(config, a, list + n);
    for (size_t i = 0; i < N_TOWERS && config->parent; i++) list[n++] = TOWERS[i];
    list[n] = NULL;
    return list;
}

const Arch *arch_find(const Checkpoint *ck) {
    Config config;
    return find(ck, &config);
}

bool arch_build(const Checkpoint *ck, Arena *a, ArchModel *out, Err *err) {
    Config *config = arena_new(a, Config);
    if (!config) return err_nomem(err, "model description");
    const Arch *arch = find(ck, config);
    if (!arch)
        return err_set(err, ERR_UNSUPPORTED,
                       "model type \"" STR_F "\" is not known (mlxcel arch lists those that are)",
                       STR_A(ck->config.model_type));
    Decoder d = {.arch = arch, .config = config, .arena = a, .picks = VAL_NONE};
    const char *const *skip = ignored(arch, config, a);
    if (skip) d.weights = weights_new(ck, arch->names, skip, a);
    d.b = prog_begin(a, "text");
    if (!d.weights || !d.b) return err_nomem(err, "model description");
    *out = (ArchModel){.arch = arch, .weights = d.weights};
    return arch->build ? arch->build(&d, out, err) : decoder_build(&d, out, err);
}
