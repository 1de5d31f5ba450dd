/* unicode_tab.h: the shape of the generated tables in unicode_tab.c, for unicode.c and
 * unicode_norm.c only. Two-stage tables: data[index[cp / 128] * 128 + cp % 128]. */
#ifndef MLXCEL_BASE_UNICODE_TAB_H
#define MLXCEL_BASE_UNICODE_TAB_H

#include <stddef.h>
#include <stdint.h>

enum {
    UNICODE_MAX = 0x110000,
    UNICODE_BLOCK = 128,
    UNICODE_N_BLOCKS = UNICODE_MAX / UNICODE_BLOCK
};

/* Bits of unicode_category_data: category, and: */
enum {
    UNICODE_TAB_CATEGORY = 0x1F,
    UNICODE_TAB_OLD = 0x20,      /* exists in Unicode 8.0 */
    UNICODE_TAB_NORM = 0x40,     /* takes part in some normalization */
    UNICODE_TAB_NFC_MAYBE = 0x80 /* may change, or change its neighbour, under NFC */
};

typedef struct UnicodeRange {
    uint32_t from, to;
} UnicodeRange; /* inclusive */
typedef struct UnicodeCase {
    uint32_t cp;
    uint32_t n;
    uint32_t to[3];
} UnicodeCase;
typedef struct UnicodeDecomp {
    uint32_t cp;
    uint16_t canon,
        compat; /* offsets into unicode_decomp_pool; full decompositions in canonical order */
    uint8_t n_canon, n_compat; /* 0: none */
} UnicodeDecomp;
typedef struct UnicodePair {
    uint32_t first, second, composed;
} UnicodePair;

extern const uint16_t unicode_category_index[UNICODE_N_BLOCKS], unicode_ccc_index[UNICODE_N_BLOCKS],
    unicode_script_index[UNICODE_N_BLOCKS], unicode_grapheme_index[UNICODE_N_BLOCKS];
extern const uint8_t unicode_category_data[], unicode_ccc_data[], unicode_script_data[],
    unicode_grapheme_data[];
extern const uint32_t unicode_decomp_pool[];
extern const UnicodeDecomp unicode_decomps[];
extern const UnicodePair unicode_pairs[];
extern const size_t unicode_n_decomps, unicode_n_pairs;
extern const UnicodeCase unicode_lower_cases[], unicode_upper_cases[], unicode_title_cases[];
extern const size_t unicode_lower_n_cases, unicode_upper_n_cases, unicode_title_n_cases;
extern const UnicodeRange unicode_islower_ranges[], unicode_isupper_ranges[], unicode_wide_ranges[],
    unicode_zero_ranges[], unicode_cased_ranges[], unicode_caseignorable_ranges[];
extern const size_t unicode_islower_n_ranges, unicode_isupper_n_ranges, unicode_wide_n_ranges,
    unicode_zero_n_ranges, unicode_cased_n_ranges, unicode_caseignorable_n_ranges;

#define UNICODE_TAB(name, cp)                                                                      \
    (unicode_##name##_data[(size_t)unicode_##name##_index[(cp) / UNICODE_BLOCK] * UNICODE_BLOCK +  \
                           (cp) % UNICODE_BLOCK])

#endif
