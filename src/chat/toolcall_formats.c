#include "chat/reply_core.h"

#define N_OF(a) (sizeof(a) / sizeof((a)[0]))
#define EVERYWHERE (MARK_AT_START | MARK_IN_CONTENT | MARK_IN_REASONING)
#define S(lit)                                                                                     \
    { lit, sizeof(lit) - 1 }
#define CALL(lit, state)                                                                           \
    { S(lit), MARK_CALL, MARK_AT_START | MARK_IN_CONTENT, state }
#define CALL_FIRST(lit, state)                                                                     \
    { S(lit), MARK_CALL, MARK_AT_START, state }
#define CALL_ALWAYS(lit, state)                                                                    \
    { S(lit), MARK_CALL, EVERYWHERE, state }
#define STRIP(lit)                                                                                 \
    { S(lit), MARK_STRIP, MARK_AT_START | MARK_IN_CONTENT, 0 }
#define ROUTE(lit, state)                                                                          \
    { S(lit), MARK_ROUTE, EVERYWHERE, state }

/* JSON calls between marks. */
static const Mark tool_call_marks[] = {CALL("<tool_call>", 0)};
static const ToolBody hermes_body = {.close = {S("</tool_call>")}};
static const ToolXml qwen_xml = {.wrap_close = {S("</tool_call>")},
                                 .call_open = S("<function="),
                                 .call_close = S("</function>"),
                                 .param_open = S("<parameter="),
                                 .param_close = S("</parameter>"),
                                 .strip_newline = true};
static const Mark qwen_marks[] = {CALL("<tool_call>", 0), CALL("<function=", 1)};
static const Mark granite_marks[] = {CALL("<|tool_call|>", CALL_BODY),
                                     CALL("<tool_call>", CALL_BODY)};
static const ToolBody granite_body = {.close = {S("</tool_call>"), S("<|/tool_call|>")},
                                      .optional = true};
static const Mark apertus_marks[] = {CALL("<|tools_prefix|>", CALL_BODY)};
static const ToolBody apertus_body = {
    .close = {S("<|tools_suffix|>")}, .optional = true, .keyed = true};
static const Mark r7b_marks[] = {CALL("<|START_ACTION|>", CALL_BODY)};
static const ToolBody r7b_body = {.close = {S("<|END_ACTION|>")}, .no_op = true};
static const Mark command_r_marks[] = {CALL("Action:", 0)};
static const ToolBody command_r_body = {.close = {S("```")}, .optional = true, .no_op = true};
/* Wrappers of families that have no format of their own: Jamba and Apriel, Nemotron, FireFunction,
 * InternLM, GigaChat. */
static const Mark generic_marks[] = {CALL("<tool_call>", CALL_BODY),
                                     CALL("<tool_calls>", CALL_BODY),
                                     CALL("<TOOLCALL>", CALL_BODY),
                                     CALL("functools", CALL_BODY),
                                     CALL("<|action_start|><|plugin|>", CALL_BODY),
                                     CALL("function call<|role_sep|>", CALL_BODY),
                                     CALL("[TOOL_CALLS]", CALL_BODY),
                                     CALL_FIRST("```json", 2),
                                     STRIP("<|message_sep|>")};
static const ToolBody generic_body = {.close = {S("</tool_calls>"), S("</tool_call>"),
                                                S("</TOOLCALL>"), S("```"), S("<|action_end|>"),
                                                S("<|message_sep|>")},
                                      .optional = true};
static const ToolBody plain_body = {.optional = true};

/* Names in headers. */
static const Mark llama3_marks[] = {CALL("<|python_tag|>", 0)};
static const Mark mistral_marks[] = {CALL("[TOOL_CALLS]", 0)};
static const Mark deepseek_marks[] = {
    CALL("<｜tool▁calls▁begin｜>", 0), CALL("<｜tool_calls_begin｜>", 0),
    CALL("<｜tool calls begin｜>", 0), CALL("<｜tool▁call▁begin｜>", 1),
    CALL("<｜tool_call_begin｜>", 1),  CALL("<｜tool call begin｜>", 1)};
static const Mark kimi_k2_marks[] = {CALL("<|tool_calls_section_begin|>", 0),
                                     CALL("<|tool_call_section_begin|>", 0),
                                     CALL("<|tool_call_begin|>", 1)};
