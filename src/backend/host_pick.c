/* Sparse attention of host backends: an indexer's choice of keys, and attention over a choice. Plain
 * loops in f64 over rows that the backend widens. */
#include <math.h>
#include <string.h>

#include "backend/host.h"

typedef struct Best { /* the k best so far: a heap with the worst on top */
    double score[PICK_MAX_KEYS];
    uint32_t slot[PICK_MAX_KEYS];
    uint32_t n, k;
} Best;

/* Whether entry i is worse than j: a smaller score, or as large and a higher slot. */
static bool worse(const Best *b, uint32_t i, uint32_t j) {
    return b->score[i] < b->score[j] || (b->score[i] == b->score[j] && b->slot[i] > b->slot[j]);
}

static void swap(Best *b, uint32_t i, uint32_t j) {
    double s = b->score[i];
    uint32_t t = b->slot[i];
    b->score[i] = b->score[j], b->slot[i] = b->slot[j];
    b->score[j] = s, b->slot[j] = t;
}

static void sink(Best *b, uint32_t i) {
    for (uint32_t c; (c = 2 * i + 1) < b->n; i = c) {
        if (c + 1 < b->n && worse(b, c + 1, c)) c++;
        if (!worse(b, c, i)) return;
        swap(b, i, c);
    }
}

static void offer(Best *b, double score, uint32_t slot) {
    if (b->n < b->k) {
        uint32_t i = b->n++;
        b->score[i] = score, b->slot[i] = slot;
        for (; i && worse(b, i, (i - 1) / 2); i = (i - 1) / 2) swap(b, i, (i - 1) / 2);
    } else if (score > b->score[0]) { /* slots come in ascending order: a tie keeps the lower */
        b->score[0] = score, b->slot[0] = slot;
        sink(b, 0);
    }
}

static void slots_sort(uint32_t *v, uint32_t n) {
    for (uint32_t gap = n / 2; gap; gap /= 2)
        for (uint32_t i = gap; i < n; i++) {
            uint32_t x = v[i], j = i;
            for (; j >= gap && v[j - gap] > x; j -= gap) v[j] = v[j - gap];
            v[j] = x;
        }
}

/* Heads go together, so that each key is widened once for several of them and their dot products stand
 * side by side; each head's own sums keep their order. */
enum { PICK_HEADS = 8, PICK_BLOCK = 16 };

static void heads_turn(const float *q, uint32_t n_heads, uint32_t dim, double *out) {
    memset(out, 0, (size_t)dim * PICK_HEADS * sizeof *out);
    for (uint32_t h = 0; h < n_heads; h++)
        for (uint32_t c = 0; c < dim; c++) out[c * PICK_HEADS + h] = q[(size_t)h * dim + c];
}

/* q: [column][head], as heads_turn() leaves it. */
static void heads_dots(const double *q, const float *row, uint32_t dim, double *s) {
    double sum[PICK_HEADS] = {0};
    for (uint32_t c = 0; c < dim; c++)
        for (int h = 0; h < PICK_HEADS; h++) sum[h] += q[c * PICK_HEADS + h] * row[c];
    memcpy(s, sum, sizeof sum);
}

/* Of n keys in a block: the heads' scores above 0, weighed and summed. */
static void index_scores(const OpKeySelect *p, const float *q, const float *w,
                         float key[PICK_BLOCK][PICK_MAX_COLS], uint32_t n, double *score) {
    double turned[PICK_MAX_COLS * PICK_HEADS], s[PICK_HEADS];
    memset(score, 0, n * sizeof *score);
    for (uint32_t h0 = 0; h0 < p->n_heads; h0 += PICK_HEADS) {
        uint32_t heads = p->n_heads - h0 < PICK_HEADS ? p->n_heads - h0 : PICK_HEADS;
        heads_turn(q + (size_t)h0 * p->head_dim, heads, p->head_dim, turned);
        for (uint32_t k = 0; k < n; k++) {
            heads_dots(turned, key[k], p->head_dim, s);
            for (uint32_t h = 0; h < heads; h++) {
                double v = s[h] * (double)p->scale;
                if (v > 0) score[k] += w[h0 + h] * v;
            }
        }
    }
}

