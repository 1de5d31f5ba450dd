#include "chat/jinja_big.h"

#include <math.h>
#include <string.h>

/* Any integer as magnitude and sign; small ones live in `store`. */
typedef struct Mag {
    const uint32_t *limb;
    size_t n;
    bool neg;
    uint32_t store[2];
} Mag;

static void mag_load(JVal v, Mag *m) {
    if (v.type == J_BIG) {
        *m = (Mag){.limb = v.u.big->limb, .n = v.u.big->n, .neg = v.u.big->neg};
        return;
    }
    int64_t i = v.type == J_BOOL ? v.u.b : v.u.i;
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    m->neg = i < 0;
    m->store[0] = (uint32_t)u;
    m->store[1] = (uint32_t)(u >> 32);
    m->n = m->store[1] ? 2 : m->store[0] ? 1 : 0;
    m->limb = m->store;
}

static bool int_small(JVal v, int64_t *out) {
    if (v.type == J_BIG) return false;
    *out = v.type == J_BOOL ? v.u.b : v.u.i;
    return true;
}

static uint32_t *limbs_new(JRun *r, size_t n) {
    if (n > JBIG_MAX_LIMBS) {
        jrun_fail(r, JEXC_LIMIT, "an integer of more than %d bits", JBIG_MAX_LIMBS * 32);
        return NULL;
    }
    return jrun_array(r, uint32_t, n + 1);
}

static bool mag_store(JRun *r, uint32_t *limb, size_t n, bool neg, JVal *out) {
    while (n && !limb[n - 1]) n--;
    if (n <= 2) {
        uint64_t u = n ? limb[0] : 0;
        if (n == 2) u |= (uint64_t)limb[1] << 32;
        if (u <= INT64_MAX) return *out = jval_int(neg ? -(int64_t)u : (int64_t)u), true;
        if (neg && u == (uint64_t)INT64_MAX + 1) return *out = jval_int(INT64_MIN), true;
    }
    JBig *b = jrun_new(r, JBig);
    if (!b) return false;
    *b = (JBig){limb, n, neg};
    *out = (JVal){.type = J_BIG, .u.big = b};
    return true;
}

static int mag_cmp(const Mag *a, const Mag *b) {
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (size_t i = a->n; i-- > 0;) {
        if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    }
    return 0;
}

static bool mag_add(JRun *r, const Mag *a, const Mag *b, bool neg, JVal *out) {
    if (a->n < b->n) {
        const Mag *t = a;
        a = b;
        b = t;
    }
    uint32_t *z = limbs_new(r, a->n + 1);
    if (!z) return false;
    uint64_t carry = 0;
    for (size_t i = 0; i < a->n; i++) {
        carry += (uint64_t)a->limb[i] + (i < b->n ? b->limb[i] : 0);
        z[i] = (uint32_t)carry;
        carry >>= 32;
    }
    z[a->n] = (uint32_t)carry;
    return mag_store(r, z, a->n + 1, neg, out);
}

static bool mag_sub(JRun *r, const Mag *a, const Mag *b, bool neg, JVal *out) { /* |a| >= |b| */
    uint32_t *z = limbs_new(r, a->n);
    if (!z) return false;
    int64_t borrow = 0;
    for (size_t i = 0; i < a->n; i++) {
        int64_t d = (int64_t)a->limb[i] - (i < b->n ? b->limb[i] : 0) + borrow;
        z[i] = (uint32_t)d;
        borrow = d < 0 ? -1 : 0;
    }
    return mag_store(r, z, a->n, neg, out);
}

static bool int_addsub(JRun *r, JVal x, JVal y, bool sub, JVal *out) {
    Mag a, b;
    mag_load(x, &a);
    mag_load(y, &b);
    bool b_neg = b.neg != sub;
    if (a.neg == b_neg) return mag_add(r, &a, &b, a.neg, out);
    if (mag_cmp(&a, &b) >= 0) return mag_sub(r, &a, &b, a.neg, out);
    return mag_sub(r, &b, &a, b_neg, out);
}

bool jint_add(JRun *r, JVal a, JVal b, JVal *out) {
    int64_t x, y, z;
    if (int_small(a, &x) && int_small(b, &y) && !__builtin_add_overflow(x, y, &z))
        return *out = jval_int(z), true;
    return int_addsub(r, a, b, false, out);
}

