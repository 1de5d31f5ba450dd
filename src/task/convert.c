/* Converting: opening the input, its tensors as items, and which way to go. */
#include "task/convert.h"

#include <string.h>

#include "base/os.h"
#include "task/convert_plan.h"

bool convert_is_quantized(const WeightSource *s) {
    return s->form->kind != WFORM_PLAIN || s->m.format != QFORMAT_ROWS;
}

bool convert_is_norm(const WeightOrigin *o) {
    static const Role NORMS[] = {ROLE_FINAL_NORM, ROLE_ATTN_NORM,     ROLE_POST_ATTN_NORM,
                                 ROLE_FFN_NORM,   ROLE_POST_FFN_NORM, ROLE_Q_NORM,
                                 ROLE_K_NORM};
    for (size_t i = 0; i < sizeof NORMS / sizeof *NORMS; i++)
        if (o->role == NORMS[i]) return str_eqc(STR(".weight"), o->suffix);
    return false;
}

static const struct {
    const char *name;
    DType type;
} NAMES[] = {{"float16", DTYPE_F16}, {"bfloat16", DTYPE_BF16}, {"float32", DTYPE_F32}};

const char *convert_dtype_name(DType t) {
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (NAMES[i].type == t) return NAMES[i].name;
    return "float32";
}

/* GGUF files keep vectors in f32 whatever the model has: the embeddings tell. */
static DType dtype_of_gguf(const Checkpoint *ck) {
    const CkptTensor *t = checkpoint_find(ck, STR("token_embd.weight"));
    bool plain = t && (t->dtype == DTYPE_F32 || t->dtype == DTYPE_F16);
    return plain ? t->dtype : DTYPE_BF16;
}

static DType dtype_of_config(const Config *c) {
    Str name = STR_NONE;
    if (!json_str(json_get(c->json, "torch_dtype"), &name))
        (void)json_str(json_get(c->json, "dtype"), &name);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (str_eqc(name, NAMES[i].name)) return NAMES[i].type;
    return DTYPE_BF16;
}

DType convertplan_float(const ConvertPlan *p, const ConvertItem *item) {
    if (!item->n_parts) return item->stored->dtype;
    const WeightSource *s = &item->parts[0];
    const CkptTensor *ct = checkpoint_find(p->ck, str_c(s->name));
    if (p->o->dtype != DTYPE_NONE && !item->exact) return p->o->dtype;
    if (convert_is_quantized(s) || (ct && !dtype_info(ct->dtype)->is_float)) return p->decoded;
    DType t = s->form->plain;
    if (p->ck->kind == CKPT_GGUF && t == DTYPE_F32) return p->decoded;
    return t == DTYPE_F16 || t == DTYPE_BF16 ? t : DTYPE_F32;
}

bool convert_fold(const ConvertPlan *p, ConvertItem *it, const WeightOrigin *o, Err *err) {
    const Arch *arch = p->arch.arch;
    bool any = false;
    if (!arch->fold || !p->arch.resolved || it->n > UINT32_MAX) return true;
    float *f = arena_array(p->a, float, it->n);
    if (!f) return err_nomem(err, "factors of rows");
    if (!arch->fold(p->arch.resolved, o, f, (uint32_t)it->n, err)) return false;
    for (uint64_t i = 0; i < it->n; i++) any = any || f[i] != 1;
    if (any) it->row_factors = f;
    return true;
}

bool convertplan_add(ConvertPlan *p, const ConvertItem *item, const WeightOrigin *o, Err *err) {
    if (p->n_items == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 256;
        ConvertItem *items = arena_array(p->a, ConvertItem, cap);
        const WeightOrigin **origins = arena_array(p->a, const WeightOrigin *, cap);
        if (!items || !origins) return err_nomem(err, "a list of tensors");
        if (p->n_items) {
            memcpy(items, p->items, p->n_items * sizeof *items);
            memcpy(origins, p->origins, p->n_items * sizeof *origins);
        }
        p->items = items;
        p->origins = origins;
        p->cap = cap;
    }
    p->items[p->n_items] = *item;
    p->origins[p->n_items++] = o;
    for (uint32_t i = 0; i < item->n_parts; i++)
        if (convert_is_quantized(&item->parts[i])) p->report->was_quantized = true;
    p->report->n_weights += item->n * item->k;
    return true;
}

