/* A backtracking matcher. The pattern becomes nodes in a fixed array; what comes after a group or a
 * repetition is a chain of Cont on the C stack. */
#include "arch/name_pattern.h"

#include <string.h>

enum { MAX_NODES = 512, MAX_NESTING = 32, MAX_STEPS = 10000, MAX_DEPTH = 2000, MAX_REPEAT = 1000 };

typedef enum NodeKind {
    NODE_SET,
    NODE_BEGIN,
    NODE_END,
    NODE_WORD_EDGE,
    NODE_GROUP,
    NODE_LOOK,
    NODE_REPEAT
} NodeKind;

typedef struct Node {
    NodeKind kind;
    int next; /* what follows in the sequence, -1: its end */
    /* GROUP, LOOK: first alternative (a GROUP without one is empty); REPEAT: what is repeated */
    int child;
    /* of the first node of a sequence: a GROUP holding the next alternative, or -1 */
    int alternative;
    int min, max;    /* REPEAT; max -1: no end */
    bool lazy;       /* REPEAT */
    bool negated;    /* LOOK, WORD_EDGE */
    uint64_t set[4]; /* SET: a bit per byte */
} Node;

typedef struct Pattern {
    Str text;
    size_t at;
    Node nodes[MAX_NODES];
    int n;
    int nesting;
    const char *wrong; /* what is not accepted */
} Pattern;

static int node_new(Pattern *p, NodeKind kind) {
    if (p->n == MAX_NODES) {
        p->wrong = "it is too long";
        return -1;
    }
    p->nodes[p->n] = (Node){.kind = kind, .next = -1, .child = -1, .alternative = -1};
    return p->n++;
}

static bool more(const Pattern *p) { return p->at < p->text.n; }
static char peek(const Pattern *p) { return more(p) ? p->text.p[p->at] : 0; }
static bool take(Pattern *p, const char *what) {
    if (!str_starts(str_from(p->text, p->at), str_c(what))) return false;
    p->at += strlen(what);
    return true;
}

static void set_add(uint64_t set[4], int lo, int hi) {
    for (int c = lo; c <= hi; c++) set[c >> 6] |= (uint64_t)1 << (c & 63);
}
static void set_invert(uint64_t set[4]) {
    for (int i = 0; i < 4; i++) set[i] = ~set[i];
}

/* \d \w \s and the upper-case opposites: false if c is no class. */
static bool class_add(uint64_t set[4], char c) {
    uint64_t s[4] = {0};
    if ((c | 32) == 'd') {
        set_add(s, '0', '9');
    } else if ((c | 32) == 'w') {
        set_add(s, '0', '9');
        set_add(s, 'a', 'z');
        set_add(s, 'A', 'Z');
        set_add(s, '_', '_');
        set_add(s, 128, 255);
    } else if ((c | 32) == 's') {
        set_add(s, '\t', '\r');
        set_add(s, ' ', ' ');
    } else {
        return false;
    }
    if (!(c & 32)) set_invert(s);
    for (int i = 0; i < 4; i++) set[i] |= s[i];
    return true;
}

