#include "chat/jinja_sort.h"

#include <string.h>

/* Merge sort; `left before right unless right < left` keeps equal elements in order, also when
 * reversed. */
static bool sort_merge(JRun *r, JVal *v, JVal *k, JVal *tv, JVal *tk, size_t n, bool reverse) {
    if (n < 2) return true;
    size_t half = n / 2, i = 0, j = half, at = 0;
    if (!sort_merge(r, v, k, tv, tk, half, reverse)) return false;
    if (!sort_merge(r, v + half, k + half, tv, tk, n - half, reverse)) return false;
    while (i < half && j < n) {
        bool right_first;
        if (!jrun_spend(r, 1)) return false;
        if (!jval_compare(r, JCMP_LT, reverse ? k[i] : k[j], reverse ? k[j] : k[i], &right_first))
            return false;
        size_t from = right_first ? j++ : i++;
        tv[at] = v[from];
        tk[at++] = k[from];
    }
    while (i < half) {
        tv[at] = v[i];
        tk[at++] = k[i++];
    }
    memcpy(v, tv, at * sizeof *v);
    memcpy(k, tk, at * sizeof *k);
    return true;
}

bool jsort_by(JRun *r, JVal *v, JVal *keys, size_t n, bool reverse) {
    if (n < 2) return true;
    JVal *tv = jrun_array(r, JVal, n), *tk = jrun_array(r, JVal, n);
    if (!tv || !tk) return false;
    if (keys == v) {
        JVal *copy = jrun_array(r, JVal, n);
        if (!copy) return false;
        memcpy(copy, v, n * sizeof *v);
        keys = copy;
    }
    return sort_merge(r, v, keys, tv, tk, n, reverse);
}

bool jsort_dict_items(JRun *r, const JDict *d, JList **out) {
    JList *items = jlist_new(r, d->n);
    JVal *keys = jrun_array(r, JVal, d->n + 1);
    if (!items || !keys) return false;
    for (size_t i = 0; i < d->n; i++) {
        if (!jlist_pair(r, d->keys[i], d->vals[i], &items->v[i])) return false;
        keys[i] = d->keys[i];
    }
    items->n = d->n;
    *out = items;
    return jsort_by(r, items->v, keys, items->n, false);
}
