/* The keywords of JSON Schema that constrain one type each, as atoms. */
#include <string.h>

#include "sample/grammar/grammar_format.h"
#include "sample/grammar/grammar_number.h"
#include "sample/grammar/grammar_schema.h"

static bool and_atom(Schema *s, Fid *out, Atom a) {
    return schema_and(s, out, formula_atom(&s->f, a));
}

/* ---- type, enum, const ---- */

static const struct {
    const char *name;
    uint32_t mask;
} types[] = {{"null", TYPE_NULL},     {"boolean", TYPE_BOOL},  {"integer", TYPE_INTEGER},
             {"number", TYPE_NUMBER}, {"string", TYPE_STRING}, {"array", TYPE_ARRAY},
             {"object", TYPE_OBJECT}};

static bool type_mask(Schema *s, const SchemaEntry *e, const Json *name, uint32_t *mask) {
    if (name->type != JSON_STRING)
        return schema_wrong(s, e, "type", "a type name or a list of them", name);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (!str_eqc(name->text, types[i].name)) continue;
        *mask |= types[i].mask;
        return true;
    }
    return work_fail(s->w, ERR_INPUT,
                     "schema keyword type at " STR_F " is \"" STR_F
                     "\"; null, boolean, integer, number, string, array and object are accepted",
                     STR_A(e->path), STR_A(str_slice(name->text, 0, 60)));
}

static bool read_type(Schema *s, const SchemaEntry *e, Fid *out) {
    const Json *type = json_get(e->json, "type");
    uint32_t mask = 0;
    if (!type) return true;
    if (type->type == JSON_ARRAY && !type->n)
        return schema_wrong(s, e, "type", "a type name or a list of at least one", type);
    if (type->type != JSON_ARRAY && !type_mask(s, e, type, &mask)) return false;
    for (size_t i = 0; type->type == JSON_ARRAY && i < type->n; i++)
        if (!type_mask(s, e, &type->items[i], &mask)) return false;
    return and_atom(s, out, (Atom){.kind = ATOM_TYPE, .mask = mask, .keyword = "type"});
}

static bool read_values(Schema *s, const SchemaEntry *e, Fid *out) {
    const Json *list = json_get(e->json, "enum"), *one = json_get(e->json, "const");
    if (list && (list->type != JSON_ARRAY || !list->n))
        return schema_wrong(s, e, "enum", "a list of at least one value", list);
    if (list && !and_atom(s, out,
                          (Atom){.kind = ATOM_ENUM,
                                 .values = list->items,
                                 .n_values = list->n,
                                 .keyword = "enum"}))
        return false;
    return !one ||
           and_atom(s, out,
                    (Atom){.kind = ATOM_ENUM, .values = one, .n_values = 1, .keyword = "const"});
}

/* ---- strings and numbers ---- */

static bool read_format(Schema *s, const SchemaEntry *e, Fid *out) {
    const Json *format = json_get(e->json, "format");
    Dfa *dfa = NULL;
    if (!format) return true;
    if (format->type != JSON_STRING) return schema_wrong(s, e, "format", "a string", format);
    const char *low = NULL, *high = NULL;
    switch (format_find(s->w, format->text, &dfa)) {
    case FORMAT_NOTE:
        return true;
    case FORMAT_STRING:
        return dfa &&
               and_atom(s, out, (Atom){.kind = ATOM_STRING, .dfa = dfa, .keyword = "format"});
    case FORMAT_INT32:
        low = "-2147483648", high = "2147483647";
        break;
    case FORMAT_INT64:
        low = "-9223372036854775808", high = "9223372036854775807";
        break;
    case FORMAT_UINT32:
        low = "0", high = "4294967295";
        break;
    case FORMAT_UINT64:
        low = "0", high = "18446744073709551615";
        break;
    case FORMAT_UNKNOWN: {
        char names[240];
        format_names(names, sizeof names);
        return work_fail(s->w, ERR_UNSUPPORTED,
                         "schema keyword format at " STR_F " is \"" STR_F
                         "\", which cannot be enforced; supported are %s",
                         STR_A(e->path), STR_A(str_slice(format->text, 0, 40)), names);
    }
    }
    Dfa *min = number_compare(s->w, str_c(low), NUMBER_EQUAL | NUMBER_GREATER, "format");
    Dfa *max = number_compare(s->w, str_c(high), NUMBER_EQUAL | NUMBER_LESS, "format");
    dfa = dfa_and(s->w, dfa_and(s->w, min, max), number_integer(s->w));
    return dfa && and_atom(s, out, (Atom){.kind = ATOM_NUMBER, .dfa = dfa, .keyword = "format"});
}

