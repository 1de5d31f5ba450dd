#include "sample/chain.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "sample/filters.h"

enum { DRAW_TOKEN, DRAW_XTC }; /* which of a position's random numbers is whose */

bool sampler_greedy(const Sampler *s) {
    return s->params.temperature <= 0 && s->params.dynatemp_range <= 0;
}

/* ---- life ---- */

static bool copy_bias(Sampler *s, Err *err) {
    const SampleParams *p = &s->params;
    size_t n_eog = p->ignore_eos ? s->vocab.n_eog : 0;
    if (p->n_bias + n_eog == 0) return true;
    s->bias = mem_resize_array(NULL, p->n_bias + n_eog, sizeof *s->bias);
    if (!s->bias) return err_nomem(err, "logit_bias");
    for (size_t i = 0; i < p->n_bias; i++) s->bias[s->n_bias++] = p->bias[i];
    for (size_t i = 0; i < n_eog; i++)
        if (s->vocab.eog[i] < s->vocab.n_vocab)
            s->bias[s->n_bias++] = (LogitBias){s->vocab.eog[i], -INFINITY};
    return true;
}

bool sampler_init(Sampler *s, const SampleParams *params, const SampleVocab *vocab, size_t n_ctx,
                  uint32_t choice, Err *err) {
    *s = (Sampler){.params = *params, .vocab = *vocab, .choice = choice};
    if (!params_check(params, vocab->n_vocab, err)) return false;
    params_fix_seed(&s->params);
    if (!copy_bias(s, err) ||
        !history_setup(&s->history, params, n_ctx, SAMPLER_ROLLBACK_MAX, err)) {
        sampler_deinit(s);
        return false;
    }
    s->params.bias = s->bias;
    s->params.dry_breakers = NULL;
    s->params.n_dry_breakers = 0;
    s->edits = s->n_bias > 0 || penalties_active(params);
    s->mood[0] = (SamplerMood){.mu = 2 * params->mirostat_tau};
    if (params->adaptive_target >= 0)
        s->mood[0].adaptive = adaptive_start(params->adaptive_target, params->adaptive_decay);
    return true;
}

void sampler_deinit(Sampler *s) {
    mem_free(s->bias);
    history_deinit(&s->history);
    *s = (Sampler){0};
}

bool sampler_copy(Sampler *to, const Sampler *from, Err *err) {
    if (!history_copy(&to->history, &from->history, err)) return false;
    to->n_accepted = from->n_accepted;
    memcpy(to->mood, from->mood, sizeof to->mood);
    to->has_pending = false;
    return true;
}

/* ---- state ---- */

static SamplerMood *mood_at(Sampler *s, uint64_t n) {
    return &s->mood[n % (SAMPLER_ROLLBACK_MAX + 1)];
}

void sampler_prompt(Sampler *s, const uint32_t *tokens, size_t n) {
    size_t from = n > s->history.keep ? n - s->history.keep : 0;
    for (size_t i = from; i < n; i++)
        if (tokens[i] < s->vocab.n_vocab) history_push(&s->history, &s->vocab, tokens[i]);
}

void sampler_accept(Sampler *s, uint32_t token) {
    SamplerMood now = *mood_at(s, s->n_accepted);
    if (s->has_pending && s->pending == token) now = s->next;
    s->has_pending = false;
    *mood_at(s, ++s->n_accepted) = now;
    if (token < s->vocab.n_vocab) history_push(&s->history, &s->vocab, token);
}

bool sampler_rollback(Sampler *s, size_t n) {
    if (n > SAMPLER_ROLLBACK_MAX || n > s->n_accepted) return false;
    s->n_accepted -= n;
    s->has_pending = false;
    history_drop(&s->history, n);
    return true;
}

/* ---- one token ---- */

static void copy_allowed(float *to, const float *from, size_t n, const uint64_t *allowed) {
    for (size_t i = 0; i < n; i += 64) {
        size_t len = n - i < 64 ? n - i : 64;
        uint64_t word = allowed[i / 64];
        for (size_t j = 0; j < len; j++) to[i + j] = word >> j & 1 ? from[i + j] : -INFINITY;
    }
}

/* Mask, bias and penalties, in a private copy when there are any. */
static const float *edit(Sampler *s, SampleWork *w, const float *logits, const uint64_t *allowed) {
    if (!allowed && !s->edits) return logits;
    if (allowed)
        copy_allowed(w->edited, logits, s->vocab.n_vocab, allowed);
    else
        memcpy(w->edited, logits, s->vocab.n_vocab * sizeof *logits);
    for (size_t i = 0; i < s->n_bias; i++) w->edited[s->bias[i].token] += s->bias[i].bias;
    penalties_apply(&s->params, &s->history, w, w->edited);
    return w->edited;
}

