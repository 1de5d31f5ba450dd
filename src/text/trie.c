#include "text/trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

typedef struct Key {
    Str text;
    uint32_t value;
    uint32_t order; /* place in the caller's list */
} Key;

/* Sorts by bytes with a three-way radix quicksort: common prefixes are looked at once per level,
 * not per comparison. */
static inline int byte_at(const Key *k, size_t depth) {
    return depth < k->text.n ? (unsigned char)k->text.p[depth] : -1;
}

static int compare_order(const void *a, const void *b) {
    const Key *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void swap_keys(Key *a, Key *b) {
    Key t = *a;
    *a = *b;
    *b = t;
}

typedef struct Range {
    size_t from, n, depth;
} Range;

/* An explicit stack: a part is pushed only if it holds two keys or more, so the stack never
 * exceeds the number of keys. */
static bool sort_keys(Key *keys, size_t n) {
    size_t n_stack = 0, cap = n / 2 + 16;
    Range *stack = mem_alloc(cap * sizeof *stack);
    if (!stack) return false;
    if (n > 1) stack[n_stack++] = (Range){0, n, 0};
    while (n_stack > 0) {
        Range r = stack[--n_stack];
        Key *k = keys + r.from;
        int pivot = byte_at(&k[r.n / 2], r.depth);
        size_t lt = 0, i = 0, gt = r.n;
        while (i < gt) {
            int b = byte_at(&k[i], r.depth);
            if (b < pivot)
                swap_keys(&k[lt++], &k[i++]);
            else if (b > pivot)
                swap_keys(&k[i], &k[--gt]);
            else
                i++;
        }
        if (lt > 1) stack[n_stack++] = (Range){r.from, lt, r.depth};
        if (r.n - gt > 1) stack[n_stack++] = (Range){r.from + gt, r.n - gt, r.depth};
        if (gt - lt > 1) {
            if (pivot >= 0)
                stack[n_stack++] = (Range){r.from + lt, gt - lt, r.depth + 1};
            else
                qsort(k + lt, gt - lt, sizeof *k, compare_order); /* equal keys */
        }
    }
    mem_free(stack);
    return true;
}

static bool push_node(Trie *t, uint8_t label) {
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 256;
        if (cap > UINT32_MAX / 2) return false;
        TrieNode *p = mem_resize_array(t->nodes, cap, sizeof *p);
        if (!p) return false;
        t->nodes = p;
        t->cap = cap;
    }
    t->nodes[t->n++] = (TrieNode){.value = TRIE_NONE, .label = label};
    return true;
}

typedef struct Span { /* the sorted keys below a node */
    uint32_t from, to;
} Span;

typedef struct SpanList {
    Span *p;
    size_t n, cap;
} SpanList;

static bool push_span(SpanList *l, Span s) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 256;
        Span *p = mem_resize_array(l->p, cap, sizeof *p);
        if (!p) return false;
        l->p = p;
        l->cap = cap;
    }
    l->p[l->n++] = s;
    return true;
}

/* Breadth first: the spans of one level are walked while the next level's are collected. */
static bool add_levels(Trie *t, const Key *keys, size_t n) {
    SpanList now = {0}, next = {0};
    bool ok = push_node(t, 0) && push_span(&now, (Span){0, (uint32_t)n});
    size_t base = 0; /* node of now.p[0] */
    for (size_t depth = 0; ok && now.n > 0; depth++) {
        size_t next_base = t->n;
        next.n = 0;
        for (size_t s = 0; ok && s < now.n; s++) {
            TrieNode *node = &t->nodes[base + s];
            uint32_t i = now.p[s].from, end = now.p[s].to;
            for (; i < end && keys[i].text.n == depth; i++) node->value = keys[i].value;
            node->first = (uint32_t)t->n;
            uint16_t n_children = 0;
            while (ok && i < end) {
                uint8_t label = (uint8_t)keys[i].text.p[depth];
                uint32_t j = i + 1;
                while (j < end && (uint8_t)keys[j].text.p[depth] == label) j++;
                ok = push_node(t, label) && push_span(&next, (Span){i, j});
                n_children++;
                i = j;
            }
            t->nodes[base + s].n = n_children;
        }
        SpanList swap = now;
        now = next;
        next = swap;
        base = next_base;
    }
    mem_free(now.p);
    mem_free(next.p);
    return ok;
}

bool trie_build(Trie *t, const Str *keys, const uint32_t *values, size_t n, Err *err) {
    memset(t, 0, sizeof *t);
    Key *sorted = mem_resize_array(NULL, n ? n : 1, sizeof *sorted);
    if (!sorted || n >= UINT32_MAX) {
        mem_free(sorted);
        return err_nomem(err, "trie");
    }
    for (size_t i = 0; i < n; i++) sorted[i] = (Key){keys[i], values[i], (uint32_t)i};
    bool ok = sort_keys(sorted, n) && add_levels(t, sorted, n);
    mem_free(sorted);
    if (!ok) {
        trie_deinit(t);
        return err_nomem(err, "trie");
    }
    for (int b = 0; b < 256; b++) t->root[b] = TRIE_NONE;
    for (uint32_t i = 0; i < t->nodes[TRIE_ROOT].n; i++) {
        uint32_t child = t->nodes[TRIE_ROOT].first + i;
        t->root[t->nodes[child].label] = child;
    }
    return true;
}

void trie_deinit(Trie *t) {
    mem_free(t->nodes);
    t->nodes = NULL;
    t->n = t->cap = 0;
}

uint32_t trie_longest(const Trie *t, Str s, size_t *len) {
    uint32_t best = TRIE_NONE, node = TRIE_ROOT;
    for (size_t i = 0; i < s.n; i++) {
        node = trie_step(t, node, s.p[i]);
        if (node == TRIE_NONE) break;
        if (t->nodes[node].value != TRIE_NONE) {
            best = t->nodes[node].value;
            *len = i + 1;
        }
    }
    return best;
}
