/* Calls whose name stands in a header of its own and whose arguments are one JSON object:
 * Mistral, DeepSeek, Kimi K2, Functionary, Llama 3, Command R. */
#include "chat/reply_core.h"

/* A header up to one of the ends; REJECT where there is none. */
static Step header(Reply *r, const Str *ends, size_t n, Str *out, int *which) {
    *which = reply_until(r, ends, n, out);
    return *which >= 0 ? STEP_NEXT : *which == REPLY_WAIT ? STEP_MORE : STEP_REJECT;
}

static bool is_name_byte(char c) { return toolcall_name_ok((Str){&c, 1}); }

/* Offset behind the run of name bytes at `at`; STR_NPOS if it may go on. */
static size_t name_end(const Reply *r) {
    size_t i = r->at;
    while (i < r->in.n && i - r->at < REPLY_HEADER_MAX && is_name_byte(r->in.p[i])) i++;
    return i < r->in.n || r->eof ? i : STR_NPOS;
}

static Step then(Reply *r, Step s, unsigned char state) {
    return s == STEP_NEXT ? call_go(r, state) : s;
}

Step toolcall_code(Reply *r, Str key) {
    Call *c = &r->c;
    if (!c->started) {
        if (!c->open) call_open(r);
        toolcall_member(r, key);
        call_args(r, STR("\""));
        c->started = true;
    }
    reply_clear(r, &r->scratch);
    jsonpush_escape(&r->scratch, reply_text(r, r->at, r->in.n));
    call_args(r, buf_str(&r->scratch));
    r->at = r->in.n;
    if (!r->eof) return STEP_MORE;
    call_args(r, STR("\""));
    toolcall_members_end(r);
    return STEP_TEXT;
}

/* Behind complete arguments: one of the marks, which is consumed if `take`; the end of the reply
 * will do too. */
static Step finish_call(Reply *r, const Str *closes, size_t n, bool take) {
    unsigned char b;
    size_t before = r->at;
    if (reply_skip_space(r, &b)) {
        size_t from = r->at;
        int which = reply_take_any(r, closes, n);
        if (which == REPLY_WAIT) return STEP_MORE;
        if (which == REPLY_NONE) return STEP_REJECT;
        if (!take) r->at = from;
    } else if (!r->eof) {
        r->at = before;
        return STEP_MORE;
    }
    call_end(r);
    return STEP_TEXT;
}

/* [TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{...}, or a JSON list (mistral_nemo). Calls follow each other
 * with marks of their own. */
Step toolcall_mistral(Reply *r) {
    enum { BEGIN, NAME, ID, ARGS };
    static const Str ends[] = {{"[ARGS]", 6}, {"[CALL_ID]", 9}, {"{", 1}};
    Call *c = &r->c;
    unsigned char b;
    Str text;
    int which;
    Step s;
    switch (c->state) {
    case BEGIN:
        if (!reply_skip_space(r, &b)) return STEP_MORE;
        return call_go(r, b == '[' || b == '{' ? CALL_BODY : NAME);
    case NAME:
        if ((s = header(r, ends, 3, &text, &which)) != STEP_NEXT) return s;
        if (!call_name_set(r, text)) return STEP_REJECT;
        if (which == 2) r->at--;
        return call_go(r, which == 1 ? ID : ARGS);
    case ID:
        if ((s = header(r, ends, 1, &text, &which)) != STEP_NEXT) return s;
        buf_put(&c->id, str_trim(text));
        return call_go(r, ARGS);
    default:
        if ((s = toolcall_args(r)) != STEP_NEXT) return s;
        call_end(r);
        return STEP_TEXT;
    }
}

/* Sections: open, call, header, arguments, call end, ..., section end. DeepSeek's tags come in
 * several spellings, since distilled models write them as ordinary text. */
#define DS(name)                                                                                   \
    { "<｜" name "｜>", sizeof("<｜" name "｜>") - 1 }
static const Str ds_call[] = {DS("tool▁call▁begin"), DS("tool_call_begin"), DS("tool call begin")};
static const Str ds_sep[] = {DS("tool▁sep"), DS("tool_sep"), DS("tool sep")};
static const Str ds_call_end[] = {DS("tool▁call▁end"), DS("tool_call_end"), DS("tool call end")};
static const Str ds_end[] = {DS("tool▁calls▁end"), DS("tool_calls_end"), DS("tool calls end")};

/* Between calls of a section. True: *out is what to do; false: a call's own opening was passed. */
static bool section_step(Reply *r, const Str *call, size_t n_call, const Str *end, size_t n_end,
                         Step *out) {
    unsigned char b;
    size_t before = r->at;
    bool some = r->c.n_done > 0;
    *out = some ? STEP_TEXT : STEP_REJECT;
    if (!reply_skip_space(r, &b)) {
        if (!r->eof) *out = STEP_MORE;
        r->at = before;
        return true;
    }
    int opened = reply_take_any(r, call, n_call);
    if (opened >= 0) return false;
    int closed = reply_take_any(r, end, n_end);
    if (closed >= 0 && some) {
        reply_keep(r);
    } else if (closed < 0) {
        if (opened == REPLY_WAIT || closed == REPLY_WAIT) *out = STEP_MORE;
        r->at = before;
    }
    return true;
}

