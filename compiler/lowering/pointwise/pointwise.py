"""Pointwise operators of floats and truth values: one record each, whoever applies it.

A record's body emits the operator over a slice in the scratchpad. The same body serves the operator by
itself and in a chain (chain.py), and behind an anchor such as a convolution, where :func:`apply_steps`
applies a group's steps to the anchor's result before that leaves the scratchpad.

A body computes in one format: that of the data, or FP32 if it is ``wide``. Data that are FP32 already stay
so until they must be stored, so a run of operators is rounded once. A truth value is 1.0 or 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import WIDE, Vector, convert
from compiler.evaluation.reference import within_range
from compiler.lowering.record import Step
from compiler.operators.record import Call
from tx8isa.numbers.formats import Format

Combine = Callable[[str, Value, Value], None]
"""(name, dst, a): emits dst = a name operand."""


@dataclass(frozen=True)
class Operand:
    """An operand of a body, in one of the ways in which a slice can have it.

    ``data``: an element for each of the slice, which may be overwritten if it is ``mine``. ``number``: the
    same for all elements. ``combine``: one that repeats, applied by an instruction of its own kind.
    """

    data: Value | None = None
    mine: bool = False
    number: float | None = None
    combine: Combine | None = None


@dataclass(frozen=True)
class Formula:
    """Emits instructions over a slice; ``temporary`` makes a buffer of its size."""

    v: Vector
    temporary: Callable[[str], Value]

    def fill(self, dst: Value, value: float) -> None:
        self.v.kernel.emit(f"td.memset.{self.v.fmt.token}", dst=dst, value=value, n=self.v.n)

    def copy(self, dst: Value, src: Value) -> None:
        """A sum with -0 is the other operand, zeros of both signs and NaN included."""
        self.v.vs("add", dst, src, -0.0)

    def choose(self, dst: Value, mask: Value, src: Value) -> None:
        """dst = src where the mask is 1."""
        self.v.kernel.emit(f"ct.maskmove.{self.v.fmt.token}", dst=dst, src0=src, src1=mask, n=self.v.n)

    def whole_numbers(self, x: Value, rounding: str) -> None:
        """x = x rounded to an integer (FP32): 1.5 * 2**23 added and taken away leaves no fraction below
        2**22."""
        kernel, n = self.v.kernel, self.v.n
        small, result = self.temporary("small"), self.temporary("whole")
        self.v.unary("abs", small, x)
        self.v.vs("lt", small, small, 4194304.0)
        kernel.emit("ct.add.vs.fp32", dst=result, src0=x, src1=12582912.0, n=n, rnd=rounding)
        self.v.vs("sub", result, result, 12582912.0)
        self.choose(x, small, result)

    def data(self, operand: Operand) -> Value:
        """An element for each of the slice, to be read."""
        if operand.data is not None:
            return operand.data
        spread = self.temporary("spread")
        self.fill(spread, -0.0 if operand.number is None else operand.number)
        if operand.combine is not None:
            operand.combine("add", spread, spread)
        return spread

    def own(self, operand: Operand) -> Value:
        """An element for each of the slice, which may be overwritten."""
        data = self.data(operand)
        if operand.data is None or operand.mine:
            return data
        copied = self.temporary("copied")
        self.copy(copied, data)
        return copied

    def place(self, *operands: Operand) -> Value:
        """Where a result can be written that is computed from these operands element by element."""
        for operand in operands:
            if operand.data is not None and operand.mine:
                return operand.data
        return self.temporary("result")

    def apply(self, name: str, dst: Value, a: Value, operand: Operand) -> None:
        """dst = a name operand."""
        if operand.number is not None:
            self.v.vs(name, dst, a, operand.number)
        elif operand.combine is not None:
            operand.combine(name, dst, a)
        else:
            self.v.vv(name, dst, a, self.data(operand))


Body = Callable[[Formula, list[Operand], Call], Value]
"""Computes a result from the operands that a call has, and says where it is."""


@dataclass(frozen=True)
class Pointwise:
    """How a pointwise operator is computed.

    ``temporaries`` counts the buffers that the body makes besides its result. ``wide``: in FP32 whatever
    the format of the data. ``repeating``: positions of operands that it combines with one instruction each,
    so that they need not have an element for each of the slice.
    """

    op: str
    body: Body
    temporaries: int = 0
    wide: bool = False
    chain: str = ""
    """The instruction, if the operator is ``((a name b) name c) ...``."""
    repeating: tuple[int, ...] = ()

    @property
    def commutative(self) -> bool:
        return self.chain in ("add", "mul", "max", "min")

    def combines(self, position: int) -> bool:
        """Whether an operand at this position may be one that repeats."""
        if self.chain:
            return position > 0 or self.commutative
        return position in self.repeating


POINTWISE: dict[str, Pointwise] = {}


def define(entry: Pointwise) -> Pointwise:
    """Add a record; an operator has one."""
    if entry.op in POINTWISE:
        raise ValueError(f"pointwise operator {entry.op} is defined twice")
    POINTWISE[entry.op] = entry
    return entry


def known_number(tensor: DdrTensor) -> float | None:
    """The value of a constant of one element, within the range of the format in which it is stored."""
    value = tensor.value
    if value is None or value.size != 1:
        return None
    return float((within_range(value, tensor.fmt.token) if tensor.fmt.is_float else value).reshape(()))


# --- behind an anchor ------------------------------------------------------------------------------------


class Region(Protocol):
    """A slice of an anchor's result in the scratchpad."""

    @property
    def kernel(self) -> Kernel: ...

    @property
    def fmt(self) -> Format:
        """Of the data in the scratchpad now."""

    @property
    def elements(self) -> Value:
        """Stored elements of the slice, padding included."""

    @property
    def room(self) -> int:
        """The largest number of them."""

    def load_like(self, tensor: DdrTensor) -> Value:
        """Load the same elements of a tensor in the same order, converted to ``fmt``; where they are."""

    def per_channel(self, name: str, data: Value, vector: DdrTensor) -> None:
        """data = data name vector (add sub mul div max min), one value for each index of the last axis."""


