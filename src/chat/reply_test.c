/* Proves what the golden cases cannot: when events come, that marks and characters are never
 * cut, that limits and failures of memory or sink end well, how values are typed, which format a
 * template is taken for, and the lines of `mlxcel parse`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "chat/reply.h"
#include "chat/toolcall.h"
#include "chat/toolcall_python.h"

static const char weather_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":"
    "\"object\","
    "\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"}}}}}]";

typedef struct Log { /* what a sink saw: one letter per event, then its text */
    Buf b;
    int fail_at; /* this event fails; 0 = none */
    int n;
    bool cut_character;
} Log;

static bool on_event(void *arg, const ReplyEvent *ev, Err *err) {
    Log *l = arg;
    if (++l->n == l->fail_at) return err_set(err, ERR_CANCELLED, "the client left");
    buf_putf(&l->b, "%s%c:", l->b.n ? "|" : "", "crbaef"[ev->kind]);
    if (ev->kind == REPLY_CALL_BEGIN) buf_put(&l->b, ev->name);
    buf_put(&l->b, ev->text);
    l->cut_character |= !utf8_valid(ev->text);
    return true;
}

static const Json *tools_read(Arena *a) {
    Json *tools;
    assert_true(json_parse(str_c(weather_tools), NULL, a, &tools, NULL));
    return tools;
}

static Reply *start(Log *l, Arena *a, const char *format) {
    Err err;
    Reply *r = reply_new(
        &(ReplyOptions){
            .format = str_c(format), .tools = tools_read(a), .sink = on_event, .arg = l},
        &err);
    assert_non_null(r);
    return r;
}

static void feed(Reply *r, const char *text) {
    Err err;
    assert_true(reply_feed(r, str_c(text), &err));
}

static void saw(Log *l, const char *want) {
    assert_string_equal(buf_cstr(&l->b), want);
    buf_clear(&l->b);
}

static void end(Reply *r, Log *l, Arena *a) {
    reply_free(r);
    buf_deinit(&l->b);
    arena_deinit(a);
}

static void text_flows_and_only_marks_wait(void **state) {
    (void)state;
    Log l = {0};
    Arena a = {0};
    Err err;
    Reply *r = start(&l, &a, "hermes");
    feed(r, "<th");
    saw(&l, "");
    feed(r, "ink>one");
    saw(&l, "r:one");
    assert_int_equal(reply_phase(r), REPLY_IN_REASONING);
    feed(r, " two</th");
    saw(&l, "r: two");
    feed(r, "ree</think>\n\nHi <to");
    saw(&l, "r:</three|c:Hi");
    assert_int_equal(reply_phase(r), REPLY_IN_CONTENT);
    feed(r, "day");
    saw(&l, "c: <today");
    feed(r, " <tool_c");
    saw(&l, "");
    assert_true(reply_finish(r, REPLY_STOP, &err));
    saw(&l, "c: <tool_c");
    end(r, &l, &a);
}

