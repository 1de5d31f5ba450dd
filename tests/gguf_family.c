#include "gguf_family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/checkpoint.h"
#include "golden_run.h"
#include "quant/decode.h"

const GgufRule gguf_llama_rules[] = {
    {"lm_head.weight", "output.weight", 0},
    {"model.embed_tokens.weight", "token_embd.weight", 0},
    {"model.norm.weight", "output_norm.weight", 0},
    {"model.layers.%d.input_layernorm.weight", "blk.%d.attn_norm.weight", 0},
    {"model.layers.%d.mlp.down_proj.weight", "blk.%d.ffn_down.weight", 0},
    {"model.layers.%d.mlp.gate_proj.weight", "blk.%d.ffn_gate.weight", 0},
    {"model.layers.%d.mlp.up_proj.weight", "blk.%d.ffn_up.weight", 0},
    {"model.layers.%d.self_attn.o_proj.weight", "blk.%d.attn_output.weight", 0},
    {"model.layers.%d.self_attn.v_proj.weight", "blk.%d.attn_v.weight", 0},
    {0},
};

enum { MAX_OUT = 4096, MAX_NAME = 128 };

typedef struct Out { /* one tensor to write */
    CkptTensor t;
    void *data;
} Out;

typedef struct Maker {
    const GgufFamily *f;
    const GgufEdit *edit;
    const Checkpoint *ck;
    const Json *config;
    GgufOut *out;
    Arena *a;
    Out *list;
    size_t n;
} Maker;

/* ---- keys ---- */

const Json *gguf_family_config(const Json *config, const char *path) {
    Str rest = str_c(path), part;
    const Json *j = config;
    while (j && str_split(&rest, '.', &part)) j = json_find(j, part);
    return j && j->type != JSON_NULL ? j : NULL;
}

static bool is_edited(const Maker *m, const char *key) {
    return m->edit && m->edit->key && strcmp(m->edit->key, key) == 0;
}

/* The sum of numbers at the paths; false: one is absent. */
static bool sum_of(const Json *config, const char *paths, double *out) {
    Str rest = str_c(paths), part;
    *out = 0;
    while (str_split(&rest, '+', &part)) {
        char path[MAX_NAME];
        double v;
        snprintf(path, sizeof path, STR_F, STR_A(part));
        if (!json_f64(gguf_family_config(config, path), &v)) return false;
        *out += v;
    }
    return true;
}

static double gating_number(Str name) {
    return str_eqc(name, "softmax") ? 1 : str_eqc(name, "sigmoid") ? 2 : 4;
}

static void key_put(Maker *m, const GgufKey *k) {
    char name[MAX_NAME];
    const Json *j = k->from ? gguf_family_config(m->config, k->from) : NULL;
    double v = k->value;
    bool flag;
    Str text;
    snprintf(name, sizeof name, "%s.%s", m->f->arch, k->name);
    if (is_edited(m, k->name)) return;
    if (k->kind == KEY_TEXT) {
        if (json_str(j, &text)) gguf_write_str(m->out, name, text);
    } else if (k->kind == KEY_IF) {
        if (json_bool(j, &flag) && flag) gguf_write_bool(m->out, name, true);
    } else if (k->kind == KEY_GATING) {
        if (json_str(j, &text)) gguf_write_u32(m->out, name, (uint32_t)gating_number(text));
    } else if (!k->from || sum_of(m->config, k->from, &v)) {
        if (k->kind == KEY_INT)
            gguf_write_u32(m->out, name, (uint32_t)v);
        else
            gguf_write_f32(m->out, name, (float)(k->kind == KEY_TENTH ? 0.1 * v : v));
    }
}

static void keys_put(Maker *m) {
    gguf_write_str(m->out, "general.architecture", str_c(m->f->arch));
    for (int l = 0; l < GGUF_FAMILY_LISTS && m->f->keys[l]; l++)
        for (const GgufKey *k = m->f->keys[l]; k->name; k++) key_put(m, k);
    if (m->f->more) m->f->more(m->out, m->config);
    if (m->edit && m->edit->put) m->edit->put(m->out);
}

