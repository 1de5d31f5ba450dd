/* bench: speed of a model on this machine, beside what the machine can do. */
#include <stdio.h>
#include <string.h>

#include "cli/bench_print.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/term.h"

enum { MAX_LIST = 64, MAX_ROWS = 4096, PAGE = 64, DEFAULT_CHUNK = 512 };

typedef struct List {
    uint32_t v[MAX_LIST];
    size_t n;
} List;

typedef struct Bench {
    const Args *args;
    Arena arena;
    List prompts, answers, depths, batches, threads;
    List pair_prompts, pair_answers; /* of -pg */
    BenchRow *rows;
    size_t n_rows;
    mlxcel_machine machines[MAX_LIST];
    size_t n_machines;
    BenchReport report;
    bool measure_machine;
} Bench;

static bool list_add(List *l, Str word, const char *flag, uint32_t min, uint32_t max, Err *err) {
    uint64_t v;
    if (!str_to_u64(word, &v) || v < min || v > max)
        return err_set(err, ERR_INPUT,
                       "-%s has \"" STR_F
                       "\"; whole numbers from %u to %u, separated by commas, are accepted",
                       flag, STR_A(word), min, max);
    if (l->n == MAX_LIST)
        return err_set(err, ERR_INPUT, "-%s has more than %d values", flag, MAX_LIST);
    l->v[l->n++] = (uint32_t)v;
    return true;
}

static bool read_list(const Args *a, const char *name, const char *flag, uint32_t other,
                      uint32_t min, uint32_t max, List *l, Err *err) {
    const char *text;
    for (size_t i = 0; (text = args_next(a, name, &i)) != NULL;) {
        Str rest = str_c(text), word;
        while (str_split(&rest, ',', &word))
            if (!list_add(l, word, flag, min, max, err)) return false;
    }
    if (!l->n) l->v[l->n++] = other;
    return true;
}

static bool read_pairs(Bench *b, Err *err) {
    const char *text;
    for (size_t i = 0; (text = args_next(b->args, "n-prompt-gen", &i)) != NULL;) {
        Str rest = str_c(text), p, n;
        if (!str_split(&rest, ',', &p) || !str_split(&rest, ',', &n) || rest.n)
            return err_set(err, ERR_INPUT,
                           "-pg is \"%s\"; two numbers, as in 512,128, are accepted", text);
        if (!list_add(&b->pair_prompts, p, "pg", 1, 1 << 24, err) ||
            !list_add(&b->pair_answers, n, "pg", 1, 1 << 24, err))
            return false;
    }
    return true;
}

static bool read_lists(Bench *b, Err *err) {
    const Args *a = b->args;
    return read_list(a, "n-prompt", "p", 512, 0, 1 << 24, &b->prompts, err) &&
           read_list(a, "n-gen", "n", 128, 0, 1 << 24, &b->answers, err) &&
           read_list(a, "n-depth", "d", 0, 0, 1 << 24, &b->depths, err) &&
           read_list(a, "n-batch", "B", 1, 1, BENCH_MAX_BATCH, &b->batches, err) &&
           read_list(a, "threads", "t", 0, 1, 256, &b->threads, err) && read_pairs(b, err);
}

static bool add_row(Bench *b, uint32_t p, uint32_t n, uint32_t d, uint32_t batch,
                    uint32_t threads) {
    if (b->n_rows == MAX_ROWS || (!p && !n)) return b->n_rows < MAX_ROWS;
    BenchRow *row = &b->rows[b->n_rows++];
    row->test = (BenchTest){p, n, d, batch, (int)threads};
    bench_name(row);
    return true;
}

static bool plan_rows(Bench *b, Err *err) {
    bool ok = true;
    b->rows = arena_array(&b->arena, BenchRow, MAX_ROWS);
    if (!b->rows) return err_nomem(err, "the benchmark");
    for (size_t t = 0; t < b->threads.n; t++)
        for (size_t d = 0; d < b->depths.n; d++)
            for (size_t s = 0; s < b->batches.n; s++) {
                uint32_t depth = b->depths.v[d], batch = b->batches.v[s], threads = b->threads.v[t];
                for (size_t i = 0; i < b->prompts.n; i++)
                    ok = add_row(b, b->prompts.v[i], 0, depth, batch, threads) && ok;
                for (size_t i = 0; i < b->answers.n; i++)
                    ok = add_row(b, 0, b->answers.v[i], depth, batch, threads) && ok;
                for (size_t i = 0; i < b->pair_prompts.n; i++)
                    ok = add_row(b, b->pair_prompts.v[i], b->pair_answers.v[i], depth, batch,
                                 threads) &&
                         ok;
            }
    return (ok || err_set(err, ERR_LIMIT, "more than %d tests", MAX_ROWS)) &&
           (b->n_rows || err_set(err, ERR_INPUT, "no test: -p and -n are both 0"));
}

/* Room for the largest test of a thread count, every sequence beginning a page of its own. */
static void engine_size(const Bench *b, int threads, mlxcel_engine_options *o) {
    for (size_t i = 0; i < b->n_rows; i++) {
        const BenchTest *t = &b->rows[i].test;
        if (t->n_threads != threads) continue;
        uint64_t each = (uint64_t)t->n_depth + t->n_prompt + t->n_gen + 2 + 2 * PAGE,
                 all = each * t->n_batch;
        if (all > o->n_ctx) o->n_ctx = all;
        if (t->n_batch > o->n_parallel) o->n_parallel = t->n_batch;
    }
}