Step toolcall_deepseek(Reply *r) {
    enum { SECTION, HEAD, NAME, FENCE, ARGS, CLOSE };
    static const Str newline = {"\n", 1}, fences[] = {{"```json", 7}, {"```", 3}};
    Call *c = &r->c;
    unsigned char b;
    Str text;
    int which;
    Step s;
    switch (c->state) {
    case SECTION:
        return section_step(r, ds_call, 3, ds_end, 3, &s) ? s : call_go(r, HEAD);
    case HEAD: /* V3.1 has the name here; V3 and R1 "function", and the name behind the separator */
        if ((s = header(r, ds_sep, 3, &text, &which)) != STEP_NEXT) return s;
        return call_name_set(r, text) ? call_go(r, NAME) : STEP_REJECT;
    case NAME:
        if (!reply_skip_space(r, &b)) return STEP_MORE;
        if (b == '{' || b == '`') return call_go(r, FENCE);
        if ((s = header(r, &newline, 1, &text, &which)) != STEP_NEXT) return s;
        return call_name_set(r, text) ? call_go(r, FENCE) : STEP_REJECT;
    case FENCE:
        if (!reply_skip_space(r, &b)) return STEP_MORE;
        if (b != '{' && (which = reply_take_any(r, fences, 2)) < 0)
            return which == REPLY_WAIT ? STEP_MORE : STEP_REJECT;
        return call_go(r, ARGS);
    case ARGS:
        return then(r, toolcall_args(r), CLOSE);
    default:
        if (reply_skip_space(r, &b) && b == '`' && (s = reply_take(r, fences[1])) != STEP_NEXT)
            return s;
        s = finish_call(r, ds_call_end, 3, true);
        return s == STEP_TEXT ? call_go(r, SECTION) : s;
    }
}

Step toolcall_kimi_k2(Reply *r) {
    enum { SECTION, HEAD, ARGS, CLOSE };
    static const Str call = {"<|tool_call_begin|>", 19}, arg = {"<|tool_call_argument_begin|>", 28},
                     closes[] = {{"<|tool_call_end|>", 17},
                                 {"<|tool_calls_section_end|>", 26},
                                 {"<|tool_call_section_end|>", 25}},
                     *end = closes + 1;
    Call *c = &r->c;
    unsigned char b;
    Str text;
    int which;
    Step s;
    switch (c->state) {
    case SECTION:
        if (!section_step(r, &call, 1, end, 2, &s)) return call_go(r, HEAD);
        /* A section may hold one call without marks of its own. */
        return s == STEP_REJECT && reply_skip_space(r, &b) && is_name_byte((char)b)
                   ? call_go(r, HEAD)
                   : s;
    case HEAD: { /* functions.NAME:INDEX, which is the call's id as well */
        if ((s = header(r, &arg, 1, &text, &which)) != STEP_NEXT) return s;
        Str id = str_trim(text), name = id;
        size_t colon = str_rfind(name, STR(":"));
        uint64_t index;
        if (colon != STR_NPOS && str_to_u64(str_from(name, colon + 1), &index))
            name = str_slice(name, 0, colon);
        if (str_starts(name, STR("functions."))) name = str_from(name, 10);
        reply_clear(r, &c->id);
        buf_put(&c->id, id);
        return call_name_set(r, name) ? call_go(r, ARGS) : STEP_REJECT;
    }
    case ARGS:
        return then(r, toolcall_args(r), CLOSE);
    default:
        s = finish_call(r, closes, 3, true);
        if (s != STEP_TEXT || str_ends(reply_text(r, 0, r->at), STR("_section_end|>"))) return s;
        return call_go(r, SECTION);
    }
}

/* <function=NAME>{...}</function>; <|python_tag|>SOURCE is a call of the python tool. */
Step toolcall_functionary_v3_1(Reply *r) {
    enum { NAME, ARGS, CLOSE, CODE };
    static const Str gt = {">", 1}, close = {"</function>", 11};
    Str text;
    int which;
    Step s;
    switch (r->c.state) {
    case NAME:
        if ((s = header(r, &gt, 1, &text, &which)) != STEP_NEXT) return s;
        return call_name_set(r, text) ? call_go(r, ARGS) : STEP_REJECT;
    case ARGS:
        return then(r, toolcall_args(r), CLOSE);
    case CLOSE:
        return finish_call(r, &close, 1, true);
    default:
        if (!r->c.name.n && !call_name_set(r, STR("python"))) return STEP_REJECT;
        return toolcall_code(r, STR("code"));
    }
}

