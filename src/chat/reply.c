#include "chat/reply_core.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

enum { AT_START, AT_CONTENT, AT_REASONING };
enum { REPLY_PIECE = 64 << 10, REPLY_OUT_MAX = 1 << 20 };

static void out_send(Reply *r, bool last) {
    size_t held = last ? 0 : utf8_incomplete_tail(buf_str(&r->out));
    size_t n = r->out.n - held;
    if (!n || r->failed) return;
    ReplyEvent ev = {.kind = r->out_kind, .index = r->n_calls, .text = {r->out.p, n}};
    if (!r->sink(r->arg, &ev, r->err)) r->failed = true;
    memmove(r->out.p, r->out.p + n, held);
    r->out.n = held;
}

static void event_send(Reply *r, ReplyEvent ev) {
    out_send(r, true);
    if (r->failed) return;
    ev.index = r->n_calls;
    if (!r->sink(r->arg, &ev, r->err)) r->failed = true;
}

static void out_put(Reply *r, ReplyKind kind, Str text) {
    if (!text.n) return;
    if (kind != r->out_kind || r->out.n > REPLY_PIECE) out_send(r, kind != r->out_kind);
    r->out_kind = kind;
    buf_put(&r->out, text);
}

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/* White space at the end of what was said so far is held back: it is dropped if a call or the other kind follows. */
void reply_put(Reply *r, ReplyKind kind, Str text) {
    if (kind == REPLY_REASONING && r->reasoning_raw) {
        kind = REPLY_CONTENT;
        r->trim[0] = false;
    }
    int k = kind == REPLY_REASONING;
    size_t end = text.n;
    while (end && is_space(text.p[end - 1])) end--;
    if (end) {
        size_t from = 0;
        while (r->trim[k] && is_space(text.p[from])) from++;
        out_put(r, kind, buf_str(&r->space[k]));
        buf_clear(&r->space[k]);
        r->trim[k] = false;
        r->any[k] = true;
        out_put(r, kind, str_slice(text, from, end));
    }
    if (r->trim[k]) return;
    buf_put(&r->space[k], str_from(text, end));
    if (r->space[k].n < REPLY_WS_MAX) return;
    out_put(r, kind, buf_str(&r->space[k]));
    buf_clear(&r->space[k]);
}

void reply_join(Reply *r, bool reasoning) {
    int k = reasoning && !r->reasoning_raw;
    buf_clear(&r->space[k]);
    if (r->any[k]) buf_putc(&r->space[k], '\n');
    r->trim[k] = true;
}

void reply_think(Reply *r, bool on) {
    if (on == r->in_reasoning) return;
    r->in_reasoning = on;
    r->at_start = !on;
    r->start_used = true;
    if (r->reasoning_raw) { /* channels have no marks that could be shown */
        if (!r->reasoning->n_marks) reply_put(r, REPLY_CONTENT, on ? STR("<think>\n") : STR("\n</think>\n"));
        return;
    }
    if (on) {
        if (!r->any[0]) buf_clear(&r->space[0]);
        if (r->any[1])
            reply_join(r, true);
        else
            r->trim[1] = true;
    } else {
        buf_clear(&r->space[1]);
        r->trim[0] = !r->any[0];
    }
}

bool reply_peek(Reply *r, unsigned char *c) {
    if (r->at >= r->in.n) return false;
    *c = (unsigned char)r->in.p[r->at];
    return true;
}

