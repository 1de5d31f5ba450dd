/* json_writer.h: writes JSON into a Buf, commas and quotes taken care of. Errors are the Buf's
 * (sticky).
 *
 *     JsonWriter w = {.out = &buf};
 *     json_w_object(&w);
 *     json_w_key(&w, STR("ids")); json_w_array(&w); json_w_i64(&w, 3); json_w_end(&w);
 *     json_w_end(&w); */
#ifndef MLXCEL_JSON_JSON_WRITER_H
#define MLXCEL_JSON_JSON_WRITER_H

#include "base/buf.h"
#include "json/json.h"

enum { JSON_WRITER_MAX_DEPTH = 200 };

typedef struct JsonWriter {
    Buf *out;
    int indent; /* 0: one line without blanks; n: n blanks per level */
    bool ascii; /* \u-escape everything above 0x7E */
    int depth;
    bool after_key;
    bool has_item[JSON_WRITER_MAX_DEPTH];
    char closer[JSON_WRITER_MAX_DEPTH];
} JsonWriter;

void json_w_object(JsonWriter *w);
void json_w_array(JsonWriter *w);
void json_w_end(JsonWriter *w); /* closes the innermost object or array */
void json_w_key(JsonWriter *w, Str key);
void json_w_str(JsonWriter *w, Str s); /* invalid UTF-8 bytes become U+FFFD */
void json_w_i64(JsonWriter *w, int64_t v);
void json_w_u64(JsonWriter *w, uint64_t v);
/* The shortest text that reads back the same; NaN and infinities become null. */
void json_w_f64(JsonWriter *w, double v);
void json_w_f32(JsonWriter *w, float v);
void json_w_bool(JsonWriter *w, bool v);
void json_w_null(JsonWriter *w);
void json_w_raw(JsonWriter *w, Str json);          /* already JSON */
void json_w_tree(JsonWriter *w, const Json *j);    /* numbers keep their text */
void json_put_quoted(Buf *out, Str s, bool ascii); /* "..." with escapes */

#endif
