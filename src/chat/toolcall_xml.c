/* Calls written as tags: XML-like sections, GLM's key/value tags, MiniMax-M3's namespaced
 * elements. */
#include "chat/reply_core.h"

enum { X_CALL = CALL_XML, X_NAME, X_PARAM, X_KEY, X_VALUE };

/* The value of name="..." (or '...') among a tag's attributes; an empty Str if there is none. */
static Str attribute(Str tag, Str name) {
    for (size_t at = 0; (at = str_find(tag, name, at)) != STR_NPOS; at += name.n) {
        size_t i = at + name.n;
        if (i + 1 >= tag.n || tag.p[i] != '=' || (tag.p[i + 1] != '"' && tag.p[i + 1] != '\''))
            continue;
        size_t end = str_find_char(tag, tag.p[i + 1], i + 2);
        return end == STR_NPOS ? STR_NONE : str_slice(tag, i + 2, end);
    }
    return STR_NONE;
}

static Str unquote(Str s) {
    s = str_trim(s);
    bool quoted = s.n >= 2 && (s.p[0] == '"' || s.p[0] == '\'') && s.p[s.n - 1] == s.p[0];
    return quoted ? str_slice(s, 1, s.n - 1) : s;
}

/* Before a call or the end of the section; what follows a complete call may also be plain text. */
static Step xml_call(Reply *r, const ToolXml *x) {
    unsigned char b;
    size_t before = r->at;
    if (reply_skip_space(r, &b)) {
        if ((b == '{' || b == '[') && !r->c.n_done && r->format->body) return call_go(r, CALL_BODY);
        Str next[] = {x->call_open, x->wrap_close[0],
                      x->wrap_close[1].n ? x->wrap_close[1] : x->wrap_close[0]};
        int which = reply_take_any(r, next, 3);
        if (which == 0) return call_go(r, X_NAME);
        if (which == REPLY_WAIT) {
            r->at = before;
            return STEP_MORE;
        }
        if (which > 0 && r->c.n_done) {
            reply_keep(r);
            return STEP_TEXT;
        }
    } else if (!r->eof) {
        r->at = before;
        return STEP_MORE;
    }
    if (!r->c.n_done) return STEP_REJECT;
    r->at = before;
    return STEP_TEXT;
}

static Step xml_param(Reply *r, const ToolXml *x) {
    unsigned char b;
    if (!reply_skip_space(r, &b)) return STEP_MORE;
    Str next[] = {x->param_open, x->call_close, x->wrap_close[0]};
    switch (reply_take_any(r, next, 3)) {
    case 0:
        return call_go(r, X_KEY);
    case 1:
        toolcall_members_end(r);
        return call_go(r, X_CALL);
    case 2:
        toolcall_members_end(r);
        return STEP_TEXT; /* the call's own end was forgotten */
    case REPLY_WAIT:
        return STEP_MORE;
    default:
        return STEP_REJECT;
    }
}

static Step xml_tag(Reply *r, const ToolXml *x, bool call) {
    static const Str gt = {">", 1};
    Str tag;
    int which = reply_until(r, &gt, 1, &tag);
    if (which < 0) return which == REPLY_WAIT ? STEP_MORE : STEP_REJECT;
    Str name = x->quoted ? attribute(tag, STR("name")) : unquote(tag);
    if (call) {
        if (!call_name_set(r, name)) return STEP_REJECT;
        call_open(r);
        return call_go(r, X_PARAM);
    }
    if (!name.n) return STEP_REJECT;
    Str literal = x->quoted ? attribute(tag, STR("string")) : STR_NONE;
    r->c.field = str_eqc(literal, "true")    ? TOOL_STRING
                 : str_eqc(literal, "false") ? TOOL_JSON
                                             : TOOL_BY_SCHEMA;
    toolcall_member(r, name);
    return call_go(r, X_VALUE);
}

