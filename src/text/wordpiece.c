#include "text/wordpiece.h"

#include "base/utf8.h"

bool wordpiece_finish(WordPiece *w, Err *err) {
    const Vocab *v = w->vocab;
    w->unk_id = vocab_find(v, w->unk);
    w->inside = TRIE_NONE;
    if (w->whole_words) return true;
    Str *keys = mem_resize_array(NULL, v->n ? v->n : 1, sizeof *keys);
    uint32_t *ids = mem_resize_array(NULL, v->n ? v->n : 1, sizeof *ids);
    bool ok = keys && ids;
    for (size_t i = 0; ok && i < v->n; i++) {
        keys[i] = vocab_entry_text(v, &v->entries[i]);
        ids[i] = v->entries[i].id;
    }
    ok = ok ? trie_build(&w->trie, keys, ids, v->n, err) : err_nomem(err, "WordPiece model");
    mem_free(keys);
    mem_free(ids);
    uint32_t node = TRIE_ROOT;
    for (size_t i = 0; ok && i < w->prefix.n && node != TRIE_NONE; i++)
        node = trie_step(&w->trie, node, w->prefix.p[i]);
    w->inside = node;
    return ok;
}

void wordpiece_deinit(WordPiece *w) { trie_deinit(&w->trie); }

static bool push_unknown(const WordPiece *w, TokIds *out, Err *err) {
    if (w->unk_id == TOK_NONE)
        return err_set(err, ERR_INPUT,
                       "unknown word, and the unknown token \"" STR_F "\" is not in the vocabulary",
                       STR_A(w->unk));
    if (!w->fuse_unk || out->n == 0 || out->p[out->n - 1] != w->unk_id) tokids_push(out, w->unk_id);
    return true;
}

/* The longest token at s below node, ending between characters: its length, 0 if there is none. */
static size_t longest_below(const WordPiece *w, uint32_t node, Str s, uint32_t *id) {
    size_t best = 0;
    for (size_t i = 0; i < s.n && node != TRIE_NONE; i++) {
        node = trie_step(&w->trie, node, s.p[i]);
        if (node == TRIE_NONE) break;
        uint32_t value = w->trie.nodes[node].value;
        if (value != TRIE_NONE && (i + 1 == s.n || ((unsigned char)s.p[i + 1] & 0xC0) != 0x80)) {
            best = i + 1;
            *id = value;
        }
    }
    return best;
}

bool wordpiece_encode(const WordPiece *w, Str word, TokIds *out, Err *err) {
    if (w->whole_words) {
        uint32_t id = vocab_find(w->vocab, word);
        if (id == TOK_NONE) return push_unknown(w, out, err);
        tokids_push(out, id);
        return true;
    }
    if (word.n > w->max_chars && utf8_count(word) > w->max_chars) return push_unknown(w, out, err);
    size_t start = out->n;
    for (size_t at = 0; at < word.n;) {
        uint32_t id = 0;
        size_t len = longest_below(w, at == 0 ? TRIE_ROOT : w->inside, str_from(word, at), &id);
        if (len == 0) {
            out->n = start;
            return push_unknown(w, out, err);
        }
        tokids_push(out, id);
        at += len;
    }
    return true;
}
