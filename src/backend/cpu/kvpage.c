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

static float element(const KvShape *s, const unsigned char *head, KvPlace at, float scale) {
    uint16_t h;
    float f;
    switch (s->type) {
    case PLANE_F32:
        memcpy(&f, head + 4 * at.at, 4);
        return f;
    case PLANE_F16:
        return half_at(head, at.at);
    case PLANE_BF16:
        memcpy(&h, head + 2 * at.at, 2);
        return fp_bf16_to_f32(h);
    case PLANE_Q8_0:
        return scale * (int8_t)head[at.at];
    default:
        return scale * (float)((head[at.at] >> at.shift & 15) - 8);
    }
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
    for (uint32_t c = 0; c < s.cols; c++)
        out[c] = element(&s, p, kv_place(&s, pp->use, t, c), scale);
}