static void arguments_stream_as_they_grow(void **state) {
    (void)state;
    Log l = {0};
    Arena a = {0};
    Err err;
    Reply *r = start(&l, &a, "hermes");
    feed(r, "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"ci");
    saw(&l, "b:get_weather|a:{\"ci");
    assert_int_equal(reply_phase(r), REPLY_IN_CALL);
    feed(r, "ty\": \"Pa");
    saw(&l, "a:ty\": \"Pa");
    feed(r, "ris\"}}\n</tool_call>");
    saw(&l, "a:ris\"}|e:");
    assert_true(reply_finish(r, REPLY_STOP, &err));
    end(r, &l, &a);

    l = (Log){0};
    a = (Arena){0};
    r = start(&l, &a, "qwen3_coder");
    feed(r, "<tool_call>\n<function=get_weather>\n<parameter=days>\n1");
    saw(&l, "b:get_weather|a:{\"days\": ");
    feed(r, "0\n</parameter>\n<parameter=city>\nPa\n");
    saw(&l, "a:10, \"city\": \"Pa");
    feed(r, "\"x\n</par");
    saw(&l, "a:\\n\\\"x");
    feed(r, "ameter>\n</function>");
    saw(&l, "a:\"}|e:");
    feed(r, "\n</tool_call>");
    assert_true(reply_finish(r, REPLY_STOP, &err));
    saw(&l, "");
    end(r, &l, &a);
}

static void a_failed_call_gives_its_text_back(void **state) {
    (void)state;
    Log l = {0};
    Arena a = {0};
    Err err;
    Reply *r = start(&l, &a, "mistral_v11");
    feed(r, "Look.\n[TOOL_CALLS]get_weather[ARGS]{\"city\" \"Paris\"} more");
    saw(&l, "c:Look.|b:get_weather|a:{\"city\" |f:\n[TOOL_CALLS]get_weather[ARGS]{\"city\" "
            "|c:\"Paris\"} more");
    assert_true(reply_finish(r, REPLY_LENGTH, &err));
    end(r, &l, &a);
}

static void characters_are_not_cut(void **state) {
    (void)state;
    static const char text[] = "<think>생각 😀</think>안녕 < 😀 <tool_call>{\"name\": "
                               "\"get_weather\", \"arguments\": {\"city\": "
                               "\"서울 😀\"}}</tool_call>끝";
    Log l = {0};
    Arena a = {0};
    Err err;
    Reply *r = start(&l, &a, "hermes");
    for (size_t i = 0; i < sizeof text - 1; i++)
        assert_true(reply_feed(r, (Str){text + i, 1}, &err));
    assert_true(reply_finish(r, REPLY_STOP, &err));
    assert_false(l.cut_character);
    end(r, &l, &a);
}

static void long_calls_become_text_at_one_place(void **state) {
    (void)state;
    static const char text[] = "A <tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": "
                               "\"0123456789012345678901234567890"
                               "12345678901234567890123456789\"}}</tool_call> B";
    Arena a = {0};
    Err err;
    ReplyMessage whole, cut;
    ReplyOptions o = {.format = STR("hermes"), .tools = tools_read(&a), .max_call_bytes = 70};
    assert_true(reply_collect(&o, str_c(text), REPLY_STOP, 0, &a, &whole, &err));
    assert_int_equal(whole.n_calls, 0);
    assert_true(str_eq(whole.content, str_c(text)));
    for (size_t split = 1; split < sizeof text; split++) {
        assert_true(reply_collect(&o, str_c(text), REPLY_STOP, split, &a, &cut, &err));
        assert_true(str_eq(whole.content, cut.content) && !cut.n_calls);
    }
    arena_deinit(&a);
}

static void tools_decide_whether_marks_count(void **state) {
    (void)state;
    static const char text[] = "[TOOL_CALLS]get_weather[ARGS]{}";
    Arena a = {0};
    Err err;
    ReplyMessage m;
    ReplyOptions o = {.format = STR("mistral_v11")};
    assert_true(reply_collect(&o, str_c(text), REPLY_STOP, 0, &a, &m, &err));
    assert_int_equal(m.n_calls, 0);
    assert_true(str_eq(m.content, str_c(text)));
    o.calls = REPLY_CALLS_ON;
    assert_true(reply_collect(&o, str_c(text), REPLY_STOP, 0, &a, &m, &err));
    assert_int_equal(m.n_calls, 1);
    o.tools = tools_read(&a);
    o.calls = REPLY_CALLS_OFF;
    assert_true(reply_collect(&o, str_c(text), REPLY_STOP, 0, &a, &m, &err));
    assert_int_equal(m.n_calls, 0);
    arena_deinit(&a);
}

static void a_prefilled_thought_goes_on(void **state) {
    (void)state;
    Arena a = {0};
    Err err;
    ReplyMessage m;
    ReplyOptions o = {
        .format = STR("think_only"), .prompt_tail = STR("<think>\nLet me"), .reasoning_open = true};
    assert_true(reply_collect(&o, STR(" see.</think>Yes."), REPLY_STOP, 0, &a, &m, &err));
    assert_true(str_eqc(m.reasoning, "see.") && str_eqc(m.content, "Yes."));
    arena_deinit(&a);
}

static void a_sink_that_fails_ends_the_reply(void **state) {
    (void)state;
    Log l = {.fail_at = 2};
    Arena a = {0};
    Err err;
    Reply *r = start(&l, &a, "hermes");
    feed(r, "one ");
    assert_false(reply_feed(r, STR("two <tool_call>"), &err));
    assert_int_equal(err.kind, ERR_CANCELLED);
    assert_false(reply_feed(r, STR("three"), &err));
    assert_false(reply_finish(r, REPLY_STOP, &err));
    end(r, &l, &a);
}

static void same_message(const ReplyMessage *a, const ReplyMessage *b) {
    assert_true(str_eq(a->content, b->content) && str_eq(a->reasoning, b->reasoning));
    assert_int_equal(a->n_calls, b->n_calls);
    for (size_t i = 0; i < a->n_calls; i++) {
        assert_true(str_eq(a->calls[i].name, b->calls[i].name));
        assert_true(str_eq(a->calls[i].arguments, b->calls[i].arguments));
    }
}

/* Every allocation fails once: an error or the right answer, and nothing leaks (checked by the
 * sanitizer build). */
static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    static const struct {
        const char *format, *text;
    } all[] = {
        {"hermes", "<think>a</think>b <tool_call>{\"arguments\": \"{\\\"a\\\": 1}\", \"name\": "
                   "\"f\"}</tool_call> <tool_call>{1"},
        {"qwen3_coder", "<tool_call>\n<function=f>\n<parameter=a>\n{'x': "
                        "1}\n</parameter>\n</function>\n</tool_call>"},
        {"harmony", "<|channel|>analysis<|message|>a<|end|><|start|>assistant "
                    "to=functions.f<|channel|>commentary<|message|>{}"},
        {"kimi_k3", "<|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\" "
                    "type=\"number\"<|sep|>1<|close|>argument<|sep|>"},
        {"minimax_m3", "]<]minimax[>[<tool_call>]<]minimax[>[<invoke "
                       "name=\"f\">]<]minimax[>[<a>1]<]minimax[>[</a>"},
        {"pythonic", "[f(a='x', b=[1])]"},
        {"gemma4", "<|tool_call>call:f{a:<|\"|>x<|\"|>}<tool_call|>"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        Arena want_arena = {0};
        ReplyMessage want;
        ReplyOptions o = {.format = str_c(all[i].format), .calls = REPLY_CALLS_ON};
        assert_true(reply_collect(&o, str_c(all[i].text), REPLY_STOP, 0, &want_arena, &want, NULL));
        for (int64_t n = 0; n < 200; n++) {
            Arena a = {0};
            Err err = {0};
            ReplyMessage m;
            mem_fail_after(n);
            bool done = reply_collect(&o, str_c(all[i].text), REPLY_STOP, 5, &a, &m, &err);
            mem_fail_after(-1);
            if (done)
                same_message(&m, &want);
            else
                assert_int_equal(err.kind, ERR_NOMEM);
            arena_deinit(&a);
        }
        arena_deinit(&want_arena);
    }
}

static void json_is_checked_byte_by_byte(void **state) {
    (void)state;
    static const char *const good[] = {"{}",
                                       "[]",
                                       "0",
                                       "-1.5e+3",
                                       "\"\\u00e9\\n\"",
                                       "{\"a\": [1, {\"b\": null}], \"c\": true}",
                                       " 1 ",
                                       "\"\"",
                                       "false"};
    static const char *const bad[] = {
        "",    "{",       "{\"a\"}",     "{\"a\" 1}", "[1,]", "{,}",    "01", "1.",   "-",
        "nul", "\"\\x\"", "\"\\u12g4\"", "{} {}",     "'a'",  "{a: 1}", "1e", "[1 2]"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(jsonpush_valid(str_c(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(jsonpush_valid(str_c(bad[i])));
    Buf deep = {0};
    for (int i = 0; i < JSON_PUSH_DEPTH; i++) buf_putc(&deep, '[');
    for (int i = 0; i < JSON_PUSH_DEPTH; i++) buf_putc(&deep, ']');
    assert_true(jsonpush_valid(buf_str(&deep)));
    buf_clear(&deep);
    for (int i = 0; i <= JSON_PUSH_DEPTH; i++) buf_putc(&deep, '[');
    for (int i = 0; i <= JSON_PUSH_DEPTH; i++) buf_putc(&deep, ']');
    assert_false(jsonpush_valid(buf_str(&deep)));
    buf_deinit(&deep);
}

static void python_literals_become_json(void **state) {
    (void)state;
    static const struct {
        const char *python, *json; /* NULL: refused */
    } all[] = {
        {"'a\"b'", "\"a\\\"b\""},
        {"\"\"", "\"\""},
        {"'''a'b\n'''", "\"a'b\\n\""},
        {"'\\x41\\101\\q'", "\"A\\u0041\\\\q\""},
        {"'\\ud83d\\ude00'", "\"\\ud83d\\ude00\""},
        {"1_000", "1000"},
        {".5", "0.5"},
        {"-.5", "-0.5"},
        {"5.", "5.0"},
        {"+3", "3"},
        {"12345678901234567890", "12345678901234567890"},
        {"1.50", "1.50"},
        {"True", "true"},
        {"None", "null"},
        {"(1, 'x',)", "[1, \"x\"]"},
        {"{'a': {}, 2: [None]}", "{\"a\": {}, \"2\": [null]}"},
        {"[1, [2, []]]", "[1, [2, []]]"},
        {"name", NULL},
        {"f(1)", NULL},
        {"0x1F", NULL},
        {"007", NULL},
        {"'a", NULL},
        {"[1 2]", NULL},
        {"{1}", NULL},
        {"'\\N{DASH}'", NULL},
        {"1 + 1", NULL},
        {"", NULL},
        {"[,]", NULL},
        {"'\\U00110000'", NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        Buf out = {0};
        bool ok = pypush_text(&out, str_c(all[i].python));
        if (ok != (all[i].json != NULL)) fail_msg("%s", all[i].python);
        if (ok) assert_string_equal(buf_cstr(&out), all[i].json);
        buf_deinit(&out);
    }
}

static void values_take_the_type_of_the_schema(void **state) {
    (void)state;
    static const struct {
        const char *schema, *text, *json;
    } all[] = {
        {"{\"type\":\"string\"}", " 42 ", "\" 42 \""},
        {"{\"type\":\"string\"}", "{\"a\": 1}", "\"{\\\"a\\\": 1}\""},
        {"{\"type\":\"integer\"}", " 42 ", "42"},
        {"{\"type\":\"number\"}", "1.50", "1.50"},
        {"{\"type\":\"number\"}", "00123", "\"00123\""},
        {"{\"type\":\"number\"}", "many", "\"many\""},
        {"{\"type\":\"boolean\"}", "True", "true"},
        {"{\"type\":\"boolean\"}", "yes", "\"yes\""},
        {"{\"type\":[\"integer\",\"null\"]}", "null", "null"},
        {"{\"type\":[\"string\",\"null\"]}", "null", "null"},
        {"{\"type\":[\"string\",\"null\"]}", "12", "\"12\""},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "12", "\"12\""},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", "None", "null"},
        {"{\"enum\":[\"1\",\"2\"]}", "1", "\"1\""},
        {"{\"type\":\"array\"}", "['a', 1]", "[\"a\", 1]"},
        {"{\"type\":\"array\"}", "[\"a\\n\", 1.0]", "[\"a\\n\", 1.0]"},
        {"{\"type\":\"object\"}", "{'a': True}", "{\"a\": true}"},
        {"{\"type\":\"object\"}", "not one", "\"not one\""},
        {"{}", "12", "12"},
        {"{}", "twelve", "\"twelve\""},
        {"{}", "{\"a\": \"x\ny\"}", "{\"a\": \"x\\ny\"}"},
        {"{}", "1_000", "\"1_000\""},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        Arena a = {0};
        Buf out = {0};
        Json *schema;
        assert_true(json_parse(str_c(all[i].schema), NULL, &a, &schema, NULL));
        toolcall_value_put(&out, str_c(all[i].text), schema);
        if (strcmp(buf_cstr(&out), all[i].json) != 0)
            fail_msg("%s as %s: %s", all[i].text, all[i].schema, buf_cstr(&out));
        buf_deinit(&out);
        arena_deinit(&a);
    }
}

static void references_are_followed(void **state) {
    (void)state;
    Arena a = {0};
    Json *schema;
    static const char text[] =
        "{\"properties\":{\"c\":{\"$ref\":\"#/$defs/C\"},\"loop\":{\"$ref\":\"#/properties/loop\"},"
        "\"far\":{\"$ref\":\"other.json\"}},\"$defs\":{\"C\":{\"enum\":[\"r\",\"g\"]}}}";
    assert_true(json_parse(str_c(text), NULL, &a, &schema, NULL));
    assert_true(toolcall_is_string(toolcall_property(schema, STR("c"))));
    assert_false(toolcall_is_string(toolcall_property(schema, STR("loop"))));
    assert_false(toolcall_is_string(toolcall_property(schema, STR("far"))));
    assert_null(toolcall_property(schema, STR("none")));
    arena_deinit(&a);
}

static void templates_give_their_format_away(void **state) {
    (void)state;
    static const struct {
        const char *source, *format, *reasoning;
    } all[] = {
        {"{{'<tool_call>\\n{\"name\": '}}", "hermes", "think"},
        {"<tool_call>\n<function=f>\n<parameter=p>", "qwen3_coder", "think"},
        {"{\"name\": f, \"parameters\": d} <|start_header_id|>", "llama3_json", "think"},
        {"[TOOL_CALLS][", "mistral_nemo", "mistral"},
        {"[TOOL_CALLS] [ARGS] [THINK]", "mistral_v11", "mistral"},
        {"<｜tool▁calls▁begin｜> ```json", "deepseek_v3", "think"},
        {"<｜tool▁calls▁begin｜> <think>", "deepseek_v31", "think"},
        {"<｜DSML｜function_calls>", "deepseek_v32", "think"},
        {"<|channel|>analysis<|message|>", "harmony", "harmony"},
        {"<tool_call>{function-name}\n<arg_key>", "glm4", "think"},
        {"<tool_call>{function-name}<arg_key>", "glm47", "think"},
        {"<|tool_calls_section_begin|>", "kimi_k2", "kimi_k2"},
        {"<|open|> <|sep|> <|close|>", "kimi_k3", "kimi_k3"},
        {"<|tool_call|> <|start_of_role|>", "granite", "granite"},
        {"Action: \"tool_name\" <|CHATBOT_TOKEN|>", "command_r", "think"},
        {"<|START_ACTION|>", "command_r7b", "command_r7b"},
        {"<function=f>{}</function>", "functionary_v3_1", "think"},
        {">>>all <|start_header_id|>", "functionary_v3_2", "think"},
        {"<|python_start|>", "pythonic", "think"},
        {"<|tool_list_start|>", "lfm2", "think"},
        {"<minimax:tool_call>", "minimax_m2", "think"},
        {"]<]minimax[>[", "minimax_m3", "minimax_m3"},
        {"<|tool_call>call: <|channel>", "gemma4", "gemma4"},
        {"<start_function_call>", "function_gemma", "think"},
        {"<seed:tool_call>\n<function=f>\n<parameter=p>", "seed_oss", "seed_oss"},
        {"<|tools_prefix|>", "apertus", "apertus"},
        {"<longcat_tool_call>", "longcat", "longcat"},
        {"<atem:function_calls> <|start|> <|message|>", "atem", "atem"},
        {"<tool_calls>[ <thinking>", "generic_json", "thinking"},
        {"<|im_start|> <think>", "think_only", "think"},
        {"", "think_only", "think"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ReplyDetected d = reply_detect(str_c(all[i].source));
        if (!str_eqc(d.format, all[i].format) || !str_eqc(d.reasoning, all[i].reasoning))
            fail_msg("%s: %.*s %.*s", all[i].source, STR_A(d.format), STR_A(d.reasoning));
    }
}

static void unknown_names_are_named(void **state) {
    (void)state;
    Err err;
    assert_true(reply_check_names(STR("hermes"), STR("auto"), &err));
    assert_true(reply_check_names(STR(""), STR("none"), &err));
    assert_false(reply_check_names(STR("hermess"), STR(""), &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_non_null(strstr(err.msg, "\"hermess\"; there are hermes, qwen3_coder"));
    assert_false(reply_check_names(STR("hermes"), STR("loud"), &err));
    assert_non_null(strstr(err.msg, "\"loud\"; there are none, think"));
}

static void parse_lines(void **state) {
    (void)state;
    static const struct {
        const char *line, *want; /* an error's message begins with want */
    } all[] = {
        {"{\"text\":\"<think>a</think>b\"}",
         "{\"content\":\"b\",\"reasoning\":\"a\",\"tool_calls\":[]}"},
        {"{\"text\":\"<tool_call>{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":{\\\"a\\\":1.0,"
         "\\\"a\\\":2}}</tool_call>\",\"tools\":[{}],"
         "\"finish\":\"length\"}",
         "{\"content\":\"\",\"reasoning\":\"\",\"tool_calls\":[{\"name\":\"f\",\"arguments\":{"
         "\"a\":2}}]}"},
        {"{\"text\":\"<tool_call>{\\\"name\\\":\\\"f\\\"}\"}",
         "{\"content\":\"\",\"reasoning\":\"\",\"tool_calls\":[{\"name\":\"f\",\"arguments\":{}}]"
         "}"},
        {"{\"text\":\"<tool_call>\",\"tools\":null}",
         "{\"content\":\"<tool_call>\",\"reasoning\":\"\",\"tool_calls\":[]}"},
        {"{\"text\":\"a</think>b\",\"prompt_tail\":\"<think>\"}",
         "{\"content\":\"b\",\"reasoning\":\"a\",\"tool_calls\":[]}"},
        {"{", "!"},
        {"[]", "!the line is array"},
        {"{\"text\":1}", "!\"text\" is missing"},
        {"{\"text\":\"\",\"finish\":\"eos\"}", "!\"finish\" is \"eos\""},
        {"{\"text\":\"\",\"tools\":{}}", "!\"tools\" is object"},
        {"{\"text\":\"\",\"prompt_tail\":5}", "!\"prompt_tail\" is number"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (size_t split = 0; split < 4; split++) {
            Buf out = {0};
            Err err = {0};
            bool ok =
                reply_parse_line(STR("hermes"), STR(""), split, str_c(all[i].line), &out, &err);
            assert_int_equal(ok, all[i].want[0] != '!');
            if (ok)
                assert_string_equal(buf_cstr(&out), all[i].want);
            else if (!strstr(err.msg, all[i].want + 1))
                fail_msg("%s", err.msg);
            buf_deinit(&out);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_flows_and_only_marks_wait),
        cmocka_unit_test(arguments_stream_as_they_grow),
        cmocka_unit_test(a_failed_call_gives_its_text_back),
        cmocka_unit_test(characters_are_not_cut),
        cmocka_unit_test(long_calls_become_text_at_one_place),
        cmocka_unit_test(tools_decide_whether_marks_count),
        cmocka_unit_test(a_prefilled_thought_goes_on),
        cmocka_unit_test(a_sink_that_fails_ends_the_reply),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(json_is_checked_byte_by_byte),
        cmocka_unit_test(python_literals_become_json),
        cmocka_unit_test(values_take_the_type_of_the_schema),
        cmocka_unit_test(references_are_followed),
        cmocka_unit_test(templates_give_their_format_away),
        cmocka_unit_test(unknown_names_are_named),
        cmocka_unit_test(parse_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
