/* Finding a model's templates and special tokens. */
#include "base/log.h"
#include "base/mem.h"
#include "chat/chat_adapt.h"

static bool entry_add(ChatTemplate *t, Str name, Str text, Err *err) {
    Jinja *jinja;
    if (chat_entry_find(t, name)) return true; /* the first of a name counts */
    if (t->n_entries >= CHAT_MAX_TEMPLATES)
        return err_set(err, ERR_LIMIT, "more than %d chat templates", CHAT_MAX_TEMPLATES);
    if (!jinja_compile(text, &jinja, err))
        return err_wrap(err, "chat template '" STR_F "'", STR_A(name));
    ChatEntry *e = &t->entries[t->n_entries++];
    *e = (ChatEntry){arena_dup(&t->arena, name), jinja};
    return e->name.p || !name.n || err_nomem(err, "a chat template's name");
}

/* "chat_template" of a configuration file: text, a list of {"name","template"}, or an object of
 * texts. */
static bool entries_from_json(ChatTemplate *t, const Json *j, const char *file, Err *err) {
    Str name, text;
    if (!j || j->type == JSON_NULL) return true;
    if (json_str(j, &text)) return entry_add(t, STR("default"), text, err);
    bool list = j->type == JSON_ARRAY;
    if (!list && j->type != JSON_OBJECT)
        return err_set(err, ERR_INPUT,
                       "%s: chat_template is %s, a string, list or object is accepted", file,
                       jsontype_name(j->type));
    for (size_t i = 0; i < j->n; i++) {
        const Json *item = &j->items[i];
        bool ok = list ? json_str(json_get(item, "name"), &name) &&
                             json_str(json_get(item, "template"), &text)
                       : json_str(item, &text);
        if (!ok)
            return err_set(err, ERR_INPUT, "%s: chat_template[%zu] lacks a name or a text", file,
                           i);
        if (!entry_add(t, list ? name : item->key, text, err)) return false;
    }
    return true;
}

static bool parse_file(Arena *a, Str text, const char *file, Json **out, Err *err) {
    JsonOptions opt = {.dup = JSON_DUP_LAST};
    *out = NULL;
    return !text.n || json_parse(text, &opt, a, out, err) || err_wrap(err, "%s", file);
}

static bool token_add(ChatTemplate *t, Str name, Str text, Err *err) {
    for (size_t i = 0; i < t->n_tokens; i++)
        if (str_eq(t->tokens[i].name, name)) return true;
    if (t->n_tokens >= CHAT_MAX_TOKENS)
        return err_set(err, ERR_LIMIT, "more than %d special tokens", CHAT_MAX_TOKENS);
    JinjaVar *v = &t->tokens[t->n_tokens++];
    *v = (JinjaVar){
        .name = arena_dup(&t->arena, name), .text = arena_dup(&t->arena, text), .trusted = true};
    return (v->name.p && (v->text.p || !text.n)) || err_nomem(err, "special tokens");
}

static bool token_text(const Json *j, Str *out) { /* a string, or an object with content */
    return json_str(j, out) || json_str(json_get(j, "content"), out);
}

/* Every "..._token" of tokenizer_config.json, as transformers' special_tokens_map has them. */
static bool tokens_from_config(ChatTemplate *t, const Json *config, Err *err) {
    const Json *extra = json_get(config, "extra_special_tokens");
    Str text;
    for (size_t pass = 0; pass < 2; pass++) {
        const Json *from = pass ? extra : config;
        for (size_t i = 0; json_is(from, JSON_OBJECT) && i < from->n; i++) {
            const Json *m = &from->items[i];
            if (!str_ends(m->key, STR("_token")) || !token_text(m, &text)) continue;
            if (!token_add(t, m->key, text, err)) return false;
        }
    }
    return true;
}

static bool open_override(ChatTemplate *t, Str text, Err *err) {
    if (str_find_char(text, '{', 0) != STR_NPOS) return entry_add(t, STR("default"), text, err);
    Str builtin = chat_builtin_find(str_trim(text));
    if (!builtin.n)
        return err_set(err, ERR_INPUT,
                       "chat template '" STR_F "' is neither a template nor a known name (%s)",
                       STR_A(text), chat_builtin_names());
    return entry_add(t, STR("default"), builtin, err);
}

