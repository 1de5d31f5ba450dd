/* A model's chat template: which of its files and keys the text comes from. */
#include <string.h>

#include "api/api.h"
#include "base/os.h"
#include "ckpt/gguf.h"

enum { TEMPLATE_FILE_MAX = 4 << 20, CONFIG_FILE_MAX = 64 << 20 };

typedef struct Gather {
    Arena arena;
    ChatSource src;
    ChatNamed *named, *tokens;
} Gather;

/* A file beside the weights; absent is fine. */
static bool take_file(Gather *g, const char *dir, const char *name, size_t max, Str *out,
                      Err *err) {
    Buf path = {0}, text = {0};
    buf_putf(&path, "%s/%s", dir, name);
    bool there = os_is_file(buf_cstr(&path)), ok = true;
    if (there) {
        ok = os_read_file(buf_cstr(&path), max, &text, err);
        *out = ok ? arena_dup(&g->arena, buf_str(&text)) : STR_NONE;
        if (ok && text.n && !out->p) ok = err_nomem(err, name);
    }
    buf_deinit(&path);
    buf_deinit(&text);
    return ok;
}

static bool take_named(Gather *g, const char *dir, Err *err) {
    Buf path = {0};
    Str *names;
    size_t n = 0;
    buf_putf(&path, "%s/additional_chat_templates", dir);
    bool ok =
        !os_is_dir(buf_cstr(&path)) || os_list_dir(buf_cstr(&path), &g->arena, &names, &n, err);
    g->named = arena_array(&g->arena, ChatNamed, n + 1);
    if (!g->named) ok = err_nomem(err, "chat templates");
    for (size_t i = 0; ok && i < n; i++) {
        if (!str_ends(names[i], STR(".jinja"))) continue;
        ChatNamed *t = &g->named[g->src.n_named++];
        t->name = str_slice(names[i], 0, names[i].n - 6);
        ok = take_file(g, buf_cstr(&path), arena_dupz(&g->arena, names[i]), TEMPLATE_FILE_MAX,
                       &t->text, err);
    }
    g->src.named = g->named;
    buf_deinit(&path);
    return ok;
}

static void add_token(Gather *g, Str name, Str text) {
    g->tokens[g->src.n_tokens++] = (ChatNamed){name, text};
    g->src.tokens = g->tokens;
}

/* special_tokens_map.json: text, or an object with "content". */
static bool take_token_map(Gather *g, const char *dir, Err *err) {
    Str text = STR_NONE;
    Json *map;
    JsonOptions opt = {.dup = JSON_DUP_LAST};
    if (!take_file(g, dir, "special_tokens_map.json", CONFIG_FILE_MAX, &text, err)) return false;
    if (!text.n) return true;
    if (!json_parse(text, &opt, &g->arena, &map, err))
        return err_wrap(err, "%s/special_tokens_map.json", dir);
    if (!json_is(map, JSON_OBJECT)) return true;
    g->tokens = arena_array(&g->arena, ChatNamed, map->n + 1);
    if (!g->tokens) return err_nomem(err, "special tokens");
    for (size_t i = 0; i < map->n; i++) {
        Str token;
        if (json_str(&map->items[i], &token) ||
            json_str(json_get(&map->items[i], "content"), &token))
            add_token(g, map->items[i].key, token);
    }
    return true;
}

static bool gather_dir(Gather *g, const char *dir, Err *err) {
    ChatSource *s = &g->src;
    return take_file(g, dir, "chat_template.jinja", TEMPLATE_FILE_MAX, &s->chat_template_jinja,
                     err) &&
           take_file(g, dir, "chat_template.json", TEMPLATE_FILE_MAX, &s->chat_template_json,
                     err) &&
           take_file(g, dir, "tokenizer_config.json", CONFIG_FILE_MAX, &s->tokenizer_config, err) &&
           take_named(g, dir, err) && take_token_map(g, dir, err);
}

