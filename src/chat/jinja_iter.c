#include "chat/jinja_iter.h"

#include <string.h>

#include "chat/jinja_str.h"

JIter *jiter_new(JRun *r, bool (*next)(JRun *, JIter *, JVal *, bool *), const char *type_name) {
    JIter *it = jrun_new(r, JIter);
    if (it) *it = (JIter){.next = next, .type_name = type_name};
    return it;
}

static bool next_seq(JRun *r, JIter *it, JVal *out, bool *done) {
    (void)r;
    const JList *l = it->over.u.list;
    if (it->at >= it->to) return *done = true;
    size_t i = it->reversed ? it->to - 1 - it->at : it->at;
    it->at++;
    *out = l->v[i];
    return true;
}

static bool next_str(JRun *r, JIter *it, JVal *out, bool *done) {
    JStr *s = it->over.u.str;
    size_t from = it->at, to = it->to;
    if (from >= to) return *done = true;
    if (it->reversed) {
        size_t start = to;
        jstr_prev(s->s, &start);
        it->to = start;
        if (!jstr_slice(r, s, start, to, out)) return false;
        return true; /* reversed() goes by subscript, so Markup stays Markup */
    }
    jstr_next(s->s, &it->at);
    return jstr_slice(r, s, from, it->at, out) && jstr_as_markup(r, *out, false, out);
}

static bool next_bytes(JRun *r, JIter *it, JVal *out, bool *done) {
    (void)r;
    if (it->at >= it->to) return *done = true;
    size_t i = it->reversed ? it->to - 1 - it->at : it->at;
    it->at++;
    *out = jval_int((unsigned char)it->over.u.str->s.p[i]);
    return true;
}

static bool dict_item(JRun *r, const JDict *d, JViewKind kind, size_t i, JVal *out) {
    if (kind == JVIEW_ITEMS) return jlist_pair(r, d->keys[i], d->vals[i], out);
    *out = kind == JVIEW_KEYS ? d->keys[i] : d->vals[i];
    return true;
}

static bool next_dict(JRun *r, JIter *it, JVal *out, bool *done) {
    const JDict *d = it->over.type == J_DICT ? it->over.u.dict : it->over.u.view->dict;
    JViewKind kind = it->over.type == J_DICT ? JVIEW_KEYS : it->over.u.view->kind;
    if (it->at >= it->to) return *done = true;
    size_t i = it->reversed ? it->to - 1 - it->at : it->at;
    it->at++;
    return dict_item(r, d, kind, i, out);
}

static bool next_range(JRun *r, JIter *it, JVal *out, bool *done) {
    (void)r;
    const JRange *g = it->over.u.range;
    if (it->at >= it->to) return *done = true;
    size_t i = it->reversed ? it->to - 1 - it->at : it->at;
    it->at++;
    *out = jval_int(g->start + (int64_t)i * g->step);
    return true;
}

static bool next_none(JRun *r, JIter *it, JVal *out, bool *done) {
    (void)r;
    (void)it;
    (void)out;
    return *done = true;
}

static bool iter_over(JRun *r, JVal v, bool reversed, JIter **out) {
    bool (*next)(JRun *, JIter *, JVal *, bool *) = next_none;
    size_t n = 0;
    const char *name = reversed ? "reversed" : "iterator";
    switch (v.type) {
    case J_STR:
        next = next_str;
        n = v.u.str->s.n;
        break;
    case J_BYTES:
        next = next_bytes;
        n = v.u.str->s.n;
        break;
    case J_LIST:
        name = reversed ? "list_reverseiterator" : "list_iterator"; /* fallthrough */
    case J_TUPLE:
        next = next_seq;
        n = v.u.list->n;
        break;
    case J_DICT:
        next = next_dict;
        n = v.u.dict->n;
        name = "dict_keyiterator";
        break;
    case J_VIEW:
        next = next_dict;
        n = v.u.view->dict->n;
        name = "dict_itemiterator";
        break;
    case J_RANGE:
        next = next_range;
        n = v.u.range->n;
        name = "range_iterator";
        break;
    case J_UNDEF:
        break;
    default:
        return jrun_fail(r, JEXC_TYPE, "'%s' object is not %s", jval_type_name(v),
                         reversed ? "reversible" : "iterable");
    }
    JIter *it = jiter_new(r, next, name);
    if (!it) return false;
    it->over = v;
    it->to = n;
    it->reversed = reversed;
    *out = it;
    return true;
}

bool jiter_open(JRun *r, JVal v, JIter **out) {
    if (v.type == J_ITER) return *out = v.u.iter, true;
    return iter_over(r, v, false, out);
}

bool jiter_open_reversed(JRun *r, JVal v, JIter **out) { return iter_over(r, v, true, out); }

