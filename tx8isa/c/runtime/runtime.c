/* What a C program needs below main: constructors, standard output, exit. */

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <tx8.h>

#include "hints.h"

int main(void);

enum { ECALL_WRITE = 64, ECALL_EXIT = 93 };

static long environment_call(long number, long a, long b, long c) {
    register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    register long a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return a0;
}

/* Each tile collects its line, so that lines of several tiles do not mix. */
static _Thread_local char line[120];
static _Thread_local unsigned used;

static int flush_line(FILE *file) {
    (void)file;
    if (used)
        environment_call(ECALL_WRITE, STDOUT_FILENO, (long)line, used);
    used = 0;
    return 0;
}

static int put_character(char c, FILE *file) {
    line[used++] = c;
    if (c == '\n' || used == sizeof line)
        flush_line(file);
    return (unsigned char)c;
}

static FILE console = FDEV_SETUP_STREAM(put_character, NULL, flush_line, _FDEV_SETUP_WRITE);
FILE *const stdout = &console;
FILE *const stderr = &console;

_Noreturn void _exit(int status) {
    flush_line(&console);
    environment_call(ECALL_EXIT, status, 0, 0);
    __builtin_unreachable();
}

extern void (*const __init_array_start[])(void);
extern void (*const __init_array_end[])(void);
/* A flag past the cache, in a line that no cache holds. */
static _Alignas(TX8_CACHE_LINE) struct {
    uint32_t done;
    char rest[TX8_CACHE_LINE - sizeof(uint32_t)];
} constructors;

/* Data are shared: tile 0 runs the constructors, the others wait for it. */
static void run_constructors(void) {
    volatile uint32_t *const done = tx8_uncached(&constructors.done);
    if (tx8_tile() == 0) {
        for (void (*const *constructor)(void) = __init_array_start; constructor < __init_array_end; constructor++)
            (*constructor)();
        tx8_clean_all();
        *done = 1;
    } else {
        while (!*done) {
        }
        tx8_invalidate_all();
    }
}

_Noreturn void tx8_start(void) {
    run_constructors();
    tx8_leaves_library(NULL);
    const int status = main();
    tx8_enters_library();
    _exit(status);
}
