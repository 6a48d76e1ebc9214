"""Element-wise operations on blocks of floats: arithmetic, functions, comparisons, choice, conversion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from compiler.codegen.expr import Value, Variable, bounds
from compiler.codegen.slices.vector import Vector
from compiler.frontend.triton.kernels.values import (
    FLOAT_FORMATS,
    TRUTH,
    Computed,
    Indices,
    KernelValue,
    Region,
    Shape,
    Splat,
    SpmBlock,
    UnsupportedOperation,
)
from compiler.lowering.pointwise.functions import error_function
from compiler.lowering.pointwise.record import SliceVector
from tx8isa.numbers.formats import MANTISSA_BITS, Format
from tx8isa.numbers.rounding import rounded

from .arithmetic import ArithmeticCode, Number
from .blocks import BlockCode

BINARY = {
    "arith.addf": "add",
    "arith.subf": "sub",
    "arith.mulf": "mul",
    "arith.divf": "div",
    "tt.precise_divf": "div",
    "arith.maxnumf": "max",
    "arith.minnumf": "min",
}
"""Instructions of two operands."""

UNARY = {
    "arith.negf": "neg",
    "math.absf": "abs",
    "math.sqrt": "sqrt",
    "tt.precise_sqrt": "sqrt",
    "math.rsqrt": "rsqrt",
    "math.exp": "exp",
    "math.exp2": "pow2",
    "math.log": "ln",
    "math.log2": "log2",
    "math.sin": "sin",
    "math.cos": "cos",
    "math.tanh": "tanh",
}
"""Instructions of one operand."""

ROUNDINGS = {"math.floor": "rdn", "math.ceil": "rup", "math.roundeven": "rne"}
"""Roundings to integers, and the rounding of the addition that performs each."""

COMPOSED = (*ROUNDINGS, "math.erf")
"""Functions that take several instructions."""

PROPAGATING = {"arith.maximumf": "max", "arith.minimumf": "min"}
"""Operations whose result is NaN if an operand is."""

COMPARISONS = {"oeq": "eq", "ogt": "gt", "oge": "ge", "olt": "lt", "ole": "le", "une": "ne"}
"""Predicates of arith.cmpf that are instructions: with a NaN only ``ne`` holds."""
_NEGATED = {"ult": "ge", "ule": "gt", "ugt": "le", "uge": "lt"}
"""Predicates that hold where the instruction does not."""

_COMMUTATIVE = ("add", "mul", "max", "min", "eq", "ne", "and", "or", "xor")
_MIRRORED = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}
_FOLDED = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
"""Operations on constants: computed in binary64 and rounded again, they are correctly rounded."""
_EXACT_INTEGERS = 1 << (MANTISSA_BITS[Format.FP32] + 1)
"""The largest integer up to which all are exact in FP32."""


class ElementCode:
    """Writes element-wise operations with the blocks of a kernel."""

    def __init__(self, blocks: BlockCode) -> None:
        self.blocks, self.kernel = blocks, blocks.kernel
        self.arithmetic = ArithmeticCode(blocks)

    # --- operands ------------------------------------------------------------------------------------------

    def number(self, value: KernelValue) -> Number:
        """Return floats or truth values as an operand."""
        return value if isinstance(value, Splat) else self.blocks.data(value)

    def _common(self, operands: Sequence[Number]) -> tuple[list[Number], tuple[bool, ...], bool]:
        """Return the operands in one order, the axes that the result stores, and True if it is in planes.

        If it is in planes, all matrices are; a row or a column keeps its order.
        """
        data = [operand for operand in operands if isinstance(operand, SpmBlock)]
        rank = len(operands[0].shape)
        stored = tuple(any(each.kept[axis] > 1 for each in data) for axis in range(rank))
        matrices = [each for each in data if each.kept == each.shape]
        if matrices and all(each.blocked for each in matrices):
            return list(operands), stored, True
        compact = [self.blocks.compact(each) if isinstance(each, SpmBlock) else each for each in operands]
        return list(compact), stored, False

    # --- two operands --------------------------------------------------------------------------------------

    def binary(self, name: str, left: KernelValue, right: KernelValue, element: str) -> Number:
        """Write left name right; the result has ``element``'s format, truth values the operands' format."""
        a, b = self.number(left), self.number(right)
        if isinstance(a, Splat) and isinstance(b, Splat):
            if name in _FOLDED and element in FLOAT_FORMATS:
                return replace(a, number=_folded(name, a, b))
            a = self.blocks.single(a)
        smaller = isinstance(a, Splat) or (isinstance(b, SpmBlock) and a.count < b.count)
        if smaller and (name in _COMMUTATIVE or name in _MIRRORED):
            a, b, name = b, a, _MIRRORED.get(name, name)
        (a, b), stored, blocked = self._common((a, b))
        wide = self._written_out(a, stored, blocked)
        target = self._target(element, wide.fmt, wide.shape, stored, blocked)
        self.arithmetic.apply(name, target, wide, b)
        return target

    def _target(
        self, element: str, fmt: Format, shape: Shape, stored: Sequence[bool], blocked: bool
    ) -> SpmBlock:
        if element == TRUTH:
            return self.blocks.empty(TRUTH, fmt, shape, stored, blocked)
        return self.blocks.result(element, shape, stored, blocked)

    def divide(self, left: KernelValue, right: KernelValue, element: str) -> Number:
        """Write left / right.

        In FP32, where Triton allows an error of two units, a repeated or known divisor becomes its reciprocal
        as a factor. 1 / right is a reciprocal in any format.
        """
        a, b = self.number(left), self.number(right)
        if isinstance(a, Splat) and isinstance(b, SpmBlock) and (element == "f32" or a.number == 1):
            inverse = self.unary("recip", b, element)
            return inverse if a.number == 1 else self.binary("mul", inverse, a, element)
        repeats = isinstance(a, SpmBlock) and isinstance(b, SpmBlock) and b.count < a.count
        if element == "f32" and repeats:
            return self.binary("mul", a, self.unary("recip", b, element), element)
        return self.binary("div", a, b, element)

    def propagating(self, name: str, left: KernelValue, right: KernelValue, element: str) -> Number:
        """Return the larger or smaller operand; NaN where one is NaN, as in their sum."""
        best = self.binary(name, left, right, element)
        total = self.binary("add", left, right, element)
        return self.select(self.compare("uno", left, right), total, best)

    # --- one operand ---------------------------------------------------------------------------------------

    def unary(self, name: str, value: KernelValue, element: str) -> SpmBlock:
        """Write name(value). An exponential is a power of 2 in FP32.

        16 bits have ``exp_lp``, ten times as fast.
        """
        data = self.blocks.data(value)
        if name == "exp" and data.fmt is Format.FP32:
            factor = Splat(_rounded(math.log2(math.e), data.fmt), element, data.shape)
            scaled = self.binary("mul", data, factor, element)
            return self.unary("pow2", scaled, element)
        target = self.blocks.result(element, data.shape, data.stored, data.blocked)
        name = "exp_lp" if name == "exp" else name
        Vector(self.kernel, data.fmt, target.count).unary(name, target.address, data.address)
        return target

    def composed(self, name: str, value: KernelValue, element: str) -> Number:
        """Write a function of several instructions, in FP32."""
        data = self.in_format(self.blocks.data(value), Format.FP32)
        made = self.blocks.empty("f32", Format.FP32, data.shape, data.stored, data.blocked)
        self.blocks.copy(made, data)
        vector = SliceVector(
            self.kernel,
            Format.FP32,
            made.count,
            lambda part: self.kernel.buffer(part, made.count * made.size),
        )
        if name in ROUNDINGS:
            vector.round_to_integer(made.address, ROUNDINGS[name])
        else:
            made = replace(made, address=error_function(vector, made.address))
        return self.cast(made, element)

    # --- truth values --------------------------------------------------------------------------------------

    def compare(self, predicate: str, left: KernelValue, right: KernelValue) -> SpmBlock:
        """Return the truth values of a comparison of floats."""
        if predicate in ("uno", "ord"):
            parts = [self.truth("ne" if predicate == "uno" else "eq", x, x) for x in (left, right)]
            return parts[0] if left is right else self.truth("or" if predicate == "uno" else "and", *parts)
        if predicate in _NEGATED:
            return self.negate(self.truth(_NEGATED[predicate], left, right))
        if predicate not in COMPARISONS:
            allowed = ", ".join((*COMPARISONS, *_NEGATED, "ord", "uno"))
            raise UnsupportedOperation(f"unknown predicate '{predicate}'; allowed are {allowed}")
        return self.truth(COMPARISONS[predicate], left, right)

    def truth(self, name: str, left: KernelValue, right: KernelValue) -> SpmBlock:
        """Return truth values left name right; operands of two formats are converted to the wider one."""
        a, b = self.number(left), self.number(right)
        if isinstance(a, SpmBlock) and isinstance(b, SpmBlock) and a.fmt is not b.fmt:
            a, b = self.in_format(a, Format.FP32), self.in_format(b, Format.FP32)
        found = self.binary(name, a, b, TRUTH)
        assert isinstance(found, SpmBlock)
        return found

    def negate(self, value: KernelValue) -> SpmBlock:
        """Return truth values that hold where ``value`` does not."""
        data = self.blocks.data(value)
        made = self.blocks.empty(TRUTH, data.fmt, data.shape, data.stored, data.blocked)
        Vector(self.kernel, data.fmt, made.count).unary("not", made.address, data.address)
        return made

    def select(self, condition: KernelValue, left: KernelValue, right: KernelValue) -> SpmBlock:
        """Return ``left`` where the condition holds, else ``right``; all three have one shape.

        For 1 and 0 that is the condition itself.
        """
        a, b = self.number(left), self.number(right)
        fmt = FLOAT_FORMATS[a.element] if a.element in FLOAT_FORMATS else self.blocks.data(a).fmt
        if isinstance(condition, Region):
            mask: Number = self.blocks.truth(condition, fmt)
        else:
            mask = self.in_format(self.blocks.data(condition), fmt)
        if isinstance(a, Splat) and isinstance(b, Splat) and (a.number, str(b.number)) == (1.0, "0.0"):
            return replace(self.blocks.data(mask), element=a.element)
        (mask, a, b), stored, blocked = self._common((mask, a, b))
        made = self.blocks.empty(a.element, fmt, a.shape, stored, blocked)
        if isinstance(b, Splat):
            self.blocks.fill(made, b.number)
        else:
            self.blocks.copy(made, self._written_out(b, stored, blocked))
        mask, chosen = self._written_out(mask, stored, blocked), self._written_out(a, stored, blocked)
        self.kernel.emit(
            f"ct.maskmove.{fmt.token}", dst=made.address, src0=chosen.address, src1=mask.address, n=made.count
        )
        return made

    def replaced_outside(
        self, condition: KernelValue, data: KernelValue, other: KernelValue
    ) -> SpmBlock | None:
        """Return ``data`` with a number written outside of a box; None if the choice is not of this form.

        Nothing is written if the box turns out to be the whole block.
        """
        if (
            not isinstance(condition, Region)
            or not isinstance(data, SpmBlock)
            or not isinstance(other, Splat)
        ):
            return None
        partial = [axis for axis in range(len(data.shape)) if not condition.whole(axis)]
        if condition.conditions or len(partial) != 1 or data.count < math.prod(data.shape) or data.turned:
            return None
        (axis,) = partial
        span, extent = condition.spans[axis], data.shape[axis]
        for low, high in ((0, span.low), (span.high, extent)):
            if bounds(high)[1] <= bounds(low)[0]:
                continue
            with self.blocks.when([(low, high)]):
                self.blocks.fill_axis(data, axis, low, high, other.number)
        return data

    def _written_out(self, value: Number, stored: Sequence[bool], blocked: bool) -> SpmBlock:
        data = self.blocks.spread(self.blocks.data(value), stored)
        return self.blocks.planes(data) if blocked else data

    # --- formats -------------------------------------------------------------------------------------------

    def in_format(self, data: SpmBlock, fmt: Format, rounding: str = "rne") -> SpmBlock:
        """Convert a block of floats to another format of floats."""
        if data.fmt is fmt:
            return data
        element = data.element
        if element != TRUTH:
            element = next(name for name, each in FLOAT_FORMATS.items() if each is fmt)
            made = self.blocks.result(element, data.shape, data.stored, data.blocked)
        else:
            made = self.blocks.empty(element, fmt, data.shape, data.stored, data.blocked)
        self.convert(made, data, rounding)
        return made

    def convert(self, target: SpmBlock, source: SpmBlock, rounding: str = "rne") -> None:
        """Convert between any two formats."""
        exact = source.fmt.bits < target.fmt.bits
        operands = {} if exact or rounding == "rne" else {"rnd": rounding}
        self.kernel.emit(
            f"ct.cvt.{source.fmt.token}.{target.fmt.token}",
            dst=target.address,
            src0=source.address,
            n=target.count,
            **operands,
        )

    def cast(self, value: KernelValue, element: str, rounding: str = "rne") -> Number:
        """Convert floats, truth values or integers to floats of another element."""
        if element not in FLOAT_FORMATS:
            raise UnsupportedOperation(f"floats of type {element}; supported are {', '.join(FLOAT_FORMATS)}")
        fmt = FLOAT_FORMATS[element]
        if isinstance(value, Splat) and rounding == "rne":
            return Splat(_rounded(value.number, fmt), element, value.shape)
        if isinstance(value, Indices):
            value = self.positions(value)
        if isinstance(value, Computed):
            value = self.blocks.data(value)
        if isinstance(value, SpmBlock) and not value.fmt.is_float:
            made = self.blocks.empty(element, Format.FP32, value.shape, value.stored, value.blocked)
            self.convert(made, value)
            value = made
        return replace(self.in_format(self.blocks.data(value), fmt, rounding), element=element)

    def positions(self, value: Indices) -> SpmBlock:
        """Return integers known by a formula as data in FP32; refused if that is not exact."""
        low, high = value.range
        if not self.are_exact(value):
            raise UnsupportedOperation(f"integers of {low}..{high} as data; exact in FP32 are 24 bits")
        total: SpmBlock | None = None
        for number, (axis, extent) in enumerate(zip(value.axes, value.shape, strict=True)):
            if not axis.constant:
                ramp = self._ramp(value.shape, number, extent, axis.step)
                total = ramp if total is None else self.blocks.data(self.binary("add", ramp, total, "f32"))
        if total is None:
            total = self.blocks.single(Splat(0.0, "f32", value.shape))
        if value.offset == 0:
            return total
        moved = self.blocks.empty("f32", Format.FP32, total.shape, total.stored)
        offset = self._single(value.offset)
        self.kernel.emit("ct.add.vs.fp32", dst=moved.address, src0=total.address, src1=offset, n=moved.count)
        return moved

    def are_exact(self, value: Indices) -> bool:
        """Return True if all elements are exact in FP32, and the engine can make them."""
        low, high = value.range
        known = all(isinstance(axis.step, int) and not axis.modulus for axis in value.axes)
        return known and max(-low, high) <= _EXACT_INTEGERS

    def _ramp(self, shape: Shape, axis: int, extent: int, step: Value) -> SpmBlock:
        """Return 0, step, 2 step, ... along one axis, from a constant in DDR."""
        if not isinstance(step, int):
            raise UnsupportedOperation("a distance between positions that is not known when compiling")
        numbers = (np.arange(extent) * step).astype(np.float32)
        symbol = self.kernel.constant("ramp", Format.FP32, numbers)
        made = self.blocks.empty("f32", Format.FP32, shape, [at == axis for at in range(len(shape))])
        self.kernel.emit("rdma.fp32", dst=made.address, src=symbol, n=extent)
        return made

    def _single(self, value: Value) -> float | Value:
        """Return an integer as the bits of FP32: a number, or in a register of the core."""
        if isinstance(value, int):
            return float(value)
        registers, out = self.kernel.registers, self.kernel.out
        register = registers.compute(self.kernel.let(value))
        bits = registers.take()
        out.instruction("fcvt.s.l", "ft0", register)
        out.instruction("fmv.x.w", bits, "ft0")
        return Variable(bits, 0, (1 << 32) - 1)


def _folded(name: str, left: Splat, right: Splat) -> float:
    with np.errstate(all="ignore"):
        return _rounded(float(_FOLDED[name](left.number, right.number)), FLOAT_FORMATS[left.element])


def _rounded(number: float, fmt: Format) -> float:
    """Return a number rounded to a format."""
    return float(rounded(np.array([number], np.float64), fmt)[0])
