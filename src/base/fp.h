/* fp.h: small float formats, exact decode and round-to-nearest-even encode (formats.md section
 * 0). */
#ifndef MLXCEL_BASE_FP_H
#define MLXCEL_BASE_FP_H

#include <stdint.h>
#include <string.h>

static inline uint32_t fp_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline float fp_from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

float fp_f16_to_f32(uint16_t h);
uint16_t fp_f32_to_f16(float f); /* nearest even; overflow to inf; NaN stays NaN */
static inline float fp_bf16_to_f32(uint16_t b) { return fp_from_bits((uint32_t)b << 16); }
uint16_t fp_f32_to_bf16(float f);
float fp_e4m3_to_f32(uint8_t b); /* "e4m3fn": NaN at 0x7F and 0xFF, no infinities */
float fp_e5m2_to_f32(uint8_t b);
float fp_e8m0_to_f32(uint8_t b); /* 2^(b-127); 0xFF is NaN */
float fp_e2m1_to_f32(uint8_t nibble);
uint8_t fp_f32_to_e4m3(float f); /* nearest even, saturating at 448 */

#endif
