/* bench_print.h: rows of the benchmark in llama-bench's shapes, and as one JSON document with the
 * machine. */
#ifndef MLXCEL_CLI_BENCH_PRINT_H
#define MLXCEL_CLI_BENCH_PRINT_H

#include "base/buf.h"
#include "cli/bench_run.h"

typedef struct BenchReport {
    const char *path, *arch, *quantization, *backend, *isa, *type_k, *type_v;
    uint64_t n_params, file_bytes;
    uint32_t chunk;
    const BenchRow *rows;
    size_t n_rows;
    const mlxcel_machine *machines; /* one per thread count, in order; NULL: not measured */
    size_t n_machines;
} BenchReport;

/* format: "md", "csv", "json", "jsonl"; false: none of them. */
bool bench_print(const BenchReport *r, const char *format, Buf *out);
void bench_print_document(const BenchReport *r, Buf *out);

#endif
