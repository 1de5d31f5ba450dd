/* Every vocabulary of the golden vectors gives the reference's ids, decodes and streamed pieces;
 * hostile files get the right verdict. tests/data/tokenizer holds some vocabularies; all of them
 * run when MLXCEL_GOLDEN names the full set. Prints what passed, per vocabulary and field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/os.h"
#include "json/json.h"
#include "json/json_writer.h"
#include "text/tok_jsonl.h"

#define OWN "tests/data/tokenizer"

typedef struct Score {
    int ok, n;
} Score;

enum { F_IDS, F_FULL, F_NP, F_SPM, F_DEC, F_SKIP, F_STREAM, N_FIELDS };
static const char *const field_names[N_FIELDS] = {"ids", "full", "np",    "spm",
                                                  "dec", "skip", "stream"};

static Json *parse(Arena *a, Str text) {
    Json *j = NULL;
    Err err;
    JsonOptions opt = {.max_depth = 64};
    if (!json_parse(text, &opt, a, &j, &err)) fail_msg("%s", err.msg);
    return j;
}

/* A file, or what xz makes of the file beside it. false: neither is there. */
static bool read_any(const char *root, const char *dir, const char *name, Buf *out) {
    char path[512], command[560];
    Err err;
    snprintf(path, sizeof path, "%s/%s/%s", root, dir, name);
    buf_clear(out);
    if (os_is_file(path)) {
        if (!os_read_file(path, TOK_MAX_FILE_BYTES, out, &err)) fail_msg("%s", err.msg);
        return true;
    }
    strncat(path, ".xz", sizeof path - strlen(path) - 1);
    if (!os_is_file(path)) return false;
    snprintf(command, sizeof command, "xz -dc '%s'", path);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    bool ok = os_read_fd(fileno(p), TOK_MAX_FILE_BYTES, out, &err);
    assert_int_equal(pclose(p), 0);
    assert_true(ok);
    return true;
}

typedef struct Set { /* where vectors are, and the texts they are of */
    const char *root;
    Arena arena;
    const Json **texts;
    size_t n_texts;
} Set;

static void read_corpus(Set *s) {
    Buf b = {0};
    Str rest, line;
    assert_true(read_any(s->root, ".", "corpus.jsonl", &b));
    rest = buf_str(&b);
    s->texts = arena_array(&s->arena, const Json *, 1000);
    while (str_split(&rest, '\n', &line)) {
        if (line.n == 0) continue;
        const Json *j = parse(&s->arena, line);
        if (json_get(j, "text") && s->n_texts < 1000) s->texts[s->n_texts++] = j;
    }
    buf_deinit(&b);
}

static Str text_of(const Set *s, const Json *vector) {
    Str id, other, text = STR_NONE;
    assert_true(json_str(json_get(vector, "id"), &id));
    for (size_t i = 0; i < s->n_texts; i++)
        if (json_str(json_get(s->texts[i], "id"), &other) && str_eq(id, other)) {
            assert_true(json_str(json_get(s->texts[i], "text"), &text));
            return text;
        }
    fail_msg("no text " STR_F, STR_A(id));
    return text;
}

static bool same_part(const uint32_t *ids, const Json *list) {
    for (size_t i = 0; i < list->n; i++) {
        int64_t v;
        if (!json_i64(&list->items[i], &v) || v != ids[i]) return false;
    }
    return true;
}

/* A list of ids, or {"n", "head", "tail"} of a long one. */
static bool same_ids(const TokIds *ids, const Json *want) {
    if (want->type == JSON_ARRAY) return ids->n == want->n && same_part(ids->p, want);
    int64_t n;
    const Json *head = json_get(want, "head"), *tail = json_get(want, "tail");
    return json_i64(json_get(want, "n"), &n) && (size_t)n == ids->n && head->n <= ids->n &&
           tail->n <= ids->n && same_part(ids->p, head) &&
           same_part(ids->p + ids->n - tail->n, tail);
}