Step toolcall_xml(Reply *r) {
    const ToolXml *x = r->format->xml;
    Step s;
    switch (r->c.state) {
    case X_CALL:
        return xml_call(r, x);
    case X_NAME:
        return xml_tag(r, x, true);
    case X_PARAM:
        return xml_param(r, x);
    case X_KEY:
        return xml_tag(r, x, false);
    default:
        s = toolcall_text_value(r, x->param_close, x->strip_newline, (ToolTyped)r->c.field);
        return s == STEP_NEXT ? call_go(r, X_PARAM) : s;
    }
}

/* State 0: behind the section's mark. State 1: the mark was the call's own opening. State 2:
 * behind a mark that ordinary answers begin with as well. */
Step toolcall_tagged(Reply *r) {
    if (r->c.state == 1) return call_go(r, X_NAME);
    r->c.bare = r->c.state == 2;
    return call_go(r, r->format->xml && !r->c.bare ? X_CALL : CALL_BODY);
}

/* <tool_call>NAME <arg_key>K</arg_key> <arg_value>V</arg_value> ... </tool_call>; tags in this
 * order: */
enum { G_KEY_OPEN, G_KEY_CLOSE, G_VALUE_OPEN, G_VALUE_CLOSE, G_CLOSE };
enum { G_BEGIN, G_NAME, G_PARAM, G_KEY, G_ARG, G_VALUE };

static Step glm_name(Reply *r, const Str *t) {
    Str ends[] = {STR("\n"), t[G_KEY_OPEN], t[G_CLOSE]}, name;
    int which = reply_until(r, ends, 3, &name);
    if (which < 0) return which == REPLY_WAIT ? STEP_MORE : STEP_REJECT;
    if (!call_name_set(r, name)) return STEP_REJECT;
    call_open(r);
    if (which < 2) return call_go(r, which ? G_KEY : G_PARAM);
    toolcall_members_end(r);
    return STEP_TEXT;
}

static Step glm_param(Reply *r, const Str *t) {
    Str next[] = {t[G_KEY_OPEN], t[G_CLOSE]};
    switch (reply_take_any(r, next, 2)) {
    case 0:
        return call_go(r, G_KEY);
    case 1:
        toolcall_members_end(r);
        return STEP_TEXT;
    case REPLY_WAIT:
        return STEP_MORE;
    default:
        return STEP_REJECT;
    }
}

Step toolcall_glm(Reply *r) {
    const Str *t = r->format->tags;
    unsigned char b;
    Str key;
    Step s;
    switch (r->c.state) {
    case G_NAME:
        return glm_name(r, t);
    case G_KEY: {
        int which = reply_until(r, &t[G_KEY_CLOSE], 1, &key);
        if (which < 0) return which == REPLY_WAIT ? STEP_MORE : STEP_REJECT;
        toolcall_member(r, str_trim(key));
        return call_go(r, G_ARG);
    }
    case G_VALUE:
        s = toolcall_text_value(r, t[G_VALUE_CLOSE], false, TOOL_BY_SCHEMA);
        return s == STEP_NEXT ? call_go(r, G_PARAM) : s;
    default:
        break;
    }
    if (!reply_skip_space(r, &b)) return STEP_MORE;
    switch (r->c.state) {
    case G_BEGIN:
        return call_go(r, b == '{' || b == '[' ? CALL_BODY : G_NAME);
    case G_PARAM:
        return glm_param(r, t);
    default: /* G_ARG */
        s = reply_take(r, t[G_VALUE_OPEN]);
        r->c.value = r->at;
        return s == STEP_NEXT ? call_go(r, G_VALUE) : s;
    }
}

/* MiniMax-M3: every tag stands behind a control token, parameters are elements that nest. */
#define M3 "]<]minimax[>["
enum { M3_CALL, M3_NAME, M3_PARAM, M3_KEY, M3_STRING, M3_ELEMENT };
enum { M3_DEPTH = 32, M3_GROUP_WORK = 64 << 20 };

