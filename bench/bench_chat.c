/* bench_chat: what templates cost, on one thread, in processor time: compiling each of the
 * repository's templates, rendering a chat of 50 turns with it and tokenizing that, and the time
 * until templates that mean harm end in their error.
 *
 *     bench_chat [-v]      -v: a line per template
 *
 * The tokenizer is SmolLM2's for every template: the figures are about cost, not about a model.
 * Figures are medians. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/os.h"
#include "chat/chat.h"
#include "text/tokenizer.h"

#define TEMPLATES "tests/data/template"
#define VOCABULARY "tests/data/tokenizer/smollm2/tokenizer.json"

enum { TURNS = 50, RUNS = 9, MAX_TEMPLATES = 200 };

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

/* --- templates that models have --- */

typedef struct Cost {
    Str name;
    uint64_t compile, open, render, whole; /* ns; whole: rendering and tokenizing */
    size_t bytes, tokens;
    bool refused; /* the template wants something else than a plain chat */
} Cost;

static bool chat_make(Arena *a, Json **messages, Err *err) {
    Buf b = {0};
    buf_putc(&b, '[');
    for (int i = 0; i < TURNS; i++) {
        buf_putf(&b,
                 "%s{\"role\":\"user\",\"content\":\"Question %d: how do I keep bread fresh for "
                 "longer?\"}",
                 i ? "," : "", i);
        if (i + 1 < TURNS)
            buf_putf(&b,
                     ",{\"role\":\"assistant\",\"content\":\"Answer %d: store it in a dry, closed "
                     "box at room "
                     "temperature; for more than %d days, slice and freeze it.\\nToast the slices "
                     "straight "
                     "from the freezer.\"}",
                     i, 2 + i % 3);
    }
    buf_putc(&b, ']');
    bool ok = buf_check(&b, "a chat", err) && json_parse(buf_str(&b), NULL, a, messages, err);
    buf_deinit(&b);
    return ok;
}

static bool compile_time(Str source, uint64_t *out, Err *err) {
    uint64_t times[RUNS];
    for (int k = 0; k < RUNS; k++) {
        Jinja *j;
        uint64_t begin = cpu_ns();
        if (!jinja_compile(source, &j, err)) return false;
        times[k] = cpu_ns() - begin;
        jinja_free(j);
    }
    *out = median(times, RUNS);
    return true;
}

static bool open_time(Str source, ChatTemplate **t, uint64_t *out, Err *err) {
    static const ChatNamed tokens[] = {{{"bos_token", 9}, {"<s>", 3}},
                                       {{"eos_token", 9}, {"</s>", 4}}};
    ChatSource src = {.chat_template_jinja = source, .tokens = tokens, .n_tokens = 2};
    uint64_t times[RUNS];
    *t = NULL;
    for (int k = 0; k < RUNS; k++) {
        chat_template_close(*t);
        uint64_t begin = cpu_ns();
        if (!chat_template_open(&src, t, err)) return false;
        times[k] = cpu_ns() - begin;
    }
    *out = median(times, RUNS);
    return true;
}

static bool prompt_encode(const Tokenizer *tok, const ChatPrompt *p, TokIds *ids, Err *err) {
    Arena a = {0};
    TokSpan *spans = arena_array(&a, TokSpan, p->out.n_spans);
    bool ok = spans || err_nomem(err, "spans");
    for (size_t i = 0; ok && i < p->out.n_spans; i++)
        spans[i] = (TokSpan){p->out.spans[i].text, p->out.spans[i].from_template};
    ok = ok && tokenizer_encode(tok, spans, p->out.n_spans, true, ids, err);
    arena_deinit(&a);
    return ok;
}

static bool chat_time(const ChatTemplate *t, const Tokenizer *tok, const Json *messages, Cost *c,
                      Err *err) {
    ChatRequest req = {.messages = messages,
                       .add_generation_prompt = true,
                       .adapt = true,
                       .now = "2026-01-02T03:04:05"};
    uint64_t render[RUNS], whole[RUNS];
    bool ok = true;
    for (int k = 0; ok && k < RUNS; k++) {
        ChatPrompt p = {0};
        TokIds ids = {0};
        uint64_t begin = cpu_ns();
        bool rendered = chat_render(t, &req, &p, err);
        render[k] = cpu_ns() - begin;
        ok = rendered && prompt_encode(tok, &p, &ids, err);
        whole[k] = cpu_ns() - begin;
        c->refused = !rendered;
        c->bytes = p.out.text.n;
        c->tokens = ids.n;
        tokids_deinit(&ids);
        chat_prompt_deinit(&p);
        if (!rendered) return true;
    }
    if (!ok) return false;
    c->render = median(render, RUNS);
    c->whole = median(whole, RUNS);
    return true;
}

