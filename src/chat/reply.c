#include "chat/reply_core.h"

#include <string.h>

#include "base/mem.h"

enum { AT_START, AT_CONTENT, AT_REASONING };
enum { REPLY_PIECE = 64 << 10 }; /* bytes of input taken at a time */

/* What the machine read since the mark is no call: it is text again. */
static void reject(Reply *r, bool cut) {
    if (r->at == r->mark && r->at < r->in.n) r->at++; /* the mark itself must not be found again */
    Str raw = reply_text(r, r->mark, r->at);
    if (r->c.open)
        call_fail(r, raw, cut);
    else
        reply_put(r, r->in_reasoning ? REPLY_REASONING : REPLY_CONTENT, raw);
    r->in_call = false;
    r->at_start = false;
    call_reset(r, 0);
}

static bool mark_counts(const Reply *r, const Mark *m, int place) {
    if (m->act == MARK_CALL && !r->calls_on) return false;
    if (m->act == MARK_OPEN && place == AT_START && r->start_used && !(m->where & MARK_IN_CONTENT))
        return false;
    return m->where & (1 << place);
}

static const Mark *mark_at(const Reply *r, size_t i) {
    if (i < r->reasoning->n_marks) return &r->reasoning->marks[i];
    i -= r->reasoning->n_marks;
    return i < r->format->n_marks ? &r->format->marks[i] : NULL;
}

/* The mark at offset at: *found the longest that stands there in full. True if a longer one may
 * still come. */
static bool mark_find(const Reply *r, size_t at, int place, const Mark **found) {
    Str have = reply_text(r, at, r->in.n);
    size_t longest = 0, possible = 0;
    const Mark *m;
    *found = NULL;
    for (size_t i = 0; (m = mark_at(r, i)); i++) {
        if (!mark_counts(r, m, place)) continue;
        if (m->text.n > longest && str_starts(have, m->text)) {
            *found = m;
            longest = m->text.n;
        } else if (m->text.n > have.n && m->text.n > possible && str_starts(m->text, have)) {
            possible = m->text.n;
        }
    }
    return possible > longest && !r->eof;
}

static void mark_apply(Reply *r, const Mark *m, size_t at) {
    r->at = at + m->text.n;
    switch ((MarkAct)m->act) {
    case MARK_OPEN:
        if (r->reasoning_raw) reply_put(r, REPLY_CONTENT, m->text);
        reply_think(r, true);
        break;
    case MARK_CLOSE:
        if (r->reasoning_raw) reply_put(r, REPLY_CONTENT, m->text);
        reply_think(r, false);
        break;
    case MARK_CLOSE_CALL:
        r->at = at;
        reply_think(r, false);
        break;
    case MARK_STRIP:
        break;
    case MARK_CALL:
    case MARK_ROUTE:
        r->in_call = r->start_used = true;
        r->at_start = false;
        r->mark = at;
        call_reset(r, m->state);
        r->c.n_done = 0;
        break;
    }
}

/* Text up to the next mark. False: the rest waits for more. */
static bool scan_text(Reply *r) {
    ReplyKind kind = r->in_reasoning ? REPLY_REASONING : REPLY_CONTENT;
    int place = r->in_reasoning ? AT_REASONING : AT_CONTENT;
    size_t i = r->at;
    if (r->at_start) {
        while (i < r->in.n && reply_is_space(r->in.p[i])) i++;
        reply_put(r, kind, reply_text(r, r->at, i));
        r->at = i;
        if (i == r->in.n) return false;
        const Mark *m;
        if (mark_find(r, i, AT_START, &m)) return false;
        if (m) {
            mark_apply(r, m, i);
            return true;
        }
        r->at_start = false;
        r->start_used = true;
        if (str_find_char(r->bare, r->in.p[i], 0) != STR_NPOS) {
            r->in_call = true;
            r->mark = i;
            call_reset(r, r->format->bare_state);
            r->c.n_done = 0;
            r->c.bare = true;
            return true;
        }
    }
    const bool *first = r->first[place];
    for (; i < r->in.n; i++) {
        if (!first[(unsigned char)r->in.p[i]]) continue;
        const Mark *m;
        bool wait = mark_find(r, i, place, &m);
        if (!wait && !m) continue;
        reply_put(r, kind, reply_text(r, r->at, i));
        r->at = i;
        if (wait) return false;
        mark_apply(r, m, i);
        return true;
    }
    reply_put(r, kind, reply_text(r, r->at, i));
    r->at = i;
    return false;
}

