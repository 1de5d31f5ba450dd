#include "cli/flags.h"

#include <string.h>

#include "cli/fetch_model.h"
#include "cli/out.h"
#include "cli/progress.h"

#define GROUP(title, list)                                                                         \
    { title, list, sizeof list / sizeof *list }
#define ANY 0, 0, NULL, NULL
#define FROM(lo) lo, 1e18, NULL, NULL
#define PARAM(name) 0, 0, name, NULL
#define CHOICE(words) 0, 0, words, NULL

static const Opt MODEL[] = {
    {"-m --model", OPT_TEXT, "MODEL",
     "a directory with config.json, a .gguf file, or owner/name[:QUANT]", ANY},
    {"--models-dir", OPT_TEXT, "DIR", "names are looked up in this folder of models too", ANY},
};
const OptGroup FLAGS_MODEL = GROUP("Model", MODEL);

static const Opt RUNTIME[] = {
    {"-t --threads", OPT_INT, "N", "threads (default: one per core)", 1, 256, NULL, NULL},
    {"--backend", OPT_CHOICE, "NAME", "auto, cpu, or ref: slow and exact", 0, 0, FLAG_BACKENDS,
     "MLXCEL_DEVICE"},
    {"--isa", OPT_CHOICE, "LEVEL", "at most this instruction set: avx512, avx2, portable", 0, 0,
     FLAG_ISAS, "MLXCEL_CPU"},
    {"-c --ctx-size --max-kv-size", OPT_INT, "N", "tokens of the context (0: the model's own)", 0,
     1e9, NULL, NULL},
    {"--prefill-chunk-size -ub --ubatch-size", OPT_INT, "N",
     "tokens of a prompt per step (default 512)", 1, 65536, NULL, "MLXCEL_PREFILL_CHUNK"},
    {"-ctk --cache-type-k", OPT_CHOICE, "TYPE", "keys in f32, f16 (default), bf16, q8_0 or q4_0",
     CHOICE(FLAG_CACHE_TYPES)},
    {"-ctv --cache-type-v", OPT_CHOICE, "TYPE", "values likewise", CHOICE(FLAG_CACHE_TYPES)},
    {"--force --no-memory-check", OPT_FLAG, NULL,
     "load even if the memory plan says it will not fit", ANY},
};
const OptGroup FLAGS_RUNTIME = GROUP("Engine", RUNTIME);

static const Opt PROMPT[] = {
    {"-p --prompt", OPT_TEXT, "TEXT", "the prompt", ANY},
    {"-f --file", OPT_TEXT, "FILE", "the prompt from a file (- is standard input)", ANY},
    {"--ids", OPT_TEXT, "\"1 2 3\"", "exactly these token ids: no BOS, no template", ANY},
    {"--ids-file", OPT_TEXT, "FILE", "token ids from a file", ANY},
    {"-e --escapes", OPT_FLAG, NULL,
     "\\n \\t \\\\ \\\" \\xNN \\uNNNN in the prompt are what they stand for", ANY},
    {"--no-chat-template --raw-prompt", OPT_FLAG, NULL,
     "the prompt as it is, without the chat template", ANY},
    {"-sys --system --system-prompt", OPT_TEXT, "TEXT", "the system message", ANY},
    {"-sysf --system-prompt-file", OPT_TEXT, "FILE", "the system message from a file", ANY},
    {"--chat-template", OPT_TEXT, "TEXT", "a Jinja template, or the name of a built-in one", ANY},
    {"--chat-template-file", OPT_TEXT, "FILE", "a Jinja template from a file", ANY},
    {"--chat-template-kwargs", OPT_TEXT, "JSON", "variables for the template, an object", ANY},
    {"--jinja", OPT_FLAG, NULL, NULL, ANY},
};
const OptGroup FLAGS_PROMPT = GROUP("Prompt", PROMPT);

