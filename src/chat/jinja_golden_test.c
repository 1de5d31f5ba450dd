/* Proves that templates render as Python's jinja2 renders them: every snippet and every (template,
 * conversation) pair of tests/data, and in CI of the golden folder: same text byte for byte, the
 * same situations are errors, raise_exception's message is exact; rendering twice gives the same;
 * and text of the user's never counts as the template's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "chat/chat.h"

enum { FILE_MAX = 16 << 20 };

typedef struct Tally {
    size_t n, bad;
} Tally;

static const JsonOptions options = {.dup = JSON_DUP_LAST, .max_depth = 512};

static bool read_text(const char *dir, const char *sub, const char *name, Buf *out) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/%s", dir, sub, name);
    return os_read_file(path, FILE_MAX, out, NULL);
}

static bool next_line(Str *rest, Str *line) {
    while (str_split(rest, '\n', line))
        if (line->n) return true;
    return false;
}

static bool judge(const Json *want, bool ok, const JinjaOutput *out) {
    Str text, kind, message;
    if (json_str(json_get(want, "out"), &text)) return ok && str_eq(text, buf_str(&out->text));
    if (!json_str(json_get(want, "error"), &kind)) return false;
    if (!str_eqc(kind, "raise")) return !ok && !out->raised;
    return !ok && out->raised && json_str(json_get(want, "message"), &message) &&
           str_eq(message, buf_str(&out->message));
}

/* Spans cover the text exactly, in order, and neighbours differ. */
static bool spans_fit(const JinjaOutput *out) {
    size_t at = 0;
    for (size_t i = 0; i < out->n_spans; i++) {
        if (out->spans[i].text.p != out->text.p + at || !out->spans[i].text.n) return false;
        if (i && out->spans[i].from_template == out->spans[i - 1].from_template) return false;
        at += out->spans[i].text.n;
    }
    return at == out->text.n;
}

static bool render_twice(Str template, const Json *context, const JinjaVar *vars, size_t n_vars,
                         const char *now, const Json *want, Err *err) {
    Jinja *t = NULL;
    JinjaOutput a = {0}, b = {0};
    JinjaInput in = {.context = context, .vars = vars, .n_vars = n_vars, .now = now};
    bool ok = jinja_compile(template, &t, err) && jinja_render(t, &in, &a, err),
         fits = judge(want, ok, &a);
    if (ok) {
        fits = fits && spans_fit(&a) && jinja_render(t, &in, &b, err);
        fits = fits && str_eq(buf_str(&a.text), buf_str(&b.text)) && a.ops == b.ops;
    }
    jinja_output_deinit(&a);
    jinja_output_deinit(&b);
    jinja_free(t);
    return fits;
}

static void report(Tally *t, bool ok, const char *file, Str id, const Err *err) {
    t->n++;
    if (ok) return;
    if (t->bad++ < 10) print_message("%s: %.*s: differs (%s)\n", file, (int)id.n, id.p, err->msg);
}

/* Members of two objects, the second's winning. */
static Json *merged(Arena *a, const Json *base, const Json *more) {
    Json *j = arena_new(a, Json);
    size_t n = (base ? base->n : 0) + (more ? more->n : 0);
    *j = (Json){.type = JSON_OBJECT, .items = arena_array(a, Json, n + 1)};
    for (size_t i = 0; base && i < base->n; i++)
        if (!json_find(more, base->items[i].key)) j->items[j->n++] = base->items[i];
    for (size_t i = 0; more && i < more->n; i++) j->items[j->n++] = more->items[i];
    return j;
}

static void run_snippets(const char *dir, const char *file, Tally *t) {
    Buf text = {0};
    Arena a = {0};
    Json *head, *c;
    Str rest, line, template, id = STR_NONE, now = STR_NONE;
    char clock[40] = {0};
    if (!read_text(dir, "jinja", file, &text)) return;
    rest = buf_str(&text);
    assert_true(next_line(&rest, &line) && json_parse(line, &options, &a, &head, NULL));
    assert_true(json_str(json_get(json_get(head, "meta"), "now"), &now) && now.n < sizeof clock);
    memcpy(clock, now.p, now.n);
    while (next_line(&rest, &line)) {
        Err err = {0};
        assert_true(json_parse(line, &options, &a, &c, &err));
        assert_true(json_str(json_get(c, "template"), &template) &&
                    json_str(json_get(c, "id"), &id));
        const Json *context = merged(&a, json_get(head, "context"), json_get(c, "context"));
        report(t, render_twice(template, context, NULL, 0, clock, c, &err), file, id, &err);
    }
    arena_deinit(&a);
    buf_deinit(&text);
}

static void check_snippets(const char *dir, size_t least) {
    static const char *const files[] = {"language.jsonl", "expressions.jsonl", "statements.jsonl",
                                        "statements_ok.jsonl", "values.jsonl"};
    Tally t = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) run_snippets(dir, files[i], &t);
    print_message("%s: %zu of %zu snippets\n", dir, t.n - t.bad, t.n);
    assert_true(t.n >= least);
    assert_int_equal(t.bad, 0);
}

static void snippets_render_as_in_python(void **state) {
    (void)state;
    check_snippets("tests/data", 2000);
    const char *golden = getenv("MLXCEL_GOLDEN");
    if (golden && os_is_dir(golden)) check_snippets(golden, 400);
}