/* A machine sees no more of a call than its limit, so that one too long is given up at the same
 * byte however it came. */
static Step call_step(Reply *r, bool *full) {
    size_t n = r->in.n, limit = r->mark + r->max_call_bytes;
    bool eof = r->eof;
    *full = n > limit;
    if (*full) {
        r->in.n = limit;
        r->eof = false;
    }
    Step s = r->c.state >= CALL_XML    ? toolcall_xml(r)
             : r->c.state >= CALL_BODY ? toolcall_body(r)
                                       : r->format->machine(r);
    r->in.n = n;
    r->eof = eof;
    return s;
}

/* One step inside a call. False: waits for more. */
static bool scan_call(Reply *r) {
    bool full;
    switch (call_step(r, &full)) {
    case STEP_NEXT:
        return true;
    case STEP_TEXT:
        r->in_call = false;
        call_reset(r, 0);
        return true;
    case STEP_REJECT:
        reject(r, false);
        return true;
    default:
        break;
    }
    if (!full && !r->eof) return false;
    if (!full) r->at = r->in.n;
    reject(r, !full);
    return true;
}

static void run(Reply *r) {
    while (!r->failed && (r->in_call || r->at < r->in.n))
        if (!(r->in_call ? scan_call(r) : scan_text(r))) break;
}

/* Forgets consumed input. Offsets of the call in progress move along. */
static void compact(Reply *r) {
    size_t gone = r->in_call ? r->mark : r->at;
    if (!gone) return;
    memmove(r->in.p, r->in.p + gone, r->in.n - gone);
    r->in.n -= gone;
    r->at -= gone;
    r->mark -= r->mark < gone ? r->mark : gone;
    r->seek -= r->seek < gone ? r->seek : gone;
    bool known = r->space_from >= gone;
    r->space_from = known ? r->space_from - gone : 0;
    r->space_to = known ? r->space_to - gone : 0;
    r->c.value -= r->c.value < gone ? r->c.value : gone;
    r->c.args -= r->c.args < gone ? r->c.args : gone;
}

static bool settled(Reply *r) {
    const Buf *all[] = {&r->in,     &r->out,  &r->scratch, &r->space[0], &r->space[1],
                        &r->c.name, &r->c.id, &r->c.key,   &r->c.type};
    for (size_t i = 0; i < sizeof all / sizeof *all && !r->failed; i++)
        if (!buf_check(all[i], "a reply in progress", r->err)) r->failed = true;
    return !r->failed;
}

bool reply_feed(Reply *r, Str bytes, Err *err) {
    if (r->failed) return err_set(err, ERR_INTERNAL, "a reply that failed before was fed again");
    r->err = err;
    while (bytes.n && !r->failed) {
        Str piece = str_slice(bytes, 0, REPLY_PIECE);
        bytes = str_from(bytes, piece.n);
        buf_put(&r->in, piece);
        if (!settled(r)) break;
        run(r);
        compact(r);
    }
    if (settled(r)) reply_send(r, false);
    r->err = NULL;
    return !r->failed;
}

bool reply_finish(Reply *r, ReplyFinish finish, Err *err) {
    (void)finish; /* what is complete counts and what is cut is text, whatever ended the reply */
    if (r->failed) return err_set(err, ERR_INTERNAL, "a reply that failed before was finished");
    r->err = err;
    r->eof = true;
    run(r);
    reply_put_space(r);
    if (settled(r)) reply_send(r, true);
    r->err = NULL;
    return !r->failed;
}

