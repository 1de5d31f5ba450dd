/* Any bytes: the first line is a JSON context, the rest a template. It is compiled and rendered
 * within its budgets, twice, with the same outcome; spans cover the text. */
#include <stdlib.h>
#include <string.h>

#include "chat/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool spans_cover(const JinjaOutput *out) {
    size_t at = 0;
    for (size_t i = 0; i < out->n_spans; i++) {
        if (out->spans[i].text.p != out->text.p + at) return false;
        at += out->spans[i].text.n;
    }
    return at == out->text.n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Str all = {(const char *)data, size}, first, rest = all;
    Arena arena = {0};
    Json *context = NULL;
    Jinja *t = NULL;
    Err err = {0};
    JsonOptions opt = {.dup = JSON_DUP_LAST};
    if (!str_split(&rest, '\n', &first)) return 0;
    if (!json_parse(first, &opt, &arena, &context, &err) || context->type != JSON_OBJECT) {
        context = NULL;
        rest = all;
    }
    if (jinja_compile(rest, &t, &err)) {
        JinjaInput in = {.context = context,
                         .now = "2026-01-02T03:04:05",
                         .max_ops = 20000,
                         .max_output_bytes = 1 << 20};
        JinjaOutput a, b;
        bool ok = jinja_render(t, &in, &a, &err), again = jinja_render(t, &in, &b, &err);
        if (ok != again || a.ops != b.ops || !str_eq(buf_str(&a.text), buf_str(&b.text))) abort();
        if (ok && !spans_cover(&a)) abort();
        if (!ok && !err.msg[0]) abort();
        jinja_output_deinit(&a);
        jinja_output_deinit(&b);
    } else if (!err.msg[0]) {
        abort();
    }
    jinja_free(t);
    arena_deinit(&arena);
    return 0;
}
