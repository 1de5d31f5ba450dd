#include "sample/grammar/grammar_schema.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "sample/grammar/grammar_regex.h"

enum {
    SCHEMA_MAX_ENTRIES = 50000,
    SCHEMA_MAX_DEPTH = 100,
    SCHEMA_PATH_MAX = 160,
    SCHEMA_MAX_RESOURCES = 256
};

/* ---- messages ---- */

bool schema_refuse(Schema *s, const SchemaEntry *e, const char *keyword, const char *why) {
    return work_fail(s->w, ERR_UNSUPPORTED, "schema keyword %s at " STR_F " cannot be enforced: %s",
                     keyword, STR_A(e->path), why);
}

bool schema_wrong(Schema *s, const SchemaEntry *e, const char *keyword, const char *want,
                  const Json *found) {
    return work_fail(s->w, ERR_INPUT, "schema keyword %s at " STR_F " is %s, %s is accepted",
                     keyword, STR_A(e->path), found ? jsontype_name(found->type) : "missing", want);
}

/* ---- entries ---- */

static Str path_join(Schema *s, Str parent, const char *keyword, Str name) {
    Buf b = {.max = SCHEMA_PATH_MAX * 3};
    buf_put(&b, parent);
    if (*keyword && parent.n < SCHEMA_PATH_MAX) {
        buf_putf(&b, "/%s", keyword);
        if (name.n) {
            buf_putc(&b, '/');
            buf_put(&b, str_slice(name, 0, 60));
        }
    }
    Str out = b.failed ? parent : arena_dup(s->w->arena, buf_str(&b));
    buf_deinit(&b);
    return out.p ? out : STR("#");
}

uint32_t schema_enter(Schema *s, const Json *json, uint32_t resource, Str parent,
                      const char *keyword, Str name) {
    bool fresh;
    uintptr_t address = (uintptr_t)json;
    uint32_t key[2] = {(uint32_t)address, (uint32_t)((uint64_t)address >> 32)};
    uint32_t id = table_intern(&s->ids, key, 2, &fresh);
    if (id == TABLE_NONE) return work_fail(s->w, ERR_NOMEM, "out of memory for a grammar"), F_ERROR;
    if (!fresh) return id;
    if (id >= SCHEMA_MAX_ENTRIES)
        return work_fail(s->w, ERR_LIMIT, "the schema has more than %d subschemas",
                         SCHEMA_MAX_ENTRIES),
               F_ERROR;
    if (id >= s->cap_entries) {
        uint32_t cap = s->cap_entries ? s->cap_entries * 2 : 64;
        SchemaEntry *entries = work_grow(s->w, s->entries, s->n_entries, cap, sizeof *entries);
        if (!entries) return F_ERROR;
        s->entries = entries;
        s->cap_entries = cap;
    }
    for (uint32_t r = 1; r < s->n_resources; r++)
        if (s->resources[r].root == json) resource = r;
    s->entries[id] = (SchemaEntry){
        .json = json, .path = path_join(s, parent, keyword, name), .resource = resource};
    s->n_entries = id + 1;
    return id;
}

Fid schema_child(Schema *s, uint32_t entry, const Json *json, const char *keyword, Str name) {
    SchemaEntry e = s->entries[entry];
    if (json->type == JSON_TRUE) return F_ALWAYS;
    if (json->type == JSON_FALSE) return F_NEVER;
    if (json->type != JSON_OBJECT)
        return schema_wrong(s, &e, keyword, "a schema (object or boolean)", json), F_ERROR;
    if (!json->n) return F_ALWAYS;
    uint32_t child = schema_enter(s, json, e.resource, e.path, keyword, name);
    return child == F_ERROR ? child : formula_schema(&s->f, child);
}

bool schema_and(Schema *s, Fid *out, Fid more) {
    *out = more == F_ERROR ? F_ERROR : formula_and(&s->f, *out, more);
    return *out != F_ERROR;
}

bool schema_count(Schema *s, const SchemaEntry *e, const Json *value, const char *keyword,
                  uint64_t *out) {
    int64_t v;
    if (!value) return true;
    if (!json_i64(value, &v) || v < 0) {
        double d;
        if (json_f64(value, &d) && d >= 9e18) return *out = (uint64_t)1 << 62, true;
        return work_fail(
            s->w, ERR_INPUT,
            "schema keyword %s at " STR_F " is %s, a whole number of at least 0 is accepted",
            keyword, STR_A(e->path),
            value->type == JSON_NUMBER ? arena_dupz(s->w->arena, str_slice(value->text, 0, 40))
                                       : jsontype_name(value->type));
    }
    *out = (uint64_t)v;
    return true;
}

