#include "text/added.h"

#include <stdlib.h>

#include "base/unicode.h"
#include "base/utf8.h"
#include "text/char_class.h"

bool added_push(Added *a, AddedToken t, Err *err) {
    uint64_t at;
    if (map_get(&a->by_text, t.text, &at)) {
        t.special = t.special || a->tokens[at].special; /* once special, always special */
        a->tokens[at] = t;
        return true;
    }
    if (a->n == a->cap) {
        size_t cap = a->cap ? a->cap * 2 : 16;
        AddedToken *p = mem_resize_array(a->tokens, cap, sizeof *p);
        if (!p) return err_nomem(err, "added tokens");
        a->tokens = p;
        a->cap = cap;
    }
    a->tokens[a->n++] = t;
    return map_put(&a->by_text, t.text, a->n - 1) || err_nomem(err, "added tokens");
}

typedef enum Pass { PASS_PLAIN, PASS_NORMALIZED, PASS_SPELLED } Pass;

static bool takes_part(const AddedToken *t, Pass pass) {
    if (pass == PASS_PLAIN) return !t->normalized && t->pattern.n > 0;
    return t->normalized &&
           (pass == PASS_NORMALIZED ? t->pattern.n > 0 : t->special && t->text.n > 0);
}

static bool build(Added *a, Pass pass, Trie *trie, bool *any, Err *err) {
    Str *keys = mem_resize_array(NULL, a->n ? a->n : 1, sizeof *keys);
    uint32_t *values = mem_resize_array(NULL, a->n ? a->n : 1, sizeof *values);
    bool ok = keys && values;
    size_t n = 0;
    for (size_t i = 0; ok && i < a->n; i++) {
        if (!takes_part(&a->tokens[i], pass)) continue;
        keys[n] = pass == PASS_SPELLED ? a->tokens[i].text : a->tokens[i].pattern;
        values[n++] = (uint32_t)i;
    }
    *any = n > 0;
    ok = ok ? trie_build(trie, keys, values, n, err) : err_nomem(err, "added tokens");
    mem_free(keys);
    mem_free(values);
    return ok;
}

typedef struct IdIndex {
    uint32_t id, index;
} IdIndex;

static int compare_ids(const void *x, const void *y) {
    const IdIndex *a = x, *b = y;
    return a->id != b->id ? (a->id < b->id ? -1 : 1)
                          : (a->index < b->index ? -1 : a->index > b->index);
}

bool added_finish(Added *a, Err *err) {
    IdIndex *sorted = mem_resize_array(NULL, a->n ? a->n : 1, sizeof *sorted);
    a->by_id = mem_resize_array(NULL, a->n ? a->n : 1, sizeof *a->by_id);
    bool ok = sorted && a->by_id;
    for (size_t i = 0; ok && i < a->n; i++) sorted[i] = (IdIndex){a->tokens[i].id, (uint32_t)i};
    if (ok) qsort(sorted, a->n, sizeof *sorted, compare_ids);
    for (size_t i = 0; ok && i < a->n; i++) a->by_id[i] = sorted[i].index;
    mem_free(sorted);
    if (!ok) return err_nomem(err, "added tokens");
    return build(a, PASS_PLAIN, &a->plain, &a->has_plain, err) &&
           build(a, PASS_NORMALIZED, &a->normalized, &a->has_normalized, err) &&
           build(a, PASS_SPELLED, &a->spelled, &a->has_normalized_special, err);
}

void added_deinit(Added *a) {
    mem_free(a->tokens);
    mem_free(a->by_id);
    map_deinit(&a->by_text);
    trie_deinit(&a->plain);
    trie_deinit(&a->normalized);
    trie_deinit(&a->spelled);
    *a = (Added){0};
}

const AddedToken *added_by_id(const Added *a, uint32_t id) {
    size_t lo = 0, n = a->by_id ? a->n : 0;
    while (n > 0) { /* the last of equal ids */
        size_t half = n / 2;
        if (a->tokens[a->by_id[lo + half]].id <= id) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return lo > 0 && a->tokens[a->by_id[lo - 1]].id == id ? &a->tokens[a->by_id[lo - 1]] : NULL;
}

void segments_deinit(SegmentList *l) {
    mem_free(l->p);
    *l = (SegmentList){0};
}

static void push_segment(SegmentList *l, size_t from, size_t to, uint32_t id) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 32;
        Segment *p = mem_resize_array(l->p, cap, sizeof *p);
        if (!p) {
            l->failed = true;
            return;
        }
        l->p = p;
        l->cap = cap;
    }
    l->p[l->n++] = (Segment){(uint32_t)from, (uint32_t)to, id};
}

