#include "cli/repl_talk.h"

#include <string.h>

#include "base/mem.h"
#include "base/os.h"
#include "json/json_writer.h"

enum { FILE_MAX = 64 << 20 };

bool talk_add(Talk *t, TalkRole role, Str content, Str reasoning, Err *err) {
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 16;
        TalkMessage *more = mem_resize_array(t->messages, cap, sizeof *more);
        if (!more) return err_nomem(err, "the conversation");
        t->messages = more;
        t->cap = cap;
    }
    TalkMessage *m = &t->messages[t->n++];
    *m = (TalkMessage){.role = role};
    buf_put(&m->content, content);
    buf_put(&m->reasoning, reasoning);
    return buf_check(&m->content, "the conversation", err) &&
           buf_check(&m->reasoning, "the conversation", err);
}

void talk_drop_last(Talk *t) {
    if (!t->n) return;
    TalkMessage *m = &t->messages[--t->n];
    buf_deinit(&m->content);
    buf_deinit(&m->reasoning);
}

void talk_clear(Talk *t) {
    while (t->n) talk_drop_last(t);
}

void talk_deinit(Talk *t) {
    talk_clear(t);
    mem_free(t->messages);
    buf_deinit(&t->system);
    *t = (Talk){0};
}

static void put_member(JsonWriter *w, const char *key, Str text) {
    json_w_key(w, str_c(key));
    json_w_str(w, text);
}

void talk_json(const Talk *t, Buf *out) {
    JsonWriter w = {.out = out};
    json_w_array(&w);
    if (t->system.n) {
        json_w_object(&w);
        put_member(&w, "role", STR("system"));
        put_member(&w, "content", buf_str(&t->system));
        json_w_end(&w);
    }
    for (size_t i = 0; i < t->n; i++) {
        const TalkMessage *m = &t->messages[i];
        json_w_object(&w);
        put_member(&w, "role", m->role == TALK_USER ? STR("user") : STR("assistant"));
        put_member(&w, "content", buf_str(&m->content));
        if (m->reasoning.n) put_member(&w, "reasoning_content", buf_str(&m->reasoning));
        json_w_end(&w);
    }
    json_w_end(&w);
}

bool talk_save(const Talk *t, const char *path, Err *err) {
    Buf b = {0};
    talk_json(t, &b);
    buf_putc(&b, '\n');
    bool ok = buf_check(&b, "the conversation", err) && os_write_file(path, buf_str(&b), err);
    buf_deinit(&b);
    return ok;
}

static bool load_message(Talk *t, const Json *j, size_t i, Err *err) {
    Str role, content, reasoning = STR_NONE;
    if (!json_str(json_get(j, "role"), &role) || !json_str(json_get(j, "content"), &content))
        return err_set(err, ERR_INPUT, "message %zu lacks a role or a text as content", i);
    json_str(json_get(j, "reasoning_content"), &reasoning);
    if (str_eqc(role, "system")) {
        buf_clear(&t->system);
        buf_put(&t->system, content);
        return buf_check(&t->system, "the system message", err);
    }
    if (str_eqc(role, "user")) return talk_add(t, TALK_USER, content, reasoning, err);
    if (str_eqc(role, "assistant")) return talk_add(t, TALK_ASSISTANT, content, reasoning, err);
    return err_set(err, ERR_INPUT,
                   "message %zu has the role \"" STR_F
                   "\"; system, user and assistant are accepted",
                   i, STR_A(role));
}

bool talk_load(Talk *t, const char *path, Err *err) {
    Arena a = {0};
    Buf text = {0};
    Talk fresh = {0};
    Json *list;
    bool ok = os_read_file(path, FILE_MAX, &text, err) &&
              json_parse(buf_str(&text), NULL, &a, &list, err);
    if (ok && list->type != JSON_ARRAY)
        ok = err_set(err, ERR_INPUT, "%s is no array of messages", path);
    for (size_t i = 0; ok && i < list->n; i++) ok = load_message(&fresh, &list->items[i], i, err);
    if (ok) {
        talk_deinit(t);
        *t = fresh;
    } else {
        talk_deinit(&fresh);
    }
    buf_deinit(&text);
    arena_deinit(&a);
    return ok;
}