static const Mark functionary_v3_1_marks[] = {CALL("<function=", 0), CALL("<|python_tag|>", 3)};
static const Mark functionary_v3_2_marks[] = {ROUTE(">>>", 1)};

/* Code and literals. */
static const Mark pythonic_marks[] = {CALL("<|python_start|>", 0), CALL("<|python_tag|>", 0),
                                      CALL("<|tool_call_start|>", 0)};
static const ToolBody pythonic_body = {.close = {S("<|python_end|>"), S("<|tool_call_end|>")},
                                       .optional = true};
static const Mark lfm2_marks[] = {CALL("<|tool_call_start|>", 0)};
static const ToolBody lfm2_body = {.close = {S("<|tool_call_end|>")}, .optional = true};
/* Behind its calls a model may write the mark that begins the answer to them. */
static const Mark gemma4_marks[] = {CALL("<|tool_call>", 0), STRIP("<|tool_response>")};
static const Str gemma4_tags[] = {S("<tool_call|>"), S("<|\"|>")};
static const Mark function_gemma_marks[] = {CALL("<start_function_call>", 0),
                                            STRIP("<start_function_response>")};
static const Str function_gemma_tags[] = {S("<end_function_call>"), S("<escape>")};

/* Tags. */
static const Str glm_tags[] = {S("<arg_key>"), S("</arg_key>"), S("<arg_value>"), S("</arg_value>"),
                               S("</tool_call>")};
static const Mark longcat_marks[] = {CALL("<longcat_tool_call>", 0)};
static const Str longcat_tags[] = {S("<longcat_arg_key>"), S("</longcat_arg_key>"),
                                   S("<longcat_arg_value>"), S("</longcat_arg_value>"),
                                   S("</longcat_tool_call>")};
static const ToolBody longcat_body = {.close = {S("</longcat_tool_call>")}};
static const Mark seed_marks[] = {CALL("<seed:tool_call>", 0), CALL("<function=", 1)};
static const ToolXml seed_xml = {.wrap_close = {S("</seed:tool_call>")},
                                 .call_open = S("<function="),
                                 .call_close = S("</function>"),
                                 .param_open = S("<parameter="),
                                 .param_close = S("</parameter>")};
static const Mark minimax_m2_marks[] = {CALL("<minimax:tool_call>", 0), CALL("<invoke", 1)};
static const ToolXml minimax_m2_xml = {.wrap_close = {S("</minimax:tool_call>")},
                                       .call_open = S("<invoke"),
                                       .call_close = S("</invoke>"),
                                       .param_open = S("<parameter"),
                                       .param_close = S("</parameter>"),
                                       .quoted = true};
static const Mark minimax_m3_marks[] = {CALL("]<]minimax[>[<tool_call>", 0),
                                        CALL("]<]minimax[>[<invoke", 1)};
static const Mark dsml_marks[] = {CALL("<｜DSML｜function_calls>", 0),
                                  CALL("<｜DSML｜tool_calls>", 0)};
static const ToolXml dsml_xml = {
    .wrap_close = {S("</｜DSML｜function_calls>"), S("</｜DSML｜tool_calls>")},
    .call_open = S("<｜DSML｜invoke"),
    .call_close = S("</｜DSML｜invoke>"),
    .param_open = S("<｜DSML｜parameter"),
    .param_close = S("</｜DSML｜parameter>"),
    .quoted = true};

/* Channels: states 1 and 2 are a header and the end of a message. */
static const Mark harmony_marks[] = {ROUTE("<|start|>", 1),   ROUTE("<|channel|>", 1),
                                     ROUTE("<|message|>", 2), ROUTE("<|end|>", 2),
                                     ROUTE("<|return|>", 2),  ROUTE("<|call|>", 2)};
static const Mark atem_marks[] = {ROUTE("<|start|>", 1),
                                  ROUTE("<|message|>", 2),
                                  ROUTE("<|eom|>", 2),
                                  ROUTE("<|eot|>", 2),
                                  CALL_ALWAYS("<atem:function_calls>", 5),
                                  CALL_ALWAYS("<atem:invoke", 6)};
static const ToolXml atem_xml = {.wrap_close = {S("</atem:function_calls>")},
                                 .call_open = S("<atem:invoke"),
                                 .call_close = S("</atem:invoke>"),
                                 .param_open = S("<atem:parameter"),
                                 .param_close = S("</atem:parameter>"),
                                 .quoted = true};
