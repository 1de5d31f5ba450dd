#include "text/encode.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer_priv.h"

/* Words repeat: what a short piece became is remembered for the rest of the text. The cache is
 * the call's own, so nothing is shared between threads; an entry is one cache line. */
enum { CACHE_KEY = 22, CACHE_IDS = 8, CACHE_FROM_BYTES = 2048 };

typedef struct CacheEntry {
    uint64_t hash;
    uint8_t n_key; /* 0: empty */
    uint8_t n_ids;
    char key[CACHE_KEY];
    uint32_t ids[CACHE_IDS];
} CacheEntry;

typedef struct EncodeWork {
    Buf joined, norm[2];
    SegmentList raw, inner;
    PretokWork pretok;
    BpeWork bpe;
    UnigramWork unigram;
    CacheEntry *cache;
    size_t n_cache; /* power of two, or 0 */
    TextOrigin *origins;
    size_t n_origins;
    bool mixed; /* the text has both kinds of spans */
} EncodeWork;

static void work_deinit(EncodeWork *w) {
    buf_deinit(&w->joined);
    buf_deinit(&w->norm[0]);
    buf_deinit(&w->norm[1]);
    segments_deinit(&w->raw);
    segments_deinit(&w->inner);
    pretokwork_deinit(&w->pretok);
    bpework_deinit(&w->bpe);
    unigramwork_deinit(&w->unigram);
    mem_free(w->cache);
    mem_free(w->origins);
}

static void make_cache(EncodeWork *w, size_t text_bytes) {
    if (text_bytes < CACHE_FROM_BYTES) return;
    w->n_cache = text_bytes < (64 << 10) ? 1024 : text_bytes < (512 << 10) ? 8192 : 32768;
    w->cache = mem_calloc(w->n_cache, sizeof *w->cache);
    if (!w->cache) w->n_cache = 0; /* slower, not wrong */
}

static bool rwkv_encode(const Tokenizer *t, Str s, TokIds *out) {
    for (size_t at = 0; at < s.n;) {
        size_t len = 1;
        uint32_t id = trie_longest(&t->rwkv, str_from(s, at), &len);
        if (id == TOK_NONE) id = t->roles[TOK_UNK];
        if (id != TOK_NONE) tokids_push(out, id);
        at += len;
    }
    return true;
}

static bool model_encode(const Tokenizer *t, Str piece, EncodeWork *w, TokIds *out, Err *err) {
    switch (t->kind) {
    case MODEL_BPE:
        return bpe_encode(&t->bpe, piece, &w->bpe, out, err);
    case MODEL_UNIGRAM:
        return unigram_encode(&t->unigram, piece, &w->unigram, out, err);
    case MODEL_WORDPIECE:
    case MODEL_WORDLEVEL:
        return wordpiece_encode(&t->wordpiece, piece, out, err);
    case MODEL_RWKV:
        return rwkv_encode(t, piece, out);
    case MODEL_NONE:
        break;
    }
    return err_set(err, ERR_INTERNAL, "tokenizer has no model");
}

static bool encode_cached(const Tokenizer *t, Str piece, EncodeWork *w, TokIds *out, Err *err) {
    if (!w->n_cache || piece.n > CACHE_KEY || piece.n == 0 || t->wordpiece.fuse_unk)
        return model_encode(t, piece, w, out, err);
    uint64_t hash = vocab_hash(piece, t->vocab.seed);
    CacheEntry *e = &w->cache[hash & (w->n_cache - 1)];
    if (e->hash == hash && e->n_key == piece.n && memcmp(e->key, piece.p, piece.n) == 0) {
        if (out->cap - out->n >= CACHE_IDS) {
            memcpy(out->p + out->n, e->ids, sizeof e->ids);
            out->n += e->n_ids;
            return true;
        }
        for (int i = 0; i < e->n_ids; i++) tokids_push(out, e->ids[i]);
        return true;
    }
    size_t start = out->n;
    if (!model_encode(t, piece, w, out, err)) return false;
    size_t n = out->n - start;
    if (n > CACHE_IDS || out->failed) return true;
    e->hash = hash;
    e->n_key = (uint8_t)piece.n;
    e->n_ids = (uint8_t)n;
    memcpy(e->key, piece.p, piece.n);
    if (n) memcpy(e->ids, out->p + start, n * sizeof *e->ids);
    return true;
}

