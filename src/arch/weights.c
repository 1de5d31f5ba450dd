#include "arch/weights.h"

#include <stdio.h>
#include <string.h>


const RoleName ROLE_NAMES[ROLE_COUNT] = {
    [ROLE_EMBED] = {"embed_tokens", "token_embd"},
    [ROLE_HEAD] = {"/lm_head", "output"},
    [ROLE_FINAL_NORM] = {"norm", "output_norm"},
    [ROLE_ROPE_FREQS] = {NULL, "rope_freqs"},
    [ROLE_ATTN_NORM] = {"layers.%d.input_layernorm", "blk.%d.attn_norm"},
    [ROLE_Q] = {"layers.%d.self_attn.q_proj", "blk.%d.attn_q"},
    [ROLE_K] = {"layers.%d.self_attn.k_proj", "blk.%d.attn_k"},
    [ROLE_V] = {"layers.%d.self_attn.v_proj", "blk.%d.attn_v"},
    [ROLE_O] = {"layers.%d.self_attn.o_proj", "blk.%d.attn_output"},
    [ROLE_Q_NORM] = {"layers.%d.self_attn.q_norm", "blk.%d.attn_q_norm"},
    [ROLE_K_NORM] = {"layers.%d.self_attn.k_norm", "blk.%d.attn_k_norm"},
    [ROLE_FFN_NORM] = {"layers.%d.post_attention_layernorm", "blk.%d.ffn_norm"},
    [ROLE_GATE] = {"layers.%d.mlp.gate_proj", "blk.%d.ffn_gate"},
    [ROLE_UP] = {"layers.%d.mlp.up_proj", "blk.%d.ffn_up"},
    [ROLE_DOWN] = {"layers.%d.mlp.down_proj", "blk.%d.ffn_down"},
};

/* Where the text model's tensors may hang, longest first; "" is a bare model. The head hangs beside "model.". */
static const char *const PREFIXES[] = {"model.", "", "language_model.model.", "model.language_model."};

enum { MAX_NAME = 256 };

struct WeightTable {
    const Checkpoint *ck;
    const RoleName *names;
    const char *const *ignored;
    Arena *a;
    Str prefix;    /* of the HF names */
    bool *used;    /* per checkpoint tensor */
    ArchWeight *weights;
    uint32_t n_weights, cap;
    Err err;
};

static const char *role_pattern(const WeightTable *t, Role role) {
    return t->ck->kind == CKPT_GGUF ? t->names[role].gguf : t->names[role].hf;
}

/* The tensor's full name; false where this kind of file has none for the role. */
static bool role_name(const WeightTable *t, Role role, int layer, const char *suffix, char out[MAX_NAME]) {
    const char *pattern = role_pattern(t, role);
    if (!pattern) return false;
    bool from_root = pattern[0] == '/' || t->ck->kind == CKPT_GGUF;
    if (pattern[0] == '/') pattern++;
    Str prefix = from_root ? STR_NONE : t->prefix, p = str_c(pattern), number = STR_NONE;
    char digits[16];
    size_t hole = str_find(p, STR("%d"), 0);
    Str tail = STR_NONE;
    if (hole != STR_NPOS) {
        number = (Str){digits, (size_t)snprintf(digits, sizeof digits, "%d", layer)};
        tail = str_from(p, hole + 2);
        p.n = hole;
    }
    int n = snprintf(out, MAX_NAME, "%.*s%.*s%.*s%.*s%s", (int)prefix.n, prefix.n ? prefix.p : "", (int)p.n, p.p, (int)number.n,
                     number.n ? number.p : "", (int)tail.n, tail.n ? tail.p : "", suffix);
    return n > 0 && n < MAX_NAME;
}

static const CkptTensor *role_find(const WeightTable *t, Role role, int layer, const char *suffix) {
    char name[MAX_NAME];
    return role_name(t, role, layer, suffix, name) ? checkpoint_find(t->ck, str_c(name)) : NULL;
}

static void prefix_find(WeightTable *t) {
    for (size_t i = 0; i < sizeof PREFIXES / sizeof *PREFIXES; i++) {
        t->prefix = str_c(PREFIXES[i]);
        if (role_find(t, ROLE_EMBED, -1, ".weight")) return;
    }
    t->prefix = str_c(PREFIXES[0]);
}

WeightTable *weights_new(const Checkpoint *ck, const RoleName *names, const char *const *ignored, Arena *a) {
    WeightTable *t = arena_new(a, WeightTable);
    if (!t) return NULL;
    *t = (WeightTable){.ck = ck, .names = names, .ignored = ignored, .a = a};
    t->used = arena_array(a, bool, ck->n_tensors + 1);
    if (!t->used) return NULL;
    prefix_find(t);
    return t;
}

