"""asm.assemble: the image that it makes, the errors that it reports, and short cuts that change nothing."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import asm
from asm.assembler import Assembler, assemble_text
from asm.assembly import Assembly
from asm.diagnostics import MOST_SHOWN, AsmError
from asm.image import write_image
from asm.output import image_of, listing_text
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import EXPONENT_BITS, MANTISSA_BITS, Format, widen
from tx8isa.records.record import Engine, Instruction
from tx8isa.table import encoding, registry
from tx8isa.table import scalar as rv

TEXT = 0x8000_0000
NCC = 0x2_8000_0000


def code(text: str) -> bytes:
    return asm.assemble(text).segments[0].data


def errors(text: str, **options: object) -> list[str]:
    with pytest.raises(AsmError) as caught:
        asm.assemble(text, **options)  # type: ignore[arg-type]
    return [f"{d.line}:{d.column}: {d.message}" for d in caught.value.diagnostics]


# The image


def test_sections_lie_one_after_another_in_ddr() -> None:
    image = asm.assemble("nop\n.data\n.word 1\n.bss\n.space 5000\n.section .ddr\n.word 2\n.rodata\n.byte 3\n")
    found = [(s.section, s.address, s.size, len(s.data), s.flags) for s in image.segments]
    assert found == [
        (".text", TEXT, 4, 4, "rx"),
        (".data", TEXT + 0x1000, 4, 4, "rw"),
        (".bss", TEXT + 0x2000, 5000, 0, "rw"),
        (".rodata", TEXT + 0x4000, 1, 1, "r"),
        (".ddr", NCC + 0x5000, 4, 4, "rw"),
    ]


def test_lines_name_the_line_that_asked_for_an_instruction(tmp_path: Path) -> None:
    (tmp_path / "part.s").write_text("\nnop\n")
    (tmp_path / "main.s").write_text(
        '.macro m\nnop\nnop\n.endm\nm\nla a0, m1\nm1: .include "part.s"\n ncc.wait\n'
    )
    image = asm.assemble_file(tmp_path / "main.s")
    main, part = str(tmp_path / "main.s"), str(tmp_path / "part.s")
    lines = [(main, 5), (main, 5), (main, 6), (main, 6), (part, 2), (main, 8)]
    assert dict(image.lines) == {TEXT + 4 * i: line for i, line in enumerate(lines)}


def test_a_section_that_only_tools_read_moves_no_other() -> None:
    """It is not loaded, so later sections have the same addresses as without it."""
    notes = '.section .notes, "", @progbits\n.word 1\n'
    first, last = "nop\n", '.data\nd: .word 2\n.section .wide, "aw"\nw: .word 3\n'
    alone, beside = asm.assemble(first + last), asm.assemble(first + notes + last)
    assert [beside.symbols[name] for name in "dw"] == [alone.symbols[name] for name in "dw"]
    assert all(
        (one.address, bytes(one.data)) == (other.address, bytes(other.data))
        for one, other in zip(alone.segments, beside.segments, strict=True)
    )


def test_nodes_own_the_instructions_that_follow() -> None:
    text = 'nop\n.node "a"\nnop\n.data\n.word 1\n.text\nli a0, 1 << 40\n.node "b"\nncc.wait\n.node ""\nret\n'
    nodes = dict(asm.assemble(text).nodes)
    assert nodes == {TEXT + 4: "a", TEXT + 8: "a", TEXT + 12: "a", TEXT + 16: "b"}


def test_engine_instructions_and_data_are_no_risc_v_code() -> None:
    image = asm.assemble("nop\nncc.wait\n.word 1\nnop\n.byte 1\n.align 2\nret\n")
    assert list(image.data_ranges) == [(TEXT + 4, TEXT + 4 + 24 + 4), (TEXT + 36, TEXT + 38)]
    assert bytes(image.segments[0].data[38:40]) == b"\1\0", "a short nop fills up"


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("nop\nret\n", TEXT),
        ("nop\n_start: ret\n", TEXT + 4),
        ("nop\n_start: nop\n.entry\nret\n", TEXT + 8),
        (".word 1\nnop\n", TEXT + 4),
    ],
)
def test_entry(text: str, entry: int) -> None:
    assert asm.assemble(text).entry == entry


def test_every_tile_may_have_an_entry() -> None:
    image = asm.assemble("nop\n.tile 0\nnop\n.tile 15\n.tile 3\nret\n")
    assert dict(image.tile_entries) == {0: TEXT + 4, 15: TEXT + 8, 3: TEXT + 8}


def test_symbols_carry_binding_kind_size_and_section() -> None:
    text = (
        ".globl f\n.type f, @function\nf: ret\n.size f, . - f\nN = -1\n.L1: nop\n1: nop\n.data\nd: .word 1\n"
    )
    symbols = {name: tuple(symbol) for name, symbol in asm.assemble(text).symbols.items()}
    assert symbols == {
        "f": (TEXT, 4, "func", ".text", "global"),
        "N": (2**64 - 1, 0, "notype", "*ABS*", "local"),
        "d": (TEXT + 0x1000, 0, "notype", ".data", "local"),
    }


def test_buffers_are_named_tensors(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(range(16)))
    text = '.const w, fp16, 8, tensor, "w.bin"\n.input x, fp32, 2x3, ncx\n'
    text += ".output y, bool, scalar, tensor, bool\nnop\n"
    image = asm.assemble(text, include_dirs=[tmp_path])
    found = [(b.kind, b.name, b.format, b.shape, b.layout, b.dtype) for b in image.buffers]
    assert found == [
        ("constant", "w", "fp16", (8,), "tensor", None),
        ("input", "x", "fp32", (2, 3), "ncx", None),
        ("output", "y", "bool", (), "tensor", "bool"),
    ]
    assert all(b.address % 4096 == 0 and b.address >= NCC for b in image.buffers)
    assert image.symbols["x"][:2] == (image.buffers[1].address, 512)
    (constant,) = [s for s in image.segments if s.data == bytes(range(16))]
    assert constant.address == image.buffers[0].address


def test_inputs_take_no_room_in_the_file_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(4))
    text = '.input x, fp32, {0}\n.const w, int8, 4, "w.bin"\n.output y, fp32, {0}\nnop\n'
    sizes = [len(write_image(asm.assemble(text.format(n), include_dirs=[tmp_path]))) for n in (1, 9_000_000)]
    assert sizes[1] - sizes[0] < 100  # the digits of the shapes, and of addresses


def test_machine_gives_windows_and_limits() -> None:
    machine = load_machine()
    small = replace_spm(machine)
    assert (
        asm.assemble("td.memset.int8 dst=0x1ffff, value=0, n=1\n", machine=small).machine["name"] == "small"
    )
    message = errors("td.memset.int8 dst=0x1ffff, value=0, n=2\n", machine=small)
    assert "0x1ffff and the 2 bytes from there leave the SPM of 0x20000 bytes" in message[0]


def replace_spm(machine: object) -> object:
    import msgspec

    spm = msgspec.structs.replace(machine.spm, bytes=0x20000, reserved=0x10000)  # type: ignore[attr-defined]
    return msgspec.structs.replace(machine, name="small", spm=spm)  # type: ignore[type-var]


def test_defines_are_symbols() -> None:
    image = asm.assemble("addi a0, a0, N\naddi a0, a0, M\n", defines={"N": 5, "M": "N * 2"})
    assert image.segments[0].data == code("addi a0, a0, 5\naddi a0, a0, 10\n")


@pytest.mark.parametrize("defines", [{"5": 1}, {"a0": 1}, {"N": "1 +"}, {"N": "1, 2"}, {"": 1}])
def test_bad_defines_are_refused(defines: dict[str, int | str]) -> None:
    assert "<command line>" in str(pytest.raises(AsmError, asm.assemble, "nop\n", defines=defines).value)


# Engine instructions


@pytest.mark.parametrize("instruction", registry.instructions(), ids=lambda i: i.mnemonic)
def test_operands_reach_their_fields(instruction: Instruction) -> None:
    """The text's values are found again by the decoder, which is derived separately from the record."""
    data = code(instruction.example + "\n")
    decoded = encoding.decode(data)
    assert isinstance(decoded, encoding.DecodedInstruction)
    assert decoded.instruction is instruction
    operands = instruction.example.partition(" ")[2]
    for part in operands.split(", ") if operands and "[" not in operands else ():
        name, _, text = part.partition("=")
        value = decoded.values[instruction.index(name)]
        choices = dict(instruction.operand(name).choices)
        assert value == (choices[text] if text in choices else int(text, 0))


