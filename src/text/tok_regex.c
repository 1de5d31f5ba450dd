#include "text/tok_regex.h"

#include <oniguruma.h>
#include <pthread.h>

#include "base/mem.h"
#include "text/regex_classes.h"

enum { RETRY_LIMIT = 2000000, MAX_PATTERN = 1 << 16 };

struct TokRegex {
    regex_t *compiled;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start_library(void) {
    OnigEncoding use[] = {ONIG_ENCODING_UTF8};
    onig_initialize(use, 1);
}

bool tokregex_new(Str pattern, TokRegex **out, Err *err) {
    pthread_once(&once, start_library);
    if (pattern.n > MAX_PATTERN)
        return err_set(err, ERR_LIMIT, "regular expression has %zu bytes, at most %d are accepted",
                       pattern.n, MAX_PATTERN);
    TokRegex *r = mem_calloc(1, sizeof *r);
    if (!r) return err_nomem(err, "regular expression");
    Buf own = {0};
    regexclasses_put(pattern, &own);
    if (own.failed) {
        buf_deinit(&own);
        tokregex_free(r);
        return err_nomem(err, "regular expression");
    }
    const OnigUChar *p = (const OnigUChar *)(own.p ? own.p : "");
    OnigErrorInfo info;
    int rc = onig_new(&r->compiled, p, p + own.n, ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                      ONIG_SYNTAX_ONIGURUMA, &info);
    if (rc != ONIG_NORMAL) { /* say what is wrong with the pattern as it was given */
        r->compiled = NULL;
        p = (const OnigUChar *)(pattern.p ? pattern.p : "");
        rc = onig_new(&r->compiled, p, p + pattern.n, ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                      ONIG_SYNTAX_ONIGURUMA, &info);
    }
    buf_deinit(&own);
    if (rc != ONIG_NORMAL) {
        OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN];
        onig_error_code_to_str(why, rc, &info);
        r->compiled = NULL;
        tokregex_free(r);
        return err_set(err, ERR_INPUT, "regular expression \"" STR_F "\": %s", STR_A(pattern),
                       (char *)why);
    }
    *out = r;
    return true;
}

void tokregex_free(TokRegex *r) {
    if (!r) return;
    if (r->compiled) onig_free(r->compiled);
    mem_free(r);
}

/* A match may try again often; a search, over all places where a match could begin, a little per
 * byte more. */
void tokmatches_begin(TokMatches *m, const TokRegex *r, Str text) {
    OnigMatchParam *param = onig_new_match_param();
    *m = (TokMatches){r, text, 0, SIZE_MAX, onig_region_new(), param};
    if (!m->text.p) m->text.p = "";
    if (!param) return;
    onig_initialize_match_param(param);
    onig_set_retry_limit_in_match_of_match_param(param, RETRY_LIMIT);
    onig_set_retry_limit_in_search_of_match_param(param, RETRY_LIMIT + 16 * (unsigned long)text.n);
}

int tokmatches_next(TokMatches *m, size_t *from, size_t *to, Err *err) {
    if (!m->region || !m->param) {
        (void)err_nomem(err, "regular expression");
        return -1;
    }
    const OnigUChar *p = (const OnigUChar *)m->text.p, *end = p + m->text.n;
    OnigRegion *region = m->region;
    while (m->at <= m->text.n) {
        onig_region_clear(region);
        int rc = onig_search_with_param(m->regex->compiled, p, end, p + m->at, end, region,
                                        ONIG_OPTION_NONE, m->param);
        if (rc == ONIG_MISMATCH) return 0;
        if (rc < 0) {
            OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN];
            onig_error_code_to_str(why, rc);
            (void)err_set(err, ERR_LIMIT,
                          "regular expression of the tokenizer gave up on this text: %s",
                          (char *)why);
            return -1;
        }
        size_t a = (size_t)region->beg[0], b = (size_t)region->end[0];
        if (a == b && b == m->last_end) {
            m->at++;
            while (m->at < m->text.n && ((unsigned char)m->text.p[m->at] & 0xC0) == 0x80) m->at++;
            continue;
        }
        m->at = m->last_end = b;
        *from = a;
        *to = b;
        return 1;
    }
    return 0;
}

void tokmatches_end(TokMatches *m) {
    if (m->region) onig_region_free(m->region, 1);
    if (m->param) onig_free_match_param(m->param);
    m->region = m->param = NULL;
}
