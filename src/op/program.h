/* program.h: a forward pass as a flat list of operations, recorded once at load (DESIGN.md section
 * 4).
 *
 * Values are activations [rows of a space, cols], float32. A view is a column range of another
 * value. Each op makes new values; program_plan() (plan.h) then gives every value its place in one
 * scratch block.
 *
 *     Val x = prog_embed(b, w_embed, 1.0f);
 *     Val h = prog_rms_norm(b, x, w_norm, ...);
 *     Val qkv = prog_linear(b, h, w_qkv, W_NONE);
 *     Val q = prog_view(b, qkv, 0, n_heads * head_dim);
 *
 * Builder errors (shapes that do not fit) are sticky and carry the op's number and probe name:
 * prog_finish() reports the first. Ownership: everything lives in the builder's arena; the finished
 * Program is immutable and shared by threads. */
#ifndef MLXCEL_OP_PROGRAM_H
#define MLXCEL_OP_PROGRAM_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "op/rope.h"

typedef uint32_t Val;
typedef int32_t WeightId;
typedef int32_t PlaneId;
typedef int32_t StateId;
#define VAL_NONE UINT32_MAX
#define W_NONE (-1)
#define PLANE_NONE (-1)
#define STATE_NONE (-1)
enum { OP_INPUTS = 6, OP_WEIGHTS = 3 };

typedef enum OpCode {
#define OP(name, n_in, n_w, n_plane, summary) OP_##name,
#include "op/op.def"
#undef OP
    OP_COUNT
} OpCode;

/* Row spaces: T rows of the step, R rows whose logits are wanted, S one row per sequence; from
 * SPACE_DERIVED on, spaces of the program's own with T * num / den rows (prog_space()). */
typedef enum Space {
    SPACE_T,
    SPACE_R,
    SPACE_S,
    SPACE_DERIVED,
    SPACE_MAX = SPACE_DERIVED + 5
} Space;

typedef struct ProgSpace {
    uint32_t num, den;
} ProgSpace;

typedef enum Act {
    ACT_SILU,
    ACT_GELU,
    ACT_GELU_TANH,
    ACT_RELU,
    ACT_RELU2,
    ACT_SIGMOID,
    ACT_TANH,
    ACT_SOFTPLUS,
    ACT_EXP,
    ACT_QUICK_GELU,
    ACT_SOFTCAP,
    ACT_CLAMP,
    ACT_CAP,
    ACT_COUNT
} Act;

typedef struct ProgVal {
    Space space;
    uint32_t cols;
    Val base;         /* itself, or the value it is a view of (views of views are resolved) */
    uint32_t col0;    /* first column in base */
    const char *name; /* probe, or NULL */
} ProgVal;

/* linear, looked up by row, f32 vector */
typedef enum WeightKind { WEIGHT_MATRIX, WEIGHT_TABLE, WEIGHT_VECTOR } WeightKind;

typedef struct ProgWeight {
    WeightKind kind;
    uint32_t n, k;    /* MATRIX, TABLE: [n rows, k columns]; VECTOR: k entries, n = 1 */
    const char *name; /* role, for listings and errors */
    /* the loader's number for it (arch/weights.h); two weights may share one source (tied) */
    int32_t source;
} ProgWeight;

/* keys are dotted with queries, values are summed; a latent is both: its row is the key, its first
 * columns the value. Backends lay the three out apart. */
typedef enum PlaneUse { PLANE_KEY, PLANE_VALUE, PLANE_LATENT } PlaneUse;
/* Which rows stay readable: all; the last `span`; those since the last multiple of `span`; CROSS:
 * rows of another program (an encoder), all. */
typedef enum PlaneKeep { KEEP_ALL, KEEP_WINDOW, KEEP_CHUNK, KEEP_CROSS } PlaneKeep;
typedef enum PlaneType {
    PLANE_F32,
    PLANE_F16,
    PLANE_BF16,
    PLANE_Q8_0,
    PLANE_Q4_0,
    PLANE_TYPE_COUNT
} PlaneType;

typedef struct ProgPlane {
    int layer;
    uint32_t heads, head_cols; /* columns = heads * head_cols */
    PlaneUse use;
    PlaneKeep keep;
    uint32_t span; /* of KEEP_WINDOW and KEEP_CHUNK, tokens; else 0 */
    uint32_t rate; /* one row for so many tokens, in the place of the last of them; 0 and 1: each */
    uint32_t group; /* prog_plane() fills it: planes that keep alike share a page table */
} ProgPlane;

