#include "cli/repl_input.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "base/mem.h"
#include "base/os.h"
#include "cli/term.h"

enum { HISTORY_LINES = 1000, PASTE_WAIT_MS = 20 };

struct ReplInput {
    EditLine *el;
    History *history;
    const char *prompt;
    bool (*alone)(Str line);
    char path[1024]; /* of the history; empty: none */
};

static char *show_prompt(EditLine *el) {
    ReplInput *in;
    static char text[16];
    el_get(el, EL_CLIENTDATA, &in);
    snprintf(text, sizeof text, "%s", in->prompt);
    return text;
}

/* A character of the terminal for libedit: 1, 0 at the end, -1 after Ctrl-C or an error. */
static int read_key(EditLine *el, wchar_t *out) {
    mbstate_t state = {0};
    (void)el;
    for (;;) {
        char byte;
        if (!interrupt_or_key()) return -1;
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return (int)n;
        size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1)
            state = (mbstate_t){0}; /* not a character: dropped */
        else if (used != (size_t)-2)
            return 1;
    }
}

/* MLXCEL_CACHE_DIR, else XDG_CACHE_HOME/mlxcel, else ~/.cache/mlxcel. */
static void find_history(ReplInput *in) {
    const char *own = getenv("MLXCEL_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    Buf dir = {0};
    Err err = {0};
    if (own && *own)
        buf_putf(&dir, "%s", own);
    else if (cache && *cache)
        buf_putf(&dir, "%s/mlxcel", cache);
    else if (home && *home)
        buf_putf(&dir, "%s/.cache/mlxcel", home);
    if (dir.n && dir.n + 16 < sizeof in->path && os_make_dirs(buf_cstr(&dir), &err))
        snprintf(in->path, sizeof in->path, "%s/history", buf_cstr(&dir));
    buf_deinit(&dir);
}

/* What was typed is private: the file is made for its owner alone, before anything is in it. */
static void save_history(ReplInput *in) {
    HistEvent ev;
    if (!in->path[0]) return;
    int fd = open(in->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return;
    if (fchmod(fd, 0600) == 0) history(in->history, &ev, H_SAVE, in->path);
    close(fd);
}

ReplInput *repl_input_open(bool (*alone)(Str line), Err *err) {
    HistEvent ev;
    ReplInput *in = mem_calloc(1, sizeof *in);
    if (!in) return err_nomem(err, "line editing"), NULL;
    in->prompt = ">>> ";
    in->alone = alone;
    in->el = el_init("mlxcel", stdin, stdout, stderr);
    in->history = history_init();
    if (!in->el || !in->history) {
        repl_input_close(in);
        return err_nomem(err, "line editing"), NULL;
    }
    find_history(in);
    history(in->history, &ev, H_SETSIZE, HISTORY_LINES);
    history(in->history, &ev, H_SETUNIQUE, 1);
    if (in->path[0]) history(in->history, &ev, H_LOAD, in->path);
    el_set(in->el, EL_CLIENTDATA, in);
    el_set(in->el, EL_PROMPT, show_prompt);
    el_set(in->el, EL_EDITOR, "emacs");
    el_set(in->el, EL_HIST, history, in->history);
    el_set(in->el, EL_GETCFN, read_key);
    el_set(in->el, EL_BIND, "^I", "ed-insert", NULL);
    el_set(in->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    return in;
}

void repl_input_close(ReplInput *in) {
    if (!in) return;
    if (in->history) {
        save_history(in);
        history_end(in->history);
    }
    if (in->el) el_end(in->el);
    mem_free(in);
}

static bool more_waits(void) {
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&p, 1, PASTE_WAIT_MS) > 0 && (p.revents & POLLIN);
}

static bool line_is_empty(EditLine *el) {
    const LineInfo *li = el_line(el);
    return li->lastchar == li->buffer;
}

/* One line without its end. */
static InputKind read_line(ReplInput *in, const char *prompt, Buf *line) {
    int n = 0;
    in->prompt = prompt;
    const char *text = el_gets(in->el, &n);
    if (interrupted()) {
        bool empty = line_is_empty(in->el);
        el_reset(in->el);
        fputc('\n', stdout);
        fflush(stdout);
        return empty ? INPUT_INTERRUPT_EMPTY : INPUT_INTERRUPT;
    }
    if (!text || n <= 0) return INPUT_END;
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r')) n--;
    buf_put(line, (Str){text, (size_t)n});
    return INPUT_MESSAGE;
}

static InputKind read_block(ReplInput *in, Buf *message) {
    Buf line = {0};
    InputKind kind;
    for (;;) {
        buf_clear(&line);
        kind = read_line(in, "... ", &line);
        if (kind != INPUT_MESSAGE) break;
        Str s = buf_str(&line);
        bool last = str_ends(s, STR("\"\"\""));
        if (last) s.n -= 3;
        if (!last || s.n) {
            if (message->n) buf_putc(message, '\n');
            buf_put(message, s);
        }
        if (last) break;
    }
    buf_deinit(&line);
    return kind == INPUT_MESSAGE ? INPUT_BLOCK : kind;
}

static InputKind read_message(ReplInput *in, Buf *message) {
    InputKind kind = read_line(in, ">>> ", message);
    if (kind != INPUT_MESSAGE) return kind;
    if (str_starts(buf_str(message), STR("\"\"\""))) {
        Str rest = str_from(buf_str(message), 3);
        bool closed = rest.n >= 3 && str_ends(rest, STR("\"\"\""));
        Buf first = {0};
        buf_put(&first, closed ? str_slice(rest, 0, rest.n - 3) : rest);
        buf_clear(message);
        buf_put(message, buf_str(&first));
        buf_deinit(&first);
        return closed ? INPUT_BLOCK : read_block(in, message);
    }
    while (kind == INPUT_MESSAGE && !in->alone(buf_str(message)) && more_waits()) {
        buf_putc(message, '\n');
        kind = read_line(in, "... ", message);
    }
    return kind == INPUT_END && message->n ? INPUT_MESSAGE : kind;
}

InputKind repl_input_read(ReplInput *in, Buf *message) {
    HistEvent ev;
    buf_clear(message);
    interrupt_clear(); /* what stopped an answer */
    interrupt_hold(true);
    InputKind kind = read_message(in, message);
    interrupt_hold(false);
    interrupt_clear();
    if (kind <= INPUT_BLOCK && message->n) history(in->history, &ev, H_ENTER, buf_cstr(message));
    return kind;
}
