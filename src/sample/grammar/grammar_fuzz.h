/* grammar_fuzz.h: what the three fuzz targets of this folder share. Not part of the library. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_FUZZ_H
#define MLXCEL_SAMPLE_GRAMMAR_FUZZ_H

#include <stdlib.h>

#include "json/json.h"
#include "sample/grammar/grammar_testkit.h"

static const GrammarLimits fuzz_limits = {.max_text_bytes = 20000,
                                          .max_compile_bytes = 24 << 20,
                                          .max_operations = 3000000,
                                          .max_states = 3000,
                                          .max_run_bytes = 16 << 20};

static inline void fuzz_split(const uint8_t *data, size_t size, Str *grammar, Str *output) {
    Str all = {(const char *)data, size};
    size_t zero = str_find_char(all, 0, 0);
    *grammar = zero == STR_NPOS ? all : str_slice(all, 0, zero);
    *output = zero == STR_NPOS ? STR("{\"a\":1}") : str_from(all, zero + 1);
}

enum { FUZZ_TOKENS = 700, FUZZ_OUTPUT = 300 };

static inline void fuzz_mask_check(GrammarState *s, const TestVocab *v, uint64_t *bits) {
    Err err = {0};
    uint64_t again[(FUZZ_TOKENS + 63) / 64];
    bool ok;
    if (!grammar_state_mask(s, bits, &err)) return;
    for (uint32_t id = 0; id < v->n; id++) {
        if (!grammar_state_accept_token(s, id, &ok, &err)) return;
        if (ok != (bits[id / 64] >> id % 64 & 1)) abort();
        if (ok && !grammar_state_rollback(s, 1, &err)) abort();
    }
    if (!grammar_state_mask(s, again, &err)) return;
    if (memcmp(bits, again, sizeof again)) abort();
}

static inline void fuzz_run(bool compiled, Grammar *g, Str output, Err *err, bool json) {
    static TestVocab v;
    Err e = {0};
    if (!compiled) {
        if (!err->msg[0] || err->kind == ERR_INTERNAL) abort();
        return;
    }
    if (!v.vocab && !testvocab_init(&v, FUZZ_TOKENS, 2, &e)) abort();
    uint64_t bits[(FUZZ_TOKENS + 63) / 64];
    GrammarState *s = grammar_state_new(g, v.vocab, NULL, &e);
    if (!s) abort();
    bool ok = true;
    output = str_slice(output, 0, FUZZ_OUTPUT);
    for (size_t i = 0; i < output.n && ok; i++) {
        if (i % 16 == 0) fuzz_mask_check(s, &v, bits);
        if (!grammar_state_accept_bytes(s, str_slice(output, i, i + 1), &ok, &e)) break;
    }
    if (ok && !e.msg[0] && json && grammar_state_may_end(s)) {
        Arena arena = {0};
        Json *j;
        if (!json_parse(output, &(JsonOptions){.dup = JSON_DUP_LAST}, &arena, &j, &e)) abort();
        arena_deinit(&arena);
    }
    grammar_state_free(s);
    grammar_free(g);
}

#endif