/* ---- tensors ---- */

/* Whether the name is the pattern's, and which layer and expert it is of. */
static bool name_fits(const char *p, Str name, unsigned *layer, unsigned *expert) {
    size_t i = 0;
    *layer = *expert = 0;
    for (; *p; p++) {
        if (p[0] != '%') {
            if (i >= name.n || name.p[i++] != *p) return false;
            continue;
        }
        unsigned *at = *++p == 'd' ? layer : expert;
        size_t from = i;
        for (; i < name.n && name.p[i] >= '0' && name.p[i] <= '9' && i - from < 6; i++)
            *at = *at * 10 + (unsigned)(name.p[i] - '0');
        if (i == from) return false;
    }
    return i == name.n;
}

static Str name_filled(Maker *m, const char *p, unsigned layer, unsigned expert) {
    Buf b = {.max = MAX_NAME};
    for (; *p; p++) {
        if (*p != '%')
            buf_putc(&b, *p);
        else
            buf_putf(&b, "%u", *++p == 'd' ? layer : expert);
    }
    Str out = arena_dup(m->a, buf_str(&b));
    buf_deinit(&b);
    return out;
}

static uint64_t elements(const CkptTensor *t) {
    uint64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->shape[i];
    return n;
}

/* All elements as floats. */
static float *floats_of(Maker *m, const CkptTensor *t, Err *err) {
    uint64_t n = elements(t);
    uint8_t *bytes = arena_array(m->a, uint8_t, t->n_bytes + 1);
    float *x = arena_array(m->a, float, n + 1);
    bool ok = bytes && x && checkpoint_read(m->ck, t, 0, bytes, t->n_bytes, err) &&
              decode_rows(t->dtype, bytes, t->n_bytes, 1, n, x, err);
    return ok ? x : NULL;
}

static int32_t *ints_of(Maker *m, const CkptTensor *t, Err *err) {
    uint64_t n = elements(t);
    int64_t *wide = arena_array(m->a, int64_t, n + 1);
    int32_t *x = arena_array(m->a, int32_t, n + 1);
    if (t->dtype != DTYPE_I64 || !checkpoint_read(m->ck, t, 0, wide, t->n_bytes, err)) return NULL;
    for (uint64_t i = 0; i < n; i++) x[i] = (int32_t)wide[i];
    return x;
}

/* One half of kv_b [heads * (nope + v), rank]. */
static float *head_part(Maker *m, const float *x, bool keys, CkptTensor *t) {
    double nope, v;
    if (!sum_of(m->config, "qk_nope_head_dim", &nope) || !sum_of(m->config, "v_head_dim", &v))
        return NULL;
    uint64_t rank = t->shape[1], each = (uint64_t)(nope + v), heads = t->shape[0] / each;
    uint64_t n = (uint64_t)(keys ? nope : v), first = keys ? 0 : (uint64_t)nope;
    float *out = arena_array(m->a, float, heads *n *rank);
    for (uint64_t i = 0; out && i < heads * n * rank; i++) {
        uint64_t head = i / (n * rank), row = i / rank % n, col = i % rank;
        uint64_t to = keys ? (head * rank + col) * n + row : i;
        out[to] = x[(head * each + first + row) * rank + col];
    }
    t->n_dims = 3;
    t->shape[0] = heads;
    t->shape[1] = keys ? rank : n;
    t->shape[2] = keys ? n : rank;
    return out;
}

static uint32_t config_u32_of(const Maker *m, const char *key) {
    int64_t v = 0;
    (void)json_i64(gguf_family_config(m->config, key), &v);
    return (uint32_t)v;
}