static void filter(Sampler *s, SampleWork *w, Cands *c, uint64_t position) {
    const SampleParams *p = &s->params;
    size_t min_keep = (size_t)p->min_keep;
    if (p->top_n_sigma > 0) filter_top_n_sigma(c, w, p->top_n_sigma);
    filter_top_k(c, w, p->top_k > p->min_keep || p->top_k <= 0 ? p->top_k : p->min_keep);
    if (p->typical_p < 1) filter_typical(c, w, p->typical_p, min_keep);
    if (p->top_p < 1) filter_top_p(c, w, p->top_p, min_keep);
    if (p->min_p > 0) filter_min_p(c, w, p->min_p, min_keep);
    if (p->xtc_probability > 0) {
        double u = rng_uniform((uint64_t)p->seed, s->choice, position, DRAW_XTC);
        filter_xtc(c, w, p->xtc_probability, p->xtc_threshold, u, min_keep);
    }
}

/* 1 / temperature as a float; a temperature too small for that leaves the largest logit only. */
static float inverse(double temperature) {
    const double least = 1e-6;
    return (float)(1 / (temperature > least ? temperature : least));
}

static void draw(Sampler *s, SampleWork *w, Cands *c, uint64_t position, size_t *at) {
    const SampleParams *p = &s->params;
    SamplerMood now = *mood_at(s, s->n_accepted);
    if (!p->mirostat) filter(s, w, c, position);
    double t = p->temperature;
    if (p->dynatemp_range > 0)
        t = filter_dynatemp(c, w, t, p->dynatemp_range, p->dynatemp_exponent);
    float scale = inverse(t);
    if (p->adaptive_target >= 0) cands_compact(c, w);
    cands_weigh(c, w, scale);
    if (p->mirostat == 1) mirostat_cut_v1(c, w, now.mu, s->vocab.n_vocab, scale);
    if (p->mirostat == 2) mirostat_cut_v2(c, w, now.mu, scale);
    if (p->adaptive_target >= 0) adaptive_shape(c, w, p->adaptive_target, now.adaptive);
    *at = cands_draw(c, w, rng_uniform((uint64_t)p->seed, s->choice, position, DRAW_TOKEN));
    s->next = now;
    if (p->mirostat)
        s->next.mu = mirostat_next(now.mu, p->mirostat_tau, p->mirostat_eta,
                                   (double)w->weight[*at] / c->weight);
    if (p->adaptive_target >= 0)
        s->next.adaptive = adaptive_next(now.adaptive, p->adaptive_decay, (double)w->score[*at]);
}

/* A list of the one token at index i. */
static Cands only(SampleWork *w, const float *logit, uint32_t i) {
    w->logit[0] = logit[i];
    w->id[0] = i;
    w->weight[0] = 1;
    return (Cands){.logit = w->logit, .id = w->id, .n = 1, .max = logit[i], .weight = 1};
}

bool sampler_sample_dist(Sampler *s, SampleWork *w, const float *logits, const uint64_t *allowed,
                         uint64_t position, uint32_t *token, Cands *dist, Err *err) {
    if (w->n_vocab < s->vocab.n_vocab)
        return err_set(err, ERR_INTERNAL, "sampling buffers hold %u tokens, the vocabulary has %u",
                       w->n_vocab, s->vocab.n_vocab);
    const float *edited = edit(s, w, logits, allowed);
    float max;
    uint32_t best;
    if (!cands_scan(edited, s->vocab.n_vocab, &max, &best))
        return err_set(
            err, ERR_INTERNAL,
            "the model's logit of token %u at position %llu is %g, finite numbers are accepted",
            best, (unsigned long long)position, (double)edited[best]);
    if (max == -INFINITY)
        return err_set(
            err, ERR_INPUT,
            "no token is left to draw at position %llu: the grammar and logit_bias rule out all %u",
            (unsigned long long)position, s->vocab.n_vocab);
    s->next = *mood_at(s, s->n_accepted);
    if (sampler_greedy(s)) {
        *dist = only(w, edited, best);
        *token = best;
    } else {
        size_t at;
        *dist = cands_over(edited, s->vocab.n_vocab, max);
        draw(s, w, dist, position, &at);
        *token = cands_id(dist, at);
    }
    s->pending = *token;
    s->has_pending = true;
    return true;
}

bool sampler_sample(Sampler *s, SampleWork *w, const float *logits, const uint64_t *allowed,
                    uint64_t position, uint32_t *token, Err *err) {
    Cands dist;
    return sampler_sample_dist(s, w, logits, allowed, position, token, &dist, err);
}
