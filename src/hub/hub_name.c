#include "hub/hub_name.h"

#include "base/buf.h"
#include "base/utf8.h"

enum { PART_MAX = 96, REVISION_MAX = 200, PATH_PART_MAX = 255, PATH_TEXT_MAX = 1024 };

static bool is_word_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

static bool is_word(Str s, size_t max) {
    for (size_t i = 0; i < s.n; i++)
        if (!is_word_char(s.p[i])) return false;
    return s.n > 0 && s.n <= max && s.p[0] != '.' && s.p[0] != '-';
}

/* The cache writes owner/name as owner--name, so neither may hold two dashes. */
static bool is_part(Str s) {
    return is_word(s, PART_MAX) && str_find(s, STR("--"), 0) == STR_NPOS &&
           str_find(s, STR(".."), 0) == STR_NPOS;
}

bool hub_is_blob_name(Str s) { return is_word(s, 128); }

bool hub_is_hex(Str s, size_t n_digits) {
    for (size_t i = 0; i < s.n; i++)
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f'))) return false;
    return s.n == n_digits;
}

bool hub_revision_check(Str revision, Err *err) {
    Str rest = revision, part;
    bool ok = revision.n > 0 && revision.n <= REVISION_MAX;
    while (ok && str_split(&rest, '/', &part)) ok = is_word(part, REVISION_MAX);
    return ok || err_set(err, ERR_INPUT,
                         "revision \"" STR_F "\"; a branch, a tag or a commit is accepted",
                         STR_A(revision));
}

bool hub_name_parse(Str text, HubName *out, Err *err) {
    HubName n = {0};
    Str rest = text;
    size_t at = str_rfind(rest, STR(":"));
    if (at != STR_NPOS) {
        n.quant = str_from(rest, at + 1);
        rest = str_slice(rest, 0, at);
        if (!is_word(n.quant, PART_MAX))
            return err_set(err, ERR_INPUT,
                           "\"" STR_F "\": a quantization follows the ':', as in owner/name:Q4_K_M",
                           STR_A(text));
    }
    if ((at = str_find_char(rest, '@', 0)) != STR_NPOS) {
        n.revision = str_from(rest, at + 1);
        rest = str_slice(rest, 0, at);
        if (!hub_revision_check(n.revision, err)) return false;
    }
    if ((at = str_find_char(rest, '/', 0)) != STR_NPOS) {
        n.owner = str_slice(rest, 0, at);
        rest = str_from(rest, at + 1);
    }
    n.name = rest;
    if (!is_part(n.name) || (at != STR_NPOS && !is_part(n.owner)))
        return err_set(err, ERR_INPUT,
                       "\"" STR_F
                       "\" is no name of a model; owner/name, name, owner/name:QUANT and "
                       "owner/name@revision are accepted",
                       STR_A(text));
    *out = n;
    return true;
}

Str hub_name_folder(const HubName *n, Arena *a) {
    Buf b = {0};
    buf_put(&b, STR("models--"));
    if (n->owner.n) {
        buf_put(&b, n->owner);
        buf_put(&b, STR("--"));
    }
    buf_put(&b, n->name);
    Str s = {b.failed ? NULL : arena_dupz(a, buf_str(&b)), b.n};
    buf_deinit(&b);
    return s;
}

bool hub_folder_name(Str folder, HubName *out) {
    *out = (HubName){0};
    if (!str_starts(folder, STR("models--"))) return false;
    Str rest = str_from(folder, 8);
    size_t at = str_find(rest, STR("--"), 0);
    if (at != STR_NPOS) {
        out->owner = str_slice(rest, 0, at);
        rest = str_from(rest, at + 2);
    }
    out->name = rest;
    return is_part(out->name) && (at == STR_NPOS || is_part(out->owner));
}

static bool bad_file(Str path, const char *why, Err *err) {
    return err_set(err, ERR_CORRUPT,
                   "the repository lists a file \"" STR_F "\": %s, which is refused", STR_A(path),
                   why);
}

bool hub_file_check(Str path, Err *err) {
    size_t from = 0;
    if (path.n == 0) return bad_file(path, "an empty name", err);
    if (path.n > PATH_TEXT_MAX) return bad_file(path, "a name of more than 1024 bytes", err);
    if (!utf8_valid(path)) return bad_file(path, "a name that is not UTF-8", err);
    for (size_t i = 0; i <= path.n; i++) {
        char c = i < path.n ? path.p[i] : '/';
        if ((unsigned char)c < ' ' || c == 127)
            return bad_file(path, "a name with control characters", err);
        if (c != '/' && c != '\\') continue; /* a backslash parts names on other systems */
        Str part = str_slice(path, from, i);
        if (part.n == 0) return bad_file(path, "an absolute path or an empty part", err);
        if (str_eqc(part, ".") || str_eqc(part, ".."))
            return bad_file(path, "a path that leaves its folder", err);
        if (part.n > PATH_PART_MAX) return bad_file(path, "a part of more than 255 bytes", err);
        from = i + 1;
    }
    return true;
}
