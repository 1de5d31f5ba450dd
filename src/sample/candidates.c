#include "sample/candidates.h"

#include <string.h>

#include "base/mem.h"

enum { LANES = 16, BLOCK = 64, SCAN_BLOCK = 4096, WORK_VOCAB_MAX = 1 << 24 };
enum { TOP_K_HEAP = 256 }; /* above it the radix walk is cheaper */

bool sample_work_init(SampleWork *w, uint32_t n_vocab, Err *err) {
    *w = (SampleWork){0};
    if (n_vocab == 0 || n_vocab > WORK_VOCAB_MAX)
        return err_set(err, ERR_LIMIT, "vocabulary of %u tokens, 1 to %d are accepted", n_vocab,
                       WORK_VOCAB_MAX);
    w->n_vocab = n_vocab;
    w->edited = mem_calloc(n_vocab, sizeof(float));
    w->logit = mem_calloc(n_vocab, sizeof(float));
    w->id = mem_calloc(n_vocab, sizeof(uint32_t));
    w->weight = mem_calloc(n_vocab, sizeof(float));
    w->score = mem_calloc(n_vocab, sizeof(float));
    w->count = mem_calloc(n_vocab, sizeof(uint32_t));
    w->touched = mem_calloc(n_vocab, sizeof(uint32_t));
    w->bin = mem_calloc(CANDS_BINS, sizeof(double));
    if (w->edited && w->logit && w->id && w->weight && w->score && w->count && w->touched && w->bin)
        return true;
    sample_work_deinit(w);
    return err_nomem(err, "sampling buffers");
}

void sample_work_deinit(SampleWork *w) {
    mem_free(w->edited);
    mem_free(w->logit);
    mem_free(w->id);
    mem_free(w->weight);
    mem_free(w->score);
    mem_free(w->count);
    mem_free(w->touched);
    mem_free(w->bin);
    *w = (SampleWork){0};
}

/* ---- scanning: vectors of four, which every machine has; several at a time to hide the latency of
 * each ---- */

typedef float Floats __attribute__((vector_size(16)));
typedef int32_t Ints __attribute__((vector_size(16)));
typedef uint32_t Unsigned __attribute__((vector_size(16)));

static inline Floats load(const float *x) {
    Floats v;
    memcpy(&v, x, sizeof v);
    return v;
}

static inline bool any(Ints mask) {
    uint64_t half[2];
    memcpy(half, &mask, sizeof half);
    return (half[0] | half[1]) != 0;
}

static inline Floats larger(Floats a, Floats b) {
    Ints more = a > b;
    return (Floats)((more & (Ints)a) | (~more & (Ints)b));
}

/* Sets lanes that are NaN or +inf. With 0x00800000 added to the bits these, and -inf as 0, are the
 * ones without exponent. */
static inline Ints bad_lanes(Floats v) {
    Ints sum = (Ints)((Unsigned)v + 0x00800000u); /* wraps, so unsigned */
    return ((sum & 0x7F800000) == 0) & (sum != 0);
}

/* Largest of a run; *bad if a value is NaN or +inf. */
static float run_max(const float *x, size_t n, bool *bad) {
    const Floats least = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    Floats m0 = least, m1 = least, m2 = least, m3 = least;
    Ints wrong = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        Floats v0 = load(x + i), v1 = load(x + i + 4), v2 = load(x + i + 8), v3 = load(x + i + 12);
        m0 = larger(v0, m0);
        m1 = larger(v1, m1);
        m2 = larger(v2, m2);
        m3 = larger(v3, m3);
        wrong |= bad_lanes(v0) | bad_lanes(v1) | bad_lanes(v2) | bad_lanes(v3);
    }
    for (; i < n; i++) {
        Floats v = {x[i], -INFINITY, -INFINITY, -INFINITY};
        m0 = larger(v, m0);
        wrong |= bad_lanes(v);
    }
    m0 = larger(larger(m0, m1), larger(m2, m3));
    float most = m0[0];
    for (int j = 1; j < 4; j++) most = m0[j] > most ? m0[j] : most;
    *bad = any(wrong);
    return most;
}

/* Whether one of BLOCK values is at least least (or, if above, greater). */
static inline bool block_reaches(const float *x, float least, bool above) {
    const Floats edge = {least, least, least, least};
    Ints hit = {0};
    for (int i = 0; i < BLOCK; i += 4) hit |= above ? load(x + i) > edge : load(x + i) >= edge;
    return any(hit);
}

bool cands_scan(const float *logit, size_t n, float *max, uint32_t *at) {
    *max = -INFINITY;
    *at = 0;
    size_t best = 0;
    for (size_t i = 0; i < n; i += SCAN_BLOCK) {
        size_t len = n - i < SCAN_BLOCK ? n - i : SCAN_BLOCK;
        bool bad;
        float m = run_max(logit + i, len, &bad);
        if (bad) {
            while (!isnan(logit[i]) && logit[i] != INFINITY) i++;
            *at = (uint32_t)i;
            return false;
        }
        if (m > *max) {
            *max = m;
            best = i;
        }
    }
    while (best < n && logit[best] != *max) best++;
    *at = (uint32_t)(best < n ? best : 0);
    return true;
}

