/* program_private.h: the builder's inside, for the files that record ops. */
#ifndef MLXCEL_OP_PROGRAM_PRIVATE_H
#define MLXCEL_OP_PROGRAM_PRIVATE_H

#include "op/program.h"

/* Arrays grow by doubling inside the arena: what the smaller copies leave behind is a few hundred
 * KiB at most. */
typedef struct List {
    void *p;
    uint32_t n, cap;
} List;

struct ProgBuilder {
    Arena *a;
    const char *name;
    List ops, vals, weights, planes, states, inputs, ropes, outputs;
    ProgGroup groups[PLANE_MAX_GROUPS];
    uint32_t n_groups;
    ProgSpace spaces[SPACE_MAX];
    uint32_t n_spaces;
    Val angles[64]; /* recorded angles per rope spec, VAL_NONE before */
    Err err;
};

#define VALS(b) ((ProgVal *)(b)->vals.p)
#define WEIGHTS(b) ((ProgWeight *)(b)->weights.p)
#define PLANES(b) ((ProgPlane *)(b)->planes.p)
#define ROPES(b) ((RopeSpec *)(b)->ropes.p)

void *proglist_add(ProgBuilder *b, List *l, size_t size);
/* Notes the first error; returns VAL_NONE. */
Val prog_fail(ProgBuilder *b, OpCode code, const char *what, uint32_t got, uint32_t want);
bool prog_bad(const ProgBuilder *b, Val v);
Val prog_val_new(ProgBuilder *b, Space space, uint32_t cols);
/* An op of up to two inputs and its result; out_cols 0: none. NULL: failed. */
Op *prog_op_new(ProgBuilder *b, OpCode code, Val x, Val y);
Op *prog_op_out(ProgBuilder *b, OpCode code, Val x, Val y, Space space, uint32_t cols);
/* w is W_NONE or has k columns, and n rows (n 0: any). */
bool prog_weight_fits(ProgBuilder *b, OpCode code, WeightId w, uint32_t n, uint32_t k);

#endif
