/* What there is to know about a model without running it: shapes, tensors, work per token,
 * memory. */
#include <string.h>

#include "api/api.h"
#include "backend/host.h"
#include "json/json_writer.h"

static void put_str(JsonWriter *w, const char *key, Str v) {
    json_w_key(w, str_c(key));
    json_w_str(w, v);
}

static void put_u64(JsonWriter *w, const char *key, uint64_t v) {
    json_w_key(w, str_c(key));
    json_w_u64(w, v);
}

void api_put_tensor(JsonWriter *w, const CkptTensor *t, const Str *files) {
    json_w_object(w);
    put_str(w, "name", t->name);
    put_str(w, "dtype", str_c(dtype_info(t->dtype)->name));
    json_w_key(w, STR("shape"));
    json_w_array(w);
    for (int i = 0; i < t->n_dims; i++) json_w_u64(w, t->shape[i]);
    json_w_end(w);
    put_u64(w, "offset", t->offset);
    put_u64(w, "bytes", t->n_bytes);
    if (files) put_str(w, "file", files[t->i_file]);
    json_w_end(w);
}

static uint64_t elements(const CkptTensor *t) {
    uint64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->shape[i];
    return n;
}

uint64_t mlxcel_model_n_params(const mlxcel_model *model) {
    const WeightTable *t = model->m->arch.weights;
    uint64_t n = 0;
    for (uint32_t i = 0; i < weights_count(t); i++) {
        const ArchWeight *w = weights_get(t, (int32_t)i);
        for (int p = 0; p < w->n_parts; p++) n += (uint64_t)w->parts[p].n * w->parts[p].k;
    }
    return n;
}

uint64_t mlxcel_model_file_bytes(const mlxcel_model *model) { return model->m->ck->tensor_bytes; }
const char *mlxcel_model_backend(const mlxcel_model *model) { return model->m->be->api->name; }
const char *mlxcel_model_isa(const mlxcel_model *model) {
    return model->m->be->api->isa(model->m->be);
}

int mlxcel_model_threads(const mlxcel_model *model) {
    return pool_n_threads(((const HostBackend *)(const void *)model->m->be)->pool);
}

/* The storage type that most of the file's bytes have; where the configuration names a method,
 * that. */
const char *mlxcel_model_quantization(const mlxcel_model *model) {
    const Checkpoint *ck = model->m->ck;
    uint64_t bytes[DTYPE_COUNT] = {0};
    DType most = DTYPE_NONE;
    for (size_t i = 0; i < ck->n_tensors; i++)
        bytes[ck->tensors[i].dtype] += ck->tensors[i].n_bytes;
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (bytes[t] > bytes[most]) most = (DType)t;
    const WeightTable *t = model->m->arch.weights;
    for (uint32_t i = 0; ck->quantization && i < weights_count(t); i++) {
        QFormat f = weights_get(t, (int32_t)i)->parts[0].m.format;
        if (f != QFORMAT_ROWS) return qformat_name(f);
    }
    return dtype_info(most)->name;
}

void mlxcel_model_work(const mlxcel_model *model, mlxcel_work *out) {
    const Model *m = model->m;
    const Program *p = m->arch.text;
    *out = (mlxcel_work){0};
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const Op *op = &p->ops[i];
        if (op->code != OP_LINEAR) continue;
        const ProgWeight *w = &p->weights[op->w[0]];
        const ArchWeight *source = weights_get(m->arch.weights, w->source);
        uint64_t macs = (uint64_t)w->n * w->k;
        out->weight_bytes +=
            m->be->api->weight_bytes(m->be, source->kind, source->parts, source->n_parts);
        out->macs += macs;
        if (p->vals[op->out].space == SPACE_R) out->head_macs += macs;
    }
}