bool schema_pattern(Schema *s, const SchemaEntry *e, const char *keyword, Str text,
                    const Dfa **out) {
    for (uint32_t i = 0; i < s->n_dfas; i++)
        if (!s->dfas[i].format && str_eq(s->dfas[i].text, text)) return *out = s->dfas[i].dfa, true;
    Dfa *d = regex_dfa(s->w, text, REGEX_SEARCH);
    if (!d) return err_wrap(s->w->err, "schema keyword %s at " STR_F, keyword, STR_A(e->path));
    if (s->n_dfas == s->cap_dfas) {
        uint32_t cap = s->cap_dfas ? s->cap_dfas * 2 : 16;
        SchemaDfa *dfas = work_grow(s->w, s->dfas, s->n_dfas, cap, sizeof *dfas);
        if (!dfas) return false;
        s->dfas = dfas;
        s->cap_dfas = cap;
    }
    s->dfas[s->n_dfas++] = (SchemaDfa){.text = text, .dfa = d};
    *out = d;
    return true;
}

/* ---- keywords ---- */

/* Keywords that are read by one of the readers, and those that never decide whether a value is
 * valid. */
static const char *const handled[] = {"type",
                                      "enum",
                                      "const",
                                      "minLength",
                                      "maxLength",
                                      "pattern",
                                      "format",
                                      "minimum",
                                      "maximum",
                                      "exclusiveMinimum",
                                      "exclusiveMaximum",
                                      "multipleOf",
                                      "items",
                                      "prefixItems",
                                      "additionalItems",
                                      "minItems",
                                      "maxItems",
                                      "uniqueItems",
                                      "contains",
                                      "minContains",
                                      "maxContains",
                                      "properties",
                                      "required",
                                      "additionalProperties",
                                      "patternProperties",
                                      "propertyNames",
                                      "minProperties",
                                      "maxProperties",
                                      "dependentRequired",
                                      "dependentSchemas",
                                      "dependencies",
                                      "allOf",
                                      "anyOf",
                                      "oneOf",
                                      "not",
                                      "if",
                                      "then",
                                      "else",
                                      "$ref",
                                      "$dynamicRef",
                                      "unevaluatedProperties",
                                      "unevaluatedItems"};
static const char *const annotations[] = {"title",
                                          "description",
                                          "default",
                                          "examples",
                                          "example",
                                          "$comment",
                                          "$schema",
                                          "$id",
                                          "id",
                                          "$anchor",
                                          "$dynamicAnchor",
                                          "$recursiveAnchor",
                                          "$defs",
                                          "definitions",
                                          "$vocabulary",
                                          "readOnly",
                                          "writeOnly",
                                          "deprecated",
                                          "contentEncoding",
                                          "contentMediaType",
                                          "contentSchema",
                                          "discriminator",
                                          "xml",
                                          "externalDocs",
                                          "markdownDescription",
                                          "enumDescriptions",
                                          "markdownEnumDescriptions",
                                          "propertyOrdering"};

static bool in_list(Str key, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (str_eqc(key, list[i])) return true;
    return false;
}

static bool keywords_known(Schema *s, const SchemaEntry *e) {
    Str dialect = STR_NONE;
    json_str(json_get(e->json, "$schema"), &dialect);
    if (dialect.n && str_find(dialect, STR("json-schema.org/"), 0) == STR_NPOS)
        return schema_refuse(s, e, "$schema",
                             "it names a dialect that is not one of json-schema.org's");
    for (size_t i = 0; i < e->json->n; i++) {
        Str key = e->json->items[i].key;
        if (in_list(key, handled, sizeof handled / sizeof handled[0]) ||
            str_starts(key, STR("x-")) ||
            in_list(key, annotations, sizeof annotations / sizeof annotations[0]))
            continue;
        char *name = arena_dupz(s->w->arena, str_slice(key, 0, 60));
        return schema_refuse(s, e, name ? name : "?", "it is not a keyword this engine knows");
    }
    return true;
}

/* The formula of a subschema that applies to the same value. */
static Fid inplace(Schema *s, uint32_t entry, const Json *json, const char *keyword, Str name) {
    Fid x = schema_child(s, entry, json, keyword, name);
    if (x == F_ERROR || formula_kind(&s->f, x) != FK_SCHEMA) return x;
    return schema_formula(s, formula_kid(&s->f, x, 0));
}

static bool read_ref(Schema *s, uint32_t entry, const char *keyword, Fid *out) {
    SchemaEntry e = s->entries[entry];
    const Json *ref = json_get(e.json, keyword);
    uint32_t resource;
    if (!ref) return true;
    if (ref->type != JSON_STRING) return schema_wrong(s, &e, keyword, "a string", ref);
    const Json *to = schema_resolve(s, &e, keyword, ref->text, &resource);
    if (!to) return false;
    if (to->type == JSON_TRUE || to->type == JSON_FALSE)
        return schema_and(s, out, to->type == JSON_TRUE ? F_ALWAYS : F_NEVER);
    if (to->type != JSON_OBJECT)
        return schema_wrong(s, &e, keyword, "a reference to a schema (object or boolean)", to);
    uint32_t target = schema_enter(s, to, resource, ref->text, "", STR_NONE);
    return target != F_ERROR && schema_and(s, out, schema_formula(s, target));
}

