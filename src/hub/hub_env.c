#include "hub/hub_env.h"

#include <stdlib.h>

#include "base/os.h"

#define PUBLIC_HUB "https://huggingface.co"
#define PUBLIC_ORG "mlx-community"

static Str env(const char *name) { return str_c(getenv(name)); }

Str hub_join(Arena *a, Str first, const char *second, Str third) {
    Buf b = {0};
    buf_put(&b, first);
    buf_put(&b, str_c(second));
    buf_put(&b, third);
    Str s = {b.failed ? NULL : arena_dupz(a, buf_str(&b)), b.n};
    buf_deinit(&b);
    return s;
}

bool hub_env_flag(const char *name) {
    static const char *const YES[] = {"1", "true", "yes", "on"};
    for (size_t i = 0; i < sizeof YES / sizeof *YES; i++)
        if (str_ieq(env(name), str_c(YES[i]))) return true;
    return false;
}

/* A leading "~/" is the home directory, as the hub's own tools read these variables. */
static Str path_of(Arena *a, Str home, Str text) {
    return home.n && str_starts(text, STR("~/")) ? hub_join(a, home, "", str_from(text, 1))
                                                 : hub_join(a, text, "", STR_NONE);
}

/* The folder of the hub's tools: its caches and its token. */
static Str hub_home(Arena *a, Str home) {
    Str v;
    if ((v = env("HF_HOME")).n) return path_of(a, home, v);
    if ((v = env("XDG_CACHE_HOME")).n) return hub_join(a, v, "/huggingface", STR_NONE);
    return home.n ? hub_join(a, home, "/.cache/huggingface", STR_NONE) : STR_NONE;
}

static Str own_home(Arena *a, Str home) {
    Str v;
    if ((v = env("MLXCEL_CACHE_DIR")).n) return path_of(a, home, v);
    if ((v = env("XDG_CACHE_HOME")).n) return hub_join(a, v, "/mlxcel", STR_NONE);
    return home.n ? hub_join(a, home, "/.cache/mlxcel", STR_NONE) : STR_NONE;
}

/* A token goes into a header: nothing but printable ASCII. */
static bool is_token(Str s) {
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~') return false;
    return s.n > 0;
}

static bool read_token(Arena *a, Str hf, Str home, Str *token, Err *err) {
    enum { TOKEN_MAX = 4096 };
    Str text = str_trim(env("HF_TOKEN")), path = env("HF_TOKEN_PATH");
    const char *from = "HF_TOKEN";
    Buf b = {0};
    bool ok = true;
    *token = STR_NONE;
    if (!text.n && (path.n || hf.n)) {
        path = path.n ? path_of(a, home, path) : hub_join(a, hf, "/token", STR_NONE);
        if (path.p && os_is_file(path.p)) ok = os_read_file(path.p, TOKEN_MAX, &b, err);
        from = path.p;
        text = str_trim(buf_str(&b));
    }
    if (ok && text.n && !is_token(text))
        ok = err_set(err, ERR_INPUT,
                     "%s holds no token: printable characters without blanks are accepted", from);
    if (ok && text.n && !(*token = hub_join(a, text, "", STR_NONE)).p)
        ok = err_nomem(err, "the token");
    buf_deinit(&b);
    return ok;
}

bool hub_env_read(Arena *a, HubEnv *e, Err *err) {
    *e = (HubEnv){.offline = hub_env_flag("HF_HUB_OFFLINE") || hub_env_flag("MLXCEL_OFFLINE"),
                  .insecure_ok = hub_env_flag("MLXCEL_ALLOW_INSECURE_ENDPOINT")};
    Str v = env("HOME");
    if (v.n) e->home = hub_join(a, v, "", STR_NONE);
    Str hf = hub_home(a, e->home), own = own_home(a, e->home);
    v = env("HF_HUB_CACHE");
    if (!v.n) v = env("HUGGINGFACE_HUB_CACHE"); /* its older name */
    e->cache = v.n ? path_of(a, e->home, v) : hf.n ? hub_join(a, hf, "/hub", STR_NONE) : STR_NONE;
    if (!e->cache.p)
        return err_set(err, ERR_NOT_FOUND, "HOME is not set, so there is no cache of models");
    v = env("HF_ENDPOINT");
    while (v.n && v.p[v.n - 1] == '/') v.n--;
    e->endpoint = hub_join(a, v.n ? v : STR(PUBLIC_HUB), "", STR_NONE);
    v = env("MLXCEL_DEFAULT_ORG");
    e->default_org = hub_join(a, v.n ? v : STR(PUBLIC_ORG), "", STR_NONE);
    if ((v = env("MLXCEL_MODELS_DIR")).n) e->models_dir = path_of(a, e->home, v);
    if (own.n) e->own_dir = hub_join(a, own, "/models", STR_NONE);
    if ((v = env("MLXCEL_EXTRA_CA_CERTS")).n) e->ca_file = path_of(a, e->home, v);
    return read_token(a, hf, e->home, &e->token, err);
}
