#include "text/pretokenizer.h"

#include <string.h>

#include "base/unicode.h"
#include "text/byte_level.h"
#include "text/char_class.h"

#define MATCHED 0x80000000u /* in Piece.to while matches are collected */

typedef struct Step { /* one step over the current pieces */
    const PretokStep *s;
    Str text;
    PieceList *out;
    bool first;    /* the first piece starts the original text */
    PieceList tmp; /* matches of one piece */
} Step;

/* Lays the matches and gaps of one piece out as the behaviour says. */
static void put_matches(Step *st, SplitBehavior behavior, bool invert) {
    PieceList *out = st->out;
    const PieceList *m = &st->tmp;
    uint32_t flip = invert ? MATCHED : 0;
    bool previous = false;
    size_t start = out->n;
    if (behavior == SPLIT_NEXT) { /* from the right, then turned round */
        for (size_t i = m->n; i > 0; i--) {
            bool matched = ((m->p[i - 1].to ^ flip) & MATCHED) != 0;
            uint32_t from = m->p[i - 1].from, to = m->p[i - 1].to & ~MATCHED;
            if (matched && !previous && out->n > start)
                out->p[out->n - 1].from = from;
            else
                pieces_push(out, from, to);
            previous = matched;
        }
        for (size_t i = start, j = out->n; i + 1 < j; i++, j--) {
            Piece t = out->p[i];
            out->p[i] = out->p[j - 1];
            out->p[j - 1] = t;
        }
        return;
    }
    for (size_t i = 0; i < m->n; i++) {
        bool matched = ((m->p[i].to ^ flip) & MATCHED) != 0;
        uint32_t from = m->p[i].from, to = m->p[i].to & ~MATCHED;
        bool join = out->n > start && ((behavior == SPLIT_CONTIGUOUS && matched == previous) ||
                                       (behavior == SPLIT_PREVIOUS && matched && !previous));
        if (join)
            out->p[out->n - 1].to = to;
        else if (!(matched && behavior == SPLIT_REMOVED))
            pieces_push(out, from, to);
        previous = matched;
    }
}

static void drop_empty(PieceList *l, size_t start) {
    size_t n = start;
    for (size_t i = start; i < l->n; i++)
        if (l->p[i].from != l->p[i].to) l->p[n++] = l->p[i];
    l->n = n;
}

static void note_match(Step *st, size_t *prev, size_t from, size_t to) {
    if (*prev != from) pieces_push(&st->tmp, *prev, from);
    pieces_push(&st->tmp, from, to | MATCHED);
    *prev = to;
}

/* Each matching character is a match of its own. */
typedef bool CharTest(uint32_t cp);
static void split_chars(Step *st, Piece p, CharTest *test, uint32_t one, SplitBehavior behavior) {
    size_t prev = p.from;
    st->tmp.n = 0;
    for (size_t i = p.from; i < p.to;) {
        uint32_t len, cp = utf8_fast(st->text.p + i, &len);
        if (test ? test(cp) : cp == one) note_match(st, &prev, i, i + len);
        i += len;
    }
    if (prev != p.to) pieces_push(&st->tmp, prev, p.to);
    put_matches(st, behavior, false);
}

static bool split_rule(Step *st, Piece p, const SplitRule *rule, SplitBehavior behavior,
                       bool invert) {
    Str s = piece_str(st->text, p);
    size_t prev = 0;
    bool simple = behavior == SPLIT_ISOLATED;
    st->tmp.n = 0;
    for (size_t at = 0; at < s.n;) {
        size_t end = splitrule_match(rule, s, at);
        if (!end) {
            at += utf8_length_of(s.p[at]);
            continue;
        }
        if (simple) {
            if (prev != at) pieces_push(st->out, p.from + prev, p.from + at);
            pieces_push(st->out, p.from + at, p.from + end);
            prev = end;
        } else {
            if (prev != at) pieces_push(&st->tmp, p.from + prev, p.from + at);
            pieces_push(&st->tmp, p.from + at, (p.from + end) | MATCHED);
            prev = end;
        }
        at = end;
    }
    if (prev != s.n) pieces_push(simple ? st->out : &st->tmp, p.from + prev, p.to);
    if (!simple) put_matches(st, behavior, invert);
    return true;
}

static bool split_regex(Step *st, Piece p, Err *err) {
    TokMatches m;
    size_t from, to, prev = p.from;
    int got;
    st->tmp.n = 0;
    tokmatches_begin(&m, st->s->regex, piece_str(st->text, p));
    while ((got = tokmatches_next(&m, &from, &to, err)) > 0)
        note_match(st, &prev, p.from + from, p.from + to);
    tokmatches_end(&m);
    if (got < 0) return false;
    if (prev != p.to) pieces_push(&st->tmp, prev, p.to);
    put_matches(st, st->s->behavior, st->s->invert);
    return true;
}