static bool read_strings(Schema *s, const SchemaEntry *e, Fid *out) {
    uint64_t min = 0, max = UINT64_MAX;
    const Json *lo = json_get(e->json, "minLength"), *hi = json_get(e->json, "maxLength"),
               *pattern = json_get(e->json, "pattern");
    if (!schema_count(s, e, lo, "minLength", &min) || !schema_count(s, e, hi, "maxLength", &max))
        return false;
    if ((min || max != UINT64_MAX) && !and_atom(s, out,
                                                (Atom){.kind = ATOM_LENGTH,
                                                       .min = min,
                                                       .max = max,
                                                       .keyword = lo ? "minLength" : "maxLength"}))
        return false;
    if (!pattern) return true;
    const Dfa *dfa;
    if (pattern->type != JSON_STRING) return schema_wrong(s, e, "pattern", "a string", pattern);
    return schema_pattern(s, e, "pattern", pattern->text, &dfa) &&
           and_atom(s, out, (Atom){.kind = ATOM_STRING, .dfa = dfa, .keyword = "pattern"});
}

static bool read_bound(Schema *s, const SchemaEntry *e, const char *keyword, unsigned accept,
                       Fid *out) {
    const Json *bound = json_get(e->json, keyword);
    if (!bound) return true;
    if (bound->type == JSON_TRUE ||
        bound->type == JSON_FALSE) { /* draft 4: a flag on minimum or maximum */
        const Json *plain = json_get(e->json, accept & NUMBER_GREATER ? "minimum" : "maximum");
        if (!str_starts(str_c(keyword), STR("exclusive")) || !plain)
            return schema_wrong(s, e, keyword, "a number", bound);
        if (bound->type == JSON_FALSE) return true;
        bound = plain;
    }
    if (bound->type != JSON_NUMBER) return schema_wrong(s, e, keyword, "a number", bound);
    Dfa *dfa = number_compare(s->w, bound->text, accept, keyword);
    return dfa && and_atom(s, out, (Atom){.kind = ATOM_NUMBER, .dfa = dfa, .keyword = keyword});
}

static bool read_numbers(Schema *s, const SchemaEntry *e, Fid *out) {
    const Json *of = json_get(e->json, "multipleOf");
    if (!read_bound(s, e, "minimum", NUMBER_EQUAL | NUMBER_GREATER, out) ||
        !read_bound(s, e, "maximum", NUMBER_EQUAL | NUMBER_LESS, out) ||
        !read_bound(s, e, "exclusiveMinimum", NUMBER_GREATER, out) ||
        !read_bound(s, e, "exclusiveMaximum", NUMBER_LESS, out))
        return false;
    if (!of) return true;
    if (of->type != JSON_NUMBER || number_is_zero_or_less(of->text))
        return schema_wrong(s, e, "multipleOf", "a number above 0", of);
    Dfa *dfa = number_multiple(s->w, of->text);
    return dfa &&
           and_atom(s, out, (Atom){.kind = ATOM_NUMBER, .dfa = dfa, .keyword = "multipleOf"});
}

bool schema_read_scalars(Schema *s, uint32_t entry, Fid *out) {
    SchemaEntry e = s->entries[entry];
    return read_type(s, &e, out) && read_values(s, &e, out) && read_strings(s, &e, out) &&
           read_format(s, &e, out) && read_numbers(s, &e, out);
}

/* ---- arrays ---- */

/* prefixItems, or `items` as a list in the drafts before 2020-12; *rest is the schema of the
 * elements behind them. */
static bool read_elements(Schema *s, uint32_t entry, Fid *out) {
    SchemaEntry e = s->entries[entry];
    const Json *prefix = json_get(e.json, "prefixItems"), *items = json_get(e.json, "items");
    const char *prefix_word = "prefixItems", *rest_word = "items";
    if (items && items->type == JSON_ARRAY) {
        if (prefix) return schema_wrong(s, &e, "items", "a schema (beside prefixItems)", items);
        prefix = items;
        prefix_word = "items";
        items = json_get(e.json, "additionalItems");
        rest_word = "additionalItems";
    }
    if (prefix && prefix->type != JSON_ARRAY)
        return schema_wrong(s, &e, prefix_word, "a list of schemas", prefix);
    uint32_t n = 0;
    for (; prefix && n < prefix->n; n++) {
        Fid goal = schema_child(s, entry, &prefix->items[n], prefix_word, STR_NONE);
        if (goal != F_ALWAYS &&
            !and_atom(s, out,
                      (Atom){.kind = ATOM_ITEM, .index = n, .goal = goal, .keyword = prefix_word}))
            return false;
    }
    if (!items) return true;
    Fid goal = schema_child(s, entry, items, rest_word, STR_NONE);
    return goal == F_ALWAYS ||
           and_atom(s, out,
                    (Atom){.kind = ATOM_ITEMS, .index = n, .goal = goal, .keyword = rest_word});
}

