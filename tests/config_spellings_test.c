/* One model, several spellings of its config: releases, the library and older files say the same thing
 * differently. Each spelling of a golden's config records the program that the golden's own records;
 * each one that makes no sense is refused by name. Only config.json is changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "base/os.h"
#include "golden_run.h"

typedef struct Spelling {
    const char *golden;
    const char *without[8]; /* keys that are taken out */
    const char *with;       /* members that are put in */
    const char *refusal;    /* part of the message; NULL: the program of `as` */
    const char *as;         /* members that mean the same; NULL: those taken out */
} Spelling;

#define V4_NAMED                                                                                   \
    "layer_types", "mlp_layer_types", "rope_parameters", "compress_rates", "partial_rotary_factor"
#define V4_RELEASE                                                                                 \
    "\"compress_ratios\": [0, 4, 128, 4, 0], \"compress_rate_hca\": 8, \"num_hash_layers\": 1"

static const Spelling SPELLINGS[] = {
    /* lists longer than the layers count those of prediction */
    {"deepseek_v4", {V4_NAMED}, V4_RELEASE, NULL, NULL},
    {"deepseek_v4",
     {V4_NAMED},
     V4_RELEASE ", \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}",
     NULL,
     NULL},
    {"deepseek_v4",
     {"layer_types"},
     "\"layer_types\": [\"sliding_attention\"]",
     "layer_types has 1",
     NULL},
    {"deepseek_v4",
     {"layer_types"},
     "\"compress_ratios\": [0, 4, 8, 4]",
     "compress_ratios has 8; 0, 4 and 128",
     NULL},
    {"deepseek_v4", {"mlp_layer_types"}, "\"mlp_layer_types\": [1]", "mlp_layer_types", NULL},
    {"deepseek_v4",
     {"scoring_func"},
     "\"scoring_func\": \"relu\"",
     "scoring_func is \"relu\"",
     NULL},
    {"deepseek_v4", {"o_groups"}, "\"o_groups\": 3", "do not divide over o_groups 3", NULL},
    {"deepseek_v4",
     {"compress_rates"},
     "\"compress_rates\": [4]",
     "compress_rates is an array",
     NULL},
    {"deepseek_v4", {"hc_mult"}, "\"hc_mult\": 2", "hc_attn_fn has shape [24, 256]", NULL},
    {"glm_moe_dsa", {"indexer_types"}, "\"index_topk_pattern\": \"FSF\"", NULL, NULL},
    {"glm_moe_dsa",
     {"indexer_types"},
     "\"index_topk_pattern\": [\"full\", \"shared\", \"full\"]",
     NULL,
     NULL},
    {"glm_moe_dsa",
     {"indexer_types", "mlp_layer_types"},
     "\"index_topk_freq\": 2, \"index_skip_topk_offset\": 1",
     NULL,
     NULL},
    {"glm_moe_dsa",
     {"indexer_types"},
     "\"index_topk_pattern\": \"SFF\"",
     "layer 0 shares a choice of keys that no layer makes",
     NULL},
    {"glm_moe_dsa", {"indexer_types"}, "\"index_topk_pattern\": \"FXF\"", "has \"X\"", NULL},
    {"glm_moe_dsa",
     {"indexer_types"},
     "\"indexer_types\": [\"full\"]",
     "indexer_types has 1",
     NULL},
    {"glm_moe_dsa", {"index_topk"}, "\"index_topk\": 0", "index_topk is 0", NULL},
    {"deepseek_v32", {"mlp_layer_types"}, "\"num_experts\": 8", NULL, NULL},
    {"deepseek_v32",
     {"mlp_layer_types"},
     "\"mlp_layer_types\": [\"dense\", \"x\", \"dense\"]",
     "\"x\"",
     NULL},
    {"deepseek_v32", {"index_head_dim"}, "\"index_head_dim\": 4", "index_head_dim is 4", NULL},
    /* windows: below max_window_layers in every other layer; in all layers */
    {"qwen2_moe",
     {"use_sliding_window", "sliding_window", "max_window_layers"},
     "\"use_sliding_window\": true, \"sliding_window\": 5, \"max_window_layers\": 2",
     NULL,
     "\"use_sliding_window\": true, \"sliding_window\": 5, \"layer_types\": "
     "[\"sliding_attention\", \"full_attention\", \"full_attention\"]"},
    {"qwen3_moe",
     {"use_sliding_window", "sliding_window"},
     "\"use_sliding_window\": true, \"sliding_window\": 5, \"max_window_layers\": 2",
     NULL,
     "\"use_sliding_window\": true, \"sliding_window\": 5, \"layer_types\": "
     "[\"sliding_attention\", \"sliding_attention\", \"sliding_attention\"]"},
    /* keys that are there and nobody asks for */
    {"gemma3_text", {"attn_logit_softcapping"}, "\"attn_logit_softcapping\": 3.0", NULL, NULL},
    {"gemma3_nested", {"final_logit_softcapping"}, "\"final_logit_softcapping\": 3.0", NULL, NULL},
    {"kimi_linear", {"tie_word_embeddings"}, "\"tie_word_embeddings\": true", NULL, NULL},
    {"llama", {NULL}, "\"partial_rotary_factor\": 0.5", NULL, NULL},
    {"qwen3", {NULL}, "\"partial_rotary_factor\": 0.5", NULL, NULL},
    {"gemma2", {NULL}, "\"partial_rotary_factor\": 0.5", NULL, NULL},
    {"gemma3n_text", {NULL}, "\"partial_rotary_factor\": 0.5", NULL, NULL},
    {"llama4_text", {NULL}, "\"partial_rotary_factor\": 0.5", NULL, NULL},
    {"phi3",
     {"partial_rotary_factor"},
     "\"partial_rotary_factor\": 2",
     "partial_rotary_factor is 2",
     NULL},
    /* a head that differs from the embedding is the head */
    {"llama", {"tie_word_embeddings"}, "\"tie_word_embeddings\": true", NULL, NULL},
    {"llama4_text", {"tie_word_embeddings"}, "\"tie_word_embeddings\": true", NULL, NULL},
    /* what is said where nothing is said */
    {"gemma3n_text",
     {"final_logit_softcapping"},
     "\"was_it\": 0",
     NULL,
     "\"final_logit_softcapping\": 30.0"},
    {"ministral3",
     {"rope_parameters"},
     "\"was_it\": 0",
     NULL,
     "\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 1000000.0, \"factor\": 16.0, "
     "\"original_max_position_embeddings\": 16384, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "
     "\"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"llama_4_scaling_beta\": 0.1}"},
    {"ministral3", {"sliding_window"}, "\"sliding_window\": 0", "sliding_window is 0", NULL},
    {"ministral",
     {"layer_types"},
     "\"was_it\": 0",
     NULL,
     "\"layer_types\": [\"sliding_attention\", \"sliding_attention\", \"sliding_attention\"]"},
    /* biases without tensors: they are asked for */
    {"gemma2",
     {"attention_bias"},
     "\"attention_bias\": true",
     "self_attn.q_proj.bias is missing",
     NULL},
    {"gemma4_text",
     {"attention_bias"},
     "\"attention_bias\": true",
     "self_attn.q_proj.bias is missing",
     NULL},
    {"llama4_text",
     {"attention_bias"},
     "\"attention_bias\": true",
     "self_attn.q_proj.bias is missing",
     NULL},
};
enum { N_SPELLINGS = sizeof SPELLINGS / sizeof *SPELLINGS };

