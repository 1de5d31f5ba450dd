#include "text/tok_decoder.h"

#include <string.h>

#include "base/utf8.h"
#include "text/byte_level.h"

#define REPLACEMENT STR("\xEF\xBF\xBD")

void textlist_clear(TextList *l) {
    buf_clear(&l->text);
    l->pieces.n = 0;
}

static void close_piece(TextList *l, size_t from) { pieces_push(&l->pieces, from, l->text.n); }

void textlist_add(TextList *l, Str s) {
    size_t from = l->text.n;
    buf_put(&l->text, s);
    close_piece(l, from);
}

void decodework_deinit(DecodeWork *w) {
    for (int i = 0; i < 2; i++) {
        buf_deinit(&w->lists[i].text);
        pieces_deinit(&w->lists[i].pieces);
        buf_deinit(&w->tmp[i]);
    }
}

/* Length of the longest prefix of s[at..] that begins a valid sequence; at least 1. Table 3-7 of
 * the standard. */
static size_t bad_length(Str s, size_t at) {
    unsigned char b = (unsigned char)s.p[at];
    size_t want = b >= 0xC2 && b <= 0xDF   ? 2
                  : b >= 0xE0 && b <= 0xEF ? 3
                  : b >= 0xF0 && b <= 0xF4 ? 4
                                           : 1;
    for (size_t i = 1; i < want; i++) {
        if (at + i >= s.n) return i;
        unsigned char c = (unsigned char)s.p[at + i], lo = 0x80, hi = 0xBF;
        if (i == 1) {
            if (b == 0xE0) lo = 0xA0;
            if (b == 0xED) hi = 0x9F;
            if (b == 0xF0) lo = 0x90;
            if (b == 0xF4) hi = 0x8F;
        }
        if (c < lo || c > hi) return i;
    }
    return 1;
}

void decoder_put_lossy(Buf *out, Str s) {
    size_t copied = 0;
    for (size_t at = 0; at < s.n;) {
        size_t here = at;
        if ((unsigned char)s.p[at] < 0x80) {
            at++;
            continue;
        }
        if (utf8_next(s, &at) != UTF8_BAD) continue;
        buf_put(out, str_slice(s, copied, here));
        buf_put(out, REPLACEMENT);
        copied = at = here + bad_length(s, here);
    }
    buf_put(out, str_from(s, copied));
}

static void put_replaced(Buf *out, Str s, Str what, Str with) {
    size_t copied = 0;
    for (size_t at = 0; what.n && (at = str_find(s, what, at)) != STR_NPOS; at += what.n) {
        buf_put(out, str_slice(s, copied, at));
        buf_put(out, with);
        copied = at + what.n;
    }
    buf_put(out, str_from(s, copied));
}

/* An empty pattern stands before every character and at the end. */
static void put_replaced_all(Buf *out, Str s, Str what, Str with) {
    if (what.n) {
        put_replaced(out, s, what, with);
        return;
    }
    for (size_t i = 0; i < s.n;) {
        size_t n = utf8_length_of(s.p[i]);
        buf_put(out, with);
        buf_put(out, str_slice(s, i, i + n));
        i += n;
    }
    buf_put(out, with);
}

static void put_byte_level(Buf *out, Str token) {
    if (!byte_level_decode(token, out)) buf_put(out, token);
}