WITH_REGISTERS = [i for i in registry.instructions() if i.word_operands]


@pytest.mark.parametrize("instruction", WITH_REGISTERS, ids=lambda i: i.mnemonic)
def test_every_word_operand_takes_a_register(instruction: Instruction) -> None:
    names = [o.name for o in instruction.visible if o.words]
    fixed = [f"{o.name}={o.choices[0][0]}" for o in instruction.visible if not o.words and o.default is None]
    operands = [f"{name}=x{number + 1}" for number, name in enumerate(names)] + fixed
    mnemonic = instruction.mnemonic + (f".{instruction.formats[0].token}" if instruction.formats else "")
    decoded = encoding.decode(code(f"{mnemonic} {', '.join(operands)}\n"))
    assert isinstance(decoded, encoding.DecodedInstruction)
    for number, name in enumerate(names):
        index = instruction.index(name)
        assert decoded.registers >> index & 1
        assert decoded.values[index] == number + 1


@pytest.mark.parametrize("worker", range(3))
def test_worker_is_of_every_ncc_instruction(worker: int) -> None:
    for instruction in registry.instructions():
        if instruction.engine is not Engine.DTE:
            comma = ", " if " " in instruction.example else " "
            decoded = encoding.decode(code(f"{instruction.example}{comma}worker={worker}\n"))
            assert isinstance(decoded, encoding.DecodedInstruction)
            assert decoded.worker == worker


