/* convert_plan.h: what the two kinds of conversion share: the opened input, and the items made from
 * its tensors. Inside task/ only. */
#ifndef MLXCEL_TASK_CONVERT_PLAN_H
#define MLXCEL_TASK_CONVERT_PLAN_H

#include "json/json_writer.h"
#include "task/convert_rows.h"
#include "text/tokenizer.h"

typedef struct ConvertPlan {
    const ConvertOptions *o;
    ConvertReport *report;
    Checkpoint *ck;
    ArchModel arch;
    ConvertItem *items;
    const WeightOrigin **origins; /* of each item */
    size_t n_items, cap;
    size_t n_values; /* the last of them: what building a program reads */
    DType decoded;   /* float type of what is decoded, where nothing else tells */
    Arena *a;
} ConvertPlan;

/* Opens the input and lists its tensors as items, without names or types to write. */
bool convertplan_open(ConvertPlan *p, const char *in, const ConvertOptions *o, ConvertReport *r,
                      Arena *a, Err *err) MUST_CHECK;
void convertplan_close(ConvertPlan *p);
bool convertplan_add(ConvertPlan *p, const ConvertItem *item, const WeightOrigin *o,
                     Err *err) MUST_CHECK;
/* The float type that the item's numbers have or get. */
DType convertplan_float(const ConvertPlan *p, const ConvertItem *item);
bool convert_is_quantized(const WeightSource *s);
/* general.architecture of what is written of a family; NULL: it has none. */
const char *convert_gguf_arch(const Arch *a);
/* The weight of a norm that readers may add to (Decoder.norm_add). */
bool convert_is_norm(const WeightOrigin *o);
/* A tensor of floats or blocks as it is stored, as a source of rows. */
bool convert_source(ConvertPlan *p, const CkptTensor *t, WeightSource *out, Err *err) MUST_CHECK;
/* What this family's files of other kinds have multiplied into the item's rows. */
bool convert_fold(const ConvertPlan *p, ConvertItem *it, const WeightOrigin *o,
                  Err *err) MUST_CHECK;
/* convert_stored.c: a directory's tensors as items, with MLX's names. */
bool convert_list_stored(ConvertPlan *p, Err *err) MUST_CHECK;
/* All of the stored matrix that a part is of, in the file's order; NULL: no memory. */
WeightSource *convert_whole(const ConvertPlan *p, const WeightSource *part, Err *err);
/* convert_gguf_list.c: a directory's tensors as items of a GGUF. */
bool convert_list_gguf(ConvertPlan *p, Err *err) MUST_CHECK;
/* Where the file's reader has heads of gated delta layers in another order than the input. */
bool convert_turn_heads(ConvertPlan *p, const ArchModel *reader, Err *err) MUST_CHECK;

bool convert_to_mlx(ConvertPlan *p, const char *out, Err *err) MUST_CHECK;
bool convert_to_gguf(ConvertPlan *p, const char *out, Err *err) MUST_CHECK;
/* A GGUF into another: the same keys and names, other types. */
bool convert_gguf_again(ConvertPlan *p, const char *out, Err *err) MUST_CHECK;

/* convert_types.c: which type a matrix of a GGUF gets. */
typedef struct GgufTypes GgufTypes;
const GgufTypes *gguftypes_find(const char *name); /* NULL: unknown */
const char *gguftypes_names(void);                 /* of all, for messages */
uint32_t gguftypes_file_type(const GgufTypes *t);  /* general.file_type */
typedef struct GgufMatrix {
    Role role; /* ROLE_COUNT: none of those that are treated apart */
    int layer; /* -1: of no layer */
    uint32_t n_layers;
    bool few_kv;  /* four or more query heads share a key head */
    bool is_head; /* gives the logits */
    uint64_t k;   /* columns */
} GgufMatrix;
DType gguftypes_of(const GgufTypes *t, const GgufMatrix *m);

/* convert_keys.c, convert_vocab.c: the metadata of a GGUF. */
bool convert_keys(const ConvertPlan *p, GgufKeys *keys, Err *err) MUST_CHECK;
bool convert_vocab(const ConvertPlan *p, GgufOut *out, Err *err) MUST_CHECK;

/* convert_check.c: reads back what the file (directory) at path says, its data not yet written:
 * ERR_UNSUPPORTED unless it is the program that was opened. reader: what it came to (not to be read
 * from). Norms of the items become what its reader adds to. */
bool convert_check(ConvertPlan *p, const char *path, ArchModel *reader, Err *err) MUST_CHECK;

/* convert_dir.c: an output directory that appears whole. */
typedef struct OutDir {
    const char *path, *temporary;
    bool exists;
} OutDir;
bool outdir_open(OutDir *d, const char *path, bool force, Arena *a, Err *err) MUST_CHECK;
/* Copies tokenizer, templates, generation settings and the like: everything small of the input that
 * is neither weights nor config.json. */
bool outdir_copy(const OutDir *d, const Checkpoint *ck, Arena *a, Err *err) MUST_CHECK;
bool outdir_finish(OutDir *d, Arena *a, Err *err) MUST_CHECK;
void outdir_drop(OutDir *d, Arena *a);

/* What an MLX checkpoint made of a GGUF has in its files, which the input lacks. t: the GGUF's
 * tokenizer; NULL: it has none. convert_config.c: the members of config.json, without its
 * quantization; convert_tokenizer.c: all other files. */
bool convert_config(const ConvertPlan *p, const Tokenizer *t, const Arch *family, JsonWriter *w,
                    Err *err) MUST_CHECK;
void convert_token_ids(const ConvertPlan *p, const Tokenizer *t, JsonWriter *w);
bool convert_tokenizer(const ConvertPlan *p, const Tokenizer *t, const OutDir *d,
                       Err *err) MUST_CHECK;
const char *convert_dtype_name(DType t); /* as configs spell it */

#endif