bool jint_sub(JRun *r, JVal a, JVal b, JVal *out) {
    int64_t x, y, z;
    if (int_small(a, &x) && int_small(b, &y) && !__builtin_sub_overflow(x, y, &z))
        return *out = jval_int(z), true;
    return int_addsub(r, a, b, true, out);
}

bool jint_mul(JRun *r, JVal a, JVal b, JVal *out) {
    int64_t x, y, z;
    if (int_small(a, &x) && int_small(b, &y) && !__builtin_mul_overflow(x, y, &z))
        return *out = jval_int(z), true;
    Mag m, n;
    mag_load(a, &m);
    mag_load(b, &n);
    if (!jrun_spend(r, m.n * n.n / 32)) return false;
    uint32_t *p = limbs_new(r, m.n + n.n);
    if (!p) return false;
    for (size_t i = 0; i < m.n; i++) {
        uint64_t carry = 0;
        for (size_t j = 0; j < n.n; j++) {
            carry += (uint64_t)m.limb[i] * n.limb[j] + p[i + j];
            p[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        p[i + n.n] = (uint32_t)carry;
    }
    return mag_store(r, p, m.n + n.n, m.neg != n.neg, out);
}

/* Divides in place by one limb, returns the remainder. */
static uint32_t limbs_div1(uint32_t *z, size_t n, uint32_t d) {
    uint64_t rem = 0;
    for (size_t i = n; i-- > 0;) {
        rem = rem << 32 | z[i];
        z[i] = (uint32_t)(rem / d);
        rem %= d;
    }
    return (uint32_t)rem;
}

/* Schoolbook division (Knuth, TAOCP 4.3.1, algorithm D). u has n+m limbs plus one of room, v has n
 * >= 2; both are shifted so that v's top bit is set. q gets m+1 limbs, the remainder is left in
 * u. */
static void limbs_divide(uint32_t *u, size_t n_u, const uint32_t *v, size_t n, uint32_t *q) {
    for (size_t j = n_u - n + 1; j-- > 0;) {
        uint64_t num = (uint64_t)u[j + n] << 32 | u[j + n - 1];
        uint64_t qhat = num / v[n - 1], rhat = num % v[n - 1];
        while (qhat >> 32 || qhat * v[n - 2] > (rhat << 32 | u[j + n - 2])) {
            qhat--;
            rhat += v[n - 1];
            if (rhat >> 32) break;
        }
        int64_t borrow = 0;
        uint64_t carry = 0;
        for (size_t i = 0; i < n; i++) {
            carry += qhat * v[i];
            int64_t d = (int64_t)u[i + j] - (int64_t)(uint32_t)carry + borrow;
            u[i + j] = (uint32_t)d;
            borrow = d < 0 ? -1 : 0;
            carry >>= 32;
        }
        int64_t d = (int64_t)u[j + n] - (int64_t)carry + borrow;
        u[j + n] = (uint32_t)d;
        if (d < 0) {
            qhat--;
            uint64_t c = 0;
            for (size_t i = 0; i < n; i++) {
                c += (uint64_t)u[i + j] + v[i];
                u[i + j] = (uint32_t)c;
                c >>= 32;
            }
            u[j + n] += (uint32_t)c;
        }
        q[j] = (uint32_t)qhat;
    }
}

/* Truncating division of magnitudes: quotient and remainder limbs, fresh. */
static bool mag_divide(JRun *r, const Mag *a, const Mag *b, uint32_t **q, size_t *n_q,
                       uint32_t **rem, size_t *n_r) {
    if (!jrun_spend(r, a->n * b->n / 16)) return false;
    *q = limbs_new(r, a->n + 1);
    *rem = limbs_new(r, a->n + 1);
    if (!*q || !*rem) return false;
    if (a->n) memcpy(*rem, a->limb, a->n * 4);
    *n_q = 0;
    *n_r = a->n;
    if (mag_cmp(a, b) < 0) return true;
    if (b->n == 1) {
        memcpy(*q, a->limb, a->n * 4);
        (*rem)[0] = limbs_div1(*q, a->n, b->limb[0]);
        *n_q = a->n;
        *n_r = 1;
        return true;
    }
    int shift = __builtin_clz(b->limb[b->n - 1]);
    uint32_t *v = limbs_new(r, b->n);
    if (!v) return false;
    for (size_t i = b->n; i-- > 0;) {
        v[i] = b->limb[i] << shift;
        if (shift && i) v[i] |= b->limb[i - 1] >> (32 - shift);
    }
    uint32_t *u = *rem;
    u[a->n] = shift ? a->limb[a->n - 1] >> (32 - shift) : 0;
    for (size_t i = a->n; i-- > 0;) {
        u[i] = a->limb[i] << shift;
        if (shift && i) u[i] |= a->limb[i - 1] >> (32 - shift);
    }
    limbs_divide(u, a->n, v, b->n, *q);
    for (size_t i = 0; shift && i < b->n; i++)
        u[i] = u[i] >> shift | (i + 1 <= b->n ? u[i + 1] << (32 - shift) : 0);
    *n_q = a->n - b->n + 1;
    *n_r = b->n;
    return true;
}

bool jint_divmod(JRun *r, JVal a, JVal b, JVal *quot, JVal *rem) {
    if (jint_sign(b) == 0) return jrun_fail(r, JEXC_ZERODIV, "integer division or modulo by zero");
    int64_t x, y;
    if (int_small(a, &x) && int_small(b, &y) && !(x == INT64_MIN && y == -1)) {
        int64_t q = x / y, m = x % y;
        if (m && (m < 0) != (y < 0)) {
            q--;
            m += y;
        }
        if (quot) *quot = jval_int(q);
        if (rem) *rem = jval_int(m);
        return true;
    }
    Mag ma, mb;
    mag_load(a, &ma);
    mag_load(b, &mb);
    uint32_t *q, *m;
    size_t n_q, n_m;
    JVal vq, vm;
    if (!mag_divide(r, &ma, &mb, &q, &n_q, &m, &n_m)) return false;
    if (!mag_store(r, q, n_q, ma.neg != mb.neg, &vq) || !mag_store(r, m, n_m, ma.neg, &vm))
        return false;
    if (jint_sign(vm) && ma.neg != mb.neg) {
        if (!jint_sub(r, vq, jval_int(1), &vq) || !jint_add(r, vm, b, &vm)) return false;
    }
    if (quot) *quot = vq;
    if (rem) *rem = vm;
    return true;
}

static size_t mag_bits(const Mag *m) {
    return m->n ? m->n * 32 - (size_t)__builtin_clz(m->limb[m->n - 1]) : 0;
}

static bool mag_shift_left(JRun *r, const Mag *m, size_t bits, Mag *out) {
    size_t words = bits / 32, rest = bits % 32;
    uint32_t *z = limbs_new(r, m->n + words + 1);
    if (!z) return false;
    for (size_t i = 0; i < m->n; i++) {
        z[i + words] |= m->limb[i] << rest;
        if (rest) z[i + words + 1] = m->limb[i] >> (32 - rest);
    }
    size_t n = m->n + words + 1;
    while (n && !z[n - 1]) n--;
    *out = (Mag){.limb = z, .n = n, .neg = m->neg};
    return true;
}

/* The value of limbs times 2^exp as a double, rounded to nearest even; `sticky` says that a bit
 * below was lost. */
static double limbs_to_double(const uint32_t *limb, size_t n, int exp, bool sticky) {
    while (n && !limb[n - 1]) n--;
    if (!n) return 0;
    uint64_t top = 0;
    size_t taken = 0, i = n;
    while (i > 0 && taken < 2) {
        top = top << 32 | limb[--i];
        taken++;
    }
    exp += (int)(i * 32);
    int lead = __builtin_clzll(top);
    if (taken == 2 && i > 0 && lead) { /* fill up to 64 bits; lead < 32 here */
        top = top << lead | limb[i - 1] >> (32 - lead);
        exp -= lead;
        if ((uint32_t)(limb[i - 1] << lead)) sticky = true;
        i--;
    }
    while (i > 0) sticky |= limb[--i] != 0;
    if (sticky && (top >> 60)) top |= 1; /* below the rounding position */
    return ldexp((double)top, exp);
}

bool jint_to_double(JRun *r, JVal a, double *out) {
    int64_t x;
    if (int_small(a, &x)) return *out = (double)x, true;
    double f = limbs_to_double(a.u.big->limb, a.u.big->n, 0, false);
    if (isinf(f)) return jrun_fail(r, JEXC_OVERFLOW, "int too large to convert to float");
    *out = a.u.big->neg ? -f : f;
    return true;
}

bool jint_truediv(JRun *r, JVal a, JVal b, double *out) {
    if (jint_sign(b) == 0) return jrun_fail(r, JEXC_ZERODIV, "division by zero");
    const int64_t exact = (int64_t)1 << 53;
    int64_t x, y;
    if (int_small(a, &x) && int_small(b, &y) && x <= exact && x >= -exact && y <= exact &&
        y >= -exact)
        return *out = (double)x / (double)y, true;
    Mag ma, mb;
    mag_load(a, &ma);
    mag_load(b, &mb);
    bool neg = ma.neg != mb.neg;
    /* Scale so that the quotient has at least 66 bits, then round once. Subnormal results may be
     * rounded twice. */
    size_t bits_a = mag_bits(&ma), bits_b = mag_bits(&mb);
    size_t shift = bits_a < bits_b + 66 ? bits_b + 66 - bits_a : 0;
    if (shift && !mag_shift_left(r, &ma, shift, &ma)) return false;
    uint32_t *q, *m;
    size_t n_q, n_m;
    if (!mag_divide(r, &ma, &mb, &q, &n_q, &m, &n_m)) return false;
    bool sticky = false;
    for (size_t i = 0; i < n_m; i++) sticky |= m[i] != 0;
    double f = limbs_to_double(q, n_q, -(int)shift, sticky);
    if (isinf(f))
        return jrun_fail(r, JEXC_OVERFLOW, "integer division result too large for a float");
    *out = neg ? -f : f;
    return true;
}

bool jint_pow(JRun *r, JVal a, uint64_t e, JVal *out) {
    JVal acc = jval_int(1);
    while (e) {
        if (!jrun_spend(r, 1)) return false;
        if ((e & 1) && !jint_mul(r, acc, a, &acc)) return false;
        e >>= 1;
        if (e && !jint_mul(r, a, a, &a)) return false;
    }
    *out = acc;
    return true;
}

bool jint_neg(JRun *r, JVal a, JVal *out) { return jint_sub(r, jval_int(0), a, out); }

int jint_sign(JVal a) {
    int64_t x;
    if (int_small(a, &x)) return x < 0 ? -1 : x > 0;
    return a.u.big->neg ? -1 : 1;
}

int jint_cmp(JVal a, JVal b) {
    int64_t x, y;
    if (int_small(a, &x) && int_small(b, &y)) return x < y ? -1 : x > y;
    Mag ma, mb;
    mag_load(a, &ma);
    mag_load(b, &mb);
    if (ma.neg != mb.neg) return ma.neg ? -1 : 1;
    int c = mag_cmp(&ma, &mb);
    return ma.neg ? -c : c;
}

int jint_cmp_double(JVal a, double f) {
    if (isinf(f)) return f > 0 ? -1 : 1;
    int sign = jint_sign(a);
    if (sign != (f > 0) - (f < 0)) return sign < (f > 0) - (f < 0) ? -1 : 1;
    double whole = trunc(f);
    int c;
    if (fabs(whole) < 9.2e18) {
        c = jint_cmp(a, jval_int((int64_t)whole));
    } else { /* an integer: mantissa times a power of two, compared limb by limb */
        int exp;
        uint64_t mant = (uint64_t)ldexp(frexp(fabs(f), &exp), 53);
        exp -= 53;
        uint32_t limb[40] = {0};
        size_t word = (size_t)exp / 32, bit = (size_t)exp % 32;
        __uint128_t wide = (__uint128_t)mant << bit;
        for (size_t i = 0; i < 3; i++) limb[word + i] = (uint32_t)(wide >> (32 * i));
        size_t n = word + 3;
        while (n && !limb[n - 1]) n--;
        Mag ma, mf = {.limb = limb, .n = n};
        mag_load(a, &ma);
        c = mag_cmp(&ma, &mf);
        if (f < 0) c = -c;
    }
    if (c) return c;
    return f > whole ? -1 : f < whole;
}

uint64_t jint_hash(JVal a) {
    int64_t x;
    if (int_small(a, &x)) return (uint64_t)x;
    uint64_t h = a.u.big->neg;
    for (size_t i = 0; i < a.u.big->n; i++) h = h * 0x9E3779B97F4A7C15u + a.u.big->limb[i];
    return h;
}

size_t jint_bit_length(JVal a) {
    Mag m;
    mag_load(a, &m);
    return mag_bits(&m);
}

bool jint_from_double(JRun *r, double f, JVal *out) {
    f = trunc(f);
    if (fabs(f) < 9.2e18) return *out = jval_int((int64_t)f), true;
    int exp;
    uint64_t mant = (uint64_t)ldexp(frexp(fabs(f), &exp), 53);
    Mag m = {.n = 2, .store = {(uint32_t)mant, (uint32_t)(mant >> 32)}}, shifted;
    m.limb = m.store;
    if (!mag_shift_left(r, &m, (size_t)(exp - 53), &shifted)) return false;
    uint32_t *z = limbs_new(r, shifted.n);
    if (!z) return false;
    memcpy(z, shifted.limb, shifted.n * 4);
    return mag_store(r, z, shifted.n, f < 0, out);
}

static int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'z') return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
    return 99;
}

