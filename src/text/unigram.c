#include "text/unigram.h"

enum { NOWHERE = 0xFFFFFFFF };
#define UNK_PENALTY 10.0
#define PLAMO_UNKNOWN (-1.0e7) /* PLaMo counts in ten-thousandths */

bool unigram_finish(Unigram *u, Err *err) {
    const Vocab *v = u->vocab;
    Str *keys = mem_resize_array(NULL, v->n ? v->n : 1, sizeof *keys);
    uint32_t *ids = mem_resize_array(NULL, v->n ? v->n : 1, sizeof *ids);
    bool ok = keys && ids;
    size_t n = 0;
    for (size_t i = 0; ok && i < v->n; i++) {
        const VocabEntry *e = &v->entries[i];
        if (u->kinds && e->id < u->n_scores && u->kinds[e->id] == UNIGRAM_SKIPPED) continue;
        if (e->id >= u->n_scores || e->n == 0) continue;
        keys[n] = vocab_entry_text(v, e);
        ids[n++] = e->id;
    }
    ok = ok ? trie_build(&u->trie, keys, ids, n, err) : err_nomem(err, "unigram model");
    mem_free(keys);
    mem_free(ids);
    u->has_fallback = true;
    for (int i = 0; i < 256; i++) {
        char code[7] = {'<', '0', 'x', "0123456789ABCDEF"[i >> 4], "0123456789ABCDEF"[i & 15], '>'};
        u->fallback_ids[i] = vocab_find(v, (Str){code, 6});
        if (u->fallback_ids[i] == TOK_NONE) u->has_fallback = false;
    }
    return ok;
}

void unigram_deinit(Unigram *u) {
    trie_deinit(&u->trie);
    mem_free(u->scores);
    mem_free(u->kinds);
    u->scores = NULL;
    u->kinds = NULL;
}

void unigramwork_deinit(UnigramWork *w) {
    mem_free(w->nodes);
    tokids_deinit(&w->reversed);
    *w = (UnigramWork){0};
}

static bool reserve(UnigramWork *w, size_t n) {
    if (n <= w->cap) return true;
    size_t cap = w->cap ? w->cap : 256;
    while (cap < n) cap *= 2;
    UnigramNode *p = mem_resize_array(w->nodes, cap, sizeof *p);
    if (!p) return false;
    w->nodes = p;
    w->cap = cap;
    return true;
}

static inline void relax(UnigramNode *to, double score, uint32_t from, uint32_t id, bool single) {
    if (to->from == NOWHERE || score > to->score)
        *to = (UnigramNode){single ? (double)(float)score : score, from, id};
}

/* SentencePiece keeps scores in single precision but adds in double: a sum is rounded only when
 * it is stored, after it was compared. User-defined pieces get a bonus that no sum of scores can
 * beat. */
static double token_score(const Unigram *u, uint32_t id, size_t len, double before) {
    if (u->kinds &&
        u->kinds[id] == UNIGRAM_USER_DEFINED) /* the highest score is kept behind the last */
        return (double)((float)((double)((float)len * (float)u->scores[u->n_scores]) - 0.1) +
                        (float)before);
    return u->dialect == UNIGRAM_SPM ? (double)((float)before + (float)u->scores[id])
                                     : before + u->scores[id];
}

static bool forward(const Unigram *u, Str s, UnigramNode *best, Err *err) {
    bool f32 = u->dialect == UNIGRAM_SPM;
    double unk =
        f32 ? (double)((float)u->min_score - (float)UNK_PENALTY) : u->min_score - UNK_PENALTY;
    for (size_t i = 0; i <= s.n; i++) best[i] = (UnigramNode){0, NOWHERE, 0};
    for (size_t at = 0; at < s.n;) {
        size_t len = utf8_length_of(s.p[at]);
        double before = best[at].score;
        bool single = false;
        uint32_t node = TRIE_ROOT;
        for (size_t i = at; i < s.n && (node = trie_step(&u->trie, node, s.p[i])) != TRIE_NONE;
             i++) {
            uint32_t id = u->trie.nodes[node].value;
            if (id == TRIE_NONE) continue;
            relax(&best[i + 1], token_score(u, id, i + 1 - at, before), (uint32_t)at, id, f32);
            if (i + 1 - at == len) single = true;
        }
        if (!single) {
            UnigramNode *to = &best[at + len];
            double score = f32 ? (double)((float)before + (float)unk) : before + unk;
            if (u->unk_id == TOK_NONE && (to->from == NOWHERE || score > to->score))
                return err_set(
                    err, ERR_INPUT,
                    "text has a character that the vocabulary lacks and there is no unknown token");
            relax(to, score, (uint32_t)at, u->unk_id, f32);
        }
        at += len;
    }
    return true;
}

