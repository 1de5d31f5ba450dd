#include "chat/jinja_filter_lazy.h"

#include <string.h>

#include "chat/jinja_big.h"

bool jgetter_init(JRun *r, JVal attribute, JGetter *out) {
    static const JStr dot = {.s = {".", 1}, .n_cp = 1};
    JVal parts;
    *out = (JGetter){0};
    if (attribute.type == J_MISSING || attribute.type == J_NONE) return true;
    if (attribute.type != J_STR) {
        if (!(out->parts = jlist_new(r, 1))) return false;
        return jlist_push(r, out->parts, attribute);
    }
    if (!jtext_split(r, attribute.u.str, &dot, -1, false, &parts)) return false;
    out->parts = parts.u.list;
    for (size_t i = 0; i < out->parts->n; i++) {
        Str s = out->parts->v[i].u.str->s;
        bool digits = s.n > 0;
        for (size_t k = 0; k < s.n; k++) digits = digits && s.p[k] >= '0' && s.p[k] <= '9';
        if (digits && !jint_parse(r, s, 10, false, &out->parts->v[i])) return false;
    }
    return true;
}

bool jgetter_get(JEval *e, const JGetter *g, JVal item, JVal *out) {
    for (size_t i = 0; g->parts && i < g->parts->n; i++) {
        if (!jattr_item(e, item, g->parts->v[i], &item)) return false;
        bool has_fallback = g->fallback.type != J_MISSING && g->fallback.type != J_NONE;
        if (item.type == J_UNDEF && has_fallback) item = g->fallback;
    }
    *out = item;
    if (!g->lower || item.type != J_STR) return true;
    return jtext_case(e->r, item.u.str, JCASE_LOWER, out);
}

/* What a lazy filter remembers until its first item is asked for. */
typedef struct Lazy {
    JEval *e;
    JCall call;
    JGetter get;
    bool reject, by_attr, plain; /* plain: truth of the item, no test */
    Str name;                    /* of the test or filter */
    const JVal *args;
    size_t n_args;
    const JDict *kwargs;
    JDict *seen;
    JList *list;
} Lazy;

static bool lazy_new(JEval *e, const JCall *c, bool (*next)(JRun *, JIter *, JVal *, bool *),
                     Lazy **out, JVal *v) {
    Lazy *z = jrun_new(e->r, Lazy);
    JIter *it = jiter_new(e->r, next, "generator");
    if (!z || !it) return false;
    z->e = e;
    z->call = *c;
    if (c->n_args) { /* the arguments outlive the call */
        JVal *args = jrun_array(e->r, JVal, c->n_args);
        if (!args) return false;
        memcpy(args, c->args, c->n_args * sizeof *args);
        z->call.args = args;
    }
    it->state = z;
    *out = z;
    *v = (JVal){.type = J_ITER, .u.iter = it};
    return true;
}

/* Opens what is walked on the first call; a false value counts as empty, whatever it is. */
static bool lazy_start(JRun *r, JIter *it, bool *done) {
    Lazy *z = it->state;
    it->started = true;
    if (!jval_truth(z->call.self)) return *done = true;
    return jiter_open(r, z->call.self, &it->inner);
}

static bool map_prepare(JRun *r, Lazy *z) {
    JVal attribute;
    const JCall *c = &z->call;
    if (!c->n_args && c->kwargs && jdict_find_str(c->kwargs, STR("attribute"), &attribute)) {
        JVal fallback = jval_none();
        bool has = jdict_find_str(c->kwargs, STR("default"), &fallback);
        if (c->kwargs->n > 1u + has)
            return jrun_fail(r, JEXC_RUNTIME, "map: unexpected keyword argument");
        z->by_attr = true;
        if (!jgetter_init(r, attribute, &z->get)) return false;
        z->get.fallback = fallback;
        return true;
    }
    if (!c->n_args) return jrun_fail(r, JEXC_RUNTIME, "map requires a filter argument");
    if (c->args[0].type != J_STR) return jrun_fail(r, JEXC_RUNTIME, "map: no such filter");
    z->name = c->args[0].u.str->s;
    z->args = c->args + 1;
    z->n_args = c->n_args - 1;
    z->kwargs = c->kwargs;
    return true;
}

