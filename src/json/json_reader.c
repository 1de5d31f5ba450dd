#include "json/json_reader.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "json/json_scan.h"

enum { DEFAULT_DEPTH = 128 };
#define DEFAULT_BYTES ((size_t)256 << 20)

/* What the grammar allows next. */
enum {
    WANT_VALUE,
    WANT_ITEM_OR_END,
    WANT_KEY_OR_END,
    WANT_KEY,
    WANT_COLON,
    WANT_COMMA_OR_END,
    WANT_NOTHING
};

static const char *const want_names[] = {
    [WANT_VALUE] = "a value",
    [WANT_ITEM_OR_END] = "a value or ']'",
    [WANT_KEY] = "a name in double quotes",
    [WANT_KEY_OR_END] = "a name in double quotes or '}'",
    [WANT_COLON] = "':'",
    [WANT_COMMA_OR_END] = "',' or the closing bracket",
    [WANT_NOTHING] = "the end",
};

void json_reader_init(JsonReader *r, const JsonOptions *opt) {
    memset(r, 0, sizeof *r);
    r->max_depth = opt && opt->max_depth > 0 ? opt->max_depth : DEFAULT_DEPTH;
    if (r->max_depth > JSON_READER_MAX_DEPTH) r->max_depth = JSON_READER_MAX_DEPTH;
    r->max_bytes = opt && opt->max_bytes ? opt->max_bytes : DEFAULT_BYTES;
    r->strict_surrogates = opt && opt->strict_surrogates;
    r->python_numbers = opt && opt->python_numbers;
    r->carry.max = r->max_bytes;
}

bool json_reader_feed(JsonReader *r, Str piece, bool last, Err *err) {
    if (r->at != r->n || r->last) {
        return err_set(err, ERR_INTERNAL, "JSON reader was fed before its text was used up");
    }
    r->piece_at += r->n;
    if (piece.n > r->max_bytes || r->piece_at > r->max_bytes - piece.n) {
        r->failed = true;
        return err_set(err, ERR_LIMIT, "JSON text is longer than the limit of %zu bytes",
                       r->max_bytes);
    }
    r->p = piece.p;
    r->n = piece.n;
    r->at = 0;
    r->last = last;
    return true;
}

bool json_reader_open(JsonReader *r, Str text, const JsonOptions *opt, Err *err) {
    json_reader_init(r, opt);
    return json_reader_feed(r, text, true, err);
}

void json_reader_deinit(JsonReader *r) { buf_deinit(&r->carry); }

bool json_reader_complete(const JsonReader *r) { return r->want == WANT_NOTHING && !r->failed; }

uint64_t json_reader_offset(const JsonReader *r) { return r->piece_at + r->at; }

static bool fail_at(JsonReader *r, uint64_t at, Err *err) {
    r->failed = true;
    return err_wrap(err, "JSON at byte %" PRIu64, at);
}

/* The byte at r->at is not what the grammar wants. */
static bool fail_unexpected(JsonReader *r, Err *err) {
    unsigned char c = (unsigned char)r->p[r->at];
    if (c > 0x20 && c < 0x7F) {
        err_set(err, ERR_INPUT, "found '%c' where %s is expected", c, want_names[r->want]);
    } else {
        err_set(err, ERR_INPUT, "found byte 0x%02X where %s is expected", c, want_names[r->want]);
    }
    return fail_at(r, json_reader_offset(r), err);
}

static bool in_object(const JsonReader *r) {
    return r->depth > 0 && (r->in_object[(r->depth - 1) / 8] >> ((r->depth - 1) % 8) & 1);
}

static void value_done(JsonReader *r) { r->want = r->depth ? WANT_COMMA_OR_END : WANT_NOTHING; }

static bool container_begin(JsonReader *r, JsonToken *t, bool object, Err *err) {
    if (r->depth >= r->max_depth) {
        err_set(err, ERR_LIMIT, "nested deeper than the limit of %d levels", r->max_depth);
        return fail_at(r, json_reader_offset(r), err);
    }
    unsigned char *byte = &r->in_object[r->depth / 8], bit = (unsigned char)(1u << (r->depth % 8));
    *byte = (unsigned char)(object ? *byte | bit : *byte & ~bit);
    r->depth++;
    r->want = object ? WANT_KEY_OR_END : WANT_ITEM_OR_END;
    *t = (JsonToken){.event = object ? JSON_EV_OBJECT : JSON_EV_ARRAY, .at = json_reader_offset(r)};
    r->at++;
    return true;
}

