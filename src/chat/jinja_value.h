/* jinja_value.h: the values a template computes with. They behave as Python's: None, bool, int of
 * any size, float, str, list, tuple, dict (insertion order), range, views, lazy iterators, and
 * Jinja's own undefined, namespace, loop, macro.
 *
 * A JVal is 16 bytes and passed by value; what it points to lives in the rendering's arena (or, for
 * literals, in the compiled template) and is never changed after it is built, as the sandbox
 * forbids mutation. The exceptions have state by nature: namespace, cycler, joiner, loop,
 * iterators.
 *
 * A string knows who wrote it: the template, the user, or both (then `segs` says which bytes).
 * Everything made from strings keeps that, so that the rendered prompt can be tokenized without
 * letting user text spell a control token. */
#ifndef MLXCEL_CHAT_JINJA_VALUE_H
#define MLXCEL_CHAT_JINJA_VALUE_H

#include "chat/jinja_run.h"

typedef enum JType {
    J_MISSING, /* a variable that has not been set; never seen by template code */
    J_UNDEF,
    J_NONE,
    J_BOOL,
    J_INT,
    J_BIG,
    J_FLOAT,
    J_STR,
    J_BYTES,
    J_LIST,
    J_TUPLE,
    J_DICT,
    J_VIEW, /* dict.keys(), values(), items() */
    J_RANGE,
    J_SLICE, /* only as a subscript */
    J_ITER,
    J_NS,
    J_CYCLER,
    J_JOINER,
    J_LOOP,
    J_MACRO,
    J_FUNC,   /* a global function */
    J_METHOD, /* a method bound to its object */
    J_SELF,   /* the template's blocks */
    J_BLOCK
} JType;

typedef enum JOrigin { JORIGIN_TEMPLATE, JORIGIN_USER, JORIGIN_MIXED } JOrigin;

typedef struct JSeg { /* bytes up to `end` were written by the user, or not; neighbours differ */
    size_t end;
    bool user;
} JSeg;

typedef struct JStr {
    Str s;            /* UTF-8; lone surrogates in their 3-byte form */
    size_t n_cp;      /* code points; JSTR_COUNT_LATER until asked for */
    const JSeg *segs; /* n_segs of them when origin is JORIGIN_MIXED */
    size_t n_segs;
    uint8_t origin;
    bool markup; /* HTML-safe (markupsafe.Markup) */
} JStr;

#define JSTR_COUNT_LATER ((size_t)-1)

typedef struct JBig JBig;
typedef struct JList JList;
typedef struct JDict JDict;
typedef struct JView JView;
typedef struct JRange JRange;
typedef struct JUndef JUndef;
typedef struct JIter JIter;
typedef struct JNs JNs;
typedef struct JCycler JCycler;
typedef struct JJoiner JJoiner;
typedef struct JLoop JLoop;
typedef struct JMacro JMacro;
typedef struct JFunc JFunc;
typedef struct JMethod JMethod;
typedef struct JBlockRef JBlockRef;
typedef struct JSlice JSlice;

typedef struct JVal {
    JType type;
    union {
        bool b;
        int64_t i;
        double f;
        JStr *str; /* J_STR and J_BYTES */
        JBig *big;
        JList *list; /* J_LIST and J_TUPLE */
        JDict *dict;
        JView *view;
        JRange *range;
        JUndef *undef;
        JIter *iter;
        JNs *ns;
        JCycler *cycler;
        JJoiner *joiner;
        JLoop *loop;
        JMacro *macro;
        const JFunc *func;
        JMethod *method;
        JBlockRef *block;
        JSlice *slice;
        void *ptr;
    } u;
} JVal;

struct JUndef {
    Str hint;       /* the whole message, if set */
    JType obj_type; /* J_MISSING: a plain name */
    Str name;       /* of the variable or attribute, or the repr of the subscript */
    bool is_attr;   /* the subscript was a string */
    bool unsafe;    /* raises a security error */
};

struct JList {
    JVal *v;
    size_t n, cap;
    bool group; /* a tuple made by groupby: .grouper and .list */
};

struct JDict {
    JVal *keys, *vals; /* n of them, in insertion order */
    uint32_t *slots;   /* n_slots, power of two, entry + 1; NULL while small */
    size_t n, cap, n_slots;
};

