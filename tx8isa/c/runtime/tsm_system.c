/* Messages, the end of a program, tiles in turn. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tx8.h>

#include "instr_adapter.h"
#include "lib_log.h"

/* A packet begins as zeros: eight bytes at a time, where the C library's own takes as many turns as bytes. */
__attribute__((optimize("no-tree-loop-distribute-patterns"))) void *memset(void *target, int value, size_t size) {
    const uint64_t bytes = 0x0101010101010101u * (uint8_t)value;
    char *at = target;
    for (; size && (uintptr_t)at % sizeof bytes; size--)
        *at++ = (char)value;
    for (; size >= sizeof bytes; size -= sizeof bytes, at += sizeof bytes)
        *(uint64_t *)at = bytes;
    while (size--)
        *at++ = (char)value;
    return target;
}

int8_t *get_spm_memory_mapping(uint64_t a) {
    return tx8_spm((uint32_t)a);
}

void tsm_ep_log(const char *file, const char *function, uint32_t line, uint32_t level, const char *format, ...) {
    va_list values;
    if (level < KCORE_LOG_WARN)
        return;
    printf("%s:%u: %s: ", file, (unsigned)line, function);
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
    if (!*format || format[strlen(format) - 1] != '\n')
        printf("\n");
}

void RT_ASSERT(bool condition) {
    if (condition)
        return;
    printf("RT_ASSERT: a condition of the program does not hold\n");
    _Exit(1);
}

/* The C library's own wants signals. */
_Noreturn void abort(void) {
    printf("the program called abort\n");
    _Exit(1);
}

/* Lamport's bakery: the core has no atomic instructions. Each tile writes its own two words only. */
static volatile uint32_t choosing[TX8_TILES], ticket[TX8_TILES];

static volatile uint32_t *shared(volatile uint32_t *word) {
    return tx8_uncached(word);
}

void atomic_barrier_in(void) {
    const unsigned self = tx8_tile();
    uint32_t last = 0;
    *shared(&choosing[self]) = 1;
    tx8_fence();
    for (unsigned tile = 0; tile < TX8_TILES; tile++) {
        const uint32_t other = *shared(&ticket[tile]);
        last = other > last ? other : last;
    }
    *shared(&ticket[self]) = last + 1;
    tx8_fence();
    *shared(&choosing[self]) = 0;
    tx8_fence();
    for (unsigned tile = 0; tile < TX8_TILES; tile++) {
        uint32_t other;
        while (*shared(&choosing[tile])) {
        }
        while ((other = *shared(&ticket[tile])) && (other < last + 1 || (other == last + 1 && tile < self))) {
        }
    }
    tx8_fence();
}

/* What engines still write belongs to the time before. */
void atomic_barrier_out(void) {
    for (unsigned worker = 0; worker < TX8_WORKERS; worker++)
        tx8_wait(worker);
    *shared(&ticket[tx8_tile()]) = 0;
    tx8_fence();
}
