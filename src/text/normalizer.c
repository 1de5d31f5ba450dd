#include "text/normalizer.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/char_class.h"
#include "text/tok_piece.h"

static bool put_lower(Str s, Buf *out) {
    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < 0x80) {
            buf_putc(out, (char)(c >= 'A' && c <= 'Z' ? c + 32 : c));
            i++;
            continue;
        }
        uint32_t len, m[3], cp = utf8_fast(s.p + i, &len);
        size_t n = unicode_lower(cp, m);
        for (size_t k = 0; k < n; k++) buf_put_utf8(out, m[k]);
        i += len;
    }
    return true;
}

static Str strip(const NormStep *st, Str s) {
    if (st->left)
        while (s.n) {
            uint32_t len, cp = utf8_fast(s.p, &len);
            if (!unicode_is_space(cp)) break;
            s = str_from(s, len);
        }
    if (st->right)
        while (s.n) {
            size_t i = s.n - 1;
            while (i > 0 && ((unsigned char)s.p[i] & 0xC0) == 0x80) i--;
            uint32_t len, cp = utf8_fast(s.p + i, &len);
            if (!unicode_is_space(cp)) break;
            s.n = i;
        }
    return s;
}

static void put_without(Str s, bool (*drop)(uint32_t cp), Buf *out) {
    size_t copied = 0;
    for (size_t i = 0; i < s.n;) {
        uint32_t len, cp = utf8_fast(s.p + i, &len);
        if (cp >= 0x80 && drop(cp)) {
            buf_put(out, str_slice(s, copied, i));
            copied = i + len;
        }
        i += len;
    }
    buf_put(out, str_from(s, copied));
}

static void put_bert_clean(const NormStep *st, Str s, Buf *out) {
    for (size_t i = 0; i < s.n;) {
        uint32_t len, cp = utf8_fast(s.p + i, &len);
        Str c = {s.p + i, len};
        i += len;
        if (st->clean) {
            if (cp == 0 || cp == 0xFFFD || charclass_is_bert_control(cp)) continue;
            if (unicode_is_space(cp)) {
                buf_putc(out, ' ');
                continue;
            }
        }
        bool spaced = st->chinese && cp >= 0x3400 && charclass_is_cjk(cp);
        if (spaced) buf_putc(out, ' ');
        buf_put(out, c);
        if (spaced) buf_putc(out, ' ');
    }
}

/* Each stage goes from one buffer into the other. */
static Str run_bert(const NormStep *st, Str s, Buf work[2], int *turn) {
    Buf *out = &work[*turn];
    buf_clear(out);
    put_bert_clean(st, s, out);
    if (st->strip_accents) {
        Buf *in = out;
        out = &work[ *turn ^= 1];
        buf_clear(out);
        unicode_normalize(UNICODE_NFD, buf_str(in), out);
        in = out;
        out = &work[ *turn ^= 1];
        buf_clear(out);
        put_without(buf_str(in), charclass_is_old_mark, out);
    }
    if (st->lowercase) {
        Buf *in = out;
        out = &work[ *turn ^= 1];
        buf_clear(out);
        put_lower(buf_str(in), out);
    }
    *turn ^= 1;
    return buf_str(out);
}

static bool nmt_drops(uint32_t cp) {
    return (cp >= 1 && cp <= 8) || cp == 0xB || (cp >= 0xE && cp <= 0x1F) || cp == 0x7F ||
           cp == 0x8F || cp == 0x9F;
}

static void put_nmt(Str s, Buf *out) {
    for (size_t i = 0; i < s.n;) {
        uint32_t len, cp = utf8_fast(s.p + i, &len);
        Str c = {s.p + i, len};
        i += len;
        if (nmt_drops(cp)) continue;
        bool blank = cp == 9 || cp == 0xA || cp == 0xC || cp == 0xD || cp == 0x1680 ||
                     (cp >= 0x200B && cp <= 0x200F) || cp == 0x2028 || cp == 0x2029 ||
                     cp == 0x2581 || cp == 0xFEFF || cp == 0xFFFD;
        if (blank)
            buf_putc(out, ' ');
        else
            buf_put(out, c);
    }
}

/* What the text at `at` is rewritten to, and how much of it: a kept piece, the longest entry of
 * the map, or a character. */
static Str sentencepiece_next(const NormStep *st, Str s, size_t at, size_t *len) {
    Str rest = str_from(s, at), with;
    if (st->kept && trie_longest(st->kept, rest, len) != TRIE_NONE && utf8_begins(rest, *len))
        return str_slice(rest, 0, *len);
    if (charsmap_find(&st->map, rest, false, len, &with)) return with;
    *len = utf8_length_of(rest.p[0]);
    return str_slice(rest, 0, *len);
}