ReplyPhase reply_phase(const Reply *r) {
    if (r->in_call) return REPLY_IN_CALL;
    return r->in_reasoning ? REPLY_IN_REASONING : REPLY_IN_CONTENT;
}

static bool name_error(const char *what, Str name, bool formats, Err *err) {
    Buf list = {.max = 4096};
    for (size_t i = 0;; i++) {
        const ToolFormat *f = formats ? toolcall_at(i) : NULL;
        const Reasoning *k = formats ? NULL : reasoning_at(i);
        if (!f && !k) break;
        if (i) buf_put(&list, STR(", "));
        buf_put(&list, f ? f->name : k->name);
    }
    err_set(err, ERR_INPUT, "unknown %s \"" STR_F "\"; there are %s", what, STR_A(name),
            buf_cstr(&list));
    buf_deinit(&list);
    return false;
}

static bool names_find(Str format, Str reasoning, const ToolFormat **f, const Reasoning **k,
                       bool *raw, Err *err) {
    if (!format.n) format = STR("think_only");
    *f = toolcall_find(format);
    if (!*f) return name_error("reply format", format, true, err);
    /* llama-server's names for "split it off" are understood too. */
    bool automatic = !reasoning.n || str_eqc(reasoning, "auto") || str_eqc(reasoning, "deepseek") ||
                     str_eqc(reasoning, "deepseek-legacy");
    *raw = str_eqc(reasoning, "none");
    *k = reasoning_find(automatic || *raw ? str_c((*f)->reasoning) : reasoning);
    return *k || name_error("reasoning kind", reasoning, false, err);
}

bool reply_check_names(Str format, Str reasoning, Err *err) {
    const ToolFormat *f;
    const Reasoning *k;
    bool raw;
    return names_find(format, reasoning, &f, &k, &raw, err);
}

static void marks_index(Reply *r) {
    const Mark *m;
    for (size_t i = 0; (m = mark_at(r, i)); i++)
        for (int place = 0; place < 3; place++)
            if (m->where & (1 << place)) r->first[place][(unsigned char)m->text.p[0]] = true;
}

static bool begin(Reply *r, const ReplyOptions *opt, Err *err) {
    bool have_tools = json_is(opt->tools, JSON_ARRAY) && opt->tools->n;
    if (!names_find(opt->format, opt->reasoning, &r->format, &r->reasoning, &r->reasoning_raw, err))
        return false;
    r->calls_on = opt->calls == REPLY_CALLS_ON || (opt->calls == REPLY_CALLS_AUTO && have_tools);
    if (r->calls_on) r->bare = str_c(r->format->bare);
    r->tools = opt->tools;
    r->max_call_bytes = opt->max_call_bytes ? opt->max_call_bytes : REPLY_MAX_CALL_BYTES;
    r->sink = opt->sink;
    r->arg = opt->arg;
    r->in.max = r->max_call_bytes + (2 << 20);
    r->at_start = true;
    marks_index(r);
    if (r->format->channels) {
        r->in_call = true;
        r->at_start = false;
        if (toolcall_resume(r, opt->prompt_tail)) return true;
    }
    if (opt->reasoning_open || reasoning_opened_by(r->reasoning, opt->prompt_tail))
        reply_think(r, true);
    return true;
}

Reply *reply_new(const ReplyOptions *opt, Err *err) {
    Reply *r = mem_calloc(1, sizeof *r);
    if (!r) {
        err_nomem(err, "a reply");
        return NULL;
    }
    r->err = err;
    if (begin(r, opt, err)) return r;
    reply_free(r);
    return NULL;
}

void reply_free(Reply *r) {
    if (!r) return;
    Buf *all[] = {&r->in,     &r->out,  &r->scratch, &r->space[0], &r->space[1],
                  &r->c.name, &r->c.id, &r->c.key,   &r->c.type};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) buf_deinit(all[i]);
    mem_free(r);
}
