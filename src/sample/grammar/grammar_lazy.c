#include "sample/grammar/grammar_lazy.h"

#include "base/mem.h"
#include "base/utf8.h"

enum { LAZY_MAX_TRIGGERS = 64, LAZY_SCAN_BUDGET = 20000000 };

static bool trigger_init(LazyTrigger *t, const GrammarTrigger *from, GrammarWork *w) {
    *t = (LazyTrigger){
        .kind = from->kind, .token = from->token, .text = arena_dup(w->arena, from->text)};
    if (!t->text.p && from->text.n)
        return work_fail(w, ERR_NOMEM, "out of memory for a grammar trigger");
    if (t->kind == GRAMMAR_TRIGGER_WORD && !t->text.n)
        return work_fail(w, ERR_INPUT,
                         "a grammar trigger word is empty, at least one byte is needed");
    if (t->kind < GRAMMAR_TRIGGER_PATTERN) return true;
    t->anchored = str_starts(t->text, STR("^"));
    if (!regex_cut_at_group(w, t->text, &t->before, &t->rest)) return false;
    t->find =
        regex_dfa(w, t->text, t->kind == GRAMMAR_TRIGGER_PATTERN ? REGEX_SUFFIX : REGEX_WHOLE);
    return t->find != NULL;
}

/* Whether a trigger word can end within the token, with at least one byte behind it. */
static bool word_ends_inside(Str word, Str token) {
    for (size_t n = 1; n < token.n; n++) { /* the word ends behind n bytes of the token */
        Str head = str_slice(token, 0, n);
        if (n <= word.n ? str_ends(word, head) : str_ends(head, word)) return true;
    }
    return false;
}

static bool risky_add(LazyRules *r, GrammarWork *w, uint32_t id) {
    if (r->n_risky == r->cap_risky) {
        uint32_t cap = r->cap_risky ? r->cap_risky * 2 : 64;
        uint32_t *more = work_grow(w, r->risky, r->n_risky, cap, sizeof *more);
        if (!more) return false;
        r->risky = more;
        r->cap_risky = cap;
    }
    r->risky[r->n_risky++] = id;
    return true;
}

static bool risky_find(LazyRules *r, const GrammarVocab *v, GrammarWork *w) {
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        bool risky = false;
        for (size_t i = 0; i < r->n && !risky; i++) {
            const LazyTrigger *t = &r->triggers[i];
            if (t->kind == GRAMMAR_TRIGGER_TOKEN) risky = t->token == id;
            if (t->kind == GRAMMAR_TRIGGER_WORD)
                risky = word_ends_inside(t->text, grammar_vocab_token(v, id));
        }
        if (risky && !risky_add(r, w, id)) return false;
    }
    return true;
}

LazyRules *lazy_rules_new(const GrammarLazy *lazy, const GrammarVocab *vocab, Err *err) {
    if (lazy->n_triggers > LAZY_MAX_TRIGGERS) {
        err_set(err, ERR_LIMIT, "%zu grammar triggers, at most %d are accepted", lazy->n_triggers,
                LAZY_MAX_TRIGGERS);
        return NULL;
    }
    LazyRules *r = mem_calloc(1, sizeof *r);
    if (!r) {
        err_nomem(err, "grammar triggers");
        return NULL;
    }
    r->n_refs = 1;
    r->arena.max_bytes = (size_t)32 << 20;
    GrammarWork w = {.arena = &r->arena, .left = 20000000, .max_states = 20000, .err = err};
    r->triggers = work_array(&w, LazyTrigger, lazy->n_triggers);
    for (size_t i = 0; r->triggers && i < lazy->n_triggers && !w.failed; i++)
        if (trigger_init(&r->triggers[i], &lazy->triggers[i], &w)) r->n++;
    if (!w.failed && (!vocab || risky_find(r, vocab, &w))) return r;
    lazy_rules_release(r);
    return NULL;
}

void lazy_rules_release(LazyRules *r) {
    if (!r || --r->n_refs) return;
    arena_deinit(&r->arena);
    mem_free(r);
}

