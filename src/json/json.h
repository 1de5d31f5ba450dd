/* json.h: JSON as an arena tree. Keeps member order, number text and duplicate-key policy; strings are decoded UTF-8.
 * The pull parser underneath (json_reader.h) is resumable and is what large or streamed documents use; the writer is
 * json_writer.h. RFC 8259 and nothing more: no comments, no NaN, no trailing commas, no BOM.
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

typedef enum JsonType { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonType;
typedef enum JsonDup { JSON_DUP_REFUSE, JSON_DUP_LAST, JSON_DUP_KEEP } JsonDup; /* KEEP: all members stay, in order */

typedef struct Json {
    JsonType type;
    Str key;            /* when a member of an object: its decoded name */
    Str text;           /* STRING: decoded value (a lone surrogate becomes its 3-byte WTF-8 form); NUMBER: as written */
    struct Json *items; /* ARRAY: n elements; OBJECT: n members, in order of appearance */
    size_t n;
} Json;

typedef struct JsonOptions { /* zero fields mean the default */
    int max_depth;         /* 128 */
    size_t max_bytes;      /* of text; 256 MiB */
    JsonDup dup;           /* JSON_DUP_REFUSE */
    bool strict_surrogates; /* refuse \ud800 without its other half, as a checker of files does; false keeps it */
    bool python_numbers;    /* also NaN, Infinity, -Infinity, which Python writes: NUMBER nodes that json_f64() refuses */
} JsonOptions;

bool json_parse(Str text, const JsonOptions *opt, Arena *a, Json **out, Err *err) MUST_CHECK; /* ERR_INPUT with byte offset */

/* Is text one valid document? Strict about surrogates, silent about duplicate names; allocates nothing. */
bool json_check(Str text, const JsonOptions *opt, Err *err) MUST_CHECK;

const Json *json_get(const Json *object, const char *key); /* NULL if absent or not an object; the last of duplicates */
const Json *json_find(const Json *object, Str key);
const Json *json_at(const Json *array, size_t i);          /* NULL if out of range or not an array */
bool json_is(const Json *j, JsonType type);                /* false for NULL */
bool json_bool(const Json *j, bool *out);                  /* the getters: false if j is NULL or of another type/range */
bool json_i64(const Json *j, int64_t *out);                /* a number that is an integer: 3, -7, 1e3 and 2.0 too */
bool json_f64(const Json *j, double *out);
bool json_str(const Json *j, Str *out);
const char *jsontype_name(JsonType t);                     /* "object", "number", "boolean", ... */

#endif