bool weights_has(const WeightTable *t, Role role, int layer, const char *suffix) {
    return role_find(t, role, layer, suffix) != NULL;
}

uint32_t weights_rows(const WeightTable *t, Role role, int layer) {
    const CkptTensor *ct = role_find(t, role, layer, ".weight");
    return ct && ct->n_dims >= 1 && ct->shape[0] <= INT32_MAX ? (uint32_t)ct->shape[0] : 0;
}

typedef struct Fetch { /* ctx of a source's reader: which tensor each part of the matrix is */
    const Checkpoint *ck;
    const CkptTensor *part[QPART_COUNT];
} Fetch;

static bool fetch_bytes(void *ctx, QPartId part, uint64_t from, uint64_t n_bytes, void *out, Err *err) {
    const Fetch *f = ctx;
    return checkpoint_read(f->ck, f->part[part], from, out, n_bytes, err);
}

static void put_shape(char out[96], const uint64_t *shape, int n_dims) {
    size_t n = 0;
    out[n++] = '[';
    for (int i = 0; i < n_dims && n < 80; i++)
        n += (size_t)snprintf(out + n, 96 - n, i ? ", %llu" : "%llu", (unsigned long long)shape[i]);
    snprintf(out + n, 96 - n, "]");
}

static bool shape_fits(const CkptTensor *ct, WeightKind kind, uint32_t n, uint32_t k, Err *err) {
    /* Unused GGUF dimensions are 1. */
    int dims = ct->n_dims;
    uint64_t shape[CKPT_MAX_DIMS] = {0};
    memcpy(shape, ct->shape, sizeof shape);
    const uint64_t *s = shape;
    while (dims > (kind == WEIGHT_VECTOR ? 1 : 2) && s[0] == 1) s++, dims--;
    bool ok = kind == WEIGHT_VECTOR ? dims == 1 && s[0] == k : dims == 2 && s[0] == n && s[1] == k;
    if (ok) return true;
    char got[96], want[96];
    const uint64_t expected[2] = {kind == WEIGHT_VECTOR ? k : n, k};
    put_shape(got, ct->shape, ct->n_dims);
    put_shape(want, expected, kind == WEIGHT_VECTOR ? 1 : 2);
    return err_set(err, ERR_CORRUPT, "tensor " STR_F " has shape %s, the config asks for %s", STR_A(ct->name), got, want);
}

static bool mark_used(WeightTable *t, const CkptTensor *ct) {
    t->used[ct - t->ck->tensors] = true;
    return true;
}

/* Rows within each head: stored (pair i, half j) at 2i + j; logical at j * d/2 + i. */
static uint32_t *unpermute_map(Arena *a, uint32_t n, uint32_t head_dim) {
    uint32_t *map = arena_array(a, uint32_t, n);
    uint32_t half = head_dim / 2;
    for (uint32_t r = 0; map && r < n; r++) {
        uint32_t in_head = r % head_dim;
        map[r] = r - in_head + (in_head % half) * 2 + in_head / half;
    }
    return map;
}

static bool part_take(WeightTable *t, WeightKind kind, int layer, const char *suffix, const TakePart *p, WeightSource *out) {
    char name[MAX_NAME];
    if (!role_name(t, p->role, layer, suffix, name))
        return err_set(&t->err, ERR_UNSUPPORTED, "GGUF files have no tensor for role %d", (int)p->role);
    const CkptTensor *ct = checkpoint_find(t->ck, str_c(name));
    if (!ct) return err_set(&t->err, ERR_CORRUPT, "tensor %s is missing", name);
    if (!shape_fits(ct, kind, p->n, p->k, &t->err)) return false;
    const DTypeInfo *info = dtype_info(ct->dtype);
    if (!info->is_float && !info->is_blocked)
        return err_set(&t->err, ERR_UNSUPPORTED, "tensor %s has type %s; floats and GGUF block types are accepted", name,
                       info->name);
    mark_used(t, ct);
    Fetch *f = arena_new(t->a, Fetch);
    WForm *form = arena_new(t->a, WForm);
    const char *kept = arena_dupz(t->a, ct->name);
    if (!f || !form || !kept) return err_nomem(&t->err, "weight table");
    *f = (Fetch){.ck = t->ck, .part = {[QPART_WEIGHT] = ct}};
    const uint64_t shape[2] = {kind == WEIGHT_VECTOR ? 1 : p->n, p->k};
    *out = (WeightSource){.n = (uint32_t)shape[0], .k = p->k, .form = form, .fetch = fetch_bytes, .ctx = f, .name = kept};
    out->m = (QMatrix){.format = QFORMAT_ROWS, .n = shape[0], .k = p->k};
    out->m.part[QPART_WEIGHT] = qpart_of(ct->dtype, 2, shape, NULL, ct->n_bytes);
    if (!wform_init(form, &out->m, t->a, &t->err)) return err_wrap(&t->err, "tensor %s", name);
    if (p->transform == TRANSFORM_UNPERMUTE && t->ck->kind == CKPT_GGUF) {
        if (kind == WEIGHT_VECTOR) return err_set(&t->err, ERR_UNSUPPORTED, "tensor %s: a permuted bias", name);
        out->row_map = unpermute_map(t->a, p->n, p->head_dim);
        if (!out->row_map) return err_nomem(&t->err, "weight table");
    }
    return true;
}