bool reply_skip_space(Reply *r, unsigned char *c) {
    while (reply_peek(r, c) && is_space((char)*c)) r->at++;
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
    Str window = {r->in.p + r->at, have < REPLY_HEADER_MAX ? have : REPLY_HEADER_MAX};
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

void reply_keep(Reply *r) { r->mark = r->at; }

void call_reset(Reply *r, unsigned char state) {
    Call *c = &r->c;
    Buf name = c->name, id = c->id, key = c->key, type = c->type;
    int n_done = c->n_done;
    *c = (Call){.state = state, .n_done = n_done, .name = name, .id = id, .key = key, .type = type};
    buf_clear(&c->name);
    buf_clear(&c->id);
    buf_clear(&c->key);
    buf_clear(&c->type);
    r->seek = 0;
}

Step call_go(Reply *r, unsigned char state) {
    r->c.state = state;
    return STEP_NEXT;
}

bool call_name_set(Reply *r, Str name) {
    name = str_trim(name);
    buf_clear(&r->c.name);
    if (!toolcall_name_ok(name) || r->n_calls >= REPLY_MAX_CALLS) return false;
    buf_put(&r->c.name, name);
    return true;
}

void call_open(Reply *r) {
    Call *c = &r->c;
    c->schema = toolcall_schema(r->tools, buf_str(&c->name));
    c->open = !c->silent;
    if (!c->open) return;
    event_send(r, (ReplyEvent){.kind = REPLY_CALL_BEGIN, .name = buf_str(&c->name), .id = buf_str(&c->id)});
}

void call_args(Reply *r, Str json) {
    if (r->c.open) out_put(r, REPLY_CALL_ARGS, json);
}

void call_end(Reply *r) {
    Call *c = &r->c;
    if (c->open) {
        event_send(r, (ReplyEvent){.kind = REPLY_CALL_END, .id = buf_str(&c->id)});
        r->n_calls++;
        buf_clear(&r->space[0]);
        r->trim[0] = !r->any[0];
    }
    c->open = c->started = c->silent = false;
    c->n_args = 0;
    c->args = c->n_args_bytes = 0;
    c->n_done++;
    c->schema = c->property = NULL;
    buf_clear(&c->name);
    buf_clear(&c->id);
    reply_keep(r);
}

/* What the machine read since the mark is no call: it is text again. */
static void reject(Reply *r, bool cut) {
    if (r->at == r->mark && r->at < r->in.n) r->at++; /* the mark itself must not be found again */
    Str raw = reply_text(r, r->mark, r->at);
    if (r->c.open) {
        buf_clear(&r->scratch);
        buf_put(&r->scratch, buf_str(&r->space[0]));
        buf_put(&r->scratch, raw);
        event_send(r, (ReplyEvent){.kind = REPLY_CALL_FAIL, .text = buf_str(&r->scratch), .cut = cut});
        buf_clear(&r->space[0]);
        r->n_calls++;
        r->any[0] = true;
        r->trim[0] = false;
    } else {
        reply_put(r, r->in_reasoning ? REPLY_REASONING : REPLY_CONTENT, raw);
    }
    r->in_call = false;
    r->at_start = false;
    call_reset(r, 0);
}

static bool mark_counts(const Reply *r, const Mark *m, int place) {
    if (m->act == MARK_CALL && !r->calls_on) return false;
    if (m->act == MARK_OPEN && place == AT_START && r->start_used && !(m->where & MARK_IN_CONTENT)) return false;
    return m->where & (1 << place);
}

static const Mark *mark_at(const Reply *r, size_t i) {
    if (i < r->reasoning->n_marks) return &r->reasoning->marks[i];
    i -= r->reasoning->n_marks;
    return i < r->format->n_marks ? &r->format->marks[i] : NULL;
}

/* The mark at offset at: *found the longest that stands there in full. True if a longer one may still come. */
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
    case MARK_STRIP: break;
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
        while (i < r->in.n && is_space(r->in.p[i])) i++;
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

static Step call_step(Reply *r) {
    if (r->c.state >= CALL_XML) return toolcall_xml(r);
    if (r->c.state >= CALL_BODY) return toolcall_body(r);
    return r->format->machine(r);
}

/* One step inside a call. False: waits for more. */
static bool scan_call(Reply *r) {
    switch (call_step(r)) {
    case STEP_NEXT: return true;
    case STEP_TEXT:
        r->in_call = false;
        call_reset(r, 0);
        return true;
    case STEP_REJECT: reject(r, false); return true;
    default: break;
    }
    if (r->eof)
        r->at = r->in.n;
    else if (r->in.n - r->mark <= r->max_call_bytes)
        return false;
    reject(r, r->eof);
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
    r->c.value -= r->c.value < gone ? r->c.value : gone;
    r->c.args -= r->c.args < gone ? r->c.args : gone;
}

static bool settled(Reply *r) {
    const Buf *all[] = {&r->in, &r->out, &r->scratch, &r->space[0], &r->space[1],
                        &r->c.name, &r->c.id, &r->c.key, &r->c.type};
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
    if (settled(r)) out_send(r, false);
    r->err = NULL;
    return !r->failed;
}

bool reply_finish(Reply *r, ReplyFinish finish, Err *err) {
    (void)finish; /* what is complete counts and what is cut is text, whatever ended the reply */
    if (r->failed) return err_set(err, ERR_INTERNAL, "a reply that failed before was finished");
    r->err = err;
    r->eof = true;
    run(r);
    if (!r->in_reasoning && !r->trim[0]) out_put(r, REPLY_CONTENT, buf_str(&r->space[0]));
    if (settled(r)) out_send(r, true);
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
    err_set(err, ERR_INPUT, "unknown %s \"" STR_F "\"; there are %s", what, STR_A(name), buf_cstr(&list));
    buf_deinit(&list);
    return false;
}

static bool names_find(Str format, Str reasoning, const ToolFormat **f, const Reasoning **k, bool *raw, Err *err) {
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
    if (!names_find(opt->format, opt->reasoning, &r->format, &r->reasoning, &r->reasoning_raw, err)) return false;
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
    if (opt->reasoning_open || reasoning_opened_by(r->reasoning, opt->prompt_tail)) reply_think(r, true);
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
    Buf *all[] = {&r->in, &r->out, &r->scratch, &r->space[0], &r->space[1],
                  &r->c.name, &r->c.id, &r->c.key, &r->c.type};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) buf_deinit(all[i]);
    mem_free(r);
}
