/* detok.h: ids that arrive one by one to text that can be shown at once. A piece is given out
 * when it ends in a whole character that no later token can change; until then it is held back.
 * All pieces together, with what detok_finish() gives, are what tokenizer_decode() makes of all
 * ids.
 *
 *     Detok d;
 *     detok_init(&d, tokenizer, false);
 *     for each id: { if (!detok_push(&d, id, &piece, err)) ...; piece.p is NULL while held back }
 *     detok_finish(&d, &rest, err);
 *     detok_deinit(&d);
 *
 * One sequence, one Detok, one thread at a time. After the first tokens nothing more is
 * allocated. */
#ifndef MLXCEL_TEXT_DETOK_H
#define MLXCEL_TEXT_DETOK_H

#include "text/tok_decoder.h"
#include "text/tokenizer.h"

typedef struct Detok {
    const Tokenizer *tokenizer;
    bool skip_special;
    TokIds ids; /* the window: ids whose text is out (n_out of them) and ids held back */
    size_t n_out;
    Buf prefix; /* text of the first n_out ids of the window */
    Buf text;   /* text of the whole window */
    Buf piece;  /* what the last call gave out */
    DecodeWork work;
} Detok;

void detok_init(Detok *d, const Tokenizer *t, bool skip_special);
/* *piece: valid until the next call; .p NULL if the token is held back. */
bool detok_push(Detok *d, uint32_t id, Str *piece, Err *err) MUST_CHECK;
bool detok_finish(Detok *d, Str *rest,
                  Err *err) MUST_CHECK; /* what was held back; then it is as new */
void detok_reset(Detok *d);
void detok_deinit(Detok *d);

#endif
