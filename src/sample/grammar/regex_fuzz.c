/* A regular expression, a zero byte, then output to read: as gbnf_fuzz.c. */
#include "sample/grammar/grammar_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Str pattern, output;
    Grammar *g;
    Err err = {0};
    fuzz_split(data, size, &pattern, &output);
    bool ok = grammar_compile_regex(pattern, &fuzz_limits, &g, &err);
    fuzz_run(ok, g, output, &err, false);
    return 0;
}
