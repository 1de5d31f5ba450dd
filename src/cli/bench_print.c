#include "cli/bench_print.h"

#include <string.h>
#include <time.h>

#include "json/json_writer.h"

static void put_str(JsonWriter *w, const char *key, const char *v) {
    json_w_key(w, str_c(key));
    json_w_str(w, str_c(v));
}

static void put_int(JsonWriter *w, const char *key, uint64_t v) {
    json_w_key(w, str_c(key));
    json_w_u64(w, v);
}

static void put_num(JsonWriter *w, const char *key, double v) {
    json_w_key(w, str_c(key));
    json_w_f64(w, v);
}

static void put_list(JsonWriter *w, const char *key, const double *x, size_t n, bool whole) {
    json_w_key(w, str_c(key));
    json_w_array(w);
    for (size_t i = 0; i < n; i++) {
        if (whole)
            json_w_u64(w, (uint64_t)x[i]);
        else
            json_w_f64(w, x[i]);
    }
    json_w_end(w);
}

static void put_bool(JsonWriter *w, const char *key, bool v) {
    json_w_key(w, str_c(key));
    json_w_bool(w, v);
}

static const char *cpu_of(const BenchReport *r) { return r->n_machines ? r->machines[0].cpu : ""; }

static void now_text(char out[32]) {
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

/* llama-bench's fields, as scripts read them; those that mean nothing here have its defaults. */
static void put_row(JsonWriter *w, const BenchReport *r, const BenchRow *row) {
    char now[32];
    now_text(now);
    json_w_object(w);
    put_str(w, "build_commit", mlxcel_version());
    put_int(w, "build_number", 0);
    put_str(w, "cpu_info", cpu_of(r));
    put_str(w, "gpu_info", "");
    put_str(w, "backends", r->backend);
    put_str(w, "model_filename", r->path);
    Buf type = {0};
    buf_putf(&type, "%s %s", r->arch, r->quantization);
    put_str(w, "model_type", buf_cstr(&type));
    buf_deinit(&type);
    put_int(w, "model_size", r->file_bytes);
    put_int(w, "model_n_params", r->n_params);
    put_int(w, "n_batch", row->test.n_batch > 1 ? row->test.n_batch : r->chunk);
    put_int(w, "n_ubatch", r->chunk);
    put_int(w, "n_threads", (uint64_t)row->test.n_threads);
    put_str(w, "type_k", r->type_k);
    put_str(w, "type_v", r->type_v);
    put_int(w, "n_gpu_layers", 0);
    put_bool(w, "use_mmap", false);
    put_bool(w, "embeddings", false);
    put_int(w, "n_prompt", row->test.n_prompt);
    put_int(w, "n_gen", row->test.n_gen);
    put_int(w, "n_depth", row->test.n_depth);
    put_str(w, "test_time", now);
    put_int(w, "avg_ns", (uint64_t)row->avg_ns);
    put_int(w, "stddev_ns", (uint64_t)row->stddev_ns);
    put_num(w, "avg_ts", row->avg_ts);
    put_num(w, "stddev_ts", row->stddev_ts);
    put_list(w, "samples_ns", row->ns, row->n_samples, true);
    put_list(w, "samples_ts", row->ts, row->n_samples, false);
    json_w_end(w);
}

static void print_json(const BenchReport *r, Buf *out) {
    JsonWriter w = {.out = out, .indent = 2};
    json_w_array(&w);
    for (size_t i = 0; i < r->n_rows; i++) put_row(&w, r, &r->rows[i]);
    json_w_end(&w);
    buf_putc(out, '\n');
}

static void print_jsonl(const BenchReport *r, Buf *out) {
    for (size_t i = 0; i < r->n_rows; i++) {
        JsonWriter w = {.out = out};
        put_row(&w, r, &r->rows[i]);
        buf_putc(out, '\n');
    }
}

/* The members of a row's object, by name or by value, as quoted fields. */
static void put_csv(Buf *out, const BenchReport *r, const BenchRow *row, bool names) {
    Buf text = {0};
    Arena a = {0};
    JsonWriter w = {.out = &text};
    Json *j;
    bool first = true;
    put_row(&w, r, row);
    if (json_parse(buf_str(&text), NULL, &a, &j, NULL)) {
        for (size_t i = 0; i < j->n; i++) {
            const Json *m = &j->items[i];
            if (m->type == JSON_ARRAY) continue;
            Str v = names                   ? m->key
                    : m->type == JSON_TRUE  ? STR("1")
                    : m->type == JSON_FALSE ? STR("0")
                                            : m->text;
            if (!first) buf_putc(out, ',');
            if (!names) buf_putc(out, '"');
            for (size_t k = 0; k < v.n; k++) {
                if (v.p[k] == '"') buf_putc(out, '"');
                buf_putc(out, v.p[k]);
            }
            if (!names) buf_putc(out, '"');
            first = false;
        }
        buf_putc(out, '\n');
    }
    arena_deinit(&a);
    buf_deinit(&text);
}

static void print_csv(const BenchReport *r, Buf *out) {
    for (size_t i = 0; i < r->n_rows; i++) {
        if (i == 0) put_csv(out, r, &r->rows[i], true);
        put_csv(out, r, &r->rows[i], false);
    }
}

static void print_md(const BenchReport *r, Buf *out) {
    double gib = (double)r->file_bytes / (1 << 30);
    bool small = gib < 1;
    buf_put(out, STR("| model                          |       size |     params | backend    | "
                     "threads |            test |"
                     "                  t/s |"));
    buf_put(out, r->n_machines ? STR("        share |\n") : STR("\n"));
    buf_put(out, STR("| ------------------------------ | ---------: | ---------: | ---------- | "
                     "------: | --------------: |"
                     " -------------------: |"));
    buf_put(out, r->n_machines ? STR(" -----------: |\n") : STR("\n"));
    for (size_t i = 0; i < r->n_rows; i++) {
        const BenchRow *row = &r->rows[i];
        Buf model = {0}, speed = {0};
        buf_putf(&model, "%s %s", r->arch, r->quantization);
        buf_putf(&speed, "%.2f ± %.2f", row->avg_ts, row->stddev_ts);
        bool few = r->n_params < 1000000000;
        buf_putf(out, "| %-30s | %6.2f %s | %8.2f %s | %-10s | %7d | %15s | %21s |",
                 buf_cstr(&model), small ? gib * 1024 : gib, small ? "MiB" : "GiB",
                 (double)r->n_params / (few ? 1e6 : 1e9), few ? "M" : "B", r->backend,
                 row->test.n_threads, row->name, buf_cstr(&speed));
        if (r->n_machines && row->bound)
            buf_putf(out, " %4.0f%% %6s |", 100 * row->share, row->bound);
        else if (r->n_machines)
            buf_putf(out, " %12s |", "");
        buf_putc(out, '\n');
        buf_deinit(&model);
        buf_deinit(&speed);
    }
    for (size_t i = 0; i < r->n_machines; i++) {
        const mlxcel_machine *m = &r->machines[i];
        buf_putf(out,
                 "\n%d thread%s of %s, %s: reads %.1f GB/s, int8 %.0f GMAC/s, f32 %.0f GMAC/s\n",
                 m->n_threads, m->n_threads == 1 ? "" : "s", m->cpu, m->isa, m->read_gbs,
                 m->int8_gmacs, m->f32_gmacs);
    }
}

bool bench_print(const BenchReport *r, const char *format, Buf *out) {
    static const struct {
        const char *name;
        void (*print)(const BenchReport *r, Buf *out);
    } FORMATS[] = {
        {"md", print_md}, {"csv", print_csv}, {"json", print_json}, {"jsonl", print_jsonl}};
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++) {
        if (strcmp(FORMATS[i].name, format) != 0) continue;
        if (r) FORMATS[i].print(r, out);
        return true;
    }
    return false;
}

