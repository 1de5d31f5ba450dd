/* arch.h: from a checkpoint to programs. A family is a difference from Llama: one file with key
 * deltas, name deltas and a layer() function that fills a LayerSpec; the loner writes build().
 * registry.c lists the families.
 *
 *     ArchModel m;
 *     if (!arch_build(ck, &arena, &m, err)) return false;   reads metadata and small vectors only
 *     ... m.text, weights_get(m.weights, i) ... */
#ifndef MLXCEL_ARCH_ARCH_H
#define MLXCEL_ARCH_ARCH_H

#include "arch/weights.h"

typedef struct MoeSpec { /* n_experts 0: the layer is dense */
    uint32_t n_experts, k, width;
    RouteFn fn;
    bool normalize;
    float scale;
    uint32_t shared_width; /* 0: no shared experts */
    bool shared_switch;    /* their result times a sigmoid of the row */
    bool biases;           /* of the router and the experts */
    bool interleaved;      /* gate and up in one stack, by turns: the file's ROLE_EXPERT_GATE */
    bool stacked;          /* gate over up in one stack: ROLE_EXPERT_GATE_UP, ROLE_EXPERT_DOWNS */
    bool select_bias;      /* ROLE_SELECT_BIAS: on the scores, for the choice only */
    uint32_t n_groups, k_groups, group_top; /* OP(ROUTE) */
    float limit, up_add;                    /* block/moe.h */
} MoeSpec;

/* What mixes the rows of a sequence in a layer (mixer.h). */
typedef enum Mixer {
    MIXER_ATTN,
    MIXER_SHORTCONV,
    MIXER_DELTA,
    MIXER_MLA,
    MIXER_MAMBA1,
    MIXER_MAMBA2,
    MIXER_RG_LRU
} Mixer;

typedef struct ShortConvSpec {
    uint32_t kernel;
    bool bias; /* of the convolution and both projections */
} ShortConvSpec;

/* Which keys a row of latent attention sees; n_heads 0: all. */
typedef struct IndexSpec {
    uint32_t n_heads, head_dim, k;
    bool interleaved; /* its rope */
    bool shared;      /* those that an earlier layer chose */
} IndexSpec;

typedef struct MlaSpec { /* heads, scale, rope and biases are the layer's */
    uint32_t nope_dim, rope_dim, v_dim, rank;
    uint32_t q_rank; /* 0: queries come from the row itself */
    float norm_eps;  /* of the latents */
    IndexSpec index; /* needs a q_rank */
} MlaSpec;

/* How a file keeps the projections of gated delta layers: per key head q, k, v, z and b, a in two
 * tensors; q, k, v in one and z, b, a in one each; all apart, with z and a of low rank. */
typedef enum DeltaForm { DELTA_BY_HEAD, DELTA_APART, DELTA_LOW_RANK } DeltaForm;

typedef struct DeltaSpec {
    uint32_t n_heads, n_k_heads, k_dim, v_dim, kernel;
    DeltaForm form;
    uint32_t rank;  /* of the low-rank form */
    bool tiled;     /* head h has key head h % n_k_heads */
    bool by_column; /* a decay for each column of the keys, not for each head */
    Act gate;       /* of z */
} DeltaSpec;

/* Norms of the first form on time step, B and C (bare: without weights), of the second on what the
 * heads give. */
typedef enum MambaNorms { MAMBA_NO_NORMS, MAMBA_NORMS, MAMBA_BARE_NORMS } MambaNorms;

typedef struct MambaSpec { /* of the first form (n_heads columns, a head each) and the second */
    uint32_t n_heads, head_dim, n_state, n_groups, kernel;
    uint32_t rank; /* of the first form's time step */
    bool conv_bias, in_bias, out_bias;
    MambaNorms norms;
    bool norm_first; /* then the gate; second form */
    float norm_eps;
    Act act;              /* behind the convolution */
    float dt_min, dt_max; /* of the second form's time step */
} MambaSpec;