static int run_rows(Bench *b, BenchEngine *e, int threads, const mlxcel_engine_options *o,
                    const mlxcel_machine *m) {
    mlxcel_error why;
    mlxcel_budget budget;
    if (!mlxcel_model_budget(e->model, o, &budget, &why)) return cli_fail(&why);
    for (size_t i = 0; i < b->n_rows; i++) {
        BenchRow *row = &b->rows[i];
        if (row->test.n_threads != threads) continue;
        if (!bench_run(e, row, (size_t)args_int(b->args, "repetitions", 5),
                       !args_flag(b->args, "no-warmup"), &b->arena, &why))
            return interrupted() ? CLI_INTERRUPTED : cli_fail(&why);
        if (m) bench_share(e, row, m, budget.cache_per_token);
        row->test.n_threads = mlxcel_model_threads(e->model);
        if (term_stderr())
            cli_note("%s, %d threads: %.2f tok/s", row->name, row->test.n_threads, row->avg_ts);
    }
    return CLI_OK;
}

static void describe(Bench *b, const mlxcel_model *model) {
    BenchReport *r = &b->report;
    Str arch = str_c(mlxcel_model_architecture(model)), q = str_c(mlxcel_model_quantization(model));
    Str backend = str_c(mlxcel_model_backend(model)), isa = str_c(mlxcel_model_isa(model));
    r->arch = arena_dupz(&b->arena, arch);
    r->quantization = arena_dupz(&b->arena, q);
    r->backend = arena_dupz(&b->arena, backend);
    r->isa = arena_dupz(&b->arena, isa);
    r->n_params = mlxcel_model_n_params(model);
    r->file_bytes = mlxcel_model_file_bytes(model);
}

/* All tests with one number of threads: the model is opened for it. */
static int run_threads(Bench *b, const char *path, uint32_t threads) {
    mlxcel_error why;
    BenchEngine e = {.random = 42};
    mlxcel_model_options mo = mlxcel_model_options_default();
    mlxcel_engine_options o = mlxcel_engine_options_default();
    mlxcel_machine *m = NULL;
    mo.threads = (int)threads;
    mo.isa = args_text(b->args, "isa");
    if (!args_flag(b->args, "json")) mo.progress = progress_of_loading;
    progress_begin(progress_delay());
    if (args_text(b->args, "backend")) mo.backend = args_text(b->args, "backend");
    o.prefill_chunk = b->report.chunk;
    o.cache_type_k = b->report.type_k;
    o.cache_type_v = b->report.type_v;
    engine_size(b, (int)threads, &o);
    int status = mlxcel_model_open(path, &mo, &e.model, &why) ? CLI_OK : cli_fail(&why);
    if (status == CLI_OK && b->measure_machine) {
        m = &b->machines[b->n_machines++];
        if (!mlxcel_machine_measure((int)threads, mo.isa, m, &why)) status = cli_fail(&why);
    }
    if (status == CLI_OK && !mlxcel_engine_open(e.model, &o, &e.engine, &why))
        status = cli_fail(&why);
    if (status == CLI_OK) status = run_rows(b, &e, (int)threads, &o, m);
    if (status == CLI_OK) describe(b, e.model);
    mlxcel_engine_close(e.engine);
    mlxcel_model_close(e.model);
    return status;
}

static int print(Bench *b, const char *format) {
    Buf out = {0};
    Err err = {0};
    BenchReport *r = &b->report;
    r->rows = b->rows;
    r->n_rows = b->n_rows;
    r->machines = b->machines;
    r->n_machines = b->n_machines;
    if (format)
        bench_print(r, format, &out);
    else
        bench_print_document(r, &out);
    bool ok = buf_check(&out, "the report", &err);
    if (ok) out_put(buf_str(&out));
    buf_deinit(&out);
    return ok ? CLI_OK : cli_fail_err(&err);
}

int cmd_bench(const Args *a) {
    Bench b = {.args = a};
    Err err = {0};
    bool json = args_flag(a, "json");
    const char *format = args_text(a, "output"), *path = flags_model(a);
    if (!path) return CLI_USAGE;
    if (!format && !json) format = "md";
    if (format && !bench_print(NULL, format, NULL))
        return cli_usage("-o is \"%s\"; md, csv, json and jsonl are accepted", format);
    if (format && json) return cli_usage("-o and --json are both given; one of them is accepted");
    b.report = (BenchReport){.path = path,
                             .chunk = (uint32_t)args_int(a, "batch-size", DEFAULT_CHUNK),
                             .type_k = "f16",
                             .type_v = "f16"};
    if (args_text(a, "cache-type-k")) b.report.type_k = args_text(a, "cache-type-k");
    if (args_text(a, "cache-type-v")) b.report.type_v = args_text(a, "cache-type-v");
    b.measure_machine = !args_flag(a, "no-ceilings") && (json || strcmp(format, "md") == 0);
    int status = read_lists(&b, &err) && plan_rows(&b, &err) ? CLI_OK : cli_usage("%s", err.msg);
    for (size_t t = 0; status == CLI_OK && t < b.threads.n; t++)
        status = run_threads(&b, path, b.threads.v[t]);
    if (status == CLI_OK) status = print(&b, format);
    arena_deinit(&b.arena);
    return status;
}
