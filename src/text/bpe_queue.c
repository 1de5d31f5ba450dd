/* Merging long pieces. Positions wait in one list per rank; ranks wait in a small heap. A list
 * is opened when its rank is the lowest: copied out, sorted if need be, and walked left to
 * right. What arrives for a list already open goes to a second heap, ordered by rank and
 * position. Every step takes the lowest (rank, position) of all, as a single heap would, but a
 * million equal pairs cost a walk, not a million sifts. */
#include <string.h>

#include "text/bpe.h"

enum { NONE = 0xFFFFFFFF };

typedef struct Node {
    uint32_t pos, next;
} Node;

typedef struct Bucket {
    uint32_t rank;
    uint32_t head;  /* list of nodes, last pushed first */
    uint32_t n;     /* in the list */
    uint32_t *open; /* sorted positions being walked, or NULL */
    uint32_t at, end;
    bool waiting; /* in the heap of ranks */
} Bucket;

typedef struct Queue {
    Node *nodes;
    size_t n_nodes, cap_nodes;
    uint32_t free_node;
    Bucket *buckets;
    size_t n_buckets, cap_buckets;
    uint32_t *slots; /* rank -> bucket + 1 */
    size_t n_slots;
    uint64_t *ranks; /* heap: rank << 32 | bucket */
    size_t n_ranks, cap_ranks;
    uint64_t *late; /* heap: rank << 32 | position */
    size_t n_late, cap_late;
} Queue;

static void *grow(void *p, size_t n, size_t *cap, size_t size) {
    if (n < *cap) return p;
    size_t more = *cap ? *cap * 2 : 64;
    void *q = mem_resize_array(p, more, size);
    if (q) *cap = more;
    return q;
}

static void heap_put(uint64_t *h, size_t n, uint64_t key) {
    while (n > 0 && h[(n - 1) / 2] > key) {
        h[n] = h[(n - 1) / 2];
        n = (n - 1) / 2;
    }
    h[n] = key;
}

static void heap_drop(uint64_t *h, size_t n) { /* removes h[0]; n is the count before */
    uint64_t key = h[--n];
    size_t i = 0;
    for (size_t c = 1; c < n; c = 2 * i + 1) {
        if (c + 1 < n && h[c + 1] < h[c]) c++;
        if (h[c] >= key) break;
        h[i] = h[c];
        i = c;
    }
    h[i] = key;
}

static size_t slot_home(const Queue *q, uint32_t rank) {
    return (rank * 0x9E3779B1u) & (q->n_slots - 1);
}

static bool grow_slots(Queue *q) {
    size_t n = q->n_slots ? q->n_slots * 2 : 256;
    uint32_t *s = mem_calloc(n, sizeof *s);
    if (!s) return false;
    mem_free(q->slots);
    q->slots = s;
    q->n_slots = n;
    for (size_t b = 0; b < q->n_buckets; b++) {
        size_t i = slot_home(q, q->buckets[b].rank);
        while (s[i]) i = (i + 1) & (n - 1);
        s[i] = (uint32_t)b + 1;
    }
    return true;
}

static Bucket *bucket_of(Queue *q, uint32_t rank) { /* NULL: no memory */
    if (2 * (q->n_buckets + 1) > q->n_slots && !grow_slots(q)) return NULL;
    size_t i = slot_home(q, rank);
    for (; q->slots[i]; i = (i + 1) & (q->n_slots - 1))
        if (q->buckets[q->slots[i] - 1].rank == rank) return &q->buckets[q->slots[i] - 1];
    Bucket *b = grow(q->buckets, q->n_buckets, &q->cap_buckets, sizeof *b);
    if (!b) return NULL;
    q->buckets = b;
    b[q->n_buckets] = (Bucket){.rank = rank, .head = NONE};
    q->slots[i] = (uint32_t)++q->n_buckets;
    return &b[q->n_buckets - 1];
}

static bool push(Queue *q, uint32_t rank, uint32_t pos) {
    Bucket *b = bucket_of(q, rank);
    if (!b) return false;
    if (b->open) {
        uint64_t *late = grow(q->late, q->n_late, &q->cap_late, sizeof *late);
        if (!late) return false;
        q->late = late;
        heap_put(late, q->n_late++, (uint64_t)rank << 32 | pos);
        return true;
    }
    uint32_t node = q->free_node;
    if (node == NONE) {
        Node *nodes = grow(q->nodes, q->n_nodes, &q->cap_nodes, sizeof *nodes);
        if (!nodes) return false;
        q->nodes = nodes;
        node = (uint32_t)q->n_nodes++;
    } else {
        q->free_node = q->nodes[node].next;
    }
    q->nodes[node] = (Node){pos, b->head};
    b->head = node;
    b->n++;
    if (b->waiting) return true;
    uint64_t *ranks = grow(q->ranks, q->n_ranks, &q->cap_ranks, sizeof *ranks);
    if (!ranks) return false;
    q->ranks = ranks;
    heap_put(ranks, q->n_ranks++, (uint64_t)rank << 32 | (uint32_t)(b - q->buckets));
    b->waiting = true;
    return true;
}

