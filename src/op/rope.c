#include "op/rope.h"

#include <math.h>

/* Which frequency of its series a pair has. */
static uint32_t series_index(const RopeSpec *s, uint32_t pair) {
    for (uint32_t c = 0; s->sections_restart && c < 4 && pair >= s->sections[c]; c++)
        pair -= s->sections[c];
    return pair;
}

/* theta^(-2i/d), computed as the references do: the power in f32 precision of the exponent, the
 * result rounded to f32. */
static void plain_freq(const RopeSpec *s, double theta, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i++) {
        float exponent = (float)(2 * series_index(s, i)) / (float)s->freq_dim;
        out[i] = 1.0f / (float)pow(theta, (double)exponent);
    }
}

/* Dynamic NTK (transformers' formula): the base grows with the length of the sequence beyond the
 * original context. */
static double dynamic_theta(const RopeSpec *s, uint32_t length) {
    if (length <= s->orig_context) return s->theta;
    double d = s->freq_dim;
    return s->theta * pow(s->factor * length / s->orig_context - (s->factor - 1), d / (d - 2));
}

/* YaRN (Peng et al. 2023, section 3.2): dimension at which `rotations` full turns fit into the
 * original context. */
static double yarn_dim(const RopeSpec *s, double rotations) {
    return s->freq_dim * log(s->orig_context / (rotations * 2 * M_PI)) / (2 * log(s->theta));
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double yarn_attn_factor(const RopeSpec *s) {
    if (s->mscale != 0 && s->mscale_all_dim != 0)
        return yarn_mscale(s->factor, s->mscale) / yarn_mscale(s->factor, s->mscale_all_dim);
    return yarn_mscale(s->factor, 1);
}

static void yarn_freq(const RopeSpec *s, uint32_t n, float *freq) {
    double low = yarn_dim(s, s->beta_fast), high = yarn_dim(s, s->beta_slow);
    if (s->truncate) low = floor(low), high = ceil(high);
    if (low < 0) low = 0;
    if (high > s->freq_dim - 1.0) high = s->freq_dim - 1.0;
    if (low == high) high += 0.001;
    for (uint32_t i = 0; i < n; i++) {
        float ramp = ((float)i - (float)low) / (float)(high - low);
        float extrapolate = 1 - (ramp < 0 ? 0 : ramp > 1 ? 1 : ramp);
        float interpolated = freq[i] / (float)s->factor;
        freq[i] = interpolated * (1 - extrapolate) + freq[i] * extrapolate;
    }
}

/* Llama 3.1: long wavelengths are divided by the factor, short ones kept, a linear ramp between. */
static void llama3_freq(const RopeSpec *s, uint32_t n, float *freq) {
    double low_wavelength = s->orig_context / s->low_freq_factor,
           high_wavelength = s->orig_context / s->high_freq_factor;
    for (uint32_t i = 0; i < n; i++) {
        double wavelength = 2 * M_PI / freq[i];
        if (wavelength < high_wavelength) continue;
        float divided = freq[i] / (float)s->factor;
        if (wavelength > low_wavelength) {
            freq[i] = divided;
        } else {
            double smooth = (s->orig_context / wavelength - s->low_freq_factor) /
                            (s->high_freq_factor - s->low_freq_factor);
            freq[i] = (float)((1 - smooth) * divided + smooth * freq[i]);
        }
    }
}

/* LongRoPE: its own default factor is sqrt(1 + ln(extended / original) / ln(original)). */
static double long_attn_factor(const RopeSpec *s) {
    double scale = s->factor > 0     ? s->factor
                   : s->orig_context ? (double)s->max_context / s->orig_context
                                     : 1;
    return scale <= 1 ? 1 : sqrt(1 + log(scale) / log(s->orig_context));
}

void rope_inv_freq(const RopeSpec *s, uint32_t length_class, float *freq, float *attn_factor) {
    uint32_t n = s->rot_dim / 2;
    double factor = 1;
    plain_freq(s, s->kind == ROPE_DYNAMIC ? dynamic_theta(s, length_class) : s->theta, n, freq);
    switch (s->kind) {
    case ROPE_PLAIN:
    case ROPE_DYNAMIC:
        break;
    case ROPE_LINEAR:
        for (uint32_t i = 0; i < n; i++) freq[i] /= (float)s->factor;
        break;
    case ROPE_YARN:
        yarn_freq(s, n, freq);
        factor = yarn_attn_factor(s);
        break;
    case ROPE_LLAMA3:
        llama3_freq(s, n, freq);
        break;
    case ROPE_LONG:
        factor = long_attn_factor(s);
        break;
    }
    const double *divisor = length_class && s->kind == ROPE_LONG ? s->long_factor : s->short_factor;
    for (uint32_t i = 0; divisor && i < n; i++) freq[i] /= (float)divisor[i];
    *attn_factor = (float)(s->attn_factor > 0 ? s->attn_factor : factor);
}

uint32_t rope_length_class(const RopeSpec *s, uint64_t prompt_tokens) {
    if (prompt_tokens <= s->orig_context || prompt_tokens > UINT32_MAX) return 0;
    return s->kind == ROPE_DYNAMIC ? (uint32_t)prompt_tokens : s->kind == ROPE_LONG;
}

uint32_t rope_section(const RopeSpec *s, uint32_t pair) {
    uint32_t total = s->sections[0] + s->sections[1] + s->sections[2] + s->sections[3];
    if (!total) return 0;
    if (s->sections_interleaved) {
        /* Coordinates take turns (0 1 2 0 1 2 ...) as far as each one's share reaches; the rest
         * follows coordinate 0. */
        uint32_t c = pair % 3;
        return c && pair < 3 * s->sections[c] ? c : 0;
    }
    for (uint32_t c = 0, end = 0; c < 4; c++)
        if (pair < (end += s->sections[c])) return c;
    return 0;
}

float rope_position(const RopeSpec *spec, const int32_t pos[4], uint32_t pair) {
    int32_t p = pos[rope_section(spec, pair)];
    if (spec->pos_step > 1) p -= p % (int32_t)spec->pos_step;
    return spec->backward ? -(float)p : (float)p;
}
