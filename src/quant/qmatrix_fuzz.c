/* Any bytes as the parts of a matrix: set-up, decode and canonical rows end with an answer or an
 * error. The first bytes pick format, sizes and types; the rest is the content of every part (cut
 * to what its shape needs, now and then short). */
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "quant/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Pick {
    const uint8_t *p;
    size_t n;
} Pick;

static unsigned pick(Pick *in, unsigned below) {
    if (in->n == 0) return 0;
    in->n--;
    return *in->p++ % below;
}

static QPart pick_part(Pick *in, const uint8_t *content, size_t n_content) {
    static const uint64_t sizes[] = {1,   2, 4, 8,  16, 32,  64,       128,
                                     256, 3, 0, 17, 48, 512, 1u << 20, (uint64_t)1 << 62};
    QPart p = {.dtype = (DType)pick(in, DTYPE_COUNT), .n_dims = (int)pick(in, 5), .data = content};
    for (int i = 0; i < p.n_dims; i++) p.shape[i] = sizes[pick(in, sizeof sizes / sizeof *sizes)];
    uint64_t bytes = dtype_info(p.dtype)->block_bytes;
    for (int i = 0; i < p.n_dims; i++)
        if (__builtin_mul_overflow(bytes, p.shape[i], &bytes)) bytes = n_content;
    bytes /= dtype_info(p.dtype)->block_elements;
    p.n_bytes = bytes < n_content ? bytes : n_content;
    if (pick(in, 16) == 15) p.n_bytes /= 2;
    return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { HEADER = 80, MAX_CELLS = 1 << 16 };
    if (size < HEADER) return 0;
    static const unsigned groups[] = {0, 16, 32, 64, 128, 8, 48, 512};
    Pick in = {data, HEADER};
    QMatrix m = {.format = (QFormat)pick(&in, QFORMAT_COUNT),
                 .bits = pick(&in, 10),
                 .group = groups[pick(&in, 8)]};
    m.n = pick(&in, 4) ? 0 : pick(&in, 65);
    m.k = pick(&in, 4) ? 0 : 32 * pick(&in, 9);
    m.block_n = m.block_k = 16 * pick(&in, 3);
    m.gptq_v2 = pick(&in, 2);
    for (int id = 0; id < QPART_COUNT; id++)
        m.part[id] = pick_part(&in, data + HEADER, size - HEADER);
    Arena a = {.max_bytes = 1 << 22};
    Err err;
    WForm wf;
    if (wform_init(&wf, &m, &a, &err) && wf.n <= MAX_CELLS && wf.k <= MAX_CELLS &&
        wf.n * wf.k <= MAX_CELLS) {
        float *out = mem_alloc(wf.n * wf.k * sizeof *out);
        WRows r = {.codes = mem_alloc(wf.n * wf.k),
                   .scale = mem_alloc(wf.n * wf.n_scales * 4),
                   .zero = mem_alloc(wf.n * wf.n_scales * 2),
                   .bias = mem_alloc(wf.n * wf.n_scales * 4),
                   .sub = mem_alloc(wf.n * wf.n_scales),
                   .sub_min = mem_alloc(wf.n * wf.n_scales),
                   .d = mem_alloc(wf.n * wf.n_super * 4),
                   .dmin = mem_alloc(wf.n * wf.n_super * 4)};
        bool ok = decode_with(&wf, &m, 0, wf.n, out, &err);
        if (wf.kind != WFORM_PLAIN && wform_rows(&wf, &m, 0, wf.n, &r, &err) != ok)
            __builtin_trap();
        void *all[] = {out, r.codes, r.scale, r.zero, r.bias, r.sub, r.sub_min, r.d, r.dmin};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) mem_free(all[i]);
    }
    arena_deinit(&a);
    return 0;
}
