#include "sample/grammar/grammar.h"

#include "base/mem.h"
#include "sample/grammar/grammar_regex.h"
#include "sample/grammar/grammar_run.h"

static size_t or_default(size_t value, size_t fallback) { return value ? value : fallback; }

bool grammar_text_fits(Str text, const GrammarLimits *limits, const char *what, Err *err) {
    size_t max = or_default(limits ? limits->max_text_bytes : 0, (size_t)1 << 20);
    if (text.n <= max) return true;
    return err_set(err, ERR_LIMIT, "%s has %zu bytes, at most %zu are accepted", what, text.n, max);
}

Grammar *grammar_alloc(const GrammarLimits *limits, GrammarWork *w, Err *err) {
    static const GrammarLimits none = {0};
    if (!limits) limits = &none;
    Grammar *g = mem_calloc(1, sizeof *g);
    if (!g) {
        err_nomem(err, "a grammar");
        return NULL;
    }
    g->n_refs = 1;
    g->arena.max_bytes = or_default(limits->max_compile_bytes, (size_t)128 << 20);
    g->max_run_bytes = or_default(limits->max_run_bytes, (size_t)96 << 20);
    g->ir.space_lexer = g->ir.string_lexer = IR_NONE;
    *w = (GrammarWork){.arena = &g->arena,
                       .left = limits->max_operations ? limits->max_operations : 100000000,
                       .max_states = limits->max_states ? limits->max_states : 60000,
                       .err = err};
    return g;
}

static bool grammar_analyze(Grammar *g, GrammarWork *w) {
    for (uint32_t i = 0; i < g->ir.n_lexers; i++) {
        IrLexer *x = &g->ir.lexers[i];
        if (!x->plain && !ir_lexer_analyze(w, x, NULL)) return false;
    }
    return true;
}

bool grammar_finish(Grammar *g, GrammarWork *w, Grammar **out, Err *err) {
    bool ok = !w->failed && grammar_analyze(g, w) && machine_init(&g->machine, &g->ir, err);
    if (ok && machine_start(&g->machine) == MACHINE_DEAD)
        ok = err_set(err, ERR_INPUT, "the grammar matches nothing");
    if (!ok) {
        grammar_free(g);
        return false;
    }
    *out = g;
    return true;
}

void grammar_free(Grammar *g) {
    if (!g || --g->n_refs) return;
    mask_deinit(&g->masks);
    machine_deinit(&g->machine);
    arena_deinit(&g->arena);
    mem_free(g);
}

bool grammar_compile_regex(Str pattern, const GrammarLimits *limits, Grammar **out, Err *err) {
    GrammarWork w;
    if (!grammar_text_fits(pattern, limits, "the pattern", err)) return false;
    Grammar *g = grammar_alloc(limits, &w, err);
    if (!g) return false;
    const Dfa *d = regex_dfa(&w, pattern, REGEX_WHOLE);
    g->ir.lexers = work_array(&w, IrLexer, 1);
    if (d && !d->n) work_fail(&w, ERR_INPUT, "the pattern matches nothing");
    if (!w.failed) {
        g->ir.lexers[0] = (IrLexer){.dfa = d, .mode = LEX_RAW};
        g->ir.n_lexers = 1;
    }
    return grammar_finish(g, &w, out, err);
}

bool grammar_compile_json_object(const GrammarLimits *limits, Grammar **out, Err *err) {
    return grammar_compile_schema(STR("{\"type\":\"object\"}"), limits, out, err);
}

bool grammar_accepts(Grammar *g, Str text, bool *accepted, Err *err) {
    GrammarState *s = grammar_state_new(g, NULL, NULL, err);
    if (!s) return false;
    bool done = true;
    *accepted = true;
    for (size_t at = 0; at < text.n && done && *accepted;
         at += 256) /* in pieces, so that memory is reclaimed between them */
        done = grammar_state_accept_bytes(s, str_slice(text, at, at + 256), accepted, err);
    if (done && *accepted) *accepted = grammar_state_may_end(s);
    grammar_state_free(s);
    return done;
}
