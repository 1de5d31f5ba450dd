/* quant_config.h: what a checkpoint's config says about its quantized modules: MLX's
 * "quantization", Hugging Face's "quantization_config", hf_quant_config.json, quantize_config.json,
 * quant_config.json.
 *
 *     QuantConfig q;
 *     if (!quantconfig_read(&q, ck, &arena, err)) return false;      unknown methods and impossible settings end here
 *     if (!quantconfig_module(&q, STR("model.layers.0.mlp.up_proj"), "Linear", &spec, err)) return false;
 *
 * Whether a module is quantized at all is told by its tensors (weights_quant.c), never by the
 * config; the config names the layout and the bits and groups that the shapes must agree with. */
#ifndef MLXCEL_ARCH_QUANT_CONFIG_H
#define MLXCEL_ARCH_QUANT_CONFIG_H

#include "ckpt/checkpoint.h"
#include "quant/qmatrix.h"

typedef enum QuantMethod {
    QUANT_NONE, /* no such section */
    QUANT_MLX,
    QUANT_GPTQ,
    QUANT_AWQ,
    QUANT_CT, /* compressed-tensors */
    QUANT_FP8,
    QUANT_MODELOPT,
    QUANT_MXFP4, /* gpt-oss experts */
    QUANT_BITNET,
    QUANT_BNB, /* bitsandbytes, 4 bits */
    QUANT_COUNT
} QuantMethod;

#define QUANT_WHOLE_ROW UINT32_MAX /* as a group */

typedef struct QuantSpec { /* of one module; zero fields: the config does not say */
    Str entry;             /* where the config says it, for messages */
    unsigned bits, group;
    QFormat mode; /* MLX: one of its four formats; QFORMAT_ROWS: not said */
    unsigned block_n, block_k;
    bool exact; /* shapes that disagree are an error (MLX's global setting is only a habit) */
} QuantSpec;

typedef struct QuantRule {
    Str pattern; /* a class name ("Linear"), a module's path, or a pattern behind "re:" */
    bool is_regex;
    QuantSpec spec;
} QuantRule;

typedef struct QuantConfig {
    QuantMethod method;
    QuantSpec global;
    const QuantRule *
        /* MLX: exact paths, sorted; GPTQ and compressed-tensors: the first that matches holds */
        rules;
    size_t n_rules;
    bool gptq_v2; /* zero points as stored */
    bool bitnet_multiplies;
} QuantConfig;

const char *quantmethod_name(QuantMethod m); /* "mlx", "gptq", ... */
bool quantconfig_read(QuantConfig *q, const Checkpoint *ck, Arena *a, Err *err) MUST_CHECK;
/* class_name: "Linear" or "Embedding", which compressed-tensors may mean. */
bool quantconfig_module(const QuantConfig *q, Str module, const char *class_name, QuantSpec *out,
                        Err *err) MUST_CHECK;

#endif