/* >>>all TEXT, >>>NAME {...}: every message says its recipient in its first line. */
Step toolcall_functionary_v3_2(Reply *r) {
    enum { BEGIN, HEAD, FIRST, ARGS, CLOSE, CODE };
    static const Str newline = {"\n", 1}, next = {">>>", 3};
    Call *c = &r->c;
    unsigned char b;
    Str text;
    int which;
    Step s;
    switch (c->state) {
    case BEGIN: { /* no mark yet: "all" or a name alone in the first line will do */
        if (!reply_peek(r, &b)) return r->eof ? STEP_TEXT : STEP_MORE;
        if (b == '>' && (s = reply_take(r, next)) != STEP_REJECT) return then(r, s, HEAD);
        size_t end = name_end(r);
        if (end == STR_NPOS) return STEP_MORE;
        if (end == r->at || end >= r->in.n || r->in.p[end] != '\n') return STEP_TEXT;
        return call_go(r, HEAD);
    }
    case HEAD:
        if ((s = header(r, &newline, 1, &text, &which)) != STEP_NEXT) return s;
        if (text.n && text.p[0] == ' ') return STEP_REJECT; /* a Python prompt */
        if (str_eqc(str_trim(text), "all")) {
            reply_keep(r);
            reply_join(r, false);
            return STEP_TEXT;
        }
        return r->calls_on && call_name_set(r, text) ? call_go(r, FIRST) : STEP_REJECT;
    case FIRST:
        if (!reply_skip_space(r, &b)) return STEP_MORE;
        if (b == '{') return call_go(r, ARGS);
        if (!toolcall_known(r->tools, buf_str(&c->name)) && !str_eqc(buf_str(&c->name), "python"))
            return STEP_REJECT;
        return call_go(r, CODE);
    case ARGS:
        return then(r, toolcall_args(r), CLOSE);
    case CLOSE:
        return finish_call(r, &next, 1, false);
    default:
        return toolcall_code(r, STR("code"));
    }
}

/* <|python_tag|>{"name": ...}, <|python_tag|>NAME.call(KEY=VALUE, ...), <|python_tag|>SOURCE;
 * also without the tag. */
Step toolcall_llama3(Reply *r) {
    enum { TAG, WORD, CODE, LIST };
    static const char *const code_tools[] = {"python", "code_interpreter", "ipython"};
    Call *c = &r->c;
    unsigned char b;
    switch (c->state) {
    case TAG:
        c->bare =
            true; /* as strict about the shape as without the tag, and more calls may follow */
        if (!reply_skip_space(r, &b)) return STEP_MORE;
        return call_go(r, b == '{' || b == '[' ? CALL_BODY : WORD);
    case WORD: {
        size_t end = name_end(r);
        if (end == STR_NPOS) return STEP_MORE;
        Str word = reply_text(r, r->at, end);
        if (end < r->in.n && r->in.p[end] == '(' && str_ends(word, STR(".call"))) {
            if (!call_name_set(r, str_slice(word, 0, word.n - 5))) return STEP_REJECT;
            r->at = end + 1;
            return call_go(r, TOOL_LIST_ARGS);
        }
        return call_go(r, CODE);
    }
    case CODE:
        for (int i = 0; i < 3 && !c->name.n; i++)
            if (toolcall_known(r->tools, str_c(code_tools[i])) &&
                !call_name_set(r, str_c(code_tools[i])))
                return STEP_REJECT;
        return c->name.n ? toolcall_code(r, STR("code")) : STEP_REJECT;
    default:
        return toolcall_list(r);
    }
}

/* Action: and a JSON list, usually fenced; or a name and "Action Input: {...}". */
Step toolcall_command_r(Reply *r) {
    enum { BEGIN, NAME, INPUT, ARGS };
    static const Str newline = {"\n", 1}, input = {"Action Input:", 13},
                     fences[] = {{"```json", 7}, {"```", 3}};
    unsigned char b;
    Str text;
    int which;
    Step s;
    if (r->c.state != NAME && r->c.state != ARGS && !reply_skip_space(r, &b)) return STEP_MORE;
    switch (r->c.state) {
    case BEGIN:
        if (b == '[' || b == '{') return call_go(r, CALL_BODY);
        which = reply_take_any(r, fences, 2);
        if (which >= 0) return call_go(r, CALL_BODY);
        return which == REPLY_WAIT ? STEP_MORE : call_go(r, NAME);
    case NAME:
        if ((s = header(r, &newline, 1, &text, &which)) != STEP_NEXT) return s;
        return call_name_set(r, text) ? call_go(r, INPUT) : STEP_REJECT;
    case INPUT:
        return then(r, reply_take(r, input), ARGS);
    default:
        if ((s = toolcall_args(r)) != STEP_NEXT) return s;
        call_end(r);
        return STEP_TEXT;
    }
}
