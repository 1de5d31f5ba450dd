/* tokenizer_config.json and special_tokens_map.json: names of the special tokens, tokens that
 * the tokenizer file itself does not list, and whether BOS and EOS are added. */
#include "json/json.h"
#include "text/tok_load.h"
#include "text/tokenizer_priv.h"

static const struct {
    const char *key;
    TokRole role;
} role_keys[] = {{"bos_token", TOK_BOS},  {"eos_token", TOK_EOS}, {"unk_token", TOK_UNK},
                 {"sep_token", TOK_SEP},  {"pad_token", TOK_PAD}, {"cls_token", TOK_CLS},
                 {"mask_token", TOK_MASK}};

/* A token is a string, or {"content": ..., flags}. */
static bool token_text(const Json *j, Str *out) {
    return json_str(j, out) || json_str(json_get(j, "content"), out);
}

static void take_roles(Tokenizer *t, const Json *j) {
    for (size_t i = 0; i < sizeof role_keys / sizeof *role_keys; i++) {
        Str s;
        uint32_t id;
        if (token_text(json_get(j, role_keys[i].key), &s) && tokenizer_find(t, s, &id))
            t->roles[role_keys[i].role] = id;
    }
}

static bool parse(Str text, Arena *a, const Json **out, Err *err) {
    Json *j;
    JsonOptions opt = {.dup = JSON_DUP_LAST};
    if (!json_parse(text, &opt, a, &j, err)) return err_wrap(err, "tokenizer configuration");
    if (j->type != JSON_OBJECT)
        return err_set(err, ERR_INPUT, "tokenizer configuration must be an object, it is %s",
                       jsontype_name(j->type));
    *out = j;
    return true;
}

/* Tokens of the configuration that neither the tokenizer file's added tokens nor an id of it
 * cover. */
static bool take_added(Tokenizer *t, const Json *list, Err *err) {
    for (size_t i = 0; list && list->type == JSON_OBJECT && i < list->n; i++) {
        const Json *j = &list->items[i];
        AddedToken a = {0};
        uint64_t id, known;
        if (!str_to_u64(j->key, &id) || id >= TOK_NONE ||
            !json_str(json_get(j, "content"), &a.text))
            return err_set(err, ERR_INPUT,
                           "added_tokens_decoder: \"" STR_F
                           "\" must be an id with a token's content",
                           STR_A(j->key));
        if (map_get(&t->added.by_text, a.text, &known)) continue;
        a.id = (uint32_t)id;
        (void)json_bool(json_get(j, "special"), &a.special);
        (void)json_bool(json_get(j, "lstrip"), &a.lstrip);
        (void)json_bool(json_get(j, "rstrip"), &a.rstrip);
        (void)json_bool(json_get(j, "single_word"), &a.single_word);
        a.normalized = !a.special;
        (void)json_bool(json_get(j, "normalized"), &a.normalized);
        if (!tokenizer_add_token(t, a, err)) return false;
    }
    return true;
}

/* Classes whose post-processor transformers builds from add_bos_token and add_eos_token. A
 * tokenizer.json that adds tokens itself has the last word here. */
static bool rebuilds_post(Str name) {
    return str_starts(name, STR("Llama")) || str_starts(name, STR("CodeLlama")) ||
           str_starts(name, STR("Gemma")) || str_starts(name, STR("Cohere"));
}

static bool take_post(Tokenizer *t, const Json *j, Err *err) {
    Str name = STR_NONE;
    bool bos = false, eos = false;
    (void)json_str(json_get(j, "tokenizer_class"), &name);
    bool has = json_bool(json_get(j, "add_bos_token"), &bos);
    has = json_bool(json_get(j, "add_eos_token"), &eos) || has;
    bool own = false;
    for (size_t i = 0; i < t->post.single.n; i++)
        own = own || t->post.single.p[i].kind == POST_TOKEN;
    if (!has || own || !(rebuilds_post(name) || t->post.single.n == 0)) return true;
    return postproc_set(&t->post, bos ? t->roles[TOK_BOS] : TOK_NONE,
                        eos ? t->roles[TOK_EOS] : TOK_NONE, err);
}

/* transformers' LlamaTokenizer with legacy false puts SentencePiece's blank in front of the text only, not behind every
 * special token as well. */
static void take_legacy(Tokenizer *t, const Json *j) {
    bool legacy = true;
    if (!json_bool(json_get(j, "legacy"), &legacy) || legacy) return;
    for (size_t i = 0; i < t->norm.n; i++) t->norm.steps[i].prefix_first = true;
}

bool tokconfig_apply(Tokenizer *t, Str text, Err *err) {
    Arena a = {0};
    const Json *j = NULL;
    bool ok = parse(text, &a, &j, err) && take_added(t, json_get(j, "added_tokens_decoder"), err);
    if (ok) {
        take_roles(t, j);
        take_legacy(t, j);
        ok = take_post(t, j, err);
    }
    arena_deinit(&a);
    return ok;
}

bool tokconfig_apply_specials(Tokenizer *t, Str text, Err *err) {
    Arena a = {0};
    const Json *j = NULL;
    uint32_t before[TOK_ROLE_COUNT];
    bool ok = parse(text, &a, &j, err);
    if (ok) {
        for (int i = 0; i < TOK_ROLE_COUNT; i++) before[i] = t->roles[i];
        take_roles(t, j);
        for (int i = 0; i < TOK_ROLE_COUNT; i++)
            if (before[i] != TOK_NONE)
                t->roles[i] = before[i]; /* tokenizer_config.json has the last word */
    }
    arena_deinit(&a);
    return ok;
}
