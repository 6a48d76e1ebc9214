/* Every tile says hello, in the order of their numbers. */

#include <stdio.h>

#include <tx8.h>

int main(void) {
    const unsigned tile = tx8_tile();
    for (unsigned turn = 0; turn < TX8_TILES; turn++) {
        if (turn == tile)
            printf("hello from tile %2u at %u, %u\n", tile, tile / TX8_TILES_Y, tile % TX8_TILES_Y);
        tx8_barrier(0);
    }
    return 0;
}
