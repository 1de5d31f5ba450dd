/* Any bytes as SentencePiece's tokenizer.model: refused with a message, or every operation ends
 * and gives valid text. */
#include "text/tokenizer_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Tokenizer *t = NULL;
    Err err = {0};
    bool loaded = tokenizer_load_spm((Str){(const char *)data, size}, &t, &err);
    fuzz_tokenizer(loaded, t, &err);
    return 0;
}
