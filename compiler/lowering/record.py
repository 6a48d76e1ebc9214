"""Registry of lowerings: how an operator becomes code, and what it can take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.dialect.orders import Order
from compiler.graph import DTYPES, FLOATS
from compiler.operators.record import Call
from tx8isa.numbers.formats import Format


@dataclass(frozen=True)
class Axis:
    """A dimension of a group's work that can be dealt to tiles and cut into slices.

    ``grain``: slices begin at multiples of it. ``reduce``: slices of it are summed up, never dealt to tiles
    unless the group says how their sums come together.
    """

    name: str
    extent: int
    grain: int = 1
    reduce: bool = False


@dataclass(frozen=True)
class Cut:
    """How a group's work is divided, by names of its axes.

    ``tiles``: in how many parts an axis is dealt (the product is at most the number of tiles; 1 where the
    name is missing). ``sizes``: the extent of a slice in time. ``choices``: what else the group's lowering
    can do in several ways.
    """

    tiles: tuple[tuple[str, int], ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    choices: tuple[tuple[str, str], ...] = ()

    def parts(self, axis: str) -> int:
        return dict(self.tiles).get(axis, 1)

    def size(self, axis: str) -> int:
        return dict(self.sizes)[axis]

    def choice(self, name: str, otherwise: str) -> str:
        return dict(self.choices).get(name, otherwise)


@dataclass(frozen=True)
class Step:
    """A pointwise operator that a group applies to the result of its anchor, before that leaves the SPM.

    ``operands`` has the other tensors at their positions in the call, None where the running value stands
    (and where the call has no operand).
    """

    name: str
    op: str
    call: Call
    operands: tuple[DdrTensor | None, ...]
    running: tuple[int, ...]
    """Positions of the running value."""


@dataclass(frozen=True)
class ChainNode:
    """An operator of a chain.

    The values of a chain have numbers: its inputs are 0, 1, ..., the results of its nodes follow.
    """

    op: str
    call: Call | None
    """The call of the operator, None for a cast that a pass inserted."""
    operands: tuple[int | None, ...]
    """The numbers of its operands; None for an operand that is omitted."""
    fmt: Format
    """The format that the result would have in DDR, INT8 for truth values."""

    @property
    def values(self) -> list[int]:
        """Numbers of the values that it reads, as often as it reads them."""
        return [value for value in self.operands if value is not None]


@dataclass(frozen=True)
class Work:
    """An operator application, or a group of them, as its lowering sees it.

    ``call`` has the shapes and attributes of the specification; None for a group that is not an anchor with
    steps, and for an operation that a pass inserted. The tensors have the shapes in which they are stored in
    DDR. ``steps`` are applied to the result before it is stored: ``output`` is that of the last one. ``cut``
    is what the search decided; None leaves it to the lowering's rule.
    """

    name: str
    op: str
    call: Call | None
    inputs: tuple[DdrTensor | None, ...]
    output: DdrTensor
    channels_last: bool = False
    compute: Format | None = None
    """Format of the arithmetic, for operators of the specification."""
    steps: tuple[Step, ...] = ()
    cut: Cut | None = None
    nodes: tuple[ChainNode, ...] = ()
    """What a chain computes."""
    stages: tuple[Work, ...] = ()
    """What a stack computes, in the order of computation."""
    orders: tuple[Order, Order] | None = None
    """Orders of axes of operand and result, for an operation that a pass inserted."""

    @property
    def spec(self) -> Call:
        if self.call is None:
            raise ValueError(f"operation {self.name} stands for no node")
        return self.call

    @property
    def arithmetic(self) -> Format:
        """``compute`` where it must be known; ValueError where it is not."""
        if self.compute is None:
            raise ValueError(f"operation {self.name} has no format of its arithmetic")
        return self.compute

    def input(self, index: int) -> DdrTensor:
        tensor = self.inputs[index]
        if tensor is None:
            raise ValueError(f"operand {index} of {self.name} was left away")
        return tensor

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None


EVERY_TYPE = tuple(DTYPES)

Cuts = Callable[[Target, Work], Iterable[Cut]]
"""The ways in which a lowering can divide its work, promising ones first; not all of them need to fit."""

Check = Callable[[Call], str | None]
"""None if the lowering can take a call, else what it cannot, with the value found."""


@dataclass(frozen=True)
class Lowering:
    """How one operator is made into code. An ``alias`` needs none: its result is its first operand."""

    op: str
    lower: Callable[[Kernel, Work], None] | None
    order: Order
    check: Check | None = None
    types: tuple[str, ...] = FLOATS
    """Element types of the operands and results it takes."""
    cuts: Cuts | None = None
    anchor: bool = False
    """Whether it applies the steps of a group."""
    blocked: bool = False
    """Whether an operator of order CHANNELS_LAST takes and gives BLOCKED tensors as well."""
    prefetch: bool = False
    """Whether it calls ``Kernel.await_earlier_phases`` itself, before it touches what other phases wrote."""
    rounds: bool = False
    """Whether operands and result may be FP32 in DDR whatever ``Work.compute`` is."""


LOWERINGS: dict[str, Lowering] = {}


def lowering(
    *ops: str,
    order: Order = Order.PLAIN,
    check: Check | None = None,
    types: tuple[str, ...] = FLOATS,
    cuts: Cuts | None = None,
    anchor: bool = False,
    blocked: bool = False,
    prefetch: bool = False,
    rounds: bool = False,
) -> Callable[[Callable[[Kernel, Work], None]], Callable[[Kernel, Work], None]]:
    """Decorator: the function lowers these operators."""

    def register(function: Callable[[Kernel, Work], None]) -> Callable[[Kernel, Work], None]:
        for op in ops:
            _add(Lowering(op, function, order, check, types, cuts, anchor, blocked, prefetch, rounds))
        return function

    return register


def alias(*ops: str) -> None:
    """These operators give their first operand another shape and need no code."""
    for op in ops:
        _add(Lowering(op, None, Order.PLAIN, types=EVERY_TYPE))


def _add(entry: Lowering) -> None:
    if entry.op in LOWERINGS:
        raise ValueError(f"operator {entry.op} has two lowerings")
    LOWERINGS[entry.op] = entry