def is_per_channel(tensor: DdrTensor, result: DdrTensor) -> bool:
    """Whether a tensor has one value for each index of the last axis of the result."""
    return tensor.size == tensor.shape[-1] == result.shape[-1] if tensor.shape else False


def fusable(op: str, call: Call, operands: Sequence[DdrTensor | None], result: DdrTensor) -> bool:
    """Whether a call can be a step behind an anchor.

    ``operands`` as in :class:`Step`: None where the running value stands; the others must lie in the order
    of axes of the ``result``, whose shape is the running value's.
    """
    entry = POINTWISE.get(op)
    present = [at for at, tensor in enumerate(call.inputs) if tensor is not None]
    running = [at for at in present if at >= len(operands) or operands[at] is None]
    if entry is None or not running or not all(call.tensor(at).is_float for at in present):
        return False
    return result.fmt.is_float and all(
        _fits(entry, at, operands[at], running[0], result) for at in present if at not in running
    )


def _fits(entry: Pointwise, at: int, tensor: DdrTensor | None, running: int, result: DdrTensor) -> bool:
    assert tensor is not None
    if known_number(tensor) is not None:
        return True
    if tensor.shape == result.shape and tensor.blocked == result.blocked:
        return True
    return entry.combines(at) and (entry.commutative or running == 0) and is_per_channel(tensor, result)


def apply_steps(region: Region, data: Value, steps: Sequence[Step]) -> None:
    """Apply the steps to the data of a region, in place."""
    running = _Running(region, data)
    for step in steps:
        running.apply(step)
    running.finish()


def step_bytes(steps: Sequence[Step], fmt: Format) -> int:
    """Scratchpad bytes that :func:`apply_steps` needs for each element of data in ``fmt`` besides them."""
    wide = any(POINTWISE[step.op].wide for step in steps) and fmt not in WIDE
    most = 0
    for step in steps:
        tensors = [tensor for tensor in step.operands if tensor is not None]
        spread = sum(known_number(tensor) is None for tensor in tensors)
        width = 4 if wide else fmt.bits // 8
        most = max(most, width * (POINTWISE[step.op].temporaries + 1) + spread * (width + fmt.bits // 8))
    return most + 4 * wide


class _Running:
    """The value that a group's steps are applied to: ``place`` and ``fmt`` say where and how it is now."""

    def __init__(self, region: Region, data: Value) -> None:
        self.region, self.data = region, data
        self.place, self.fmt = data, region.fmt

    def apply(self, step: Step) -> None:
        entry = POINTWISE[step.op]
        vectors = any(tensor is not None and self._repeats(step, tensor) for tensor in step.operands)
        if vectors:
            self._to_region()
        elif entry.wide:
            self._to_words()
        kernel, room = self.region.kernel, self.region.room
        v = Vector(kernel, self.fmt, self.region.elements)
        formula = Formula(v, lambda name: kernel.buffer(name, self.fmt.bits // 8 * room))
        operands = [
            self._operand(step, at) for at, tensor in enumerate(step.call.inputs) if tensor is not None
        ]
        self.place = entry.body(formula, operands, step.call)

    def _repeats(self, step: Step, tensor: DdrTensor) -> bool:
        """A tensor that has as many elements as the result is loaded whole."""
        return known_number(tensor) is None and tensor.size < math.prod(_result_shape(step))

    def _operand(self, step: Step, at: int) -> Operand:
        tensor = step.operands[at] if at < len(step.operands) else None
        if tensor is None:
            return Operand(data=self.place, mine=len(step.running) == 1)
        number = known_number(tensor)
        if number is not None:
            return Operand(number=number)
        if self._repeats(step, tensor):
            return Operand(combine=self._per_channel(tensor))
        loaded = self.region.load_like(tensor)
        return Operand(data=self._words(loaded) if self.fmt is not self.region.fmt else loaded, mine=True)

    def _per_channel(self, vector: DdrTensor) -> Combine:
        def combine(name: str, dst: Value, a: Value) -> None:
            if dst is not a:
                Vector(self.region.kernel, self.fmt, self.region.elements).vs("add", dst, a, -0.0)
            self.region.per_channel(name, dst, vector)

        return combine

    def _words(self, data: Value) -> Value:
        """Data of the region's format as FP32."""
        if self.region.fmt in WIDE:
            return data
        kernel = self.region.kernel
        wide = kernel.buffer("wide", 4 * self.region.room)
        convert(kernel, wide, data, self.region.elements, self.region.fmt, Format.FP32)
        return wide

    def _to_words(self) -> None:
        if self.fmt is not Format.FP32:
            self.place, self.fmt = self._words(self.place), Format.FP32

    def _to_region(self) -> None:
        region = self.region
        if self.fmt is not region.fmt:
            convert(region.kernel, self.data, self.place, region.elements, self.fmt, region.fmt)
            self.place, self.fmt = self.data, region.fmt

    def finish(self) -> None:
        self._to_region()
        if self.place is not self.data:
            Vector(self.region.kernel, self.fmt, self.region.elements).vs("add", self.data, self.place, -0.0)


def _result_shape(step: Step) -> tuple[int, ...]:
    return step.call.shape(step.running[0])
