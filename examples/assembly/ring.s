# ring.s: four chips in a square; at the end every chip has the sum of what all of them had.
#
#     tx8as ring.s && tx8emu ring.bin --chips 2x2 --random 0 --output-dir .
#
# x is 16 x 1024, fp32, and every chip has its own (chip0.x, chip1.x, ...). Tile t of a chip has row t, and meets tile t
# of the other chips in a ring. So there are sixteen rings, which do the same side by side:
#
#         chip 0 (0,0) <-- chip 2 (1,0)
#              |                ^
#              v                |
#         chip 1 (0,1) --> chip 3 (1,1)
#
# A row is cut into four chunks. In each of three steps a tile sends a chunk to its successor and adds the one that it
# gets: first its own chunk, then the sum it has just made. Then each tile has one chunk that is the sum of all four,
# and in three more steps the finished chunks go round. Every link carries 6/4 of a row, whatever the number of chips.
#
# Chips share no memory. A copy to another chip is started by the registers of the DTE; the target's address has bit 39
# set, and the tile and the coordinates of the chip above it. The packets of a stream tell the receiver what has come.

        .equ    CHIPS, 4
        .equ    CHUNK, 256                              # elements
        .equ    BYTES, CHUNK * 4
        .equ    ROW,   0x10000                          # in SPM, of every tile: the four chunks
        .equ    GOT,   0x20000                          # what comes in the steps of the first half

        .equ    DTE,    0x400200                        # block 1
        .equ    STREAM, 60                              # one that ends in SPM
        .equ    CONFIG, 0x6200e8 + 4 * STREAM
        .equ    READY,  0x6207a8 + 4 * STREAM           # a bit for each packet that is complete
        .equ    PACKETS, 6                              # one for each step

        .input  x, fp32, 16x1024
        .output y, fp32, 16x1024

        .text
        .globl  _start
_start:
        li      t0, CONFIG                              # from now on packets may come
        li      t1, 1 << 31 | (PACKETS - 1) << 24 | BYTES
        sw      t1, 0(t0)

        csrr    t0, mhartid                             # chip * 16 + tile
        andi    s0, t0, 15
        srli    t0, t0, 4
        la      t1, place
        add     t1, t1, t0
        lbu     s1, 0(t1)                               # this chip's place in the ring
        la      t1, successor
        slli    t0, t0, 1
        add     t1, t1, t0
        lhu     t1, 0(t1)                               # x << 8 | y of the next chip
        slli    t1, t1, 16
        slli    t2, s0, 8
        or      t1, t1, t2
        ori     s2, t1, 0x80                            # upper half of every target: chip, tile, bit 39

        li      t0, BYTES * CHIPS                       # this tile's row
        mul     s3, s0, t0
        la      t1, x
        add     t1, t1, s3
        rdma.fp32 dst=ROW, src=t1, n=CHUNK * CHIPS
        ncc.wait                                        # the DTE must not read it before it is there

        li      s4, 0                                   # step
add_step:
        sub     a0, s1, s4
        call    chunk
        mv      a1, a0                                  # send chunk place - step ...
        slli    t0, s4, 10
        li      a2, GOT
        add     a2, a2, t0                              # ... to a place of its own for each step
        mv      a3, s4
        call    send
        mv      a0, s4
        call    receive
        sub     a0, s1, s4
        addi    a0, a0, -1
        call    chunk
        slli    t0, s4, 10
        li      t1, GOT
        add     t1, t1, t0
        ct.add.vv.fp32 dst=a0, src0=a0, src1=t1, n=CHUNK
        ncc.wait
        addi    s4, s4, 1
        li      t0, CHIPS - 1
        blt     s4, t0, add_step

share_step:
        sub     a0, s1, s4                              # s4 goes on from 3 to 5
        call    chunk
        mv      a1, a0
        mv      a2, a0                                  # it belongs to the same place at the successor
        mv      a3, s4
        call    send
        mv      a0, s4
        call    receive
        addi    s4, s4, 1
        li      t0, 2 * (CHIPS - 1)
        blt     s4, t0, share_step

        la      t1, y
        add     t1, t1, s3
        wdma.fp32 dst=t1, src=ROW, n=CHUNK * CHIPS
        ncc.wait
        li      a0, 0
        li      a7, 93                                  # exit
        ecall

# a0: number of a chunk, modulo 4 -> a0: its address
chunk:
        andi    a0, a0, CHIPS - 1
        slli    a0, a0, 10
        li      t0, ROW
        add     a0, a0, t0
        ret

# Send a chunk at a1 to a2 of the successor, as packet a3. The copy fails as long as the successor has not prepared its
# stream: then send it again.
send:
        li      t0, DTE
        sw      a1, 0x000(t0)
        sw      a2, 0x008(t0)
        sw      s2, 0x00c(t0)
        slli    t1, a3, 10
        li      t2, 1 << 15 | STREAM
        or      t1, t1, t2
        sw      t1, 0x010(t0)                           # user id: packet and stream
        li      t1, BYTES
        sw      t1, 0x018(t0)
again:  li      t1, 0x101
        sw      t1, 0x040(t0)                           # forget what became of the copy before
        li      t1, 1
        sw      t1, 0x038(t0)                           # start
sent:   lw      t1, 0x040(t0)
        andi    t2, t1, 1
        beqz    t2, sent
        andi    t2, t1, 0x100
        bnez    t2, again
        ret

# Wait for packet a0.
receive:
        li      t0, READY
        lw      t1, 0(t0)
        srl     t1, t1, a0
        andi    t1, t1, 1
        beqz    t1, receive
        ret

        .section .rodata
place:  .byte   0, 1, 3, 2                              # of chips 0 to 3
        .balign 2
successor:
        .half   0x0001, 0x0101, 0x0000, 0x0100          # of chips 0 to 3
