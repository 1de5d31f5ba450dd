/* toolcall_python.h: a Python literal turned into JSON byte by byte: strings with any quotes and
 * escapes, numbers (their text kept where JSON has it too), True False None, lists, tuples,
 * dicts. Names, calls and expressions are refused.
 *
 *     PyPush py = {0};
 *     ... pypush(&py, byte, &json) ...   PUSH_DONE and the others as in toolcall_json.h */
#ifndef MLXCEL_CHAT_TOOLCALL_PYTHON_H
#define MLXCEL_CHAT_TOOLCALL_PYTHON_H

#include "chat/toolcall_json.h"

enum { PY_PUSH_DEPTH = 64, PY_PUSH_WORD = 512 };

typedef struct PyPush { /* zero-initialised: expects a value */
    unsigned char state;
    char quote;
    bool triple, key, comma;
    int n_quotes; /* closing quotes seen of a triple-quoted string */
    int n_digits; /* of an escape, still wanted or (octal) seen */
    uint32_t code;
    int depth;
    char close[PY_PUSH_DEPTH]; /* what ends each open container: ] ) } */
    char word[PY_PUSH_WORD];
    size_t n_word;
} PyPush;

Push pypush(PyPush *py, unsigned char c, Buf *out);
/* The whole of text; false, and out unspecified behind its old end, if it is no literal. */
bool pypush_text(Buf *out, Str text);
/* True, 12, .5, None ... as JSON; false if it is nothing of the kind. */
bool pypush_word(Buf *out, Str word);

#endif
