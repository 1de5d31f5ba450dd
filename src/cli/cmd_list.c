/* list: the models on this machine. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/commands.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "json/json_writer.h"

static int64_t number(const Json *j, const char *key) {
    int64_t n = 0;
    json_i64(json_get(j, key), &n);
    return n;
}

static Str text(const Json *j, const char *key) {
    Str s = STR_NONE;
    json_str(json_get(j, key), &s);
    return s;
}

static int by_name(const void *a, const void *b) {
    return str_cmp(text(a, "repo_id"), text(b, "repo_id"));
}

static int by_size(const void *a, const void *b) {
    int64_t x = number(a, "size_bytes"), y = number(b, "size_bytes");
    return x < y ? 1 : x > y ? -1 : by_name(a, b);
}

static int by_time(const void *a, const void *b) {
    int64_t x = number(a, "modified"), y = number(b, "modified");
    return x < y ? 1 : x > y ? -1 : by_name(a, b);
}

static void put_row(Buf *b, const Json *m, bool paths) {
    char day[32] = "";
    Buf size = {0};
    time_t when = (time_t)number(m, "modified");
    struct tm tm;
    if (localtime_r(&when, &tm)) strftime(day, sizeof day, "%Y-%m-%d", &tm);
    progress_put_bytes(&size, (uint64_t)number(m, "size_bytes"));
    buf_putf(b, "%-48.*s %10s  %s  " STR_F, STR_A(text(m, "repo_id")), buf_cstr(&size), day,
             STR_A(text(m, "store")));
    if (!text(m, "path").n) buf_put(b, STR(" (incomplete)"));
    if (paths) buf_putf(b, "  " STR_F, STR_A(text(m, "path")));
    buf_putc(b, '\n');
    buf_deinit(&size);
}

static void put_list(const Args *a, const Json *list) {
    Buf b = {0};
    JsonWriter w = {.out = &b};
    if (args_flag(a, "json")) {
        json_w_tree(&w, list);
        buf_putc(&b, '\n');
    } else {
        bool names = args_flag(a, "quiet");
        if (!names) buf_putf(&b, "%-48s %10s  %-10s  %s\n", "model", "size", "modified", "store");
        for (size_t i = 0; i < list->n; i++) {
            if (names)
                buf_putf(&b, STR_F "\n", STR_A(text(&list->items[i], "repo_id")));
            else
                put_row(&b, &list->items[i], args_flag(a, "verbose"));
        }
    }
    out_put(buf_str(&b));
    buf_deinit(&b);
}

int cmd_list(const Args *a) {
    mlxcel_string *s;
    mlxcel_error why;
    Err err = {0};
    Arena arena = {0};
    Json *list;
    const char *sort = args_text(a, "sort");
    if (!mlxcel_store_list(&s, &why)) return cli_fail(&why);
    bool ok = json_parse(str_c(mlxcel_string_text(s)), NULL, &arena, &list, &err);
    if (ok) {
        int (*order)(const void *, const void *) = !sort                       ? by_name
                                                   : strcmp(sort, "size") == 0 ? by_size
                                                   : strcmp(sort, "time") == 0 ? by_time
                                                                               : by_name;
        if (list->n) qsort(list->items, list->n, sizeof *list->items, order);
        put_list(a, list);
    }
    arena_deinit(&arena);
    mlxcel_string_free(s);
    return ok ? CLI_OK : cli_fail_err(&err);
}
