/* Collectives between chips, from C. docs/chips.md explains them.

   Tile t of a chip meets tile t of the other chips; all sixteen do the same side by side. Buffers are bytes of the
   SPM and have the same addresses on all chips of a group. Every member of a group makes the same calls in the same
   order. What is sent goes straight into the receiver's buffer, after the receiver has allowed it. */
#ifndef TX8_CHIPS_H
#define TX8_CHIPS_H

#include "tx8.h"

#define TX8_CARDS UINT64_C(0x17F000000) /* the table of cards: 16 words for each chip */

enum {
    TX8_MOST_CHIPS = 32,
    TX8_NO_CHIP = -1,
    TX8_ALLOWED_STREAM = 61, /* a packet for each chip that allows this one to write */
    TX8_WRITTEN_STREAM = 62, /* a packet for each chip that has written here */
    TX8_HELLO_STREAM = 63,
    TX8_CHIPS_DTE = 3, /* the block of the DTE that the calls use */
    TX8_HELLO_BYTES = 4 * (TX8_MOST_CHIPS + 1),
};

/* --- Chips ---------------------------------------------------------------------------------------------- */

static inline unsigned tx8_chip(void) {
    return tx8_hart() / TX8_TILES;
}

/* Word `word` of a chip's entry: 0 its number, 1 and 2 its good tiles, 3 its coordinates x << 8 | y. */
static inline uint32_t tx8_card(unsigned chip, unsigned word) {
    return tx8_get32((uintptr_t)(TX8_CARDS + 64 * chip + 4 * word));
}

/* Whether there is such a chip, and this tile of it works. */
static inline int tx8_has_chip(unsigned chip) {
    return tx8_card(chip, 0) == chip && (tx8_card(chip, 2) >> tx8_tile() & 1);
}

/* The address of an SPM byte of this tile's fellow on another chip, or in the engines' view a byte of its DDR. */
static inline uint64_t tx8_chip_remote(unsigned chip, uint64_t address) {
    const uint64_t place = tx8_card(chip, 3);
    return address | UINT64_C(1) << 39 | (uint64_t)tx8_tile() << 40 | place << 48;
}

static inline enum tx8_dte_result tx8_chip_copy(uint64_t to, uint32_t from, uint32_t bytes, uint32_t user_id) {
    const uintptr_t dte = tx8_dte_attach(TX8_CHIPS_DTE);
    tx8_dte_config(dte, TX8_DTE_UNICAST, from, bytes, 1);
    tx8_dte_destination(dte, 0, to, user_id);
    return tx8_dte_run(dte);
}

static inline void tx8_chip_update(unsigned chip, unsigned stream) {
    const uintptr_t tile = 0x18000 | (uintptr_t)chip << 8 | tx8_tile();
    tx8_put32(0x670000 + (tile << 23), 1u | tx8_chip() << 4 | stream << 12);
}

static inline void tx8_chip_expect(unsigned chip, unsigned stream) {
    while (!tx8_fsm_ready(stream, chip)) {
    }
    tx8_fsm_clear(stream, chip);
}

/* To be called once by every tile before anything else: the streams of all chips are open after it. TX8_HELLO_BYTES
   of the SPM from `scratch` on are used by it, and free again after the first barrier. */
static inline void tx8_chips_open(uint32_t scratch) {
    const unsigned me = tx8_chip();
    tx8_fsm_open(TX8_ALLOWED_STREAM, scratch, 4, TX8_MOST_CHIPS);
    tx8_fsm_open(TX8_WRITTEN_STREAM, scratch, 4, TX8_MOST_CHIPS);
    tx8_fsm_open(TX8_HELLO_STREAM, scratch, 4, TX8_MOST_CHIPS);
    for (unsigned chip = 0; chip < TX8_MOST_CHIPS; chip++)
        if (chip != me && tx8_has_chip(chip)) {
            const uint64_t there = tx8_chip_remote(chip, scratch + 4 * me);
            while (tx8_chip_copy(there, scratch + 4 * TX8_MOST_CHIPS, 4, tx8_dte_stream(TX8_HELLO_STREAM, me)) !=
                   TX8_DTE_FINISHED) { /* the other one has not opened its streams: again */
            }
        }
}

/* --- Groups --------------------------------------------------------------------------------------------- */

/* Chips that work together; `place` is that of this chip among them. */
typedef struct {
    unsigned size, place;
    uint8_t chips[TX8_MOST_CHIPS];
} tx8_group;

enum tx8_axis { TX8_ALL_CHIPS, TX8_CHIPS_ALONG_X, TX8_CHIPS_ALONG_Y };

