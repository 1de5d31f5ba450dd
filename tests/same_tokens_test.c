/* Promise P1: the logits of a token depend on the tokens before it in its own sequence and on
 * nothing else. Every combination of
 *   threads {1, 2, 3, 4} x prefill chunk {1, 7, 64, 512} x company {alone, with 7 others} x cache
 *   {cold, prefix adopted}
 * gives the same bits as the first one, for each backend, ISA level and cache type. DESIGN.md
 * section 5 lists what could break it; the prompt is long enough for several pages (64), for key
 * ranges (512) and for tiles with tails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os.h"
#include "base/rng.h"
#include "golden_run.h"

#ifdef MLXCEL_DEBUG /* several times slower: the corners, on the best ISA */
enum { WHOLE_GRID = 0, N_ISAS = 1 };
#else
enum { WHOLE_GRID = 1, N_ISAS = 3 };
#endif

enum { N_PROMPT = 611, N_NEW = 6, N_OTHERS = 7, N_ADOPT = 333 };

typedef struct Run { /* what one job left behind */
    uint32_t ids[N_NEW];
    size_t n;
    TokenLogprob top[N_NEW][5];
    bool done;
    size_t n_cached; /* of the prompt, adopted */
    Err err;
} Run;

static bool collect(void *ctx, const Event *ev) {
    Run *r = ctx;
    for (size_t i = 0; i < ev->n_tokens && r->n < N_NEW; i++, r->n++) {
        r->ids[r->n] = ev->tokens[i].id;
        for (size_t k = 0; k < ev->tokens[i].n_top && k < 5; k++)
            r->top[r->n][k] = ev->tokens[i].top[k];
    }
    if (ev->kind == EVENT_ERROR) r->err = *ev->err;
    if (ev->kind == EVENT_DONE) r->n_cached = ev->timings->n_cached;
    if (ev->kind == EVENT_DONE || ev->kind == EVENT_ERROR) r->done = true;
    return true;
}

static void tokens_make(const Model *m, uint32_t seed, uint32_t *out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = rng_u32(seed, 0, i, 0) % m->arch.vocab;
}

/* n_logprobs 5: five doubles per token, a fingerprint of the whole row through the sum of its
 * exponentials. */
static void submit(Engine *e, const Model *m, const uint32_t *tokens, size_t n, int64_t n_new,
                   bool no_cache, Run *run) {
    Err err = {0};
    Job *job;
    *run = (Run){0};
    JobParams p = {.tokens = tokens,
                   .n_tokens = n,
                   .n_predict = n_new,
                   .sample = params_cli(),
                   .ignore_eos = true,
                   .no_cache = no_cache,
                   .sink = {collect, run}};
    p.sample.n_logprobs = 5;
    if (!job_new(m, engine_n_ctx(e), &p, &job, &err)) fail_msg("%s", err.msg);
    engine_submit(e, job);
}

static void drive(Engine *e, const Run *run) {
    while (!run->done && engine_step(e)) {
    }
    if (run->err.kind) fail_msg("%s", run->err.msg);
}

typedef struct Setting {
    int n_threads;
    uint32_t chunk;
    bool company, adopted;
} Setting;

static void run_setting(const char *path, const char *backend, const char *isa, PlaneType kv,
                        const Setting *s, Run *out) {
    Err err = {0};
    Model *m = NULL;
    Engine *e = NULL;
    ModelOptions mo = {.backend = backend, .be = {.n_threads = s->n_threads, .isa = isa}};
    EngineOptions eo = engine_options();
    eo.k = eo.v = kv;
    eo.prefill_chunk = s->chunk;
    eo.n_slots = 1 + N_OTHERS;
    eo.n_ctx = 1024 * (1 + N_OTHERS);
    if (!model_open(path, &mo, &m, &err) || !engine_open(m, &eo, &e, &err))
        fail_msg("%s: %s", path, err.msg);
    uint32_t prompt[N_PROMPT], other[N_OTHERS][N_PROMPT];
    Run others[N_OTHERS];
    tokens_make(m, 1, prompt, N_PROMPT);
    if (s->adopted) {
        submit(e, m, prompt, N_ADOPT, 1, false, out);
        drive(e, out);
    }
    for (uint32_t i = 0; s->company && i < N_OTHERS; i++) {
        tokens_make(m, 2 + i, other[i], N_PROMPT);
        submit(e, m, other[i], 5 + 17 * i, 40, true, &others[i]);
        if (i == 3) { /* in the middle of the others, some of which decode already */
            for (int k = 0; k < 3; k++) engine_step(e);
            submit(e, m, prompt, N_PROMPT, N_NEW, !s->adopted, out);
        }
    }
    if (!s->company) submit(e, m, prompt, N_PROMPT, N_NEW, !s->adopted, out);
    drive(e, out);
    if (!s->company) assert_int_equal(engine_stats(e)->n_guarded_allocs, 0);
    /* recurrent models: up to a state that was kept, the one before the last row */
    if (s->adopted) assert_in_range(out->n_cached, N_ADOPT - 1, N_ADOPT);
    if (!s->adopted) assert_int_equal(out->n_cached, 0);
    engine_close(e);
    model_close(m);
}

