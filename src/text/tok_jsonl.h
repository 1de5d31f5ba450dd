/* tok_jsonl.h: the line formats of `mlxcel tokenize --jsonl` and `mlxcel detokenize --jsonl`. A
 * line in, a line out (without the line end); what is wrong with a line becomes {"error":
 * "..."}.
 *
 *     tokenize    "text" or {"text", "add_special": true, "parse_special": false}   ->  [ids]
 *     detokenize  [ids] or {"ids", "skip_special": true}
 *                                                    ->  "text", or ["piece", null, ...] */
#ifndef MLXCEL_TEXT_TOK_JSONL_H
#define MLXCEL_TEXT_TOK_JSONL_H

#include "text/tokenizer.h"

typedef struct TokJsonl { /* what a line that does not say gets */
    bool add_special, parse_special, skip_special;
    /* detokenize: an array of streamed pieces, one per id (null: held back), and what is left at
     * the end */
    bool pieces;
} TokJsonl;

void tok_jsonl_encode(const Tokenizer *t, const TokJsonl *opt, Str line, Buf *out);
void tok_jsonl_decode(const Tokenizer *t, const TokJsonl *opt, Str line, Buf *out);

#endif
