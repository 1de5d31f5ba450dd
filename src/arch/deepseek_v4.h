/* deepseek_v4.h: what a config of DeepSeek-V4 says, for deepseek_v4.c. */
#ifndef MLXCEL_ARCH_DEEPSEEK_V4_H
#define MLXCEL_ARCH_DEEPSEEK_V4_H

#include "arch/arch.h"

/* What a layer's rows see: a window; a window and groups that an indexer chooses; a window and all
 * groups, larger ones. */
typedef enum V4Kind { V4_WINDOW, V4_SPARSE, V4_HEAVY, V4_KIND_COUNT } V4Kind;

typedef struct V4Layer {
    V4Kind kind;
    bool by_token;             /* the token chooses the experts */
    float limit, shared_limit; /* of the experts' gates (MoeSpec), and of the shared one's */
} V4Layer;

typedef struct V4Net {
    Decoder *d;
    const V4Layer *layers;
    RopeSpec rope[2]; /* of window layers; of all that compresses */
    uint32_t window, rate[V4_KIND_COUNT];
    uint32_t q_rank, o_groups, o_rank;
    IndexSpec index;
    uint32_t n_streams, stream_times;
    float stream_eps;
    MoeSpec moe;
} V4Net;

/* Behind decoder_read(). */
bool v4_config_read(Decoder *d, V4Net *out, Err *err) MUST_CHECK;

#endif
