/* Any bytes as a GGUF whose vocabulary is loaded: refused with a message, or every operation
 * ends and gives valid text. */
#include "ckpt/fuzz_file.h"
#include "ckpt/gguf.h"
#include "text/tokenizer_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int fd = fuzz_file(data, size, path);
    Gguf *g;
    Err err = {0};
    if (gguf_open(path, &g, &err)) {
        Tokenizer *t = NULL;
        err = (Err){0};
        bool loaded = tokenizer_load_gguf(g, &t, &err);
        gguf_close(g); /* the tokenizer keeps nothing of it */
        fuzz_tokenizer(loaded, t, &err);
    }
    close(fd);
    return 0;
}
