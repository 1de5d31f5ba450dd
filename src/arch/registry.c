/* The families that there are. Nothing is listed that no golden test covers. */
#include <stdio.h>

#include "arch/media.h"

extern const Arch ARCH_BERT, ARCH_DEEPSEEK, ARCH_DEEPSEEK_V32, ARCH_DEEPSEEK_V4, ARCH_GLM_DSA,
    ARCH_GEMMA, ARCH_GEMMA2, ARCH_GEMMA3, ARCH_GEMMA3N, ARCH_GEMMA4, ARCH_GPT_OSS, ARCH_KIMI_LINEAR,
    ARCH_LFM2, ARCH_LFM2_MOE, ARCH_QWEN3_5, ARCH_QWEN3_5_MOE, ARCH_LLAMA, ARCH_LLAMA4,
    ARCH_MINISTRAL, ARCH_MINISTRAL3, ARCH_MISTRAL, ARCH_MIXTRAL, ARCH_OLMOE, ARCH_PHI3, ARCH_QWEN2,
    ARCH_QWEN2_MOE, ARCH_QWEN3, ARCH_QWEN3_MOE, ARCH_QWEN2_VL, ARCH_QWEN3_VL, ARCH_QWEN3_VL_MOE,
    ARCH_QWEN3_NEXT, ARCH_FALCON_H1, ARCH_FALCON_MAMBA, ARCH_JAMBA, ARCH_MAMBA, ARCH_MAMBA2,
    ARCH_RECURRENT_GEMMA, ARCH_WHISPER;

static const Arch *const FAMILIES[] = {
    &ARCH_BERT,       &ARCH_DEEPSEEK,        &ARCH_DEEPSEEK_V32, &ARCH_DEEPSEEK_V4,
    &ARCH_GLM_DSA,    &ARCH_GEMMA,           &ARCH_GEMMA2,       &ARCH_GEMMA3,
    &ARCH_GEMMA3N,    &ARCH_GEMMA4,          &ARCH_GPT_OSS,      &ARCH_KIMI_LINEAR,
    &ARCH_LFM2,       &ARCH_LFM2_MOE,        &ARCH_QWEN3_5,      &ARCH_QWEN3_5_MOE,
    &ARCH_LLAMA,      &ARCH_LLAMA4,          &ARCH_MINISTRAL,    &ARCH_MINISTRAL3,
    &ARCH_MISTRAL,    &ARCH_MIXTRAL,         &ARCH_OLMOE,        &ARCH_PHI3,
    &ARCH_QWEN2,      &ARCH_QWEN2_MOE,       &ARCH_QWEN3,        &ARCH_QWEN3_MOE,
    &ARCH_QWEN3_NEXT, &ARCH_QWEN2_VL,        &ARCH_QWEN3_VL,     &ARCH_QWEN3_VL_MOE,
    &ARCH_FALCON_H1,  &ARCH_FALCON_MAMBA,    &ARCH_JAMBA,        &ARCH_MAMBA,
    &ARCH_MAMBA2,     &ARCH_RECURRENT_GEMMA, &ARCH_WHISPER};