/* Words of a SentencePiece text, cut where no merge can reach across (see Bpe.cut_at_space). */
static bool encode_words(const Tokenizer *t, Str s, EncodeWork *w, TokIds *out, Err *err) {
    size_t start = 0;
    bool in_mark = true;
    if (!t->bpe.cut_at_space) return encode_cached(t, s, w, out, err);
    for (size_t i = 0; i < s.n;) {
        if (s.p[i] != '\xE2') {
            in_mark = false;
            i++;
            continue;
        }
        bool mark = i + 2 < s.n && s.p[i + 1] == '\x96' && s.p[i + 2] == '\x81';
        if (mark && !in_mark && !t->bpe.joins_space[(uint8_t)s.p[i - 1]]) {
            if (!encode_cached(t, str_slice(s, start, i), w, out, err)) return false;
            start = i;
        }
        in_mark = mark;
        i += 3;
    }
    return encode_cached(t, str_from(s, start), w, out, err);
}

/* Around user-defined pieces. */
static bool encode_around_kept(const Tokenizer *t, Str s, EncodeWork *w, TokIds *out, Err *err) {
    size_t done = 0;
    for (size_t at = 0; at < s.n;) {
        size_t len;
        uint32_t id = trie_longest(&t->kept, str_from(s, at), &len);
        /* a piece of no whole characters is none of the text's */
        if (id == TOK_NONE || !utf8_begins(s, at + len)) {
            at += utf8_length_of(s.p[at]);
            continue;
        }
        if (done < at && !encode_words(t, str_slice(s, done, at), w, out, err)) return false;
        tokids_push(out, id);
        done = at += len;
    }
    return done == s.n || encode_words(t, str_from(s, done), w, out, err);
}

static bool encode_pieces(const Tokenizer *t, Str text, const PieceList *pieces, EncodeWork *w,
                          TokIds *out, Err *err) {
    bool words = t->kind == MODEL_BPE && t->bpe.cut_at_space,
         kept = t->kind == MODEL_BPE && t->has_kept;
    for (size_t i = 0; i < pieces->n; i++) {
        Str s = piece_str(text, pieces->p[i]);
        bool ok = kept    ? encode_around_kept(t, s, w, out, err)
                  : words ? encode_words(t, s, w, out, err)
                          : encode_cached(t, s, w, out, err);
        if (!ok) return false;
    }
    return true;
}

/* Text between added tokens of the first pass. who: 1 the template wrote it, 0 the user, -1
 * both. */
static bool encode_segment(const Tokenizer *t, Str text, bool first, int who, EncodeWork *w,
                           TokIds *out, Err *err) {
    Str norm;
    bool moved;
    if (!normalizer_run(&t->norm, text, first, w->norm, &norm, &moved, err)) return false;
    w->inner.n = 0;
    TextOrigin origin = {(uint32_t)norm.n, who == 1};
    added_split(&t->added, true, norm, &origin, 1, false, &w->inner);
    for (size_t i = 0; i < w->inner.n; i++) {
        Segment g = w->inner.p[i];
        if (g.id != TOK_NONE) {
            tokids_push(out, g.id);
            continue;
        }
        Str cut;
        const PieceList *pieces;
        bool starts = first && !moved && g.from == 0;
        if (!pretok_run(&t->pretok, str_slice(norm, g.from, g.to), starts, &w->pretok, &cut,
                        &pieces, err) ||
            !encode_pieces(t, cut, pieces, w, out, err))
            return false;
    }
    return true;
}

static int who_wrote(const EncodeWork *w, size_t from, size_t to) {
    int who = -2;
    size_t start = 0;
    for (size_t i = 0; i < w->n_origins; start = w->origins[i].to, i++) {
        if (w->origins[i].to <= from || start >= to || start == w->origins[i].to) continue;
        int now = w->origins[i].parse_special;
        if (who != -2 && who != now) return -1;
        who = now;
    }
    return who == -2 ? 0 : who;
}

