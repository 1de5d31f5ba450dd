/* Converting, family by family: what MLX's layout calls and lays out another way; towers of wrappers,
 * which stay as they are beside a text model that changes; encoders there and back; vocabularies of words
 * and of unigrams; who is refused, by name. Reads $MLXCEL_GOLDEN_DIR (tests/data/models.tar.xz,
 * tests/data/multimodal*.tar.xz). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/os.h"
#include "ckpt/ckpt_fixture.h"
#include "golden_run.h"
#include "quantize_run.h"
#include "task/encoder.h"
#include "text/tokenizer.h"

static const uint32_t TOKENS[] = {5, 17, 99, 3, 42, 7, 120, 11};
enum { N_TOKENS = sizeof TOKENS / sizeof *TOKENS };

static const ConvertOptions PLAIN = {.kind = CONVERT_MLX, .plain = true, .dtype = DTYPE_F32},
                            FOUR = {.mode = QFORMAT_MLX_AFFINE, .bits = 4, .group = 32},
                            GGUF = {.kind = CONVERT_GGUF, .gguf_type = "F32"};

static void must_convert(const char *in, const char *out, const ConvertOptions *o) {
    Err err = {0};
    if (!quantize_convert(in, out, o, &err)) fail_msg("%s: %s", in, err.msg);
}

static Checkpoint *open_at(const char *path) {
    Checkpoint *ck;
    Err err = {0};
    if (!checkpoint_open(path, &ck, &err)) fail_msg("%s: %s", path, err.msg);
    return ck;
}

/* ---- MLX's layout ---- */

static const struct {
    const char *golden, *tensor;
    DType dtype;
    uint64_t shape[3]; /* as the file has it; 0: whatever it is */
} LAYOUT[] = {
    {"jamba", "model.layers.1.feed_forward.switch_mlp.gate_proj.scales", DTYPE_NONE, {0}},
    {"jamba", "model.layers.0.mamba.conv1d.weight", DTYPE_F16, {128, 4, 1}},
    {"jamba", "model.layers.1.feed_forward.router.weight", DTYPE_F16, {4, 64, 0}},
    {"qwen3_next", "model.layers.0.linear_attn.conv1d.weight", DTYPE_BF16, {128, 4, 1}},
    {"qwen3_next", "model.layers.0.linear_attn.in_proj_qkvz.scales", DTYPE_NONE, {0}},
    {"kimi_linear", "model.layers.0.self_attn.q_conv.conv.weight", DTYPE_NONE, {64, 4, 1}},
    {"kimi_linear", "model.layers.1.mlp.switch_mlp.down_proj.weight", DTYPE_NONE, {8, 64, 0}},
    {"kimi_linear", "model.layers.1.mlp.e_score_correction_bias", DTYPE_NONE, {8}},
    {"deepseek_v3", "model.layers.0.self_attn.embed_q.weight", DTYPE_NONE, {4, 16, 0}},
    {"deepseek_v2_lite", "model.layers.0.self_attn.kv_b_proj.weight", DTYPE_NONE, {128, 0}},
    {"lfm2_moe", "model.layers.0.feed_forward.gate_proj.scales", DTYPE_NONE, {0}},
    {"gemma4_text_moe", "model.layers.0.experts.switch_glu.up_proj.scales", DTYPE_NONE, {0}},
    {"gemma4_text_moe", "model.layers.0.layer_scalar", DTYPE_NONE, {0}},
    {"llama4_text", "model.layers.1.feed_forward.experts.gate_proj.scales", DTYPE_NONE, {0}},
    {"deepseek_v4", "layers.0.ffn.gate.tid2eid", DTYPE_I64, {0}},
    {"recurrent_gemma", "model.layers.0.temporal_block.rg_lru.input_gate_weight", DTYPE_NONE, {0}},
};

static void names_and_shapes_are_mlx(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof LAYOUT / sizeof *LAYOUT; i++) {
        char in[2200], kind[128];
        snprintf(kind, sizeof kind, "decoder/%s", LAYOUT[i].golden);
        snprintf(in, sizeof in, "%s", quantize_golden(kind));
        must_convert(in, quantize_out("layout"), &FOUR);
        Checkpoint *ck = open_at(quantize_out("layout"));
        const CkptTensor *t = checkpoint_find(ck, str_c(LAYOUT[i].tensor));
        if (!t) fail_msg("%s: there is no %s", kind, LAYOUT[i].tensor);
        if (LAYOUT[i].dtype != DTYPE_NONE) assert_int_equal(t->dtype, LAYOUT[i].dtype);
        for (int k = 0; k < 3; k++)
            if (LAYOUT[i].shape[k]) assert_int_equal(t->shape[k], LAYOUT[i].shape[k]);
        checkpoint_close(ck);
    }
}

