#include "api/api.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"

_Static_assert((int)MLXCEL_INTERNAL == (int)ERR_INTERNAL && (int)MLXCEL_LIMIT == (int)ERR_LIMIT,
               "one list of kinds");

bool api_fail(mlxcel_error *out, const Err *err) {
    if (!out) return false;
    out->kind = (int)err->kind;
    memcpy(out->message, err->msg, sizeof out->message);
    return false;
}

bool api_string(Buf *from, mlxcel_string **out, mlxcel_error *error) {
    Err err = {0};
    mlxcel_string *s = buf_check(from, "text", &err) ? mem_calloc(1, sizeof *s) : NULL;
    buf_cstr(from);
    if (s && !from->failed) {
        s->buf = *from;
        *out = s;
        return true;
    }
    if (!err.kind) err_nomem(&err, "text");
    mem_free(s);
    buf_deinit(from);
    return api_fail(error, &err);
}

bool api_text(Str text, mlxcel_string **out, mlxcel_error *error) {
    Buf b = {0};
    buf_put(&b, text);
    return api_string(&b, out, error);
}

const char *mlxcel_string_text(const mlxcel_string *s) { return s->buf.p; }
size_t mlxcel_string_size(const mlxcel_string *s) { return s->buf.n; }

void mlxcel_string_free(mlxcel_string *s) {
    if (!s) return;
    buf_deinit(&s->buf);
    mem_free(s);
}

const char *mlxcel_version(void) { return MLXCEL_VERSION; }

const char *mlxcel_error_name(int kind) {
    return kind >= 0 && kind < ERR_KIND_COUNT ? errkind_name((ErrKind)kind) : "unknown";
}

void mlxcel_log_level(int level) {
    log_set_level(level < LOG_QUIET ? LOG_QUIET : level > LOG_DEBUG ? LOG_DEBUG : (LogLevel)level);
}

void mlxcel_log_hold(void) { log_hold(true); }

void mlxcel_log_release(bool show) {
    log_hold(false);
    if (show)
        log_flush();
    else
        log_discard();
}

void mlxcel_free(void *p) { mem_free(p); }
