#include "chat/toolcall_json.h"

enum {
    JP_VALUE,
    JP_FIRST_ITEM, /* after '[': a value or ']' */
    JP_FIRST_KEY,  /* after '{': a key or '}' */
    JP_KEY,
    JP_COLON,
    JP_COMMA, /* after an item or member */
    JP_STRING,
    JP_ESCAPE,
    JP_HEX,
    JP_WORD,
    JP_MINUS,
    JP_ZERO,
    JP_INT,
    JP_POINT,
    JP_FRACTION,
    JP_E,
    JP_E_SIGN,
    JP_EXPONENT
};

static bool is_space(unsigned char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
static bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }

static bool is_hex(unsigned char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool in_object(const JsonPush *jp) {
    int top = jp->depth - 1;
    return jp->object[top / 8] >> (top % 8) & 1;
}

static Push push_down(JsonPush *jp, bool object) {
    if (jp->depth == JSON_PUSH_DEPTH) return PUSH_BAD;
    unsigned char bit = (unsigned char)(1u << (jp->depth % 8));
    unsigned char *byte = &jp->object[jp->depth / 8];
    *byte = object ? *byte | bit : *byte & (unsigned char)~bit;
    jp->depth++;
    jp->state = object ? JP_FIRST_KEY : JP_FIRST_ITEM;
    return PUSH_MORE;
}

static Push value_end(JsonPush *jp) {
    if (!jp->depth) return PUSH_DONE;
    jp->state = JP_COMMA;
    return PUSH_MORE;
}

static Push pop(JsonPush *jp) {
    jp->depth--;
    return value_end(jp);
}

static Push string_begin(JsonPush *jp, bool key) {
    jp->in_key = key;
    jp->state = JP_STRING;
    return PUSH_MORE;
}

static Push word_begin(JsonPush *jp, const char *rest) {
    jp->word = rest;
    jp->state = JP_WORD;
    return PUSH_MORE;
}

static Push go(JsonPush *jp, unsigned char state) {
    jp->state = state;
    return PUSH_MORE;
}

static Push value_begin(JsonPush *jp, unsigned char c) {
    switch (c) {
    case '{':
        return push_down(jp, true);
    case '[':
        return push_down(jp, false);
    case '"':
        return string_begin(jp, false);
    case 't':
        return word_begin(jp, "rue");
    case 'f':
        return word_begin(jp, "alse");
    case 'n':
        return word_begin(jp, "ull");
    case '-':
        return go(jp, JP_MINUS);
    case '0':
        return go(jp, JP_ZERO);
    default:
        return is_digit(c) ? go(jp, JP_INT) : PUSH_BAD;
    }
}

static Push in_string(JsonPush *jp, unsigned char c) {
    if (c == '\\') return go(jp, JP_ESCAPE);
    if (c != '"') return PUSH_MORE;
    if (jp->in_key) return go(jp, JP_COLON);
    return value_end(jp);
}

static Push escape(JsonPush *jp, unsigned char c) {
    switch (c) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return go(jp, JP_STRING);
    case 'u':
        jp->n_hex = 0;
        return go(jp, JP_HEX);
    default:
        return PUSH_BAD;
    }
}

static Push after_number(JsonPush *jp, unsigned char c) {
    if (!jp->depth) return PUSH_DONE_BEFORE;
    jp->state = JP_COMMA;
    return jsonpush(jp, c);
}

static Push number(JsonPush *jp, unsigned char c) {
    switch (jp->state) {
    case JP_MINUS:
        return c == '0' ? go(jp, JP_ZERO) : is_digit(c) ? go(jp, JP_INT) : PUSH_BAD;
    case JP_INT:
        if (is_digit(c)) return PUSH_MORE;
        /* fall through */
    case JP_ZERO:
        if (c == '.') return go(jp, JP_POINT);
        if (c == 'e' || c == 'E') return go(jp, JP_E);
        return is_digit(c) ? PUSH_BAD : after_number(jp, c);
    case JP_POINT:
        return is_digit(c) ? go(jp, JP_FRACTION) : PUSH_BAD;
    case JP_FRACTION:
        if (is_digit(c)) return PUSH_MORE;
        return c == 'e' || c == 'E' ? go(jp, JP_E) : after_number(jp, c);
    case JP_E:
        if (c == '+' || c == '-') return go(jp, JP_E_SIGN);
        /* fall through */
    case JP_E_SIGN:
        return is_digit(c) ? go(jp, JP_EXPONENT) : PUSH_BAD;
    default:
        return is_digit(c) ? PUSH_MORE : after_number(jp, c);
    }
}

