"""Post-processing of the matrix engine: without effect by default, as on the board, and as proposed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asm
from asm.image import Image, write_image
from emulator import cli
from emulator.program import Program
from emulator.tile.fault import Fault
from machine_code import needs_jit
from matrix_bench import Engine, any_numbers, ordinary, window_operands
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout

FP16, BF16, TF32, FP32 = Format.FP16, Format.BF16, Format.TF32, Format.FP32
FORMATS = pytest.mark.parametrize("fmt", [FP16, BF16, TF32], ids=lambda f: f.token)

VECTORS = ("bias", "scale_p", "scale_n")
SWITCHES: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
    "bias": (("bias",), {}),
    "scale": (("scale_p", "scale_n"), {}),
    "relu": ((), {"relu": 1}),
    "lrelu": ((), {"lrelu": 1}),
    "bias, scale, relu, psum": ((*VECTORS, "psum"), {"relu": 1}),
    "bias, scale, lrelu": (VECTORS, {"lrelu": 1}),
}
SHAPES: dict[str, dict[str, Any]] = {
    "ne.gemm": {"m": 5, "k": 9, "n": 70},
    "ne.conv": window_operands([1, 4, 5, 6], 70, (2, 3), pad=(1, 0, 1, 1), d=(1, 1)),
    "ne.dwconv": window_operands([1, 4, 5, 70], 70, (2, 3), pad=(1, 0, 1, 1)),
}


def engine(mnemonic: str, fmt: Format, switch: str, **more: Any) -> Engine:
    given, flags = SWITCHES[switch]
    return Engine(mnemonic, fmt, given, **SHAPES[mnemonic], **flags, **more)


@needs_jit
@pytest.mark.parametrize("numbers", [ordinary, any_numbers])
@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("mnemonic", SHAPES)
def test_proposed_formulas(mnemonic, switch, numbers):
    engine(mnemonic, FP16, switch, numbers=numbers).check(post=True)


@needs_jit
@FORMATS
def test_proposed_formulas_into_fp32(fmt):
    engine("ne.gemm", fmt, "bias, scale, lrelu", out_format=int(FP32)).check(post=True)


def test_the_plain_kernel_gives_the_same():
    given, flags = SWITCHES["bias, scale, lrelu"]
    Engine("ne.gemm", FP16, given, m=2, k=3, n=5, **flags).check(post=True, compiled=False)


@needs_jit
@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("mnemonic", SHAPES)
def test_without_effect_by_default(mnemonic, switch):
    with_, without = (engine(mnemonic, FP16, switch) for _ in range(2))
    for name in ("bias_en", "scale_en", "relu", "lrelu"):
        without.values[name] = 0
    without.values.update(scale_p=0, scale_n=0)
    without.spm[:] = with_.spm
    with_.run()
    without.run()
    np.testing.assert_array_equal(with_.spm, without.spm)
    processed = engine(mnemonic, FP16, switch)
    processed.run(post=True)
    assert (processed.spm != with_.spm).any()


@needs_jit
def test_formulas_written_out():
    """Exact numbers: the sum of one product, then every step."""
    case = Engine("ne.gemm", TF32, VECTORS, m=1, k=1, n=4, lrelu=1, out_format=int(FP32))
    case.write_tensor("a", np.array([[2.0]], np.float32).view(np.uint32), FP32, Layout.CX)
    case.write_tensor("b", np.array([[3], [-4], [1], [-1]], np.float32).view(np.uint32), FP32, Layout.CX)
    case.write("bias", np.array([1, 1, -2, 0.5], np.float32))
    case.write("scale_p", np.array([2, 2, 2, 2], np.float32))
    case.write("scale_n", np.array([8, 8, 8, -8], np.float32))
    case.run(post=True)
    found = case.read_tensor("out", (1, 4), FP32, Layout.CX).view(np.float32)
    slope = np.float32(0.01)
    np.testing.assert_array_equal(found, np.array([[14, -56 * slope, 0, 12]], np.float32))


@needs_jit
@pytest.mark.parametrize("value", [np.nan, -0.0])
def test_relu_of_what_is_not_above_zero_is_plus_zero(value):
    case = Engine("ne.gemm", TF32, ("psum",), m=1, k=1, n=1, relu=1, out_format=int(FP32))
    case.write_tensor("psum", np.array([[value]], np.float32).view(np.uint32), FP32, Layout.CX)
    case.write_tensor("a", np.array([[-0.0]], np.float32).view(np.uint32), FP32, Layout.CX)
    case.write_tensor("b", np.array([[1.0]], np.float32).view(np.uint32), FP32, Layout.CX)
    case.run(post=True)
    assert int(case.read_tensor("out", (1, 1), FP32, Layout.CX)[0, 0]) == 0


@needs_jit
@pytest.mark.parametrize("victim", VECTORS)
def test_a_result_may_overlap_the_vectors(victim):
    case = engine("ne.gemm", FP16, "bias, scale, lrelu")
    case.values["out"] = case.values[victim]
    case.check(post=True)


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mnemonic", SHAPES)
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"relu": 1, "lrelu": 1}, "relu and lrelu exclude each other"),
        ({"sparse": 1}, "sparse must be 0: nobody has published the format of its index table"),
        ({"scale_n": 4}, "scale_n needs scale_p"),
        ({"psum_format": 4, "inpsum_en": 1}, "psum_format must be int32 with int8 inputs, a float format"),
        ({"out_format": 4}, "out_format must be the input format or fp32"),
    ],
)
def test_rules(mnemonic, changes, text):
    case = Engine(mnemonic, FP16, **SHAPES[mnemonic])
    assert not case.broken_rules()
    case.values.update(changes)
    assert [broken for broken in case.broken_rules() if broken.startswith(text)]


@pytest.mark.parametrize(
    ("moved", "psum_format", "legal"),
    [
        (0, FP16, True),
        (0, FP32, False),
        (2, FP16, False),
        (-256, FP16, False),
        (1 << 15, FP32, True),
        (-(1 << 15), FP32, True),
    ],
)
@pytest.mark.parametrize("mnemonic", SHAPES)
def test_partial_sums_are_in_place_or_apart(mnemonic, moved, psum_format, legal):
    case = Engine(mnemonic, FP16, ("psum",), **SHAPES[mnemonic], out=1 << 16, psum_format=int(psum_format))
    case.values["psum"] = (1 << 16) + moved
    texts = ["psum must be at out with elements as wide, or apart from it"]
    assert case.broken_rules() == ([] if legal else texts)


# --- the switch ---------------------------------------------------------------------------------------------

PROGRAM = """
    .output y, fp32, 1x4, cx
    td.memset.fp16 dst=0x1000, value=1.0, n=64
    td.memset.fp16 dst=0x2000, value=1.0, n=256
    td.memset.fp32 dst=0x3000, value=2.5, n=4
    {before}
    ne.gemm.fp16 a=0x1000, b=0x2000, out=0x4000, m=1, k=4, n=4, out_format=fp32, bias={bias}
    wdma.fp32 dst=y, src=0x4000, n=4
    ncc.wait
    li a7, 93
    li a0, 0
    ecall
