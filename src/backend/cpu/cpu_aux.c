#include "backend/cpu/cpu_aux.h"

#include "base/mem.h"

enum { AUX_ALIGN = 256, ATTN_SLOTS_PER_THREAD = 32, ATTN_MIN_SLOTS = 64 };

typedef struct AuxShape {
    uint32_t linear_cols; /* widest input of a linear, padded to units */
    uint32_t act_codes;   /* most code bytes for one row of an input: twice the columns where the
                             linear is precise */
    uint32_t expert_in, expert_out; /* widest rows of EXPERTS, padded */
    uint32_t q_rows, dim, v_dim;
} AuxShape;

static uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

uint32_t attn_tile_queries(uint32_t n_group) {
    return n_group >= ATTN_QUERIES ? n_group : ATTN_QUERIES / n_group * n_group;
}

static AuxShape shape_of(const Program *p) {
    AuxShape s = {0};
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const Op *op = &p->ops[i];
        if (op->code == OP_LINEAR) {
            uint32_t cols = (p->vals[op->in[0]].cols + UNIT_COLS - 1) / UNIT_COLS * UNIT_COLS;
            s.linear_cols = max_u32(s.linear_cols, cols);
            s.act_codes = max_u32(s.act_codes, op->p.linear.precise ? 2 * cols : cols);
        }
        if (op->code == OP_EXPERTS) {
            uint32_t cols = (p->weights[op->w[0]].k + UNIT_COLS - 1) / UNIT_COLS * UNIT_COLS;
            s.linear_cols = max_u32(s.linear_cols, cols);
            s.expert_in = max_u32(s.expert_in, cols);
            s.expert_out = max_u32(s.expert_out, (op->p.experts.n + 2 * FLOAT_TILE_ROWS - 1) /
                                                     FLOAT_TILE_ROWS * FLOAT_TILE_ROWS);
        }
        if (op->code != OP_ATTN) continue;
        s.q_rows = max_u32(s.q_rows, attn_tile_queries(op->p.attn.n_heads / op->p.attn.n_kv_heads));
        s.dim = max_u32(s.dim, op->p.attn.head_dim);
        s.v_dim = max_u32(s.v_dim, op->p.attn.v_dim);
        if (op->plane[0] == op->plane[1]) s.v_dim = max_u32(s.v_dim, op->p.attn.head_dim);
    }
    s.dim = (s.dim + 15) / 16 * 16;
    s.v_dim = (s.v_dim + 31) / 32 * 32; /* q4_0 values come in blocks of 32 */
    return s;
}

/* A byte a code; a scale per unit and a correction per half, 4 bytes each. */
static size_t acts_bytes(size_t elements) {
    return size_align(elements + elements / 32 * 4 + elements / 16 * 4 + 192, AUX_ALIGN);
}

static size_t take(size_t *at, size_t bytes) {
    size_t here = *at;
    *at += size_align(bytes, AUX_ALIGN);
    return here;
}

static size_t layout(const Program *p, uint32_t rows, int i_thread, int n_threads, AuxThread *out) {
    AuxShape s = shape_of(p);
    size_t n = (size_t)n_threads, me = (size_t)i_thread, cols = s.linear_cols;
    size_t at = 0, private_bytes = acts_bytes(max_u32(s.act_codes, ACT_PRIVATE_MAX));
    /* A tile of 32 outputs widened to f32, or its codes as bytes, scales and zero points for every
     * four columns, and two units as f32. */
    size_t tile_bytes =
        size_align((cols + 2 * UNIT_COLS) * FLOAT_TILE_ROWS * 4 + AUX_ALIGN, AUX_ALIGN);
    size_t kv = (size_t)ATTN_BLOCK * (s.dim + s.v_dim), per_query = ATTN_BLOCK + s.dim + 2;
    size_t attn_bytes =
        size_align((kv + 2 * PAGE_TOKENS + s.q_rows * per_query) * 4 + AUX_ALIGN, AUX_ALIGN);
    /* Outputs, 16 partial sums and a maximum of each query, in whole cache lines. */
    out->slot_floats = size_align(s.q_rows * ((size_t)s.v_dim + 17), 16);
    size_t sums_bytes = size_align(2 * out->slot_floats * 4, AUX_ALIGN);
    take(&at, n * sizeof(AuxThread));
    out->acts_shared = take(&at, acts_bytes((size_t)rows * s.act_codes));
    out->acts_private = take(&at, n * private_bytes) + me * private_bytes;
    out->tile_bytes = tile_bytes;
    out->tile = take(&at, n * tile_bytes) + me * tile_bytes;
    out->attn = take(&at, n * attn_bytes) + me * attn_bytes;
    out->expert_in = s.expert_in;
    out->expert_out = s.expert_out;
    size_t expert_bytes =
        s.expert_in
            ? acts_bytes((size_t)ACT_BLOCK_ROWS * s.expert_in) +
                  size_align((size_t)ACT_BLOCK_ROWS * (s.expert_in + s.expert_out) * 4, AUX_ALIGN)
            : 0;
    out->experts = take(&at, n * expert_bytes) + me * expert_bytes;
    out->attn_sums = take(&at, n * sums_bytes) + me * sums_bytes;
    out->n_slots =
        ATTN_SLOTS_PER_THREAD * n > ATTN_MIN_SLOTS ? ATTN_SLOTS_PER_THREAD * n : ATTN_MIN_SLOTS;
    out->slots = take(&at, s.q_rows ? out->n_slots * out->slot_floats * 4 : 0);
    out->attn_rows = s.q_rows;
    out->attn_dim = s.dim;
    out->attn_v_dim = s.v_dim;
    return at;
}

size_t aux_bytes(const Program *p, uint32_t max_rows, int n_threads) {
    AuxThread t;
    return layout(p, max_rows, 0, n_threads, &t);
}

AuxThread *aux_thread(const HostExec *ex, int i_thread, int n_threads) {
    AuxThread *t = (AuxThread *)ex->aux + i_thread;
    if (!t->ready) {
        layout(ex->program, host_most_rows(ex->max_rows), i_thread, n_threads, t);
        t->ready = true;
    }
    return t;
}
