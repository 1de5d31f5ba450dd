/* unevaluatedProperties and unevaluatedItems: what no keyword of the schema, nor any subschema that
 * holds for the same value, has looked at. Which subschemas hold depends on the value, so the cases
 * are split: each is a condition with what is evaluated under it, and the keyword applies to the
 * rest case by case. */
#include <string.h>

#include "sample/grammar/grammar_schema.h"

enum { REST_MAX_CASES = 128 };

typedef struct Seen {
    Fid when;
    const Str *keys;
    const Dfa **patterns;
    uint32_t n_keys, n_patterns, n_items; /* n_items: so many elements from the front */
    bool all_members, all_items;
    Fid contains; /* elements that satisfy this */
} Seen;

typedef struct SeenList {
    Seen *cases;
    uint32_t n, cap;
} SeenList;

static bool cases_of(Schema *s, uint32_t entry, bool top, SeenList *out);

static bool push(Schema *s, SeenList *l, Seen c) {
    if (c.when == F_ERROR) return false;
    if (c.when == F_NEVER) return true;
    if (l->n == REST_MAX_CASES)
        return work_fail(s->w, ERR_LIMIT,
                         "schema keyword unevaluatedProperties or unevaluatedItems has more than "
                         "%d cases to tell apart",
                         REST_MAX_CASES);
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 4;
        Seen *more = work_grow(s->w, l->cases, l->n, cap, sizeof *more);
        if (!more) return false;
        l->cases = more;
        l->cap = cap;
    }
    l->cases[l->n++] = c;
    return true;
}

/* Both conditions hold: what either has evaluated. */
static bool merge(Schema *s, const Seen *a, const Seen *b, Seen *out) {
    *out = *a;
    out->when = formula_and(&s->f, a->when, b->when);
    out->contains = formula_or(&s->f, a->contains, b->contains);
    out->all_members |= b->all_members;
    out->all_items |= b->all_items;
    if (b->n_items > out->n_items) out->n_items = b->n_items;
    if (b->n_keys) {
        Str *keys = work_array(s->w, Str, (size_t)a->n_keys + b->n_keys);
        if (!keys) return false;
        if (a->n_keys) memcpy(keys, a->keys, a->n_keys * sizeof *keys);
        memcpy(keys + a->n_keys, b->keys, b->n_keys * sizeof *keys);
        out->keys = keys;
        out->n_keys += b->n_keys;
    }
    if (b->n_patterns) {
        const Dfa **patterns =
            work_alloc(s->w, (size_t)a->n_patterns + b->n_patterns, sizeof(Dfa *));
        if (!patterns) return false;
        if (a->n_patterns) memcpy(patterns, a->patterns, a->n_patterns * sizeof(Dfa *));
        memcpy(patterns + a->n_patterns, b->patterns, b->n_patterns * sizeof(Dfa *));
        out->patterns = patterns;
        out->n_patterns += b->n_patterns;
    }
    return out->when != F_ERROR && out->contains != F_ERROR;
}

static bool cross(Schema *s, SeenList *l, const SeenList *by) {
    SeenList out = {0};
    for (uint32_t i = 0; i < l->n; i++) {
        for (uint32_t k = 0; k < by->n; k++) {
            Seen both;
            if (!merge(s, &l->cases[i], &by->cases[k], &both) || !push(s, &out, both)) return false;
        }
    }
    *l = out;
    return true;
}

static bool evaluates_nothing(const SeenList *l) {
    for (uint32_t i = 0; i < l->n; i++) {
        const Seen *c = &l->cases[i];
        if (c->n_keys || c->n_patterns || c->n_items || c->all_members || c->all_items ||
            c->contains != F_NEVER)
            return false;
    }
    return true;
}

/* What the keywords of this very schema evaluate; its own unevaluated... counts as everything,
 * unless it is the one asking. */
