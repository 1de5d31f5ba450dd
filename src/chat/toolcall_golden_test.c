/* Proves that every model output in tests/data/toolcall (and, in CI, in the golden folder) is
 * split as it should be: at once, byte by byte, and for each cut of its bytes in two; that a
 * streaming reader sees pieces that join to the same answer; and that nothing is lost where a
 * call is cut or malformed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "chat/reply.h"
#include "json/json_writer.h"

typedef struct Case {
    Str id, format, reasoning, output;
    ReplyOptions opt;
    ReplyFinish finish;
    const Json *expect;
} Case;

static bool same_json(const Json *a, const Json *b) {
    if (a->type != b->type) return false;
    if (a->type == JSON_STRING || a->type == JSON_NUMBER) return str_eq(a->text, b->text);
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        if (a->type == JSON_OBJECT && !str_eq(a->items[i].key, b->items[i].key)) return false;
        if (!same_json(&a->items[i], &b->items[i])) return false;
    }
    return true;
}

static bool call_fits(const ReplyCall *got, const Json *want, Arena *a) {
    Str name, id;
    Json *args;
    JsonOptions o = {.dup = JSON_DUP_LAST, .max_depth = 512};
    if (!json_str(json_get(want, "name"), &name) || !str_eq(name, got->name)) return false;
    if (json_str(json_get(want, "id"), &id) && !str_eq(id, got->id)) return false;
    return json_parse(got->arguments, &o, a, &args, NULL) &&
           same_json(args, json_get(want, "arguments"));
}

static bool text_fits(Str got, const Json *want) {
    Str s = STR_NONE;
    json_str(want, &s);
    return str_eq(got, str_trim(s));
}

/* An open case may also carry the raw text of the cut call in its content. */
static bool message_fits(const Case *c, const ReplyMessage *m, Arena *a) {
    const Json *calls = json_get(c->expect, "tool_calls");
    bool open = false;
    Str want = STR_NONE;
    json_bool(json_get(c->expect, "open"), &open);
    json_str(json_get(c->expect, "content"), &want);
    if (!text_fits(m->reasoning, json_get(c->expect, "reasoning"))) return false;
    if (open ? !str_starts(m->content, str_trim(want)) : !str_eq(m->content, str_trim(want)))
        return false;
    if (open && m->content.n &&
        !str_ends(str_trim(c->output), str_from(m->content, str_trim(want).n)))
        return false;
    if (m->n_calls != (calls ? calls->n : 0)) return false;
    for (size_t i = 0; i < m->n_calls; i++)
        if (!call_fits(&m->calls[i], &calls->items[i], a)) return false;
    return true;
}

static bool same_message(const ReplyMessage *a, const ReplyMessage *b) {
    if (!str_eq(a->content, b->content) || !str_eq(a->reasoning, b->reasoning) ||
        a->n_calls != b->n_calls)
        return false;
    for (size_t i = 0; i < a->n_calls; i++)
        if (!str_eq(a->calls[i].name, b->calls[i].name) ||
            !str_eq(a->calls[i].id, b->calls[i].id) ||
            !str_eq(a->calls[i].arguments, b->calls[i].arguments))
            return false;
    return true;
}

typedef struct Pieces { /* what a streaming reader would put together */
    Buf all;
    int n_begin, n_end, n_fail;
    bool open, wrong;
} Pieces;

static bool on_piece(void *arg, const ReplyEvent *ev, Err *err) {
    Pieces *p = arg;
    (void)err;
    if (ev->kind == REPLY_CALL_BEGIN) {
        p->wrong |= p->open || ev->index != p->n_begin++;
        p->open = true;
    } else if (ev->kind == REPLY_CALL_ARGS) {
        p->wrong |= !p->open || !ev->text.n;
    } else if (ev->kind == REPLY_CALL_END || ev->kind == REPLY_CALL_FAIL) {
        p->wrong |= !p->open;
        p->open = false;
    } else {
        p->wrong |= p->open || !ev->text.n;
    }
    buf_putf(&p->all, "%c", "crBaEF"[ev->kind]);
    if (ev->kind == REPLY_CALL_BEGIN) buf_put(&p->all, ev->name);
    buf_put(&p->all, ev->text);
    return true;
}

/* The first bytes in one piece, the rest in pieces of split bytes. */
static void drive(const Case *c, size_t first, size_t split, ReplySink *sink, void *arg) {
    ReplyOptions o = c->opt;
    Err err;
    o.sink = sink;
    o.arg = arg;
    Reply *r = reply_new(&o, &err);
    assert_non_null(r);
    assert_true(reply_feed(r, str_slice(c->output, 0, first), &err));
    for (Str rest = str_from(c->output, first); rest.n; rest = str_from(rest, split))
        assert_true(reply_feed(r, str_slice(rest, 0, split), &err));
    assert_true(reply_finish(r, c->finish, &err));
    reply_free(r);
}

/* The events as text, pieces of one kind in a row made one: cuts may split them anywhere. */
typedef struct Joined {
    Buf b;
    int last;
} Joined;

