/* grammar_testkit.h: for the tests, fuzz targets and the benchmark of this folder: a made-up
 * vocabulary with the shape of a byte-level BPE one, and random walks over masks. Not part of the
 * library. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_TESTKIT_H
#define MLXCEL_SAMPLE_GRAMMAR_TESTKIT_H

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "sample/grammar/grammar.h"

typedef struct TestVocab {
    Arena arena;
    Str *tokens;
    uint32_t n, cap, eos;
    GrammarVocab *vocab;
} TestVocab;

static inline uint64_t test_random(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static inline void testvocab_add(TestVocab *v, Str s) {
    if (v->n < v->cap) v->tokens[v->n++] = arena_dup(&v->arena, s);
}

static inline void testvocab_words(TestVocab *v, uint64_t *seed) {
    static const char *const parts[] = {
        "a",  "in", "er", "on", "st",  "re", "le", "th", "en", "an", "ing", "ed",   "ti",
        "ro", "co", "de", "li", "ma",  "s",  "ly", "un", "al", "o",  "e",   "tion", "y",
        "ch", "qu", "ze", "x",  "ver", "mo", "pa", "k",  "ph", "ou", "ea",  "i"};
    static const char *const marks[] = {
        "\"",     "\",",  "\":",   "\": ", "\": \"", "\", \"", "\"}",   "\"}\n", "{\"",   "[\"",
        "\"]",    "},",   "},{\"", "]}",   "}}",     "[[",     "]]",    ", ",    ",\"",   ":\"",
        ": ",     ".\"",  ",\n",   "{\n",  "[\n",    "\n\n",   "\",\n", "\\n",   "\\\"",  "\\u",
        "\\u00",  "();",  "->",    "==",   "//",     "/*",     "*/",    "...",   "--",    "\"name",
        "\"type", "\"id", "{}",    "[]",   "null",   "true",   "false", "\"\"",  "\"\",", "<|",
        "|>",     "://",  ".com",  "\t\t", "\r\n",   " \"",    " {",    " [",    " }"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) testvocab_add(v, str_c(marks[i]));
    for (int n = 0; n < 1000; n++) {
        char digits[16];
        snprintf(digits, sizeof digits, "%d", n);
        testvocab_add(v, str_c(digits));
    }
    for (int n = 2; n <= 64; n++) {
        char blanks[66];
        memset(blanks, ' ', sizeof blanks);
        testvocab_add(v, (Str){blanks, (size_t)n});
        blanks[0] = '\n';
        testvocab_add(v, (Str){blanks, (size_t)n});
    }
    while (v->n < v->cap) {
        Buf b = {0};
        uint64_t kind = test_random(seed) % 100;
        if (kind < 55) buf_putc(&b, ' ');
        if (kind >= 85 && kind < 93) { /* other scripts, sometimes cut within a character */
            for (uint64_t i = 0, k = 1 + test_random(seed) % 3; i < k; i++)
                buf_put_utf8(&b, (kind & 1 ? 0x4E00 : 0x410) +
                                     (uint32_t)(test_random(seed) % (kind & 1 ? 8000 : 64)));
            if (test_random(seed) % 8 == 0) b.n--;
        } else {
            for (uint64_t i = 0, k = 1 + test_random(seed) % 4; i < k; i++)
                buf_put(&b, str_c(parts[test_random(seed) % (sizeof parts / sizeof parts[0])]));
            size_t first = kind < 55;
            if (kind % 5 == 0 && b.p[first] >= 'a') b.p[first] = (char)(b.p[first] - 32);
            if (kind >= 93)
                buf_put(&b, str_c(marks[test_random(seed) % (sizeof marks / sizeof marks[0])]));
        }
        testvocab_add(v, buf_str(&b));
        buf_deinit(&b);
    }
}

/* n tokens: all bytes first, the last one ends the text. */
static inline bool testvocab_init(TestVocab *v, uint32_t n, uint64_t seed, Err *err) {
    *v = (TestVocab){.cap = n - 1};
    v->tokens = arena_array(&v->arena, Str, n);
    if (!v->tokens) return err_nomem(err, "a test vocabulary");
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        testvocab_add(v, (Str){&c, 1});
    }
    testvocab_words(v, &seed);
    v->eos = v->n++;
    v->vocab = grammar_vocab_new(v->tokens, v->n, &v->eos, 1, NULL, err);
    return v->vocab != NULL;
}

static inline void testvocab_deinit(TestVocab *v) {
    grammar_vocab_free(v->vocab);
    arena_deinit(&v->arena);
    *v = (TestVocab){0};
}

/* A random member of the mask, UINT32_MAX if it is empty. Half the time a long token is looked for,
 * half the time the first. */
static inline uint32_t testvocab_pick(const TestVocab *v, const uint64_t *bits, uint64_t *seed) {
    uint32_t from = (uint32_t)(test_random(seed) % v->n);
    if (test_random(seed) % 4 == 0) from = (uint32_t)(test_random(seed) % 256);
    for (uint32_t i = 0; i < v->n; i++) {
        uint32_t id = (from + i) % v->n;
        if (bits[id / 64] >> id % 64 & 1) return id;
    }
    return UINT32_MAX;
}

/* Ends a walk: the token that closes soonest among the single bytes, else any. */
static inline uint32_t testvocab_pick_closing(const TestVocab *v, const uint64_t *bits,
                                              uint64_t *seed) {
    static const char closers[] = "}]\":,0";
    if (bits[v->eos / 64] >> v->eos % 64 & 1) return v->eos;
    for (const char *c = closers; *c; c++)
        if (bits[(unsigned char)*c / 64] >> (unsigned char)*c % 64 & 1 && test_random(seed) % 8)
            return (unsigned char)*c;
    return testvocab_pick(v, bits, seed);
}

#endif
