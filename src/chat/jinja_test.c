/* Proves what the golden files cannot: who wrote each byte survives every operation; hostile
 * templates end in an error within the budget of operations; every failed allocation is an error
 * and nothing else; the interface of jinja.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "chat/jinja.h"

typedef struct Rendered {
    bool ok;
    JinjaOutput out;
    Err err;
} Rendered;

static Rendered render_with(Str template, const char *context, const JinjaInput *more) {
    static const Str roles[] = {{"user", 4}, {"assistant", 9}};
    Rendered r = {0};
    Arena a = {0};
    Json *j = NULL;
    Jinja *t = NULL;
    JinjaInput in = more ? *more : (JinjaInput){0};
    if (context) assert_true(json_parse(str_c(context), NULL, &a, &j, NULL));
    in.context = j;
    in.trusted_roles = roles;
    in.n_trusted_roles = 2;
    r.ok = jinja_compile(template, &t, &r.err) && jinja_render(t, &in, &r.out, &r.err);
    jinja_free(t);
    arena_deinit(&a);
    return r;
}

static Rendered render(const char *template, const char *context) {
    return render_with(str_c(template), context, NULL);
}

static void drop(Rendered *r) { jinja_output_deinit(&r->out); }

static void expect(const char *template, const char *context, const char *want) {
    Rendered r = render(template, context);
    if (!r.ok) fail_msg("%s: %s", template, r.err.msg);
    assert_int_equal(r.out.text.n, strlen(want));
    assert_memory_equal(r.out.text.p, want, strlen(want));
    drop(&r);
}

/* The user's bytes are shown in brackets. */
static void expect_origin(const char *template, const char *context, const char *want) {
    Rendered r = render(template, context);
    Buf shown = {0};
    if (!r.ok) fail_msg("%s: %s", template, r.err.msg);
    for (size_t i = 0; i < r.out.n_spans; i++) {
        if (!r.out.spans[i].from_template) buf_putc(&shown, '[');
        buf_put(&shown, r.out.spans[i].text);
        if (!r.out.spans[i].from_template) buf_putc(&shown, ']');
    }
    assert_string_equal(buf_cstr(&shown), want);
    buf_deinit(&shown);
    drop(&r);
}

static void origin_survives_every_operation(void **state) {
    static const char c[] =
        "{\"u\":\"ab cd\",\"l\":[\"x\",\"y\"],\"d\":{\"k\":\"v\"},\"n\":5,\"w\":\"  p  "
        "\",\"h\":\"<i>\"}";
    (void)state;
    expect_origin("t{{ u }}t", c, "t[ab cd]t");
    expect_origin("{{ 't' ~ u ~ 't' }}", c, "t[ab cd]t");
    expect_origin("{{ 't' + u + 't' }}", c, "t[ab cd]t");
    expect_origin("{{ ('t' + u + 't')[1:-2] }}", c, "[ab c]");
    expect_origin("{{ ('t' + u + 't')[::-1] }}", c, "t[dc ba]t");
    expect_origin("{{ ('<' + w + '>') | replace('p', 'q') }}", c, "<[  ]q[  ]>");
    expect_origin("{{ (' ' ~ w ~ ' ') | trim }}", c, "[p]");
    expect_origin("{{ ('T' ~ u) | lower }}", c, "t[ab cd]");
    expect_origin("{{ ('t' ~ u ~ 't').upper() }}", c, "T[AB CD]T");
    expect_origin("{{ ('t' ~ u).split(' ') | join('+') }}", c, "t[ab]+[cd]");
    expect_origin("{{ l | join(', ') }}", c, "[x], [y]");
    expect_origin("{{ '%s-%d-%5s' % (u, n, 'z') }}", c, "[ab cd]-5-    z");
    expect_origin("{{ '{}:{:>7}'.format('t', u) }}", c, "t:  [ab cd]");
    expect_origin("{{ 'a'.join(l) }}", c, "[x]a[y]");
    expect_origin("{{ u | indent(2, true) }}", c, "  [ab cd]");
    expect_origin("{{ u * 2 ~ 't' }}", c, "[ab cdab cd]t");
    expect_origin("{{ h | e }}", c, "[&lt;i&gt;]");
    expect_origin("{% set x %}t{{ u }}{% endset %}{{ x }}", c, "t[ab cd]");
    expect_origin("{% macro m(x) %}t{{ x }}{% endmacro %}{{ m(u) }}", c, "t[ab cd]");
    expect_origin("{% for ch in u %}{{ ch }}{% endfor %}", c, "[ab cd]");
    expect_origin("{% filter upper %}t{{ u }}{% endfilter %}", c, "T[AB CD]");
    expect_origin("{{ n }}", c, "5");
    /* What prints a whole structure of the user's is the user's. */
    expect_origin("t{{ d }}t{{ d | tojson }}", c, "t[{'k': 'v'}]t[{\"k\": \"v\"}]");
    expect_origin("{{ {'a': 1} }}{{ {'a': 1} | tojson }}", c, "{'a': 1}{\"a\": 1}");
    /* Known roles may spell control tokens, others may not. */
    expect_origin("{% for m in ms %}<|{{ m.role }}|>{% endfor %}",
                  "{\"ms\":[{\"role\":\"user\"},{\"role\":\"im_end\"},{\"role\":\"assistant\"}]}",
                  "<|user|><|[im_end]|><|assistant|>");
}

