"""Chains of pointwise operators, and steps after an anchor, against the operators' references in binary64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import (
    DdrTensor,
    View,
    collapse,
    load_slab,
    plan_slabs,
    slabs,
    store_slab,
)
from compiler.codegen.slices.vector import Vector, convert
from compiler.evaluation import tolerance
from compiler.graph import Array, Shape, Tensor
from compiler.lowering.pointwise.chain import Chain, chainable
from compiler.lowering.pointwise.chain_code import compute
from compiler.lowering.pointwise.epilogue import apply_steps, fusable, step_bytes
from compiler.lowering.record import ChainNode, Step
from compiler.operators import OPERATORS
from compiler.operators.record import Call
from compiler_harness import small_machine
from phase_harness import run_phase
from tx8isa.numbers.formats import Format
from tx8isa.numbers.rounding import rounded


@dataclass
class Value64:
    """A value of a chain: its data in binary64 and the compiler's facts about it."""

    tensor: Tensor
    data: Array
    known: bool = False


class Graph:
    """A chain under construction: inputs, constants and nodes, with their values in binary64."""

    def __init__(self, fmt: Format) -> None:
        self.fmt, self.values = fmt, []  # type: Format, list[Value64]
        self.tensors: list[DdrTensor] = []
        self.nodes: list[ChainNode] = []

    def input(self, data: Array, constant: bool = False, blocked: bool = False) -> int:
        """A float operand (rounded to the format) or truth values."""
        assert not self.nodes
        truth = data.dtype == bool
        fmt = Format.INT8 if truth else self.fmt
        wide = data if truth else rounded(np.asarray(data, np.float32), self.fmt).astype(np.float64)
        name = f"v{len(self.values)}"
        known = np.asarray(wide) if constant else None
        self.tensors.append(DdrTensor(name, fmt, data.shape, known, blocked))
        self.values.append(Value64(Tensor(name, "bool" if truth else "float32", data.shape), wide, constant))
        return len(self.values) - 1

    def node(self, op: str, *operands: int, **attrs: Any) -> int:
        record = OPERATORS[op]
        defaults = {a.name: a.default for a in record.attributes if a.default is not None}
        taken = [self.values[at] for at in operands]
        known = tuple(v.data if v.known else None for v in taken)
        call = Call(24, {**defaults, **attrs}, tuple(v.tensor for v in taken), known, ("y",))
        (tensor,) = record.infer(call)
        with np.errstate(all="ignore"):
            (data,) = record.reference(call, *(v.data for v in taken))
        fmt = Format.INT8 if tensor.dtype == "bool" else self.fmt
        self.nodes.append(ChainNode(op, call, operands, fmt))
        self.values.append(Value64(Tensor(f"v{len(self.values)}", tensor.dtype, tensor.shape), data))
        return len(self.values) - 1

    def run(self, tiles: int = 4, spm: int = 0x8000, blocked: bool = False) -> list[str]:
        """Compile the last value as a chain, run it and compare; the lines of code."""
        wanted = self.values[-1]
        output = DdrTensor("y", self.nodes[-1].fmt, wanted.tensor.shape, blocked=blocked)
        inputs = {
            tensor.symbol: value.data
            for tensor, value in zip(self.tensors, self.values, strict=False)
            if tensor.value is None
        }
        chain = Chain(tuple(self.tensors), tuple(self.nodes), output)
        got, lines = run_phase(
            lambda kernel: compute(kernel, chain), inputs, self.tensors, output, tiles, small_machine(spm)
        )
        verdict = tolerance.judge("model", self.fmt.token, got, wanted.data, declared="float32")
        assert verdict.ok, f"{[node.op for node in self.nodes]} {wanted.tensor.shape}: {verdict.text}"
        return lines


def draw(rng: np.random.Generator, *shape: int) -> Array:
    return np.asarray(rng.standard_normal(shape), np.float32)


UNARY = (
    "Relu",
    "Sigmoid",
    "Tanh",
    "LeakyRelu",
    "Gelu",
    "Neg",
    "Abs",
    "HardSwish",
    "Softplus",
    "Floor",
    "Elu",
)
BINARY = ("Add", "Sub", "Mul", "Max", "Min")


