/* added.h: tokens that are found in the text before anything else happens to it: specials, and
 * words added to a model later.
 *
 * Two passes, as in the reference: tokens with normalized = false on the raw text, the others on
 * the normalized text. At every position the longest token wins. A token marked special counts
 * only where the text was written by the template. */
#ifndef MLXCEL_TEXT_ADDED_H
#define MLXCEL_TEXT_ADDED_H

#include "base/map.h"
#include "text/tok_piece.h"
#include "text/trie.h"

typedef struct AddedToken {
    Str text;    /* as given */
    Str pattern; /* what is searched for: text, or its normalized form */
    uint32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} AddedToken;

typedef struct Added {
    AddedToken *tokens; /* in order of addition */
    size_t n, cap;
    Map by_text;
    Trie spelled;           /* normalized specials by their text: for texts that two hands wrote */
    Trie plain, normalized; /* values: index into tokens */
    uint32_t *by_id;        /* n indices, sorted by id */
    bool has_plain, has_normalized, has_normalized_special;
} Added;

typedef struct
    Segment { /* bytes from..to of a text; a token, or text to go on with (id == TOK_NONE) */
    uint32_t from, to, id;
} Segment;

typedef struct SegmentList {
    Segment *p;
    size_t n, cap;
    bool failed;
} SegmentList;

typedef struct
    TextOrigin { /* who wrote the bytes up to `to` (and from where the one before ends) */
    uint32_t to;
    bool parse_special;
} TextOrigin;

bool added_push(Added *a, AddedToken t,
                Err *err) MUST_CHECK; /* the same text again replaces the earlier entry */
bool added_finish(Added *a, Err *err) MUST_CHECK; /* patterns are set */
void added_deinit(Added *a);
const AddedToken *added_by_id(const Added *a, uint32_t id); /* NULL if it is none */
/* Cuts text at the tokens of one pass. The origins cover it. specials_only: of a mixed text,
 * only what the template wrote. */
void added_split(const Added *a, bool normalized, Str text, const TextOrigin *origins,
                 size_t n_origins, bool specials_only, SegmentList *out);
void segments_deinit(SegmentList *l);

#endif