static void trusted_variables_are_the_templates(void **state) {
    (void)state;
    JinjaVar vars[] = {{.name = {"bos", 3}, .text = {"<s>", 3}, .trusted = true},
                       {.name = {"x", 1}, .text = {"y", 1}}};
    JinjaInput in = {.vars = vars, .n_vars = 2};
    Rendered r = render_with(STR("{{ bos }}{{ x }}"), "{\"x\":\"loses\"}", &in);
    assert_true(r.ok);
    assert_int_equal(r.out.n_spans, 2);
    assert_true(r.out.spans[0].from_template && !r.out.spans[1].from_template);
    assert_true(str_eqc(buf_str(&r.out.text), "<s>y"));
    drop(&r);
}

static void raise_carries_its_exact_message(void **state) {
    (void)state;
    Rendered r = render("{{ raise_exception('no\\n' ~ 'é' * 500) }}", NULL);
    assert_false(r.ok);
    assert_true(r.out.raised);
    assert_int_equal(r.out.message.n, 3 + 1000);
    assert_memory_equal(r.out.message.p, "no\n\xC3\xA9", 5);
    drop(&r);
    r = render("{{ nope.x }}", NULL);
    assert_false(r.ok);
    assert_false(r.out.raised);
    assert_non_null(strstr(r.err.msg, "'nope' is undefined"));
    drop(&r);
}

static void the_clock_can_be_fixed(void **state) {
    (void)state;
    JinjaInput in = {.now = "2024-02-29T23:05:09"};
    Rendered r =
        render_with(STR("{{ strftime_now('%d %b %Y, %A %j %U %V %I:%M %p') }}"), NULL, &in);
    assert_true(r.ok && str_eqc(buf_str(&r.out.text), "29 Feb 2024, Thursday 060 08 09 11:05 PM"));
    drop(&r);
    in.now = "2024-02-30";
    r = render_with(STR("x"), NULL, &in);
    assert_false(r.ok);
    drop(&r);
}

static void integers_of_any_size(void **state) {
    (void)state;
    expect("{{ a }} {{ a + 1 }} {{ a * a }} {{ -a // 7 }} {{ a % 1000 }}",
           "{\"a\":12345678901234567890}",
           "12345678901234567890 12345678901234567891 152415787532388367501905199875019052100 "
           "-1763668414462081128 890");
    expect("{{ 9223372036854775807 + 1 }} {{ -9223372036854775808 - 1 }} {{ 2 ** 64 // 2 ** 63 }} "
           "{{ 10 ** 25 / 10 ** 24 }}",
           NULL, "9223372036854775808 -9223372036854775809 2 10.0");
    expect("{{ 2 ** 200 % (2 ** 100 - 1) }} {{ 2 ** 100 == 2.0 ** 100 }} {{ 2 ** 53 + 1 == 2.0 ** "
           "53 }}",
           NULL, "1 True False");
}

