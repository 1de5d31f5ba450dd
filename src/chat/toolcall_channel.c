/* Formats whose reply is a sequence of messages, each with a header that says where it goes:
 * harmony, ATEM, Kimi K3. */
#include "chat/reply_core.h"

enum { HEADER_CUT_MAX = 128 };
enum { CH_BEGIN, CH_HEAD, CH_END, CH_ARGS, CH_ARGS_END, CH_CALLS };

static const Str message_mark = {"<|message|>", 11}, start_mark = {"<|start|>", 9},
                 channel_mark = {"<|channel|>", 11};

static bool is_word(char c) { return c != '<' && c != ' ' && c != '\n' && c != '\t' && c != '\r'; }

/* The word behind the last `before` in a header. */
static Str word_after(Str h, Str before) {
    size_t at = str_rfind(h, before);
    if (at == STR_NPOS) return STR_NONE;
    size_t from = at + before.n, end;
    for (end = from; end < h.n && is_word(h.p[end]); end++) {
    }
    return str_slice(h, from, end);
}

static void route(Reply *r, bool reasoning) {
    reply_think(r, reasoning);
    if (!reasoning) reply_join(r, false);
    r->at_start = false;
}

/* <|start|>ROLE to=RECIPIENT<|channel|>CHANNEL <|constrain|>TYPE<|message|>. True: arguments
 * follow. */
static bool harmony_header(Reply *r, Str h) {
    Str to = word_after(h, STR("to=")), name = to;
    bool analysis = str_eqc(word_after(h, channel_mark), "analysis");
    bool function = str_starts(to, STR("functions."));
    if (function) name = str_from(to, 10);
    route(r, analysis && !function);
    if (!r->calls_on || (!function && !toolcall_known(r->tools, to))) return false;
    if (!call_name_set(r, name)) return false;
    if (r->in_reasoning) route(r, false);
    return true;
}

/* to=self is thinking, to=user the answer; a tool's name announces a call, whose text brings its
 * own marks. */
static bool atem_header(Reply *r, Str h) {
    route(r, str_eqc(word_after(h, STR("to=")), "self"));
    return false;
}

typedef bool HeaderFn(Reply *r, Str header);

/* The reply was cut inside a header: nothing was said in it, so it is dropped. Longer text behind a
 * stray mark is not. */
static bool header_cut(Reply *r) {
    Str rest = reply_text(r, r->mark, r->in.n);
    if (!r->eof || rest.n > HEADER_CUT_MAX || !str_starts(rest, STR("<|"))) return false;
    if (str_find_char(rest, '\n', 0) != STR_NPOS) return false;
    r->at = r->in.n;
    return true;
}

static Step head(Reply *r, HeaderFn *apply) {
    Str h;
    r->at = r->mark;
    int which = reply_until(r, &message_mark, 1, &h);
    if (which == REPLY_NONE && header_cut(r)) return STEP_TEXT;
    if (which < 0) return which == REPLY_WAIT ? STEP_MORE : STEP_REJECT;
    buf_put(&r->c.key, h);
    bool call = apply(r, buf_str(&r->c.key));
    reply_keep(r);
    return call ? call_go(r, CH_ARGS) : STEP_TEXT;
}

/* The prompt ended inside a header: its rest comes first. A reply without any header is plain
 * text. */
static Step begin(Reply *r) {
    static const Str starts[] = {
        {"<|channel|>", 11}, {"<|start|>", 9}, {"<|message|>", 11}, {" to=", 4}, {"to=", 3}};
    int which = reply_take_any(r, starts, 5);
    if (which == REPLY_WAIT) return STEP_MORE;
    r->at = r->mark;
    if (which >= 0) return call_go(r, CH_HEAD);
    r->at_start = true;
    return STEP_TEXT;
}