static bool split_literal(Step *st, Piece p) {
    Str s = piece_str(st->text, p);
    size_t prev = p.from;
    st->tmp.n = 0;
    if (st->s->text.n > 0)
        for (size_t at = 0; (at = str_find(s, st->s->text, at)) != STR_NPOS; at += st->s->text.n)
            note_match(st, &prev, p.from + at, p.from + at + st->s->text.n);
    if (prev != p.to) pieces_push(&st->tmp, prev, p.to);
    put_matches(st, st->s->behavior, st->s->invert);
    return true;
}

/* \w+|[^\w\s]+ : words, and runs of what is neither word nor white space. */
static void split_words(Step *st, Piece p) {
    int last = 0; /* 0 white space, 1 word, 2 other */
    size_t start = p.from;
    for (size_t i = p.from; i < p.to;) {
        uint32_t len, cp = utf8_fast(st->text.p + i, &len);
        int kind = charclass_is_word(cp) ? 1 : unicode_is_space(cp) ? 0 : 2;
        if (kind != last) {
            if (last) pieces_push(st->out, start, i);
            start = i;
            last = kind;
        }
        i += len;
    }
    if (last) pieces_push(st->out, start, p.to);
}

static void split_bert(Step *st, Piece p) {
    size_t start = p.from;
    for (size_t i = p.from; i < p.to;) {
        uint32_t len, cp = utf8_fast(st->text.p + i, &len);
        bool space = unicode_is_space(cp), punct = !space && charclass_is_bert_punct(cp);
        if (space || punct) {
            if (start < i) pieces_push(st->out, start, i);
            if (punct) pieces_push(st->out, i, i + len);
            start = i + len;
        }
        i += len;
    }
    if (start < p.to) pieces_push(st->out, start, p.to);
}

/* Hiragana, Katakana and U+30FC count as Han; blanks belong to every script. A piece begins at
 * the text's start, unless it begins with such characters: those are not part of any piece (as
 * in the reference). */
static uint8_t script_of(uint32_t cp, uint8_t hiragana, uint8_t katakana) {
    if (cp == ' ') return UNICODE_SCRIPT_ANY;
    if (cp == 0x30FC) return UNICODE_SCRIPT_HAN;
    uint8_t s = unicode_script(cp);
    return s == hiragana || s == katakana ? UNICODE_SCRIPT_HAN : s;
}

static void split_scripts(Step *st, Piece p) {
    uint8_t hiragana = unicode_script(0x3042), katakana = unicode_script(0x30A2);
    int last = -1; /* no character of a script yet */
    size_t start = p.to;
    for (size_t i = p.from; i < p.to;) {
        uint32_t len, cp = utf8_fast(st->text.p + i, &len);
        uint8_t s = script_of(cp, hiragana, katakana);
        if (s != UNICODE_SCRIPT_ANY && last != s) {
            if (start < i) pieces_push(st->out, start, i);
            start = i;
        }
        if (s != UNICODE_SCRIPT_ANY) last = s;
        i += len;
    }
    if (start < p.to) pieces_push(st->out, start, p.to);
}

static void split_fixed(Step *st, Piece p) {
    uint64_t n = 0;
    size_t start = p.from;
    for (size_t i = p.from; i < p.to;) {
        i += utf8_length_of(st->text.p[i]);
        if (++n == st->s->length) {
            pieces_push(st->out, start, i);
            start = i;
            n = 0;
        }
    }
    if (start < p.to) pieces_push(st->out, start, p.to);
}

static void split_before(Step *st, Piece p, Str mark) { /* every mark starts a piece */
    size_t start = p.from;
    Str s = piece_str(st->text, p);
    for (size_t at = 0; (at = str_find(s, mark, at)) != STR_NPOS; at += mark.n) {
        if (start < p.from + at) pieces_push(st->out, start, p.from + at);
        start = p.from + at;
    }
    if (start < p.to) pieces_push(st->out, start, p.to);
}

