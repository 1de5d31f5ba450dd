/* Any bytes as config.json, or (when they begin with "GGUF") as the keys of a GGUF file: every
 * kind of look-up gives a value in range or a message. */
#include <math.h>
#include <string.h>

#include "ckpt/config.h"
#include "ckpt/fuzz_file.h"
#include "ckpt/gguf.h"

static void look_up(const Config *c) {
    static const char *const keys[] = {
        "hidden_size|n_embd",
        "num_hidden_layers",
        "vocab_size",
        "head_dim",
        "qk_nope_head_dim",
        "partial_rotary_factor",
        "rms_norm_eps",
        "sliding_window",
        "tie_word_embeddings",
        "scoring_func",
        "num_key_value_heads",
        "rope_type|type",
        "factor",
        "mscale",
        ".attention.scale",
        "eos_token_id",
        "layer_types",
        "a",
    };
    Arena a = {.max_bytes = 1 << 26};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        Err err = {0};
        int64_t n;
        double d;
        bool b;
        Str s;
        const double *doubles;
        const int64_t *ints;
        const Str *strs;
        size_t count;
        if (config_int(c, keys[i], 5, 0, 1000, &n, &err) ? n < 0 || n > 1000 : !err.msg[0]) abort();
        if (config_float(c, keys[i], 0.5, 0, 2, &d, &err) ? !isfinite(d) || d < 0 || d > 2
                                                          : !err.msg[0])
            abort();
        if (!config_bool(c, keys[i], true, &b, &err) && !err.msg[0]) abort();
        if (!config_str(c, keys[i], NULL, &s, &err) && !err.msg[0]) abort();
        if (!config_floats(c, keys[i], &a, &doubles, &count, &err) && !err.msg[0]) abort();
        if (!config_ints(c, keys[i], &a, &ints, &count, &err) && !err.msg[0]) abort();
        if (!config_strs(c, keys[i], &a, &strs, &count, &err) && !err.msg[0]) abort();
    }
    arena_deinit(&a);
}

static void both_levels(const Config *c) {
    Config section;
    Err err = {0};
    look_up(c);
    if (config_section(c, "rope_scaling", &section, &err)) look_up(&section);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size >= 4 && !memcmp(data, "GGUF", 4)) {
        char path[64];
        int fd = fuzz_file(data, size, path);
        Gguf *g;
        if (gguf_open(path, &g, NULL)) {
            Config c = {.gguf = g, .model_type = STR("llama")};
            both_levels(&c);
            gguf_close(g);
        }
        close(fd);
        return 0;
    }
    Arena a = {0};
    Json *doc;
    JsonOptions opt = {.python_numbers = true};
    if (json_parse((Str){(const char *)data, size}, &opt, &a, &doc, NULL))
        both_levels(&(Config){.json = doc});
    arena_deinit(&a);
    return 0;
}
