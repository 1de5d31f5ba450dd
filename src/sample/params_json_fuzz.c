/* Any JSON as sampling parameters: refused with a message, or a chain that runs and draws a token
 * that exists. */
#include <stdint.h>
#include <string.h>

#include "base/rng.h"
#include "sample/chain.h"
#include "sample/params_json.h"

enum { VOCAB = 64, STEPS = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool encode_letters(const void *ctx, Str text, Arena *a, uint32_t **ids, size_t *n,
                           Err *err) {
    (void)ctx;
    *ids = arena_array(a, uint32_t, text.n + 1);
    if (!*ids) return err_nomem(err, "ids");
    for (size_t i = 0; i < text.n; i++) (*ids)[i] = (unsigned char)text.p[i];
    *n = text.n;
    return true;
}

static Str piece_of(const void *ctx, uint32_t token) {
    static const char text[] = "a\nb: \"cd* efg";
    (void)ctx;
    return (Str){text + token % 10, token % 4};
}

static void run(const SampleParams *p, SampleWork *w) {
    Err err = {0};
    Sampler s;
    float logits[VOCAB];
    const uint32_t eog[] = {2, 3};
    const SampleVocab vocab = {.n_vocab = VOCAB, .eog = eog, .n_eog = 2, .piece = piece_of};
    if (!sampler_init(&s, p, &vocab, 256, 0, &err)) return;
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t token;
        for (uint32_t j = 0; j < VOCAB; j++)
            logits[j] = (float)(rng_uniform(1, i / 3, j, 0) * 20 - 10);
        if (!sampler_sample(&s, w, logits, NULL, i, &token, &err)) break;
        if (token >= VOCAB) __builtin_trap();
        sampler_accept(&s, token);
    }
    sampler_deinit(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static SampleWork work;
    Err err = {0};
    Arena a = {.max_bytes = 1 << 24};
    Json *doc;
    if (!work.n_vocab && !sample_work_init(&work, VOCAB, &err)) return 0;
    const JsonOptions opt = {.max_bytes = 1 << 16, .dup = JSON_DUP_LAST};
    const BiasText text = {encode_letters, NULL};
    SampleParams p = params_server();
    p.seed = 1;
    if (json_parse((Str){(const char *)data, size}, &opt, &a, &doc, &err) &&
        params_from_generation_config(&p, doc, &err) && params_from_json(&p, doc, &text, &a, &err))
        run(&p, &work);
    arena_deinit(&a);
    return 0;
}
