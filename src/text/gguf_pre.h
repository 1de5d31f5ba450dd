/* gguf_pre.h: what a GGUF's tokenizer.ggml.pre says about a BPE vocabulary: how text is split
 * (the expressions of the model's own tokenizer.json), whether whole pieces win over merges,
 * whether BOS is added, whether text is normalized. */
#ifndef MLXCEL_TEXT_GGUF_PRE_H
#define MLXCEL_TEXT_GGUF_PRE_H

#include "text/tokenizer.h"

enum { GGUF_PRE_MAX_PARTS = 6 };

typedef struct GgufPre {
    const char *names;                     /* blank-separated */
    const char *parts[GGUF_PRE_MAX_PARTS]; /* expressions, applied one after the other */
    bool ignore_merges, add_bos, nfc, add_sep, escape_blanks;
    bool bos_always; /* whatever add_bos_token says: early files have it wrong */
    bool rare;       /* few readers know the name: it is not written where another fits */
} GgufPre;

const GgufPre *ggufpre_find(Str name); /* NULL if unknown; "" is "default" */
const GgufPre *ggufpre_list(size_t *n);
/* The name to write for a tokenizer (gguf_pre_match.c). ERR_UNSUPPORTED if there is none. */
bool ggufpre_match(const Tokenizer *t, Str *name, Err *err) MUST_CHECK;

#endif
