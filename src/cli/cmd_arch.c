/* arch: the model families there are. */
#include "cli/commands.h"
#include "cli/out.h"
#include "json/json.h"

static void put_list(Buf *b, const Json *list) {
    for (size_t i = 0; list && i < list->n; i++)
        buf_putf(b, "%s" STR_F, i ? " " : "", STR_A(list->items[i].text));
}

static void put_family(Buf *b, const Json *f) {
    Str name = STR_NONE, kind = STR_NONE;
    json_str(json_get(f, "name"), &name);
    json_str(json_get(f, "kind"), &kind);
    buf_putf(b, "%-20.*s %-8.*s ", STR_A(name), STR_A(kind));
    put_list(b, json_get(f, "model_types"));
    buf_putc(b, '\n');
}

int cmd_arch(const Args *a) {
    mlxcel_string *s;
    mlxcel_error why;
    Err err = {0};
    Arena arena = {0};
    Json *list;
    Buf b = {0};
    if (!mlxcel_arch_json(&s, &why)) return cli_fail(&why);
    Str json = {mlxcel_string_text(s), mlxcel_string_size(s)};
    bool ok = true;
    if (args_flag(a, "json")) {
        out_put(json);
        out_put(STR("\n"));
    } else if ((ok = json_parse(json, NULL, &arena, &list, &err))) {
        buf_putf(&b, "%-20s %-8s %s\n", "family", "kind", "model types");
        for (size_t i = 0; i < list->n; i++) put_family(&b, &list->items[i]);
        out_put(buf_str(&b));
    }
    buf_deinit(&b);
    arena_deinit(&arena);
    mlxcel_string_free(s);
    return ok ? CLI_OK : cli_fail_err(&err);
}
