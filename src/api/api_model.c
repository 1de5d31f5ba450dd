/* Models and engines of mlxcel.h. */
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "hub/hub_find.h"

mlxcel_model_options mlxcel_model_options_default(void) {
    return (mlxcel_model_options){.size = sizeof(mlxcel_model_options), .backend = "auto"};
}

/* An older caller's struct is shorter: what it does not have keeps its default. */
static mlxcel_model_options model_options(const mlxcel_model_options *o) {
    mlxcel_model_options all = mlxcel_model_options_default();
    if (o) memcpy(&all, o, o->size < sizeof all ? o->size : sizeof all);
    return all;
}

static bool take_template(mlxcel_model *model, const char *text, Err *err) {
    if (!text) return true;
    size_t n = strlen(text) + 1;
    model->chat_template = mem_alloc(n);
    if (!model->chat_template) return err_nomem(err, "chat template");
    memcpy(model->chat_template, text, n);
    return true;
}

bool mlxcel_model_open(const char *path, const mlxcel_model_options *options, mlxcel_model **out,
                       mlxcel_error *error) {
    Err err = {0};
    const mlxcel_model_options o = model_options(options);
    const ModelOptions mo = {.backend = o.backend,
                             .be = {.n_threads = o.threads, .isa = o.isa},
                             .progress = o.progress,
                             .progress_ctx = o.progress_ctx};
    Arena a = {0};
    Str at;
    mlxcel_model *model = mem_calloc(1, sizeof *model);
    bool ok = model || err_nomem(&err, "model");
    ok = ok && hub_find(str_c(path), &a, &at, &err) &&
         take_template(model, o.chat_template, &err) && model_open(at.p, &mo, &model->m, &err);
    arena_deinit(&a);
    if (ok) return *out = model, true;
    if (model) mem_free(model->chat_template);
    mem_free(model);
    return api_fail(error, &err);
}

bool mlxcel_model_find(const char *name, mlxcel_string **path, mlxcel_error *error) {
    Err err = {0};
    Arena a = {0};
    Str at;
    bool ok =
        hub_find(str_c(name), &a, &at, &err) ? api_text(at, path, error) : api_fail(error, &err);
    arena_deinit(&a);
    return ok;
}

void mlxcel_model_close(mlxcel_model *model) {
    if (!model) return;
    chat_template_close(atomic_load(&model->chat));
    grammar_vocab_free(atomic_load(&model->vocab));
    model_close(model->m);
    mem_free(model->chat_template);
    mem_free(model);
}

uint32_t mlxcel_model_n_vocab(const mlxcel_model *model) { return model->m->arch.vocab; }
uint64_t mlxcel_model_n_ctx(const mlxcel_model *model) { return model->m->arch.context; }
bool mlxcel_model_is_eog(const mlxcel_model *model, uint32_t token) {
    return model_is_eog(model->m, token);
}
bool mlxcel_model_has_tokenizer(const mlxcel_model *model) { return model->m->tok != NULL; }
const char *mlxcel_model_architecture(const mlxcel_model *model) {
    return model->m->arch.arch->name;
}
double mlxcel_model_load_ms(const mlxcel_model *model) {
    return model->m->open_ms + model->m->load_ms;
}

bool mlxcel_model_program(const mlxcel_model *model, mlxcel_string **listing, mlxcel_error *error) {
    Buf out = {0};
    const Program *list[ARCH_MAX_PROGRAMS];
    uint32_t n = arch_programs(&model->m->arch, list);
    for (uint32_t i = 0; i < n; i++) program_dump(list[i], &out);
    return api_string(&out, listing, error);
}

mlxcel_engine_options mlxcel_engine_options_default(void) {
    return (mlxcel_engine_options){.size = sizeof(mlxcel_engine_options),
                                   .n_parallel = 1,
                                   .prefill_chunk = 512,
                                   .cache_type_k = "f16",
                                   .cache_type_v = "f16"};
}

static bool cache_type(const char *name, PlaneType *out, Err *err) {
    return planetype_parse(str_c(name), out) ||
           err_set(err, ERR_INPUT, "cache type \"%s\"; f32, f16, bf16, q8_0 and q4_0 are accepted",
                   name);
}

