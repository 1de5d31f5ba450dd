#include <string.h>

#include "chat/jinja_big.h"
#include "chat/jinja_eval.h"
#include "chat/jinja_filter_lazy.h"
#include "chat/jinja_html.h"
#include "chat/jinja_repr.h"
#include "chat/jinja_sort.h"

static bool filter_length(JEval *e, JCall *c, JVal *out) {
    size_t n;
    if (!jval_len(e->r, c->self, &n)) return false;
    *out = jval_int((int64_t)n);
    return true;
}

static bool filter_first(JEval *e, JCall *c, JVal *out) {
    JIter *it;
    bool done;
    if (!jiter_open(e->r, c->self, &it) || !jiter_next(e->r, it, out, &done)) return false;
    return !done || jval_undef_hint(e->r, STR("no first item, sequence was empty"), out);
}

static bool filter_last(JEval *e, JCall *c, JVal *out) {
    JIter *it;
    bool done;
    if (!jiter_open_reversed(e->r, c->self, &it) || !jiter_next(e->r, it, out, &done)) return false;
    return !done || jval_undef_hint(e->r, STR("no last item, sequence was empty"), out);
}

static bool copy_list(JRun *r, JVal v, JList **out) {
    JList *l, *copy;
    if (!jiter_list(r, v, &l)) return false;
    if (!jval_is_seq(v)) return *out = l, true;
    if (!(copy = jlist_new(r, l->n)) || !jrun_spend(r, l->n / 8)) return false;
    if (l->n) memcpy(copy->v, l->v, l->n * sizeof *l->v);
    copy->n = l->n;
    *out = copy;
    return true;
}

static bool filter_list(JEval *e, JCall *c, JVal *out) {
    JList *l;
    if (!copy_list(e->r, c->self, &l)) return false;
    *out = jval_list(l);
    return true;
}

static bool filter_reverse(JEval *e, JCall *c, JVal *out) {
    JSlice all = {jval_none(), jval_none(), jval_int(-1)};
    JIter *it;
    if (c->self.type == J_STR) return jattr_slice(e, c->self, &all, out);
    if (c->self.type == J_ITER) { /* no reversed(): read all of it */
        JList *l;
        if (!jiter_list(e->r, c->self, &l)) return false;
        return jattr_slice(e, jval_list(l), &all, out);
    }
    if (!jiter_open_reversed(e->r, c->self, &it)) return false;
    *out = (JVal){.type = J_ITER, .u.iter = it};
    return true;
}

static bool filter_join(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    JVal sep, part;
    JIter *it;
    JGetter get;
    JBuild b = {0};
    bool done = false, by_attr = c->v[1].type != J_MISSING && c->v[1].type != J_NONE,
         markup = false;
    if (c->v[0].type == J_MISSING ? !jstr_make(r, STR(""), false, &sep)
                                  : !jrepr_soft(r, c->v[0], &sep))
        return false;
    if (by_attr && !jgetter_init(r, c->v[1], &get)) return false;
    if (!jiter_open(r, c->self, &it)) return false;
    JList *parts = jlist_new(r, 0);
    if (!parts) return false;
    markup = e->autoescape && sep.u.str->markup;
    for (;;) {
        if (!jiter_next(r, it, &part, &done)) return false;
        if (done) break;
        if (by_attr && !jgetter_get(e, &get, part, &part)) return false;
        if (!jrepr_soft(r, part, &part) || !jlist_push(r, parts, part)) return false;
        markup |= e->autoescape && part.u.str->markup;
    }
    if (markup && !jhtml_escape(r, sep, &sep)) return false;
    for (size_t i = 0; i < parts->n && !b.failed; i++) {
        if (i) jbuild_put_jstr(r, &b, sep.u.str);
        if (markup && !jhtml_escape(r, parts->v[i], &parts->v[i])) return false;
        jbuild_put_jstr(r, &b, parts->v[i].u.str);
    }
    return jbuild_done(r, &b, out) && jstr_as_markup(r, *out, markup, out);
}

static bool flag(JVal v) { return v.type != J_MISSING && jval_truth(v); }

/* sorted() takes nothing but an integer for reverse. */
static bool reverse_flag(JRun *r, JVal v, bool *out) {
    int64_t n;
    if (!jarg_int(r, v, 0, &n)) return false;
    *out = n != 0;
    return true;
}

