/* The cpu backend: one table of ops per instruction set, chosen when it is opened. */
#include <string.h>

#include "backend/cpu/cpu_aux.h"
#include "backend/cpu/cpu_ops.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

typedef enum CpuIsa { CPU_PORTABLE, CPU_AVX2, CPU_AVX512 } CpuIsa;

#define CPU_TABLE(suffix, isa_name)                                                                \
    {                                                                                              \
        .isa = isa_name, .weight_bytes = packed_weight_bytes, .weight_load = packed_weight_load,   \
        .weight_free = packed_weight_free, .plane_page_bytes = cpu_plane_page_bytes,               \
        .aux_bytes = aux_bytes, .floats = cpu_floats, .table_row = cpu_table_row,                  \
        .plane_row = cpu_plane_row,                                                                \
        .run = {HOST_SHARED_OPS,                                                                   \
                [OP_LINEAR] = op_linear_##suffix,                                                  \
                [OP_RMS_NORM] = op_rms_norm_##suffix,                                              \
                [OP_LAYER_NORM] = op_layer_norm_##suffix,                                          \
                [OP_ROPE_ANGLES] = op_rope_angles_##suffix,                                        \
                [OP_ROPE] = op_rope_##suffix,                                                      \
                [OP_KV_WRITE] = op_kv_write_##suffix,                                              \
                [OP_ATTN] = op_attn_##suffix,                                                      \
                [OP_ADD] = op_add_##suffix,                                                        \
                [OP_MUL] = op_mul_##suffix,                                                        \
                [OP_SCALE] = op_scale_##suffix,                                                    \
                [OP_ACT] = op_act_##suffix,                                                        \
                [OP_GLU] = op_glu_##suffix,                                                        \
                [OP_SELECT] = op_select_##suffix,                                                  \
                [OP_EXPERTS] = op_experts_##suffix},                                               \
    }

static const float *cpu_floats(const BackWeight *w) { return w->vector; }

static void cpu_table_row(const BackWeight *w, uint32_t n, float *out) {
    int part = 0;
    while (part + 1 < w->n_parts && n >= w->parts[part].n) n -= w->parts[part++].n;
    packed_decode_row(&w->parts[part], n, out);
}

static const HostOps CPU_OPS_TABLE[] = {
    [CPU_PORTABLE] = CPU_TABLE(portable, "portable"),
#if defined(__x86_64__)
    [CPU_AVX2] = CPU_TABLE(avx2, "avx2"),
    [CPU_AVX512] = CPU_TABLE(avx512, "avx512-vnni"),
#endif
};

#if defined(__x86_64__)
static uint64_t xcr0(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool has_bits(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

/* What the processor can do and the system saves: both are needed. */
static CpuIsa isa_of_machine(void) {
    enum { XSAVE_YMM = 0x6, XSAVE_ZMM = 0xe6 };
    enum { VBMI_BIT = 1 << 1, VNNI_BIT = 1 << 11 };
    uint32_t a, b, c, d, b7, c7;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return CPU_PORTABLE;
    if (!has_bits(c, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C)) return CPU_PORTABLE;
    uint64_t saved = xcr0();
    if ((saved & XSAVE_YMM) != XSAVE_YMM || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d))
        return CPU_PORTABLE;
    if (!has_bits(b7, bit_AVX2 | bit_BMI2)) return CPU_PORTABLE;
    bool wide = has_bits(b7, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL) &&
                has_bits(c7, VBMI_BIT | VNNI_BIT);
    return wide && (saved & XSAVE_ZMM) == XSAVE_ZMM ? CPU_AVX512 : CPU_AVX2;
}
#else
static CpuIsa isa_of_machine(void) { return CPU_PORTABLE; }
#endif

static bool isa_cap(const char *name, CpuIsa *out, Err *err) {
    static const char *const NAMES[] = {
        [CPU_PORTABLE] = "portable", [CPU_AVX2] = "avx2", [CPU_AVX512] = "avx512"};
    *out = CPU_AVX512;
    if (!name || !*name || strcmp(name, "auto") == 0) return true;
    for (int i = 0; i <= CPU_AVX512; i++) {
        if (strcmp(name, NAMES[i]) != 0) continue;
        *out = (CpuIsa)i;
        return true;
    }
    return err_set(err, ERR_INPUT,
                   "instruction set \"%s\"; auto, avx512, avx2, portable are accepted", name);
}

static bool cpu_open(const BackendOptions *opt, Backend **out, Err *err) {
    CpuIsa cap, isa = isa_of_machine();
    if (!isa_cap(opt->isa, &cap, err)) return false;
    if (cap < isa) isa = cap;
    return host_open(&BACKEND_CPU, &CPU_OPS_TABLE[isa], opt->n_threads, out, err);
}

const BackendApi BACKEND_CPU = {
    .name = "cpu",
    .description = "AVX-512 VNNI, AVX2 or portable C, chosen when opened",
    .open = cpu_open,
    HOST_API,
};
