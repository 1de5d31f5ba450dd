/* Any JSON as a quantization section: settings that are read are within their ranges, others give a
 * message. */
#include <stdlib.h>
#include <string.h>

#include "arch/quant_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const QuantSpec *s) {
    if (s->bits > 8 || s->block_n > 1 << 16 || s->block_k > 1 << 16) abort();
    if ((s->block_n == 0) != (s->block_k == 0)) abort();
    if (s->mode > QFORMAT_MLX_NVFP4) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const FILES[] = {"config.json", "quantize_config.json", "quant_config.json",
                                        "hf_quant_config.json"};
    static const char *const NAMES[] = {"model.layers.0.self_attn.q_proj",
                                        "model.layers.11.mlp.down_proj", "lm_head", ""};
    Arena a = {.max_bytes = 1 << 24};
    Json *doc;
    Err err = {0};
    if (size == 0) return 0;
    Str text = {(const char *)data + 1, size - 1};
    if (json_parse(text, NULL, &a, &doc, &err) && doc->type == JSON_OBJECT) {
        const Checkpoint ck = {.quantization = doc, .quantization_file = FILES[data[0] % 4]};
        QuantConfig q;
        err = (Err){0};
        bool ok = quantconfig_read(&q, &ck, &a, &err);
        if (!ok && (err.kind == ERR_NONE || err.kind == ERR_INTERNAL || !err.msg[0])) abort();
        for (size_t i = 0; ok && i < sizeof NAMES / sizeof *NAMES; i++) {
            QuantSpec spec;
            Err why = {0};
            if (quantconfig_module(&q, str_c(NAMES[i]), i == 3 ? "Embedding" : "Linear", &spec,
                                   &why))
                check(&spec);
            else if (why.kind != ERR_UNSUPPORTED && why.kind != ERR_LIMIT)
                abort();
        }
    }
    arena_deinit(&a);
    return 0;
}
