/* Which tokenizer.ggml.pre stands for a byte-level BPE tokenizer: the one that cuts the same pieces
 * out of a text in which all of them differ. */
#include "text/gguf_pre.h"
#include "text/tokenizer_priv.h"

/* Contractions in both cases, runs of digits of other scripts too, blanks of all kinds at all
 * places, scripts with and without case, marks, punctuation and symbols in runs. */
static const char PROBE[] =
    "I'm you'RE it'S we'll 'tis don't DON'T Camel camelCase HTTPServer xKEY aB Ab\n"
    "0 12 345 6789 01234567 1,234.5 3x 4th v2.0 \xD9\xA1\xD9\xA2\xD9\xA3 \xC2\xBD \xE2\x85\xAB "
    "\xE2\x82\x82\n"
    " a  b   c    d\t\te \n f\n\n\ng \r\n h\r\n\r\n  i   \n   \n\n  \t \n j \xC2\xA0k "
    "\xE3\x80\x80l\n"
    "\xE4\xBD\xA0\xE5\xA5\xBD\xE4\xB8\x96\xE7\x95\x8C\xEF\xBC\x8C abc\xE4\xB8\xAD\xE6\x96\x87 "
    "\xE3\x81\x93\xE3\x82\x93 \xE3\x82\xAB\xE3\x83\x8A \xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4 "
    "\xE0\xB9\x84\xE0\xB8\x97\xE0\xB8\xA2 \xD8\xB9\xD8\xB1\xD8\xA8\xD9\x8A\n"
    "\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xCE\x93\xCE\xB5\xCE\xB9\xCE\xAC "
    "\xC3\x89t\xC3\xA9 e\xCC\x81t\xC3\xA9 na\xC3\xAFve \xC3\x9F \xC7\x85 "
    "\xE0\xA4\xB9\xE0\xA4\xBF\xE0\xA4\xA8\xE0\xA5\x8D\xE0\xA4\xA6\xE0\xA5\x80\n"
    "!!! ?! a.b a/b a/ / // \\n (x) [y] {z} <|im|> a_b __c #d @e $5 5% 6^7 ~ `q` \"s\" '' a'b "
    "\xE2\x80\x9Ct\xE2\x80\x9D\xE2\x80\xA6\xE3\x80\x82 + = | \xE2\x82\xAC \xC2\xA3 \xE2\x88\x9E "
    "\xF0\x9F\x98\x80\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD \xE2\x86\x92\n/\n.\n\n end  ";

static bool pre_build(const GgufPre *pre, bool leave_mapping, Pretokenizer *p, Err *err) {
    for (int i = 0; i < GGUF_PRE_MAX_PARTS && pre->parts[i]; i++)
        if (!pretok_push_regex(p, str_c(pre->parts[i]), SPLIT_ISOLATED, false, err)) return false;
    if (!pretok_push(p, (PretokStep){.kind = PRETOK_BYTE_LEVEL}, err)) return false;
    return !leave_mapping || pretok_leave_mapping(p) ||
           err_set(err, ERR_INTERNAL, "byte-level mapping");
}

static bool same_pieces(Str a, const PieceList *as, Str b, const PieceList *bs) {
    if (as->n != bs->n) return false;
    for (size_t i = 0; i < as->n; i++)
        if (!str_eq(piece_str(a, as->p[i]), piece_str(b, bs->p[i]))) return false;
    return true;
}

typedef struct Probe { /* what the tokenizer makes of it */
    const Tokenizer *t;
    Str text;
    const PieceList *pieces;
    bool nfc;
} Probe;

static bool cuts_alike(const Probe *want, const GgufPre *pre, bool *alike, Err *err) {
    Pretokenizer p = {0};
    PretokWork w = {0};
    Str text;
    const PieceList *pieces;
    *alike = false;
    bool ok = pre_build(pre, want->t->bpe.mapped, &p, err) &&
              pretok_run(&p, str_c(PROBE), true, &w, &text, &pieces, err);
    if (ok) *alike = same_pieces(want->text, want->pieces, text, pieces);
    pretokwork_deinit(&w);
    pretok_deinit(&p);
    return ok;
}

/* Among those that cut alike, the one with most flags in common: the flags change tokens only where
 * merges cannot reach a whole piece, or where text is not composed. */
static bool best_of(const Probe *want, Str *out, Err *err) {
    int best = -1;
    size_t n;
    const GgufPre *list = ggufpre_list(&n);
    for (size_t i = 0; i < n; i++) {
        bool alike;
        int score = (list[i].ignore_merges == want->t->bpe.ignore_merges) +
                    (list[i].nfc == want->nfc) * 2 + !list[i].rare * 4;
        if (list[i].escape_blanks || score <= best) continue;
        if (!cuts_alike(want, &list[i], &alike, err)) return false;
        Str names = str_c(list[i].names);
        if (alike && str_split(&names, ' ', out)) best = score;
    }
    return best >= 0 || err_set(err, ERR_UNSUPPORTED,
                                "this tokenizer cuts text as no known tokenizer.ggml.pre does");
}

bool ggufpre_match(const Tokenizer *t, Str *name, Err *err) {
    PretokWork w = {0};
    Probe want = {.t = t};
    if (t->kind != MODEL_BPE || !(t->bpe.mapped || t->bpe.raw))
        return err_set(err, ERR_UNSUPPORTED, "this is no byte-level BPE tokenizer");
    for (size_t i = 0; i < t->norm.n; i++) {
        const NormStep *s = &t->norm.steps[i];
        if (s->kind != NORM_UNICODE || s->form != UNICODE_NFC)
            return err_set(err, ERR_UNSUPPORTED,
                           "this tokenizer rewrites text as no tokenizer.ggml.pre does");
        want.nfc = true;
    }
    bool ok = pretok_run(&t->pretok, str_c(PROBE), true, &w, &want.text, &want.pieces, err) &&
              best_of(&want, name, err);
    pretokwork_deinit(&w);
    return ok;
}
