#include <string.h>

#include "chat/jinja_big.h"
#include "chat/jinja_eval.h"
#include "chat/jinja_global.h"
#include "chat/jinja_method.h"

const JBuiltin *jmethod_find(const JBuiltinTable *t, Str name) {
    for (size_t i = 0; i < t->n; i++)
        if (str_eqc(name, t->v[i].name)) return &t->v[i];
    return NULL;
}

bool jmethod_bind(JRun *r, JVal self, const JBuiltin *spec, JVal *out) {
    JMethod *m = jrun_new(r, JMethod);
    if (!m) return false;
    *m = (JMethod){self, spec};
    *out = (JVal){.type = J_METHOD, .u.method = m};
    return true;
}

static bool name_in(Str name, const char *const *list) {
    for (; *list; list++)
        if (str_eqc(name, *list)) return true;
    return false;
}

/* Attributes that exist in Python and that the sandbox hides: private ones of every object,
 * mutators of list and dict. */
static bool attr_is_unsafe(JVal obj, Str name) {
    static const char *const every[] = {"__class__",
                                        "__doc__",
                                        "__init__",
                                        "__new__",
                                        "__repr__",
                                        "__str__",
                                        "__hash__",
                                        "__eq__",
                                        "__ne__",
                                        "__lt__",
                                        "__le__",
                                        "__gt__",
                                        "__ge__",
                                        "__dir__",
                                        "__format__",
                                        "__reduce__",
                                        "__sizeof__",
                                        "__setattr__",
                                        "__getattribute__",
                                        "__delattr__",
                                        "__reduce_ex__",
                                        "__subclasshook__",
                                        "__init_subclass__",
                                        "__getstate__",
                                        NULL};
    static const char *const of_list[] = {"append", "clear",  "pop",    "reverse", "insert",
                                          "sort",   "extend", "remove", NULL};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    static const char *const containers[] = {"__len__", "__iter__", "__getitem__", "__contains__",
                                             NULL};
    if (obj.type == J_LIST)
        return name_in(name, of_list) || name_in(name, every) || name_in(name, containers);
    if (obj.type == J_DICT)
        return name_in(name, of_dict) || name_in(name, every) || name_in(name, containers);
    if (obj.type == J_NS) return str_eqc(name, "__class__");
    return str_starts(name, STR("__")) &&
           (name_in(name, every) || (jiter_can(obj) && name_in(name, containers)));
}

static const JBuiltin *attr_method(JVal obj, Str name) {
    static const JBuiltinTable *const of_str[] = {&jmethods_str_shape, &jmethods_str_find,
                                                  &jmethods_str_split, &jmethods_str_is};
    const JBuiltin *b = NULL;
    switch (obj.type) {
    case J_STR:
        for (size_t i = 0; i < sizeof of_str / sizeof *of_str && !b; i++)
            b = jmethod_find(of_str[i], name);
        return b;
    case J_BYTES:
        return jmethod_find(&jmethods_bytes, name);
    case J_LIST:
        return jmethod_find(&jmethods_list, name);
    case J_TUPLE:
        return jmethod_find(&jmethods_tuple, name);
    case J_DICT:
        return jmethod_find(&jmethods_dict, name);
    case J_VIEW:
        return jmethod_find(&jmethods_view, name);
    case J_RANGE:
        return jmethod_find(&jmethods_range, name);
    case J_BOOL:
    case J_INT:
    case J_BIG:
        return jmethod_find(&jmethods_int, name);
    case J_FLOAT:
        return jmethod_find(&jmethods_float, name);
    case J_LOOP:
        return jmethod_find(&jmethods_loop, name);
    case J_CYCLER:
        return jmethod_find(&jmethods_cycler, name);
    case J_FUNC:
        return jglobal_is_dict(obj.u.func) ? jmethod_find(&jmethods_dict_type, name) : NULL;
    default:
        return NULL;
    }
}

