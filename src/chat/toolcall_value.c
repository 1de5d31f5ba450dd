#include "chat/reply_core.h"

enum {
    T_STRING = 1,
    T_NUMBER = 2,
    T_BOOL = 4,
    T_NULL = 8,
    T_OBJECT = 16,
    T_ARRAY = 32,
    T_ANY = 64, /* nothing is known */
    SCHEMA_DEPTH = 8
};

static const Json *tool_find(const Json *tools, Str name) {
    for (size_t i = 0; json_is(tools, JSON_ARRAY) && i < tools->n; i++) {
        const Json *tool = &tools->items[i], *fn = json_get(tool, "function");
        Str have;
        if (fn) tool = fn;
        if (json_str(json_get(tool, "name"), &have) && str_eq(have, name)) return tool;
    }
    return NULL;
}

bool toolcall_known(const Json *tools, Str name) { return tool_find(tools, name); }

const Json *toolcall_schema(const Json *tools, Str name) {
    const Json *tool = tool_find(tools, name);
    const Json *schema = json_get(tool, "parameters");
    return schema ? schema : json_get(tool, "input_schema");
}

/* "#/$defs/Name" within the tool's own schema; anything else stays unresolved, which means any
 * type. */
static const Json *ref_resolve(const Json *root, const Json *schema) {
    Str ref;
    for (int hops = 0; hops < SCHEMA_DEPTH && json_str(json_get(schema, "$ref"), &ref); hops++) {
        const Json *at = root;
        Str part, rest = ref;
        if (!str_split(&rest, '/', &part) || !str_eqc(part, "#")) return schema;
        while (str_split(&rest, '/', &part)) at = json_find(at, part);
        if (!at) return schema;
        schema = at;
    }
    return schema;
}

const Json *toolcall_property(const Json *schema, Str key) {
    const Json *p = json_find(json_get(schema, "properties"), key);
    if (!p && json_is(json_get(schema, "additionalProperties"), JSON_OBJECT))
        p = json_get(schema, "additionalProperties");
    return ref_resolve(schema, p);
}

bool toolcall_name_ok(Str name) {
    for (size_t i = 0; i < name.n; i++) {
        unsigned char c = (unsigned char)name.p[i];
        bool ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c >= 0x80 || c == '_' || c == '-' || c == '.' || c == ':' || c == '/';
        if (!ok) return false;
    }
    return name.n && name.n <= 256;
}

static int type_named(Str t) {
    static const struct {
        const char *name;
        int bits;
    } names[] = {{"string", T_STRING}, {"number", T_NUMBER}, {"integer", T_NUMBER},
                 {"boolean", T_BOOL},  {"null", T_NULL},     {"object", T_OBJECT},
                 {"array", T_ARRAY},   {"str", T_STRING},    {"int", T_NUMBER},
                 {"float", T_NUMBER},  {"bool", T_BOOL},     {"dict", T_OBJECT},
                 {"list", T_ARRAY}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_ieq(t, str_c(names[i].name))) return names[i].bits;
    return T_ANY;
}

static int type_of(const Json *v) {
    switch (v->type) {
    case JSON_STRING:
        return T_STRING;
    case JSON_NUMBER:
        return T_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return T_BOOL;
    case JSON_NULL:
        return T_NULL;
    case JSON_OBJECT:
        return T_OBJECT;
    default:
        return T_ARRAY;
    }
}

static int types_allowed(const Json *schema, int depth) {
    static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
    const Json *type = json_get(schema, "type"), *list;
    Str name;
    int bits = 0;
    bool flag;
    if (json_bool(json_get(schema, "nullable"), &flag) && flag) bits |= T_NULL;
    if (json_str(type, &name)) return bits | type_named(name);
    if (json_is(type, JSON_ARRAY)) {
        for (size_t i = 0; i < type->n; i++)
            bits |= json_str(&type->items[i], &name) ? type_named(name) : T_ANY;
        return bits;
    }
    if (json_is(list = json_get(schema, "enum"), JSON_ARRAY))
        for (size_t i = 0; i < list->n; i++) bits |= type_of(&list->items[i]);
    else if ((list = json_get(schema, "const")))
        bits |= type_of(list);
    for (int u = 0; u < 3 && depth < SCHEMA_DEPTH; u++)
        for (size_t i = 0; json_is(list = json_get(schema, unions[u]), JSON_ARRAY) && i < list->n;
             i++)
            bits |= types_allowed(&list->items[i], depth + 1);
    if (json_get(schema, "properties")) bits |= T_OBJECT;
    if (json_get(schema, "items")) bits |= T_ARRAY;
    return bits ? bits : T_ANY;
}

bool toolcall_is_string(const Json *schema) { return types_allowed(schema, 0) == T_STRING; }

static void string_put(Buf *out, Str text) {
    buf_putc(out, '"');
    jsonpush_escape(out, text);
    buf_putc(out, '"');
}

