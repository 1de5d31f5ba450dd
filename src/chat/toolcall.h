/* toolcall.h: the tool-call formats. A format is a row of a table: its name, the reasoning kind
 * that goes with it, the marks that begin a call, and the machine (toolcall_*.c) that reads what
 * follows. Families that share a grammar share a machine; what differs is a descriptor.
 *
 * The machines see the reply through reply_core.h. Adding a format is a row here, marks, and
 * rarely a machine. */
#ifndef MLXCEL_CHAT_TOOLCALL_H
#define MLXCEL_CHAT_TOOLCALL_H

#include "base/buf.h"
#include "chat/reasoning.h"
#include "json/json.h"

struct Reply;

/* What a machine says after one step. */
typedef enum Step {
    STEP_MORE,   /* cannot go on without more input; at the end of the reply the call is cut */
    STEP_NEXT,   /* went on; call again */
    STEP_REJECT, /* this is no call: what was read since the last mark is text */
    STEP_TEXT    /* the call section is complete: back to text */
} Step;

typedef Step ToolMachine(struct Reply *r);

/* Descriptor of an XML-like format: <wrap><call NAME>(<param KEY> VALUE
 * </param>)*</call></wrap>. */
typedef struct ToolXml {
    Str wrap_close[2];         /* closes the section of calls; the second one is another spelling */
    Str call_open, call_close; /* "<function=", "</function>"; the name ends at '>' */
    Str param_open, param_close; /* "<parameter=", "</parameter>" */
    bool quoted;                 /* names stand in attributes: name="..." */
    bool strip_newline;          /* one line break at each end of a value is layout */
} ToolXml;

enum { TOOL_CLOSE_MAX = 6 };

/* Descriptor of a format whose call is a JSON object, or a list of them. */
typedef struct ToolBody {
    Str close
        [TOOL_CLOSE_MAX]; /* marks that may stand behind the calls; the first is "" if none does */
    bool optional;        /* the closing mark may be missing in the middle of a reply too */
    bool keyed;           /* {"name": {arguments}} */
    bool no_op;           /* Cohere's directly-answer tool means that there is no call */
} ToolBody;

typedef struct ToolFormat {
    Str name;
    const char *reasoning; /* default kind */
    const Mark *marks;
    size_t n_marks;
    const char *bare; /* bytes that may begin an answer that is a call without a mark; or NULL */
    unsigned char bare_state;
    ToolMachine *machine;
    const ToolBody *body; /* for toolcall_body() */
    const ToolXml *xml;   /* for toolcall_xml() */
    const Str *tags;      /* for the machine: marks inside a call, in its own order */
    bool channels;        /* the machine routes whole messages; runs from the first byte */
} ToolFormat;

const ToolFormat *toolcall_find(Str name); /* NULL if there is none of that name */
const ToolFormat *toolcall_at(size_t i);   /* NULL past the end */

/* The "parameters" schema of a tool of an OpenAI "tools" array (flat entries and "input_schema"
 * too); NULL if unknown. */
bool toolcall_known(const Json *tools, Str name);
const Json *toolcall_schema(const Json *tools, Str name);
const Json *toolcall_property(const Json *schema, Str key); /* schema of one parameter, or NULL */

/* A name that any client can carry: 1..256 bytes, letters, digits, _ - . : / and anything beyond
 * ASCII. */
bool toolcall_name_ok(Str name);

/* Puts the text of a parameter as JSON, typed by its schema (NULL: by its look). A string stays
 * a string, numbers keep their text, Python's words and literals are understood, and what fits
 * no type stays a string. */
void toolcall_value_put(Buf *out, Str text, const Json *schema);
bool toolcall_is_string(const Json *schema); /* the schema allows strings and nothing else */

#endif