/* (half, pair) of each head as (pair, half). */
static float *permuted(Maker *m, const float *x, uint32_t heads, const CkptTensor *t) {
    uint64_t n = elements(t), cols = t->n_dims > 1 ? t->shape[1] : 1, dim = n / cols / heads;
    float *out = arena_array(m->a, float, n);
    for (uint64_t i = 0; out && i < n; i++) {
        uint64_t row = i / cols, at = row % dim, half = at / (dim / 2), pair = at % (dim / 2);
        out[(row - at + 2 * pair + half) * cols + i % cols] = x[i];
    }
    return out;
}

/* Matrices [e, a, b] one by one: turned round, then of their rows the first half, the second, or
 * all. */
static float *matrices(Maker *m, const float *x, bool turn, int half, CkptTensor *t) {
    uint64_t e = t->shape[0], a = t->shape[turn ? 2 : 1], b = t->shape[turn ? 1 : 2];
    uint64_t n = half < 0 ? a : a / 2, first = half == 1 ? n : 0;
    float *out = arena_array(m->a, float, e *n *b);
    for (uint64_t i = 0; out && i < e * n * b; i++) {
        uint64_t at = i / (n * b), row = first + i / b % n, col = i % b;
        out[i] = x[at * a * b + (turn ? col * a + row : row * b + col)];
    }
    t->shape[1] = n;
    t->shape[2] = b;
    return out;
}

static float *padded(Maker *m, const float *x, CkptTensor *t) {
    uint64_t n = elements(t), rows = config_u32_of(m, "vocab_size"), cols = n / t->shape[0];
    float *out = arena_array(m->a, float, rows *cols + n);
    for (uint64_t i = 0; out && i < rows * cols; i++) out[i] = i < n ? x[i] : 0;
    t->shape[0] = rows;
    return out;
}

static float *reshaped(Maker *m, Change change, float *x, CkptTensor *t) {
    switch (change) {
    case CHANGE_Q:
        return permuted(m, x, config_u32_of(m, "num_attention_heads"), t);
    case CHANGE_K:
        return permuted(m, x, config_u32_of(m, "num_key_value_heads"), t);
    case CHANGE_PAD:
        return padded(m, x, t);
    case CHANGE_TURN:
        return matrices(m, x, true, -1, t);
    case CHANGE_GATE:
    case CHANGE_UP:
        return matrices(m, x, false, change == CHANGE_UP, t);
    case CHANGE_TURN_GATE:
    case CHANGE_TURN_UP:
        return matrices(m, x, true, change == CHANGE_TURN_UP, t);
    default:
        return x;
    }
}

static bool changed(Maker *m, Change change, Out *o, Err *err) {
    const CkptTensor from = o->t;
    if (change == CHANGE_INTS) {
        o->t.dtype = DTYPE_I32;
        o->data = ints_of(m, &from, err);
        return o->data != NULL;
    }
    float *x = floats_of(m, &from, err);
    if (!x) return false;
    o->t.dtype = DTYPE_F32;
    if (change == CHANGE_K_UP || change == CHANGE_V_UP)
        x = head_part(m, x, change == CHANGE_K_UP, &o->t);
    for (uint64_t i = 0; x && i < elements(&from); i++) {
        if (change == CHANGE_NEG_EXP) x[i] = -expf(x[i]);
        if (change == CHANGE_ADD_ONE) x[i] += 1;
    }
    if (change == CHANGE_TAPS) {
        const uint64_t shape[4] = {1, from.shape[0], 1, from.shape[from.n_dims - 1]};
        memcpy(o->t.shape, shape, sizeof shape);
        o->t.n_dims = 4;
    }
    if (change == CHANGE_SQUEEZE) {
        o->t.shape[1] = from.shape[2];
        o->t.n_dims = 2;
    }
    x = x ? reshaped(m, change, x, &o->t) : NULL;
    o->data = x;
    return x || err_set(err, ERR_INPUT, STR_F " cannot be taken apart", STR_A(from.name));
}

