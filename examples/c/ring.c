/* All-gather on a ring: each tile has a piece, and after 15 steps all tiles have all pieces. */

#include <stdint.h>
#include <stdio.h>

#include <tx8.h>

enum { PIECE = 256, PIECES = 0x10000, BLOCK = 1 };

uint32_t sums[TX8_TILES]; /* what each tile added up */

int main(void) {
    const unsigned tile = tx8_tile();
    const unsigned next = (tile + 1) % TX8_TILES;
    uint32_t *const mine = tx8_spm(PIECES + tile * PIECE);
    for (unsigned i = 0; i < PIECE / 4; i++)
        mine[i] = 1000 * tile + i;

    const uintptr_t dte = tx8_dte_attach(BLOCK);
    for (unsigned step = 0; step + 1 < TX8_TILES; step++) {
        const unsigned piece = (tile + TX8_TILES - step) % TX8_TILES; /* what came in the step before */
        const uint32_t place = PIECES + piece * PIECE;
        tx8_dte_config(dte, TX8_DTE_UNICAST, place, PIECE, 1);
        tx8_dte_destination(dte, 0, tx8_dte_remote(next, place), 0);
        if (tx8_dte_run(dte) != TX8_DTE_FINISHED) {
            printf("tile %u: step %u failed\n", tile, step);
            return 1;
        }
        tx8_barrier(0); /* the copy into this tile is complete as well */
    }

    const uint32_t *const all = tx8_spm(PIECES);
    uint32_t sum = 0;
    for (unsigned i = 0; i < TX8_TILES * PIECE / 4; i++)
        sum += all[i];
    *(volatile uint32_t *)tx8_uncached(&sums[tile]) = sum;
    tx8_barrier(0);
    tx8_invalidate(sums, sizeof sums);
    if (tile == 0)
        printf("tile 0: %u, tile 15: %u\n", (unsigned)sums[0], (unsigned)sums[TX8_TILES - 1]);
    return 0;
}
