/* mlxcel: the command line. One row per command; the work is in cmd_*.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/out.h"
#include "cli/term.h"

#define GROUP(title, list)                                                                         \
    { title, list, sizeof list / sizeof *list }
#define ANY 0, 0, NULL, NULL

static const Opt SCORE[] = {
    {"-p --prompt", OPT_TEXT, "TEXT", "the text", ANY},
    {"-f --file", OPT_TEXT, "FILE", "the text from a file (- is standard input)", ANY},
    {"--ids", OPT_TEXT, "\"1 2 3\"", "exactly these token ids", ANY},
    {"--ids-file", OPT_TEXT, "FILE", "token ids from a file", ANY},
    {"-e --escapes", OPT_FLAG, NULL, "\\n and the like in -p are what they stand for", ANY},
    {"--logits", OPT_TEXT, "OUT.npy",
     "write the logits after each position: float32 [tokens, vocabulary]", ANY},
    {"--kl-base", OPT_TEXT, "BASE.npy", "compare with the logits of another run", ANY},
    {"--output", OPT_TEXT, "NAME=FILE.npy",
     "write what the model made of its media, as image_embeds (repeat)", ANY},
    {"--json", OPT_FLAG, NULL, "one JSON object", ANY},
};
static const OptGroup SCORE_FLAGS = GROUP("Score", SCORE);

static const Opt LINES[] = {
    {"--jsonl", OPT_FLAG, NULL, "a line of JSON in, a line out; a bad line gives {\"error\": ...}",
     ANY},
    {"-p --prompt", OPT_TEXT, "TEXT", "the one input (without --jsonl; else standard input)", ANY},
    {"-f --file", OPT_TEXT, "FILE", "the same from a file", ANY},
};
static const OptGroup LINE_FLAGS = GROUP("Input", LINES);

static const Opt TOKENIZER[] = {
    {"-m --model", OPT_TEXT, "MODEL", "the tokenizer of a model", ANY},
    {"--tokenizer", OPT_TEXT, "FILE", "tokenizer.json, tokenizer.model, *.tiktoken or a GGUF", ANY},
    {"--pattern", OPT_TEXT, "P",
     "for a .tiktoken file: gpt2, cl100k, o200k, kimi or a regular expression", ANY},
    {"--pieces", OPT_FLAG, NULL, "detokenize: what a stream shows after each id", ANY},
};
static const OptGroup TOKENIZER_FLAGS = GROUP("Tokenizer", TOKENIZER);

static const Opt TEMPLATE[] = {
    {"-m --model", OPT_TEXT, "MODEL", "the template of a model", ANY},
    {"--template-file --chat-template-file", OPT_TEXT, "FILE", "a Jinja template", ANY},
    {"--chat-template", OPT_TEXT, "TEXT", "Jinja text, or the name of a built-in template", ANY},
    {"--now", OPT_TEXT, "TIME", "what the clock says, as 2026-01-02T03:04:05", ANY},
    {"--raw", OPT_FLAG, NULL, "exactly the given context, no variables added", ANY},
};
static const OptGroup TEMPLATE_FLAGS = GROUP("Template", TEMPLATE);

static const Opt PARSE[] = {
    {"--format", OPT_TEXT, "NAME", "hermes, llama3_json, harmony, ... (a wrong name lists all)",
     ANY},
    {"--reasoning", OPT_TEXT, "NAME", "how thinking is marked (default: as the format has it)",
     ANY},
    {"--split", OPT_INT, "N", "feed the text in pieces of N bytes; the answer stays the same", 0,
     1e9, NULL, NULL},
};
static const OptGroup PARSE_FLAGS = GROUP("Reply", PARSE);

static const Opt GRAMMAR[] = {
    {"--gbnf", OPT_TEXT, "FILE", "a GBNF grammar", ANY},
    {"--json-schema", OPT_TEXT, "FILE", "a JSON Schema", ANY},
    {"--regex", OPT_TEXT, "R", "a regular expression for the whole text", ANY},
};
static const OptGroup GRAMMAR_FLAGS = GROUP("Grammar", GRAMMAR);

static const Opt INSPECT[] = {
    {"--file", OPT_TEXT, "FILE", "one .safetensors, .gguf or .json file alone", ANY},
    {"--tensor", OPT_TEXT, "NAME", "one tensor, decoded to float32, into --npy", ANY},
    {"--npy", OPT_TEXT, "OUT", "where --tensor goes", ANY},
    {"--tensors", OPT_FLAG, NULL, "list all tensors", ANY},
    {"--program", OPT_FLAG, NULL, "the forward pass, operation by operation", ANY},
    {"-np --parallel --batch", OPT_INT, "N", "sequences at once, for the memory plan", 1, 256, NULL,
     NULL},
    {"--max-tokens", OPT_INT, "N", "the same as --ctx-size", 0, 1e9, NULL, NULL},
    {"--json", OPT_FLAG, NULL, "one JSON object", ANY},
};
static const OptGroup INSPECT_FLAGS = GROUP("Inspect", INSPECT);

static const Opt BENCH[] = {
    {"-p --n-prompt", OPT_TEXT, "LIST", "prompts of so many tokens (default 512; 0: none)", ANY},
    {"-n --n-gen", OPT_TEXT, "LIST", "answers of so many tokens (default 128; 0: none)", ANY},
    {"-d --n-depth", OPT_TEXT, "LIST", "with so many tokens in the cache before (default 0)", ANY},
    {"-B --n-batch --parallel", OPT_TEXT, "LIST", "so many sequences at once (default 1)", ANY},
    {"-pg --n-prompt-gen", OPT_TEXT, "P,N", "a prompt and an answer together (repeat)", ANY},
    {"-t --threads", OPT_TEXT, "LIST", "threads (default: one per core)", ANY},
    {"-r --repetitions", OPT_INT, "N", "of every test (default 5)", 1, 1000, NULL, NULL},
    {"-b --batch-size -ub --ubatch-size --prefill-chunk-size", OPT_INT, "N",
     "tokens of a prompt per step (default 512)", 1, 65536, NULL, "MLXCEL_PREFILL_CHUNK"},
    {"-o --output", OPT_TEXT, "FORMAT", "md, csv, json or jsonl, as llama-bench prints them", ANY},
    {"--json", OPT_FLAG, NULL, "rows and the machine's measured ceilings", ANY},
    {"--no-warmup", OPT_FLAG, NULL, "do not run every test once before", ANY},
    {"--no-ceilings", OPT_FLAG, NULL, "do not measure the machine", ANY},
    {"--backend", OPT_CHOICE, "NAME", "auto, cpu, or ref", 0, 0, FLAG_BACKENDS, "MLXCEL_DEVICE"},
    {"--isa", OPT_CHOICE, "LEVEL", "at most this instruction set", 0, 0, FLAG_ISAS, "MLXCEL_CPU"},
    {"-ctk --cache-type-k", OPT_CHOICE, "TYPE", "keys in f32, f16 (default), bf16, q8_0 or q4_0", 0,
     0, FLAG_CACHE_TYPES, NULL},
    {"-ctv --cache-type-v", OPT_CHOICE, "TYPE", "values likewise", 0, 0, FLAG_CACHE_TYPES, NULL},
};
static const OptGroup BENCH_FLAGS = GROUP("Bench", BENCH);

static const Opt QUANTIZE[] = {
    {"-o --output", OPT_TEXT, "OUT", "a directory, or with --gguf a file", ANY},
    {"--bits --q-bits", OPT_INT, "N", "affine: 1, 2, 3, 4, 5, 6 or 8 (default 4)", 1, 8, NULL,
     NULL},
    {"--group-size --q-group-size", OPT_INT, "N", "affine: 32, 64 or 128 (default 64)", 1, 1024,
     NULL, NULL},
    {"--mode --q-mode", OPT_CHOICE, "MODE", "affine (default), mxfp4, mxfp8 or nvfp4", 0, 0,
     "affine mxfp4 mxfp8 nvfp4", NULL},
    {"--predicate --quant-predicate", OPT_CHOICE, "P",
     "more bits where they tell: mixed_2_6, mixed_3_4, mixed_3_6 or mixed_4_6", 0, 0,
     "mixed_2_6 mixed_3_4 mixed_3_6 mixed_4_6", NULL},
    {"--gguf", OPT_TEXT, "TYPE",
     "a GGUF file: Q4_0, Q8_0, Q4_K_M, F16, ... (a wrong type lists all)", ANY},
    {"--dequantize", OPT_FLAG, NULL, "floats, of whatever the input is", ANY},
    {"--dtype", OPT_CHOICE, "T",
     "of floats that stay: float16, bfloat16, float32 (default: theirs)", 0, 0,
     "float16 bfloat16 float32", NULL},
    {"--force", OPT_FLAG, NULL, "write over what is there", ANY},
    {"-t --threads", OPT_INT, "N", "threads (default: one per core)", 1, 256, NULL, NULL},
    {"--json", OPT_FLAG, NULL, "the result as one JSON object", ANY},
};
static const OptGroup QUANTIZE_FLAGS = GROUP("Quantize", QUANTIZE);

static const Opt ARCH[] = {{"--json", OPT_FLAG, NULL, "an array of objects", ANY}};
static const OptGroup ARCH_FLAGS = GROUP("Families", ARCH);

static const Opt EMBED[] = {
    {"-p --prompt", OPT_TEXT, "TEXT", "a text (repeat)", ANY},
    {"--ids", OPT_TEXT, "\"1 2 3\"", "exactly these token ids", ANY},
    {"--token-types", OPT_TEXT, "\"0 0 1\"", "their segments", ANY},
    {"--pooling", OPT_TEXT, "P", "mean, cls or last (default: the model's own)", 0, 0, NULL,
     "MLXCEL_EMBEDDING_POOLING"},
    {"--no-normalize", OPT_FLAG, NULL, "vectors as they are, not of length 1", ANY},
    {"--json", OPT_FLAG, NULL, "one JSON object", ANY},
};
static const OptGroup EMBED_FLAGS = GROUP("Embed", EMBED);

static const Opt RERANK[] = {
    {"-q --query", OPT_TEXT, "TEXT", "the question", ANY},
    {"-d --document", OPT_TEXT, "TEXT", "a document (repeat)", ANY},
    {"--ids", OPT_TEXT, "\"1 2 3\"", "one pair, already encoded", ANY},
    {"--token-types", OPT_TEXT, "\"0 0 1\"", "its segments", ANY},
    {"--json", OPT_FLAG, NULL, "one JSON object", ANY},
};
static const OptGroup RERANK_FLAGS = GROUP("Rerank", RERANK);

static const Opt DOWNLOAD[] = {
    {"--revision", OPT_TEXT, "REV", "a branch, tag or commit (default: main)", ANY},
    {"--local-dir", OPT_TEXT, "DIR", "plain files there, not in the Hugging Face cache", ANY},
    {"--models-dir", OPT_TEXT, "DIR", "plain files in OWNER/NAME there (the flag only)", ANY},
    {"--include", OPT_TEXT, "GLOB", "these files instead of the usual ones (repeat)", ANY},
    {"--exclude", OPT_TEXT, "GLOB", "not these files (repeat)", ANY},
    {"--connections", OPT_INT, "N", "at once (default 8)", 1, 32, NULL, NULL},
    {"--retries", OPT_INT, "N", "of what brings nothing (default 5)", 0, 100, NULL, NULL},
    {"--dry-run", OPT_FLAG, NULL, "only say what it takes", ANY},
    {"--json", OPT_FLAG, NULL, "one JSON object with the files", ANY},
};
static const OptGroup DOWNLOAD_FLAGS = GROUP("Download", DOWNLOAD);

static const Opt LIST[] = {
    {"--sort", OPT_CHOICE, "BY", "name (default), size or time", 0, 0, "name size time", NULL},
    {"--models-dir", OPT_TEXT, "DIR", "a folder of models beside the stores", ANY},
    {"-q --quiet", OPT_FLAG, NULL, "names only", ANY},
    {"--json", OPT_FLAG, NULL, "an array of objects", ANY},
};
static const OptGroup LIST_FLAGS = GROUP("List", LIST);

static const Opt RM[] = {
    {"-y --yes", OPT_FLAG, NULL, "do not ask", ANY},
    {"--dry-run", OPT_FLAG, NULL, "only say what would be deleted", ANY},
};
static const OptGroup RM_FLAGS = GROUP("Rm", RM);

static const OptGroup *const DOWNLOAD_GROUPS[] = {&DOWNLOAD_FLAGS, &FLAGS_GENERAL, NULL};
static const OptGroup *const LIST_GROUPS[] = {&LIST_FLAGS, &FLAGS_GENERAL, NULL};
static const OptGroup *const ENV_GROUPS[] = {&FLAGS_GENERAL, NULL};
static const OptGroup *const RM_GROUPS[] = {&RM_FLAGS, &FLAGS_GENERAL, NULL};
static const OptGroup *const GENERATE_GROUPS[] = {
    &FLAGS_MODEL,    &FLAGS_PROMPT,  &FLAGS_MEDIA, &FLAGS_OUTPUT,
    &FLAGS_SAMPLING, &FLAGS_GRAMMAR, &FLAGS_DRAFT, &FLAGS_RUNTIME,
    &FLAGS_COMPAT,   &FLAGS_GENERAL, NULL};
static const OptGroup *const SCORE_GROUPS[] = {
    &FLAGS_MODEL, &SCORE_FLAGS, &FLAGS_MEDIA, &FLAGS_RUNTIME, &FLAGS_COMPAT, &FLAGS_GENERAL, NULL};
static const OptGroup *const TOKENIZE_GROUPS[] = {&TOKENIZER_FLAGS, &LINE_FLAGS, &FLAGS_GENERAL,
                                                  NULL};
static const OptGroup *const TEMPLATE_GROUPS[] = {&TEMPLATE_FLAGS, &LINE_FLAGS, &FLAGS_GENERAL,
                                                  NULL};
static const OptGroup *const PARSE_GROUPS[] = {&PARSE_FLAGS, &LINE_FLAGS, &FLAGS_GENERAL, NULL};
static const OptGroup *const GRAMMAR_GROUPS[] = {&GRAMMAR_FLAGS, &LINE_FLAGS, &FLAGS_GENERAL, NULL};
static const OptGroup *const INSPECT_GROUPS[] = {&FLAGS_MODEL,  &INSPECT_FLAGS, &FLAGS_RUNTIME,
                                                 &FLAGS_COMPAT, &FLAGS_GENERAL, NULL};
static const OptGroup *const BENCH_GROUPS[] = {&FLAGS_MODEL, &BENCH_FLAGS, &FLAGS_COMPAT,
                                               &FLAGS_GENERAL, NULL};
static const OptGroup *const QUANTIZE_GROUPS[] = {&FLAGS_MODEL, &QUANTIZE_FLAGS, &FLAGS_GENERAL,
                                                  NULL};
static const OptGroup *const ARCH_GROUPS[] = {&ARCH_FLAGS, &FLAGS_GENERAL, NULL};
static const OptGroup *const EMBED_GROUPS[] = {&FLAGS_MODEL,  &EMBED_FLAGS,   &FLAGS_RUNTIME,
                                               &FLAGS_COMPAT, &FLAGS_GENERAL, NULL};
static const OptGroup *const RERANK_GROUPS[] = {&FLAGS_MODEL,  &RERANK_FLAGS,  &FLAGS_RUNTIME,
                                                &FLAGS_COMPAT, &FLAGS_GENERAL, NULL};

const Command COMMANDS[] = {
    {"run", NULL, "MODEL [-p TEXT] [flags]", "talks with a model, or answers one prompt",
     "Without -p: a conversation on a terminal; else standard input is the prompt. With -p, what a "
     "pipe brings is added to it.",
     "  mlxcel run model.gguf\n  mlxcel run model.gguf -p \"Why is the sky blue?\"\n"
     "  git diff | mlxcel run model.gguf -p \"Explain this change\"\n",
     GENERATE_GROUPS, 1, cmd_run},
    {"chat", NULL, "MODEL [flags]", "a conversation", NULL,
     "  mlxcel chat model.gguf --system \"Be brief\"\n", GENERATE_GROUPS, 1, cmd_chat},
    {"generate", "gen", "-m MODEL (-p TEXT | -f FILE | --ids \"1 2 3\") [-n N] [flags]",
     "answers one prompt",
     "The prompt goes through the model's chat template, if it has one. Sampling starts from the "
     "model's own\n"
     "generation_config.json, else at temperature 0; flags win over both.",
     "  mlxcel generate -m model.gguf -p \"Once upon a time\" -n 50\n"
     "  mlxcel generate -m model.gguf --ids \"1 2 3\" -n 8 --temp 0 --json\n"
     "  mlxcel generate -m model.gguf -p \"A cat, as JSON\" -j '{\"type\":\"object\"}'\n",
     GENERATE_GROUPS, 1, cmd_generate},
    {"score", NULL, "-m MODEL (-p TEXT | -f FILE | --ids \"1 2 3\") [flags]",
     "likelihood of a text, logits of every position",
     "nll is the mean negative log likelihood per token, in nats; perplexity its exponential.",
     "  mlxcel score -m model.gguf -f text.txt --json\n"
     "  mlxcel score -m model.gguf --ids \"1 2 3\" --logits out.npy --cache-type-k f32 "
     "--cache-type-v f32\n"
     "  mlxcel score -m small.gguf --ids-file ids.txt --kl-base out.npy\n"
     "  mlxcel score -m dir --ids-file ids.txt --input pixel_values=x.npy --input "
     "\"image_grid_thw=[[1,4,6]]\" \\\n      --output image_embeds=y.npy\n",
     SCORE_GROUPS, 1, cmd_score},
    {"tokenize", NULL, "(-m MODEL | --tokenizer FILE) [--jsonl]", "text to token ids",
     "A line is a string, or {\"text\", \"add_special\": true, \"parse_special\": false}.",
     "  echo '\"Hello\"' | mlxcel tokenize -m model.gguf --jsonl\n  mlxcel tokenize -m model.gguf "
     "-p Hello\n",
     TOKENIZE_GROUPS, 1, cmd_tokenize},
    {"detokenize", NULL, "(-m MODEL | --tokenizer FILE) [--pieces] [--jsonl]", "token ids to text",
     "A line is an array of ids, or {\"ids\", \"skip_special\": true}.",
     "  echo '[9906, 1917]' | mlxcel detokenize -m model.gguf --jsonl\n", TOKENIZE_GROUPS, 1,
     cmd_detokenize},
    {"template", NULL, "(-m MODEL | --template-file F) [--jsonl]",
     "messages to the prompt that a model sees",
     "A line is a context: {\"messages\": [...], \"tools\": [...], \"add_generation_prompt\": "
     "true, ...}.",
     "  echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' | mlxcel template -m "
     "model.gguf --jsonl\n",
     TEMPLATE_GROUPS, 1, cmd_template},
    {"parse", NULL, "--format NAME [--reasoning R] [--split N] [--jsonl]",
     "a raw reply to answer, reasoning and tool calls",
     "A line is {\"text\", \"tools\"?, \"prompt_tail\"?, \"finish\": \"stop\" or \"length\"}.",
     "  echo '{\"text\":\"<think>Hm</think>Yes\"}' | mlxcel parse --format think_only --jsonl\n",
     PARSE_GROUPS, 0, cmd_parse},
    {"grammar", NULL, "(--gbnf F | --json-schema F | --regex R) [--jsonl]",
     "whether texts match a grammar",
     "A line is a string; the answer is true if the grammar accepts all of it, else false.",
     "  echo '\"ab\"' | mlxcel grammar --regex 'a+b' --jsonl\n", GRAMMAR_GROUPS, 0, cmd_grammar},
    {"inspect", NULL, "(-m MODEL | --file FILE) [flags]",
     "what a model is, and the memory it takes", NULL,
     "  mlxcel inspect -m model.gguf -c 32768\n  mlxcel inspect -m model.gguf --json\n"
     "  mlxcel inspect -m model.gguf --tensor output_norm.weight --npy norm.npy\n"
     "  mlxcel inspect --file model.safetensors --json\n",
     INSPECT_GROUPS, 1, cmd_inspect},
    {"bench", NULL, "-m MODEL [-p 512] [-n 128] [-d 0] [-B 1] [-t 1,2] [-r 5] [flags]",
     "speed of a model on this machine",
     "Tests mean what llama-bench's mean: ppN a prompt of N tokens, tgN an answer of N, @ dD with "
     "D tokens before.",
     "  mlxcel bench -m model.gguf -p 512 -n 128 -t 1,2\n  mlxcel bench -m model.gguf -d 0,4096 "
     "--json\n",
     BENCH_GROUPS, 1, cmd_bench},
    {"quantize", NULL, "-m MODEL -o OUT [--bits 4] [--group-size 64] [--mode M] | [--gguf TYPE]",
     "a model in fewer bits, for MLX or as a GGUF",
     "OUT appears when it is complete, or not at all. What is quantized already is decoded first.",
     "  mlxcel quantize -m model -o model-4bit\n"
     "  mlxcel quantize -m model -o model-mixed --predicate mixed_3_6 --group-size 32\n"
     "  mlxcel quantize -m model -o model-q4_k_m.gguf --gguf Q4_K_M\n"
     "  mlxcel quantize -m model-gptq -o model-bf16 --dequantize\n",
     QUANTIZE_GROUPS, 1, cmd_quantize},
    {"arch", NULL, "[--json]", "the model families that run", NULL, "  mlxcel arch --json\n",
     ARCH_GROUPS, 0, cmd_arch},
    {"embed", NULL, "-m MODEL (-p TEXT ... | --ids \"1 2 3\") [flags]", "texts to vectors", NULL,
     "  mlxcel embed -m encoder -p \"Hello\" --json\n", EMBED_GROUPS, 1, cmd_embed},
    {"rerank", NULL, "-m MODEL -q QUERY -d DOC ... [flags]", "how well documents answer a query",
     NULL, "  mlxcel rerank -m reranker -q \"cats\" -d \"A cat\" -d \"A dog\" --json\n",
     RERANK_GROUPS, 1, cmd_rerank},
    {"download", "pull", "OWNER/NAME[:QUANT][@REVISION] [flags]", "a model from the hub",
     "A bare name is one of MLXCEL_DEFAULT_ORG (mlx-community). Goes on where an earlier one "
     "stopped; "
     "prints what to open.\nHF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE are "
     "heard.",
     "  mlxcel download mlx-community/Qwen3-0.6B-4bit\n  mlxcel download owner/name-GGUF:Q8_0\n"
     "  mlxcel download owner/name --include '*.json' --local-dir here\n",
     DOWNLOAD_GROUPS, 1, cmd_download},
    {"list", "ls", "[--sort size] [--json]", "the models on this machine",
     "Those of the Hugging Face cache, of MLXCEL_MODELS_DIR, and of LM Studio and Ollama: all of "
     "them "
     "run.",
     "  mlxcel list\n  mlxcel list --sort size\n", LIST_GROUPS, 0, cmd_list},
    {"rm", NULL, "OWNER/NAME [--yes]", "deletes a downloaded model",
     "Only what mlxcel download wrote; other programs' models are left alone.",
     "  mlxcel rm mlx-community/Qwen3-0.6B-4bit\n", RM_GROUPS, 1, cmd_rm},
    {"env", NULL, "", "the environment variables that are heard",
     "Every flag's twin, the flag, and the commands that have it. With -v also the value set now.",
     "  mlxcel env\n", ENV_GROUPS, 0, cmd_env},
};
const size_t N_COMMANDS = sizeof COMMANDS / sizeof *COMMANDS;

static const Command *find(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const Command *c = &COMMANDS[i];
        if (strcmp(c->name, name) == 0 || (c->alias && strcmp(c->alias, name) == 0)) return c;
    }
    return NULL;
}

static int unknown(const char *name) {
    const char *names[sizeof COMMANDS / sizeof *COMMANDS];
    for (size_t i = 0; i < N_COMMANDS; i++) names[i] = COMMANDS[i].name;
    const char *near = args_nearest(str_c(name), names, N_COMMANDS);
    if (near)
        return cli_usage("unknown command \"%.100s\"; did you mean %s? (mlxcel --help lists all)",
                         name, near);
    return cli_usage("unknown command \"%.100s\" (mlxcel --help lists all)", name);
}

static bool asks_help(int argc, char **argv) {
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

static int run(const Command *c, int argc, char **argv) {
    Args a = {0};
    Err err = {0};
    if (asks_help(argc, argv)) {
        help_command(c);
        return CLI_OK;
    }
    mlxcel_log_hold();
    int status = args_parse(&a, c, argc, argv, &err) ? CLI_OK : cli_usage("%s", err.msg);
    if (status == CLI_OK && args_flag(&a, "verbose")) mlxcel_log_level(2);
    /* The library reads the variable: the flag is its twin. */
    if (status == CLI_OK && args_given(&a, "models-dir"))
        setenv("MLXCEL_MODELS_DIR", args_text(&a, "models-dir"), 1);
    if (status == CLI_OK) flags_warn_compat(&a);
    if (status == CLI_OK) status = c->run(&a);
    mlxcel_log_release(status == CLI_OK);
    args_deinit(&a);
    return status;
}

static int dispatch(int argc, char **argv) {
    if (argc < 2) return cli_usage("no command given (mlxcel --help lists them)");
    const char *first = argv[1];
    bool help =
        strcmp(first, "help") == 0 || strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0;
    if (help && argc > 2) {
        const Command *c = find(argv[2]);
        if (!c) return unknown(argv[2]);
        help_command(c);
        return CLI_OK;
    }
    if (help) {
        help_all(COMMANDS, N_COMMANDS);
        return CLI_OK;
    }
    if (strcmp(first, "--version") == 0 || strcmp(first, "version") == 0 ||
        strcmp(first, "-V") == 0) {
        out_put_c("mlxcel ");
        out_put_c(mlxcel_version());
        out_put(STR("\n"));
        return CLI_OK;
    }
    const Command *c = find(first);
    return c ? run(c, argc - 2, argv + 2) : unknown(first);
}

int main(int argc, char **argv) {
    term_init();
    return out_close(dispatch(argc, argv));
}