static bool next_map(JRun *r, JIter *it, JVal *out, bool *done) {
    Lazy *z = it->state;
    JVal item;
    if (!it->started) {
        if (!jval_truth(z->call.self)) return *done = it->started = true;
        if (!map_prepare(r, z) || !lazy_start(r, it, done)) return false;
    }
    if (!jiter_next(r, it->inner, &item, done) || *done) return *done;
    if (z->by_attr) return jgetter_get(z->e, &z->get, item, out);
    return jcall_filter(z->e, z->name, item, z->args, z->n_args, z->kwargs, out);
}

bool jlazy_map(JEval *e, JCall *c, JVal *out) {
    Lazy *z;
    return lazy_new(e, c, next_map, &z, out);
}

static bool select_prepare(JRun *r, Lazy *z) {
    const JCall *c = &z->call;
    size_t off = z->by_attr;
    if (z->by_attr) {
        if (!c->n_args) return jrun_fail(r, JEXC_RUNTIME, "missing parameter for attribute name");
        if (!jgetter_init(r, c->args[0], &z->get)) return false;
    }
    z->plain = c->n_args <= off;
    if (z->plain) return true;
    if (c->args[off].type != J_STR) return jrun_fail(r, JEXC_RUNTIME, "no such test");
    z->name = c->args[off].u.str->s;
    z->args = c->args + off + 1;
    z->n_args = c->n_args - off - 1;
    z->kwargs = c->kwargs;
    return true;
}

static bool next_select(JRun *r, JIter *it, JVal *out, bool *done) {
    Lazy *z = it->state;
    if (!it->started) {
        if (!jval_truth(z->call.self)) return *done = it->started = true;
        if (!select_prepare(r, z) || !lazy_start(r, it, done)) return false;
    }
    for (;;) {
        JVal v;
        bool yes;
        if (!jiter_next(r, it->inner, out, done) || *done) return *done;
        if (!jgetter_get(z->e, &z->get, *out, &v)) return false;
        if (z->plain)
            yes = jval_truth(v);
        else if (!jcall_test(z->e, z->name, v, z->args, z->n_args, z->kwargs, &yes))
            return false;
        if (yes != z->reject) return true;
    }
}

static bool lazy_select(JEval *e, JCall *c, bool reject, bool by_attr, JVal *out) {
    Lazy *z;
    if (!lazy_new(e, c, next_select, &z, out)) return false;
    z->reject = reject;
    z->by_attr = by_attr;
    return true;
}

bool jlazy_select(JEval *e, JCall *c, JVal *out) { return lazy_select(e, c, false, false, out); }
bool jlazy_reject(JEval *e, JCall *c, JVal *out) { return lazy_select(e, c, true, false, out); }
bool jlazy_selectattr(JEval *e, JCall *c, JVal *out) { return lazy_select(e, c, false, true, out); }
bool jlazy_rejectattr(JEval *e, JCall *c, JVal *out) { return lazy_select(e, c, true, true, out); }

static bool next_items(JRun *r, JIter *it, JVal *out, bool *done) {
    Lazy *z = it->state;
    JVal self = z->call.self;
    if (self.type == J_UNDEF) return *done = true;
    if (self.type != J_DICT)
        return jrun_fail(r, JEXC_TYPE, "can only get item pairs from a mapping");
    if (it->at >= self.u.dict->n) return *done = true;
    size_t i = it->at++;
    return jlist_pair(r, self.u.dict->keys[i], self.u.dict->vals[i], out);
}

bool jlazy_items(JEval *e, JCall *c, JVal *out) {
    Lazy *z;
    return lazy_new(e, c, next_items, &z, out);
}

