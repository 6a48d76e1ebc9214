# message: write a line to a file of the environment. Every register but gp, ra and ft0 to ft6 stays as it is.
#
# gp is the address of a text: the number of the file, then bytes up to a zero. Bytes 1 to 4 stand for a number:
# with its sign, without a sign, in hexadecimal digits, and the bits of an FP32 number in decimal digits. The
# numbers are doublewords below the stack pointer: the first one at sp - 8, the next at sp - 16.

        .equ    message.frame, 1280
        .equ    message.kept, 1024      # registers; the line is below
        .equ    message.full, 960       # no number begins beyond
        .equ    message.lowest, -30     # the table begins with this power of ten

message:
        addi    sp, sp, -message.frame
        sd      t0, message.kept(sp)
        sd      t1, message.kept + 8(sp)
        sd      t2, message.kept + 16(sp)
        sd      t3, message.kept + 24(sp)
        sd      t4, message.kept + 32(sp)
        sd      a0, message.kept + 40(sp)
        sd      a1, message.kept + 48(sp)
        sd      a2, message.kept + 56(sp)
        sd      a3, message.kept + 64(sp)
        sd      a4, message.kept + 72(sp)
        sd      a5, message.kept + 80(sp)
        sd      a6, message.kept + 88(sp)
        sd      a7, message.kept + 96(sp)
        lbu     a6, 0(gp)               # the file
        mv      a1, sp                  # the end of the line so far
        addi    a2, sp, message.frame   # the number before the next one
        addi    a3, sp, message.full

message.next:
        addi    gp, gp, 1
        lbu     t0, 0(gp)
        beqz    t0, message.write
        bgeu    a1, a3, message.next
        li      t1, 4
        bleu    t0, t1, message.number
        sb      t0, 0(a1)
        addi    a1, a1, 1
        j       message.next

message.number:
        addi    a2, a2, -8
        ld      a4, 0(a2)
        li      a5, 10                  # the base
        li      a7, 100                 # digits before a point: more than there are
        beq     t0, t1, message.float
        li      t1, 2
        beq     t0, t1, message.largest
        bgtu    t0, t1, message.hexadecimal
        bgez    a4, message.largest
        li      t0, '-'
        sb      t0, 0(a1)
        addi    a1, a1, 1
        neg     a4, a4
        j       message.largest
message.hexadecimal:
        li      a5, 16

message.largest:                        # the largest power of the base that is not above the number
        li      t0, 1
1:      divu    t1, a4, t0
        bltu    t1, a5, message.digit
        mul     t0, t0, a5
        j       1b
message.digit:
        divu    t1, a4, t0
        remu    a4, a4, t0
        addi    t1, t1, '0'
        li      t2, '9'
        bleu    t1, t2, 1f
        addi    t1, t1, 'a' - '0' - 10
1:      sb      t1, 0(a1)
        addi    a1, a1, 1
        divu    t0, t0, a5
        addi    a7, a7, -1
        bnez    a7, 1f
        li      t1, '.'
        sb      t1, 0(a1)
        addi    a1, a1, 1
1:      bnez    t0, message.digit
        bgez    a7, message.next
        j       message.ended

message.float:                          # d.dddddddde-dd
        slli    t0, a4, 33
        srli    t0, t0, 33
        li      t1, 0x7f800000
        bgtu    t0, t1, message.nan
        slli    t2, a4, 32
        bgez    t2, 1f
        li      t2, '-'
        sb      t2, 0(a1)
        addi    a1, a1, 1
1:      beq     t0, t1, message.infinite
        li      a4, 0
        li      t4, 0
        beqz    t0, message.mantissa
        fmv.w.x ft0, t0
        fcvt.d.s ft0, ft0
        fmv.x.d t0, ft0
        srli    t0, t0, 52
        addi    t0, t0, -1023
        li      t1, 1233                # log10(2) * 4096: the exponent of ten, or one less
        mul     t4, t0, t1
        srai    t4, t4, 12
message.scale:                          # times 10^(8 - exponent), a power in two parts, to about 100 bits
        li      t0, 8 - message.lowest
        sub     t0, t0, t4
        slli    t0, t0, 4
        la      t1, message.powers
        add     t0, t0, t1
        fld     ft1, 0(t0)
        fld     ft2, 8(t0)
        fmul.d  ft3, ft0, ft1
        fmsub.d ft4, ft0, ft1, ft3
        fmadd.d ft4, ft0, ft2, ft4      # ft3 + ft4 is the product
        fcvt.l.d a4, ft3, rne
        fcvt.d.l ft5, a4
        fsub.d  ft3, ft3, ft5
        la      t1, message.powers - 8
        fld     ft6, 0(t1)              # 0.5
        fsub.d  ft5, ft3, ft6
        fadd.d  ft5, ft5, ft4           # above 0: the next integer is nearer
        fadd.d  ft6, ft3, ft6
        fadd.d  ft6, ft6, ft4           # below 0: the one before
        fmv.d.x ft2, zero
        andi    t1, a4, 1               # between two the even one
        flt.d   t0, ft2, ft5
        feq.d   t2, ft2, ft5
        and     t2, t2, t1
        or      t0, t0, t2
        add     a4, a4, t0
        bnez    t0, 1f
        flt.d   t0, ft6, ft2
        feq.d   t2, ft6, ft2
        and     t2, t2, t1
        or      t0, t0, t2
        sub     a4, a4, t0
1:      li      t0, 1000000000
        bltu    a4, t0, message.mantissa
        addi    t4, t4, 1
        j       message.scale
message.mantissa:
        li      t0, 100000000
        li      a7, 1
        j       message.digit
message.ended:                          # the digits of a float: its exponent
        li      t0, 'e'
        sb      t0, 0(a1)
        li      t0, '+'
        mv      a4, t4
        bgez    a4, 1f
        li      t0, '-'
        neg     a4, a4
1:      sb      t0, 1(a1)
        addi    a1, a1, 2
        li      t0, 10
        li      a7, 100
        j       message.digit
message.nan:
        li      t0, 'n' | 'a' << 8 | 'n' << 16
        j       1f
message.infinite:
        li      t0, 'i' | 'n' << 8 | 'f' << 16
1:      sb      t0, 0(a1)
        addi    a1, a1, 1
        srli    t0, t0, 8
        bnez    t0, 1b
        j       message.next

message.write:
        sub     a2, a1, sp
        mv      a0, a6
        mv      a1, sp
        li      a7, 64
        ecall
        ld      t0, message.kept(sp)
        ld      t1, message.kept + 8(sp)
        ld      t2, message.kept + 16(sp)
        ld      t3, message.kept + 24(sp)
        ld      t4, message.kept + 32(sp)
        ld      a0, message.kept + 40(sp)
        ld      a1, message.kept + 48(sp)
        ld      a2, message.kept + 56(sp)
        ld      a3, message.kept + 64(sp)
        ld      a4, message.kept + 72(sp)
        ld      a5, message.kept + 80(sp)
        ld      a6, message.kept + 88(sp)
        ld      a7, message.kept + 96(sp)
        addi    sp, sp, message.frame
        ret