Cands cands_over(const float *logit, size_t n, float max) {
    return (Cands){.logit = logit, .id = NULL, .n = n, .max = max};
}

/* ---- compaction: entries move towards the front of the work arrays, order kept ---- */

static void take(Cands *c, SampleWork *w, size_t from, size_t to) {
    w->logit[to] = c->logit[from];
    w->id[to] = cands_id(c, from);
}

static void become(Cands *c, SampleWork *w, size_t n) {
    c->logit = w->logit;
    c->id = w->id;
    c->n = n;
}

void cands_above(Cands *c, SampleWork *w, float least) {
    size_t n = 0, i = 0;
    for (; i + BLOCK <= c->n; i += BLOCK) {
        if (!block_reaches(c->logit + i, least, false)) continue;
        for (size_t j = i; j < i + BLOCK; j++)
            if (c->logit[j] >= least && c->logit[j] > -INFINITY) take(c, w, j, n++);
    }
    for (; i < c->n; i++)
        if (c->logit[i] >= least && c->logit[i] > -INFINITY) take(c, w, i, n++);
    become(c, w, n);
}

void cands_compact(Cands *c, SampleWork *w) {
    if (!c->id) cands_above(c, w, -INFINITY);
}

void cands_find_max(Cands *c) {
    bool bad;
    c->max = run_max(c->logit, c->n, &bad);
}

/* Here and in keep_edge which entries stay is a coin toss to the branch predictor, so each is
 * written and n alone decides. */
void cands_keep_heavy(Cands *c, SampleWork *w, float least) {
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        float weight = w->weight[i];
        w->weight[n] = weight;
        take(c, w, i, n);
        n += weight >= least;
    }
    become(c, w, n);
}

/* ---- the k best: a min-heap of 64-bit ranks, larger = better (logit, then the lower index) ----
 */

static uint64_t rank_of(float logit, size_t i) {
    return (uint64_t)cands_key(logit) << 32 | (uint32_t) ~(uint32_t)i;
}
static uint32_t rank_index(uint64_t rank) { return ~(uint32_t)rank; }

static void heap_sink(uint64_t *heap, size_t n, size_t at) {
    for (;;) {
        size_t kid = 2 * at + 1;
        if (kid >= n) return;
        if (kid + 1 < n && heap[kid + 1] < heap[kid]) kid++;
        if (heap[at] <= heap[kid]) return;
        uint64_t t = heap[at];
        heap[at] = heap[kid];
        heap[kid] = t;
        at = kid;
    }
}

/* Fills heap with the ranks of the k best of x[0..n), sorted best first. A block none of whose
 * values beats the worst of the k is skipped whole; since ids ascend, an equal value later on never
 * displaces one already there. */
static size_t heap_best(const float *x, size_t n, size_t k, uint64_t heap[CANDS_HEAP_MAX]) {
    if (k > n) k = n;
    for (size_t i = 0; i < k; i++) heap[i] = rank_of(x[i], i);
    for (size_t i = k / 2; i-- > 0;) heap_sink(heap, k, i);
    for (size_t i = k; i < n; i += BLOCK) {
        size_t end = n - i < BLOCK ? n : i + BLOCK;
        if (end - i == BLOCK && !block_reaches(x + i, x[rank_index(heap[0])], true)) continue;
        for (size_t j = i; j < end; j++) {
            uint64_t r = rank_of(x[j], j);
            if (r <= heap[0]) continue;
            heap[0] = r;
            heap_sink(heap, k, 0);
        }
    }
    for (size_t m = k; m > 1; m--) { /* heap sort: the smallest goes last */
        uint64_t t = heap[0];
        heap[0] = heap[m - 1];
        heap[m - 1] = t;
        heap_sink(heap, m - 1, 0);
    }
    return k;
}

size_t cands_best(const float *logit, size_t n, size_t k, uint32_t *out) {
    uint64_t heap[CANDS_HEAP_MAX];
    if (k > CANDS_HEAP_MAX) k = CANDS_HEAP_MAX;
    if (k == 0 || n == 0) return 0;
    k = heap_best(logit, n, k, heap);
    for (size_t i = 0; i < k; i++) out[i] = rank_index(heap[i]);
    return k;
}

/* ---- radix walk: from the largest key down, where do the weights reach a target? ---- */

typedef struct Edge {
    uint32_t key;   /* entries above it stay */
    size_t n_equal; /* and this many of those equal to it, lowest index first */
} Edge;

/* One digit of the walk: of the entries whose key agrees with e->key above shift + bits, sums the
 * weights by digit and goes down the digits until the sum reaches *target. What was passed is taken
 * off *target. weight NULL counts entries. */
