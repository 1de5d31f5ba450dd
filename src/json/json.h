/* json.h: JSON as an arena tree. Keeps member order, number text and duplicate-key policy;
 * strings are decoded UTF-8. The pull parser underneath (json_reader.h) is resumable and is what
 * large or streamed documents use; the writer is json_writer.h. RFC 8259 and nothing more: no
 * comments, no NaN, no trailing commas, no BOM.
 *
 *     Json *doc;
 *     if (!json_parse(text, NULL, &arena, &doc, err)) return false;
 *     const Json *v = json_get(doc, "rope_theta");
 *     double theta = 1e4;
 *     if (v && !json_f64(v, &theta)) return err_set(err, ERR_INPUT, ...);
 *
 * The tree borrows nothing from text: the caller may free it. Everything lives in the arena. */
#ifndef MLXCEL_JSON_JSON_H
#define MLXCEL_JSON_JSON_H

#include "base/arena.h"
#include "base/err.h"

typedef enum JsonType {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
} JsonType;
typedef enum JsonDup {
    JSON_DUP_REFUSE,
    JSON_DUP_LAST,
    JSON_DUP_KEEP /* all members stay, in order */
} JsonDup;

typedef struct Json {
    JsonType type;
    Str key;  /* when a member of an object: its decoded name */
    Str text; /* STRING: decoded (a lone surrogate becomes 3-byte WTF-8); NUMBER: as written */
    struct Json *items; /* ARRAY: n elements; OBJECT: n members, in order of appearance */
    size_t n;
} Json;

typedef struct JsonOptions { /* zero fields mean the default */
    int max_depth;           /* 128 */
    size_t max_bytes;        /* of text; 256 MiB */
    JsonDup dup;             /* JSON_DUP_REFUSE */
    /* Refuse \ud800 without its other half, as a checker of files does; false keeps it. */
    bool strict_surrogates;
    /* Also NaN, Infinity, -Infinity, which Python writes: NUMBER nodes that json_f64() refuses. */
    bool python_numbers;
} JsonOptions;

/* ERR_INPUT with the byte offset, ERR_LIMIT, ERR_NOMEM. */
bool json_parse(Str text, const JsonOptions *opt, Arena *a, Json **out, Err *err) MUST_CHECK;

/* Is text one valid document? Strict about surrogates, silent about duplicate names; allocates
 * nothing. */
bool json_check(Str text, const JsonOptions *opt, Err *err) MUST_CHECK;

/* Look-ups: NULL if absent or not an object; the last of duplicates. A walk over the members:
 * whoever looks up many names in a large object builds a Map. */
const Json *json_get(const Json *object, const char *key);
const Json *json_find(const Json *object, Str key);
const Json *json_at(const Json *array, size_t i); /* NULL if out of range or not an array */
bool json_is(const Json *j, JsonType type);       /* false for NULL */
/* Getters: false if j is NULL, of another type or out of range. Integers: 3, -7, 1e3 and 2.0
 * too. */
bool json_bool(const Json *j, bool *out);
bool json_i64(const Json *j, int64_t *out);
bool json_f64(const Json *j, double *out);
bool json_str(const Json *j, Str *out);
const char *jsontype_name(JsonType t); /* "object", "number", "boolean", ... */

#endif
