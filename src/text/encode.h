/* encode.h: the pipeline from spans to ids, without what the post-processor adds. */
#ifndef MLXCEL_TEXT_ENCODE_H
#define MLXCEL_TEXT_ENCODE_H

#include "text/tok_decoder.h"
#include "text/tokenizer.h"

bool encode_spans(const Tokenizer *t, const TokSpan *spans, size_t n, TokIds *out,
                  Err *err) MUST_CHECK;
bool tokenizer_decode_with(const Tokenizer *t, DecodeWork *w, const uint32_t *ids, size_t n,
                           bool skip_special, Buf *out,
                           Err *err) MUST_CHECK; /* tokenizer_decode with the caller's scratch */

#endif