bool schema_read_array(Schema *s, uint32_t entry, Fid *out) {
    SchemaEntry e = s->entries[entry];
    const Json *lo = json_get(e.json, "minItems"), *hi = json_get(e.json, "maxItems"),
               *contains = json_get(e.json, "contains");
    const Json *unique = json_get(e.json, "uniqueItems");
    uint64_t min = 0, max = UINT64_MAX;
    if (!read_elements(s, entry, out) || !schema_count(s, &e, lo, "minItems", &min) ||
        !schema_count(s, &e, hi, "maxItems", &max))
        return false;
    if ((min || max != UINT64_MAX) && !and_atom(s, out,
                                                (Atom){.kind = ATOM_COUNT_ITEMS,
                                                       .min = min,
                                                       .max = max,
                                                       .keyword = lo ? "minItems" : "maxItems"}))
        return false;
    if (unique && unique->type != JSON_TRUE && unique->type != JSON_FALSE)
        return schema_wrong(s, &e, "uniqueItems", "a boolean", unique);
    if (unique && unique->type == JSON_TRUE &&
        !and_atom(s, out, (Atom){.kind = ATOM_UNIQUE, .keyword = "uniqueItems"}))
        return false;
    if (!contains) return true;
    min = 1;
    max = UINT64_MAX;
    if (!schema_count(s, &e, json_get(e.json, "minContains"), "minContains", &min) ||
        !schema_count(s, &e, json_get(e.json, "maxContains"), "maxContains", &max))
        return false;
    Fid goal = schema_child(s, entry, contains, "contains", STR_NONE);
    return and_atom(
        s, out,
        (Atom){.kind = ATOM_CONTAINS, .min = min, .max = max, .goal = goal, .keyword = "contains"});
}

/* ---- objects ---- */

static bool object_of_schemas(Schema *s, const SchemaEntry *e, const char *keyword,
                              const Json *found) {
    return !found || found->type == JSON_OBJECT || schema_wrong(s, e, keyword, "an object", found);
}

static bool read_required(Schema *s, const SchemaEntry *e, const Json *list, const char *keyword,
                          Fid *out) {
    if (list->type != JSON_ARRAY) return schema_wrong(s, e, keyword, "a list of names", list);
    for (size_t i = 0; i < list->n; i++) {
        if (list->items[i].type != JSON_STRING)
            return schema_wrong(s, e, keyword, "a list of names (strings)", &list->items[i]);
        if (!and_atom(
                s, out,
                (Atom){.kind = ATOM_REQUIRED, .key = list->items[i].text, .keyword = keyword}))
            return false;
    }
    return true;
}

static bool read_members(Schema *s, uint32_t entry, Fid *out) {
    SchemaEntry e = s->entries[entry];
    const Json *props = json_get(e.json, "properties"),
               *patterns = json_get(e.json, "patternProperties"),
               *rest = json_get(e.json, "additionalProperties");
    if (!object_of_schemas(s, &e, "properties", props) ||
        !object_of_schemas(s, &e, "patternProperties", patterns))
        return false;
    KeyCover *cover = work_new(s->w, KeyCover);
    Str *keys = work_array(s->w, Str, props ? props->n : 0);
    const Dfa **dfas = work_alloc(s->w, patterns ? patterns->n : 0, sizeof(Dfa *));
    if (!cover || !keys || !dfas) return false;
    *cover = (KeyCover){keys, dfas, 0, 0};
    for (; props && cover->n_keys < props->n; cover->n_keys++) {
        const Json *p = &props->items[cover->n_keys];
        keys[cover->n_keys] = p->key;
        Fid goal = schema_child(s, entry, p, "properties", p->key);
        if (!and_atom(
                s, out,
                (Atom){.kind = ATOM_KEY, .key = p->key, .goal = goal, .keyword = "properties"}))
            return false;
    }
    for (; patterns && cover->n_patterns < patterns->n; cover->n_patterns++) {
        const Json *p = &patterns->items[cover->n_patterns];
        if (!schema_pattern(s, &e, "patternProperties", p->key, &dfas[cover->n_patterns]))
            return false;
        Fid goal = schema_child(s, entry, p, "patternProperties", p->key);
        if (!and_atom(s, out,
                      (Atom){.kind = ATOM_PATTERN,
                             .dfa = dfas[cover->n_patterns],
                             .goal = goal,
                             .keyword = "patternProperties"}))
            return false;
    }
    if (!rest) return true;
    Fid goal = schema_child(s, entry, rest, "additionalProperties", STR_NONE);
    return goal == F_ALWAYS || and_atom(s, out,
                                        (Atom){.kind = ATOM_REST,
                                               .but = cover,
                                               .goal = goal,
                                               .keyword = "additionalProperties"});
}

