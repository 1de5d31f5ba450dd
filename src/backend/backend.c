#include "backend/backend.h"

static const BackendApi *const BACKENDS[] = {&BACKEND_CPU, &BACKEND_REF, &BACKEND_REF_DELAYED};
enum { N_BACKENDS = sizeof BACKENDS / sizeof *BACKENDS };

bool backend_open(const char *name, const BackendOptions *opt, Backend **out, Err *err) {
    if (str_eqc(str_c(name), "auto")) return BACKENDS[0]->open(opt, out, err);
    for (int i = 0; i < N_BACKENDS; i++)
        if (str_eqc(str_c(name), BACKENDS[i]->name)) return BACKENDS[i]->open(opt, out, err);
    return err_set(err, ERR_INPUT,
                   "unknown backend \"%s\"; auto, cpu, ref and ref-delayed are accepted", name);
}
