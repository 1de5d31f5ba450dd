#include "chat/reasoning.h"

#define N_OF(a) (sizeof(a) / sizeof((a)[0]))
#define OPEN_FIRST(s)                                                                              \
    { STR(s), MARK_OPEN, MARK_AT_START, 0 }
#define OPEN_ANYWHERE(s)                                                                           \
    { STR(s), MARK_OPEN, MARK_AT_START | MARK_IN_CONTENT, 0 }
#define CLOSE(s)                                                                                   \
    { STR(s), MARK_CLOSE, MARK_IN_REASONING, 0 }
#define STRIP(s)                                                                                   \
    { STR(s), MARK_STRIP, MARK_AT_START | MARK_IN_CONTENT, 0 }

/* Marks that ordinary text may mention count only at the very start of the reply; marks that are
 * control tokens of their vocabulary count anywhere, since models trained on them think again
 * between calls. */
static const Mark think_marks[] = {OPEN_FIRST("<think>"), CLOSE("</think>")};
static const Mark thinking_marks[] = {OPEN_FIRST("<thinking>"), CLOSE("</thinking>"),
                                      OPEN_FIRST("<think>"), CLOSE("</think>")};
static const Mark mistral_marks[] = {OPEN_FIRST("[THINK]"), CLOSE("[/THINK]"),
                                     OPEN_FIRST("<think>"), CLOSE("</think>")};
static const Mark gemma4_marks[] = {OPEN_ANYWHERE("<|channel>thought"), OPEN_ANYWHERE("<|channel>"),
                                    CLOSE("<channel|>"), STRIP("<channel|>")};
static const Mark granite_marks[] = {
    OPEN_FIRST("<think>"),
    CLOSE("</think>"),
    OPEN_FIRST("Here is my thought process:"),
    OPEN_FIRST("Here's my thought process:"),
    CLOSE("Here is my response:"),
    CLOSE("Here's my response:"),
    {STR("<response>"), MARK_STRIP, MARK_AT_START, 0},
    {STR("</response>"), MARK_STRIP, MARK_IN_CONTENT, 0},
};
static const Mark cohere_marks[] = {
    OPEN_ANYWHERE("<|START_THINKING|>"),
    CLOSE("<|END_THINKING|>"),
    STRIP("<|END_THINKING|>"),
    STRIP("<|START_RESPONSE|>"),
    STRIP("<|END_RESPONSE|>"),
    STRIP("<|START_TEXT|>"),
    STRIP("<|END_TEXT|>"),
    STRIP("<|END_OF_TURN_TOKEN|>"),
};
static const Mark seed_marks[] = {OPEN_FIRST("<seed:think>"), CLOSE("</seed:think>")};
static const Mark apertus_marks[] = {OPEN_ANYWHERE("<|inner_prefix|>"), CLOSE("<|inner_suffix|>"),
                                     STRIP("<|inner_suffix|>")};
static const Mark longcat_marks[] = {OPEN_FIRST("<longcat_think>"), CLOSE("</longcat_think>"),
                                     OPEN_FIRST("<think>"), CLOSE("</think>")};
/* MiniMax-M3 is shown earlier turns that begin with a lone closing mark and copies it. */
static const Mark minimax_m3_marks[] = {OPEN_FIRST("<mm:think>"),
                                        CLOSE("</mm:think>"),
                                        {STR("</mm:think>"), MARK_STRIP, MARK_AT_START, 0}};
/* Kimi K2 Thinking often starts its call section without closing the thinking; the section mark
 * is a control token. */
static const Mark kimi_marks[] = {
    OPEN_FIRST("<think>"),
    CLOSE("</think>"),
    {STR("<|tool_calls_section_begin|>"), MARK_CLOSE_CALL, MARK_IN_REASONING, 0},
    {STR("<|tool_call_section_begin|>"), MARK_CLOSE_CALL, MARK_IN_REASONING, 0},
};

#define KIND(n, close_text, m)                                                                     \
    { STR(n), STR(close_text), m, N_OF(m) }
#define CHANNELS(n, close_text)                                                                    \
    { STR(n), STR(close_text), NULL, 0 }
static const Reasoning kinds[] = {
    CHANNELS("none", ""), /* the thinking stays in the answer, marks and all */
    KIND("think", "</think>", think_marks),
    KIND("thinking", "</thinking>", thinking_marks),
    KIND("mistral", "[/THINK]", mistral_marks),
    KIND("gemma4", "<channel|>", gemma4_marks),
    CHANNELS("harmony", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    CHANNELS("atem", "<|eom|><|start|>assistant to=user<|message|>"),
    CHANNELS("kimi_k3", "<|close|>think<|sep|><|open|>response<|sep|>"),
    KIND("kimi_k2", "</think>", kimi_marks),
    KIND("granite", "</think>", granite_marks),
    KIND("command_r7b", "<|END_THINKING|>", cohere_marks),
    KIND("seed_oss", "</seed:think>", seed_marks),
    KIND("apertus", "<|inner_suffix|>", apertus_marks),
    KIND("longcat", "</longcat_think>", longcat_marks),
    KIND("minimax_m3", "</mm:think>", minimax_m3_marks),
};

const Reasoning *reasoning_at(size_t i) { return i < N_OF(kinds) ? &kinds[i] : NULL; }

const Reasoning *reasoning_find(Str name) {
    for (size_t i = 0; i < N_OF(kinds); i++)
        if (str_eq(kinds[i].name, name)) return &kinds[i];
    return NULL;
}

bool reasoning_opened_by(const Reasoning *kind, Str prompt_tail) {
    Str tail = str_trim(prompt_tail);
    for (size_t i = 0; i < kind->n_marks; i++)
        if (kind->marks[i].act == MARK_OPEN && str_ends(tail, str_trim(kind->marks[i].text)))
            return true;
    return false;
}
