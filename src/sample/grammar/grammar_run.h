/* grammar_run.h: inside of Grammar and of the mask cache; for this folder only.
 *
 * A mask is put together from position masks. The mask of a position is computed against an unknown
 * stack: tokens that stay above it are settled for good; where a token leaves the position, the
 * trie node is noted (an escape) and the rest of the token is walked with the stack at hand. So the
 * 128k tokens are looked at once per position, not once per state. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_RUN_H
#define MLXCEL_SAMPLE_GRAMMAR_RUN_H

#include "json/json.h"
#include "sample/grammar/grammar.h"
#include "sample/grammar/grammar_machine.h"

typedef struct MaskEscape {
    uint32_t node, label;
} MaskEscape;

typedef struct PosMask {
    uint64_t *bits;
    MaskEscape *escapes;
    uint32_t n_escapes,
        growth;         /* growth: how much deeper than its own a token can make the stack */
    VocabTrieKind trie; /* that the escapes' nodes are in */
} PosMask;

typedef struct MaskCache {
    const GrammarVocab *vocab;
    WordTable pos_ids, state_ids; /* position, state -> index below */
    PosMask *pos_masks;
    uint64_t **state_masks;
    uint32_t cap_pos, cap_state;
    size_t used_bytes;
    /* the walk's stack */
    struct MaskFrame {
        uint32_t end, state;
    } * frames;
    MaskEscape *found; /* escapes being collected */
    uint32_t n_found, cap_found;
    uint64_t *scratch;
    uint64_t n_walked; /* trie nodes visited, ever: tests bound work by it */
} MaskCache;

struct Grammar {
    Arena arena; /* holds ir */
    GrammarIr ir;
    Machine machine;
    MaskCache masks;
    GrammarState *states; /* all of them, for machine_collect */
    size_t n_refs, max_run_bytes;
};

/* Adds the tokens allowed in state to bits (n_words of the vocabulary). */
bool mask_compute(Grammar *g, uint32_t state, uint64_t *bits, Err *err) MUST_CHECK;
bool mask_bind(MaskCache *c, const GrammarVocab *vocab,
               Err *err) MUST_CHECK; /* sets up for this vocabulary */
void mask_clear(MaskCache *c);       /* forgets the masks */
void mask_deinit(MaskCache *c);

Grammar *grammar_alloc(const GrammarLimits *limits, GrammarWork *w,
                       Err *err); /* w is set up on its arena */
bool grammar_finish(Grammar *g, GrammarWork *w, Grammar **out,
                    Err *err) MUST_CHECK; /* frees g on failure */
bool grammar_text_fits(Str text, const GrammarLimits *limits, const char *what,
                       Err *err) MUST_CHECK;
bool grammar_compile_schema_tree(const Json *root, const GrammarLimits *limits, Grammar **out,
                                 Err *err) MUST_CHECK;
bool machine_error(const Machine *m, Err *err); /* false, after saying why the machine failed */

#endif
