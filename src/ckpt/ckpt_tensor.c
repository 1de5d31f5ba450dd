#include "ckpt/ckpt_tensor.h"

#include <inttypes.h>
#include <stdio.h>

const char *ckpt_shape_text(const CkptTensor *t, char *out, size_t n) {
    size_t at = (size_t)snprintf(out, n, "[");
    for (int i = 0; i < t->n_dims && at < n; i++) {
        at += (size_t)snprintf(out + at, n - at, "%s%" PRIu64, i ? ", " : "", t->shape[i]);
    }
    if (at < n) snprintf(out + at, n - at, "]");
    return out;
}