/* The end of the element whose content begins at `at`: offset of its closing tag, *next behind
 * it. */
static size_t m3_close(Str text, size_t at, size_t *next) {
    int depth = 1;
    while ((at = str_find(text, STR(M3 "<"), at)) != STR_NPOS) {
        size_t tag = at + sizeof(M3 "<") - 1, end = str_find_char(text, '>', tag);
        if (end == STR_NPOS) return STR_NPOS;
        depth += text.p[tag] == '/' ? -1 : 1;
        *next = end + 1;
        if (!depth) return at;
        at = end + 1;
    }
    return STR_NPOS;
}

typedef struct M3Child {
    Str name, body;
} M3Child;

static bool m3_child(Str *text, M3Child *out) {
    size_t next;
    *text = str_trim(*text);
    if (!str_starts(*text, STR(M3 "<"))) return false;
    size_t tag = sizeof(M3 "<") - 1, end = str_find_char(*text, '>', tag);
    if (end == STR_NPOS) return false;
    size_t close = m3_close(*text, end + 1, &next);
    if (close == STR_NPOS) return false;
    *out = (M3Child){str_slice(*text, tag, end), str_slice(*text, end + 1, close)};
    *text = str_from(*text, next);
    return true;
}

static bool m3_put(Buf *out, Str text, const Json *schema, int depth);

static bool m3_array(Buf *out, Str text, const Json *items, Str only, int depth) {
    M3Child c;
    bool some = false;
    buf_putc(out, '[');
    while (m3_child(&text, &c)) {
        if (only.n && !str_eq(c.name, only)) continue;
        if (some) buf_put(out, STR(", "));
        some = true;
        if (!m3_put(out, c.body, items, depth + 1)) return false;
    }
    buf_putc(out, ']');
    return true;
}

/* Elements of one name make a list. Looking for them is quadratic, so only objects of sane size
 * are grouped. */
static bool m3_object(Buf *out, Str text, const Json *schema, int depth) {
    Str all = text, before = text;
    M3Child c, other;
    size_t n = 0;
    bool some = false;
    for (Str count = text; m3_child(&count, &c);) n++;
    bool grouped = n <= M3_GROUP_WORK / (text.n + 1);
    buf_putc(out, '{');
    for (; m3_child(&text, &c); before = text) {
        size_t same = 0, earlier = 0;
        for (Str scan = all; grouped && m3_child(&scan, &other);) {
            if (!str_eq(other.name, c.name)) continue;
            same++;
            earlier += other.body.p < c.body.p;
        }
        if (earlier) continue;
        if (some) buf_put(out, STR(", "));
        some = true;
        buf_putc(out, '"');
        jsonpush_escape(out, c.name);
        buf_put(out, STR("\": "));
        const Json *property = toolcall_property(schema, c.name);
        if (same > 1 && !m3_array(out, before, json_get(property, "items"), c.name, depth + 1))
            return false;
        if (same <= 1 && !m3_put(out, c.body, property, depth + 1)) return false;
    }
    buf_putc(out, '}');
    return true;
}

static bool m3_put(Buf *out, Str text, const Json *schema, int depth) {
    Str t = str_trim(text), type = STR_NONE, rest = t;
    M3Child first;
    if (depth > M3_DEPTH) return false;
    json_str(json_get(schema, "type"), &type);
    bool list = str_eqc(type, "array");
    if (!t.n && (list || str_eqc(type, "object"))) {
        buf_put(out, list ? STR("[]") : STR("{}"));
        return true;
    }
    if (!m3_child(&rest, &first)) {
        toolcall_value_put(out, text, schema);
        return str_find(t, STR(M3), 0) == STR_NPOS;
    }
    if (list || str_eqc(first.name, "item"))
        return m3_array(out, t, json_get(schema, "items"), STR_NONE, depth);
    return m3_object(out, t, schema, depth);
}

