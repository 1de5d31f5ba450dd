/* toolcall_json.h: a JSON value checked byte by byte, for arguments that stream. It keeps no
 * text, only a state and a stack of one bit per level. RFC 8259 with one leniency: control
 * characters inside strings (models write raw line breaks); jsonpush_put() escapes them on the
 * way out.
 *
 *     JsonPush jp = {0};
 *     for (...) switch (jsonpush(&jp, byte)) { case PUSH_MORE: ... case PUSH_DONE: ... } */
#ifndef MLXCEL_CHAT_TOOLCALL_JSON_H
#define MLXCEL_CHAT_TOOLCALL_JSON_H

#include "base/buf.h"

typedef enum Push {
    PUSH_MORE,
    PUSH_DONE,        /* the byte was the last one of the value */
    PUSH_DONE_BEFORE, /* the value was complete before this byte, which is not part of it */
    PUSH_BAD
} Push;

enum { JSON_PUSH_DEPTH = 128 };

typedef struct JsonPush { /* zero-initialised: expects a value */
    unsigned char state;
    unsigned char n_hex;
    bool in_key;
    const char *word; /* rest of true, false, null */
    int depth;
    unsigned char object[JSON_PUSH_DEPTH / 8];
} JsonPush;

Push jsonpush(JsonPush *jp, unsigned char c);
bool jsonpush_in_string(const JsonPush *jp);
bool jsonpush_number_done(const JsonPush *jp); /* a bare number that may end here */
void jsonpush_put(Buf *out, unsigned char c, bool in_string);

/* The whole of s is one JSON value (white space around it is allowed). */
bool jsonpush_valid(Str s);
bool jsonpush_text(Buf *out,
                   Str s); /* as jsonpush_valid(), and puts it; on false out is as it was */
/* Puts text as the inside of a JSON string: quotes, backslashes and control characters escaped. */
void jsonpush_escape(Buf *out, Str text);

#endif
