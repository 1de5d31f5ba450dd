/* Any bytes: the reader in one piece and in pieces agrees on every event; what parses into a
 * tree is written, read again and written the same. */
#include <stdlib.h>
#include <string.h>

#include "json/json_reader.h"
#include "json/json_writer.h"

/* A short record of the events, to compare two readings. */
static void record(Buf *out, const JsonToken *t) {
    buf_putf(out, "%d@%llu:", (int)t->event, (unsigned long long)t->at);
    buf_put(out, t->raw);
    buf_putc(out, '\n');
}

static bool read_all(Str text, size_t step, const JsonOptions *opt, Buf *out) {
    JsonReader r;
    JsonToken t = {.event = JSON_EV_MORE};
    Err err = {0};
    json_reader_init(&r, opt);
    bool ok = true;
    size_t at = 0;
    while (ok && t.event != JSON_EV_END) {
        if (t.event == JSON_EV_MORE) {
            size_t to = step < text.n - at ? at + step : text.n;
            ok = json_reader_feed(&r, str_slice(text, at, to), to == text.n, &err);
            at = to;
        }
        ok = ok && json_next(&r, &t, &err);
        if (ok && t.event != JSON_EV_MORE) record(out, &t);
    }
    if (!ok && !err.msg[0]) abort();
    json_reader_deinit(&r);
    return ok;
}

static void compare_pieces(Str text, size_t step, const JsonOptions *opt) {
    Buf whole = {0}, pieces = {0};
    bool a = read_all(text, text.n, opt, &whole), b = read_all(text, step, opt, &pieces);
    if (a != b || (a && !str_eq(buf_str(&whole), buf_str(&pieces)))) abort();
    buf_deinit(&whole);
    buf_deinit(&pieces);
}

static void write_tree(const Json *j, Buf *out, int indent) {
    JsonWriter w = {.out = out, .indent = indent};
    json_w_tree(&w, j);
}

static void round_trip(Str text, const JsonOptions *opt) {
    Arena a = {0};
    Json *doc, *again;
    Err err = {0};
    Buf first = {0}, second = {0};
    if (json_parse(text, opt, &a, &doc, &err)) {
        write_tree(doc, &first, 2);
        JsonOptions keep =
            *opt; /* half surrogate pairs are written alike, names may now be equal */
        keep.dup = JSON_DUP_KEEP;
        bool readable = json_parse(buf_str(&first), &keep, &a, &again, &err);
        if (!readable) abort();
        write_tree(again, &second, 2);
        if (!str_eq(buf_str(&first), buf_str(&second))) abort();
        int64_t i;
        double d;
        if (json_i64(json_at(doc, 0), &i) && (!json_f64(json_at(doc, 0), &d) || (double)i != d))
            abort();
    } else if (!err.msg[0]) {
        abort();
    }
    buf_deinit(&first);
    buf_deinit(&second);
    arena_deinit(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    Str text = {(const char *)data + 1, size - 1};
    JsonOptions opt = {.python_numbers = data[0] & 64, .strict_surrogates = data[0] & 128};
    compare_pieces(text, 1 + (data[0] & 15), &opt);
    opt.strict_surrogates = false;
    opt.dup = (JsonDup)(data[0] >> 4 & 3) % 3;
    if (opt.dup == JSON_DUP_KEEP) opt.python_numbers = false;
    round_trip(text, &opt);
    (void)!json_check(text, NULL, NULL);
    return 0;
}
