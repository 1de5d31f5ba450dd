#include "cache/prefix.h"

#include <string.h>

#include "base/mem.h"

typedef struct Node {
    struct Node *parent, *child, *next; /* first child; next sibling (or next free node) */
    uint64_t key;                       /* roots: the key; below: unused */
    uint64_t last_used;
    uint32_t page;     /* PAGE_NONE for roots */
    uint32_t n_tokens; /* PAGE_TOKENS, or fewer in a leaf that ends a sequence */
    uint32_t tokens[PAGE_TOKENS];
} Node;

struct PrefixTree {
    PagePool *pool;
    Node *nodes, *free_nodes, *roots;
    uint32_t max_nodes, n_blocks;
    uint64_t clock;
};

PrefixTree *prefix_new(PagePool *pool, uint32_t max_nodes, Err *err) {
    PrefixTree *t = mem_calloc(1, sizeof *t);
    Node *nodes = mem_calloc(max_nodes, sizeof *nodes);
    if (!t || !nodes) {
        mem_free(t);
        mem_free(nodes);
        err_nomem(err, "prefix cache");
        return NULL;
    }
    *t = (PrefixTree){.pool = pool, .nodes = nodes, .max_nodes = max_nodes};
    for (uint32_t i = max_nodes; i-- > 0;) {
        nodes[i].next = t->free_nodes;
        t->free_nodes = &nodes[i];
    }
    return t;
}

void prefix_free(PrefixTree *t) {
    if (!t) return;
    prefix_clear(t);
    mem_free(t->nodes);
    mem_free(t);
}

uint32_t prefix_n_blocks(const PrefixTree *t) { return t->n_blocks; }

static void node_give(PrefixTree *t, Node *n) {
    if (n->page != PAGE_NONE) {
        pagepool_unref(t->pool, n->page);
        t->n_blocks--;
    }
    n->next = t->free_nodes;
    t->free_nodes = n;
}

static void node_unlink(PrefixTree *t, Node *n) {
    Node **at = n->parent ? &n->parent->child : &t->roots;
    while (*at != n) at = &(*at)->next;
    *at = n->next;
}

/* A leaf whose page nobody else holds (or a root without children), used longest ago. Nodes are
 * scanned: eviction is rare and nodes are few thousand. */
static Node *oldest_leaf(PrefixTree *t) {
    Node *best = NULL;
    for (uint32_t i = 0; i < t->max_nodes; i++) {
        Node *n = &t->nodes[i];
        if (!n->last_used || n->child || (n->page != PAGE_NONE && t->pool->refs[n->page] != 1))
            continue;
        if (!best || n->last_used < best->last_used) best = n;
    }
    return best;
}

uint32_t prefix_evict(PrefixTree *t, uint32_t want) {
    uint32_t n_given = 0;
    for (Node *n; n_given < want && (n = oldest_leaf(t)) != NULL;) {
        n_given += n->page != PAGE_NONE;
        node_unlink(t, n);
        n->last_used = 0;
        node_give(t, n);
    }
    return n_given;
}

static void clear_below(PrefixTree *t, Node *list) {
    /* Depth is a sequence's length over 64: walk with the parent links instead of the C stack. */
    for (Node *n = list; n;) {
        if (n->child) {
            n = n->child;
            continue;
        }
        Node *next = n->next ? n->next : n->parent;
        if (n->parent) n->parent->child = n->next;
        n->last_used = 0;
        node_give(t, n);
        n = next;
    }
}

void prefix_clear(PrefixTree *t) {
    clear_below(t, t->roots);
    t->roots = NULL;
}

static Node *node_new(PrefixTree *t, Node *parent) {
    if (!t->free_nodes) {
        /* A node for the new block is worth more than the oldest one. */
        Node *old = oldest_leaf(t);
        if (!old || old == parent) return NULL;
        node_unlink(t, old);
        old->last_used = 0;
        node_give(t, old);
    }
    Node *n = t->free_nodes, **list = parent ? &parent->child : &t->roots;
    t->free_nodes = n->next;
    *n = (Node){.parent = parent, .next = *list, .page = PAGE_NONE, .last_used = ++t->clock};
    *list = n;
    return n;
}

static Node *root_of(PrefixTree *t, uint64_t key, bool make) {
    for (Node *n = t->roots; n; n = n->next)
        if (n->key == key) return n;
    Node *n = make ? node_new(t, NULL) : NULL;
    if (n) n->key = key;
    return n;
}

static uint32_t common(const uint32_t *a, const uint32_t *b, uint32_t n) {
    uint32_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

/* The child that shares most with tokens[0..n), and how many. */
static Node *best_child(Node *parent, const uint32_t *tokens, uint32_t n, uint32_t *shared) {
    Node *best = NULL;
    *shared = 0;
    for (Node *c = parent->child; c; c = c->next) {
        uint32_t m = common(c->tokens, tokens, c->n_tokens < n ? c->n_tokens : n);
        if (m > *shared) best = c, *shared = m;
    }
    return best;
}

PrefixHit prefix_find(PrefixTree *t, uint64_t key, const uint32_t *tokens, uint32_t n,
                      uint32_t *pages) {
    PrefixHit hit = {.partial_page = PAGE_NONE};
    Node *at = root_of(t, key, false);
    while (at && hit.n_tokens < n) {
        uint32_t shared;
        Node *c = best_child(at, tokens + hit.n_tokens, n - hit.n_tokens, &shared);
        if (!c) break;
        c->last_used = ++t->clock;
        hit.n_tokens += shared;
        if (shared < PAGE_TOKENS) {
            hit.partial_page = c->page;
            hit.partial_tokens = shared;
            break;
        }
        pagepool_ref(t->pool, c->page);
        pages[hit.n_pages++] = c->page;
        at = c;
    }
    return hit;
}

static Node *block_store(PrefixTree *t, Node *parent, const uint32_t *tokens, uint32_t n,
                         uint32_t page) {
    uint32_t shared;
    Node *c = best_child(parent, tokens, n, &shared);
    if (c && shared == n && c->n_tokens >= n) {
        c->last_used = ++t->clock;
        return c;
    }
    if (c && shared == c->n_tokens) {
        /* A shorter leaf of the same text: the longer block takes its place. */
        pagepool_ref(t->pool, page);
        pagepool_unref(t->pool, c->page);
    } else {
        c = node_new(t, parent);
        if (!c) return NULL;
        pagepool_ref(t->pool, page);
        t->n_blocks++;
    }
    c->page = page;
    c->n_tokens = n;
    c->last_used = ++t->clock;
    memcpy(c->tokens, tokens, n * sizeof *tokens);
    return c;
}

void prefix_store(PrefixTree *t, uint64_t key, const uint32_t *tokens, uint32_t n,
                  const uint32_t *pages) {
    Node *at = root_of(t, key, true);
    for (uint32_t i = 0; at && i * PAGE_TOKENS < n; i++) {
        uint32_t left = n - i * PAGE_TOKENS;
        at = block_store(t, at, tokens + (size_t)i * PAGE_TOKENS,
                         left < PAGE_TOKENS ? left : PAGE_TOKENS, pages[i]);
        if (at && at->n_tokens < PAGE_TOKENS) break;
    }
}