/* full: the whole grid of promise P1; otherwise its corners, for the other ISA levels and cache
 * types. */
static void check_model(const char *path, const char *backend, const char *isa, PlaneType kv,
                        bool full) {
    static const int THREADS[] = {1, 2, 3, 4};
    static const uint32_t CHUNKS[] = {1, 7, 64, 512};
    Run first, run;
    size_t n = 0;
    for (int t = 0; t < 4; t++)
        for (int c = 0; c < 4; c++)
            for (int company = 0; company < 2; company++)
                for (int adopted = 0; adopted < 2; adopted++) {
                    const Setting s = {THREADS[t], CHUNKS[c], company, adopted};
                    bool corner = (t == 0 && c == 3 && !company) ||
                                  (t == 2 && c % 2 && company && (WHOLE_GRID || c == 3));
                    if (!full && !corner) continue;
                    run_setting(path, backend, isa, kv, &s, n ? &run : &first);
                    if (!n++) continue;
                    if (memcmp(run.ids, first.ids, sizeof run.ids) ||
                        memcmp(run.top, first.top, sizeof run.top))
                        fail_msg("%s on %s %s, %s cache: %d threads, chunk %u, company %d, adopted "
                                 "%d differ",
                                 path, backend, isa, planetype_name(kv), s.n_threads, s.chunk,
                                 s.company, s.adopted);
                }
    print_message("%s on %s %s, %s cache: %zu settings, the same bits\n", path, backend, isa,
                  planetype_name(kv), n);
}

/* The goldens end at 128 or 512 positions; a copy that promises more lets the prompt cross pages
 * and key ranges. */
static void lengthen(Buf *config, const void *path) {
    static const char *const KEYS[] = {"\"max_position_embeddings\": ", "\"model_max_length\": "};
    Buf out = {0};
    size_t at = STR_NPOS, value = 0;
    for (int k = 0; k < 2 && at == STR_NPOS; k++) {
        at = str_find(buf_str(config), str_c(KEYS[k]), 0);
        value = at + strlen(KEYS[k]);
    }
    if (at == STR_NPOS) return;
    size_t end = str_find(buf_str(config), STR(","), value);
    if (end == STR_NPOS) fail_msg("%s: nothing behind its positions", (const char *)path);
    buf_put(&out, str_slice(buf_str(config), 0, value));
    buf_put(&out, STR("2048"));
    buf_put(&out, str_from(buf_str(config), end));
    buf_deinit(config);
    *config = out;
}

/* Under ThreadSanitizer, many times slower again, a model is run on one backend and ISA: the threads
 * share the work in the same way on all. */
static bool is_left_out(const char *backend, const char *isa, PlaneType kv) {
#ifdef __SANITIZE_THREAD__
    return !strcmp(isa, "portable") || (!strcmp(backend, "ref") && kv == PLANE_F32);
#else
    (void)backend, (void)isa, (void)kv;
    return false;
#endif
}

/* name: a directory below the goldens. */
static void check_golden(const char *name, const char *backend, const char *isa, PlaneType kv,
                         bool full) {
    const char *dir = getenv("MLXCEL_GOLDEN_DIR");
    char from[2048], to[2048];
    Err err = {0};
    if (is_left_out(backend, isa, kv)) return;
    snprintf(from, sizeof from, "%s/%s", dir ? dir : "build/goldens", name);
    snprintf(to, sizeof to, "build/same_tokens/%s", name);
    if (!golden_copy(from, to, lengthen, from, &err)) fail_msg("%s", err.msg);
    check_model(to, backend, isa, kv, full);
}

static void ref_is_the_same(void **state) {
    (void)state;
    check_golden("decoder/llama_tied", "ref", "auto", PLANE_F16, false);
}

static void cpu_is_the_same(void **state) {
    (void)state;
    check_golden("decoder/qwen3", "cpu", "auto", PLANE_F16, WHOLE_GRID);
}

static void cpu_is_the_same_on_every_isa_and_cache_type(void **state) {
    (void)state;
    static const char *const ISAS[] = {"avx512", "avx2", "portable"};
    for (int i = 0; i < N_ISAS; i++) {
        check_golden("decoder/mistral", "cpu", ISAS[i], PLANE_F32, false);
        check_golden("decoder/qwen3", "cpu", ISAS[i], PLANE_F16, false);
        check_golden("decoder/llama_bias", "cpu", ISAS[i], PLANE_Q8_0, false);
        check_golden("decoder/qwen2", "cpu", ISAS[i], PLANE_Q4_0, false);
        check_golden("decoder/llama", "cpu", ISAS[i], PLANE_BF16, false);
    }
}

