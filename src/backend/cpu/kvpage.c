#include "backend/cpu/kvpage.h"

#include <string.h>

#include "backend/cpu/cpu_ops.h"
#include "base/fp.h"

size_t cpu_plane_page_bytes(const ProgPlane *plane, PlaneType type) {
    return plane->heads * kv_shape(plane, type).head_bytes;
}

static float half_at(const unsigned char *p, size_t i) {
    uint16_t h;
    memcpy(&h, p + 2 * i, 2);
    return fp_f16_to_f32(h);
}

static float nibble(const KvShape *s, PlaneUse use, const unsigned char *head, uint32_t t,
                    uint32_t c) {
    KvPlace at = kv_place(s, use, t, c);
    return (float)((head[at.at] >> at.shift & 15) - 8);
}

void cpu_plane_row(const HostExec *ex, PlaneId plane, const StepSeq *seq, uint32_t slot,
                   uint32_t head, float *out) {
    const ProgPlane *pp = &ex->program->planes[plane];
    KvShape s = kv_shape(pp, host_plane_type(ex->planes, pp));
    const unsigned char *p =
        host_page(ex->planes, plane, step_page(ex->step, seq, pp->group, slot)) +
        head * s.head_bytes;
    uint32_t t = slot % PAGE_TOKENS / pp->rate;
    bool quantized = s.type == PLANE_Q8_0 || s.type == PLANE_Q4_0;
    float scale = quantized ? half_at(p + s.scale_at, t) : 1;
    /* but for q4_0, columns are so many elements apart */
    size_t step = pp->use == PLANE_KEY ? s.rows : 1, at = kv_place(&s, pp->use, t, 0).at;
    uint16_t h;
    switch (s.type) {
    case PLANE_F32:
        for (uint32_t c = 0; c < s.cols; c++) memcpy(&out[c], p + 4 * (at + c * step), 4);
        return;
    case PLANE_F16:
        for (uint32_t c = 0; c < s.cols; c++) out[c] = half_at(p, at + c * step);
        return;
    case PLANE_BF16:
        for (uint32_t c = 0; c < s.cols; c++)
            memcpy(&h, p + 2 * (at + c * step), 2), out[c] = fp_bf16_to_f32(h);
        return;
    case PLANE_Q8_0:
        for (uint32_t c = 0; c < s.cols; c++) out[c] = scale * (int8_t)p[at + c * step];
        return;
    default:
        for (uint32_t c = 0; c < s.cols; c++) out[c] = scale * nibble(&s, pp->use, p, t, c);
    }
}
