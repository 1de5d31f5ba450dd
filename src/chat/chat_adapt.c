#include "chat/chat_adapt.h"

#include <string.h>

#include "json/json_writer.h"

/* ---- what a template can take ---- */

/* Renders messages and looks for one text and the absence of another; the answer goes to *hit. */
static bool probe(const ChatTemplate *t, const char *messages, const char *must,
                  const char *must_not, bool *hit, Err *err) {
    Arena a = {0};
    Json *j;
    JinjaOutput out = {0};
    Err failure = {0};
    const ChatEntry *e = chat_entry_find(t, STR("default"));
    ChatRequest req = {.add_generation_prompt = true, .now = "2026-01-01T00:00:00"};
    *hit = false;
    if (json_parse(str_c(messages), NULL, &a, &j, &failure) &&
        chat_render_vars(t, e ? e : &t->entries[0], &req, j, &out, &failure)) {
        Str text = buf_str(&out.text);
        *hit = str_find(text, str_c(must), 0) != STR_NPOS &&
               str_find(text, str_c(must_not), 0) == STR_NPOS;
    }
    jinja_output_deinit(&out);
    arena_deinit(&a);
    return failure.kind != ERR_NOMEM || err_nomem(err, "trying a chat template");
}

#define CALL_HEAD                                                                                  \
    "[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_"     \
    "calls\":[{\"type\":"                                                                          \
    "\"function\",\"id\":\"abcdef123\",\"function\":{\"name\":\"xqfn\",\"arguments\":"
#define CALL_TAIL                                                                                  \
    "}}]},{\"role\":\"tool\",\"tool_call_id\":\"abcdef123\",\"name\":\"xqfn\",\"content\":\"1\"}," \
    "{\"role\":\"assistant\",\"content\":\"ok\"},{\"role\":\"user\",\"content\":\"hi\"}]"

bool chat_adapt_probe(ChatTemplate *t, Err *err) {
    static const char text[] = "[{\"role\":\"user\",\"content\":\"xqtext\"}]";
    static const char parts[] =
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"xqtext\"}]}]";
    ChatCaps *c = &t->caps;
    bool not_json;
    /* Parts that are printed (as Python or JSON) are not read; an object shows up as JSON or in the
     * template's own notation, while text that is quoted again shows a backslash. */
    if (!probe(t, text, "xqtext", "'type'", &c->content_text, err)) return false;
    if (!probe(t, parts, "xqtext", "'type'", &c->content_parts, err)) return false;
    if (!probe(t, parts, "xqtext", "\"type\"", &not_json, err)) return false;
    c->content_parts = c->content_parts && not_json;
    if (!probe(t, CALL_HEAD "{\"xqarg\":\"xqval\"}" CALL_TAIL, "xqval", "{'xqarg'",
               &c->tool_objects, err))
        return false;
    return probe(t, CALL_HEAD "\"{\\\"xqarg\\\":\\\"xqval\\\"}\"" CALL_TAIL, "xqval", "\\\"xqarg",
                 &c->tool_strings, err);
}

/* ---- rewriting messages ---- */

typedef struct Adapt {
    const ChatCaps *caps;
    Arena *a;
    Err *err;
} Adapt;

static Json *copy_array(Adapt *x, const Json *from, size_t more) {
    Json *items = arena_array(x->a, Json, from->n + more + 1);
    if (!items) {
        err_nomem(x->err, "chat messages");
        return NULL;
    }
    if (from->n) memcpy(items, from->items, from->n * sizeof *items);
    return items;
}

/* Text parts joined by line ends; false if there is a part of another kind, which must not be
 * lost. */
static bool parts_as_text(Adapt *x, const Json *content, Json *out) {
    size_t n = 0, at = 0;
    Str kind, text;
    for (size_t i = 0; i < content->n; i++) {
        const Json *part = &content->items[i];
        if (json_str(part, &text)) {
            n += text.n + 1;
            continue;
        }
        if (!json_str(json_get(part, "type"), &kind) || !str_eqc(kind, "text") ||
            !json_str(json_get(part, "text"), &text))
            return err_set(x->err, ERR_UNSUPPORTED,
                           "content part %zu is of type '" STR_F
                           "', and this model's chat template "
                           "takes only text",
                           i, STR_A(json_str(json_get(part, "type"), &kind) ? kind : STR("?")));
        n += text.n + 1;
    }
    char *p = arena_alloc(x->a, n + 1);
    if (!p) return err_nomem(x->err, "chat messages");
    for (size_t i = 0; i < content->n; i++) {
        const Json *part = &content->items[i];
        if (!json_str(part, &text) && !json_str(json_get(part, "text"), &text)) continue;
        if (i) p[at++] = '\n';
        if (text.n) memcpy(p + at, text.p, text.n);
        at += text.n;
    }
    *out = (Json){.type = JSON_STRING, .key = content->key, .text = {p, at}};
    return true;
}

