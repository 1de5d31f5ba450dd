/* whisper.h: what the two sides of Whisper share (Radford et al. 2022): sizes, and the pieces of
 * their pre-norm layers. whisper_encoder.c records the tower, whisper.c the decoder and the cross
 * program, which stores each decoder layer's keys and values of the encoder's rows. */
#ifndef MLXCEL_ARCH_WHISPER_H
#define MLXCEL_ARCH_WHISPER_H

#include "arch/vit.h"

typedef struct WhisperSide {
    uint32_t n_layers, n_heads, ffn_width;
} WhisperSide;

typedef struct Whisper {
    uint32_t width, vocab, n_mels;
    uint32_t n_source; /* rows of the encoder, of two frames each */
    uint32_t n_target; /* positions of the decoder */
    WhisperSide encoder, decoder;
    Act act;
    bool tied;
    bool sinusoids; /* the file has no positions of the encoder */
} Whisper;

/* The kernel of both convolutions over time. */
enum { WHISPER_TAPS = 3 };

bool whisper_read(const Config *c, Whisper *out, Err *err) MUST_CHECK;
/* The names of one side's layers, which hang at `at`, a string literal. MLX has others. */
#define WHISPER_LAYER_NAMES(at)                                                                    \
    {ROLE_ATTN_NORM, {at "layers.%d.self_attn_layer_norm", NULL}},                                 \
        {ROLE_ATTN_NORM, {at "blocks.%d.attn_ln", NULL}},                                          \
        {ROLE_Q, {at "layers.%d.self_attn.q_proj", NULL}},                                         \
        {ROLE_Q, {at "blocks.%d.attn.query", NULL}},                                               \
        {ROLE_K, {at "layers.%d.self_attn.k_proj", NULL}},                                         \
        {ROLE_K, {at "blocks.%d.attn.key", NULL}},                                                 \
        {ROLE_V, {at "layers.%d.self_attn.v_proj", NULL}},                                         \
        {ROLE_V, {at "blocks.%d.attn.value", NULL}},                                               \
        {ROLE_O, {at "layers.%d.self_attn.out_proj", NULL}},                                       \
        {ROLE_O, {at "blocks.%d.attn.out", NULL}},                                                 \
        {ROLE_FFN_NORM, {at "layers.%d.final_layer_norm", NULL}},                                  \
        {ROLE_FFN_NORM, {at "blocks.%d.mlp_ln", NULL}}, {ROLE_UP, {at "layers.%d.fc1", NULL}},     \
        {ROLE_UP, {at "blocks.%d.mlp1", NULL}}, {ROLE_DOWN, {at "layers.%d.fc2", NULL}}, {         \
        ROLE_DOWN, { at "blocks.%d.mlp2", NULL }                                                   \
    }

/* One side, being recorded into d. */
Vit whisper_side(const Whisper *w, const WhisperSide *s, Decoder *d);
/* Keys and values of the rows x, by two roles, into two planes. */
void whisper_store(const Vit *v, Val x, Role key, Role value, int i, PlaneId k, PlaneId val);
/* Queries of the rows x over two planes; the results through the matrix of `out`. */
Val whisper_attend(const Vit *v, Val x, Role query, Role out, int i, PlaneId k, PlaneId val,
                   bool cross);
Val whisper_feed(const Vit *v, Val x, int i); /* x and what norm and feed-forward add to it */

#endif