/* "<0x0A>" -> 10, else -1. */
static int byte_of(Str s) {
    if (s.n != 6 || memcmp(s.p, "<0x", 3) != 0 || s.p[5] != '>') return -1;
    int v = 0;
    for (int i = 3; i < 5; i++) {
        char c = s.p[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                       : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

static void end_bytes(TextList *out, Buf *bytes) {
    if (bytes->n == 0) return;
    if (utf8_valid(buf_str(bytes)))
        textlist_add(out, buf_str(bytes));
    else
        for (size_t i = 0; i < bytes->n; i++) textlist_add(out, REPLACEMENT);
    buf_clear(bytes);
}

static void byte_fallback(const TextList *in, TextList *out, Buf *bytes) {
    Str text = buf_str(&in->text);
    buf_clear(bytes);
    for (size_t i = 0; i < in->pieces.n; i++) {
        Str s = piece_str(text, in->pieces.p[i]);
        int b = byte_of(s);
        if (b >= 0) {
            buf_putc(bytes, (char)b);
            continue;
        }
        end_bytes(out, bytes);
        textlist_add(out, s);
    }
    end_bytes(out, bytes);
}

static const char *const cleanups[][2] = {
    {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
    {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
    {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
};

static void clean_up(Str s, Buf tmp[2], Buf *out) {
    for (size_t i = 0; i < sizeof cleanups / sizeof *cleanups; i++) {
        Buf *to = &tmp[i % 2];
        buf_clear(to);
        put_replaced(to, s, str_c(cleanups[i][0]), str_c(cleanups[i][1]));
        s = buf_str(to);
        if (to->failed) out->failed = true;
    }
    buf_put(out, s);
}

static void strip_piece(const DecStep *st, Str s, Buf *out) {
    size_t from = 0, to = s.n, n = st->text.n;
    for (uint64_t i = 0; i < st->start && str_starts(str_from(s, from), st->text) && n; i++)
        from += n;
    for (uint64_t i = 0; i < st->stop && to >= n && n && str_ends(str_slice(s, 0, to), st->text);
         i++)
        to -= n;
    if (from < to) buf_put(out, str_slice(s, from, to));
}

static bool replace_piece(const DecStep *st, Str s, Buf *out, Err *err) {
    if (!st->regex) {
        put_replaced(out, s, st->text, st->content);
        return true;
    }
    if (s.n == 0) return true;
    TokMatches m;
    size_t from, to, copied = 0;
    int got;
    tokmatches_begin(&m, st->regex, s);
    while ((got = tokmatches_next(&m, &from, &to, err)) > 0) {
        buf_put(out, str_slice(s, copied, from));
        buf_put(out, st->content);
        copied = to;
    }
    tokmatches_end(&m);
    buf_put(out, str_from(s, copied));
    return got >= 0;
}

static void metaspace_piece(const DecStep *st, Str s, bool first, Buf *out) {
    put_replaced(out, s, st->text, first && st->drop_first ? STR("") : STR(" "));
}

/* Per-piece steps. */
static bool map_piece(const DecStep *st, Str s, size_t i, size_t n, DecodeWork *w, Buf *out,
                      Err *err) {
    Buf *tmp = w->tmp;
    switch (st->kind) {
    case DEC_BPE:
        put_replaced_all(out, s, st->text, i + 1 == n ? STR("") : STR(" "));
        return true;
    case DEC_METASPACE:
        metaspace_piece(st, s, i == 0, out);
        return true;
    case DEC_STRIP:
        strip_piece(st, s, out);
        return true;
    case DEC_REPLACE:
        return replace_piece(st, s, out, err);
    case DEC_WORDPIECE: {
        Buf b = {0};
        bool inside = i != 0 && str_starts(s, st->text);
        if (i != 0 && !inside) buf_putc(&b, ' ');
        buf_put(&b, inside ? str_from(s, st->text.n) : s);
        if (st->cleanup)
            clean_up(buf_str(&b), tmp, out);
        else
            buf_put(out, buf_str(&b));
        if (b.failed) out->failed = true;
        buf_deinit(&b);
        return true;
    }
    case DEC_CTC: {
        Buf b = {0}, c = {0};
        put_replaced_all(&b, s, st->text, STR(""));
        if (st->cleanup) {
            clean_up(buf_str(&b), tmp, &c);
            put_replaced_all(out, buf_str(&c), st->content, STR(" "));
        } else {
            buf_put(out, buf_str(&b));
        }
        if (b.failed || c.failed) out->failed = true;
        buf_deinit(&b);
        buf_deinit(&c);
        return true;
    }
    default:
        return err_set(err, ERR_INTERNAL, "decoder step %d", (int)st->kind);
    }
}

static bool map_pieces(const DecStep *st, const TextList *in, TextList *out, DecodeWork *w,
                       Err *err) {
    Str text = buf_str(&in->text), last = STR_NONE;
    for (size_t i = 0; i < in->pieces.n; i++) {
        Str s = piece_str(text, in->pieces.p[i]);
        if (st->kind == DEC_CTC && i > 0 && str_eq(s, last))
            continue; /* repetitions are one sound */
        last = s;
        size_t from = out->text.n;
        if (!map_piece(st, s, i, in->pieces.n, w, &out->text, err)) return false;
        if (st->kind != DEC_CTC || out->text.n > from) close_piece(out, from);
    }
    return true;
}

static void sentencepiece(const DecStep *st, const TextList *in, Buf *bytes) {
    Str text = buf_str(&in->text);
    bool at_start = st->drop_first;
    for (size_t i = 0; i < in->pieces.n; i++) {
        Str s = piece_str(text, in->pieces.p[i]);
        int b = byte_of(s);
        if (b >= 0) {
            buf_putc(bytes, (char)b);
            at_start = false;
            continue;
        }
        if (at_start && str_starts(s, STR("\xE2\x96\x81"))) s = str_from(s, 3);
        at_start = false;
        put_replaced(bytes, s, STR("\xE2\x96\x81"), STR(" "));
    }
}

static bool run_step(const DecStep *st, const TextList *in, TextList *out, DecodeWork *w,
                     Err *err) {
    Str text = buf_str(&in->text);
    Buf *bytes = &w->tmp[0];
    switch (st->kind) {
    case DEC_BYTE_LEVEL:
    case DEC_BYTES:
    case DEC_SENTENCEPIECE:
        buf_clear(bytes);
        if (st->kind == DEC_SENTENCEPIECE)
            sentencepiece(st, in, bytes);
        else if (st->kind == DEC_BYTES)
            buf_put(bytes, text);
        else
            for (size_t i = 0; i < in->pieces.n; i++)
                put_byte_level(bytes, piece_str(text, in->pieces.p[i]));
        decoder_put_lossy(&out->text, buf_str(bytes));
        close_piece(out, 0);
        return true;
    case DEC_FUSE:
        textlist_add(out, text);
        return true;
    case DEC_BYTE_FALLBACK:
        byte_fallback(in, out, bytes);
        return true;
    default:
        return map_pieces(st, in, out, w, err);
    }
}

bool decoder_run(const TokDecoder *d, DecodeWork *w, Buf *out, Err *err) {
    int turn = 0;
    size_t limit = text_growth_limit(w->lists[0].text.n);
    w->lists[0].text.max = w->lists[1].text.max = w->tmp[0].max = w->tmp[1].max = limit;
    for (size_t i = 0; i < d->n; i++) {
        TextList *in = &w->lists[turn], *to = &w->lists[turn ^= 1];
        textlist_clear(to);
        if (!run_step(&d->steps[i], in, to, w, err)) return false;
        if (to->pieces.failed) return err_nomem(err, "decoded text");
        if (!buf_check(&to->text, "decoded text", err) ||
            !buf_check(&w->tmp[0], "decoded text", err) ||
            !buf_check(&w->tmp[1], "decoded text", err))
            return false;
    }
    const TextList *l = &w->lists[turn];
    if (!d->join_blank) {
        buf_put(out, buf_str(&l->text));
        return true;
    }
    for (size_t i = 0; i < l->pieces.n; i++) {
        if (i) buf_putc(out, ' ');
        buf_put(out, piece_str(buf_str(&l->text), l->pieces.p[i]));
    }
    return true;
}

void decoder_put_token(const TokDecoder *d, Str s, Buf *out) {
    DecodeWork w = {0};
    Buf a = {0}, b = {0};
    Err err;
    buf_put(&a, s);
    for (size_t i = 0; i < d->n; i++) {
        const DecStep *st = &d->steps[i];
        int byte = st->kind == DEC_BYTE_FALLBACK || st->kind == DEC_SENTENCEPIECE
                       ? byte_of(buf_str(&a))
                       : -1;
        if (st->kind == DEC_STRIP || st->kind == DEC_FUSE || st->kind == DEC_BYTES) continue;
        buf_clear(&b);
        if (byte >= 0)
            buf_putc(&b, (char)byte);
        else if (st->kind == DEC_BYTE_LEVEL)
            put_byte_level(&b, buf_str(&a));
        else if (st->kind == DEC_SENTENCEPIECE)
            put_replaced(&b, buf_str(&a), STR("\xE2\x96\x81"), STR(" "));
        else if (st->kind == DEC_BYTE_FALLBACK)
            buf_put(&b, buf_str(&a));
        else if (!map_piece(st, buf_str(&a), 1, 3, &w, &b, &err))
            break;
        Buf swap = a;
        a = b;
        b = swap;
        if (byte >= 0) break;
    }
    buf_put(out, buf_str(&a));
    if (a.failed || b.failed) out->failed = true;
    buf_deinit(&a);
    buf_deinit(&b);
    decodework_deinit(&w);
}

bool decoder_push(TokDecoder *d, DecStep step, Err *err) {
    if (d->n == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 4;
        DecStep *p = mem_resize_array(d->steps, cap, sizeof *p);
        if (!p) {
            tokregex_free(step.regex);
            return err_nomem(err, "decoder");
        }
        d->steps = p;
        d->cap = cap;
    }
    d->steps[d->n++] = step;
    return true;
}

void decoder_deinit(TokDecoder *d) {
    for (size_t i = 0; i < d->n; i++) tokregex_free(d->steps[i].regex);
    mem_free(d->steps);
    *d = (TokDecoder){0};
}
