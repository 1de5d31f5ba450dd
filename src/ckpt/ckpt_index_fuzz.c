/* Any bytes as model.safetensors.index.json: refused with a message, or every file it names is a
 * plain name. */
#include "ckpt/ckpt_index.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Arena a = {0};
    CkptIndex index = {0};
    Err err = {0};
    if (!ckpt_index_parse((Str){(const char *)data, size}, &a, &index, &err)) {
        if (!err.msg[0]) abort();
    } else {
        for (size_t i = 0; i < index.n_files; i++) {
            Str name = index.files[i];
            if (str_find_char(name, '/', 0) != STR_NPOS || str_starts(name, STR(".")) ||
                !str_ends(name, STR(".safetensors")))
                abort();
        }
        for (size_t i = 0; i < index.tensor_file.n; i++) {
            if (index.tensor_file.entries[i].value >= index.n_files) abort();
        }
    }
    ckpt_index_deinit(&index);
    arena_deinit(&a);
    return 0;
}