enum { PLANE_MAX_GROUPS = 8 };
typedef struct ProgGroup {
    PlaneKeep keep;
    uint32_t span;
} ProgGroup;

/* What a recurrent op keeps of one sequence between its rows: floats, whatever the cache types. */
typedef struct ProgState {
    int layer;
    uint32_t floats;
} ProgState;

typedef struct ProgInput { /* rows written from outside before a run (BackendApi.write) */
    const char *name;
    Space space;
    uint32_t cols;
} ProgInput;

typedef struct OpNorm {
    float eps, w_add;
    uint32_t group;
} OpNorm;
typedef struct OpRope {
    uint32_t spec, n_heads, head_dim, offset;
    bool interleaved;
} OpRope;
typedef struct OpAttn {
    uint32_t n_heads, n_kv_heads, head_dim, v_dim, window;
    float scale, softcap;
    uint32_t chunk; /* keys since the last multiple of it; 0: none */
    bool cross;     /* all n_cross rows of the sequence instead of lo..hi */
    bool joint;     /* the second plane is one of latents too: both under one softmax */
} OpAttn;

enum { ROUTE_MAX_EXPERTS = 4096, ROUTE_MAX_K = 64 }; /* backends keep a row's choice on the stack */
/* likewise a table's row, a convolution's rows, a head's values */
enum { GATHER_MAX_COLS = 1 << 15, CONV_MAX_KERNEL = 64, DELTA_MAX_V = 1024 };
typedef enum RouteFn { ROUTE_SOFTMAX, ROUTE_SIGMOID, ROUTE_SQRT_SOFTPLUS, ROUTE_FN_COUNT } RouteFn;
typedef struct OpRoute {
    RouteFn fn;
    bool normalize;
    uint32_t n_experts, k, n_groups, k_groups, group_top;
    float scale;
} OpRoute;
typedef struct OpExperts {
    uint32_t n_experts, k, n;
} OpExperts; /* n: outputs of one expert */

/* Which number of a row looks a table up. */
typedef enum EmbedKey { EMBED_TOKEN, EMBED_POS0, EMBED_POS1, EMBED_POS2, EMBED_POS3 } EmbedKey;
typedef struct OpEmbed {
    float scale;
    EmbedKey key;
    int32_t offset; /* added to the number */
    bool outside_first;
} OpEmbed;
typedef enum Reduce { REDUCE_MEAN, REDUCE_RMS, REDUCE_SUM, REDUCE_COUNT } Reduce;
typedef struct OpReduce {
    Reduce fn;
    uint32_t group;
    float eps; /* RMS: sqrt(mean + eps) */
} OpReduce;
typedef struct OpUnfold {
    uint32_t kernel, stride, pad;
} OpUnfold;
typedef enum PoolKind { POOL_MEAN, POOL_FIRST, POOL_LAST, POOL_COUNT } PoolKind;
typedef struct OpMix {
    uint32_t n_in, n_out;
} OpMix;
typedef struct OpPosScale {
    float scale, floor, offset;
} OpPosScale;
typedef enum ColFn { COL_PLAIN, COL_NEG_EXP, COL_SOFTPLUS } ColFn;
typedef struct OpConv {
    uint32_t kernel;
} OpConv;
typedef struct OpCompress {
    uint32_t rate;
    bool overlap;
} OpCompress;
enum { COMPRESS_MAX_RATE = 1 << 12 };
enum { SINKHORN_MAX_N = 32 }; /* backends keep the matrix on the stack */
typedef struct OpSinkhorn {
    uint32_t n, times;
    float eps;
} OpSinkhorn;
typedef struct OpSsm {
    uint32_t n_heads, head_dim, n_state, n_groups;
    bool a_log;
} OpSsm;
typedef struct OpDelta {
    uint32_t n_heads, n_k_heads, k_dim, v_dim;
    bool tiled; /* head h has key head h % n_k_heads, not h / (n_heads / n_k_heads) */
} OpDelta;
enum { PICK_MAX_KEYS = 16384, PICK_MAX_COLS = 4096 }; /* backends keep them on the stack */
typedef struct OpKeySelect {
    uint32_t n_heads, head_dim, k;
    float scale;
} OpKeySelect;

