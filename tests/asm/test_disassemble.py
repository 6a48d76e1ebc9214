"""tx8dis: its text assembles to the same file, for every instruction and for whole programs."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asm
from asm.image import Segment, Symbol, read_image, write_image
from asm.instructions.text import scalar_text
from disassembled_text import instruction_lines, text_section
from tx8isa.errors import Tx8Error
from tx8isa.records.record import Engine, Instruction, Operand
from tx8isa.riscv.format import Scalar
from tx8isa.table import encoding, registry
from tx8isa.table import scalar as rv

RECORDS = registry.instructions()


def file_of(text: str) -> bytes:
    return write_image(asm.assemble(text, "prog.s"))


def round_trip(text: str) -> str:
    """The disassembly of a program, after checking that it gives the same file."""
    first = file_of(text)
    printed = asm.disassemble(first)
    assert file_of(printed) == first
    return printed


@pytest.mark.parametrize("instruction", RECORDS, ids=lambda i: i.mnemonic)
def test_every_engine_example_comes_back(instruction: Instruction) -> None:
    for fmt in instruction.formats or (None,):
        text = instruction.example
        if fmt is not None:
            text = re.sub(r"^(\S+)\.\w+ ", rf"\1.{fmt.token} ", text)
            text = text.replace("0x3c00", "0x3c") if fmt.bits == 8 else text
            text = text.replace("bf16 a=", "bf16 a=").replace(", out_format=fp32", "")
        printed = round_trip(text + "\n")
        assert instruction_lines(printed)[0].split()[0] == text.split()[0]


@pytest.mark.parametrize("instruction", rv.scalar_instructions(), ids=lambda i: i.mnemonic)
def test_every_scalar_example_comes_back(instruction: Scalar) -> None:
    (printed,) = instruction_lines(round_trip(instruction.example + "\n"))
    assert printed.split()[0] == instruction.mnemonic


def random_values(instruction: Instruction, rng: random.Random) -> tuple[list[int], int]:
    """Draw legal operand values, or registers where allowed; rules between operands may be broken."""
    values, registers = [], 0
    for index, operand in enumerate(instruction.operands):
        if operand.words and rng.random() < 0.5 and not operand.switched_by:
            registers |= 1 << index
            values.append(rng.randrange(32))
        elif operand.name == "format":
            values.append(int(rng.choice(instruction.formats)))
        elif operand.hidden or operand.switched_by:
            values.append(0)
        else:
            values.append(random_value(operand, rng))
    return values, registers


def random_value(operand: Operand, rng: random.Random) -> int:
    if operand.choices:
        return rng.choice(operand.choices)[1]
    if operand.lanes:
        return encoding.pack_lanes([rng.randint(lane.low, lane.high) for lane in operand.lanes])
    return rng.choice((operand.low, operand.high, rng.randint(operand.low, operand.high)))


def printed_and_assembled(code: bytes) -> bytes | None:
    """Assemble the printed instruction alone; None when a rule or limit forbids it."""
    printed = instruction_lines(asm.disassemble(text_section(code, data=True)))[1]
    try:
        return bytes(asm.assemble(printed + "\n").segments[0].data)
    except asm.diagnostics.AsmError:
        return None


@pytest.mark.parametrize("instruction", RECORDS, ids=lambda i: i.mnemonic)
def test_random_operands_come_back(instruction: Instruction) -> None:
    """Encoded by the records, printed, assembled: the same bytes."""
    rng = random.Random(instruction.mnemonic)
    encoder, back = encoding.encoder(instruction), 0
    for _ in range(20):
        values, registers = random_values(instruction, rng)
        worker = 0 if instruction.engine is Engine.DTE else rng.randrange(3)
        code = encoder.encode(values, registers, worker)
        again = printed_and_assembled(code)
        if again is not None:
            back += 1
            assert again == code
    assert back > 0 or instruction.rules


@given(st.integers(0, 2**32 - 1))
def test_any_scalar_word_comes_back(word: int) -> None:
    image = text_section(word.to_bytes(4, "little"), data=False)
    again = asm.assemble(asm.disassemble(image))
    assert again.segments == image.segments


@given(st.binary(min_size=1, max_size=80), st.booleans())
def test_any_data_in_code_comes_back(data: bytes, wide: bool) -> None:
    if wide:  # as likely an engine instruction as bytes can be
        data = (0x707F | data[0] << 15).to_bytes(4, "little") + data
    image = text_section(data, data=True)
    again = asm.assemble(asm.disassemble(image))
    assert again.segments == image.segments
    assert list(again.data_ranges) == list(image.data_ranges)


PROGRAMS = {
    "scalar": "_start: li a0, 5\nloop: addi a0, a0, -1\nbnez a0, loop\nj out\nnop\nout: ret\n",
    "forward and backward": "1: j 2f\n2: j 1b\nbeq a0, a1, 1b\njal t0, 2b\n",
    "engine": (
        ".equ X, 4\nrdma.fp16 dst=0x100, src=a0, n=X*2, worker=1\nncc.wait\n"
        "ct.add.vs.fp32 dst=0, src0=0, src1=1.5, n=8\n"
    ),
    "data in code": (
        'nop\n.word 1, 2, 3\n.byte 1, 2, 3\n.align 2\nnop\n.asciz "hello"\n.align 2\nncc.wait\n'
        ".half 1, 2\nret\n"
    ),
    "sections": (
        ".data\nd: .word 1, t\n.space 100\n.byte 1\n.text\nt: la a0, d\nlw a0, d\n.bss\n"
        'b: .space 64\nc:\n.section .rodata\n.asciz "x"\n'
    ),
    "tail of zeros": 'nop\n.data\n.word 1\n.space 4096\n.section .more, "aw"\n.fill 100, 1, 0\n',
    "buffers": (
        ".input x, fp16, 4x5, ntensor, float32\n.output y, bool, scalar\nla a0, x\nla a1, y + 1\n"
        ".section .ddr\nz: .word 1\n"
    ),
    "symbols": (
        ".globl f, main\n.type f, @function\nmain: call f\nret\nf: ret\n.size f, . - f\n"
        ".equ N, -1\nM = 1 << 40\nmid = main + 2\n"
    ),
    "nodes": (
        '.node "conv 1"\nnop\nncc.wait\n.node "a\\"b\\\\"\nnop\n.data\n.word 1\n.text\n.node ""\nret\n'
    ),
    "tiles": ".tile 0\nnop\n.tile 3\nnop\n.tile 15\n.entry\nret\n",
    "locations": (
        '.loc "a b.c" 7\nnop\nnop\n.loc "a b.c" 3\nnop\n.loc\nnop\n.macro m\nnop\nnop\n.endm\n.loc "x" 1\nm\n'
    ),
    "alignment": "nop\n.align 4\nf: nop\n.balign 64\n.org 256\nret\n",
    "two code sections": 'nop\nj g\n.section .text.hot, "ax"\ng: ret\nncc.wait\n.word 7\n',
    "code section of data": 'nop\n.section .more, "ax"\n.word 1, 2\n.section .last, "ax"\nnop\n',
    "jump into an instruction": "j . + 8\nncc.wait\nbeq a0, a1, . - 4\nj . + 6\nncc.wait\n",
    "zeros between": "nop\n.data\n.word 1\n.space 1000\nl: .space 8\n.word 2\n",
    "label at the end": "nop\nend:\n.data\n.byte 1\ndend:\n",
    "fences and csrs": "fence\nfence 0, rw\ncsrr a0, mhartid\ncsrrw a0, 0x7c0, a1\nlui a0, 0xfffff\n",
    "far branches": "beq a0, a1, . + 64\nj . - 4\nj 0x80000000\n.space 100\nnop\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_gives_the_same_file(name: str) -> None:
    printed = round_trip(PROGRAMS[name])
    assert asm.disassemble(file_of(printed)) == printed


def random_program(rng: random.Random) -> str:
    """Examples of all kinds in any order, with labels, data, nodes and sections between them."""
    examples = [i.example for i in RECORDS] + [i.example for i in rv.scalar_instructions()]
    lines = ["_start: nop"]
    for number in range(rng.randrange(5, 60)):
        choice = rng.random()
        lines.append(f"l{number}:" if choice < 0.1 else rng.choice(examples))
        if choice > 0.9:
            directives = (
                ".word 1, 2",
                ".byte 3\n.align 2",
                ".data\n.quad 5, l0\n.text",
                '.node "n"',
                ".align 4",
                "j l0",
            )
            lines.append(rng.choice(directives))
    return "\n".join(["l0:", *[line for line in lines if line != "l0:"], ""])


@pytest.mark.parametrize("seed", range(30))
def test_random_program_gives_the_same_file(seed: int) -> None:
    round_trip(random_program(random.Random(seed)))


@pytest.mark.long
@settings(max_examples=30)
@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4))
def test_any_file_and_node_names_come_back(names: list[str]) -> None:
    image = asm.assemble("nop\n" * len(names))
    addresses = sorted(image.lines)
    changed = replace(
        image,
        lines={a: (name, n) for n, (a, name) in enumerate(zip(addresses, names, strict=True))},
        nodes=dict(zip(addresses, names, strict=True)),
    )
    again = asm.assemble(asm.disassemble(changed))
    assert dict(again.lines) == changed.lines
    assert dict(again.nodes) == changed.nodes


def test_an_operand_that_may_be_omitted_is_the_last_one() -> None:
    """Register 7 has the number of the rounding mode that is not written."""
    for line in ("fadd.s ft7, ft7, ft7", "fsqrt.d ft7, ft7", "fcvt.l.s t2, ft7, rtz"):
        assert line in round_trip(f"{line}\n")


def test_a_target_without_a_label_is_a_distance() -> None:
    jump = rv.scalar_by_mnemonic()["jal"]
    for distance, text in ((0, ". + 0"), (8, ". + 8"), (-8, ". - 8")):
        assert scalar_text(jump, {"rd": 0, "target": distance}, 4, {}) == f"jal zero, {text}"


def test_targets_are_labels() -> None:
    printed = round_trip("j 1f\nloop: nop\nbnez a0, loop\n1: ret\n")
    assert "bne a0, zero, loop" in printed
    assert "jal zero, .L8000000c" in printed


def test_illegal_words_say_why() -> None:
    wide = encoding.encoder(registry.by_mnemonic()["ncc.wait"]).encode([])
    broken = (int.from_bytes(wide[:4], "little") | 1 << 31).to_bytes(4, "little") + wide[4:]
    printed = asm.disassemble(text_section(broken, data=True))
    assert re.search(r"\.word 0x[0-9a-f]{8}  # illegal: unclaimed bits", printed)
    assert "# illegal: no instruction" in asm.disassemble(text_section(bytes(4), data=False))


@pytest.mark.parametrize(
    ("mnemonic", "changes", "worker"),
    [
        ("dte.wait", {}, 1),  # a worker where there are none
        ("ne.gemm", {"psum": 5}, 0),  # a partial sum that is not switched on
        ("ne.gemm", {"format": 1}, 0),  # a format the mnemonic does not have
    ],
)
def test_what_no_text_can_ask_for_stays_data(mnemonic: str, changes: dict[str, int], worker: int) -> None:
    instruction = registry.by_mnemonic()[mnemonic]
    decoded = encoding.decode(asm.assemble(instruction.example + "\n").segments[0].data)
    assert isinstance(decoded, encoding.DecodedInstruction)
    values = list(decoded.values)
    for name, value in changes.items():
        values[instruction.index(name)] = value
    image = text_section(encoding.encoder(instruction).encode(values, 0, worker), data=True)
    printed = asm.disassemble(image)
    assert mnemonic not in printed
    assert asm.assemble(printed).segments == image.segments


@pytest.mark.parametrize("name", ["two words", "[x", ""])
def test_sections_that_assembly_cannot_name_are_refused(name: str) -> None:
    image = replace(asm.assemble("nop\n"), segments=(Segment(name, 0x8000_0000, b"\x13\0\0\0", 4, "rx"),))
    with pytest.raises(Tx8Error, match="cannot be written in assembly"):
        asm.disassemble(image)


def test_one_section_alone() -> None:
    from asm.disassembler import disassemble_image

    image = read_image(file_of("nop\n.data\n.word 7\n"), "p")
    assert ".word 0x00000007" in disassemble_image(image, ".data")
    assert "nop" not in disassemble_image(image, ".data")
    with pytest.raises(Tx8Error, match=r"no section \.other: the image has \.text \.data"):
        disassemble_image(image, ".other")


@pytest.mark.parametrize("name", ["two words", "5x", "a0", "", 'q"', ".Lx"])
def test_names_that_assembly_cannot_write_are_refused(name: str) -> None:
    image = replace(asm.assemble("nop\n"), symbols={name: Symbol(0x8000_0000)})
    with pytest.raises(Tx8Error, match="cannot be written in assembly"):
        asm.disassemble(image)


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"nop\n" * 40])
def test_what_is_no_image_is_refused(data: bytes) -> None:
    with pytest.raises(Tx8Error):
        asm.disassemble(data)