/* Takes a key out by giving it another name. */
static void key_hide(Buf *text, const char *key) {
    char quoted[128];
    Buf out = {0};
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    size_t at = str_find(buf_str(text), str_c(quoted), 0);
    if (at == STR_NPOS) fail_msg("the config has no %s", key);
    buf_put(&out, str_slice(buf_str(text), 0, at + 1));
    buf_put(&out, STR("was_"));
    buf_put(&out, str_from(buf_str(text), at + 1));
    buf_deinit(text);
    *text = out;
}

typedef struct Edit {
    const Spelling *s;
    const char *with;
} Edit;

/* The members instead of those that the spelling takes out. */
static void respell(Buf *config, const void *ctx) {
    const Edit *e = ctx;
    Buf out = {0};
    for (int k = 0; k < 8 && e->s->without[k]; k++) key_hide(config, e->s->without[k]);
    buf_putf(&out, "{%s,", e->with);
    buf_put(&out, str_from(buf_str(config), 1));
    buf_deinit(config);
    *config = out;
}

static void copy_make(const char *from, const char *to, const Spelling *s, const char *with) {
    Err err = {0};
    if (!golden_copy(from, to, respell, &(Edit){s, with}, &err)) fail_msg("%s", err.msg);
}

/* The listing of the text program and its ropes; false: refused. */
static bool listing(const char *path, Buf *out, Err *err) {
    Arena a = {0};
    Checkpoint *ck;
    ArchModel m;
    if (!checkpoint_open(path, &ck, err)) return false;
    bool ok = arch_build(ck, &a, &m, err);
    if (ok) program_dump(m.text, out);
    for (uint32_t i = 0; ok && i < m.text->n_ropes; i++) {
        const RopeSpec *r = &m.text->ropes[i];
        buf_putf(out, "rope %u: %d %u %.17g %.17g\n", i, (int)r->kind, r->rot_dim, r->theta,
                 r->factor);
    }
    checkpoint_close(ck);
    arena_deinit(&a);
    return ok;
}

static void spellings_mean_the_same_or_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < N_SPELLINGS; i++) {
        const Spelling *s = &SPELLINGS[i];
        char from[2048], to[2048];
        Buf want = {0}, got = {0};
        Err err = {0};
        snprintf(from, sizeof from, "%s/decoder/%s", golden_dir(), s->golden);
        snprintf(to, sizeof to, "build/spellings/%s.%zu", s->golden, i);
        if (s->as) copy_make(from, to, s, s->as);
        if (!listing(s->as ? to : from, &want, &err)) fail_msg("%s: %s", from, err.msg);
        copy_make(from, to, s, s->with);
        bool ok = listing(to, &got, &err);
        if (ok && s->refusal) fail_msg("%s with %s: accepted", s->golden, s->with);
        if (!ok && !s->refusal) fail_msg("%s with %s: %s", s->golden, s->with, err.msg);
        if (!ok && !strstr(err.msg, s->refusal))
            fail_msg("%s with %s: \"%s\"", s->golden, s->with, err.msg);
        if (ok && !str_eq(buf_str(&got), buf_str(&want)))
            fail_msg("%s with %s: another program", s->golden, s->with);
        buf_deinit(&want);
        buf_deinit(&got);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(spellings_mean_the_same_or_are_refused)};
    return cmocka_run_group_tests_name("config_spellings", tests, NULL, NULL);
}
