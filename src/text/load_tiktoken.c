/* *.tiktoken: one token a line, its bytes in base64 and its rank, which is its id. Any two
 * neighbours whose concatenation is a token may merge, lowest rank first. */
#include <string.h>

#include "text/base64.h"
#include "text/tok_load.h"
#include "text/tokenizer_priv.h"

#define QUOTES "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define KIMI_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define NOT_WORD "[^\\r\\n\\p{L}\\p{N}]?"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char *const known[][2] = {
    {"gpt2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {"cl100k", "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| "
               "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|"
               "\\s+(?!\\S)|\\s"},
    {"o200k", NOT_WORD UPPER "*" LOWER "+" QUOTES "|" NOT_WORD UPPER "+" LOWER "*" QUOTES
                             "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES},
    {"kimi", "[\\p{Han}]+|" NOT_WORD KIMI_UPPER "*" KIMI_LOWER "+" QUOTES "|" NOT_WORD KIMI_UPPER
             "+" KIMI_LOWER "*" QUOTES "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES},
};

static const char *pattern_of(const char *name, size_t n_tokens) {
    if (!name)
        name = n_tokens < 60000    ? "gpt2"
               : n_tokens < 160000 ? "cl100k"
                                   : "o200k"; /* sizes of the published vocabularies */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_eqc(str_c(name), known[i][0])) return known[i][1];
    return name;
}

static bool add_line(Tokenizer *t, Str line, size_t n_line, Buf *bytes, Err *err) {
    size_t blank = str_find_char(line, ' ', 0), n;
    uint64_t rank;
    if (blank == STR_NPOS || !str_to_u64(str_from(line, blank + 1), &rank) || rank >= TOK_NONE)
        return err_set(err, ERR_INPUT,
                       "line %zu of the tiktoken file must be base64, a blank and a rank", n_line);
    buf_clear(bytes);
    if (!buf_reserve(bytes, blank + 4)) return err_nomem(err, "vocabulary");
    if (!base64_decode(str_slice(line, 0, blank), bytes->p,
                       &n)) /* an empty token is in the published files */
        return err_set(err, ERR_INPUT, "line %zu of the tiktoken file: \"" STR_F "\" is not base64",
                       n_line, STR_A(str_slice(line, 0, blank)));
    return vocab_add(&t->vocab, (Str){bytes->p, n}, (uint32_t)rank) || err_nomem(err, "vocabulary");
}

enum {
    MAX_MERGED = 256
}; /* bytes; longer tokens are found whole only, their halves would cost time squared */

static bool build_merges(Tokenizer *t, Err *err) {
    for (size_t i = 0; i < t->vocab.n; i++) {
        VocabEntry e = t->vocab.entries[i];
        Str s = vocab_entry_text(&t->vocab, &e);
        for (size_t k = 1; k < s.n && s.n <= MAX_MERGED; k++) {
            uint32_t l = vocab_find(&t->vocab, str_slice(s, 0, k));
            uint32_t r = l == TOK_NONE ? TOK_NONE : vocab_find(&t->vocab, str_from(s, k));
            if (r != TOK_NONE && !bpe_add_merge(&t->bpe, l, r, e.id, e.id))
                return err_nomem(err, "merges");
        }
    }
    return true;
}

bool load_tiktoken_into(Tokenizer *t, Str text, const char *pattern, Err *err) {
    Buf bytes = {0};
    Str line;
    bool ok = true;
    for (size_t n = 1; ok && str_split(&text, '\n', &line); n++) {
        line = str_trim(line);
        if (line.n) ok = add_line(t, line, n, &bytes, err);
    }
    buf_deinit(&bytes);
    if (ok && t->vocab.n == 0) return err_set(err, ERR_INPUT, "tiktoken file has no tokens");
    t->kind = MODEL_BPE;
    t->bpe.raw = true;
    return ok && build_merges(t, err) &&
           pretok_push_regex(&t->pretok, str_c(pattern_of(pattern, t->vocab.n)), SPLIT_ISOLATED,
                             false, err) &&
           decoder_push(&t->dec, (DecStep){.kind = DEC_BYTES}, err);
}

bool tokenizer_load_tiktoken(Str text, const char *pattern, Tokenizer **out, Err *err) {
    Tokenizer *t = tokenizer_new();
    if (!t) return err_nomem(err, "tokenizer");
    if (!load_tiktoken_into(t, text, pattern, err) || !tokenizer_finish(t, err)) {
        tokenizer_free(t);
        return false;
    }
    *out = t;
    return true;
}
