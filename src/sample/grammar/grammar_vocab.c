#include "sample/grammar/grammar_vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

enum { TOKEN_MAX_BYTES = 4096 };

Str grammar_vocab_token(const GrammarVocab *v, uint32_t id) {
    if (id >= v->n_tokens) return STR_NONE;
    return (Str){v->bytes + v->byte_at[id], v->byte_at[id + 1] - v->byte_at[id]};
}

bool grammar_vocab_is_eos(const GrammarVocab *v, uint32_t id) {
    for (uint32_t i = 0; i < v->n_eos; i++)
        if (v->eos[i] == id) return true;
    return false;
}

/* Characters of a plain token; 0 if it is not plain. */
static uint32_t plain_length(Str s) {
    uint32_t n = 0;
    for (size_t at = 0; at < s.n;) {
        uint32_t cp = utf8_next(s, &at);
        if (cp == UTF8_BAD || cp < 0x20 || cp == 0x7F || cp == '"' || cp == '\\' ||
            ++n > VOCAB_PLAIN_MAX)
            return 0;
    }
    return n;
}

static bool copy_tokens(GrammarVocab *v, const Str *tokens, const bool *special) {
    size_t total = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++)
        if (!size_add(total, tokens[i].n, &total)) return false;
    v->bytes = mem_alloc(total);
    v->byte_at = mem_resize_array(NULL, (size_t)v->n_tokens + 1, sizeof *v->byte_at);
    v->twin = mem_resize_array(NULL, v->n_tokens, sizeof *v->twin);
    if (!v->bytes || !v->byte_at || !v->twin) return false;
    size_t at = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        v->byte_at[i] = at;
        v->twin[i] = UINT32_MAX;
        bool skip =
            (special && special[i]) || tokens[i].n > TOKEN_MAX_BYTES || grammar_vocab_is_eos(v, i);
        if (skip || !tokens[i].n) continue;
        memcpy(v->bytes + at, tokens[i].p, tokens[i].n);
        at += tokens[i].n;
        if (tokens[i].n > v->max_bytes) v->max_bytes = (uint32_t)tokens[i].n;
    }
    v->byte_at[v->n_tokens] = at;
    return true;
}

static bool make_plain_sets(GrammarVocab *v, const uint8_t *length) {
    for (int k = 0; k <= VOCAB_PLAIN_MAX; k++)
        if (!(v->plain[k] = mem_calloc(v->n_words, sizeof(uint64_t)))) return false;
    for (uint32_t i = 0; i < v->n_tokens; i++)
        for (int k = length[i]; length[i] && k <= VOCAB_PLAIN_MAX; k++)
            v->plain[k][i / 64] |= (uint64_t)1 << i % 64;
    return true;
}

static int token_cmp(const void *a, const void *b, void *arg) {
    const GrammarVocab *v = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int c = str_cmp(grammar_vocab_token(v, x), grammar_vocab_token(v, y));
    return c ? c : x < y ? -1 : x > y;
}

/* Builds the trie of the sorted ids: each token adds the nodes that it does not share with the one
 * before. */
static bool trie_build(GrammarVocab *v, VocabTrie *t, const uint32_t *ids, uint32_t n) {
    size_t most = 1;
    for (uint32_t i = 0; i < n; i++) most += grammar_vocab_token(v, ids[i]).n;
    if (most > UINT32_MAX / 2) return false;
    VocabNode *nodes = mem_resize_array(NULL, most, sizeof *nodes);
    uint32_t *path = mem_resize_array(NULL, (size_t)v->max_bytes + 1, sizeof *path);
    bool ok = nodes && path;
    uint32_t n_nodes = 1, depth = 0;
    Str last = STR_NONE;
    if (ok) {
        nodes[0] = (VocabNode){.token = UINT32_MAX};
        path[0] = 0;
    }
    for (uint32_t i = 0; ok && i <= n; i++) {
        Str s = i < n ? grammar_vocab_token(v, ids[i]) : STR_NONE;
        size_t same = 0;
        while (same < s.n && same < last.n && s.p[same] == last.p[same]) same++;
        for (; depth > same; depth--) nodes[path[depth]].size_byte |= (n_nodes - path[depth]) << 8;
        if (i == n) break;
        ok = n_nodes + s.n < VOCAB_MAX_NODES;
        for (; ok && depth < s.n; n_nodes++) {
            nodes[n_nodes] = (VocabNode){.token = UINT32_MAX, .size_byte = (uint8_t)s.p[depth]};
            path[++depth] = n_nodes;
        }
        VocabNode *end = &nodes[path[depth]];
        v->twin[ids[i]] = end->token;
        end->token = ids[i];
        last = s;
    }
    mem_free(path);
    if (!ok) {
        mem_free(nodes);
        return false;
    }
    nodes[0].size_byte = n_nodes << 8;
    t->nodes = mem_resize_array(nodes, n_nodes, sizeof *nodes);
    if (!t->nodes) t->nodes = nodes;
    t->n = n_nodes;
    return true;
}

