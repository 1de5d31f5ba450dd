/* KV_WRITE: rows into cache pages (kvpage.h). */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/kvpage.h"
#include "base/fp.h"

static void store_codes(const KvShape *s, PlaneUse use, unsigned char *head, uint32_t t,
                        const float *x) {
    float most = 0, top = s->type == PLANE_Q8_0 ? 127 : 7;
    for (uint32_t c = 0; c < s->cols; c++) most = fabsf(x[c]) > most ? fabsf(x[c]) : most;
    uint16_t d = fp_f32_to_f16(most / top);
    float scale = fp_f16_to_f32(d), inv = scale > 0 ? 1 / scale : 0;
    memcpy(head + s->scale_at + 2 * t, &d, 2);
    for (uint32_t c = 0; c < s->cols; c++) {
        float q = rintf(x[c] * inv);
        int code = q > top ? (int)top : q < -top ? (int)-top : q == q ? (int)q : 0;
        KvPlace p = kv_place(s, use, t, c);
        if (s->type == PLANE_Q8_0) {
            head[p.at] = (unsigned char)code;
        } else {
            head[p.at] =
                (unsigned char)((head[p.at] & (15 << (4 - p.shift))) | (code + 8) << p.shift);
        }
    }
}

/* n halves, each `step` further on. */
INLINE void put_halves(unsigned char *to, const uint16_t *h, uint32_t n, size_t step) {
    if (step == 1) {
        memcpy(to, h, n * sizeof *h);
    } else {
        for (uint32_t i = 0; i < n; i++) memcpy(to + 2 * i * step, &h[i], 2);
    }
}

static void store_floats(const KvShape *s, PlaneUse use, unsigned char *head, uint32_t t,
                         const float *x) {
    size_t step = use == PLANE_KEY ? s->rows : 1, at = kv_place(s, use, t, 0).at;
    uint16_t h[16];
    for (uint32_t c = 0; c < s->cols; c += 16) {
        uint32_t n = s->cols - c < 16 ? s->cols - c : 16;
        if (s->type == PLANE_F32) {
            for (uint32_t i = 0; i < n; i++) memcpy(head + 4 * (at + (c + i) * step), &x[c + i], 4);
            continue;
        }
        if (s->type == PLANE_F16) {
            vf_store_f16(h, vf_load_n(x + c, (int)n));
        } else {
            for (uint32_t i = 0; i < n; i++) h[i] = fp_f32_to_bf16(x[c + i]);
        }
        put_halves(head + 2 * (at + c * step), h, n, step);
    }
}

void ISA(op_kv_write)(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]);
    const ProgPlane *pp = &ex->program->planes[op->plane[0]];
    KvShape s = kv_shape(pp, host_plane_type(ex->planes, pp));
    bool quantized = s.type == PLANE_Q8_0 || s.type == PLANE_Q4_0;
    uint32_t from, to;
    host_share(x.rows, i_thread, n_threads, &from, &to);
    for (uint32_t r = from; r < to; r++) {
        const StepRow *row = &step_rows(ex->step)[r];
        const StepSeq *seq = &step_seqs(ex->step)[row->seq];
        if (row->slot % pp->rate != pp->rate - 1) continue;
        unsigned char *head =
            host_page(ex->planes, op->plane[0], step_page(ex->step, seq, pp->group, row->slot));
        uint32_t t = row->slot % PAGE_TOKENS / pp->rate;
        for (uint32_t h = 0; h < pp->heads; h++, head += s.head_bytes) {
            const float *in = x.p + (size_t)r * x.stride + (size_t)h * s.cols;
            if (quantized) {
                store_codes(&s, pp->use, head, t, in);
            } else {
                store_floats(&s, pp->use, head, t, in);
            }
        }
    }
}
