"""Records of the pointwise operators of floats and truth values, one for each operator.

The body of a record emits the operator over a slice in the scratchpad. The same body is used for an operator
by itself, in a chain (chain.py) and in the epilogue of an anchor such as a convolution (epilogue.py).

A body computes in one format: the format of the data, or FP32 if the record is ``wide``. Data in FP32 keeps
that format until it is stored, so a sequence of operators rounds once. A truth value is 1.0 or 0.0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.codegen.expr import Value
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import Vector, convert
from compiler.evaluation.storage import within_range
from compiler.operators.record import Call
from tx8isa.numbers.formats import Format

_WHOLE = 8388608.0
"""2^23: FP32 numbers of this size and above are integers."""

Combine = Callable[[str, Value, Value], None]
"""(name, dst, a): emits dst = a name operand."""


@dataclass(frozen=True)
class Operand:
    """An operand of a body: exactly one of ``data``, ``number`` and ``combine`` is given."""

    data: Value | None = None
    """Address of a buffer with an element for each element of the slice."""
    overwritable: bool = False
    """True if the body may overwrite ``data``."""
    number: float | None = None
    """The operand, if it is one number for all elements."""
    combine: Combine | None = None
    """Applies an operand that repeats, by an instruction with a repeated operand."""


@dataclass(frozen=True)
class SliceVector(Vector):
    """Emits instructions over a slice in the scratchpad; ``temporary`` makes a buffer of its size."""

    temporary: Callable[[str], Value]

    def fill(self, dst: Value, value: float) -> None:
        """dst = value."""
        self.kernel.emit(f"td.memset.{self.fmt.token}", dst=dst, value=value, n=self.n)

    def copy(self, dst: Value, src: Value) -> None:
        """dst = src; adding -0 changes no number, zeros of both signs and NaN included."""
        self.vs("add", dst, src, -0.0)

    def choose(self, dst: Value, mask: Value, src: Value) -> None:
        """dst = src where the mask is 1."""
        self.kernel.emit(f"ct.maskmove.{self.fmt.token}", dst=dst, src0=src, src1=mask, n=self.n)

    def round_to_integer(self, x: Value, rounding: str) -> None:
        """x = x rounded to an integer (FP32), by way of INT32; numbers of 2^23 and above are integers."""
        small, whole = self.temporary("small"), self.temporary("whole")
        self.unary("abs", small, x)
        self.vs("lt", small, small, _WHOLE)
        self.kernel.emit("ct.cvt.fp32.int32", dst=whole, src0=x, n=self.n, rnd=rounding)
        convert(self.kernel, whole, whole, self.n, Format.INT32, Format.FP32)
        self.choose(x, small, whole)

    def data(self, operand: Operand) -> Value:
        """The operand with an element for each element of the slice, to be read only."""
        if operand.data is not None:
            return operand.data
        spread = self.temporary("spread")
        self.fill(spread, -0.0 if operand.number is None else operand.number)
        if operand.combine is not None:
            operand.combine("add", spread, spread)
        return spread

    def writable(self, operand: Operand) -> Value:
        """The operand as a buffer that may be overwritten, with one element for each element of the slice."""
        data = self.data(operand)
        if operand.data is None or operand.overwritable:
            return data
        copied = self.temporary("copied")
        self.copy(copied, data)
        return copied

    def result_of(self, *operands: Operand) -> Value:
        """A buffer for a result that is computed element by element: that of an operand, or a new one."""
        for operand in operands:
            if operand.data is not None and operand.overwritable:
                return operand.data
        return self.temporary("result")

    def apply(self, name: str, dst: Value, a: Value, operand: Operand) -> None:
        """dst = a name operand."""
        if operand.number is not None:
            self.vs(name, dst, a, operand.number)
        elif operand.combine is not None:
            operand.combine(name, dst, a)
        else:
            self.vv(name, dst, a, self.data(operand))


Body = Callable[[SliceVector, list[Operand], Call], Value]
"""Emits the computation of a result from the operands that a call has, and returns the result's address."""


@dataclass(frozen=True)
class Pointwise:
    """The record of a pointwise operator: its body, and how to call it."""

    op: str
    body: Body
    temporaries: int = 0
    """Number of buffers that the body makes besides its result."""
    wide: bool = False
    """True if the body computes in FP32 whatever the format of the data is."""
    instruction: str = ""
    """The instruction, if the operator is ``((a instruction b) instruction c) ...``."""
    repeating: tuple[int, ...] = ()
    """Positions of operands that may repeat, because the body uses them in ``SliceVector.apply`` only."""
    of_bytes: bool = False
    """True if its operands or its result are integers of 8 bits. The body has them in FP32, and may leave
    whole numbers beyond their range; the store, or the next operator, limits these.
    """
    alone: bool = False
    """True if it never shares a chain with other operators; a stack may have it as a stage."""
    compares: bool = False
    """True if it compares numbers: integers that FP32 holds are compared in FP32."""
    long: bool = False
    """True if the vector engine needs longer for it than for a table look-up."""

    @property
    def commutative(self) -> bool:
        return self.instruction in ("add", "mul", "max", "min")

    def combines(self, position: int) -> bool:
        """True if an operand at this position may be one that repeats."""
        if self.instruction:
            return position > 0 or self.commutative
        return position in self.repeating


POINTWISE: dict[str, Pointwise] = {}


def define(entry: Pointwise) -> Pointwise:
    """Add a record. ValueError if the operator already has a lowering of this kind."""
    if entry.op in POINTWISE:
        raise ValueError(f"pointwise operator {entry.op} is defined twice")
    POINTWISE[entry.op] = entry
    return entry


def known_number(tensor: DdrTensor) -> float | None:
    """The value of a constant of one element, within the range of the format in which it is stored."""
    value = tensor.value
    if value is None or value.size != 1:
        return None
    return float((within_range(value, tensor.fmt) if tensor.fmt.is_float else value).reshape(()))
