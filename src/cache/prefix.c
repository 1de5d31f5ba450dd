#include "cache/prefix.h"

#include <string.h>

#include "base/mem.h"

enum { NODE_MARKS = 4 };

typedef struct Node {
    struct Node *parent, *child, *next; /* first child; next sibling (or next free node) */
    uint64_t key;                       /* roots: the key; below: unused */
    uint64_t last_used;                 /* 0: a free node */
    bool root;
    uint32_t depth;                       /* tokens before this block */
    uint32_t page[PLANE_MAX_GROUPS];      /* PAGE_NONE: a window left it behind */
    uint32_t page_rows[PLANE_MAX_GROUPS]; /* rows of the block that it holds */
    StateMark mark[NODE_MARKS];           /* slot PAGE_NONE: free; n_tokens counts from the block */
    uint32_t n_tokens;                    /* PAGE_TOKENS, or fewer in a leaf that ends a sequence */
    uint32_t tokens[PAGE_TOKENS];
} Node;

struct PrefixTree {
    CachePools *pools;
    Node *nodes, *free_nodes, *roots;
    uint32_t max_nodes, n_blocks;
    uint64_t clock;
};

PrefixTree *prefix_new(CachePools *pools, uint32_t max_nodes, Err *err) {
    PrefixTree *t = mem_calloc(1, sizeof *t);
    Node *nodes = mem_calloc(max_nodes, sizeof *nodes);
    if (!t || !nodes) {
        mem_free(t);
        mem_free(nodes);
        err_nomem(err, "prefix cache");
        return NULL;
    }
    *t = (PrefixTree){.pools = pools, .nodes = nodes, .max_nodes = max_nodes};
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

static void page_drop(PrefixTree *t, Node *n, uint32_t group) {
    if (n->page[group] != PAGE_NONE) pagepool_unref(&t->pools->pages[group], n->page[group]);
    n->page[group] = PAGE_NONE;
}

static void mark_drop(PrefixTree *t, StateMark *m) {
    if (m->slot != PAGE_NONE) pagepool_unref(&t->pools->states, m->slot);
    m->slot = PAGE_NONE;
}

static void node_give(PrefixTree *t, Node *n) {
    for (uint32_t g = 0; g < t->pools->n_groups; g++) page_drop(t, n, g);
    for (int i = 0; i < NODE_MARKS; i++) mark_drop(t, &n->mark[i]);
    if (!n->root) t->n_blocks--;
    n->last_used = 0;
    n->next = t->free_nodes;
    t->free_nodes = n;
}

static void node_unlink(PrefixTree *t, Node *n) {
    Node **at = n->parent ? &n->parent->child : &t->roots;
    while (*at != n) at = &(*at)->next;
    *at = n->next;
}

/* Whether somebody else holds one of the block's pages. */
static bool in_use(const PrefixTree *t, const Node *n) {
    for (uint32_t g = 0; g < t->pools->n_groups; g++)
        if (n->page[g] != PAGE_NONE && t->pools->pages[g].refs[n->page[g]] != 1) return true;
    return false;
}

/* A leaf whose pages nobody else holds (or a root without children), used longest ago. Nodes are
 * scanned: eviction is rare and nodes are few thousand. */
static Node *oldest_leaf(PrefixTree *t) {
    Node *best = NULL;
    for (uint32_t i = 0; i < t->max_nodes; i++) {
        Node *n = &t->nodes[i];
        if (!n->last_used || n->child || in_use(t, n)) continue;
        if (!best || n->last_used < best->last_used) best = n;
    }
    return best;
}

/* The block used longest ago that alone holds a page of the group. */
static Node *oldest_page(PrefixTree *t, uint32_t group) {
    Node *best = NULL;
    for (uint32_t i = 0; i < t->max_nodes; i++) {
        Node *n = &t->nodes[i];
        if (!n->last_used || n->page[group] == PAGE_NONE ||
            t->pools->pages[group].refs[n->page[group]] != 1)
            continue;
        if (!best || n->last_used < best->last_used) best = n;
    }
    return best;
}

static void leaf_remove(PrefixTree *t, Node *n) {
    node_unlink(t, n);
    node_give(t, n);
}

bool prefix_evict_page(PrefixTree *t, uint32_t group) {
    uint32_t had = t->pools->pages[group].n_free;
    if (t->pools->group[group].keep != KEEP_ALL) {
        Node *n = oldest_page(t, group);
        if (n) page_drop(t, n, group);
        return n != NULL;
    }
    for (Node *n; t->pools->pages[group].n_free == had && (n = oldest_leaf(t)) != NULL;)
        leaf_remove(t, n);
    return t->pools->pages[group].n_free > had;
}

bool prefix_evict_state(PrefixTree *t) {
    StateMark *best = NULL;
    uint64_t used = UINT64_MAX;
    for (uint32_t i = 0; i < t->max_nodes; i++)
        for (int k = 0; k < NODE_MARKS; k++) {
            Node *n = &t->nodes[i];
            if (!n->last_used || n->last_used >= used || n->mark[k].slot == PAGE_NONE ||
                t->pools->states.refs[n->mark[k].slot] != 1)
                continue;
            best = &n->mark[k];
            used = n->last_used;
        }
    if (best) mark_drop(t, best);
    return best != NULL;
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
        leaf_remove(t, old);
    }
    Node *n = t->free_nodes, **list = parent ? &parent->child : &t->roots;
    t->free_nodes = n->next;
    *n = (Node){.parent = parent, .next = *list, .root = !parent, .last_used = ++t->clock};
    if (parent) n->depth = parent->depth + parent->n_tokens;
    for (uint32_t g = 0; g < PLANE_MAX_GROUPS; g++) n->page[g] = PAGE_NONE;
    for (int i = 0; i < NODE_MARKS; i++) n->mark[i].slot = PAGE_NONE;
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

/* Whether a sequence that ends n tokens into the block finds all that it may still read: the row
 * at that slot reads the farthest back. */
static bool windows_there(const PrefixTree *t, const Node *n, uint32_t n_tokens) {
    for (uint32_t g = 0; g < t->pools->n_groups; g++) {
        uint32_t first = cachepools_first_read(t->pools, g, n->depth + n_tokens);
        for (const Node *at = n; !at->root && at->depth + PAGE_TOKENS > first; at = at->parent)
            if (at->page[g] == PAGE_NONE || at->page_rows[g] < (at == n ? n_tokens : PAGE_TOKENS))
                return false;
    }
    return true;
}

/* The longest adoptable prefix that ends in the block, at most n tokens into it. */
static bool ends_in(const PrefixTree *t, const Node *node, uint32_t n, PrefixHit *hit) {
    uint32_t best = 0, state = PAGE_NONE;
    for (int i = 0; t->pools->recurrent && i < NODE_MARKS; i++) {
        const StateMark *m = &node->mark[i];
        if (m->slot == PAGE_NONE || m->n_tokens > n || m->n_tokens <= best) continue;
        if (!windows_there(t, node, m->n_tokens)) continue;
        best = m->n_tokens;
        state = m->slot;
    }
    if (!t->pools->recurrent && windows_there(t, node, n)) best = n;
    if (best) *hit = (PrefixHit){node->depth + best, state, node};
    return best > 0;
}

PrefixHit prefix_find(PrefixTree *t, uint64_t key, const uint32_t *tokens, uint32_t n) {
    PrefixHit hit = {0};
    Node *at = root_of(t, key, false);
    uint32_t found = 0, last = 0;
    while (at && found < n) {
        uint32_t shared;
        Node *c = best_child(at, tokens + found, n - found, &shared);
        if (!c) break;
        c->last_used = ++t->clock;
        found += shared;
        last = shared;
        at = c;
        if (shared < PAGE_TOKENS) break;
    }
    for (; at && !at->root; at = at->parent, last = PAGE_TOKENS)
        if (ends_in(t, at, last, &hit)) break;
    return hit;
}

void prefix_pages(const PrefixHit *hit, uint32_t group, uint32_t *pages) {
    for (const Node *n = hit->block; n && !n->root; n = n->parent)
        pages[n->depth / PAGE_TOKENS] = n->page[group];
}

/* The block takes a page of n rows where it has none or one of fewer. */
static void page_keep(PrefixTree *t, Node *b, uint32_t group, uint32_t page, uint32_t n) {
    if (page == PAGE_NONE || b->page[group] == page) return;
    if (b->page[group] != PAGE_NONE && b->page_rows[group] >= n) return;
    pagepool_ref(&t->pools->pages[group], page);
    page_drop(t, b, group);
    b->page[group] = page;
    b->page_rows[group] = n;
}

static Node *block_store(PrefixTree *t, Node *parent, const uint32_t *tokens, uint32_t n,
                         uint32_t *const *pages, uint32_t i) {
    uint32_t shared;
    Node *c = best_child(parent, tokens, n, &shared);
    bool shorter_leaf = c && shared == c->n_tokens && n > c->n_tokens;
    if (!shorter_leaf && (!c || shared < n)) {
        c = node_new(t, parent);
        if (!c) return NULL;
        t->n_blocks++;
    }
    for (uint32_t g = 0; g < t->pools->n_groups; g++) page_keep(t, c, g, pages[g][i], n);
    if (n > c->n_tokens) { /* new, or the longer block takes the shorter one's place */
        c->n_tokens = n;
        memcpy(c->tokens, tokens, n * sizeof *tokens);
    }
    c->last_used = ++t->clock;
    return c;
}

/* An empty place, or the one of the shortest prefix, which a later one can stand in for least. */
static void mark_keep(PrefixTree *t, Node *n, uint32_t n_tokens, uint32_t slot) {
    StateMark *place = NULL;
    for (int i = 0; i < NODE_MARKS; i++) {
        StateMark *m = &n->mark[i];
        if (m->slot != PAGE_NONE && m->n_tokens == n_tokens) return;
        if (!place ||
            (place->slot != PAGE_NONE && (m->slot == PAGE_NONE || m->n_tokens < place->n_tokens)))
            place = m;
    }
    pagepool_ref(&t->pools->states, slot);
    mark_drop(t, place);
    *place = (StateMark){n_tokens, slot};
}

void prefix_store(PrefixTree *t, uint64_t key, const uint32_t *tokens, uint32_t n,
                  uint32_t *const *pages, const StateMark *marks, uint32_t n_marks) {
    Node *at = root_of(t, key, true);
    for (uint32_t i = 0, m = 0; at && i * PAGE_TOKENS < n; i++) {
        uint32_t left = n - i * PAGE_TOKENS;
        at = block_store(t, at, tokens + (size_t)i * PAGE_TOKENS,
                         left < PAGE_TOKENS ? left : PAGE_TOKENS, pages, i);
        for (; at && m < n_marks && marks[m].n_tokens <= at->depth + PAGE_TOKENS; m++)
            if (marks[m].n_tokens > at->depth)
                mark_keep(t, at, marks[m].n_tokens - at->depth, marks[m].slot);
        if (at && at->n_tokens < PAGE_TOKENS) break;
    }
}
