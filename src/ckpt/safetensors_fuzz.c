/* Any bytes as a .safetensors file: refused with a message, or every tensor lies inside the file
 * and has its shape's size. */
#include "ckpt/safetensors.h"

#include "ckpt/fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int fd = fuzz_file(data, size, path);
    Safetensors *st;
    Err err = {0};
    if (!safetensors_open(path, &st, &err)) {
        if (!err.msg[0]) abort();
        close(fd);
        return 0;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < st->n_tensors; i++) {
        const CkptTensor *t = &st->tensors[i];
        uint64_t bytes = dtype_info(t->dtype)->block_bytes;
        for (int k = 0; k < t->n_dims; k++) bytes *= t->shape[k];
        if (bytes != t->n_bytes || t->offset < st->data_offset || t->offset + t->n_bytes > size)
            abort();
        sum += t->n_bytes;
    }
    if (sum + st->data_offset != size) abort();
    safetensors_close(st);
    close(fd);
    return 0;
}
