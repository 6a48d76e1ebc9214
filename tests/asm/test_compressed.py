"""Compressed instructions in the assembler and the disassembler: GNU binutils is the judge of both."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path

import pytest

import asm
from asm.assembler import assemble_text
from asm.diagnostics import AsmError
from asm.image import read_image, write_image
from asm.output import listing_text
from gnu_tools import GNU_AS, MARCH, gnu_text, missing_gnu, objdump, our_text
from tx8isa.riscv.format import Field
from tx8isa.riscv.registers import FLOAT_REGISTER_NAMES, REGISTER_NAMES
from tx8isa.table import compressed as rvc
from tx8isa.table import scalar as rv


@pytest.fixture(scope="module")
def gnu() -> None:
    missing_gnu()


def agree(text: str, folder: Path) -> None:
    """Both assemblers compress a program in the same way; GNU as also pads the end of a section."""
    text = f".option rvc\n{text}\n"
    ours, theirs = our_text(text), gnu_text(text, folder)
    wrong = [i for i in range(0, len(ours), 2) if ours[i : i + 2] != theirs[i : i + 2]]
    assert not wrong, f"first difference at {wrong[0]:#x}: {ours[wrong[0] :][:4].hex()}"
    assert set(struct.unpack(f"<{len(theirs) // 2}H", theirs)[len(ours) // 2 :]) <= {0x0001, 0x0013, 0}
    assert len(theirs) < len(ours) + 16


# -- what is compressed ------------------------------------------------------------------------------------

REGISTERS = ("zero", "ra", "sp", "t0", "s0", "s1", "a0", "a5", "a6", "t6")
COMPRESSIBLE = tuple({e.full.mnemonic: e.full for e in rvc.expansions() if e.full.operands}.values())
PSEUDO = (
    *("nop", "mv R, R", "li R, N", "sext.w R, R", "jr R", "jr N(R)", "jalr R", "jalr R, R", "ret"),
    *("jalr R, N(R)", "not R, R", "neg R, R", "zext.b R, R", "sext.h R, R", "zext.w R, R", "seqz R, R"),
    *("li R, 0x12345678", "li R, -0x123456789abc", "lw R, (R)", "sd R, (sp)", "ebreak", "ecall"),
    *("addi R, R, %lo(5)", "lui R, %hi(0x12345)", "fence", "csrr R, mhartid", "fmv.d f8, f9"),
)


def numbers(field: Field, rng: random.Random) -> int:
    near = (0, 1, 4, 8, 16, 31, 32, 63, 124, 248, 252, 256, 504, 512, -1, -32, -33, -512)
    chosen = rng.choice(
        (rng.choice(near), 4 * rng.randrange(64), 8 * rng.randrange(64), rng.randint(-40, 40))
    )
    if field.name == "imm" and field.kind == "unsigned":
        chosen = rng.choice((chosen, 0xFFFE0, 0xFFFFF, 0xFFFDF, 0x12345))
    return min(max(chosen, field.minimum), field.maximum)


def operand(field: Field, rng: random.Random) -> str:
    if field.kind == "register":
        return rng.choice(REGISTERS)
    if field.kind == "float":
        return rng.choice(FLOAT_REGISTER_NAMES)
    return "LABEL" if field.kind == "target" else str(numbers(field, rng))


def instruction(rng: random.Random) -> str:
    """An instruction that may have a compressed form, depending on its operands."""
    if rng.random() < 0.25:
        return "".join(
            rng.choice(REGISTERS) if c == "R" else str(rng.randint(-40, 40)) if c == "N" else c
            for c in rng.choice(PSEUDO)
        )
    if rng.random() < 0.25:
        name = rng.choice(("j LABEL", "beqz s0, LABEL", "bnez a5, LABEL", "bnez t0, LABEL", "jal LABEL"))
        return rng.choice((name, "c.j LABEL", "c.beqz a0, LABEL", "jal zero, LABEL", "beq s1, x0, LABEL"))
    record = rng.choice(COMPRESSIBLE)
    operands = []
    first = ""
    for wanted in record.operands:
        name, _, base = wanted.rstrip(")").partition("(")
        text = operand(record.field(name), rng)
        if name == "rd":
            first = text
        elif name == "rs1" and first and rng.random() < 0.6:
            text = first
        operands.append(f"{text}({operand(record.field(base), rng)})" if base else text)
    return f"{record.mnemonic} {', '.join(operands)}"


def program(seed: int) -> str:
    """Random instructions with near and far jumps, alignment, and places where nothing is compressed."""
    rng = random.Random(seed)
    size = rng.choice((30, 300, 1500))
    lines = []
    for number in range(size):
        reach = rng.choice((3, 40, 130, 700))
        label = f"l{min(max(number + rng.randint(-reach, reach), 0), size - 1)}"
        lines.append(f"l{number}: {instruction(rng).replace('LABEL', label)}")
        extra = rng.random()
        if extra < 0.01:
            full = instruction(rng).replace("LABEL", label).replace("c.j ", "j ").replace("c.beqz", "beqz")
            lines.append(f".option push\n.option norvc\n{full}\n.option pop")
        elif extra < 0.02:
            lines.append(f".align {rng.randrange(1, 5)}")
        elif extra < 0.025:
            lines.append(f".half {rng.randrange(1 << 16)}")
    return "\n".join(lines)


@pytest.mark.usefixtures("gnu")
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_are_compressed_as_gnu_as_does(seed: int, tmp_path: Path) -> None:
    agree(program(seed), tmp_path)


@pytest.mark.usefixtures("gnu")
@pytest.mark.parametrize("distance", range(1016, 1030))
@pytest.mark.parametrize("jump", ["c.j {}", "j {}", "beqz a0, {}", "c.bnez s1, {}", "beq t0, zero, {}"])
def test_the_reach_of_short_jumps(jump: str, distance: int, tmp_path: Path) -> None:
    """Around 2 KiB for jumps and 256 bytes for branches, both ways; the jump itself takes 2 or 4 bytes."""
    nops = distance if "j " in jump else distance - 1024 + 128
    agree(f"{jump.format('1f')}\n.rept {nops}\nc.nop\n.endr\n1: nop", tmp_path)
    agree(f"1: nop\n.rept {nops}\nc.nop\n.endr\n{jump.format('1b')}", tmp_path)


@pytest.mark.usefixtures("gnu")
@pytest.mark.parametrize(
    "text",
    [
        "la a0, d\nlw a0, d\ncall t\ntail t\nt: ret\n.data\nd: .word 1",
        "1: auipc a0, %pcrel_hi(d)\naddi a0, a0, %pcrel_lo(1b)\nlw a0, %pcrel_lo(1b)(a0)\n.data\nd: .word 1",
        ".equ N, 5\naddi a0, a0, N\naddi a0, a0, N-N\nlw a0, N-1(sp)\nli a0, N*2",
        ".byte 1\n.balign 4\nnop\n.half 7\nadd a0, a0, a1\n.align 3\nret",
        "c.nop\n.option norvc\nnop\n.align 3\nnop\n.option rvc\nnop",
        "nop\n.option push\n.option norvc\nnop\n.option pop\nnop",
        "a: j b\n.align 4\n.space 2040\nb: j a\n.align 3\nj b",
        "j .\nj . + 4\nbeqz a0, . + 200\nj a\na = . + 2\nnop\nnop",
        ".insn 0x0505\n.insn 2, 0x0505\n.insn 4, 0x00000013\n.insn 0x13",
    ],
)
def test_programs_are_compressed_as_gnu_as_does(text: str, tmp_path: Path) -> None:
    agree(text, tmp_path)


def test_a_jump_to_another_section_has_four_bytes() -> None:
    """As with GNU as, which leaves its distance to the linker."""
    code = our_text('.option rvc\nj other\nbeqz a0, here\nhere: nop\n.section .text.more, "ax"\nother: nop\n')
    assert [code[0] & 3, len(code)] == [3, 8]


def test_nothing_is_compressed_without_the_option() -> None:
    assert our_text("addi a0, a0, 1\nj .\n") == our_text(".option norvc\naddi a0, a0, 1\nj .\n")
    assert len(our_text("addi a0, a0, 1\nj .\n")) == 8
    assert len(our_text(".option rvc\naddi a0, a0, 1\nj .\n")) == 4


def test_compressed_instructions_can_be_written_without_the_option() -> None:
    assert our_text("c.addi a0, 1\naddi a0, a0, 1\n").hex() == "050513051500"


def test_label_differences_are_those_of_the_final_program() -> None:
    """The jump in between grows after the constant was read once."""
    text = ".option rvc\nstart: j end\n.space 2046\nend: li a0, end - start\n.word end - start\n"
    code = our_text(text)
    assert struct.unpack("<I", code[-4:]) == (2050,)
    (load,) = struct.unpack_from("<I", code, 2050)
    assert load & 0xFFFF == rvc.compressed_by_mnemonic()["c.lui"].encode({"rd": 10, "imm": 1})
    assert int.from_bytes(code[2052:2056], "little") >> 20 == 2050 - 4096 & 0xFFF, "addiw"


def test_mistakes_are_told_once_although_the_text_is_read_again() -> None:
    with pytest.raises(AsmError) as refused:
        asm.assemble(".option rvc\nj 1f\n.space 4000\n1: bogus\naddi a0, a0, 5000\n")
    assert [d.message for d in refused.value.diagnostics] == [
        "unknown instruction 'bogus'",
        "imm = 5000 is outside -2048..2047",
    ]


# -- every instruction and what is refused -----------------------------------------------------------------


def values_of(field: Field, rng: random.Random) -> list[int]:
    """Legal values of a field, the smallest and the largest among them."""
    if field.modulus:
        return [1, 31, field.modulus - 32, field.modulus - 1]
    legal = [v for v in range(field.minimum, field.maximum + 1) if not field.problem(v)]
    return sorted({legal[0], legal[-1], *rng.sample(legal, min(3, len(legal)))})


@pytest.mark.usefixtures("gnu")
@pytest.mark.parametrize("record", rvc.compressed_instructions(), ids=lambda record: record.mnemonic)
def test_every_instruction_is_written_as_gnu_as_reads_it(record: rvc.Compressed, tmp_path: Path) -> None:
    rng = random.Random(record.mnemonic)
    lines = []
    for _ in range(20):
        texts = {}
        for field in record.fields:
            value = rng.choice(values_of(field, rng))
            names = {"register": REGISTER_NAMES, "float": FLOAT_REGISTER_NAMES}.get(field.kind)
            texts[field.name] = (
                names[value] if names else f". + {value}" if field.kind == "target" else str(value)
            )
        operands = []
        for wanted in record.operands:
            name, _, base = wanted.rstrip(")").partition("(")
            text = texts.get(name, name)
            operands.append(f"{text}({texts.get(base, base)})" if base else text)
        line = f"{record.mnemonic} {', '.join(operands)}"
        lines.append("c.nop" if line == "c.nop 0" else line)  # GNU as does not accept operand 0 of it
    agree("\n".join(lines), tmp_path)


REFUSED = [
    ("c.addi a0, 32", "imm = 32 is outside -32..31"),
    ("c.addi zero, 1", "zero cannot stand here"),
    ("c.addi a0, a0, 1", "c.addi: 3 operands found"),
    ("c.addi a0", "c.addi: 1 operand found"),
    ("c.li a0, -33", "imm = -33 is outside -32..31"),
    ("c.lui a0, 0", "imm = 0, expected 1..31 or 0xfffe0..0xfffff"),
    ("c.lui a0, 32", "imm = 32, expected 1..31 or 0xfffe0..0xfffff"),
    ("c.lui a0, -1", "imm = -1, expected 1..31 or 0xfffe0..0xfffff"),
    ("c.lui sp, 1", "sp cannot stand here"),
    ("c.slli a0, 0", "shamt = 0 is reserved"),
    ("c.slli a0, 64", "shamt = 64 is outside 0..63"),
    ("c.srli t0, 1", "t0 cannot stand here"),
    ("c.mv a0, zero", "zero cannot stand here"),
    ("c.add a0, x0", "x0 cannot stand here"),
    ("c.addi4spn a0, sp, 0", "uimm = 0 is reserved"),
    ("c.addi4spn a0, sp, 2", "uimm = 2 is not a multiple of 4"),
    ("c.addi4spn a0, a1, 4", "sp is expected here, found a1"),
    ("c.addi4spn a0, 4, 4", "sp is expected here, found 4"),
    ("c.addi4spn t0, sp, 4", "t0 cannot stand here"),
    ("c.addi16sp sp, 0", "imm = 0 is reserved"),
    ("c.addi16sp sp, 8", "imm = 8 is not a multiple of 16"),
    ("c.addi16sp sp, 512", "imm = 512 is outside -512..496"),
    ("c.addi16sp a0, 16", "sp is expected here, found a0"),
    ("c.lwsp zero, 0(sp)", "zero cannot stand here"),
    ("c.ldsp zero, 0(sp)", "zero cannot stand here"),
    ("c.lwsp a0, 0(a0)", "sp is expected here, found a0"),
    ("c.lwsp a0, 2(sp)", "uimm = 2 is not a multiple of 4"),
    ("c.lwsp a0, 256(sp)", "uimm = 256 is outside 0..252"),
    ("c.ldsp a0, -8(sp)", "uimm = -8 is outside 0..504"),
    ("c.lw a0, 0(sp)", "sp cannot stand here"),
    ("c.fld ft0, 0(a0)", "ft0 cannot stand here"),
    ("c.fld a0, 0(a0)", "a0 is not an f register"),
    ("c.jr zero", "zero cannot stand here"),
    ("c.jalr zero", "zero cannot stand here"),
    ("c.addiw zero, 1", "zero cannot stand here"),
    ("c.beqz t0, .", "t0 cannot stand here"),
    ("c.ebreak a0", "c.ebreak: 1 operand found"),
    ("c.nop 32", "imm = 32 is outside -32..31"),
    ("c.jal .", "unknown instruction 'c.jal'"),
    ("c.flw fa0, 0(a0)", "unknown instruction 'c.flw'"),
    ("c.unknown a0", "unknown instruction 'c.unknown'"),
    ("c.sub a0, 3", "3 is not an x register"),
    (".option pop", ".option pop without .option push"),
    (".option rv", ".option rv"),
    (".insn 4, 0x0505", ".insn: 0x505 has 2 bytes by its lowest bits, found the length 4"),
    (".insn 0x10505", ".insn: 0x10505 does not fit 16 bits"),
    (".byte 1\nc.nop", "an instruction must stand on a multiple of 2 bytes"),
]


@pytest.mark.usefixtures("gnu")
@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_wrong_operands_are_refused(line: str, message: str, tmp_path: Path) -> None:
    """Compared with GNU as too, unless it only warns, or accepts operands that the manual does not name."""
    with pytest.raises(AsmError) as refused:
        asm.assemble(f".option rvc\nnop\n{line}\n")
    assert refused.value.diagnostics[0].message == message
    lenient = ("c.addi zero, 1", "c.unknown a0", ".option rv", ".byte 1\nc.nop", "c.nop 32")
    (tmp_path / "p.s").write_text(f".option rvc\nnop\n{line}\n")
    command = [GNU_AS, f"-march={MARCH}", "p.s", "-o", "p.o"]
    refusal = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode
    assert refusal == 1 or line in lenient


def test_a_short_jump_without_the_option_stays_short() -> None:
    assert len(our_text("c.j 1f\n.space 2044\n1: c.nop\n")) == 2048
    with pytest.raises(AsmError, match=r"the target is 2048 bytes away; c\.j reaches -2048\.\.2046"):
        asm.assemble("c.j 1f\n.space 2046\n1: c.nop\n")


def test_the_listing_shows_two_bytes() -> None:
    text = ".option rvc\nadd a0, a0, a1\nli a0, 0x12345\nj 1f\n1: nop\nmul a0, a0, a1\n"
    rows = listing_text(assemble_text(text, "p.s", (), {}, None, listing=True)).splitlines()
    assert [row.split()[:3] for row in rows] == [
        ["0080000000", "2e95", "2"],
        ["0080000002", "49651b055534", "3"],
        ["0080000008", "09a0", "4"],
        ["008000000a", "0100", "5"],
        ["008000000c", "3305b502", "6"],
    ]


def test_lines_belong_to_every_instruction() -> None:
    """A second statement of the same shape, which is assembled in a shorter way, is checked too."""
    image = asm.assemble("li a0, 1\nli a1, 2\nli a2, 0x12345\nli a3, 0x54321\nret\n", "p.s")
    found = [(address - image.entry, line) for address, (_, line) in image.lines.items()]
    assert found == [(0, 1), (4, 2), (8, 3), (12, 3), (16, 4), (20, 4), (24, 5)]
    image = asm.assemble(".option rvc\nli a0, 0x12345\nadd a0, a0, a1\n.align 3\nret\n", "p.s")
    at = image.entry
    assert dict(image.lines) == {at: ("p.s", 2), at + 2: ("p.s", 2), at + 6: ("p.s", 3), at + 8: ("p.s", 5)}


# -- disassembly -------------------------------------------------------------------------------------------


def shown(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.startswith("    ")]


def plain(text: str) -> str:
    """An instruction without the differences of notation: blanks, and the base of numbers."""
    mnemonic, _, operands = text.replace("\t", " ").partition(" ")
    words = (word.strip() for word in operands.split(","))
    decimal = (str(int(word, 0)) if word.startswith("0x") else word for word in words)
    return f"{mnemonic} {','.join(decimal)}".strip()


@pytest.mark.long
@pytest.mark.usefixtures("gnu")
def test_all_encodings_are_shown_as_objdump_does(tmp_path: Path) -> None:
    """Every 16 bits: the text that GNU objdump prints, or no instruction in both."""
    every = [bits for bits in range(1 << 16) if bits & 3 != 3]
    found = objdump(struct.pack(f"<{len(every)}H", *every), tmp_path)
    assert [bits for bits, _ in found] == every
    lines = shown(asm.disassemble(asm.assemble("".join(f".insn {bits:#x}\n" for bits in every))))
    assert len(lines) == len(every)
    for at, (bits, theirs) in enumerate(found):
        ours = lines[at]
        if bits == 0x6101 or theirs in ("c.unimp",) or theirs.startswith(".2byte"):
            # 0x6101 is reserved, and 0 has no name in the manual
            assert ours.startswith(f".insn {bits:#06x}  # illegal"), (hex(bits), ours, theirs)
        elif theirs.startswith(("c.j ", "c.j\t", "c.beqz", "c.bnez")):
            mnemonic, *registers, _ = plain(theirs).replace(",", " ").split()
            assert plain(ours).replace(",", " ").split()[: 1 + len(registers)] == [mnemonic, *registers]
            assert rvc.decode(bits)[1]["target"] == int(theirs.split(",")[-1].split()[-1], 0) - 2 * at  # type: ignore[index]
        elif rvc.decode(bits)[0].mnemonic == "c.nop":  # type: ignore[index]
            assert plain(ours).replace("c.nop", "c.addi zero,").replace(", ", ",") in (
                *(plain(theirs), plain(theirs).removesuffix("0")),
            )
        else:
            assert plain(ours) == plain(theirs), hex(bits)


@pytest.mark.parametrize("seed", range(6))
def test_disassembly_gives_the_same_image(seed: int) -> None:
    text = f"_start: .option rvc\n{program(seed)}\nncc.wait\nct.relu.v.fp16 dst=0, src0=64, n=9\nc.nop\n"
    image = asm.assemble(text)
    again = asm.assemble(asm.disassemble(image))
    assert write_image(again) == write_image(image)


def test_engine_instructions_between_multiples_of_four() -> None:
    image = asm.assemble("c.nop\nct.relu.v.fp16 dst=0, src0=64, n=9\nc.nop\nadd a0, a1, a2\n")
    assert shown(asm.disassemble(image)) == [
        "c.nop",
        "ct.relu.v.fp16 dst=0x0, src0=0x40, n=9",
        "c.nop",
        "add a0, a1, a2",
    ]
    assert write_image(asm.assemble(asm.disassemble(image))) == write_image(image)


def test_the_header_says_whether_instructions_have_two_bytes() -> None:
    """EF_RISCV_RVC, bit 0 of the flags (RISC-V ELF psABI)."""
    for text, expected in (("nop", 0), (".option rvc\nadd a0, a1, a2", 0), ("c.nop", 1), (".half 1\nnop", 1)):
        data = write_image(asm.assemble(text))
        assert struct.unpack_from("<I", data, 48)[0] == expected
        assert read_image(data, "p").compressed == bool(expected)


def test_every_record_is_named_in_the_table_of_mnemonics() -> None:
    assert set(rvc.compressed_by_mnemonic()).isdisjoint(rv.scalar_by_mnemonic())