/* ---- wrappers ---- */

static bool read_all(const Checkpoint *ck, const CkptTensor *t, Arena *a, uint8_t **out, Err *err) {
    *out = arena_array(a, uint8_t, t->n_bytes + 1);
    return *out && checkpoint_read(ck, t, 0, *out, t->n_bytes, err);
}

/* The tensor of the input that a tower's tensor of the output was made of. */
static const CkptTensor *same_tail(const Checkpoint *ck, Str name) {
    size_t dot = str_find_char(name, '.', 0);
    Str tail = dot == STR_NPOS ? name : str_from(name, dot);
    for (size_t i = 0; i < ck->n_tensors; i++) {
        Str n = ck->tensors[i].name;
        bool text = str_find(n, STR("language_model"), 0) != STR_NPOS ||
                    str_starts(n, STR("model.layers."));
        if (!text && str_ends(n, tail)) return &ck->tensors[i];
    }
    return NULL;
}

static size_t towers_are_alike(const char *in, const char *out) {
    Checkpoint *a = open_at(in), *b = open_at(out);
    Arena mem = {0};
    Err err = {0};
    size_t n = 0;
    for (size_t i = 0; i < b->n_tensors; i++) {
        const CkptTensor *y = &b->tensors[i];
        if (str_starts(y->name, STR("language_model."))) continue;
        const CkptTensor *x = same_tail(a, y->name);
        uint8_t *p, *q;
        if (!x || x->dtype != y->dtype || x->n_bytes != y->n_bytes)
            fail_msg("%s: %.*s is not as it was", in, (int)y->name.n, y->name.p);
        if (!read_all(a, x, &mem, &p, &err) || !read_all(b, y, &mem, &q, &err))
            fail_msg("%s", err.msg);
        assert_memory_equal(p, q, x->n_bytes);
        n++;
    }
    arena_deinit(&mem);
    checkpoint_close(a);
    checkpoint_close(b);
    return n;
}

static void same_text(const char *a, const char *b, double band) {
    QuantizeRun x = {0}, y = {0};
    Err err = {0};
    if (!quantize_logits(a, TOKENS, N_TOKENS, &x, &err) ||
        !quantize_logits(b, TOKENS, N_TOKENS, &y, &err))
        fail_msg("%s: %s", b, err.msg);
    assert_int_equal(x.n, y.n);
    double off = quantize_rms(y.logits, x.logits, x.n);
    if (!(off <= band)) fail_msg("%s and %s differ by %.2e", a, b, off);
    arena_deinit(&x.a);
    arena_deinit(&y.a);
}

