/* grammar.h: constrained generation. A grammar (GBNF, JSON Schema, regular expression) is compiled
 * once; a state follows one output and says which tokens may come next.
 *
 *     Grammar *g;
 *     if (!grammar_compile_schema(text, NULL, &g, err)) return false;       names the keyword it cannot enforce
 *     GrammarState *s = grammar_state_new(g, vocab, NULL, err);
 *     grammar_state_mask(s, bits, err);                                     bit i: token i may come next
 *     grammar_state_accept_token(s, id, &ok, err);                          ok false: not allowed, state unchanged
 *     grammar_state_rollback(s, n, err);                                    speculation: forget the last n tokens
 *
 * Compiling may run on any thread and is bounded by GrammarLimits (ERR_LIMIT). A Grammar with its
 * states is used by one thread at a time: masks and transitions are computed on demand and kept in
 * it. States hold their grammar (counted), so grammar_free may come first; they borrow the
 * vocabulary. A finished output of a schema parses as JSON valid for it. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_GRAMMAR_H
#define MLXCEL_SAMPLE_GRAMMAR_GRAMMAR_H

#include "base/err.h"
#include "base/str.h"
#include "sample/grammar/grammar_vocab.h"

typedef struct Grammar Grammar;
typedef struct GrammarState GrammarState;

typedef struct GrammarLimits { /* zero fields mean the default */
    size_t max_text_bytes;     /* 1 MiB */
    size_t max_compile_bytes;  /* 128 MiB */
    uint64_t max_operations;   /* 100 million, about a second */
    uint32_t max_states;       /* of one automaton, a third of it for a regex; 60000 */
    size_t max_run_bytes;      /* transitions and masks kept while running; 96 MiB */
} GrammarLimits;

bool grammar_compile_gbnf(Str text, const GrammarLimits *limits, Grammar **out,
                          Err *err) MUST_CHECK;
bool grammar_compile_schema(Str json, const GrammarLimits *limits, Grammar **out,
                            Err *err) MUST_CHECK;
bool grammar_compile_json_object(const GrammarLimits *limits, Grammar **out,
                                 Err *err) MUST_CHECK; /* any object */
bool grammar_compile_regex(Str pattern, const GrammarLimits *limits, Grammar **out,
                           Err *err) MUST_CHECK; /* whole output */
void grammar_free(Grammar *g);
bool grammar_accepts(Grammar *g, Str text, bool *accepted,
                     Err *err) MUST_CHECK; /* all of it, as a finished output */

/* Lazy grammars: nothing is constrained until a trigger appears in the output; the grammar then has
 * to match from the trigger's first byte on (from the pattern's first group, if it has one). */
typedef enum GrammarTriggerKind {
    GRAMMAR_TRIGGER_TOKEN,       /* this token; its text is the grammar's first */
    GRAMMAR_TRIGGER_WORD,        /* this text anywhere */
    GRAMMAR_TRIGGER_PATTERN,     /* a match of this regex anywhere in the output */
    GRAMMAR_TRIGGER_PATTERN_FULL /* a match of this regex over the whole output so far */
} GrammarTriggerKind;

typedef struct GrammarTrigger {
    GrammarTriggerKind kind;
    Str text; /* word or pattern; copied */
    uint32_t token;
} GrammarTrigger;

typedef struct GrammarLazy {
    const GrammarTrigger *triggers;
    size_t n_triggers;
} GrammarLazy;

/* vocab NULL: bytes only (no masks, no tokens). lazy NULL or without triggers: constrained from the
 * start. */
GrammarState *grammar_state_new(Grammar *g, const GrammarVocab *vocab, const GrammarLazy *lazy,
                                Err *err);
GrammarState *grammar_state_clone(GrammarState *s,
                                  Err *err); /* can be rolled back no further than to here */
void grammar_state_free(GrammarState *s);

enum { GRAMMAR_HISTORY = 256 }; /* tokens that can be rolled back */

/* bits: n_words words of the vocabulary. While a lazy grammar is inactive all tokens are in, but
 * for those that would complete a trigger word and go on against the grammar; with trigger patterns
 * such a token is only found on accepting it (ok false). All zero: nothing may follow (only
 * end-of-text, if that is not in the vocabulary). */
bool grammar_state_mask(GrammarState *s, uint64_t *bits, Err *err) MUST_CHECK;
bool grammar_state_accept_token(GrammarState *s, uint32_t token, bool *ok, Err *err) MUST_CHECK;
bool grammar_state_accept_bytes(GrammarState *s, Str bytes, bool *ok,
                                Err *err) MUST_CHECK; /* counts as one token */
bool grammar_state_rollback(GrammarState *s, size_t n, Err *err) MUST_CHECK;
bool grammar_state_is_active(
    const GrammarState *s); /* false: a lazy grammar whose trigger has not appeared */
bool grammar_state_may_end(
    const GrammarState *s); /* the output so far is complete (or the grammar is inactive) */
bool grammar_state_is_done(const GrammarState *s); /* complete, and nothing can be added */

#endif
