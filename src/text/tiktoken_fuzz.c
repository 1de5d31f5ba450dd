/* Any bytes as a .tiktoken file, and as PLaMo's tokenizer.jsonl. */
#include "text/tokenizer_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Tokenizer *t = NULL;
    Err err = {0};
    Str text = {(const char *)data, size};
    bool loaded = tokenizer_load_tiktoken(text, size % 2 ? "kimi" : "cl100k", &t, &err);
    fuzz_tokenizer(loaded, t, &err);
    t = NULL;
    err = (Err){0};
    loaded = tokenizer_load_plamo(text, &t, &err);
    fuzz_tokenizer(loaded, t, &err);
    return 0;
}
