#include "chat/jinja_value.h"

#include <math.h>
#include <string.h>

#include "chat/jinja_big.h"
#include "chat/jinja_iter.h"
#include "chat/jinja_str.h"

enum { DICT_INDEX_FROM = 9 }; /* entries; smaller ones are searched one by one */

bool jval_undef_name(JRun *r, Str name, JVal *out) {
    JUndef *u = jrun_new(r, JUndef);
    if (!u) return false;
    *u = (JUndef){.name = name, .obj_type = J_MISSING};
    *out = (JVal){.type = J_UNDEF, .u.undef = u};
    return true;
}

bool jval_undef_attr(JRun *r, JVal obj, JVal key, JVal *out) {
    JUndef *u = jrun_new(r, JUndef);
    if (!u) return false;
    *u = (JUndef){.obj_type = obj.type};
    if (key.type == J_STR) {
        u->name = key.u.str->s;
        u->is_attr = true;
    } else if (jval_is_int(key)) {
        if (!jint_format(r, key, 10, false, &u->name)) return false;
    } else {
        u->name = str_c(jval_type_name(key));
    }
    *out = (JVal){.type = J_UNDEF, .u.undef = u};
    return true;
}

bool jval_undef_hint(JRun *r, Str hint, JVal *out) {
    JUndef *u = jrun_new(r, JUndef);
    if (!u) return false;
    *u = (JUndef){.hint = hint};
    *out = (JVal){.type = J_UNDEF, .u.undef = u};
    return true;
}

bool jval_fail_undef(JRun *r, JVal undef) {
    const JUndef *u = undef.u.undef;
    const char *of = jval_type_name((JVal){.type = u->obj_type});
    if (u->unsafe)
        return jrun_fail(r, JEXC_SECURITY,
                         "access to attribute '" STR_F "' of '%s' object is unsafe", STR_A(u->name),
                         of);
    if (u->hint.n) return jrun_fail(r, JEXC_UNDEFINED, STR_F, STR_A(u->hint));
    if (u->obj_type == J_MISSING)
        return jrun_fail(r, JEXC_UNDEFINED, "'" STR_F "' is undefined", STR_A(u->name));
    if (u->is_attr)
        return jrun_fail(r, JEXC_UNDEFINED, "'%s object' has no attribute '" STR_F "'", of,
                         STR_A(u->name));
    return jrun_fail(r, JEXC_UNDEFINED, "%s object has no element " STR_F, of, STR_A(u->name));
}

const char *jval_type_name(JVal v) {
    switch (v.type) {
    case J_MISSING:
        return "missing";
    case J_UNDEF:
        return "Undefined";
    case J_NONE:
        return "NoneType";
    case J_BOOL:
        return "bool";
    case J_INT:
    case J_BIG:
        return "int";
    case J_FLOAT:
        return "float";
    case J_STR:
        return v.u.str && v.u.str->markup ? "Markup" : "str";
    case J_BYTES:
        return "bytes";
    case J_LIST:
        return "list";
    case J_TUPLE:
        return "tuple";
    case J_DICT:
        return "dict";
    case J_VIEW:
        if (!v.u.view) return "dict view";
        return v.u.view->kind == JVIEW_KEYS     ? "dict_keys"
               : v.u.view->kind == JVIEW_VALUES ? "dict_values"
                                                : "dict_items";
    case J_RANGE:
        return "range";
    case J_SLICE:
        return "slice";
    case J_ITER:
        return v.u.iter ? v.u.iter->type_name : "generator";
    case J_NS:
        return "Namespace";
    case J_CYCLER:
        return "Cycler";
    case J_JOINER:
        return "Joiner";
    case J_LOOP:
        return "LoopContext";
    case J_MACRO:
        return "Macro";
    case J_FUNC:
        return "function";
    case J_METHOD:
        return "builtin_function_or_method";
    case J_SELF:
        return "TemplateReference";
    case J_BLOCK:
        return "BlockReference";
    }
    return "object";
}