/* All chips, or those of this chip's row or column, in the order of their numbers. */
static inline tx8_group tx8_group_of(enum tx8_axis axis) {
    const uint32_t here = tx8_card(tx8_chip(), 3);
    tx8_group group = {0, 0, {0}};
    for (unsigned chip = 0; chip < TX8_MOST_CHIPS; chip++) {
        if (chip != tx8_chip() && !tx8_has_chip(chip)) /* a chip alone has no table */
            continue;
        const uint32_t apart = tx8_card(chip, 3) ^ here;
        if ((axis == TX8_CHIPS_ALONG_X && (apart & 0xff)) || (axis == TX8_CHIPS_ALONG_Y && (apart >> 8)))
            continue;
        if (chip == tx8_chip())
            group.place = group.size;
        group.chips[group.size++] = (uint8_t)chip;
    }
    return group;
}

/* The member so many places after this one. */
static inline unsigned tx8_member(const tx8_group *group, unsigned after) {
    return (group->place + after) % group->size;
}

/* --- Between two members -------------------------------------------------------------------------------- */

/* Allow a member to write to this one, once. */
static inline void tx8_allow(const tx8_group *group, unsigned member) {
    tx8_chip_update(group->chips[member], TX8_ALLOWED_STREAM);
}

/* Write to a member, which allows it: bytes from `from` here to `to` there. They may be changed here afterwards. */
static inline void tx8_send(const tx8_group *group, unsigned member, uint32_t from, uint32_t to, uint32_t bytes) {
    const unsigned chip = group->chips[member];
    tx8_chip_expect(chip, TX8_ALLOWED_STREAM);
    if (bytes)
        tx8_chip_copy(tx8_chip_remote(chip, to), from, bytes, 0);
    tx8_chip_update(chip, TX8_WRITTEN_STREAM);
}

/* Wait until a member that was allowed to write here has done so. */
static inline void tx8_written(const tx8_group *group, unsigned member) {
    tx8_chip_expect(group->chips[member], TX8_WRITTEN_STREAM);
}

/* Receive what a member sends. */
static inline void tx8_receive(const tx8_group *group, unsigned member) {
    tx8_allow(group, member);
    tx8_written(group, member);
}

/* Send to one member and receive from another one, or the same, at the same time. */
static inline void tx8_exchange(const tx8_group *group, unsigned to, unsigned from, uint32_t source, uint32_t target,
                                uint32_t bytes) {
    tx8_allow(group, from);
    tx8_send(group, to, source, target, bytes);
    tx8_written(group, from);
}

/* Copy inside this tile. */
static inline void tx8_copy_here(uint32_t from, uint32_t to, uint32_t bytes) {
    if (bytes && from != to)
        tx8_chip_copy(tx8_dte_remote(tx8_tile(), to), from, bytes, 0);
}

/* --- Collectives ---------------------------------------------------------------------------------------- */

/* No member goes on before all have come here. */
static inline void tx8_group_barrier(const tx8_group *group) {
    for (unsigned step = 1; step < group->size; step *= 2)
        tx8_exchange(group, tx8_member(group, step), tx8_member(group, group->size - step), 0, 0, 0);
}

/* All members get the bytes at `at` that the root has there. */
static inline void tx8_broadcast(const tx8_group *group, unsigned root, uint32_t at, uint32_t bytes) {
    const unsigned size = group->size, after = (group->place + size - root) % size;
    for (unsigned step = 1; step < size; step *= 2) {
        if (after < step && after + step < size)
            tx8_send(group, tx8_member(group, step), at, at, bytes);
        else if (after >= step && after < 2 * step)
            tx8_receive(group, tx8_member(group, size - step));
    }
}

/* Member m gets the bytes that the root has at `from` + m * bytes, at `to`. */
static inline void tx8_scatter(const tx8_group *group, unsigned root, uint32_t from, uint32_t to, uint32_t bytes) {
    if (group->place != root) {
        tx8_receive(group, root);
        return;
    }
    for (unsigned member = 0; member < group->size; member++) {
        if (member == root)
            tx8_copy_here(from + member * bytes, to, bytes);
        else
            tx8_send(group, member, from + member * bytes, to, bytes);
    }
}

/* The root gets at `to` + m * bytes what member m has at `from`. */
static inline void tx8_gather(const tx8_group *group, unsigned root, uint32_t from, uint32_t to, uint32_t bytes) {
    if (group->place != root) {
        tx8_send(group, root, from, to + group->place * bytes, bytes);
        return;
    }
    for (unsigned member = 0; member < group->size; member++)
        if (member != root)
            tx8_allow(group, member);
    tx8_copy_here(from, to + root * bytes, bytes);
    for (unsigned member = 0; member < group->size; member++)
        if (member != root)
            tx8_written(group, member);
}

