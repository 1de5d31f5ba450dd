#include "text/bpe.h"

#include <string.h>

#include "base/os.h"
#include "text/byte_level.h"

enum { SHORT_PIECE = 64 }; /* symbols; longer ones go to bpe_merge_long() */

bool bpe_add_merge(Bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t id) {
    if (b->n_list == b->cap_list) {
        size_t cap = b->cap_list ? b->cap_list * 2 : 1024;
        BpeMerge *p = mem_resize_array(b->list, cap, sizeof *p);
        if (!p) return false;
        b->list = p;
        b->cap_list = cap;
    }
    b->list[b->n_list++] = (BpeMerge){(uint64_t)left << 32 | right, rank, id};
    return true;
}

static inline size_t merge_home(const Bpe *b, uint64_t pair) {
    return (size_t)vocab_mix(pair ^ b->seed, 0x9E3779B97F4A7C15u) & (b->n_slots - 1);
}

static inline const BpeMerge *merge_find(const Bpe *b, uint64_t pair) {
    for (size_t i = merge_home(b, pair);; i = (i + 1) & (b->n_slots - 1)) {
        const BpeMerge *m = &b->slots[i];
        if (m->pair == pair && m->rank != UINT32_MAX) return m;
        if (m->rank == UINT32_MAX) return NULL;
    }
}

const BpeMerge *bpe_find(const Bpe *b, uint32_t left, uint32_t right) {
    return merge_find(b, (uint64_t)left << 32 | right);
}

static bool build_slots(Bpe *b) {
    b->n_slots = 64;
    while (b->n_slots < b->n_list + b->n_list / 2) b->n_slots *= 2;
    b->seed = os_random_u64();
    b->slots = mem_alloc(b->n_slots * sizeof *b->slots);
    if (!b->slots) return false;
    memset(b->slots, 0xFF, b->n_slots * sizeof *b->slots);
    enum { AHEAD = 16 };
    for (size_t i = 0; i < b->n_list; i++) {
        if (i + AHEAD < b->n_list)
            __builtin_prefetch(&b->slots[merge_home(b, b->list[i + AHEAD].pair)], 1);
        const BpeMerge *m = &b->list[i];
        size_t j = merge_home(b, m->pair);
        while (b->slots[j].rank != UINT32_MAX && b->slots[j].pair != m->pair)
            j = (j + 1) & (b->n_slots - 1);
        b->slots[j] = *m; /* a pair listed twice counts where it stands last */
    }
    mem_free(b->list);
    b->list = NULL;
    b->n_list = b->cap_list = 0;
    return true;
}

/* U+2581 stands for a blank in SentencePiece vocabularies. Where no merge joins something that
 * does not end in it to something that begins with it, a text may be cut before every run of
 * them, and words be merged one by one. Few vocabularies have such merges, and then behind one
 * or two characters only. A left part that is no text (bytes, unknown) forbids all cuts. */
static bool find_space_joins(Bpe *b) {
    const Vocab *v = b->vocab;
    if (!v->dense || vocab_find(v, STR("\xE2\x96\x81")) == TOK_NONE) return false;
    uint8_t *begins = mem_calloc(v->n_by_id + 1, 1); /* by id: begins with it */
    if (!begins) return false;                       /* slower, not wrong */
    for (size_t i = 0; i < v->n; i++) {
        const VocabEntry *e = &v->entries[i];
        begins[e->id] = e->n >= 3 && memcmp(v->pool + e->at, "\xE2\x96\x81", 3) == 0;
    }
    bool ok = true;
    for (size_t i = 0; ok && i < b->n_list; i++) {
        uint32_t left = (uint32_t)(b->list[i].pair >> 32);
        if (!begins[(uint32_t)b->list[i].pair]) continue;
        Str l = vocab_text(v, left);
        ok = l.n > 0 && left != b->unk_id;
        for (int k = 0; k < 256; k++)
            if (b->fallback_ids[k] == left) ok = false;
        if (ok && !str_ends(l, STR("\xE2\x96\x81"))) b->joins_space[(uint8_t)l.p[l.n - 1]] = true;
    }
    mem_free(begins);
    return ok;
}

