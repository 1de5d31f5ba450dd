/* base64.h: RFC 4648 with or without padding, as tokenizer files use it. */
#ifndef MLXCEL_TEXT_BASE64_H
#define MLXCEL_TEXT_BASE64_H

#include "base/str.h"

/* Decodes into out, which has room for s.n / 4 * 3 + 3 bytes (it may be s.p itself). false: not
 * base64. */
bool base64_decode(Str s, char *out, size_t *n);

#endif
