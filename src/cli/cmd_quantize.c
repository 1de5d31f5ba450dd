/* quantize: a model in another form: MLX's layout, quantized or not, or a GGUF. */
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/term.h"
#include "json/json_writer.h"

static bool show(void *ctx, const char *tensor, uint64_t done, uint64_t total) {
    (void)ctx;
    if (interrupted()) return false;
    progress_show(done, total, tensor);
    return true;
}

static double gb(uint64_t bytes) { return (double)bytes / 1e9; }

static void print_text(const char *out, const mlxcel_quantize_report *r) {
    Buf b = {0};
    double bits = r->n_weights ? 8.0 * (double)r->bytes_out / (double)r->n_weights : 0;
    buf_putf(&b,
             "%s: %llu tensors, %llu of them quantized; %.3f GB of %.3f, %.2f bits per weight\n",
             out, (unsigned long long)r->n_tensors, (unsigned long long)r->n_quantized,
             gb(r->bytes_out), gb(r->bytes_in), bits);
    if (r->was_quantized) buf_putf(&b, "the input was quantized: it was decoded first\n");
    if (r->n_odd)
        buf_putf(&b, "%llu matrices stay floats: their rows are no whole groups\n",
                 (unsigned long long)r->n_odd);
    out_put(buf_str(&b));
    buf_deinit(&b);
}

static void print_json(const char *out, const mlxcel_quantize_report *r) {
    Buf b = {0};
    JsonWriter w = {.out = &b};
    const struct {
        Str key;
        uint64_t value;
    } numbers[] = {{STR("tensors"), r->n_tensors},    {STR("quantized"), r->n_quantized},
                   {STR("left_as_floats"), r->n_odd}, {STR("bytes_in"), r->bytes_in},
                   {STR("bytes_out"), r->bytes_out},  {STR("weights"), r->n_weights}};
    json_w_object(&w);
    json_w_key(&w, STR("out"));
    json_w_str(&w, str_c(out));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        json_w_key(&w, numbers[i].key);
        json_w_u64(&w, numbers[i].value);
    }
    json_w_key(&w, STR("was_quantized"));
    json_w_bool(&w, r->was_quantized);
    json_w_end(&w);
    buf_putc(&b, '\n');
    out_put(buf_str(&b));
    buf_deinit(&b);
}

/* Flags that say opposite things are wrong usage; NULL: none do. */
static const char *contradiction(const Args *a) {
    static const char *const OF_MLX[] = {"mode", "bits", "group-size", "predicate"};
    bool gguf = args_has(a, "gguf"), plain = args_flag(a, "dequantize");
    if (gguf && plain) return "--gguf and --dequantize are two different forms";
    if (gguf && args_has(a, "dtype")) return "--dtype is for MLX checkpoints; --gguf names a type";
    for (size_t i = 0; i < sizeof OF_MLX / sizeof *OF_MLX; i++) {
        if (gguf && args_has(a, OF_MLX[i]))
            return "--mode, --bits, --group-size and --predicate do not go with --gguf";
        if (plain && args_has(a, OF_MLX[i]))
            return "--mode, --bits, --group-size and --predicate do not go with --dequantize";
    }
    if (args_has(a, "predicate") && args_has(a, "bits"))
        return "--predicate chooses the bits itself: no --bits with it";
    return NULL;
}

int cmd_quantize(const Args *a) {
    mlxcel_error why;
    mlxcel_quantize_report r;
    mlxcel_quantize_options o = mlxcel_quantize_options_default();
    const char *in = flags_model(a), *out = args_text(a, "output"), *wrong = contradiction(a);
    if (!in) return CLI_USAGE;
    if (!out) return cli_usage("no output given: -o OUT");
    if (wrong) return cli_usage("%s", wrong);
    if (args_has(a, "mode")) o.mode = args_text(a, "mode");
    o.bits = (int)args_int(a, "bits", 0);
    o.group_size = (int)args_int(a, "group-size", 0);
    o.predicate = args_text(a, "predicate");
    o.gguf = args_text(a, "gguf");
    o.dtype = args_text(a, "dtype");
    o.dequantize = args_flag(a, "dequantize");
    o.force = args_flag(a, "force");
    o.threads = (int)args_int(a, "threads", 0);
    progress_begin(progress_delay());
    interrupt_hold(true);
    bool ok = mlxcel_quantize(in, out, &o, show, NULL, &r, &why);
    interrupt_hold(false);
    progress_hide();
    if (!ok) return interrupted() ? CLI_INTERRUPTED : cli_fail(&why);
    if (args_flag(a, "json"))
        print_json(out, &r);
    else
        print_text(out, &r);
    return CLI_OK;
}