"""


MACHINE = load_machine(None)


def program(bias: str = "0x3000", before: str = "") -> Image:
    return asm.assemble(PROGRAM.format(bias=bias, before=before))


def test_the_switch_of_the_emulator():
    run = Program(program(), MACHINE).run
    assert run()["y"].tolist() == [[4.0] * 4]
    assert run(ne_post="ignore")["y"].tolist() == [[4.0] * 4]
    assert run(ne_post="proposed")["y"].tolist() == [[6.5] * 4]


@pytest.mark.parametrize("address", ["0x300000 - 8", "0x3002"])
def test_ranges_are_checked_when_the_vectors_are_ignored(address):
    """The assembler checks numbers, so the address comes in a register."""
    with pytest.raises(Fault, match=r"ne\.gemm\.fp16: operand 'bias'"):
        Program(program("t0", f"li t0, {address}"), MACHINE).run()


def test_the_switch_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "post.bin"
    file.write_bytes(write_image(program()))
    for choice, value in (("ignore", 4.0), ("proposed", 6.5)):
        assert cli.main([str(file), "--ne-post", choice, "--output-dir", str(tmp_path / choice)]) == 0
        assert np.load(tmp_path / choice / "y.npy").tolist() == [[value] * 4]
    with pytest.raises(SystemExit):
        cli.main([str(file), "--ne-post", "always"])
    assert "argument --ne-post: invalid choice: 'always'" in capsys.readouterr().err
