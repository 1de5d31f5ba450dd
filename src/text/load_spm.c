/* tokenizer.model: SentencePiece's ModelProto, read field by field with a Cursor. */
#include <string.h>

#include "base/cursor.h"
#include "base/utf8.h"
#include "text/spm_build.h"
#include "text/tok_load.h"
#include "text/tokenizer_priv.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { TYPE_UNIGRAM = 1, TYPE_BPE = 2, TYPE_WORD = 3, TYPE_CHAR = 4 };
enum { MAX_PIECES = 1 << 24 };

typedef struct Field {
    uint32_t number;
    int wire;
    uint64_t value; /* varint or fixed */
    Str bytes;
} Field;

/* The next field; false at the end or when the message is broken (c->failed). */
static bool next_field(Cursor *c, Field *f) {
    uint64_t key, n;
    if (cursor_left(c) == 0 || c->failed || !cursor_varint(c, &key)) return false;
    *f = (Field){.number = (uint32_t)(key >> 3), .wire = (int)(key & 7)};
    switch (f->wire) {
    case WIRE_VARINT:
        return cursor_varint(c, &f->value);
    case WIRE_64:
        f->value = cursor_u64(c);
        break;
    case WIRE_32:
        f->value = cursor_u32(c);
        break;
    case WIRE_BYTES:
        if (!cursor_varint(c, &n)) return false;
        f->bytes = cursor_bytes(c, n);
        break;
    default:
        c->failed = true;
    }
    return !c->failed;
}

typedef struct Model {
    Tokenizer *t;
    float *scores;
    uint8_t *kinds;
    size_t n, cap;
    int type;
    bool byte_fallback, as_suffix, dummy_prefix, squeeze, escape;
    int64_t unk, bos, eos, pad;
    Str charsmap;
} Model;

static bool add_piece(Model *m, Str bytes, Err *err) {
    Cursor c = cursor_over(bytes);
    Field f;
    Str text = STR_NONE;
    float score = 0;
    uint8_t kind = SPM_NORMAL;
    while (next_field(&c, &f)) {
        if (f.number == 1 && f.wire == WIRE_BYTES) text = f.bytes;
        if (f.number == 2 && f.wire == WIRE_32) {
            uint32_t bits = (uint32_t)f.value;
            memcpy(&score, &bits, 4);
        }
        if (f.number == 3 && f.wire == WIRE_VARINT)
            kind = f.value >= 1 && f.value <= 6 ? (uint8_t)f.value : 0;
    }
    if (c.failed || kind == 0)
        return err_set(err, ERR_CORRUPT, "SentencePiece model: piece %zu is broken", m->n);
    if (!utf8_valid(text))
        return err_set(err, ERR_CORRUPT, "SentencePiece model: piece %zu is not UTF-8", m->n);
    if (score != score)
        return err_set(err, ERR_CORRUPT, "SentencePiece model: piece %zu has no number as score",
                       m->n);
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 4096;
        float *s = cap <= MAX_PIECES ? mem_resize_array(m->scores, cap, sizeof *s) : NULL;
        if (s) m->scores = s;
        uint8_t *k = s ? mem_resize_array(m->kinds, cap, 1) : NULL;
        if (!k) return err_nomem(err, "SentencePiece model");
        m->kinds = k;
        m->cap = cap;
    }
    m->scores[m->n] = score;
    m->kinds[m->n] = kind;
    if (!vocab_add(&m->t->vocab, text, (uint32_t)m->n++))
        return err_nomem(err, "SentencePiece model");
    return true;
}

static bool read_trainer(Model *m, Str bytes, Err *err) {
    Cursor c = cursor_over(bytes);
    Field f;
    while (next_field(&c, &f)) {
        if (f.wire != WIRE_VARINT) continue;
        switch (f.number) {
        case 3:
            m->type = f.value > 100 ? 0 : (int)f.value;
            break;
        case 24:
            m->as_suffix = f.value != 0;
            break;
        case 35:
            m->byte_fallback = f.value != 0;
            break;
        case 40:
            m->unk = (int32_t)f.value;
            break;
        case 41:
            m->bos = (int32_t)f.value;
            break;
        case 42:
            m->eos = (int32_t)f.value;
            break;
        case 43:
            m->pad = (int32_t)f.value;
            break;
        default:
            break;
        }
    }
    return !c.failed || err_set(err, ERR_CORRUPT, "SentencePiece model: trainer_spec is broken");
}

