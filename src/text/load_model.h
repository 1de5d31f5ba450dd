/* load_model.h: the "model" value of a tokenizer.json: BPE, Unigram, WordPiece, WordLevel. */
#ifndef MLXCEL_TEXT_LOAD_MODEL_H
#define MLXCEL_TEXT_LOAD_MODEL_H

#include "json/json_reader.h"
#include "text/tokenizer.h"

/* r stands before the value; text is the whole file. Fills vocabulary, merges and the model's
 * fields. */
bool load_model(Tokenizer *t, JsonReader *r, Str text, Err *err) MUST_CHECK;

/* Merges as every source has them: two spellings in order of rank. Unknown parts or results are
 * an error that names them. */
typedef struct MergeAdder {
    Tokenizer *t;
    uint32_t rank;
    size_t guess; /* entry of the last result: results mostly follow each other */
    Str l[32], r[32];
    uint64_t hl[32], hr[32];
    size_t n;
    Buf joined;
} MergeAdder;
bool merges_known(MergeAdder *m, Str left,
                  Str right); /* all three spellings are in the vocabulary */
bool merges_add(MergeAdder *m, Str left, Str right,
                Err *err) MUST_CHECK; /* views must live until merges_flush */
bool merges_flush(MergeAdder *m, Err *err) MUST_CHECK;

#endif
