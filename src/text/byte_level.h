/* byte_level.h: GPT-2's alphabet: every byte as one printable character, so that a vocabulary of
 * bytes is readable text. */
#ifndef MLXCEL_TEXT_BYTE_LEVEL_H
#define MLXCEL_TEXT_BYTE_LEVEL_H

#include "base/buf.h"

/* The character that stands for a byte: itself if it is printable Latin-1, else 256 + its place
 * among the others. */
uint32_t byte_level_char(uint8_t byte);
int byte_level_byte(uint32_t code_point); /* the byte, or -1 for a character outside the alphabet */
void byte_level_put(Buf *out, Str bytes); /* appends the characters of the bytes */
size_t byte_level_encode(
    Str bytes, char *out); /* as above into out, which has room for 2 * bytes.n; gives the length */
bool byte_level_decode(
    Str text, Buf *out); /* appends the bytes; false (nothing appended) if a character is outside */

#endif
