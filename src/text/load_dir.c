/* What lies in a directory, or behind a file name. */
#include <string.h>

#include "base/os.h"
#include "ckpt/checkpoint.h"
#include "ckpt/gguf.h"
#include "text/tok_load.h"
#include "text/tokenizer_priv.h"

enum { MAX_CONFIG_BYTES = 16 << 20 };

static bool read_beside(const char *dir, const char *name, size_t max, Buf *out, bool *found,
                        Err *err) {
    Buf path = {.max = 4096};
    buf_put(&path, str_c(dir));
    buf_putc(&path, '/');
    buf_put(&path, str_c(name));
    const char *p = buf_cstr(&path);
    bool ok = buf_check(&path, "path", err);
    *found = ok && os_exists(p);
    if (*found) ok = os_read_file(p, max, out, err);
    buf_deinit(&path);
    return ok;
}

typedef bool LoadInto(Tokenizer *t, Str text, Err *err);

static bool load_with(LoadInto *load, Str text, Str config, Str specials, Tokenizer **out,
                      Err *err) {
    Tokenizer *t = tokenizer_new();
    if (!t) return err_nomem(err, "tokenizer");
    bool ok = load(t, text, err) && (config.n == 0 || tokconfig_apply(t, config, err)) &&
              (specials.n == 0 || tokconfig_apply_specials(t, specials, err)) &&
              tokenizer_finish(t, err);
    if (!ok) {
        tokenizer_free(t);
        return false;
    }
    *out = t;
    return true;
}

static bool load_plain_tiktoken(Tokenizer *t, Str text, Err *err) {
    return load_tiktoken_into(t, text, NULL, err);
}

typedef struct Candidate {
    const char *name;
    LoadInto *load;
} Candidate;

static const Candidate candidates[] = {
    {"tokenizer.json", load_json_into},
    {"tokenizer.model", load_spm_into},
    {"spiece.model", load_spm_into},
    {"sentencepiece.bpe.model", load_spm_into},
    {"tokenizer.jsonl", load_plamo_into},
    {"tiktoken.model", load_plain_tiktoken},
    {"tokenizer.tiktoken", load_plain_tiktoken},
    {"qwen.tiktoken", load_plain_tiktoken},
};

static bool is_tiktoken(Str text) { /* "IQ== 0": base64, blank, rank */
    Str line = text, first;
    if (!str_split(&line, '\n', &first)) return false;
    size_t blank = str_find_char(first, ' ', 0);
    uint64_t rank;
    return blank != STR_NPOS && blank < 64 &&
           str_to_u64(str_trim(str_from(first, blank + 1)), &rank);
}

bool tokenizer_load_dir(const char *dir, Tokenizer **out, Err *err) {
    Buf text = {.max = TOK_MAX_FILE_BYTES}, config = {.max = MAX_CONFIG_BYTES},
        specials = {.max = MAX_CONFIG_BYTES};
    bool found = false,
         ok = read_beside(dir, "tokenizer_config.json", MAX_CONFIG_BYTES, &config, &found, err) &&
              read_beside(dir, "special_tokens_map.json", MAX_CONFIG_BYTES, &specials, &found, err);
    found = false;
    for (size_t i = 0; ok && !found && i < sizeof candidates / sizeof *candidates; i++) {
        const Candidate *c = &candidates[i];
        ok = read_beside(dir, c->name, TOK_MAX_FILE_BYTES, &text, &found, err);
        if (!ok || !found) continue;
        LoadInto *load = c->load;
        if (load == load_spm_into && is_tiktoken(buf_str(&text)))
            load = load_plain_tiktoken; /* Llama 3's own file */
        ok = load_with(load, buf_str(&text), buf_str(&config), buf_str(&specials), out, err);
        if (!ok) (void)err_wrap(err, "%s/%s", dir, c->name);
    }
    if (ok && !found)
        ok = err_set(err, ERR_NOT_FOUND,
                     "%s has no tokenizer: tokenizer.json, tokenizer.model, tokenizer.jsonl or a "
                     ".tiktoken file is needed",
                     dir);
    buf_deinit(&text);
    buf_deinit(&config);
    buf_deinit(&specials);
    return ok;
}

static bool load_by_name(const char *path, Str text, const char *pattern, Tokenizer **out,
                         Err *err) {
    Str name = str_c(path);
    if (str_ends(name, STR(".tiktoken"))) return tokenizer_load_tiktoken(text, pattern, out, err);
    if (str_ends(name, STR(".jsonl"))) return tokenizer_load_plamo(text, out, err);
    if (str_ends(name, STR(".json"))) return tokenizer_load_json(text, out, err);
    if (!str_ends(name, STR(".model")))
        return err_set(err, ERR_INPUT,
                       "a tokenizer file ends in .json, .model, .jsonl, .tiktoken or .gguf");
    return is_tiktoken(text) ? tokenizer_load_tiktoken(text, pattern, out, err)
                             : tokenizer_load_spm(text, out, err);
}

bool tokenizer_load_file(const char *path, const char *pattern, Tokenizer **out, Err *err) {
    if (str_ends(str_c(path), STR(".gguf"))) {
        Gguf *g;
        if (!gguf_open(path, &g, err)) return false;
        bool ok = tokenizer_load_gguf(g, out, err);
        gguf_close(g);
        return ok || err_wrap(err, "%s", path);
    }
    Buf text = {.max = TOK_MAX_FILE_BYTES};
    bool ok = os_read_file(path, TOK_MAX_FILE_BYTES, &text, err);
    if (ok && !load_by_name(path, buf_str(&text), pattern, out, err))
        ok = err_wrap(err, "%s", path);
    buf_deinit(&text);
    return ok;
}

bool tokenizer_load_checkpoint(const Checkpoint *ck, Tokenizer **out, Err *err) {
    if (ck->kind == CKPT_GGUF) return tokenizer_load_gguf(ck->config.gguf, out, err);
    Buf dir = {.max = 4096};
    buf_put(&dir, ck->dir);
    const char *p = buf_cstr(&dir);
    bool ok = buf_check(&dir, "path", err) && tokenizer_load_dir(p, out, err);
    buf_deinit(&dir);
    return ok;
}
