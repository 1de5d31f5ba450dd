/* References within a schema document: JSON pointers (RFC 6901), anchors, and $id as base URI (RFC
 * 3986 section 5, the parts that occur in schemas). */
#include <string.h>

#include "base/buf.h"
#include "sample/grammar/grammar_schema.h"

enum { REF_MAX_RESOURCES = 256, REF_MAX_DEPTH = 120 };

static bool has_scheme(Str s) {
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == ':') return i > 0;
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (i && ((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.'))))
            return false;
    }
    return false;
}

/* ref (without fragment) against base. */
static Str uri_resolve(Schema *s, Str base, Str ref) {
    if (has_scheme(ref) || !base.n) return ref;
    if (!ref.n) return base;
    size_t authority = str_find(base, STR("://"), 0), keep;
    if (str_starts(ref, STR("/"))) {
        keep = authority == STR_NPOS ? 0 : str_find_char(base, '/', authority + 3);
        if (keep == STR_NPOS) keep = base.n;
    } else {
        size_t slash = str_rfind(base, STR("/"));
        keep =
            slash == STR_NPOS || (authority != STR_NPOS && slash < authority + 3) ? 0 : slash + 1;
    }
    while (str_starts(ref, STR("./"))) ref = str_from(ref, 2);
    char *p = arena_alloc(s->w->arena, keep + ref.n + 1);
    if (!p) return ref;
    if (keep) memcpy(p, base.p, keep);
    if (ref.n) memcpy(p + keep, ref.p, ref.n);
    return (Str){p, keep + ref.n};
}

static Str without_fragment(Str uri) {
    size_t hash = str_find_char(uri, '#', 0);
    return hash == STR_NPOS ? uri : str_slice(uri, 0, hash);
}

/* Places that hold data, not schemas. */
static bool is_data_keyword(Str key) {
    return str_eqc(key, "enum") || str_eqc(key, "const") || str_eqc(key, "default") ||
           str_eqc(key, "examples") || str_eqc(key, "example");
}

/* Notes every subschema with an $id. in_map: the members of json are named by users (properties,
 * $defs), not keywords. */
static bool resources_find(Schema *s, const Json *json, uint32_t resource, bool in_map, int depth) {
    if (depth > REF_MAX_DEPTH)
        return work_fail(s->w, ERR_LIMIT, "the schema is nested more than %d deep", REF_MAX_DEPTH);
    if (!work_spend(s->w, json->n + 1)) return false;
    const Json *id = !in_map && json->type == JSON_OBJECT ? json_get(json, "$id") : NULL;
    if (id && id->type == JSON_STRING && (json != s->root)) {
        if (s->n_resources == REF_MAX_RESOURCES)
            return work_fail(s->w, ERR_LIMIT, "the schema has more than %d $id", REF_MAX_RESOURCES);
        Str uri = uri_resolve(s, s->resources[resource].uri, without_fragment(id->text));
        s->resources[s->n_resources] =
            (SchemaResource){.uri = uri, .root = json, .parent = resource};
        resource = s->n_resources++;
    }
    if (json->type != JSON_OBJECT && json->type != JSON_ARRAY) return true;
    for (size_t i = 0; i < json->n; i++) {
        const Json *kid = &json->items[i];
        if (json->type == JSON_OBJECT && !in_map && is_data_keyword(kid->key)) continue;
        bool map = json->type == JSON_OBJECT && !in_map &&
                   (str_eqc(kid->key, "properties") || str_eqc(kid->key, "$defs") ||
                    str_eqc(kid->key, "definitions") || str_eqc(kid->key, "patternProperties") ||
                    str_eqc(kid->key, "dependentSchemas"));
        if (!resources_find(s, kid, resource, map, depth + 1)) return false;
    }
    return true;
}

bool schema_init(Schema *s, GrammarWork *w, const Json *root) {
    *s = (Schema){.w = w, .root = root};
    if (!formulas_init(&s->f, w)) return work_fail(w, ERR_NOMEM, "out of memory for a grammar");
    s->resources = work_array(w, SchemaResource, REF_MAX_RESOURCES);
    if (!s->resources) return false;
    Str id = STR_NONE, draft = STR_NONE;
    json_str(json_get(root, "$id"), &id);
    json_str(json_get(root, "$schema"), &draft);
    s->legacy = str_find(draft, STR("draft-0"), 0) != STR_NPOS;
    s->resources[s->n_resources++] = (SchemaResource){.uri = without_fragment(id), .root = root};
    return resources_find(s, root, 0, false, 0);
}

/* ---- fragments ---- */

static bool token_matches(Str token, Str key) {
    size_t k = 0;
    for (size_t i = 0; i < token.n; i++, k++) {
        char c = token.p[i];
        if (c == '~' && i + 1 < token.n) {
            c = token.p[i + 1] == '0' ? '~' : token.p[i + 1] == '1' ? '/' : '~';
            if (token.p[i + 1] == '0' || token.p[i + 1] == '1') i++;
        }
        if (k >= key.n || key.p[k] != c) return false;
    }
    return k == key.n;
}

static Str percent_decode(Schema *s, Str in) {
    if (str_find_char(in, '%', 0) == STR_NPOS) return in;
    char *p = arena_alloc(s->w->arena, in.n + 1);
    size_t n = 0;
    for (size_t i = 0; p && i < in.n; i++) {
        unsigned v = 0;
        bool hex = in.p[i] == '%' && i + 2 < in.n;
        for (size_t k = 1; hex && k <= 2; k++) {
            char c = in.p[i + k];
            int d = c >= '0' && c <= '9'                 ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                         : -1;
            if (d < 0) hex = false;
            v = v * 16 + (unsigned)d;
        }
        p[n++] = hex ? (char)v : in.p[i];
        if (hex) i += 2;
    }
    return p ? (Str){p, n} : in;
}

static uint32_t resource_of(const Schema *s, const Json *json, uint32_t current) {
    for (uint32_t r = 0; r < s->n_resources; r++)
        if (s->resources[r].root == json) return r;
    return current;
}

static const Json *pointer_follow(Schema *s, Str pointer, uint32_t *resource) {
    const Json *at = s->resources[*resource].root;
    Str token, rest = str_from(pointer, 1);
    for (bool more = true; more && at;) {
        size_t slash = str_find_char(rest, '/', 0);
        token = slash == STR_NPOS ? rest : str_slice(rest, 0, slash);
        more = slash != STR_NPOS;
        if (more) rest = str_from(rest, slash + 1);
        const Json *next = NULL;
        uint64_t index;
        if (at->type == JSON_OBJECT)
            for (size_t i = 0; i < at->n && !next; i++)
                if (token_matches(token, at->items[i].key)) next = &at->items[i];
        if (at->type == JSON_ARRAY && str_to_u64(token, &index)) next = json_at(at, (size_t)index);
        at = next;
        if (at) *resource = resource_of(s, at, *resource);
    }
    return at;
}

/* The subschema of a resource with this $anchor or $dynamicAnchor; n counts those found with the
 * second kind anywhere. */
static const Json *anchor_find(Schema *s, const Json *json, Str name, bool same_resource,
                               int depth) {
    if (depth > REF_MAX_DEPTH || !work_spend(s->w, json->n + 1)) return NULL;
    if (json->type == JSON_OBJECT) {
        Str a = STR_NONE, d = STR_NONE;
        json_str(json_get(json, "$anchor"), &a);
        json_str(json_get(json, "$dynamicAnchor"), &d);
        if ((a.n && str_eq(a, name)) || (d.n && str_eq(d, name))) return json;
    }
    if (json->type != JSON_OBJECT && json->type != JSON_ARRAY) return NULL;
    for (size_t i = 0; i < json->n; i++) {
        const Json *kid = &json->items[i];
        if (json->type == JSON_OBJECT && is_data_keyword(kid->key)) continue;
        if (same_resource && resource_of(s, kid, UINT32_MAX) != UINT32_MAX) continue;
        const Json *found = anchor_find(s, kid, name, same_resource, depth + 1);
        if (found) return found;
    }
    return NULL;
}

static size_t dynamic_anchors(const Json *json, Str name, int depth) {
    size_t n = 0;
    Str d = STR_NONE;
    if (depth > REF_MAX_DEPTH || (json->type != JSON_OBJECT && json->type != JSON_ARRAY)) return 0;
    if (json->type == JSON_OBJECT && json_str(json_get(json, "$dynamicAnchor"), &d) &&
        str_eq(d, name))
        n++;
    for (size_t i = 0; i < json->n; i++) n += dynamic_anchors(&json->items[i], name, depth + 1);
    return n;
}

const Json *schema_resolve(Schema *s, const SchemaEntry *e, const char *keyword, Str ref,
                           uint32_t *resource) {
    Str base = without_fragment(ref),
        fragment = percent_decode(s, str_from(ref, base.n < ref.n ? base.n + 1 : ref.n));
    *resource = e->resource;
    bool dynamic = !strcmp(keyword, "$dynamicRef");
    if (dynamic && dynamic_anchors(s->root, fragment, 0) > 1) {
        schema_refuse(
            s, e, keyword,
            "several $dynamicAnchor of that name make its target depend on the path taken");
        return NULL;
    }
    if (base.n) {
        Str uri = uri_resolve(s, s->resources[e->resource].uri, base);
        uint32_t r = 0;
        while (r < s->n_resources && !str_eq(s->resources[r].uri, uri)) r++;
        if (r == s->n_resources) {
            work_fail(s->w, ERR_UNSUPPORTED,
                      "schema keyword %s at " STR_F " names " STR_F
                      ", which is not in the document; remote references are not supported",
                      keyword, STR_A(e->path), STR_A(str_slice(ref, 0, 120)));
            return NULL;
        }
        *resource = r;
    }
    const Json *to = s->resources[*resource].root;
    if (str_starts(fragment, STR("/")))
        to = pointer_follow(s, fragment, resource);
    else if (fragment.n)
        to = anchor_find(s, to, fragment, true, 0);
    if (!to)
        work_fail(s->w, ERR_INPUT,
                  "schema keyword %s at " STR_F " names " STR_F ", which does not exist", keyword,
                  STR_A(e->path), STR_A(str_slice(ref, 0, 120)));
    return to;
}
