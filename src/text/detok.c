/* The window method: the text of a few ids before the new ones is decoded together with them, so
 * that whatever a decoder does at the start of a text (a blank dropped, a word joined) is done
 * to both and cancels out. */
#include "text/detok.h"

#include "text/encode.h"

enum {
    MAX_HELD = 64
}; /* ids; a longer run that never ends in a character is bytes that are no text */

void detok_init(Detok *d, const Tokenizer *t, bool skip_special) {
    *d = (Detok){.tokenizer = t, .skip_special = skip_special};
}

void detok_reset(Detok *d) {
    d->ids.n = d->n_out = 0;
    buf_clear(&d->prefix);
}

void detok_deinit(Detok *d) {
    tokids_deinit(&d->ids);
    buf_deinit(&d->prefix);
    buf_deinit(&d->text);
    buf_deinit(&d->piece);
    decodework_deinit(&d->work);
}

static bool decode(Detok *d, size_t from, Buf *out, Err *err) {
    buf_clear(out);
    return tokenizer_decode_with(d->tokenizer, &d->work, d->ids.p + from, d->ids.n - from,
                                 d->skip_special, out, err) &&
           buf_check(out, "decoded text", err);
}

static bool ends_in_replacement(Str s) { return str_ends(s, STR("\xEF\xBF\xBD")); }

/* The bytes that both begin with. */
static size_t common_prefix(Str a, Str b) {
    size_t n = 0;
    while (n < a.n && n < b.n && a.p[n] == b.p[n]) n++;
    while (n > 0 && n < b.n && ((unsigned char)b.p[n] & 0xC0) == 0x80) n--;
    return n;
}

/* Gives text[from..] out and moves the window: the ids just shown are what the next ones are
 * decoded with. */
static bool give_out(Detok *d, size_t from, Str *piece, Err *err) {
    buf_clear(&d->piece);
    buf_put(&d->piece, str_from(buf_str(&d->text), from));
    size_t keep = d->ids.n - d->n_out;
    for (size_t i = 0; i < keep; i++) d->ids.p[i] = d->ids.p[d->n_out + i];
    d->ids.n = d->n_out = keep;
    if (!buf_check(&d->piece, "decoded text", err)) return false;
    *piece = buf_str(&d->piece);
    return decode(d, 0, &d->prefix, err);
}

bool detok_push(Detok *d, uint32_t id, Str *piece, Err *err) {
    *piece = STR_NONE;
    if (d->prefix.n == 0 &&
        d->ids.n > 0) { /* the ids so far had no text; they may have one as a beginning */
        if (!decode(d, 0, &d->prefix, err)) return false;
        if (ends_in_replacement(buf_str(&d->prefix)))
            buf_clear(&d->prefix);
        else
            d->n_out = d->ids.n;
    }
    tokids_push(&d->ids, id);
    if (d->ids.failed) return err_nomem(err, "decoded text");
    if (!decode(d, 0, &d->text, err)) return false;
    Str text = buf_str(&d->text), prefix = buf_str(&d->prefix);
    bool whole = text.n > prefix.n && !ends_in_replacement(text);
    if (!whole && d->ids.n - d->n_out < MAX_HELD) return true;
    size_t from = str_starts(text, prefix) ? prefix.n : common_prefix(prefix, text);
    return give_out(d, from, piece, err);
}

bool detok_finish(Detok *d, Str *rest, Err *err) {
    *rest = STR_NONE;
    buf_clear(&d->piece);
    if (d->ids.n > d->n_out) {
        if (!decode(d, 0, &d->text, err)) return false;
        Str text = buf_str(&d->text), prefix = buf_str(&d->prefix);
        buf_put(&d->piece,
                str_from(text, str_starts(text, prefix) ? prefix.n : common_prefix(prefix, text)));
        if (!buf_check(&d->piece, "decoded text", err)) return false;
        if (d->piece.n) *rest = buf_str(&d->piece);
    }
    detok_reset(d);
    return true;
}