static size_t previous_char(Str s, size_t at) {
    do at--;
    while (at > 0 && ((unsigned char)s.p[at] & 0xC0) == 0x80);
    return at;
}

static bool word_before(Str s, size_t at) {
    uint32_t len;
    return at > 0 && charclass_is_word(utf8_fast(s.p + previous_char(s, at), &len));
}

static bool word_after(Str s, size_t at) {
    uint32_t len;
    return at < s.n && charclass_is_word(utf8_fast(s.p + at, &len));
}

static size_t space_before(Str s, size_t at, size_t limit) {
    while (at > limit) {
        size_t i = previous_char(s, at);
        uint32_t len;
        if (i < limit || !unicode_is_space(utf8_fast(s.p + i, &len))) break;
        at = i;
    }
    return at;
}

static size_t space_after(Str s, size_t at) {
    while (at < s.n) {
        uint32_t len;
        if (!unicode_is_space(utf8_fast(s.p + at, &len))) break;
        at += len;
    }
    return at;
}

typedef struct Origins { /* a cursor: positions are asked for in ascending order */
    const TextOrigin *p;
    size_t n, i;
} Origins;

/* 1: from..to was written by the template alone, 0: by the user alone, -1: by both. */
static int origin_of(Origins *o, size_t from, size_t to) {
    while (o->i + 1 < o->n && o->p[o->i].to <= from) o->i++;
    bool parse = o->p[o->i].parse_special;
    for (size_t i = o->i; i + 1 < o->n && o->p[i].to < to; i++)
        if (o->p[i + 1].parse_special != parse && o->p[i + 1].to > o->p[i].to) return -1;
    return parse;
}

typedef enum Verdict {
    TAKE,
    PASS_OVER,
    NO
} Verdict; /* PASS_OVER: it is text, and nothing inside it is looked for */

static Verdict judge(const AddedToken *t, Origins *o, size_t from, size_t to, bool specials_only) {
    if (!t->special) return specials_only ? NO : TAKE;
    int who = origin_of(o, from, to);
    if (who == 1) return TAKE;
    return who == 0 && !specials_only ? PASS_OVER : NO;
}

/* The longest token at `at` that may count. One whose bytes are no whole characters must not cut a
 * character of the text in two: what reads the rest relies on them. */
static const AddedToken *match_at(const Added *a, const Trie *trie, Str s, size_t at, Origins *o,
                                  bool specials_only, size_t *end, Verdict *verdict) {
    const AddedToken *best = NULL;
    uint32_t node = TRIE_ROOT;
    for (size_t i = at; i < s.n && utf8_begins(s, at); i++) {
        node = trie_step(trie, node, s.p[i]);
        if (node == TRIE_NONE) break;
        uint32_t value = trie->nodes[node].value;
        if (value == TRIE_NONE || !utf8_begins(s, i + 1)) continue;
        Verdict v = judge(&a->tokens[value], o, at, i + 1, specials_only);
        if (v == NO) continue;
        best = &a->tokens[value];
        *verdict = v;
        *end = i + 1;
    }
    return best;
}

void added_split(const Added *a, bool normalized, Str s, const TextOrigin *origins,
                 size_t n_origins, bool specials_only, SegmentList *out) {
    const Trie *trie = specials_only ? &a->spelled : normalized ? &a->normalized : &a->plain;
    Origins o = {origins, n_origins, 0};
    size_t done = 0;
    if (normalized ? !a->has_normalized : !a->has_plain) {
        if (s.n) push_segment(out, 0, s.n, TOK_NONE);
        return;
    }
    for (size_t at = 0; at < s.n;) {
        if (trie->root[(unsigned char)s.p[at]] == TRIE_NONE) {
            at++;
            continue;
        }
        size_t stop = 0;
        Verdict verdict = NO;
        const AddedToken *t = match_at(a, trie, s, at, &o, specials_only, &stop, &verdict);
        if (!t) {
            at++;
            continue;
        }
        size_t start = at;
        at = stop;
        if (verdict == PASS_OVER) continue;
        if (t->single_word && (word_before(s, start) || word_after(s, stop))) continue;
        if (t->lstrip) start = done < start ? space_before(s, start, done) : done;
        if (t->rstrip) stop = space_after(s, stop);
        if (done < start) push_segment(out, done, start, TOK_NONE);
        if (start < stop)
            push_segment(out, start, stop,
                         t->id); /* nothing may be left of it: a token before took it all */
        done = stop;
    }
    if (done < s.n) push_segment(out, done, s.n, TOK_NONE);
}