static bool gather_gguf(Gather *g, const Gguf *file, const Tokenizer *tok, Err *err) {
    static const struct {
        TokRole role;
        const char *name;
    } ROLES[] = {{TOK_BOS, "bos_token"},  {TOK_EOS, "eos_token"}, {TOK_UNK, "unk_token"},
                 {TOK_SEP, "sep_token"},  {TOK_PAD, "pad_token"}, {TOK_CLS, "cls_token"},
                 {TOK_MASK, "mask_token"}};
    enum { N_ROLES = sizeof ROLES / sizeof *ROLES };
    const Str prefix = STR("tokenizer.chat_template.");
    gguf_str(gguf_get(file, "tokenizer.chat_template"), &g->src.gguf_template);
    g->named = arena_array(&g->arena, ChatNamed, file->n_keys + 1);
    g->tokens = arena_array(&g->arena, ChatNamed, N_ROLES);
    if (!g->named || !g->tokens) return err_nomem(err, "chat templates");
    for (size_t i = 0; i < file->n_keys; i++) {
        ChatNamed *t = &g->named[g->src.n_named];
        if (!str_starts(file->keys[i].key, prefix) || !gguf_str(&file->keys[i], &t->text)) continue;
        t->name = str_from(file->keys[i].key, prefix.n);
        g->src.n_named++;
    }
    g->src.named = g->named;
    for (int i = 0; tok && i < N_ROLES; i++) {
        Str text = tokenizer_role_text(tok, ROLES[i].role);
        if (text.n) add_token(g, str_c(ROLES[i].name), text);
    }
    return true;
}

/* What path holds open while g refers to it. */
typedef struct Opened {
    Gguf *file;
    Checkpoint *ck;
    Tokenizer *tok;
} Opened;

static void opened_close(Opened *o) {
    gguf_close(o->file);
    tokenizer_free(o->tok);
    if (o->ck) checkpoint_close(o->ck);
}

static bool gather_file(Gather *g, const Gguf *file, const Tokenizer *tok, Opened *o, Err *err) {
    if (!tok && tokenizer_load_gguf(file, &o->tok, err)) tok = o->tok;
    return (tok || err->kind == ERR_NONE || err->kind == ERR_NOT_FOUND) &&
           gather_gguf(g, file, tok, err);
}

/* A directory without any of the files that templates are in is a model all the same, maybe a GGUF;
 * else it is none. */
static bool gather_path(Gather *g, const char *path, const Tokenizer *tok, Opened *o, Err *err) {
    const ChatSource *s = &g->src;
    if (!os_is_dir(path))
        return gguf_open(path, &o->file, err) && gather_file(g, o->file, tok, o, err);
    if (!gather_dir(g, path, err)) return false;
    if (s->chat_template_jinja.p || s->chat_template_json.p || s->tokenizer_config.p || s->n_named)
        return true;
    if (!checkpoint_open(path, &o->ck, err)) return false;
    return o->ck->kind != CKPT_GGUF || gather_file(g, o->ck->config.gguf, tok, o, err);
}

bool api_template_open(const char *path, const Checkpoint *ck, const Tokenizer *tok, Str override,
                       ChatTemplate **out, Err *err) {
    Gather g = {0};
    Opened held = {0};
    Err local = {0};
    bool ok = true;
    g.src.override = override;
    if (ck && ck->kind == CKPT_GGUF)
        ok = gather_gguf(&g, ck->config.gguf, tok, &local);
    else if (path)
        ok = ck ? gather_dir(&g, path, &local) : gather_path(&g, path, tok, &held, &local);
    local.kind = ok ? ERR_NONE : local.kind;
    ok = ok && chat_template_open(&g.src, out, &local);
    opened_close(&held);
    arena_deinit(&g.arena);
    if (!ok && err) *err = local;
    return ok;
}

bool api_model_chat(const mlxcel_model *model, const ChatTemplate **out, Err *err) {
    mlxcel_model *m = (mlxcel_model *)(uintptr_t)model; /* logically const: a cache */
    ChatTemplate *have = atomic_load(&m->chat), *made = NULL;
    if (!have) {
        const Checkpoint *ck = m->m->ck;
        char dir[4096];
        if (ck->dir.n >= sizeof dir) return err_set(err, ERR_LIMIT, "the model's path is too long");
        memcpy(dir, ck->dir.p, ck->dir.n);
        dir[ck->dir.n] = 0;
        if (!api_template_open(dir, ck, m->m->tok, str_c(m->chat_template), &made, err))
            return false;
        if (atomic_compare_exchange_strong(&m->chat, &have, made))
            have = made;
        else
            chat_template_close(made); /* another thread was first */
    }
    *out = have;
    return true;
}

bool mlxcel_model_chat_template(const mlxcel_model *model, mlxcel_string **out,
                                mlxcel_error *error) {
    Err err = {0};
    const ChatTemplate *t = NULL;
    if (!api_model_chat(model, &t, &err)) return api_fail(error, &err);
    return api_text(chat_template_is_fallback(t) ? STR_NONE : chat_template_source(t, STR_NONE),
                    out, error);
}
