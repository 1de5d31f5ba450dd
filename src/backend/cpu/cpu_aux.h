/* cpu_aux.h: the private memory of an execution: quantized activations, per-thread scratch, partial
 * results of attention. Laid out from the program's shapes alone, so that its size is known before
 * anything is loaded. Each thread keeps its own copy of the layout and of what the activation
 * buffers hold, so nobody has to ask anybody. */
#ifndef MLXCEL_BACKEND_CPU_CPU_AUX_H
#define MLXCEL_BACKEND_CPU_CPU_AUX_H

#include "backend/cpu/packed.h"

enum {
    ACT_BLOCK_ROWS = 12, /* rows that are interleaved, at most */
    ACT_LO_STEPS = 254,  /* a step of hi in steps of lo: half a step either way is 127 */
    /* Rows x columns up to which each thread quantizes for itself, which saves a barrier. */
    ACT_PRIVATE_MAX = 1 << 14
};

/* Activations as int8 in groups of 32 columns. Rows go in blocks (act_block); block at row r0, R
 * rows:
 *   codes + r0 * 32 * n_units     [n_units * 8][R][4]
 *   scale + r0 * n_units          [n_units][R]       absmax / 127
 *   corr  + r0 * n_corr           [n_corr][R]        what offsets need of the sum s of the codes of
 *                                                    a group (or half of one):
 *       WOFFSET_CONST  i32 -zero * s     WOFFSET_ZERO  f32 -s     WOFFSET_BIAS  f32 scale * s
 * A precise input has two such rows per activation row, hi and lo, x = scale * (hi + lo /
 * ACT_LO_STEPS): the kernels see twice the rows, and the two results are added. A block then holds
 * half as many activation rows. */
typedef struct QActs {
    int8_t *codes;
    float *scale;
    void *corr;
    uint32_t n_rows, n_units, n_corr;
    uint32_t per_row; /* 1, or 2 when precise; n_rows and r0 above count code rows */
} QActs;

typedef struct QActsKey { /* what a buffer holds */
    Val val;
    WOffset offset;
    int zero;
    bool halves; /* sums of 16 columns: groups of 16 */
    bool precise;
    bool whole_row; /* one scale for all groups (wform.h, row_acts) */
    const uint32_t *perm;
    bool valid;
} QActsKey;

typedef struct AuxThread { /* at aux + i_thread * sizeof, zeroed at first */
    bool ready;
    size_t acts_shared, acts_private, tile, attn, attn_sums,
        slots;                     /* offsets; but for acts_shared and slots of this thread */
    size_t tile_bytes;             /* of tile, all that a tile needs for its scratch */
    size_t n_slots, slot_floats;   /* partial results of attention */
    uint32_t attn_rows;            /* query heads of one tile, at most */
    uint32_t attn_dim, attn_v_dim; /* padded to 16 */
    size_t experts; /* offset: ACT_BLOCK_ROWS rows in, as many out, then their codes */
    uint32_t expert_in, expert_out; /* padded widths of those rows */
    const Op *last_linear;
    QActsKey key_shared, key_private;
} __attribute__((aligned(128))) AuxThread;

size_t aux_bytes(const Program *p, uint32_t max_rows, int n_threads);
AuxThread *aux_thread(const HostExec *ex, int i_thread, int n_threads);

static inline uint32_t act_n_blocks(uint32_t n_rows, uint32_t block) {
    return (n_rows + block - 1) / block;
}
/* Near-equal blocks of at most `block` rows. */
static inline void act_block(uint32_t n_rows, uint32_t block, uint32_t i, uint32_t *from,
                             uint32_t *to) {
    uint32_t n = act_n_blocks(n_rows, block);
    *from = (uint32_t)((uint64_t)n_rows * i / n);
    *to = (uint32_t)((uint64_t)n_rows * (i + 1) / n);
}
static inline float *aux_floats(const HostExec *ex, size_t at) {
    return (float *)(void *)((char *)ex->aux + at);
}

enum { ATTN_BLOCK = PAGE_TOKENS, ATTN_RANGE = 256, ATTN_QUERIES = 48 };
uint32_t
attn_tile_queries(uint32_t n_group); /* query heads per KV head -> queries of a tile, padded */

#endif
