/* Proves the contract of chat.h: where a template comes from and which one is used, what variables
 * it gets, how API messages are adapted, continuing the last message, the fallback; and that failed
 * allocations are errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "chat/chat.h"

static Arena arena;

static Json *parse(const char *text) {
    Json *j;
    Err err = {0};
    if (!json_parse(str_c(text), NULL, &arena, &j, &err)) fail_msg("%s: %s", text, err.msg);
    return j;
}

static ChatTemplate *open_source(const ChatSource *src) {
    ChatTemplate *t;
    Err err = {0};
    if (!chat_template_open(src, &t, &err)) fail_msg("%s", err.msg);
    return t;
}

static ChatTemplate *open_text(const char *text) {
    ChatSource src = {.chat_template_jinja = str_c(text)};
    return open_source(&src);
}

static void expect(const ChatTemplate *t, const ChatRequest *req, const char *want) {
    ChatPrompt p;
    Err err = {0};
    if (!chat_render(t, req, &p, &err)) fail_msg("%s", err.msg);
    assert_string_equal(buf_cstr(&p.out.text), want);
    chat_prompt_deinit(&p);
}

static void expect_error(const ChatTemplate *t, const ChatRequest *req, const char *part) {
    ChatPrompt p;
    Err err = {0};
    assert_false(chat_render(t, req, &p, &err));
    if (!strstr(err.msg, part)) fail_msg("'%s' lacks '%s'", err.msg, part);
    chat_prompt_deinit(&p);
}

static void the_source_is_chosen_in_order(void **state) {
    (void)state;
    ChatSource src = {.override = STR("O{{ 1 }}"),
                      .chat_template_jinja = STR("J"),
                      .chat_template_json = STR("{\"chat_template\":\"C\"}"),
                      .tokenizer_config = STR("{\"chat_template\":\"T\"}"),
                      .gguf_template = STR("G")};
    const char *want[] = {"O1", "J", "C", "T", "G"};
    Str *fields[] = {&src.override, &src.chat_template_jinja, &src.chat_template_json,
                     &src.tokenizer_config, &src.gguf_template};
    for (int i = 0; i < 5; i++) {
        ChatTemplate *t = open_source(&src);
        ChatRequest req = {.messages = parse("[]")};
        expect(t, &req, want[i]);
        assert_false(chat_template_is_fallback(t));
        chat_template_close(t);
        *fields[i] = STR_NONE;
    }
}

static void no_template_is_chatml_with_a_warning(void **state) {
    (void)state;
    ChatSource src = {0};
    log_hold(true);
    ChatTemplate *t = open_source(&src);
    log_discard();
    ChatRequest req = {.messages = parse("[{\"role\":\"user\",\"content\":\"hi\"}]"),
                       .add_generation_prompt = true};
    assert_true(chat_template_is_fallback(t));
    expect(t, &req, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    chat_template_close(t);
}

static void an_override_may_name_a_builtin(void **state) {
    (void)state;
    ChatNamed tokens[] = {{STR("bos_token"), STR("<bos>")}, {STR("eos_token"), STR("</s>")}};
    static const char *const names[] = {"chatml", "llama2", "llama3", "gemma",
                                        "phi3",   "zephyr", "vicuna"};
    ChatRequest req = {
        .messages = parse(
            "[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"U\"}]"),
        .add_generation_prompt = true};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ChatSource src = {.override = str_c(names[i]), .tokens = tokens, .n_tokens = 2};
        ChatTemplate *t = open_source(&src);
        ChatPrompt p;
        assert_non_null(strstr(chat_builtin_names(), names[i]));
        assert_true(chat_render(t, &req, &p, NULL));
        assert_true(str_find(buf_str(&p.out.text), STR("S"), 0) != STR_NPOS);
        assert_true(str_find(buf_str(&p.out.text), STR("U"), 0) != STR_NPOS);
        chat_prompt_deinit(&p);
        chat_template_close(t);
    }
    ChatSource src = {.override = STR("nope")};
    ChatTemplate *t;
    Err err = {0};
    assert_false(chat_template_open(&src, &t, &err));
    assert_non_null(strstr(err.msg, "chatml"));
}

static void named_templates_follow_the_request(void **state) {
    (void)state;
    ChatSource src = {
        .tokenizer_config =
            STR("{\"chat_template\":[{\"name\":\"default\",\"template\":\"D\"},{\"name\":"
                "\"tool_use\",\"template\":\"T\"},{\"name\":\"rag\",\"template\":\"R\"}]}")};
    ChatTemplate *t = open_source(&src);
    ChatRequest req = {.messages = parse("[]")};
    assert_int_equal(chat_template_count(t), 3);
    expect(t, &req, "D");
    req.tools = parse("[{}]");
    expect(t, &req, "T");
    req.tools = parse("null");
    req.documents = parse("[{}]");
    expect(t, &req, "R");
    req.template_name = STR("tool_use");
    expect(t, &req, "T");
    req.template_name = STR("other");
    expect_error(t, &req, "other");
    assert_true(str_eqc(chat_template_source(t, STR("rag")), "R"));
    chat_template_close(t);
}

static void templates_get_what_transformers_gives(void **state) {
    (void)state;
    ChatSource src = {
        .chat_template_jinja =
            STR("{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ tools is none }}"
                "{{ documents is none }}{{ add_generation_prompt }}{{ x }}{{ image_token }}"),
        .tokenizer_config =
            STR("{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"</s>\",\"lstrip\":false},"
                "\"pad_token\":null,\"add_bos_token\":true,"
                "\"extra_special_tokens\":{\"image_token\":\"<img>\"}}")};
    ChatTemplate *t = open_source(&src);
    ChatRequest req = {.messages = parse("[]"), .extra = parse("{\"x\":7}")};
    expect(t, &req, "<s></s>FalseTrueTrueFalse7<img>");
    req.extra = parse("{\"bos_token\":\"[own]\"}");
    expect(t, &req, "[own]</s>FalseTrueTrueFalse<img>");
    req.raw = true;
    expect(t, &req, "[own]FalseFalseFalse");
    assert_true(str_eqc(chat_template_token(t, "eos_token"), "</s>"));
    assert_true(chat_template_mentions(t, "documents"));
    assert_false(chat_template_mentions(t, "document"));
    chat_template_close(t);
}

static void a_context_object_becomes_a_request(void **state) {
    (void)state;
    ChatTemplate *t = open_text(
        "{{ messages | length }}{{ tools }}{{ add_generation_prompt }}{{ enable_thinking }}");
    ChatRequest req;
    Err err = {0};
    const Json *context = parse("{\"messages\":[1,2],\"tools\":[3],\"add_generation_prompt\":true,"
                                "\"enable_thinking\":false}");
    assert_true(chat_request_from_context(context, &arena, &req, &err));
    expect(t, &req, "2[3]TrueFalse");
    assert_false(chat_request_from_context(parse("[]"), &arena, &req, &err));
    assert_false(
        chat_request_from_context(parse("{\"add_generation_prompt\":1}"), &arena, &req, &err));
    chat_template_close(t);
}

static void special_tokens_are_the_templates_and_messages_are_not(void **state) {
    (void)state;
    ChatSource src = {
        .chat_template_jinja =
            STR("{{ bos_token }}<|{{ messages[0].role }}|>{{ messages[0].content }}<|end|>"),
        .tokenizer_config = STR("{\"bos_token\":\"<s>\"}")};
    ChatTemplate *t = open_source(&src);
    ChatRequest req = {.messages = parse("[{\"role\":\"user\",\"content\":\"<|end|>\"}]")};
    ChatPrompt p;
    assert_true(chat_render(t, &req, &p, NULL));
    assert_int_equal(p.out.n_spans, 3);
    assert_true(p.out.spans[0].from_template && str_eqc(p.out.spans[0].text, "<s><|user|>"));
    assert_true(!p.out.spans[1].from_template && str_eqc(p.out.spans[1].text, "<|end|>"));
    assert_true(p.out.spans[2].from_template);
    chat_prompt_deinit(&p);
    chat_template_close(t);
}

static void content_is_adapted_to_the_template(void **state) {
    (void)state;
    const Json *parts = parse("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                              "{\"type\":\"text\",\"text\":"
                              "\"b\"}]}]");
    const Json *image = parse("[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]");
    const Json *text = parse("[{\"role\":\"user\",\"content\":\"a\"}]");
    ChatRequest req = {.adapt = true, .messages = parts};
    ChatTemplate *t = open_text("{% for m in messages %}{{ m.content + '.' }}{% endfor %}");
    assert_true(chat_template_caps(t)->content_text && !chat_template_caps(t)->content_parts);
    expect(t, &req, "a\nb.");
    req.messages = image;
    expect_error(t, &req, "image_url");
    chat_template_close(t);
    t = open_text("{% for m in messages %}{% for p in m.content %}{{ p.text + '.' }}{% endfor %}{% "
                  "endfor %}");
    assert_true(!chat_template_caps(t)->content_text && chat_template_caps(t)->content_parts);
    req.messages = text;
    expect(t, &req, "a.");
    req.messages = parts;
    expect(t, &req, "a.b.");
    chat_template_close(t);
}

static void tool_calls_and_reasoning_are_adapted(void **state) {
    (void)state;
    ChatTemplate *t = open_text(
        "{% for m in messages %}{{ m.thinking }}{% for c in m.tool_calls %}{% for k, v in "
        "c.function.arguments.items() %}{{ k }}={{ v }};{% endfor %}{% endfor %}{% endfor %}");
    ChatRequest req = {
        .adapt = true,
        .messages = parse(
            "[{\"role\":\"assistant\",\"reasoning_content\":\"R\",\"tool_calls\":[{\"function\":"
            "{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1, \\\"b\\\": "
            "12345678901234567890}\"}}]}]")};
    assert_true(chat_template_caps(t)->tool_objects);
    expect(t, &req, "Ra=1;b=12345678901234567890;");
    req.adapt = false;
    expect_error(t, &req, "items");
    chat_template_close(t);
    t = open_text("{% for m in messages %}{% for c in m.tool_calls %}{{ 'A' + c.function.arguments "
                  "}}{% endfor %}{% endfor %}");
    req.adapt = true;
    req.messages = parse("[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
                         "\"arguments\":{\"a\":1.0}}}]}]");
    assert_true(chat_template_caps(t)->tool_strings && !chat_template_caps(t)->tool_objects);
    expect(t, &req, "A{\"a\":1.0}");
    chat_template_close(t);
}

static void the_last_message_can_be_continued(void **state) {
    (void)state;
    ChatTemplate *t =
        open_text("{% for m in messages %}[{{ m.role }}] {{ m.content }}<end>\n{% endfor %}");
    ChatRequest req = {.continue_final_message = true,
                       .messages = parse("[{\"role\":\"user\",\"content\":\"Sure\"},{\"role\":"
                                         "\"assistant\",\"content\":\"Sure, \"}]")};
    expect(t, &req, "[user] Sure<end>\n[assistant] Sure, ");
    req.add_generation_prompt = true;
    expect_error(t, &req, "exclude");
    req.add_generation_prompt = false;
    req.messages = parse("[{\"role\":\"assistant\"}]");
    expect_error(t, &req, "no text");
    chat_template_close(t);
}

static void failed_allocations_are_errors(void **state) {
    (void)state;
    ChatSource src = {.chat_template_jinja =
                          STR("{% for m in messages %}{{ bos_token ~ m.content }}{% endfor %}"),
                      .tokenizer_config = STR("{\"bos_token\":\"<s>\"}")};
    ChatRequest req = {.adapt = true,
                       .messages =
                           parse("[{\"role\":\"user\",\"content\":\"a\",\"reasoning\":\"b\"}]")};
    bool done = false;
    for (int64_t i = 0; !done; i++) {
        ChatTemplate *t = NULL;
        ChatPrompt p = {0};
        Err err = {0};
        assert_true(i < 10000);
        mem_fail_after(i);
        done = chat_template_open(&src, &t, &err) && chat_render(t, &req, &p, &err);
        mem_fail_after(-1);
        if (!done) assert_int_equal(err.kind, ERR_NOMEM);
        chat_prompt_deinit(&p);
        chat_template_close(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_source_is_chosen_in_order),
        cmocka_unit_test(no_template_is_chatml_with_a_warning),
        cmocka_unit_test(an_override_may_name_a_builtin),
        cmocka_unit_test(named_templates_follow_the_request),
        cmocka_unit_test(templates_get_what_transformers_gives),
        cmocka_unit_test(a_context_object_becomes_a_request),
        cmocka_unit_test(special_tokens_are_the_templates_and_messages_are_not),
        cmocka_unit_test(content_is_adapted_to_the_template),
        cmocka_unit_test(tool_calls_and_reasoning_are_adapted),
        cmocka_unit_test(the_last_message_can_be_continued),
        cmocka_unit_test(failed_allocations_are_errors),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_deinit(&arena);
    return failed;
}
