/* replay.c: runs a fuzz target without a fuzzer: on every seed file of the directories given
 * (build/.../x_replay alone: of tests/fuzz/x), on the seed cut short at many places, and on the
 * seed with single bytes changed. So make test covers each parser's error paths with any compiler;
 * finding new inputs is for `make fuzz`. A crash names the seed and the change that caused it. */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CUTS = 200, FLIPS = 600, PATH_BYTES = 1024, SEED_BYTES_MAX = 1 << 20 };

static char now[PATH_BYTES + 64]; /* what runs, for the crash handler */

static void on_crash(int signal_number) {
    static const char head[] = "replay: crashed on ";
    if (write(2, head, sizeof head - 1) < 0 || write(2, now, strlen(now)) < 0 ||
        write(2, "\n", 1) < 0)
        _exit(2);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Each input in a block of exactly its size, so that a sanitizer sees the first byte read beyond
 * it. */
static void run_exact(const uint8_t *data, size_t n) {
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy) exit(2);
    memcpy(copy, data, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static size_t replay_seed(const char *path, uint8_t *data, size_t n) {
    size_t n_runs = 1, step = n / CUTS + 1;
    snprintf(now, sizeof now, "%s", path);
    run_exact(data, n);
    for (size_t cut = 0; cut < n; cut += step, n_runs++) {
        snprintf(now, sizeof now, "%s cut to %zu bytes", path, cut);
        run_exact(data, cut);
    }
    uint32_t random = 2463534242u; /* xorshift: the same changes every time */
    for (int i = 0; n > 0 && i < FLIPS; i++, n_runs++) {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        size_t at = random % n;
        uint8_t old = data[at], with = i % 3 == 0 ? (uint8_t)(old ^ 1u << (random >> 20) % 8)
                                                  : (uint8_t)(random >> 24);
        snprintf(now, sizeof now, "%s with byte %zu changed from %u to %u", path, at, old, with);
        data[at] = with;
        run_exact(data, n);
        data[at] = old;
    }
    return n_runs;
}

static bool replay_file(const char *path, uint8_t *buffer, size_t *n_runs) {
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    size_t n = fread(buffer, 1, SEED_BYTES_MAX, f);
    bool whole = !ferror(f) && fgetc(f) == EOF;
    fclose(f);
    if (!whole) {
        fprintf(stderr, "replay: %s is unreadable or above %d bytes\n", path, SEED_BYTES_MAX);
        return false;
    }
    *n_runs += replay_seed(path, buffer, n);
    return true;
}

static bool replay_dir(const char *path, uint8_t *buffer, size_t *n_seeds, size_t *n_runs) {
    DIR *dir = opendir(path);
    if (!dir) {
        fprintf(stderr, "replay: no seeds: %s is not a directory that can be read\n", path);
        return false;
    }
    bool ok = true;
    for (struct dirent *e; ok && (e = readdir(dir));) {
        char file[PATH_BYTES];
        if (e->d_name[0] == '.') continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        ok = replay_file(file, buffer, n_runs);
        ++*n_seeds;
    }
    closedir(dir);
    return ok;
}

/* "build/src/json/json_replay" has its seeds in "tests/fuzz/json". */
static void default_dir(const char *program, char path[PATH_BYTES]) {
    const char *name = strrchr(program, '/');
    name = name ? name + 1 : program;
    const char *end = strstr(name, "_replay");
    snprintf(path, PATH_BYTES, "tests/fuzz/%.*s", end ? (int)(end - name) : 0, name);
}

int main(int argc, char **argv) {
    uint8_t *buffer = malloc(SEED_BYTES_MAX);
    size_t n_seeds = 0, n_runs = 1;
    if (!buffer) return 2;
    signal(SIGSEGV, on_crash);
    signal(SIGABRT, on_crash);
    signal(SIGFPE, on_crash);
    signal(SIGBUS, on_crash);
    snprintf(now, sizeof now, "empty input");
    run_exact(buffer, 0);
    bool ok = true;
    char path[PATH_BYTES];
    default_dir(argv[0], path);
    if (argc < 2) ok = replay_dir(path, buffer, &n_seeds, &n_runs);
    for (int i = 1; ok && i < argc; i++) ok = replay_dir(argv[i], buffer, &n_seeds, &n_runs);
    free(buffer);
    if (ok && n_seeds == 0)
        fprintf(stderr, "replay: %s holds no seeds\n", argc < 2 ? path : argv[1]);
    if (!ok || n_seeds == 0) return 1;
    printf("[  PASSED  ] replay of %zu seeds, %zu inputs\n", n_seeds, n_runs);
    return 0;
}
