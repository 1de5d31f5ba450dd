/* bpe.h: byte-pair encoding of one piece of text (Sennrich et al. 2016): start from characters
 * (or bytes), then merge, again and again, the adjacent pair of lowest rank, leftmost first
 * among equals.
 *
 * Short pieces are merged in small arrays. Long ones use one bucket of positions per rank,
 * opened in order of rank, so a text of one endless word costs time linear in its length.
 *
 * The model is immutable after bpe_finish(); scratch is the caller's. */
#ifndef MLXCEL_TEXT_BPE_H
#define MLXCEL_TEXT_BPE_H

#include "text/tok_piece.h"
#include "text/vocab.h"

typedef struct BpeMerge {
    uint64_t pair; /* left id << 32 | right id */
    uint32_t rank; /* UINT32_MAX: empty slot */
    uint32_t id;   /* of the result */
} BpeMerge;

enum { BPE_SMALL_CP = 0x250 };

typedef struct Bpe {
    const Vocab *vocab;
    BpeMerge *list; /* collected by bpe_add_merge(), gone after bpe_finish() */
    size_t n_list, cap_list;
    BpeMerge *slots;
    size_t n_slots; /* power of two */
    uint64_t seed;
    bool mapped; /* pieces are raw bytes, the vocabulary is in GPT-2's alphabet */
    bool raw;    /* pieces and vocabulary are raw bytes (tiktoken) */
    bool byte_fallback, fuse_unk, ignore_merges;
    bool has_unk;
    /* long texts are cut before U+2581, except behind these bytes, from which a merge crosses
     * into it: */
    bool cut_at_space;
    bool joins_space[256];
    Str unk, prefix, suffix;    /* unknown token, continuing-subword prefix, end-of-word suffix */
    uint32_t unk_id;            /* TOK_NONE: has_unk, but not in the vocabulary */
    uint32_t byte_ids[256];     /* mapped or raw: id of each byte */
    uint32_t fallback_ids[256]; /* "<0x00>" ... */
    uint32_t cp_ids[BPE_SMALL_CP]; /* ids of the first characters */
} Bpe;

typedef struct BpeWork { /* grows with the longest piece; zero-initialised is valid */
    uint32_t *ids;
    size_t n, cap;
    Buf text; /* the piece in another alphabet */
} BpeWork;

bool bpe_add_merge(Bpe *b, uint32_t left, uint32_t right, uint32_t rank,
                   uint32_t id);              /* false: no memory */
bool bpe_finish(Bpe *b, Err *err) MUST_CHECK; /* after all merges and fields; builds the tables */
void bpe_deinit(Bpe *b);
/* Appends the ids of one piece. */
bool bpe_encode(const Bpe *b, Str piece, BpeWork *w, TokIds *out, Err *err) MUST_CHECK;
void bpework_deinit(BpeWork *w);
const BpeMerge *bpe_find(const Bpe *b, uint32_t left,
                         uint32_t right); /* NULL if the pair does not merge */

/* Merges ids[0..*n) in place (bpe_queue.c: any length). */
bool bpe_merge_long(const Bpe *b, uint32_t *ids, size_t *n, Err *err) MUST_CHECK;

#endif