@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16, Format.FP32, Format.TF32], ids=lambda f: f.token)
@given(number=st.floats(min_value=2.0**-10, max_value=60000, allow_nan=False), negative=st.booleans())
def test_fractions_are_the_nearest_of_the_format(fmt: Format, number: float, negative: bool) -> None:
    text = f"{'-' if negative else ''}{number!r}"
    decoded = encoding.decode(code(f"ct.add.vs.{fmt.token} dst=0, src0=0, src1={text}, n=1\n"))
    assert isinstance(decoded, encoding.DecodedInstruction)
    bits = decoded.values[decoded.instruction.index("src1")]
    shift = 13 if fmt is Format.TF32 else 0
    assert bits >> shift << shift == bits
    value = widen(bits >> shift, EXPONENT_BITS[fmt], MANTISSA_BITS[fmt])
    near = [widen((bits >> shift) + step, EXPONENT_BITS[fmt], MANTISSA_BITS[fmt]) for step in (-1, 1)]
    exact = -number if negative else number
    assert abs(value - exact) <= min(abs(other - exact) for other in near)


@pytest.mark.parametrize(
    ("text", "bits"),
    [("inf", 0x7C00), ("-inf", 0xFC00), ("nan", 0x7E00), ("-0.0", 0x8000), ("0x1", 1), ("0x3c00", 0x3C00)],
)
def test_special_scalars(text: str, bits: int) -> None:
    decoded = encoding.decode(code(f"ct.add.vs.fp16 dst=0, src0=0, src1={text}, n=1\n"))
    assert isinstance(decoded, encoding.DecodedInstruction)
    assert decoded.values[decoded.instruction.index("src1")] == bits