static bool filter_sort(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    JList *l, *names = NULL;
    JGetter *get;
    size_t n_get = 1;
    bool lower = !flag(c->v[1]), reverse;
    if (!reverse_flag(r, c->v[0], &reverse)) return false;
    if (c->v[2].type == J_STR) { /* "age,name" */
        static const JStr comma = {.s = {",", 1}, .n_cp = 1};
        JVal split;
        if (!jtext_split(r, c->v[2].u.str, &comma, -1, false, &split)) return false;
        names = split.u.list;
        n_get = names->n;
    }
    if (!(get = jrun_array(r, JGetter, n_get)) || !copy_list(r, c->self, &l)) return false;
    for (size_t i = 0; i < n_get; i++) {
        if (!jgetter_init(r, names ? names->v[i] : c->v[2], &get[i])) return false;
        get[i].lower = lower;
    }
    JVal *keys = jrun_array(r, JVal, l->n + 1);
    if (!keys) return false;
    for (size_t i = 0; i < l->n; i++) {
        JList *key = jlist_new(r, n_get);
        if (!key) return false;
        for (; key->n < n_get; key->n++)
            if (!jgetter_get(e, &get[key->n], l->v[i], &key->v[key->n])) return false;
        keys[i] = jval_list(key);
    }
    *out = jval_list(l);
    return jsort_by(r, l->v, keys, l->n, reverse);
}

static bool extreme(JEval *e, JCall *c, JCmp better, JVal *out) {
    JRun *r = e->r;
    JIter *it;
    JGetter get;
    JVal item, key, best_key;
    bool done, any = false, yes;
    if (!jiter_open(r, c->self, &it) || !jgetter_init(r, c->v[1], &get)) return false;
    get.lower = !flag(c->v[0]);
    for (;;) {
        if (!jiter_next(r, it, &item, &done)) return false;
        if (done) break;
        if (!jgetter_get(e, &get, item, &key)) return false;
        if (any) {
            if (!jval_compare(r, better, key, best_key, &yes)) return false;
            if (!yes) continue;
        }
        any = true;
        best_key = key;
        *out = item;
    }
    return any || jval_undef_hint(r, STR("no aggregated item, sequence was empty"), out);
}

static bool filter_min(JEval *e, JCall *c, JVal *out) { return extreme(e, c, JCMP_LT, out); }
static bool filter_max(JEval *e, JCall *c, JVal *out) { return extreme(e, c, JCMP_GT, out); }

static bool filter_sum(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    JIter *it;
    JGetter get;
    JVal item;
    bool done, by_attr = c->v[0].type != J_MISSING && c->v[0].type != J_NONE;
    if (by_attr && !jgetter_init(r, c->v[0], &get)) return false;
    if (!jiter_open(r, c->self, &it)) return false;
    *out = c->v[1].type == J_MISSING ? jval_int(0) : c->v[1];
    if (out->type == J_STR || out->type == J_BYTES)
        return jrun_fail(r, JEXC_TYPE, "sum cannot add strings; use join");
    for (;;) {
        if (!jiter_next(r, it, &item, &done)) return false;
        if (done) return true;
        if (by_attr && !jgetter_get(e, &get, item, &item)) return false;
        if (!jops_binary(e, JN_ADD, *out, item, out)) return false;
    }
}

static bool filter_dictsort(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    bool by_value = false, reverse;
    if (!reverse_flag(r, c->v[2], &reverse)) return false;
    if (c->v[1].type != J_MISSING) {
        by_value = c->v[1].type == J_STR && str_eqc(c->v[1].u.str->s, "value");
        if (!by_value && !(c->v[1].type == J_STR && str_eqc(c->v[1].u.str->s, "key")))
            return jrun_fail(r, JEXC_RUNTIME, "dictsort: by must be \"key\" or \"value\"");
    }
    const JDict *d = c->self.type == J_DICT ? c->self.u.dict : NULL;
    if (c->self.type == J_UNDEF) return jval_fail_undef(r, c->self);
    if (!d)
        return jrun_fail(r, JEXC_TYPE, "dictsort works on a dict, not %s", jval_type_name(c->self));
    JList *items = jlist_new(r, d->n);
    JVal *keys = jrun_array(r, JVal, d->n + 1);
    JGetter get = {.lower = !flag(c->v[0])};
    if (!items || !keys) return false;
    for (size_t i = 0; i < d->n; i++) {
        if (!jlist_pair(r, d->keys[i], d->vals[i], &items->v[i])) return false;
        if (!jgetter_get(e, &get, by_value ? d->vals[i] : d->keys[i], &keys[i])) return false;
    }
    items->n = d->n;
    *out = jval_list(items);
    return jsort_by(r, items->v, keys, items->n, reverse);
}