/* SentencePiece's own normalizer: the character map, and its rules for white space. */
static void put_sentencepiece(const NormStep *st, Str s, bool starts, Buf *out) {
    Str blank = st->escape ? STR("\xE2\x96\x81") : STR(" ");
    size_t at = 0, len;
    while (st->squeeze && at < s.n && str_eqc(sentencepiece_next(st, s, at, &len), " ")) at += len;
    if (at == s.n) return;
    size_t start = out->n;
    if (st->dummy_prefix && !st->as_suffix && (starts || !st->prefix_first)) buf_put(out, blank);
    for (bool after_blank = st->squeeze; at < s.n; at += len) {
        Str p = sentencepiece_next(st, s, at, &len);
        while (after_blank && p.n && p.p[0] == ' ') p = str_from(p, 1);
        for (size_t i = 0; i < p.n; i++) {
            if (p.p[i] == ' ')
                buf_put(out, blank);
            else
                buf_putc(out, p.p[i]);
        }
        if (p.n) after_blank = p.p[p.n - 1] == ' ';
        if (!st->squeeze) after_blank = false;
    }
    while (st->squeeze && out->n >= start + blank.n && str_ends(buf_str(out), blank))
        out->n -= blank.n;
    if (st->dummy_prefix && st->as_suffix) buf_put(out, blank);
}

static bool put_replaced(const NormStep *st, Str s, Buf *out, Err *err) {
    size_t copied = 0;
    if (!st->regex) {
        for (size_t at = 0; st->text.n && (at = str_find(s, st->text, at)) != STR_NPOS;
             at += st->text.n) {
            buf_put(out, str_slice(s, copied, at));
            buf_put(out, st->content);
            copied = at + st->text.n;
        }
    } else if (s.n) {
        TokMatches m;
        size_t from, to;
        int got;
        tokmatches_begin(&m, st->regex, s);
        while ((got = tokmatches_next(&m, &from, &to, err)) > 0) {
            buf_put(out, str_slice(s, copied, from));
            buf_put(out, st->content);
            copied = to;
        }
        tokmatches_end(&m);
        if (got < 0) return false;
    }
    buf_put(out, str_from(s, copied));
    return true;
}

static bool run_step(const NormStep *st, Str s, bool starts, Buf work[2], int *turn, Str *result,
                     Err *err) {
    Buf *out = &work[*turn];
    buf_clear(out);
    *result = s;
    switch (st->kind) {
    case NORM_UNICODE:
        if (unicode_is_plain(st->form, s)) return true;
        unicode_normalize(st->form, s, out);
        break;
    case NORM_LOWERCASE:
        put_lower(s, out);
        break;
    case NORM_STRIP:
        *result = strip(st, s);
        return true;
    case NORM_STRIP_ACCENTS:
        put_without(s, charclass_is_combining, out);
        break;
    case NORM_BERT:
        *result = run_bert(st, s, work, turn);
        return true;
    case NORM_PRECOMPILED:
        if (!charsmap_put_graphemes(&st->map, s, out)) return true;
        break;
    case NORM_REPLACE:
        if (!st->regex && str_find(s, st->text, 0) == STR_NPOS) return true;
        if (!put_replaced(st, s, out, err)) return false;
        break;
    case NORM_PREPEND:
        if (s.n == 0) return true;
        buf_put(out, st->text);
        buf_put(out, s);
        break;
    case NORM_NMT:
        put_nmt(s, out);
        break;
    case NORM_BYTE_LEVEL:
        byte_level_put(out, s);
        break;
    case NORM_SENTENCEPIECE:
        put_sentencepiece(st, s, starts, out);
        break;
    }
    *turn ^= 1;
    *result = buf_str(out);
    return true;
}

/* The step takes the first character away, so that what follows does not start the original
 * text. */
static bool drops_first(const NormStep *st, Str before) {
    if (before.n == 0) return false;
    uint32_t len, cp = utf8_fast(before.p, &len);
    switch (st->kind) {
    case NORM_STRIP:
        return st->left && unicode_is_space(cp);
    case NORM_STRIP_ACCENTS:
        return charclass_is_combining(cp);
    case NORM_NMT:
        return nmt_drops(cp);
    case NORM_BERT:
        return (st->clean && (cp == 0 || cp == 0xFFFD || charclass_is_bert_control(cp))) ||
               (st->strip_accents && charclass_is_old_mark(cp));
    case NORM_REPLACE:
        return st->content.n == 0 && !st->regex && str_starts(before, st->text);
    default:
        return false;
    }
}

bool normalizer_run(const Normalizer *nz, Str text, bool starts, Buf work[2], Str *out, bool *moved,
                    Err *err) {
    int turn = 0;
    *moved = false;
    work[0].max = work[1].max = text_growth_limit(text.n);
    for (size_t i = 0; i < nz->n; i++) {
        *moved = *moved || drops_first(&nz->steps[i], text);
        if (!run_step(&nz->steps[i], text, starts, work, &turn, &text, err)) return false;
        if (!buf_check(&work[0], "normalized text", err) ||
            !buf_check(&work[1], "normalized text", err))
            return false;
    }
    *out = text;
    return true;
}

bool normalizer_push(Normalizer *nz, NormStep step, Err *err) {
    if (nz->n == nz->cap) {
        size_t cap = nz->cap ? nz->cap * 2 : 4;
        NormStep *p = mem_resize_array(nz->steps, cap, sizeof *p);
        if (!p) {
            tokregex_free(step.regex);
            return err_nomem(err, "normalizer");
        }
        nz->steps = p;
        nz->cap = cap;
    }
    nz->steps[nz->n++] = step;
    return true;
}

void normalizer_deinit(Normalizer *nz) {
    for (size_t i = 0; i < nz->n; i++) tokregex_free(nz->steps[i].regex);
    mem_free(nz->steps);
    *nz = (Normalizer){0};
}