static bool open_entries(ChatTemplate *t, const ChatSource *src, const Json *config, Err *err) {
    Json *file;
    if (src->override.n) return open_override(t, src->override, err);
    if (src->chat_template_jinja.n && !entry_add(t, STR("default"), src->chat_template_jinja, err))
        return false;
    for (size_t i = 0; i < src->n_named; i++)
        if (!entry_add(t, src->named[i].name, src->named[i].text, err)) return false;
    if (!chat_entry_find(t, STR("default"))) {
        if (!parse_file(&t->arena, src->chat_template_json, "chat_template.json", &file, err))
            return false;
        const Json *inner = json_get(file, "chat_template");
        if (!entries_from_json(t, inner ? inner : file, "chat_template.json", err)) return false;
    }
    if (!chat_entry_find(t, STR("default")) &&
        !entries_from_json(t, json_get(config, "chat_template"), "tokenizer_config.json", err))
        return false;
    if (!chat_entry_find(t, STR("default")) && src->gguf_template.n &&
        !entry_add(t, STR("default"), src->gguf_template, err))
        return false;
    if (t->n_entries) return true;
    t->fallback = true;
    log_warn("the model has no chat template; ChatML is used, which may not fit it "
             "(--chat-template sets another)");
    return entry_add(t, STR("default"), chat_builtin_find(STR("chatml")), err);
}

bool chat_template_open(const ChatSource *src, ChatTemplate **out, Err *err) {
    ChatTemplate *t = mem_calloc(1, sizeof *t);
    Json *config;
    bool ok = false;
    *out = NULL;
    if (!t) return err_nomem(err, "a chat template");
    t->entries = arena_array(&t->arena, ChatEntry, CHAT_MAX_TEMPLATES);
    t->tokens = arena_array(&t->arena, JinjaVar, CHAT_MAX_TOKENS);
    if (!t->entries || !t->tokens) {
        err_nomem(err, "a chat template");
        goto done;
    }
    if (!parse_file(&t->arena, src->tokenizer_config, "tokenizer_config.json", &config, err))
        goto done;
    if (!tokens_from_config(t, config, err)) goto done;
    for (size_t i = 0; i < src->n_tokens; i++)
        if (!token_add(t, src->tokens[i].name, src->tokens[i].text, err)) goto done;
    if (!open_entries(t, src, config, err)) goto done;
    if (!chat_adapt_probe(t, err)) goto done;
    ok = true;
    *out = t;
done:
    if (!ok) chat_template_close(t);
    return ok;
}

void chat_template_close(ChatTemplate *t) {
    if (!t) return;
    for (size_t i = 0; i < t->n_entries; i++) jinja_free(t->entries[i].jinja);
    arena_deinit(&t->arena);
    mem_free(t);
}

const ChatEntry *chat_entry_find(const ChatTemplate *t, Str name) {
    for (size_t i = 0; i < t->n_entries; i++)
        if (str_eq(t->entries[i].name, name)) return &t->entries[i];
    return NULL;
}

bool chat_template_is_fallback(const ChatTemplate *t) { return t->fallback; }
size_t chat_template_count(const ChatTemplate *t) { return t->n_entries; }
Str chat_template_name(const ChatTemplate *t, size_t i) {
    return i < t->n_entries ? t->entries[i].name : STR_NONE;
}
const ChatCaps *chat_template_caps(const ChatTemplate *t) { return &t->caps; }

Str chat_template_source(const ChatTemplate *t, Str name) {
    const ChatEntry *e = chat_entry_find(t, name.n ? name : STR("default"));
    if (!e && !name.n) e = &t->entries[0];
    return e ? jinja_source(e->jinja) : STR_NONE;
}

Str chat_template_token(const ChatTemplate *t, const char *name) {
    for (size_t i = 0; i < t->n_tokens; i++)
        if (str_eqc(t->tokens[i].name, name)) return t->tokens[i].text;
    return STR_NONE;
}

static bool name_char(char c) {
    return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

bool chat_template_mentions(const ChatTemplate *t, const char *variable) {
    Str word = str_c(variable);
    for (size_t i = 0; i < t->n_entries; i++) {
        Str s = jinja_source(t->entries[i].jinja);
        for (size_t at = 0; (at = str_find(s, word, at)) != STR_NPOS; at++) {
            bool left = at == 0 || (!name_char(s.p[at - 1]) && s.p[at - 1] != '.');
            bool right = at + word.n >= s.n || !name_char(s.p[at + word.n]);
            if (left && right) return true;
        }
    }
    return false;
}