static const Opt MEDIA[] = {
    {"--input", OPT_TEXT, "NAME=FILE.npy",
     "a preprocessed image or sound, as pixel_values; also NAME=JSON (repeat)", ANY},
};
const OptGroup FLAGS_MEDIA = GROUP("Media", MEDIA);

static const Opt SAMPLING[] = {
    {"-s --seed", OPT_PARAM, "N", "of the random numbers (-1: a random one)", PARAM("seed")},
    {"--temp --temperature", OPT_PARAM, "X",
     "0 takes the most likely token (default 0, or the model's own)", PARAM("temperature")},
    {"--top-k", OPT_PARAM, "K", "keep the K most likely tokens (0: off)", PARAM("top_k")},
    {"--top-p", OPT_PARAM, "P", "keep the fewest tokens that reach this probability (1: off)",
     PARAM("top_p")},
    {"--min-p", OPT_PARAM, "P", "keep tokens this likely compared to the best (0: off)",
     PARAM("min_p")},
    {"--typical --typical-p", OPT_PARAM, "P", "locally typical sampling (1: off)",
     PARAM("typical_p")},
    {"--top-nsigma --top-n-sigma", OPT_PARAM, "N",
     "keep logits within N deviations of the best (0: off)", PARAM("top_n_sigma")},
    {"--min-keep", OPT_PARAM, "N", "tokens that every filter leaves", PARAM("min_keep")},
    {"--xtc-probability", OPT_PARAM, "P", "chance of excluding top choices (0: off)",
     PARAM("xtc_probability")},
    {"--xtc-threshold", OPT_PARAM, "P", "what counts as a top choice", PARAM("xtc_threshold")},
    {"--dynatemp-range", OPT_PARAM, "X", "temperature varies by up to this with the entropy",
     PARAM("dynatemp_range")},
    {"--dynatemp-exp", OPT_PARAM, "X", "how entropy maps to it", PARAM("dynatemp_exponent")},
    {"--repeat-penalty --repetition-penalty", OPT_PARAM, "X",
     "divides the logit of repeated tokens (1: off)", PARAM("repeat_penalty")},
    {"--repeat-last-n", OPT_PARAM, "N", "tokens the penalties look back over (-1: all)",
     PARAM("repeat_last_n")},
    {"--presence-penalty", OPT_PARAM, "X", "once per repeated token (0: off)",
     PARAM("presence_penalty")},
    {"--frequency-penalty", OPT_PARAM, "X", "per occurrence (0: off)", PARAM("frequency_penalty")},
    {"--dry-multiplier", OPT_PARAM, "X", "strength of the DRY penalty (0: off)",
     PARAM("dry_multiplier")},
    {"--dry-base", OPT_PARAM, "X", "growth of it per repeated token", PARAM("dry_base")},
    {"--dry-allowed-length", OPT_PARAM, "N", "repeated runs shorter than this are free",
     PARAM("dry_allowed_length")},
    {"--dry-penalty-last-n", OPT_PARAM, "N", "tokens DRY looks back over (-1: all)",
     PARAM("dry_penalty_last_n")},
    {"--dry-sequence-breaker", OPT_TEXT, "TEXT",
     "ends a repeated run (repeat the flag; none: no breakers)", ANY},
    {"--mirostat", OPT_PARAM, "0|1|2", "mirostat instead of the filters (0: off)",
     PARAM("mirostat")},
    {"--mirostat-ent --mirostat-tau", OPT_PARAM, "X", "its target surprise, in bits",
     PARAM("mirostat_tau")},
    {"--mirostat-lr --mirostat-eta", OPT_PARAM, "X", "its learning rate", PARAM("mirostat_eta")},
    {"--adaptive-target", OPT_PARAM, "P", "mean probability of chosen tokens to steer to",
     PARAM("adaptive_target")},
    {"--adaptive-decay", OPT_PARAM, "X", "how fast it forgets", PARAM("adaptive_decay")},
    {"--samplers", OPT_PARAM, "LIST",
     "the samplers in their order, separated by ';'; others are off", PARAM("samplers")},
    {"-l --logit-bias", OPT_TEXT, "ID+V",
     "adds V to the logit of token ID; also ID-V and ID:V (repeat)", ANY},
    {"--ignore-eos", OPT_SWITCH, NULL, "end tokens do not stop the answer", PARAM("ignore_eos")},
    {"-r --stop --reverse-prompt", OPT_TEXT, "TEXT", "ends the answer before this text (repeat)",
     ANY},
    {"--no-generation-config", OPT_FLAG, NULL,
     "do not start from the model's own sampling defaults", ANY},
};
const OptGroup FLAGS_SAMPLING = GROUP("Sampling", SAMPLING);

