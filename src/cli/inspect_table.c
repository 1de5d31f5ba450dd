#include "cli/inspect_table.h"

#include "cli/out.h"
#include "json/json_writer.h"

static const char *size_text(uint64_t bytes, char out[32]) {
    Buf b = {0};
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    int unit = 0;
    while (v >= 1024 && unit < 4) v /= 1024, unit++;
    buf_putf(&b, unit ? "%.2f %s" : "%.0f %s", v, UNITS[unit]);
    size_t n = b.n < 31 ? b.n : 31;
    for (size_t i = 0; i < n; i++) out[i] = b.p[i];
    out[n] = 0;
    buf_deinit(&b);
    return out;
}

static uint64_t number(const Json *o, const char *key) {
    int64_t v = 0;
    json_i64(json_get(o, key), &v);
    return v > 0 ? (uint64_t)v : 0;
}

static Str text(const Json *o, const char *key) {
    Str s = STR_NONE;
    json_str(json_get(o, key), &s);
    return s;
}

static void put_row(Buf *b, const char *label, Str value) {
    buf_putf(b, "  %-24s " STR_F "\n", label, STR_A(value));
}

static void put_size(Buf *b, const char *label, uint64_t bytes) {
    char s[32];
    buf_putf(b, "  %-24s %14s\n", label, size_text(bytes, s));
}

static void put_shape(Buf *b, const Json *shape) {
    buf_putc(b, '[');
    for (size_t i = 0; i < shape->n; i++)
        buf_putf(b, "%s" STR_F, i ? ", " : "", STR_A(shape->items[i].text));
    buf_putc(b, ']');
}

static void put_tensors(Buf *b, const Json *doc) {
    const Json *list = json_get(doc, "tensors");
    for (size_t i = 0; list && i < list->n; i++) {
        const Json *t = &list->items[i];
        char s[32];
        Str name = text(t, "name"), type = text(t, "dtype");
        buf_putf(b, "  %-56.*s %-8.*s %12s  ", STR_A(name), STR_A(type),
                 size_text(number(t, "bytes"), s));
        put_shape(b, json_get(t, "shape"));
        buf_putc(b, '\n');
    }
}

static void put_facts(Buf *b, const Json *doc) {
    static const char *const SKIP[] = {"files",     "tensors", "budget",
                                       "would_fit", "keys",    "metadata"};
    for (size_t i = 0; i < doc->n; i++) {
        const Json *m = &doc->items[i];
        bool skip = m->type == JSON_ARRAY || m->type == JSON_OBJECT;
        for (size_t k = 0; k < sizeof SKIP / sizeof *SKIP; k++) skip |= str_eqc(m->key, SKIP[k]);
        if (skip) continue;
        Buf key = {0};
        buf_put(&key, m->key);
        bool yes = m->type == JSON_TRUE;
        put_row(b, buf_cstr(&key),
                m->type == JSON_TRUE || m->type == JSON_FALSE ? (yes ? STR("yes") : STR("no"))
                                                              : m->text);
        buf_deinit(&key);
    }
}

static void put_budget(Buf *b, const Json *doc) {
    const Json *m = json_get(doc, "budget"), *others = json_get(doc, "would_fit");
    bool fits = json_is(json_get(m, "fits"), JSON_TRUE);
    buf_putf(b, "\nMemory for %llu tokens of context, %llu at once, cache " STR_F "/" STR_F "\n",
             (unsigned long long)number(m, "n_ctx"), (unsigned long long)number(m, "n_parallel"),
             STR_A(text(m, "cache_type_k")), STR_A(text(m, "cache_type_v")));
    put_size(b, "weights", number(m, "weights_bytes"));
    put_size(b, "cache", number(m, "kv_bytes_total"));
    put_size(b, "  per token", number(m, "kv_bytes_per_token"));
    if (json_get(m, "state_bytes")) put_size(b, "recurrent state", number(m, "state_bytes"));
    put_size(b, "scratch", number(m, "activation_bytes"));
    put_size(b, "program", number(m, "other_bytes"));
    put_size(b, "total", number(m, "total_bytes"));
    put_size(b, "available", number(m, "budget_bytes"));
    put_row(b, "fits", fits ? STR("yes") : STR("no"));
    buf_putf(b, "\n%s\n  %-8s %14s %14s %20s\n",
             fits ? "Largest context by type of cache" : "What would fit instead", "cache",
             "per token", "this context", "largest context");
    for (size_t i = 0; others && i < others->n; i++) {
        const Json *o = &others->items[i];
        char each[32], all[32];
        Str type = text(o, "cache_type");
        buf_putf(b, "  %-8.*s %14s %14s %13llu tokens\n", STR_A(type),
                 size_text(number(o, "kv_bytes_per_token"), each),
                 size_text(number(o, "total_bytes"), all),
                 (unsigned long long)number(o, "largest_n_ctx"));
    }
}

static int print(Str json, bool tensors, bool budget) {
    Arena a = {0};
    Json *doc;
    Err err = {0};
    Buf b = {0};
    const JsonOptions opt = {.dup = JSON_DUP_KEEP, .max_bytes = (size_t)1 << 30};
    bool ok = json_parse(json, &opt, &a, &doc, &err);
    if (ok) {
        put_facts(&b, doc);
        if (budget) put_budget(&b, doc);
        if (tensors) {
            buf_put(&b, STR("\nTensors\n"));
            put_tensors(&b, doc);
        }
        ok = buf_check(&b, "the table", &err);
        out_put(buf_str(&b));
    }
    buf_deinit(&b);
    arena_deinit(&a);
    return ok ? CLI_OK : cli_fail_err(&err);
}

int inspect_print_model(Str json, bool tensors) { return print(json, tensors, true); }
int inspect_print_file(Str json) { return print(json, true, false); }