static bool template_time(Str name, const Tokenizer *tok, const Json *messages, Cost *c, Err *err) {
    char path[512];
    Buf source = {0};
    ChatTemplate *t = NULL;
    snprintf(path, sizeof path, TEMPLATES "/%.*s", STR_A(name));
    *c = (Cost){.name = name};
    bool ok = os_read_file(path, JINJA_MAX_SOURCE, &source, err) &&
              compile_time(buf_str(&source), &c->compile, err) &&
              open_time(buf_str(&source), &t, &c->open, err) && chat_time(t, tok, messages, c, err);
    chat_template_close(t);
    buf_deinit(&source);
    return ok || err_wrap(err, "%s", path);
}

static void figure_print(const char *what, const Cost *c, size_t n, size_t field) {
    uint64_t v[MAX_TEMPLATES];
    size_t worst = 0;
    for (size_t i = 0; i < n; i++) {
        v[i] = *(const uint64_t *)(const void *)((const char *)&c[i] + field);
        if (v[i] > *(const uint64_t *)(const void *)((const char *)&c[worst] + field)) worst = i;
    }
    uint64_t most = v[worst];
    printf("%-28s median %8.3f ms   worst %8.3f ms (" STR_F ")\n", what, (double)median(v, n) / 1e6,
           (double)most / 1e6, STR_A(c[worst].name));
}

static bool templates_print(bool verbose, Err *err) {
    static Cost costs[MAX_TEMPLATES];
    Arena a = {0};
    Str *names;
    size_t n_names, n = 0, n_refused = 0;
    Json *messages;
    Tokenizer *tok = NULL;
    bool ok = os_list_dir(TEMPLATES, &a, &names, &n_names, err) && chat_make(&a, &messages, err) &&
              tokenizer_load_file(VOCABULARY, NULL, &tok, err);
    for (size_t i = 0; ok && i < n_names && n < MAX_TEMPLATES; i++) {
        if (!str_ends(names[i], STR(".jinja"))) continue;
        Cost *c = &costs[n];
        ok = template_time(names[i], tok, messages, c, err);
        n_refused += c->refused;
        n += ok && !c->refused;
        if (ok && verbose)
            printf("%8.3f %8.3f %8.3f %8.3f ms %7zu bytes %6zu tokens  " STR_F "\n",
                   (double)c->compile / 1e6, (double)c->open / 1e6, (double)c->render / 1e6,
                   (double)c->whole / 1e6, c->bytes, c->tokens, STR_A(c->name));
    }
    if (ok && n) {
        printf("%zu templates, a chat of %d turns (%d messages, about %zu bytes), one thread, "
               "processor time; %zu "
               "refused it\n",
               n, TURNS, 2 * TURNS - 1, costs[n / 2].bytes, n_refused);
        figure_print("compile", costs, n, offsetof(Cost, compile));
        figure_print("open: compile and try out", costs, n, offsetof(Cost, open));
        figure_print("render", costs, n, offsetof(Cost, render));
        figure_print("render and tokenize", costs, n, offsetof(Cost, whole));
    }
    tokenizer_free(tok);
    arena_deinit(&a);
    return ok;
}

/* --- templates that mean harm --- */