/* The whole groups of `rate` slots in [lo, hi): [*first, *end), each kept at its last slot. */
static void groups_seen(const StepRow *row, uint32_t rate, uint32_t *first, uint32_t *end) {
    *first = row->lo / rate + (row->lo % rate != 0);
    *end = row->hi / rate;
    if (*end < *first) *end = *first;
}

static uint32_t group_slot(uint32_t group, uint32_t rate) { return group * rate + rate - 1; }

/* Offers the groups [first, end), scored in blocks. */
static void select_scored(const HostExec *ex, const Op *op, uint32_t r, uint32_t first,
                          uint32_t end, Best *best) {
    Mat q = host_mat(ex, op->in[0]), w = host_mat(ex, op->in[1]);
    const StepSeq *seq = &step_seqs(ex->step)[step_rows(ex->step)[r].seq];
    uint32_t rate = ex->program->planes[op->plane[0]].rate;
    float key[PICK_BLOCK][PICK_MAX_COLS];
    double score[PICK_BLOCK];
    for (uint32_t g = first; g < end; g += PICK_BLOCK) {
        uint32_t n = end - g < PICK_BLOCK ? end - g : PICK_BLOCK;
        for (uint32_t k = 0; k < n; k++)
            ex->be->ops->plane_row(ex, op->plane[0], seq, group_slot(g + k, rate), 0, key[k]);
        index_scores(&op->p.key_select, q.p + r * q.stride, w.p + r * w.stride, key, n, score);
        for (uint32_t k = 0; k < n; k++) offer(best, score[k], group_slot(g + k, rate));
    }
}

void host_key_select(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat out = host_mat(ex, op->out);
    uint32_t rate = ex->program->planes[op->plane[0]].rate, first, end;
    Best best;
    for (uint32_t r = (uint32_t)i_thread; r < out.rows; r += (uint32_t)n_threads) {
        best.n = 0;
        best.k = op->p.key_select.k;
        groups_seen(&step_rows(ex->step)[r], rate, &first, &end);
        if (end - first > best.k)
            select_scored(ex, op, r, first, end, &best);
        else /* all of them: no need to score */
            for (uint32_t g = first; g < end; g++) offer(&best, 0, group_slot(g, rate));
        slots_sort(best.slot, best.n);
        for (uint32_t i = 0; i < out.cols; i++)
            out.p[r * out.stride + i] = i < best.n ? (float)best.slot[i] : -1;
    }
}

/* The keys of one row: `near` slots from lo on of the first plane (joint), then of the far one those
 * picked, or its groups [first, end). */
typedef struct Pick {
    const HostExec *ex;
    const Op *op;
    const StepSeq *seq;
    uint32_t lo, near;
    const float *slots; /* ascending, -1 behind the last; NULL: groups */
    uint32_t n_slots, far_lo, far_hi;
    uint32_t first, end, rate;
    uint32_t kv_head;
} Pick;

static uint32_t pick_count(const Pick *p) {
    return p->near + (p->slots ? p->n_slots : p->end - p->first);
}

/* The place of key i; false: there is none. */
static bool pick_place(const Pick *p, uint32_t i, PlaneId *plane, uint32_t *slot) {
    *plane = p->op->plane[0];
    *slot = p->lo + i;
    if (i < p->near) return true;
    i -= p->near;
    if (p->op->p.attn.joint) *plane = p->op->plane[1];
    *slot = p->first + i;
    if (!p->slots) return *slot = group_slot(*slot, p->rate), true;
    if (!(p->slots[i] >= 0)) return false;
    *slot = (uint32_t)p->slots[i];
    return *slot >= p->far_lo && *slot < p->far_hi;
}

static Pick pick_of(const HostExec *ex, const Op *op, const StepRow *row, const float *slots,
                    uint32_t n_slots) {
    const OpAttn *a = &op->p.attn;
    Pick p = {.ex = ex,
              .op = op,
              .seq = &step_seqs(ex->step)[row->seq],
              .slots = slots,
              .n_slots = n_slots,
              .rate = ex->program->planes[op->plane[1]].rate};
    host_attn_keys(ex, a, row, &p.far_lo, &p.far_hi);
    if (!a->joint) return p;
    p.lo = p.far_lo;
    p.near = p.far_hi > p.lo ? p.far_hi - p.lo : 0;
    p.far_lo = row->lo;
    groups_seen(row, p.rate, &p.first, &p.end);
    return p;
}