Step toolcall_harmony(Reply *r) {
    static const Str ends[] = {
        {"<|call|>", 8}, {"<|end|>", 7}, {"<|return|>", 10}, {"<|start|>", 9}, {"<|channel|>", 11}};
    unsigned char b;
    size_t before;
    int which;
    Step s;
    switch (r->c.state) {
    case CH_BEGIN:
        return begin(r);
    case CH_HEAD:
        return head(r, harmony_header);
    case CH_END:
        route(r, false);
        return STEP_TEXT;
    case CH_ARGS:
        if (!r->c.started) {
            if (!reply_skip_space(r, &b)) return STEP_MORE;
            if (b == '<') { /* nothing at all between the header and the end */
                if ((s = reply_take(r, ends[0])) != STEP_NEXT) return s;
                call_open(r);
                toolcall_members_end(r);
                return STEP_TEXT;
            }
        }
        s = toolcall_args(r);
        return s == STEP_NEXT ? call_go(r, CH_ARGS_END) : s;
    default:
        before = r->at;
        if (!reply_skip_space(r, &b)) {
            if (!r->eof) return STEP_MORE;
        } else {
            before = r->at;
            which = reply_take_any(r, ends, 5);
            if (which == REPLY_WAIT) return STEP_MORE;
            if (which == REPLY_NONE) return STEP_REJECT;
            if (which > 2) r->at = before;
        }
        call_end(r);
        return STEP_TEXT;
    }
}

Step toolcall_atem(Reply *r) {
    switch (r->c.state) {
    case CH_BEGIN:
        return begin(r);
    case CH_HEAD:
        return head(r, atem_header);
    case CH_END:
        route(r, false);
        return STEP_TEXT;
    default:
        return call_go(r, CALL_XML +
                              (r->c.state != CH_CALLS)); /* the section, or a call without one */
    }
}

/* Kimi K3: <|open|>TAG k="v"<|sep|> ... <|close|>TAG<|sep|>. */
#define K3_OPEN "<|open|>"
#define K3_CLOSE "<|close|>"
#define K3_SEP "<|sep|>"
enum { K_OPEN, K_CLOSE, K_END, K_PARAM, K_ARG, K_VALUE, K_JSON, K_JSON_END, K_CALL_END, K_BEGIN };

/* The value of k="..." in a tag, with &quot; and &amp; undone, appended to out. */
static bool k3_attribute(Str tag, Str key, Buf *out) {
    size_t at = str_find(tag, key, 0);
    if (at == STR_NPOS) return false;
    size_t from = at + key.n, end = str_find_char(tag, '"', from);
    if (end == STR_NPOS) return false;
    for (Str v = str_slice(tag, from, end); v.n;) {
        bool quote = str_starts(v, STR("&quot;")), amp = str_starts(v, STR("&amp;"));
        buf_putc(out, quote ? '"' : v.p[0]);
        v = str_from(v, quote ? 6 : amp ? 5 : 1);
    }
    return true;
}

static Step k3_tag(Reply *r, Str *tag) {
    static const Str sep = {K3_SEP, sizeof(K3_SEP) - 1};
    int which = reply_until(r, &sep, 1, tag);
    return which >= 0 ? STEP_NEXT : which == REPLY_WAIT ? STEP_MORE : STEP_REJECT;
}

static Step k3_open(Reply *r) {
    Str tag, word;
    Step s = k3_tag(r, &tag);
    if (s == STEP_REJECT && header_cut(r)) return STEP_TEXT;
    if (s != STEP_NEXT) return s;
    Str rest = str_trim(tag);
    str_split(&rest, ' ', &word);
    bool think = str_eqc(word, "think"), response = str_eqc(word, "response");
    if (str_eqc(word, "call") && r->calls_on) {
        if (!k3_attribute(tag, STR(" tool=\""), &r->c.key)) return STEP_REJECT;
        if (!call_name_set(r, buf_str(&r->c.key))) return STEP_REJECT;
        call_open(r);
        return call_go(r, K_PARAM);
    }
    if (!think && !response && !str_eqc(word, "tools") && !str_eqc(word, "message"))
        return STEP_REJECT;
    if (think || response) route(r, think);
    return STEP_TEXT;
}

static Step k3_close(Reply *r) {
    Str tag;
    Step s = k3_tag(r, &tag);
    if (s == STEP_REJECT && header_cut(r)) return STEP_TEXT;
    if (s != STEP_NEXT) return s;
    tag = str_trim(tag);
    if (str_eqc(tag, "think")) route(r, false);
    static const char *const known[] = {"think", "response", "tools", "message",
                                        "call",  "argument", "json"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_eqc(tag, known[i])) return STEP_TEXT;
    return STEP_REJECT;
}

