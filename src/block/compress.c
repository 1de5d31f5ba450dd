#include "block/compress.h"

PlaneId block_compress(ProgBuilder *b, const CompressBlock *p, PlaneUse use, Val x, int layer) {
    uint32_t n = p->cols * (p->overlap ? 2 : 1);
    PlaneId plane = prog_plane(b, (ProgPlane){.layer = layer,
                                              .heads = 1,
                                              .head_cols = p->cols,
                                              .use = use,
                                              .keep = KEEP_ALL,
                                              .rate = p->rate});
    Val in = prog_linear_precise(b, x, p->in, W_NONE);
    Val row = prog_compress(b, prog_view(b, in, 0, n), prog_view(b, in, n, n), p->bias,
                            (OpCompress){.rate = p->rate, .overlap = p->overlap}, layer);
    row = prog_rms_norm(b, row, p->norm, 0, p->norm_eps, 0);
    RopeSpec first = p->rope;
    first.pos_step = p->rate;
    row = prog_rope(b, row, prog_rope_spec(b, first), 1, p->cols, p->cols - p->rope_dim, true);
    prog_kv_write(b, prog_probe(b, row, "layers.%d.compress.%u", layer, p->cols), plane);
    return plane;
}
