#include "engine/job.h"

#include <string.h>

#include "base/mem.h"
#include "base/os.h"

static Str token_piece(const void *ctx, uint32_t token) { return tokenizer_token_text(ctx, token); }

static bool tokens_copy(Job *j, const JobParams *p, uint32_t n_ctx, Err *err) {
    if (p->n_tokens == 0)
        return err_set(err, ERR_INPUT, "the prompt has no tokens, at least one is needed");
    /* Room for one generated token, unless only the prompt is wanted. */
    uint64_t need = p->n_tokens + (p->n_predict != 0);
    if (need > n_ctx)
        return err_set(err, ERR_LIMIT, "the prompt has %zu tokens, the context holds %u%s",
                       p->n_tokens, n_ctx,
                       p->n_predict != 0 ? " and one of them must be free" : "");
    for (size_t i = 0; i < p->n_tokens; i++)
        if (p->tokens[i] >= j->model->arch.vocab)
            return err_set(err, ERR_INPUT, "token id %u, the vocabulary has 0 to %u", p->tokens[i],
                           j->model->arch.vocab - 1);
    uint64_t want = p->n_predict < 0 ? n_ctx : (uint64_t)p->n_tokens + (uint64_t)p->n_predict;
    j->max_tokens = want < n_ctx ? (uint32_t)want : n_ctx;
    j->tokens = mem_resize_array(NULL, (size_t)j->max_tokens + 1, sizeof *j->tokens);
    if (!j->tokens) return err_nomem(err, "tokens");
    memcpy(j->tokens, p->tokens, p->n_tokens * sizeof *j->tokens);
    j->n_tokens = j->n_prompt = (uint32_t)p->n_tokens;
    return true;
}

/* The answer continues the prompt: its end goes through the detokenizer first, so that a leading
 * blank is kept and a character begun in the prompt is completed. */
static bool detok_prime(Job *j, Err *err) {
    enum { CONTEXT = 8 };
    Str piece;
    detok_init(&j->detok, j->model->tok, false);
    for (uint32_t i = j->n_prompt > CONTEXT ? j->n_prompt - CONTEXT : 0; i < j->n_prompt; i++)
        if (!detok_push(&j->detok, j->tokens[i], &piece, err)) return false;
    return true;
}

static bool job_setup(Job *j, uint32_t n_ctx, const JobParams *p, Err *err) {
    const ArchModel *arch = &j->model->arch;
    if (arch->needs_media && !p->media)
        return err_set(err, ERR_INPUT, "%s answers to media: the request has no input \"%s\"",
                       arch->arch->name, arch->tower->inputs[0].name);
    if (!tokens_copy(j, p, n_ctx, err)) return false;
    if (j->model->arch.class_rope)
        j->length_class = rope_length_class(j->model->arch.class_rope, j->n_prompt);
    if (!stop_init(&j->stops, p->stop, p->n_stop, err)) return false;
    const SampleVocab vocab = {.n_vocab = j->model->arch.vocab,
                               .eog = j->model->eog,
                               .n_eog = j->model->n_eog,
                               .piece = j->model->tok ? token_piece : NULL,
                               .ctx = j->model->tok};
    if (!sampler_init(&j->sampler, &p->sample, &vocab, n_ctx, p->choice, err)) return false;
    sampler_prompt(&j->sampler, j->tokens, j->n_prompt);
    if (!loop_init(&j->finish.loop, p->loop, err)) return false;
    if (j->model->tok && !detok_prime(j, err)) return false;
    j->rules = (FinishRules){.max_tokens = p->n_predict, .n_ctx = n_ctx};
    return true;
}

bool job_new(const Model *m, uint32_t n_ctx, const JobParams *p, Job **out, Err *err) {
    Job *j = mem_calloc(1, sizeof *j);
    if (!j) return err_nomem(err, "request");
    j->model = m;
    j->p = *p;
    j->submitted_ns = os_now_ns();
    if (!job_setup(j, n_ctx, p, err)) {
        job_free(j);
        return false;
    }
    *out = j;
    return true;
}

void job_free(Job *j) {
    if (!j) return;
    if (j->has_cache) seqcache_deinit(&j->cache);
    sampler_deinit(&j->sampler);
    stop_deinit(&j->stops);
    detok_deinit(&j->detok);
    buf_deinit(&j->text);
    mem_free(j->tokens);
    mem_free(j->keys);
    mem_free(j);
}

bool job_is_cancelled(const Job *j) {
    return atomic_load(&j->own_cancel) || (j->p.cancel && atomic_load(j->p.cancel));
}

bool job_name_media(Job *j, MediaNames *names, Err *err) {
    if (!j->p.media || j->keys) return true;
    j->keys = mem_resize_array(NULL, (size_t)j->max_tokens + 1, sizeof *j->keys);
    if (!j->keys) return err_nomem(err, "tokens");
    memcpy(j->keys, j->tokens, j->n_tokens * sizeof *j->keys);
    return media_name_tokens(j->p.media, names, j->keys, err);
}

uint64_t job_cache_key(const Job *j) { return j->length_class; }