static bool container_end(JsonReader *r, JsonToken *t, Err *err) {
    bool object = in_object(r);
    if (r->p[r->at] != (object ? '}' : ']')) return fail_unexpected(r, err);
    *t = (JsonToken){.event = object ? JSON_EV_OBJECT_END : JSON_EV_ARRAY_END,
                     .at = json_reader_offset(r)};
    r->at++;
    r->depth--;
    value_done(r);
    return true;
}

static bool is_string(JsonEvent e) { return e == JSON_EV_KEY || e == JSON_EV_STRING; }

/* The end of the token from r->at on. False: it goes on past this piece. For a string *end is
 * the closing quote; a raw control character also ends it and is reported by the caller. */
static bool token_end(JsonReader *r, size_t *end) {
    size_t i = r->at;
    if (!is_string(r->token)) {
        if (r->token == JSON_EV_NUMBER) i = json_scan_number(r->p, i, r->n);
        bool word =
            r->token != JSON_EV_NUMBER || r->python_numbers; /* "-Infinity" begins like a number */
        *end = word ? json_scan_word(r->p, i, r->n) : i;
        return *end < r->n || r->last;
    }
    if (r->backslash && i < r->n) {
        r->backslash = false;
        i++;
    }
    for (;;) {
        *end = i = json_scan_string(r->p, i, r->n, &r->high);
        if (i == r->n) return false;
        if (r->p[i] != '\\') return true;
        r->escaped = true;
        if (i + 1 == r->n) {
            r->backslash = true;
            *end = r->n;
            return false;
        }
        i += 2; /* which escape it is gets checked once the string is whole */
    }
}

static bool string_check(JsonReader *r, Str raw, Err *err) {
    size_t bad = r->high ? json_utf8_bad(raw) : STR_NPOS;
    if (bad != STR_NPOS) {
        err_set(err, ERR_INPUT, "byte 0x%02X in a string is not UTF-8", (unsigned char)raw.p[bad]);
        return fail_at(r, r->token_at + 1 + bad, err);
    }
    if (!r->escaped) return true;
    bad = json_escape_bad(raw, r->strict_surrogates);
    if (bad == STR_NPOS) return true;
    bool lone = json_escape_bad(str_slice(raw, bad, bad + 6), false) == STR_NPOS;
    Str shown = str_slice(raw, bad, bad + (bad + 1 < raw.n && raw.p[bad + 1] == 'u' ? 6 : 2));
    if (lone) {
        err_set(err, ERR_INPUT, "escape " STR_F " is half of a surrogate pair", STR_A(shown));
    } else {
        err_set(err, ERR_INPUT,
                "escape " STR_F " is not one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX",
                STR_A(shown));
    }
    return fail_at(r, r->token_at + 1 + bad, err);
}

static bool is_python_number(Str raw) {
    return str_eq(raw, STR("NaN")) || str_eq(raw, STR("Infinity")) || str_eq(raw, STR("-Infinity"));
}

static bool word_check(JsonReader *r, Str raw, Err *err) {
    if (str_eq(raw, STR("true")))
        r->token = JSON_EV_TRUE;
    else if (str_eq(raw, STR("false")))
        r->token = JSON_EV_FALSE;
    else if (r->python_numbers && is_python_number(raw))
        r->token = JSON_EV_NUMBER;
    else if (!str_eq(raw, STR("null"))) {
        Str shown = str_slice(raw, 0, 20);
        err_set(err, ERR_INPUT, "found " STR_F " where %s is expected", STR_A(shown),
                want_names[WANT_VALUE]);
        return fail_at(r, r->token_at, err);
    }
    return true;
}

static bool token_check(JsonReader *r, Str raw, Err *err) {
    if (is_string(r->token)) return r->high || r->escaped ? string_check(r, raw, err) : true;
    if (r->token != JSON_EV_NUMBER) return word_check(r, raw, err);
    if (json_number_valid(raw) || (r->python_numbers && is_python_number(raw))) return true;
    Str shown = str_slice(raw, 0, 40);
    err_set(err, ERR_INPUT, "\"" STR_F "\" is not a number", STR_A(shown));
    return fail_at(r, r->token_at, err);
}