static bool read_normalizer(Model *m, Str bytes, Err *err) {
    Cursor c = cursor_over(bytes);
    Field f;
    while (next_field(&c, &f)) {
        if (f.number == 2 && f.wire == WIRE_BYTES) m->charsmap = f.bytes;
        if (f.number == 3 && f.wire == WIRE_VARINT) m->dummy_prefix = f.value != 0;
        if (f.number == 4 && f.wire == WIRE_VARINT) m->squeeze = f.value != 0;
        if (f.number == 5 && f.wire == WIRE_VARINT) m->escape = f.value != 0;
    }
    return !c.failed || err_set(err, ERR_CORRUPT, "SentencePiece model: normalizer_spec is broken");
}

static bool read_model(Model *m, Str bytes, Err *err) {
    Cursor c = cursor_over(bytes);
    Field f;
    while (next_field(&c, &f)) {
        bool ok = true;
        if (f.wire != WIRE_BYTES) continue;
        if (f.number == 1) ok = add_piece(m, f.bytes, err);
        if (f.number == 2) ok = read_trainer(m, f.bytes, err);
        if (f.number == 3) ok = read_normalizer(m, f.bytes, err);
        if (!ok) return false;
    }
    if (c.failed)
        return err_set(err, ERR_CORRUPT, "SentencePiece model is broken at byte %zu", c.at);
    if (m->n == 0) return err_set(err, ERR_CORRUPT, "SentencePiece model has no pieces");
    return true;
}

/* Pieces that the model itself finds before anything else, and leaves whole. */
static bool build_kept(Model *m, Err *err) {
    Tokenizer *t = m->t;
    Str *keys = mem_resize_array(NULL, m->n, sizeof *keys);
    uint32_t *ids = mem_resize_array(NULL, m->n, sizeof *ids);
    bool ok = keys && ids;
    size_t n = 0;
    for (size_t i = 0; ok && i < t->vocab.n; i++) {
        const VocabEntry *e = &t->vocab.entries[i];
        if (e->id >= m->n || m->kinds[e->id] != SPM_USER_DEFINED || e->n == 0) continue;
        keys[n] = vocab_entry_text(&t->vocab, e);
        ids[n++] = e->id;
    }
    ok = ok ? n == 0 || trie_build(&t->kept, keys, ids, n, err)
            : err_nomem(err, "SentencePiece model");
    t->has_kept = n > 0;
    mem_free(keys);
    mem_free(ids);
    return ok;
}

static bool build_norm(Model *m, Err *err) {
    NormStep st = {.kind = NORM_SENTENCEPIECE,
                   .dummy_prefix = m->dummy_prefix,
                   .squeeze = m->squeeze,
                   .escape = m->escape,
                   .as_suffix = m->as_suffix};
    Str blob = arena_dup(&m->t->arena, m->charsmap);
    if (!blob.p && m->charsmap.n) return err_nomem(err, "character map");
    if (m->t->has_kept) st.kept = &m->t->kept;
    return charsmap_open(&st.map, blob, err) && normalizer_push(&m->t->norm, st, err);
}

static bool is_control(const Model *m, int64_t id) {
    return id >= 0 && (uint64_t)id < m->n &&
           (m->kinds[id] == SPM_CONTROL || m->kinds[id] == SPM_UNKNOWN);
}

