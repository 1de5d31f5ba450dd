/* tok_load.h: the loaders, one per kind of file: each fills a tokenizer_new() and leaves
 * tokenizer_finish() to the caller. */
#ifndef MLXCEL_TEXT_TOK_LOAD_H
#define MLXCEL_TEXT_TOK_LOAD_H

#include "text/tokenizer.h"

bool load_json_into(Tokenizer *t, Str text, Err *err) MUST_CHECK;
bool load_spm_into(Tokenizer *t, Str bytes, Err *err) MUST_CHECK;
bool load_plamo_into(Tokenizer *t, Str text, Err *err) MUST_CHECK;
bool load_tiktoken_into(Tokenizer *t, Str text, const char *pattern, Err *err) MUST_CHECK;
/* tokenizer_config.json: roles, added_tokens_decoder, add_bos_token, add_eos_token;
 * special_tokens_map.json: roles. */
bool tokconfig_apply(Tokenizer *t, Str json, Err *err) MUST_CHECK;
bool tokconfig_apply_specials(Tokenizer *t, Str json, Err *err) MUST_CHECK;

#endif
