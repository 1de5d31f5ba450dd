#include "engine/model.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/os.h"
#include "engine/loader.h"
#include "sample/params_json.h"

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool eog_add(Model *m, int64_t id) {
    /* some configs name an id beyond the vocabulary */
    if (id < 0 || id >= m->arch.vocab) return true;
    for (size_t i = 0; i < m->n_eog; i++)
        if (m->eog[i] == (uint32_t)id) return true;
    uint32_t *more = mem_resize_array(m->eog, m->n_eog + 1, sizeof *more);
    if (!more) return false;
    m->eog = more;
    m->eog[m->n_eog++] = (uint32_t)id;
    return true;
}

static bool eog_from_config(Model *m, const Config *c, Err *err) {
    const int64_t *ids;
    size_t n;
    if (!c->json && !c->gguf) return true;
    if (!config_ints(c, "eos_token_id", &m->arena, &ids, &n, err)) return false;
    for (size_t i = 0; i < n; i++)
        if (!eog_add(m, ids[i])) return err_nomem(err, "end tokens");
    return true;
}

/* config.json, generation_config.json (or GGUF keys) and the tokenizer each know some of them. */
static bool eog_collect(Model *m, Err *err) {
    if (!eog_from_config(m, &m->ck->config, err) || !eog_from_config(m, &m->ck->generation, err))
        return false;
    size_t n = m->tok ? tokenizer_n_vocab(m->tok) : 0;
    if (n > m->arch.vocab) n = m->arch.vocab; /* a file may give a token any number */
    for (size_t id = 0; id < n; id++)
        if (tokenizer_is_eog(m->tok, (uint32_t)id) && !eog_add(m, (int64_t)id))
            return err_nomem(err, "end tokens");
    if (m->n_eog) qsort(m->eog, m->n_eog, sizeof *m->eog, by_value);
    return true;
}

bool model_is_eog(const Model *m, uint32_t token) {
    return m->n_eog && bsearch(&token, m->eog, m->n_eog, sizeof *m->eog, by_value) != NULL;
}

static bool weights_of(Model *m, const Program *p, BackWeight ***out) {
    if (p) *out = arena_array(&m->arena, BackWeight *, p->n_weights + 1);
    return !p || *out;
}

static bool open_parts(Model *m, const char *path, const ModelOptions *opt, Err *err) {
    if (!checkpoint_open(path, &m->ck, err)) return false;
    if (!arch_build(m->ck, &m->arena, &m->arch, err)) return err_wrap(err, "%s", path);
    if (!backend_open(opt->backend ? opt->backend : "auto", &opt->be, &m->be, err)) return false;
    if (!tokenizer_load_checkpoint(m->ck, &m->tok, &m->tok_err)) m->tok = NULL;
    if (m->tok_err.kind && m->tok_err.kind != ERR_NOT_FOUND) {
        *err = m->tok_err;
        return false;
    }
    for (uint32_t i = 0; i < weights_count(m->arch.weights); i++)
        m->weight_bytes += loader_packed_bytes(m, i);
    m->packed = arena_array(&m->arena, BackWeight *, weights_count(m->arch.weights) + 1);
    if (!m->packed || !weights_of(m, m->arch.text, &m->weights) ||
        !weights_of(m, m->arch.tower, &m->tower_weights) ||
        !weights_of(m, m->arch.cross, &m->cross_weights))
        return err_nomem(err, "weights");
    return eog_collect(m, err);
}

bool model_open(const char *path, const ModelOptions *opt, Model **out, Err *err) {
    uint64_t t0 = os_now_ns(), before = os_rss_bytes();
    Err local = {0};
    Model *m = mem_calloc(1, sizeof *m);
    if (!m) return err_nomem(err, "model");
    m->opt = *opt;
    if (!open_parts(m, path, opt, &local)) {
        if (err) *err = local;
        model_close(m);
        return false;
    }
    uint64_t after = os_rss_bytes();
    m->process_bytes = before;
    m->open_bytes = after > before ? after - before : 0;
    m->open_ms = (double)(os_now_ns() - t0) * 1e-6;
    *out = m;
    return true;
}

static void weights_give(const Model *m, const Program *p, BackWeight **out) {
    for (uint32_t i = 0; p && i < p->n_weights; i++) out[i] = m->packed[p->weights[i].source];
}

bool model_load(Model *m, Err *err) {
    if (m->is_loaded) return true;
    uint64_t t0 = os_now_ns();
    bool ok = loader_run(m, err);
    mem_trim(); /* what was read into */
    if (!ok) return false;
    weights_give(m, m->arch.text, m->weights);
    weights_give(m, m->arch.tower, m->tower_weights);
    weights_give(m, m->arch.cross, m->cross_weights);
    m->load_ms = (double)(os_now_ns() - t0) * 1e-6;
    m->is_loaded = true;
    return true;
}

static void weights_free(Model *m) {
    for (uint32_t i = 0; m->packed && i < weights_count(m->arch.weights); i++)
        if (m->packed[i]) m->be->api->weight_free(m->be, m->packed[i]);
}

void model_close(Model *m) {
    if (!m) return;
    if (m->be) {
        weights_free(m);
        m->be->api->close(m->be);
    }
    tokenizer_free(m->tok);
    checkpoint_close(m->ck);
    mem_free(m->eog);
    arena_deinit(&m->arena);
    mem_free(m);
}

bool model_sample_defaults(const Model *m, SampleParams *p, Err *err) {
    return !m->ck->generation.json || params_from_generation_config(p, m->ck->generation.json, err);
}

bool model_need_tokenizer(const Model *m, Err *err) {
    if (m->tok) return true;
    return err_set(err, ERR_UNSUPPORTED,
                   "this checkpoint has no tokenizer (%s); token ids can be given with --ids",
                   m->tok_err.msg);
}
