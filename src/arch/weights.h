/* weights.h: finds a family's tensors in a checkpoint, by role, under whichever names the file
 * uses.
 *
 * A role is one matrix or vector of the architecture ("layers.3.attn.q"). The name table gives its
 * Hugging Face module path and its GGUF name, %d standing for the layer. weights_take() looks the
 * tensor up, checks its shape, notes it as used and returns a source number for prog_weight().
 * weights_finish() then refuses tensors that nobody asked for. Transforms (un-permuting rope heads,
 * slices) are row maps of the source: applied once, by the packers.
 *
 * Errors are sticky, like the program builder's: the first missing tensor or wrong shape is
 * reported by weights_finish(). */
#ifndef MLXCEL_ARCH_WEIGHTS_H
#define MLXCEL_ARCH_WEIGHTS_H

#include "op/weight_source.h"
#include "op/program.h"
#include "ckpt/checkpoint.h"

typedef enum Role {
    ROLE_EMBED,
    ROLE_HEAD,
    ROLE_FINAL_NORM,
    ROLE_ROPE_FREQS,
    ROLE_ROPE_LONG,
    ROLE_ROPE_SHORT,
    ROLE_ATTN_NORM,
    ROLE_Q,
    ROLE_K,
    ROLE_V,
    ROLE_QKV,
    ROLE_O,
    ROLE_Q_NORM,
    ROLE_K_NORM,
    ROLE_SINKS,
    ROLE_POST_ATTN_NORM,
    ROLE_FFN_NORM,
    ROLE_GATE,
    ROLE_UP,
    ROLE_GATE_UP,
    ROLE_DOWN,
    ROLE_POST_FFN_NORM,
    /* of one expert (%e), or of all, stacked */
    ROLE_ROUTER,
    ROLE_EXPERT_GATE,
    ROLE_EXPERT_UP,
    ROLE_EXPERT_DOWN,
    ROLE_EXPERT_GATE_UP,
    ROLE_EXPERT_DOWNS,
    ROLE_SELECT_BIAS,
    ROLE_SHARED_GATE,
    ROLE_SHARED_UP,
    ROLE_SHARED_DOWN,
    ROLE_SHARED_SWITCH,
    /* short convolutions; gated delta layers */
    ROLE_CONV_IN,
    ROLE_CONV,
    ROLE_CONV_OUT,
    ROLE_DELTA_QKVZ,
    ROLE_DELTA_BA,
    ROLE_DELTA_QKV,
    ROLE_DELTA_Z,
    ROLE_DELTA_B,
    ROLE_DELTA_A,
    ROLE_DELTA_CONV,
    ROLE_DELTA_DECAY,
    ROLE_DELTA_DT,
    ROLE_DELTA_NORM,
    ROLE_DELTA_OUT,
    ROLE_DELTA_Q, /* of the low-rank form */
    ROLE_DELTA_K,
    ROLE_DELTA_V,
    ROLE_DELTA_CONV_Q,
    ROLE_DELTA_CONV_K,
    ROLE_DELTA_CONV_V,
    ROLE_DELTA_A_DOWN,
    ROLE_DELTA_A_UP,
    ROLE_DELTA_Z_DOWN,
    ROLE_DELTA_Z_UP,
    /* latent attention */
    ROLE_MLA_Q_DOWN,
    ROLE_MLA_Q_NORM,
    ROLE_MLA_Q_UP,
    ROLE_MLA_KV_DOWN,
    ROLE_MLA_KV_NORM,
    ROLE_MLA_KV_UP,
    ROLE_MLA_K_UP, /* of each head; as MLX and GGUF files have them */
    ROLE_MLA_V_UP,
    /* choice of keys */
    ROLE_INDEX_Q,
    ROLE_INDEX_K,
    ROLE_INDEX_K_NORM,
    ROLE_INDEX_WEIGHTS,
    /* rows of groups, for attention and for the choice; output in two steps; streams mixed by their own
     * coefficients; experts by token */
    ROLE_COMPRESS_KV,
    ROLE_COMPRESS_GATE,
    ROLE_COMPRESS_BIAS,
    ROLE_COMPRESS_NORM,
    ROLE_INDEX_COMPRESS_KV,
    ROLE_INDEX_COMPRESS_GATE,
    ROLE_INDEX_COMPRESS_BIAS,
    ROLE_INDEX_COMPRESS_NORM,
    ROLE_O_DOWN,
    ROLE_HYPER_ATTN,
    ROLE_HYPER_FFN,
    ROLE_HYPER_HEAD,
    ROLE_ROUTE_TABLE,
    /* state space mixers; gated linear recurrences */
    ROLE_MAMBA_IN,
    ROLE_MAMBA_CONV,
    ROLE_MAMBA_PROJ,
    ROLE_MAMBA_STEP,
    ROLE_MAMBA_STEP_BIAS,
    ROLE_MAMBA_STEP_NORM,
    ROLE_MAMBA_B_NORM,
    ROLE_MAMBA_C_NORM,
    ROLE_MAMBA_DECAY,
    ROLE_MAMBA_SKIP,
    ROLE_MAMBA_NORM,
    ROLE_MAMBA_OUT,
    ROLE_LRU_IN,
    ROLE_LRU_GATE,
    ROLE_LRU_CONV,
    ROLE_LRU_INPUT,
    ROLE_LRU_INPUT_BIAS,
    ROLE_LRU_DECAY_GATE,
    ROLE_LRU_DECAY_BIAS,
    ROLE_LRU_DECAY,
    ROLE_LRU_OUT,
    /* towers */
    ROLE_PATCH,
    ROLE_CLASS_TOKEN,
    ROLE_PROJ_NORM,
    ROLE_PROJ_1,
    ROLE_PROJ_2,
    ROLE_STACK_NORM, /* what goes to layer %d of the text model */
    ROLE_STACK_1,
    ROLE_STACK_2,
    ROLE_JOIN,     /* rows of a block to one */
    ROLE_NEWLINE,  /* the row behind each line of an image */
    ROLE_FRAMES_1, /* convolutions over time */
    ROLE_FRAMES_2,
    /* attention to the rows of an encoder */
    ROLE_CROSS_NORM,
    ROLE_CROSS_Q,
    ROLE_CROSS_K,
    ROLE_CROSS_V,
    ROLE_CROSS_O,
    /* encoders */
    ROLE_POS_EMBED,
    ROLE_TYPE_EMBED,
    ROLE_EMBED_NORM,
    ROLE_POOLER,
    ROLE_CLASS,
    ROLE_CLASS_DENSE,
    ROLE_CLASS_OUT,
    /* inputs of each layer; streams that alternate; low-rank residuals; norms around experts beside
     * a dense feed-forward */
    ROLE_INPUTS_EMBED,
    ROLE_INPUTS_PROJ,
    ROLE_INPUTS_NORM,
    ROLE_INPUTS_GATE,
    ROLE_INPUTS_OUT,
    ROLE_INPUTS_POST_NORM,
    ROLE_LAYER_SCALAR,
    ROLE_POST_DENSE_NORM,
    ROLE_PRE_EXPERTS_NORM,
    ROLE_POST_EXPERTS_NORM,
    ROLE_ROUTER_SCALE,
    ROLE_EXPERT_SCALE,
    ROLE_STREAM_PROJ, /* %d: the stream */
    ROLE_STREAM_UNPROJ,
    ROLE_STREAM_NORM,
    ROLE_STREAM_ROUTER,
    ROLE_STREAM_PREDICT,
    ROLE_STREAM_CORRECT,
    ROLE_STREAM_SCALE,
    ROLE_LAUREL_LEFT,
    ROLE_LAUREL_RIGHT,
    ROLE_LAUREL_NORM,
    ROLE_COUNT
} Role;

