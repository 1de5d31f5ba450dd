/* reply.h: splits what a model writes into answer, reasoning and tool calls, as it arrives.
 *
 * The text may be fed in any pieces: the events, joined by kind, are the same for every cut.
 * Arguments stream as JSON text while they grow. What turns out to be no call comes back as text:
 * nothing is lost, and no input is an error (errors are memory, or the sink's own).
 *
 *     ReplyOptions o = {.format = STR("hermes"), .tools = tools, .sink = on_event, .arg = me};
 *     Reply *r = reply_new(&o, err);
 *     while (...) if (!reply_feed(r, piece, err)) ...
 *     reply_finish(r, REPLY_STOP, err);
 *     reply_free(r);
 *
 * The caller keeps `tools` alive; names are copied. One thread at a time. Without tools in the
 * request call marks are ordinary text, except that the channel formats (harmony, atem, kimi_k3,
 * functionary_v3_2) keep routing messages. */
#ifndef MLXCEL_CHAT_REPLY_H
#define MLXCEL_CHAT_REPLY_H

#include "base/arena.h"
#include "base/buf.h"
#include "json/json.h"

typedef enum ReplyKind {
    REPLY_CONTENT,    /* text: a piece of the answer */
    REPLY_REASONING,  /* text: a piece of the reasoning */
    REPLY_CALL_BEGIN, /* call index, name, id ("" if the format carries none) */
    REPLY_CALL_ARGS,  /* text: a piece of the arguments' JSON text */
    REPLY_CALL_END,   /* complete: the arguments are one JSON object; id again, it may come late */
    /* The call begun last is none after all. text: all of it as the model wrote it, to be shown as
     * content by whoever collects; one who streamed the arguments leaves that call open. */
    REPLY_CALL_FAIL
} ReplyKind;

typedef struct ReplyEvent {
    ReplyKind kind;
    int index;          /* CALL_*: 0, 1, ... */
    Str text, name, id; /* valid during the sink call */
    bool cut;           /* CALL_FAIL: the reply ended inside the call */
} ReplyEvent;

typedef bool ReplySink(void *arg, const ReplyEvent *ev, Err *err);

typedef enum ReplyFinish { REPLY_STOP, REPLY_LENGTH } ReplyFinish;
/* Whether call marks count; AUTO: if there are tools. */
typedef enum ReplyCalls { REPLY_CALLS_AUTO, REPLY_CALLS_ON, REPLY_CALLS_OFF } ReplyCalls;
typedef enum ReplyPhase { REPLY_IN_CONTENT, REPLY_IN_REASONING, REPLY_IN_CALL } ReplyPhase;

enum { REPLY_MAX_CALL_BYTES = 16 << 20, REPLY_MAX_CALLS = 1 << 16 };

/* Zero-initialised: think_only, no tools. reasoning: a name of reasoning.h; "" or "auto" = the
 * format's own; "none" = it stays in the answer. */
typedef struct ReplyOptions {
    Str format; /* a name of toolcall.h; "" = think_only */
    Str reasoning;
    const Json *tools; /* OpenAI "tools" array or NULL */
    ReplyCalls calls;
    Str prompt_tail;       /* end of the rendered prompt */
    bool reasoning_open;   /* the reply begins inside the thinking (prefilled), says the caller */
    size_t max_call_bytes; /* 0: REPLY_MAX_CALL_BYTES; a longer call is text */
    ReplySink *sink;
    void *arg;
} ReplyOptions;

typedef struct Reply Reply;

/* NULL: ERR_INPUT for an unknown name, saying which there are, or ERR_NOMEM. */
Reply *reply_new(const ReplyOptions *opt, Err *err);
bool reply_feed(Reply *r, Str bytes, Err *err) MUST_CHECK;
/* Once; then only reply_free(). */
bool reply_finish(Reply *r, ReplyFinish finish, Err *err) MUST_CHECK;
void reply_free(Reply *r);
/* Where the text fed so far has come to: a grammar starts when the thinking is over. */
ReplyPhase reply_phase(const Reply *r);

/* Which format and reasoning kind a chat template speaks, from its source text. Both are always
 * set. */
typedef struct ReplyDetected {
    Str format, reasoning;
} ReplyDetected;
ReplyDetected reply_detect(Str template_source);

/* The whole of a reply at once. Strings live in the arena. */
typedef struct ReplyCall {
    Str name, id, arguments; /* arguments: JSON text of an object */
} ReplyCall;
typedef struct ReplyMessage {
    Str content, reasoning; /* white space at both ends removed */
    ReplyCall *calls;
    size_t n_calls;
} ReplyMessage;

/* Feeds text in pieces of split bytes (0: at once) to a Reply with these options (sink and arg
 * are its own). */
bool reply_collect(const ReplyOptions *opt, Str text, ReplyFinish finish, size_t split, Arena *a,
                   ReplyMessage *out, Err *err) MUST_CHECK;

/* `mlxcel parse`: one line in, {"text","tools"?,"prompt_tail"?,"finish"?}, one line out,
 * {"content","reasoning","tool_calls":[{"name","arguments","id"?}]} without a line end. format
 * and reasoning as above. A line that says nothing of tools is read with all marks on and values
 * typed by their look; "tools": [] or null is a request that had none. */
bool reply_parse_line(Str format, Str reasoning, size_t split, Str line, Buf *out,
                      Err *err) MUST_CHECK;
/* Before the first line: unknown names. */
bool reply_check_names(Str format, Str reasoning, Err *err) MUST_CHECK;

#endif
