/* What leaves a reply: text by kind, white space held back at its edges, calls. */
#include "chat/reply_core.h"

#include <string.h>

#include "base/utf8.h"

enum { REPLY_OUT_PIECE = 64 << 10 }; /* a piece of text that is sent before the feed ends */

void reply_clear(Reply *r, Buf *b) {
    if (!r->failed && !buf_check(b, "a reply in progress", r->err)) r->failed = true;
    buf_clear(b);
}

void reply_send(Reply *r, bool last) {
    size_t held = last ? 0 : utf8_incomplete_tail(buf_str(&r->out));
    size_t n = r->out.n - held;
    if (!n || r->failed) return;
    ReplyEvent ev = {.kind = r->out_kind, .index = r->n_calls, .text = {r->out.p, n}};
    if (!r->sink(r->arg, &ev, r->err)) r->failed = true;
    memmove(r->out.p, r->out.p + n, held);
    r->out.n = held;
}

static void event_send(Reply *r, ReplyEvent ev) {
    reply_send(r, true);
    if (r->failed) return;
    ev.index = r->n_calls;
    if (!r->sink(r->arg, &ev, r->err)) r->failed = true;
}

static void out_put(Reply *r, ReplyKind kind, Str text) {
    if (!text.n) return;
    if (kind != r->out_kind || r->out.n > REPLY_OUT_PIECE) reply_send(r, kind != r->out_kind);
    r->out_kind = kind;
    buf_put(&r->out, text);
}

/* White space at the end of what was said so far is held back: it is dropped if a call or the
 * other kind follows. */
void reply_put(Reply *r, ReplyKind kind, Str text) {
    if (kind == REPLY_REASONING && r->reasoning_raw) {
        kind = REPLY_CONTENT;
        r->trim[0] = false;
    }
    int k = kind == REPLY_REASONING;
    size_t end = text.n;
    while (end && reply_is_space(text.p[end - 1])) end--;
    if (end) {
        size_t from = 0;
        while (r->trim[k] && reply_is_space(text.p[from])) from++;
        out_put(r, kind, buf_str(&r->space[k]));
        reply_clear(r, &r->space[k]);
        r->trim[k] = false;
        r->any[k] = true;
        out_put(r, kind, str_slice(text, from, end));
    }
    if (r->trim[k]) return;
    buf_put(&r->space[k], str_from(text, end));
    if (r->space[k].n < REPLY_WS_MAX) return;
    out_put(r, kind, buf_str(&r->space[k]));
    reply_clear(r, &r->space[k]);
}

void reply_put_space(Reply *r) {
    if (!r->in_reasoning && !r->trim[0]) out_put(r, REPLY_CONTENT, buf_str(&r->space[0]));
}

void reply_join(Reply *r, bool reasoning) {
    int k = reasoning && !r->reasoning_raw;
    reply_clear(r, &r->space[k]);
    if (r->any[k]) buf_putc(&r->space[k], '\n');
    r->trim[k] = true;
}

void reply_think(Reply *r, bool on) {
    if (on == r->in_reasoning) return;
    r->in_reasoning = on;
    r->at_start = !on;
    r->start_used = true;
    if (r->reasoning_raw) { /* channels have no marks that could be shown */
        if (!r->reasoning->n_marks)
            reply_put(r, REPLY_CONTENT, on ? STR("<think>\n") : STR("\n</think>\n"));
        return;
    }
    if (on) {
        if (!r->any[0]) reply_clear(r, &r->space[0]);
        if (r->any[1])
            reply_join(r, true);
        else
            r->trim[1] = true;
    } else {
        reply_clear(r, &r->space[1]);
        r->trim[0] = !r->any[0];
    }
}

void reply_keep(Reply *r) { r->mark = r->at; }

void call_reset(Reply *r, unsigned char state) {
    Call *c = &r->c;
    Buf name = c->name, id = c->id, key = c->key, type = c->type;
    int n_done = c->n_done;
    *c = (Call){.state = state, .n_done = n_done, .name = name, .id = id, .key = key, .type = type};
    reply_clear(r, &c->name);
    reply_clear(r, &c->id);
    reply_clear(r, &c->key);
    reply_clear(r, &c->type);
    r->seek = 0;
}

Step call_go(Reply *r, unsigned char state) {
    r->c.state = state;
    return STEP_NEXT;
}

bool call_name_set(Reply *r, Str name) {
    name = str_trim(name);
    reply_clear(r, &r->c.name);
    if (!toolcall_name_ok(name) || r->n_calls >= REPLY_MAX_CALLS) return false;
    buf_put(&r->c.name, name);
    return true;
}

void call_open(Reply *r) {
    Call *c = &r->c;
    c->schema = toolcall_schema(r->tools, buf_str(&c->name));
    c->open = !c->silent;
    if (!c->open) return;
    event_send(r, (ReplyEvent){
                      .kind = REPLY_CALL_BEGIN, .name = buf_str(&c->name), .id = buf_str(&c->id)});
}

void call_args(Reply *r, Str json) {
    if (r->c.open) out_put(r, REPLY_CALL_ARGS, json);
}

void call_end(Reply *r) {
    Call *c = &r->c;
    if (c->open) {
        event_send(r, (ReplyEvent){.kind = REPLY_CALL_END, .id = buf_str(&c->id)});
        r->n_calls++;
        reply_clear(r, &r->space[0]);
        r->trim[0] = !r->any[0];
    }
    c->open = c->started = c->silent = false;
    c->n_args = 0;
    c->args = c->n_args_bytes = 0;
    c->n_done++;
    c->schema = c->property = NULL;
    reply_clear(r, &c->name);
    reply_clear(r, &c->id);
    reply_keep(r);
}

/* The white space held back before the call belongs to its text again. */
void call_fail(Reply *r, Str raw, bool cut) {
    reply_clear(r, &r->scratch);
    buf_put(&r->scratch, buf_str(&r->space[0]));
    buf_put(&r->scratch, raw);
    event_send(r, (ReplyEvent){.kind = REPLY_CALL_FAIL, .text = buf_str(&r->scratch), .cut = cut});
    reply_clear(r, &r->space[0]);
    r->n_calls++;
    r->any[0] = true;
    r->trim[0] = false;
}
