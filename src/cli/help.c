#include "cli/help.h"

#include "cli/out.h"

enum { COLUMN = 34 };

static void put_padded(Buf *line, size_t column) {
    if (line->n >= column) buf_putc(line, '\n');
    size_t at = line->n >= column ? 0 : line->n;
    while (at++ < column) buf_putc(line, ' ');
}

static void put_option(const Opt *o) {
    Buf line = {0};
    Str rest = str_c(o->names), word;
    bool first = true;
    buf_put(&line, STR("  "));
    while (str_split(&rest, ' ', &word)) {
        if (!first) buf_put(&line, STR(", "));
        buf_put(&line, word);
        first = false;
    }
    if (o->value) buf_putf(&line, " %s", o->value);
    put_padded(&line, COLUMN);
    buf_putf(&line, "%s\n", o->help);
    out_put(buf_str(&line));
    buf_deinit(&line);
}

void help_command(const Command *c) {
    Buf b = {0};
    buf_putf(&b, "usage: mlxcel %s %s\n\n%s\n", c->name, c->usage, c->summary);
    if (c->about) buf_putf(&b, "\n%s\n", c->about);
    out_put(buf_str(&b));
    for (const OptGroup *const *g = c->groups; *g; g++) {
        if (!(*g)->title) continue;
        buf_clear(&b);
        buf_putf(&b, "\n%s\n", (*g)->title);
        out_put(buf_str(&b));
        for (size_t i = 0; i < (*g)->n; i++)
            if ((*g)->opts[i].help) put_option(&(*g)->opts[i]);
    }
    buf_clear(&b);
    buf_putf(&b,
             "\nExamples\n%s\nA flag --some-name has a twin MLXCEL_SOME_NAME in the environment; "
             "the command line wins.\n",
             c->examples);
    out_put(buf_str(&b));
    buf_deinit(&b);
}

void help_all(const Command *commands, size_t n) {
    Buf line = {0};
    out_put_c(
        "usage: mlxcel COMMAND [flags]\n\nRuns language models on this machine.\n\nCommands\n");
    for (size_t i = 0; i < n; i++) {
        buf_clear(&line);
        buf_putf(&line, "  %s", commands[i].name);
        put_padded(&line, 16);
        buf_putf(&line, "%s\n", commands[i].summary);
        out_put(buf_str(&line));
    }
    out_put_c(
        "\nmlxcel COMMAND --help tells more; mlxcel --version prints the version.\n\nExamples\n"
        "  mlxcel run model.gguf                           talk with a model\n"
        "  mlxcel run model.gguf -p \"Why is the sky blue?\"\n"
        "  mlxcel generate -m model.gguf -p \"Once\" -n 50 --json\n"
        "  mlxcel inspect -m model.gguf                    what it is, and whether it fits\n");
    buf_deinit(&line);
}