static void put_ceiling(JsonWriter *w, const mlxcel_machine *m) {
    put_int(w, "n_threads", (uint64_t)m->n_threads);
    put_num(w, "read_gbs", m->read_gbs);
    put_num(w, "int8_gmacs", m->int8_gmacs);
    put_num(w, "f32_gmacs", m->f32_gmacs);
}

static void put_machine(JsonWriter *w, const BenchReport *r) {
    json_w_key(w, STR("machine"));
    if (!r->n_machines) {
        json_w_null(w);
        return;
    }
    const mlxcel_machine *m = &r->machines[r->n_machines - 1];
    json_w_object(w);
    put_str(w, "cpu", m->cpu);
    put_str(w, "isa", m->isa);
    put_int(w, "n_cpus", (uint64_t)m->n_cpus);
    put_int(w, "n_cores", (uint64_t)m->n_cores);
    put_int(w, "memory_available_bytes", m->memory_available);
    put_ceiling(w, m);
    json_w_key(w, STR("ceilings"));
    json_w_array(w);
    for (size_t i = 0; i < r->n_machines; i++) {
        json_w_object(w);
        put_ceiling(w, &r->machines[i]);
        json_w_end(w);
    }
    json_w_end(w);
    json_w_end(w);
}

void bench_print_document(const BenchReport *r, Buf *out) {
    JsonWriter w = {.out = out};
    json_w_object(&w);
    json_w_key(&w, STR("rows"));
    json_w_array(&w);
    for (size_t i = 0; i < r->n_rows; i++) {
        const BenchRow *row = &r->rows[i];
        json_w_object(&w);
        put_str(&w, "test", row->name);
        put_int(&w, "n_prompt", row->test.n_prompt);
        put_int(&w, "n_gen", row->test.n_gen);
        put_int(&w, "n_depth", row->test.n_depth);
        put_int(&w, "n_batch", row->test.n_batch);
        put_int(&w, "n_threads", (uint64_t)row->test.n_threads);
        put_num(&w, "avg_ts", row->avg_ts);
        put_num(&w, "stddev_ts", row->stddev_ts);
        put_num(&w, "median_ts", row->median_ts);
        put_list(&w, "samples_ts", row->ts, row->n_samples, false);
        json_w_key(&w, STR("share"));
        if (row->bound)
            json_w_f64(&w, row->share);
        else
            json_w_null(&w);
        json_w_key(&w, STR("bound"));
        if (row->bound)
            json_w_str(&w, str_c(row->bound));
        else
            json_w_null(&w);
        json_w_end(&w);
    }
    json_w_end(&w);
    put_machine(&w, r);
    json_w_key(&w, STR("model"));
    json_w_object(&w);
    put_str(&w, "path", r->path);
    put_str(&w, "architecture", r->arch);
    put_str(&w, "quantization", r->quantization);
    put_int(&w, "n_params", r->n_params);
    put_int(&w, "tensor_bytes", r->file_bytes);
    put_str(&w, "backend", r->backend);
    put_str(&w, "isa", r->isa);
    json_w_end(&w);
    json_w_end(&w);
    buf_putc(out, '\n');
}