static bool own_case(Schema *s, uint32_t entry, bool top, Seen *out) {
    SchemaEntry e = s->entries[entry];
    const Json *props = json_get(e.json, "properties"),
               *patterns = json_get(e.json, "patternProperties"),
               *items = json_get(e.json, "items");
    const Json *prefix = json_get(e.json, "prefixItems"), *contains = json_get(e.json, "contains");
    *out = (Seen){.when = F_ALWAYS, .contains = F_NEVER};
    out->all_members = json_get(e.json, "additionalProperties") ||
                       (!top && json_get(e.json, "unevaluatedProperties"));
    out->all_items = (!top && json_get(e.json, "unevaluatedItems")) ||
                     (items && items->type != JSON_ARRAY) ||
                     (items && items->type == JSON_ARRAY && json_get(e.json, "additionalItems"));
    if (items && items->type == JSON_ARRAY) prefix = items;
    if (prefix) out->n_items = (uint32_t)prefix->n;
    Str *keys = work_array(s->w, Str, props ? props->n : 0);
    const Dfa **dfas = work_alloc(s->w, patterns ? patterns->n : 0, sizeof(Dfa *));
    if (!keys || !dfas) return false;
    for (size_t i = 0; props && i < props->n; i++) keys[out->n_keys++] = props->items[i].key;
    for (size_t i = 0; patterns && i < patterns->n; i++)
        if (!schema_pattern(s, &e, "patternProperties", patterns->items[i].key,
                            &dfas[out->n_patterns++]))
            return false;
    out->keys = keys;
    out->patterns = dfas;
    if (contains) out->contains = schema_child(s, entry, contains, "contains", STR_NONE);
    return out->contains != F_ERROR;
}

/* A subschema for the same value: its formula and its cases. */
typedef struct Branch {
    Fid holds;
    SeenList cases;
} Branch;

static bool branch_of(Schema *s, uint32_t entry, const Json *json, const char *keyword,
                      Branch *out) {
    *out = (Branch){.holds = schema_child(s, entry, json, keyword, STR_NONE)};
    if (out->holds == F_ERROR) return false;
    if (formula_kind(&s->f, out->holds) != FK_SCHEMA)
        return push(s, &out->cases, (Seen){.when = F_ALWAYS, .contains = F_NEVER});
    uint32_t child = formula_kid(&s->f, out->holds, 0);
    out->holds = schema_formula(s, child);
    return out->holds != F_ERROR && cases_of(s, child, false, &out->cases);
}

/* The cases of a branch that may hold or not; holding is required where `must`. */
static bool maybe(Schema *s, const Branch *b, bool must, SeenList *out) {
    for (uint32_t i = 0; i < b->cases.n; i++) {
        Seen c = b->cases.cases[i];
        c.when = formula_and(&s->f, c.when, b->holds);
        if (!push(s, out, c)) return false;
    }
    return must || push(s, out, (Seen){.when = formula_not(&s->f, b->holds), .contains = F_NEVER});
}

static bool add_list(Schema *s, uint32_t entry, const char *keyword, SeenList *out) {
    const Json *list = json_get(s->entries[entry].json, keyword);
    for (size_t i = 0; list && i < list->n; i++) {
        Branch b;
        SeenList some = {0};
        if (!branch_of(s, entry, &list->items[i], keyword, &b)) return false;
        if (evaluates_nothing(&b.cases)) continue;
        /* that enough branches hold is in the schema's formula already */
        if (!maybe(s, &b, !strcmp(keyword, "allOf"), &some) || !cross(s, out, &some)) return false;
    }
    return true;
}

static bool add_ref(Schema *s, uint32_t entry, const char *keyword, SeenList *out) {
    SchemaEntry e = s->entries[entry];
    const Json *ref = json_get(e.json, keyword);
    uint32_t resource;
    if (!ref) return true;
    const Json *to = schema_resolve(s, &e, keyword, ref->text, &resource);
    if (!to) return false;
    if (to->type != JSON_OBJECT) return true;
    uint32_t target = schema_enter(s, to, resource, ref->text, "", STR_NONE);
    SeenList cases = {0};
    return target != F_ERROR && cases_of(s, target, false, &cases) && cross(s, out, &cases);
}

static bool add_if(Schema *s, uint32_t entry, SeenList *out) {
    const Json *json = s->entries[entry].json, *when = json_get(json, "if"),
               *then = json_get(json, "then"), *other = json_get(json, "else");
    if (!when) return true;
    Branch c, yes = {0}, no = {0};
    SeenList all = {0}, hold = {0};
    if (!branch_of(s, entry, when, "if", &c) || !maybe(s, &c, true, &hold)) return false;
    if (then && (!branch_of(s, entry, then, "then", &yes) || !cross(s, &hold, &yes.cases)))
        return false;
    if (other && !branch_of(s, entry, other, "else", &no)) return false;
    if (!other && !push(s, &no.cases, (Seen){.when = F_ALWAYS, .contains = F_NEVER})) return false;
    for (uint32_t i = 0; i < hold.n; i++)
        if (!push(s, &all, hold.cases[i])) return false;
    for (uint32_t i = 0; i < no.cases.n; i++) {
        Seen one = no.cases.cases[i];
        one.when = formula_and(&s->f, one.when, formula_not(&s->f, c.holds));
        if (!push(s, &all, one)) return false;
    }
    return evaluates_nothing(&all) || cross(s, out, &all);
}