static const Mark kimi_k3_marks[] = {ROUTE("<|open|>", 0), ROUTE("<|close|>", 1),
                                     ROUTE("<|end_of_msg|>", 2)};

#define ROW(n, kind, m, run, ...)                                                                  \
    { .name = S(n), .reasoning = kind, .marks = m, .n_marks = N_OF(m), .machine = run, __VA_ARGS__ }
static const ToolFormat formats[] = {
    ROW("hermes", "think", tool_call_marks, toolcall_tagged, .body = &hermes_body,
        .xml = &qwen_xml),
    ROW("qwen3_coder", "think", qwen_marks, toolcall_tagged, .body = &hermes_body,
        .xml = &qwen_xml),
    ROW("llama3_json", "think", llama3_marks, toolcall_llama3, .body = &plain_body, .bare = "{[",
        .bare_state = CALL_BODY),
    ROW("llama3_python_tag", "think", llama3_marks, toolcall_llama3, .body = &plain_body,
        .bare = "{[", .bare_state = CALL_BODY),
    ROW("mistral_nemo", "mistral", mistral_marks, toolcall_mistral, .body = &plain_body),
    ROW("mistral_v11", "mistral", mistral_marks, toolcall_mistral, .body = &plain_body),
    ROW("deepseek_v3", "think", deepseek_marks, toolcall_deepseek, .body = &plain_body),
    ROW("deepseek_v31", "think", deepseek_marks, toolcall_deepseek, .body = &plain_body),
    ROW("deepseek_v32", "think", dsml_marks, toolcall_tagged, .xml = &dsml_xml),
    ROW("harmony", "harmony", harmony_marks, toolcall_harmony, .channels = true),
    ROW("glm4", "think", tool_call_marks, toolcall_glm, .body = &hermes_body, .tags = glm_tags),
    ROW("glm47", "think", tool_call_marks, toolcall_glm, .body = &hermes_body, .tags = glm_tags),
    ROW("kimi_k2", "kimi_k2", kimi_k2_marks, toolcall_kimi_k2, .body = &plain_body),
    ROW("kimi_k3", "kimi_k3", kimi_k3_marks, toolcall_kimi_k3, .channels = true),
    ROW("granite", "granite", granite_marks, toolcall_tagged, .body = &granite_body),
    ROW("command_r", "think", command_r_marks, toolcall_command_r, .body = &command_r_body),
    ROW("command_r7b", "command_r7b", r7b_marks, toolcall_tagged, .body = &r7b_body),
    ROW("functionary_v3_1", "think", functionary_v3_1_marks, toolcall_functionary_v3_1,
        .body = &plain_body),
    ROW("functionary_v3_2", "think", functionary_v3_2_marks, toolcall_functionary_v3_2,
        .channels = true),
    ROW("pythonic", "think", pythonic_marks, toolcall_list, .body = &pythonic_body, .bare = "["),
    ROW("lfm2", "think", lfm2_marks, toolcall_list, .body = &lfm2_body),
    ROW("minimax_m2", "think", minimax_m2_marks, toolcall_tagged, .xml = &minimax_m2_xml),
    ROW("minimax_m3", "minimax_m3", minimax_m3_marks, toolcall_m3, .body = NULL),
    ROW("gemma4", "gemma4", gemma4_marks, toolcall_gemma, .tags = gemma4_tags),
    ROW("function_gemma", "think", function_gemma_marks, toolcall_gemma,
        .tags = function_gemma_tags),
    ROW("seed_oss", "seed_oss", seed_marks, toolcall_tagged, .xml = &seed_xml),
    ROW("apertus", "apertus", apertus_marks, toolcall_tagged, .body = &apertus_body),
    ROW("longcat", "longcat", longcat_marks, toolcall_glm, .body = &longcat_body,
        .tags = longcat_tags),
    ROW("atem", "atem", atem_marks, toolcall_atem, .xml = &atem_xml, .channels = true),
    ROW("generic_json", "think", generic_marks, toolcall_tagged, .body = &generic_body,
        .bare = "{[", .bare_state = CALL_BODY),
    {.name = S("think_only"), .reasoning = "think", .machine = toolcall_tagged},
};

const ToolFormat *toolcall_at(size_t i) { return i < N_OF(formats) ? &formats[i] : NULL; }

const ToolFormat *toolcall_find(Str name) {
    for (size_t i = 0; i < N_OF(formats); i++)
        if (str_eq(formats[i].name, name)) return &formats[i];
    return NULL;
}