bool bpe_finish(Bpe *b, Err *err) {
    for (int i = 0; i < 256; i++) {
        char c[4], code[8];
        size_t n = 1;
        c[0] = (char)i;
        if (!b->raw) {
            uint32_t cp = byte_level_char((uint8_t)i);
            n = cp < 0x80 ? 1 : 2;
            if (n == 1)
                c[0] = (char)cp;
            else
                c[0] = (char)(0xC0 | cp >> 6), c[1] = (char)(0x80 | (cp & 0x3F));
        }
        b->byte_ids[i] = vocab_find(b->vocab, (Str){c, n});
        const char *hex = "0123456789ABCDEF";
        memcpy(code, "<0x00>", 6);
        code[3] = hex[i >> 4];
        code[4] = hex[i & 15];
        b->fallback_ids[i] = vocab_find(b->vocab, (Str){code, 6});
    }
    for (uint32_t cp = 0; cp < BPE_SMALL_CP; cp++) {
        char c[2] = {(char)cp};
        if (cp >= 0x80) c[0] = (char)(0xC0 | cp >> 6), c[1] = (char)(0x80 | (cp & 0x3F));
        b->cp_ids[cp] = vocab_find(b->vocab, (Str){c, cp < 0x80 ? 1 : 2});
    }
    b->unk_id = b->has_unk ? vocab_find(b->vocab, b->unk) : TOK_NONE;
    b->cut_at_space = !b->mapped && !b->raw && !b->prefix.n && !b->suffix.n && !b->ignore_merges &&
                      find_space_joins(b);
    return build_slots(b) || err_nomem(err, "merge table");
}

void bpe_deinit(Bpe *b) {
    mem_free(b->list);
    mem_free(b->slots);
    b->list = b->slots = NULL;
}

void bpework_deinit(BpeWork *w) {
    mem_free(w->ids);
    buf_deinit(&w->text);
    *w = (BpeWork){0};
}

static bool work_reserve(BpeWork *w, size_t n) {
    if (n <= w->cap) return true;
    size_t cap = w->cap ? w->cap : 256;
    while (cap < n) cap *= 2;
    uint32_t *p = mem_resize_array(w->ids, cap, sizeof *p);
    if (!p) return false;
    w->ids = p;
    w->cap = cap;
    return true;
}

/* The pair of lowest rank is looked for in a plain array: pieces are a few symbols long. */
static size_t merge_short(const Bpe *b, uint32_t *ids, size_t n) {
    uint32_t rank[SHORT_PIECE], made[SHORT_PIECE];
    for (size_t i = 0; i + 1 < n; i++) {
        const BpeMerge *m = bpe_find(b, ids[i], ids[i + 1]);
        rank[i] = m ? m->rank : UINT32_MAX;
        made[i] = m ? m->id : 0;
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == UINT32_MAX) break;
        ids[best] = made[best];
        n--;
        for (size_t i = best + 1; i < n; i++) ids[i] = ids[i + 1];
        for (size_t i = best + 1; i + 1 < n; i++) {
            rank[i] = rank[i + 1];
            made[i] = made[i + 1];
        }
        for (size_t i = best > 0 ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            const BpeMerge *m = bpe_find(b, ids[i], ids[i + 1]);
            rank[i] = m ? m->rank : UINT32_MAX;
            made[i] = m ? m->id : 0;
        }
    }
    return n;
}

static bool merge_and_emit(const Bpe *b, BpeWork *w, TokIds *out, Err *err) {
    size_t n = w->n;
    if (n > SHORT_PIECE) {
        if (!bpe_merge_long(b, w->ids, &n, err)) return false;
    } else {
        n = merge_short(b, w->ids, n);
    }
    for (size_t i = 0; i < n; i++) tokids_push(out, w->ids[i]);
    return true;
}

static bool no_memory(Err *err) { return err_nomem(err, "tokens"); }

static bool symbols_of_bytes(const Bpe *b, Str piece, BpeWork *w, Err *err) {
    if (!work_reserve(w, piece.n)) return no_memory(err);
    w->n = 0;
    for (size_t i = 0; i < piece.n; i++) {
        uint32_t id = b->byte_ids[(uint8_t)piece.p[i]];
        if (id != TOK_NONE) w->ids[w->n++] = id; /* a byte that the vocabulary lacks is dropped */
    }
    return true;
}