/* Ascending; the list was filled mostly in order, so it is mostly sorted already. */
static bool sort_positions(uint32_t *p, uint32_t n) {
    uint32_t i = 1;
    while (i < n && p[i - 1] <= p[i]) i++;
    if (i >= n) return true;
    if (n <= 32) {
        for (i = 1; i < n; i++) {
            uint32_t x = p[i], j = i;
            for (; j > 0 && p[j - 1] > x; j--) p[j] = p[j - 1];
            p[j] = x;
        }
        return true;
    }
    uint32_t *tmp = mem_resize_array(NULL, n, sizeof *tmp);
    if (!tmp) return false;
    uint32_t *from = p, *to = tmp;
    for (int shift = 0; shift < 32; shift += 8) {
        uint32_t start[257] = {0};
        for (i = 0; i < n; i++) start[(from[i] >> shift & 255) + 1]++;
        for (i = 1; i < 257; i++) start[i] += start[i - 1];
        for (i = 0; i < n; i++) to[start[from[i] >> shift & 255]++] = from[i];
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    mem_free(tmp);
    return true;
}

static bool open_bucket(Queue *q, Bucket *b) {
    b->open = mem_resize_array(NULL, b->n, sizeof *b->open);
    if (!b->open) return false;
    uint32_t i = b->n;
    b->at = 0;
    b->end = b->n;
    while (b->head != NONE) {
        uint32_t node = b->head;
        b->open[--i] = q->nodes[node].pos;
        b->head = q->nodes[node].next;
        q->nodes[node].next = q->free_node;
        q->free_node = node;
    }
    b->n = 0;
    return sort_positions(b->open, b->end);
}

/* The lowest (rank, position), taken out. 1: found, 0: none left, -1: no memory. */
static int pop(Queue *q, uint32_t *rank, uint32_t *pos) {
    for (;;) {
        Bucket *b = q->n_ranks ? &q->buckets[(uint32_t)q->ranks[0]] : NULL;
        if (b && !b->open && !open_bucket(q, b)) return -1;
        if (b && b->at == b->end) {
            mem_free(b->open);
            b->open = NULL;
            b->waiting = false;
            heap_drop(q->ranks, q->n_ranks--);
            continue;
        }
        uint64_t key = b ? (uint64_t)b->rank << 32 | b->open[b->at] : UINT64_MAX;
        if (q->n_late && q->late[0] < key) {
            key = q->late[0];
            heap_drop(q->late, q->n_late--);
        } else if (b) {
            b->at++;
        } else {
            return 0;
        }
        *rank = (uint32_t)(key >> 32);
        *pos = (uint32_t)key;
        return 1;
    }
}

static void queue_deinit(Queue *q) {
    for (size_t i = 0; i < q->n_buckets; i++) mem_free(q->buckets[i].open);
    mem_free(q->nodes);
    mem_free(q->buckets);
    mem_free(q->slots);
    mem_free(q->ranks);
    mem_free(q->late);
}

static bool push_pair(const Bpe *b, Queue *q, const uint32_t *ids, uint32_t left, uint32_t right) {
    const BpeMerge *m = bpe_find(b, ids[left], ids[right]);
    return !m || push(q, m->rank, left);
}

bool bpe_merge_long(const Bpe *b, uint32_t *ids, size_t *n_ids, Err *err) {
    size_t n = *n_ids;
    Queue q = {.free_node = NONE};
    bool ok = false;
    /* Links between living symbols; a symbol merged into its left neighbour has next == its own
     * index. */
    uint32_t *next = mem_resize_array(NULL, n, 2 * sizeof *next), *prev = next ? next + n : NULL;
    if (!next || n >= NONE) goto done;
    for (size_t i = 0; i < n; i++) {
        next[i] = i + 1 < n ? (uint32_t)i + 1 : NONE;
        prev[i] = i > 0 ? (uint32_t)i - 1 : NONE;
        if (i + 1 < n && !push_pair(b, &q, ids, (uint32_t)i, (uint32_t)i + 1)) goto done;
    }
    uint32_t rank, pos;
    int got;
    while ((got = pop(&q, &rank, &pos)) > 0) {
        uint32_t right = next[pos];
        if (right == NONE || right == pos) continue;
        const BpeMerge *m = bpe_find(b, ids[pos], ids[right]);
        if (!m || m->rank != rank) continue; /* the pair that waited here is gone */
        ids[pos] = m->id;
        next[pos] = next[right];
        next[right] = right;
        if (next[pos] != NONE) prev[next[pos]] = pos;
        if (prev[pos] != NONE && !push_pair(b, &q, ids, prev[pos], pos)) goto done;
        if (next[pos] != NONE && !push_pair(b, &q, ids, pos, next[pos])) goto done;
    }
    if (got < 0) goto done;
    size_t kept = 0;
    for (uint32_t i = 0; i != NONE; i = next[i]) ids[kept++] = ids[i];
    *n_ids = kept;
    ok = true;
done:
    queue_deinit(&q);
    mem_free(next);
    return ok || err_nomem(err, "tokens of a long text");
}
