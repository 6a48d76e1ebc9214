"""Products of matrices, tt.dot, by the matrix engine."""

from __future__ import annotations

import math
from dataclasses import replace

from compiler.codegen.slices.precision import PRODUCTS
from compiler.codegen.slices.tensors import BLOCK
from compiler.codegen.slices.vector import Vector, convert
from compiler.frontend.triton.kernels.values import (
    FLOAT_FORMATS,
    Indices,
    KernelValue,
    Splat,
    SpmBlock,
    UnsupportedOperation,
)
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES

from .blocks import BlockCode
from .elements import ElementCode

PRECISIONS = ("tf32", "tf32x3", "ieee")
"""Precisions of products of FP32: rounded to TF32, or as sums of two TF32 numbers each."""
_BYTES = ("i8", "i32")
"""Elements of the operands and of the sums of a product of bytes."""


class ProductCode:
    """Writes matrix products with the blocks of a kernel."""

    def __init__(self, blocks: BlockCode) -> None:
        self.blocks, self.kernel, self.elements = blocks, blocks.kernel, ElementCode(blocks)

    def dot(
        self, left: KernelValue, right: KernelValue, start: KernelValue, element: str, precision: str
    ) -> SpmBlock:
        """Write start + left x right: sums of floats in FP32, rounded to ``element``; of bytes in INT32."""
        if len(left.shape) == 3:
            return self._of_each(left, right, start, element, precision)
        a, b = self._operand(left, element), self._operand(right, element)
        self._check(a, b, element, precision)
        rows, columns = a.shape[0], b.shape[1]
        begin = None if _is_zero(start) else self.blocks.planes(self.blocks.typed(start, element))
        made = self.blocks.result(element, (rows, columns), (True, True), columns > BLOCK)
        pairs = self._parts(self._in_planes(a), self._in_planes(b), precision)
        if len(pairs) > 1 and made.fmt is not Format.FP32:
            raise UnsupportedOperation(f"input precision '{precision}' of sums in {element}")
        for one, other in pairs:
            self._multiply(made, one, other, begin)
            begin = made
        return made

    def _of_each(
        self, left: KernelValue, right: KernelValue, start: KernelValue, element: str, precision: str
    ) -> SpmBlock:
        """Write a product for each index of the first axis of three.

        The engine reads and writes sums in whole lines. Sums that end within a line get their own blocks.
        """
        home, self.blocks.home = self.blocks.home, None
        a, b = (self.blocks.full(self._operand(value, element)) for value in (left, right))
        zero = Splat(0.0, element, start.shape[1:])
        begin = None if _is_zero(start) else self.blocks.full(self.blocks.typed(start, element))
        self.blocks.home = home
        made = self.blocks.result(element, (a.shape[0], a.shape[1], b.shape[2]), (True,) * 3)
        in_place = made.count // made.shape[0] * made.size % LINE_BYTES == 0
        for index in range(a.shape[0]):
            target = _part(made, index)
            self.blocks.home = target if in_place else None
            first = zero if begin is None else _part(begin, index)
            if isinstance(first, SpmBlock) and not in_place:
                first = self.blocks.copied(first)
            product = self.dot(_part(a, index), _part(b, index), first, element, precision)
            if product.address is not target.address:
                self.blocks.copy(target, self.blocks.compact(product))
        return made

    def _operand(self, value: KernelValue, element: str) -> SpmBlock:
        """Return a matrix in either order of its axes, for the engine takes both."""
        if isinstance(value, SpmBlock) and value.turned:
            return value
        return self.blocks.typed(value, _BYTES[0] if element == _BYTES[1] else element)

    def _in_planes(self, data: SpmBlock) -> SpmBlock:
        """Return a matrix in the engine's order, with the shape in memory; ``turned`` is kept."""
        stored = self.blocks.as_stored(data)
        planes = self.blocks.planes(stored) if data.fmt.is_float else self.blocks.byte_planes(stored)
        return replace(planes, turned=data.turned)

    def _check(self, a: SpmBlock, b: SpmBlock, element: str, precision: str) -> None:
        if len(a.shape) != 2 or len(b.shape) != 2:
            raise UnsupportedOperation(f"a product of {len(a.shape)} axes; supported are 2 and 3")
        floats = a.fmt is b.fmt and a.element in FLOAT_FORMATS and element in FLOAT_FORMATS
        if not floats and (a.element, b.element, element) != (_BYTES[0], *_BYTES):
            allowed = f"two of {', '.join(FLOAT_FORMATS)}, and of {_BYTES[0]} with sums in {_BYTES[1]}"
            raise UnsupportedOperation(
                f"a product of {a.element} and {b.element} with sums in {element}; supported are {allowed}"
            )
        if precision not in PRECISIONS:
            raise UnsupportedOperation(
                f"input precision '{precision}'; supported are {', '.join(PRECISIONS)}"
            )

    def _parts(self, a: SpmBlock, b: SpmBlock, precision: str) -> list[tuple[SpmBlock, SpmBlock]]:
        """Return pairs of operands whose products are added up."""
        if a.fmt is not Format.FP32:
            return [(a, b)]
        if precision == "tf32":
            return [(self._high(a), self._high(b))]
        parts = [self._split(a), self._split(b)]
        return [(parts[0][one], parts[1][other]) for one, other in PRODUCTS]

    def _high(self, data: SpmBlock) -> SpmBlock:
        """Round FP32 to TF32."""
        made = self.blocks.empty(data.element, Format.TF32, data.shape, data.stored, data.blocked)
        made = replace(made, turned=data.turned)
        convert(self.kernel, made.address, data.address, data.count, Format.FP32, Format.TF32)
        return made

    def _split(self, data: SpmBlock) -> tuple[SpmBlock, SpmBlock]:
        """Split FP32 into the sum of two TF32 numbers."""
        high, low = self._high(data), self._high(data)
        vector = Vector(self.kernel, Format.FP32, data.count)
        vector.vv("sub", low.address, data.address, high.address)
        convert(self.kernel, low.address, low.address, data.count, Format.FP32, Format.TF32)
        return high, low

    def _multiply(self, made: SpmBlock, a: SpmBlock, b: SpmBlock, begin: SpmBlock | None) -> None:
        start = {}
        if begin is not None:
            start = {"psum": begin.address, "psum_format": begin.fmt.token}
        self.kernel.emit(
            f"ne.gemm.{a.fmt.token}",
            out=made.address,
            out_format=made.fmt.token,
            m=made.shape[0],
            k=a.shape[0] if a.turned else a.shape[1],
            n=made.shape[1],
            a=a.address,
            b=b.address,
            lt=int(a.turned),
            rt=int(not b.turned),
            **start,
        )


def _is_zero(value: KernelValue) -> bool:
    """Return True if sums begin with a 0 that is known at compile time."""
    if isinstance(value, Indices):
        return value.uniform and isinstance(value.offset, int) and value.offset == 0
    return isinstance(value, Splat) and value.number == 0


def _part(data: SpmBlock, index: int) -> SpmBlock:
    """Return one index of the first axis of a written-out block."""
    shape = data.shape[1:]
    at = data.address + index * (math.prod(shape) * data.size)
    return replace(data, address=at, shape=shape, stored=data.stored[1:])
