# vuv_loop.s: y = x * scale + shift, one scale and one shift per channel.
#
#     tx8as vuv_loop.s && tx8emu vuv_loop.bin --input x=x.npy --input scale=s.npy --input shift=t.npy --output-dir .
#
# x is a batch of sixteen images, NHWC, fp16, of 4 x 8 pixels and 131 channels. Tile t works on image t.
#
# Why there are two instructions for each step, "vuv_loop" and "vuv":
#
# The tensors are in the aligned layout (here NCx, because dimension 0 is the batch). It cuts the channels
# into blocks of 64 and stores one block of all pixels after another. 131 = 2 * 64 + 3: two full blocks and
# a tail of 3 channels, which is kept 4 lanes wide. With HW = 4 * 8 = 32 pixels, an image is
#
#     block 0: 32 pixels x 64 lanes | block 1: 32 pixels x 64 lanes | tail: 32 pixels x 4 lanes | gap to 256 bytes
#
# A vector instruction knows nothing of tensors: it runs over consecutive elements. "vuv" repeats a short
# second operand, the unit: element i of the first meets element (i mod unit) of the second. That is exactly
# one block: 64 scales, repeated for every pixel. "vuv_loop" does several blocks in one instruction: after n
# elements it takes the next 64 scales. The tail has another width and needs a "vuv" of its own.
#
# scale and shift are one row of 131 channels in the same layout (Cx: aligned, without batch): 64 + 64 + 4 lanes.

        .equ    TILES,   16
        .equ    HW,      4 * 8
        .equ    BLOCK,   64                             # lanes of a full block
        .equ    BLOCKS,  2                              # full blocks
        .equ    C0,      4                              # lanes of the tail: 3 channels and one that is padding

        .equ    FULL,    BLOCKS * HW * BLOCK            # elements of an image in full blocks
        .equ    TAIL,    HW * C0                        # elements of an image in the tail
        .equ    ELEMENT, 2                              # bytes of an fp16 number
        .equ    IMAGE,   (FULL + TAIL) * ELEMENT        # 8448 bytes: a multiple of 256 already, so there is no gap
        .equ    ROW,     BLOCKS * BLOCK + C0            # elements of scale and of shift

        # Tensors of the outside world. They get space in DDR, and the run fills them from (and writes them to)
        # .npy files. Those files are ordinary arrays: the layout is made on the way in and undone on the way out.
        .input  x,     fp16, 16x4x8x131, ncx
        .input  scale, fp16, 1x131, cx
        .input  shift, fp16, 1x131, cx
        .output y,     fp16, 16x4x8x131, ncx

        # Places in the scratchpad (SPM), 3 MiB from address 0. A result may be written up to the end of its
        # 256-byte line, so every buffer starts on a line of its own.
        .equ    X,     0x10000
        .equ    SCALE, 0x20000
        .equ    SHIFT, 0x21000

        .text
        .globl  _start
_start:
        csrr    s0, mhartid
        li      t0, TILES
        bgeu    s0, t0, done                            # a larger chip has tiles that have nothing to do

        # DDR addresses of this tile's image. Loads and stores of the core and operands of the engines see DDR
        # through different windows of addresses; la of an .input gives the engines' address.
        li      t0, IMAGE
        mul     t0, s0, t0
        la      s1, x
        la      s2, y
        add     s1, s1, t0
        add     s2, s2, t0

        # DDR to SPM. These copy bytes; the tensors have the right layout already. From here on the core does not
        # wait: it puts instructions into the queues of the engines, and they begin when what they need is there.
        la      t1, scale
        la      t2, shift
        rdma.fp16 dst=SCALE, src=t1, n=ROW
        rdma.fp16 dst=SHIFT, src=t2, n=ROW
        rdma.fp16 dst=X, src=s1, n=FULL + TAIL

        # The full blocks: n elements of x for each unit of 64 scales; full and full_unit are the totals.
        ct.mul.vuv_loop.fp16 dst=X, src0=X, src1=SCALE, n=HW * BLOCK, unit=BLOCK, full=FULL, full_unit=BLOCKS * BLOCK
        ct.add.vuv_loop.fp16 dst=X, src0=X, src1=SHIFT, n=HW * BLOCK, unit=BLOCK, full=FULL, full_unit=BLOCKS * BLOCK

        # The tail, behind the full blocks in x as in scale and shift. The padding lane is computed as well: it
        # costs nothing, and nobody looks at it.
        .equ    X_TAIL, X + FULL * ELEMENT
        .equ    TAIL_AT, BLOCKS * BLOCK * ELEMENT
        ct.mul.vuv.fp16 dst=X_TAIL, src0=X_TAIL, src1=SCALE + TAIL_AT, n=TAIL, unit=C0
        ct.add.vuv.fp16 dst=X_TAIL, src0=X_TAIL, src1=SHIFT + TAIL_AT, n=TAIL, unit=C0

        # SPM to DDR. The queues keep the order wherever addresses meet: this store reads what the additions
        # write, so it comes after them. Before the program ends it waits for everything it issued.
        wdma.fp16 dst=s2, src=X, n=FULL + TAIL
        ncc.wait

done:   li      a0, 0
        li      a7, 93                                  # exit
        ecall