/* Member a gets at `to` + b * bytes what member b has at `from` + a * bytes. */
static inline void tx8_all_to_all(const tx8_group *group, uint32_t from, uint32_t to, uint32_t bytes) {
    tx8_copy_here(from + group->place * bytes, to + group->place * bytes, bytes);
    for (unsigned step = 1; step < group->size; step++) {
        const unsigned next = tx8_member(group, step);
        tx8_exchange(group, next, tx8_member(group, group->size - step), from + next * bytes,
                     to + group->place * bytes, bytes);
    }
}

/* The chunk of a member when `count` words are divided: all but the last ones have the same multiple of 64 words. */
typedef struct {
    uint32_t first, count;
} tx8_chunk;

static inline tx8_chunk tx8_chunk_of(const tx8_group *group, unsigned member, uint32_t count) {
    const uint32_t each = ((count + group->size - 1) / group->size + 63) / 64 * 64;
    const uint32_t first = member * each < count ? member * each : count;
    const tx8_chunk chunk = {first, count - first < each ? count - first : each};
    return chunk;
}

/* All members get all `count` words at `at`, of which each has its chunk. Chunks go round a ring. */
static inline void tx8_all_gather(const tx8_group *group, uint32_t at, uint32_t count) {
    for (unsigned step = 0; step + 1 < group->size; step++) {
        const tx8_chunk sent = tx8_chunk_of(group, tx8_member(group, group->size - step), count);
        const uint32_t place = at + 4 * sent.first;
        tx8_exchange(group, tx8_member(group, 1), tx8_member(group, group->size - 1), place, place, 4 * sent.count);
    }
}

/* Adds `count` words at `from` to those at `at`. */
typedef void tx8_add(uint32_t at, uint32_t from, uint32_t count);

static inline void tx8_add_fp32(uint32_t at, uint32_t from, uint32_t count) {
    CT_Param add = tx8_ct(0, TX8_CT_ADD_VV, TX8_FP32);
    tx8_ct_src0(&add, at);
    tx8_ct_src1(&add, from);
    tx8_ct_dst0(&add, at);
    tx8_ct_elem_count(&add, count);
    tx8_execute(&add);
    tx8_wait(0);
}

static inline void tx8_add_int32(uint32_t at, uint32_t from, uint32_t count) {
    uint32_t *const sums = (uint32_t *)tx8_spm(at), *const more = (uint32_t *)tx8_spm(from);
    for (uint32_t i = 0; i < count; i++)
        sums[i] += more[i];
    tx8_fence();
}

/* Each member gets the sums of its chunk of the `count` words at `at`; the others hold sums of some members. `work`
   has room for the chunk of member 0. The sum of chunk c begins with member c + 1: each member adds what comes to
   its own, c last. */
static inline void tx8_reduce_scatter(const tx8_group *group, uint32_t at, uint32_t work, uint32_t count, tx8_add *add) {
    for (unsigned step = 0; step + 1 < group->size; step++) {
        const tx8_chunk sent = tx8_chunk_of(group, tx8_member(group, 2 * group->size - step - 1), count);
        const tx8_chunk got = tx8_chunk_of(group, tx8_member(group, 2 * group->size - step - 2), count);
        tx8_exchange(group, tx8_member(group, 1), tx8_member(group, group->size - 1), at + 4 * sent.first, work,
                     4 * sent.count);
        if (got.count)
            add(at + 4 * got.first, work, got.count);
    }
}

/* All members get the sums of the `count` words at `at`. Each sends 2 * (size - 1) / size of them. */
static inline void tx8_all_reduce(const tx8_group *group, uint32_t at, uint32_t work, uint32_t count, tx8_add *add) {
    tx8_reduce_scatter(group, at, work, count, add);
    tx8_all_gather(group, at, count);
}

/* The same for few words in a large group: sums go up a tree to member 0, each member's own first, and down again.
   The messages that wait for each other are 2 * log2(size), not 2 * (size - 1), each of all words; `work` has room for
   these. */
static inline void tx8_all_reduce_tree(const tx8_group *group, uint32_t at, uint32_t work, uint32_t count, tx8_add *add) {
    const unsigned place = group->place;
    for (unsigned step = 1; step < group->size; step *= 2) {
        if (place & step) {
            tx8_send(group, place - step, at, work, 4 * count);
            break;
        }
        if (place + step < group->size) {
            tx8_receive(group, place + step);
            add(at, work, count);
        }
    }
    tx8_broadcast(group, 0, at, 4 * count);
}

#endif