static bool group_push(JEval *e, JList *groups, JVal key, JVal first, const JGetter *real,
                       JList *members) {
    JVal tuple;
    if (real && !jgetter_get(e, real, first, &key)) return false;
    if (!jlist_pair(e->r, key, jval_list(members), &tuple)) return false;
    tuple.u.list->group = true;
    return jlist_push(e->r, groups, tuple);
}

static bool filter_groupby(JEval *e, JCall *c, JVal *out) {
    JRun *r = e->r;
    JList *l, *groups = jlist_new(r, 0), *members = NULL;
    JGetter get, real;
    bool sensitive = flag(c->v[2]);
    if (!groups || !jgetter_init(r, c->v[0], &get) || !copy_list(r, c->self, &l)) return false;
    get.fallback = c->v[1];
    real = get;
    get.lower = !sensitive;
    JVal *keys = jrun_array(r, JVal, l->n + 1), key = jval_none();
    if (!keys) return false;
    for (size_t i = 0; i < l->n; i++)
        if (!jgetter_get(e, &get, l->v[i], &keys[i])) return false;
    if (!jsort_by(r, l->v, keys, l->n, false)) return false;
    for (size_t i = 0; i < l->n; i++) {
        bool same = false;
        if (!jgetter_get(e, &get, l->v[i], &keys[i])) return false;
        if (members && !jval_equal(r, key, keys[i], &same)) return false;
        if (!same) {
            if (members &&
                !group_push(e, groups, key, members->v[0], sensitive ? NULL : &real, members))
                return false;
            if (!(members = jlist_new(r, 0))) return false;
            key = keys[i];
        }
        if (!jlist_push(r, members, l->v[i])) return false;
    }
    if (members && !group_push(e, groups, key, members->v[0], sensitive ? NULL : &real, members))
        return false;
    *out = jval_list(groups);
    return true;
}

static bool filter_attr(JEval *e, JCall *c, JVal *out) {
    bool found = false;
    if (c->self.type == J_UNDEF) return jval_fail_undef(e->r, c->self);
    if (c->v[0].type != J_STR) return jrun_fail(e->r, JEXC_TYPE, "attribute name must be string");
    if (!jattr_own(e, c->self, c->v[0].u.str->s, out, &found)) return false;
    return found || jval_undef_attr(e->r, c->self, c->v[0], out);
}

static bool filter_random(JEval *e, JCall *c, JVal *out) {
    (void)c;
    (void)out;
    return jrun_fail(e->r, JEXC_RUNTIME,
                     "the random filter is refused: a prompt must not depend on chance");
}

static const JBuiltin entries[] = {
    {"length", filter_length, "!", 0, false},
    {"count", filter_length, "!", 0, false},
    {"join", filter_join, "d attribute", 0, false},
    {"list", filter_list, "", 0, false},
    {"first", filter_first, "", 0, false},
    {"last", filter_last, "", 0, false},
    {"items", jlazy_items, "", 0, false},
    {"map", jlazy_map, "", 0, true},
    {"select", jlazy_select, "", 0, true},
    {"reject", jlazy_reject, "", 0, true},
    {"selectattr", jlazy_selectattr, "", 0, true},
    {"rejectattr", jlazy_rejectattr, "", 0, true},
    {"dictsort", filter_dictsort, "case_sensitive by reverse", 0, false},
    {"sort", filter_sort, "reverse case_sensitive attribute", 0, false},
    {"reverse", filter_reverse, "", 0, false},
    {"unique", jlazy_unique, "case_sensitive attribute", 0, false},
    {"groupby", filter_groupby, "attribute default case_sensitive", 1, false},
    {"batch", jlazy_batch, "linecount fill_with", 1, false},
    {"slice", jlazy_slice, "slices fill_with", 1, false},
    {"min", filter_min, "case_sensitive attribute", 0, false},
    {"max", filter_max, "case_sensitive attribute", 0, false},
    {"sum", filter_sum, "attribute start", 0, false},
    {"attr", filter_attr, "name", 1, false},
    {"random", filter_random, "", 0, false},
};
const JBuiltinTable jfilters_seq = {entries, sizeof entries / sizeof *entries};
