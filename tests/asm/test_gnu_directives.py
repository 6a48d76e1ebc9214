"""Sections, symbols, data and instructions that compilers and hand-written GNU programs use.

GNU as and ld are the judges of every byte. Refusals come last.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import asm
from asm.assembler import assemble_text
from asm.diagnostics import AsmError
from gnu_tools import missing_gnu, same_image


@pytest.fixture
def gnu() -> None:
    missing_gnu()


SECTIONS = {
    "push_and_pop": r"""
nop
.pushsection .data
.word 5
.popsection
nop
.section .rodata
.word 1
.previous
nop
""",
    "push_of_code": r"""
nop
.pushsection .text.x, "ax", @progbits
nop
.popsection
.pushsection .data, 0
.word 1
""",
    "previous": r"""
.data
.word 1
.text
nop
.previous
.word 2
.previous
nop
""",
    "data_sections": r"""
.section .data.rel.ro,"aw"
.word 1
.section .rodata.cst8,"aM",@progbits,8
.dword 5
.text
nop
""",
    "init_sections": r"""
.section .init
nop
.section .fini,"ax"
nop
.section .init_array,"aw",@init_array
.dword 0
""",
    "commons": r"""
.data
.word b, c, d, e
.comm b, 40, 16
.local c
.comm c,4,4
.lcomm d, 3
.bss
.byte 0
.comm e, 8
.text
nop
""",
    "common_twice": r"""
.comm x, 16, 8
.comm x, 16, 8
.data
.dword x
.comm y, 4, 4
.text
nop
""",
    "weak": r"""
.weak f
call f
tail f
la a0, f
lw a1, f
sd a1, f, t0
j g
.weak g
g: nop
.dword f
""",
    "weakref": r"""
.weakref a, b
.weakref aa, c
call a
la a0, a
call aa
c: nop
""",
    "group": r"""
.section .text.a, "axG", @progbits, a, comdat
a: nop
.text
call a
beqz a0, a
j a
""",
    "debug": r"""
.section .debug_x,"",@progbits
.4byte a - b, 7
.text
b: nop
a: nop
""",
    "thread_debug": r"""
.section .tdata,"awT"
t: .word 1
.section .debug_y,"",@progbits
.dtprelword t
.text
nop
""",
    "data": r"""
.data
.octa 9, -1
.quad 1 << 63
.ascii "a" "b", "c"
.asciz "x" "y"
.text
nop
""",
    "characters": r"""
.data
.byte 'z, '\n'
.text
nop
""",
    "leb128": r"""
.data
.uleb128 300
.uleb128 127
.uleb128 128
.sleb128 -300
.sleb128 63
.sleb128 64
.sleb128 -64
.sleb128 -65
.text
nop
""",
    "alignment": r"""
nop
.p2align 4,,15
nop
.balign 16,,4
nop
.p2align 3,0
.data
.align 4, 5, 20
.byte 1
""",
    "without_effect": r"""
.hidden h
.protected h
.internal i
.ident "x"
.cfi_sections .debug_frame
.type h,%function
.type i, @object
.type j, STT_FUNC
h: nop
i: nop
j: nop
.size h, . - h
.size i, j - i
.size j, end - j
end:
""",
    "attribute_arch": r"""
.attribute arch, "rv64i2p1_m2p0_c2p0"
addi a0,a0,1
.option arch, -c
addi a0,a0,1
.option arch, +c
mv a0, a1
""",
    "option_arch": r"""
.option arch, rv64imfd_zicsr
addi a0,a0,1
.option arch, rv64imc_zicsr
addi a0,a0,1
.option norelax
""",
    "far_calls": r"""
call f@plt
tail f@plt
call t0, f
jump f, t1
f: nop
.option pic
lla a0, f
""",
    "registers_or_numbers": r"""