static void walk_digit(const float *key, const float *weight, size_t n, int shift, int bits,
                       double *bin, Edge *e, double *target) {
    uint32_t n_bins = 1u << bits, high = shift + bits < 32 ? ~0u << (shift + bits) : 0;
    memset(bin, 0, n_bins * sizeof *bin);
    for (size_t i = 0; i < n; i++) {
        uint32_t k = cands_key(key[i]);
        if ((k & high) == (e->key & high))
            bin[k >> shift & (n_bins - 1)] += weight ? (double)weight[i] : 1.0;
    }
    uint32_t d = n_bins - 1, lowest = n_bins;
    for (;; d--) {
        if (bin[d] > 0)
            lowest = d; /* rounding may leave the target a hair above the total: stop at the last
                           entry */
        if (bin[d] >= *target && bin[d] > 0) break;
        *target -= bin[d];
        if (d == 0) break;
    }
    if (d == 0 && bin[0] <= 0 && lowest < n_bins) {
        d = lowest;
        *target = INFINITY;
    }
    e->key |= d << shift;
}

static Edge walk(const float *key, const float *weight, size_t n, double target, double *bin) {
    Edge e = {0, 0};
    walk_digit(key, weight, n, 21, 11, bin, &e, &target);
    walk_digit(key, weight, n, 10, 11, bin, &e, &target);
    walk_digit(key, weight, n, 0, 10, bin, &e, &target);
    for (size_t i = 0; i < n; i++) {
        if (cands_key(key[i]) != e.key) continue;
        e.n_equal++;
        target -= weight ? (double)weight[i] : 1.0;
        if (target <= 0) break;
    }
    return e;
}

static void keep_edge(Cands *c, SampleWork *w, const float *key, Edge e) {
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        uint32_t k = cands_key(key[i]);
        bool stays = k > e.key;
        if (k == e.key && e.n_equal > 0) {
            e.n_equal--;
            stays = true;
        }
        stays &= c->logit[i] > -INFINITY;
        take(c, w, i, n);
        n += stays;
    }
    become(c, w, n);
}

static void sort_indices(uint32_t *x, size_t n) { /* insertion sort: n <= TOP_K_HEAP */
    for (size_t i = 1; i < n; i++) {
        uint32_t v = x[i];
        size_t j = i;
        for (; j > 0 && x[j - 1] > v; j--) x[j] = x[j - 1];
        x[j] = v;
    }
}

void cands_top_k(Cands *c, SampleWork *w, size_t k) {
    if (k >= c->n) return;
    if (k > TOP_K_HEAP) {
        keep_edge(c, w, c->logit, walk(c->logit, NULL, c->n, (double)k, w->bin));
        return;
    }
    uint32_t best[TOP_K_HEAP];
    k = cands_best(c->logit, c->n, k, best);
    sort_indices(best, k);
    size_t n = 0;
    for (size_t i = 0; i < k; i++)
        if (c->logit[best[i]] > -INFINITY) take(c, w, best[i], n++);
    become(c, w, n);
}

void cands_keep_weight(Cands *c, SampleWork *w, const float *key, double target, size_t min_keep) {
    if (c->n == 0) return;
    Edge e = walk(key, w->weight, c->n, target, w->bin);
    if (min_keep > 1) { /* the later edge of the two */
        Edge m = walk(key, NULL, c->n, (double)(min_keep < c->n ? min_keep : c->n), w->bin);
        if (m.key < e.key || (m.key == e.key && m.n_equal > e.n_equal)) e = m;
    }
    keep_edge(c, w, key, e);
}

/* ---- weights ---- */

/* e^x for x <= 0: 2^n times a polynomial on [-ln2/2, ln2/2] (Cody and Waite 1980 for the split of
 * ln 2); relative error below 2e-7. Under e^-87, the end of the normal floats, it is 0. Branch
 * free, so that the loop around it vectorises. */
static inline float exp_neg(float x) {
    float y = x < -87.0f ? -87.0f : x;
    float t = y * 1.44269504f +
              12582912.0f; /* adding 1.5 * 2^23 rounds to an integer, left in the low bits */
    float n = t - 12582912.0f;
    float r = (y - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t u;
    memcpy(&u, &t, 4);
    uint32_t s = (u - 0x4B400000u + 127u) << 23;
    float scale;
    memcpy(&scale, &s, 4);
    return x < -87.0f ? 0.0f : p * scale;
}

void cands_weigh(Cands *c, SampleWork *w, float scale) {
    const float *restrict logit = c->logit;
    float *restrict weight = w->weight;
    float max = c->max;
    double lane[LANES] = {0};
    size_t n = c->n, i = 0;
    for (size_t j = 0; j < n; j++) weight[j] = exp_neg((logit[j] - max) * scale);
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += (double)weight[i + j];
    double sum = 0;
    for (int j = 0; j < LANES; j++) sum += lane[j];
    for (; i < n; i++) sum += (double)weight[i];
    c->weight = sum;
}

size_t cands_draw(const Cands *c, const SampleWork *w, double u) {
    double sum = 0, target = u * c->weight;
    size_t last = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (w->weight[i] <= 0) continue;
        sum += (double)w->weight[i];
        last = i;
        if (sum > target) break;
    }
    return last;
}