typedef struct RgLruSpec {
    uint32_t width, n_blocks, kernel; /* the gates' matrices are n_blocks blocks on a diagonal */
} RgLruSpec;

typedef struct LayerSpec { /* filled by decoder defaults, then by the family's layer() */
    Mixer mixer;
    ShortConvSpec conv;
    DeltaSpec delta;
    MambaSpec mamba;
    RgLruSpec lru;
    MlaSpec mla;
    uint32_t n_heads, n_kv_heads, head_dim, v_dim;
    uint32_t window; /* 0: none */
    bool rope, rope_interleaved;
    RopeSpec rope_spec;
    float attn_scale, attn_softcap;
    OpPosScale warmth; /* of queries, the same in all layers; scale 0: none */
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm, qk_norm_whole;
    bool sinks;
    bool gate_in_q;                /* each head's rows of q are followed by as many of a gate */
    bool fused_qkv, fused_gate_up; /* one tensor in the file, parts in this order */
    /* also on what attention and feed-forward give, before the residual sum */
    bool post_norms;
    uint32_t ffn_width; /* 0 and no experts: the layer has no feed-forward */
    Act act;
    bool gated;
    float residual_scale;
    MoeSpec moe;
} LayerSpec;

typedef struct GgufKeys GgufKeys; /* gguf_keys.h */
typedef struct Arch Arch;
typedef struct ArchMedia ArchMedia; /* media.h */
typedef struct ArchModel ArchModel;

typedef struct Decoder { /* what all layers of a decoder share, and where it is being recorded */
    const Arch *arch;
    const Config *config;
    WeightTable *weights;
    ProgBuilder *b;
    Arena *arena;
    uint32_t hidden, n_layers, vocab;
    uint32_t max_positions; /* max_position_embeddings */
    float eps;              /* of the norms */
    float norm_add;         /* norms multiply by w + norm_add */
    float logit_softcap;    /* 0: none */
    float embed_scale, logit_scale;
    bool tied;       /* no head of its own: the embedding table is the head */
    LayerSpec layer; /* the defaults that every layer starts from */
    Val warmth;      /* of the rows, where layer.warmth says so */
    Val picks;       /* keys that the last layer with an index chose, for those that share them */
    /* Rows of media take the place of tokens (input "image_embeds"); to those behind each of the
     * first n_deepstack layers more is added (inputs "deepstack_embeds.N"). */
    bool media;
    uint32_t n_deepstack;
} Decoder;

/* What a wrapper's text section means where it leaves a size out: the reference's class defaults.
 * 0: it may not. */
typedef struct ArchSizes {
    uint32_t hidden, ffn, layers, heads, kv_heads, context;
} ArchSizes;

