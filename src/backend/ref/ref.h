/* ref.h: the specification backend: plain loops, f64 accumulation, weights widened to f32,
 * activations never quantized. Every other backend is tested against it op by op. Its memory
 * layouts are the obvious ones:
 *   weight   f32 [n][k]
 *   page     [head][PAGE_TOKENS][planetype_row_bytes]; q8_0/q4_0 rows are f16 scale, then codes */
#ifndef MLXCEL_BACKEND_REF_REF_H
#define MLXCEL_BACKEND_REF_REF_H

#include "backend/host.h"

struct BackWeight { /* of the ref backend */
    uint32_t n, k;
    float *p;
    size_t bytes;
};

HostOpFn ref_linear, ref_rms_norm, ref_layer_norm, ref_rope_angles, ref_rope, ref_kv_write,
    ref_attn, ref_add, ref_mul, ref_scale, ref_act, ref_glu, ref_select, ref_experts;

static inline const float *ref_weight(const HostExec *ex, WeightId w) {
    return w == W_NONE ? NULL : ex->weights[w]->p;
}
double ref_act_value(Act fn, double x, double param);

void ref_plane_row(const HostExec *ex, PlaneId plane, const StepSeq *seq, uint32_t slot,
                   uint32_t head, float *out);
/* One cached row of one head. */
void ref_row_store(PlaneType t, unsigned char *row, const float *x, uint32_t n);
void ref_row_load(PlaneType t, const unsigned char *row, float *x, uint32_t n);

#endif
