#include "chat/jinja_time.h"

#include <stdio.h>
#include <time.h>

enum { TIME_MAX_WIDTH = 1000 };

static const char *const day_name[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
static const char *const month_name[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};

static bool leap(int y) { return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0; }

static int month_days(int y, int m) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[m - 1] + (m == 2 && leap(y));
}

static int64_t day_number(int y, int m, int d) { /* days since 1970-01-01, proleptic Gregorian */
    int64_t yy = y - (m <= 2), era = (yy >= 0 ? yy : yy - 399) / 400, yoe = yy - era * 400;
    int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1,
            doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + doe - 719468;
}

static bool take_number(Str *s, size_t digits, int lo, int hi, int *out) {
    int64_t v = 0;
    for (size_t i = 0; i < digits; i++) {
        if (i >= s->n || s->p[i] < '0' || s->p[i] > '9') return false;
        v = v * 10 + (s->p[i] - '0');
    }
    *s = str_from(*s, digits);
    *out = (int)v;
    return v >= lo && v <= hi;
}

static bool take_char(Str *s, const char *any) {
    for (; s->n && *any; any++) {
        if (s->p[0] != *any) continue;
        *s = str_from(*s, 1);
        return true;
    }
    return false;
}

bool jtime_parse(Str s, JTime *t) {
    *t = (JTime){0};
    if (!take_number(&s, 4, 1, 9999, &t->year) || !take_char(&s, "-")) return false;
    if (!take_number(&s, 2, 1, 12, &t->month) || !take_char(&s, "-")) return false;
    if (!take_number(&s, 2, 1, month_days(t->year, t->month), &t->day)) return false;
    if (!s.n) return true;
    if (!take_char(&s, "T ") || !take_number(&s, 2, 0, 23, &t->hour) || !take_char(&s, ":"))
        return false;
    if (!take_number(&s, 2, 0, 59, &t->minute)) return false;
    if (!s.n) return true;
    if (!take_char(&s, ":") || !take_number(&s, 2, 0, 59, &t->second)) return false;
    if (!take_char(&s, ".")) return !s.n;
    if (!s.n || s.n > 6) return false;
    size_t n = s.n;
    if (!take_number(&s, n, 0, 999999, &t->microsecond)) return false;
    while (n++ < 6) t->microsecond *= 10;
    return true;
}

JTime jtime_now(void) {
    struct timespec ts;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &ts);
    localtime_r(&ts.tv_sec, &tm);
    return (JTime){tm.tm_year + 1900,
                   tm.tm_mon + 1,
                   tm.tm_mday,
                   tm.tm_hour,
                   tm.tm_min,
                   tm.tm_sec > 59 ? 59 : tm.tm_sec,
                   (int)(ts.tv_nsec / 1000)};
}

typedef struct Clock { /* what the directives need beside JTime */
    const JTime *t;
    int wday, yday; /* Sunday 0; day of the year from 0 */
    int iso_year, iso_week;
} Clock;

static int weeks_before(int yday, int wday, int first) { /* weeks begin on weekday `first` */
    return (yday + 7 - (wday - first + 7) % 7) / 7;
}

static void clock_init(Clock *c, const JTime *t) {
    int64_t day = day_number(t->year, t->month, t->day);
    c->t = t;
    c->wday = (int)(((day + 4) % 7 + 7) % 7);
    c->yday = (int)(day - day_number(t->year, 1, 1));
    int monday0 = (c->wday + 6) % 7, year_days = leap(t->year) ? 366 : 365;
    c->iso_year = t->year;
    c->iso_week = (c->yday - monday0 + 10) / 7;
    if (c->iso_week < 1) { /* belongs to the last week of the year before */
        int before = leap(--c->iso_year) ? 366 : 365;
        c->iso_week = (c->yday + before - monday0 + 10) / 7;
    } else if (c->iso_week == 53 &&
               c->yday - monday0 + 3 >= year_days) { /* its Thursday lies in the next year */
        c->iso_year++;
        c->iso_week = 1;
    }
}

typedef struct Field {
    JRun *r;
    JBuild *b;
    char flag; /* - _ 0 ^ # or 0 for none */
    int width; /* 0: the directive's own */
    bool user;
} Field;

static void put_number(const Field *f, int64_t v, int width, char pad) {
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)v);
    if (f->flag == '-') {
        width = 1;
        pad = ' ';
    }
    if (f->flag == '_') pad = ' ';
    if (f->flag == '0') pad = '0';
    if (f->width) width = f->width;
    for (int i = n; i < width; i++) jbuild_putc(f->r, f->b, pad, f->user);
    jbuild_put(f->r, f->b, (Str){text, (size_t)n}, f->user);
}

static void put_word(const Field *f, const char *word, size_t n) {
    Str s = str_slice(str_c(word), 0, n);
    for (int i = (int)s.n; i < f->width; i++)
        jbuild_putc(f->r, f->b, f->flag == '0' ? '0' : ' ', f->user);
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (f->flag == '^' && c >= 'a' && c <= 'z') c = (char)(c - 32);
        if (f->flag == '#') c = c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
        jbuild_putc(f->r, f->b, c, f->user);
    }
}

static void put_time(const Field *f, const Clock *c, const char *format) {
    JStr s = {.s = str_c(format), .n_cp = JSTR_COUNT_LATER};
    JVal v;
    if (!jtime_format(f->r, c->t, &s, &v)) {
        f->b->failed = true;
        return;
    }
    jbuild_put(f->r, f->b, v.u.str->s, f->user);
}

