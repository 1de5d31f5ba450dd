/* What all wrapper families ask of a request's tensors and tokens. */
#include "arch/media.h"

static const char *type_name(MediaType t) { return t == MEDIA_F32 ? "numbers" : "whole numbers"; }

bool media_section(const Config *c, const char *name, Config *out, Err *err) {
    Err local = {0};
    if (config_section(c, name, out, &local)) return true;
    if (!local.kind) return err_set(err, ERR_INPUT, "config.json has no %s", name);
    if (err) *err = local;
    return false;
}

bool media_find(const MediaAsk *ask, const char *name, MediaType type, uint32_t n_dims,
                const MediaTensor **out, Err *err) {
    for (size_t i = 0; i < ask->n_inputs; i++) {
        const MediaTensor *t = &ask->inputs[i];
        if (!str_eqc(str_c(t->name), name)) continue;
        if (t->type != type || t->n_dims != n_dims)
            return err_set(err, ERR_INPUT,
                           "input %s has %u dimensions of %s; %u dimensions of %s are accepted",
                           name, t->n_dims, type_name(t->type), n_dims, type_name(type));
        ask->used[i] = true;
        *out = t;
        return true;
    }
    return err_set(err, ERR_INPUT, "input %s is missing", name);
}

bool media_has(const MediaAsk *ask, const char *name) {
    for (size_t i = 0; i < ask->n_inputs; i++)
        if (str_eqc(str_c(ask->inputs[i].name), name)) return true;
    return false;
}

uint64_t media_elements(const MediaTensor *t) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) n *= t->dims[i];
    return n;
}

bool media_is_placeholder(const ArchModel *m, uint32_t token) {
    for (uint32_t i = 0; i < m->n_placeholders; i++)
        if (m->placeholders[i] == token) return true;
    return false;
}

bool media_count_placeholders(const ArchModel *m, const MediaAsk *ask, uint64_t n, Err *err) {
    uint64_t found = 0;
    for (uint32_t i = 0; i < ask->n_tokens; i++) found += media_is_placeholder(m, ask->tokens[i]);
    return found == n ||
           err_set(err, ERR_INPUT,
                   "the prompt has %llu placeholders (token %u), the media give %llu rows",
                   (unsigned long long)found, m->placeholders[0], (unsigned long long)n);
}