static bool make_tries(GrammarVocab *v, const uint8_t *length) {
    uint32_t *ids = mem_resize_array(NULL, v->n_tokens, sizeof *ids);
    uint32_t *some = mem_resize_array(NULL, v->n_tokens, sizeof *some);
    bool ok = ids && some;
    uint32_t n = 0;
    for (uint32_t i = 0; ok && i < v->n_tokens; i++)
        if (grammar_vocab_token(v, i).n) ids[n++] = i;
    if (ok && n) qsort_r(ids, n, sizeof *ids, token_cmp, v);
    for (int kind = 0; ok && kind < VOCAB_TRIE_COUNT; kind++) {
        uint32_t n_some = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint8_t l = length[ids[i]];
            if (kind == VOCAB_NOT_PLAIN && l) continue;
            if (kind == VOCAB_NOT_SHORT && l && l <= VOCAB_LONG) continue;
            some[n_some++] = ids[i];
        }
        /* twins share plainness, so every trie links them alike */
        ok = trie_build(v, &v->tries[kind], some, n_some);
    }
    mem_free(ids);
    mem_free(some);
    return ok;
}

static bool vocab_fill(GrammarVocab *v, const Str *tokens, const uint32_t *eos,
                       const bool *special) {
    v->eos = mem_resize_array(NULL, v->n_eos, sizeof *v->eos);
    if (!v->eos) return false;
    if (v->n_eos) memcpy(v->eos, eos, v->n_eos * sizeof *eos);
    if (!copy_tokens(v, tokens, special)) return false;
    uint8_t *length = mem_calloc(v->n_tokens, 1);
    if (!length) return false;
    for (uint32_t i = 0; i < v->n_tokens; i++)
        length[i] = (uint8_t)plain_length(grammar_vocab_token(v, i));
    bool ok = make_plain_sets(v, length) && make_tries(v, length);
    mem_free(length);
    return ok;
}

GrammarVocab *grammar_vocab_new(const Str *tokens, size_t n_tokens, const uint32_t *eos,
                                size_t n_eos, const bool *special, Err *err) {
    if (!n_tokens || n_tokens > VOCAB_MAX_TOKENS || n_eos > n_tokens) {
        err_set(err, ERR_LIMIT,
                "a vocabulary of %zu tokens with %zu end tokens, 1 to %d are accepted", n_tokens,
                n_eos, VOCAB_MAX_TOKENS);
        return NULL;
    }
    GrammarVocab *v = mem_calloc(1, sizeof *v);
    if (v) {
        v->n_tokens = (uint32_t)n_tokens;
        v->n_words = (uint32_t)((n_tokens + 63) / 64);
        v->n_eos = (uint32_t)n_eos;
        if (vocab_fill(v, tokens, eos, special)) return v;
    }
    grammar_vocab_free(v);
    err_nomem(err, "the grammar's vocabulary");
    return NULL;
}

void grammar_vocab_free(GrammarVocab *v) {
    if (!v) return;
    for (int i = 0; i < VOCAB_TRIE_COUNT; i++) mem_free(v->tries[i].nodes);
    for (int k = 0; k <= VOCAB_PLAIN_MAX; k++) mem_free(v->plain[k]);
    mem_free(v->bytes);
    mem_free(v->byte_at);
    mem_free(v->twin);
    mem_free(v->eos);
    mem_free(v);
}