static bool text_as_parts(Adapt *x, const Json *content, Json *out) {
    Json *part = arena_new(x->a, Json), *members = arena_array(x->a, Json, 2);
    if (!part || !members) return err_nomem(x->err, "chat messages");
    members[0] = (Json){.type = JSON_STRING, .key = STR("type"), .text = STR("text")};
    members[1] = (Json){.type = JSON_STRING, .key = STR("text"), .text = content->text};
    *part = (Json){.type = JSON_OBJECT, .items = members, .n = 2};
    *out = (Json){.type = JSON_ARRAY, .key = content->key, .items = part, .n = 1};
    return true;
}

static bool adapt_content(Adapt *x, Json *content) {
    const ChatCaps *c = x->caps;
    if (content->type == JSON_ARRAY && !c->content_parts && c->content_text)
        return parts_as_text(x, content, content);
    if (content->type == JSON_STRING && !c->content_text && c->content_parts)
        return text_as_parts(x, content, content);
    return true;
}

/* Text becomes an object for templates that iterate over it or print it as JSON. */
static void arguments_as_object(Adapt *x, Json *arguments) {
    Json *parsed;
    Err ignored;
    JsonOptions opt = {.dup = JSON_DUP_LAST};
    if (!json_parse(arguments->text, &opt, x->a, &parsed, &ignored) || parsed->type != JSON_OBJECT)
        return;
    Str key = arguments->key;
    *arguments = *parsed;
    arguments->key = key;
}

static bool arguments_as_text(Adapt *x, Json *arguments) {
    Buf b = {0};
    JsonWriter w = {.out = &b};
    Json bare = *arguments;
    bare.key = STR_NONE;
    json_w_tree(&w, &bare);
    Str text = b.failed ? STR_NONE : arena_dup(x->a, buf_str(&b));
    buf_deinit(&b);
    if (!text.p) return err_nomem(x->err, "chat messages");
    *arguments = (Json){.type = JSON_STRING, .key = arguments->key, .text = text};
    return true;
}

static bool adapt_arguments(Adapt *x, Json *arguments) {
    const ChatCaps *c = x->caps;
    if (arguments->type == JSON_STRING && c->tool_objects) arguments_as_object(x, arguments);
    bool to_text = arguments->type == JSON_OBJECT && !c->tool_objects && c->tool_strings;
    return !to_text || arguments_as_text(x, arguments);
}

static Json *member(Json *object, const char *name) {
    for (size_t i = 0; object->type == JSON_OBJECT && i < object->n; i++)
        if (str_eqc(object->items[i].key, name)) return &object->items[i];
    return NULL;
}

static bool adapt_calls(Adapt *x, Json *calls) {
    if (calls->type != JSON_ARRAY) return true;
    if (!(calls->items = copy_array(x, calls, 0))) return false;
    for (size_t i = 0; i < calls->n; i++) {
        Json *call = &calls->items[i];
        if (call->type != JSON_OBJECT) continue;
        if (!(call->items = copy_array(x, call, 0))) return false;
        Json *fn = member(call, "function"), *arguments = NULL;
        if (fn && fn->type == JSON_OBJECT) {
            if (!(fn->items = copy_array(x, fn, 0))) return false;
            arguments = member(fn, "arguments");
        }
        if (!arguments) arguments = member(call, "arguments");
        if (arguments && !adapt_arguments(x, arguments)) return false;
    }
    return true;
}

/* The model's thoughts under all names that templates read. m has room for two more members. */
static void adapt_reasoning(Json *m) {
    static const char *const names[] = {"reasoning_content", "reasoning", "thinking"};
    Str text;
    const Json *found = NULL;
    for (int i = 0; i < 3 && !found; i++) {
        const Json *j = member(m, names[i]);
        if (json_str(j, &text)) found = j;
    }
    Json value = found ? *found : (Json){0};
    for (int i = 0; found && i < 3; i++) {
        if (member(m, names[i])) continue;
        m->items[m->n] = value;
        m->items[m->n++].key = str_c(names[i]);
    }
}

static bool adapt_message(Adapt *x, Json *m) {
    if (m->type != JSON_OBJECT) return true;
    if (!(m->items = copy_array(x, m, 2))) return false;
    Json *content = member(m, "content"), *calls = member(m, "tool_calls");
    if (content && !adapt_content(x, content)) return false;
    if (calls && !adapt_calls(x, calls)) return false;
    adapt_reasoning(m);
    return true;
}

bool chat_adapt_messages(const ChatCaps *caps, const Json *messages, Arena *a, const Json **out,
                         Err *err) {
    Adapt x = {caps, a, err};
    *out = messages;
    if (!json_is(messages, JSON_ARRAY))
        return err_set(err, ERR_INPUT, "messages must be an array, not %s",
                       messages ? jsontype_name(messages->type) : "absent");
    Json *copy = arena_new(a, Json);
    if (!copy) return err_nomem(err, "chat messages");
    *copy = *messages;
    if (!(copy->items = copy_array(&x, messages, 0))) return false;
    for (size_t i = 0; i < copy->n; i++)
        if (!adapt_message(&x, &copy->items[i])) return err_wrap(err, "message %zu", i);
    *out = copy;
    return true;
}
