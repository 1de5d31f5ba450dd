/* Lexers read as bytes: UTF-8, and in JSON strings the escapes. A position inside a character knows
 * the range of code points that the bytes so far can still become; where they all lead to one state
 * the range is forgotten, so that equal futures are equal positions. */
#include "base/mem.h"
#include "base/utf8.h"
#include "sample/grammar/grammar_machine.h"

enum {
    RANGE_SAME = UINT32_MAX
}; /* d == e == this: any code point will do, c is the target already */

static Pos lex_pos(uint32_t lexer, uint32_t sub, uint32_t left, uint32_t q, uint32_t lo,
                   uint32_t hi) {
    return (Pos){POS_LEX, lexer, sub << 8 | left, q, lo, hi};
}

static uint32_t char_pos(Machine *m, uint32_t lexer, uint32_t q) {
    return q == DFA_DEAD ? 0 : machine_intern_pos(m, lex_pos(lexer, SUB_CHAR, 0, q, 0, 0));
}

uint32_t lex_start(Machine *m, uint32_t lexer) {
    const IrLexer *x = &m->ir->lexers[lexer];
    if (!x->dfa->n) return 0;
    if (x->mode == LEX_JSON)
        return machine_intern_pos(m, lex_pos(lexer, SUB_OPEN, 0, x->dfa->start, 0, 0));
    return char_pos(m, lexer, x->dfa->start);
}