def test_naming_an_operand_sets_its_switch() -> None:
    base = "ne.gemm.bf16 a=0x10000, b=0x40000, out=0x80000, m=1, k=1, n=1"
    for text, switch in ((base, 0), (f"{base}, psum=0", 1), (f"{base}, psum=a0", 1)):
        decoded = encoding.decode(code(text + "\n"))
        assert isinstance(decoded, encoding.DecodedInstruction)
        assert decoded.values[decoded.instruction.index("inpsum_en")] == switch


def test_rules_wait_for_run_time_when_a_register_is_involved() -> None:
    line = "ct.add.vuv_loop.fp16 dst=0, src0=0, src1=0, n={}, unit=64, full=384, full_unit=192\n"
    assert "full must be a multiple of n" in errors(line.format(256))[0]
    assert code(line.format("a0"))


def test_the_remembered_verdict_is_of_these_operands() -> None:
    """A second statement of the same shape with other values is checked too."""
    line = "td.memset.int8 dst={}, value=0, n={}\n"
    good = [(0x2FFFFF, 1), (0, 0x300000), (0x2FFFF0, 16)]
    bad = [(0x2FFFFF, 2), (1, 0x300000), (0x2FFFF1, 16), (0x2FFFF0, 17)]
    for dst, n in good:
        assert code(line.format(dst, n))
    everything = "".join(line.format(*pair) for pair in good * 2 + bad + good)
    assert [e.split(":")[0] for e in errors(everything)] == ["7", "8", "9", "10"]


# The short cuts


class Slow(dict):  # type: ignore[type-arg]
    """No template is ever found: every line is parsed and resolved in full."""

    def get(self, key: object, default: object = None) -> None:
        return None


def slowly(text: str) -> Assembly:
    assembler = Assembler("<text>")
    assembler.templates = Slow()
    from asm.assembler import read_source
    from asm.fixups import finish

    assembler.run(read_source(text, "<text>"))
    finish(assembler.assembly)
    return assembler.assembly


_MORE = ("li a0, 5", "li t3, -0x123456789", "bne a0, a1, l7", "j 1f", "mv a0, a1", "1: nop")


def lines_of_every_kind(rng: random.Random) -> str:
    examples = [i.example for i in registry.instructions()] + [i.example for i in rv.scalar_instructions()]
    numbers = [lambda m: str(rng.randrange(1, 64)), lambda m: hex(rng.randrange(1, 64))]
    import re

    lines = []
    for number in range(200):
        line = rng.choice([*examples, *_MORE])
        if not re.search(r"shape|vuv|conv|gatherscatter|unit|barrier|ne\.|csr|0x\d+0000000", line):
            line = re.sub(r"(?<==)\d+", rng.choice(numbers), line)
        lines.append(f"l{number}: {line}" if rng.random() < 0.2 or number == 7 else line)
    return "\n".join([*lines, "1: ret", ""])


@pytest.mark.parametrize("seed", range(10))
def test_remembered_shapes_give_what_full_parsing_gives(seed: int) -> None:
    text = lines_of_every_kind(random.Random(seed))
    try:
        expected = image_of(slowly(text))
    except AsmError as error:
        assert str(pytest.raises(AsmError, asm.assemble, text).value) == str(error)
    else:
        assert write_image(asm.assemble(text)) == write_image(expected)


@pytest.mark.parametrize(
    "lines",
    [
        ["li a0, -5", "li a0, -0xffffffffffffffff"],
        ["addi a0, a0, -5", "addi a0, a0, -5000"],
        ["add a0, a1, a2", "add a0, a1, 5000"],
        [f"td.memset.fp16 dst=0, value={v}, n={n}" for v, n in ((1, 1), ("a0", "ra"), (1.5, 1.5))],
        ["beq a0, a1, x", "beq a0, a1, 3f", "beq a0, 5, x"],
        ["lw a0, 4(sp)", "lw a0, 4(foo)", "lw a0, sp(4)"],
        ["li a0, 5", "li \0, 5"],  # once a NUL stood for an operand in the shape of a line
    ],
)
def test_a_remembered_shape_refuses_what_full_parsing_refuses(lines: list[str]) -> None:
    text = "x: nop\n" + "\n".join(lines) + "\n"
    slow = str(pytest.raises(AsmError, slowly, text).value)
    assert str(pytest.raises(AsmError, asm.assemble, text).value) == slow
    assert len(slow.splitlines()) >= 3


