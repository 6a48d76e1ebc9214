"""Floating point in the emulator: against the records' bodies, and against QEMU on random programs."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from chip_bench import CODE, DATA, EBREAK, ONE, Reference, build, run_words, word, words_image
from emulator.chip.system import System
from emulator.memory import state
from emulator.tile.fault import Fault
from float_cases import FORMS, multiply, operands, register
from qemu_runs import by_qemu, by_us, missing_qemu
from tx8isa.numbers.primitives import s64
from tx8isa.riscv.format import Scalar
from tx8isa.riscv.registers import CSRS, ROUNDING_MODES
from tx8isa.table import scalar as rv

FLOATS = [r for r in rv.scalar_instructions() if r.kind == "float"]
FFLAGS, FRM, FCSR = (CSRS[name] for name in ("fflags", "frm", "fcsr"))
M64 = (1 << 64) - 1


def float_word(record: Scalar, rd: int, sources: tuple[int, int, int], mode: int) -> int:
    names = dict(zip(("rs1", "rs2", "rs3"), sources, strict=True))
    values = {"rd": rd, "rm": mode, **names}
    return record.encode({field.name: values[field.name] for field in record.fields})


def run_floats(words: list[int], f: list[int], x: list[int], fcsr: int) -> System:
    """The system after words that a breakpoint ends; f1.. and x8.. get the values."""
    system = System(words_image([*words, EBREAK]), ONE)
    start(system, CODE, f, x, fcsr)
    return system


def start(system: System, pc: int, f: list[int], x: list[int], fcsr: int) -> None:
    system.tiles[0].pc = pc
    place = system.tiles[0].words
    place[state.F + 1 : state.F + 1 + len(f)] = f
    place[state.X + 8 : state.X + 8 + len(x)] = x
    place[state.FCSR] = fcsr
    with pytest.raises(Fault, match="ebreak"):
        system.run(100_000)


@pytest.mark.parametrize("fcsr", [0, 1, 0x21, 0x81])
@pytest.mark.parametrize("record", FLOATS, ids=lambda r: r.mnemonic)
def test_every_instruction_does_what_its_body_says(record: Scalar, fcsr: int) -> None:
    """With inexact already set and without; only in the first case the host's operations are tried."""
    form = FORMS["d" if ".d" in record.mnemonic else "s"]
    rng = random.Random(record.match ^ fcsr)
    integer = {field.name for field in record.fields if field.kind == "register"}
    modes = (0, 1, 2, 3, 4, 7) if "rm" in record.operands else (0,)
    words = []
    for mode in modes:
        first = 8 if "rs1" in integer else 1
        words += [float_word(record, 30, (first, 2, 3), mode), EBREAK]
    system = System(words_image(words), ONE)
    for k in range(60):
        f = [register(form, bits) for bits in operands(form, rng, 3)]
        f[k % 3] = register(FORMS["d"], next(operands(FORMS["d"], rng, 1))) if k % 5 == 0 else f[k % 3]
        x = [rng.choice((0, -1, 1 << 31, s64(rng.getrandbits(64)), rng.randrange(-9, 9)))]
        place = rng.randrange(len(modes))
        start(system, CODE + 8 * place, f, x, fcsr)
        sources = {"rs1": x[0] if "rs1" in integer else f[0], "rs2": f[1], "rs3": f[2]}
        sources["rm"] = fcsr >> 5 if modes[place] == 7 else modes[place]
        value, flags = record.body(*(sources[name] for name in record.operands if name != "rd"))
        state_words = system.tiles[0].words
        found = state_words[(state.X if "rd" in integer else state.F) + 30]
        assert (found, state_words[state.FCSR]) == (s64(value), fcsr | flags), (record.mnemonic, sources)


