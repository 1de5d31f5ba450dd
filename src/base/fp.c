#include "base/fp.h"

#include <math.h>

/* Sign, exponent and mantissa of a small float widened exactly. Subnormals are a product of
 * integers and a power of two. */
float fp_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h >> 15) << 31, e = h >> 10 & 31, m = h & 0x3FF;
    if (e == 0) return fp_from_bits(sign | fp_bits((float)m * 0x1p-24f));
    if (e == 31) return fp_from_bits(sign | 0x7F800000u | m << 13);
    return fp_from_bits(sign | (e + 112) << 23 | m << 13);
}

uint16_t fp_f32_to_f16(float f) {
    uint32_t u = fp_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7FFFFFFF;
    if (a > 0x7F800000) return (uint16_t)(sign | 0x7E00 | (a >> 13 & 0x3FF));
    if (a >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* rounds to 65536 or more */
    /* subnormal: adding 0.5 aligns to 2^-24 and rounds */
    if (a < 0x38800000) {
        float r = fp_from_bits(a) + 0.5f;
        return (uint16_t)(sign | (fp_bits(r) - fp_bits(0.5f)));
    }
    uint32_t r = a + 0xFFF + (a >> 13 & 1);
    return (uint16_t)(sign | (r - 0x38000000) >> 13);
}

uint16_t fp_f32_to_bf16(float f) {
    uint32_t u = fp_bits(f);
    if ((u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

float fp_e4m3_to_f32(uint8_t b) {
    uint32_t sign = (uint32_t)(b >> 7) << 31, e = b >> 3 & 15, m = b & 7;
    if (e == 15 && m == 7) return fp_from_bits(sign | 0x7FC00000);
    if (e == 0) return fp_from_bits(sign | fp_bits((float)m * 0x1p-9f));
    return fp_from_bits(sign | (e + 120) << 23 | m << 20);
}

float fp_e5m2_to_f32(uint8_t b) { return fp_f16_to_f32((uint16_t)(b << 8)); }

float fp_e8m0_to_f32(uint8_t b) {
    if (b == 0xFF) return fp_from_bits(0x7FC00000);
    return b == 0 ? 0x1p-127f : fp_from_bits((uint32_t)b << 23);
}

float fp_e2m1_to_f32(uint8_t nibble) {
    static const float V[8] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
    float v = V[nibble & 7];
    return nibble & 8 ? -v : v;
}

uint8_t fp_f32_to_e4m3(float f) {
    uint8_t sign = (uint8_t)(fp_bits(f) >> 31 << 7);
    float a = fabsf(f);
    if (isnan(f)) return sign | 0x7F;
    if (a >= 448) return sign | 0x7E;
    if (a < 0x1p-6f) return sign | (uint8_t)rintf(a * 0x1p9f);
    uint32_t u = fp_bits(a);
    u += 0x7FFFF + (u >> 20 & 1);
    uint32_t code = (u >> 20) - (120u << 3);
    return sign | (uint8_t)(code > 0x7E ? 0x7E : code);
}