bool jint_parse(JRun *r, Str digits, int base, bool neg, JVal *out) {
    while (digits.n > 1 && digits.p[0] == '0') digits = str_from(digits, 1);
    bool power_of_two = !(base & (base - 1));
    if (digits.n > JBIG_MAX_DIGITS && !power_of_two)
        return jrun_fail(r, JEXC_VALUE, "an integer of %zu digits, at most %d are accepted",
                         digits.n, JBIG_MAX_DIGITS);
    size_t room = digits.n * 6 / 32 + 2; /* base 36 needs less than 6 bits a digit */
    if (!jrun_spend(r, digits.n * room / 64 + 1)) return false;
    uint32_t *z = limbs_new(r, room);
    if (!z) return false;
    size_t n = 0;
    for (size_t i = 0; i < digits.n; i++) {
        uint64_t carry = (uint64_t)digit_value(digits.p[i]);
        if (carry >= (uint64_t)base) return jrun_fail(r, JEXC_VALUE, "bad digit in an integer");
        for (size_t j = 0; j < n; j++) {
            carry += (uint64_t)z[j] * (uint64_t)base;
            z[j] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry) z[n++] = (uint32_t)carry;
    }
    return mag_store(r, z, n, neg, out);
}

bool jint_format(JRun *r, JVal a, int base, bool upper, Str *out) {
    Mag m;
    mag_load(a, &m);
    size_t bits = mag_bits(&m);
    bool power_of_two = !(base & (base - 1));
    if (!power_of_two && bits > 14290) /* 4300 decimal digits */
        return jrun_fail(r, JEXC_VALUE, "an integer of %zu bits is too long to print", bits);
    /* As many digits at a time as one limb holds. */
    uint32_t chunk = (uint32_t)base;
    int n_chunk = 1;
    while ((uint64_t)chunk * (uint64_t)base <= UINT32_MAX) {
        chunk *= (uint32_t)base;
        n_chunk++;
    }
    if (!jrun_spend(r, bits / (size_t)n_chunk * (m.n + 1) / 16 + bits / 64 + 1)) return false;
    size_t room = bits / (base >= 8 ? 3 : 1) + (size_t)n_chunk + 3;
    char *text = jrun_alloc(r, room);
    uint32_t *z = limbs_new(r, m.n);
    if (!text || !z) return false;
    if (m.n) memcpy(z, m.limb, m.n * 4);
    size_t at = room, n = m.n;
    do {
        uint32_t rest = n ? limbs_div1(z, n, chunk) : 0;
        while (n && !z[n - 1]) n--;
        for (int i = 0; i < n_chunk && (n || rest || i == 0); i++, rest /= (uint32_t)base) {
            uint32_t d = rest % (uint32_t)base;
            text[--at] = (char)(d < 10 ? '0' + d : (upper ? 'A' : 'a') + d - 10);
        }
    } while (n);
    if (m.neg) text[--at] = '-';
    *out = (Str){text + at, room - at};
    return true;
}

bool jint_to_i64(JVal a, int64_t *out) { return int_small(a, out); }

int64_t jint_clamp(JVal a) {
    int64_t x;
    if (int_small(a, &x)) return x;
    return a.u.big->neg ? INT64_MIN : INT64_MAX;
}
