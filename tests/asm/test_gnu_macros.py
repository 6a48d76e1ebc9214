"""Macros and conditions as in hand-written GNU programs; GNU as gives every expected byte."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from gnu_tools import missing_gnu, same

PROGRAMS = {
    "spaces": r"""
.macro m a b c
.word \a, \b, \c
.endm
m 1 2 3
m 1, 2, 3
m 1 2, 3
m 1 , 2 , 3
""",
    "plus": r"""
.macro m a b=9
.word \a, \b
.endm
m 1 + 2 3
m 1+2, 3
m 4
m (1 + 2), 5
m 1 +2
""",
    "keyword": r"""
.macro m a=1, b=2 c=3
.word \a, \b, \c
.endm
m
m b=7
m c=1 a=9
m 5, c=6
m b = 4
""",
    "reqvararg": r"""
.macro m a:req, rest:vararg
.word \a
.word \rest
.endm
m 1, 2, 3, 4
m 1 2,3
m 5, 6 + 7, (8)
""",
    "emptyarg": r"""
.macro m a, b=5, c
.word 0\a, \b, 0\c
.endm
m 1,,3
m ,2
m
m 1,2,
""",
    "lastcomma": r"""
.macro m x
.byte \x
.endm
.macro n x:vararg
.ascii "[\x]"
.endm
m 1,
n 1,
n 1,2,
.irp x, 1, 2,
.ascii "(\x)"
.endr
.irp y, 3,,
.ascii "(\y)"
.endr
.irp z,
.ascii "(\z)"
.endr
""",
    "quoted": r"""
.macro m a b
.ascii "\a"
.ascii "\b"
.endm
m "x y" , z
m abc,d
""",
    "label": r"""
.macro m n
l\n: .word \n
l\n\()x: .word l\n - l\n\()x
.endm
m 1
m 2
""",
    "nested": r"""
.macro outer a
.macro inner_\a b
.word \a, \b
.endm
.endm
outer 3
inner_3 4
""",
    "recursive": r"""
.macro r n
.word \n
.if \n
r "(\n-1)"
.endif
.endm
r 3
""",
    "recursive2": r"""
.macro r from, to
.word \from
.if \to-\from
r "(\from+1)",\to
.endif
.endm
r 0,5
""",
    "irp": r"""
.irp x,1,2,3
.word \x
.endr
.irp y 4 5 6
.word \y
.endr
.irp z, "7", 8
.word \z
.endr
.irp e
.word 1\e
.endr
""",
    "irpc": r"""
.irpc x,123
.word \x
.endr
.irpc y 45
.word \y
.endr
.irpc r,01
mv a\r, a2
.endr
""",
    "ifb": r"""
.macro m a b
.ifb \a
.word 1
.else
.word 2
.endif
.ifnb \b
.word 3
.endif
.endm
m
m 1
m 1 2
m ,2
""",
    "ifc": r"""
.macro m a b
.ifc \a,\b
.word 1
.else
.word 2
.endif
.ifnc \a, zero
.word 3
.endif
.ifc \a , zero
.word 4
.endif
.endm
m x x
m x y
m zero zero
m zero, a0
""",
    "ifeqs": r"""
.ifeqs "a","a"
.word 1
.endif
.ifnes "a","b"
.word 2
.endif
.ifeqs "a" , "b"
.word 3
.endif
""",
    "ifdef": r"""
.set FOO, 1
.ifdef FOO
.word 1
.endif
.ifndef BAR
.word 2
.endif
.ifnotdef FOO
.word 3
.endif
""",
    "elseif": r"""
.macro m n
.if \n == 1
.word 1
.elseif \n == 2
.word 2
.else
.word 3
.endif
.endm
m 1
m 2
m 3
""",
    "purgem": r"""
.macro m
.word 1
.endm
m
.purgem m
.macro m
.word 2
.endm
m
""",
    "set": r"""
.set i, 0
.rept 4
.word i
.set i, i + 1
.endr
i = 9
.word i
.eqv j, i+1
.word j
""",
    "altmacro": r"""
.altmacro
.macro m a
LOCAL l
l: .word a, l - l
.endm
m 1
m %1+2
m <5>
.noaltmacro
""",
    "altmacro2": r"""
.altmacro
.macro m a,b
.word a
.ascii "&a&b"
.endm
m 1,2
m %(3*4),<7 8>
.noaltmacro
.macro n a
.word \a
.endm
n 3
""",
    "regs": r"""
.macro save r:vararg
.irp x,\r
sd \x, 0(sp)
.endr
.endm
save ra, s0, s1
""",
    "paren": r"""
.macro m a b
lw \a, \b
.endm
m a0, 4(sp)
m a0 4(sp)
m a1, (4+4)(sp)
""",
    "charlit": r"""
.macro m a
.byte \a
.endm
m 'x'
m 'y
m 0x41
""",
    "semi": r"""
.macro m a; .word \a; .endm
m 3; m 4
""",
    "comment": r"""
.macro m a /* first */, b # second
.word \a, \b
.endm
m 1, 2 # x
m 1 /* y */ 2
""",
    "rept0": r"""
.rept 0
.word 1
.endr
.word 2
""",
    "nestrept": r"""
.rept 2
.rept 2
.byte 1
.endr
.byte 2
.endr
""",
    "org": r"""