Push jsonpush(JsonPush *jp, unsigned char c) {
    switch (jp->state) {
    case JP_STRING:
        return in_string(jp, c);
    case JP_ESCAPE:
        return escape(jp, c);
    case JP_HEX:
        if (!is_hex(c)) return PUSH_BAD;
        return ++jp->n_hex == 4 ? go(jp, JP_STRING) : PUSH_MORE;
    case JP_WORD:
        if (c != (unsigned char)*jp->word) return PUSH_BAD;
        return *++jp->word ? PUSH_MORE : value_end(jp);
    case JP_VALUE:
    case JP_FIRST_ITEM:
    case JP_FIRST_KEY:
    case JP_KEY:
    case JP_COLON:
    case JP_COMMA:
        break;
    default:
        return number(jp, c);
    }
    if (is_space(c)) return PUSH_MORE;
    switch (jp->state) {
    case JP_FIRST_ITEM:
        if (c == ']') return pop(jp);
        /* fall through */
    case JP_VALUE:
        return value_begin(jp, c);
    case JP_FIRST_KEY:
        if (c == '}') return pop(jp);
        /* fall through */
    case JP_KEY:
        return c == '"' ? string_begin(jp, true) : PUSH_BAD;
    case JP_COLON:
        return c == ':' ? go(jp, JP_VALUE) : PUSH_BAD;
    default: /* JP_COMMA */
        if (c == ',') return go(jp, in_object(jp) ? JP_KEY : JP_VALUE);
        return c == (in_object(jp) ? '}' : ']') ? pop(jp) : PUSH_BAD;
    }
}

bool jsonpush_in_string(const JsonPush *jp) {
    return jp->state == JP_STRING || jp->state == JP_ESCAPE || jp->state == JP_HEX;
}

bool jsonpush_number_done(const JsonPush *jp) {
    return !jp->depth && (jp->state == JP_ZERO || jp->state == JP_INT || jp->state == JP_FRACTION ||
                          jp->state == JP_EXPONENT);
}

void jsonpush_put(Buf *out, unsigned char c, bool in_string_now) {
    if (c >= 0x20 || !in_string_now)
        buf_putc(out, (char)c);
    else if (c == '\n')
        buf_put(out, STR("\\n"));
    else if (c == '\r')
        buf_put(out, STR("\\r"));
    else if (c == '\t')
        buf_put(out, STR("\\t"));
    else
        buf_putf(out, "\\u%04x", c);
}

bool jsonpush_text(Buf *out, Str s) {
    JsonPush jp = {0};
    size_t old = out->n;
    s = str_trim(s);
    for (size_t i = 0; i < s.n; i++) {
        bool inside = jsonpush_in_string(&jp);
        Push p = jsonpush(&jp, (unsigned char)s.p[i]);
        if (p == PUSH_MORE || (p == PUSH_DONE && i + 1 == s.n))
            jsonpush_put(out, (unsigned char)s.p[i], inside);
        if (p == PUSH_DONE && i + 1 == s.n) return true;
        if (p == PUSH_MORE) continue;
        out->n = old;
        return false;
    }
    if (jsonpush_number_done(&jp)) return true;
    out->n = old;
    return false;
}

bool jsonpush_valid(Str s) {
    JsonPush jp = {0};
    s = str_trim(s);
    for (size_t i = 0; i < s.n; i++) {
        Push p = jsonpush(&jp, (unsigned char)s.p[i]);
        if (p == PUSH_DONE) return i + 1 == s.n;
        if (p != PUSH_MORE) return false;
    }
    return jsonpush_number_done(&jp);
}

void jsonpush_escape(Buf *out, Str text) {
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '"' || text.p[i] == '\\') buf_putc(out, '\\');
        jsonpush_put(out, (unsigned char)text.p[i], true);
    }
}