typedef struct Op {
    OpCode code;
    Val out; /* VAL_NONE for KV_WRITE */
    Val in[OP_INPUTS];
    WeightId w[OP_WEIGHTS];
    PlaneId plane[2];
    StateId state;
    union {
        OpEmbed embed; /* EMBED */
        float scale;   /* ADD SCALE; EMBED's too */
        struct {
            float scale, offset;
        } affine; /* SCALE: scale is the one above */
        struct {
            bool precise;
        } linear;    /* LINEAR */
        OpNorm norm; /* RMS_NORM LAYER_NORM */
        OpRope rope; /* ROPE_ANGLES (spec) ROPE */
        OpAttn attn; /* ATTN */
        struct {
            Act fn;
            float param;
        } act;             /* ACT GLU */
        OpRoute route;     /* ROUTE */
        OpExperts experts; /* EXPERTS EXPERT_SUM */
        uint32_t input;    /* INPUT: its number */
        uint32_t n_groups; /* CONCAT */
        OpReduce reduce;
        OpUnfold unfold;
        PoolKind pool;
        OpPosScale pos_scale;
        OpMix mix;
        ColFn col_fn;
        OpConv conv;
        OpCompress compress;
        OpSinkhorn sinkhorn;
        OpSsm ssm;
        OpDelta delta;
        OpKeySelect key_select;
    } p;
} Op;

typedef struct ProgOutput {
    const char *name; /* "logits", "hidden" */
    Val val;
} ProgOutput;

typedef struct Program {
    const char *name; /* "text" */
    const Op *ops;
    uint32_t n_ops;
    const ProgVal *vals;
    uint32_t n_vals;
    const ProgWeight *weights;
    uint32_t n_weights;
    const ProgPlane *planes;
    uint32_t n_planes;
    ProgGroup groups[PLANE_MAX_GROUPS];
    uint32_t n_groups;
    const ProgState *states;
    uint32_t n_states;
    const ProgInput *inputs;
    uint32_t n_inputs;
    ProgSpace spaces[SPACE_MAX]; /* from SPACE_DERIVED on */
    uint32_t n_spaces;           /* in all; at least SPACE_DERIVED */
    const RopeSpec *ropes;
    uint32_t n_ropes;
    const ProgOutput *outputs;
    uint32_t n_outputs;
} Program;

typedef struct ProgBuilder ProgBuilder;

ProgBuilder *prog_begin(Arena *a, const char *name); /* NULL: no memory */
/* Takes over the planes and states of a finished program under the same numbers, so that both run
 * over one set of cache planes. Call it first. */
void prog_share_planes(ProgBuilder *b, const Program *with);
bool prog_finish(ProgBuilder *b, const Program **out, Err *err) MUST_CHECK;

WeightId prog_weight(ProgBuilder *b, WeightKind kind, uint32_t n, uint32_t k, int32_t source,
                     const char *name);
PlaneId prog_plane(ProgBuilder *b, ProgPlane plane);
StateId prog_state(ProgBuilder *b, int layer, uint32_t floats);
/* The space of T * num / den rows; a step whose rows it does not divide is refused. */
Space prog_space(ProgBuilder *b, uint32_t num, uint32_t den);
uint32_t prog_rope_spec(ProgBuilder *b, RopeSpec spec); /* equal specs share a number */

Val prog_view(ProgBuilder *b, Val x, uint32_t col0, uint32_t cols);
/* names x, returns it */
Val prog_probe(ProgBuilder *b, Val x, const char *fmt, ...) PRINTF_LIKE(3, 4);
void prog_output(ProgBuilder *b, Val x, const char *name);

Val prog_embed(ProgBuilder *b, WeightId table, float scale);
/* media: what rows whose source is a media row get instead; VAL_NONE: zeros. */
Val prog_embed_media(ProgBuilder *b, WeightId table, float scale, Val media);
Val prog_embed_key(ProgBuilder *b, WeightId table, EmbedKey key, int32_t offset);
/* By token; tokens without a row (and media rows) have row 0. */
Val prog_embed_known(ProgBuilder *b, WeightId table, float scale);
Val prog_input(ProgBuilder *b, const char *name, Space space, uint32_t cols);
Val prog_gather_sum(ProgBuilder *b, Val picks, WeightId table);
Val prog_concat(ProgBuilder *b, Val x, Val y);
/* group by group: [x_0 | y_0 | x_1 | y_1 | ...] */
Val prog_concat_groups(ProgBuilder *b, Val x, Val y, uint32_t n_groups);
Val prog_reduce(ProgBuilder *b, Val x, Reduce fn, uint32_t group, float eps);
Val prog_unfold(ProgBuilder *b, Val x, Space space, OpUnfold p);
Val prog_pool(ProgBuilder *b, Val x, PoolKind fn);
Val prog_pos_scale(ProgBuilder *b, OpPosScale p);
Val prog_mix(ProgBuilder *b, Val x, Val coef, uint32_t n_in, uint32_t n_out);
Val prog_linear(ProgBuilder *b, Val x, WeightId w, WeightId bias);
/* op.def says what for */
Val prog_linear_precise(ProgBuilder *b, Val x, WeightId w, WeightId bias);
/* group 0: whole row */
Val prog_rms_norm(ProgBuilder *b, Val x, WeightId w, uint32_t group, float eps, float w_add);
Val prog_layer_norm(ProgBuilder *b, Val x, WeightId w, WeightId bias, uint32_t group, float eps,
                    float w_add);