static int hour12(int h) { return h % 12 ? h % 12 : 12; }

/* Directives that print a number: how wide, with what in front. */
static const struct {
    char directive, width, pad;
} number_shapes[] = {
    {'Y', 1, '0'}, {'C', 2, '0'}, {'y', 2, '0'}, {'G', 1, '0'}, {'g', 2, '0'}, {'m', 2, '0'},
    {'d', 2, '0'}, {'e', 2, ' '}, {'H', 2, '0'}, {'k', 2, ' '}, {'I', 2, '0'}, {'l', 2, ' '},
    {'M', 2, '0'}, {'S', 2, '0'}, {'j', 3, '0'}, {'u', 1, '0'}, {'w', 1, '0'}, {'U', 2, '0'},
    {'W', 2, '0'}, {'V', 2, '0'}, {'s', 1, '0'},
};

static int64_t number_of(const Clock *c, char d) {
    const JTime *t = c->t;
    switch (d) {
    case 'Y':
        return t->year;
    case 'C':
        return t->year / 100;
    case 'y':
        return t->year % 100;
    case 'G':
        return c->iso_year;
    case 'g':
        return c->iso_year % 100;
    case 'm':
        return t->month;
    case 'd':
    case 'e':
        return t->day;
    case 'H':
    case 'k':
        return t->hour;
    case 'I':
    case 'l':
        return hour12(t->hour);
    case 'M':
        return t->minute;
    case 'S':
        return t->second;
    case 'j':
        return c->yday + 1;
    case 'u':
        return c->wday ? c->wday : 7;
    case 'w':
        return c->wday;
    case 'U':
        return weeks_before(c->yday, c->wday, 0);
    case 'W':
        return weeks_before(c->yday, c->wday, 1);
    case 'V':
        return c->iso_week;
    default:
        break;
    }
    return day_number(t->year, t->month, t->day) * 86400 + t->hour * 3600 + t->minute * 60 +
           t->second;
}

/* Directives that stand for others. */
static const char *composed_of(char d) {
    switch (d) {
    case 'D':
    case 'x':
        return "%m/%d/%y";
    case 'F':
        return "%Y-%m-%d";
    case 'T':
    case 'X':
        return "%H:%M:%S";
    case 'R':
        return "%H:%M";
    case 'r':
        return "%I:%M:%S %p";
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    default:
        return NULL;
    }
}

static void put_half(const Field *f, int hour, bool lower) { /* # makes this one word lower case */
    Field plain = *f;
    if (f->flag == '#') {
        plain.flag = 0;
        lower = true;
    }
    put_word(&plain, lower ? (hour < 12 ? "am" : "pm") : (hour < 12 ? "AM" : "PM"), 2);
}

static bool put_directive(const Field *f, const Clock *c, char d) {
    const JTime *t = c->t;
    for (size_t i = 0; i < sizeof number_shapes / sizeof *number_shapes; i++) {
        if (number_shapes[i].directive != d) continue;
        put_number(f, number_of(c, d), number_shapes[i].width, number_shapes[i].pad);
        return true;
    }
    if (composed_of(d)) return put_time(f, c, composed_of(d)), true;
    switch (d) {
    case 'a':
        put_word(f, day_name[c->wday], 3);
        return true;
    case 'A':
        put_word(f, day_name[c->wday], 99);
        return true;
    case 'b':
    case 'h':
        put_word(f, month_name[t->month - 1], 3);
        return true;
    case 'B':
        put_word(f, month_name[t->month - 1], 99);
        return true;
    case 'p':
        put_half(f, t->hour, false);
        return true;
    case 'P':
        put_half(f, t->hour, true);
        return true;
    case 'n':
        put_word(f, "\n", 1);
        return true;
    case 't':
        put_word(f, "\t", 1);
        return true;
    case '%':
        put_word(f, "%", 1);
        return true;
    case 'z':
    case 'Z':
        return true; /* local time without a zone */
    default:
        return false;
    }
}

bool jtime_format(JRun *r, const JTime *t, const JStr *format, JVal *out) {
    Clock c;
    JBuild b = {0};
    Str s = format->s;
    bool user = jstr_has_user(format);
    clock_init(&c, t);
    for (size_t at = 0; at < s.n && !b.failed;) {
        size_t from = at;
        if (s.p[at++] != '%' || at >= s.n) {
            jbuild_putc(r, &b, s.p[from], user);
            continue;
        }
        if (s.p[at] == 'f') { /* Python's own */
            Field f = {.r = r, .b = &b, .user = user};
            put_number(&f, t->microsecond, 6, '0');
            at++;
            continue;
        }
        Field f = {.r = r, .b = &b, .user = user};
        while (at < s.n && (s.p[at] == '-' || s.p[at] == '_' || s.p[at] == '0' || s.p[at] == '^' ||
                            s.p[at] == '#'))
            f.flag = s.p[at++];
        while (at < s.n && s.p[at] >= '0' && s.p[at] <= '9') {
            f.width = f.width * 10 + (s.p[at++] - '0');
            if (f.width > TIME_MAX_WIDTH)
                return jrun_fail(r, JEXC_LIMIT, "a strftime width above %d", TIME_MAX_WIDTH);
        }
        if (at < s.n && (s.p[at] == 'E' || s.p[at] == 'O')) at++;
        if (!jrun_spend(r, 1)) return false;
        if (at < s.n && put_directive(&f, &c, s.p[at]))
            at++;
        else
            jbuild_put(r, &b, str_slice(s, from, at), user);
    }
    return jbuild_done(r, &b, out);
}