static void repeated(Buf *b, const char *head, const char *body, int n, const char *tail) {
    buf_put(b, str_c(head));
    for (int i = 0; i < n; i++) buf_put(b, str_c(body));
    buf_put(b, str_c(tail));
}

static void must_end_in_error(Str template) {
    Rendered r = render_with(template, "{\"u\":\"x\"}", NULL);
    if (r.ok) fail_msg("not refused: %.80s", template.p);
    assert_true(r.out.ops <= JINJA_MAX_OPS + 100 * JINJA_OPS_PER_BYTE);
    assert_true(r.err.kind == ERR_LIMIT || r.err.kind == ERR_INPUT);
    drop(&r);
}

static void hostile_templates_end_within_the_budget(void **state) {
    static const char *const small[] = {
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% set n = namespace(s='x') %}{% for i in range(100) %}{% set n.s = n.s + n.s %}{% endfor "
        "%}",
        "{% set n = namespace(s=[1]) %}{% for i in range(100) %}{% set n.s = n.s + n.s %}{% endfor "
        "%}",
        "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}",
        "{% macro m(x) %}{% if x %}{{ m(x - 1) }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(99) "
        "}}",
        "{{ 'x' | center(10 ** 9) }}",
        "{{ 'x' * 10 ** 12 }}",
        "{{ 10 ** 10000000 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '%.999999999f' % 1 }}",
        "{{ range(10 ** 18) }}",
        "{{ ('\\n' * 100000) | indent(100000, blank=true) }}",
        "{% set n = namespace(l=[]) %}{% for i in range(50000) %}{% set n.l = [n.l] %}{% endfor "
        "%}{{ n.l }}",
        "{% set n = namespace() %}{% set n.x = n %}{{ n }}",
        "{% set n = namespace(l=['x']) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% "
        "endfor %}{{ n.l | tojson }}",
        "{% set n = namespace(l=['x']) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% "
        "endfor %}{{ n.l | pprint }}",
        "{% set n = namespace(l=(1,)) %}{% for i in range(60) %}{% set n.l = (n.l, n.l) %}{% "
        "endfor %}{{ {n.l: 1} }}",
        "{% set s = 'a' * 100000 %}{% for i in range(100000) %}{% set q = s.count('a') %}{% endfor "
        "%}",
        "{% set s = 'a' * 100000 %}{% for i in range(100000) %}{{ s }}{% endfor %}",
        "{% for i in range(1000) %}{{ 7 ** 5000 }}{% endfor %}",
        "{{ [1] | batch(10 ** 9, 'x') | list }}",
        "{{ strftime_now('%999999Y') }}",
        "{% set n = namespace(g=[1]) %}{% for i in range(15000) %}{% set n.g = n.g | select %}{% "
        "endfor %}{{ n.g | list }}",
        "{% macro m(x) %}{% if x %}{% for y in [1] %}{% set z %}{{ [[[m(x)]]] }}{% endset %}{% "
        "endfor %}{% endif %}{% endmacro %}{{ m(1) }}",
        "{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}",
        "{% block b %}{{ self.b() }}{% endblock %}",
    };
    static const char *const repeats[][3] = {
        {"{{ ", "(", "1"},          {"{{ ", "[", "1"},
        {"{{ ", "-", "1 }}"},       {"{{ ", "not ", "1 }}"},
        {"{{ a", ".b", " }}"},      {"{{ 1", "+1", " }}"},
        {"{{ 1", "|string", " }}"}, {"{{ 1", " if 1 else 1", " }}"},
        {"", "{% if 1 %}", ""},     {"", "{% for a in 'x' %}", ""},
        {"{{ x", "()", " }}"},      {"{{ '{0", "[0]", "}'.format(1) }}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) must_end_in_error(str_c(small[i]));
    for (size_t i = 0; i < sizeof repeats / sizeof *repeats; i++) {
        Buf b = {0};
        repeated(&b, repeats[i][0], repeats[i][1], 50000, repeats[i][2]);
        must_end_in_error(buf_str(&b));
        buf_deinit(&b);
    }
}

static void work_is_counted_and_limits_hold(void **state) {
    (void)state;
    JinjaInput in = {.max_ops = 1000};
    Rendered r = render_with(STR("{% for i in range(2000) %}{% endfor %}"), NULL, &in);
    assert_false(r.ok);
    assert_int_equal(r.err.kind, ERR_LIMIT);
    assert_int_equal(r.out.ops, 1000);
    drop(&r);
    in = (JinjaInput){.max_output_bytes = 100};
    r = render_with(STR("{% for i in range(101) %}x{% endfor %}"), NULL, &in);
    assert_int_equal(r.err.kind, ERR_LIMIT);
    drop(&r);
    r = render_with(STR("{% for i in range(100) %}x{% endfor %}"), NULL, &in);
    assert_true(r.ok && r.out.text.n == 100);
    drop(&r);
    Buf big = {0};
    repeated(&big, "", "0123456789", JINJA_MAX_SOURCE / 10 + 1, "");
    r = render_with(buf_str(&big), NULL, NULL);
    assert_int_equal(r.err.kind, ERR_LIMIT);
    buf_deinit(&big);
    drop(&r);
}

static void bad_input_is_named(void **state) {
    static const char *const bad[][2] = {
        {"{{ 1 | nofilter }}", "nofilter"},
        {"{% nope %}", "nope"},
        {"{{ 'a }}", "not closed"},
        {"{% for x in l %}", "endfor"},
        {"\xFF", "UTF-8"},
        {"{{ [1 }}", "expected ']'"},
        {"{% include 'x' %}", "include"},
        {"{{ [].append(1) }}", "append"},
        {"{% break %}", "break"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Rendered r = render(bad[i][0], NULL);
        assert_false(r.ok);
        if (!strstr(r.err.msg, bad[i][1]))
            fail_msg("%s: %s lacks %s", bad[i][0], r.err.msg, bad[i][1]);
        drop(&r);
    }
}

static void failed_allocations_are_errors(void **state) {
    static const char template[] = "{% macro m(x) %}{{ x | upper }}{% endmacro %}{% for k, v in "
                                   "d.items() %}{{ m(k) ~ v | tojson }}{% endfor %}"
                                   "{% set b %}{{ 'é' | upper }}{{ '%05.2f' % 2.5 }}{% endset %}{{ "
                                   "b | replace('2', u) | pprint }}{{ 2 ** 100 }}"
                                   "{{ raise_exception('x') if u == 'z' }}";
    (void)state;
    Arena a = {0};
    Json *context;
    assert_true(
        json_parse(STR("{\"d\":{\"a\":1,\"b\":[2,\"c\"]},\"u\":\"y\"}"), NULL, &a, &context, NULL));
    bool done = false;
    for (int64_t i = 0; !done; i++) {
        Jinja *t = NULL;
        Err err = {0};
        JinjaOutput out = {0};
        JinjaInput in = {.context = context};
        assert_true(i < 10000);
        mem_fail_after(i);
        done = jinja_compile(str_c(template), &t, &err) && jinja_render(t, &in, &out, &err);
        mem_fail_after(-1);
        if (!done) assert_int_equal(err.kind, ERR_NOMEM);
        jinja_output_deinit(&out);
        jinja_free(t);
    }
    arena_deinit(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(origin_survives_every_operation),
        cmocka_unit_test(trusted_variables_are_the_templates),
        cmocka_unit_test(raise_carries_its_exact_message),
        cmocka_unit_test(the_clock_can_be_fixed),
        cmocka_unit_test(integers_of_any_size),
        cmocka_unit_test(hostile_templates_end_within_the_budget),
        cmocka_unit_test(work_is_counted_and_limits_hold),
        cmocka_unit_test(bad_input_is_named),
        cmocka_unit_test(failed_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