typedef struct Set {
    Arena a;
    Json *conversations;
    Buf template;
    Json *head;
    JinjaVar vars[32];
    size_t n_vars;
    char now[40];
} Set;

static void set_tokens(Set *s, const Json *meta) {
    const Json *tokens = json_get(meta, "special_tokens");
    Str now = STR_NONE;
    s->n_vars = 0;
    for (size_t i = 0; tokens && i < tokens->n && i < 32; i++)
        s->vars[s->n_vars++] =
            (JinjaVar){.name = tokens->items[i].key, .value = &tokens->items[i], .trusted = true};
    json_str(json_get(meta, "now"), &now);
    snprintf(s->now, sizeof s->now, "%.*s", (int)now.n, now.p);
}

static void run_template(Set *s, const char *dir, Str name, Tally *t) {
    Buf lines = {0};
    char file[300];
    Str rest, line, id;
    snprintf(file, sizeof file, "%.*s.jsonl", (int)name.n, name.p);
    assert_true(read_text(dir, "template", file, &lines));
    rest = buf_str(&lines);
    while (next_line(&rest, &line)) {
        Json *c;
        Err err = {0};
        assert_true(json_parse(line, &options, &s->a, &c, &err));
        if (json_get(c, "meta")) {
            set_tokens(s, json_get(c, "meta"));
            continue;
        }
        assert_true(json_str(json_get(c, "case"), &id));
        const Json *context = json_find(s->conversations, id);
        assert_non_null(context);
        report(t, render_twice(buf_str(&s->template), context, s->vars, s->n_vars, s->now, c, &err),
               file, id, &err);
    }
    buf_deinit(&lines);
}

/* Every byte of a marker that only the user writes must lie in a span of the user's. */
static void check_origin(Set *s, Str name) {
    static const char messages[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"  "
                                   "QX<|im_end|>QX \"},{\"role\":\"assistant\",\"content\":"
                                   "\"QX<|im_end|>QX\"},{\"role\":\"user\",\"content\":\"QX<|im_"
                                   "end|>QX\"}],\"tools\":null,\"documents\":null,"
                                   "\"add_generation_prompt\":true}";
    const Str marker = STR("QX<|im_end|>QX");
    Json *context;
    Jinja *t;
    JinjaOutput out = {0};
    size_t from_template = 0, at = 0;
    assert_true(json_parse(str_c(messages), &options, &s->a, &context, NULL));
    assert_true(jinja_compile(buf_str(&s->template), &t, NULL));
    JinjaInput in = {.context = context, .vars = s->vars, .n_vars = s->n_vars, .now = s->now};
    if (jinja_render(t, &in, &out, NULL)) {
        for (size_t i = 0; i < out.n_spans; i++) {
            if (!out.spans[i].from_template) continue;
            from_template += out.spans[i].text.n;
            if (str_find(out.spans[i].text, STR("QX"), 0) == STR_NPOS) continue;
            fail_msg("%.*s: the user's text counts as the template's", (int)name.n, name.p);
        }
        while ((at = str_find(buf_str(&out.text), marker, at)) != STR_NPOS) {
            bool whole = false;
            for (size_t i = 0; i < out.n_spans; i++) {
                size_t from = (size_t)(out.spans[i].text.p - out.text.p),
                       to = from + out.spans[i].text.n;
                whole |= !out.spans[i].from_template && from <= at && at + marker.n <= to;
            }
            assert_true(whole);
            at++;
        }
        assert_true(from_template > 0);
    }
    jinja_output_deinit(&out);
    jinja_free(t);
}

static void check_templates(const char *dir, size_t least) {
    char sub[1024];
    Tally t = {0};
    Set s = {0};
    Str *names;
    size_t n;
    Buf conversations = {0};
    snprintf(sub, sizeof sub, "%s/template", dir);
    if (!os_is_dir(sub)) return;
    assert_true(read_text(dir, "template", "conversations.json", &conversations));
    assert_true(json_parse(buf_str(&conversations), &options, &s.a, &s.conversations, NULL));
    assert_true(os_list_dir(sub, &s.a, &names, &n, NULL));
    for (size_t i = 0; i < n; i++) {
        if (!str_ends(names[i], STR(".jinja"))) continue;
        char file[300];
        snprintf(file, sizeof file, "%.*s", (int)names[i].n, names[i].p);
        buf_clear(&s.template);
        assert_true(read_text(dir, "template", file, &s.template));
        run_template(&s, dir, str_slice(names[i], 0, names[i].n - 6), &t);
        check_origin(&s, names[i]);
    }
    print_message("%s: %zu of %zu prompts\n", dir, t.n - t.bad, t.n);
    assert_true(t.n >= least);
    assert_int_equal(t.bad, 0);
    buf_deinit(&s.template);
    buf_deinit(&conversations);
    arena_deinit(&s.a);
}

static void templates_render_as_in_transformers(void **state) {
    (void)state;
    check_templates("tests/data", 1700);
    const char *golden = getenv("MLXCEL_GOLDEN");
    if (golden && os_is_dir(golden)) check_templates(golden, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snippets_render_as_in_python),
        cmocka_unit_test(templates_render_as_in_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
