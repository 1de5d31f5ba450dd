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

static bool put_directive(const Field *f, const Clock *c, char d) {
    const JTime *t = c->t;
    switch (d) {
    case 'Y':
        put_number(f, t->year, 1, '0');
        break;
    case 'C':
        put_number(f, t->year / 100, 2, '0');
        break;
    case 'y':
        put_number(f, t->year % 100, 2, '0');
        break;
    case 'G':
        put_number(f, c->iso_year, 1, '0');
        break;
    case 'g':
        put_number(f, c->iso_year % 100, 2, '0');
        break;
    case 'm':
        put_number(f, t->month, 2, '0');
        break;
    case 'd':
        put_number(f, t->day, 2, '0');
        break;
    case 'e':
        put_number(f, t->day, 2, ' ');
        break;
    case 'H':
        put_number(f, t->hour, 2, '0');
        break;
    case 'k':
        put_number(f, t->hour, 2, ' ');
        break;
    case 'I':
        put_number(f, hour12(t->hour), 2, '0');
        break;
    case 'l':
        put_number(f, hour12(t->hour), 2, ' ');
        break;
    case 'M':
        put_number(f, t->minute, 2, '0');
        break;
    case 'S':
        put_number(f, t->second, 2, '0');
        break;
    case 'j':
        put_number(f, c->yday + 1, 3, '0');
        break;
    case 'u':
        put_number(f, c->wday ? c->wday : 7, 1, '0');
        break;
    case 'w':
        put_number(f, c->wday, 1, '0');
        break;
    case 'U':
        put_number(f, weeks_before(c->yday, c->wday, 0), 2, '0');
        break;
    case 'W':
        put_number(f, weeks_before(c->yday, c->wday, 1), 2, '0');
        break;
    case 'V':
        put_number(f, c->iso_week, 2, '0');
        break;
    case 's':
        put_number(f,
                   day_number(t->year, t->month, t->day) * 86400 + t->hour * 3600 + t->minute * 60 +
                       t->second,
                   1, '0');
        break;
    case 'a':
        put_word(f, day_name[c->wday], 3);
        break;
    case 'A':
        put_word(f, day_name[c->wday], 99);
        break;
    case 'b':
    case 'h':
        put_word(f, month_name[t->month - 1], 3);
        break;
    case 'B':
        put_word(f, month_name[t->month - 1], 99);
        break;
    case 'p': {
        Field low = *f;
        if (f->flag == '#') { /* the one word that # makes lower case */
            low.flag = 0;
            put_word(&low, t->hour < 12 ? "am" : "pm", 2);
        } else {
            put_word(f, t->hour < 12 ? "AM" : "PM", 2);
        }
        break;
    }
    case 'P':
        put_word(f, t->hour < 12 ? "am" : "pm", 2);
        break;
    case 'D':
    case 'x':
        put_time(f, c, "%m/%d/%y");
        break;
    case 'F':
        put_time(f, c, "%Y-%m-%d");
        break;
    case 'T':
    case 'X':
        put_time(f, c, "%H:%M:%S");
        break;
    case 'R':
        put_time(f, c, "%H:%M");
        break;
    case 'r':
        put_time(f, c, "%I:%M:%S %p");
        break;
    case 'c':
        put_time(f, c, "%a %b %e %H:%M:%S %Y");
        break;
    case 'n':
        put_word(f, "\n", 1);
        break;
    case 't':
        put_word(f, "\t", 1);
        break;
    case '%':
        put_word(f, "%", 1);
        break;
    case 'z':
    case 'Z':
        break; /* local time without a zone */
    default:
        return false;
    }
    return true;
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