typedef enum JViewKind { JVIEW_KEYS, JVIEW_VALUES, JVIEW_ITEMS } JViewKind;
struct JView {
    JDict *dict;
    JViewKind kind;
};

struct JRange {
    int64_t start, stop, step;
    size_t n;
};

struct JSlice {
    JVal start, stop, step; /* None when left out */
};

/* A lazy sequence, as Python's generators: `next` sets *done instead of an item at the end. */
struct JIter {
    bool (*next)(JRun *r, JIter *it, JVal *out, bool *done);
    const char *type_name; /* as Python would print it */
    JVal over;             /* what it walks */
    JIter *inner;          /* or the iterator it draws from */
    size_t at, to;
    void *state; /* of the function behind it */
    bool reversed, started, ended;
};

struct JNs {
    JDict *attrs;
};

struct JCycler {
    JList *items;
    size_t at;
};

struct JJoiner {
    JVal sep;
    bool used;
};

static inline JVal jval_missing(void) { return (JVal){.type = J_MISSING}; }
static inline JVal jval_none(void) { return (JVal){.type = J_NONE}; }
static inline JVal jval_bool(bool b) { return (JVal){.type = J_BOOL, .u.b = b}; }
static inline JVal jval_int(int64_t i) { return (JVal){.type = J_INT, .u.i = i}; }
static inline JVal jval_float(double f) { return (JVal){.type = J_FLOAT, .u.f = f}; }
static inline JVal jval_str(JStr *s) { return (JVal){.type = J_STR, .u.str = s}; }
static inline JVal jval_list(JList *l) { return (JVal){.type = J_LIST, .u.list = l}; }
static inline JVal jval_tuple(JList *l) { return (JVal){.type = J_TUPLE, .u.list = l}; }
static inline JVal jval_dict(JDict *d) { return (JVal){.type = J_DICT, .u.dict = d}; }
static inline bool jval_is(JVal v, JType t) { return v.type == t; }
static inline bool jval_is_seq(JVal v) { return v.type == J_LIST || v.type == J_TUPLE; }
static inline bool jval_is_int(JVal v) {
    return v.type == J_INT || v.type == J_BIG || v.type == J_BOOL;
}
static inline bool jval_is_num(JVal v) { return jval_is_int(v) || v.type == J_FLOAT; }

/* Undefined values: of a name, of an attribute or subscript of obj, or with a whole message. */
bool jval_undef_name(JRun *r, Str name, JVal *out);
bool jval_undef_attr(JRun *r, JVal obj, JVal key, JVal *out);
bool jval_undef_hint(JRun *r, Str hint, JVal *out);
bool jval_fail_undef(JRun *r, JVal undef); /* raises what using it raises; false */

const char *jval_type_name(JVal v); /* Python's type(v).__name__ */

/* Lists grow while they are built; the builder owns them until then. */
JList *jlist_new(JRun *r, size_t cap);
bool jlist_push(JRun *r, JList *l, JVal v);
bool jlist_pair(JRun *r, JVal a, JVal b, JVal *out); /* a tuple of two */

JDict *jdict_new(JRun *r, size_t cap);
bool jdict_put(JRun *r, JDict *d, JVal key, JVal val); /* fails on unhashable keys */
bool jdict_get(JRun *r, const JDict *d, JVal key, JVal *out, bool *found);
bool jdict_find_str(const JDict *d, Str key, JVal *out); /* no work charged: names and attributes */
bool jdict_put_str(JRun *r, JDict *d, Str key, JVal val);
bool jdict_merge(JRun *r, JDict *into, const JDict *from);

/* Comparison. Equal never fails on types; less does. Both fail when the budget or nesting does. */
bool jval_equal(JRun *r, JVal a, JVal b, bool *out);
typedef enum JCmp { JCMP_LT, JCMP_LE, JCMP_GT, JCMP_GE } JCmp;
bool jval_compare(JRun *r, JCmp op, JVal a, JVal b, bool *out);
bool jval_same(JVal a, JVal b); /* `is` */
bool jval_hash(JRun *r, JVal v, uint64_t *out);
bool jval_truth(JVal v);
bool jval_len(JRun *r, JVal v, size_t *out);
bool jval_contains(JRun *r, JVal item, JVal container, bool *out);

#endif
