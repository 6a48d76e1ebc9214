/* Single values in the formats of the chip: what the public C runtime declares and nobody defines. */

#include <string.h>

#include <tx8.h>

#include "instr_def.h"

/* Its layout is proposed: the bits of one element, from byte 0 on. */
typedef union hybrid_value {
    float single;
    uint32_t bits;
} hybrid_value;

enum { BF16_SHIFT = 16, TF32_SHIFT = 13 };

/* Drops low bits of a word, to nearest and even; a NaN stays one. */
static uint32_t rounded(uint32_t bits, int dropped) {
    const uint32_t odd = bits >> dropped & 1, half = ((uint32_t)1 << (dropped - 1)) - 1;
    if ((bits & 0x7fffffff) > 0x7f800000)
        return bits | 0x400000;
    return (bits + half + odd) >> dropped << dropped;
}

/* FP16 is a format of the engines and not of the core: its fields are taken apart. */
static float from_half(uint16_t half) {
    const uint32_t sign = (uint32_t)(half >> 15) << 31, exponent = half >> 10 & 31, fraction = half & 1023;
    hybrid_value value = {.bits = sign | (exponent + 112) << 23 | fraction << 13};
    if (exponent == 31)
        value.bits = sign | 0x7f800000 | fraction << 13;
    else if (exponent == 0)
        value.single = (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
    return value.single;
}

static uint16_t to_half(float single) {
    hybrid_value value = {.single = single};
    const uint32_t sign = value.bits >> 31 << 15, size = value.bits & 0x7fffffff;
    if (size > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x3ff));
    if (size >= 0x47800000)
        return (uint16_t)(sign | 0x7c00);
    value.bits = size;
    if (size < 0x38800000) { /* below the normal numbers: their distance is that of 0.5's neighbours, scaled */
        value.single += 0.5f;
        return (uint16_t)(sign | (value.bits - 0x3f000000));
    }
    return (uint16_t)(sign | (rounded(size, 13) - 0x38000000) >> 13);
}

float set_value2float32(Data_Format format, int8_t *value) {
    hybrid_value result = {.bits = 0};
    uint16_t half;
    memcpy(&half, value, sizeof half);
    if (format == Fmt_FP16)
        return from_half(half);
    if (format == Fmt_BF16)
        result.bits = (uint32_t)half << BF16_SHIFT;
    else
        memcpy(&result, value, sizeof result);
    return result.single;
}

hybrid_value set_float2value(Data_Format format, float single) {
    hybrid_value value = {.single = single};
    if (format == Fmt_FP16)
        value.bits = to_half(single);
    else if (format == Fmt_BF16)
        value.bits = rounded(value.bits, BF16_SHIFT) >> BF16_SHIFT;
    else if (format == Fmt_TF32)
        value.bits = rounded(value.bits, TF32_SHIFT);
    return value;
}

void set_ptr_value_by_idx(void *array, hybrid_value value, uint64_t index, Data_Format format) {
    const size_t size = (size_t)tx8_format_bits(format) / 8;
    memcpy((uint8_t *)array + index * size, &value, size);
}
