/* cpu_ops.h: the ops of the cpu backend, once per instruction set; cpu.c makes a HostOps table of
 * each set. */
#ifndef MLXCEL_BACKEND_CPU_CPU_OPS_H
#define MLXCEL_BACKEND_CPU_CPU_OPS_H

#include "backend/host.h"

#define CPU_OPS(isa)                                                                               \
    HostOpFn op_linear_##isa, op_rms_norm_##isa, op_layer_norm_##isa, op_rope_angles_##isa,        \
        op_rope_##isa, op_kv_write_##isa, op_attn_##isa, op_add_##isa, op_mul_##isa,               \
        op_scale_##isa, op_act_##isa, op_glu_##isa, op_select_##isa, op_experts_##isa
CPU_OPS(avx512);
CPU_OPS(avx2);
CPU_OPS(portable);

/* The vector exponential and its kin, for tests: out[i] = f(x[i]), as the kernels compute it. */
typedef void CpuActFn(int act, float param, const float *x, float *out, size_t n);
CpuActFn cpu_act_avx512, cpu_act_avx2, cpu_act_portable;

/* kvpage.c: one cached row, widened. */
void cpu_plane_row(const HostExec *ex, PlaneId plane, const StepSeq *seq, uint32_t slot,
                   uint32_t head, float *out);
size_t cpu_plane_page_bytes(const ProgPlane *plane, PlaneType type);

#endif