static const char *const hostile[] = {
    "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
    "{% for i in range(10 ** 9) %}{{ i }}{% endfor %}",
    "{% set n = namespace(s='x') %}{% for i in range(100) %}{% set n.s = n.s + n.s %}{% endfor %}",
    "{% set n = namespace(s='x') %}{% for i in range(100000) %}{% set n.s = n.s ~ 'yy' %}{% endfor "
    "%}",
    "{% set n = namespace(s=[1]) %}{% for i in range(100) %}{% set n.s = n.s + n.s %}{% endfor %}",
    "{% set n = namespace(l=['x']) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor "
    "%}{{ n.l }}",
    "{% set n = namespace(l=['x']) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor "
    "%}{{ n.l|tojson }}",
    "{% set n = namespace(l=(1,)) %}{% for i in range(60) %}{% set n.l = (n.l, n.l) %}{% endfor "
    "%}{{ {n.l: 1} }}",
    "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}",
    "{% macro m(x) %}{% if x %}{{ m(x - 1) }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(99) }}",
    "{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}",
    "{% set s = 'a' * 100000 %}{% for i in range(100000) %}{% set q = s.count('a') %}{% endfor %}",
    "{% set s = 'ab' * 100000 %}{% for i in range(100000) %}{% set q = s.replace('a', 'bb') %}{% "
    "endfor %}",
    "{% set s = 'a' * 100000 %}{% for i in range(100000) %}{% set q = ('b' ~ s) in s %}{% endfor "
    "%}",
    "{% set s = 'a' * 100000 %}{% for i in range(100000) %}{{ s }}{% endfor %}",
    "{% set s = 'a b ' * 50000 %}{% for i in range(1000) %}{% set q = s.split() %}{% endfor %}",
    "{% set s = range(50000) | list %}{% for i in range(10000) %}{% set q = s | sort(reverse=true) "
    "%}{% endfor %}",
    "{% set s = range(50000) | list %}{% for i in range(10000) %}{% set q = s | unique | list %}{% "
    "endfor %}",
    "{% set s = range(50000) | list %}{% for i in range(10000) %}{% set q = s | map('string') | "
    "join %}{% endfor %}",
    "{% set s = range(50000) | list %}{% for i in range(10000) %}{% set q = s == range(50000) | "
    "list %}{% endfor %}",
    "{% for i in range(1000) %}{{ 7 ** 5000 }}{% endfor %}",
    "{% set n = namespace(x=3) %}{% for i in range(100) %}{% set n.x = n.x * n.x %}{% endfor %}{{ "
    "n.x }}",
    "{{ 10 ** 10000000 }}",
    "{{ 'x' * 10 ** 12 }}",
    "{{ 'x' | center(10 ** 9) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ ('\\n' * 100000) | indent(100000, blank=true) }}",
    "{{ ('a ' * 1000000) | wordwrap(1, wrapstring='x' * 1000) }}",
    "{{ ('http://a.b ' * 100000) | urlize }}",
    "{{ ('<' * 1000000) | striptags }}{{ ('<a' * 1000000) | striptags }}{{ 1 // 0 }}",
    "{{ [1] | batch(10 ** 9, 'x') | list }}",
    "{{ range(10 ** 18) | list }}",
    "{{ strftime_now('%999999Y') }}",
};

static const struct {
    const char *first, *again, *last;
} nested[] = {{"{{ ", "(", "1"},
              {"{{ ", "[", "1"},
              {"{{ ", "not ", "1 }}"},
              {"{{ 1", "|string", " }}"},
              {"{{ a", "[a", " }}"},
              {"", "{% if 1 %}", ""},
              {"", "{% for a in 'x' %}", ""}};

typedef struct Harm {
    uint64_t worst_ns, sum_ns;
    Str worst;
    size_t n, n_fine;
} Harm;

static void harm_try(Str source, Harm *h) {
    Err err;
    Jinja *t = NULL;
    JinjaInput in = {.now = "2026-01-02T03:04:05"};
    JinjaOutput out = {0};
    uint64_t begin = cpu_ns();
    bool fine = jinja_compile(source, &t, &err) && jinja_render(t, &in, &out, &err);
    jinja_output_deinit(&out);
    jinja_free(t);
    uint64_t ns = cpu_ns() - begin;
    h->n++;
    h->sum_ns += ns;
    if (fine)
        printf("no error, %.1f ms: %.*s\n", (double)ns / 1e6,
               (int)(source.n < 100 ? source.n : 100), source.p);
    h->n_fine += fine;
    if (ns <= h->worst_ns) return;
    h->worst_ns = ns;
    h->worst = source;
}

static bool hostile_print(Err *err) {
    Buf b[sizeof nested / sizeof *nested] = {0};
    Harm h = {0};
    bool ok = true;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) harm_try(str_c(hostile[i]), &h);
    for (size_t i = 0; ok && i < sizeof nested / sizeof *nested; i++) {
        buf_put(&b[i], str_c(nested[i].first));
        while (b[i].n < JINJA_MAX_SOURCE - 100) buf_put(&b[i], str_c(nested[i].again));
        buf_put(&b[i], str_c(nested[i].last));
        ok = buf_check(&b[i], "a template", err);
        if (ok) harm_try(buf_str(&b[i]), &h);
    }
    if (ok)
        printf("%zu hostile templates: %zu end in an error, after %.1f ms in the mean; worst %.1f "
               "ms: %.*s\n",
               h.n, h.n - h.n_fine, (double)h.sum_ns / 1e6 / (double)h.n, (double)h.worst_ns / 1e6,
               (int)(h.worst.n < 100 ? h.worst.n : 100), h.worst.p);
    for (size_t i = 0; i < sizeof nested / sizeof *nested; i++) buf_deinit(&b[i]);
    return ok;
}

int main(int argc, char **argv) {
    Err err = {0};
    bool ok = templates_print(argc > 1 && !strcmp(argv[1], "-v"), &err) && hostile_print(&err);
    if (!ok) fprintf(stderr, "%s\n", err.msg);
    return !ok;
}
