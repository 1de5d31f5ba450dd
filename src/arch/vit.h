/* vit.h: vision transformers for wrapper families (media.h): pre-norm layers of attention among the
 * rows of a sequence and a feed-forward. Dosovitskiy et al. 2021.
 *
 *     Vit v = {.d = d, .n_heads = ..., ...};     d->hidden, d->eps and d->n_layers are the tower's
 *     vit_begin(&v);
 *     for (i ...) x = vit_layer(&v, x, i);
 *
 *     x = vit_project(&v, x, v.d->hidden, ACT_GELU);
 *
 * Roles are those of decoders: ROLE_ATTN_NORM, ROLE_Q, K, V (or ROLE_QKV), ROLE_O, ROLE_FFN_NORM,
 * ROLE_GATE, ROLE_UP, ROLE_DOWN. */
#ifndef MLXCEL_ARCH_VIT_H
#define MLXCEL_ARCH_VIT_H

#include "arch/media.h"
#include "arch/take.h"

typedef struct Vit {
    Decoder *d;
    uint32_t n_heads, head_dim, ffn_width;
    Act act;
    bool rms;       /* norms without mean and bias */
    bool gated;     /* feed-forward of gate, up and down */
    bool fused_qkv; /* one tensor, parts in this order */
    bool no_bias;   /* of no matrix */
    bool rope;      /* queries and keys turn by rope_spec (prog_rope_spec()) */
    uint32_t rope_spec;
    /* of the layers that follow: rows see all n_cross rows of their sequence, not lo..hi */
    bool whole;
    PlaneId k, v; /* vit_begin(): of all layers in turn, nobody reads a layer's keys after it */
} Vit;

void vit_begin(Vit *v);
Val vit_layer(const Vit *v, Val x, int i);
/* A layer norm (or RMS norm) with what it has in the file. */
Val vit_norm(const Vit *v, Val x, Role role, int i);
/* x times the role's [n, k] matrix, and its bias if the file has one. */
Val vit_linear(const Vit *v, Val x, Role role, int i, uint32_t n, uint32_t k);

/* theta of queries and keys that turn by line and column (rope_theta, rope_parameters). */
bool vit_rope_theta(const Config *vision, double *theta, Err *err) MUST_CHECK;

/* The wrapper's vision_feature_layer: what lies behind which layers the projector takes, 0: the
 * embedded rows. */
enum { VIT_MAX_FEATURES = 64 };
typedef struct VitFeatures {
    uint32_t layers[VIT_MAX_FEATURES], n;
    Act act; /* projector_hidden_act */
} VitFeatures;
/* usual: the layer when the config names none, from the end if negative, as there. */
bool vit_features_read(VitFeatures *f, const Decoder *tower, const Config *wrapper, int64_t usual,
                       Err *err) MUST_CHECK;
/* From the embedded rows x: the features side by side; layers behind the last one are left out. */
Val vit_features(const Vit *v, const VitFeatures *f, Val x);
/* ROLE_PROJ_1, act, ROLE_PROJ_2: from k columns to the text model's width. */
Val vit_project(const Vit *v, Val x, uint32_t k, Act act);

/* Images as rows: each patch x patch square of each image [channels, height, width] is a row of
 * channels * patch * patch floats, channels outermost or (last: as MLX files have the kernel)
 * innermost. Squares go row by row, or block by block of block x block squares. */
typedef struct VitPatches {
    uint32_t channels, patch, block;
    bool channels_last;
} VitPatches;
/* The square of line y and column x of one image into out, which has room for it. */
void vit_patch(const VitPatches *p, const float *image, uint64_t height, uint64_t width, uint64_t y,
               uint64_t x, float *out);
/* All whole blocks of an image; gives what is behind them in out. */
float *vit_patches_write(const VitPatches *p, const float *image, uint64_t height, uint64_t width,
                         float *out);
/* images: float32 [n, channels, height, width]. NULL: no memory. */
const float *vit_patches(const VitPatches *p, const MediaTensor *images, Arena *a, Err *err);

#endif
