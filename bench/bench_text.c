/* bench_text: what loading a tokenizer and encoding text cost, on one thread, in processor time: on
 * a shared machine the clock on the wall measures the others.
 *
 *     bench_text [FILE...]          load time, MB/s on the mixed text, ns per byte on text made to hurt; FILE: tokenizer.json
 *     bench_text corpus             writes the mixed text, 1 MB, always the same one
 *     bench_text encode FILE TEXT   "ns ids sum" of the median run: what bench_text.py compares with the reference
 *
 * Figures are medians. bench_text.py, which `make bench` runs, finds the files and brings the
 * reference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/os.h"
#include "base/rng.h"
#include "json/json.h"
#include "text/tokenizer.h"

enum { CORPUS_BYTES = 1000 * 1000, RUNS = 5, LONG_LINE = 150 };

static const char *const own_files[] = {
    "tests/data/tokenizer/smollm2/tokenizer.json",
    "tests/data/tokenizer/mistral_v1/tokenizer.json",
    "tests/data/tokenizer/phi3/tokenizer.json",
    "tests/data/tokenizer/spm_unigram_en/tokenizer.json",
    "tests/data/tokenizer/minilm_bert/tokenizer.json",
};

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int u64_cmp(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *times, size_t n) {
    qsort(times, n, sizeof *times, u64_cmp);
    return times[n / 2];
}

/* --- the mixed text: prose, code, numbers, the corpus of the tokenizer tests and scripts of the
 * world --- */

typedef struct Dice {
    uint64_t seed, at;
} Dice;

static uint32_t draw(Dice *r, uint32_t below) { return rng_u32(r->seed, 0, r->at++, 0) % below; }

static void put_word(Buf *b, Dice *r) {
    static const char *const words[] = {
        "the",    "of",    "and",   "model",  "to",      "water",  "in",      "light",    "is",
        "paper",  "that",  "for",   "memory", "history", "was",    "with",    "language", "house",
        "they",   "river", "this",  "have",   "market",  "from",   "science", "one",      "had",
        "method", "by",    "word",  "but",    "general", "some",   "number",  "system",   "other",
        "there",  "when",  "can",   "people", "quiet",   "where",  "attent",  "develop",  "govern",
        "answer", "round", "after", "result", "measure", "travel", "through", "because",  "which",
    };
    static const char *const ends[] = {"",   "",    "",     "",   "",   "s",
                                       "ed", "ing", "ment", "ly", "er", "'s"};
    size_t at = b->n;
    buf_put(b, str_c(words[draw(r, sizeof words / sizeof *words)]));
    buf_put(b, str_c(ends[draw(r, sizeof ends / sizeof *ends)]));
    if (draw(r, 12) == 0 && !b->failed) b->p[at] = (char)(b->p[at] - 32);
}

static void put_prose(Buf *b, Dice *r) {
    for (uint32_t n = 4 + draw(r, 24); n; n--) {
        put_word(b, r);
        if (n > 1 && draw(r, 9) == 0) buf_putc(b, ',');
        if (n > 1) buf_putc(b, ' ');
    }
    buf_put(b, draw(r, 6) ? STR(". ") : STR("!\n\n"));
}

static void put_code(Buf *b, Dice *r) {
    buf_putf(b, "%*sx_%u = %u.%04u * fn%u(a, %u);", (int)draw(r, 4) * 4, "", draw(r, 1000),
             draw(r, 10), draw(r, 10000), draw(r, 60), draw(r, 1000000));
    if (draw(r, 3) == 0) buf_putf(b, " /* %u%% of $%u */", draw(r, 101), draw(r, 5000));
    buf_putc(b, '\n');
}