typedef struct RoleName {
    /* Module path under the model's prefix ("layers.%d.self_attn.q_proj"); a leading '/': from the
     * root; %e: the expert. */
    const char *hf;
    const char *gguf; /* "blk.%d.attn_q"; NULL: not in GGUF files */
} RoleName;

extern const RoleName ROLE_NAMES[ROLE_COUNT]; /* the Llama names */

/* Where a family's names differ; a list ends with ROLE_COUNT. A role that comes several times has
 * several names (of releases, of later files, of MLX): the first that occurs in the checkpoint. */
typedef struct RoleDelta {
    Role role;
    RoleName name;
} RoleDelta;

typedef enum Transform {
    TRANSFORM_NONE,
    /* GGUF's llama q and k rows: (pair, half) within each head back to (half, pair) */
    TRANSFORM_UNPERMUTE
} Transform;

/* What a part is in the family's terms, for converters: everything that was taken can be named
 * anew. */
typedef struct WeightOrigin {
    Role role;
    int layer;            /* -1: of no layer */
    const char *suffix;   /* ".weight", ".bias"; "" and "_bias": parameters without a module */
    uint32_t head_dim;    /* rows per head that llama's GGUF files permute; 0: none do */
    uint32_t n_experts;   /* 0: one matrix; else it stands for all parts */
    uint32_t step, first; /* as in TakeExperts, first: rows or columns */
    bool across;
    /* not as in the file: rows picked from so many (0: they are not), a vector flattened */
    uint32_t n_stored, cols;
} WeightOrigin;

typedef struct ArchWeight { /* what one source number stands for */
    WeightKind kind;
    WeightSource *parts; /* stacked along n (vectors: along k) */
    int n_parts;
    const char *name;
    const WeightOrigin *origins; /* one per part; of experts one in all */
} ArchWeight;

typedef struct WeightTable WeightTable;

/* deltas: NULL: none. ignored: NULL-terminated list of globs ('*') over whole tensor names that may
 * be there unused. */
WeightTable *weights_new(const Checkpoint *ck, const RoleDelta *deltas, const char *const *ignored,
                         Arena *a);

/* The names of another part of the checkpoint from here on: a wrapper family's, whose tensors hang at
 * the first of the places (ArchMedia) where the role's .weight is. false: nowhere; nothing changed. */
