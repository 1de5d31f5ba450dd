/* Calls written as code or as a literal of their own: Python's [name(key=value), ...] and
 * Gemma's call:name{key:value}. */
#include "chat/reply_core.h"

enum {
    P_BEGIN,
    P_FIRST = TOOL_LIST_ARGS + 2,
    P_NAME,
    P_EQUALS,
    P_VALUE,
    P_NEXT_ARG,
    P_SEPARATOR,
    P_CLOSE
};

static bool is_name(char c) { return c != ':' && c != '/' && toolcall_name_ok((Str){&c, 1}); }

/* A name and the byte behind it: NEXT with *out and at on that byte, REJECT if it is not `then`. */
static Step word(Reply *r, char then, Str *out) {
    size_t end = r->at;
    while (end < r->in.n && end - r->at < REPLY_HEADER_MAX && is_name(r->in.p[end])) end++;
    *out = reply_text(r, r->at, end);
    while (end < r->in.n && end - r->at < REPLY_HEADER_MAX && r->in.p[end] == ' ') end++;
    if (end == r->in.n && !r->eof) return STEP_MORE;
    if (end == r->in.n || r->in.p[end] != then || !out->n) return STEP_REJECT;
    r->at = end + 1;
    return STEP_NEXT;
}

static void opened(Reply *r) {
    if (!r->c.open) call_open(r);
}

static Step call_closed(Reply *r) {
    r->at++;
    opened(r);
    toolcall_members_end(r);
    return call_go(r, P_SEPARATOR);
}

static Step argument(Reply *r, unsigned char b) {
    Str key;
    if (b == ')') return call_closed(r);
    Step s = word(r, '=', &key);
    if (s != STEP_NEXT) return s;
    opened(r);
    toolcall_member(r, key);
    r->c.py = (PyPush){0};
    return call_go(r, P_VALUE);
}

static Step literal(Reply *r) {
    Step s = STEP_MORE;
    reply_clear(r, &r->scratch);
    while (s == STEP_MORE && r->at < r->in.n) {
        Push p = pypush(&r->c.py, (unsigned char)r->in.p[r->at], &r->scratch);
        if (p == PUSH_BAD) s = STEP_REJECT;
        if (p == PUSH_DONE || p == PUSH_DONE_BEFORE) s = call_go(r, P_NEXT_ARG);
        if (p == PUSH_MORE || p == PUSH_DONE) r->at++;
    }
    call_args(r, buf_str(&r->scratch));
    return s;
}

static Step separator(Reply *r) {
    unsigned char b;
    size_t before = r->at;
    if (!r->c.n_nest) return call_go(r, P_CLOSE);
    if (!reply_skip_space(r, &b)) {
        r->at = before;
        return r->eof ? STEP_TEXT : STEP_MORE;
    }
    if (b != ',' && b != ']') return STEP_REJECT;
    r->at++;
    return call_go(r, b == ',' ? P_NAME : P_CLOSE);
}

static Step list_close(Reply *r) {
    const ToolBody *body = r->format->body;
    size_t before = r->at, n = 0;
    unsigned char b;
    int which = REPLY_NONE;
    while (n < TOOL_CLOSE_MAX && body->close[n].n) n++;
    reply_keep(r);
    if (!n || r->c.bare) return STEP_TEXT;
    if (reply_skip_space(r, &b))
        which = reply_take_any(r, body->close, n);
    else if (!r->eof)
        which = REPLY_WAIT;
    if (which < 0) r->at = before;
    if (which == REPLY_WAIT) return STEP_MORE;
    reply_keep(r);
    return STEP_TEXT;
}

Step toolcall_list(Reply *r) {
    Call *c = &r->c;
    unsigned char b;
    Str name;
    Step s;
    switch (c->state) {
    case P_VALUE:
        return literal(r);
    case P_SEPARATOR:
        return separator(r);
    case P_CLOSE:
        return list_close(r);
    default:
        break;
    }
    if (!reply_skip_space(r, &b)) return STEP_MORE;
    switch (c->state) {
    case P_BEGIN:
        c->value = r->at;
        if (b == '{') return call_go(r, CALL_BODY);
        if (b != '[') return call_go(r, P_NAME);
        r->at++;
        c->n_nest = 1;
        return call_go(r, P_FIRST);
    case P_FIRST:
        if (b != '{') return call_go(r, P_NAME);
        r->at = c->value; /* a list of JSON calls after all */
        c->n_nest = 0;
        return call_go(r, CALL_BODY);
    case P_NAME:
        if (b == ']' && c->n_nest && c->n_done) {
            r->at++;
            return call_go(r, P_CLOSE);
        }
        if ((s = word(r, '(', &name)) != STEP_NEXT) return s;
        return call_name_set(r, name) ? call_go(r, TOOL_LIST_ARGS) : STEP_REJECT;
    case TOOL_LIST_ARGS:
        return argument(r, b);
    default: /* P_NEXT_ARG */
        if (b == ')') return call_closed(r);
        if (b != ',') return STEP_REJECT;
        r->at++;
        return call_go(r, TOOL_LIST_ARGS);
    }
}

/* call:NAME{key:value,...}; strings stand between delimiters of their own, keys and scalars
 * stand bare. */
enum { G_CLOSE, G_QUOTE }; /* format->tags */
enum { G_BEGIN, G_NAME, G_KEY, G_KEY_TEXT, G_COLON, G_VALUE, G_STRING, G_NEXT, G_END };

/* c.py keeps the open containers and whether a comma is due, as for Python literals. */
static void gemma_item(Reply *r) {
    if (r->c.py.comma) call_args(r, STR(", "));
    r->c.py.comma = false;
}

