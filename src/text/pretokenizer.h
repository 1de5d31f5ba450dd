/* pretokenizer.h: cuts a normalized text into the pieces that the model encodes one by one. A
 * Pretokenizer is a flat list of steps (nested Sequences are unrolled); each step cuts every
 * piece further and may change the text.
 *
 * If the last step is ByteLevel and the model knows GPT-2's alphabet, the mapping to it is left
 * to the model (pretok_leave_mapping): pieces stay raw bytes. */
#ifndef MLXCEL_TEXT_PRETOKENIZER_H
#define MLXCEL_TEXT_PRETOKENIZER_H

#include "json/json.h"
#include "text/split_rule.h"
#include "text/tok_piece.h"
#include "text/tok_regex.h"

typedef enum PretokKind {
    PRETOK_BYTE_LEVEL,
    PRETOK_SPLIT,
    PRETOK_DIGITS,
    PRETOK_METASPACE,
    PRETOK_WHITESPACE,
    PRETOK_WHITESPACE_SPLIT,
    PRETOK_PUNCTUATION,
    PRETOK_BERT,
    PRETOK_DELIMITER,
    PRETOK_SCRIPTS,
    PRETOK_FIXED_LENGTH
} PretokKind;

typedef enum SplitBehavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_PREVIOUS,
    SPLIT_NEXT,
    SPLIT_CONTIGUOUS
} SplitBehavior;
typedef enum PrependScheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } PrependScheme;

typedef struct PretokStep {
    PretokKind kind;
    SplitBehavior behavior;
    bool invert;
    bool add_prefix_space, use_regex, leave_mapping; /* BYTE_LEVEL */
    bool individual;                                 /* DIGITS */
    bool cuts;                                       /* METASPACE: split */
    PrependScheme prepend;                           /* METASPACE */
    Str text;              /* SPLIT: literal; METASPACE: replacement; DELIMITER: the character */
    const SplitRule *rule; /* SPLIT: the pattern is a known one */
    TokRegex *regex;       /* SPLIT: otherwise */
    uint64_t length;       /* FIXED_LENGTH */
} PretokStep;

typedef struct Pretokenizer {
    PretokStep *steps;
    size_t n, cap;
} Pretokenizer;

typedef struct PretokWork {
    PieceList lists[2];
    Buf texts[2];
} PretokWork;

/* j is the "pre_tokenizer" value (null: none). Strings are copied into the arena. */
bool pretok_load(Pretokenizer *p, const Json *j, Arena *a, Err *err) MUST_CHECK;
bool pretok_push(Pretokenizer *p, PretokStep step, Err *err) MUST_CHECK;
/* A SPLIT step by a regular expression, known or compiled. */
bool pretok_push_regex(Pretokenizer *p, Str pattern, SplitBehavior behavior, bool invert,
                       Err *err) MUST_CHECK;
bool pretok_leave_mapping(
    Pretokenizer *p); /* true: the last step is ByteLevel and now leaves the mapping out */
void pretok_deinit(Pretokenizer *p);

/* text: valid UTF-8, shorter than 2^30 bytes. first: it starts the original text. *out_text and
 * *pieces are views into w (or text) until the next call. */
bool pretok_run(const Pretokenizer *p, Str text, bool first, PretokWork *w, Str *out_text,
                const PieceList **pieces, Err *err) MUST_CHECK;
void pretokwork_deinit(PretokWork *w);
bool splitbehavior_parse(Str name, SplitBehavior *out);

#endif