/* All experts, which lie in tensors of their own there. */
static bool stacked(Maker *m, const GgufRule *r, unsigned layer, Out *o, Err *err) {
    unsigned n = 0;
    while (checkpoint_find(m->ck, name_filled(m, r->hf, layer, n))) n++;
    uint64_t each = elements(&o->t);
    float *all = arena_array(m->a, float, each *n);
    for (unsigned e = 0; e < n; e++) {
        const CkptTensor *t = checkpoint_find(m->ck, name_filled(m, r->hf, layer, e));
        const float *x = elements(t) == each ? floats_of(m, t, err) : NULL;
        if (!x) return false;
        memcpy(all + e * each, x, each * sizeof *x);
    }
    const uint64_t shape[3] = {n, o->t.shape[0], o->t.shape[1]};
    memcpy(o->t.shape, shape, sizeof shape);
    o->t.n_dims = 3;
    o->t.dtype = DTYPE_F32;
    o->data = all;
    return true;
}

static bool rule_apply(Maker *m, const GgufRule *r, const CkptTensor *t, unsigned layer,
                       unsigned expert, Err *err) {
    bool each = strstr(r->hf, "%e") && !strstr(r->gguf, "%e");
    if (each && expert) return true; /* went with the first */
    Str name = name_filled(m, r->gguf, layer, expert);
    if (m->edit && m->edit->tensor && str_eqc(name, m->edit->tensor)) return true;
    if (m->n == MAX_OUT) return err_set(err, ERR_LIMIT, "more than %d tensors", MAX_OUT);
    Out *o = &m->list[m->n++];
    *o = (Out){.t = *t};
    bool ok = each ? stacked(m, r, layer, o, err) : changed(m, r->change, o, err);
    o->t.name = name;
    return ok;
}

/* The name as the rules have it; none: of a tower. */
static Str text_name(Maker *m, Str name) {
    static const char *const TOWERS[] = {"visual.", "vision_", "projector."};
    for (size_t i = 0; i < sizeof TOWERS / sizeof *TOWERS; i++)
        if (str_find(name, str_c(TOWERS[i]), 0) != STR_NPOS) return STR_NONE;
    Str part = STR("language_model.");
    size_t at = str_find(name, part, 0);
    if (at == STR_NPOS) return name;
    Buf b = {.max = MAX_NAME};
    buf_put(&b, str_slice(name, 0, at));
    buf_put(&b, str_slice(name, at + part.n, name.n));
    Str out = arena_dup(m->a, buf_str(&b));
    buf_deinit(&b);
    return out;
}

static bool tensor_add(Maker *m, const CkptTensor *t, Err *err) {
    unsigned layer, expert;
    bool known = false;
    Str name = text_name(m, t->name);
    if (!name.n) return true;
    for (int l = 0; l < GGUF_FAMILY_LISTS && m->f->rules[l]; l++)
        for (const GgufRule *r = m->f->rules[l]; r->hf; r++) {
            if (!name_fits(r->hf, name, &layer, &expert)) continue;
            known = true;
            if (r->gguf && !rule_apply(m, r, t, layer, expert, err)) return false;
        }
    return known || err_set(err, ERR_INPUT, "no rule for " STR_F, STR_A(t->name));
}

static Out *made(Maker *m, const char *name, unsigned layer) {
    Str wanted = name_filled(m, name, layer, 0);
    for (size_t i = 0; i < m->n; i++)
        if (str_eq(m->list[i].t.name, wanted)) return &m->list[i];
    return NULL;
}

/* The tensors of that many names one behind the other, [n] or [n, k] or, expert by expert, [e, n, k],
 * in the place of the first. */