bool api_engine_options(const mlxcel_engine_options *from, EngineOptions *to, Err *err) {
    mlxcel_engine_options all = mlxcel_engine_options_default();
    if (from) memcpy(&all, from, from->size < sizeof all ? from->size : sizeof all);
    *to = engine_options();
    to->n_ctx = all.n_ctx;
    to->n_slots = all.n_parallel;
    to->prefill_chunk = all.prefill_chunk;
    to->no_prefix_cache = all.no_prefix_cache;
    to->force = all.force;
    to->scores = all.scores;
    return cache_type(all.cache_type_k, &to->k, err) && cache_type(all.cache_type_v, &to->v, err);
}

bool mlxcel_model_budget(const mlxcel_model *model, const mlxcel_engine_options *options,
                         mlxcel_budget *out, mlxcel_error *error) {
    Err err = {0};
    EngineOptions o;
    Budget b;
    if (!api_engine_options(options, &o, &err) || !engine_budget_for(model->m, &o, &b, &err))
        return api_fail(error, &err);
    *out = (mlxcel_budget){.weights = b.weight_bytes,
                           .cache = b.kv_bytes,
                           .state = b.state_bytes,
                           .scratch = b.scratch_bytes,
                           .other = b.other_bytes,
                           .total = b.total_bytes,
                           .available = b.available_bytes,
                           .cache_per_token = b.kv_bytes_per_token,
                           .n_ctx = b.n_ctx};
    return true;
}

bool mlxcel_engine_open(mlxcel_model *model, const mlxcel_engine_options *options,
                        mlxcel_engine **out, mlxcel_error *error) {
    Err err = {0};
    EngineOptions o;
    mlxcel_engine *engine = mem_calloc(1, sizeof *engine);
    if (!engine) err_nomem(&err, "engine");
    if (engine && api_engine_options(options, &o, &err) &&
        engine_open(model->m, &o, &engine->e, &err)) {
        engine->model = model;
        *out = engine;
        return true;
    }
    mem_free(engine);
    return api_fail(error, &err);
}

void mlxcel_engine_close(mlxcel_engine *engine) {
    if (!engine) return;
    engine_close(engine->e);
    mem_free(engine);
}

uint32_t mlxcel_engine_n_ctx(const mlxcel_engine *engine) { return engine_n_ctx(engine->e); }
void mlxcel_engine_drop_cache(mlxcel_engine *engine) { engine_drop_prefixes(engine->e); }
bool mlxcel_engine_step(mlxcel_engine *engine) { return engine_step(engine->e); }

void mlxcel_engine_profile(mlxcel_engine *engine, bool on) {
    engine->model->m->be->api->profile(engine_exec(engine->e), on);
}

bool mlxcel_engine_profile_text(const mlxcel_engine *engine, mlxcel_string **out,
                                mlxcel_error *error) {
    const Model *m = engine->model->m;
    const uint64_t *ns = m->be->api->op_ns(engine_exec(engine->e));
    const Program *p = m->arch.text;
    uint64_t by_code[OP_COUNT] = {0}, total = 0;
    uint32_t n[OP_COUNT] = {0};
    for (uint32_t i = 0; ns && i < p->n_ops; i++) {
        by_code[p->ops[i].code] += ns[i];
        n[p->ops[i].code]++;
        total += ns[i];
    }
    Buf text = {0};
    buf_putf(&text, "%-12s %6s %12s %7s\n", "op", "count", "ms", "share");
    for (int c = 0; c < OP_COUNT; c++)
        if (n[c])
            buf_putf(&text, "%-12s %6u %12.3f %6.1f%%\n", opcode_name((OpCode)c), n[c],
                     (double)by_code[c] * 1e-6,
                     total ? 100.0 * (double)by_code[c] / (double)total : 0.0);
    buf_putf(&text, "%-12s %6u %12.3f %6.1f%%\n", "total", p->n_ops, (double)total * 1e-6, 100.0);
    return api_string(&text, out, error);
}
