/* PLaMo's tokenizer.jsonl: one piece a line, [text, score, type?, ...]; its id is the line's
 * number. */
#include <math.h>
#include <string.h>

#include "json/json.h"
#include "text/spm_build.h"
#include "text/tok_load.h"
#include "text/tokenizer_priv.h"

static uint8_t kind_of(Str name) {
    return str_eqc(name, "BYTE")           ? SPM_BYTE
           : str_eqc(name, "CONTROL")      ? SPM_CONTROL
           : str_eqc(name, "UNKNOWN")      ? SPM_UNKNOWN
           : str_eqc(name, "UNUSED")       ? SPM_UNUSED
           : str_eqc(name, "USER_DEFINED") ? SPM_USER_DEFINED
                                           : SPM_NORMAL;
}

typedef struct Pieces {
    float *scores;
    uint8_t *kinds;
    size_t n, cap;
} Pieces;

static bool add_line(Tokenizer *t, Pieces *p, Str line, Arena *tmp, Err *err) {
    Json *j;
    Str text, kind = STR_NONE;
    double score;
    JsonOptions opt = {.max_depth = 8, .dup = JSON_DUP_LAST};
    arena_reset(tmp);
    if (!json_parse(line, &opt, tmp, &j, err)) return err_wrap(err, "line %zu", p->n + 1);
    if (j->type != JSON_ARRAY || j->n < 2 || !json_str(&j->items[0], &text) ||
        !json_f64(&j->items[1], &score))
        return err_set(err, ERR_INPUT, "line %zu must be [text, score, type]", p->n + 1);
    (void)json_str(json_at(j, 2), &kind);
    if (p->n == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 4096;
        float *s = mem_resize_array(p->scores, cap, sizeof *s);
        if (s) p->scores = s;
        uint8_t *k = s ? mem_resize_array(p->kinds, cap, 1) : NULL;
        if (!k) return err_nomem(err, "vocabulary");
        p->kinds = k;
        p->cap = cap;
    }
    p->scores[p->n] = (float)score;
    p->kinds[p->n] = kind_of(kind);
    return vocab_add(&t->vocab, text, (uint32_t)p->n++) || err_nomem(err, "vocabulary");
}

bool plamo_build(Tokenizer *t, const float *scores, const uint8_t *kinds, size_t n, Err *err) {
    if (!spm_build_unigram(t, scores, kinds, n, err)) return false;
    Unigram *u = &t->unigram;
    u->dialect = UNIGRAM_PLAMO;
    u->byte_fallback = true;
    for (size_t i = 0; i < n; i++) {
        u->scores[i] = round((double)scores[i] * 1e4);
        if (kinds[i] == SPM_USER_DEFINED || kinds[i] == SPM_UNUSED) u->kinds[i] = UNIGRAM_NORMAL;
        if (!(u->scores[i] > -2e7))
            u->kinds[i] = UNIGRAM_SKIPPED; /* too bad to be a number in PLaMo's table */
    }
    for (int b = 0; b < 256; b++) {
        char code[8] = {'<', '0', 'x', "0123456789ABCDEF"[b >> 4], "0123456789ABCDEF"[b & 15], '>'};
        if (vocab_find(&t->vocab, (Str){code, 6}) == TOK_NONE)
            return err_set(err, ERR_INPUT, "vocabulary has no piece %s: PLaMo's need all 256 bytes",
                           code);
    }
    return decoder_push(&t->dec, (DecStep){.kind = DEC_BYTE_FALLBACK}, err) &&
           decoder_push(&t->dec, (DecStep){.kind = DEC_FUSE}, err);
}

bool load_plamo_into(Tokenizer *t, Str text, Err *err) {
    Pieces p = {0};
    Arena tmp = {0};
    Str line;
    bool ok = true;
    while (ok && str_split(&text, '\n', &line))
        if (str_trim(line).n) ok = add_line(t, &p, line, &tmp, err);
    if (ok && p.n == 0) ok = err_set(err, ERR_INPUT, "tokenizer.jsonl has no pieces");
    ok = ok && plamo_build(t, p.scores, p.kinds, p.n, err);
    for (size_t i = 0; ok && i < t->vocab.n; i++) {
        const VocabEntry *e = &t->vocab.entries[i];
        if (p.kinds[e->id] != SPM_CONTROL && p.kinds[e->id] != SPM_UNKNOWN) continue;
        AddedToken a = {.text = vocab_entry_text(&t->vocab, e), .id = e->id, .special = true};
        ok = tokenizer_add_token(t, a, err);
    }
    static const struct {
        TokRole role;
        const char *text;
    } roles[] = {{TOK_BOS, "<|plamo:bos|>"},
                 {TOK_EOS, "<|plamo:eos|>"},
                 {TOK_UNK, "<|plamo:unk|>"},
                 {TOK_PAD, "<|plamo:pad|>"}};
    for (size_t i = 0; ok && i < sizeof roles / sizeof *roles; i++)
        t->roles[roles[i].role] = vocab_find(&t->vocab, str_c(roles[i].text));
    ok = ok && postproc_set(&t->post, t->roles[TOK_BOS], TOK_NONE, err);
    arena_deinit(&tmp);
    mem_free(p.scores);
    mem_free(p.kinds);
    return ok;
}
