/* Moves over the bytes of a reply that are there so far. */
#include "chat/reply_core.h"

#include <string.h>

bool reply_peek(Reply *r, unsigned char *c) {
    if (r->at >= r->in.n) return false;
    *c = (unsigned char)r->in.p[r->at];
    return true;
}

/* Machines that must give the white space back come here again and again: the run passed last is
 * remembered. */
bool reply_skip_space(Reply *r, unsigned char *c) {
    size_t from = r->at;
    if (from == r->space_from && r->space_to > from)
        r->at = r->space_to < r->in.n ? r->space_to : r->in.n;
    while (reply_peek(r, c) && reply_is_space((char)*c)) r->at++;
    r->space_from = from;
    r->space_to = r->at;
    return r->at < r->in.n;
}

Step reply_take(Reply *r, Str literal) {
    size_t have = r->in.n - r->at;
    size_t n = have < literal.n ? have : literal.n;
    if (n && memcmp(r->in.p + r->at, literal.p, n)) return STEP_REJECT;
    if (n < literal.n) return r->eof ? STEP_REJECT : STEP_MORE;
    r->at += n;
    return STEP_NEXT;
}

int reply_take_any(Reply *r, const Str *literals, size_t n) {
    bool wait = false;
    for (size_t i = 0; i < n; i++) {
        Step s = reply_take(r, literals[i]);
        if (s == STEP_NEXT && !wait) return (int)i;
        if (s == STEP_NEXT) { /* an earlier literal that goes on longer has precedence */
            r->at -= literals[i].n;
            return REPLY_WAIT;
        }
        if (s == STEP_MORE) wait = true;
    }
    return wait ? REPLY_WAIT : REPLY_NONE;
}

int reply_until(Reply *r, const Str *ends, size_t n, Str *out) {
    size_t longest = 1;
    for (size_t i = 0; i < n; i++)
        if (ends[i].n > longest) longest = ends[i].n;
    size_t have = r->in.n - r->at;
    size_t near = have < REPLY_HEADER_MAX ? have : REPLY_HEADER_MAX;
    Str window = reply_text(r, r->at, r->at + near);
    size_t from = r->seek > r->at ? r->seek - r->at : 0, best = STR_NPOS;
    int which = REPLY_NONE;
    for (size_t i = 0; i < n; i++) {
        size_t found = str_find(window, ends[i], from);
        if (found < best) {
            best = found;
            which = (int)i;
        }
    }
    if (which >= 0) {
        *out = str_slice(window, 0, best);
        r->at += best + ends[which].n;
        return which;
    }
    if (have >= REPLY_HEADER_MAX || r->eof) return REPLY_NONE;
    r->seek = r->in.n - (have < longest - 1 ? have : longest - 1);
    return REPLY_WAIT;
}

size_t reply_plain(Reply *r, Str end, bool *whole) {
    size_t i = r->at;
    *whole = false;
    while (i < r->in.n) {
        const char *hit = memchr(r->in.p + i, end.p[0], r->in.n - i);
        if (!hit) return r->in.n;
        i = (size_t)(hit - r->in.p);
        size_t n = r->in.n - i < end.n ? r->in.n - i : end.n;
        if (!memcmp(hit, end.p, n)) {
            *whole = n == end.n;
            return *whole || !r->eof ? i : r->in.n;
        }
        i++;
    }
    return i;
}