static bool macro_attr(JRun *r, const JMacro *m, Str name, JVal *out, bool *found) {
    const JScopeInfo *s = m->node->scope;
    *found = true;
    if (str_eqc(name, "name")) {
        if (!m->name.n) return *out = jval_none(), true;
        return jstr_make(r, m->name, false, out);
    }
    if (str_eqc(name, "catch_kwargs")) return *out = jval_bool(!s->kwargs.up), true;
    if (str_eqc(name, "catch_varargs")) return *out = jval_bool(!s->varargs.up), true;
    if (str_eqc(name, "caller")) return *out = jval_bool(!s->caller.up), true;
    bool is_arguments = str_eqc(name, "arguments"), has_caller = false;
    if (!is_arguments && !str_eqc(name, "explicit_caller")) return *found = false, true;
    JList *names = jlist_new(r, m->node->items.n);
    if (!names) return false;
    for (size_t i = 0; i < m->node->items.n; i++) {
        has_caller |= str_eqc(m->node->items.p[i]->name, "caller");
        if (!jstr_make(r, m->node->items.p[i]->name, false, &names->v[names->n++])) return false;
    }
    *out = is_arguments ? jval_tuple(names) : jval_bool(has_caller);
    return true;
}

static bool attr_property(JEval *e, JVal obj, Str name, JVal *out, bool *found) {
    JRun *r = e->r;
    *found = true;
    switch (obj.type) {
    case J_NS:
        *found = jdict_find_str(obj.u.ns->attrs, name, out);
        return true;
    case J_LOOP:
        return jloop_attr(r, obj.u.loop, name, out, found);
    case J_MACRO:
        return macro_attr(r, obj.u.macro, name, out, found);
    case J_BLOCK:
        if (str_eqc(name, "super")) return jval_undef_hint(r, STR("there is no parent block"), out);
        if (str_eqc(name, "name")) return jstr_make(r, obj.u.block->node->name, false, out);
        break;
    case J_TUPLE:
        if (!obj.u.list->group) break;
        if (str_eqc(name, "grouper")) return *out = obj.u.list->v[0], true;
        if (str_eqc(name, "list")) return *out = obj.u.list->v[1], true;
        break;
    case J_CYCLER:
        if (str_eqc(name, "current")) return *out = obj.u.cycler->items->v[obj.u.cycler->at], true;
        if (str_eqc(name, "pos")) return *out = jval_int((int64_t)obj.u.cycler->at), true;
        if (str_eqc(name, "items")) return *out = jval_tuple(obj.u.cycler->items), true;
        break;
    case J_JOINER:
        if (str_eqc(name, "sep")) return *out = obj.u.joiner->sep, true;
        if (str_eqc(name, "used")) return *out = jval_bool(obj.u.joiner->used), true;
        break;
    case J_RANGE:
        if (str_eqc(name, "start")) return *out = jval_int(obj.u.range->start), true;
        if (str_eqc(name, "stop")) return *out = jval_int(obj.u.range->stop), true;
        if (str_eqc(name, "step")) return *out = jval_int(obj.u.range->step), true;
        break;
    case J_VIEW:
        if (str_eqc(name, "mapping")) return *out = jval_dict(obj.u.view->dict), true;
        break;
    case J_BOOL:
    case J_INT:
    case J_BIG:
        if (str_eqc(name, "real") || str_eqc(name, "numerator"))
            return *out = obj.type == J_BOOL ? jval_int(obj.u.b) : obj, true;
        if (str_eqc(name, "imag")) return *out = jval_int(0), true;
        if (str_eqc(name, "denominator")) return *out = jval_int(1), true;
        break;
    case J_FLOAT:
        if (str_eqc(name, "real")) return *out = obj, true;
        if (str_eqc(name, "imag")) return *out = jval_float(0), true;
        break;
    default:
        break;
    }
    *found = false;
    return true;
}

bool jattr_own(JEval *e, JVal obj, Str name, JVal *out, bool *found) {
    if (obj.type == J_UNDEF) return jval_fail_undef(e->r, obj);
    if (!attr_property(e, obj, name, out, found)) return false;
    if (*found) return true;
    const JBuiltin *b = attr_method(obj, name);
    if (b) return *found = true, jmethod_bind(e->r, obj, b, out);
    if (!attr_is_unsafe(obj, name)) return true;
    JVal key;
    if (!jstr_make(e->r, name, false, &key) || !jval_undef_attr(e->r, obj, key, out)) return false;
    out->u.undef->unsafe = true;
    return *found = true;
}

