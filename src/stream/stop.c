#include "stream/stop.h"

#include "base/mem.h"
#include "base/utf8.h"

static Str string_at(const StopSet *set, size_t i) {
    return (Str){set->text.p + set->from[i], set->from[i + 1] - set->from[i]};
}

static uint32_t child_of(const StopSet *set, uint32_t node, unsigned char byte) {
    uint32_t c = set->node[node].child;
    while (c && set->node[c].byte != byte) c = set->node[c].sibling;
    return c;
}

/* Where a byte leads: follow failures until a path goes on. Failures shorten the path, so a scan of
 * n bytes takes at most 2n steps of this loop. */
static uint32_t next_node(const StopSet *set, uint32_t node, unsigned char byte) {
    for (;;) {
        uint32_t c = child_of(set, node, byte);
        if (c || node == 0) return c;
        node = set->node[node].fail;
    }
}

static void add_string(StopSet *set, uint32_t i) {
    Str s = string_at(set, i);
    uint32_t at = 0;
    for (size_t j = 0; j < s.n; j++) {
        unsigned char byte = (unsigned char)s.p[j];
        uint32_t c = child_of(set, at, byte);
        if (!c) {
            c = (uint32_t)set->n_nodes++;
            set->node[c] = (StopNode){.sibling = set->node[at].child,
                                      .depth = (uint32_t)j + 1,
                                      .pattern = i,
                                      .byte = byte};
            set->node[at].child = c;
        }
        at = c;
    }
    set->node[at].ends = i + 1; /* its own string is the longest that can end here */
}

/* Breadth first, so that a node's failure, which is shorter, is known before it is needed. queue
 * has n_nodes entries. */
static void link_failures(StopSet *set, uint32_t *queue) {
    size_t head = 0, tail = 0;
    for (uint32_t c = set->node[0].child; c; c = set->node[c].sibling) queue[tail++] = c;
    while (head < tail) {
        uint32_t at = queue[head++];
        StopNode *n = &set->node[at];
        if (!n->ends) n->ends = set->node[n->fail].ends;
        for (uint32_t c = n->child; c; c = set->node[c].sibling) {
            set->node[c].fail = next_node(set, n->fail, set->node[c].byte);
            queue[tail++] = c;
        }
    }
}

static bool check_strings(const Str *strings, size_t n, size_t *total, Err *err) {
    if (n > STOP_STRINGS_MAX)
        return err_set(err, ERR_LIMIT, "stop has %zu strings, at most %d are accepted", n,
                       STOP_STRINGS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (strings[i].n == 0 || strings[i].n > STOP_BYTES_MAX)
            return err_set(err, ERR_INPUT, "stop[%zu] has %zu bytes, 1 to %d are accepted", i,
                           strings[i].n, STOP_BYTES_MAX);
        if (!utf8_valid(strings[i]))
            return err_set(err, ERR_INPUT, "stop[%zu] is not valid UTF-8, only text is accepted",
                           i);
        *total += strings[i].n;
    }
    return true;
}

bool stop_init(StopSet *set, const Str *strings, size_t n, Err *err) {
    *set = (StopSet){0};
    size_t total = 0;
    if (!check_strings(strings, n, &total, err)) return false;
    set->node = mem_calloc(total + 1, sizeof *set->node);
    set->from = mem_calloc(n + 1, sizeof *set->from);
    uint32_t *queue = mem_calloc(total + 1, sizeof *queue);
    for (size_t i = 0; set->from && i < n; i++) {
        buf_put(&set->text, strings[i]);
        set->from[i + 1] = set->from[i] + strings[i].n;
    }
    if (!set->node || !set->from || !queue || set->text.failed) {
        mem_free(queue);
        stop_deinit(set);
        return err_nomem(err, "stop strings");
    }
    set->n = n;
    set->n_nodes = 1;
    for (size_t i = 0; i < n; i++) add_string(set, (uint32_t)i);
    link_failures(set, queue);
    mem_free(queue);
    return true;
}

void stop_deinit(StopSet *set) {
    mem_free(set->node);
    mem_free(set->from);
    buf_deinit(&set->text);
    *set = (StopSet){0};
}

size_t stop_held(const StopSet *set, const StopScan *scan) {
    return set->n ? set->node[scan->node].depth : 0;
}

/* The first n bytes of the held text followed by piece. */
static void emit(const StopSet *set, uint32_t held, Str piece, size_t n, Buf *out) {
    Str path =
        held ? (Str){string_at(set, set->node[held].pattern).p, set->node[held].depth} : STR_NONE;
    buf_put(out, str_slice(path, 0, n));
    if (n > path.n) buf_put(out, str_slice(piece, 0, n - path.n));
}

bool stop_feed(const StopSet *set, StopScan *scan, Str piece, Buf *out, Str *matched) {
    if (set->n == 0) {
        buf_put(out, piece);
        return false;
    }
    uint32_t held = scan->node, at = held;
    size_t n_held = set->node[held].depth;
    for (size_t i = 0; i < piece.n; i++) {
        at = next_node(set, at, (unsigned char)piece.p[i]);
        if (!set->node[at].ends) continue;
        *matched = string_at(set, set->node[at].ends - 1);
        emit(set, held, piece, n_held + i + 1 - matched->n, out);
        scan->node = 0;
        return true;
    }
    scan->node = at;
    emit(set, held, piece, n_held + piece.n - set->node[at].depth, out);
    return false;
}

void stop_flush(const StopSet *set, StopScan *scan, Buf *out) {
    emit(set, scan->node, STR_NONE, stop_held(set, scan), out);
    scan->node = 0;
}