static void count(Score *s, bool ok, const Json *v, const char *field) {
    Str id = STR_NONE;
    s->n++;
    if (ok)
        s->ok++;
    else if (json_str(json_get(v, "id"), &id))
        printf("    %s differs at " STR_F "\n", field, STR_A(id));
}

static bool encodes(const Tokenizer *t, Str text, bool add, bool parse_special, const Json *want,
                    const Json *before, const Json *after) {
    TokIds ids = {0};
    Err err;
    bool ok = tokenizer_encode_text(t, text, add, parse_special, &ids, &err);
    if (ok && before) {
        TokIds inner = {ids.p + before->n, ids.n - before->n - after->n, 0, false};
        ok = ids.n >= before->n + after->n && same_part(ids.p, before) &&
             same_part(ids.p + ids.n - after->n, after) && same_ids(&inner, want);
    } else if (ok) {
        ok = same_ids(&ids, want);
    }
    tokids_deinit(&ids);
    return ok;
}

static bool decodes(const Tokenizer *t, const Json *ids, bool skip, Str want) {
    TokIds list = {0};
    Buf out = {0};
    Err err;
    for (size_t i = 0; i < ids->n; i++) {
        int64_t v;
        assert_true(json_i64(&ids->items[i], &v));
        tokids_push(&list, (uint32_t)v);
    }
    bool ok = tokenizer_decode(t, list.p, list.n, skip, &out, &err) && str_eq(buf_str(&out), want);
    tokids_deinit(&list);
    buf_deinit(&out);
    return ok;
}

static bool streams(const Tokenizer *t, const Json *ids, const Json *want) {
    Arena a = {0};
    Buf line = {0}, out = {0};
    JsonWriter w = {.out = &line};
    TokJsonl opt = {.pieces = true};
    json_w_tree(&w, ids);
    tok_jsonl_decode(t, &opt, buf_str(&line), &out);
    const Json *got = parse(&a, buf_str(&out));
    bool ok = got->type == JSON_ARRAY && got->n == want->n;
    for (size_t i = 0; ok && i < want->n; i++)
        ok = got->items[i].type == want->items[i].type &&
             str_eq(got->items[i].text, want->items[i].text);
    buf_deinit(&line);
    buf_deinit(&out);
    arena_deinit(&a);
    return ok;
}

static const Json *either(const Json *v, const char *a, const Json *otherwise) {
    const Json *x = json_get(v, a);
    return x ? x : otherwise;
}

/* What one vector says about a tokenizer; spm: the file is SentencePiece's own; bare: it has no
 * special tokens. */
static void check_vector(const Tokenizer *t, const Json *v, const Json *meta, Str text, bool spm,
                         bool bare, Score *s) {
    const Json *ids = json_get(v, "ids"), *np = either(v, "np", ids), *full = json_get(v, "full");
    if (spm) { /* for the longest texts the vectors do not say what SentencePiece gives */
        if (json_get(v, "spm") || np->type == JSON_ARRAY)
            count(&s[F_SPM], encodes(t, text, false, false, either(v, "spm", np), NULL, NULL), v,
                  "spm");
        return;
    }
    count(&s[F_NP], encodes(t, text, false, false, np, NULL, NULL), v, "np");
    if (bare) return;
    count(&s[F_IDS], encodes(t, text, false, true, ids, NULL, NULL), v, "ids");
    bool ok =
        full ? encodes(t, text, true, true, full, NULL, NULL)
             : encodes(t, text, true, true, ids, json_get(meta, "pre"), json_get(meta, "post"));
    count(&s[F_FULL], ok, v, "full");
    Str dec = text, skip;
    if (ids->type != JSON_ARRAY || json_get(v, "dec_sha256")) return;
    (void)json_str(json_get(v, "dec"), &dec);
    skip = dec;
    (void)json_str(json_get(v, "skip"), &skip);
    count(&s[F_DEC], decodes(t, ids, false, dec), v, "dec");
    count(&s[F_SKIP], decodes(t, ids, true, skip), v, "skip");
    if (json_is(json_get(v, "stream"), JSON_ARRAY))
        count(&s[F_STREAM], streams(t, ids, json_get(v, "stream")), v, "stream");
}

