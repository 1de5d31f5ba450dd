/* pprint.pformat with its defaults: width 80, indent 1, dicts sorted. */
#include "chat/jinja_repr.h"
#include "chat/jinja_sort.h"
#include "chat/jinja_text.h"

enum { PRETTY_WIDTH = 80, PRETTY_MAX_DEPTH = 200 };

typedef struct Pretty {
    JRun *r;
    JBuild b;
} Pretty;

static bool pretty_put(Pretty *p, JVal v, int64_t indent, int64_t allowance, int level);

/* Keys that cannot be compared go by the name of their type. */
static bool key_before(JRun *r, JVal a, JVal b, bool *yes) {
    if (jval_compare(r, JCMP_LT, a, b, yes)) return true;
    if (!jrun_catch(r)) return false;
    *yes = str_cmp(str_c(jval_type_name(a)), str_c(jval_type_name(b))) < 0;
    return true;
}

static bool sort_items(JRun *r, const JDict *d, JList **out) {
    if (jsort_dict_items(r, d, out)) return true;
    if (!jrun_catch(r) || !(*out = jlist_new(r, d->n))) return false;
    for (size_t i = 0; i < d->n; i++) { /* mixed keys are rare and few: insertion */
        size_t at = i;
        JVal item;
        if (!jlist_pair(r, d->keys[i], d->vals[i], &item)) return false;
        for (bool before = true; at > 0; at--) {
            if (!jrun_spend(r, 1) ||
                !key_before(r, d->keys[i], (*out)->v[at - 1].u.list->v[0], &before))
                return false;
            if (!before) break;
            (*out)->v[at] = (*out)->v[at - 1];
        }
        (*out)->v[at] = item;
    }
    (*out)->n = d->n;
    return true;
}

/* The value as repr would print it with every dict sorted by key. */
static bool sorted_copy(JRun *r, JVal v, int depth, JVal *out) {
    *out = v;
    if (!jrun_spend(r, 1)) return false;
    if (depth > PRETTY_MAX_DEPTH)
        return jrun_fail(r, JEXC_LIMIT, "a value is nested too deeply to print");
    if (jval_is_seq(v)) {
        JList *l = jlist_new(r, v.u.list->n);
        if (!l) return false;
        for (; l->n < v.u.list->n; l->n++)
            if (!sorted_copy(r, v.u.list->v[l->n], depth + 1, &l->v[l->n])) return false;
        *out = (JVal){.type = v.type, .u.list = l};
    } else if (v.type == J_DICT) {
        JList *items;
        JDict *d = jdict_new(r, v.u.dict->n);
        if (!d) return false;
        if (!sort_items(r, v.u.dict, &items)) return false;
        for (size_t i = 0; i < v.u.dict->n; i++) {
            const JVal *item = items->v[i].u.list->v;
            JVal key = item[0], val;
            if (!sorted_copy(r, item[1], depth + 1, &val)) return false;
            if (!jdict_put(r, d, key, val)) return false;
        }
        *out = jval_dict(d);
    }
    return true;
}

static void pretty_blanks(Pretty *p, int64_t n) {
    static const JStr blank = {.s = {" ", 1}, .n_cp = 1};
    if (n > 0) jbuild_fill(p->r, &p->b, &blank, (size_t)n);
}

static void pretty_break(Pretty *p, int64_t indent) {
    jbuild_put(p->r, &p->b, STR(",\n"), false);
    pretty_blanks(p, indent);
}

static bool pretty_seq(Pretty *p, JVal v, int64_t indent, int64_t allowance, int level) {
    const JList *l = v.u.list;
    bool tuple = v.type == J_TUPLE;
    Str close = !tuple ? STR("]") : l->n == 1 ? STR(",)") : STR(")");
    allowance += (int64_t)close.n;
    jbuild_putc(p->r, &p->b, tuple ? '(' : '[', false);
    for (size_t i = 0; i < l->n; i++) {
        if (i) pretty_break(p, indent + 1);
        if (!pretty_put(p, l->v[i], indent + 1, i + 1 == l->n ? allowance : 1, level)) return false;
    }
    jbuild_put(p->r, &p->b, close, false);
    return !p->b.failed;
}

static bool pretty_dict(Pretty *p, const JDict *d, int64_t indent, int64_t allowance, int level) {
    jbuild_putc(p->r, &p->b, '{', false);
    for (size_t i = 0; i < d->n; i++) {
        JVal key;
        if (i) pretty_break(p, indent + 1);
        if (!jrepr_repr(p->r, d->keys[i], &key)) return false;
        jbuild_put_jstr(p->r, &p->b, key.u.str);
        jbuild_put(p->r, &p->b, STR(": "), false);
        int64_t at = indent + 1 + (int64_t)jstr_n_cp(key.u.str) + 2;
        if (!pretty_put(p, d->vals[i], at, i + 1 == d->n ? allowance + 1 : 1, level)) return false;
    }
    jbuild_putc(p->r, &p->b, '}', false);
    return !p->b.failed;
}