/* The piece ends inside a token: keep what there is. */
static bool token_keep(JsonReader *r, JsonToken *t, Err *err) {
    if (r->last) {
        err_set(err, ERR_INPUT, "string has no closing quote");
        return fail_at(r, r->token_at, err);
    }
    if (!r->partial) buf_clear(&r->carry);
    buf_put(&r->carry, (Str){r->p + r->at, r->n - r->at});
    if (!buf_check(&r->carry, "JSON token", err)) return fail_at(r, r->token_at, err);
    r->partial = true;
    r->at = r->n;
    *t = (JsonToken){.event = JSON_EV_MORE, .at = json_reader_offset(r)};
    return true;
}

/* Scans the token r->token on from r->at; for a string that is behind its opening quote. */
static bool token_scan(JsonReader *r, JsonToken *t, Err *err) {
    size_t end;
    if (!token_end(r, &end)) return token_keep(r, t, err);
    bool string = is_string(r->token);
    if (string && r->p[end] != '"') {
        err_set(err, ERR_INPUT, "control character 0x%02X in a string", (unsigned char)r->p[end]);
        return fail_at(r, r->piece_at + end, err);
    }
    Str raw = {r->p + r->at, end - r->at};
    if (r->partial) {
        buf_put(&r->carry, raw);
        if (!buf_check(&r->carry, "JSON token", err)) return fail_at(r, r->token_at, err);
        raw = buf_str(&r->carry);
        r->partial = false;
    }
    if (!token_check(r, raw, err)) return false;
    r->at = end + string;
    *t = (JsonToken){.event = r->token, .escaped = r->escaped, .raw = raw, .at = r->token_at};
    if (r->token == JSON_EV_KEY)
        r->want = WANT_COLON;
    else
        value_done(r);
    return true;
}

static bool token_begin(JsonReader *r, JsonToken *t, JsonEvent token, Err *err) {
    r->token = token;
    r->token_at = json_reader_offset(r);
    r->high = r->escaped = r->backslash = false;
    if (is_string(token)) r->at++;
    return token_scan(r, t, err);
}

static bool value_begin(JsonReader *r, JsonToken *t, Err *err) {
    char c = r->p[r->at];
    switch (c) {
    case '"':
        return token_begin(r, t, JSON_EV_STRING, err);
    case '{':
        return container_begin(r, t, true, err);
    case '[':
        return container_begin(r, t, false, err);
    case '-':
        return token_begin(r, t, JSON_EV_NUMBER, err);
    default:
        break;
    }
    if (c >= '0' && c <= '9') return token_begin(r, t, JSON_EV_NUMBER, err);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return token_begin(r, t, JSON_EV_NULL, err);
    return fail_unexpected(r, err);
}

static bool piece_end(JsonReader *r, JsonToken *t, Err *err) {
    *t = (JsonToken){.event = r->last ? JSON_EV_END : JSON_EV_MORE, .at = json_reader_offset(r)};
    if (!r->last || r->want == WANT_NOTHING) return true;
    err_set(err, ERR_INPUT, "the text ends where %s is expected", want_names[r->want]);
    return fail_at(r, json_reader_offset(r), err);
}

bool json_next(JsonReader *r, JsonToken *t, Err *err) {
    if (r->failed) return err_set(err, ERR_INPUT, "JSON reader has failed before");
    if (r->partial) return token_scan(r, t, err);
    for (;;) {
        r->at = json_scan_space(r->p, r->at, r->n);
        if (r->at == r->n) return piece_end(r, t, err);
        char c = r->p[r->at];
        switch (r->want) {
        case WANT_VALUE:
            return value_begin(r, t, err);
        case WANT_ITEM_OR_END:
            return c == ']' ? container_end(r, t, err) : value_begin(r, t, err);
        case WANT_KEY_OR_END:
            if (c == '}') return container_end(r, t, err);
            return c == '"' ? token_begin(r, t, JSON_EV_KEY, err) : fail_unexpected(r, err);
        case WANT_KEY:
            return c == '"' ? token_begin(r, t, JSON_EV_KEY, err) : fail_unexpected(r, err);
        case WANT_COLON:
            if (c != ':') return fail_unexpected(r, err);
            r->want = WANT_VALUE;
            break;
        case WANT_COMMA_OR_END:
            if (c != ',') return container_end(r, t, err);
            r->want = in_object(r) ? WANT_KEY : WANT_VALUE;
            break;
        default:
            return fail_unexpected(r, err);
        }
        r->at++;
    }
}