static void put_script(Buf *b, Dice *r) {
    static const struct {
        uint32_t from, n;
    } scripts[] = {{0x4E00, 5000}, {0xAC00, 11000}, {0x3041, 80}, {0x0430, 32}, {0x0391, 50},
                   {0x0620, 42},   {0x05D0, 26},    {0x0905, 48}, {0x0E01, 45}, {0x00C0, 180},
                   {0x1F300, 500}, {0x1E00, 200},   {0x0300, 60}};
    uint32_t s = draw(r, sizeof scripts / sizeof *scripts);
    for (uint32_t n = 2 + draw(r, 20); n; n--) {
        for (uint32_t k = 1 + draw(r, 7); k; k--)
            buf_put_utf8(b, scripts[s].from + draw(r, scripts[s].n));
        buf_putc(b, ' ');
    }
    buf_putc(b, '\n');
}

/* The lines of the tests' corpus, but for the long ones, which are there to be pathological. */
static bool lines_read(Arena *a, Str *lines, size_t max, size_t *n, Err *err) {
    Buf file = {0};
    Str rest, line, text;
    Json *j;
    bool ok = os_read_file("tests/data/tokenizer/corpus.jsonl", TOK_MAX_FILE_BYTES, &file, err);
    rest = buf_str(&file);
    for (*n = 0; ok && *n < max && str_split(&rest, '\n', &line);) {
        if (!line.n) continue;
        ok = json_parse(line, NULL, a, &j, err);
        if (ok && json_str(json_get(j, "text"), &text) && text.n <= LONG_LINE) lines[(*n)++] = text;
    }
    buf_deinit(&file);
    return ok && (*n || err_set(err, ERR_INPUT, "the corpus of the tests has no lines"));
}

static bool corpus_make(Buf *b, Err *err) {
    static Str lines[1000];
    Arena a = {0};
    Dice r = {.seed = 1};
    size_t n;
    bool ok = lines_read(&a, lines, 1000, &n, err);
    while (ok && b->n < CORPUS_BYTES && !b->failed) {
        uint32_t kind = draw(&r, 100);
        if (kind < 72) {
            put_prose(b, &r);
        } else if (kind < 82) {
            put_code(b, &r);
        } else if (kind < 96) {
            buf_put(b, lines[draw(&r, (uint32_t)n)]);
            buf_putc(b, draw(&r, 2) ? ' ' : '\n');
        } else {
            put_script(b, &r);
        }
    }
    arena_deinit(&a);
    return ok && buf_check(b, "the mixed text", err);
}

/* --- measuring --- */

typedef struct Encoded {
    uint64_t ns, sum; /* median; of (i + 1) * id, to compare by */
    size_t n;
} Encoded;

static bool encode_time(const Tokenizer *t, Str text, size_t n_runs, Encoded *out, Err *err) {
    uint64_t times[RUNS];
    for (size_t k = 0; k < n_runs; k++) {
        TokIds ids = {0};
        uint64_t begin = cpu_ns();
        bool ok = tokenizer_encode_text(t, text, false, true, &ids, err);
        times[k] = cpu_ns() - begin;
        *out = (Encoded){.n = ids.n};
        for (size_t i = 0; i < ids.n; i++) out->sum += (i + 1) * ids.p[i];
        tokids_deinit(&ids);
        if (!ok) return false;
    }
    out->ns = median(times, n_runs);
    return true;
}

static bool load_time(const char *path, Tokenizer **t, uint64_t *ns, Err *err) {
    uint64_t times[RUNS];
    *t = NULL;
    for (size_t k = 0; k < RUNS; k++) {
        tokenizer_free(*t);
        uint64_t begin = cpu_ns();
        if (!tokenizer_load_file(path, NULL, t, err)) return false;
        times[k] = cpu_ns() - begin;
    }
    *ns = median(times, RUNS);
    return true;
}

typedef enum Hurt { HURT_LETTER, HURT_SPACE, HURT_NO_SPACES } Hurt;

/* ns per byte of 100 kB, 1 MB, 10 MB. In linear time they differ by what the caches hold, not by
 * the length. */
