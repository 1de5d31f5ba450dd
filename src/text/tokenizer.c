#include "text/tokenizer.h"

#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/encode.h"
#include "text/tokenizer_priv.h"

void tokids_push(TokIds *ids, uint32_t id) {
    if (ids->n == ids->cap) {
        size_t cap = ids->cap ? ids->cap * 2 : 64;
        uint32_t *p = mem_resize_array(ids->p, cap, sizeof *p);
        if (!p) {
            ids->failed = true;
            return;
        }
        ids->p = p;
        ids->cap = cap;
    }
    ids->p[ids->n++] = id;
}

void tokids_deinit(TokIds *ids) {
    mem_free(ids->p);
    *ids = (TokIds){0};
}

Tokenizer *tokenizer_new(void) {
    Tokenizer *t = mem_calloc(1, sizeof *t);
    if (!t) return NULL;
    for (int i = 0; i < TOK_ROLE_COUNT; i++) t->roles[i] = TOK_NONE;
    t->bpe.vocab = t->unigram.vocab = t->wordpiece.vocab = &t->vocab;
    t->unigram.unk_id = TOK_NONE;
    return t;
}

void tokenizer_free(Tokenizer *t) {
    if (!t) return;
    vocab_deinit(&t->vocab);
    added_deinit(&t->added);
    normalizer_deinit(&t->norm);
    pretok_deinit(&t->pretok);
    bpe_deinit(&t->bpe);
    unigram_deinit(&t->unigram);
    wordpiece_deinit(&t->wordpiece);
    trie_deinit(&t->kept);
    trie_deinit(&t->rwkv);
    postproc_deinit(&t->post);
    decoder_deinit(&t->dec);
    tokids_deinit(&t->eog);
    arena_deinit(&t->arena);
    mem_free(t);
}

bool tokenizer_add_token(Tokenizer *t, AddedToken token, Err *err) {
    if (token.text.n == 0) return true;
    uint64_t known;
    uint32_t id = vocab_find(&t->vocab, token.text);
    if (map_get(&t->added.by_text, token.text, &known)) id = t->added.tokens[known].id;
    if (id == TOK_NONE && token.id == TOK_NONE) {
        uint64_t next = t->vocab.n;
        for (size_t i = 0; i < t->added.n; i++)
            if (t->added.tokens[i].id >= next) next = (uint64_t)t->added.tokens[i].id + 1;
        if (next >= TOK_NONE)
            return err_set(err, ERR_LIMIT, "added token \"" STR_F "\" gets no id",
                           STR_A(token.text));
        token.id = (uint32_t)next;
    }
    if (id != TOK_NONE) token.id = id;
    size_t n = token.text.n;
    token.text = arena_dup(&t->arena, token.text);
    if (!token.text.p && n) return err_nomem(err, "added tokens");
    token.pattern = token.text;
    return added_push(&t->added, token, err);
}

/* What a token with normalized = true is searched for as. */
static bool normalize_patterns(Tokenizer *t, Err *err) {
    Buf work[2] = {{0}, {0}};
    bool ok = true, moved;
    for (size_t i = 0; ok && t->norm.n && i < t->added.n; i++) {
        AddedToken *a = &t->added.tokens[i];
        Str s;
        if (!a->normalized || !utf8_valid(a->text)) continue;
        ok = normalizer_run(&t->norm, a->text, true, work, &s, &moved, err);
        if (!ok || str_eq(s, a->text)) continue;
        a->pattern = arena_dup(&t->arena, s);
        if (!a->pattern.p && s.n) ok = err_nomem(err, "added tokens");
    }
    buf_deinit(&work[0]);
    buf_deinit(&work[1]);
    return ok;
}

static bool finish_model(Tokenizer *t, Err *err) {
    switch (t->kind) {
    case MODEL_BPE:
        if (!t->bpe.raw && pretok_leave_mapping(&t->pretok)) t->bpe.mapped = true;
        return bpe_finish(&t->bpe, err);
    case MODEL_UNIGRAM:
        return unigram_finish(&t->unigram, err);
    case MODEL_WORDPIECE:
    case MODEL_WORDLEVEL:
        return wordpiece_finish(&t->wordpiece, err);
    case MODEL_RWKV:
        return true;
    case MODEL_NONE:
        break;
    }
    return err_set(err, ERR_INPUT, "tokenizer has no model");
}

bool tokenizer_finish(Tokenizer *t, Err *err) {
    if (!vocab_finish(&t->vocab, err) || !finish_model(t, err) || !normalize_patterns(t, err) ||
        !added_finish(&t->added, err))
        return false;
    if (t->post.single.n == 0 && !postproc_set(&t->post, TOK_NONE, TOK_NONE, err)) return false;
    t->n_vocab = t->vocab.end_id;
    for (size_t i = 0; i < t->added.n; i++)
        if (t->added.tokens[i].id >= t->n_vocab) t->n_vocab = (uint64_t)t->added.tokens[i].id + 1;
    tokenizer_find_roles(t);
    tokenizer_set_eog(t);
    return true;
}

bool tokenizer_encode_text(const Tokenizer *t, Str text, bool add_special, bool parse_special,
                           TokIds *out, Err *err) {
    TokSpan span = {text, parse_special};
    return tokenizer_encode(t, &span, 1, add_special, out, err);
}