# Errors


def test_errors_are_sorted_by_place_and_reported_once() -> None:
    found = errors("j nowhere\nbogus\naddi a0, a0, 5000\n.rept 5\nbogus\n.endr\n.word nowhere\n")
    assert [e.split(":")[0] for e in found] == ["1", "2", "3", "5", "7"]


def test_only_the_first_errors_are_shown_and_all_are_counted() -> None:
    error = pytest.raises(AsmError, asm.assemble, "bogus\n" * 250).value
    assert len(error.diagnostics) == 250
    text = str(error)
    assert text.count("error: unknown instruction") == MOST_SHOWN
    assert text.endswith("150 more errors; 250 in all")


def test_the_report_has_place_line_and_caret() -> None:
    text = str(pytest.raises(AsmError, asm.assemble, "nop\n\taddi a0, a0, 5000\n", "prog.s").value)
    assert text.splitlines()[:3] == [
        "prog.s:2:15: error: imm = 5000 is outside -2048..2047",
        "    \taddi a0, a0, 5000",
        "    \t             ^",
    ]


def test_notes_lead_through_macros_and_included_files(tmp_path: Path) -> None:
    (tmp_path / "inner.s").write_text(".macro bad\n  bogus\n.endm\nbad\n")
    (tmp_path / "outer.s").write_text('nop\n.include "inner.s"\n')
    error = pytest.raises(AsmError, asm.assemble_file, tmp_path / "outer.s").value
    (diagnostic,) = error.diagnostics
    assert (diagnostic.file, diagnostic.line, diagnostic.column) == (str(tmp_path / "inner.s"), 2, 3)
    assert [note.split(" at ")[0] for note in diagnostic.notes if note.startswith("note:")] == [
        "note: in the expansion of macro bad",
        "note: included",
    ]


def test_a_file_that_includes_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.s").write_text('.include "a.s"\n')
    with pytest.raises(AsmError, match="files include one another more than 64 deep"):
        asm.assemble_file(tmp_path / "a.s")


# Cost


@pytest.mark.parametrize("module", ["asm", "tx8isa"])
def test_import_is_cheap(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numpy", "numba", "lark", "onnx", "xdsl", "msgspec"} & set(found)


def test_a_plain_program_needs_neither_numpy_nor_lark() -> None:
    program = (
        "import sys, asm; asm.assemble('li a0, 1\\nrdma.fp16 dst=0, src=a0, n=4\\n'); print(*sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numpy", "numba", "lark", "onnx", "xdsl"} & set(found)


# The listing


def test_listing_shows_address_bytes_and_line() -> None:
    text = "nop\n.macro two\nnop\nret\n.endm\ntwo\n.space 8\n.data\n.byte 1, 2\n"
    listing = listing_text(assemble_text(text, "p.s", (), {}, None, listing=True))
    assert [line.split() for line in listing.splitlines()] == [
        ["0080000000", "13000000", "1", "nop"],
        ["0080000004", "13000000", "3+", "nop"],
        ["0080000008", "67800000", "4+", "ret"],
        ["008000000c", "(8", "zero", "bytes)", "7", ".space", "8"],
        ["0080001000", "0102", "9", ".byte", "1,", "2"],
    ]


def test_listing_has_the_final_bytes_of_forward_references() -> None:
    listing = listing_text(assemble_text("j end\nnop\nend: ret\n", "p.s", (), {}, None, listing=True))
    assert listing.splitlines()[0].split()[:2] == ["0080000000", "6f008000"]