static bool next_unique(JRun *r, JIter *it, JVal *out, bool *done) {
    Lazy *z = it->state;
    if (!it->started) {
        it->started = true;
        if (!jgetter_init(r, z->call.v[1], &z->get) || !(z->seen = jdict_new(r, 0))) return false;
        z->get.lower = z->call.v[0].type == J_MISSING || !jval_truth(z->call.v[0]);
        if (!jiter_open(r, z->call.self, &it->inner)) return false;
    }
    for (;;) {
        JVal key, seen;
        bool found;
        if (!jiter_next(r, it->inner, out, done) || *done) return *done;
        if (!jgetter_get(z->e, &z->get, *out, &key) || !jdict_get(r, z->seen, key, &seen, &found))
            return false;
        if (!found) return jdict_put(r, z->seen, key, jval_none());
    }
}

bool jlazy_unique(JEval *e, JCall *c, JVal *out) {
    Lazy *z;
    return lazy_new(e, c, next_unique, &z, out);
}

static bool batch_fill(JRun *r, Lazy *z, JList *l) {
    JVal fill = z->call.v[1], count = z->call.v[0], room;
    bool less;
    if (fill.type == J_MISSING || fill.type == J_NONE) return true;
    if (!jval_compare(r, JCMP_LT, jval_int((int64_t)l->n), count, &less)) return false;
    if (!less) return true;
    if (!jval_is_int(count)) return jrun_fail(r, JEXC_TYPE, "batch: the count must be an integer");
    if (!jint_sub(r, count, jval_int((int64_t)l->n), &room)) return false;
    for (int64_t n = jint_clamp(room); n > 0; n--)
        if (!jrun_spend(r, 1) || !jlist_push(r, l, fill)) return false;
    return true;
}

static bool next_batch(JRun *r, JIter *it, JVal *out, bool *done) {
    Lazy *z = it->state;
    JVal item;
    bool full;
    if (!it->started) {
        it->started = true;
        if (!(z->list = jlist_new(r, 0)) || !jiter_open(r, z->call.self, &it->inner)) return false;
    }
    for (;;) {
        if (!z->list) return *done = true;
        if (!jiter_next(r, it->inner, &item, done)) return false;
        if (*done) {
            JList *last = z->list;
            z->list = NULL;
            *out = jval_list(last);
            *done = !last->n;
            return !last->n || batch_fill(r, z, last);
        }
        if (!jval_equal(r, jval_int((int64_t)z->list->n), z->call.v[0], &full)) return false;
        JList *yielded = z->list;
        if (full && !(z->list = jlist_new(r, 0))) return false;
        if (!jlist_push(r, z->list, item)) return false;
        if (full) return *out = jval_list(yielded), true;
    }
}

bool jlazy_batch(JEval *e, JCall *c, JVal *out) {
    Lazy *z;
    return lazy_new(e, c, next_batch, &z, out);
}

static bool next_slice(JRun *r, JIter *it, JVal *out, bool *done) {
    Lazy *z = it->state;
    JVal fill = z->call.v[1];
    int64_t slices;
    if (!it->started) {
        it->started = true;
        if (!jiter_list(r, z->call.self, &z->list)) return false;
    }
    if (!jarg_int(r, z->call.v[0], 0, &slices)) return false;
    if (slices == 0) return jrun_fail(r, JEXC_ZERODIV, "integer division or modulo by zero");
    if (slices < 0 || it->at >= (size_t)slices) return *done = true;
    size_t n = z->list->n, per = n / (size_t)slices, extra = n % (size_t)slices, i = it->at++;
    size_t from = i * per + (i < extra ? i : extra), to = from + per + (i < extra);
    JList *l = jlist_new(r, to - from + 1);
    if (!l) return false;
    while (from < to) l->v[l->n++] = z->list->v[from++];
    *out = jval_list(l);
    bool pad = fill.type != J_MISSING && fill.type != J_NONE && i >= extra;
    return !pad || jlist_push(r, l, fill);
}

bool jlazy_slice(JEval *e, JCall *c, JVal *out) {
    Lazy *z;
    return lazy_new(e, c, next_slice, &z, out);
}
