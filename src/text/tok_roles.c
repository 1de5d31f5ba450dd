/* What tokens are for. Files name BOS, EOS and so on in their configuration; what they leave
 * open is taken from spellings that many models share. */
#include "text/tokenizer_priv.h"

typedef struct Spelling {
    TokRole role;
    const char *text;
} Spelling;

static const Spelling spellings[] = {
    {TOK_EOT, "<|eot_id|>"},
    {TOK_EOT, "<|im_end|>"},
    {TOK_EOT, "<|end|>"},
    {TOK_EOT, "<end_of_turn>"},
    {TOK_EOT, "<turn|>"},
    {TOK_EOT, "<|eot|>"},
    {TOK_EOT, "<|END_OF_TURN_TOKEN|>"},
    {TOK_EOT, "<|endofturn|>"},
    {TOK_EOT, "<|end_of_turn|>"},
    {TOK_EOT, "<EOT>"},
    {TOK_EOT, "_<EOT>"},
    {TOK_EOT, "<\xEF\xBD\x9C"
              "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"},
    {TOK_EOM, "<|eom_id|>"},
    {TOK_EOM, "<|call|>"},
    {TOK_FIM_PRE, "<|fim_prefix|>"},
    {TOK_FIM_PRE, "<fim-prefix>"},
    {TOK_FIM_PRE, "<fim_prefix>"},
    {TOK_FIM_PRE, "<PRE>"},
    {TOK_FIM_PRE, "\xE2\x96\x81<PRE>"},
    {TOK_FIM_PRE, "<|code_prefix|>"},
    {TOK_FIM_PRE, "[PREFIX]"},
    {TOK_FIM_PRE, "<\xEF\xBD\x9C"
                  "fim\xE2\x96\x81"
                  "begin\xEF\xBD\x9C>"},
    {TOK_FIM_SUF, "<|fim_suffix|>"},
    {TOK_FIM_SUF, "<fim-suffix>"},
    {TOK_FIM_SUF, "<fim_suffix>"},
    {TOK_FIM_SUF, "<SUF>"},
    {TOK_FIM_SUF, "\xE2\x96\x81<SUF>"},
    {TOK_FIM_SUF, "<|code_suffix|>"},
    {TOK_FIM_SUF, "[SUFFIX]"},
    {TOK_FIM_SUF, "<\xEF\xBD\x9C"
                  "fim\xE2\x96\x81hole\xEF\xBD\x9C>"},
    {TOK_FIM_MID, "<|fim_middle|>"},
    {TOK_FIM_MID, "<fim-middle>"},
    {TOK_FIM_MID, "<fim_middle>"},
    {TOK_FIM_MID, "<MID>"},
    {TOK_FIM_MID, "\xE2\x96\x81<MID>"},
    {TOK_FIM_MID, "<|code_middle|>"},
    {TOK_FIM_MID, "[MIDDLE]"},
    {TOK_FIM_MID, "<\xEF\xBD\x9C"
                  "fim\xE2\x96\x81"
                  "end\xEF\xBD\x9C>"},
    {TOK_FIM_PAD, "<|fim_pad|>"},
    {TOK_FIM_PAD, "<fim-pad>"},
    {TOK_FIM_PAD, "<fim_pad>"},
    {TOK_FIM_PAD, "<PAD>"},
    {TOK_FIM_REP, "<|fim_repo|>"},
    {TOK_FIM_REP, "<|repo_name|>"},
    {TOK_FIM_REP, "<fim-repo>"},
    {TOK_FIM_REP, "<REPO>"},
    {TOK_FIM_REP, "<reponame>"},
    {TOK_FIM_SEP, "<|file_sep|>"},
    {TOK_BOS, "<s>"},
    {TOK_BOS, "<bos>"},
    {TOK_BOS, "<|begin_of_text|>"},
    {TOK_BOS, "<|startoftext|>"},
    {TOK_BOS, "<BOS_TOKEN>"},
    {TOK_BOS, "<\xEF\xBD\x9C"
              "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"},
    {TOK_EOS, "</s>"},
    {TOK_EOS, "<eos>"},
    {TOK_EOS, "<|end_of_text|>"},
    {TOK_EOS, "<|endoftext|>"},
    {TOK_EOS, "<EOS_TOKEN>"},
    {TOK_EOS, "<\xEF\xBD\x9C"
              "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"},
    {TOK_UNK, "<unk>"},
    {TOK_UNK, "[UNK]"},
    {TOK_PAD, "<pad>"},
    {TOK_PAD, "[PAD]"},
    {TOK_PAD, "<|endoftext|>"},
    {TOK_CLS, "[CLS]"},
    {TOK_SEP, "[SEP]"},
    {TOK_MASK, "[MASK]"},
    {TOK_MASK, "<mask>"},
};

/* End a generation wherever they appear, besides EOS, EOT and EOM. */
static const char *const eog_spellings[] = {
    "<|eot_id|>",    "<|im_end|>",      "<|end|>",         "<|return|>",    "<|call|>",
    "<|flush|>",     "<end_of_turn>",   "<turn|>",         "<|endoftext|>", "<|eom_id|>",
    "<EOT>",         "_<EOT>",          "<|end_of_text|>", "<|eot|>",       "<|END_OF_TURN_TOKEN|>",
    "<|endofturn|>", "<|end_of_turn|>",
};

static bool find_added(const Tokenizer *t, const char *text, uint32_t *id) {
    uint64_t at;
    if (!map_get(&t->added.by_text, str_c(text), &at)) return false;
    *id = t->added.tokens[at].id;
    return true;
}

void tokenizer_find_roles(Tokenizer *t) {
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        uint32_t *role = &t->roles[spellings[i].role];
        if (*role == TOK_NONE) (void)find_added(t, spellings[i].text, role);
    }
}

static void add_eog(Tokenizer *t, uint32_t id) {
    if (id != TOK_NONE && !tokenizer_is_eog(t, id)) tokids_push(&t->eog, id);
}

void tokenizer_set_eog(Tokenizer *t) {
    add_eog(t, t->roles[TOK_EOS]);
    add_eog(t, t->roles[TOK_EOT]);
    add_eog(t, t->roles[TOK_EOM]);
    for (size_t i = 0; i < sizeof eog_spellings / sizeof *eog_spellings; i++) {
        uint32_t id;
        if (find_added(t, eog_spellings[i], &id)) add_eog(t, id);
    }
}
