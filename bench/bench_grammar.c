/* bench_grammar: how long compiling a grammar and making a token mask take, on one thread.
 *
 *     bench_grammar [VOCAB]      VOCAB: a file with the bytes of one token per line in hexadecimal; without it a made-up one of 128k
 *
 * Masks are timed along random walks over them; each walk starts a new state, each grammar is
 * compiled anew, so the first visits, which have to look at the vocabulary, count. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/os.h"
#include "sample/grammar/grammar_testkit.h"

static const char *const schemas[][2] = {
    {"tool call", "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\","
                  "\"description\":\"City\"},\"unit\":{\"type\":\"string\","
                  "\"enum\":[\"celsius\",\"fahrenheit\"]},\"days\":{\"type\":\"integer\","
                  "\"minimum\":1,\"maximum\":7}},\"required\":[\"city\"],"
                  "\"additionalProperties\":false}"},
    {"extraction", "{\"type\":\"object\",\"properties\":{\"people\":{\"type\":\"array\",\"items\":{"
                   "\"type\":\"object\",\"properties\":{\"name\":"
                   "{\"type\":\"string\"},\"age\":{\"type\":[\"integer\",\"null\"]},\"email\":{"
                   "\"type\":\"string\",\"format\":\"email\"},\"tags\":"
                   "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":20}}},"
                   "\"required\":[\"name\",\"age\"],"
                   "\"additionalProperties\":false}},\"summary\":{\"type\":\"string\","
                   "\"maxLength\":200},\"when\":{\"type\":\"string\",\"format\":\"date-time\"}},"
                   "\"required\":[\"people\",\"summary\"],\"additionalProperties\":false}"},
    {"any object", "{\"type\":\"object\"}"},
    {"recursive",
     "{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"name\":"
     "{\"type\":\"string\",\"pattern\":\"^[A-Z][a-z]+( [A-Z][a-z]+)*$\"},"
     "\"c\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
     "n\"}}},\"required\":[\"v\",\"c\"],\"additionalProperties\":false}},\"$ref\":\"#/$defs/n\"}"},
};

static const char *const json_gbnf =
    "root ::= object\nvalue ::= object | array | string | number | (\"true\" | \"false\" | "
    "\"null\") ws\n"
    "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\" ws\n"
    "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" "
    "[0-9a-fA-F]{4}))* \"\\\"\" ws\n"
    "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] "
    "[1-9]{0,15})? ws\n"
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n";

static int u64_cmp(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

enum { WALKS = 40, STEPS = 250 };

static void walks_time(const char *name, Grammar *g, uint64_t compile_ns, const TestVocab *v) {
    static uint64_t times[WALKS * STEPS];
    uint64_t *bits = mem_calloc(v->vocab->n_words, sizeof *bits), seed = 7;
    size_t n = 0;
    Err err = {0};
    for (int w = 0; bits && w < WALKS; w++) {
        GrammarState *s = grammar_state_new(g, v->vocab, NULL, &err);
        for (int i = 0; s && i < STEPS; i++) {
            uint64_t begin = os_now_ns();
            bool ok = grammar_state_mask(s, bits, &err);
            times[n++] = os_now_ns() - begin;
            uint32_t id = ok ? testvocab_pick(v, bits, &seed) : UINT32_MAX;
            if (id == UINT32_MAX || !grammar_state_accept_token(s, id, &ok, &err) || !ok) break;
            if (grammar_state_is_done(s)) break;
        }
        grammar_state_free(s);
    }
    mem_free(bits);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += times[i];
    if (n) qsort(times, n, sizeof *times, u64_cmp);
    if (n)
        printf("%-14s compile %7.2f ms   masks %6zu   median %7.2f us   mean %7.2f us   p99 %8.2f "
               "us   max %8.2f us %s\n",
               name, (double)compile_ns / 1e6, n, (double)times[n / 2] / 1e3,
               (double)sum / (double)n / 1e3, (double)times[n * 99 / 100] / 1e3,
               (double)times[n - 1] / 1e3, err.msg);
}

static int hex_digit(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

static bool vocab_read(TestVocab *v, const char *path, Err *err) {
    Buf text = {0};
    if (!os_read_file(path, (size_t)64 << 20, &text, err)) return false;
    v->cap = 1 << 20;
    v->tokens = arena_array(&v->arena, Str, v->cap);
    Str rest = buf_str(&text), line;
    while (v->tokens && str_split(&rest, '\n', &line)) {
        char *bytes = arena_alloc(&v->arena, line.n / 2 + 1);
        for (size_t i = 0; bytes && i < line.n / 2; i++)
            bytes[i] = (char)(hex_digit(line.p[2 * i]) * 16 + hex_digit(line.p[2 * i + 1]));
        if (bytes && line.n) v->tokens[v->n++] = (Str){bytes, line.n / 2};
    }
    buf_deinit(&text);
    v->eos = v->n - 1;
    return v->n && (v->vocab = grammar_vocab_new(v->tokens, v->n, &v->eos, 1, NULL, err));
}

int main(int argc, char **argv) {
    Err err = {0};
    TestVocab v = {0};
    uint64_t begin = os_now_ns();
    if (!(argc > 1 ? vocab_read(&v, argv[1], &err) : testvocab_init(&v, 128000, 1, &err)))
        return fprintf(stderr, "%s\n", err.msg), 1;
    printf("vocabulary of %u tokens in %.0f ms, one thread\n", v.n,
           (double)(os_now_ns() - begin) / 1e6);
    for (size_t i = 0; i <= sizeof schemas / sizeof schemas[0]; i++) {
        bool gbnf = i == sizeof schemas / sizeof schemas[0];
        Grammar *g;
        begin = os_now_ns();
        bool ok = gbnf ? grammar_compile_gbnf(str_c(json_gbnf), NULL, &g, &err)
                       : grammar_compile_schema(str_c(schemas[i][1]), NULL, &g, &err);
        if (!ok) return fprintf(stderr, "%s\n", err.msg), 1;
        walks_time(gbnf ? "json.gbnf" : schemas[i][0], g, os_now_ns() - begin, &v);
        grammar_free(g);
    }
    testvocab_deinit(&v);
    return 0;
}