/* "If the member is there, then ..." of dependentRequired, dependentSchemas and draft 7's
 * dependencies. */
static bool read_dependents(Schema *s, uint32_t entry, const char *keyword, Fid *out) {
    SchemaEntry e = s->entries[entry];
    const Json *map = json_get(e.json, keyword);
    if (!object_of_schemas(s, &e, keyword, map)) return false;
    for (size_t i = 0; map && i < map->n; i++) {
        const Json *then = &map->items[i];
        Fid there = formula_atom(
            &s->f, (Atom){.kind = ATOM_REQUIRED, .key = then->key, .keyword = keyword});
        Fid needs = F_ALWAYS;
        bool names = !strcmp(keyword, "dependentRequired") ||
                     (!strcmp(keyword, "dependencies") && then->type == JSON_ARRAY);
        if (names && !read_required(s, &e, then, keyword, &needs)) return false;
        if (!names) {
            needs = schema_child(s, entry, then, keyword, then->key);
            if (needs != F_ERROR && formula_kind(&s->f, needs) == FK_SCHEMA)
                needs = schema_formula(s, formula_kid(&s->f, needs, 0));
        }
        /* the member being there makes it an object; other values are not concerned */
        Fid object =
            formula_atom(&s->f, (Atom){.kind = ATOM_TYPE, .mask = TYPE_OBJECT, .keyword = "type"});
        Fid absent = formula_or(&s->f, formula_not(&s->f, object), formula_not(&s->f, there));
        if (needs == F_ERROR || !schema_and(s, out, formula_or(&s->f, absent, needs))) return false;
    }
    return true;
}

static bool read_names(Schema *s, uint32_t entry, Fid *out) {
    SchemaEntry e = s->entries[entry];
    const Json *names = json_get(e.json, "propertyNames");
    if (!names) return true;
    Fid goal = schema_child(s, entry, names, "propertyNames", STR_NONE);
    if (goal == F_ALWAYS || goal == F_ERROR) return goal != F_ERROR;
    return and_atom(s, out, (Atom){.kind = ATOM_NAMES, .goal = goal, .keyword = "propertyNames"});
}

bool schema_read_object(Schema *s, uint32_t entry, Fid *out) {
    SchemaEntry e = s->entries[entry];
    const Json *lo = json_get(e.json, "minProperties"), *hi = json_get(e.json, "maxProperties"),
               *required = json_get(e.json, "required");
    uint64_t min = 0, max = UINT64_MAX;
    if (!read_members(s, entry, out) || !read_names(s, entry, out) ||
        !schema_count(s, &e, lo, "minProperties", &min) ||
        !schema_count(s, &e, hi, "maxProperties", &max))
        return false;
    if ((min || max != UINT64_MAX) &&
        !and_atom(s, out,
                  (Atom){.kind = ATOM_COUNT_MEMBERS,
                         .min = min,
                         .max = max,
                         .keyword = lo ? "minProperties" : "maxProperties"}))
        return false;
    if (required && required->type != JSON_TRUE && required->type != JSON_FALSE &&
        !read_required(s, &e, required, "required", out))
        return false;
    if (required && (required->type == JSON_TRUE || required->type == JSON_FALSE))
        return schema_wrong(s, &e, "required", "a list of names", required);
    return read_dependents(s, entry, "dependentRequired", out) &&
           read_dependents(s, entry, "dependentSchemas", out) &&
           read_dependents(s, entry, "dependencies", out);
}
