#include "chat/jinja_casing.h"

#include "base/unicode.h"
#include "chat/jinja_str.h"

static bool is_titlecase(uint32_t cp) { return cp >= 0x80 && unicode_category(cp) == UNICODE_LT; }

bool jcasing_is_upper(Str s) {
    bool any = false;
    for (size_t at = 0; at < s.n;) {
        uint32_t cp = jstr_next(s, &at);
        if (unicode_is_lower(cp) || is_titlecase(cp)) return false;
        any |= unicode_is_upper(cp);
    }
    return any;
}

bool jcasing_is_lower(Str s) {
    bool any = false;
    for (size_t at = 0; at < s.n;) {
        uint32_t cp = jstr_next(s, &at);
        if (unicode_is_upper(cp) || is_titlecase(cp)) return false;
        any |= unicode_is_lower(cp);
    }
    return any;
}

bool jcasing_is_title(Str s) {
    bool any = false, inside = false;
    for (size_t at = 0; at < s.n;) {
        uint32_t cp = jstr_next(s, &at);
        bool up = unicode_is_upper(cp) || is_titlecase(cp), low = unicode_is_lower(cp);
        if ((up && inside) || (low && !inside)) return false;
        inside = up || low;
        any |= inside;
    }
    return any;
}
