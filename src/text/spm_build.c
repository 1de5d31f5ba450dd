#include "text/spm_build.h"

#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_priv.h"

typedef struct Ranked {
    float score;
    uint32_t id;
} Ranked;

static int compare_scores(const void *a, const void *b) { /* best first */
    const Ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool takes_part(const uint8_t *kinds, uint32_t id) {
    return kinds[id] == SPM_NORMAL || kinds[id] == SPM_USER_DEFINED || kinds[id] == SPM_UNUSED;
}

enum {
    MAX_MERGED = 256
}; /* bytes; longer pieces are markers, no result of merging, and would cost time squared */

static bool halves_of(Tokenizer *t, Str piece, uint32_t id, uint32_t rank, const uint8_t *kinds,
                      size_t n, Err *err) {
    if (piece.n > MAX_MERGED) return true;
    for (size_t i = utf8_length_of(piece.p[0]); i < piece.n; i += utf8_length_of(piece.p[i])) {
        uint32_t l = vocab_find(&t->vocab, str_slice(piece, 0, i));
        if (l == TOK_NONE || l >= n || !takes_part(kinds, l)) continue;
        uint32_t r = vocab_find(&t->vocab, str_from(piece, i));
        if (r == TOK_NONE || r >= n || !takes_part(kinds, r)) continue;
        if (!bpe_add_merge(&t->bpe, l, r, rank, id)) return err_nomem(err, "merges");
    }
    return true;
}

bool spm_build_merges(Tokenizer *t, const float *scores, const uint8_t *kinds, size_t n, Err *err) {
    Ranked *list = mem_resize_array(NULL, t->vocab.n ? t->vocab.n : 1, sizeof *list);
    uint32_t *entry_of = mem_resize_array(NULL, n ? n : 1, sizeof *entry_of);
    bool ok = list && entry_of;
    size_t k = 0;
    for (size_t i = 0; ok && i < t->vocab.n; i++) {
        const VocabEntry *e = &t->vocab.entries[i];
        if (e->id >= n || e->n == 0 || !takes_part(kinds, e->id)) continue;
        entry_of[e->id] = (uint32_t)i;
        list[k++] = (Ranked){scores[e->id], e->id};
    }
    if (!ok) (void)err_nomem(err, "merges");
    if (ok) qsort(list, k, sizeof *list, compare_scores);
    uint32_t rank = 0;
    for (size_t i = 0; ok && i < k; i++) {
        if (i && list[i].score != list[i - 1].score) rank++; /* equal scores: leftmost first */
        const VocabEntry *e = &t->vocab.entries[entry_of[list[i].id]];
        ok = halves_of(t, vocab_entry_text(&t->vocab, e), e->id, rank, kinds, n, err);
    }
    mem_free(list);
    mem_free(entry_of);
    return ok;
}

bool spm_build_unigram(Tokenizer *t, const float *scores, const uint8_t *kinds, size_t n,
                       Err *err) {
    Unigram *u = &t->unigram;
    u->scores = mem_resize_array(NULL, n + 1, sizeof *u->scores);
    u->kinds = mem_resize_array(NULL, n + 1, sizeof *u->kinds);
    if (!u->scores || !u->kinds) return err_nomem(err, "unigram model");
    double min = 3.4e38, max = 0x1p-126; /* SentencePiece starts from the smallest positive float */
    for (size_t i = 0; i < n; i++) {
        u->scores[i] = (double)scores[i];
        u->kinds[i] = kinds[i] == SPM_NORMAL         ? UNIGRAM_NORMAL
                      : kinds[i] == SPM_USER_DEFINED ? UNIGRAM_USER_DEFINED
                                                     : UNIGRAM_SKIPPED;
        if (kinds[i] != SPM_NORMAL) continue;
        if (u->scores[i] < min) min = u->scores[i];
        if (u->scores[i] > max) max = u->scores[i];
    }
    u->scores[n] = max; /* what a user-defined piece's bonus is made of */
    u->kinds[n] = UNIGRAM_SKIPPED;
    u->n_scores = n;
    u->min_score = min;
    u->dialect = UNIGRAM_SPM;
    t->kind = MODEL_UNIGRAM;
    return true;
}

static bool check_plain(const Tokenizer *t, bool *space_prefix, Err *err) {
    const NormStep *s = t->norm.n == 1 ? &t->norm.steps[0] : NULL;
    if (t->kind != MODEL_BPE || !t->bpe.byte_fallback || !s || s->kind != NORM_SENTENCEPIECE)
        return err_set(err, ERR_UNSUPPORTED,
                       "a %s tokenizer without tokenizer.json: of these, GGUF files can hold "
                       "SentencePiece's BPE with byte fallback",
                       tokenizer_kind(t));
    if (s->map.trie.n || s->squeeze || s->as_suffix || !s->escape)
        return err_set(err, ERR_UNSUPPORTED,
                       "this SentencePiece model rewrites texts (characters or extra blanks): a "
                       "GGUF cannot say so");
    *space_prefix = s->dummy_prefix;
    return true;
}

bool spm_scores(const Tokenizer *t, float *scores, size_t n, bool *space_prefix, Err *err) {
    const Bpe *b = &t->bpe;
    uint32_t worst = 0;
    if (!check_plain(t, space_prefix, err)) return false;
    for (size_t i = 0; i < n; i++) scores[i] = 1;
    for (size_t i = 0; i < b->n_slots; i++) {
        const BpeMerge *m = &b->slots[i];
        if (m->rank == UINT32_MAX) continue;
        if (m->rank > worst) worst = m->rank;
        if (m->id < n) scores[m->id] = -(float)m->rank; /* all merges of a piece are of its rank */
    }
    for (size_t i = 0; i < n; i++)
        if (scores[i] > 0) scores[i] = -(float)worst - 1; /* no merge makes it */
    return true;
}

bool spm_is_kept(const Tokenizer *t, Str piece) {
    size_t n = 0;
    return t->has_kept && trie_longest(&t->kept, piece, &n) != TRIE_NONE && n == piece.n;
}

bool spm_build_decoder(Tokenizer *t, bool dummy_prefix, Err *err) {
    DecStep replace = {.kind = DEC_REPLACE, .text = STR("\xE2\x96\x81"), .content = STR(" ")};
    DecStep strip = {.kind = DEC_STRIP, .text = STR(" "), .start = 1};
    return decoder_push(&t->dec, replace, err) &&
           decoder_push(&t->dec, (DecStep){.kind = DEC_BYTE_FALLBACK}, err) &&
           decoder_push(&t->dec, (DecStep){.kind = DEC_FUSE}, err) &&
           (!dummy_prefix || decoder_push(&t->dec, strip, err));
}
