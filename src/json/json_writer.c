#include "json/json_writer.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "json/json_scan.h"

static void new_line(JsonWriter *w) {
    if (!w->indent) return;
    buf_putc(w->out, '\n');
    for (int i = 0; i < w->indent * w->depth; i++) buf_putc(w->out, ' ');
}

/* What stands between the last thing written and the next. */
static void separate(JsonWriter *w) {
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (!w->depth) return;
    if (w->has_item[w->depth - 1]) buf_putc(w->out, ',');
    w->has_item[w->depth - 1] = true;
    new_line(w);
}

static void open_container(JsonWriter *w, char opener, char closer) {
    separate(w);
    if (w->depth == JSON_WRITER_MAX_DEPTH) {
        w->out->failed = true;
        return;
    }
    buf_putc(w->out, opener);
    w->closer[w->depth] = closer;
    w->has_item[w->depth++] = false;
}

void json_w_object(JsonWriter *w) { open_container(w, '{', '}'); }
void json_w_array(JsonWriter *w) { open_container(w, '[', ']'); }

void json_w_end(JsonWriter *w) {
    if (!w->depth || w->out->failed) return;
    w->depth--;
    if (w->has_item[w->depth]) new_line(w);
    buf_putc(w->out, w->closer[w->depth]);
}

void json_w_key(JsonWriter *w, Str key) {
    separate(w);
    json_put_quoted(w->out, key, w->ascii);
    buf_put(w->out, w->indent ? STR(": ") : STR(":"));
    w->after_key = true;
}

static void put_unit(Buf *out, uint32_t unit) { buf_putf(out, "\\u%04x", (unsigned)unit); }

static void put_code_point(Buf *out, uint32_t c, bool ascii) {
    if (c == UTF8_BAD) c = 0xFFFD;
    if (!ascii) {
        buf_put_utf8(out, c);
    } else if (c < 0x10000) {
        put_unit(out, c);
    } else {
        put_unit(out, 0xD800 + ((c - 0x10000) >> 10));
        put_unit(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
    }
}

static void put_escaped(Buf *out, unsigned char c) {
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *at = c ? strchr(from, c) : NULL;
    if (!at) {
        put_unit(out, c);
        return;
    }
    buf_putc(out, '\\');
    buf_putc(out, to[at - from]);
}

void json_put_quoted(Buf *out, Str s, bool ascii) {
    bool whole = !ascii && utf8_valid(s); /* then only quote, backslash and controls need work */
    buf_putc(out, '"');
    for (size_t i = 0; i < s.n;) {
        size_t from = i;
        bool high = false;
        if (whole) {
            i = json_scan_string(s.p, i, s.n, &high);
        } else {
            while (i < s.n && (unsigned char)s.p[i] - 0x20u < 0x5F && s.p[i] != '"' &&
                   s.p[i] != '\\')
                i++;
        }
        buf_put(out, str_slice(s, from, i));
        if (i == s.n) break;
        if ((unsigned char)s.p[i] < 0x7F) {
            put_escaped(out, (unsigned char)s.p[i++]);
        } else {
            put_code_point(out, utf8_next(s, &i), ascii);
        }
    }
    buf_putc(out, '"');
}

void json_w_str(JsonWriter *w, Str s) {
    separate(w);
    json_put_quoted(w->out, s, w->ascii);
}

void json_w_i64(JsonWriter *w, int64_t v) {
    separate(w);
    buf_putf(w->out, "%" PRId64, v);
}

void json_w_u64(JsonWriter *w, uint64_t v) {
    separate(w);
    buf_putf(w->out, "%" PRIu64, v);
}

/* Writes v with as few digits as read back to it, `least` to `most`. The host program may have
 * set a locale with a decimal comma; JSON has points only. */
static void put_number(Buf *out, double v, int least, int most, bool single) {
    char text[40];
    for (int n = least; n <= most; n++) {
        int len = snprintf(text, sizeof text, "%.*g", n, v);
        char *comma = memchr(text, ',', (size_t)len);
        if (comma) *comma = '.';
        double back;
        if (!str_to_f64((Str){text, (size_t)len}, &back)) continue;
        if (single ? (float)back == (float)v : back == v) break;
    }
    buf_put(out, str_c(text));
}

void json_w_f64(JsonWriter *w, double v) {
    if (!isfinite(v)) {
        json_w_null(w);
        return;
    }
    separate(w);
    put_number(w->out, v, fabs(v) < DBL_MIN ? 1 : DBL_DIG, DBL_DECIMAL_DIG, false);
}

void json_w_f32(JsonWriter *w, float v) {
    if (!isfinite(v)) {
        json_w_null(w);
        return;
    }
    separate(w);
    put_number(w->out, (double)v, fabsf(v) < FLT_MIN ? 1 : FLT_DIG, FLT_DECIMAL_DIG, true);
}

void json_w_bool(JsonWriter *w, bool v) {
    separate(w);
    buf_put(w->out, v ? STR("true") : STR("false"));
}

void json_w_null(JsonWriter *w) {
    separate(w);
    buf_put(w->out, STR("null"));
}

void json_w_raw(JsonWriter *w, Str json) {
    separate(w);
    buf_put(w->out, json);
}

static void put_leaf(JsonWriter *w, const Json *j) {
    switch (j->type) {
    case JSON_STRING:
        json_w_str(w, j->text);
        break;
    case JSON_NUMBER:
        json_w_raw(w, j->text);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        json_w_bool(w, j->type == JSON_TRUE);
        break;
    default:
        json_w_null(w);
        break;
    }
}

/* A walk with its own stack: a tree may be deeper than the writer allows, which fails the Buf
 * instead of the C stack. */
void json_w_tree(JsonWriter *w, const Json *j) {
    struct {
        const Json *j;
        size_t i;
    } open[JSON_WRITER_MAX_DEPTH];
    size_t n = 0;
    for (;;) {
        bool container = j->type == JSON_OBJECT || j->type == JSON_ARRAY;
        if (!container) {
            put_leaf(w, j);
        } else {
            if (j->type == JSON_OBJECT)
                json_w_object(w);
            else
                json_w_array(w);
            if (w->out->failed || n == JSON_WRITER_MAX_DEPTH) return;
            open[n].j = j;
            open[n++].i = 0;
        }
        while (n && open[n - 1].i == open[n - 1].j->n) {
            json_w_end(w);
            n--;
        }
        if (!n) return;
        const Json *parent = open[n - 1].j;
        j = &parent->items[open[n - 1].i++];
        if (parent->type == JSON_OBJECT) json_w_key(w, j->key);
    }
}