static void gemma_key(Reply *r, Str key) {
    if (!r->c.py.depth) {
        toolcall_member(r, key);
        return;
    }
    gemma_item(r);
    reply_clear(r, &r->scratch);
    buf_putc(&r->scratch, '"');
    jsonpush_escape(&r->scratch, key);
    buf_put(&r->scratch, STR("\": "));
    call_args(r, buf_str(&r->scratch));
}

static Step gemma_close(Reply *r) {
    PyPush *py = &r->c.py;
    r->at++;
    py->comma = false;
    if (!py->depth) return call_go(r, G_END);
    char close[] = {py->close[--py->depth]};
    call_args(r, (Str){close, 1});
    return call_go(r, G_NEXT);
}

static char gemma_closer(const Reply *r) {
    return r->c.py.depth ? r->c.py.close[r->c.py.depth - 1] : '}';
}

static Step gemma_scalar(Reply *r) {
    size_t i = r->at > r->seek ? r->at : r->seek;
    while (i < r->in.n && r->in.p[i] != ',' && r->in.p[i] != '}' && r->in.p[i] != ']') i++;
    r->seek = i;
    if (i == r->in.n) return STEP_MORE;
    Str text = str_trim(reply_text(r, r->at, i));
    if (!text.n) return STEP_REJECT;
    reply_clear(r, &r->scratch);
    toolcall_value_put(&r->scratch, text, r->c.py.depth ? NULL : r->c.property);
    call_args(r, buf_str(&r->scratch));
    r->at = i;
    return call_go(r, G_NEXT);
}

static Step gemma_value(Reply *r, unsigned char b) {
    PyPush *py = &r->c.py;
    if (b == ']' && gemma_closer(r) == ']') return gemma_close(r);
    Step s = reply_take(r, r->format->tags[G_QUOTE]);
    if (s == STEP_MORE) return s;
    if (py->depth && gemma_closer(r) == ']') gemma_item(r);
    if (s == STEP_NEXT) {
        call_args(r, STR("\""));
        return call_go(r, G_STRING);
    }
    if (b != '{' && b != '[') return gemma_scalar(r);
    if (py->depth == PY_PUSH_DEPTH) return STEP_REJECT;
    py->close[py->depth++] = b == '{' ? '}' : ']';
    r->at++;
    call_args(r, b == '{' ? STR("{") : STR("["));
    return call_go(r, b == '{' ? G_KEY : G_VALUE);
}

static Step gemma_string(Reply *r) {
    Str quote = r->format->tags[G_QUOTE];
    bool whole;
    size_t to = reply_plain(r, quote, &whole);
    reply_clear(r, &r->scratch);
    jsonpush_escape(&r->scratch, reply_text(r, r->at, to));
    call_args(r, buf_str(&r->scratch));
    r->at = to;
    if (!whole) return STEP_MORE;
    r->at += quote.n;
    call_args(r, STR("\""));
    return call_go(r, G_NEXT);
}

static Step gemma_end(Reply *r) {
    unsigned char b;
    if (reply_skip_space(r, &b)) {
        Step s = reply_take(r, r->format->tags[G_CLOSE]);
        if (s != STEP_NEXT) return s;
    } else if (!r->eof) {
        return STEP_MORE;
    }
    toolcall_members_end(r);
    return STEP_TEXT;
}

Step toolcall_gemma(Reply *r) {
    const Str *t = r->format->tags;
    static const Str brace = {"{", 1}, colon = {":", 1};
    Call *c = &r->c;
    unsigned char b;
    Str text;
    int which;
    Step s;
    switch (c->state) {
    case G_NAME:
        which = reply_until(r, &brace, 1, &text);
        if (which < 0) return which == REPLY_WAIT ? STEP_MORE : STEP_REJECT;
        if (!call_name_set(r, text)) return STEP_REJECT;
        call_open(r);
        c->py = (PyPush){0};
        return call_go(r, G_KEY);
    case G_KEY_TEXT: /* quoted with the string delimiter */
    case G_COLON:    /* bare, up to the colon */
        which = reply_until(r, c->state == G_COLON ? &colon : &t[G_QUOTE], 1, &text);
        if (which < 0) return which == REPLY_WAIT ? STEP_MORE : STEP_REJECT;
        text = str_trim(text);
        if (!text.n && c->state == G_COLON) { /* behind a quoted key */
            text = buf_str(&c->key);
        } else if (c->state == G_KEY_TEXT) {
            buf_put(&c->key, text);
            return call_go(r, G_COLON);
        }
        if (!text.n) return STEP_REJECT;
        gemma_key(r, text);
        return call_go(r, G_VALUE);
    case G_STRING:
        return gemma_string(r);
    case G_END:
        return gemma_end(r);
    default:
        break;
    }
    if (!reply_skip_space(r, &b)) return STEP_MORE;
    switch (c->state) {
    case G_BEGIN:
        s = reply_take(r, STR("call:"));
        return s == STEP_NEXT ? call_go(r, G_NAME) : s;
    case G_KEY:
        if (b == '}') return gemma_close(r);
        reply_clear(r, &c->key);
        s = reply_take(r, t[G_QUOTE]);
        if (s == STEP_MORE) return s;
        return call_go(r, s == STEP_NEXT ? G_KEY_TEXT : G_COLON);
    case G_VALUE:
        return gemma_value(r, b);
    default: /* G_NEXT */
        if (b == (unsigned char)gemma_closer(r)) return gemma_close(r);
        if (b != ',') return STEP_REJECT;
        r->at++;
        c->py.comma = c->py.depth > 0;
        return call_go(r, gemma_closer(r) == '}' ? G_KEY : G_VALUE);
    }
}
