#include "chat/toolcall_python.h"

#include "base/utf8.h"

enum {
    PY_VALUE,
    PY_ITEM,   /* in a container, before an item or its end */
    PY_COLON,  /* after a dict key */
    PY_AFTER,  /* after an item */
    PY_QUOTE,  /* after one opening quote */
    PY_QUOTES, /* after two: an empty string or the start of a triple-quoted one */
    PY_STRING,
    PY_ESCAPE,
    PY_HEX,
    PY_OCTAL,
    PY_WORD
};

static bool is_space(unsigned char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

static bool is_word(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '.' || c == '+' || c == '-';
}

static int hex_value(unsigned char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static Push go(PyPush *py, unsigned char state) {
    py->state = state;
    return PUSH_MORE;
}

static Push value_end(PyPush *py, Push at_top) {
    if (!py->depth) return at_top;
    return go(py, py->key ? PY_COLON : PY_AFTER);
}

/* Python's spellings that JSON lacks: +1, .5, 5., 1_000. */
static bool number_put(Buf *out, Str w) {
    char n[PY_PUSH_WORD + 4];
    size_t k = 0;
    if (w.n && w.p[0] == '+') w = str_from(w, 1);
    if (w.n > PY_PUSH_WORD) return false;
    for (size_t i = 0; i < w.n; i++) {
        bool digit_before = k && n[k - 1] >= '0' && n[k - 1] <= '9';
        if (w.p[i] == '_' && digit_before) continue;
        if (w.p[i] == '.' && !digit_before) n[k++] = '0';
        n[k++] = w.p[i];
        if (k > PY_PUSH_WORD) return false;
    }
    if (k && n[k - 1] == '.') n[k++] = '0';
    if (!jsonpush_valid((Str){n, k}) || (n[0] != '-' && (n[0] < '0' || n[0] > '9'))) return false;
    buf_put(out, (Str){n, k});
    return true;
}

bool pypush_word(Buf *out, Str w) {
    if (str_eqc(w, "True") || str_eqc(w, "true")) {
        buf_put(out, STR("true"));
    } else if (str_eqc(w, "False") || str_eqc(w, "false")) {
        buf_put(out, STR("false"));
    } else if (str_eqc(w, "None") || str_eqc(w, "null")) {
        buf_put(out, STR("null"));
    } else {
        return number_put(out, w);
    }
    return true;
}

static Push item_begin(PyPush *py, unsigned char c, Buf *out) {
    if (py->comma) buf_put(out, STR(", "));
    py->comma = false;
    py->key = py->depth && py->close[py->depth - 1] == '}' && py->state != PY_VALUE;
    if (c == '"' || c == '\'') {
        py->quote = (char)c;
        buf_putc(out, '"');
        return go(py, PY_QUOTE);
    }
    if (c == '[' || c == '(' || c == '{') {
        if (py->key || py->depth == PY_PUSH_DEPTH) return PUSH_BAD;
        py->close[py->depth++] = c == '[' ? ']' : c == '(' ? ')' : '}';
        buf_putc(out, c == '{' ? '{' : '[');
        return go(py, PY_ITEM);
    }
    if (!is_word(c)) return PUSH_BAD;
    py->word[0] = (char)c;
    py->n_word = 1;
    return go(py, PY_WORD);
}

static Push container_end(PyPush *py, Buf *out) {
    py->depth--;
    py->comma = py->key = false;
    buf_putc(out, py->close[py->depth] == '}' ? '}' : ']');
    return value_end(py, PUSH_DONE);
}

static Push string_end(PyPush *py, Buf *out, Push at_top) {
    buf_putc(out, '"');
    py->triple = false;
    return value_end(py, at_top);
}

static void string_byte(unsigned char c, Buf *out) {
    if (c == '"' || c == '\\') buf_putc(out, '\\');
    jsonpush_put(out, c, true);
}

static Push in_string(PyPush *py, unsigned char c, Buf *out) {
    if (c == (unsigned char)py->quote) {
        if (!py->triple) return string_end(py, out, PUSH_DONE);
        return ++py->n_quotes == 3 ? string_end(py, out, PUSH_DONE) : PUSH_MORE;
    }
    for (; py->n_quotes; py->n_quotes--) string_byte((unsigned char)py->quote, out);
    if (c == '\\') return go(py, PY_ESCAPE);
    string_byte(c, out);
    return PUSH_MORE;
}

static Push digits_begin(PyPush *py, int wanted) {
    py->n_digits = wanted;
    py->code = 0;
    return go(py, PY_HEX);
}

static Push escape(PyPush *py, unsigned char c, Buf *out) {
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    if (c == 'x') return digits_begin(py, 2);
    if (c == 'u') return digits_begin(py, 4);
    if (c == 'U') return digits_begin(py, 8);
    if (c == 'N') return PUSH_BAD; /* \N{name}: needs the Unicode name table */
    if (c >= '0' && c <= '7') {
        py->code = (uint32_t)(c - '0');
        py->n_digits = 1;
        return go(py, PY_OCTAL);
    }
    py->state = PY_STRING;
    if (c == '\n') return PUSH_MORE; /* a continued line */
    for (int i = 0; from[i]; i++) {
        if (c != (unsigned char)from[i]) continue;
        string_byte((unsigned char)to[i], out);
        return PUSH_MORE;
    }
    string_byte('\\', out); /* Python keeps the backslash of an escape it does not know */
    return in_string(py, c, out);
}

static Push hex_digit(PyPush *py, unsigned char c, Buf *out) {
    int v = hex_value(c);
    if (v < 0) return PUSH_BAD;
    py->code = py->code << 4 | (uint32_t)v;
    if (--py->n_digits) return PUSH_MORE;
    py->state = PY_STRING;
    if (py->code < 0x80)
        string_byte((unsigned char)py->code, out);
    else if (py->code < 0x10000)
        buf_putf(out, "\\u%04x", (unsigned)py->code); /* halves of a pair stay halves, as in JSON */
    else if (py->code > 0x10FFFF)
        return PUSH_BAD;
    else
        buf_put_utf8(out, py->code);
    return PUSH_MORE;
}

static Push octal_digit(PyPush *py, unsigned char c, Buf *out) {
    bool digit = c >= '0' && c <= '7' && py->n_digits < 3;
    if (digit) {
        py->code = py->code * 8 + (uint32_t)(c - '0');
        if (++py->n_digits < 3) return PUSH_MORE;
    }
    py->state = PY_STRING;
    buf_putf(out, "\\u%04x", (unsigned)py->code);
    return digit ? PUSH_MORE : in_string(py, c, out);
}

static Push word_end(PyPush *py, unsigned char c, Buf *out) {
    if (py->key) buf_putc(out, '"');
    if (!pypush_word(out, (Str){py->word, py->n_word})) return PUSH_BAD;
    if (py->key) buf_putc(out, '"');
    if (!py->depth) return PUSH_DONE_BEFORE;
    py->state = py->key ? PY_COLON : PY_AFTER;
    return pypush(py, c, out);
}

Push pypush(PyPush *py, unsigned char c, Buf *out) {
    switch (py->state) {
    case PY_STRING:
        return in_string(py, c, out);
    case PY_ESCAPE:
        return escape(py, c, out);
    case PY_HEX:
        return hex_digit(py, c, out);
    case PY_OCTAL:
        return octal_digit(py, c, out);
    case PY_QUOTE:
        if (c == (unsigned char)py->quote) return go(py, PY_QUOTES);
        py->state = PY_STRING;
        return in_string(py, c, out);
    case PY_QUOTES:
        if (c == (unsigned char)py->quote) {
            py->triple = true;
            py->n_quotes = 0;
            return go(py, PY_STRING);
        }
        string_end(py, out, PUSH_DONE);
        return py->depth ? pypush(py, c, out) : PUSH_DONE_BEFORE;
    case PY_WORD:
        if (!is_word(c)) return word_end(py, c, out);
        if (py->n_word == PY_PUSH_WORD) return PUSH_BAD;
        py->word[py->n_word++] = (char)c;
        return PUSH_MORE;
    default:
        break;
    }
    if (is_space(c)) return PUSH_MORE;
    if (py->state == PY_VALUE) return item_begin(py, c, out);
    char close = py->close[py->depth - 1];
    switch (py->state) {
    case PY_ITEM:
        return c == (unsigned char)close ? container_end(py, out) : item_begin(py, c, out);
    case PY_COLON:
        if (c != ':') return PUSH_BAD;
        buf_put(out, STR(": "));
        py->key = false;
        return go(py, PY_VALUE);
    default: /* PY_AFTER */
        if (c == (unsigned char)close) return container_end(py, out);
        py->comma = true;
        return c == ',' ? go(py, PY_ITEM) : PUSH_BAD;
    }
}

bool pypush_text(Buf *out, Str text) {
    PyPush py = {0};
    text = str_trim(text);
    for (size_t i = 0; i < text.n; i++) {
        Push p = pypush(&py, (unsigned char)text.p[i], out);
        if (p == PUSH_DONE) return i + 1 == text.n;
        if (p != PUSH_MORE) return false;
    }
    return text.n && pypush(&py, ' ', out) == PUSH_DONE_BEFORE;
}