static void towers_stay(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    Str *names;
    size_t n, n_run = 0;
    char dir[2200], in[2400];
    snprintf(dir, sizeof dir, "%s", quantize_golden("multimodal"));
    if (!os_list_dir(dir, &a, &names, &n, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < n; i++) {
        snprintf(in, sizeof in, "%s/%.*s", dir, (int)names[i].n, names[i].p);
        if (!golden_known(in, "text")) continue;
        must_convert(in, quantize_out("wrapper"), &FOUR);
        if (!towers_are_alike(in, quantize_out("wrapper"))) fail_msg("%s: no tower", in);
        must_convert(in, quantize_out("wrapper"), &PLAIN);
        same_text(in, quantize_out("wrapper"), 1e-6);
        n_run++;
    }
    print_message("%zu wrappers\n", n_run);
    assert_true(n_run >= 5);
    arena_deinit(&a);
}

/* ---- encoders ---- */

typedef struct Rows {
    float x[2 * 512];
    size_t n;
} Rows;

static void encode(const char *path, Rows *out) {
    static const uint32_t SECOND[] = {1, 9, 200, 31, 2};
    const EncoderInput in[2] = {{.ids = TOKENS, .n = N_TOKENS}, {.ids = SECOND, .n = 5}};
    ModelOptions mo = {.backend = "ref", .be = {.n_threads = 1}};
    Model *m = NULL;
    Encoder *e = NULL;
    Err err = {0};
    if (!model_open(path, &mo, &m, &err)) fail_msg("%s: %s", path, err.msg);
    EncoderOptions eo = {.pooling = POOLING_MEAN, .no_normalize = true};
    eo.scores = m->arch.n_labels > 0;
    if (!encoder_open(m, &eo, &e, &err)) fail_msg("%s: %s", path, err.msg);
    out->n = 2 * (size_t)encoder_width(e);
    assert_true(out->n <= sizeof out->x / sizeof *out->x);
    if (!encoder_run(e, in, 2, out->x, &err)) fail_msg("%s: %s", path, err.msg);
    encoder_close(e);
    model_close(m);
}

static void same_rows(const char *a, const char *b, double band) {
    Rows x, y;
    encode(a, &x);
    encode(b, &y);
    assert_int_equal(x.n, y.n);
    double off = quantize_rms(y.x, x.x, x.n);
    if (!(off <= band)) fail_msg("%s and %s differ by %.2e", a, b, off);
}

/* Rows of vectors and scores of heads, whichever names the file has, as a GGUF, back, and quantized. */
static void encoders_there_and_back(void **state) {
    (void)state;
    Arena a = {0};
    Err err = {0};
    Str *names;
    size_t n, n_run = 0;
    const ConvertOptions eight = {.mode = QFORMAT_MLX_AFFINE, .bits = 8, .group = 32};
    char dir[2200], in[2400], there[256];
    snprintf(dir, sizeof dir, "%s", quantize_golden("encoder"));
    if (!os_list_dir(dir, &a, &names, &n, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < n; i++) {
        snprintf(in, sizeof in, "%s/%.*s", dir, (int)names[i].n, names[i].p);
        if (!golden_known(in, "embedding")) continue;
        must_convert(in, quantize_out("encoder"), &PLAIN);
        same_rows(in, quantize_out("encoder"), 1e-6);
        must_convert(in, quantize_out("encoder"), &eight);
        same_rows(in, quantize_out("encoder"), 0.05);
        snprintf(there, sizeof there, "%s", quantize_out("encoder.gguf"));
        if (!quantize_convert(in, there, &GGUF, &err)) {
            /* a GGUF cannot name the activation of one */
            if (err.kind != ERR_UNSUPPORTED) fail_msg("%s: %s", in, err.msg);
            err = (Err){0};
            continue;
        }
        same_rows(in, there, 1e-6);
        must_convert(there, quantize_out("encoder"), &PLAIN);
        same_rows(in, quantize_out("encoder"), 1e-6);
        n_run++;
    }
    print_message("%zu encoders\n", n_run);
    assert_true(n_run >= 5);
    arena_deinit(&a);
}

/* ---- vocabularies ---- */

static const char WORDS[] =
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":0,\"content\":\"[PAD]\",\"single_word\":false,"
    "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true},{\"id\":1,"
    "\"content\":"
    "\"[UNK]\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
    "\"special\":true},{\"id\":2,\"content\":\"[CLS]\",\"single_word\":false,\"lstrip\":false,"
    "\"rstrip\":false,\"normalized\":false,\"special\":true},{\"id\":3,\"content\":\"[SEP]\","
    "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}"
    "],"
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
    "\"strip_accents\":null,\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",3],\"cls\":[\"[CLS]\",2]},"
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\"model\":{\"type\":"
    "\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
    "\"max_input_chars_per_word\":100,\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,"
    "\"hello\":4,\"un\":5,\"##able\":6,\"##s\":7,\"world\":8,\",\":9,\"!\":10,\"caf\":11,"
    "\"##e\":12}}}";

static const char UNIGRAMS[] =
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"single_word\":false,"
    "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true},{\"id\":1,"
    "\"content\":"
    "\"<pad>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
    "\"special\":true},{\"id\":2,\"content\":\"</s>\",\"single_word\":false,\"lstrip\":false,"
    "\"rstrip\":false,\"normalized\":false,\"special\":true},{\"id\":3,\"content\":\"<unk>\","
    "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}"
    "],"
    "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"},"
    "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":"
    "\"always\",\"split\":true},\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"</"
    "s>\","
    "2],\"cls\":[\"<s>\",0],\"trim_offsets\":true,\"add_prefix_space\":true},\"decoder\":{\"type\":"
    "\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"always\",\"split\":true},"
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":3,\"vocab\":[[\"<s>\",0],[\"<pad>\",0],[\"</"
    "s>\",0],"
    "[\"<unk>\",0],[\"\xE2\x96\x81hello\",-3.5],[\"\xE2\x96\x81wor\",-4.25],[\"ld\",-4.5],[\"l\","
    "-6],[\"d\",-6.5],[\"\xE2\x96\x81\",-2],[\",\",-3],[\"un\",-5],[\"s\",-3.25]]}}";