static void fuse(Maker *m, const char *const *names, int count, const char *to, unsigned layer) {
    Out *parts[3];
    uint64_t each[3], all = 0, rows = 0, at = 0;
    for (int i = 0; i < count; i++) {
        parts[i] = made(m, names[i], layer);
        if (!parts[i]) return;
        all += each[i] = elements(&parts[i]->t);
        rows += parts[i]->t.shape[parts[i]->t.n_dims == 3];
    }
    CkptTensor *t = &parts[0]->t;
    uint64_t n_stack = t->n_dims == 3 ? t->shape[0] : 1;
    float *x = arena_array(m->a, float, all);
    for (uint64_t e = 0; x && e < n_stack; e++)
        for (int i = 0; i < count; i++) {
            uint64_t n = each[i] / n_stack;
            memcpy(x + at, (float *)parts[i]->data + e * n, n * sizeof *x);
            at += n;
        }
    t->shape[t->n_dims == 3] = rows;
    t->name = name_filled(m, to, layer, 0);
    parts[0]->data = x;
    for (int i = 1; i < count; i++) parts[i]->t.name = STR_NONE;
    size_t kept = 0;
    for (size_t i = 0; i < m->n; i++)
        if (m->list[i].t.name.n) m->list[kept++] = m->list[i];
    m->n = kept;
}

static void fuse_all(Maker *m) {
    static const char *const QKV[2][3] = {
        {"blk.%d.attn_q.weight", "blk.%d.attn_k.weight", "blk.%d.attn_v.weight"},
        {"blk.%d.attn_q.bias", "blk.%d.attn_k.bias", "blk.%d.attn_v.bias"}};
    static const char *const EXPERTS[2] = {"blk.%d.ffn_gate_exps.weight",
                                           "blk.%d.ffn_up_exps.weight"};
    for (unsigned i = 0; i < config_u32_of(m, "num_hidden_layers"); i++) {
        fuse(m, QKV[0], 3, "blk.%d.attn_qkv.weight", i);
        fuse(m, QKV[1], 3, "blk.%d.attn_qkv.bias", i);
        fuse(m, EXPERTS, 2, "blk.%d.ffn_gate_up_exps.weight", i);
    }
}

static bool extra_add(Maker *m, Err *err) {
    float *x = arena_array(m->a, float, GGUF_FAMILY_VALUES);
    if (!m->f->extra) return true;
    if (!x || m->n == MAX_OUT) return err_nomem(err, "a tensor");
    if (m->edit && m->edit->tensor && strcmp(m->f->extra, m->edit->tensor) == 0) return true;
    Out *o = &m->list[m->n++];
    o->t = (CkptTensor){.name = str_c(m->f->extra), .dtype = DTYPE_F32, .n_dims = 1};
    o->t.shape[0] = m->f->values(m->config, x);
    o->data = x;
    return true;
}

static bool write_all(Maker *m, const char *path, Err *err) {
    for (size_t i = 0; i < m->ck->n_tensors; i++)
        if (!tensor_add(m, &m->ck->tensors[i], err)) return false;
    if (!extra_add(m, err)) return false;
    if (m->f->fuse) fuse_all(m);
    for (size_t i = 0; i < m->n; i++)
        if (!gguf_write_tensor(m->out, &m->list[i].t, err)) return false;
    if (!gguf_write_open(m->out, path, err)) return false;
    for (size_t i = 0; i < m->n; i++)
        if (!gguf_write_put(m->out, i, 0, m->list[i].data, (size_t)m->out->tensors[i].n_bytes, err))
            return false;
    return gguf_write_finish(m->out, err);
}

bool gguf_family_write(const GgufFamily *f, const char *dir, const char *path, const GgufEdit *edit,
                       Err *err) {
    char file[2400];
    Arena a = {0};
    Checkpoint *ck = NULL;
    GgufOut out;
    snprintf(file, sizeof file, "%s/config.json", dir);
    gguf_write_init(&out, &a);
    Maker m = {.f = f, .edit = edit, .out = &out, .a = &a};
    m.config = json_of(file, &a, err);
    const Json *text = m.config ? json_get(m.config, "text_config") : NULL;
    if (text) m.config = text;
    m.list = arena_array(&a, Out, MAX_OUT);
    bool ok = m.config && m.list && checkpoint_open(dir, &ck, err);
    m.ck = ck;
    if (ok) keys_put(&m);
    ok = ok && write_all(&m, path, err);
    gguf_write_drop(&out);
    if (ck) checkpoint_close(ck);
    arena_deinit(&a);
    return ok;
}
