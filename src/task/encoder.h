/* encoder.h: sequences to vectors: runs an encoder's program on batches of whole sequences and reads
 * one row per sequence (a pooled vector, the scores of a classifier). Nothing is kept between
 * calls; every result depends on its own sequence alone (promise P1).
 *
 *     Encoder *e;
 *     if (!encoder_open(model, &opt, &e, err)) return false;      loads the weights if nobody has
 *     encoder_run(e, inputs, n, rows, err)                         rows: [n][encoder_width(e)]
 *     encoder_close(e)                                             before the model
 *
 * One thread at a time. */
#ifndef MLXCEL_TASK_ENCODER_H
#define MLXCEL_TASK_ENCODER_H

#include "engine/model.h"

typedef enum Pooling {
    POOLING_AUTO,
    POOLING_MEAN,
    POOLING_CLS,
    POOLING_LAST,
    POOLING_COUNT
} Pooling;

typedef struct EncoderOptions { /* zeroed: defaults */
    bool scores;                /* the classifier's logits instead of a vector */
    Pooling pooling;            /* AUTO: what the checkpoint says, else mean */
    bool no_normalize; /* vectors as they are; default: of length 1 where the checkpoint says so */
    uint32_t max_length; /* tokens of one input; 0: the model's */
    uint32_t batch_rows; /* tokens of one step; 0: 512, at least max_length */
    bool force;          /* although the memory plan says that it will not fit */
} EncoderOptions;

typedef struct EncoderInput {
    const uint32_t *ids;   /* n of them, special tokens included */
    const uint32_t *types; /* token types; NULL: all 0 */
    uint32_t n;
} EncoderInput;

typedef struct Encoder Encoder;

bool encoder_open(Model *m, const EncoderOptions *opt, Encoder **out, Err *err) MUST_CHECK;
void encoder_close(Encoder *e); /* NULL is allowed */
uint32_t encoder_width(const Encoder *e);
Pooling encoder_pooling(const Encoder *e); /* resolved */
bool encoder_normalizes(const Encoder *e);
/* ERR_LIMIT: an input longer than max_length; ERR_INPUT: an empty one, an id or type that the model
 * does not have. */
bool encoder_run(Encoder *e, const EncoderInput *in, size_t n, float *rows, Err *err) MUST_CHECK;

const char *pooling_name(Pooling p);
bool pooling_parse(Str name, Pooling *out, Err *err) MUST_CHECK;
/* What the files beside the weights say (sentence-transformers' modules.json, GGUF's pooling_type);
 * *pooling stays AUTO where they say nothing. ERR_UNSUPPORTED names a module that is not known. */
bool pooling_read(const Checkpoint *ck, Pooling *pooling, bool *normalize, Err *err) MUST_CHECK;

#endif
