/* json_reader.h: the pull parser under json.h. One event per call, no tree, no copy of strings
 * without escapes.
 *
 * The text may come in pieces: when one is used up, json_next() gives JSON_EV_MORE and the next
 * is fed; a token cut by a piece's end is kept inside. Strict RFC 8259; UTF-8 and escapes are
 * checked before a string is handed out. Duplicate names are the caller's business. A reader
 * over one whole text allocates nothing.
 *
 *     JsonReader r;
 *     JsonToken t;
 *     if (!json_reader_open(&r, text, NULL, err)) return false;
 *     while ((ok = json_next(&r, &t, err)) && t.event != JSON_EV_END) ...
 *     json_reader_deinit(&r);
 *
 * t.raw is valid until the next json_next() or, when the token lies inside one piece, as long as
 * that piece. */
#ifndef MLXCEL_JSON_JSON_READER_H
#define MLXCEL_JSON_JSON_READER_H

#include "base/buf.h"
#include "json/json.h"

enum { JSON_READER_MAX_DEPTH = 1024 }; /* what JsonOptions.max_depth may ask for */

typedef enum JsonEvent {
    JSON_EV_MORE, /* feed the next piece */
    JSON_EV_END,  /* the document is complete */
    JSON_EV_OBJECT,
    JSON_EV_OBJECT_END,
    JSON_EV_ARRAY,
    JSON_EV_ARRAY_END,
    JSON_EV_KEY,
    JSON_EV_STRING,
    JSON_EV_NUMBER,
    JSON_EV_TRUE,
    JSON_EV_FALSE,
    JSON_EV_NULL
} JsonEvent;

typedef struct JsonToken {
    JsonEvent event;
    bool escaped; /* KEY, STRING: raw has backslashes, json_unescape() gives the value */
    Str raw;      /* KEY, STRING: what stands between the quotes; NUMBER and literals: as written */
    uint64_t at;  /* byte offset of the token's first byte in the document */
} JsonToken;

typedef struct JsonReader {
    const char *p; /* the current piece, n bytes, at = next byte to look at */
    size_t n, at;
    uint64_t piece_at; /* offset of the piece in the document */
    bool last;         /* no piece follows */
    bool failed;       /* sticky */
    bool strict_surrogates, python_numbers;
    unsigned char want; /* what the grammar allows next */
    int depth, max_depth;
    size_t max_bytes;
    JsonEvent token; /* the token being scanned, its start, and what was seen of it */
    uint64_t token_at;
    bool partial, high, escaped, backslash;
    Buf carry; /* bytes of a token that began in an earlier piece */
    unsigned char in_object[JSON_READER_MAX_DEPTH / 8];
} JsonReader;

void json_reader_init(JsonReader *r, const JsonOptions *opt);
/* After init or JSON_EV_MORE only. */
bool json_reader_feed(JsonReader *r, Str piece, bool last, Err *err) MUST_CHECK;
/* init, then all of the text. */
bool json_reader_open(JsonReader *r, Str text, const JsonOptions *opt, Err *err) MUST_CHECK;
void json_reader_deinit(JsonReader *r);
/* ERR_INPUT with the byte offset, ERR_LIMIT, ERR_NOMEM. */
bool json_next(JsonReader *r, JsonToken *t, Err *err) MUST_CHECK;
/* True once the outermost value is complete; what follows starts at json_reader_offset(). A
 * number at the outermost level is complete only when a byte after it has been seen. */
bool json_reader_complete(const JsonReader *r);
uint64_t json_reader_offset(const JsonReader *r);

/* For readers over one whole text. json_skip passes over the value that t began (or that follows
 * key t). */
bool json_skip(JsonReader *r, const JsonToken *t, Err *err) MUST_CHECK;
/* The next token must be `event`; `what` names the value in the message ("weight_map"). */
bool json_expect(JsonReader *r, JsonToken *t, JsonEvent event, const char *what,
                 Err *err) MUST_CHECK;
/* The decoded text of a KEY or STRING: a view of the piece when nothing is escaped, else a copy
 * in the arena. */
bool json_token_str(const JsonToken *t, Arena *a, Str *out, Err *err) MUST_CHECK;
const char *jsonevent_name(JsonEvent e); /* "object", "string", "end of an array", ... */

/* Decodes escapes that the reader has checked; out has room for raw.n bytes and may be raw.p
 * itself. Gives the bytes written. A lone surrogate becomes its 3-byte WTF-8 form. */
size_t json_unescape(Str raw, char *out);

#endif
