#include "engine/loader.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/os.h"

/* A weight and its turn. */
typedef struct Turn {
    uint32_t weight;
    int i_file; /* where its first byte lies */
    uint64_t at;
    uint64_t n_bytes; /* packed */
    size_t range;     /* its first in Loader.ranges */
} Turn;

typedef struct Loader {
    Model *m;
    Turn *turns;
    uint32_t n_turns;
    CkptRange *ranges; /* of all turns, in their order */
    size_t n_ranges;
} Loader;

static const ArchWeight *weight_of(const Model *m, uint32_t i) {
    return weights_get(m->arch.weights, (int32_t)i);
}

uint64_t loader_packed_bytes(const Model *m, uint32_t i) {
    const ArchWeight *w = weight_of(m, i);
    return m->be->api->weight_bytes(m->be, w->kind, w->parts, w->n_parts);
}

uint64_t loader_bytes(const Model *m) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < weights_count(m->arch.weights); i++) {
        const ArchWeight *w = weight_of(m, i);
        for (int part = 0; part < w->n_parts; part++) {
            uint64_t whole = wsource_whole_bytes(&w->parts[part]);
            if (whole > most) most = whole;
        }
    }
    return most + ckpt_stream_window_bytes(m->ck->tensor_bytes);
}

static int by_place(int file_x, uint64_t x, int file_y, uint64_t y) {
    return file_x != file_y ? (file_x < file_y ? -1 : 1) : (x > y) - (x < y);
}

static int turn_order(const void *a, const void *b) {
    const Turn *x = a, *y = b;
    int c = by_place(x->i_file, x->at, y->i_file, y->at);
    return c ? c : (x->weight > y->weight) - (x->weight < y->weight);
}

static int range_order(const void *a, const void *b) {
    const CkptRange *x = a, *y = b;
    return by_place(x->i_file, x->at, y->i_file, y->at);
}

/* Ranges of a weight's parts, ascending. */
static size_t ranges_of(const ArchWeight *w, CkptRange *out) {
    size_t n = 0;
    for (int part = 0; part < w->n_parts; part++) {
        WeightRange r[QPART_COUNT];
        size_t some = wsource_ranges(&w->parts[part], r);
        for (size_t i = 0; i < some; i++)
            out[n++] = (CkptRange){r[i].i_file, r[i].at, r[i].n_bytes};
    }
    qsort(out, n, sizeof *out, range_order);
    return n;
}

static bool turns_init(Loader *l, Err *err) {
    const Model *m = l->m;
    uint32_t n = weights_count(m->arch.weights);
    size_t most = 1;
    for (uint32_t i = 0; i < n; i++) most += (size_t)weight_of(m, i)->n_parts * QPART_COUNT;
    l->turns = mem_calloc(n + 1, sizeof *l->turns);
    l->ranges = mem_calloc(most, sizeof *l->ranges);
    if (!l->turns || !l->ranges) return err_nomem(err, "weights");
    for (uint32_t i = 0; i < n; i++) {
        if (m->packed[i]) continue; /* an earlier run came so far */
        Turn *t = &l->turns[l->n_turns++];
        *t = (Turn){.weight = i, .n_bytes = loader_packed_bytes(m, i)};
        if (ranges_of(weight_of(m, i), l->ranges) == 0) continue;
        t->i_file = l->ranges[0].i_file;
        t->at = l->ranges[0].at;
    }
    qsort(l->turns, l->n_turns, sizeof *l->turns, turn_order);
    for (uint32_t t = 0; t < l->n_turns; t++) {
        l->turns[t].range = l->n_ranges;
        l->n_ranges += ranges_of(weight_of(m, l->turns[t].weight), l->ranges + l->n_ranges);
    }
    return true;
}

/* Ranges from `from` on were read, those before `end` for turn t. What the next weight has bytes of too
 * (rows of experts that alternate) stays cached for it. Gives the first range that is not dropped. */
static size_t ranges_drop(const Loader *l, const Turn *t, size_t from, size_t end) {
    const CkptRange *r = &l->ranges[t->range], *next = &l->ranges[end];
    if (t->range < end && end < l->n_ranges && next->i_file == r->i_file && next->at < r->at + r->n)
        return from;
    for (; from < end; from++) checkpoint_drop_cache(l->m->ck, &l->ranges[from]);
    return from;
}

static bool turns_load(Loader *l, bool keep_cached, Err *err) {
    Model *m = l->m;
    uint64_t done = m->weight_bytes;
    size_t dropped = 0;
    for (uint32_t t = 0; t < l->n_turns; t++) done -= l->turns[t].n_bytes;
    for (uint32_t t = 0; t < l->n_turns; t++) {
        const Turn *turn = &l->turns[t];
        const ArchWeight *w = weight_of(m, turn->weight);
        BackWeight **packed = &m->packed[turn->weight];
        size_t end = t + 1 < l->n_turns ? turn[1].range : l->n_ranges;
        if (!m->be->api->weight_load(m->be, w->kind, w->parts, w->n_parts, packed, err))
            return false;
        checkpoint_stream_pass(m->ck, end);
        if (!keep_cached) dropped = ranges_drop(l, turn, dropped, end);
        done += turn->n_bytes;
        if (m->opt.progress && !m->opt.progress(m->opt.progress_ctx, done, m->weight_bytes))
            return err_set(err, ERR_CANCELLED, "loading was stopped");
    }
    return true;
}

bool loader_run(Model *m, Err *err) {
    Loader l = {.m = m};
    /* The file stays in the page cache for the next start, where both find room twice over. */
    bool keep_cached = m->weight_bytes < os_memory_available_bytes() / 4,
         ok = turns_init(&l, err) &&
              checkpoint_stream_begin(m->ck, l.ranges, l.n_ranges, keep_cached, err) &&
              turns_load(&l, keep_cached, err);
    checkpoint_stream_end(m->ck);
    mem_free(l.turns);
    mem_free(l.ranges);
    return ok;
}
