"""The values of a kernel during its compilation.

Integers, pointers and comparisons of positions are known as formulas of the core's registers and of the
position in a block. Floats are data in the scratchpad. Values that the core has to compute for each element
are ``Computed`` until something needs them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, bounds
from compiler.frontend.triton.operations import Location, TtirError
from tx8isa.numbers.formats import Format

Shape = tuple[int, ...]

FLOAT_FORMATS = {"f16": Format.FP16, "bf16": Format.BF16, "f32": Format.FP32}
"""Elements that the vector engine computes with."""
INTEGER_FORMATS = {"i8": Format.INT8, "i16": Format.INT16, "i32": Format.INT32, "i64": Format.INT64}
"""Integers that are data."""
ELEMENT_FORMATS = {**FLOAT_FORMATS, **INTEGER_FORMATS, "i1": Format.INT8}
"""Elements that are moved; truth values of arrays are bytes."""
TRUTH = "i1"
INTEGERS = ("i8", "i16", "i32", "i64", "index")
_LARGEST_PLACE = 1 << 47
"""Loaded integers of 64 bits that are part of formulas must have a smaller magnitude."""


def bits_of(element: str) -> int:
    """Return the bits of an element of a type of integers."""
    return 64 if element == "index" else int(element[1:])


def range_of(element: str) -> tuple[int, int]:
    """Return the least and the largest integer of a type."""
    if element == TRUTH:
        return 0, 1
    half = min(1 << (bits_of(element) - 1), _LARGEST_PLACE)
    return -half, half - 1


class UnsupportedOperation(TtirError):
    """A requirement of an operation that is not met; the compiler adds the operation and its place."""

    def at(self, location: Location, operation: str) -> TtirError:
        """Return the message with its place."""
        return TtirError(f"{location}: {operation}: {self}")


@dataclass(frozen=True)
class Steps:
    """The change of a formula along one axis: by ``step`` for each index.

    With ``modulus`` the index i counts as (start + i) mod modulus.
    """

    step: Value = 0
    start: Value = 0
    modulus: int = 0

    @property
    def constant(self) -> bool:
        """True if the formula does not depend on the axis."""
        return self.step == 0


STILL = Steps()


@dataclass(frozen=True)
class Indices:
    """Integers: ``offset`` plus a term for the index of each axis. A scalar has no axes."""

    offset: Value
    axes: tuple[Steps, ...] = ()
    shape: Shape = ()

    @property
    def uniform(self) -> bool:
        """True if all elements are equal."""
        return all(axis.constant for axis in self.axes)

    @property
    def range(self) -> tuple[int, int]:
        """The least and the largest possible number of an element."""
        low, high = bounds(self.offset)
        for axis, extent in zip(self.axes, self.shape, strict=True):
            first, last = bounds(axis.step)
            most = extent - 1 if not axis.modulus else axis.modulus - 1
            ends = (0, first * most, last * most)
            low, high = low + min(ends), high + max(ends)
        return low, high


@dataclass(frozen=True)
class Pointers:
    """Addresses: elements ``indices`` of the array that argument ``argument`` is.

    ``data``: integers, known only at run time, that are added to the indices. ``base``: the address of
    element 0, in the engines' view, of an array that is known by a loaded address and is no argument.
    ``room``: the bytes of that array before and after the address.
    """

    argument: str
    element: str
    indices: Indices
    data: Computed | SpmBlock | None = None
    base: Value | None = None
    room: tuple[Value, Value] = (0, 0)

    @property
    def shape(self) -> Shape:
        return self.indices.shape


@dataclass(frozen=True)
class Span:
    """The indices of an axis from ``low`` to before ``high``, both within the axis; none if low >= high."""

    low: Value
    high: Value


@dataclass(frozen=True)
class Region:
    """Truth values that hold in a box of indices, if each pair of ``conditions`` is (smaller, larger)."""

    spans: tuple[Span, ...] = ()
    conditions: tuple[tuple[Value, Value], ...] = ()
    shape: Shape = ()

    def whole(self, axis: int) -> bool:
        """Return True if the box certainly has all of an axis."""
        span = self.spans[axis]
        return bounds(span.low)[1] <= 0 and bounds(span.high)[0] >= self.shape[axis]

    @property
    def everywhere(self) -> bool:
        """Return True if the region is known to have every index."""
        return not self.conditions and all(map(self.whole, range(len(self.shape))))

    @property
    def nowhere(self) -> bool:
        """Return True if the region is known to have no index."""
        pairs = [*self.conditions, *((span.low, span.high) for span in self.spans)]
        return any(bounds(larger)[1] <= bounds(smaller)[0] for smaller, larger in pairs)


def everywhere(shape: Shape) -> Region:
    """Return the region of a whole block."""
    return Region(tuple(Span(0, extent) for extent in shape), (), shape)


@dataclass(frozen=True)
class Splat:
    """A block of floats whose elements are all one number, known when compiling."""

    number: float
    element: str
    shape: Shape = ()


@dataclass(frozen=True)
class SpmBlock:
    """A block in the scratchpad, at ``address``.

    Axes that are not in ``stored`` are kept once and count as repeated. ``blocked``: a matrix in planes of 64
    columns, the matrix engine's order; otherwise row-major. ``turned``: a matrix whose columns follow each
    other; only products and transposes take it unchanged. Truth values are 1 and 0 of ``fmt``. ``carried``: a
    loop overwrites it at the end of each iteration.
    """

    address: Value
    element: str
    fmt: Format
    shape: Shape = ()
    stored: tuple[bool, ...] = ()
    blocked: bool = False
    turned: bool = False
    carried: bool = False

    @property
    def kept(self) -> Shape:
        """The stored extents."""
        return tuple(extent if kept else 1 for extent, kept in zip(self.shape, self.stored, strict=True))

    @property
    def count(self) -> int:
        """Number of stored elements."""
        return math.prod(self.kept)

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.fmt.bits // 8

    def viewed(self, shape: Shape, stored: tuple[bool, ...]) -> SpmBlock:
        """Return this block with its elements in another shape."""
        return replace(self, shape=shape, stored=stored)


@dataclass(frozen=True, eq=False)
class Computed:
    """Integers or truth values that the core computes from ``operands``, which have the same shape.

    ``element`` is the type of the results, ``source`` the operands' type; ``stored`` are the axes along
    which it changes.
    """

    operation: str
    operands: tuple[KernelValue, ...]
    element: str
    source: str
    shape: Shape
    stored: tuple[bool, ...]


KernelValue = Indices | Pointers | Region | Splat | SpmBlock | Computed


def varies(value: KernelValue) -> tuple[bool, ...]:
    """Return, for each axis, True if a value changes along it."""
    if isinstance(value, Computed):
        return value.stored
    if isinstance(value, SpmBlock):
        return tuple(extent > 1 for extent in value.kept)
    if isinstance(value, Indices):
        return tuple(
            extent > 1 and not axis.constant for axis, extent in zip(value.axes, value.shape, strict=True)
        )
    if isinstance(value, Region):
        return tuple(extent > 1 and not value.whole(axis) for axis, extent in enumerate(value.shape))
    return (False,) * len(value.shape)


def scalar(value: KernelValue) -> Value:
    """Return the integer that all elements equal; UnsupportedOperation for any other value."""
    if isinstance(value, Indices) and value.uniform:
        return value.offset
    raise UnsupportedOperation("needs an integer that is the same for the whole block")


def known(value: KernelValue) -> int:
    """Return an integer that is known at compile time; UnsupportedOperation for any other value."""
    number = scalar(value)
    if not isinstance(number, int):
        raise UnsupportedOperation("needs an integer that is known when compiling")
    return number