static Step m3_call(Reply *r) {
    static const Str next[] = {{M3 "<invoke", sizeof(M3 "<invoke") - 1},
                               {M3 "</tool_call>", sizeof(M3 "</tool_call>") - 1}};
    unsigned char b;
    size_t before = r->at;
    int which = REPLY_NONE;
    if (reply_skip_space(r, &b))
        which = reply_take_any(r, next, 2);
    else if (!r->eof)
        which = REPLY_WAIT;
    if (which == 0) return call_go(r, M3_NAME);
    if (which == REPLY_WAIT) {
        r->at = before;
        return STEP_MORE;
    }
    if (!r->c.n_done) return STEP_REJECT;
    if (which == 1)
        reply_keep(r);
    else
        r->at = before;
    return STEP_TEXT;
}

static Step m3_tag(Reply *r, bool call) {
    static const Str gt = {">", 1};
    Call *c = &r->c;
    Str tag;
    int which = reply_until(r, &gt, 1, &tag);
    if (which < 0) return which == REPLY_WAIT ? STEP_MORE : STEP_REJECT;
    if (call) {
        if (!call_name_set(r, attribute(tag, STR("name")))) return STEP_REJECT;
        call_open(r);
        return call_go(r, M3_PARAM);
    }
    if (!tag.n) return STEP_REJECT;
    reply_clear(r, &c->type);
    buf_put(&c->type, STR(M3 "</"));
    buf_put(&c->type, tag);
    buf_putc(&c->type, '>');
    toolcall_member(r, tag);
    c->n_nest = 1;
    return call_go(r, toolcall_is_string(c->property) ? M3_STRING : M3_ELEMENT);
}

/* Passes tags until the element is closed, then turns all of it into JSON. */
static Step m3_element(Reply *r) {
    Call *c = &r->c;
    for (;;) {
        bool whole;
        r->at = reply_plain(r, STR(M3), &whole);
        if (!whole) return STEP_MORE;
        size_t tag = r->at + sizeof(M3) - 1, close = r->at;
        Str rest = reply_text(r, tag, r->in.n);
        size_t end = str_find_char(rest, '>', 0);
        if (end == STR_NPOS) return rest.n > REPLY_HEADER_MAX ? STEP_REJECT : STEP_MORE;
        if (rest.p[0] != '<' || end > REPLY_HEADER_MAX) return STEP_REJECT;
        c->n_nest += rest.p[1] == '/' ? -1 : 1;
        r->at = tag + end + 1;
        if (c->n_nest) continue;
        reply_clear(r, &r->scratch);
        if (!m3_put(&r->scratch, reply_text(r, c->value, close), c->property, 0))
            return STEP_REJECT;
        call_args(r, buf_str(&r->scratch));
        return call_go(r, M3_PARAM);
    }
}

Step toolcall_m3(Reply *r) {
    static const Str next[] = {{M3 "</invoke>", sizeof(M3 "</invoke>") - 1},
                               {M3 "<", sizeof(M3 "<") - 1}};
    unsigned char b;
    Step s;
    switch (r->c.state) {
    case M3_CALL:
        return m3_call(r);
    case M3_NAME:
        return m3_tag(r, true);
    case M3_KEY:
        return m3_tag(r, false);
    case M3_STRING:
        s = toolcall_text_value(r, buf_str(&r->c.type), false, TOOL_STRING);
        return s == STEP_NEXT ? call_go(r, M3_PARAM) : s;
    case M3_ELEMENT:
        return m3_element(r);
    default:
        break;
    }
    if (!reply_skip_space(r, &b)) return STEP_MORE;
    switch (reply_take_any(r, next, 2)) {
    case 0:
        toolcall_members_end(r);
        return call_go(r, M3_CALL);
    case 1:
        return call_go(r, M3_KEY);
    case REPLY_WAIT:
        return STEP_MORE;
    default:
        return STEP_REJECT;
    }
}
