/* rope.h: rotary frequencies. A RopeSpec is what a checkpoint says; rope_inv_freq() turns it into
 * numbers for a sequence's length class. Length class (DESIGN.md rule 7): fixed at submit from the
 * prompt's length, 0 unless the rule depends on it:
 *   dynamic NTK: the prompt's length when it exceeds orig_context, longrope: 1 when it does. */
#ifndef MLXCEL_OP_ROPE_H
#define MLXCEL_OP_ROPE_H

#include <stdbool.h>
#include <stdint.h>

enum { ROPE_MAX_PAIRS = 512 };

typedef enum RopeKind {
    ROPE_PLAIN,
    ROPE_LINEAR,
    ROPE_DYNAMIC,
    ROPE_YARN,
    ROPE_LLAMA3,
    ROPE_LONG
} RopeKind;

typedef struct RopeSpec {
    RopeKind kind;
    /* rotated columns per head, even; pairs = rot_dim / 2 <= ROPE_MAX_PAIRS */
    uint32_t rot_dim;
    /* d in theta^(-2i/d): rot_dim unless the family says otherwise (proportional rope) */
    uint32_t freq_dim;
    double theta;
    double factor;         /* >= 1 for all kinds but plain */
    uint32_t orig_context; /* tokens the model was trained at; 0 where the kind does not use it */
    double attn_factor;    /* multiplies cosines and sines; 0 = by the kind's rule */
    double beta_fast, beta_slow, mscale, mscale_all_dim; /* yarn (Peng et al. 2023) */
    /* yarn: round the ramp's ends to whole dimensions */
    bool truncate;
    double low_freq_factor, high_freq_factor; /* llama3 */
    /* longrope: one per pair; rope_freqs of GGUF: short_factor */
    const double *short_factor, *long_factor;
    /* longrope: the extended length, for the default attn factor */
    uint32_t max_context;
    /* M-RoPE: pairs that use coordinate 0..3; all zero = coordinate 0 everywhere */
    uint32_t sections[4];
    bool sections_interleaved;
    bool sections_restart; /* the first pair of each section has frequency 1 (not interleaved) */
    uint32_t pos_step;     /* above 1: positions are rounded down to its multiples */
    bool backward;         /* turns by -angle: undoes what the same spec without it does */
} RopeSpec;

/* Writes rot_dim / 2 frequencies (radians per position) and the factor on cosines and sines. */
void rope_inv_freq(const RopeSpec *spec, uint32_t length_class, float *inv_freq,
                   float *attn_factor);
uint32_t rope_length_class(const RopeSpec *spec, uint64_t prompt_tokens);
/* The coordinate (0..3) that pair i of the spec follows. */
uint32_t rope_section(const RopeSpec *spec, uint32_t pair);
/* The position that pair i of a row with these coordinates is turned by, times its frequency. */
float rope_position(const RopeSpec *spec, const int32_t pos[4], uint32_t pair);

#endif
