/* gemma_shared.h: what Gemma 3n and Gemma 4 have in common, beyond Gemma 3: plain norms (w, not 1 + w),
 * queries and keys and values normed per head and attention unscaled, last layers that read the keys and
 * values of an earlier layer of their kind, ropes by kind of layer, and a small input of each layer's
 * own that is looked up by token (per-layer embeddings) and gates what the layer adds. */
#ifndef MLXCEL_ARCH_GEMMA_SHARED_H
#define MLXCEL_ARCH_GEMMA_SHARED_H

#include "arch/take.h"

enum { GEMMA_KINDS = 2, GEMMA_MAX_LAYERS = 1024 }; /* sliding, full */

typedef struct GemmaNet {
    Decoder *d;
    uint32_t n_shared;   /* last layers without keys and values of their own */
    uint32_t inputs_dim; /* of a layer's own input; 0: none */
    Val inputs;          /* of all layers, side by side */
    uint32_t window;
    /* what the config means where it says nothing */
    uint32_t default_shared;
    uint32_t default_keyed; /* of GGUF files: layers with keys of their own; 0: all */
    double default_softcap;
    struct {
        PlaneId k, v;
    } planes[GEMMA_KINDS]; /* of the last layer of a kind that wrote */
    RopeSpec rope[GEMMA_KINDS];
    uint32_t rope_of[GEMMA_KINDS]; /* the size of heads that it was read for; 0: not yet */
} GemmaNet;

typedef struct GemmaAttn {
    uint32_t n_kv_heads, head_dim;
    bool full;   /* no window */
    bool k_is_v; /* values are the keys before their norm */
} GemmaAttn;

/* decoder_read() and the keys that both families have. pattern: every so many layers is a full one
 * when layer_types (GGUF: sliding_window_pattern) is absent. */
bool gemma_net_read(GemmaNet *g, Err *err) MUST_CHECK;
bool gemma_net_is_full(const GemmaNet *g, int i, int64_t pattern, bool *full, Err *err) MUST_CHECK;
/* The keys of a GGUF that both have. */
bool gemma_net_gguf_keys(GemmaNet *g, int64_t pattern, GgufKeys *k, Err *err) MUST_CHECK;
/* The rope of a kind of layer: rope_parameters.<kind>, or the older keys. */
bool gemma_net_rope(GemmaNet *g, bool full, uint32_t head_dim, Err *err) MUST_CHECK;
bool gemma_net_reuses(const GemmaNet *g, int i);
/* x: normed rows. */
Val gemma_net_attn(GemmaNet *g, const GemmaAttn *p, Val x, int i);
/* The layers' own inputs, from the embedded rows. */
bool gemma_net_inputs(GemmaNet *g, Val embeds, Err *err) MUST_CHECK;
/* What layer i's own input adds: x gated, projected, normed. */
Val gemma_net_input(GemmaNet *g, Val x, int i);
Val gemma_net_norm(const GemmaNet *g, Val x, Role role, int i);
/* Output rows x: final norm, head, soft-cap. */
bool gemma_net_finish(GemmaNet *g, Val x, ArchModel *out, Err *err) MUST_CHECK;

/* Names that both have, for the families' lists. */
#define GEMMA_NET_ROLES                                                                            \
    {ROLE_POST_ATTN_NORM, {"layers.%d.post_attention_layernorm", "blk.%d.post_attention_norm"}},   \
        {ROLE_FFN_NORM, {"layers.%d.pre_feedforward_layernorm", "blk.%d.ffn_norm"}},               \
        {ROLE_POST_FFN_NORM, {"layers.%d.post_feedforward_layernorm", "blk.%d.post_ffw_norm"}},    \
        {ROLE_INPUTS_EMBED, {"embed_tokens_per_layer", "per_layer_token_embd"}},                   \
        {ROLE_INPUTS_PROJ, {"per_layer_model_projection", "per_layer_model_proj"}},                \
        {ROLE_INPUTS_NORM, {"per_layer_projection_norm", "per_layer_proj_norm"}},                  \
        {ROLE_INPUTS_GATE, {"layers.%d.per_layer_input_gate", "blk.%d.inp_gate"}},                 \
        {ROLE_INPUTS_OUT, {"layers.%d.per_layer_projection", "blk.%d.proj"}}, {                    \
        ROLE_INPUTS_POST_NORM, { "layers.%d.post_per_layer_input_norm", "blk.%d.post_norm" }       \
    }

#endif