bool tokenizer_encode(const Tokenizer *t, const TokSpan *spans, size_t n, bool add_special,
                      TokIds *out, Err *err) {
    size_t start = out->n;
    const PostList *l = &t->post.single;
    bool plain = l->n == 1 && l->p[0].kind == POST_A;
    TokIds ids = {0};
    bool ok = encode_spans(t, spans, n, plain ? out : &ids, err);
    if (ok && !plain) postproc_apply(l, add_special, &ids, NULL, out, NULL);
    tokids_deinit(&ids);
    if (ok && out->failed) ok = err_nomem(err, "token ids");
    if (!ok) out->n = start;
    return ok;
}

bool tokenizer_encode_pair(const Tokenizer *t, Str a, Str b, TokIds *out, TokIds *types, Err *err) {
    TokIds x = {0}, y = {0};
    size_t start = out->n;
    TokSpan sa = {a, false}, sb = {b, false};
    bool ok = encode_spans(t, &sa, 1, &x, err) && encode_spans(t, &sb, 1, &y, err);
    if (ok) postproc_apply(&t->post.pair, true, &x, &y, out, types);
    if (ok && (out->failed || (types && types->failed))) ok = err_nomem(err, "token ids");
    tokids_deinit(&x);
    tokids_deinit(&y);
    if (!ok) out->n = start;
    return ok;
}

/* How a token is spelled for the decoder: an added token as it was searched for. The reference
 * looks that spelling up among the specials, so one that normalization changed is not left out. */
static Str spelling(const Tokenizer *t, uint32_t id, bool skip_special) {
    const AddedToken *a = added_by_id(&t->added, id);
    if (!a) return vocab_text(&t->vocab, id);
    uint64_t at;
    bool special =
        skip_special && (a->pattern.p == a->text.p ? a->special
                                                   : map_get(&t->added.by_text, a->pattern, &at) &&
                                                         t->added.tokens[at].special);
    return special ? STR_NONE : a->pattern;
}

bool tokenizer_decode_with(const Tokenizer *t, DecodeWork *w, const uint32_t *ids, size_t n,
                           bool skip_special, Buf *out, Err *err) {
    TextList *l = &w->lists[0];
    l->text.max = 0; /* the decoder's limit is for what it makes of the spellings */
    textlist_clear(l);
    for (size_t i = 0; i < n; i++) {
        Str s = spelling(t, ids[i], skip_special);
        if (s.p) textlist_add(l, s);
    }
    if (l->text.failed || l->pieces.failed) return err_nomem(err, "decoded text");
    return decoder_run(&t->dec, w, out, err);
}

bool tokenizer_decode(const Tokenizer *t, const uint32_t *ids, size_t n, bool skip_special,
                      Buf *out, Err *err) {
    DecodeWork w = {0};
    bool ok = tokenizer_decode_with(t, &w, ids, n, skip_special, out, err);
    decodework_deinit(&w);
    return ok && buf_check(out, "decoded text", err);
}

size_t tokenizer_n_vocab(const Tokenizer *t) { return (size_t)t->n_vocab; }

Str tokenizer_token_text(const Tokenizer *t, uint32_t id) {
    const AddedToken *a = added_by_id(&t->added, id);
    return a ? a->text : vocab_text(&t->vocab, id);
}

bool tokenizer_find(const Tokenizer *t, Str text, uint32_t *id) {
    uint64_t at;
    *id = map_get(&t->added.by_text, text, &at) ? t->added.tokens[at].id
                                                : vocab_find(&t->vocab, text);
    return *id != TOK_NONE;
}

bool tokenizer_is_special(const Tokenizer *t, uint32_t id) {
    const AddedToken *a = added_by_id(&t->added, id);
    return a && a->special;
}

bool tokenizer_is_added(const Tokenizer *t, uint32_t id) {
    return added_by_id(&t->added, id) != NULL;
}
uint32_t tokenizer_role(const Tokenizer *t, TokRole role) {
    return role < TOK_ROLE_COUNT ? t->roles[role] : TOK_NONE;
}

Str tokenizer_role_text(const Tokenizer *t, TokRole role) {
    uint32_t id = tokenizer_role(t, role);
    return id == TOK_NONE ? STR("") : tokenizer_token_text(t, id);
}

bool tokenizer_is_eog(const Tokenizer *t, uint32_t id) {
    for (size_t i = 0; i < t->eog.n; i++)
        if (t->eog.p[i] == id) return true;
    return false;
}

bool tokenizer_adds_bos(const Tokenizer *t) {
    const PostList *l = &t->post.single;
    return l->n > 0 && l->p[0].kind == POST_TOKEN && l->p[0].id == t->roles[TOK_BOS];
}

const char *tokenizer_kind(const Tokenizer *t) {
    static const char *const names[] = {"none", "BPE", "Unigram", "WordPiece", "WordLevel", "RWKV"};
    return names[t->kind];
}

bool tokenizer_token_bytes(const Tokenizer *t, uint32_t id, Buf *out) {
    const AddedToken *a = added_by_id(&t->added, id);
    Str s = a ? a->text : vocab_text(&t->vocab, id);
    if (!s.p) return false;
    if (a)
        buf_put(out, s);
    else
        decoder_put_token(&t->dec, s, out);
    return true;
}
