#include <string.h>

#include "base/mem.h"
#include "sample/grammar/grammar_lazy.h"
#include "sample/grammar/grammar_run.h"

enum { LAZY_MAX_TEXT = 4 << 20 };

/* All that a token changes; the history is a ring of these. */
typedef struct Snapshot {
    uint32_t machine;
    bool active, ended;
    size_t text_n; /* lazy: length of the text before the trigger */
} Snapshot;

struct GrammarState {
    Grammar *grammar;
    const GrammarVocab *vocab;
    GrammarState *prev, *next; /* the grammar's list */
    Snapshot now;
    Snapshot past[GRAMMAR_HISTORY];
    size_t n_past, head; /* past[head - 1] is the latest */
    LazyRules *lazy;
    Buf text;
};

static void state_link(GrammarState *s, Grammar *g) {
    s->grammar = g;
    s->prev = NULL;
    s->next = g->states;
    if (g->states) g->states->prev = s;
    g->states = s;
    g->n_refs++;
}

GrammarState *grammar_state_new(Grammar *g, const GrammarVocab *vocab, const GrammarLazy *lazy,
                                Err *err) {
    if (vocab && !mask_bind(&g->masks, vocab, err)) return NULL;
    GrammarState *s = mem_calloc(1, sizeof *s);
    if (!s) {
        err_nomem(err, "a grammar state");
        return NULL;
    }
    s->vocab = vocab;
    s->text.max = LAZY_MAX_TEXT;
    s->now = (Snapshot){.machine = machine_start(&g->machine), .active = true};
    if (lazy && lazy->n_triggers) {
        s->now.active = false;
        if (!(s->lazy = lazy_rules_new(lazy, vocab, err))) {
            mem_free(s);
            return NULL;
        }
    }
    state_link(s, g);
    return s;
}

GrammarState *grammar_state_clone(GrammarState *from, Err *err) {
    GrammarState *s = mem_calloc(1, sizeof *s);
    if (s) {
        s->vocab = from->vocab;
        s->now = from->now;
        s->text.max = LAZY_MAX_TEXT;
        if (!from->now.active) buf_put(&s->text, buf_str(&from->text));
    }
    if (!s || s->text.failed) {
        if (s) buf_deinit(&s->text);
        mem_free(s);
        err_nomem(err, "a grammar state");
        return NULL;
    }
    if ((s->lazy = from->lazy)) s->lazy->n_refs++;
    state_link(s, from->grammar);
    return s;
}

void grammar_state_free(GrammarState *s) {
    if (!s) return;
    if (s->prev)
        s->prev->next = s->next;
    else
        s->grammar->states = s->next;
    if (s->next) s->next->prev = s->prev;
    lazy_rules_release(s->lazy);
    buf_deinit(&s->text);
    grammar_free(s->grammar);
    mem_free(s);
}

/* ---- memory ---- */

/* Keeps the machine within its budget: drops what no state needs. */
static bool machine_trim(Grammar *g, Err *err) {
    if (machine_bytes(&g->machine) <= g->max_run_bytes / 2) return true;
    size_t n = 1;
    for (GrammarState *s = g->states; s; s = s->next) n += 1 + s->n_past;
    uint32_t **ids = mem_resize_array(NULL, n, sizeof *ids);
    if (!ids) return err_nomem(err, "a grammar");
    n = 0;
    ids[n++] = &g->machine.start;
    for (GrammarState *s = g->states; s; s = s->next) {
        ids[n++] = &s->now.machine;
        for (size_t i = 1; i <= s->n_past; i++)
            ids[n++] = &s->past[(s->head + GRAMMAR_HISTORY - i) % GRAMMAR_HISTORY].machine;
    }
    mask_clear(&g->masks);
    bool ok = machine_collect(&g->machine, ids, n, err);
    mem_free(ids);
    if (ok && machine_bytes(&g->machine) > g->max_run_bytes)
        return err_set(err, ERR_LIMIT, "the grammar needs more than %zu MiB to follow the output",
                       g->max_run_bytes >> 20);
    return ok;
}

/* ---- reading ---- */

bool grammar_state_is_active(const GrammarState *s) { return s->now.active; }

bool grammar_state_may_end(const GrammarState *s) {
    return !s->now.active || s->now.ended || machine_may_end(&s->grammar->machine, s->now.machine);
}

bool grammar_state_is_done(const GrammarState *s) {
    return s->now.active && (s->now.ended || machine_is_done(&s->grammar->machine, s->now.machine));
}

/* ---- writing ---- */

static void snapshot_push(GrammarState *s, Snapshot old) {
    s->past[s->head] = old;
    s->head = (s->head + 1) % GRAMMAR_HISTORY;
    if (s->n_past < GRAMMAR_HISTORY) s->n_past++;
}

static uint32_t feed(Machine *m, uint32_t state, Str bytes) {
    for (size_t i = 0; i < bytes.n && state != MACHINE_DEAD; i++)
        state = machine_step(m, state, (uint8_t)bytes.p[i]);
    return state;
}

/* Moves to `machine`, or leaves everything as it was if that is dead. */
static bool state_move(GrammarState *s, Snapshot next, bool *ok, Err *err) {
    Machine *m = &s->grammar->machine;
    if (m->failed) return machine_error(m, err);
    *ok = next.machine != MACHINE_DEAD;
    if (!*ok) return true;
    snapshot_push(s, s->now);
    s->now = next;
    return true;
}