static ConvertItem item_of(WeightKind kind, const WeightSource *parts, uint32_t n_parts,
                           const WeightOrigin *o) {
    ConvertItem it = {.parts = parts, .n_parts = n_parts, .is_vector = kind == WEIGHT_VECTOR};
    for (uint32_t i = 0; i < n_parts; i++)
        it.n += it.is_vector ? (uint64_t)parts[i].n * parts[i].k : parts[i].n;
    it.k = it.is_vector ? 1 : parts[0].k;
    CkptTensor *t = &it.tensor;
    if (o->n_experts) {
        t->shape[t->n_dims++] = o->n_experts;
        t->shape[t->n_dims++] = it.n / o->n_experts;
    } else {
        t->shape[t->n_dims++] = it.n;
    }
    if (!it.is_vector) t->shape[t->n_dims++] = it.k;
    return it;
}

/* Every part of every weight is a tensor of its own; experts are one together. */
static bool list_items(ConvertPlan *p, Err *err) {
    const WeightTable *t = p->arch.weights;
    for (uint32_t i = 0; i < weights_count(t); i++) {
        const ArchWeight *w = weights_get(t, (int32_t)i);
        bool whole = w->origins[0].n_experts > 0;
        for (int k = 0; k < (whole ? 1 : w->n_parts); k++) {
            const ConvertItem it =
                item_of(w->kind, &w->parts[k], whole ? (uint32_t)w->n_parts : 1, &w->origins[k]);
            if (w->origins[k].n_stored || w->origins[k].cols)
                return err_set(err, ERR_UNSUPPORTED,
                               "tensor %s: models with convolutions and recurrent layers cannot be "
                               "converted",
                               w->parts[k].name);
            if (!convertplan_add(p, &it, &w->origins[k], err)) return false;
        }
    }
    return true;
}

const char *convert_gguf_arch(const Arch *a) {
    return a->gguf_as ? a->gguf_as : a->gguf ? a->gguf[0] : NULL;
}

static bool has_gguf(const Checkpoint *ck, Err *err) {
    const Arch *arch = arch_find(ck); /* none: arch_build() says so */
    return !arch || convert_gguf_arch(arch) ||
           err_set(err, ERR_UNSUPPORTED, "family %s has no GGUF form", arch->name);
}

bool convertplan_open(ConvertPlan *p, const char *in, const ConvertOptions *o, ConvertReport *r,
                      Arena *a, Err *err) {
    *p = (ConvertPlan){.o = o, .report = r, .a = a};
    *r = (ConvertReport){0};
    if (!checkpoint_open(in, &p->ck, err)) return false;
    r->bytes_in = p->ck->tensor_bytes;
    bool from_gguf = p->ck->kind == CKPT_GGUF;
    p->decoded = from_gguf ? dtype_of_gguf(p->ck) : dtype_of_config(&p->ck->config);
    if (from_gguf && o->kind == CONVERT_GGUF) return true;
    if (o->kind == CONVERT_GGUF && !has_gguf(p->ck, err)) return err_wrap(err, "%s", in);
    bool ok = o->kind == CONVERT_GGUF ? arch_build_text(p->ck, a, &p->arch, err)
                                      : arch_build(p->ck, a, &p->arch, err);
    if (!from_gguf)
        return (ok && (o->kind == CONVERT_MLX ? convert_list_stored : convert_list_gguf)(p, err)) ||
               err_wrap(err, "%s", in);
    /* What a family's own code took is not all named so that it could be written back. */
    if (ok && !p->arch.layers && !p->arch.both_ways)
        ok = err_set(err, ERR_UNSUPPORTED, "family %s cannot be converted", p->arch.arch->name);
    return (ok && list_items(p, err)) || err_wrap(err, "%s", in);
}

void convertplan_close(ConvertPlan *p) {
    if (p->ck) checkpoint_close(p->ck);
    p->ck = NULL;
}

bool convert_checkpoint(const char *in, const char *out, const ConvertOptions *o, ConvertReport *r,
                        Err *err) {
    Arena a = {0};
    ConvertPlan p;
    bool ok = convertplan_open(&p, in, o, r, &a, err);
    bool again = ok && p.ck->kind == CKPT_GGUF;
    ok = ok && (o->kind == CONVERT_MLX ? convert_to_mlx(&p, out, err)
                : again                ? convert_gguf_again(&p, out, err)
                                       : convert_to_gguf(&p, out, err));
    convertplan_close(&p);
    arena_deinit(&a);
    return ok;
}
