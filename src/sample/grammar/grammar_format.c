#include "sample/grammar/grammar_format.h"

#include <stdio.h>
#include <string.h>

#include "sample/grammar/grammar_regex.h"

/* RFC 3339: the last day of each month, 29 February only in leap years. */
#define YEAR "[0-9]{4}"
#define LEAP_YEAR "(([0-9]{2}(0[48]|[2468][048]|[13579][26]))|(([02468][048]|[13579][26])00))"
#define DAY31 "(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])"
#define DAY30 "(0[469]|11)-(0[1-9]|[12][0-9]|30)"
#define DATE "(" YEAR "-(" DAY31 "|" DAY30 "|02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define NO_YEAR_0 "(?!0000)" /* many readers of dates know no year 0 */
/* Leap seconds only exist at 23:59:60 UTC; which local time that is depends on the offset, so only
 * Z and whole-hour zero offsets may show one. */
#define OFFSET "([zZ]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define TIME                                                                                       \
    "(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,20})?" OFFSET                            \
    "|23:59:60(\\.[0-9]{1,20})?([zZ]|[+-]00:00))"
/* ISO 8601 durations as RFC 3339 appendix A has them: units in order, no gaps in between; weeks
 * alone. */
#define DUR_TIME "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)"
#define DUR_DATE "([0-9]+D|[0-9]+M([0-9]+D)?|[0-9]+Y([0-9]+M([0-9]+D)?)?)"
#define DURATION "P((" DUR_DATE ")(" DUR_TIME ")?|" DUR_TIME "|[0-9]+W)"
#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 OCTET "(\\." OCTET "){3}"
#define H16 "[0-9a-fA-F]{1,4}"
#define LS32 "(" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                       \
    "((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 "|((" H16      \
    ":){0,1}" H16 ")?::(" H16 ":){3}" LS32 "|((" H16 ":){0,2}" H16 ")?::(" H16 ":){2}" LS32        \
    "|((" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|((" H16 ":){0,4}" H16 ")?::" LS32 "|((" H16      \
    ":){0,5}" H16 ")?::" H16 "|((" H16 ":){0,6}" H16 ")?::)"
/* Labels with "--" in third place are encoded (xn--): which of those are valid is not regular, so
 * none is written. */
#define HOST_LABEL                                                                                 \
    "([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]?[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]([A-Za-z0-9][A-Za-"   \
    "z0-9-]|-[A-Za-z0-9])([A-Za-z0-9-]{0,58}[A-Za-z0-9])?)"
#define HOSTNAME HOST_LABEL "(\\." HOST_LABEL ")*"
#define ATEXT "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
/* The limit of 63 characters a label is left to the mail system: it would cost a state per
 * character. */
#define MAIL_LABEL "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
#define EMAIL_DOMAIN "@(" MAIL_LABEL "(\\." MAIL_LABEL ")*|\\[" IPV4 "\\]|\\[IPv6:" IPV6 "\\])"
#define EMAIL "(" ATEXT "+(\\." ATEXT "+)*|\"([ !#-\\[\\]-~]|\\\\[ -~])*\")" EMAIL_DOMAIN
#define UTEXT "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\u{80}-\\u{10FFFF}-]"
#define ULABEL                                                                                     \
    "[A-Za-z0-9\\u{A1}-\\u{10FFFF}]([A-Za-z0-9\\u{A1}-\\u{10FFFF}-]*[A-Za-z0-9\\u{A1}-\\u{10FFFF}" \
    "])?"
#define IDN_EMAIL UTEXT "+(\\." UTEXT "+)*@" ULABEL "(\\." ULABEL ")*"
/* RFC 3986 and 3987; the latter adds characters above ASCII to the unreserved ones. */
#define PCT "%[0-9A-Fa-f]{2}"
#define URI_WITH(U, REF)                                                                           \
    "(" REF "(//(([" U "!$&'()*+,;=:]|" PCT ")*@)?(\\[(" IPV6 "|[vV][0-9A-Fa-f]+\\.[" U            \
    "!$&'()*+,;=:]+)\\]|([" U "!$&'()*+,;=]|" PCT ")*)(:[0-9]*)?(/([" U "!$&'()*+,;=:@]|" PCT      \
    ")*)*|/(([" U "!$&'()*+,;=:@]|" PCT ")+(/([" U "!$&'()*+,;=:@]|" PCT ")*)*)?|"
#define URI_TAIL(U) "(\\?([" U "!$&'()*+,;=:@/?]|" PCT ")*)?(#([" U "!$&'()*+,;=:@/?]|" PCT ")*)?)"
#define SCHEME "[A-Za-z][A-Za-z0-9+.-]*:"
#define ROOTLESS(U) "(([" U "!$&'()*+,;=:@]|" PCT ")+(/([" U "!$&'()*+,;=:@]|" PCT ")*)*)?)"
#define NOSCHEME(U) "(([" U "!$&'()*+,;=@]|" PCT ")+(/([" U "!$&'()*+,;=:@]|" PCT ")*)*)?)"
#define ASCII_U "A-Za-z0-9._~\\-"
#define IRI_U                                                                                      \
    "A-Za-z0-9._~\\u{A0}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFEF}\\u{10000}-\\u{EFFFD}\\-"
#define URI(U) URI_WITH(U, SCHEME) ROOTLESS(U) URI_TAIL(U)
#define RELATIVE(U) URI_WITH(U, "") NOSCHEME(U) URI_TAIL(U)
#define TEMPLATE_NAME "([A-Za-z0-9_]|" PCT ")(\\.?([A-Za-z0-9_]|" PCT "))*"
#define TEMPLATE_VAR TEMPLATE_NAME "(:[1-9][0-9]{0,3}|\\*)?"

static const struct {
    const char *name;
    FormatKind kind;
    const char *pattern;
} formats[] = {
    {"date", FORMAT_STRING, NO_YEAR_0 DATE},
    {"time", FORMAT_STRING, TIME},
    {"date-time", FORMAT_STRING, NO_YEAR_0 DATE "[tT]" TIME},
    {"duration", FORMAT_STRING, DURATION},
    {"uuid", FORMAT_STRING, "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
    {"email", FORMAT_STRING, EMAIL},
    {"idn-email", FORMAT_STRING, IDN_EMAIL},
    {"hostname", FORMAT_STRING, HOSTNAME},
    {"ipv4", FORMAT_STRING, IPV4},
    {"ipv6", FORMAT_STRING, IPV6},
    {"uri", FORMAT_STRING, URI(ASCII_U)},
    {"uri-reference", FORMAT_STRING, "(" URI(ASCII_U) "|" RELATIVE(ASCII_U) ")"},
    {"iri", FORMAT_STRING, URI(IRI_U)},
    {"iri-reference", FORMAT_STRING, "(" URI(IRI_U) "|" RELATIVE(IRI_U) ")"},
    {"uri-template", FORMAT_STRING,
     "([!#$&-;=?-\\[\\]_a-z~\\u{A0}-\\u{10FFFF}]|" PCT "|\\{[+#./;?&=,!@|]?" TEMPLATE_VAR
     "(," TEMPLATE_VAR ")*\\})*"},
    {"json-pointer", FORMAT_STRING, "(/([^~/]|~[01])*)*"},
    {"relative-json-pointer", FORMAT_STRING, "(0|[1-9][0-9]*)(#|(/([^~/]|~[01])*)*)"},
    {"int32", FORMAT_INT32, NULL},
    {"int64", FORMAT_INT64, NULL},
    {"uint32", FORMAT_UINT32, NULL},
    {"uint64", FORMAT_UINT64, NULL},
    {"float", FORMAT_NOTE, NULL},
    {"double", FORMAT_NOTE, NULL},
    {"decimal", FORMAT_NOTE, NULL},
    {"password", FORMAT_NOTE, NULL},
    {"byte", FORMAT_NOTE, NULL},
    {"binary", FORMAT_NOTE, NULL},
    {"textarea", FORMAT_NOTE, NULL},
    {"markdown", FORMAT_NOTE, NULL},
};

FormatKind format_find(GrammarWork *w, Str name, Dfa **dfa) {
    *dfa = NULL;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (!str_eqc(name, formats[i].name)) continue;
        if (formats[i].kind == FORMAT_STRING)
            *dfa = regex_dfa(w, str_c(formats[i].pattern), REGEX_WHOLE);
        return formats[i].kind;
    }
    return FORMAT_UNKNOWN;
}

void format_names(char *out, size_t n) {
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0] && at + 1 < n; i++)
        if (formats[i].kind == FORMAT_STRING)
            at += (size_t)snprintf(out + at, n - at, "%s%s", i ? " " : "", formats[i].name);
}
