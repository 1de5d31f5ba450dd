/* mlxcel.h: the library. Load a checkpoint, run requests on it; tokenize, render chat templates,
 * parse replies, enforce grammars.
 *
 *     mlxcel_error err;
 *     mlxcel_model *model;  mlxcel_engine *engine;
 *     if (!mlxcel_model_open("model.gguf", NULL, &model, &err)) { fprintf(stderr, "%s\n", err.message); return 1; }
 *     if (!mlxcel_engine_open(model, NULL, &engine, &err)) ...
 *     mlxcel_prompt *prompt;
 *     mlxcel_chat_prompt(model, "[{\"role\":\"user\",\"content\":\"Hello\"}]", NULL, &prompt, &err);
 *     mlxcel_request *request;
 *     mlxcel_request_new(engine, mlxcel_prompt_ids(prompt), mlxcel_prompt_n_ids(prompt), &request, &err);
 *     mlxcel_request_set(request, "n_predict", "100", &err);
 *     mlxcel_request_run(request, print_event, NULL, &err);
 *
 * Every fallible function returns false and fills the error (which may be NULL); nothing aborts or
 * exits. Objects are opaque; *_free and *_close accept NULL. A model is immutable once an engine
 * or encoder of it is open and may then be shared by several threads, each with engines of its own
 * (their steps take turns on the model's compute threads); an engine, its requests and their runs belong to one thread at a
 * time, except mlxcel_request_cancel, which may be called from anywhere. Text is UTF-8. Structs of
 * options begin with their size: initialise them with the function that returns defaults. */
#ifndef MLXCEL_H
#define MLXCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MLXCEL_API __attribute__((visibility("default")))
#else
#define MLXCEL_API
#endif

/* --- errors and strings --- */

typedef enum mlxcel_error_kind { /* by who can fix it */
                                 MLXCEL_OK,
                                 MLXCEL_INPUT, /* the request is wrong */
                                 /* well-formed, but not something this build does */
                                 MLXCEL_UNSUPPORTED,
                                 MLXCEL_NOT_FOUND,
                                 /* larger than a stated limit, or more memory than there is */
                                 MLXCEL_LIMIT,
                                 MLXCEL_BUSY,
                                 MLXCEL_CANCELLED,
                                 MLXCEL_NOMEM,
                                 MLXCEL_IO,
                                 MLXCEL_CORRUPT, /* a file breaks its format */
                                 MLXCEL_INTERNAL
} mlxcel_error_kind;

typedef struct mlxcel_error {
    int kind;          /* mlxcel_error_kind */
    char message[400]; /* one line: the thing, the value found, what is accepted */
} mlxcel_error;

typedef struct mlxcel_string mlxcel_string; /* owned text returned by a function */
/* NUL-terminated; may hold NULs before its end */
MLXCEL_API const char *mlxcel_string_text(const mlxcel_string *s);
MLXCEL_API size_t mlxcel_string_size(const mlxcel_string *s); /* bytes */
MLXCEL_API void mlxcel_string_free(mlxcel_string *s);

MLXCEL_API const char *mlxcel_version(void);
MLXCEL_API const char *mlxcel_error_name(int kind);
/* Notes and warnings on stderr: 0 none, 1 warnings (the default), 2 notes, 3 debugging. */
MLXCEL_API void mlxcel_log_level(int level);
/* While held, warnings wait; they come out with release(true) and are dropped by release(false). */
MLXCEL_API void mlxcel_log_hold(void);
MLXCEL_API void mlxcel_log_release(bool show);

/* --- models --- */

typedef struct mlxcel_model mlxcel_model;

