/* Cache planes and attention of ref: two plain passes over the visible keys in f64. */
#include <math.h>
#include <string.h>

#include "backend/ref/ref.h"
#include "base/fp.h"

static void store_q8(unsigned char *row, const float *x, uint32_t n, float amax) {
    uint16_t d = fp_f32_to_f16(amax / 127);
    float inv = fp_f16_to_f32(d) > 0 ? 1 / fp_f16_to_f32(d) : 0;
    memcpy(row, &d, 2);
    for (uint32_t i = 0; i < n; i++) {
        float q = rintf(x[i] * inv);
        ((int8_t *)row)[2 + i] = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
}

/* Codes 1..15 around 8: symmetric, so that a zero stays zero. */
static void store_q4(unsigned char *row, const float *x, uint32_t n, float amax) {
    uint16_t d = fp_f32_to_f16(amax / 7);
    float inv = fp_f16_to_f32(d) > 0 ? 1 / fp_f16_to_f32(d) : 0;
    memcpy(row, &d, 2);
    memset(row + 2, 0, (n + 1) / 2);
    for (uint32_t i = 0; i < n; i++) {
        float q = rintf(x[i] * inv);
        unsigned code = (unsigned)((q > 7 ? 7 : q < -7 ? -7 : q) + 8);
        row[2 + i / 2] |= (unsigned char)(code << 4 * (i % 2));
    }
}

void ref_row_store(PlaneType t, unsigned char *row, const float *x, uint32_t n) {
    float amax = 0;
    for (uint32_t i = 0; i < n; i++) amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    for (uint32_t i = 0; i < n && t <= PLANE_BF16; i++) {
        uint16_t h = t == PLANE_F16 ? fp_f32_to_f16(x[i]) : fp_f32_to_bf16(x[i]);
        if (t == PLANE_F32) {
            memcpy(row + 4 * i, &x[i], 4);
        } else {
            memcpy(row + 2 * i, &h, 2);
        }
    }
    if (t == PLANE_Q8_0) store_q8(row, x, n, amax);
    if (t == PLANE_Q4_0) store_q4(row, x, n, amax);
}

void ref_row_load(PlaneType t, const unsigned char *row, float *x, uint32_t n) {
    uint16_t h;
    memcpy(&h, row, 2);
    float d = fp_f16_to_f32(h);
    for (uint32_t i = 0; i < n; i++) {
        switch (t) {
        case PLANE_F32:
            memcpy(&x[i], row + 4 * i, 4);
            break;
        case PLANE_F16:
            memcpy(&h, row + 2 * i, 2), x[i] = fp_f16_to_f32(h);
            break;
        case PLANE_BF16:
            memcpy(&h, row + 2 * i, 2), x[i] = fp_bf16_to_f32(h);
            break;
        case PLANE_Q8_0:
            x[i] = d * ((const int8_t *)row)[2 + i];
            break;
        default:
            x[i] = d * (float)((row[2 + i / 2] >> 4 * (i % 2) & 15) - 8);
            break;
        }
    }
}

static unsigned char *row_at(const HostExec *ex, PlaneId plane, const StepSeq *seq, uint32_t slot,
                             uint32_t head) {
    const ProgPlane *pp = &ex->program->planes[plane];
    size_t row_bytes = planetype_row_bytes(host_plane_type(ex->planes, pp), pp->head_cols);
    uint32_t page = step_page(ex->step, seq, pp->group, slot), rows = host_page_rows(pp);
    return host_page(ex->planes, plane, page) +
           ((size_t)head * rows + slot % PAGE_TOKENS / pp->rate) * row_bytes;
}

void ref_plane_row(const HostExec *ex, PlaneId plane, const StepSeq *seq, uint32_t slot,
                   uint32_t head, float *out) {
    const ProgPlane *pp = &ex->program->planes[plane];
    ref_row_load(host_plane_type(ex->planes, pp), row_at(ex, plane, seq, slot, head), out,
                 pp->head_cols);
}

void ref_kv_write(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    Mat x = host_mat(ex, op->in[0]);
    const ProgPlane *pp = &ex->program->planes[op->plane[0]];
    const StepRow *rows = step_rows(ex->step);
    uint32_t from, to;
    host_share(x.rows, i_thread, n_threads, &from, &to);
    for (uint32_t r = from; r < to; r++)
        for (uint32_t h = 0; h < pp->heads && rows[r].slot % pp->rate == pp->rate - 1; h++)
            ref_row_store(
                host_plane_type(ex->planes, pp),
                row_at(ex, op->plane[0], &step_seqs(ex->step)[rows[r].seq], rows[r].slot, h),
                x.p + r * x.stride + h * pp->head_cols, pp->head_cols);
}

enum { MAX_HEAD_COLS = 4096 };

/* One query head of one row. Scores are recomputed in the second pass instead of stored: no limit
 * on the context. */
static void attend(const HostExec *ex, const Op *op, const StepRow *row, uint32_t head,
                   const float *q, float *out) {
    const OpAttn p = op->p.attn;
    const StepSeq *seq = &step_seqs(ex->step)[row->seq];
    const float *sinks = ref_weight(ex, op->w[0]);
    uint32_t kv = head / (p.n_heads / p.n_kv_heads), lo, hi;
    host_attn_keys(ex, &p, row, &lo, &hi);
    float x[MAX_HEAD_COLS];
    double acc[MAX_HEAD_COLS], max = sinks ? sinks[head] : -INFINITY, sum = 0;
    memset(acc, 0, p.v_dim * sizeof *acc);
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1 && sinks) sum += exp(sinks[head] - max);
        for (uint32_t j = lo; j < hi; j++) {
            double s = 0;
            ref_plane_row(ex, op->plane[0], seq, j, kv, x);
            for (uint32_t c = 0; c < p.head_dim; c++) s += (double)q[c] * x[c];
            s *= p.scale;
            if (p.softcap != 0) s = p.softcap * tanh(s / p.softcap);
            if (pass == 0) {
                if (s > max) max = s;
                continue;
            }
            double e = exp(s - max);
            sum += e;
            ref_plane_row(ex, op->plane[1], seq, j, kv, x);
            for (uint32_t c = 0; c < p.v_dim; c++) acc[c] += e * x[c];
        }
    }
    for (uint32_t c = 0; c < p.v_dim; c++) out[c] = (float)(sum > 0 ? acc[c] / sum : 0);
}

void ref_attn(const HostExec *ex, const Op *op, int i_thread, int n_threads) {
    if (op->in[1] != VAL_NONE || op->p.attn.joint) {
        host_attn_picked(ex, op, i_thread, n_threads);
        return;
    }
    Mat q = host_mat(ex, op->in[0]), out = host_mat(ex, op->out);
    const OpAttn p = op->p.attn;
    uint32_t from, to;
    host_share(q.rows * p.n_heads, i_thread, n_threads, &from, &to);
    for (uint32_t i = from; i < to; i++) {
        uint32_t r = i / p.n_heads, h = i % p.n_heads;
        attend(ex, op, &step_rows(ex->step)[r], h, q.p + r * q.stride + h * p.head_dim,
               out.p + r * out.stride + h * p.v_dim);
    }
}