bool json_skip(JsonReader *r, const JsonToken *t, Err *err) {
    JsonToken inner = *t;
    if (inner.event == JSON_EV_KEY && !json_next(r, &inner, err)) return false;
    if (inner.event != JSON_EV_OBJECT && inner.event != JSON_EV_ARRAY) return true;
    for (int outside = r->depth - 1; r->depth > outside;) {
        if (!json_next(r, &inner, err)) return false;
    }
    return true;
}

bool json_expect(JsonReader *r, JsonToken *t, JsonEvent event, const char *what, Err *err) {
    if (!json_next(r, t, err)) return false;
    if (t->event == event) return true;
    return err_set(err, ERR_INPUT, "%s at byte %" PRIu64 " is %s, not %s", what, t->at,
                   jsonevent_name(t->event), jsonevent_name(event));
}

bool json_token_str(const JsonToken *t, Arena *a, Str *out, Err *err) {
    *out = t->raw;
    if (!t->escaped) return true;
    char *copy = arena_alloc(a, t->raw.n);
    if (!copy) return err_nomem(err, "a JSON string");
    *out = (Str){copy, json_unescape(t->raw, copy)};
    return true;
}

const char *jsonevent_name(JsonEvent e) {
    static const char *const names[] = {
        [JSON_EV_MORE] = "incomplete",  [JSON_EV_END] = "the end",
        [JSON_EV_OBJECT] = "an object", [JSON_EV_OBJECT_END] = "the end of an object",
        [JSON_EV_ARRAY] = "an array",   [JSON_EV_ARRAY_END] = "the end of an array",
        [JSON_EV_KEY] = "a name",       [JSON_EV_STRING] = "a string",
        [JSON_EV_NUMBER] = "a number",  [JSON_EV_TRUE] = "a boolean",
        [JSON_EV_FALSE] = "a boolean",  [JSON_EV_NULL] = "null",
    };
    return (size_t)e < sizeof names / sizeof *names ? names[e] : "unknown";
}

/* utf8_encode() refuses surrogates; this is the same three-byte form without the refusal. */
static size_t put_unit(uint32_t c, char out[4]) {
    if (c < 0xD800 || c > 0xDFFF) return utf8_encode(c, out);
    out[0] = (char)(0xE0 | c >> 12);
    out[1] = (char)(0x80 | (c >> 6 & 63));
    out[2] = (char)(0x80 | (c & 63));
    return 3;
}

size_t json_unescape(Str raw, char *out) {
    size_t n = 0, i = 0;
    while (i < raw.n) {
        size_t stop = str_find_char(raw, '\\', i);
        if (stop == STR_NPOS) stop = raw.n;
        memmove(out + n, raw.p + i, stop - i);
        n += stop - i;
        i = stop;
        if (raw.n - i < 2) break;
        char c = raw.p[i + 1];
        if (c != 'u') {
            static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
            const char *at = c ? strchr(from, c) : NULL;
            out[n++] = at ? to[at - from] : c;
            i += 2;
            continue;
        }
        if (raw.n - i < 6) break;
        uint32_t unit = (uint32_t)json_hex4(raw.p + i + 2);
        i += 6;
        if (unit >= 0xD800 && unit < 0xDC00 && raw.n - i >= 6 && raw.p[i] == '\\' &&
            raw.p[i + 1] == 'u') {
            int low = json_hex4(raw.p + i + 2);
            if (low >= 0xDC00 && low < 0xE000) {
                unit = 0x10000 + ((unit & 0x3FF) << 10) + ((uint32_t)low & 0x3FF);
                i += 6;
            }
        }
        char bytes[4];
        size_t k = put_unit(unit, bytes);
        memcpy(out + n, bytes, k);
        n += k;
    }
    return n;
}
