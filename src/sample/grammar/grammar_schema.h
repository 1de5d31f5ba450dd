/* grammar_schema.h: from a JSON Schema document to formulas; for this folder only.
 *
 * schema_formula() reads one subschema's keywords. Every keyword is enforced, known to be an
 * annotation, or refused by name with its place. $ref is resolved inside the document (pointers,
 * anchors, $id); remote references are refused. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_SCHEMA_H
#define MLXCEL_SAMPLE_GRAMMAR_SCHEMA_H

#include "sample/grammar/grammar_formula.h"

typedef struct SchemaResource { /* a subschema with its own $id; the document's root is one too */
    Str uri;
    const Json *root;
    uint32_t parent;
} SchemaResource;

typedef struct SchemaEntry {
    const Json *json;
    Str path; /* for messages: #/properties/a */
    uint32_t resource;
    Fid formula;
    enum { ENTRY_NEW, ENTRY_OPEN, ENTRY_DONE } state;
} SchemaEntry;

typedef struct SchemaDfa { /* patterns and formats compiled before */
    Str text;
    bool format;
    const Dfa *dfa;
} SchemaDfa;

typedef struct Schema {
    GrammarWork *w;
    Formulas f;
    const Json *root;
    WordTable ids; /* address of a subschema's Json -> entry */
    SchemaEntry *entries;
    SchemaResource *resources;
    SchemaDfa *dfas;
    uint32_t n_entries, cap_entries, n_resources, cap_resources, n_dfas, cap_dfas;
    int depth;
    bool legacy; /* draft 7 or older: siblings of $ref are ignored, items may be a list */
    /* decides whether a formula surely has no values; set by the compiler of goals */
    bool (*surely_empty)(struct Schema *s, Fid x);
    void *goals;
} Schema;

bool schema_init(Schema *s, GrammarWork *w, const Json *root);
void schema_deinit(Schema *s);
uint32_t schema_enter(Schema *s, const Json *json, uint32_t resource, Str parent,
                      const char *keyword, Str name);
Fid schema_formula(Schema *s, uint32_t entry); /* F_ERROR after setting the error */
bool schema_refuse(Schema *s, const SchemaEntry *e, const char *keyword, const char *why);
bool schema_wrong(Schema *s, const SchemaEntry *e, const char *keyword, const char *want,
                  const Json *found);
const Json *schema_resolve(Schema *s, const SchemaEntry *e, const char *keyword, Str ref,
                           uint32_t *resource);
bool schema_pattern(Schema *s, const SchemaEntry *e, const char *keyword, Str text,
                    const Dfa **out); /* cached */

/* One keyword group each; and_ parts are added to *out. */
bool schema_read_scalars(Schema *s, uint32_t entry, Fid *out);
bool schema_read_array(Schema *s, uint32_t entry, Fid *out);
bool schema_read_object(Schema *s, uint32_t entry, Fid *out);
bool schema_read_unevaluated(Schema *s, uint32_t entry, Fid *out);
bool schema_and(Schema *s, Fid *out, Fid more);
Fid schema_child(Schema *s, uint32_t entry, const Json *json, const char *keyword,
                 Str name); /* a lazy reference */
bool schema_count(Schema *s, const SchemaEntry *e, const Json *value, const char *keyword,
                  uint64_t *out);

#endif