/* A text by two hands, and specials that are searched for after normalization: what the template
 * spelled is taken out of the raw text first, since normalization forgets who wrote what. */
static bool encode_mixed(const Tokenizer *t, Str text, size_t from, size_t to, EncodeWork *w,
                         TokIds *out, Err *err) {
    SegmentList found = {0};
    TextOrigin *o = mem_resize_array(NULL, w->n_origins, sizeof *o);
    bool ok = o || err_nomem(err, "spans");
    size_t n = 0;
    for (size_t i = 0; ok && i < w->n_origins; i++) {
        if (w->origins[i].to <= from) continue;
        size_t end = w->origins[i].to < to ? w->origins[i].to : to;
        o[n++] = (TextOrigin){(uint32_t)(end - from), w->origins[i].parse_special};
        if (end == to) break;
    }
    if (ok) added_split(&t->added, true, str_slice(text, from, to), o, n, true, &found);
    if (found.failed) ok = err_nomem(err, "token ids");
    for (size_t i = 0; ok && i < found.n; i++) {
        Segment g = found.p[i];
        if (g.id != TOK_NONE)
            tokids_push(out, g.id);
        else
            ok = encode_segment(t, str_slice(text, from + g.from, from + g.to), from + g.from == 0,
                                0, w, out, err);
    }
    mem_free(o);
    segments_deinit(&found);
    return ok;
}

static bool encode_text(const Tokenizer *t, Str text, EncodeWork *w, TokIds *out, Err *err) {
    added_split(&t->added, false, text, w->origins, w->n_origins, false, &w->raw);
    if (w->raw.failed) return err_nomem(err, "token ids");
    for (size_t i = 0; i < w->raw.n; i++) {
        Segment g = w->raw.p[i];
        if (g.id != TOK_NONE) {
            tokids_push(out, g.id);
            continue;
        }
        int who = !w->mixed ? w->origins[0].parse_special : who_wrote(w, g.from, g.to);
        bool ok =
            who == -1 && t->added.has_normalized_special
                ? encode_mixed(t, text, g.from, g.to, w, out, err)
                : encode_segment(t, str_slice(text, g.from, g.to), g.from == 0, who, w, out, err);
        if (!ok) return false;
    }
    if (w->inner.failed || out->failed) return err_nomem(err, "token ids");
    return true;
}

/* One text of all spans, with U+FFFD for what is not UTF-8; and who wrote which part. */
static bool join_spans(const TokSpan *spans, size_t n, EncodeWork *w, Str *text, Err *err) {
    size_t total = 0;
    w->origins = mem_resize_array(NULL, n ? n : 1, sizeof *w->origins);
    if (!w->origins) return err_nomem(err, "spans");
    for (size_t i = 0; i < n; i++) {
        if (!size_add(total, spans[i].text.n, &total) || total >= TOK_MAX_TEXT_BYTES / 4)
            return err_set(err, ERR_LIMIT, "text to tokenize is longer than %zu bytes",
                           TOK_MAX_TEXT_BYTES / 4);
        if (i && spans[i].parse_special != spans[0].parse_special) w->mixed = true;
    }
    w->n_origins = n ? n : 1;
    if (n == 1 && utf8_valid(spans[0].text)) {
        *text = spans[0].text;
        w->origins[0] = (TextOrigin){(uint32_t)text->n, spans[0].parse_special};
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        decoder_put_lossy(&w->joined, spans[i].text);
        w->origins[i] = (TextOrigin){(uint32_t)w->joined.n, spans[i].parse_special};
    }
    if (n == 0) w->origins[0] = (TextOrigin){0, false};
    *text = buf_str(&w->joined);
    return buf_check(&w->joined, "text to tokenize", err);
}

bool encode_spans(const Tokenizer *t, const TokSpan *spans, size_t n, TokIds *out, Err *err) {
    EncodeWork w = {0};
    Str text = STR_NONE;
    bool ok = join_spans(spans, n, &w, &text, err);
    if (ok) {
        make_cache(&w, text.n);
        ok = encode_text(t, text, &w, out, err);
    }
    work_deinit(&w);
    return ok;
}