static bool self_block(JEval *e, Str name, JVal *out, bool *found) {
    for (size_t i = 0; i < e->tree->n_blocks; i++) {
        if (!str_eq(e->tree->blocks[i]->name, name)) continue;
        JBlockRef *b = jrun_new(e->r, JBlockRef);
        if (!b) return false;
        *b = (JBlockRef){e->tree->blocks[i], e->scope->ctx};
        *out = (JVal){.type = J_BLOCK, .u.block = b};
        return *found = true;
    }
    return true;
}

bool jattr_get(JEval *e, JVal obj, Str name, JVal *out) {
    bool found = false;
    JVal key;
    if (!jattr_own(e, obj, name, out, &found)) return false;
    if (found) return true;
    if (obj.type == J_DICT && jdict_find_str(obj.u.dict, name, out)) return true;
    if (obj.type == J_SELF) {
        if (!self_block(e, name, out, &found)) return false;
        if (found) return true;
    }
    return jstr_make(e->r, name, false, &key) && jval_undef_attr(e->r, obj, key, out);
}

static bool seq_index(JVal key, size_t n, size_t *at) {
    int64_t i;
    if (!jval_is_int(key) || !jint_to_i64(key, &i)) return false;
    if (i < 0) i += (int64_t)n;
    if (i < 0 || (uint64_t)i >= n) return false;
    *at = (size_t)i;
    return true;
}

static bool str_item(JRun *r, JStr *s, JVal key, JVal *out, bool *found) {
    size_t cp;
    if (!jrun_spend_bytes(r, s->s.n)) return false;
    if (!seq_index(key, jstr_n_cp(s), &cp)) return true;
    size_t from = jstr_byte_of(s, cp), to = from;
    jstr_next(s->s, &to);
    *found = true;
    return jstr_slice(r, s, from, to, out);
}

static bool plain_item(JEval *e, JVal obj, JVal key, JVal *out, bool *found) {
    size_t at;
    *found = false;
    switch (obj.type) {
    case J_LIST:
    case J_TUPLE:
        if (!seq_index(key, obj.u.list->n, &at)) return true;
        *out = obj.u.list->v[at];
        return *found = true;
    case J_STR:
        return str_item(e->r, obj.u.str, key, out, found);
    case J_BYTES:
        if (!seq_index(key, obj.u.str->s.n, &at)) return true;
        *out = jval_int((unsigned char)obj.u.str->s.p[at]);
        return *found = true;
    case J_RANGE:
        if (!seq_index(key, obj.u.range->n, &at)) return true;
        *out = jval_int(obj.u.range->start + (int64_t)at * obj.u.range->step);
        return *found = true;
    case J_DICT:
        return jdict_get(e->r, obj.u.dict, key, out, found) || jrun_catch(e->r);
    case J_SELF:
        return key.type != J_STR || self_block(e, key.u.str->s, out, found);
    default:
        return true;
    }
}

bool jattr_item(JEval *e, JVal obj, JVal key, JVal *out) {
    bool found;
    if (obj.type == J_UNDEF) return jval_fail_undef(e->r, obj);
    if (key.type == J_SLICE) return jattr_slice(e, obj, key.u.slice, out);
    if (!plain_item(e, obj, key, out, &found)) return false;
    if (!found && key.type == J_STR && !jattr_own(e, obj, key.u.str->s, out, &found)) return false;
    return found || jval_undef_attr(e->r, obj, key, out);
}

typedef struct Span {
    int64_t start, stop, step;
    size_t n;
} Span;

static bool slice_span(JRun *r, const JSlice *s, size_t len, Span *out) {
    int64_t step = 1, n = (int64_t)len;
    const JVal part[3] = {s->start, s->stop, s->step};
    for (int i = 0; i < 3; i++)
        if (part[i].type != J_NONE && !jval_is_int(part[i]))
            return jrun_fail(r, JEXC_TYPE, "slice indices must be integers or None, not '%s'",
                             jval_type_name(part[i]));
    if (s->step.type != J_NONE) step = jint_clamp(s->step);
    if (step == 0) return jrun_fail(r, JEXC_VALUE, "slice step cannot be zero");
    if (step < -INT64_MAX) step = -INT64_MAX;
    int64_t lo = step < 0 ? -1 : 0, hi = step < 0 ? n - 1 : n;
    int64_t edge[2] = {step < 0 ? hi : lo, step < 0 ? lo : hi};
    for (int i = 0; i < 2; i++) {
        if (part[i].type == J_NONE) continue;
        int64_t at = jint_clamp(part[i]);
        if (at < 0) at = at < -n ? lo : at + n;
        edge[i] = at < lo ? lo : at > hi ? hi : at;
    }
    *out = (Span){edge[0], edge[1], step, 0};
    if (step > 0 && edge[0] < edge[1]) out->n = (size_t)((edge[1] - edge[0] - 1) / step + 1);
    if (step < 0 && edge[1] < edge[0]) out->n = (size_t)((edge[0] - edge[1] - 1) / -step + 1);
    return true;
}

