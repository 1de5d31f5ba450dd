/* jinja_iter.h: walking values, as Python's iter() and next() do, and the `loop` variable on top of
 * that. Iterators are lazy: an error in a generator appears only when it is drawn from, and a
 * generator can be walked once. */
#ifndef MLXCEL_CHAT_JINJA_ITER_H
#define MLXCEL_CHAT_JINJA_ITER_H

#include "chat/jinja_value.h"

struct JLoop {
    JVal over;
    JIter *it;
    int64_t index0; /* -1 before the first item */
    int64_t depth0;
    JVal before, current, after; /* J_MISSING when there is none (after: not yet looked) */
    bool has_length;
    size_t length;
    JList *changed;      /* arguments of the last loop.changed(), NULL before */
    const void *recurse; /* the for statement, when marked recursive */
    void *scope;         /* its variables */
};

bool jiter_open(JRun *r, JVal v, JIter **out); /* fails on what cannot be walked */
bool jiter_open_reversed(JRun *r, JVal v,
                         JIter **out); /* reversed(v); fails on what has no order or length */
bool jiter_next(JRun *r, JIter *it, JVal *out, bool *done);
bool jiter_can(JVal v);
bool jiter_list(JRun *r, JVal v, JList **out); /* list(v); may be v's own list: read only */
JIter *jiter_new(JRun *r, bool (*next)(JRun *, JIter *, JVal *, bool *), const char *type_name);

bool jloop_new(JRun *r, JVal over, JLoop **out);
bool jloop_next(JRun *r, JLoop *l, JVal *out, bool *done);
bool jloop_length(JRun *r, JLoop *l, size_t *out);
/* Attributes of the loop variable: *found is false for an unknown name. */
bool jloop_attr(JRun *r, JLoop *l, Str name, JVal *out, bool *found);
bool jloop_changed(JRun *r, JLoop *l, const JVal *args, size_t n, bool *out);

#endif