static bool build_specials(Model *m, Err *err) {
    Tokenizer *t = m->t;
    for (size_t i = 0; i < t->vocab.n; i++) {
        const VocabEntry *e = &t->vocab.entries[i];
        if (!is_control(m, e->id)) continue;
        AddedToken a = {.text = vocab_entry_text(&t->vocab, e), .id = e->id, .special = true};
        if (!tokenizer_add_token(t, a, err)) return false;
    }
    if (is_control(m, m->bos)) t->roles[TOK_BOS] = (uint32_t)m->bos;
    if (is_control(m, m->eos)) t->roles[TOK_EOS] = (uint32_t)m->eos;
    if (is_control(m, m->unk)) t->roles[TOK_UNK] = (uint32_t)m->unk;
    if (is_control(m, m->pad)) t->roles[TOK_PAD] = (uint32_t)m->pad;
    /* The file does not say what is added around a text: Llama's BPE models put BOS in front,
     * T5's unigram models EOS behind. */
    return postproc_set(&t->post, m->type == TYPE_BPE ? t->roles[TOK_BOS] : TOK_NONE,
                        m->type == TYPE_UNIGRAM ? t->roles[TOK_EOS] : TOK_NONE, err);
}

static void set_unknown(Model *m) {
    Tokenizer *t = m->t;
    for (size_t i = 0; i < t->vocab.n; i++) {
        const VocabEntry *e = &t->vocab.entries[i];
        if (m->kinds[e->id] != SPM_UNKNOWN) continue;
        t->unigram.unk_id = e->id;
        t->wordpiece.unk = t->bpe.unk = arena_dup(&t->arena, vocab_entry_text(&t->vocab, e));
        t->bpe.has_unk = t->bpe.unk.p != NULL;
    }
}

static bool build_model(Model *m, Err *err) {
    Tokenizer *t = m->t;
    set_unknown(m);
    if (t->unigram.unk_id == TOK_NONE)
        return err_set(err, ERR_CORRUPT, "SentencePiece model has no unknown piece");
    if (m->type == TYPE_UNIGRAM) {
        t->unigram.byte_fallback = m->byte_fallback;
        return spm_build_unigram(t, m->scores, m->kinds, m->n, err);
    }
    if (m->type == TYPE_WORD) {
        t->kind = MODEL_WORDLEVEL;
        t->wordpiece.whole_words = t->wordpiece.fuse_unk = true;
        PretokStep cut = {.kind = PRETOK_METASPACE,
                          .text = STR("\xE2\x96\x81"),
                          .prepend = PREPEND_NEVER,
                          .cuts = true};
        return pretok_push(&t->pretok, cut, err);
    }
    if (m->type != TYPE_BPE && m->type != TYPE_CHAR)
        return err_set(err, ERR_UNSUPPORTED,
                       "SentencePiece model type %d is not unigram, BPE, word or char", m->type);
    t->kind = MODEL_BPE;
    t->bpe.byte_fallback = m->byte_fallback;
    t->bpe.fuse_unk = true;
    return m->type == TYPE_CHAR || spm_build_merges(t, m->scores, m->kinds, m->n, err);
}

bool load_spm_into(Tokenizer *t, Str bytes, Err *err) {
    Model m = {.t = t,
               .type = TYPE_UNIGRAM,
               .dummy_prefix = true,
               .squeeze = true,
               .escape = true,
               .unk = 0,
               .bos = 1,
               .eos = 2,
               .pad = -1};
    bool ok = read_model(&m, bytes, err) && build_kept(&m, err) && build_norm(&m, err) &&
              build_model(&m, err) && build_specials(&m, err) &&
              spm_build_decoder(t, m.dummy_prefix, err);
    mem_free(m.scores);
    mem_free(m.kinds);
    return ok;
}

static bool load_alone(bool (*load)(Tokenizer *, Str, Err *), Str bytes, Tokenizer **out,
                       Err *err) {
    Tokenizer *t = tokenizer_new();
    if (!t) return err_nomem(err, "tokenizer");
    if (!load(t, bytes, err) || !tokenizer_finish(t, err)) {
        tokenizer_free(t);
        return false;
    }
    *out = t;
    return true;
}

bool tokenizer_load_spm(Str bytes, Tokenizer **out, Err *err) {
    return load_alone(load_spm_into, bytes, out, err);
}
bool tokenizer_load_plamo(Str text, Tokenizer **out, Err *err) {
    return load_alone(load_plamo_into, text, out, err);
}
