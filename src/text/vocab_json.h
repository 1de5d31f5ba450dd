/* vocab_json.h: a vocabulary that came in a GGUF, as the tokenizer.json that other programs read:
 * BPE, byte-level (cut by the expressions that tokenizer.ggml.pre names) or in SentencePiece's manner
 * (merges ranked by the scores). Other kinds are ERR_UNSUPPORTED.
 *
 *     Buf text = {0};
 *     ok = vocab_to_json(g, t, &text, err) && os_write_file(path, buf_str(&text), err); */
#ifndef MLXCEL_TEXT_VOCAB_JSON_H
#define MLXCEL_TEXT_VOCAB_JSON_H

#include "text/tokenizer.h"

/* t: what tokenizer_load_gguf() made of g. */
bool vocab_to_json(const Gguf *g, const Tokenizer *t, Buf *out, Err *err) MUST_CHECK;

#endif