static bool hurt_print(const Tokenizer *t, Hurt kind, Err *err) {
    static const size_t sizes[] = {100 * 1000, 1000 * 1000, 10 * 1000 * 1000};
    char *p = mem_alloc(sizes[2]);
    bool ok = p || err_nomem(err, "a text");
    Dice r = {.seed = 2};
    for (size_t i = 0; p && i < sizes[2]; i++)
        p[i] = kind == HURT_LETTER ? 'a' : kind == HURT_SPACE ? ' ' : (char)('a' + draw(&r, 26));
    printf("  |");
    for (size_t i = 0; ok && i < 3; i++) {
        Encoded e;
        ok = encode_time(t, (Str){p, sizes[i]}, i == 2 ? 1 : 3, &e, err);
        if (ok) printf(" %6.1f", (double)e.ns / (double)sizes[i]);
    }
    mem_free(p);
    return ok;
}

static bool file_print(const char *path, Str corpus, Err *err) {
    Tokenizer *t;
    Encoded e;
    uint64_t load_ns;
    Str name = str_c(path);
    size_t slash = str_rfind(name, STR("/tokenizer.json"));
    if (slash != STR_NPOS) name = str_slice(name, 0, slash);
    slash = str_rfind(name, STR("/"));
    if (slash != STR_NPOS) name = str_from(name, slash + 1);
    bool ok = load_time(path, &t, &load_ns, err) && encode_time(t, corpus, RUNS, &e, err);
    if (ok)
        printf("%-15.*s %-9s %8.1f %8.1f", STR_A(name), tokenizer_kind(t), (double)load_ns / 1e6,
               (double)corpus.n * 1e3 / (double)e.ns);
    for (int kind = HURT_LETTER; ok && kind <= HURT_NO_SPACES; kind++)
        ok = hurt_print(t, (Hurt)kind, err);
    putchar('\n');
    tokenizer_free(t);
    return ok;
}

static bool files_print(const char *const *paths, size_t n, Err *err) {
    Buf corpus = {0};
    bool ok = corpus_make(&corpus, err);
    puts("one thread, processor time, medians; ns per byte for 100 kB, 1 MB, 10 MB\n"
         "tokenizer       kind       load ms     MB/s  | one letter           | spaces             "
         "  "
         "| letters without spaces");
    for (size_t i = 0; ok && i < n; i++) ok = file_print(paths[i], buf_str(&corpus), err);
    buf_deinit(&corpus);
    return ok;
}

static bool encode_print(const char *path, const char *text_path, Err *err) {
    Tokenizer *t = NULL;
    Buf text = {0};
    Encoded e;
    bool ok = os_read_file(text_path, TOK_MAX_TEXT_BYTES, &text, err) &&
              tokenizer_load_file(path, NULL, &t, err) &&
              encode_time(t, buf_str(&text), 1, &e, err) && /* touches the memory first */
              encode_time(t, buf_str(&text), RUNS, &e, err);
    if (ok) printf("%llu %zu %llu\n", (unsigned long long)e.ns, e.n, (unsigned long long)e.sum);
    tokenizer_free(t);
    buf_deinit(&text);
    return ok;
}

static bool corpus_print(Err *err) {
    Buf b = {0};
    bool ok = corpus_make(&b, err);
    if (ok) fwrite(b.p, 1, b.n, stdout);
    buf_deinit(&b);
    return ok;
}

int main(int argc, char **argv) {
    Err err = {0};
    bool ok;
    if (argc == 2 && !strcmp(argv[1], "corpus"))
        ok = corpus_print(&err);
    else if (argc == 4 && !strcmp(argv[1], "encode"))
        ok = encode_print(argv[2], argv[3], &err);
    else if (argc > 1)
        ok = files_print((const char *const *)argv + 1, (size_t)argc - 1, &err);
    else
        ok = files_print(own_files, sizeof own_files / sizeof *own_files, &err);
    if (!ok) fprintf(stderr, "%s\n", err.msg);
    return !ok;
}