static Step k3_argument(Reply *r) {
    Str tag;
    Step s = k3_tag(r, &tag);
    if (s != STEP_NEXT) return s;
    Call *c = &r->c;
    if (str_starts(tag, STR("json"))) {
        if (c->n_args) return STEP_REJECT;
        c->started = false;
        reply_keep(r); /* what is not JSON comes back without the tags around it */
        return call_go(r, K_JSON);
    }
    reply_clear(r, &c->key);
    reply_clear(r, &c->type);
    if (!str_starts(tag, STR("argument ")) || !k3_attribute(tag, STR(" key=\""), &c->key))
        return STEP_REJECT;
    bool typed = k3_attribute(tag, STR(" type=\""), &c->type);
    toolcall_member(r, buf_str(&c->key));
    c->field = !typed                                 ? TOOL_BY_SCHEMA
               : str_eqc(buf_str(&c->type), "string") ? TOOL_STRING
                                                      : TOOL_JSON;
    return call_go(r, K_VALUE);
}

static Step k3_param(Reply *r) {
    static const Str next[] = {{K3_OPEN, sizeof(K3_OPEN) - 1},
                               {K3_CLOSE "call" K3_SEP, sizeof(K3_CLOSE "call" K3_SEP) - 1}};
    unsigned char b;
    if (!reply_skip_space(r, &b)) return STEP_MORE;
    switch (reply_take_any(r, next, 2)) {
    case 0:
        return call_go(r, K_ARG);
    case 1:
        toolcall_members_end(r);
        return STEP_TEXT;
    case REPLY_WAIT:
        return STEP_MORE;
    default:
        return STEP_REJECT;
    }
}

static Step k3_take(Reply *r, Str literal, unsigned char state) {
    unsigned char b;
    if (!reply_skip_space(r, &b)) return STEP_MORE;
    Step s = reply_take(r, literal);
    return s == STEP_NEXT ? call_go(r, state) : s;
}

Step toolcall_kimi_k3(Reply *r) {
    Step s;
    switch (r->c.state) {
    case K_OPEN:
        return k3_open(r);
    case K_CLOSE:
        return k3_close(r);
    case K_PARAM:
        return k3_param(r);
    case K_ARG:
        return k3_argument(r);
    case K_VALUE:
        s = toolcall_text_value(r, STR(K3_CLOSE "argument" K3_SEP), false, (ToolTyped)r->c.field);
        return s == STEP_NEXT ? call_go(r, K_PARAM) : s;
    case K_JSON:
        s = toolcall_args(r);
        return s == STEP_NEXT ? call_go(r, K_JSON_END) : s;
    case K_JSON_END:
        return k3_take(r, STR(K3_CLOSE "json" K3_SEP), K_CALL_END);
    case K_CALL_END:
        s = k3_take(r, STR(K3_CLOSE "call" K3_SEP), K_CALL_END);
        if (s != STEP_NEXT) return s;
        call_end(r);
        return STEP_TEXT;
    default:
        return STEP_TEXT; /* K_END, K_BEGIN: nothing to read */
    }
}

static bool tail_resume(Reply *r, Str tail, HeaderFn *apply) {
    size_t start = str_rfind(tail, start_mark);
    if (start == STR_NPOS) return true;
    Str head_text = str_from(tail, start + start_mark.n);
    size_t message = str_find(head_text, message_mark, 0);
    if (message != STR_NPOS) {
        bool call = apply(r, str_slice(head_text, 0, message));
        r->in_call = call;
        call_go(r, call ? CH_ARGS : 0);
        return true;
    }
    buf_put(&r->c.key, head_text);
    bool inside = str_find(head_text, channel_mark, 0) != STR_NPOS ||
                  str_find(head_text, STR(" to="), 0) != STR_NPOS;
    call_go(r, inside ? CH_HEAD : CH_BEGIN);
    return true;
}

bool toolcall_resume(Reply *r, Str prompt_tail) {
    Str tail = str_trim(prompt_tail);
    if (r->format->machine == toolcall_harmony) return tail_resume(r, tail, harmony_header);
    if (r->format->machine == toolcall_atem) return tail_resume(r, tail, atem_header);
    if (r->format->machine == toolcall_functionary_v3_2) {
        call_go(r, str_ends(tail, STR(">>>")));
        return true;
    }
    r->in_call = false;
    r->at_start = !str_ends(tail, STR(K3_OPEN "think" K3_SEP));
    if (!r->at_start) route(r, true);
    return true;
}