static void put_config(JsonWriter *w, const Model *m) {
    static const char *const KEYS[] = {"num_attention_heads",
                                       "num_key_value_heads",
                                       "head_dim",
                                       "intermediate_size",
                                       "max_position_embeddings",
                                       "sliding_window",
                                       "num_experts|num_local_experts",
                                       "num_experts_per_tok"};
    static const char *const NAMES[] = {"n_heads",   "n_kv_heads",    "head_dim",
                                        "n_ff",      "max_positions", "window",
                                        "n_experts", "n_experts_used"};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        int64_t v;
        Err ignored = {0}; /* some families have lists here: left out */
        if (config_has(&m->ck->config, KEYS[i]) &&
            config_int(&m->ck->config, KEYS[i], 0, INT64_MIN + 1, INT64_MAX, &v, &ignored)) {
            json_w_key(w, str_c(NAMES[i]));
            json_w_i64(w, v);
        }
    }
}

static void put_model(JsonWriter *w, const mlxcel_model *model) {
    const Model *m = model->m;
    put_str(w, "path", m->ck->path);
    put_str(w, "format", m->ck->kind == CKPT_GGUF ? STR("gguf") : STR("safetensors"));
    put_str(w, "architecture", str_c(m->arch.arch->name));
    put_str(w, "model_type", m->ck->config.model_type);
    put_str(w, "kind", str_c(m->arch.arch->kind));
    if (m->arch.media) put_str(w, "media", str_c(m->arch.media->kind));
    put_u64(w, "n_layers", m->arch.n_layers);
    put_u64(w, "hidden_size", m->arch.hidden);
    put_u64(w, "vocab_size", m->arch.vocab);
    put_u64(w, "n_ctx_train", m->arch.context);
    put_config(w, m);
    put_u64(w, "n_params", mlxcel_model_n_params(model));
    put_str(w, "quantization", str_c(mlxcel_model_quantization(model)));
    put_str(w, "tokenizer", m->tok ? str_c(tokenizer_kind(m->tok)) : STR_NONE);
    put_str(w, "backend", str_c(m->be->api->name));
    put_str(w, "isa", str_c(m->be->api->isa(m->be)));
    put_u64(w, "threads", (uint64_t)mlxcel_model_threads(model));
}

/* score_bytes: the total of an engine that scores. */
static void put_plan(JsonWriter *w, const Budget *b, const EngineOptions *o, uint64_t score_bytes) {
    json_w_object(w);
    put_u64(w, "weights_bytes", b->weight_bytes);
    put_u64(w, "kv_bytes_total", b->kv_bytes);
    put_u64(w, "kv_bytes_per_token", b->kv_bytes_per_token);
    if (b->state_bytes) {
        put_u64(w, "state_bytes", b->state_bytes);
        put_u64(w, "n_states", b->planes.n_states);
    }
    put_u64(w, "activation_bytes", b->scratch_bytes);
    put_u64(w, "other_bytes", b->other_bytes);
    put_u64(w, "total_bytes", b->total_bytes);
    put_u64(w, "budget_bytes", b->available_bytes);
    put_u64(w, "score_total_bytes", score_bytes);
    json_w_key(w, STR("fits"));
    json_w_bool(w, b->total_bytes <= b->available_bytes);
    put_u64(w, "n_ctx", b->n_ctx);
    put_u64(w, "n_parallel", o->n_slots);
    put_str(w, "cache_type_k", str_c(planetype_name(o->k)));
    put_str(w, "cache_type_v", str_c(planetype_name(o->v)));
    json_w_end(w);
}

/* The largest context that would fit with a pair of cache types; 0: not even 512 tokens. */
static uint64_t largest_ctx(const Model *m, EngineOptions o, PlaneType type) {
    Budget b;
    Err err = {0};
    o.k = o.v = type;
    o.n_ctx = 512;
    if (!engine_budget_for(m, &o, &b, &err) || b.total_bytes > b.available_bytes) return 0;
    uint64_t spare = b.available_bytes - b.total_bytes,
             most = m->arch.context ? m->arch.context : UINT32_MAX;
    uint64_t n = b.kv_bytes_per_token ? 512 + spare / b.kv_bytes_per_token : most;
    return n < most ? n / 64 * 64 : most;
}