static bool is_alnum(char c) {
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* Behind a backslash: a class or one character. */
static int escape_take(Pattern *p, uint64_t set[4]) {
    char c = peek(p);
    p->at++;
    if (class_add(set, c)) return -1;
    if (c == 0 || is_alnum(c)) p->wrong = "an escape it has is not known";
    return (unsigned char)c;
}

static void brackets_take(Pattern *p, uint64_t set[4]) {
    bool inverted = take(p, "^"), first = true;
    for (; more(p) && (first || peek(p) != ']'); first = false) {
        int lo = (unsigned char)peek(p);
        p->at++;
        if (lo == '\\') lo = escape_take(p, set);
        if (lo < 0) continue;
        int hi = lo;
        if (peek(p) == '-' && p->at + 1 < p->text.n && p->text.p[p->at + 1] != ']') {
            p->at++;
            hi = (unsigned char)peek(p);
            p->at++;
            if (hi == '\\') hi = escape_take(p, set);
            if (hi < lo) p->wrong = "a range in brackets goes backwards";
        }
        set_add(set, lo, hi);
    }
    if (!take(p, "]")) p->wrong = "a bracket is not closed";
    if (inverted) set_invert(set);
}

static int alternatives_take(Pattern *p);

static int group_take(Pattern *p) {
    int node = node_new(p, NODE_GROUP);
    if (node < 0) return -1;
    if (take(p, "?=") || take(p, "?!")) {
        p->nodes[node].kind = NODE_LOOK;
        p->nodes[node].negated = p->text.p[p->at - 1] == '!';
    } else if (!take(p, "?:") && peek(p) == '?') {
        p->wrong = "a group of a special kind is not known";
    }
    if (++p->nesting > MAX_NESTING) p->wrong = "its groups are nested too deep";
    if (p->wrong) return -1;
    int child = alternatives_take(p);
    p->nesting--;
    p->nodes[node].child = child;
    if (!take(p, ")")) p->wrong = "a group is not closed";
    return node;
}

static int atom_take(Pattern *p) {
    char c = peek(p);
    p->at++;
    if (c == '(') return group_take(p);
    NodeKind kind = c == '^' ? NODE_BEGIN : c == '$' ? NODE_END : NODE_SET;
    bool edge = c == '\\' && (peek(p) == 'b' || peek(p) == 'B');
    int node = node_new(p, edge ? NODE_WORD_EDGE : kind);
    if (node < 0 || kind != NODE_SET) return node;
    Node *n = &p->nodes[node];
    if (edge) {
        n->negated = peek(p) == 'B';
        p->at++;
    } else if (c == '\\') {
        int one = escape_take(p, n->set);
        if (one >= 0) set_add(n->set, one, one);
    } else if (c == '[') {
        brackets_take(p, n->set);
    } else if (c == '.') {
        set_add(n->set, '\n', '\n');
        set_invert(n->set);
    } else if (c == '*' || c == '+' || c == '?') {
        p->wrong = "there is nothing to repeat";
    } else {
        set_add(n->set, (unsigned char)c, (unsigned char)c);
    }
    return node;
}

/* "{m}", "{m,}", "{m,n}" */
static bool counts_take(Pattern *p, int *min, int *max) {
    size_t close = str_find_char(p->text, '}', p->at), comma;
    if (close == STR_NPOS) return false;
    Str inner = str_slice(p->text, p->at + 1, close);
    comma = str_find_char(inner, ',', 0);
    int64_t lo, hi = -1;
    Str first = comma == STR_NPOS ? inner : str_slice(inner, 0, comma);
    if (!str_to_i64(first, &lo)) return false;
    if (comma == STR_NPOS)
        hi = lo;
    else if (comma + 1 < inner.n && !str_to_i64(str_from(inner, comma + 1), &hi))
        return false;
    if (lo < 0 || lo > MAX_REPEAT || hi > MAX_REPEAT || (hi >= 0 && hi < lo))
        p->wrong = "a repeat count is out of range";
    *min = (int)lo;
    *max = (int)hi;
    p->at = close + 1;
    return true;
}

static int repeat_take(Pattern *p) {
    int atom = atom_take(p), min, max;
    if (atom < 0 || p->wrong) return atom;
    if (take(p, "*")) {
        min = 0, max = -1;
    } else if (take(p, "+")) {
        min = 1, max = -1;
    } else if (take(p, "?")) {
        min = 0, max = 1;
    } else if (peek(p) != '{' || !counts_take(p, &min, &max)) {
        return atom;
    }
    int node = node_new(p, NODE_REPEAT);
    if (node < 0) return -1;
    Node *n = &p->nodes[node];
    n->child = atom;
    n->min = min;
    n->max = max;
    n->lazy = take(p, "?");
    if (strchr("*+?", peek(p)) && more(p)) p->wrong = "a repetition is repeated";
    return node;
}

/* A sequence begins with an empty GROUP, which carries the link to the next alternative. */
static int alternatives_take(Pattern *p) {
    int first = -1, *link = &first;
    do {
        int head = node_new(p, NODE_GROUP), last = head;
        if (head < 0) return -1;
        *link = head;
        link = &p->nodes[head].alternative;
        while (more(p) && peek(p) != '|' && peek(p) != ')' && !p->wrong) {
            int node = repeat_take(p);
            if (node < 0) return first;
            p->nodes[last].next = node;
            last = node;
        }
    } while (!p->wrong && take(p, "|"));
    return first;
}

typedef struct Cont { /* what is to be matched behind the node's child */
    int node;
    int count;    /* REPEAT: rounds begun */
    size_t start; /* of this round */
    const struct Cont *up;
} Cont;

typedef struct Match {
    const Pattern *p;
    Str name;
    int n_steps, depth;
    bool spent;
} Match;

static bool run(Match *m, int node, size_t at, const Cont *k);

static bool any_alternative(Match *m, int first, size_t at, const Cont *k) {
    for (int i = first; i >= 0; i = m->p->nodes[i].alternative)
        if (run(m, i, at, k)) return true;
    return false;
}

static bool rounds(Match *m, int node, int count, size_t at, const Cont *up) {
    const Node *n = &m->p->nodes[node];
    const Cont again = {node, count + 1, at, up};
    if (n->lazy && count >= n->min && run(m, n->next, at, up)) return true;
    if ((n->max < 0 || count < n->max) && run(m, n->child, at, &again)) return true;
    return !n->lazy && count >= n->min && run(m, n->next, at, up);
}

static bool follow(Match *m, size_t at, const Cont *k) {
    if (!k) return true;
    const Node *n = &m->p->nodes[k->node];
    /* A round that took nothing would go on for ever. */
    if (n->kind == NODE_REPEAT && at != k->start) return rounds(m, k->node, k->count, at, k->up);
    return run(m, n->next, at, k->up);
}

static bool is_word(Str s, size_t i) { return i < s.n && (is_alnum(s.p[i]) || s.p[i] == '_'); }

static bool step(Match *m, int node, size_t at, const Cont *k) {
    const Node *n = &m->p->nodes[node];
    Str s = m->name;
    switch (n->kind) {
    case NODE_SET: {
        unsigned c = at < s.n ? (unsigned char)s.p[at] : 0;
        return at < s.n && (n->set[c >> 6] >> (c & 63) & 1) && run(m, n->next, at + 1, k);
    }
    case NODE_BEGIN:
        return at == 0 && run(m, n->next, at, k);
    case NODE_END:
        return at == s.n && run(m, n->next, at, k);
    case NODE_WORD_EDGE: {
        bool edge = (at > 0 && is_word(s, at - 1)) != is_word(s, at);
        return edge != n->negated && run(m, n->next, at, k);
    }
    case NODE_GROUP: {
        if (n->child < 0) return run(m, n->next, at, k);
        const Cont behind = {node, 0, at, k};
        return any_alternative(m, n->child, at, &behind);
    }
    case NODE_LOOK:
        return any_alternative(m, n->child, at, NULL) != n->negated && run(m, n->next, at, k);
    case NODE_REPEAT:
        return rounds(m, node, 0, at, k);
    }
    return false;
}

static bool run(Match *m, int node, size_t at, const Cont *k) {
    if (m->spent || ++m->n_steps > MAX_STEPS || m->depth >= MAX_DEPTH) {
        m->spent = true;
        return false;
    }
    m->depth++;
    bool ok = node < 0 ? follow(m, at, k) : step(m, node, at, k);
    m->depth--;
    return ok;
}

bool namepattern_match(Str pattern, Str name, bool *matched, Err *err) {
    Pattern p = {.text = pattern};
    int first = alternatives_take(&p);
    if (!p.wrong && p.at < p.text.n) p.wrong = "a group is closed that was not opened";
    if (p.wrong)
        return err_set(err, ERR_UNSUPPORTED, "pattern \"" STR_F "\": %s", STR_A(pattern), p.wrong);
    Match m = {.p = &p, .name = name};
    *matched = any_alternative(&m, first, 0, NULL);
    if (m.spent)
        return err_set(err, ERR_LIMIT, "pattern \"" STR_F "\" takes too long on " STR_F,
                       STR_A(pattern), STR_A(name));
    return true;
}
