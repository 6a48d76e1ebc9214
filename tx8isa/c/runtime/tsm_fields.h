/* What members of the tables compute for the fields of packets (docs/crt.md). */
#ifndef TSM_FIELDS_H
#define TSM_FIELDS_H

#include "hints.h"
#include "instr_operator.h"

/* The engine's code in bits 7:0; the worker above them stays. */
#define TSM_TYPE(instr, engine) (((instr)->inter_type & ~(uint32_t)0xff) | (engine))

static inline uint64_t tsm_lanes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return (uint64_t)(uint16_t)a << 48 | (uint64_t)(uint16_t)b << 32 | (uint64_t)(uint16_t)c << 16 | (uint16_t)d;
}

static inline uint64_t tsm_shape(Data_Shape shape) {
    return tsm_lanes(shape.n, shape.h, shape.w, shape.c);
}

/* Bytes of so many elements. */
static inline uint32_t tsm_bytes(uint8_t format, uint32_t elements) {
    return (uint32_t)(elements * (uint64_t)tx8_format_bits(format) / 8);
}

/* The shape that a reduction leaves: the reduced extents are 1. */
static inline uint64_t tsm_reduced(Data_Shape shape, uint32_t dim) {
    enum { C = 0, W = 1, H = 2, HW = 4 };
    if (dim == C)
        shape.c = 1;
    if (dim == W || dim == HW)
        shape.w = 1;
    if (dim == H || dim == HW)
        shape.h = 1;
    return tsm_shape(shape);
}

#endif
