#include "text/gguf_pre.h"

#define QUOTES "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define NOT_WORD "[^\\r\\n\\p{L}\\p{N}]?"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CL100K(digits)                                                                             \
    QUOTES "|" NOT_WORD "\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define CASED(quotes, digits)                                                                      \
    NOT_WORD UPPER "*" LOWER "+" quotes "|" NOT_WORD UPPER "+" LOWER "*" quotes "|" digits         \
                   "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
#define ASCII_PUNCT "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define CJK "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+"
#define CJK_WIDE "[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80\xEA\xB0\x80-\xED\x9F\xBF]+"
#define DEEPSEEK3                                                                                  \
    ASCII_PUNCT                                                                                    \
    "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES
#define BLOOM                                                                                      \
    " ?[^(\\s|[.,!?\xE2\x80\xA6\xE3\x80\x82\xEF\xBC\x8C\xE3\x80\x81\xE0\xA5\xA4\xDB\x94\xD8\x8C])" \
    "]+"
#define KIMI_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
/* Letters of scripts with upper and lower case, as DeepSeek's first vocabularies list them. */
#define CASED_LETTERS                                                                              \
    "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-"   \
    "\\x{293}\\x{295}-\\x{2AF}"                                                                    \
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}"  \
    "\\x{38E}-\\x{3A1}"                                                                            \
    "\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{"  \
    "13A0}-\\x{13F5}"                                                                              \
    "\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{"   \
    "1D77}\\x{1D79}-\\x{1D9A}"                                                                     \
    "\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{"   \
    "1F57}\\x{1F59}\\x{1F5B}"                                                                      \
    "\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{"    \
    "1FC4}\\x{1FC6}-\\x{1FCC}"                                                                     \
    "\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{"   \
    "1FFC}\\x{2102}\\x{2107}"                                                                      \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{"     \
    "212D}\\x{212F}-\\x{2134}"                                                                     \
    "\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{"     \
    "2C7B}\\x{2C7E}-\\x{2CE4}"                                                                     \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{"    \
    "A76F}\\x{A771}-\\x{A787}"                                                                     \
    "\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{"   \
    "FF3A}\\x{FF41}-\\x{FF5A}"                                                                     \
    "\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{"     \
    "10CC0}-\\x{10CF2}"                                                                            \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+"

