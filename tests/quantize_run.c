#include "quantize_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ckpt/ckpt_fixture.h"
#include "golden_run.h"

static char work[64];

const char *quantize_golden(const char *kind) {
    static char path[2048];
    snprintf(path, sizeof path, "%s/%s", golden_dir(), kind);
    return path;
}

bool quantize_logits(const char *path, const uint32_t *ids, size_t n, QuantizeRun *r, Err *err) {
    Model *m = NULL;
    Engine *e = NULL;
    ModelOptions mo = {.backend = "ref", .be = {.n_threads = 2}};
    EngineOptions eo = engine_options();
    eo.k = eo.v = PLANE_F32;
    bool ok = model_open(path, &mo, &m, err) && engine_open(m, &eo, &e, err);
    if (ok) {
        r->n = n * m->arch.vocab;
        r->logits = arena_array(&r->a, float, r->n);
        ok = run_logits(e, m, ids, n, r->logits, err);
    }
    engine_close(e);
    model_close(m);
    return ok;
}

double quantize_rms(const float *got, const float *want, size_t n) {
    double off = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        off += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        all += (double)want[i] * want[i];
    }
    return sqrt(off / all);
}

const char *quantize_out(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", work, name);
    return path;
}

bool quantize_convert(const char *in, const char *out, const ConvertOptions *o, Err *err) {
    ConvertReport r;
    ConvertOptions forced = *o;
    forced.force = true;
    return convert_checkpoint(in, out, &forced, &r, err);
}

int quantize_begin(void **state) {
    (void)state;
    snprintf(work, sizeof work, "/tmp/mlxcel_quantize_XXXXXX");
    return mkdtemp(work) == NULL;
}

int quantize_end(void **state) {
    (void)state;
    fx_remove_dir(work);
    return 0;
}