const LazyTrigger *lazy_rules_token(const LazyRules *r, uint32_t token) {
    for (size_t i = 0; i < r->n; i++)
        if (r->triggers[i].kind == GRAMMAR_TRIGGER_TOKEN && r->triggers[i].token == token)
            return &r->triggers[i];
    return NULL;
}

/* The end of the match of d that begins at text[from..] and ends exactly at `end`, or not. */
static bool span_matches(const Dfa *d, Str text, size_t from, size_t end, int64_t *budget) {
    if (!d->n) return false;
    uint32_t q = d->start;
    for (size_t at = from; at < end;) {
        uint32_t cp = utf8_next(str_slice(text, 0, end), &at);
        if (--*budget < 0 || cp == UTF8_BAD || (q = dfa_next(d, q, cp)) == DFA_DEAD) return false;
    }
    return d->label[q] >= 0;
}

static bool at_boundary(Str text, size_t at) {
    return at == text.n || ((unsigned char)text.p[at] & 0xC0) != 0x80;
}

/* Where the match that ends at `end` begins: leftmost, then the first place of its group. */
static size_t match_begin(const LazyTrigger *t, Str text, size_t end, int64_t *budget) {
    size_t last = t->anchored || t->kind == GRAMMAR_TRIGGER_PATTERN_FULL ? 0 : end;
    for (size_t from = 0; from <= last; from++) {
        if (!at_boundary(text, from)) continue;
        if (!t->before) {
            if (span_matches(t->rest, text, from, end, budget)) return from;
            continue;
        }
        uint32_t q = t->before->n ? t->before->start : DFA_DEAD;
        for (size_t at = from; q != DFA_DEAD;) {
            if (t->before->label[q] >= 0 && span_matches(t->rest, text, at, end, budget)) return at;
            if (at >= end || --*budget < 0) break;
            uint32_t cp = utf8_next(str_slice(text, 0, end), &at);
            q = cp == UTF8_BAD ? DFA_DEAD : dfa_next(t->before, q, cp);
        }
    }
    return STR_NPOS;
}

static size_t word_end(const LazyTrigger *t, Str text, size_t seen) {
    size_t from = seen >= t->text.n ? seen - t->text.n + 1 : 0;
    size_t at = str_find(text, t->text, from);
    return at == STR_NPOS ? at : at + t->text.n;
}

/* The first end of a match behind `seen`. Text that is not UTF-8 ends the search there; a cut
 * character waits. */
static size_t pattern_end(const LazyTrigger *t, Str text, size_t seen, int64_t *budget) {
    size_t whole = text.n - utf8_incomplete_tail(text);
    if (!t->find->n) return STR_NPOS;
    uint32_t q = t->find->start;
    for (size_t at = 0; at < whole;) {
        uint32_t cp = utf8_next(text, &at);
        if (cp == UTF8_BAD) cp = 0xFFFD;
        if (--*budget < 0 || (q = dfa_next(t->find, q, cp)) == DFA_DEAD) return STR_NPOS;
        bool may = t->kind == GRAMMAR_TRIGGER_PATTERN ? at > seen : at == whole;
        if (may && t->find->label[q] >= 0) return at;
    }
    return STR_NPOS;
}

bool lazy_rules_find(const LazyRules *r, Str text, size_t seen, size_t *at, Err *err) {
    int64_t budget = LAZY_SCAN_BUDGET;
    size_t best_end = STR_NPOS;
    *at = STR_NPOS;
    for (size_t i = 0; i < r->n; i++) {
        const LazyTrigger *t = &r->triggers[i];
        size_t end = STR_NPOS, begin = STR_NPOS;
        if (t->kind == GRAMMAR_TRIGGER_WORD) {
            end = word_end(t, text, seen);
            begin = end == STR_NPOS ? end : end - t->text.n;
        } else if (t->kind != GRAMMAR_TRIGGER_TOKEN) {
            end = pattern_end(t, text, seen, &budget);
            begin = end == STR_NPOS ? end : match_begin(t, text, end, &budget);
        }
        if (begin == STR_NPOS ||
            (best_end != STR_NPOS && (end > best_end || (end == best_end && begin >= *at))))
            continue;
        best_end = end;
        *at = begin;
    }
    if (budget < 0)
        return err_set(err, ERR_LIMIT, "searching the output for a grammar trigger takes too long");
    return true;
}
