/* gguf_family.h: a GGUF file of a golden as llama.cpp's converter writes it, from two tables: which
 * keys it makes of the config, and what it calls the tensors and does to them. The tables are that
 * writer's, not our reader's: where both are wrong in the same way a test proves nothing. All floats
 * are written as f32. Of wrappers it is the text model: towers' tensors are left out, and the keys are
 * those of text_config.
 *
 *     static const GgufKey KEYS[] = {{"embedding_length", KEY_INT, "hidden_size", 0}, ..., {0}};
 *     static const GgufRule RULES[] = {{"model.norm.weight", "output_norm.weight", 0}, ..., {0}};
 *     GgufFamily f = {.golden = "x", .arch = "x", .keys = {KEYS}, .rules = {RULES}};
 *     if (!gguf_family_write(&f, dir, "x.gguf", NULL, &err)) ... */
#ifndef MLXCEL_TESTS_GGUF_FAMILY_H
#define MLXCEL_TESTS_GGUF_FAMILY_H

#include "ckpt/gguf_write.h"
#include "json/json.h"

typedef enum KeyKind {
    KEY_INT,    /* u32 */
    KEY_REAL,   /* f32 */
    KEY_TENTH,  /* f32, a tenth of it */
    KEY_IF,     /* true; not written where the config says false */
    KEY_TEXT,   /* a string of the config */
    KEY_GATING, /* scoring_func's number */
} KeyKind;

typedef struct GgufKey {
    const char *name; /* behind the architecture's */
    KeyKind kind;
    /* path in config.json ("rope_scaling.factor"), several that are added with '+' between them; what
     * is absent or null is not written. NULL: value */
    const char *from;
    double value;
} GgufKey;

typedef enum Change {
    CHANGE_NONE,
    CHANGE_K_UP,    /* rows of each head's keys in kv_b, turned round, heads outermost */
    CHANGE_V_UP,    /* rows of each head's values there, heads outermost */
    CHANGE_NEG_EXP, /* -exp(x) */
    CHANGE_TAPS,    /* [d, 1, taps] as [1, d, 1, taps] */
    CHANGE_ADD_ONE, /* norms that multiply by 1 + w */
    CHANGE_INTS,    /* whole numbers as i32 */
    CHANGE_Q,       /* rows of each head for rope of adjacent pairs: of queries, of keys */
    CHANGE_K,
    CHANGE_SQUEEZE, /* [d, 1, taps] as [d, taps] */
    CHANGE_PAD,     /* rows of zeros behind, up to vocab_size */
    CHANGE_TURN,    /* [e, a, b] as [e, b, a] */
    CHANGE_GATE,    /* of [e, 2 n, k] the first n rows of each, the others */
    CHANGE_UP,
    CHANGE_TURN_GATE, /* the same of [e, k, 2 n], turned */
    CHANGE_TURN_UP,
} Change;

/* The tensor's whole name there, without "language_model.", and here; %d: the layer; %e: the expert, all of which go into one
 * tensor. A tensor may have several rules, and must have one. NULL: it is left out. */
typedef struct GgufRule {
    const char *hf, *gguf;
    Change change;
} GgufRule;

extern const GgufRule gguf_llama_rules[]; /* what most decoders have of Llama */

enum { GGUF_FAMILY_LISTS = 4, GGUF_FAMILY_VALUES = 256 };

typedef struct GgufFamily {
    const char *name;   /* of the row, for messages and files */
    const char *golden; /* below decoder/ */
    const char *arch;
    const GgufKey *keys[GGUF_FAMILY_LISTS];         /* each ends with a NULL name */
    const GgufRule *rules[GGUF_FAMILY_LISTS];       /* likewise */
    void (*more)(GgufOut *out, const Json *config); /* lists; NULL: none */
    /* A vector that the converter makes of the config; NULL: none. values: returns how many. */
    const char *extra;
    uint32_t (*values)(const Json *config, float *out);
    /* queries, keys and values in one tensor (--fuse-qkv), gates and ups of experts in one */
    bool fuse;
    bool picks; /* near ties of chosen keys may turn rows another way: the middle row counts */
} GgufFamily;

/* One thing that is otherwise, for files that must be refused. */
typedef struct GgufEdit {
    const char *key;           /* behind the architecture's: left out */
    const char *tensor;        /* left out */
    void (*put)(GgufOut *out); /* instead of the key; NULL: nothing */
} GgufEdit;

/* dir: a checkpoint with config.json. */
bool gguf_family_write(const GgufFamily *f, const char *dir, const char *path, const GgufEdit *edit,
                       Err *err) MUST_CHECK;
const Json *gguf_family_config(const Json *config, const char *path); /* NULL: absent or null */

#endif
