/* weight_source.h: where a packer gets a matrix from: rows in logical order, whatever the file's
 * layout and order.
 *
 * A source is one stored matrix (QMatrix without data, WForm from wform_init), a byte reader for
 * its parts, and an optional row map (logical row -> stored row: slices, un-permuted rope heads). A
 * stacked weight is several sources, one after the other along n. Calls are thread-safe when each
 * thread brings its own scratch. */
#ifndef MLXCEL_OP_WEIGHT_SOURCE_H
#define MLXCEL_OP_WEIGHT_SOURCE_H

#include "base/buf.h"
#include "quant/decode.h"

typedef struct WeightSource {
    uint32_t n, k; /* logical rows and columns */
    /* parts' shapes and dtypes; data of G_IDX and TABLE is present, other data is fetched */
    QMatrix m;
    const WForm *form;
    /* plain floats stored [inputs, outputs]: row_map names columns, row0 the first input */
    bool transposed;
    const uint32_t *row_map; /* n entries, or NULL: stored row = row0 + logical row */
    uint32_t row0;
    /* plain floats: a row is stored [k / taps, taps], its columns are [taps, k / taps] (kernels of
     * convolutions); 0: as stored */
    uint32_t taps;
    bool (*fetch)(void *ctx, QPartId part, uint64_t from, uint64_t n_bytes, void *out, Err *err);
    /* Where a part's first byte is: which of the checkpoint's files, and the position in it. NULL:
     * not in files as it is */
    void (*locate)(void *ctx, QPartId part, int *i_file, uint64_t *at);
    void *ctx;
    const char *name; /* for messages */
} WeightSource;

/* One per packing thread; zero-initialise, free with wsource_scratch_deinit. It keeps what was read
 * last: parts that every call needs whole (GPTQ's scales) are read once; of a matrix stored the
 * other way round (its qweight) only the columns asked for are; and a caller that goes through the
 * rows in order is read ahead for, in pieces that double up to WSOURCE_AHEAD_BYTES. A source must
 * not change or move while a scratch has seen it. */
typedef struct WeightScratch {
    Buf bytes[QPART_COUNT];
    uint64_t from[QPART_COUNT], n_bytes[QPART_COUNT]; /* which bytes of each part are held */
    uint64_t pitch[QPART_COUNT];                      /* QPart's: of each row, from on */
    /* whose; with ctx and form, in case another one has moved into its place */
    const WeightSource *source;
    const void *ctx;
    const WForm *form;
    uint32_t next_row; /* stored row behind the last call's */
    unsigned streak;   /* calls in a row that went on from there */
    bool no_ahead;     /* set by callers that take turns: exactly what is asked for is read */
    Buf rows;
} WeightScratch;

enum { WSOURCE_AHEAD_BYTES = 4 << 20 };

/* Formats whose rows lie whole in one part (plain floats as form->plain says, GGUF blocks): n1 - n0
 * rows as they are stored. */
bool wsource_plain(const WeightSource *s, uint32_t n0, uint32_t n1, void *out, WeightScratch *sc,
                   Err *err) MUST_CHECK;
/* For formats whose parts lie in whole rows, neither transposed nor with taps: the bytes that rows
 * [n0, n1) need are held in the scratch (until its next use), then the lines of one part in any of
 * those rows are pointed at. */
bool wsource_hold(const WeightSource *s, uint32_t n0, uint32_t n1, QMatrix *held, WeightScratch *sc,
                  Err *err) MUST_CHECK;
bool wsource_lines(const WeightSource *s, const QMatrix *held, QPartId id, uint32_t n0, uint32_t n1,
                   const uint8_t **lines, Err *err) MUST_CHECK;
/* Any format, decoded to f32 [n1 - n0, k] with the columns in the logical order (act-order
 * undone). */
bool wsource_f32(const WeightSource *s, uint32_t n0, uint32_t n1, float *out, WeightScratch *sc,
                 Err *err) MUST_CHECK;
/* Coded formats (form->kind other than WFORM_PLAIN): canonical arrays, wform.h. */
bool wsource_rows(const WeightSource *s, uint32_t n0, uint32_t n1, const WRows *out,
                  WeightScratch *sc, Err *err) MUST_CHECK;
/* The same matrix as plain f32, each piece decoded when it is read; *s is copied to the arena. */
bool wsource_decoded(const WeightSource *s, Arena *a, WeightSource *out, Err *err) MUST_CHECK;
/* Of one-byte floats stored [inputs, outputs], the matrix [n, k] whose first output is a column and
 * whose first input is row0 of *s, byte for byte. *done false: another format, or blocks of scales do
 * not divide so. */
bool wsource_turned(const WeightSource *s, uint32_t row0, uint32_t column, uint32_t n, uint32_t k,
                    Arena *a, WeightSource *out, bool *done, Err *err) MUST_CHECK;
/* Bytes of a source stored by columns (GPTQ, AWQ), which packers of rows hold whole; else 0. */
uint64_t wsource_whole_bytes(const WeightSource *s);

typedef struct WeightRange {
    int i_file;
    uint64_t at, n_bytes;
} WeightRange;

/* Which bytes of the files a source reads, a range a part. Gives how many. */
size_t wsource_ranges(const WeightSource *s, WeightRange out[QPART_COUNT]);
/* Shared scales (form->share): rows of scales [r0, r1), all arrays of WRows but codes. */
bool wsource_scales(const WeightSource *s, uint64_t r0, uint64_t r1, const WRows *out,
                    WeightScratch *sc, Err *err) MUST_CHECK;
/* form->flat_scale: numbers [i0, i1) of the scales, one element each. */
bool wsource_flat_scales(const WeightSource *s, uint64_t i0, uint64_t i1, const WRows *out,
                         WeightScratch *sc, Err *err) MUST_CHECK;
/* form->flat_super: numbers [i0, i1) of d. */
bool wsource_flat_d(const WeightSource *s, uint64_t i0, uint64_t i1, float *out, WeightScratch *sc,
                    Err *err) MUST_CHECK;
/* Which row of the stored matrix a logical row is. */
static inline uint32_t wsource_stored_row(const WeightSource *s, uint32_t n) {
    return s->row_map ? s->row_map[n] : s->row0 + n;
}
void wsource_scratch_deinit(WeightScratch *sc);

#endif