static const Opt GRAMMAR[] = {
    {"--grammar", OPT_TEXT, "GBNF", "the answer follows a grammar", ANY},
    {"--grammar-file", OPT_TEXT, "FILE", "the same from a file", ANY},
    {"-j --json-schema", OPT_TEXT, "SCHEMA", "the answer is JSON valid for a schema", ANY},
    {"-jf --json-schema-file", OPT_TEXT, "FILE", "the same from a file", ANY},
    {"--regex", OPT_TEXT, "R", "the whole answer matches a regular expression", ANY},
    {"--json-object", OPT_FLAG, NULL, "the answer is a JSON object", ANY},
};
const OptGroup FLAGS_GRAMMAR = GROUP("Constrained answers", GRAMMAR);

static const Opt DRAFT[] = {
    {"--prompt-lookup", OPT_FLAG, NULL,
     "draft from the prompt's own words; the answer stays the same", ANY},
    {"-md --draft-model --model-draft", OPT_TEXT, "MODEL",
     "draft with a smaller model; the answer stays the same", ANY},
    {"--num-draft-tokens --draft-max --draft", OPT_INT, "N", "tokens drafted at once", 0, 1024,
     NULL, NULL},
};
const OptGroup FLAGS_DRAFT = GROUP("Drafting", DRAFT);

static const Opt OUTPUT[] = {
    {"-n --n-predict --max-tokens --predict", OPT_INT, "N",
     "at most N tokens (-1: until the end, the default)", -1, 1e9, NULL, NULL},
    {"--json", OPT_FLAG, NULL, "one JSON object at the end instead of the text", ANY},
    {"--logprobs", OPT_INT, "K", "with --json: log probabilities, and the K best of every token", 0,
     1024, NULL, NULL},
    {"--show-reasoning", OPT_FLAG, NULL, "show the model's thinking too", ANY},
    {"--stats --show-timings", OPT_FLAG, NULL, "a last line with speeds on stderr", ANY},
    {"--profile --profile-ops", OPT_FLAG, NULL, "where the time went, on stderr", ANY},
};
const OptGroup FLAGS_OUTPUT = GROUP("Answer", OUTPUT);

static const Opt COMPAT[] = {
    {"-ngl --n-gpu-layers --gpu-layers", OPT_TEXT, "N", NULL, ANY},
    {"-fa --flash-attn", OPT_TEXT, "on|off|auto", NULL, ANY},
    {"-tb --threads-batch", OPT_INT, "N", NULL, 1, 256, NULL, NULL},
    {"-mg --main-gpu", OPT_INT, "N", NULL, ANY},
    {"--mmap", OPT_FLAG, NULL, NULL, ANY},
    {"--mlock", OPT_FLAG, NULL, NULL, ANY},
    {"--simple-io", OPT_FLAG, NULL, NULL, ANY},
    {"--display-prompt", OPT_FLAG, NULL, NULL, ANY},
    {"--perf", OPT_FLAG, NULL, NULL, ANY},
    {"--trust-remote-code", OPT_FLAG, NULL, NULL, ANY},
};
const OptGroup FLAGS_COMPAT = GROUP(NULL, COMPAT);

