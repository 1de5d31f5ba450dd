/* reply_core.h: what a reply in progress is made of, and the small moves the machines of
 * toolcall_*.c are written in. Internal to the reply splitter; others include reply.h.
 *
 *     in:   [ ... consumed ... | mark ... at | ... not looked at ... ]
 *
 * While a machine reads a call, `mark` is where the piece began that becomes text again if it is
 * no call. Decisions are made on bytes that are there, never on where a piece ended: that is
 * what makes every cut give the same events. So a move that needs more says STEP_MORE and is
 * repeated when more has come. */
#ifndef MLXCEL_CHAT_REPLY_CORE_H
#define MLXCEL_CHAT_REPLY_CORE_H

#include "chat/reply.h"
#include "chat/toolcall.h"
#include "chat/toolcall_json.h"
#include "chat/toolcall_python.h"

enum {
    /* Machine states below CALL_XML and CALL_BODY are the format's own; the shared machines
     * number theirs from here. */
    CALL_BODY = 64,
    CALL_XML = 96,
    TOOL_LIST_ARGS = 3,      /* toolcall_list(): behind "NAME(" */
    REPLY_HEADER_MAX = 1024, /* longest header, name or key that is looked at */
    REPLY_WS_MAX = 1 << 16,  /* white space held back; more is passed on */
    CALL_NEST = 8            /* wrappers around a JSON call */
};

typedef struct Call { /* the call being read */
    unsigned char state;
    unsigned char field;  /* which member of a JSON call */
    bool open;            /* CALL_BEGIN was sent */
    bool started;         /* the argument object's text was begun */
    bool silent;          /* read but not reported (Cohere's directly-answer) */
    bool bare;            /* no mark began it: only the exact shape counts */
    int n_args, n_done;   /* members of this call; calls of this section */
    char nest[CALL_NEST]; /* open wrappers of a JSON call */
    int n_nest;
    size_t value;              /* offset in `in` of the value being read */
    size_t args, n_args_bytes; /* arguments that came before the name: where; 0 bytes = none */
    JsonPush json;
    PyPush py;
    Buf name, id, key, type;
    const Json *schema, *property;
} Call;

struct Reply {
    const ToolFormat *format;
    const Reasoning *reasoning;
    bool reasoning_raw; /* reasoning "none": it stays in the answer */
    bool calls_on;
    Str bare; /* bytes that begin a call without a mark; empty if calls are off */
    const Json *tools;
    size_t max_call_bytes;
    ReplySink *sink;
    void *arg;

    Buf in;
    size_t at, mark, seek;       /* seek: a search from `at` has seen bytes before this offset */
    size_t space_from, space_to; /* the white space passed last */
    bool eof, in_call;

    bool in_reasoning, at_start, start_used;
    bool first[3][256]; /* by place (start, content, reasoning): a mark may begin with this byte */
    bool trim[2]; /* by kind (content, reasoning): white space before the next text is dropped */
    bool any[2];  /* some text of the kind was sent */
    Buf space[2]; /* white space held back behind it */

    Call c;
    int n_calls;
    ReplyKind out_kind;
    Buf out;     /* text of out_kind not yet sent */
    bool failed; /* sticky */
    Err *err;    /* of the reply_feed() going on */
    Buf scratch;
};

/* Moves over the input (reply_input.c). */
static inline bool reply_is_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
bool reply_peek(Reply *r, unsigned char *c); /* the byte at `at`, if it is there */
/* Passes white space; the next byte, if it is there. */
bool reply_skip_space(Reply *r, unsigned char *c);
Step reply_take(Reply *r, Str literal); /* NEXT: consumed; REJECT: something else stands there */
int reply_take_any(Reply *r, const Str *literals, size_t n); /* index, REPLY_NONE or REPLY_WAIT */
/* Reads up to the nearest of the ends, at most REPLY_HEADER_MAX bytes: out is what lies before
 * it (valid until the input moves), the end is consumed. Index of the end, REPLY_NONE if there
 * is none near enough, REPLY_WAIT. */
int reply_until(Reply *r, const Str *ends, size_t n, Str *out);
enum { REPLY_NONE = -1, REPLY_WAIT = -2 };
static inline Str reply_text(const Reply *r, size_t from, size_t to) {
    return to > from ? (Str){r->in.p + from, to - from} : STR_NONE;
}
/* Offset of the first possible mark at or behind `at`, for values that stream up to `end`: bytes
 * before it are plain. *whole: the end stands there in full. */
size_t reply_plain(Reply *r, Str end, bool *whole);

void reply_clear(Reply *r, Buf *b); /* empties b; that it failed before is not forgotten */

/* Text and calls going out (reply_output.c). */
void reply_put(Reply *r, ReplyKind kind, Str text);
void reply_put_space(Reply *r); /* at the end: white space behind the answer is part of it */
/* Another message of the kind follows: a line break between the two. */
void reply_join(Reply *r, bool reasoning);
void reply_think(Reply *r, bool on);    /* the text that follows is (no more) reasoning */
void reply_keep(Reply *r);              /* what was read so far is settled: mark = at */
bool call_name_set(Reply *r, Str name); /* false: not a name */
void call_open(Reply *r);
void call_args(Reply *r, Str json);
void reply_send(Reply *r, bool last);        /* what waits; last: half characters too */
void call_fail(Reply *r, Str raw, bool cut); /* no call after all: raw is its text */
void call_end(Reply *r);                     /* complete; a call never opened is dropped */
void call_reset(Reply *r, unsigned char state);
Step call_go(Reply *r, unsigned char state); /* sets the state, STEP_NEXT */

/* Channel formats: where the prompt left off. True if the tail says so (in_call, in_reasoning,
 * state are set). */
bool toolcall_resume(Reply *r, Str prompt_tail);

/* The formats' own machines. */
ToolMachine toolcall_tagged, toolcall_glm, toolcall_m3, toolcall_gemma, toolcall_list,
    toolcall_llama3, toolcall_mistral, toolcall_deepseek, toolcall_kimi_k2, toolcall_kimi_k3,
    toolcall_functionary_v3_1, toolcall_functionary_v3_2, toolcall_command_r, toolcall_harmony,
    toolcall_atem;

/* Shared machines. */
Step toolcall_body(Reply *r); /* toolcall_body.c: states from CALL_BODY */
Step toolcall_xml(Reply *r);  /* toolcall_xml.c: states from CALL_XML */
/* One JSON object of arguments at `at`, streamed: NEXT when complete. Opens the call at its
 * first byte. */
Step toolcall_args(Reply *r);
/* The rest of the reply is the source text of one string argument; never ends before the reply
 * does. */
Step toolcall_code(Reply *r, Str key);
/* Begins the next member of the arguments (and the object, with the first one): "key": is sent,
 * c.property looked up. */
void toolcall_member(Reply *r, Str key);
void toolcall_members_end(Reply *r); /* "}" and call_end() */
/* The text up to `end` as the member's value, typed by its schema (strings stream). as_string:
 * whatever the schema says; as_json: JSON or else a string. NEXT when the end was consumed. The
 * value begins at c.value. */
typedef enum ToolTyped { TOOL_BY_SCHEMA, TOOL_STRING, TOOL_JSON } ToolTyped;
Step toolcall_text_value(Reply *r, Str end, bool strip_newline, ToolTyped typed);

#endif