/* At least one branch, and only that one: branches that surely never hold together need no
 * negation. */
static Fid one_of(Schema *s, const Fid *kids, uint32_t n) {
    Fid any = F_NEVER;
    for (uint32_t i = 0; i < n; i++) {
        Fid one = kids[i];
        for (uint32_t k = 0; k < n && one != F_ERROR; k++) {
            if (k == i ||
                (s->surely_empty && s->surely_empty(s, formula_and(&s->f, kids[i], kids[k]))))
                continue;
            one = formula_and(&s->f, one, formula_not(&s->f, kids[k]));
        }
        if (one == F_ERROR || s->w->failed) return F_ERROR;
        any = formula_or(&s->f, any, one);
    }
    return any;
}

static bool read_list(Schema *s, uint32_t entry, const char *keyword, Fid *out) {
    SchemaEntry e = s->entries[entry];
    const Json *list = json_get(e.json, keyword);
    if (!list) return true;
    if (list->type != JSON_ARRAY || !list->n)
        return schema_wrong(s, &e, keyword, "a list of at least one schema", list);
    Fid *kids = work_array(s->w, Fid, list->n);
    for (uint32_t i = 0; kids && i < list->n; i++) {
        char at[24];
        snprintf(at, sizeof at, "%u", i);
        kids[i] = inplace(s, entry, &list->items[i], keyword, str_c(at));
        if (kids[i] == F_ERROR) return false;
    }
    if (!kids) return false;
    if (!strcmp(keyword, "oneOf")) return schema_and(s, out, one_of(s, kids, (uint32_t)list->n));
    return schema_and(
        s, out,
        formula_all(&s->f, !strcmp(keyword, "allOf") ? FK_AND : FK_OR, kids, (uint32_t)list->n));
}

static bool read_conditions(Schema *s, uint32_t entry, Fid *out) {
    const Json *json = s->entries[entry].json;
    const Json *not = json_get(json, "not"), *when = json_get(json, "if"),
               *then = json_get(json, "then"), *other = json_get(json, "else");
    if (not ) {
        Fid x = inplace(s, entry, not, "not", STR_NONE);
        if (!schema_and(s, out, formula_not(&s->f, x))) return false;
    }
    if (!when || (!then && !other)) return true;
    Fid c = inplace(s, entry, when, "if", STR_NONE);
    Fid yes = then ? inplace(s, entry, then, "then", STR_NONE) : F_ALWAYS;
    Fid no = other ? inplace(s, entry, other, "else", STR_NONE) : F_ALWAYS;
    if (c == F_ERROR || yes == F_ERROR || no == F_ERROR) return false;
    return schema_and(s, out, formula_or(&s->f, formula_not(&s->f, c), yes)) &&
           schema_and(s, out, formula_or(&s->f, c, no));
}

static bool read_keywords(Schema *s, uint32_t entry, Fid *out) {
    SchemaEntry e = s->entries[entry];
    if (s->legacy && json_get(e.json, "$ref")) return read_ref(s, entry, "$ref", out);
    if (!keywords_known(s, &e)) return false;
    return read_ref(s, entry, "$ref", out) && read_ref(s, entry, "$dynamicRef", out) &&
           schema_read_scalars(s, entry, out) && schema_read_array(s, entry, out) &&
           schema_read_object(s, entry, out) && read_list(s, entry, "allOf", out) &&
           read_list(s, entry, "anyOf", out) && read_list(s, entry, "oneOf", out) &&
           read_conditions(s, entry, out) && schema_read_unevaluated(s, entry, out);
}

Fid schema_formula(Schema *s, uint32_t entry) {
    SchemaEntry *e = &s->entries[entry];
    if (e->state == ENTRY_DONE) return e->formula;
    if (e->state == ENTRY_OPEN)
        return work_fail(s->w, ERR_INPUT, "the schema at " STR_F " refers to itself without end",
                         STR_A(e->path)),
               F_ERROR;
    if (s->depth >= SCHEMA_MAX_DEPTH)
        return work_fail(s->w, ERR_LIMIT, "schemas nested or referring more than %d deep at " STR_F,
                         SCHEMA_MAX_DEPTH, STR_A(e->path)),
               F_ERROR;
    e->state = ENTRY_OPEN;
    s->depth++;
    Fid x = F_ALWAYS;
    bool ok = read_keywords(s, entry, &x);
    s->depth--;
    e = &s->entries[entry];
    e->state = ENTRY_DONE;
    return e->formula = ok && !s->w->failed ? x : F_ERROR;
}

void schema_deinit(Schema *s) {
    table_deinit(&s->ids);
    formulas_deinit(&s->f);
}
