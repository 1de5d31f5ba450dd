/* forms.h: what the form_*.c files share. Inside quant/ only.
 *
 * One form_x() per family of formats checks the parts of a QMatrix and fills the WForm (wform.c
 * then regroups). A FormCodes function reads codes of rows [n0, n1) into [rows, k]; column p of
 * the output is column perm[p] of the file (perm NULL: p). All bounds were checked before it is
 * called. */
#ifndef MLXCEL_QUANT_FORMS_H
#define MLXCEL_QUANT_FORMS_H

#include "quant/bitstream.h"
#include "quant/wform.h"

#define QMATRIX_MAX_ELEMENTS ((uint64_t)1 << 48)

typedef bool FormInit(WForm *wf, QMatrix *m, Arena *a, Err *err);
typedef void FormCodes(const WForm *wf, const QMatrix *m, const uint32_t *perm, uint64_t n0,
                       uint64_t n1, uint8_t *codes);

FormInit form_rows, form_mlx_affine, form_fp4, form_mlx_mxfp8, form_gptq, form_awq, form_ct_packed,
    form_ct_int, form_fp8, form_bitnet, form_bnb, form_bnb_int8;
FormCodes form_stream_codes, form_gptq_codes, form_awq_codes, form_ct_packed_codes,
    form_ct_int_codes, form_bitnet_codes, form_bnb_codes;
/* The integer zero point of row n and stored group g. */
typedef int FormZero(const WForm *wf, const QMatrix *m, uint64_t n, uint64_t g);
FormZero form_gptq_zero, form_awq_zero, form_ct_packed_zero, form_ct_int_zero;
float form_bnb_absmax(const QMatrix *m, uint64_t i);
float form_bnb_nested(const QMatrix *m, uint64_t i); /* WSUB_NESTED: d number i */

/* Checks of parts (qmatrix.c). qpart_rows folds all leading dimensions; a 0-d part is 1 x 1. */
bool qpart_check(const QMatrix *m, QPartId id,
                 Err *err) MUST_CHECK; /* sizes sane, bytes within the tensor */
bool qpart_is(const QMatrix *m, QPartId id, DType a, DType b, DType c,
              Err *err) MUST_CHECK; /* there, of one type */
bool qpart_shaped(const QMatrix *m, QPartId id, uint64_t rows, uint64_t cols, Err *err) MUST_CHECK;
uint64_t qpart_count(const QPart *p);
uint64_t qpart_rows(const QPart *p);
uint64_t qpart_cols(const QPart *p);
uint64_t qpart_bytes(const QPart *p);
static inline bool qpart_there(const QMatrix *m, QPartId id) {
    return m->part[id].dtype != DTYPE_NONE;
}
/* Address of the tensor's byte `at`. */
static inline const uint8_t *qpart_at(const QMatrix *m, QPartId id, uint64_t at) {
    return m->part[id].data + (at - m->part[id].from);
}
/* Address of 32-bit word `col` of a stored row of words. */
static inline const uint8_t *qpart_word(const QMatrix *m, QPartId id, uint64_t row,
                                        uint64_t row_words, uint64_t col) {
    const QPart *p = &m->part[id];
    if (p->pitch) return p->data + row * p->pitch + (col * 4 - p->from);
    return qpart_at(m, id, (row * row_words + col) * 4);
}

/* Steps of form_x() (wform.c). */
bool form_set_n_k(QMatrix *m, uint64_t n, uint64_t k,
                  Err *err) MUST_CHECK; /* sets, or compares with the caller's */
/* Scales row-major [n, n_groups], or one per row, or one in all; sets stored.group from m->group
 * or the shape. */
bool form_scales(WForm *wf, QMatrix *m, Err *err) MUST_CHECK;
void form_scales_at(WForm *wf, const QMatrix *m, uint64_t group, uint64_t n_groups,
                    uint64_t row_stride, uint64_t group_stride);
bool form_global(WForm *wf, const QMatrix *m, double div,
                 Err *err) MUST_CHECK; /* the second scale, if there */
bool form_g_idx(WForm *wf, const QMatrix *m, Arena *a, Err *err) MUST_CHECK;

/* How decode.c and wform.c read a format: */
FormCodes *form_codes(QFormat f);
int form_zero(const WForm *wf, const QMatrix *m, uint64_t n, uint64_t g); /* any offset but BIAS */
double form_scale(const WForm *wf, const QMatrix *m, uint64_t n,
                  uint64_t g); /* exact, unless divided; stored group g */
float form_bias(const WForm *wf, const QMatrix *m, uint64_t n, uint64_t g); /* WOFFSET_BIAS */
double form_second_scale(const WForm *wf, const QMatrix *m, uint64_t n);
bool form_has_bytes(const WForm *wf, const QMatrix *m, uint64_t n0, uint64_t n1,
                    Err *err) MUST_CHECK;

void form_block_rows(const WForm *wf, const QMatrix *m, uint64_t n0, uint64_t n1, const WRows *out);
uint64_t form_ceil_div(uint64_t a, uint64_t b);
uint64_t form_gcd(uint64_t a, uint64_t b);

#endif