static void put_budget(JsonWriter *w, const Model *m, const Budget *b, const EngineOptions *o) {
    EngineOptions scoring = *o;
    Budget s = *b;
    Err ignored = {0};
    scoring.scores = true;
    if (!engine_budget_for(m, &scoring, &s, &ignored)) s = *b;
    json_w_key(w, STR("budget"));
    put_plan(w, b, o, s.total_bytes);
    json_w_key(w, STR("would_fit"));
    json_w_array(w);
    for (int t = 0; t < PLANE_TYPE_COUNT; t++) {
        EngineOptions other = *o;
        Budget c;
        Err err = {0};
        other.k = other.v = (PlaneType)t;
        if (!engine_budget_for(m, &other, &c, &err)) continue;
        json_w_object(w);
        put_str(w, "cache_type", str_c(planetype_name((PlaneType)t)));
        put_u64(w, "kv_bytes_per_token", c.kv_bytes_per_token);
        put_u64(w, "total_bytes", c.total_bytes);
        json_w_key(w, STR("fits"));
        json_w_bool(w, c.total_bytes <= c.available_bytes);
        put_u64(w, "largest_n_ctx", largest_ctx(m, *o, (PlaneType)t));
        json_w_end(w);
    }
    json_w_end(w);
}

bool mlxcel_model_inspect(const mlxcel_model *model, const mlxcel_engine_options *options,
                          mlxcel_string **json, mlxcel_error *error) {
    Err err = {0};
    EngineOptions o;
    Budget b;
    Buf text = {0};
    JsonWriter w = {.out = &text};
    const Checkpoint *ck = model->m->ck;
    if (!api_engine_options(options, &o, &err)) return api_fail(error, &err);
    /* The budget of the asked context, not of one shrunk until it fits. */
    if (!o.n_ctx) o.n_ctx = model->m->arch.context;
    if (!engine_budget_for(model->m, &o, &b, &err)) return api_fail(error, &err);
    json_w_object(&w);
    put_model(&w, model);
    json_w_key(&w, STR("files"));
    json_w_array(&w);
    for (size_t i = 0; i < ck->n_files; i++) json_w_str(&w, ck->files[i]);
    json_w_end(&w);
    put_u64(&w, "tensor_bytes", ck->tensor_bytes);
    put_budget(&w, model->m, &b, &o);
    put_u64(&w, "n_tensors", ck->n_tensors);
    uint64_t stored = 0;
    for (size_t i = 0; i < ck->n_tensors; i++) stored += elements(&ck->tensors[i]);
    put_u64(&w, "n_stored_elements", stored);
    json_w_key(&w, STR("tensors"));
    json_w_array(&w);
    for (size_t i = 0; i < ck->n_tensors; i++) api_put_tensor(&w, &ck->tensors[i], ck->files);
    json_w_end(&w);
    json_w_end(&w);
    return api_string(&text, json, error);
}

static void put_names(JsonWriter *w, const char *key, const char *const *names) {
    json_w_key(w, str_c(key));
    json_w_array(w);
    for (; names && *names; names++) json_w_str(w, str_c(*names));
    json_w_end(w);
}

static void put_family(JsonWriter *w, const char *name, const char *kind,
                       const char *const *model_types, const char *const *gguf) {
    json_w_object(w);
    put_str(w, "name", str_c(name));
    put_names(w, "model_types", model_types);
    put_names(w, "gguf", gguf);
    put_str(w, "kind", str_c(kind));
    json_w_end(w);
}

bool mlxcel_arch_json(mlxcel_string **json, mlxcel_error *error) {
    Buf text = {0};
    JsonWriter w = {.out = &text};
    size_t n, n_media;
    const Arch *const *list = arch_list(&n);
    const ArchMedia *const *media = arch_media_list(&n_media);
    json_w_array(&w);
    for (size_t i = 0; i < n; i++)
        put_family(&w, list[i]->name, list[i]->kind, list[i]->model_types, list[i]->gguf);
    for (size_t i = 0; i < n_media; i++)
        put_family(&w, media[i]->name, media[i]->kind, media[i]->model_types, NULL);
    json_w_end(&w);
    return api_string(&text, json, error);
}