def random_chain(seed: int, fmt: Format) -> Graph:
    """A DAG of 2 to 8 nodes whose operands broadcast in every way, with values that are used several
    times."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, (9, 40, 90)))[-int(rng.integers(1, 4)) :]
    made = Graph(fmt)
    full = [made.input(draw(rng, *shape)) for _ in range(int(rng.integers(1, 3)))]
    part = tuple(1 if rng.random() < 0.5 else n for n in shape)[-int(rng.integers(1, len(shape) + 1)) :]
    others = [made.input(draw(rng, *part), constant=bool(rng.random() < 0.5)), made.input(draw(rng), True)]
    for _ in range(int(rng.integers(2, 9))):
        x = int(rng.choice(full[-3:]))
        if rng.random() < 0.5:
            full.append(made.node(str(rng.choice(UNARY)), x))
        else:
            operands = [x, int(rng.choice([*full, *others]))]
            rng.shuffle(operands)
            full.append(made.node(str(rng.choice(BINARY)), *operands))
    return made


@pytest.mark.parametrize("fmt", [Format.FP16, Format.FP32, Format.TF32, Format.BF16])
def test_random_chains(fmt: Format) -> None:
    for seed in range(12):
        chain = random_chain(100 * fmt + seed, fmt)
        if "Floor" not in [node.op for node in chain.nodes] or fmt is Format.FP32:
            chain.run(tiles=1 + 3 * (seed % 2))


def test_each_input_is_loaded_once_and_the_result_stored_once() -> None:
    rng = np.random.default_rng(1)
    made = Graph(Format.FP16)
    x, y = made.input(draw(rng, 50, 70)), made.input(draw(rng, 50, 70))
    s = made.node("Sigmoid", x)
    p = made.node("Mul", x, s)
    made.node("Add", made.node("Mul", p, y), p)
    lines = made.run(spm=0x300000)
    assert [sum(engine in line for line in lines) for engine in ("rdma.", "wdma.", "ct.")] == [2, 1, 4]


def test_operators_in_fp32_are_rounded_once_at_the_end() -> None:
    rng = np.random.default_rng(2)
    made = Graph(Format.BF16)
    x = made.node("Gelu", made.input(draw(rng, 300)))
    made.node("Mul", made.node("HardSwish", x), x)
    converted = [line for line in made.run() if "ct.cvt" in line]
    assert [line.split()[0] for line in converted] == ["ct.cvt.bf16.fp32", "ct.cvt.fp32.bf16"]


def test_truth_values_in_a_chain_and_out_of_it() -> None:
    rng = np.random.default_rng(3)
    made = Graph(Format.FP16)
    x, y = made.input(draw(rng, 7, 90)), made.input(draw(rng, 90))
    mask = made.input(rng.random((7, 1)) < 0.5)
    both = made.node("And", made.node("Greater", x, y), mask)
    made.node("Where", both, x, made.node("Neg", x))
    made.run()
    made.node("Not", made.node("Less", len(made.values) - 1, x))
    made.run()


@pytest.mark.parametrize("channels", [1, 3, 33, 64, 65, 97, 128, 200])
@pytest.mark.parametrize("fmt", [Format.FP16, Format.FP32])
def test_blocked_tensors(channels: int, fmt: Format) -> None:
    rng = np.random.default_rng(channels)
    for other in ((2, 5, 7, channels), (2, 1, 1, channels), (1, 5, 7, 1), (1, 1, 7, channels), (2, 5, 1, 1)):
        made = Graph(fmt)
        x = made.input(draw(rng, 2, 5, 7, channels), blocked=True)
        y = made.input(draw(rng, *other), blocked=True)
        made.node("Mul", made.node("Relu", made.node("Sub", x, y)), x)
        made.run(blocked=True)


@pytest.mark.parametrize("channels", [3, 64, 100, 130])
def test_vectors_and_numbers_on_blocked_tensors(channels: int) -> None:
    rng = np.random.default_rng(channels)
    made = Graph(Format.FP16)
    x = made.input(draw(rng, 2, 3, 11, channels), blocked=True)
    scale, shift = made.input(draw(rng, channels)), made.input(draw(rng, 1, 1, 1, channels), constant=True)
    half = made.input(np.array(0.5, np.float32), constant=True)
    made.node("Max", made.node("Add", made.node("Mul", x, scale), shift), half)
    made.run(blocked=True)


def test_a_flat_blocked_chain_is_one_run_of_memory() -> None:
    rng = np.random.default_rng(4)
    made = Graph(Format.FP16)
    x, y = (made.input(draw(rng, 2, 3, 5, 100), blocked=True) for _ in range(2))
    made.node("Relu", made.node("Add", x, y))
    lines = made.run(blocked=True)
    assert not any("stride0" in line for line in lines)


def test_what_is_the_same_for_all_slabs_is_loaded_before_the_loop() -> None:
    rng = np.random.default_rng(5)
    made = Graph(Format.FP16)
    made.node("Add", made.input(draw(rng, 400, 100)), made.input(draw(rng, 100)))
    lines = made.run()
    loop = next(at for at, line in enumerate(lines) if line.endswith(":"))
    assert [at < loop for at, line in enumerate(lines) if "rdma." in line] == [True, False]


def test_one_value_for_each_row_is_spread_in_the_scratchpad() -> None:
    rng = np.random.default_rng(6)
    for shape, part in (((37, 45), (37, 1)), ((5, 9, 21), (5, 9, 1)), ((6, 4, 33), (6, 1, 1))):
        made = Graph(Format.FP16)
        made.node("Mul", made.input(draw(rng, *part)), made.input(draw(rng, *shape)))
        lines = made.run()
        loads = [line for line in lines if "rdma." in line and "stride0=0" in line]
        assert not loads and any("td.gatherscatter" in line for line in lines)


def test_what_no_chain_takes() -> None:
    whole = Tensor("x", "int64", (3,))
    call = Call(20, {}, (whole, whole), (None, None), ("y",))
    assert not chainable("Add", call)
    assert not chainable("MatMul", replace(call, inputs=(Tensor("x", "float32", (3, 3)),) * 2))
    assert chainable("Add", replace(call, inputs=(Tensor("x", "float32", (3,)),) * 2))


# --- epilogues -------------------------------------------------------------------------------------------


@dataclass
class Rows:
    """The region of an anchor that only loads: rows of a matrix."""

    kernel: Kernel
    fmt: Format
    elements: Value
    room: int
    columns: int
    first: Value

    def load_like(self, tensor: DdrTensor) -> Value:
        data = self.kernel.buffer("other", self.room * tensor.bytes_each)
        self.kernel.emit(f"rdma.{tensor.fmt.token}", dst=data, src=tensor.at(self.first), n=self.elements)
        if tensor.fmt is self.fmt:
            return data
        converted = self.kernel.buffer("converted", self.room * self.fmt.bits // 8)
        convert(self.kernel, converted, data, self.elements, tensor.fmt, self.fmt)
        return converted

    def per_channel(self, name: str, data: Value, vector: DdrTensor) -> None:
        unit = self.kernel.buffer("vector", self.columns * 4)
        self.kernel.emit(f"rdma.{vector.fmt.token}", dst=unit, src=vector.at(0), n=self.columns)
        if vector.fmt is not self.fmt:
            wide = self.kernel.buffer("wide_vector", self.columns * 4)
            convert(self.kernel, wide, unit, self.columns, vector.fmt, self.fmt)
            unit = wide
        Vector(self.kernel, self.fmt, self.elements).vuv(name, data, data, unit, self.columns)


def anchored(
    kernel: Kernel, source: DdrTensor, target: DdrTensor, steps: Sequence[Step], words: bool
) -> None:
    """Copy rows, with the steps applied to them in FP32 (``words``) or in the format of the data."""
    columns = source.shape[1]
    space = collapse((source.size,), (View(source, (1,)), View(target, (1,))))
    plan = plan_slabs(space.sizes, columns * 8, kernel.target.tiles)
    assert plan.elements % columns == 0
    with slabs(kernel, space, plan) as slab:
        data: Value = kernel.buffer("data", plan.elements * source.bytes_each)
        load_slab(kernel, space.views[0], slab, data)
        fmt = Format.FP32 if words else source.fmt
        if fmt is not source.fmt:
            wide = kernel.buffer("words", plan.elements * 4)
            convert(kernel, wide, data, slab.elements, source.fmt, fmt)
            data = wide
        region = Rows(kernel, fmt, slab.elements, plan.elements, columns, slab.origin[0])
        apply_steps(region, data, steps)
        if fmt is not target.fmt:
            narrow = kernel.buffer("result", plan.elements * target.bytes_each)
            convert(kernel, narrow, data, slab.elements, fmt, target.fmt)
            data = narrow
        store_slab(kernel, space.views[1], slab, data)


def steps_of(made: Graph, shape: Shape) -> list[Step]:
    """The nodes of a chain as an epilogue of its first input."""
    result = DdrTensor("y", made.fmt, shape)
    running, steps = 0, []
    for at, node in enumerate(made.nodes):
        operands = tuple(None if v is None or v == running else made.tensors[v] for v in node.operands)
        assert node.call is not None
        assert fusable(node.op, node.call, operands, result)
        places = tuple(p for p, v in enumerate(node.operands) if v == running)
        steps.append(Step(f"s{at}", node.op, node.call, operands, places))
        running = len(made.tensors) + at
    return steps


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("fmt", [Format.FP16, Format.FP32, Format.TF32])
def test_steps(fmt: Format, words: bool) -> None:
    rng = np.random.default_rng(7)
    made = Graph(fmt)
    x, y = made.input(draw(rng, 37, 64)), made.input(draw(rng, 37, 64))
    scale, half = (
        made.input(draw(rng, 64), constant=True),
        made.input(np.array(0.5, np.float32), constant=True),
    )
    x = made.node("Mul", scale, x)
    x = made.node("Sub", half, made.node("Gelu", x))
    x = made.node("HardSwish", made.node("Add", y, x))
    x = made.node("Sub", x, scale)
    x = made.node("PRelu", x, scale)
    x = made.node("Mul", x, x)
    made.node("FloatPow", made.node("Abs", x), half)
    source, output = made.tensors[0], DdrTensor("y", fmt, (37, 64))
    steps = steps_of(made, (37, 64))
    inputs = {tensor.symbol: made.values[at].data for at, tensor in enumerate(made.tensors[:2])}
    got, _ = run_phase(
        lambda kernel: anchored(kernel, source, output, steps, words), inputs, made.tensors, output, 4
    )
    verdict = tolerance.judge("model", fmt.token, got, made.values[-1].data, declared="float32")
    assert verdict.ok, verdict.text


def test_room_for_steps() -> None:
    made = Graph(Format.FP16)
    x = made.input(np.ones((4, 64), np.float32))
    made.node("Relu", x)
    assert step_bytes(steps_of(made, (4, 64)), Format.FP16) == 2
    made.node("Gelu", len(made.values) - 1)
    assert step_bytes(steps_of(made, (4, 64)), Format.FP16) == 3 * 4 + 4


def call(op: str, *shapes: Shape, dtype: str = "float32") -> Call:
    tensors = tuple(Tensor(f"t{at}", dtype, shape) for at, shape in enumerate(shapes))
    return Call(20, {}, tensors, (None,) * len(shapes), ("y",))


@pytest.mark.parametrize(
    ("op", "position", "shape", "blocked", "fits"),
    [
        ("Add", 1, (5, 70), False, True),
        ("Add", 0, (5, 70), False, True),
        ("Add", 1, (5, 70), True, False),
        ("Add", 1, (70,), False, True),
        ("Sub", 1, (1, 70), False, True),
        ("Sub", 0, (70,), False, False),
        ("Div", 0, (5, 70), False, True),
        ("Add", 1, (5, 1), False, False),
        ("Add", 1, (1,), False, False),
        ("PRelu", 1, (70,), False, True),
        ("PRelu", 1, (5, 1), False, False),
        ("FloatPow", 1, (70,), False, False),
        ("FloatPow", 1, (5, 70), False, True),
        ("MatMul", 1, (5, 70), False, False),
    ],
)
def test_what_can_be_a_step(op: str, position: int, shape: Shape, blocked: bool, fits: bool) -> None:
    result = DdrTensor("y", Format.FP16, (5, 70))
    shapes = [(5, 70), (5, 70)]
    shapes[position] = shape
    operands: list[DdrTensor | None] = [None, None]
    operands[position] = DdrTensor("b", Format.FP16, shape, blocked=blocked)
    assert fusable(op, call(op, *shapes), operands, result) is fits


def test_no_step_on_integers_or_with_a_truth_value_as_its_result() -> None:
    result = DdrTensor("y", Format.FP16, (5, 70))
    assert fusable("Relu", call("Relu", (5, 70)), [None], result)
    assert not fusable("Relu", call("Relu", (5, 70), dtype="int64"), [None], result)
    assert not fusable("IsNaN", call("IsNaN", (5, 70)), [None], replace(result, fmt=Format.INT8))
    assert not fusable("Softmax", call("Softmax", (5, 70)), [None], result)
