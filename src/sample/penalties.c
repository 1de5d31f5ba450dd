#include "sample/penalties.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

enum { HISTORY_SLACK = 4096, BREAKER_LOOK_BACK = 256, HISTORY_MIN = 256 };
#define DRY_LARGEST                                                                                \
    1e30 /* keeps the logit finite: the token stays possible when nothing else is  \
                          */

static bool repeat_active(const SampleParams *p) {
    return p->repeat_last_n != 0 &&
           (p->repeat_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0);
}

static bool dry_active(const SampleParams *p) {
    return p->dry_multiplier > 0 && p->dry_penalty_last_n != 0;
}

bool penalties_active(const SampleParams *p) { return repeat_active(p) || dry_active(p); }

/* ---- history ---- */

static size_t window(int32_t last_n, size_t n_ctx) {
    return last_n < 0 || (size_t)last_n > n_ctx ? n_ctx : (size_t)last_n;
}

static bool copy_breakers(History *h, const SampleParams *p, Err *err) {
    h->breaker_len = mem_calloc(p->n_dry_breakers ? p->n_dry_breakers : 1, sizeof *h->breaker_len);
    if (!h->breaker_len) return err_nomem(err, "DRY sequence breakers");
    for (size_t i = 0; i < p->n_dry_breakers; i++) {
        buf_put(&h->breakers, p->dry_breakers[i]);
        h->breaker_len[i] = p->dry_breakers[i].n;
    }
    h->n_breakers = p->n_dry_breakers;
    return buf_check(&h->breakers, "DRY sequence breakers", err);
}

bool history_setup(History *h, const SampleParams *p, size_t n_ctx, size_t n_drop, Err *err) {
    *h = (History){0};
    size_t repeat = repeat_active(p) ? window(p->repeat_last_n, n_ctx) : 0;
    size_t dry = dry_active(p) ? window(p->dry_penalty_last_n, n_ctx) : 0;
    if (repeat == 0 && dry == 0) return true;
    h->keep = (repeat > dry ? repeat : dry) + n_drop + HISTORY_MIN;
    if (!size_add(h->keep, HISTORY_SLACK, &h->cap)) return err_nomem(err, "penalty window");
    h->token = mem_resize_array(NULL, h->cap, sizeof *h->token);
    h->breaks = mem_resize_array(NULL, h->cap, sizeof *h->breaks);
    h->run = dry ? mem_resize_array(NULL, h->cap, sizeof *h->run) : NULL;
    if (!h->token || !h->breaks || (dry && !h->run)) {
        history_deinit(h);
        return err_nomem(err, "penalty window");
    }
    if (dry && !copy_breakers(h, p, err)) {
        history_deinit(h);
        return false;
    }
    return true;
}

void history_deinit(History *h) {
    mem_free(h->token);
    mem_free(h->breaks);
    mem_free(h->run);
    mem_free(h->breaker_len);
    buf_deinit(&h->breakers);
    *h = (History){0};
}

bool history_copy(History *to, const History *from, Err *err) {
    if (to->cap != from->cap)
        return err_set(err, ERR_INTERNAL, "penalty windows of %zu and %zu tokens", to->cap,
                       from->cap);
    if (from->n) {
        memcpy(to->token, from->token, from->n * sizeof *to->token);
        memcpy(to->breaks, from->breaks, from->n);
    }
    to->n = from->n;
    return true;
}

/* Does breaker b end inside piece, when before (at least b.n - 1 bytes, or all there is) stands in
 * front of it? */
static bool ends_inside(Str b, Str before, Str piece) {
    if (str_find(piece, b, 0) != STR_NPOS) return true;
    char seam[2 * BREAKER_LOOK_BACK];
    size_t tail = before.n < b.n - 1 ? before.n : b.n - 1,
           head = piece.n < b.n - 1 ? piece.n : b.n - 1;
    if (tail + head < b.n) return false;
    memcpy(seam, before.p + before.n - tail, tail);
    memcpy(seam + tail, piece.p, head);
    return str_find((Str){seam, tail + head}, b, 0) != STR_NPOS;
}