static bool repr_width(Pretty *p, JStr *s, size_t from, size_t to, JVal *text, int64_t *width) {
    JVal cut;
    if (!jstr_slice(p->r, s, from, to, &cut) || !jrepr_repr(p->r, cut, text)) return false;
    *width = (int64_t)jstr_n_cp(text->u.str);
    return true;
}

static size_t next_part(const JStr *s, size_t at) { /* non-blanks, then blanks */
    bool blanks = false;
    while (at < s->s.n) {
        size_t next = at;
        bool space = jstr_is_space(jstr_next(s->s, &next));
        if (blanks && !space) break;
        blanks = space;
        at = next;
    }
    return at;
}

/* One line of a long string: broken at blanks where its repr is too wide. */
static bool pretty_line(Pretty *p, JStr *line, int64_t width, int64_t last_less, JList *chunks) {
    JVal text = jval_none(), kept = jval_none();
    int64_t w;
    for (size_t from = 0, at = 0; at < line->s.n;) {
        size_t next = next_part(line, at);
        int64_t room = next >= line->s.n ? width - last_less : width;
        if (!repr_width(p, line, from, next, &text, &w)) return false;
        if (w > room && at > from) {
            if (!jlist_push(p->r, chunks, kept)) return false;
            from = at;
            if (!repr_width(p, line, from, next, &text, &w)) return false;
        }
        kept = text;
        at = next;
        if (at >= line->s.n && !jlist_push(p->r, chunks, kept)) return false;
    }
    return true;
}

static bool pretty_str(Pretty *p, JStr *s, int64_t indent, int64_t allowance, int level) {
    JList *lines, *chunks = jlist_new(p->r, 0);
    if (!chunks || !jtext_lines(p->r, s, true, &lines)) return false;
    if (level == 1) {
        indent++;
        allowance++;
    }
    int64_t width = PRETTY_WIDTH - indent;
    for (size_t i = 0; i < lines->n; i++) {
        JStr *line = lines->v[i].u.str;
        bool last = i + 1 == lines->n;
        JVal text;
        int64_t w;
        if (!repr_width(p, line, 0, line->s.n, &text, &w)) return false;
        if (w <= width - (last ? allowance : 0)) {
            if (!jlist_push(p->r, chunks, text)) return false;
        } else if (!pretty_line(p, line, width, last ? allowance : 0, chunks)) {
            return false;
        }
    }
    bool brackets = level == 1 && chunks->n != 1;
    if (brackets) jbuild_putc(p->r, &p->b, '(', false);
    for (size_t i = 0; i < chunks->n; i++) {
        if (i) {
            jbuild_putc(p->r, &p->b, '\n', false);
            pretty_blanks(p, indent);
        }
        jbuild_put_jstr(p->r, &p->b, chunks->v[i].u.str);
    }
    if (brackets) jbuild_putc(p->r, &p->b, ')', false);
    return !p->b.failed;
}

static bool pretty_put(Pretty *p, JVal v, int64_t indent, int64_t allowance, int level) {
    JVal text;
    if (level > PRETTY_MAX_DEPTH)
        return jrun_fail(p->r, JEXC_LIMIT, "a value is nested too deeply to print");
    if (!jrepr_repr(p->r, v, &text)) return false;
    if ((int64_t)jstr_n_cp(text.u.str) > PRETTY_WIDTH - indent - allowance) {
        if (jval_is_seq(v)) return pretty_seq(p, v, indent, allowance, level + 1);
        if (v.type == J_DICT) return pretty_dict(p, v.u.dict, indent, allowance, level + 1);
        if (v.type == J_STR && !v.u.str->markup && v.u.str->s.n)
            return pretty_str(p, v.u.str, indent, allowance, level + 1);
    }
    jbuild_put_jstr(p->r, &p->b, text.u.str);
    return !p->b.failed;
}

bool jrepr_pretty(JRun *r, JVal v, JVal *out) {
    Pretty p = {.r = r};
    JVal sorted;
    if (!sorted_copy(r, v, 0, &sorted) || !pretty_put(&p, sorted, 0, 0, 0)) return false;
    for (size_t i = 0; i < p.b.n_segs && !p.b.failed; i++) {
        if (!p.b.segs[i].user) continue;
        jbuild_mark_user(r, &p.b);
        break;
    }
    return jbuild_done(r, &p.b, out);
}
