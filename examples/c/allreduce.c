/* All-reduce between chips: every tile adds up its row with those of the same tile of all other chips.

   tx8emu build/allreduce.elf --chips 2x2 */

#include <stdint.h>
#include <stdio.h>

#include <tx8_chips.h>

enum { N = 1000, ROW = 0x10000, WORK = 0x20000, SCRATCH = 0x30000 };

int main(void) {
    tx8_chips_open(SCRATCH);
    const tx8_group all = tx8_group_of(TX8_ALL_CHIPS);
    uint32_t *const row = tx8_spm(ROW);
    for (unsigned i = 0; i < N; i++)
        row[i] = 1000000 * tx8_chip() + 1000 * tx8_tile() + i;
    tx8_fence();

    tx8_all_reduce(&all, ROW, WORK, N, tx8_add_int32);

    const uint32_t chips = all.size, fixed = 1000000 * (chips * (chips - 1) / 2) + chips * 1000 * tx8_tile();
    for (unsigned i = 0; i < N; i++)
        if (row[i] != fixed + chips * i) {
            printf("chip %u: tile %u: sum %u is %u\n", tx8_chip(), tx8_tile(), i, (unsigned)row[i]);
            return 1;
        }
    if (tx8_tile() == 0)
        printf("chip %u has the sums of %u chips\n", tx8_chip(), (unsigned)chips);
    return 0;
}