enum { N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

/* Wrappers: what they have beside a text model of one of the families. */
extern const ArchMedia MEDIA_GEMMA3, MEDIA_LLAVA, MEDIA_LLAVA_NEXT, MEDIA_MISTRAL3, MEDIA_QWEN2_VL,
    MEDIA_QWEN2_5_VL, MEDIA_QWEN3_VL, MEDIA_QWEN3_5, MEDIA_WHISPER;
static const ArchMedia *const WRAPPERS[] = {&MEDIA_GEMMA3,   &MEDIA_LLAVA,    &MEDIA_LLAVA_NEXT,
                                            &MEDIA_MISTRAL3, &MEDIA_QWEN2_VL, &MEDIA_QWEN2_5_VL,
                                            &MEDIA_QWEN3_VL, &MEDIA_QWEN3_5,  &MEDIA_WHISPER};
enum { N_WRAPPERS = sizeof WRAPPERS / sizeof *WRAPPERS };

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

/* Models that also see or hear keep the text model's config in a section, or some have it at the
 * root in older files; *out is where it is. */
static const Arch *find(const Checkpoint *ck, Config *out) {
    Err err = {0};
    Config text;
    const Arch *root = by_type(ck->kind, ck->config.model_type);
    *out = ck->config;
    /* calls its text model kimi_linear, which it is not */
    if (str_eqc(ck->config.model_type, "kimi_k3")) return root;
    if (!ck->config.json || !config_section(&ck->config, "text_config", &text, &err)) return root;
    const Arch *nested = by_type(ck->kind, text.model_type);
    if (nested || !root) *out = text;
    return nested ? nested : root;
}

const ArchMedia *const *arch_media_list(size_t *n) {
    *n = N_WRAPPERS;
    return WRAPPERS;
}

static const ArchMedia *wrapper_find(const Checkpoint *ck) {
    for (size_t i = 0; i < N_WRAPPERS && ck->config.json; i++)
        for (const char *const *t = WRAPPERS[i]->model_types; *t; t++)
            if (str_eqc(ck->config.model_type, *t)) return WRAPPERS[i];
    return NULL;
}

/* What wrappers have beside their text model, where it is not used. */
static const char *const TOWERS[] = {"model.visual.*",          "visual.*",
                                     "model.vision_tower.*",    "vision_tower.*",
                                     "model.vision_model.*",    "vision_model.*",
                                     "model.audio_tower.*",     "audio_tower.*",
                                     "model.embed_vision.*",    "model.embed_audio.*",
                                     "embed_vision.*",          "embed_audio.*",
                                     "multi_modal_projector.*", "model.multi_modal_projector.*",
                                     "image_newline",           "model.image_newline"};
enum { N_TOWERS = sizeof TOWERS / sizeof *TOWERS };

enum { MAX_NEXT = 8 };

/* Layers behind the last one predict further tokens; plain decoding leaves them out. */
static size_t next_layers(const Config *c, Arena *a, const char **list) {
    int64_t layers, n;
    size_t put = 0;
    char text[48];
    if (!config_int(c, "num_hidden_layers", 0, 0, 1 << 16, &layers, NULL) ||
        !config_int(c, "num_nextn_predict_layers", 0, 0, MAX_NEXT, &n, NULL))
        return 0;
    for (int64_t i = 0; i < n && layers; i++) {
        int size =
            snprintf(text, sizeof text, "%s.%d.*", c->gguf ? "blk" : "*layers", (int)(layers + i));
        const char *copy = arena_dupz(a, (Str){text, (size_t)size});
        if (copy) list[put++] = copy;
    }
    return put;
}

enum { MAX_IGNORED = 64 };

static size_t add_all(const char **list, size_t n, const char *const *more) {
    for (; more && *more && n < MAX_IGNORED; more++) list[n++] = *more;
    return n;
}

const Arch *arch_find(const Checkpoint *ck) {
    Config config;
    return find(ck, &config);
}

uint32_t arch_programs(const ArchModel *m, const Program *out[ARCH_MAX_PROGRAMS]) {
    const Program *const all[] = {m->text, m->tower, m->cross};
    uint32_t n = 0;
    for (int i = 0; i < ARCH_MAX_PROGRAMS; i++)
        if (all[i]) out[n++] = all[i];
    return n;
}

/* Records the tower if the file has it; a checkpoint without is a text model. */
static bool build_tower(Decoder *d, const ArchMedia *media, const Checkpoint *ck, ArchModel *out,
                        Err *err) {
    WeightNames *was;
    if (!media || !weights_rename(d->weights, media->names, media->places, media->first, &was))
        return true;
    Decoder tower = {.arch = d->arch, .config = &ck->config, .weights = d->weights};
    tower.arena = d->arena;
    tower.b = prog_begin(d->arena, "tower");
    if (!tower.b) return err_nomem(err, "model description");
    out->media = media;
    if (!media->build(&tower, out, err) || !weights_check(d->weights, err)) return false;
    weights_rename_back(d->weights, was);
    d->n_deepstack = tower.n_deepstack;
    d->media = true;
    return prog_finish(tower.b, &out->tower, err);
}

static bool among_globs(const char *const *globs, size_t n, Str name) {
    for (size_t i = 0; i < n && globs[i]; i++)
        if (weights_glob(globs[i], name)) return true;
    return false;
}

bool arch_is_beside(const ArchModel *m, Str tensor) {
    if (m->media && m->media->ignored && among_globs(m->media->ignored, MAX_IGNORED, tensor))
        return true;
    return m->wrapped && among_globs(TOWERS, N_TOWERS, tensor);
}

static bool build(const Checkpoint *ck, const ArchMedia *media, Arena *a, ArchModel *out,
                  Err *err) {
    Config *config = arena_new(a, Config);
    const char **skip = arena_array(a, const char *, MAX_IGNORED + N_TOWERS + MAX_NEXT + 1);
    if (!config || !skip) return err_nomem(err, "model description");
    const Arch *arch = find(ck, config);
    if (!arch)
        return err_set(err, ERR_UNSUPPORTED,
                       "model type \"" STR_F "\" is not known (mlxcel arch lists those that are)",
                       STR_A(ck->config.model_type));
    Decoder d = {.arch = arch, .config = config, .arena = a};
    d.weights = weights_new(ck, arch->names, skip, a);
    d.b = prog_begin(a, "text");
    if (!d.weights || !d.b) return err_nomem(err, "model description");
    *out = (ArchModel){.arch = arch, .weights = d.weights};
    out->wrapped = config->parent || wrapper_find(ck);
    size_t n = add_all(skip, 0, arch->ignored);
    n += next_layers(config, a, skip + n);
    /* A tower that cannot be recorded is an error of its own; weights_finish() asks for the list. */
    if (!build_tower(&d, media, ck, out, err)) return false;
    if (out->media)
        n = add_all(skip, n, out->media->ignored);
    else
        for (size_t i = 0; i < N_TOWERS && out->wrapped; i++) skip[n++] = TOWERS[i];
    skip[n] = NULL;
    return arch->build ? arch->build(&d, out, err) : decoder_build(&d, out, err);
}

bool arch_build(const Checkpoint *ck, Arena *a, ArchModel *out, Err *err) {
    return build(ck, wrapper_find(ck), a, out, err);
}

bool arch_build_text(const Checkpoint *ck, Arena *a, ArchModel *out, Err *err) {
    return build(ck, NULL, a, out, err);
}
