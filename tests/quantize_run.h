/* quantize_run.h: what the tests of conversion share: a directory for what they write, a conversion that
 * writes over what is there, a model's logits on the reference backend.
 *
 *     cmocka_run_group_tests_name("...", tests, quantize_begin, quantize_end) */
#ifndef MLXCEL_TESTS_QUANTIZE_RUN_H
#define MLXCEL_TESTS_QUANTIZE_RUN_H

#include "base/arena.h"
#include "task/convert.h"

typedef struct QuantizeRun { /* a model's answer: n numbers, in a */
    Arena a;
    float *logits;
    size_t n;
} QuantizeRun;

int quantize_begin(void **state);
int quantize_end(void **state);
/* Both in one place of their own, until the next call. */
const char *quantize_golden(const char *kind); /* "decoder/llama" */
const char *quantize_out(const char *name);
bool quantize_convert(const char *in, const char *out, const ConvertOptions *o,
                      Err *err) MUST_CHECK;
bool quantize_logits(const char *path, const uint32_t *ids, size_t n, QuantizeRun *r,
                     Err *err) MUST_CHECK;
double quantize_rms(const float *got, const float *want,
                    size_t n); /* of the difference, over want's */

#endif