static bool table_grow(WeightTable *t) {
    if (t->n_weights < t->cap) return true;
    uint32_t cap = t->cap ? t->cap * 2 : 256;
    ArchWeight *w = arena_array(t->a, ArchWeight, cap);
    if (!w) return err_nomem(&t->err, "weight table");
    if (t->n_weights) memcpy(w, t->weights, t->n_weights * sizeof *w);
    t->weights = w;
    t->cap = cap;
    return true;
}

int32_t weights_take(WeightTable *t, WeightKind kind, int layer, const char *suffix, const TakePart *parts, int n_parts) {
    if (t->err.kind) return -1;
    /* A tensor asked for twice (tied embeddings) is one source. */
    char name[MAX_NAME];
    if (n_parts == 1 && role_name(t, parts[0].role, layer, suffix, name))
        for (uint32_t i = 0; i < t->n_weights; i++)
            if (t->weights[i].n_parts == 1 && str_eqc(str_c(t->weights[i].parts[0].name), name)) return (int32_t)i;
    WeightSource *src = arena_array(t->a, WeightSource, (size_t)n_parts);
    if (!src || !table_grow(t)) {
        err_nomem(&t->err, "weight table");
        return -1;
    }
    for (int i = 0; i < n_parts; i++)
        if (!part_take(t, kind, layer, suffix, &parts[i], &src[i])) return -1;
    t->weights[t->n_weights] = (ArchWeight){kind, src, n_parts, src[0].name};
    return (int32_t)t->n_weights++;
}

const double *weights_values(WeightTable *t, Role role, int layer, const char *suffix, uint32_t n) {
    const TakePart part = {.role = role, .n = 1, .k = n};
    WeightSource src;
    if (t->err.kind || !part_take(t, WEIGHT_VECTOR, layer, suffix, &part, &src)) return NULL;
    float *x = arena_array(t->a, float, n);
    double *out = arena_array(t->a, double, n);
    WeightScratch sc = {0};
    bool ok = x && out && wsource_f32(&src, 0, 1, x, &sc, &t->err);
    wsource_scratch_deinit(&sc);
    for (uint32_t i = 0; ok && i < n; i++) out[i] = x[i];
    return ok ? out : NULL;
}

void weights_ignore(WeightTable *t, Role role, int layer) {
    static const char *const SUFFIXES[] = {".weight", ".bias", ".scales", ".biases"};
    for (size_t i = 0; i < sizeof SUFFIXES / sizeof *SUFFIXES; i++) {
        const CkptTensor *ct = role_find(t, role, layer, SUFFIXES[i]);
        if (ct) mark_used(t, ct);
    }
}

/* '*' matches any run of characters: on a mismatch the last star takes one more. */
static bool glob(const char *pattern, Str s) {
    Str p = str_c(pattern);
    size_t i = 0, j = 0, star = STR_NPOS, from = 0;
    while (j < s.n) {
        if (i < p.n && p.p[i] == '*') {
            star = i++;
            from = j;
        } else if (i < p.n && p.p[i] == s.p[j]) {
            i++, j++;
        } else if (star != STR_NPOS) {
            i = star + 1;
            j = ++from;
        } else {
            return false;
        }
    }
    while (i < p.n && p.p[i] == '*') i++;
    return i == p.n;
}

bool weights_finish(WeightTable *t, Err *err) {
    if (t->err.kind) {
        if (err) *err = t->err;
        return false;
    }
    for (size_t i = 0; i < t->ck->n_tensors; i++) {
        bool known = t->used[i];
        for (size_t g = 0; !known && t->ignored && t->ignored[g]; g++) known = glob(t->ignored[g], t->ck->tensors[i].name);
        if (!known)
            return err_set(err, ERR_CORRUPT, "tensor " STR_F " belongs to no part of this architecture (" STR_F ")",
                           STR_A(t->ck->tensors[i].name), STR_A(t->ck->config.model_type));
    }
    return true;
}

uint32_t weights_count(const WeightTable *t) { return t->n_weights; }
const ArchWeight *weights_get(const WeightTable *t, int32_t source) { return &t->weights[source]; }