typedef struct PickHeads {
    double q[PICK_MAX_COLS * PICK_HEADS]; /* [column][head] */
    double acc[PICK_HEADS][PICK_MAX_COLS];
    double max[PICK_HEADS], sum[PICK_HEADS];
    uint32_t n;
} PickHeads;

/* The sums so far are kept in units of exp(max). */
static void head_add(PickHeads *w, uint32_t h, double s, const float *v, uint32_t n) {
    double *acc = w->acc[h];
    if (s > w->max[h]) {
        double f = exp(w->max[h] - s);
        w->sum[h] *= f;
        for (uint32_t c = 0; c < n; c++) acc[c] *= f;
        w->max[h] = s;
    }
    double e = exp(s - w->max[h]);
    w->sum[h] += e;
    for (uint32_t c = 0; c < n; c++) acc[c] += e * v[c];
}

static void heads_attend(const Pick *p, PickHeads *w) {
    const OpAttn *a = &p->op->p.attn;
    bool one_row = a->joint || p->op->plane[1] == p->op->plane[0];
    float row[PICK_MAX_COLS];
    double s[PICK_HEADS];
    for (uint32_t i = 0, n = pick_count(p), slot; i < n; i++) {
        PlaneId plane;
        if (!pick_place(p, i, &plane, &slot)) continue;
        p->ex->be->ops->plane_row(p->ex, plane, p->seq, slot, p->kv_head, row);
        heads_dots(w->q, row, a->head_dim, s);
        if (!one_row)
            p->ex->be->ops->plane_row(p->ex, p->op->plane[1], p->seq, slot, p->kv_head, row);
        for (uint32_t h = 0; h < w->n; h++) {
            double score = s[h] * (double)a->scale;
            if (a->softcap != 0) score = a->softcap * tanh(score / (double)a->softcap);
            head_add(w, h, score, row, a->v_dim);
        }
    }
}

/* sinks of the heads, or NULL. */
static void heads_begin(PickHeads *w, const OpAttn *a, const float *q, const float *sinks) {
    heads_turn(q, w->n, a->head_dim, w->q);
    for (uint32_t h = 0; h < w->n; h++) {
        w->max[h] = sinks ? sinks[h] : -INFINITY;
        w->sum[h] = sinks != NULL;
        memset(w->acc[h], 0, a->v_dim * sizeof w->acc[h][0]);
    }
}

void host_attn_picked(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat q = host_mat(ex, op->in[0]), out = host_mat(ex, op->out), picks = {0};
    if (op->in[1] != VAL_NONE) picks = host_mat(ex, op->in[1]);
    const OpAttn *a = &op->p.attn;
    const float *sinks = host_floats(ex, op->w[0]);
    uint32_t group = a->n_heads / a->n_kv_heads, parts = (group + PICK_HEADS - 1) / PICK_HEADS,
             from, to;
    PickHeads w;
    host_share(q.rows * a->n_kv_heads * parts, i_thread, n_threads, &from, &to);
    for (uint32_t i = from; i < to; i++) {
        uint32_t r = i / (a->n_kv_heads * parts), kv = i / parts % a->n_kv_heads,
                 first = i % parts * PICK_HEADS, h0 = kv * group + first;
        const float *slots = picks.p ? picks.p + r * picks.stride : NULL;
        Pick p = pick_of(ex, op, &step_rows(ex->step)[r], slots, picks.cols);
        p.kv_head = kv;
        w.n = group - first < PICK_HEADS ? group - first : PICK_HEADS;
        heads_begin(&w, a, q.p + r * q.stride + (size_t)h0 * a->head_dim,
                    sinks ? sinks + h0 : NULL);
        heads_attend(&p, &w);
        float *o = out.p + r * out.stride + (size_t)h0 * a->v_dim;
        for (uint32_t h = 0; h < w.n; h++)
            for (uint32_t c = 0; c < a->v_dim; c++)
                *o++ = (float)(w.sum[h] > 0 ? w.acc[h][c] / w.sum[h] : 0);
    }
}
