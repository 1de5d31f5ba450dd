/* Any bytes as a .npy file: refused with a message, or an array whose elements are all there. */
#include "ckpt/fuzz_file.h"
#include "cli/npy_read.h"

/* The sanitizers see a byte that is missing. */
static uint64_t sum_bytes(const mlxcel_tensor *t) {
    uint64_t n = t->type == MLXCEL_F32 ? 4 : 8, sum = 0;
    for (uint32_t i = 0; i < t->n_dims; i++) n *= t->dims[i];
    for (uint64_t i = 0; i < n; i++) sum += i * ((const unsigned char *)t->data)[i];
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int fd = fuzz_file(data, size, path);
    Arena a = {.max_bytes = 1 << 26};
    Err err = {0};
    mlxcel_tensor t = {0};
    NpyIn in;
    if (!npy_read(path, &a, &t, &err)) {
        if (!err.msg[0]) abort();
    } else if (t.n_dims > MLXCEL_MAX_DIMS || !t.data || sum_bytes(&t) == UINT64_MAX) {
        abort();
    }
    if (npy_open(&in, path, &err)) {
        float row[16];
        for (uint64_t i = 0; i < in.rows && i < 16 && in.cols <= 16; i++)
            if (!npy_row(&in, i, row, &err)) abort();
        npy_close(&in);
    }
    arena_deinit(&a);
    close(fd);
    return 0;
}
