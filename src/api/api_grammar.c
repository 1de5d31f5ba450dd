/* Grammars of requests: the vocabulary that masks are made for, and the engine's two callbacks. */
#include <string.h>

#include "api/api.h"
#include "base/mem.h"

struct ApiGrammar {
    GrammarState *state;
    const GrammarVocab *vocab;
    uint64_t *mask;
};

bool api_grammar_compile(const char *kind, Str source, Grammar **out, Err *err) {
    Str k = str_c(kind);
    if (str_eqc(k, "gbnf")) return grammar_compile_gbnf(source, NULL, out, err);
    if (str_eqc(k, "json_schema")) return grammar_compile_schema(source, NULL, out, err);
    if (str_eqc(k, "regex")) return grammar_compile_regex(source, NULL, out, err);
    if (str_eqc(k, "json_object")) return grammar_compile_json_object(NULL, out, err);
    return err_set(err, ERR_INPUT,
                   "grammar kind \"%s\"; gbnf, json_schema, regex and json_object are accepted",
                   kind);
}

/* The bytes of every token; what has none of its own (special, or beyond the tokenizer's
 * vocabulary) never may appear. */
static bool vocab_make(const Model *m, Arena *a, GrammarVocab **out, Err *err) {
    size_t n = m->arch.vocab, known = tokenizer_n_vocab(m->tok);
    Str *tokens = arena_array(a, Str, n);
    bool *special = arena_array(a, bool, n), ok = tokens && special;
    Buf bytes = {0};
    for (size_t i = 0; ok && i < n; i++) {
        buf_clear(&bytes);
        special[i] = i >= known || tokenizer_is_special(m->tok, (uint32_t)i) ||
                     !tokenizer_token_bytes(m->tok, (uint32_t)i, &bytes) || bytes.n == 0;
        if (!special[i]) tokens[i] = arena_dup(a, buf_str(&bytes));
        ok = special[i] || (tokens[i].p && !bytes.failed);
    }
    buf_deinit(&bytes);
    if (!ok) return err_nomem(err, "the grammar's vocabulary");
    *out = grammar_vocab_new(tokens, n, m->eog, m->n_eog, special, err);
    return *out != NULL;
}

bool api_model_vocab(const mlxcel_model *model, const GrammarVocab **out, Err *err) {
    mlxcel_model *m = (mlxcel_model *)(uintptr_t)model; /* logically const: a cache */
    GrammarVocab *have = atomic_load(&m->vocab), *made = NULL;
    if (!have) {
        Arena a = {0};
        bool ok = model_need_tokenizer(m->m, err) && vocab_make(m->m, &a, &made, err);
        arena_deinit(&a);
        if (!ok) return false;
        if (atomic_compare_exchange_strong(&m->vocab, &have, made))
            have = made;
        else
            grammar_vocab_free(made); /* another thread was first */
    }
    *out = have;
    return true;
}

void api_grammar_free(ApiGrammar *g) {
    if (!g) return;
    grammar_state_free(g->state);
    mem_free(g->mask);
    mem_free(g);
}

static const uint64_t *next_mask(void *ctx, Err *err) {
    ApiGrammar *g = ctx;
    return grammar_state_mask(g->state, g->mask, err) ? g->mask : NULL;
}

static bool accept_token(void *ctx, uint32_t token, bool *done, Err *err) {
    ApiGrammar *g = ctx;
    bool ok;
    *done = false;
    if (grammar_vocab_is_eos(g->vocab, token)) return true;
    if (!grammar_state_accept_token(g->state, token, &ok, err)) return false;
    if (!ok)
        return err_set(err, ERR_INTERNAL, "the sampler chose token %u, which the grammar forbids",
                       token);
    *done = grammar_state_is_done(g->state);
    return true;
}

bool api_grammar_new(const mlxcel_model *model, const char *kind, Str source, JobParams *p,
                     ApiGrammar **out, Err *err) {
    Grammar *compiled = NULL;
    ApiGrammar *g = mem_calloc(1, sizeof *g);
    bool ok = (g || err_nomem(err, "grammar")) && api_model_vocab(model, &g->vocab, err) &&
              api_grammar_compile(kind, source, &compiled, err);
    if (ok) {
        g->state = grammar_state_new(compiled, g->vocab, NULL, err);
        g->mask = mem_calloc(g->vocab->n_words, sizeof *g->mask);
        ok = g->state && (g->mask || err_nomem(err, "grammar"));
    }
    grammar_free(compiled);
    if (!ok) {
        api_grammar_free(g);
        return false;
    }
    p->mask = next_mask;
    p->mask_accept = accept_token;
    p->mask_ctx = *out = g;
    return true;
}
