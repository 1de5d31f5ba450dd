/* Any bytes as a GGUF whose vocabulary is loaded: refused with a message, or every operation
 * ends and gives valid text; as a tokenizer.json it is refused or JSON. */
#include "ckpt/fuzz_file.h"
#include "ckpt/gguf.h"
#include "json/json.h"
#include "text/tokenizer_fuzz.h"
#include "text/vocab_json.h"

static void fuzz_json(const Gguf *g, const Tokenizer *t) {
    Buf text = {0};
    Err err = {0};
    bool ok = vocab_to_json(g, t, &text, &err);
    if (ok ? !json_check(buf_str(&text), NULL, &err) : !err.msg[0]) abort();
    buf_deinit(&text);
}

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
        if (loaded) fuzz_json(g, t);
        gguf_close(g); /* the tokenizer keeps nothing of it */
        fuzz_tokenizer(loaded, t, &err);
    }
    close(fd);
    return 0;
}