typedef struct mlxcel_model_options {
    size_t size;
    const char *backend; /* "auto", "cpu", "ref" */
    int threads;         /* 0: one per physical core that this process may use */
    const char *isa;     /* an upper bound: "auto", "avx512", "avx2", "portable" */
    /* Jinja text or a built-in's name ("chatml"), used instead of the checkpoint's own; NULL */
    const char *chat_template;
    /* While weights are loaded, from the thread that loads: bytes packed so far, of how many; the
     * last call has done == total. false: stop (MLXCEL_CANCELLED). NULL: nobody asks */
    bool (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
} mlxcel_model_options;

MLXCEL_API mlxcel_model_options mlxcel_model_options_default(void);
/* Where a model is: name itself if there is such a file or directory, else "owner/name[:QUANT]" or
 * a bare name in the stores of docs/environment.md: the Hugging Face cache (HF_HUB_CACHE,
 * HF_HOME), MLXCEL_MODELS_DIR, LM Studio's, Ollama's.
 * MLXCEL_NOT_FOUND says where was looked. */
MLXCEL_API bool mlxcel_model_find(const char *name, mlxcel_string **path, mlxcel_error *err);
/* Opens a directory with config.json and safetensors, a .gguf file or the first of a split set, or
 * a name that mlxcel_model_find knows. Reads headers and metadata; the weights are read when an
 * engine is opened. */
MLXCEL_API bool mlxcel_model_open(const char *path, const mlxcel_model_options *options,
                                  mlxcel_model **out, mlxcel_error *err);
MLXCEL_API void mlxcel_model_close(mlxcel_model *model); /* after its engines */
MLXCEL_API uint32_t mlxcel_model_n_vocab(const mlxcel_model *model);
/* meant for; 0: no limit of its own */
MLXCEL_API uint64_t mlxcel_model_n_ctx(const mlxcel_model *model);
/* ends a generation */
MLXCEL_API bool mlxcel_model_is_eog(const mlxcel_model *model, uint32_t token);
MLXCEL_API bool mlxcel_model_has_tokenizer(const mlxcel_model *model);
MLXCEL_API const char *mlxcel_model_architecture(const mlxcel_model *model);
/* opening and loading so far */
MLXCEL_API double mlxcel_model_load_ms(const mlxcel_model *model);
/* One tensor of the file, decoded to float32: data (free with mlxcel_free), shape (8 entries) and
 * dimensions. */
MLXCEL_API bool mlxcel_model_tensor(const mlxcel_model *model, const char *name, float **data,
                                    uint64_t shape[8], int *n_dims, mlxcel_error *err);
MLXCEL_API bool mlxcel_model_program(const mlxcel_model *model, mlxcel_string **listing,
                                     mlxcel_error *err);
typedef struct mlxcel_work { /* of one token */
    uint64_t weight_bytes;   /* packed weights that are read to decode it */
    uint64_t macs;           /* multiply-adds of the matrices */
    uint64_t head_macs;      /* of them those of the output head, which a prompt needs once */
} mlxcel_work;
MLXCEL_API void mlxcel_model_work(const mlxcel_model *model, mlxcel_work *out);
/* elements of all tensors, unpacked */
MLXCEL_API uint64_t mlxcel_model_n_params(const mlxcel_model *model);
/* tensor bytes in the file */
MLXCEL_API uint64_t mlxcel_model_file_bytes(const mlxcel_model *model);
/* "Q4_1", "BF16", "mlx 4-bit": most of its bytes */
MLXCEL_API const char *mlxcel_model_quantization(const mlxcel_model *model);
MLXCEL_API const char *mlxcel_model_backend(const mlxcel_model *model); /* "cpu", "ref" */
/* "avx512", "avx2", "portable" */
MLXCEL_API const char *mlxcel_model_isa(const mlxcel_model *model);
MLXCEL_API int mlxcel_model_threads(const mlxcel_model *model);
/* One .safetensors, .gguf or .json file alone: its tensor table and keys, or {"valid":true}. */
MLXCEL_API bool mlxcel_file_inspect(const char *path, mlxcel_string **json, mlxcel_error *err);
/* the families: an array of objects */
MLXCEL_API bool mlxcel_arch_json(mlxcel_string **json, mlxcel_error *err);
MLXCEL_API void mlxcel_free(void *p);

typedef struct mlxcel_machine { /* measured ceilings, for n_threads threads */
    char cpu[96];
    char isa[32];
    int n_cpus, n_cores, n_threads;
    double read_gbs;   /* memory read, 10^9 bytes a second */
    double int8_gmacs; /* int8 multiply-adds, 10^9 a second */
    double f32_gmacs;
    uint64_t memory_available;
} mlxcel_machine;
/* Takes about a second. isa: an upper bound or NULL. */
MLXCEL_API bool mlxcel_machine_measure(int n_threads, const char *isa, mlxcel_machine *out,
                                       mlxcel_error *err);

/* --- converting --- */

typedef struct mlxcel_quantize_options {
    size_t size;
    const char *mode;      /* "affine" (default), "mxfp4", "mxfp8", "nvfp4" */
    int bits;              /* affine: 1 2 3 4 5 6 8; 0: 4 */
    int group_size;        /* affine: 32 64 128; 0: 64; others: 0 or their own */
    const char *predicate; /* "mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6"; NULL */
    bool dequantize;       /* decode only: floats in the same layout */
    const char *gguf;      /* a GGUF instead, of this type: "Q4_0", "Q8_0", "Q4_K_M", "F16", ... */
    const char *dtype; /* floats that stay: "float16", "bfloat16", "float32"; NULL: as they are */
    bool force;        /* write over what is there */
    int threads;       /* 0: one per physical core */
} mlxcel_quantize_options;

typedef struct mlxcel_quantize_report {
    uint64_t n_tensors, n_quantized; /* a quantized matrix counts once */
    uint64_t n_odd;                  /* matrices whose rows are no whole groups: left as floats */
    uint64_t bytes_in, bytes_out, n_weights;
    bool was_quantized; /* the input was: it was decoded first */
} mlxcel_quantize_report;

/* What is written next, and how far it is, in weights; "" at the end. false: stop. */
typedef bool mlxcel_progress_fn(void *ctx, const char *tensor, uint64_t done, uint64_t total);

MLXCEL_API mlxcel_quantize_options mlxcel_quantize_options_default(void);
/* Writes the model in another form: a directory in MLX's layout, or a .gguf file. Nothing is ever
 * held whole, and out appears when it is complete or not at all. */
MLXCEL_API bool mlxcel_quantize(const char *model, const char *out,
                                const mlxcel_quantize_options *options, mlxcel_progress_fn *fn,
                                void *ctx, mlxcel_quantize_report *report, mlxcel_error *err);

/* --- the model store: what is on this machine, and what the hub has --- */

typedef struct mlxcel_download mlxcel_download; /* one thread at a time */

typedef struct mlxcel_download_progress { /* borrowed for the call */
    const char *file;                     /* the one furthest behind, or "" */
    uint64_t done_bytes, total_bytes;     /* of all chosen files; what was there counts as done */
    size_t n_done, n_files;
    bool waiting; /* another process downloads what is left */
} mlxcel_download_progress;

typedef struct mlxcel_download_options {
    size_t size;
    const char *revision;  /* a branch, tag or commit; NULL: the name's own, or main */
    const char *local_dir; /* plain files there instead of the Hugging Face cache; NULL */
    /* Patterns (* ? [abc]) of file names. include replaces the usual choice; exclude wins. */
    const char *const *include, *const *exclude;
    size_t n_include, n_exclude;
    uint32_t n_connections; /* default 8 */
    uint32_t n_retries;     /* of what brings nothing; default 5 */
    /* Called about ten times a second, also while nothing moves; false stops: what came stays, and
     * the same download goes on from there. */
    bool (*progress)(void *ctx, const mlxcel_download_progress *p);
    void *ctx;
    const char
        *models_dir; /* plain files in OWNER/NAME there, where MLXCEL_MODELS_DIR finds them; NULL */
} mlxcel_download_options;

MLXCEL_API mlxcel_download_options mlxcel_download_options_default(void);
/* Asks the hub what "owner/name", "name" (of MLXCEL_DEFAULT_ORG), "owner/name:QUANT" or
 * "owner/name@revision" takes. Nothing is written. What the options point to must last. */
MLXCEL_API bool mlxcel_download_open(const char *name, const mlxcel_download_options *options,
                                     mlxcel_download **out, mlxcel_error *err);
/* Fetches the files, checks them (sha256), and makes the snapshot. Several processes may fetch the
 * same model. */
MLXCEL_API bool mlxcel_download_run(mlxcel_download *download, mlxcel_error *err);
MLXCEL_API const char *mlxcel_download_repo(const mlxcel_download *download);
MLXCEL_API size_t mlxcel_download_n_files(const mlxcel_download *download);
MLXCEL_API uint64_t mlxcel_download_total_bytes(const mlxcel_download *download);
/* not on the disk yet */
MLXCEL_API uint64_t mlxcel_download_missing_bytes(const mlxcel_download *download);
/* What to open afterwards: a directory or a .gguf file. */
MLXCEL_API const char *mlxcel_download_path(const mlxcel_download *download);
/* {"repo","revision","commit","path","total_bytes","missing_bytes","files":[{"name","size_bytes",
 * "sha256"}]} */
MLXCEL_API bool mlxcel_download_json(const mlxcel_download *download, mlxcel_string **json,
                                     mlxcel_error *err);
MLXCEL_API void mlxcel_download_close(mlxcel_download *download);

/* All models on this machine: [{"repo_id","store","path","size_bytes","modified","own","complete"}].
 * modified: seconds since 1970. */
MLXCEL_API bool mlxcel_store_list(mlxcel_string **json, mlxcel_error *err);
/* Deletes of a model what mlxcel downloaded, and nothing else; dry: only says what that is. bytes and
 * n_files may be NULL. MLXCEL_NOT_FOUND: there is no such model, or it is another program's. */
MLXCEL_API bool mlxcel_store_remove(const char *name, bool dry, uint64_t *bytes, size_t *n_files,
                                    mlxcel_error *err);

/* --- engines --- */

typedef struct mlxcel_engine mlxcel_engine;

typedef struct mlxcel_engine_options {
    size_t size;
    /* tokens of the cache in all; 0: the model's context, as far as memory goes */
    uint64_t n_ctx;
    uint32_t n_parallel;      /* sequences at once; default 1 */
    uint32_t prefill_chunk;   /* tokens of a prompt per step; default 512 */
    const char *cache_type_k; /* "f32", "f16" (default), "bf16", "q8_0", "q4_0" */
    const char *cache_type_v;
    bool no_prefix_cache; /* do not reuse the cache of earlier requests */
    bool force;           /* load although the memory plan says it will not fit */
    bool scores;          /* plan for mlxcel_request_logits: 64 rows of logits instead of one */
} mlxcel_engine_options;

typedef struct mlxcel_budget { /* bytes; state: of recurrent layers */
    uint64_t weights, cache, state, scratch, other, total, available;
    uint64_t cache_per_token;
    uint64_t n_ctx; /* resolved */
} mlxcel_budget;

MLXCEL_API mlxcel_engine_options mlxcel_engine_options_default(void);
/* The memory plan, from metadata alone. */
MLXCEL_API bool mlxcel_model_budget(const mlxcel_model *model, const mlxcel_engine_options *options,
                                    mlxcel_budget *out, mlxcel_error *err);
/* What inspect prints: architecture, shapes, quantization, tensors and the memory plan, as one JSON
 * object. */
MLXCEL_API bool mlxcel_model_inspect(const mlxcel_model *model,
                                     const mlxcel_engine_options *options, mlxcel_string **json,
                                     mlxcel_error *err);
/* Plans the memory (MLXCEL_LIMIT if it will not fit), loads the weights if no engine has yet, makes
 * the cache. */
MLXCEL_API bool mlxcel_engine_open(mlxcel_model *model, const mlxcel_engine_options *options,
                                   mlxcel_engine **out, mlxcel_error *err);
MLXCEL_API void mlxcel_engine_close(mlxcel_engine *engine); /* after its requests */
/* tokens one sequence may hold */
MLXCEL_API uint32_t mlxcel_engine_n_ctx(const mlxcel_engine *engine);
/* forgets the prefixes of earlier requests */
MLXCEL_API void mlxcel_engine_drop_cache(mlxcel_engine *engine);
/* One step for all submitted requests; false when none is left. */
MLXCEL_API bool mlxcel_engine_step(mlxcel_engine *engine);
/* Time per operation kind since profiling was switched on, as a table of text. */
MLXCEL_API void mlxcel_engine_profile(mlxcel_engine *engine, bool on);
MLXCEL_API bool mlxcel_engine_profile_text(const mlxcel_engine *engine, mlxcel_string **out,
                                           mlxcel_error *err);

/* --- requests --- */

typedef struct mlxcel_request mlxcel_request;

typedef struct mlxcel_logprob {
    uint32_t token;
    double logprob; /* natural logarithm */
} mlxcel_logprob;

typedef enum mlxcel_event_kind {
    MLXCEL_EVENT_PROGRESS, /* part of the prompt was processed */
    MLXCEL_EVENT_TEXT,     /* a token, and the text that became certain with it (may be empty) */
    MLXCEL_EVENT_DONE      /* the last one; text: what was still held back */
} mlxcel_event_kind;

typedef struct mlxcel_timings {
    /* tokens; cached_n of the prompt came from the cache */
    uint64_t prompt_n, cached_n, predicted_n;
    double prompt_ms, predicted_ms, ttft_ms; /* ttft: from submission to the first token */
    uint64_t draft_n, draft_n_accepted, draft_rounds;
} mlxcel_timings;

typedef struct mlxcel_event { /* borrowed for the call */
    mlxcel_event_kind kind;
    const char *text;
    size_t text_bytes;
    bool has_token;
    uint32_t token;
    double logprob;            /* of the token, when logprobs were asked for */
    const mlxcel_logprob *top; /* n_top best tokens, best first */
    size_t n_top;
    uint64_t n_done, n_total;  /* PROGRESS: tokens */
    const char *finish_reason; /* DONE: "stop", "length", "cancelled" */
    const char *finish_detail; /* DONE: "end of generation token", "stop string", ... */
    const char *stop_string;   /* DONE: the one that was found, or NULL */
    mlxcel_timings timings;    /* DONE */
} mlxcel_event;

typedef bool mlxcel_event_fn(void *ctx, const mlxcel_event *event); /* false: stop generating */
/* Logits after prompt token `position`, n_vocab floats; false: stop. */
typedef bool mlxcel_logits_fn(void *ctx, uint32_t position, const float *logits);

/* The ids are copied. MLXCEL_LIMIT: they do not fit the context; MLXCEL_INPUT: an id outside the
 * vocabulary. */
MLXCEL_API bool mlxcel_request_new(mlxcel_engine *engine, const uint32_t *ids, size_t n_ids,
                                   mlxcel_request **out, mlxcel_error *err);
/* A parameter by its llama-server name ("temperature", "top_k", "seed", "n_predict",
 * "repeat_penalty", ...), as text. Beside the sampling parameters: n_predict (-1: no limit),
 * ignore_eos ("true": end tokens do not stop; they are not banned either), cache_prompt,
 * use_generation_config ("true": the checkpoint's own defaults first; set it before others). */
MLXCEL_API bool mlxcel_request_set(mlxcel_request *request, const char *name, const char *value,
                                   mlxcel_error *err);
/* Whether mlxcel_request_set would take it, as far as can be said without a request. */
MLXCEL_API bool mlxcel_parameter_check(const char *name, const char *value, mlxcel_error *err);
MLXCEL_API bool mlxcel_request_stop(mlxcel_request *request, const char *stop_string,
                                    mlxcel_error *err);
MLXCEL_API bool mlxcel_request_bias(mlxcel_request *request, uint32_t token, float bias,
                                    mlxcel_error *err);
MLXCEL_API bool mlxcel_request_dry_breakers(mlxcel_request *request, const char *const *breakers,
                                            size_t n, mlxcel_error *err);
/* Constrains the answer: kind "gbnf", "json_schema", "regex" or "json_object" (source ignored). */
MLXCEL_API bool mlxcel_request_grammar(mlxcel_request *request, const char *kind,
                                       const char *source, mlxcel_error *err);

/* What a model takes beside tokens (images, sound), after preprocessing: pixel_values,
 * image_grid_thw, input_features, ... by the names of the Hugging Face processors; and what it makes
 * of them: image_embeds, encoder_states, ... */
typedef enum mlxcel_type { MLXCEL_F32, MLXCEL_I64 } mlxcel_type;
enum { MLXCEL_MAX_DIMS = 8 };
typedef struct mlxcel_tensor {
    const char *name;
    int type; /* mlxcel_type */
    uint32_t n_dims;
    uint64_t dims[MLXCEL_MAX_DIMS]; /* outermost first; no dims: one number */
    const void *data;               /* row-major, no gaps */
} mlxcel_tensor;

/* Before the request is submitted; name and data are copied. Rows that the model makes of its inputs
 * take the places of the prompt's placeholder tokens. MLXCEL_INPUT: no sound tensor, or the second of
 * its name; whether it fits the model and the prompt is seen at submission (MLXCEL_UNSUPPORTED: the
 * model takes no media). */
MLXCEL_API bool mlxcel_request_input(mlxcel_request *request, const mlxcel_tensor *tensor,
                                     mlxcel_error *err);
/* After the request is done; name and data are the request's. MLXCEL_NOT_FOUND says what there is. */
MLXCEL_API bool mlxcel_request_output(const mlxcel_request *request, const char *name,
                                      mlxcel_tensor *out, mlxcel_error *err);
/* Gives the logits after every prompt token (score); the answer is then n_predict tokens long, 0 by
 * default. */
MLXCEL_API void mlxcel_request_logits(mlxcel_request *request, mlxcel_logits_fn *fn, void *ctx);
/* Queues the request; its events come from mlxcel_engine_step. */
MLXCEL_API bool mlxcel_request_submit(mlxcel_request *request, mlxcel_event_fn *fn, void *ctx,
                                      mlxcel_error *err);
/* After the DONE event or a failure: false and the error if it failed. */
MLXCEL_API bool mlxcel_request_result(const mlxcel_request *request, mlxcel_error *err);
MLXCEL_API bool mlxcel_request_is_done(const mlxcel_request *request);
/* submit, steps until it is done, result. */
MLXCEL_API bool mlxcel_request_run(mlxcel_request *request, mlxcel_event_fn *fn, void *ctx,
                                   mlxcel_error *err);
MLXCEL_API void mlxcel_request_cancel(mlxcel_request *request); /* from any thread */
MLXCEL_API void mlxcel_request_free(mlxcel_request *request);   /* cancels first if it runs */

/* --- text --- */

typedef struct mlxcel_prompt mlxcel_prompt;
/* messages: a JSON array of chat messages. options: a JSON object or NULL: {"tools": [...],
 * "add_generation_prompt": true, "chat_template": "...", "template_kwargs": {...}, ...}. Text that
 * a message brings never becomes a control token. */
MLXCEL_API bool mlxcel_chat_prompt(const mlxcel_model *model, const char *messages,
                                   const char *options, mlxcel_prompt **out, mlxcel_error *err);
/* Plain text; add_special: BOS and the like as the tokenizer says; parse_special: text that spells
 * a special token is one. */
MLXCEL_API bool mlxcel_text_prompt(const mlxcel_model *model, const char *text, size_t n_bytes,
                                   bool add_special, bool parse_special, mlxcel_prompt **out,
                                   mlxcel_error *err);
MLXCEL_API const uint32_t *mlxcel_prompt_ids(const mlxcel_prompt *prompt);
MLXCEL_API size_t mlxcel_prompt_n_ids(const mlxcel_prompt *prompt);
MLXCEL_API const char *mlxcel_prompt_text(const mlxcel_prompt *prompt); /* as rendered */
MLXCEL_API void mlxcel_prompt_free(mlxcel_prompt *prompt);
/* The text of ids, special tokens spelled out or left out. */
MLXCEL_API bool mlxcel_model_decode(const mlxcel_model *model, const uint32_t *ids, size_t n_ids,
                                    bool skip_special, mlxcel_string **out, mlxcel_error *err);
/* The text of the model's chat template, "" if it has none of its own. */
MLXCEL_API bool mlxcel_model_chat_template(const mlxcel_model *model, mlxcel_string **out,
                                           mlxcel_error *err);

/* --- encoders: embeddings and reranking --- */

typedef struct mlxcel_encoder mlxcel_encoder; /* one thread at a time */

typedef struct mlxcel_encoder_options {
    size_t size;
    bool scores;         /* a classifier's logits instead of a vector */
    const char *pooling; /* "auto" (what the checkpoint says), "mean", "cls", "last" */
    bool no_normalize;   /* vectors as they are, not of length 1 */
    uint32_t max_length; /* tokens of one input; 0: the model's */
    uint32_t batch_rows; /* tokens of one step; 0: 512 */
    bool force;          /* although the memory plan says it will not fit */
} mlxcel_encoder_options;

typedef struct mlxcel_encoder_input {
    const uint32_t *ids;   /* special tokens included */
    const uint32_t *types; /* token types, n_ids of them; NULL: all 0 */
    size_t n_ids;
} mlxcel_encoder_input;

MLXCEL_API mlxcel_encoder_options mlxcel_encoder_options_default(void);
/* MLXCEL_UNSUPPORTED: a text generator, or no classifier where scores are wanted. Loads the weights
 * if nothing has yet. */
MLXCEL_API bool mlxcel_encoder_open(mlxcel_model *model, const mlxcel_encoder_options *options,
                                    mlxcel_encoder **out, mlxcel_error *err);
MLXCEL_API void mlxcel_encoder_close(mlxcel_encoder *encoder); /* before its model */
/* floats of one result: the vector's, or one per label */
MLXCEL_API uint32_t mlxcel_encoder_width(const mlxcel_encoder *encoder);
MLXCEL_API const char *mlxcel_encoder_pooling(const mlxcel_encoder *encoder);
MLXCEL_API bool mlxcel_encoder_normalizes(const mlxcel_encoder *encoder);
/* rows: n times width floats. A result depends on its own input alone, bit for bit. */
MLXCEL_API bool mlxcel_encoder_run(mlxcel_encoder *encoder, const mlxcel_encoder_input *inputs,
                                   size_t n, float *rows, mlxcel_error *err);
/* A query and a document as one input; its token types are mlxcel_prompt_types. */
MLXCEL_API bool mlxcel_pair_prompt(const mlxcel_model *model, const char *query, size_t query_bytes,
                                   const char *document, size_t document_bytes, mlxcel_prompt **out,
                                   mlxcel_error *err);
/* One per id; NULL unless it is a pair. */
MLXCEL_API const uint32_t *mlxcel_prompt_types(const mlxcel_prompt *prompt);

/* --- replies: what a model writes, split into answer, reasoning and tool calls as it arrives
 * --- */

typedef enum mlxcel_reply_kind {
    MLXCEL_REPLY_CONTENT,
    MLXCEL_REPLY_REASONING,
    MLXCEL_REPLY_CALL,      /* name of a tool call; its arguments follow */
    MLXCEL_REPLY_ARGUMENTS, /* a piece of JSON text */
    MLXCEL_REPLY_CALL_END,
    MLXCEL_REPLY_CALL_FAILED /* it was none after all; text: all of it */
} mlxcel_reply_kind;

typedef struct mlxcel_reply mlxcel_reply;
typedef bool mlxcel_reply_fn(void *ctx, mlxcel_reply_kind kind, int call, const char *text,
                             size_t n_bytes);

/* The format is found from the model's template, and whether the prompt's end opens the reasoning
 * from the prompt (may be NULL). tools: a JSON array or NULL. */
MLXCEL_API bool mlxcel_reply_new(const mlxcel_model *model, const mlxcel_prompt *prompt,
                                 const char *tools, mlxcel_reply_fn *fn, void *ctx,
                                 mlxcel_reply **out, mlxcel_error *err);
MLXCEL_API bool mlxcel_reply_feed(mlxcel_reply *reply, const char *text, size_t n_bytes,
                                  mlxcel_error *err);
/* cut: by length */
MLXCEL_API bool mlxcel_reply_finish(mlxcel_reply *reply, bool cut, mlxcel_error *err);
MLXCEL_API void mlxcel_reply_free(mlxcel_reply *reply);

/* --- one line of JSON in, one out (without its line end): the --jsonl commands ---
 *
 * What is wrong with a line is its answer, {"error": "..."}; false only when memory ends. */

typedef struct mlxcel_tokenizer mlxcel_tokenizer; /* immutable: any thread */
/* A model, or a tokenizer file: tokenizer.json, tokenizer.model, *.tiktoken (pattern: gpt2, cl100k,
 * o200k, kimi or a regular expression; else NULL), a GGUF. */
MLXCEL_API bool mlxcel_tokenizer_open(const char *path, const char *pattern, mlxcel_tokenizer **out,
                                      mlxcel_error *err);
MLXCEL_API void mlxcel_tokenizer_close(mlxcel_tokenizer *tokenizer);
MLXCEL_API bool mlxcel_tokenize_line(const mlxcel_tokenizer *tokenizer, const char *line,
                                     size_t n_bytes, mlxcel_string **out, mlxcel_error *err);
MLXCEL_API bool mlxcel_detokenize_line(const mlxcel_tokenizer *tokenizer, bool pieces,
                                       const char *line, size_t n_bytes, mlxcel_string **out,
                                       mlxcel_error *err);

typedef struct mlxcel_template mlxcel_template; /* immutable: any thread */
/* A model's chat template, or (model NULL) the Jinja text or built-in name in source. */
MLXCEL_API bool mlxcel_template_open(const char *model, const char *source, mlxcel_template **out,
                                     mlxcel_error *err);
MLXCEL_API void mlxcel_template_close(mlxcel_template *t);
/* A context object -> {"text"}. now: "2026-01-02T03:04:05" or NULL; raw: no variables but the
 * context's. */
MLXCEL_API bool mlxcel_template_line(const mlxcel_template *t, const char *now, bool raw,
                                     const char *line, size_t n_bytes, mlxcel_string **out,
                                     mlxcel_error *err);

/* A raw reply -> {"content","reasoning","tool_calls"}. split: feed it in pieces of so many bytes,
 * 0: at once. The names are checked by mlxcel_parse_names. */
MLXCEL_API bool mlxcel_parse_names(const char *format, const char *reasoning, mlxcel_error *err);
MLXCEL_API bool mlxcel_parse_line(const char *format, const char *reasoning, size_t split,
                                  const char *line, size_t n_bytes, mlxcel_string **out,
                                  mlxcel_error *err);

typedef struct mlxcel_grammar mlxcel_grammar; /* one thread at a time */
/* kind: "gbnf", "json_schema", "regex". An error names what cannot be enforced. */
MLXCEL_API bool mlxcel_grammar_open(const char *kind, const char *source, size_t n_bytes,
                                    mlxcel_grammar **out, mlxcel_error *err);
MLXCEL_API void mlxcel_grammar_close(mlxcel_grammar *grammar);
MLXCEL_API bool mlxcel_grammar_line(
    mlxcel_grammar *grammar, const char *line, size_t n_bytes, mlxcel_string **out,
    mlxcel_error *err); /* a JSON string -> true if all of it is accepted, else false */

#ifdef __cplusplus
}
#endif

#endif
