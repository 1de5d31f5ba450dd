#include "cli/term.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/out.h"
#include "cli/progress.h"

static _Atomic(mlxcel_request *) watched;
static volatile sig_atomic_t n_interrupts, holding;
static int held[2] = {-1, -1}; /* a pipe: a byte in it for every Ctrl-C that was only noted */

static void on_interrupt(int sig) {
    (void)sig;
    mlxcel_request *r = watched;
    if (holding) {
        int saved = errno;
        n_interrupts++;
        ssize_t n = write(held[1], "", 1); /* it may be full: then a byte is there already */
        (void)n;
        errno = saved;
        return;
    }
    if (n_interrupts++ > 0 || !r) {
        progress_abandon();
        _exit(CLI_INTERRUPTED);
    }
    mlxcel_request_cancel(r);
}

void term_init(void) {
    struct sigaction ignore = {.sa_handler = SIG_IGN}, stop = {.sa_handler = on_interrupt};
    if (pipe2(held, O_CLOEXEC | O_NONBLOCK) != 0) held[0] = held[1] = -1;
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL); /* a file above its limit is a failed write */
    sigaction(SIGINT, &stop, NULL);
    log_before_line(progress_hide);
    const char *set = setlocale(LC_CTYPE, "");
    /* Line editing of Hangul and wide characters needs to know that bytes are UTF-8, whatever the
     * environment says. */
    if (!set || MB_CUR_MAX < 4) {
        if (!setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "en_US.UTF-8");
    }
}

bool term_stdout(void) { return isatty(STDOUT_FILENO); }
bool term_stdin(void) { return isatty(STDIN_FILENO); }
bool term_stderr(void) { return isatty(STDERR_FILENO); }

bool term_colors(void) {
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR"), *force = getenv("CLICOLOR_FORCE");
    if (no && *no) return false;
    if (force && *force && strcmp(force, "0") != 0) return true;
    return term_stdout() && term && strcmp(term, "dumb") != 0;
}

void interrupt_watch(mlxcel_request *request) { watched = request; }
void interrupt_hold(bool on) { holding = on; }
bool interrupted(void) { return n_interrupts > 0; }

void interrupt_clear(void) {
    char some[64];
    n_interrupts = 0;
    while (held[0] >= 0 && read(held[0], some, sizeof some) > 0) {
    }
}

bool interrupt_or_key(void) {
    struct pollfd p[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                          {.fd = held[0], .events = POLLIN}};
    while (!interrupted() && poll(p, 2, -1) < 0 && errno == EINTR) {
    }
    return !interrupted();
}