struct Arch {
    const char *name;               /* file name of the family */
    const char *const *model_types; /* config.json's, NULL-terminated */
    const char *hf_class;           /* config.json's "architectures" of the first; NULL: none */
    const char *hf_labels;          /* the same with a head that scores sequences, and */
    const char *hf_labels_prefix;   /* where its other tensors hang then ("bert.") */
    const char *const *gguf;        /* general.architecture values, NULL-terminated; NULL: none */
    /* what GGUF files of this family are written as; NULL: the first of gguf, if there is one */
    const char *gguf_as;
    const char *kind;       /* "text" */
    const RoleDelta *names; /* where tensor names differ from Llama's; NULL: nowhere */
    /* Parts of names that MLX's files spell another way: from, to; ends with NULL; NULL: none */
    const char *const (*mlx_names)[2];
    /* MLX keeps the places where a wrapper's parts hang ("model.language_model") as they are */
    bool mlx_same_places;
    /* the model type for which MLX keeps what goes up from latents to keys and values in one matrix */
    const char *mlx_joint_kv;
    /* What MLX and GGUF files have multiplied into each of a tensor's n rows, beyond what the file
     * that was read has already; NULL: nothing */
    bool (*fold)(const Decoder *d, const WeightOrigin *o, float *factors, uint32_t n, Err *err);
    const char *const *ignored; /* tensors that may lie unused, globs; NULL: none */
    ArchSizes sizes;
    uint32_t head_dim; /* when the config does not say; 0: hidden / heads */
    double rope_theta; /* likewise; 0: 10000 */
    double rope_share; /* likewise, of partial_rotary_factor; 0: 1 */
    bool rope_whole;   /* partial_rotary_factor of a config is not asked for: all columns turn */
    /* no layer need have a dense feed-forward: intermediate_size may be absent */
    bool no_dense;
    /* no layer has attention: nothing is asked of heads and positions */
    bool no_attn;
    /* max_position_embeddings is the length that linear scaling extends to, not the original one */
    bool positions_extended;
    /* without max_position_embeddings the context has no end */
    bool endless;
    /* of a family with build(): the keys of a GGUF that are not every decoder's; NULL: none is written */
    bool (*gguf_keys)(Decoder *d, GgufKeys *k, Err *err);
    /* in GGUF files the weight of the feed-forward's norm is without ".weight" */
    bool gguf_bare_ffn_norm;
    /* GGUF files of this architecture have permuted q and k rows */
    bool gguf_unpermute;
    /* GGUF files of so many layers scale attention by 1 / sqrt(hidden / heads), all others by
     * 1 / sqrt(head_dim): no key tells; 0: all by head_dim */
    uint32_t gguf_wide_layers;
    bool (*adjust)(Decoder *d, Err *err); /* shared deltas; NULL: none */
    /* per-layer deltas; NULL: none */
    bool (*layer)(const Decoder *d, int i, LayerSpec *l, Err *err);
    /* a layer that is not norm, mixer, norm, feed-forward: rows before it to rows behind it; NULL:
     * it is */
    Val (*body)(Decoder *d, const LayerSpec *l, Val x, int i);
    /* the loner's own: records everything and fills *out; NULL: decoder_build() */
    bool (*build)(Decoder *d, ArchModel *out, Err *err);
};

enum { ARCH_MAX_PROGRAMS = 3, ARCH_MAX_PLACEHOLDERS = 4 };

struct ArchModel {
    const Arch *arch;
    const Program *text;
    /* media.h; NULL: text only. cross: of encoder-decoder models */
    const ArchMedia *media;
    const Program *tower, *cross;
    const void *media_spec;                       /* the wrapper family's own */
    uint32_t placeholders[ARCH_MAX_PLACEHOLDERS]; /* tokens that stand for a row of media */
    uint32_t n_placeholders;
    uint32_t max_span; /* rows of media that see each other at most; 0: they see back only */
    bool wrapped;      /* the config is a wrapper's: this is the text model in it */
    const WeightTable *weights;
    uint32_t hidden, n_layers, vocab;
    /* largest that the model is meant for, tokens; 0 = as far as memory goes (dynamic NTK) */
    uint64_t context;
    /* Encoders: every row sees all of its sequence; token types (0: none), labels of the "scores"
     * output (0: it has none). */
    bool both_ways;
    uint32_t n_types, n_labels;
    uint32_t cross_rows; /* rows of cross planes a sequence has at most */
    uint32_t tower_rows; /* of the tower, for one image or window of sound; 0: they vary */
    bool needs_media;    /* every request must have some */
    /* the spec that fixes a request's length class; NULL: classes do not matter */
    const RopeSpec *class_rope;
    /* For converters: what the config came to, and the specs of its layers (NULL unless the generic
     * decoder built it). */
    const Decoder *resolved;
    const LayerSpec *layers;
};