static void same_ids(const Tokenizer *a, const Tokenizer *b) {
    static const char *const TEXTS[] = {"Hello, worlds!", "unable  hello", "caf\xC3\xA9 hello",
                                        "hello world uns ,", ""};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        TokIds x = {0}, y = {0};
        Err err = {0};
        if (!tokenizer_encode_text(a, str_c(TEXTS[i]), true, true, &x, &err) ||
            !tokenizer_encode_text(b, str_c(TEXTS[i]), true, true, &y, &err))
            fail_msg("%s", err.msg);
        if (x.n != y.n || (x.n && memcmp(x.p, y.p, x.n * sizeof *x.p)))
            fail_msg("\"%s\" is %zu tokens and %zu other ones", TEXTS[i], x.n, y.n);
        tokids_deinit(&x);
        tokids_deinit(&y);
    }
}

/* From tokenizer.json into a GGUF, and from there into another tokenizer.json. */
static void vocabulary(const char *json) {
    Tokenizer *a, *b, *c;
    Err err = {0};
    char in[2400], dir[256], there[256];
    Checkpoint *ck;
    snprintf(in, sizeof in, "%s", quantize_golden("encoder/bert_mean"));
    snprintf(dir, sizeof dir, "%s", quantize_out("vocabulary"));
    snprintf(there, sizeof there, "%s", quantize_out("vocabulary.gguf"));
    must_convert(in, dir, &PLAIN);
    if (!os_write_file(fx_path(dir, "tokenizer.json"), str_c(json), &err)) fail_msg("%s", err.msg);
    must_convert(dir, there, &GGUF);
    ck = open_at(there);
    if (!tokenizer_load_dir(dir, &a, &err) || !tokenizer_load_checkpoint(ck, &b, &err))
        fail_msg("%s", err.msg);
    checkpoint_close(ck);
    same_ids(a, b);
    must_convert(there, quantize_out("vocabulary.back"), &PLAIN);
    if (!tokenizer_load_dir(quantize_out("vocabulary.back"), &c, &err)) fail_msg("%s", err.msg);
    same_ids(a, c);
    tokenizer_free(a);
    tokenizer_free(b);
    tokenizer_free(c);
}

static void words_and_unigrams(void **state) {
    (void)state;
    vocabulary(WORDS);
    vocabulary(UNIGRAMS);
}

/* ---- who is refused ---- */

static void refused_by_name(void **state) {
    (void)state;
    static const char *const NONE[][2] = {{"decoder/recurrent_gemma", "recurrent_gemma"},
                                          {"multimodal/whisper", "whisper"}};
    for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++) {
        Err err = {0};
        const char *in = quantize_golden(NONE[i][0]);
        if (!os_is_dir(in)) continue;
        assert_false(quantize_convert(in, quantize_out("none.gguf"), &GGUF, &err));
        assert_int_equal(err.kind, ERR_UNSUPPORTED);
        if (!strstr(err.msg, NONE[i][1])) fail_msg("%s", err.msg);
        assert_false(os_exists(quantize_out("none.gguf")));
    }
}

/* What MLX's readers, and transformers', look for in a config that a GGUF did not have. */
static void configs_name_their_class(void **state) {
    (void)state;
    static const char *const CLASSES[][2] = {
        {"decoder/llama", "\"LlamaForCausalLM\""},
        {"decoder/gemma3_text", "\"Gemma3ForCausalLM\""},
        {"encoder/bert_mean", "\"BertModel\""},
        {"encoder/bert_reranker", "\"BertForSequenceClassification\""}};
    for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++) {
        char in[2400], there[256];
        Buf text = {0};
        Err err = {0};
        snprintf(in, sizeof in, "%s", quantize_golden(CLASSES[i][0]));
        snprintf(there, sizeof there, "%s", quantize_out("class.gguf"));
        must_convert(in, there, &GGUF);
        must_convert(there, quantize_out("class"), &PLAIN);
        if (!os_read_file(fx_path(quantize_out("class"), "config.json"), 1 << 20, &text, &err))
            fail_msg("%s", err.msg);
        if (str_find(buf_str(&text), str_c(CLASSES[i][1]), 0) == STR_NPOS)
            fail_msg("%s: %s", CLASSES[i][0], buf_cstr(&text));
        buf_deinit(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_shapes_are_mlx), cmocka_unit_test(towers_stay),
        cmocka_unit_test(encoders_there_and_back),  cmocka_unit_test(words_and_unigrams),
        cmocka_unit_test(refused_by_name),          cmocka_unit_test(configs_name_their_class)};
    return cmocka_run_group_tests_name("quantize_family", tests, quantize_begin, quantize_end);
}
