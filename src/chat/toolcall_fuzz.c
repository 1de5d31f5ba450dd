/* Any text in any format: no crash, and the same events for every way of cutting it. The first
 * byte picks the format, the second the options and the cut. */
#include <stdlib.h>
#include <string.h>

#include "chat/reply.h"
#include "chat/toolcall.h"

static const char tools_text[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                                 "\"parameters\":{\"type\":\"object\",\"properties\":{"
                                 "\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"o\":{"
                                 "\"type\":\"object\",\"properties\":{"
                                 "\"l\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}}},"
                                 "\"u\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]},"
                                 "\"r\":{\"$ref\":\"#/properties/r\"}}}}},{\"name\":\"python\"}]";

static bool same(Str a, Str b) { return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n)); }

static void compare(const ReplyMessage *a, const ReplyMessage *b) {
    if (!same(a->content, b->content) || !same(a->reasoning, b->reasoning) ||
        a->n_calls != b->n_calls)
        abort();
    for (size_t i = 0; i < a->n_calls; i++)
        if (!same(a->calls[i].name, b->calls[i].name) ||
            !same(a->calls[i].arguments, b->calls[i].arguments))
            abort();
}

static void check_arguments(const ReplyMessage *m, Arena *a) {
    JsonOptions o = {.max_depth = 512, .dup = JSON_DUP_KEEP};
    Json *args;
    for (size_t i = 0; i < m->n_calls; i++) {
        if (!toolcall_name_ok(m->calls[i].name)) abort();
        bool ok = json_parse(m->calls[i].arguments, &o, a, &args, NULL);
        /* Bytes that are no UTF-8 pass through; whoever writes JSON replaces them. */
        if (!ok && json_parse(STR("\"\""), &o, a, &args, NULL)) {
            bool ascii = true;
            for (size_t k = 0; k < m->calls[i].arguments.n; k++)
                ascii &= (unsigned char)m->calls[i].arguments.p[k] < 0x80;
            if (ascii) abort();
        }
        if (ok && args->type != JSON_OBJECT) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const Str tails[] = {{"", 0}, {"<think>\n", 8}, {"<|start|>assistant", 18}, {">>>", 3}};
    if (size < 2) return 0;
    size_t n = 0;
    while (toolcall_at(n)) n++;
    const ToolFormat *f = toolcall_at(data[0] % n);
    Arena a = {.max_bytes = 256 << 20};
    Json *tools;
    ReplyMessage whole, cut;
    Str text = {(const char *)data + 2, size - 2};
    if (!json_parse(str_c(tools_text), NULL, &a, &tools, NULL)) abort();
    ReplyOptions o = {.format = f->name,
                      .tools = data[1] & 1 ? NULL : tools,
                      .prompt_tail = tails[data[1] >> 1 & 3]};
    if (data[1] & 8) o.reasoning = STR("none");
    if (data[1] & 16) o.max_call_bytes = 64;
    bool ok = reply_collect(&o, text, REPLY_STOP, 0, &a, &whole, NULL);
    if (ok) check_arguments(&whole, &a);
    if (ok) {
        if (!reply_collect(&o, text, REPLY_STOP, 1, &a, &cut, NULL)) abort();
        compare(&whole, &cut);
        if (!reply_collect(&o, text, REPLY_LENGTH, 2 + (data[1] >> 5), &a, &cut, NULL)) abort();
        compare(&whole, &cut);
    }
    arena_deinit(&a);
    return 0;
}