static bool push_bytes(const Unigram *u, Str s, TokIds *out) { /* in reverse */
    for (size_t i = 0; i < s.n; i++)
        if (u->fallback_ids[(uint8_t)s.p[i]] == TOK_NONE) return false;
    for (size_t i = s.n; i > 0; i--) tokids_push(out, u->fallback_ids[(uint8_t)s.p[i - 1]]);
    return true;
}

/* A run of unknown characters: a token after all if the run spells one, bytes, or one unknown
 * token. */
static void push_unknown(const Unigram *u, Str run, TokIds *out) {
    if (u->dialect == UNIGRAM_HF) {
        uint32_t id = vocab_find(u->vocab, run);
        if (id != TOK_NONE) {
            tokids_push(out, id);
            return;
        }
    }
    if (u->byte_fallback && push_bytes(u, run, out)) return;
    tokids_push(out, u->unk_id);
}

static void backward(const Unigram *u, Str s, const UnigramNode *best, TokIds *out) {
    for (size_t end = s.n; end > 0;) {
        const UnigramNode *node = &best[end];
        size_t from = node->from;
        if (u->unk_id != TOK_NONE && node->id == u->unk_id) {
            while (from > 0 && best[from].id == u->unk_id) from = best[from].from;
            push_unknown(u, (Str){s.p + from, end - from}, out);
        } else {
            tokids_push(out, node->id);
        }
        end = from;
    }
}

/* PLaMo: from the right; the longest of equally good tokens wins; unknown characters become
 * bytes. */
static void plamo_backward(const Unigram *u, Str s, UnigramNode *best) {
    best[s.n] = (UnigramNode){0, 0, 0};
    for (size_t at = s.n; at > 0;) {
        do at--;
        while (at > 0 && ((unsigned char)s.p[at] & 0xC0) == 0x80);
        size_t len = utf8_length_of(s.p[at]);
        UnigramNode unknown = {best[at + len].score + PLAMO_UNKNOWN, (uint32_t)(at + len),
                               TOK_NONE},
                    found = unknown;
        uint32_t node = TRIE_ROOT;
        for (size_t i = at; i < s.n && (node = trie_step(&u->trie, node, s.p[i])) != TRIE_NONE;
             i++) {
            uint32_t id = u->trie.nodes[node].value;
            if (id == TRIE_NONE) continue;
            double score = best[i + 1].score + u->scores[id];
            if (score >= found.score) found = (UnigramNode){score, (uint32_t)(i + 1), id};
        }
        best[at] = found;
    }
}

static void plamo_emit(const Unigram *u, Str s, const UnigramNode *best, TokIds *out) {
    for (size_t at = 0; at < s.n; at = best[at].from) {
        if (best[at].id != TOK_NONE) {
            tokids_push(out, best[at].id);
            continue;
        }
        for (size_t i = at; i < best[at].from; i++)
            tokids_push(out, u->fallback_ids[(uint8_t)s.p[i]]);
    }
}

bool unigram_encode(const Unigram *u, Str s, UnigramWork *w, TokIds *out, Err *err) {
    if (s.n == 0) return true;
    if (!reserve(w, s.n + 1)) return err_nomem(err, "tokens");
    if (u->dialect == UNIGRAM_PLAMO) {
        if (str_starts(s, STR("\xEF\xBB\xBF")))
            s = str_from(s, 3); /* a byte order mark is not text to PLaMo */
        plamo_backward(u, s, w->nodes);
        plamo_emit(u, s, w->nodes, out);
        return true;
    }
    if (!forward(u, s, w->nodes, err)) return false;
    w->reversed.n = 0;
    backward(u, s, w->nodes, &w->reversed);
    for (size_t i = w->reversed.n; i > 0; i--) tokids_push(out, w->reversed.p[i - 1]);
    if (w->reversed.failed) return err_nomem(err, "tokens");
    return true;
}