@pytest.mark.parametrize("letter", FORMS)
@pytest.mark.parametrize("fcsr", [0, 1])
def test_results_at_the_borders_of_the_normal_range(letter: str, fcsr: int) -> None:
    """A product that is rounded up to the smallest normal number may have been tiny; another one may
    overflow."""
    form, rng = FORMS[letter], random.Random(4)
    system = System(words_image([word(f"fmul.{letter}", rd=30, rs1=1, rs2=2, rm=7), EBREAK]), ONE)
    one = ((1 << form.exponent_bits - 1) - 1) << form.mantissa_bits
    unit = 1 << form.mantissa_bits
    seen = set()
    for _ in range(150):
        a = one + unit - 1 - rng.randrange(3)  # a little below 2
        b = rng.choice((unit - unit // 2, unit - 1, unit, form.infinity - unit)) + rng.randrange(-2, 3)
        start(system, CODE, [register(form, a), register(form, b)], [], fcsr)
        expected, flags = multiply(form, a, b, "rne")
        found = system.tiles[0].words
        assert (found[state.F + 30], found[state.FCSR]) == (register(form, expected), flags | fcsr)
        seen.add(flags)
    assert {1, 3, 5} <= seen  # inexact, underflow, overflow


def test_float_and_integer_registers_are_different() -> None:
    words = [word("fmv.d.x", rd=0, rs1=8), word("fmv.x.d", rd=9, rs1=0), word("fmv.x.w", rd=0, rs1=0)]
    system = run_floats([*words, word("fmv.d.x", rd=31, rs1=0)], [], [77], 0)
    place = system.tiles[0].words
    assert place[state.F] == place[state.X + 9] == 77 and place[state.X] == place[state.F + 31] == 0


@pytest.mark.parametrize("mode", [5, 6, 7])
def test_a_reserved_dynamic_mode_is_an_illegal_instruction(mode: int) -> None:
    words = [word("csrrwi", csr=FRM, rd=0, zimm=mode), word("fadd.d", rd=1, rs1=2, rs2=3, rm=7), EBREAK]
    system, fault = run_words(words, {})
    assert f"fadd.d with the rounding mode {mode} in frm, expected 0..4" in fault
    assert system.tiles[0].pc == CODE + 4


def test_a_static_mode_does_not_look_at_frm() -> None:
    words = [word("csrrwi", csr=FRM, rd=0, zimm=6), word("fadd.d", rd=1, rs1=2, rs2=3, rm=0)]
    assert run_floats(words, [0, *[s64(0x3FF0 << 48)] * 2], [], 0).tiles[0].words[state.F + 1] == 1 << 62


@pytest.mark.parametrize("bad", [0x00C5D553, 0x02C5E553])
def test_a_reserved_static_mode_is_no_instruction(bad: int) -> None:
    _, fault = run_words([bad, EBREAK], {})
    assert f"illegal instruction: 0x{bad:08x} is not an instruction" in fault


def test_the_float_registers_of_control() -> None:
    words = [
        word("csrrw", csr=FCSR, rd=5, rs1=8),
        word("csrrs", csr=FRM, rd=6, rs1=0),
        word("csrrs", csr=FFLAGS, rd=7, rs1=0),
        word("csrrwi", csr=FRM, rd=28, zimm=0b11010),
        word("csrrs", csr=FCSR, rd=29, rs1=0),
        word("csrrci", csr=FFLAGS, rd=30, zimm=1),
        word("csrrs", csr=FCSR, rd=31, rs1=0),
    ]
    x = run_floats(words, [], [-1], 0).tiles[0].register
    assert [x(n) for n in (5, 6, 7, 28, 29, 30, 31)] == [0, 7, 31, 7, 0b010_11111, 31, 0b010_11110]


def test_the_float_unit_is_always_on() -> None:
    """mstatus.FS reads dirty, whatever is written (proposed)."""
    words = [word("csrrw", csr=CSRS["mstatus"], rd=0, rs1=0), word("fmv.d.x", rd=1, rs1=8)]
    words.append(word("csrrs", csr=CSRS["mstatus"], rd=9, rs1=0))
    tile = run_floats(words, [], [3], 0).tiles[0]
    assert tile.words[state.F + 1] == 3 and tile.register(9) & M64 == 1 << 63 | 0b11 << 13 | 0b11 << 11


@pytest.mark.parametrize(("mnemonic", "size"), [("flw", 4), ("fld", 8), ("fsw", 4), ("fsd", 8)])
def test_a_float_access_outside_memory_is_a_fault(mnemonic: str, size: int) -> None:
    values = {"rs1": 6, "imm": -8, "rd" if mnemonic[1] == "l" else "rs2": 1}
    _, fault = run_words([word(mnemonic, **values), EBREAK], {6: 0x1008})
    assert f"{'load' if mnemonic[1] == 'l' else 'store'} of {size} bytes at 0x1000" in fault


def test_device_registers_take_no_float_access() -> None:
    window = ONE.windows.ncc
    _, fault = run_words([word("fld", rd=1, rs1=6, imm=0), EBREAK], {6: window + 0x740})
    assert f"load of 8 bytes at 0x{window + 0x740:x}, where the kernel core sees no memory" in fault


def test_a_program_of_floats() -> None:
    """Newton's method for the square root of 2, and the rounding error of its last step."""
    text = """
        la t0, two
        fld fa0, (t0)
        fld fa1, half, t1
        fmv.d fa2, fa0
        li t2, 6
    1:  fdiv.d fa3, fa0, fa2
        fadd.d fa2, fa2, fa3
        fmul.d fa2, fa2, fa1
        addi t2, t2, -1
        bnez t2, 1b
        fsd fa2, two, t3
        fsqrt.d fa4, fa0
        fcvt.s.d fa5, fa2
        fcvt.w.d s0, fa2
        fcvt.w.d s1, fa2, rup
        frflags s2
        flt.d s3, fa1, fa2
        ebreak
        .data
        .balign 8
    two: .double 2.0
    half: .double 0.5
    """
    system = build(text)
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    tile = system.tiles[0]
    root = 2.0
    for _ in range(6):
        root = (root + 2.0 / root) * 0.5
    place = tile.words
    stored = [struct.unpack("<q", struct.pack("<d", value))[0] for value in (root, 2.0**0.5)]
    assert [place[state.F + n] for n in (12, 14)] == stored
    assert place[state.F + 15] & 0xFFFFFFFF == struct.unpack("<I", struct.pack("<f", 2.0**0.5))[0]
    assert [tile.register(n) for n in (8, 9, 18, 19)] == [1, 2, 1, 1]


# -- random programs, by QEMU --------------------------------------------------------------------------------


@pytest.fixture
def qemu() -> None:
    missing_qemu()


DUMP = 65
"""Words that a program writes out: x0..x31, f0..f31, fcsr."""
KEPT = (1, 2)
"""x1 points to the data, x2 is scratch for the dump."""
START = """
    la x1, input
    fscsr x0
    li x2, 0
    {loads}
"""
END = """
    sd x2, 16(x1)
    la x2, output
    {stores}
    frcsr x3
    sd x3, 512(x2)
    ld x3, 24(x2)
    li a7, 64
    li a0, 1
    la a1, output
    li a2, 520
    ecall
    li a7, 93
    li a0, 0
    ecall
"""


def random_values(rng: random.Random) -> list[int]:
    """32 words for x, then 32 for f: corners of integers and of both formats, boxed and not."""
    corners = (0, 1, M64, 1 << 63, 1 << 31)
    x = [rng.choice((*corners, rng.getrandbits(64), rng.getrandbits(8))) for _ in range(32)]
    singles = [register(FORMS["s"], b) & M64 for b in operands(FORMS["s"], rng, 16)]
    doubles = list(operands(FORMS["d"], rng, 16))
    f = singles + doubles
    rng.shuffle(f)
    return x + f


def random_instruction(rng: random.Random) -> str:
    """Text of one straight-line instruction; memory operands stay in the input."""
    kinds = ("alu", "divide", "upper", "load", "store", "float")
    record = rng.choice([r for r in rv.scalar_instructions() if r.kind in kinds and r.mnemonic != "auipc"])
    if rng.random() < 0.1:
        name = rng.choice(("fsrmi", "fsflagsi"))
        return f"{name} {rng.choice(('x0', 'x9'))}, {rng.randrange(5)}"
    texts = {}
    for field in record.fields:
        if field.kind == "register":
            free = [n for n in range(32) if n not in KEPT] if field.name == "rd" else range(32)
            texts[field.name] = f"x{rng.choice(list(free))}"
        elif field.kind == "float":
            texts[field.name] = f"f{rng.randrange(32)}"
        elif field.kind == "rounding":
            texts[field.name] = rng.choice(list(ROUNDING_MODES))
        else:
            texts[field.name] = str(rng.randint(field.minimum, field.maximum))
    if record.width:
        places = f"{rng.randrange(24, 504)}(x1)"
        return f"{record.mnemonic} {texts.get('rd', texts.get('rs2'))}, {places}"
    written = [op for op in record.operands if op != "rm" or record.rounding == 7]
    return f"{record.mnemonic} {', '.join(texts[op] for op in written)}"


def random_program(seed: int, length: int) -> str:
    rng = random.Random(seed)
    values = random_values(rng)
    loads = [f"fld f{n}, {256 + 8 * n}(x1)" for n in range(32)]
    loads += [f"ld x{n}, {8 * n}(x1)" for n in range(3, 32)]
    stores = [f"sd x{n}, {8 * n}(x2)" for n in range(32) if n != 2]
    stores += [f"fsd f{n}, {256 + 8 * n}(x2)" for n in range(32)]
    lines = [START.format(loads="\n".join(loads)), *(random_instruction(rng) for _ in range(length))]
    lines.append(END.format(stores="\n".join(stores)))
    data = ", ".join(f"{value:#x}" for value in values)
    return "\n".join(lines) + f"\n.data\n.balign 8\ninput: .dword {data}\noutput: .zero 520\n"


def check_random_program(seed: int, length: int, folder: Path) -> None:
    text = random_program(seed, length)
    expected, found = by_qemu(text, folder), by_us(folder)
    names = [f"x{n}" for n in range(32)] + [f"f{n}" for n in range(32)] + ["fcsr"]
    pairs = zip(names, struct.iter_unpack("<Q", expected), struct.iter_unpack("<Q", found), strict=True)
    wrong = [f"{name}: {b[0]:#x} instead of {a[0]:#x}" for name, a, b in pairs if a != b]
    assert not wrong, f"seed {seed}: {wrong}"
    assert len(expected) == 8 * DUMP


@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_leave_the_registers_of_qemu(seed: int, tmp_path: Path) -> None:
    check_random_program(seed, 400, tmp_path)


@pytest.mark.long
@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_random_programs_leave_the_registers_of_qemu(seed: int, tmp_path: Path) -> None:
    check_random_program(seed, 2000, tmp_path)


def test_the_slow_reference_agrees_about_float_memory() -> None:
    """The bench of the kernel core keeps f registers too: a pattern goes through memory unchanged."""
    words = [word("fld", rd=3, rs1=8, imm=0), word("fsd", rs1=8, rs2=3, imm=64)]
    words.append(word("flw", rd=4, rs1=8, imm=4))
    reference = Reference([*words, EBREAK], {8: DATA})
    reference.run()
    system, _ = run_words([*words, EBREAK], {8: DATA})
    assert system.tiles[0].words[state.F + 3 : state.F + 5].tolist() == reference.f[3:5]
