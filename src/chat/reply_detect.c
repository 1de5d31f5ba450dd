/* Which format a template speaks: the control marks in its source text give it away. */
#include "chat/reply.h"
#include "chat/toolcall.h"

/* The first row all of whose words are in the template, and none behind '!', is taken: special
 * marks before common ones. */
typedef struct Clue {
    const char *format,
        *reasoning; /* NULL: the format's own kind, or what the template's thinking marks say */
    const char *words[4];
} Clue;

static const Clue clues[] = {
    {"harmony", NULL, {"<|channel|>", "<|message|>", "analysis"}},
    {"atem", NULL, {"<atem:"}},
    {"minimax_m3", NULL, {"]<]minimax[>["}},
    {"minimax_m3", NULL, {"<mm:think>"}},
    {"minimax_m2", NULL, {"<minimax:tool_call>"}},
    {"kimi_k3", NULL, {"<|open|>", "<|close|>", "<|sep|>"}},
    {"kimi_k2", NULL, {"<|tool_calls_section_begin|>"}},
    {"deepseek_v32", NULL, {"｜DSML｜"}},
    {"deepseek_v3", NULL, {"tool▁calls▁begin", "```json"}},
    {"deepseek_v31", NULL, {"tool▁calls▁begin"}},
    {"gemma4", NULL, {"<|tool_call>", "call:"}},
    {"gemma4", NULL, {"<|channel>", "<|turn>"}},
    {"function_gemma", NULL, {"<start_function_call>"}},
    {"seed_oss", NULL, {"<seed:tool_call>"}},
    {"longcat", NULL, {"<longcat_tool_call>"}},
    {"apertus", NULL, {"<|tools_prefix|>"}},
    {"command_r7b", NULL, {"<|START_ACTION|>"}},
    {"command_r", NULL, {"Action:", "tool_name", "CHATBOT_TOKEN"}},
    {"mistral_v11", NULL, {"[TOOL_CALLS]", "[ARGS]"}},
    {"mistral_nemo", NULL, {"[TOOL_CALLS]"}},
    {"functionary_v3_2", NULL, {">>>", "all", "<|start_header_id|>"}},
    {"glm47", NULL, {"<arg_key>", "{function-name}<arg_key>"}},
    {"glm4", NULL, {"<arg_key>"}},
    {"qwen3_coder", NULL, {"<function=", "<parameter="}},
    {"functionary_v3_1", NULL, {"<function", "</function>", "!<tool_call>"}},
    {"lfm2", NULL, {"<|tool_call_start|>"}},
    {"lfm2", NULL, {"<|tool_list_start|>"}},
    {"granite", NULL, {"<|tool_call|>"}},
    {"pythonic", NULL, {"<|python_start|>"}},
    {"pythonic", NULL, {"[func_name1(params_name1=params_value1"}},
    {"generic_json", NULL, {"<tool_calls>["}},
    {"hermes", NULL, {"<tool_call>"}},
    {"generic_json", NULL, {"functools["}},
    {"generic_json", NULL, {"<TOOLCALL>"}},
    {"generic_json", NULL, {"<|action_start|>"}},
    {"generic_json", NULL, {"function call", "role_sep"}},
    {"llama3_json", NULL, {"\"parameters\"", "<|start_header_id|>"}},
    {"llama3_json", NULL, {"<|python_tag|>"}},
    {"granite", NULL, {"<|start_of_role|>"}},
    {"generic_json", NULL, {"tool_calls", "tools"}},
};

/* Thinking marks, where the format leaves them open. */
static const Clue thinkers[] = {
    {NULL, "mistral", {"[THINK]"}},          {NULL, "think", {"<think>"}},
    {NULL, "think", {"</think>"}},           {NULL, "seed_oss", {"<seed:think>"}},
    {NULL, "longcat", {"<longcat_think>"}},  {NULL, "command_r7b", {"<|START_THINKING|>"}},
    {NULL, "apertus", {"<|inner_prefix|>"}}, {NULL, "thinking", {"<thinking>"}},
};

static bool fits(const Clue *c, Str source) {
    for (int i = 0; i < 4 && c->words[i]; i++) {
        bool absent = c->words[i][0] == '!';
        bool there = str_find(source, str_c(c->words[i] + absent), 0) != STR_NPOS;
        if (there == absent) return false;
    }
    return true;
}

ReplyDetected reply_detect(Str source) {
    ReplyDetected d = {STR("think_only"), STR("think")};
    for (size_t i = 0; i < sizeof clues / sizeof *clues; i++) {
        if (!fits(&clues[i], source)) continue;
        d.format = str_c(clues[i].format);
        break;
    }
    d.reasoning = str_c(toolcall_find(d.format)->reasoning);
    if (!str_eqc(d.reasoning, "think")) return d;
    for (size_t i = 0; i < sizeof thinkers / sizeof *thinkers; i++) {
        if (!fits(&thinkers[i], source)) continue;
        d.reasoning = str_c(thinkers[i].reasoning);
        break;
    }
    return d;
}