static bool push_fallback(const Bpe *b, Str s, BpeWork *w) {
    for (size_t i = 0; i < s.n; i++)
        if (b->fallback_ids[(uint8_t)s.p[i]] == TOK_NONE) return false;
    for (size_t i = 0; i < s.n; i++) w->ids[w->n++] = b->fallback_ids[(uint8_t)s.p[i]];
    return true;
}

static Str affixed(const Bpe *b, Str c, bool first, bool last, Buf *tmp) {
    if ((first || !b->prefix.n) && (!last || !b->suffix.n)) return c;
    buf_clear(tmp);
    if (!first) buf_put(tmp, b->prefix);
    buf_put(tmp, c);
    if (last) buf_put(tmp, b->suffix);
    return buf_str(tmp);
}

/* Characters to ids. An unknown character becomes its bytes, or the unknown token, which waits
 * for the next known character so that neighbours can be fused; bytes do not end that wait (as
 * in the reference). */
static bool symbols_of_chars(const Bpe *b, Str piece, BpeWork *w, Err *err) {
    size_t per_char = 1;
    bool pending = false, ok = true;
    Buf tmp = {0};
    if (b->byte_fallback) {
        size_t widest = 4 + (b->prefix.n > b->suffix.n ? b->prefix.n : b->suffix.n) + b->prefix.n;
        per_char = b->prefix.n || b->suffix.n ? widest + b->suffix.n : 1;
    }
    size_t room;
    if (!size_mul(piece.n, per_char, &room) || !size_add(room, 1, &room) || !work_reserve(w, room))
        return no_memory(err);
    w->n = 0;
    for (size_t i = 0; i < piece.n;) {
        uint32_t len, cp = utf8_fast(piece.p + i, &len);
        bool first = i == 0, last = i + len == piece.n;
        Str s = affixed(b, (Str){piece.p + i, len}, first, last, &tmp);
        uint32_t id = cp < BPE_SMALL_CP && s.n == len ? b->cp_ids[cp] : vocab_find(b->vocab, s);
        i += len;
        if (id != TOK_NONE) {
            if (pending) w->ids[w->n++] = b->unk_id;
            pending = false;
            w->ids[w->n++] = id;
        } else if (!(b->byte_fallback && push_fallback(b, s, w)) && b->has_unk) {
            if (b->unk_id == TOK_NONE) {
                ok = err_set(err, ERR_INPUT, "unknown token \"" STR_F "\" is not in the vocabulary",
                             STR_A(b->unk));
                break;
            }
            if (pending && !b->fuse_unk) w->ids[w->n++] = b->unk_id;
            pending = true;
        }
    }
    if (pending) w->ids[w->n++] = b->unk_id;
    if (tmp.failed) ok = no_memory(err);
    buf_deinit(&tmp);
    return ok;
}

static bool whole_piece(const Bpe *b, Str text, TokIds *out) {
    uint32_t id = vocab_find(b->vocab, text);
    if (id == TOK_NONE) return false;
    tokids_push(out, id);
    return true;
}

bool bpe_encode(const Bpe *b, Str piece, BpeWork *w, TokIds *out, Err *err) {
    if (piece.n == 0) return true;
    bool plain = !b->prefix.n && !b->suffix.n && !b->has_unk && !b->byte_fallback;
    if (b->raw) {
        if (whole_piece(b, piece, out)) return true; /* tiktoken looks the whole piece up first */
        return symbols_of_bytes(b, piece, w, err) && merge_and_emit(b, w, out, err);
    }
    if (b->mapped && (!plain || b->ignore_merges)) {
        buf_clear(&w->text);
        byte_level_put(&w->text, piece);
        if (w->text.failed) return no_memory(err);
        if (b->ignore_merges && whole_piece(b, buf_str(&w->text), out)) return true;
        if (!plain)
            return symbols_of_chars(b, buf_str(&w->text), w, err) && merge_and_emit(b, w, out, err);
    } else if (b->ignore_merges && whole_piece(b, piece, out)) {
        return true;
    }
    if (b->mapped) return symbols_of_bytes(b, piece, w, err) && merge_and_emit(b, w, out, err);
    return symbols_of_chars(b, piece, w, err) && merge_and_emit(b, w, out, err);
}