static bool on_join(void *arg, const ReplyEvent *ev, Err *err) {
    Joined *j = arg;
    (void)err;
    if ((int)ev->kind != j->last || ev->kind == REPLY_CALL_BEGIN || ev->kind == REPLY_CALL_END)
        buf_putf(&j->b, "\n%d %d:", ev->kind, ev->kind < REPLY_CALL_BEGIN ? 0 : ev->index);
    j->last = (int)ev->kind;
    if (ev->kind == REPLY_CALL_BEGIN) buf_put(&j->b, ev->name);
    buf_put(&j->b, ev->text);
    return true;
}

static bool check_case(const Case *c) {
    Arena a = {0};
    ReplyMessage whole, cut;
    Err err = {0};
    Pieces p = {0};
    Joined one = {.last = -1};
    bool ok = reply_collect(&c->opt, c->output, c->finish, 0, &a, &whole, &err) &&
              message_fits(c, &whole, &a);
    if (!ok) {
        print_message("%.*s (%.*s): %s\n  content   \"%.*s\"\n  reasoning \"%.*s\"\n", STR_A(c->id),
                      STR_A(c->format), err.msg, STR_A(whole.content), STR_A(whole.reasoning));
        for (size_t i = 0; i < whole.n_calls; i++)
            print_message("  call      %.*s %.*s\n", STR_A(whole.calls[i].name),
                          STR_A(whole.calls[i].arguments));
    }
    drive(c, 0, 1, on_piece, &p);
    if (p.wrong || p.open) {
        print_message("%.*s: events out of order: %.*s\n", STR_A(c->id), STR_A(buf_str(&p.all)));
        ok = false;
    }
    drive(c, c->output.n, 1, on_join, &one);
    for (size_t i = 0; i <= c->output.n && ok; i++) {
        Joined two = {.last = -1};
        drive(c, i, i ? c->output.n : 1, on_join, &two); /* i = 0: byte by byte */
        ok = str_eq(buf_str(&one.b), buf_str(&two.b));
        if (!ok)
            print_message("%.*s: cut at %zu gives\n%.*s\ninstead of\n%.*s\n", STR_A(c->id), i,
                          STR_A(buf_str(&two.b)), STR_A(buf_str(&one.b)));
        buf_deinit(&two.b);
    }
    ok = ok && reply_collect(&c->opt, c->output, c->finish, 3, &a, &cut, &err) &&
         same_message(&whole, &cut);
    buf_deinit(&one.b);
    buf_deinit(&p.all);
    arena_deinit(&a);
    return ok;
}

static bool case_read(const Json *line, const Json *default_tools, Case *c) {
    Str finish = STR_NONE;
    const Json *own = json_get(line, "tools");
    *c = (Case){.finish = REPLY_STOP};
    json_str(json_get(line, "id"), &c->id);
    json_str(json_get(line, "reasoning"), &c->reasoning);
    json_str(json_get(line, "prompt_tail"), &c->opt.prompt_tail);
    json_str(json_get(line, "finish"), &finish);
    if (str_eqc(finish, "length")) c->finish = REPLY_LENGTH;
    c->opt.tools = own ? own : default_tools;
    c->expect = json_get(line, "expect");
    if (!json_str(json_get(line, "format"), &c->format) ||
        !json_str(json_get(line, "output"), &c->output))
        return false;
    c->opt.format = c->format;
    c->opt.reasoning = c->reasoning;
    return c->expect;
}

static void run_file(const char *path, size_t least) {
    Buf text = {0};
    Arena a = {0};
    Err err;
    Str line;
    const Json *tools = NULL;
    size_t n = 0, passed = 0;
    if (!os_read_file(path, 64 << 20, &text, &err)) fail_msg("%s", err.msg);
    for (Str rest = buf_str(&text); str_split(&rest, '\n', &line);) {
        Json *doc;
        Case c;
        if (!str_trim(line).n) continue;
        if (!json_parse(line, NULL, &a, &doc, &err)) fail_msg("%s: %s", path, err.msg);
        if (!tools) {
            tools = json_get(doc, "tools");
            continue;
        }
        if (!case_read(doc, tools, &c)) fail_msg("%s: a line is no case", path);
        n++;
        passed += check_case(&c);
    }
    print_message("%s: %zu of %zu\n", path, passed, n);
    assert_true(n >= least);
    assert_int_equal(passed, n);
    arena_deinit(&a);
    buf_deinit(&text);
}

static void published_cases(void **state) {
    (void)state;
    run_file("tests/data/toolcall/cases.jsonl", 250);
}

static void own_cases(void **state) {
    (void)state;
    run_file("tests/data/toolcall/more.jsonl", 100);
}

static void golden_cases(void **state) {
    (void)state;
    const char *dir = getenv("MLXCEL_GOLDEN");
    char path[4096];
    if (!dir || snprintf(path, sizeof path, "%s/toolcall/cases.jsonl", dir) >= (int)sizeof path ||
        !os_is_file(path))
        skip();
    run_file(path, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(published_cases),
                                       cmocka_unit_test(own_cases), cmocka_unit_test(golden_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