bool arch_build(const Checkpoint *ck, Arena *a, ArchModel *out, Err *err) MUST_CHECK;
/* The text model alone, whatever a wrapper has beside it. */
bool arch_build_text(const Checkpoint *ck, Arena *a, ArchModel *out, Err *err) MUST_CHECK;
/* Whether a tensor that nobody took is something that the wrapper has beside its text model. */
bool arch_is_beside(const ArchModel *m, Str tensor);
/* The programs there are, text first; a weight's source number means the same in all. */
uint32_t arch_programs(const ArchModel *m, const Program *out[ARCH_MAX_PROGRAMS]);
const Arch *const *arch_list(size_t *n);
const ArchMedia *const *arch_media_list(size_t *n); /* the wrappers */
const Arch *arch_find(const Checkpoint *ck);        /* NULL if the registry has no such family */

/* decoder.c, for families */
bool decoder_build(Decoder *d, ArchModel *out, Err *err) MUST_CHECK;
/* What decoder_build() begins and ends with: the shared keys of the config and the defaults of all
 * layers; the finished program and its facts. */
bool decoder_read(Decoder *d, Err *err) MUST_CHECK;
bool decoder_finish(Decoder *d, ArchModel *out, Err *err) MUST_CHECK;
/* Rows of the embedding table, or of media (Decoder.media). */
Val decoder_embed(Decoder *d, WeightId table);
/* What a tower adds to the rows behind layer i; x where it adds nothing. */
enum { DECODER_MAX_DEEPSTACK = 8 };
Val decoder_deepstack(Decoder *d, Val x, uint32_t i);
/* The i-th one's name, as the text model's input and the tower's output. */
const char *decoder_deepstack_name(uint32_t i);
/* Rows whose logits are wanted (prog_select), through the final norm and the head. */
Val decoder_head(Decoder *d, Val x);
/* Scores of a GGUF are divided by the square root of this. */
uint32_t decoder_gguf_scalar(const Decoder *d);
bool act_parse(Str name, Act *out, Err *err) MUST_CHECK;
/* Whether layer i is of the named kind by config's layer_types; without that list: fallback.
 * ERR_INPUT on a bad list. */
bool decoder_layer_type(const Decoder *d, int i, const char *kind, bool fallback, bool *out,
                        Err *err) MUST_CHECK;
/* Whether layer i has experts by config's mlp_layer_types; without that list: fallback. */
bool decoder_layer_sparse(const Decoder *d, int i, bool fallback, bool *out, Err *err) MUST_CHECK;

/* attention_bias: of queries, keys, values and the output; false where it is absent. */
bool decoder_attn_bias(Decoder *d, Err *err) MUST_CHECK;
/* num_experts, num_experts_per_tok, moe_intermediate_size, norm_topk_prob under their usual names,
 * into l->moe. */
bool decoder_moe(const Decoder *d, const char *width_key, bool normalize, MoeSpec *out,
                 Err *err) MUST_CHECK;

/* rope_config.c: one section of several ("main", "full_attention") with the rope of a kind of layer. */
bool rope_config_section(const Config *c, const Config *section, Arena *a, uint32_t head_dim,
                         double theta, double share, RopeSpec *out, Err *err) MUST_CHECK;
/* As a share: all columns, whatever partial_rotary_factor of a config.json says. */
#define ROPE_WHOLE 0.0
/* rope_theta, rope_scaling, rope_parameters, partial_rotary_factor of a config
 * section, and mrope_section there. A family whose sections are interleaved although no file says it
 * (GGUF has no key) sets RopeSpec.sections_interleaved itself. */
bool rope_config_read(const Config *c, Arena *a, uint32_t head_dim, double default_theta,
                      double default_share, RopeSpec *out, Err *err) MUST_CHECK;
/* The same of one kind of layer ("sliding_attention"), where rope_parameters has a section for each;
 * rope_config_read() takes that of "full_attention". */
bool rope_config_has_kinds(const Config *c);
bool rope_config_kind(const Config *c, Arena *a, const char *kind, uint32_t head_dim,
                      double default_theta, double default_share, RopeSpec *out,
                      Err *err) MUST_CHECK;

#endif