static bool split_piece(Step *st, Piece p, Err *err) {
    const PretokStep *s = st->s;
    switch (s->kind) {
    case PRETOK_BYTE_LEVEL:
        if (s->use_regex) return split_rule(st, p, splitrule_gpt2(), SPLIT_ISOLATED, false);
        pieces_push(st->out, p.from, p.to);
        return true;
    case PRETOK_SPLIT:
        if (s->rule) return split_rule(st, p, s->rule, s->behavior, s->invert);
        return s->regex ? split_regex(st, p, err) : split_literal(st, p);
    case PRETOK_DIGITS:
        split_chars(st, p, unicode_is_numeric, 0,
                    s->individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS);
        return true;
    case PRETOK_METASPACE:
        if (s->cuts)
            split_before(st, p, s->text);
        else
            pieces_push(st->out, p.from, p.to);
        return true;
    case PRETOK_WHITESPACE:
        split_words(st, p);
        return true;
    case PRETOK_WHITESPACE_SPLIT:
        split_chars(st, p, unicode_is_space, 0, SPLIT_REMOVED);
        return true;
    case PRETOK_PUNCTUATION:
        split_chars(st, p, charclass_is_bert_punct, 0, s->behavior);
        return true;
    case PRETOK_BERT:
        split_bert(st, p);
        return true;
    case PRETOK_DELIMITER: {
        uint32_t len;
        split_chars(st, p, NULL, utf8_fast(s->text.p, &len), SPLIT_REMOVED);
        return true;
    }
    case PRETOK_SCRIPTS:
        split_scripts(st, p);
        return true;
    case PRETOK_FIXED_LENGTH:
        split_fixed(st, p);
        return true;
    }
    return err_set(err, ERR_INTERNAL, "pre-tokenizer step %d", (int)s->kind);
}

/* ByteLevel's prefix blank; Metaspace's replacement and prefix. The text is written anew, piece
 * by piece. */
static bool rewrite_before(const PretokStep *s, Str text, bool first, PieceList *l, Buf *out) {
    buf_clear(out);
    if (!buf_reserve(out, text.n + text.n / 8 + 64)) return false;
    for (size_t i = 0; i < l->n; i++) {
        Str p = piece_str(text, l->p[i]);
        size_t from = out->n;
        if (s->kind == PRETOK_BYTE_LEVEL) {
            if (!str_starts(p, STR(" "))) buf_putc(out, ' ');
            buf_put(out, p);
        } else {
            bool marked = str_starts(p, s->text) || str_starts(p, STR(" "));
            if (!marked &&
                (s->prepend == PREPEND_ALWAYS || (s->prepend == PREPEND_FIRST && first && i == 0)))
                buf_put(out, s->text);
            for (size_t at = 0; at < p.n;) {
                size_t blank = str_find_char(p, ' ', at);
                if (blank == STR_NPOS) blank = p.n;
                buf_put(out, str_slice(p, at, blank));
                if (blank < p.n) buf_put(out, s->text);
                at = blank + 1;
            }
        }
        l->p[i] = (Piece){(uint32_t)from, (uint32_t)out->n};
    }
    return !out->failed;
}

static bool rewrite_mapped(Str text, PieceList *l, Buf *out) {
    buf_clear(out);
    for (size_t i = 0; i < l->n; i++) {
        size_t from = out->n;
        byte_level_put(out, piece_str(text, l->p[i]));
        l->p[i] = (Piece){(uint32_t)from, (uint32_t)out->n};
    }
    return !out->failed;
}

bool pretok_run(const Pretokenizer *p, Str text, bool first, PretokWork *w, Str *out_text,
                const PieceList **pieces, Err *err) {
    PieceList *in = &w->lists[0], *out = &w->lists[1];
    Step st = {.text = text, .first = first};
    size_t i_text = 0;
    bool ok = true;
    in->n = 0;
    w->texts[0].max = w->texts[1].max = text_growth_limit(text.n);
    if (text.n) pieces_push(in, 0, text.n);
    for (size_t i = 0; ok && i < p->n; i++) {
        const PretokStep *s = st.s = &p->steps[i];
        if (in->n == 0) break;
        if (s->kind == PRETOK_METASPACE || (s->kind == PRETOK_BYTE_LEVEL && s->add_prefix_space)) {
            ok = rewrite_before(s, st.text, st.first, in, &w->texts[i_text]) ||
                 err_nomem(err, "text");
            st.text = buf_str(&w->texts[i_text]);
            i_text ^= 1;
        }
        size_t start = in->n ? in->p[0].from : 0;
        out->n = 0;
        st.out = out;
        for (size_t k = 0; ok && k < in->n; k++) ok = split_piece(&st, in->p[k], err);
        if (s->kind == PRETOK_SPLIT && s->regex) drop_empty(out, 0);
        if (out->n == 0 || out->p[0].from != start) st.first = false;
        if (ok && s->kind == PRETOK_BYTE_LEVEL && !s->leave_mapping) {
            ok = rewrite_mapped(st.text, out, &w->texts[i_text]) ||
                 buf_check(&w->texts[i_text], "text cut into pieces", err);
            st.text = buf_str(&w->texts[i_text]);
            i_text ^= 1;
        }
        PieceList *swap = in;
        in = out;
        out = swap;
    }
    if (ok && (in->failed || out->failed || st.tmp.failed)) ok = err_nomem(err, "pieces of a text");
    pieces_deinit(&st.tmp);
    *out_text = st.text;
    *pieces = in;
    return ok;
}

void pretokwork_deinit(PretokWork *w) {
    for (int i = 0; i < 2; i++) {
        pieces_deinit(&w->lists[i]);
        buf_deinit(&w->texts[i]);
    }
}