Val prog_rope_angles(ProgBuilder *b, uint32_t spec); /* recorded once per spec */
Val prog_rope(ProgBuilder *b, Val x, uint32_t spec, uint32_t n_heads, uint32_t head_dim,
              uint32_t offset, bool interleaved);
void prog_kv_write(ProgBuilder *b, Val x, PlaneId plane);
Val prog_attn(ProgBuilder *b, Val q, PlaneId k, PlaneId v, WeightId sinks, OpAttn p);
Val prog_add(ProgBuilder *b, Val a, Val c, float scale);
Val prog_mul(ProgBuilder *b, Val a, Val c);
Val prog_scale(ProgBuilder *b, Val a, float scale);
Val prog_affine(ProgBuilder *b, Val a, float scale, float offset);
Val prog_col_scale(ProgBuilder *b, Val a, WeightId w, WeightId add, ColFn fn);
Val prog_act(ProgBuilder *b, Val a, Act fn, float param);
Val prog_glu(ProgBuilder *b, Val gate, Val up, Act fn);
Val prog_select(ProgBuilder *b, Val x);

Val prog_route(ProgBuilder *b, Val logits, WeightId bias, OpRoute p);
Val prog_route_scaled(ProgBuilder *b, Val logits, WeightId bias, WeightId factor, OpRoute p);
/* numbers [T, k]: the experts, chosen already */
Val prog_route_given(ProgBuilder *b, Val logits, Val numbers, OpRoute p);
/* w: n_experts matrices of n rows each, stacked, a source each; bias: n_experts * n entries. */
Val prog_experts(ProgBuilder *b, Val x, Val routes, WeightId w, WeightId bias, uint32_t n_experts,
                 uint32_t n);
Val prog_expert_sum(ProgBuilder *b, Val x, Val routes);

/* A block-diagonal matrix: part j of x times matrix j of w [n_parts * n, k], n_parts sources. */
Val prog_block_linear(ProgBuilder *b, Val x, WeightId w, uint32_t n_parts, uint32_t n);
/* attention over chosen keys only */
Val prog_attn_picked(ProgBuilder *b, Val q, Val picks, PlaneId k, PlaneId v, WeightId sinks,
                     OpAttn p);
/* attention over two latent planes at once: near, and far with a rate (picks: VAL_NONE: all) */
Val prog_attn_joint(ProgBuilder *b, Val q, Val picks, PlaneId near, PlaneId far, WeightId sinks,
                    OpAttn p);
Val prog_key_select(ProgBuilder *b, Val q, Val weights, PlaneId keys, OpKeySelect p);
Val prog_conv(ProgBuilder *b, Val x, WeightId w, WeightId bias, uint32_t kernel, int layer);
/* bias: [rate * columns of x] */
Val prog_compress(ProgBuilder *b, Val x, Val gate, WeightId bias, OpCompress p, int layer);
Val prog_sinkhorn(ProgBuilder *b, Val x, OpSinkhorn p);
Val prog_ssm(ProgBuilder *b, Val x, Val dt, Val in_b, Val in_c, WeightId a, WeightId d, OpSsm p,
             int layer);
Val prog_delta(ProgBuilder *b, Val q, Val k, Val v, Val log_decay, Val beta, OpDelta p, int layer);
Val prog_rg_lru(ProgBuilder *b, Val x, Val log_a, int layer);

const char *opcode_name(OpCode code);
const char *act_name(Act fn);
const char *planetype_name(PlaneType t);
bool planetype_parse(Str name, PlaneType *out);
/* one token, one head, scales included */
size_t planetype_row_bytes(PlaneType t, uint32_t head_cols);
void program_dump(const Program *p, Buf *out); /* the listing of inspect --program */

#endif
