/* Promise P1 when rows are taken back, as speculation does: a sequence grows by guesses of which some
 * are wrong; the wrong rows are trimmed, recurrent state goes back to the mark behind the last right
 * row, windows still find their pages; and every logit of a right row has the bits that it has when
 * the tokens are run through in one piece. All decoder goldens, on ref and cpu. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/os.h"
#include "base/rng.h"
#include "cache/seqcache.h"
#include "engine/model.h"
#include "golden_run.h"

enum { N_TOKENS = 110, MAX_GUESS = 7, N_PAGES = 12, N_STATES = 20 };

typedef struct Rig {
    Model *m;
    CacheContext cache;
    BackExec *exec;
    Step *step;
    uint32_t logits, vocab;
} Rig;

static void rig_open(Rig *r, const char *path, const char *backend) {
    Err err = {0};
    ModelOptions mo = {.backend = backend, .be = {.n_threads = 2}};
    *r = (Rig){0};
    if (!model_open(path, &mo, &r->m, &err) || !model_load(r->m, &err)) fail_msg("%s", err.msg);
    const Program *p = r->m->arch.text;
    const BackendApi *api = r->m->be->api;
    PlanesAsk ask = {.k = PLANE_F16, .v = PLANE_F16, .n_states = N_STATES};
    for (uint32_t g = 0; g < p->n_groups; g++) ask.n_pages[g] = N_PAGES;
    const ExecLimits limits = {N_TOKENS, N_TOKENS, 1};
    r->cache.api = api;
    if (!cachepools_init(&r->cache.pools, p, &ask, &err) ||
        !api->planes_new(r->m->be, p, &ask, &r->cache.planes, &err) ||
        !api->exec_new(r->m->be, p, r->m->weights, r->cache.planes, &limits, &r->exec, &err))
        fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < p->n_outputs; i++)
        if (!strcmp(p->outputs[i].name, "logits")) r->logits = i;
    r->vocab = r->m->arch.vocab;
    r->step = mem_alloc(step_bytes(N_TOKENS, N_TOKENS, 1, N_PAGES * PLANE_MAX_GROUPS));
}

static void rig_close(Rig *r) {
    const BackendApi *api = r->m->be->api;
    api->exec_free(r->exec);
    api->planes_free(r->m->be, r->cache.planes);
    cachepools_deinit(&r->cache.pools);
    mem_free(r->step);
    model_close(r->m);
}

/* Runs n tokens behind the sequence; their logits into out; each row's state is kept if `mark`. */
static void rig_run(Rig *r, SeqCache *c, const uint32_t *tokens, uint32_t n, bool mark,
                    float *out) {
    Err err = {0};
    const BackendApi *api = r->m->be->api;
    uint32_t slot = c->n_tokens, n_groups = r->cache.pools.n_groups;
    if (!seqcache_extend(c, n, &err)) fail_msg("%s", err.msg);
    step_layout(r->step, n, n, 1, c->n_pages * n_groups);
    *step_seqs(r->step) = (StepSeq){.n_rows = n,
                                    .n_pages = c->n_pages,
                                    .length_class = 1,
                                    .state_from = seqcache_state_from(c),
                                    .state_to = c->state};
    for (uint32_t g = 0; g < n_groups; g++)
        memcpy(step_pages(r->step) + g * c->n_pages, c->pages[g], c->n_pages * sizeof(uint32_t));
    for (uint32_t i = 0; i < n; i++) {
        step_out_rows(r->step)[i] = i;
        step_rows(r->step)[i] =
            (StepRow){.slot = slot + i,
                      .pos = {(int32_t)(slot + i)},
                      .hi = slot + i + 1,
                      .source = tokens[i],
                      .adapter = STEP_NO_ADAPTER,
                      .mark = mark ? seqcache_mark(c, slot + i + 1) : STEP_NO_MARK};
    }
    if (!api->run(r->exec, r->step, NULL, &err) ||
        !api->read(r->exec, r->logits, 0, n, out, &err) || !api->wait(r->m->be, &err))
        fail_msg("%s", err.msg);
}

static uint32_t draw(uint32_t *at) { return rng_u32(7, 0, (*at)++, 0); }

static void check(const char *path, const char *backend) {
    Rig r;
    Err err = {0};
    SeqCache c;
    uint32_t tokens[N_TOKENS + MAX_GUESS], guess[MAX_GUESS], at = 0, n_back = 0;
    rig_open(&r, path, backend);
    uint32_t limit =
        r.m->arch.context && r.m->arch.context < N_TOKENS ? (uint32_t)r.m->arch.context : N_TOKENS;
    for (uint32_t i = 0; i < N_TOKENS + MAX_GUESS; i++) tokens[i] = draw(&at) % r.vocab;
    size_t row = r.vocab * sizeof(float);
    float *want = mem_alloc(N_TOKENS * row), *got = mem_alloc(N_TOKENS * row);
    assert_true(seqcache_init(&c, &r.cache, N_TOKENS + MAX_GUESS, &err));
    rig_run(&r, &c, tokens, limit, false, want);
    seqcache_deinit(&c);
    assert_true(seqcache_init(&c, &r.cache, N_TOKENS + MAX_GUESS, &err));
    for (uint32_t n = 0; n < limit;) {
        uint32_t k = 1 + draw(&at) % MAX_GUESS, right = draw(&at) % (k + 1);
        if (k > limit - n) k = limit - n;
        if (right > k) right = k;
        for (uint32_t i = 0; i < k; i++)
            guess[i] = i < right ? tokens[n + i] : (tokens[n + i] + 1) % r.vocab;
        rig_run(&r, &c, guess, k, true, got);
        if (memcmp(got, want + (size_t)n * r.vocab, right * row))
            fail_msg("%s on %s: the logits behind token %u differ", path, backend, n);
        n += right;
        n_back += right < k;
        uint32_t left = seqcache_trim(&c, n);
        if (left != n) fail_msg("%s: trimmed to %u instead of %u", path, left, n);
    }
    assert_true(n_back > 5);
    /* Past all marks and windows there is only the beginning, or what is still there. */
    uint32_t left = seqcache_trim(&c, 1);
    assert_true(left <= 1);
    rig_run(&r, &c, tokens + left, limit - left, false, got);
    if (memcmp(got, want + (size_t)left * r.vocab, (limit - left) * row))
        fail_msg("%s on %s: begun anew, the logits differ", path, backend);
    seqcache_deinit(&c);
    mem_free(want);
    mem_free(got);
    rig_close(&r);
}

static void rows_can_be_taken_back(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    Str *names;
    size_t n, n_run = 0;
    char dir[2048], path[4096];
    snprintf(dir, sizeof dir, "%s/decoder", golden_dir());
    if (!os_list_dir(dir, &a, &names, &n, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%.*s", dir, (int)names[i].n, names[i].p);
        if (!golden_known(path, NULL)) continue;
        check(path, "ref");
        check(path, "cpu");
        n_run++;
    }
    print_message("%zu goldens, with guesses taken back\n", n_run);
    arena_deinit(&a);
    assert_true(n_run > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_can_be_taken_back)};
    return cmocka_run_group_tests_name("rollback", tests, NULL, NULL);
}