bool jiter_can(JVal v) {
    switch (v.type) {
    case J_STR:
    case J_BYTES:
    case J_LIST:
    case J_TUPLE:
    case J_DICT:
    case J_VIEW:
    case J_RANGE:
    case J_UNDEF:
    case J_ITER:
    case J_LOOP:
        return true;
    default:
        return false;
    }
}

bool jiter_next(JRun *r, JIter *it, JVal *out, bool *done) {
    *done = it->ended;
    if (it->ended) return true;
    if (!jrun_spend(r, 1)) return false;
    if (r->depth >= JRUN_MAX_DEPTH) /* iterators over iterators */
        return jrun_fail(r, JEXC_LIMIT, "iterators are nested too deeply");
    r->depth++;
    bool ok = it->next(r, it, out, done);
    r->depth--;
    it->ended = !ok || *done;
    return ok;
}

bool jiter_list(JRun *r, JVal v, JList **out) {
    if (jval_is_seq(v)) return *out = v.u.list, true;
    JIter *it = NULL;
    bool done;
    if (!jiter_open(r, v, &it)) return false;
    JList *l = jlist_new(r, 0);
    if (!l) return false;
    for (;;) {
        JVal item;
        if (!jiter_next(r, it, &item, &done)) return false;
        if (done) return *out = l, true;
        if (!jlist_push(r, l, item)) return false;
    }
}

bool jloop_new(JRun *r, JVal over, JLoop **out) {
    JLoop *l = jrun_new(r, JLoop);
    if (!l) return false;
    l->over = over;
    l->index0 = -1;
    *out = l;
    return jiter_open(r, over, &l->it);
}

bool jloop_next(JRun *r, JLoop *l, JVal *out, bool *done) {
    *done = false;
    if (l->after.type != J_MISSING) {
        *out = l->after;
        l->after = jval_missing();
    } else if (!jiter_next(r, l->it, out, done)) {
        return false;
    }
    if (*done) return true;
    l->index0++;
    l->before = l->current;
    l->current = *out;
    return true;
}

bool jloop_length(JRun *r, JLoop *l, size_t *out) {
    if (!l->has_length) {
        if (l->over.type == J_ITER) { /* no length: what is left is read ahead */
            JList *rest;
            JVal left = {.type = J_ITER, .u.iter = l->it};
            if (!jiter_list(r, left, &rest) || !jiter_open(r, jval_list(rest), &l->it))
                return false;
            l->length = rest->n + (size_t)(l->index0 + 1) + (l->after.type != J_MISSING);
        } else if (!jval_len(r, l->over, &l->length)) {
            return false;
        }
        l->has_length = true;
    }
    *out = l->length;
    return true;
}

static bool loop_peek(JRun *r, JLoop *l, bool *done) {
    *done = false;
    if (l->after.type != J_MISSING) return true;
    return jiter_next(r, l->it, &l->after, done);
}

static bool loop_neighbour(JRun *r, JLoop *l, bool next, JVal *out) {
    bool done = l->index0 == 0;
    if (next && !loop_peek(r, l, &done)) return false;
    if (done)
        return jval_undef_hint(
            r, next ? STR("there is no next item") : STR("there is no previous item"), out);
    *out = next ? l->after : l->before;
    return true;
}

bool jloop_attr(JRun *r, JLoop *l, Str name, JVal *out, bool *found) {
    size_t n;
    bool done;
    *found = true;
    if (str_eqc(name, "index0")) return *out = jval_int(l->index0), true;
    if (str_eqc(name, "index")) return *out = jval_int(l->index0 + 1), true;
    if (str_eqc(name, "first")) return *out = jval_bool(l->index0 == 0), true;
    if (str_eqc(name, "depth0")) return *out = jval_int(l->depth0), true;
    if (str_eqc(name, "depth")) return *out = jval_int(l->depth0 + 1), true;
    if (str_eqc(name, "last")) return loop_peek(r, l, &done) && (*out = jval_bool(done), true);
    if (str_eqc(name, "previtem")) return loop_neighbour(r, l, false, out);
    if (str_eqc(name, "nextitem")) return loop_neighbour(r, l, true, out);
    bool length = str_eqc(name, "length"), rev = str_eqc(name, "revindex"),
         rev0 = str_eqc(name, "revindex0");
    if (!length && !rev && !rev0) return *found = false, true;
    if (!jloop_length(r, l, &n)) return false;
    *out = jval_int((int64_t)n - (length ? 0 : rev ? l->index0 : l->index0 + 1));
    return true;
}

bool jloop_changed(JRun *r, JLoop *l, const JVal *args, size_t n, bool *out) {
    JList *now = jlist_new(r, n);
    bool same = false;
    if (!now) return false;
    if (n) memcpy(now->v, args, n * sizeof *args);
    now->n = n;
    if (l->changed && !jval_equal(r, jval_tuple(now), jval_tuple(l->changed), &same)) return false;
    l->changed = now;
    *out = !same;
    return true;
}