/* Lazy and not active yet: the text grows until a trigger is in it; from there the grammar
 * reads. */
static bool lazy_accept(GrammarState *s, Str bytes, const LazyTrigger *token, bool *ok, Err *err) {
    Machine *m = &s->grammar->machine;
    Snapshot next = s->now;
    size_t seen = s->text.n, at;
    if (token) {
        next.active = true;
        next.machine = feed(m, machine_start(m), token->text.n ? token->text : bytes);
        if (s->grammar->ir.uses_tokens)
            next.machine = machine_union(m, next.machine,
                                         machine_step_token(m, machine_start(m), token->token));
        return state_move(s, next, ok, err);
    }
    buf_put(&s->text, bytes);
    if (!buf_check(&s->text, "the output in front of a lazy grammar's trigger", err)) {
        s->text.n = seen;
        s->text.failed = false;
        return false;
    }
    if (!lazy_rules_find(s->lazy, buf_str(&s->text), seen, &at, err))
        return s->text.n = seen, false;
    if (at != STR_NPOS) {
        next.active = true;
        next.machine = feed(m, machine_start(m), str_from(buf_str(&s->text), at));
    }
    next.text_n = s->text.n;
    bool done = state_move(s, next, ok, err);
    if (!done || !*ok) s->text.n = seen;
    return done;
}

bool grammar_state_accept_bytes(GrammarState *s, Str bytes, bool *ok, Err *err) {
    *ok = false;
    if (s->now.ended) return true;
    if (!machine_trim(s->grammar, err)) return false;
    if (!s->now.active) return lazy_accept(s, bytes, NULL, ok, err);
    Snapshot next = s->now;
    next.machine = feed(&s->grammar->machine, next.machine, bytes);
    return state_move(s, next, ok, err);
}

bool grammar_state_accept_token(GrammarState *s, uint32_t token, bool *ok, Err *err) {
    *ok = false;
    if (!s->vocab)
        return err_set(err, ERR_INTERNAL, "a grammar state without vocabulary reads no tokens");
    if (s->now.ended || token >= s->vocab->n_tokens) return true;
    if (!machine_trim(s->grammar, err)) return false;
    Snapshot next = s->now;
    Str bytes = grammar_vocab_token(s->vocab, token);
    if (!s->now.active) return lazy_accept(s, bytes, lazy_rules_token(s->lazy, token), ok, err);
    if (grammar_vocab_is_eos(s->vocab, token)) {
        next.ended = true;
        if (!machine_may_end(&s->grammar->machine, next.machine)) return true;
        return state_move(s, next, ok, err);
    }
    Machine *m = &s->grammar->machine;
    next.machine = bytes.n ? feed(m, s->now.machine, bytes) : MACHINE_DEAD;
    if (s->grammar->ir.uses_tokens)
        next.machine = machine_union(m, next.machine, machine_step_token(m, s->now.machine, token));
    return state_move(s, next, ok, err);
}

bool grammar_state_rollback(GrammarState *s, size_t n, Err *err) {
    if (n > s->n_past)
        return err_set(err, ERR_LIMIT, "a rollback of %zu tokens, only the last %zu are kept", n,
                       s->n_past);
    for (; n; n--, s->n_past--) {
        s->head = (s->head + GRAMMAR_HISTORY - 1) % GRAMMAR_HISTORY;
        s->now = s->past[s->head];
    }
    if (!s->now.active) s->text.n = s->now.text_n;
    return true;
}

/* ---- masks ---- */

/* Takes out the tokens that would set a trigger off and then break the grammar. */
static bool risky_drop(GrammarState *s, uint64_t *bits, Err *err) {
    for (uint32_t i = 0; i < s->lazy->n_risky; i++) {
        uint32_t id = s->lazy->risky[i];
        bool ok;
        if (!grammar_state_accept_token(s, id, &ok, err)) return false;
        if (!ok)
            bits[id / 64] &= ~((uint64_t)1 << id % 64);
        else if (!grammar_state_rollback(s, 1, err))
            return false;
    }
    return true;
}

bool grammar_state_mask(GrammarState *s, uint64_t *bits, Err *err) {
    if (!s->vocab)
        return err_set(err, ERR_INTERNAL, "a grammar state without vocabulary has no masks");
    size_t bytes = s->vocab->n_words * sizeof *bits;
    if (!s->now.active) {
        memset(bits, 0xFF, bytes);
        if (s->vocab->n_tokens % 64)
            bits[s->vocab->n_words - 1] = ((uint64_t)1 << s->vocab->n_tokens % 64) - 1;
        return risky_drop(s, bits, err);
    }
    if (s->now.ended) {
        memset(bits, 0, bytes);
        return true;
    }
    if (!mask_bind(&s->grammar->masks, s->vocab, err) || !machine_trim(s->grammar, err))
        return false;
    if (!mask_compute(s->grammar, s->now.machine, bits, err)) return false;
    for (uint32_t i = 0;
         i < s->vocab->n_eos && machine_may_end(&s->grammar->machine, s->now.machine); i++)
        if (s->vocab->eos[i] < s->vocab->n_tokens)
            bits[s->vocab->eos[i] / 64] |= (uint64_t)1 << s->vocab->eos[i] % 64;
    return true;
}