JList *jlist_new(JRun *r, size_t cap) {
    JList *l = jrun_new(r, JList);
    if (!l) return NULL;
    if (cap && !(l->v = jrun_array(r, JVal, cap))) return NULL;
    l->cap = cap;
    return l;
}

bool jlist_push(JRun *r, JList *l, JVal v) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 4;
        JVal *bigger = jrun_array(r, JVal, cap);
        if (!bigger) return false;
        if (l->n) memcpy(bigger, l->v, l->n * sizeof *bigger);
        l->v = bigger;
        l->cap = cap;
    }
    l->v[l->n++] = v;
    return true;
}

bool jlist_pair(JRun *r, JVal a, JVal b, JVal *out) {
    JList *l = jlist_new(r, 2);
    if (!l) return false;
    l->v[0] = a;
    l->v[1] = b;
    l->n = 2;
    *out = jval_tuple(l);
    return true;
}

JDict *jdict_new(JRun *r, size_t cap) {
    JDict *d = jrun_new(r, JDict);
    if (!d) return NULL;
    if (cap) {
        d->keys = jrun_array(r, JVal, cap);
        d->vals = jrun_array(r, JVal, cap);
        if (!d->keys || !d->vals) return NULL;
    }
    d->cap = cap;
    return d;
}

static uint64_t hash_mix(uint64_t h) {
    h ^= h >> 32;
    h *= 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static uint64_t hash_str(Str s) {
    return str_hash(s, (uintptr_t)&hash_mix);
} /* the address varies per process */

static bool hash_value(JRun *r, JVal v, int depth, uint64_t *out) {
    switch (v.type) {
    case J_STR:
    case J_BYTES:
        *out = hash_str(v.u.str->s);
        return true;
    case J_BOOL:
    case J_INT:
    case J_BIG:
        *out = hash_mix(jint_hash(v));
        return true;
    case J_FLOAT: {
        JVal whole;
        if (isfinite(v.u.f) && v.u.f == trunc(v.u.f)) { /* equal numbers hash alike */
            if (!jint_from_double(r, v.u.f, &whole)) return false;
            *out = hash_mix(jint_hash(whole));
            return true;
        }
        memcpy(out, &v.u.f, sizeof *out);
        *out = hash_mix(*out);
        return true;
    }
    case J_NONE:
        *out = 0x5bd1e995;
        return true;
    case J_UNDEF:
        *out = 0x1b873593;
        return true;
    case J_TUPLE:
        if (depth >= JRUN_MAX_DATA_DEPTH)
            return jrun_fail(r, JEXC_LIMIT, "a value is nested too deeply");
        if (!jrun_spend(r, v.u.list->n + 1)) return false;
        *out = 0x27d4eb2f;
        for (size_t i = 0; i < v.u.list->n; i++) {
            uint64_t h = 0;
            if (!hash_value(r, v.u.list->v[i], depth + 1, &h)) return false;
            *out = hash_mix(*out ^ h);
        }
        return true;
    case J_RANGE:
        *out = hash_mix(v.u.range->n);
        return true;
    case J_LIST:
    case J_DICT:
    case J_SLICE:
        return jrun_fail(r, JEXC_TYPE, "unhashable type: '%s'", jval_type_name(v));
    case J_VIEW:
        if (v.u.view->kind != JVIEW_VALUES)
            return jrun_fail(r, JEXC_TYPE, "unhashable type: '%s'", jval_type_name(v));
        break;
    default:
        break;
    }
    *out = hash_mix((uintptr_t)v.u.ptr);
    return true;
}

bool jval_hash(JRun *r, JVal v, uint64_t *out) { return hash_value(r, v, 0, out); }

static void dict_index_put(JDict *d, uint64_t h, size_t entry) {
    size_t mask = d->n_slots - 1, i = h & mask;
    while (d->slots[i]) i = (i + 1) & mask;
    d->slots[i] = (uint32_t)entry + 1;
}

static bool dict_grow(JRun *r, JDict *d) {
    size_t cap = d->cap ? d->cap * 2 : 4;
    JVal *keys = jrun_array(r, JVal, cap), *vals = jrun_array(r, JVal, cap);
    if (!keys || !vals) return false;
    if (d->n) {
        memcpy(keys, d->keys, d->n * sizeof *keys);
        memcpy(vals, d->vals, d->n * sizeof *vals);
    }
    d->keys = keys;
    d->vals = vals;
    d->cap = cap;
    return true;
}

/* (Re)builds the index when the dict is large and its slots are three quarters full. */
static bool dict_index(JRun *r, JDict *d) {
    if (d->n + 1 < DICT_INDEX_FROM || (d->slots && (d->n + 1) * 4 <= d->n_slots * 3)) return true;
    size_t n_slots = d->n_slots ? d->n_slots * 2 : 32;
    while (n_slots < d->n * 2) n_slots *= 2;
    uint32_t *slots = jrun_array(r, uint32_t, n_slots);
    if (!slots || !jrun_spend(r, d->n / 4)) return false;
    d->slots = slots;
    d->n_slots = n_slots;
    for (size_t i = 0; i < d->n; i++) {
        uint64_t h = 0;
        if (!jval_hash(r, d->keys[i], &h)) return false;
        dict_index_put(d, h, i);
    }
    return true;
}

static bool dict_locate(JRun *r, const JDict *d, JVal key, uint64_t h, size_t *at) {
    bool same;
    *at = SIZE_MAX;
    if (!d->slots) {
        for (size_t i = 0; i < d->n; i++) {
            if (!jval_equal(r, d->keys[i], key, &same)) return false;
            if (same) return *at = i, true;
        }
        return true;
    }
    size_t mask = d->n_slots - 1;
    for (size_t i = h & mask; d->slots[i]; i = (i + 1) & mask) {
        size_t e = d->slots[i] - 1;
        if (!jval_equal(r, d->keys[e], key, &same)) return false;
        if (same) return *at = e, true;
    }
    return true;
}

bool jdict_put(JRun *r, JDict *d, JVal key, JVal val) {
    uint64_t h = 0;
    size_t at;
    if (!jval_hash(r, key, &h) || !dict_locate(r, d, key, h, &at)) return false;
    if (at != SIZE_MAX) return d->vals[at] = val, true;
    if (d->n >= UINT32_MAX - 1)
        return jrun_fail(r, JEXC_LIMIT, "a dict of more than %u entries", UINT32_MAX - 1);
    if (!dict_index(r, d) || (d->n == d->cap && !dict_grow(r, d))) return false;
    d->keys[d->n] = key;
    d->vals[d->n++] = val;
    if (d->slots) dict_index_put(d, h, d->n - 1);
    return true;
}

bool jdict_get(JRun *r, const JDict *d, JVal key, JVal *out, bool *found) {
    uint64_t h = 0;
    size_t at;
    *found = false;
    if (!jval_hash(r, key, &h) || !dict_locate(r, d, key, h, &at)) return false;
    if (at == SIZE_MAX) return true;
    *found = true;
    *out = d->vals[at];
    return true;
}

static bool key_is(JVal key, Str name) { return key.type == J_STR && str_eq(key.u.str->s, name); }

bool jdict_find_str(const JDict *d, Str key, JVal *out) {
    if (!d->slots) {
        for (size_t i = 0; i < d->n; i++)
            if (key_is(d->keys[i], key)) return *out = d->vals[i], true;
        return false;
    }
    size_t mask = d->n_slots - 1;
    for (size_t i = hash_str(key) & mask; d->slots[i]; i = (i + 1) & mask) {
        size_t e = d->slots[i] - 1;
        if (key_is(d->keys[e], key)) return *out = d->vals[e], true;
    }
    return false;
}

bool jdict_put_str(JRun *r, JDict *d, Str key, JVal val) {
    JVal k;
    return jstr_make(r, key, false, &k) && jdict_put(r, d, k, val);
}

bool jdict_merge(JRun *r, JDict *into, const JDict *from) {
    if (!jrun_spend(r, from->n)) return false;
    for (size_t i = 0; i < from->n; i++)
        if (!jdict_put(r, into, from->keys[i], from->vals[i])) return false;
    return true;
}

static bool equal_at(JRun *r, JVal a, JVal b, int depth, bool *out);

static bool equal_seqs(JRun *r, const JList *a, const JList *b, int depth, bool *out) {
    *out = a->n == b->n;
    if (a == b) return true;
    for (size_t i = 0; i < a->n && *out; i++)
        if (!jrun_spend(r, 1) || !equal_at(r, a->v[i], b->v[i], depth, out)) return false;
    return true;
}

static bool equal_dicts(JRun *r, const JDict *a, const JDict *b, int depth, bool *out) {
    *out = a->n == b->n;
    if (a == b) return true;
    for (size_t i = 0; i < a->n && *out; i++) {
        JVal other;
        if (!jrun_spend(r, 1) || !jdict_get(r, b, a->keys[i], &other, out)) return false;
        if (*out && !equal_at(r, a->vals[i], other, depth, out)) return false;
    }
    return true;
}

static bool equal_views(JRun *r, const JView *a, const JView *b, int depth, bool *out) {
    if (a->kind == JVIEW_VALUES || b->kind == JVIEW_VALUES || a->kind != b->kind)
        return *out = a == b, true;
    if (a->kind == JVIEW_ITEMS) return equal_dicts(r, a->dict, b->dict, depth, out);
    *out = a->dict->n == b->dict->n;
    for (size_t i = 0; i < a->dict->n && *out; i++) {
        JVal other;
        if (!jrun_spend(r, 1) || !jdict_get(r, b->dict, a->dict->keys[i], &other, out))
            return false;
    }
    return true;
}

static bool equal_numbers(JVal a, JVal b) {
    if (a.type == J_FLOAT && b.type == J_FLOAT) return a.u.f == b.u.f;
    if (a.type == J_FLOAT) return !isnan(a.u.f) && jint_cmp_double(b, a.u.f) == 0;
    if (b.type == J_FLOAT) return !isnan(b.u.f) && jint_cmp_double(a, b.u.f) == 0;
    return jint_cmp(a, b) == 0;
}

static bool equal_at(JRun *r, JVal a, JVal b, int depth, bool *out) {
    if (depth >= JRUN_MAX_DATA_DEPTH)
        return jrun_fail(r, JEXC_LIMIT, "a value is nested too deeply");
    if (jval_is_num(a) && jval_is_num(b)) return *out = equal_numbers(a, b), true;
    if (a.type != b.type) return *out = false, true;
    switch (a.type) {
    case J_STR:
    case J_BYTES:
        *out = str_eq(a.u.str->s, b.u.str->s);
        return jrun_spend_bytes(r, *out ? a.u.str->s.n : 0);
    case J_NONE:
    case J_UNDEF:
    case J_MISSING:
        *out = true;
        return true;
    case J_LIST:
    case J_TUPLE:
        return equal_seqs(r, a.u.list, b.u.list, depth + 1, out);
    case J_DICT:
        return equal_dicts(r, a.u.dict, b.u.dict, depth + 1, out);
    case J_VIEW:
        return equal_views(r, a.u.view, b.u.view, depth + 1, out);
    case J_RANGE: {
        const JRange *x = a.u.range, *y = b.u.range;
        *out =
            x->n == y->n && (!x->n || (x->start == y->start && (x->n == 1 || x->step == y->step)));
        return true;
    }
    default:
        *out = a.u.ptr == b.u.ptr;
        return true;
    }
}

bool jval_equal(JRun *r, JVal a, JVal b, bool *out) { return equal_at(r, a, b, 0, out); }

static bool cmp_result(JCmp op, int c) {
    switch (op) {
    case JCMP_LT:
        return c < 0;
    case JCMP_LE:
        return c <= 0;
    case JCMP_GT:
        return c > 0;
    case JCMP_GE:
        return c >= 0;
    }
    return false;
}

static bool compare_numbers(JCmp op, JVal a, JVal b) {
    if ((a.type == J_FLOAT && isnan(a.u.f)) || (b.type == J_FLOAT && isnan(b.u.f))) return false;
    if (a.type == J_FLOAT && b.type == J_FLOAT)
        return cmp_result(op, (a.u.f > b.u.f) - (a.u.f < b.u.f));
    if (a.type == J_FLOAT) return cmp_result(op, -jint_cmp_double(b, a.u.f));
    if (b.type == J_FLOAT) return cmp_result(op, jint_cmp_double(a, b.u.f));
    return cmp_result(op, jint_cmp(a, b));
}

static bool compare_at(JRun *r, JCmp op, JVal a, JVal b, int depth, bool *out);

static bool compare_seqs(JRun *r, JCmp op, const JList *a, const JList *b, int depth, bool *out) {
    size_t n = a->n < b->n ? a->n : b->n;
    for (size_t i = 0; i < n; i++) {
        bool same;
        if (!jrun_spend(r, 1) || !equal_at(r, a->v[i], b->v[i], depth, &same)) return false;
        if (!same) return compare_at(r, op, a->v[i], b->v[i], depth, out);
    }
    *out = cmp_result(op, (a->n > b->n) - (a->n < b->n));
    return true;
}

/* Subset comparisons of keys() and items() views. */
static bool compare_views(JRun *r, JCmp op, const JView *a, const JView *b, bool *out) {
    if (op == JCMP_GT || op == JCMP_GE)
        return compare_views(r, op == JCMP_GT ? JCMP_LT : JCMP_LE, b, a, out);
    *out = op == JCMP_LT ? a->dict->n < b->dict->n : a->dict->n <= b->dict->n;
    for (size_t i = 0; i < a->dict->n && *out; i++) {
        JVal other;
        if (!jrun_spend(r, 1) || !jdict_get(r, b->dict, a->dict->keys[i], &other, out))
            return false;
        if (*out && a->kind == JVIEW_ITEMS && !jval_equal(r, a->dict->vals[i], other, out))
            return false;
    }
    return true;
}

static bool compare_at(JRun *r, JCmp op, JVal a, JVal b, int depth, bool *out) {
    static const char *const sign[] = {"<", "<=", ">", ">="};
    if (depth >= JRUN_MAX_DATA_DEPTH)
        return jrun_fail(r, JEXC_LIMIT, "a value is nested too deeply");
    if (a.type == J_UNDEF || b.type == J_UNDEF)
        return jval_fail_undef(r, a.type == J_UNDEF ? a : b);
    if (jval_is_num(a) && jval_is_num(b)) return *out = compare_numbers(op, a, b), true;
    if (a.type == b.type && (a.type == J_STR || a.type == J_BYTES)) {
        *out = cmp_result(op, str_cmp(a.u.str->s, b.u.str->s)); /* UTF-8 sorts as code points do */
        return true;
    }
    if (a.type == b.type && jval_is_seq(a))
        return compare_seqs(r, op, a.u.list, b.u.list, depth + 1, out);
    if (a.type == J_VIEW && b.type == J_VIEW && a.u.view->kind == b.u.view->kind &&
        a.u.view->kind != JVIEW_VALUES)
        return compare_views(r, op, a.u.view, b.u.view, out);
    return jrun_fail(r, JEXC_TYPE, "'%s' not supported between instances of '%s' and '%s'",
                     sign[op], jval_type_name(a), jval_type_name(b));
}

bool jval_compare(JRun *r, JCmp op, JVal a, JVal b, bool *out) {
    return compare_at(r, op, a, b, 0, out);
}

bool jval_same(JVal a, JVal b) {
    if (a.type != b.type) return false;
    switch (a.type) {
    case J_NONE:
    case J_MISSING:
        return true;
    case J_BOOL:
        return a.u.b == b.u.b;
    case J_INT:
        return a.u.i == b.u.i;
    case J_FLOAT:
        return memcmp(&a.u.f, &b.u.f, sizeof a.u.f) == 0;
    case J_STR: {
        if (a.u.str == b.u.str) return true;
        uint32_t cp = jstr_only_cp(a.u.str); /* Python keeps one object for each of these */
        return (!a.u.str->s.n && !b.u.str->s.n) || (cp < 256 && cp == jstr_only_cp(b.u.str));
    }
    default:
        return a.u.ptr == b.u.ptr;
    }
}

bool jval_truth(JVal v) {
    switch (v.type) {
    case J_MISSING:
    case J_UNDEF:
    case J_NONE:
        return false;
    case J_BOOL:
        return v.u.b;
    case J_INT:
        return v.u.i != 0;
    case J_FLOAT:
        return v.u.f != 0;
    case J_STR:
    case J_BYTES:
        return v.u.str->s.n > 0;
    case J_LIST:
    case J_TUPLE:
        return v.u.list->n > 0;
    case J_DICT:
        return v.u.dict->n > 0;
    case J_VIEW:
        return v.u.view->dict->n > 0;
    case J_RANGE:
        return v.u.range->n > 0;
    default:
        return true;
    }
}

bool jval_len(JRun *r, JVal v, size_t *out) {
    switch (v.type) {
    case J_UNDEF:
        *out = 0;
        return true;
    case J_STR:
        *out = jstr_n_cp(v.u.str);
        return jrun_spend_bytes(r, v.u.str->s.n);
    case J_BYTES:
        *out = v.u.str->s.n;
        return true;
    case J_LIST:
    case J_TUPLE:
        *out = v.u.list->n;
        return true;
    case J_DICT:
        *out = v.u.dict->n;
        return true;
    case J_VIEW:
        *out = v.u.view->dict->n;
        return true;
    case J_RANGE:
        *out = v.u.range->n;
        return true;
    case J_LOOP:
        return jloop_length(r, v.u.loop, out);
    default:
        return jrun_fail(r, JEXC_TYPE, "object of type '%s' has no len()", jval_type_name(v));
    }
}

static bool contains_range(JVal item, const JRange *g) {
    if (!jval_is_num(item) || item.type == J_BIG) return false;
    if (item.type == J_FLOAT && (item.u.f != trunc(item.u.f) || fabs(item.u.f) > 9e15))
        return false;
    int64_t x = item.type == J_FLOAT  ? (int64_t)item.u.f
                : item.type == J_BOOL ? item.u.b
                                      : item.u.i;
    if (!g->n) return false;
    int64_t last = g->start + (int64_t)(g->n - 1) * g->step;
    int64_t lo = g->step > 0 ? g->start : last, hi = g->step > 0 ? last : g->start;
    return x >= lo && x <= hi && (x - g->start) % g->step == 0;
}

bool jval_contains(JRun *r, JVal item, JVal in, bool *out) {
    JVal value;
    *out = false;
    switch (in.type) {
    case J_STR:
        if (item.type != J_STR)
            return jrun_fail(r, JEXC_TYPE, "'in <string>' requires string as left operand, not %s",
                             jval_type_name(item));
        *out = str_find(in.u.str->s, item.u.str->s, 0) != STR_NPOS;
        return jrun_spend_bytes(r, in.u.str->s.n);
    case J_DICT:
        return jdict_get(r, in.u.dict, item, &value, out);
    case J_VIEW:
        if (in.u.view->kind == JVIEW_KEYS) return jdict_get(r, in.u.view->dict, item, &value, out);
        if (in.u.view->kind == JVIEW_ITEMS) {
            if (item.type != J_TUPLE || item.u.list->n != 2) return true;
            if (!jdict_get(r, in.u.view->dict, item.u.list->v[0], &value, out)) return false;
            return !*out || jval_equal(r, value, item.u.list->v[1], out);
        }
        break;
    case J_RANGE:
        *out = contains_range(item, in.u.range);
        return true;
    default:
        break;
    }
    JIter *it;
    bool done = false;
    if (!jiter_open(r, in, &it)) return false;
    while (!*out) {
        if (!jiter_next(r, it, &value, &done)) return false;
        if (done) return true;
        if (jval_same(value, item))
            *out = true;
        else if (!jval_equal(r, value, item, out))
            return false;
    }
    return true;
}
