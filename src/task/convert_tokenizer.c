/* What lies beside the weights of a model that came as a GGUF: tokenizer.json and
 * tokenizer_config.json (its special tokens and chat templates), generation_config.json. */
#include "base/os.h"
#include "ckpt/gguf.h"
#include "task/convert_plan.h"
#include "text/tokenizer.h"
#include "text/vocab_json.h"

static bool write_file(const OutDir *d, const char *name, const Buf *text, Err *err) {
    Buf path = {0};
    buf_putf(&path, "%s/%s", d->temporary, name);
    bool ok = buf_check(text, name, err) && os_write_file(buf_cstr(&path), buf_str(text), err);
    buf_deinit(&path);
    return ok;
}

static void put_token(JsonWriter *w, const Tokenizer *t, const char *key, TokRole role) {
    Str text = tokenizer_role_text(t, role);
    if (!text.n) return;
    json_w_key(w, str_c(key));
    json_w_str(w, text);
}

/* One template is a text; with named ones beside it they are a list. */
static void put_templates(JsonWriter *w, const Gguf *g) {
    static const Str PREFIX = {"tokenizer.chat_template.", 24};
    Str main = STR_NONE, text;
    bool named = false;
    (void)gguf_str(gguf_get(g, "tokenizer.chat_template"), &main);
    for (size_t i = 0; i < g->n_keys; i++)
        named = named || (str_starts(g->keys[i].key, PREFIX) && gguf_str(&g->keys[i], &text));
    if (!main.n && !named) return;
    json_w_key(w, STR("chat_template"));
    if (!named) {
        json_w_str(w, main);
        return;
    }
    json_w_array(w);
    for (size_t i = 0; i < g->n_keys; i++) {
        Str key = g->keys[i].key;
        bool is_main = str_eqc(key, "tokenizer.chat_template");
        if ((!is_main && !str_starts(key, PREFIX)) || !gguf_str(&g->keys[i], &text)) continue;
        json_w_object(w);
        json_w_key(w, STR("name"));
        json_w_str(w, is_main ? STR("default") : str_from(key, PREFIX.n));
        json_w_key(w, STR("template"));
        json_w_str(w, text);
        json_w_end(w);
    }
    json_w_end(w);
}

static bool write_tokenizer_config(const ConvertPlan *p, const Tokenizer *t, const OutDir *d,
                                   Err *err) {
    Buf text = {0};
    JsonWriter w = {.out = &text, .indent = 2};
    json_w_object(&w);
    json_w_key(&w, STR("add_bos_token"));
    json_w_bool(&w, tokenizer_adds_bos(t));
    put_token(&w, t, "bos_token", TOK_BOS);
    put_token(&w, t, "eos_token", TOK_EOS);
    put_token(&w, t, "unk_token", TOK_UNK);
    put_token(&w, t, "pad_token", TOK_PAD);
    json_w_key(&w, STR("clean_up_tokenization_spaces"));
    json_w_bool(&w, false);
    json_w_key(&w, STR("model_max_length"));
    json_w_u64(&w, p->arch.resolved->max_positions);
    json_w_key(&w, STR("tokenizer_class"));
    json_w_str(&w, STR("PreTrainedTokenizerFast"));
    put_templates(&w, p->ck->config.gguf);
    json_w_end(&w);
    buf_putc(&text, '\n');
    bool ok = write_file(d, "tokenizer_config.json", &text, err);
    buf_deinit(&text);
    return ok;
}

static bool write_generation(const ConvertPlan *p, const Tokenizer *t, const OutDir *d, Err *err) {
    static const char *const KEYS[] = {"temperature", "top_k", "top_p", "min_p",
                                       "repetition_penalty"};
    Buf text = {0};
    JsonWriter w = {.out = &text, .indent = 2};
    bool sampled = false;
    json_w_object(&w);
    convert_token_ids(p, t, &w);
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        double v;
        Err ignored = {0};
        if (!config_has(&p->ck->config, KEYS[i]) ||
            !config_float(&p->ck->config, KEYS[i], 0, -1e9, 1e9, &v, &ignored))
            continue;
        json_w_key(&w, str_c(KEYS[i]));
        json_w_f32(&w, (float)v);
        sampled = true;
    }
    if (sampled) {
        json_w_key(&w, STR("do_sample"));
        json_w_bool(&w, true);
    }
    json_w_end(&w);
    buf_putc(&text, '\n');
    bool ok = write_file(d, "generation_config.json", &text, err);
    buf_deinit(&text);
    return ok;
}

/* How an encoder's rows become one, in the files that sentence-transformers reads. */
static bool write_pooling(const ConvertPlan *p, const OutDir *d, Err *err) {
    static const char *const MODES[] = {NULL, "pooling_mode_mean_tokens", "pooling_mode_cls_token",
                                        "pooling_mode_lasttoken"};
    static const char MODULES[] = "[{\"idx\": 0, \"name\": \"0\", \"path\": \"\", "
                                  "\"type\": \"sentence_transformers.models.Transformer\"},\n"
                                  " {\"idx\": 1, \"name\": \"1\", \"path\": \"1_Pooling\", "
                                  "\"type\": \"sentence_transformers.models.Pooling\"},\n"
                                  " {\"idx\": 2, \"name\": \"2\", \"path\": \"2_Normalize\", "
                                  "\"type\": \"sentence_transformers.models.Normalize\"}]\n";
    int64_t type;
    if (!config_int(&p->ck->config, "pooling_type", 0, 0, 4, &type, err)) return false;
    if (type < 1 || type > 3) return true;
    Buf text = {0}, modules = {0}, path = {0};
    JsonWriter w = {.out = &text, .indent = 2};
    json_w_object(&w);
    json_w_key(&w, STR("word_embedding_dimension"));
    json_w_u64(&w, p->arch.hidden);
    for (int i = 1; i < 4; i++) {
        json_w_key(&w, str_c(MODES[i]));
        json_w_bool(&w, i == type);
    }
    json_w_end(&w);
    buf_putc(&text, '\n');
    buf_put(&modules, str_c(MODULES));
    buf_putf(&path, "%s/1_Pooling", d->temporary);
    bool ok = buf_check(&path, "a path", err) && os_make_dirs(buf_cstr(&path), err) &&
              write_file(d, "1_Pooling/config.json", &text, err) &&
              write_file(d, "modules.json", &modules, err);
    buf_deinit(&text);
    buf_deinit(&modules);
    buf_deinit(&path);
    return ok;
}

bool convert_tokenizer(const ConvertPlan *p, const Tokenizer *t, const OutDir *d, Err *err) {
    Buf text = {0};
    if (!(p->arch.both_ways ? write_pooling(p, d, err) : write_generation(p, t, d, err)))
        return false;
    if (!t) return true; /* a file without a tokenizer gives a checkpoint without one */
    bool ok = vocab_to_json(p->ck->config.gguf, t, &text, err) &&
              write_file(d, "tokenizer.json", &text, err) && write_tokenizer_config(p, t, d, err);
    buf_deinit(&text);
    return ok;
}