static bool is_break(const History *h, const SampleVocab *v, uint32_t token) {
    if (h->n_breakers == 0 || !v->piece) return false;
    Str piece = v->piece(v->ctx, token);
    if (piece.n == 0) return false;
    char text[BREAKER_LOOK_BACK]; /* the text before piece, right-aligned */
    size_t n = 0;
    for (size_t i = h->n; i-- > 0 && n < sizeof text && h->n - i <= HISTORY_MIN;) {
        Str s = v->piece(v->ctx, h->token[i]);
        size_t part = s.n < sizeof text - n ? s.n : sizeof text - n;
        if (part) memcpy(text + sizeof text - n - part, s.p + s.n - part, part);
        n += part;
    }
    Str before = {text + sizeof text - n, n};
    const char *b = h->breakers.p;
    for (size_t i = 0; i < h->n_breakers; b += h->breaker_len[i++])
        if (ends_inside((Str){b, h->breaker_len[i]}, before, piece)) return true;
    return false;
}

void history_push(History *h, const SampleVocab *v, uint32_t token) {
    if (h->keep == 0) return;
    if (h->n == h->cap) { /* rare: once per HISTORY_SLACK tokens */
        memmove(h->token, h->token + h->n - h->keep, h->keep * sizeof *h->token);
        memmove(h->breaks, h->breaks + h->n - h->keep, h->keep);
        h->n = h->keep;
    }
    h->breaks[h->n] = is_break(h, v, token);
    h->token[h->n++] = token;
}

void history_drop(History *h, size_t n) { h->n -= n < h->n ? n : h->n; }

/* ---- penalties ---- */

static size_t last(const History *h, int32_t last_n) {
    return last_n < 0 || (size_t)last_n > h->n ? h->n : (size_t)last_n;
}

static void apply_repeat(const SampleParams *p, const History *h, SampleWork *w, float *logit) {
    size_t n = last(h, p->repeat_last_n), n_touched = 0;
    const uint32_t *token = h->token + h->n - n;
    for (size_t i = 0; i < n; i++)
        if (w->count[token[i]]++ == 0) w->touched[n_touched++] = token[i];
    float divide = (float)p->repeat_penalty;
    for (size_t i = 0; i < n_touched; i++) {
        uint32_t t = w->touched[i];
        float x = logit[t] > 0 ? logit[t] / divide : logit[t] * divide;
        logit[t] = x - (float)((double)w->count[t] * p->frequency_penalty + p->presence_penalty);
        w->count[t] = 0;
    }
}

/* run[i], 1 <= i < n: how many of the newest tokens equal the tokens that end before place i from
 * the end, counted back; that is the Z-function of the reversed window (Gusfield 1997), so the
 * whole is linear however repetitive the text is. */
static void reversed_runs(const uint32_t *newest, size_t n, uint32_t *run) {
    size_t left = 0, right = 0; /* [left, right) is the match that reaches furthest */
    for (size_t i = 1; i < n; i++) {
        size_t z = 0;
        if (i < right) z = run[i - left] < right - i ? run[i - left] : right - i;
        while (i + z < n && *(newest - z) == *(newest - i - z)) z++;
        run[i] = (uint32_t)z;
        if (i + z > right) {
            left = i;
            right = i + z;
        }
    }
}

static void apply_dry(const SampleParams *p, History *h, SampleWork *w, float *logit) {
    size_t n = last(h, p->dry_penalty_last_n), limit = 0, n_touched = 0;
    size_t allowed = (size_t)p->dry_allowed_length;
    while (limit < n && !h->breaks[h->n - 1 - limit])
        limit++; /* no run reaches back over a breaker */
    if (n < 2 || limit < allowed) return;
    reversed_runs(h->token + h->n - 1, n, h->run);
    for (size_t i = 1; i < n; i++) {
        size_t run = h->run[i] < limit ? h->run[i] : limit;
        if (run < allowed || run == 0) continue;
        uint32_t t = h->token[h->n - i]; /* it followed the run last time */
        if (w->count[t] == 0) w->touched[n_touched++] = t;
        if (run > w->count[t]) w->count[t] = (uint32_t)run;
    }
    for (size_t i = 0; i < n_touched; i++) {
        uint32_t t = w->touched[i];
        double loss = p->dry_multiplier * pow(p->dry_base, (double)(w->count[t] - allowed));
        logit[t] -= (float)(loss < DRY_LARGEST ? loss : DRY_LARGEST);
        w->count[t] = 0;
    }
}

void penalties_apply(const SampleParams *p, History *h, SampleWork *w, float *logit) {
    if (h->n == 0) return;
    if (repeat_active(p)) apply_repeat(p, h, w, logit);
    if (dry_active(p)) apply_dry(p, h, w, logit);
}