void flags_warn_compat(const Args *a) {
    const char *layers = args_text(a, "n-gpu-layers");
    if (layers && strcmp(layers, "0") != 0 && strcmp(layers, "auto") != 0)
        cli_warn("--n-gpu-layers: this build has no GPU backend; all layers run on the processor");
    if (args_flag(a, "mlock")) cli_warn("--mlock: weights are not locked in memory");
    if (args_flag(a, "trust-remote-code"))
        cli_warn("--trust-remote-code: no code of a model is ever run");
}

static const Opt GENERAL[] = {
    {"-v --verbose", OPT_FLAG, NULL, "notes on stderr", ANY},
    {"-h --help", OPT_FLAG, NULL, "this help", ANY},
};
const OptGroup FLAGS_GENERAL = GROUP("General", GENERAL);

mlxcel_model_options flags_model_options(const Args *a) {
    mlxcel_model_options o = mlxcel_model_options_default();
    if (args_text(a, "backend")) o.backend = args_text(a, "backend");
    o.isa = args_text(a, "isa");
    o.threads = (int)args_int(a, "threads", 0);
    if (!args_flag(a, "json")) o.progress = progress_of_loading;
    progress_begin(progress_delay());
    return o;
}

mlxcel_engine_options flags_engine_options(const Args *a) {
    mlxcel_engine_options o = mlxcel_engine_options_default();
    o.n_ctx = (uint64_t)args_int(a, "ctx-size", 0);
    o.prefill_chunk = (uint32_t)args_int(a, "prefill-chunk-size", o.prefill_chunk);
    o.force = args_flag(a, "force");
    if (args_text(a, "cache-type-k")) o.cache_type_k = args_text(a, "cache-type-k");
    if (args_text(a, "cache-type-v")) o.cache_type_v = args_text(a, "cache-type-v");
    return o;
}

const char *flags_model(const Args *a) {
    const char *m = args_text(a, "model");
    if (args_given(a, "model") && a->n_rest) {
        cli_usage("unexpected argument \"%s\": -m names the model", a->rest[0]);
        return NULL;
    }
    if (a->n_rest) m = a->rest[0];
    if (!m && strcmp(a->command->name, "run") == 0) m = fetch_default_model();
    if (!m) cli_usage("no model given: mlxcel %s -m MODEL ...", a->command->name);
    return m;
}

bool flags_template(const char *path, Buf *text, Err *err) {
    enum { TEMPLATE_MAX = 64 << 20 };
    Buf file = {0};
    bool ok = file_read(path, TEMPLATE_MAX, &file, err);
    size_t nul = ok ? str_find_char(buf_str(&file), 0, 0) : STR_NPOS;
    if (nul != STR_NPOS)
        ok = err_set(err, ERR_INPUT, "%s: byte %zu is NUL; a template is text", path, nul);
    if (ok && str_find_char(buf_str(&file), '{', 0) == STR_NPOS)
        buf_put(text, STR("{{ '' }}")); /* it could be a name */
    if (ok) buf_put(text, buf_str(&file));
    buf_deinit(&file);
    return ok && buf_check(text, "the template", err);
}

static bool is_separator(char c) { return c && strchr(" \t\r\n,[]", c); }

bool flags_ids(Str text, uint32_t **ids, size_t *n, Arena *a, Err *err) {
    size_t max = text.n / 2 + 1;
    *n = 0;
    *ids = arena_array(a, uint32_t, max);
    if (!*ids) return err_nomem(err, "token ids");
    for (size_t i = 0; i < text.n;) {
        if (is_separator(text.p[i])) {
            i++;
            continue;
        }
        size_t from = i;
        while (i < text.n && !is_separator(text.p[i])) i++;
        uint64_t id;
        Str word = str_slice(text, from, i);
        if (!str_to_u64(word, &id) || id >= UINT32_MAX)
            return err_set(err, ERR_INPUT,
                           "token id \"" STR_F "\"; whole numbers are accepted, as in \"1 2 3\"",
                           STR_A(word));
        (*ids)[(*n)++] = (uint32_t)id;
    }
    return *n > 0 || err_set(err, ERR_INPUT, "no token ids are given; \"1 2 3\" is accepted");
}
