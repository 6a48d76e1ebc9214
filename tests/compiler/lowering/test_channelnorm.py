"""Changes of order between phases: every pair of orders, formats, awkward numbers of channels.

The oracle is ``tx8isa.numbers.packing``, which knows the place of each element in a layout.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import asm
from compiler.codegen import program
from compiler.codegen.kernel import Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.dialect.orders import Order
from compiler.graph import Array, Shape
from compiler.lowering.generate import generate
from compiler.lowering.record import Work
from compiler_harness import SMALL_SPM, assert_right, one, small_machine
from emulator.program import Program
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format
from tx8isa.numbers.packing import storage_dtype

CHANNELS = (1, 3, 4, 31, 32, 33, 64, 65, 97, 129, 257)
PAIRS = list(itertools.permutations((Order.PLAIN, Order.CHANNELS_LAST, Order.BLOCKED), 2))
FORMATS = [
    (Format.FP16, Format.FP16),
    (Format.FP32, Format.FP32),
    (Format.FP32, Format.BF16),
    (Format.FP16, Format.FP32),
]
DTYPES = {Format.FP16: "float16", Format.BF16: "bfloat16", Format.FP32: "float32"}


@dataclass(frozen=True)
class Case:
    """A tensor [N, C, ...] that changes its order and its format."""

    shape: Shape
    before: Order
    after: Order
    formats: tuple[Format, Format]

    def tensor(self, name: str, order: Order, fmt: Format) -> DdrTensor:
        shape = self.shape if order is Order.PLAIN else (self.shape[0], *self.shape[2:], self.shape[1])
        return DdrTensor(name, fmt, shape, None, order is Order.BLOCKED)

    def work(self, number: int) -> Work:
        source = self.tensor(f"in{number}", self.before, self.formats[0])
        target = self.tensor(f"out{number}", self.after, self.formats[1])
        orders = (self.before, self.after)
        return Work(f"n{number}", "tx8be.channel_norm", (source,), target, orders=orders)


def in_order(array: Array, order: Order) -> Array:
    return array if order is Order.PLAIN else np.ascontiguousarray(np.moveaxis(array, 1, -1))


def bits(array: Array) -> Array:
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def awkward(shape: Shape, fmt: Format) -> Array:
    """Random numbers, with infinities, zeros with a sign and, where it is kept, NaN."""
    values = np.random.default_rng(3).standard_normal(shape).astype(storage_dtype(fmt))
    flat = values.reshape(-1)
    flat[::7], flat[1::11], flat[2::13] = -0.0, np.inf, np.nan
    return values


def directive(kind: str, tensor: DdrTensor) -> str:
    layout = "ncx" if tensor.blocked else program.layout_of(tensor.shape)
    fields = (tensor.symbol, tensor.fmt.token, program.extents(tensor.shape), layout, DTYPES[tensor.fmt])
    return f"        .{kind} {', '.join(fields)}"


def assembled(cases: Sequence[Case], tiles: int, spm: int, where: Path) -> Program:
    """A program with a phase for each case."""
    data, lines, phases = program.Data(load_machine().ddr.bank_bytes), [], []
    for number, case in enumerate(cases):
        work = case.work(number)
        kernel = generate(f"p{number}", work, Target(tiles, spm, case.formats[1]))
        for constant in kernel.constants:
            data.made(constant.symbol, constant.fmt, constant.key, constant.compute)
        lines += [directive("input", work.input(0)), directive("output", work.output)]
        phases += program.phase("n", kernel.text())
    text = [*data.out.lines, *lines, *program.prologue(tiles, 16), *phases, *program.epilogue()]
    (where / program.CONSTANTS_FILE).write_bytes(data.blob)
    machine = load_machine(None)
    return Program(asm.assemble("\n".join(text) + "\n", "t.s", [where], machine=machine), machine)


def check(cases: Sequence[Case], tiles: int, spm: int, where: Path, strict: bool = False) -> None:
    made = assembled(cases, tiles, spm, where)
    given = [awkward(case.shape, case.formats[0]) for case in cases]
    inputs = {f"in{i}": in_order(x, cases[i].before) for i, x in enumerate(given)}
    results = made.run(inputs, strict=strict)
    assert not made.hazards
    for number, (case, x) in enumerate(zip(cases, given, strict=True)):
        with np.errstate(over="ignore"):
            expected = in_order(x.astype(storage_dtype(case.formats[1])), case.after)
        got = results[f"out{number}"].astype(expected.dtype)
        if case.formats[0] is case.formats[1]:
            assert np.array_equal(bits(got), bits(expected)), case
        else:
            assert np.array_equal(got.astype(np.float32), expected.astype(np.float32), equal_nan=True), case


@pytest.mark.parametrize("formats", FORMATS, ids=lambda pair: "-".join(fmt.token for fmt in pair))
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "-".join(order.value for order in pair))
def test_every_pair_of_orders(
    pair: tuple[Order, Order], formats: tuple[Format, Format], tmp_path: Path
) -> None:
    """Several batches and rows of channels, in slices that a small scratchpad holds."""
    cases = [Case((2, channels, 9, 7), *pair, formats) for channels in CHANNELS]
    check(cases, 3, SMALL_SPM, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "-".join(order.value for order in pair))
def test_large_slices_and_no_hazard(pair: tuple[Order, Order], tmp_path: Path) -> None:
    shapes = [(1, 96, 40, 33), (3, 70, 5), (1, 3, 64, 64), (1, 200, 2, 3, 4)]
    cases = [Case(shape, *pair, FORMATS[at % 2]) for at, shape in enumerate(shapes)]
    check(cases, 16, 0x2F0000, tmp_path, strict=True)


TRANSPOSED = [
    ((130, 70), (1, 0)),
    ((2, 50, 3, 40), (0, 2, 3, 1)),
    ((2, 3, 33, 65), (0, 3, 1, 2)),
    ((4, 20, 3, 35), (2, 1, 3, 0)),
]


@pytest.mark.parametrize(("shape", "perm"), TRANSPOSED)
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_transposes_on_the_matrix_engine(shape: Shape, perm: tuple[int, ...], dtype: str) -> None:
    """There is no search, which finds other divisions for some of them."""
    made = one("Transpose", [shape], perm=perm)
    program = assert_right(made, dtype, 2, small_machine(), search="off")
    assert "ne.gemm.int8" in program.text


@pytest.mark.parametrize("shape", [(30, 70), (300, 8)])
def test_what_is_small_or_thin_is_read_with_strides(shape: Shape) -> None:
    program = assert_right(one("Transpose", [shape], perm=(1, 0)), "fp32", 16)
    assert "ne.gemm" not in program.text