static bool python_put(Buf *out, Str text) {
    size_t old = out->n;
    if (pypush_text(out, text)) return true;
    out->n = old;
    return false;
}

static int type_by_look(Str t) {
    switch (t.n ? t.p[0] : 0) {
    case '{':
        return T_OBJECT;
    case '[':
        return T_ARRAY;
    case 't':
    case 'f':
    case 'T':
    case 'F':
        return T_BOOL;
    case 'n':
    case 'N':
        return T_NULL;
    case '"':
        return T_STRING;
    default:
        return T_NUMBER;
    }
}

static bool word_is(Str t, const char *lower) { return str_ieq(t, str_c(lower)); }

void toolcall_value_put(Buf *out, Str text, const Json *schema) {
    int allowed = types_allowed(schema, 0);
    Str t = str_trim(text);
    int look = type_by_look(t);
    if (allowed != T_STRING) {
        bool fits = allowed & T_ANY || allowed & look;
        if (look == T_BOOL && fits && (word_is(t, "true") || word_is(t, "false"))) {
            buf_put(out, word_is(t, "true") ? STR("true") : STR("false"));
            return;
        }
        if (look == T_NULL && fits && (word_is(t, "null") || word_is(t, "none"))) {
            buf_put(out, STR("null"));
            return;
        }
        /* A quoted text is JSON where no schema says otherwise; where strings are allowed it is
         * taken as it stands. */
        if (look == T_STRING && allowed & T_STRING && !(allowed & T_ANY)) fits = false;
        bool numeric =
            look == T_NUMBER && t.n && (t.p[0] == '-' || (t.p[0] >= '0' && t.p[0] <= '9'));
        if (fits && (look != T_NUMBER || numeric) && jsonpush_text(out, t)) return;
        bool nested = look == T_OBJECT || look == T_ARRAY;
        if (fits && !(allowed & T_ANY) && look == T_NUMBER && pypush_word(out, t)) return;
        if (fits && nested && python_put(out, t)) return;
        if (!(allowed & (T_STRING | T_ANY)) && (look != T_NUMBER || numeric) &&
            jsonpush_text(out, t))
            return;
    }
    string_put(out, text);
}

void toolcall_member(Reply *r, Str key) {
    Call *c = &r->c;
    reply_clear(r, &r->scratch);
    buf_put(&r->scratch, c->n_args++ ? STR(", ") : STR("{"));
    string_put(&r->scratch, key);
    buf_put(&r->scratch, STR(": "));
    call_args(r, buf_str(&r->scratch));
    c->property = toolcall_property(c->schema, key);
    c->started = false;
    c->value = r->at;
}

void toolcall_members_end(Reply *r) {
    call_args(r, r->c.n_args ? STR("}") : STR("{}"));
    call_end(r);
}

static void piece_put(Reply *r, Str text) {
    reply_clear(r, &r->scratch);
    jsonpush_escape(&r->scratch, text);
    call_args(r, buf_str(&r->scratch));
}

/* A string grows as it comes; one line break before the end mark may be layout and is held back. */
static Step string_stream(Reply *r, Str end, bool strip_newline) {
    Call *c = &r->c;
    bool whole;
    size_t to = reply_plain(r, end, &whole);
    if (!c->started) {
        if (strip_newline && r->at == c->value) {
            if (r->at == r->in.n) return STEP_MORE;
            if (r->in.p[r->at] == '\n' && !(whole && to == r->at)) r->at++;
        }
        call_args(r, STR("\""));
        c->started = true;
    }
    size_t text_end = to;
    if (strip_newline && text_end > r->at && r->in.p[text_end - 1] == '\n') text_end--;
    piece_put(r, reply_text(r, r->at, text_end));
    r->at = text_end;
    if (!whole) return STEP_MORE;
    r->at = to + end.n;
    call_args(r, STR("\""));
    return STEP_NEXT;
}

Step toolcall_text_value(Reply *r, Str end, bool strip_newline, ToolTyped typed) {
    Call *c = &r->c;
    if (typed == TOOL_STRING || (typed == TOOL_BY_SCHEMA && toolcall_is_string(c->property)))
        return string_stream(r, end, strip_newline);
    bool whole;
    size_t to = reply_plain(r, end, &whole);
    r->at = to;
    if (!whole) return STEP_MORE;
    Str text = reply_text(r, c->value, to);
    if (strip_newline && text.n && text.p[0] == '\n') text = str_from(text, 1);
    if (strip_newline && text.n && text.p[text.n - 1] == '\n') text.n--;
    reply_clear(r, &r->scratch);
    toolcall_value_put(&r->scratch, text, typed == TOOL_JSON ? NULL : c->property);
    call_args(r, buf_str(&r->scratch));
    r->at += end.n;
    return STEP_NEXT;
}
