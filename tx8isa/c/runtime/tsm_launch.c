/* main of a kernel: each tile runs every sixteenth program of the grid, in ascending order. */

#include <tx8.h>

#include "instr_adapter.h"

enum { ARGUMENTS = 64 };

/* What the launcher fills in: extents of the grid; the argument buffer. */
uint32_t tsm_grid[3];
uint64_t tsm_arguments[ARGUMENTS];

/* The kernel; the linker is told its name. */
void tsm_kernel(void *arguments);

static _Thread_local uint32_t place[3];

__attribute__((weak)) uint32_t __get_pid(uint32_t axis) {
    RT_ASSERT(axis < 3);
    return place[axis];
}

__attribute__((weak)) void __set_pid(uint32_t x, uint32_t y, uint32_t z) {
    place[0] = x;
    place[1] = y;
    place[2] = z;
}

int main(void) {
    const uint64_t x = tsm_grid[0], y = tsm_grid[1], programs = x * y * tsm_grid[2];
    for (uint64_t program = tx8_tile(); program < programs; program += TX8_TILES) {
        __set_pid((uint32_t)(program % x), (uint32_t)(program / x % y), (uint32_t)(program / (x * y)));
        tsm_kernel(tsm_arguments);
        for (unsigned worker = 0; worker < TX8_WORKERS; worker++)
            tx8_wait(worker);
    }
    return 0;
}