static void run_vectors(const Set *set, const char *name, const char *file, const Tokenizer *t,
                        int *n_failed) {
    Arena a = {0};
    Buf b = {0};
    Score s[N_FIELDS] = {{0, 0}};
    bool spm = strstr(file, ".model") != NULL, bare = strstr(file, ".tiktoken") != NULL;
    assert_true(read_any(set->root, name, "vectors.jsonl", &b));
    Str rest = buf_str(&b), line;
    const Json *meta = NULL;
    while (str_split(&rest, '\n', &line)) {
        if (line.n == 0) continue;
        const Json *v = parse(&a, line);
        if (json_get(v, "meta"))
            meta = json_get(v, "meta");
        else
            check_vector(t, v, meta, text_of(set, v), spm, bare, s);
    }
    printf("%-18s %-18s", name, file);
    for (int i = 0; i < N_FIELDS; i++) {
        if (s[i].n) printf(" %s %d/%d", field_names[i], s[i].ok, s[i].n);
        *n_failed += s[i].n - s[i].ok;
    }
    printf("\n");
    buf_deinit(&b);
    arena_deinit(&a);
}

static const char *const vocabularies[][2] = {
    {"smollm2", "tokenizer.json"},
    {"minilm_bert", "tokenizer.json"},
    {"spm_unigram_en", "tokenizer.json"},
    {"spm_unigram_en", "tokenizer.model"},
    {"phi3", "tokenizer.json"},
    {"mistral_v1", "tokenizer.json"},
    {"mistral_v1", "tokenizer.model"},
    {"whisper_tiktoken", "vocab.tiktoken"},
    {"gpt2", "tokenizer.json"},
    {"falcon", "tokenizer.json"},
    {"qwen3", "tokenizer.json"},
    {"deepseek_v3", "tokenizer.json"},
    {"gpt_oss", "tokenizer.json"},
    {"mistral_nemo", "tokenizer.json"},
    {"yi", "tokenizer.json"},
    {"xlm_roberta", "tokenizer.json"},
    {"llama3_1", "tokenizer.json"},
    {"gemma3", "tokenizer.json"},
    {"command_r_plus", "tokenizer.json"},
};

static bool load(const char *file, Str text, Tokenizer **t, Err *err) {
    if (strstr(file, ".tiktoken")) return tokenizer_load_tiktoken(text, "gpt2", t, err);
    return strstr(file, ".model") ? tokenizer_load_spm(text, t, err)
                                  : tokenizer_load_json(text, t, err);
}

static void run_set(const char *root, int n_least) {
    Set set = {.root = root};
    Buf b = {0};
    int n_failed = 0, n_run = 0;
    read_corpus(&set);
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        const char *name = vocabularies[i][0], *file = vocabularies[i][1];
        Tokenizer *t = NULL;
        Err err;
        if (!read_any(root, name, file, &b))
            continue; /* not shipped for its licence, or not copied */
        if (!load(file, buf_str(&b), &t, &err)) fail_msg("%s: %s", name, err.msg);
        run_vectors(&set, name, file, t, &n_failed);
        tokenizer_free(t);
        n_run++;
    }
    buf_deinit(&b);
    arena_deinit(&set.arena);
    assert_int_equal(n_failed, 0);
    assert_true(n_run >= n_least);
}

static void golden_root(char path[512]) {
    const char *env = getenv("MLXCEL_GOLDEN");
    path[0] = 0;
    if (env) snprintf(path, 512, "%s/tokenizer", env);
    if (!os_is_dir(path)) path[0] = 0;
}

static void test_own_vectors(void **state) {
    (void)state;
    run_set(OWN, 8);
}

static void test_golden_vectors(void **state) {
    (void)state;
    char root[512];
    golden_root(root);
    if (!root[0]) skip();
    run_set(root, 14);
}