/* Products of integers: activations as int8 codes, as two rows of them in the precise products,
 * tiles and their tails. */
static void cpu_is_the_same_with_quantized_weights(void **state) {
    (void)state;
    static const char *const ISAS[] = {"avx512", "avx2", "portable"};
    check_golden("quantized/mlx_mixed_4_8_skip", "cpu", "auto", PLANE_F16, WHOLE_GRID);
    for (int i = 0; i < N_ISAS; i++) {
        check_golden("quantized/mlx_mixed_4_8_skip", "cpu", ISAS[i], PLANE_Q8_0, false);
        check_golden("quantized/gptq_4bit_g32_asym_actorder", "cpu", ISAS[i], PLANE_F16, false);
    }
}

/* Which tokens an expert gets together depends on the company; what it gives each of them must
 * not. */
static void cpu_is_the_same_with_experts(void **state) {
    (void)state;
    check_golden("decoder/mixtral", "cpu", "auto", PLANE_F16, false);
    check_golden("decoder/qwen3_moe", "cpu", "auto", PLANE_F16, false);
}

/* Recurrent states: a step that ends between two rows must leave behind what the next one begins
 * with, and a prefix is adopted from a state that was kept. */
static void recurrent_models_are_the_same(void **state) {
    (void)state;
    static const char *const NAMES[] = {"decoder/lfm2", "decoder/qwen3_next",
                                        "decoder/kimi_linear"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        check_golden(NAMES[i], "ref", "auto", PLANE_F32, false);
        check_golden(NAMES[i], "cpu", "auto", PLANE_F16, WHOLE_GRID);
        check_golden(NAMES[i], "cpu", "portable", PLANE_Q8_0, false);
    }
}

/* State space scans and linear recurrences: alone (models without any cache plane), beside windows,
 * and beside attention in the same layer. */
static void scans_are_the_same(void **state) {
    (void)state;
    static const char *const NAMES[] = {"decoder/mamba", "decoder/mamba2", "decoder/jamba",
                                        "decoder/recurrent_gemma", "decoder/falcon_h1"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        check_golden(NAMES[i], "ref", "auto", PLANE_F32, false);
        check_golden(NAMES[i], "cpu", "auto", PLANE_F16, false);
        check_golden(NAMES[i], "cpu", "portable", PLANE_Q8_0, false);
    }
}

/* Planes that several layers read, and windows that give pages back under a prompt many times as
 * long. */
static void shared_planes_are_the_same(void **state) {
    (void)state;
    check_golden("decoder/gemma3n_text", "cpu", "auto", PLANE_F16, false);
    check_golden("decoder/gemma3n_text", "ref", "auto", PLANE_F32, false);
    check_golden("decoder/gemma4_text", "cpu", "auto", PLANE_F16, false);
    check_golden("decoder/gemma4_text_moe", "cpu", "auto", PLANE_F16, false);
    check_golden("decoder/llama4_text", "cpu", "auto", PLANE_F16, false); /* chunks */
    check_golden("decoder/llama4_text", "ref", "auto", PLANE_F32, false);
}

/* Latents, alone and with a choice of keys of its own or of an earlier layer. */
static void latents_and_chosen_keys_are_the_same(void **state) {
    (void)state;
    static const char *const NAMES[] = {"decoder/deepseek_v3", "decoder/deepseek_v32",
                                        "decoder/glm_moe_dsa"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        check_golden(NAMES[i], "ref", "auto", PLANE_F32, false);
        check_golden(NAMES[i], "cpu", "auto", PLANE_F16, false);
        check_golden(NAMES[i], "cpu", "portable", PLANE_Q8_0, false);
    }
}

/* Groups that a step cuts through, kept as a state, beside windows and rows of whole groups. */
static void groups_of_tokens_are_the_same(void **state) {
    (void)state;
    check_golden("decoder/deepseek_v4", "ref", "auto", PLANE_F32, false);
    check_golden("decoder/deepseek_v4", "cpu", "auto", PLANE_F16, WHOLE_GRID);
    check_golden("decoder/deepseek_v4", "cpu", "portable", PLANE_Q8_0, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_is_the_same),
        cmocka_unit_test(cpu_is_the_same),
        cmocka_unit_test(cpu_is_the_same_on_every_isa_and_cache_type),
        cmocka_unit_test(cpu_is_the_same_with_quantized_weights),
        cmocka_unit_test(cpu_is_the_same_with_experts),
        cmocka_unit_test(recurrent_models_are_the_same),
        cmocka_unit_test(scans_are_the_same),
        cmocka_unit_test(shared_planes_are_the_same),
        cmocka_unit_test(latents_and_chosen_keys_are_the_same),
        cmocka_unit_test(groups_of_tokens_are_the_same)};
    return cmocka_run_group_tests_name("same_tokens", tests, NULL, NULL);
}
