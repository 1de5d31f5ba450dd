/* A JSON Schema, a zero byte, then output to read: as gbnf_fuzz.c; and what is accepted as finished
 * parses as JSON. */
#include "sample/grammar/grammar_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Str schema, output;
    Grammar *g;
    Err err = {0};
    fuzz_split(data, size, &schema, &output);
    bool ok = grammar_compile_schema(schema, &fuzz_limits, &g, &err);
    fuzz_run(ok, g, output, &err, true);
    return 0;
}