/* llama.cpp's vectors: ids without BOS and EOS, special text parsed. */
static int run_gguf(const char *root, const char *name) {
    char file[64], temp[] = "/tmp/mlxcel_gguf_XXXXXX.gguf";
    Buf b = {0};
    Arena a = {0};
    Tokenizer *t = NULL;
    Err err;
    snprintf(file, sizeof file, "%s.gguf", name);
    if (!read_any(root, "vocab_gguf", file, &b)) return 0;
    int fd = mkstemps(temp, 5);
    assert_true(fd >= 0);
    assert_true(os_write_file(temp, buf_str(&b), &err));
    if (!tokenizer_load_file(temp, NULL, &t, &err)) fail_msg("%s: %s", name, err.msg);
    remove(temp);
    snprintf(file, sizeof file, "%s.jsonl", name);
    assert_true(read_any(root, "vocab_gguf", file, &b));
    Str rest = buf_str(&b), line;
    Score s = {0, 0};
    while (str_split(&rest, '\n', &line)) {
        Str text;
        const Json *v = line.n ? parse(&a, line) : NULL;
        if (!v || !json_str(json_get(v, "text"), &text)) continue;
        s.n++;
        s.ok += encodes(t, text, false, true, json_get(v, "ids"), NULL, NULL);
    }
    printf("%-18s %-18s ids %d/%d\n", name, "GGUF", s.ok, s.n);
    tokenizer_free(t);
    buf_deinit(&b);
    arena_deinit(&a);
    assert_int_equal(s.ok, s.n);
    return s.n;
}

static void test_gguf_vocabularies(void **state) {
    (void)state;
    static const char *const names[] = {"bert-bge", "phi-3", "gpt-2", "falcon"};
    char root[512];
    golden_root(root);
    int n = 0;
    for (int i = 0; i < 4; i++) n += run_gguf(OWN, names[i]);
    assert_true(n > 80);
    for (int i = 0; root[0] && i < 4; i++) (void)run_gguf(root, names[i]);
}

/* Hostile and odd files: the verdict of index.jsonl, a message with every refusal, and texts
 * that end. */
static void test_malformed_files(void **state) {
    (void)state;
    Buf index = {0}, b = {0};
    Arena a = {0};
    Str rest, line, file, must, text;
    int n = 0;
    assert_true(read_any(OWN, "malformed", "index.jsonl", &index));
    rest = buf_str(&index);
    while (str_split(&rest, '\n', &line)) {
        Tokenizer *t = NULL;
        Err err = {0};
        TokIds ids = {0};
        char name[128];
        const Json *j = line.n ? parse(&a, line) : NULL;
        if (!j || !json_str(json_get(j, "file"), &file) || !json_str(json_get(j, "must"), &must))
            continue;
        snprintf(name, sizeof name, STR_F, STR_A(str_from(file, strlen("tokenizer/"))));
        assert_true(read_any(OWN, "malformed", name, &b));
        bool ok = tokenizer_load_json(buf_str(&b), &t, &err);
        if (str_eqc(must, "accept") && !ok) fail_msg("%s must load: %s", name, err.msg);
        if (str_eqc(must, "refuse") && ok) fail_msg("%s must be refused", name);
        if (!ok) assert_true(err.msg[0] != 0);
        text = STR("some text, 123");
        (void)json_str(json_get(j, "text"), &text);
        if (ok && !tokenizer_encode_text(t, text, true, true, &ids, &err))
            assert_true(err.msg[0] != 0);
        tokids_deinit(&ids);
        tokenizer_free(t);
        n++;
    }
    assert_true(n >= 30);
    buf_deinit(&index);
    buf_deinit(&b);
    arena_deinit(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_vectors),
        cmocka_unit_test(test_golden_vectors),
        cmocka_unit_test(test_gguf_vocabularies),
        cmocka_unit_test(test_malformed_files),
    };
    return cmocka_run_group_tests_name("tokenizer_golden", tests, NULL, NULL);
}