/* First edge of q whose end is at or above cp. */
static uint32_t edge_from(const Dfa *d, uint32_t q, uint32_t cp) {
    uint32_t lo = d->edge_at[q], hi = d->edge_at[q + 1];
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (d->edges[mid].hi < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* A position that spells a code point of [lo, hi] from q with `left` more units; 0 if none of them
 * leads on. With `aligned`, every continuation of the units so far stays within the range. */
static uint32_t spell_pos(Machine *m, uint32_t lexer, uint32_t sub, uint32_t left, uint32_t q,
                          uint32_t lo, uint32_t hi, bool aligned) {
    const Dfa *d = m->ir->lexers[lexer].dfa;
    uint32_t e = edge_from(d, q, lo);
    if (e == d->edge_at[q + 1] || d->edges[e].lo > hi) return 0;
    if (!left) return char_pos(m, lexer, d->edges[e].to);
    if (aligned && d->edges[e].lo <= lo && d->edges[e].hi >= hi)
        return machine_intern_pos(
            m, lex_pos(lexer, sub, left, d->edges[e].to, RANGE_SAME, RANGE_SAME));
    return machine_intern_pos(m, lex_pos(lexer, sub, left, q, lo, hi));
}

static uint32_t utf8_lead(Machine *m, uint32_t lexer, uint32_t q, uint8_t b) {
    if (b < 0x80) return char_pos(m, lexer, dfa_next(m->ir->lexers[lexer].dfa, q, b));
    if (b < 0xC2 || b > 0xF4) return 0;
    uint32_t left = b < 0xE0 ? 1 : b < 0xF0 ? 2 : 3;
    uint32_t lo = (uint32_t)(b & (0x3F >> left)) << 6 * left, hi = lo + (1u << 6 * left) - 1;
    bool cut = b == 0xE0 || b == 0xED || b == 0xF0 || b == 0xF4;
    if (b == 0xE0) lo = 0x800;
    if (b == 0xED) hi = 0xD7FF;
    if (b == 0xF0) lo = 0x10000;
    if (b == 0xF4) hi = SET_MAX_CP;
    return spell_pos(m, lexer, SUB_UTF8, left, q, lo, hi, !cut);
}

static uint32_t utf8_continue(Machine *m, Pos p, uint8_t b) {
    uint32_t left = (p.b & 0xFF) - 1;
    if ((b & 0xC0) != 0x80) return 0;
    if (p.d == RANGE_SAME) {
        if (!left) return char_pos(m, p.a, p.c);
        return machine_intern_pos(m, lex_pos(p.a, SUB_UTF8, left, p.c, RANGE_SAME, RANGE_SAME));
    }
    uint32_t block = 1u << 6 * left;
    uint32_t base = (p.d >> 6 * (left + 1))
                    << 6 * (left + 1); /* the range lies within one block of the next size up */
    uint32_t lo = base + (uint32_t)(b & 0x3F) * block, hi = lo + block - 1;
    if (hi < p.d || lo > p.e) return 0; /* overlong, surrogate or above U+10FFFF */
    return spell_pos(m, p.a, SUB_UTF8, left, p.c, lo, hi, true);
}

static int hex_value(uint8_t b) {
    if (b >= '0' && b <= '9') return b - '0';
    b |= 32;
    return b >= 'a' && b <= 'f' ? b - 'a' + 10 : -1;
}

/* \uXXXX: left hex digits to come, [lo, hi] of 16 bits. High surrogates go on to a low one; lone
 * ones are not text. */
static uint32_t hex_step(Machine *m, Pos p, uint8_t b) {
    uint32_t left = (p.b & 0xFF) - 1;
    int v = hex_value(b);
    if (v < 0) return 0;
    if (p.d == RANGE_SAME) {
        if (!left) return char_pos(m, p.a, p.c);
        return machine_intern_pos(m, lex_pos(p.a, SUB_HEX, left, p.c, RANGE_SAME, RANGE_SAME));
    }
    uint32_t block = 1u << 4 * left, lo = p.d + (uint32_t)v * block, hi = lo + block - 1;
    if (lo > 0xDFFF || hi < 0xD800) return spell_pos(m, p.a, SUB_HEX, left, p.c, lo, hi, true);
    if (!left) { /* a surrogate */
        if (lo > 0xDBFF) return 0;
        uint32_t from = 0x10000 + ((lo - 0xD800) << 10);
        return spell_pos(m, p.a, SUB_LOW, 6, p.c, from, from + 0x3FF, true);
    }
    const Dfa *d = m->ir->lexers[p.a].dfa;
    /* the block mixes surrogates and characters: alive if a character of it or a pair beginning in
     * it is */
    uint32_t last = lo > 0xD800 ? lo : 0xD800, end = hi < 0xDBFF ? hi : 0xDBFF;
    uint32_t e = edge_from(d, p.c, lo), pair = edge_from(d, p.c, 0x10000 + ((last - 0xD800) << 10));
    bool plain = e < d->edge_at[p.c + 1] && d->edges[e].lo <= hi && !(lo >= 0xD800 && hi <= 0xDFFF);
    bool pairs = last <= end && pair < d->edge_at[p.c + 1] &&
                 d->edges[pair].lo <= 0x10000 + ((end - 0xD800) << 10) + 0x3FF;
    if (!plain && !pairs) return 0;
    return machine_intern_pos(m, lex_pos(p.a, SUB_HEX, left, p.c, lo, hi));
}

/* The second half of a surrogate pair: '\', 'u', [dD], [c-fC-F], two hex digits. */
static uint32_t low_step(Machine *m, Pos p, uint8_t b) {
    uint32_t left = (p.b & 0xFF) - 1;
    int v = hex_value(b);
    uint32_t lo = p.d, hi = p.e;
    bool same = p.d == RANGE_SAME;
    switch (left) {
    case 5:
        if (b != '\\') return 0;
        break;
    case 4:
        if (b != 'u') return 0;
        break;
    case 3:
        if (v != 0xD) return 0;
        break;
    case 2:
        if (v < 0xC) return 0;
        v -= 0xC;
        break;
    default:
        if (v < 0) return 0;
    }
    if (left <= 2 && !same) {
        uint32_t block = 1u << 4 * left;
        lo += (uint32_t)v * block;
        hi = lo + block - 1;
    }
    if (!same) return spell_pos(m, p.a, SUB_LOW, left, p.c, lo, hi, true);
    if (!left) return char_pos(m, p.a, p.c);
    return machine_intern_pos(m, lex_pos(p.a, SUB_LOW, left, p.c, RANGE_SAME, RANGE_SAME));
}

static uint32_t escape_step(Machine *m, Pos p, uint8_t b) {
    uint32_t cp;
    switch (b) {
    case '"':
    case '\\':
    case '/':
        cp = b;
        break;
    case 'b':
        cp = 8;
        break;
    case 'f':
        cp = 12;
        break;
    case 'n':
        cp = 10;
        break;
    case 'r':
        cp = 13;
        break;
    case 't':
        cp = 9;
        break;
    case 'u':
        return machine_intern_pos(m, lex_pos(p.a, SUB_HEX, 4, p.c, 0, 0xFFFF));
    default:
        return 0;
    }
    return char_pos(m, p.a, dfa_next(m->ir->lexers[p.a].dfa, p.c, cp));
}

static uint32_t lex_compute(Machine *m, Pos p, uint8_t b) {
    const IrLexer *x = &m->ir->lexers[p.a];
    switch (p.b >> 8) {
    case SUB_OPEN:
        return b == '"' ? char_pos(m, p.a, p.c) : 0;
    case SUB_CHAR:
        if (x->mode == LEX_JSON) {
            if (b < 0x20) return 0;
            if (b == '"') {
                int32_t label = x->dfa->label[p.c];
                return label < 0
                           ? 0
                           : machine_intern_pos(m, lex_pos(p.a, SUB_END, 0, (uint32_t)label, 0, 0));
            }
            if (b == '\\')
                return x->dfa->edge_at[p.c] == x->dfa->edge_at[p.c + 1]
                           ? 0
                           : machine_intern_pos(m, lex_pos(p.a, SUB_ESC, 0, p.c, 0, 0));
        }
        return utf8_lead(m, p.a, p.c, b);
    case SUB_UTF8:
        return utf8_continue(m, p, b);
    case SUB_ESC:
        return escape_step(m, p, b);
    case SUB_HEX:
        return hex_step(m, p, b);
    case SUB_LOW:
        return low_step(m, p, b);
    default:
        return 0;
    }
}

static uint32_t *row_of(Machine *m, uint32_t pos) {
    if (!m->lex_row[pos]) {
        if (m->n_rows == m->cap_rows) {
            uint32_t cap = m->cap_rows ? m->cap_rows * 2 : 64;
            uint32_t *rows = mem_resize_array(m->rows, cap, 256 * sizeof *rows);
            if (!rows) {
                machine_fail(m, ERR_NOMEM);
                return NULL;
            }
            m->rows = rows;
            m->cap_rows = cap;
        }
        for (int i = 0; i < 256; i++) m->rows[(size_t)m->n_rows * 256 + (size_t)i] = ROW_UNKNOWN;
        m->lex_row[pos] = ++m->n_rows;
    }
    return m->rows + (size_t)(m->lex_row[pos] - 1) * 256;
}

uint32_t lex_step(Machine *m, uint32_t pos, uint8_t byte) {
    uint32_t *row = row_of(m, pos);
    if (!row) return 0;
    if (row[byte] != ROW_UNKNOWN) return row[byte];
    uint32_t to = lex_compute(m, machine_pos(m, pos), byte);
    row = row_of(m, pos);
    if (row && !m->failed) row[byte] = to;
    return to;
}

int32_t lex_label(const Machine *m, const Pos *p) {
    const IrLexer *x = &m->ir->lexers[p->a];
    if (p->b >> 8 == SUB_END) return (int32_t)p->c;
    if (p->b >> 8 == SUB_CHAR && x->mode == LEX_RAW) return x->dfa->label[p->c];
    return -1;
}

static bool state_alive(uint32_t q, const uint8_t *region, const uint32_t *reach, uint32_t n_words,
                        const uint32_t *unused) {
    if (region[q]) return true;
    for (uint32_t i = 0; i < n_words; i++)
        if (reach[(size_t)q * n_words + i] & unused[i]) return true;
    return false;
}

bool lex_alive(const Machine *m, const Pos *p, const uint8_t *region, const uint32_t *reach,
               uint32_t n_words, const uint32_t *unused) {
    uint32_t sub = p->b >> 8;
    if (sub == SUB_END) return true; /* checked with its label by the caller */
    if (sub == SUB_CHAR || sub == SUB_OPEN || p->d == RANGE_SAME)
        return state_alive(p->c, region, reach, n_words, unused);
    const Dfa *d = m->ir->lexers[p->a].dfa;
    uint32_t lo = p->d, hi = p->e;
    if (sub == SUB_ESC) lo = 0, hi = SET_MAX_CP; /* \u spells anything */
    for (int part = 0; part < 2; part++) {
        for (uint32_t e = edge_from(d, p->c, lo); e < d->edge_at[p->c + 1] && d->edges[e].lo <= hi;
             e++)
            if (state_alive(d->edges[e].to, region, reach, n_words, unused)) return true;
        if (sub != SUB_HEX || p->d > 0xDBFF || p->e < 0xD800) return false;
        /* may still become a surrogate pair: what pairs that begin in the range can spell */
        uint32_t from = p->d > 0xD800 ? p->d : 0xD800, to = p->e < 0xDBFF ? p->e : 0xDBFF;
        lo = 0x10000 + ((from - 0xD800) << 10);
        hi = 0x10000 + ((to - 0xD800) << 10) + 0x3FF;
    }
    return false;
}
