/* Calls that are JSON objects: {"name": ..., "arguments": {...}}, one, several, in lists, in
 * wrappers. */
#include "chat/reply_core.h"

enum {
    B_ITEM = CALL_BODY, /* before a call, a list or a wrapper */
    B_MEMBER,           /* after '{': a key or '}' */
    B_KEY,              /* after ',': a key */
    B_KEY_TEXT,
    B_COLON,
    B_VALUE,
    B_SCAN,  /* a value that is needed whole, or not at all */
    B_ARGS,  /* streaming */
    B_NEXT,  /* after a member */
    B_AFTER, /* after a call or wrapper */
    B_CLOSE
};

enum { F_NAME, F_ARGS, F_ID, F_FUNCTION, F_CALLS, F_KNOWN, F_OTHER };

/* c.nest holds what is open: 'c' an object that may be a call, 'f' the function object inside
 * one, 'w' a wrapper around calls, '[' a list. */
static char top(const Call *c) { return c->n_nest ? c->nest[c->n_nest - 1] : 0; }

static Step open_nest(Reply *r, char kind, unsigned char state) {
    if (r->c.n_nest == CALL_NEST) return STEP_REJECT;
    r->c.nest[r->c.n_nest++] = kind;
    return call_go(r, state);
}

static int field_of(Str key) {
    static const struct {
        const char *key;
        int field;
    } fields[] = {{"name", F_NAME},
                  {"tool_name", F_NAME},
                  {"function_name", F_NAME},
                  {"arguments", F_ARGS},
                  {"parameters", F_ARGS},
                  {"args", F_ARGS},
                  {"id", F_ID},
                  {"tool_call_id", F_ID},
                  {"call_id", F_ID},
                  {"function", F_FUNCTION},
                  {"type", F_KNOWN},
                  {"index", F_KNOWN},
                  {"tool_calls", F_CALLS},
                  {"tool_call", F_CALLS},
                  {"function_call", F_CALLS},
                  {"function_calls", F_CALLS}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (str_eqc(key, fields[i].key)) return fields[i].field;
    return F_OTHER;
}

static Step value_begin(Reply *r, unsigned char state, int field) {
    r->c.field = (unsigned char)field;
    r->c.value = r->at;
    r->c.json = (JsonPush){0};
    return call_go(r, state);
}

static bool opened(Reply *r) {
    Call *c = &r->c;
    if (c->open || c->silent || !c->name.n) return c->open || c->silent;
    Str name = buf_str(&c->name);
    bool answer = str_eqc(name, "directly-answer") || str_eqc(name, "directly_answer");
    c->silent = answer && r->format->body->no_op && !toolcall_known(r->tools, name);
    call_open(r);
    return true;
}

static void args_put(Reply *r, Str json) {
    reply_clear(r, &r->scratch);
    if (!jsonpush_text(&r->scratch, json)) buf_put(&r->scratch, STR("{}"));
    call_args(r, buf_str(&r->scratch));
}

/* The string between the quotes, decoded, in r->scratch. */
static bool decode(Reply *r, Str quoted, Str *out) {
    Arena a = {.max_bytes = 64 << 20};
    Buf strict = {.max = r->in.max * 2};
    Err err = {0};
    Json *j;
    bool ok = jsonpush_text(&strict, quoted) && buf_check(&strict, "a tool call", &err) &&
              json_parse(buf_str(&strict), NULL, &a, &j, &err) && json_str(j, out);
    if (ok) {
        reply_clear(r, &r->scratch);
        buf_put(&r->scratch, *out);
        *out = buf_str(&r->scratch);
    } else if (err.kind == ERR_NOMEM) {
        r->failed = true;
        err_nomem(r->err, "a tool call");
    }
    buf_deinit(&strict);
    arena_deinit(&a);
    return ok;
}

/* Arguments that waited for the name, or for the end of the call: sent whole. False: this is no
 * call. */
static bool flush(Reply *r) {
    Call *c = &r->c;
    if (c->open || c->silent) return true;
    if (!c->n_args_bytes && (c->bare || r->format->body->keyed)) return false;
    if (!opened(r)) return false;
    Str raw = reply_text(r, c->args, c->args + c->n_args_bytes);
    if (raw.n && raw.p[0] == '"') {
        if (!decode(r, raw, &raw)) return false;
        reply_clear(r, &c->key);
        buf_put(&c->key, raw);
        raw = buf_str(&c->key);
    }
    args_put(r, raw.n && !str_eqc(raw, "null") ? raw : STR("{}"));
    return true;
}

static Step key_done(Reply *r, Str quoted) {
    Call *c = &r->c;
    bool keyed = r->format->body->keyed && top(c) == 'c';
    if (keyed && c->name.n) {
        if (!flush(r)) return STEP_REJECT;
        call_end(r);
    }
    Str key;
    if (!decode(r, quoted, &key)) return STEP_REJECT;
    int field = keyed ? F_ARGS : field_of(key);
    if (keyed && !call_name_set(r, key)) return STEP_REJECT;
    if (c->bare && !c->open && (field == F_OTHER || str_eqc(key, "args"))) return STEP_REJECT;
    c->field = (unsigned char)field;
    return call_go(r, B_COLON);
}

static Step name_done(Reply *r, Str quoted) {
    Str name;
    if (r->c.name.n || !decode(r, quoted, &name)) return STEP_REJECT;
    return call_name_set(r, name) ? call_go(r, B_NEXT) : STEP_REJECT;
}

/* Arguments that did not stream: they came before the name, or as null, or as a string of JSON
 * text. */
static Step args_done(Reply *r, Str value) {
    Call *c = &r->c;
    if (value.p[0] == '"') {
        Str text;
        if (!decode(r, value, &text)) return STEP_REJECT;
        text = str_trim(text);
        if (text.n && (text.p[0] != '{' || !jsonpush_valid(text))) return STEP_REJECT;
    } else if (value.p[0] != '{' && !str_eqc(value, "null")) {
        return STEP_REJECT;
    }
    c->args = (size_t)(value.p - r->in.p);
    c->n_args_bytes = value.n;
    return call_go(r, B_NEXT);
}

static Step value_done(Reply *r, size_t end) {
    Call *c = &r->c;
    Str value = reply_text(r, c->value, end);
    r->at = end;
    switch (c->field) {
    case F_NAME:
        return value.p[0] == '"' ? name_done(r, value) : STEP_REJECT;
    case F_ARGS:
        return args_done(r, value);
    case F_ID:
        reply_clear(r, &c->id);
        if (value.p[0] != '"') {
            buf_put(&c->id, value);
        } else {
            Str id;
            if (!decode(r, value, &id)) return STEP_REJECT;
            buf_put(&c->id, id);
        }
        break;
    default:
        break;
    }
    return call_go(r, B_NEXT);
}

static Step scan(Reply *r, bool key) {
    Call *c = &r->c;
    while (r->at < r->in.n) {
        Push p = jsonpush(&c->json, (unsigned char)r->in.p[r->at]);
        if (p == PUSH_BAD) return STEP_REJECT;
        if (p == PUSH_DONE_BEFORE) return value_done(r, r->at);
        r->at++;
        if (p == PUSH_MORE) continue;
        if (key) return key_done(r, reply_text(r, c->value, r->at));
        return value_done(r, r->at);
    }
    return STEP_MORE;
}

Step toolcall_args(Reply *r) {
    Call *c = &r->c;
    unsigned char b;
    if (!c->started) {
        if (!reply_skip_space(r, &b)) return STEP_MORE;
        if (b != '{') return STEP_REJECT;
        if (!c->open) call_open(r);
        c->started = true;
        c->json = (JsonPush){0};
    }
    reply_clear(r, &r->scratch);
    Step s = STEP_MORE;
    while (s == STEP_MORE && r->at < r->in.n) {
        b = (unsigned char)r->in.p[r->at];
        bool inside = jsonpush_in_string(&c->json);
        Push p = jsonpush(&c->json, b);
        if (p == PUSH_BAD) {
            s = STEP_REJECT;
            break;
        }
        jsonpush_put(&r->scratch, b, inside);
        r->at++;
        if (p == PUSH_DONE) s = STEP_NEXT;
    }
    call_args(r, buf_str(&r->scratch));
    return s;
}

static Step value(Reply *r, unsigned char b) {
    Call *c = &r->c;
    switch (c->field) {
    case F_FUNCTION:
        if (b == '{' && top(c) == 'c') {
            r->at++;
            return open_nest(r, 'f', B_MEMBER);
        }
        return value_begin(r, B_SCAN, F_NAME);
    case F_CALLS:
        if ((b != '{' && b != '[') || top(c) != 'c' || c->name.n) return STEP_REJECT;
        c->nest[c->n_nest - 1] = 'w';
        return call_go(r, B_ITEM);
    case F_ARGS:
        if (c->open || c->silent || c->n_args_bytes) return STEP_REJECT;
        if (b != '{' || !opened(r)) return value_begin(r, B_SCAN, F_ARGS);
        c->started = false;
        return call_go(r, B_ARGS);
    default:
        return value_begin(r, B_SCAN, c->field);
    }
}

/* The object of a call is closed. It counts at once in a list; alone it waits for its closing
 * mark. */
static Step call_done(Reply *r) {
    if (!flush(r)) return STEP_REJECT;
    if (r->c.n_nest || !r->format->body->close[0].n || r->c.bare) call_end(r);
    return call_go(r, B_AFTER);
}

static Step close_nest(Reply *r) {
    Call *c = &r->c;
    char kind = top(c);
    r->at++;
    c->n_nest--;
    if (kind == 'f') return call_go(r, B_NEXT);
    if (kind == 'w') return call_go(r, B_AFTER);
    return call_done(r);
}

static Step after(Reply *r) {
    Call *c = &r->c;
    unsigned char b;
    if (!c->n_nest) return call_go(r, B_CLOSE);
    if (top(c) == 'w') return call_go(r, B_NEXT);
    if (!reply_skip_space(r, &b)) return STEP_MORE;
    if (b == '{') return call_go(r, B_ITEM);
    if (b != ',' && b != ']') return STEP_REJECT;
    r->at++;
    if (b == ',') return call_go(r, B_ITEM);
    c->n_nest--;
    return STEP_NEXT;
}

static void pending_end(Reply *r) {
    if (r->c.open || r->c.silent) call_end(r);
}

/* Behind the last call. Another one may follow without a list around them. */
static Step close_calls(Reply *r) {
    Call *c = &r->c;
    const ToolBody *body = r->format->body;
    size_t before = r->at, n_close = 0;
    unsigned char b;
    while (n_close < TOOL_CLOSE_MAX && body->close[n_close].n) n_close++;
    if (!n_close && !c->bare) return STEP_TEXT;
    if (!reply_skip_space(r, &b)) {
        r->at = before;
        if (!r->eof) return STEP_MORE;
        pending_end(r);
        return STEP_TEXT;
    }
    int which = reply_take_any(r, body->close, n_close);
    if (which >= 0) {
        pending_end(r);
        reply_keep(r);
        return STEP_TEXT;
    }
    if (which == REPLY_NONE && (b == ',' || b == ';') && c->bare) {
        r->at++;
        if (!reply_skip_space(r, &b)) which = REPLY_WAIT;
    }
    if (which == REPLY_WAIT && !r->eof) {
        r->at = before;
        return STEP_MORE;
    }
    if (b == '{' && which == REPLY_NONE) {
        pending_end(r);
        return call_go(r, B_ITEM);
    }
    r->at = before;
    if (!body->optional && !c->bare && c->open) return STEP_REJECT;
    pending_end(r);
    return STEP_TEXT;
}

static Step item(Reply *r, unsigned char b) {
    Call *c = &r->c;
    if (b == '[') {
        r->at++;
        return open_nest(r, '[', B_ITEM);
    }
    if (b == ']' && top(c) == '[') { /* an empty list, or a comma before its end */
        if (c->bare && !c->n_done) return STEP_REJECT;
        r->at++;
        c->n_nest--;
        return call_go(r, B_AFTER);
    }
    if (b != '{') return STEP_REJECT;
    r->at++;
    return open_nest(r, 'c', B_MEMBER);
}

Step toolcall_body(Reply *r) {
    Call *c = &r->c;
    unsigned char b;
    switch (c->state) {
    case B_KEY_TEXT:
        return scan(r, true);
    case B_SCAN:
        return scan(r, false);
    case B_ARGS: {
        Step s = toolcall_args(r);
        return s == STEP_NEXT ? call_go(r, B_NEXT) : s;
    }
    case B_AFTER:
        return after(r);
    case B_CLOSE:
        return close_calls(r);
    default:
        break;
    }
    if (!reply_skip_space(r, &b)) return STEP_MORE;
    switch (c->state) {
    case B_ITEM:
        return item(r, b);
    case B_MEMBER:
        if (b == '}') return close_nest(r);
        /* fall through */
    case B_KEY:
        return b == '"' ? value_begin(r, B_KEY_TEXT, 0) : STEP_REJECT;
    case B_COLON:
        if (b != ':') return STEP_REJECT;
        r->at++;
        return call_go(r, B_VALUE);
    case B_VALUE:
        return value(r, b);
    default: /* B_NEXT */
        if (b == '}') return close_nest(r);
        if (b != ',') return STEP_REJECT;
        r->at++;
        return call_go(r, B_KEY);
    }
}
