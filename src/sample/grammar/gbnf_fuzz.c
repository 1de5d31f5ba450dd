/* A GBNF grammar, a zero byte, then output to read: compiling and reading end within their limits,
 * errors have messages, a mask agrees with trying its tokens, and rolling back restores the
 * mask. */
#include "sample/grammar/grammar_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Str grammar, output;
    Grammar *g;
    Err err = {0};
    fuzz_split(data, size, &grammar, &output);
    bool ok = grammar_compile_gbnf(grammar, &fuzz_limits, &g, &err);
    fuzz_run(ok, g, output, &err, false);
    return 0;
}