add a0,a0,5
and a0,a0,-5
or a0,a0,N
xor a0,a0,5
sll a0,a0,5
srl a0,a0,5
sra a0,a0,5
slt a0,a0,5
sltu a0,a0,5
addw a0,a0,5
sllw a0,a0,5
srlw a0,a0,5
sraw a0,a0,5
csrw mscratch,5
csrs mscratch,5
csrc mscratch, 5
csrrw a0, mscratch, 5
csrrs a0, mscratch, 5
csrrc a0, mscratch, 5
add a0, a0, %lo(N)
add a0, a1, a2
csrw mscratch, a0
ADD a0, a1, a2
add a0, a0, 'A'
move a0, a1
scall
sbreak
frsr a0
fssr a0
fssr a0, a1
.set M, 4
add a0, a0, M
""",
}


@pytest.mark.usefixtures("gnu")
@pytest.mark.parametrize("name", SECTIONS)
def test_sections_and_symbols_are_those_of_gnu_as(name: str, tmp_path: Path) -> None:
    same_image(f".equ N, 7\n{SECTIONS[name]}", tmp_path)


INSN = r"""
t: nop
.insn r 0x33, 0, 0, a0, a1, a2
.insn r OP, 7, 0x7f, a0, a1, a2
.insn r4 MADD, 0, 3, a0, a1, a2, a3
.insn r MADD, 0, 1, fa0, fa1, fa2, fa3
.insn r OP_FP, 0, 0, fa0, fa1, fa2
.insn i OP_IMM, 0, a0, a1, 5
.insn i 0x13, 0, a0, a1, -2048
.insn i LOAD, 2, a0, 5(a1)
.insn i 0x13, 0, a0, %lo(N)(a1)
.insn s STORE, 2, a0, 2047(a1)
.insn sb BRANCH, 0, a0, a1, t
.insn b BRANCH, 1, a0, a1, u
.insn u LUI, a0, 0xfffff
.insn uj JAL, a0, t
.insn j JAL, x0, u
.insn r CUSTOM_0, 3, 7, x1, x2, x3
.insn i CUSTOM_1, 3, x1, x2, -5
u: .option rvc
.insn cr C2, 8, a0, a1
.insn ci C1, 0, a0, -5
.insn ciw C0, 0, a0, 255
.insn css C2, 6, a0, 63
.insn cl C0, 2, a0, 31(a1)
.insn cs C0, 6, a0, 5(a1)
.insn ca C1, 0x23, 0, a0, a1
.insn cb C1, 6, a0, v
.insn cj C1, 5, v
v: .insn 0x00000013
.insn 4, 0x00000013
.insn 2, 0x0001
"""


@pytest.mark.usefixtures("gnu")
def test_formats_of_insn_are_those_of_gnu_as(tmp_path: Path) -> None:
    same_image(f".equ N, 7\n{INSN}", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".insn q 1, 2", "no format q has 2 operands"),
        (".insn r OP, 0, 0, a0, a1", ".insn: no format r has 5 operands"),
        (".insn r OPP, 0, 0, a0, a1, a2", "undefined symbol OPP"),
        (".insn r 0x32, 0, 0, a0, a1, a2", "opcode 0x32"),
        (".insn r OP, 8, 0, a0, a1, a2", "outside 0..7"),
        (".insn r OP, 0, 0, a0, a1, 5", "is not a register"),
        (".insn i OP_IMM, 0, a0, a1, 2048", "outside -2048..2047"),
        (".insn s STORE, 0, a0, a1", "no format s has 4 operands"),
        (".insn cl C0, 2, t6, 0(a1)", "t6"),
        ('.section .x, "awx"', 'flags "awx"'),
        ('.section .x, "aq"', 'allowed: "a", "aw", "ax"'),
        (".section .x, a", "flags a"),
        ('.section .x, "a", progbits', "type progbits"),
        (".text 1", "subsections are unknown"),
        (".pushsection .data, 1", "subsection 1"),
        (".popsection", ".popsection without .pushsection"),
        (".previous", ".previous without a section before"),
        (".comm x, 4\n.comm x, 8", "defined twice"),
        ("x: nop\n.comm x, 4", "defined twice"),
        (".comm x", ".comm takes NAME, SIZE"),
        (".comm x, -1", "size -1 is outside"),
        (".comm x, 4, 3", "alignment 3: expected a power of two"),
        (".lcomm x, 4\n.lcomm x, 4", "symbol x is defined twice"),
        (".local x\n.comm x, 4\nx: nop", "defined twice"),
        (".weakref a", ".weakref takes NAME, TARGET"),
        (".loc 3 4", "no .file has the number 3"),
        (".loc 1 2 nonsense", ".loc takes"),
        (".file 1", ".file takes"),
        (".option arch", ".option arch"),
        (".option arch, rv32i", "architecture rv32i"),
        (".option arch, c", "architecture c"),
        (".option rvc, 1", ".option rvc, 1"),
        (".attribute arch", ".attribute takes a tag and a value"),
        (".cfi_nothing", "unknown directive .cfi_nothing"),
        (".uleb128 -1", "-1 is negative"),
        (".dtprelword x", "it belongs to .debug_info"),
        ("j f@plt\nf: nop", "@plt belongs to the target of call and tail"),
        ("add a0, a1, tp, %lo(5)", "4 operands found"),
        ("add a0, a1, 2048", "outside -2048..2047"),
        ("add a0, a1, nothing", "nothing is not an x register"),
        ("jump f", "jump takes a label and a register"),
        ("call a0, a1, a2", "call takes a label, perhaps after a register"),
        ("1: auipc a0, %pcrel_hi(0x100000000)", "%pcrel_hi: the address is"),
        (".ifeqs a, b\n.endif", ".ifeqs takes two strings"),
        (".ifc a\n.endif", ".ifc takes two texts"),
        (".macro m a\n.endm\nm 1 2", "macro m takes 1 arguments, found 2"),
        (".macro m a:req\n.endm\nm", "argument a is missing"),
        (".altmacro\n.macro m a\n.word a\n.endm\nm %later\n.equ later, 1", "must be known here"),
        (".err", ".err in the program"),
        (".size t, 0 - 1\nt:", "-1 is negative"),
        (".size t, later", "undefined symbol later"),
        (". = 2\nnop\n. = 1", ".org 1 goes back"),
        ("A == 1\nA == 2", "symbol A is defined twice"),
        (".byte ''", "unexpected character"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(AsmError) as caught:
        asm.assemble(f"nop\n{text}\n")
    assert message in str(caught.value)


def test_a_warning_of_the_program() -> None:
    (found,) = assemble_text('nop\n.warning "slow"\n', "p.s", (), {}, None).warnings.values()
    assert (found.line, found.message, found.kind) == (2, "slow", "warning")


def test_lines_of_blocks_on_one_line_keep_their_numbers_and_columns() -> None:
    text = "nop\n.if 1; nop; bogus a0; .endif\n  oops a1\n.macro m; lw a0, x; .endm\nm\n"
    with pytest.raises(AsmError) as caught:
        asm.assemble(text)
    found = [(d.line, d.column, d.message) for d in caught.value.diagnostics]
    assert found == [
        (2, 13, "unknown instruction 'bogus'"),
        (3, 3, "unknown instruction 'oops'"),
        (4, 18, "undefined symbol x"),
    ]


def test_numbers_of_variable_length_that_later_text_decides() -> None:
    """GNU as has them for other processors, and GCC writes them into tables of exceptions."""
    text = "nop\n.section .rodata\n.uleb128 e - s\ns: .zero {}\ne: .sleb128 s - e\n"
    for size, code in ((100, "64"), (128, "8001"), (20000, "a09c01")):
        data = asm.assemble(text.format(size)).segments[1].data
        assert bytes(data[: len(code) // 2]).hex() == code
        assert len(data) == len(code) // 2 + size + {100: 2, 128: 2, 20000: 3}[size]


def test_a_binding_of_the_image_is_local_or_global() -> None:
    image = asm.assemble(".weak w, v\nw: nop\nl: nop\n.globl g\ng: nop\n")
    assert {name: symbol.binding for name, symbol in image.symbols.items()} == {
        "w": "global",
        "v": "global",
        "l": "local",
        "g": "global",
    }
