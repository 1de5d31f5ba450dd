/* tok_decoder.h: turns the spellings of tokens back into text: a flat list of steps over a list
 * of strings (nested Sequences are unrolled), joined at the end. */
#ifndef MLXCEL_TEXT_TOK_DECODER_H
#define MLXCEL_TEXT_TOK_DECODER_H

#include "json/json.h"
#include "text/tok_piece.h"
#include "text/tok_regex.h"

typedef enum DecKind {
    DEC_BYTE_LEVEL,
    DEC_BPE,
    DEC_WORDPIECE,
    DEC_METASPACE,
    DEC_CTC,
    DEC_REPLACE,
    DEC_FUSE,
    DEC_STRIP,
    DEC_BYTE_FALLBACK,
    DEC_BYTES,        /* tokens are bytes: joined, and what is not UTF-8 becomes U+FFFD */
    DEC_SENTENCEPIECE /* DEC_BYTES after "<0x00>" pieces became bytes and U+2581 blanks */
} DecKind;

typedef struct DecStep {
    DecKind kind;
    /* BPE: suffix; WORDPIECE: prefix; METASPACE: replacement; CTC: pad; REPLACE: pattern; STRIP:
     * character */
    Str text;
    Str content;     /* REPLACE; CTC: word delimiter */
    TokRegex *regex; /* REPLACE by a regular expression */
    bool cleanup;    /* WORDPIECE, CTC */
    /* METASPACE: the first token's marks go; SENTENCEPIECE: the first blank goes */
    bool drop_first;
    uint64_t start, stop; /* STRIP */
} DecStep;

typedef struct TokDecoder {
    DecStep *steps;
    size_t n, cap;
    bool join_blank; /* no decoder at all: tokens are joined with blanks */
} TokDecoder;

typedef struct TextList { /* strings end to end in one buffer */
    Buf text;
    PieceList pieces;
} TextList;

typedef struct DecodeWork { /* scratch; zero-initialised is valid */
    TextList lists[2];
    Buf tmp[2];
} DecodeWork;

bool decoder_load(TokDecoder *d, const Json *j, Arena *a,
                  Err *err) MUST_CHECK; /* the "decoder" value (null: none) */
bool decoder_push(TokDecoder *d, DecStep step, Err *err) MUST_CHECK;
/* w->lists[0] holds the spellings; appends the text. */
bool decoder_run(const TokDecoder *d, DecodeWork *w, Buf *out, Err *err) MUST_CHECK;
void decoder_deinit(TokDecoder *d);
/* The bytes that one ordinary token adds to a text in which others stand around it. */
void decoder_put_token(const TokDecoder *d, Str spelling, Buf *out);
void textlist_clear(TextList *l);
void textlist_add(TextList *l, Str s);
void decodework_deinit(DecodeWork *w);
void decoder_put_lossy(
    Buf *out, Str bytes); /* ill-formed UTF-8: one U+FFFD for each maximal part (Unicode 3.9) */

#endif