static bool add_dependents(Schema *s, uint32_t entry, const char *keyword, SeenList *out) {
    const Json *map = json_get(s->entries[entry].json, keyword);
    for (size_t i = 0; map && i < map->n; i++) {
        Branch b;
        if (map->items[i].type == JSON_ARRAY) continue;
        if (!branch_of(s, entry, &map->items[i], keyword, &b)) return false;
        if (evaluates_nothing(&b.cases)) continue;
        Fid there = formula_and(
            &s->f,
            formula_atom(&s->f, (Atom){.kind = ATOM_TYPE, .mask = TYPE_OBJECT, .keyword = "type"}),
            formula_atom(
                &s->f,
                (Atom){.kind = ATOM_REQUIRED, .key = map->items[i].key, .keyword = keyword}));
        if (there == F_ERROR) return false;
        Branch present = {.holds = there, .cases = b.cases};
        SeenList some = {0};
        if (!maybe(s, &present, false, &some) || !cross(s, out, &some)) return false;
    }
    return true;
}

static bool cases_of(Schema *s, uint32_t entry, bool top, SeenList *out) {
    Seen own;
    if (!own_case(s, entry, top, &own) || !push(s, out, own)) return false;
    return add_ref(s, entry, "$ref", out) && add_ref(s, entry, "$dynamicRef", out) &&
           add_list(s, entry, "allOf", out) && add_list(s, entry, "anyOf", out) &&
           add_list(s, entry, "oneOf", out) && add_if(s, entry, out) &&
           add_dependents(s, entry, "dependentSchemas", out) &&
           add_dependents(s, entry, "dependencies", out);
}

/* The rest of one case satisfies the keyword's schema. */
static Fid case_formula(Schema *s, const Seen *c, Fid members, Fid items) {
    Fid x = c->when;
    if (members != F_ALWAYS && !c->all_members) {
        KeyCover *cover = work_new(s->w, KeyCover);
        if (!cover) return F_ERROR;
        *cover = (KeyCover){c->keys, c->patterns, c->n_keys, c->n_patterns};
        Fid rest = formula_atom(&s->f, (Atom){.kind = ATOM_REST,
                                              .but = cover,
                                              .goal = members,
                                              .keyword = "unevaluatedProperties"});
        x = rest == F_ERROR ? rest : formula_and(&s->f, x, rest);
    }
    if (items != F_ALWAYS && !c->all_items && x != F_ERROR) {
        Fid goal = formula_or(&s->f, c->contains, items);
        Fid rest = formula_atom(&s->f, (Atom){.kind = ATOM_ITEMS,
                                              .index = c->n_items,
                                              .goal = goal,
                                              .keyword = "unevaluatedItems"});
        x = rest == F_ERROR ? rest : formula_and(&s->f, x, rest);
    }
    return x;
}

bool schema_read_unevaluated(Schema *s, uint32_t entry, Fid *out) {
    const Json *json = s->entries[entry].json, *m = json_get(json, "unevaluatedProperties"),
               *i = json_get(json, "unevaluatedItems");
    if (!m && !i) return true;
    Fid members = m ? schema_child(s, entry, m, "unevaluatedProperties", STR_NONE) : F_ALWAYS;
    Fid items = i ? schema_child(s, entry, i, "unevaluatedItems", STR_NONE) : F_ALWAYS;
    if (members == F_ERROR || items == F_ERROR) return false;
    if (members == F_ALWAYS && items == F_ALWAYS) return true;
    SeenList cases = {0};
    if (!cases_of(s, entry, true, &cases)) return false;
    Fid any = F_NEVER;
    for (uint32_t k = 0; k < cases.n && any != F_ERROR; k++) {
        Fid one = case_formula(s, &cases.cases[k], members, items);
        any = one == F_ERROR ? one : formula_or(&s->f, any, one);
    }
    return schema_and(s, out, any);
}