static const GgufPre pres[] = {
    {.names = "default", {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names = "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     {CL100K("\\p{N}{1,3}")},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "dbrx smaug-bpe glm4 chatglm-bpe", {CL100K("\\p{N}{1,3}")}},
    {.names = "minicpm5", {CL100K("\\p{N}{1,3}")}, .ignore_merges = true},
    {.names = "deepseek-llm",
     {"[\\r\\n]", CASED_LETTERS,
      "\\s?[!-/"
      ":-~\xEF\xBC\x81-\xEF\xBC\x8F\xEF\xBC\x9A-\xEF\xBD\x9E\xE2\x80\x98-\xE2\x80\x9F\xE3\x80\x80-"
      "\xE3\x80\x82]+",
      "\\s+$", CJK_WIDE, "\\p{N}+"}},
    {.names = "deepseek-coder", {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK_WIDE, "\\p{N}"}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4", {"\\p{N}{1,3}", CJK, DEEPSEEK3}},
    {.names = "spark2_5",
     {"\\p{N}{1,3}", CJK,
      ASCII_PUNCT "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
                  "?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+",
      "\\p{N}"}},
    {.names = "youtu",
     {"[\xEA\xB0\x80-\xED\x9E\xA3\xE3\x84\xB1-\xE3\x86\x8E]+|["
      "\xEF\xBC\x81\xE2\x80\xA6\xE2\x80\x9C\xE2\x80\x9D\xE2\x80\x98"
      "\xE2\x80\x99\xE2\x80\x94\xEF\xBC\x9A\xEF\xBC\x9B\xEF\xBC\x8C\xE3\x80\x81-"
      "\xE3\x80\xBF\xEF\xB8\xB0-\xEF\xB9\x8F]+|"
      "[\xE3\x84\x85-\xE3\x84\xAF]+|" CJK,
      CASED(QUOTES "?", "\\p{N}")},
     .ignore_merges = true},
    {.names = "falcon", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = "starcoder refact smollm codeshell exaone minerva-7b mellum2", {"\\p{N}", GPT2}},
    {.names = "command-r", {"\\p{N}", GPT2}, .nfc = true},
    {.names = "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum "
              "modern-bert mpt olmo jais trillion "
              "granite-docling exaone4",
     {GPT2}},
    {.names = "jina-v1-en jina-v2-code roberta-bpe", {GPT2}, .add_bos = true, .add_sep = true},
    {.names = "qwen2 kormo f2llmv2 megrez", {CL100K("\\p{N}")}, .nfc = true},
    {.names = "deepseek-r1-qwen stablelm2 hunyuan solar-open grok-2", {CL100K("\\p{N}")}},
    {.names = "qwen35",
     {QUOTES "|" NOT_WORD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES},
     .nfc = true},
    {.names = "poro-chat bloom gpt3-finnish", {BLOOM}},
    {.names = "viking", {BLOOM, "\\p{N}"}},
    {.names = "tekken", {CASED("", "\\p{N}")}, .ignore_merges = true, .add_bos = true},
    {.names = "chameleon",
     {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
      "[\\p{P}!-/:-@\\[-`{-~]", GPT2},
     .add_bos = true},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2", {CASED(QUOTES "?", "\\p{N}{1,3}")}},
    {.names = "granite-embed-multi-97m",
     {CASED(QUOTES "?", "\\p{N}{1,3}")},
     .ignore_merges = true,
     .rare = true},
    {.names = "tiny_aya cohere2moe",
     {"\\d{1,3}(?=(?:\\d{3})*\\b)", CASED(QUOTES "?", "\\p{N}{1,3}")}},
    {.names = "kimi-k2",
     {"[\\p{Han}]+|" NOT_WORD KIMI_UPPER "*" KIMI_LOWER "+" QUOTES "?|" NOT_WORD KIMI_UPPER
      "+" KIMI_LOWER "*" QUOTES "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES},
     .ignore_merges = true},
    {.names = "superbpe", {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}},
    {.names = "bailingmoe bailingmoe2 llada-moe",
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
      "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {.names = "seed-coder",
     {QUOTES "|" NOT_WORD
             "\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {.names = "ufakzeka", {NOT_WORD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES}},
    {.names = "afmoe",
     {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?:\\P{N}|$))",
      "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-\\x{"
      "30FF}\\x{FF65}-\\x{FF9F}"
      "\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}\\x{E80}-\\x{EFF}\\x{1780}-\\x{17FF}\\x{1000}-\\x{109F}"
      "\\x{AA60}-\\x{AA7F}"
      "\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+",
      DEEPSEEK3}},
    {.names = "laguna", {"[^\\n]+|[\\n]+", CL100K("\\p{N}")}},
    {.names = "exaone-moe",
     {QUOTES "|" NOT_WORD "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| "
             "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {.names = "jais-2",
     {QUOTES "|" NOT_WORD "\\p{L}+|\\p{N}{1,3}| "
             "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|"
             "\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!"
             "\\S)|\\s{1,2}(?!\\S)|\\s{1}"}},
    {.names = "gemma4 granite-embed-multi-311m",
     .add_bos = true,
     .bos_always = true,
     .escape_blanks = true},
    {.names = "sarvam-moe", .escape_blanks = true},
};

static bool in_list(const char *names, Str name) {
    Str rest = str_c(names), part;
    while (str_split(&rest, ' ', &part))
        if (str_eq(part, name)) return true;
    return false;
}

const GgufPre *ggufpre_find(Str name) {
    if (name.n == 0) name = STR("default");
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
        if (in_list(pres[i].names, name)) return &pres[i];
    return NULL;
}

const GgufPre *ggufpre_list(size_t *n) {
    *n = sizeof pres / sizeof *pres;
    return pres;
}