typedef struct WeightNames WeightNames;
bool weights_rename(WeightTable *t, const RoleDelta *deltas, const char *const (*places)[2],
                    Role first, WeightNames **was);
void weights_rename_back(WeightTable *t, const WeightNames *was);

typedef struct TakePart {
    Role role;
    uint32_t n, k; /* expected shape; vectors: n = 1 */
    Transform transform;
    uint32_t head_dim; /* for the transform */
    uint32_t cols;     /* a vector that the file has as [k / cols, cols]; 0: as [k] */
    /* Which row of the file each of the n (vectors: k) is, in the program's own order; NULL: as they
     * are. The file has n_stored. */
    const uint32_t *rows;
    uint32_t n_stored;
    bool integers; /* a table of whole numbers, a parameter */
    /* a convolution's kernel, in the file [n, k / taps, taps] of floats, here [n, taps, k / taps] as
     * UNFOLD has columns; 0: as it is */
    uint32_t taps;
} TakePart;

/* suffix: ".weight", ".bias" */
bool weights_has(const WeightTable *t, Role role, int layer, const char *suffix);
/* Whether it is there and nothing has taken it yet. */
bool weights_is_left(const WeightTable *t, Role role, int layer, const char *suffix);
/* The tensor's rows, or 0 if it is absent: vocabulary sizes and the like where a config leaves them
 * out. */
uint32_t weights_rows(const WeightTable *t, Role role, int layer);
/* The tensor's last dimension, or 0: files of different origin are told apart by such. */
uint64_t weights_last(const WeightTable *t, Role role, int layer, const char *suffix);
/* Stacks the parts' ".weight" (or ".bias") tensors of a layer (-1: no layer) into one source. */
int32_t weights_take(WeightTable *t, WeightKind kind, int layer, const char *suffix,
                     const TakePart *parts, int n_parts);
typedef struct TakeExperts {
    Role role;
    uint32_t n_experts, n, k;
    /* output i of an expert is output first + i * step of what is stored; step 0: i itself */
    uint32_t step, first;
    /* above 0: one parameter [experts, stored, k] of floats, of which this is n rows from the first
     * on; otherwise a parameter is [experts, k, n] */
    uint32_t stored;
    /* with stored: the matrix is the transposed of rows [first, first + k), of so many columns (0: n)
     * those from `column` on; what is quantized becomes floats */
    bool across;
    uint32_t columns, column;
} TakeExperts;
/* One source of n_experts matrices [n, k]: a tensor for each, or one for all with the experts
 * outermost. */
int32_t weights_take_experts(WeightTable *t, int layer, const TakeExperts *p);
/* Their biases, one after the other: the tensor NAME_bias [n_experts, n * step]. */
int32_t weights_take_expert_biases(WeightTable *t, int layer, const TakeExperts *p);
/* An f32 vector's values right away (rope factors). */
const double *weights_values(WeightTable *t, Role role, int layer, const char *suffix, uint32_t n);
/* Whether the roles' tensors, of no layer, are plain floats of one type, shape and content. */
bool weights_same(const WeightTable *t, Role a, Role b);
/* its tensors are known and not used (a head beside a tie) */
void weights_ignore(WeightTable *t, Role role, int layer);
/* Reports the first error so far. */
bool weights_check(const WeightTable *t, Err *err) MUST_CHECK;
/* Reports the first error, and the tensors nobody took. */
bool weights_finish(WeightTable *t, Err *err) MUST_CHECK;

/* Name of a tensor in one kind of file, experts stacked in one: Hugging Face's and MLX's, or GGUF's;
 * without .weight, .bias. false: there is none. */
enum { WEIGHTS_MAX_NAME = 256 };
bool weights_name(const WeightTable *t, CkptKind kind, const WeightOrigin *o,
                  char out[WEIGHTS_MAX_NAME]);
/* The same in an MLX checkpoint of a family with these names, which hang at prefix ("model."), whatever
 * the tensors come from. */
bool weights_name_mlx(const RoleDelta *names, const char *prefix, const WeightOrigin *o,
                      char out[WEIGHTS_MAX_NAME]);
/* The same in a GGUF. */
bool weights_name_gguf(const RoleDelta *names, const WeightOrigin *o, char out[WEIGHTS_MAX_NAME]);
/* What the text model's names begin with ("model.layers" and so on), and those with a leading '/'. */
Str weights_prefix(const WeightTable *t);
Str weights_root(const WeightTable *t);
/* Whether tensor i of the checkpoint is part of something that was taken or is known to be useless. */
bool weights_is_used(const WeightTable *t, size_t i);
/* What weights_values() read it as: it is part of the model and of no program. NULL: it did not. */
const WeightOrigin *weights_value_of(const WeightTable *t, size_t i);
bool weights_glob(const char *pattern, Str s); /* '*' is any run of characters */
uint32_t weights_count(const WeightTable *t);
const ArchWeight *weights_get(const WeightTable *t, int32_t source);

#endif
