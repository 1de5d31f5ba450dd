/* The mixes of GGUF files: a name stands for one type for most matrices and finer ones for those
 * that tell most: the output head, the values and the down projections of some layers. The choices
 * are llama.cpp's, so that a name means there and here the same. */
#include "base/str.h"
#include "task/convert_plan.h"

typedef enum Where { /* in which layers a finer type is used */
                     NOWHERE,
                     ALL,
                     MORE,      /* the first and last eighth, and every third between */
                     FIRST_8TH, /* the first eighth */
                     FIRST_4
} Where;

typedef struct Finer {
    DType type;
    Where where;
} Finer;

struct GgufTypes {
    const char *name;
    uint32_t file_type;
    DType most, head;
    Finer value, down;
    Finer output; /* attention's */
};

static const GgufTypes TYPES[] = {
    {"F32", 0, DTYPE_F32, DTYPE_F32, {0}, {0}, {0}},
    {"F16", 1, DTYPE_F16, DTYPE_F16, {0}, {0}, {0}},
    {"BF16", 32, DTYPE_BF16, DTYPE_BF16, {0}, {0}, {0}},
    {"Q4_0", 2, DTYPE_Q4_0, DTYPE_Q6_K, {0}, {0}, {0}},
    {"Q4_1", 3, DTYPE_Q4_1, DTYPE_Q6_K, {0}, {0}, {0}},
    {"Q5_0", 8, DTYPE_Q5_0, DTYPE_Q6_K, {0}, {0}, {0}},
    {"Q5_1", 9, DTYPE_Q5_1, DTYPE_Q6_K, {0}, {0}, {0}},
    {"Q8_0", 7, DTYPE_Q8_0, DTYPE_Q8_0, {0}, {0}, {0}},
    {"MXFP4", 38, DTYPE_MXFP4, DTYPE_Q8_0, {0}, {0}, {0}},
    {"Q2_K", 10, DTYPE_Q2_K, DTYPE_Q6_K, {DTYPE_Q3_K, ALL}, {DTYPE_Q3_K, ALL}, {DTYPE_Q3_K, ALL}},
    {"Q3_K_S", 11, DTYPE_Q3_K, DTYPE_Q6_K, {0}, {0}, {0}},
    {"Q3_K_M",
     12,
     DTYPE_Q3_K,
     DTYPE_Q6_K,
     {DTYPE_Q4_K, ALL},
     {DTYPE_Q4_K, MORE},
     {DTYPE_Q4_K, ALL}},
    {"Q3_K_L", 13, DTYPE_Q3_K, DTYPE_Q6_K, {DTYPE_Q5_K, ALL}, {DTYPE_Q5_K, ALL}, {DTYPE_Q5_K, ALL}},
    {"Q4_K_S", 14, DTYPE_Q4_K, DTYPE_Q6_K, {DTYPE_Q5_K, FIRST_4}, {DTYPE_Q5_K, FIRST_8TH}, {0}},
    {"Q4_K_M", 15, DTYPE_Q4_K, DTYPE_Q6_K, {DTYPE_Q6_K, MORE}, {DTYPE_Q6_K, MORE}, {0}},
    {"Q5_K_S", 16, DTYPE_Q5_K, DTYPE_Q6_K, {0}, {0}, {0}},
    {"Q5_K_M", 17, DTYPE_Q5_K, DTYPE_Q6_K, {DTYPE_Q6_K, MORE}, {DTYPE_Q6_K, MORE}, {0}},
    {"Q6_K", 18, DTYPE_Q6_K, DTYPE_Q6_K, {0}, {0}, {0}},
};
enum { N_TYPES = sizeof TYPES / sizeof *TYPES };

const GgufTypes *gguftypes_find(const char *name) {
    static const char *const SHORT[][2] = {
        {"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}};
    Str wanted = str_c(name);
    for (size_t i = 0; i < 3; i++)
        if (str_ieq(wanted, str_c(SHORT[i][0]))) wanted = str_c(SHORT[i][1]);
    for (size_t i = 0; i < N_TYPES; i++)
        if (str_ieq(wanted, str_c(TYPES[i].name))) return &TYPES[i];
    return NULL;
}

const char *gguftypes_names(void) {
    return "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 MXFP4 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M "
           "Q5_K_S Q5_K_M Q6_K";
}

uint32_t gguftypes_file_type(const GgufTypes *t) { return t->file_type; }

static bool is_there(Where w, uint32_t i, uint32_t n) {
    switch (w) {
    case ALL:
        return true;
    case MORE:
        return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    case FIRST_8TH:
        return i < n / 8;
    case FIRST_4:
        return i < 4;
    default:
        return false;
    }
}

/* Rows that are no whole blocks take a type of smaller blocks and no fewer bits. */
static DType type_that_fits(DType t, uint64_t k) {
    if (dtype_info(t)->is_blocked && k % dtype_info(t)->block_elements == 0) return t;
    if (!dtype_info(t)->is_blocked) return t;
    if (k % 32) return DTYPE_F16;
    return t == DTYPE_Q2_K || t == DTYPE_Q3_K ? DTYPE_Q4_0
           : t == DTYPE_Q4_K                  ? DTYPE_Q5_0
           : t == DTYPE_Q5_K                  ? DTYPE_Q5_1
                                              : DTYPE_Q8_0;
}

DType gguftypes_of(const GgufTypes *t, const GgufMatrix *m) {
    const Finer *f = m->role == ROLE_V                                     ? &t->value
                     : m->role == ROLE_DOWN || m->role == ROLE_EXPERT_DOWN ? &t->down
                     : m->role == ROLE_O                                   ? &t->output
                                                                           : NULL;
    DType type = m->is_head ? t->head : t->most;
    bool in_layer = f && f->type != DTYPE_NONE && m->layer >= 0;
    if (in_layer && is_there(f->where, (uint32_t)m->layer, m->n_layers)) type = f->type;
    /* values shared by many heads cost little */
    if (m->role == ROLE_V && t->most == DTYPE_Q2_K && m->few_kv) type = DTYPE_Q4_K;
    if (m->role == ROLE_V && t->most == DTYPE_Q3_K && t->file_type == 12 && m->layer < 2)
        type = DTYPE_Q5_K;
    return type_that_fits(type, m->k);
}