.word 1
.org 16
.word 2
. = . + 4
.word 3
""",
    "bigmac": r"""
.macro PUSH reg
addi sp, sp, -8
sd \reg, 0(sp)
.endm
.macro FUNC name
.globl \name
.type \name, @function
.p2align 2
\name:
.cfi_startproc
.endm
.macro ENDFUNC name
.cfi_endproc
.size \name, . - \name
.endm
FUNC foo
PUSH ra
PUSH reg=s0
ret
ENDFUNC foo
""",
    "linuxalt": r"""
.macro alt_max a b
.word ((\a) ^ (((\a) ^ (\b)) & -(-((\a) < (\b)))))
.endm
alt_max 3 9
alt_max 9 3
""",
    "ifgt": r"""
.if 3 > 2
.word 1
.endif
.ifgt 3
.word 2
.endif
.ifle -1
.word 3
.endif
.iflt 0
.word 4
.endif
.ifge 0
.word 5
.endif
""",
    "case": r"""
.MACRO M
.word 1
.ENDM
M
m
.WORD 2
.Byte 3
""",
    "dollar": r"""
.macro m$x a
.word \a
.endm
m$x 5
""",
    "nestedargs": r"""
.macro a x
.word \x
.endm
.macro b x y
a \x
a "\y"
a \x + \y
.endm
b 1 2
b "3", 4
""",
    "func": r"""
.macro li32 rd, val
lui \rd, %hi(\val)
addi \rd, \rd, %lo(\val)
.endm
li32 a0, 0x12345678
li32 a1 0x12345
""",
    "strarg": r"""
.macro e msg
.ifc "\msg",""
.word 1
.else
.word 2
.endif
.endm
e
e x
""",
    "rep": r"""
.rep 2
.word 1
.endr
.irep x,1,2
.word \x
.endr
""",
    "end": r"""
.word 1
.end
this is not read
""",
    "equiv": r"""
.equiv A, 5
.word A
.set B, A
.word B
A1 == 3
.word A1
""",
    "stringcat": r"""
.macro s a:vararg
.string \a
.endm
s "a", "b"
""",
    "bits": r"""
.set x, 1 << 3 | 1
.word x, x & 9, !x, ~x
""",
    "oneif": r"""
.macro m n; .if \n; .word 1; .else; .word 2; .endif; .endm
m 0; m 1
.if 1; nop; .endif; nop
.rept 2; nop; .endr
.irp x,1,2; .word \x; .endr
.if 0
.word 9 ; .endif
.word 3
""",
    "strings": r"""
.ascii "a;b"; .if 1; .ascii ".if;x"; .endif
.byte 1,2,3
""",
    "asmmac": r"""
.macro dbl r; add \r, \r, \r; .endm; dbl a0; .purgem dbl
nop
""",
    "local2": r"""
.macro w n
\n: nop
bnez a0, \n\()b
.endm
w 1
w 2
""",
    "irpmac": r"""
.macro each op:req regs:vararg
.irp r, \regs
\op \r, \r, 1
.endr
.endm
each addi a0, a1, a2
each op=xori, regs=a3
""",
    "cnt": r"""
.set n, 0
.macro tick
.set n, n+1
.endm
tick
tick
.word n
.if n == 2
.word 7
.endif
""",
    "ifdefmac": r"""
.ifndef X
.equ X, 3
.endif
.ifdef X
.word X
.endif
""",
    "nestif": r"""
.if 1
.if 0
.word 1
.else
.word 2
.endif
.else
.word 3
.endif
""",
    "loopset": r"""
.macro table from, to
.word \from * \from
.if \from < \to
table %(\from+1), \to
.endif
.endm
.altmacro
table 1, 4
.noaltmacro
""",
    "storeall": r"""
.macro SAVE_ALL off=0
.irpc n, 0123456
sd t\n, (\off + 8*\n)(sp)
.endr
.endm
SAVE_ALL
SAVE_ALL 64
""",
    "trap": r"""
.equ REGS, 31
.macro ctx op
.set i, 1
.rept 4
\op x0, (i*8)(sp)
.set i, i+1
.endr
.endm
ctx sd
""",
    "li64": r"""
li a0, 0xdeadbeefcafebabe
li a1, ~0
li a2, 1<<40
li t0, (1 << 3) | (1 << 7)
csrw mstatus, t0
csrs mie, 8
""",
    "lab": r"""
.L1: .word .L1
foo.bar$x: .word foo.bar$x - .L1
_: nop
""",
    "strcat": r"""
.ascii "a" "b", "c"
.byte 0
""",
    "dotassign": r"""
nop
. = 16
nop
.=.+8
nop
""",
    "neg": r"""
addi a0,a0,-0x10
lw a0,-4(sp)
lw a0,-(4)(sp)
li a0,-1
andi a0,a0,~1
""",
    "wordsym": r"""
.word a, b-a, a+4
a: nop
b: nop
.dword a
.half b-a
.byte b-a
""",
    "at": r"""
.macro m
l\@: .word \@
.endm
m
m
.rept 2
m
.endr
""",
}


@pytest.fixture(scope="module", autouse=True)
def gnu() -> None:
    missing_gnu()


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_gives_the_bytes_of_gnu_as(name: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some compare, and test_readings asks for the warnings
        same(f"nop\n{PROGRAMS[name]}\n.p2align 2\n", tmp_path)
