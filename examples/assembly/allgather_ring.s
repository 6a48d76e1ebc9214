# allgather_ring.s: every tile has a slice; at the end every tile has all sixteen.
#
#     tx8as allgather_ring.s && tx8emu allgather_ring.bin --input x=x.npy --output-dir .
#
# x is 16 x 64, fp32: row t is the slice of tile t. y is 16 x 16 x 64: y[t] is what tile t holds at the end.
#
# The tiles form a ring. In each of 15 steps a tile sends to its successor the slice it got last (at first its own). After
# s steps it has its own slice and those of its s predecessors. Every link carries the same load, and no tile ever sends
# the same bytes twice: that is why rings are popular.
#
# The network between the tiles is a mesh, and a copy to a neighbour uses one link. So the ring does not follow the
# numbers of the tiles but a closed path in which each step goes to a neighbour. Tile x * 4 + y stands at (x, y):
#
#         x=0    x=1    x=2    x=3
#     y=0  0 <--  4 <--  8 <-- 12
#          |                    ^
#     y=1  1      5 -->  9     13
#          |      ^      |      ^
#     y=2  2      6     10     14
#          |      ^      |      ^
#     y=3  3 -->  7     11 --> 15
#
# Copies between tiles are the work of the DTE. The queues know nothing of it: neither "ncc.wait" nor the detection of
# conflicts covers it. The program keeps the order, with dte.wait ("my copies are done") and barriers ("so are yours").

        .equ    TILES, 16
        .equ    SLICE, 64                               # elements of a slice
        .equ    BYTES, SLICE * 4
        .equ    ALL,   0x10000                          # in SPM, of every tile: the sixteen slices

        .input  x, fp32, 16x64
        .output y, fp32, 16x16x64

        .text
        .globl  _start
_start:
        csrr    s0, mhartid
        la      s1, ring                                # s1[p]: the tile at place p of the ring
        la      t0, place
        add     t0, t0, s0
        lbu     s2, 0(t0)                               # this tile's place

        addi    t0, s2, 1                               # s3: the tile at the next place
        andi    t0, t0, TILES - 1
        add     t0, t0, s1
        lbu     s3, 0(t0)

        # This tile's slice: from DDR to its position among the sixteen.
        li      s4, BYTES
        mul     t1, s0, s4
        la      t0, x
        add     t0, t0, t1
        li      s5, ALL
        add     t1, t1, s5
        rdma.fp32 dst=t1, src=t0, n=SLICE
        ncc.wait                                        # the DTE must not read it before it is there

        mv      s6, s2                                  # place of the tile whose slice is sent next
        li      s7, TILES - 1                           # steps to go
step:
        add     t0, s1, s6
        lbu     t0, 0(t0)                               # that tile
        mul     t0, t0, s4
        add     t0, t0, s5                              # its slice: the same address here and at the successor
        dte.unicast dst=t0, src=t0, tile=s3, n=BYTES
        dte.wait                                        # my copy has arrived
        ncc.barrier                                     # and so has my predecessor's, which I send on now
        addi    s6, s6, -1
        andi    s6, s6, TILES - 1
        addi    s7, s7, -1
        bnez    s7, step

        # All sixteen slices to y[tile].
        li      t0, TILES * BYTES
        mul     t0, t0, s0
        la      t1, y
        add     t1, t1, t0
        wdma.fp32 dst=t1, src=ALL, n=TILES * SLICE
        ncc.wait

        li      a0, 0
        li      a7, 93                                  # exit
        ecall

        .section .rodata
ring:   .byte   0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4
place:  .byte   0, 1, 2, 3, 15, 6, 5, 4, 14, 7, 8, 9, 13, 12, 11, 10