static bool slice_list(JRun *r, JVal obj, const JSlice *s, JVal *out) {
    Span p;
    const JList *from = obj.u.list;
    if (!slice_span(r, s, from->n, &p)) return false;
    JList *l = jrun_new(r, JList);
    if (!l) return false;
    *out = (JVal){.type = obj.type, .u.list = l};
    if (p.step == 1) { /* shares the elements */
        *l = (JList){.v = p.n ? from->v + p.start : NULL, .n = p.n, .cap = p.n};
        return true;
    }
    if (!(l->v = jrun_array(r, JVal, p.n)) || !jrun_spend(r, p.n / 8)) return false;
    l->cap = p.n;
    for (; l->n < p.n; l->n++) l->v[l->n] = from->v[p.start + (int64_t)l->n * p.step];
    return true;
}

static bool slice_str(JRun *r, JVal obj, const JSlice *s, JVal *out) {
    Span p;
    JStr *str = obj.u.str;
    bool bytes = obj.type == J_BYTES;
    size_t len = bytes ? str->s.n : jstr_n_cp(str);
    if (!jrun_spend_bytes(r, str->s.n) || !slice_span(r, s, len, &p)) return false;
    if (p.step == 1) {
        size_t from = bytes ? (size_t)p.start : jstr_byte_of(str, (size_t)p.start), to = from;
        if (p.n) to = bytes ? (size_t)p.stop : jstr_byte_of(str, (size_t)p.stop);
        if (!jstr_slice(r, str, from, to, out)) return false;
        out->type = obj.type;
        return true;
    }
    JBuild b = {0};
    bool ascii = bytes || len == str->s.n;
    size_t *at = ascii ? NULL : jrun_array(r, size_t, len + 1); /* where each code point starts */
    if (!jrun_spend(r, p.n / 4) || (!ascii && !at)) return false;
    for (size_t i = 0, byte = 0; at && byte < str->s.n; i++) {
        at[i] = byte;
        jstr_next(str->s, &byte);
        at[i + 1] = byte;
    }
    for (size_t i = 0; i < p.n && !b.failed; i++) {
        size_t cp = (size_t)(p.start + (int64_t)i * p.step);
        jbuild_put_range(r, &b, str, at ? at[cp] : cp, at ? at[cp + 1] : cp + 1);
    }
    if (!jbuild_done(r, &b, out) || !jstr_as_markup(r, *out, str->markup, out)) return false;
    out->type = obj.type;
    return true;
}

bool jattr_slice(JEval *e, JVal obj, const JSlice *s, JVal *out) {
    JRun *r = e->r;
    Span p;
    switch (obj.type) {
    case J_UNDEF:
        return jval_fail_undef(r, obj);
    case J_LIST:
    case J_TUPLE:
        return slice_list(r, obj, s, out);
    case J_STR:
    case J_BYTES:
        return slice_str(r, obj, s, out);
    case J_RANGE: {
        if (!slice_span(r, s, obj.u.range->n, &p)) return false;
        JRange *g = jrun_new(r, JRange);
        if (!g) return false;
        int64_t step = obj.u.range->step;
        g->start = obj.u.range->start + p.start * step;
        g->stop = obj.u.range->start + p.stop * step;
        g->step = (int64_t)((uint64_t)step * (uint64_t)p.step); /* may wrap only when n <= 1 */
        g->n = p.n;
        *out = (JVal){.type = J_RANGE, .u.range = g};
        return true;
    }
    default:
        return jrun_fail(r, JEXC_TYPE, "'%s' object cannot be sliced", jval_type_name(obj));
    }
}
