"""Registry of lowerings, and the work that a lowering turns into code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.dialect.homes import Home
from compiler.dialect.orders import Order
from compiler.graph import DTYPES, FLOATS, INTEGERS, GraphError
from compiler.operators.record import NO_LAWS, OPERATORS, Call, Law
from tx8isa.numbers.formats import Format


@dataclass(frozen=True)
class Cut:
    """A division of the work of a group, by the names of its axes.

    ``tiles``: the number of shards of an axis, 1 if it is not named. Their product is at most the number of
    tiles. ``sizes``: the extent of a slice along an axis. ``choices``: other decisions of the lowering.
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
    """A pointwise operator that a group applies to the result of its anchor in the scratchpad.

    ``operands`` are the tensors at their positions in the call, None for the result of the anchor or of the
    step before, and for an operand that is omitted.
    """

    name: str
    op: str
    call: Call
    operands: tuple[DdrTensor | None, ...]
    running: tuple[int, ...]
    """Positions in the call of the result of the anchor or of the step before."""


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
        """Numbers of the values that it reads; a value that is read several times is repeated."""
        return [value for value in self.operands if value is not None]


@dataclass(frozen=True)
class StageExchange:
    """An exchange of a value between tiles' scratchpads, before stage ``before`` of a sequence.

    ``kind`` is ``all_gather``: every tile gets the shares of all tiles along a mesh axis. Or it is
    ``halo_exchange``: a tile gets from its neighbours ``above`` rows before and ``below`` rows after its
    share.
    """

    kind: str
    symbol: str
    axis: str
    before: int
    above: int = 0
    below: int = 0


ALL_GATHER, HALO_EXCHANGE = "all_gather", "halo_exchange"
"""The kinds of exchanges."""


@dataclass(frozen=True)
class Placement:
    """The homes of a sequence's values, by symbol, and the exchanges in their order."""

    homes: dict[str, Home]
    exchanges: tuple[StageExchange, ...]


@dataclass(frozen=True, eq=False)
class AnyWork:
    """An operation or a group in the form that its lowering gets; equal only to itself.

    The tensors have the shapes in which they are stored in DDR. ``cut`` is what the search decided; None
    leaves it to the rule of the lowering. ``early``: bytes of its constants that each tile can load while the
    phase before is executed.
    """

    name: str
    op: str
    inputs: tuple[DdrTensor | None, ...]
    output: DdrTensor
    cut: Cut | None = None
    others: tuple[DdrTensor, ...] = ()
    """Results besides ``output``: further ones of an operator, or those of earlier stages of a sequence."""
    early: int = 0

    @property
    def operands(self) -> tuple[DdrTensor | None, ...]:
        """All tensors that it reads; None for an operand that is omitted or computed in the scratchpad."""
        return self.inputs

    def input(self, index: int) -> DdrTensor:
        tensor = self.inputs[index]
        if tensor is None:
            raise ValueError(f"operand {index} of {self.name} is omitted")
        return tensor

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None


@dataclass(frozen=True, eq=False)
class Work(AnyWork):
    """An operator, or an anchor with ``steps`` that are applied before the result is stored.

    ``call`` has the shapes and attributes of the specification; None for an operation that a pass inserted.
    ``output`` is the result of the last step.
    """

    call: Call | None = None
    channels_last: bool = False
    compute: Format | None = None
    """Format of the arithmetic, for operators of the specification."""
    steps: tuple[Step, ...] = ()
    orders: tuple[Order, Order] | None = None
    """Orders of axes of operand and result, for an operation that a pass inserted."""

    @property
    def operands(self) -> tuple[DdrTensor | None, ...]:
        return (*self.inputs, *(tensor for step in self.steps for tensor in step.operands))

    @property
    def spec(self) -> Call:
        if self.call is None:
            raise ValueError(f"operation {self.name} has no call of the specification")
        return self.call

    @property
    def arithmetic(self) -> Format:
        """``compute``, required to be known; ValueError otherwise."""
        if self.compute is None:
            raise ValueError(f"operation {self.name} has no format of its arithmetic")
        return self.compute

    @property
    def updates(self) -> bool:
        """True if the result has the memory of the first operand (``Lowering.updates``)."""
        return self.inputs[0] is not None and self.inputs[0].symbol == self.output.symbol


@dataclass(frozen=True, eq=False)
class ChainWork(AnyWork):
    """Pointwise operators without an anchor; the last of ``nodes`` gives the result."""

    nodes: tuple[ChainNode, ...] = ()


@dataclass(frozen=True, eq=False)
class SequenceWork(AnyWork):
    """The works of ``stages``, in the order of computation, whose results stay in the scratchpads."""

    stages: tuple[AnyWork, ...] = ()
    exchanges: tuple[StageExchange, ...] | None = None
    """Exchanges of the tiles between the stages; None leaves them to the lowering."""

    @property
    def operators(self) -> tuple[Work, ...]:
        """The stages, each an operator with its steps; ValueError if one is a chain or a sequence."""
        found = tuple(stage for stage in self.stages if isinstance(stage, Work))
        if len(found) < len(self.stages):
            raise ValueError(f"a stage of {self.name} is no single operator")
        return found


def without_exchanges(work: AnyWork) -> AnyWork:
    """The work, with the exchanges of a sequence left to its lowering."""
    return replace(work, exchanges=None) if isinstance(work, SequenceWork) else work


def exchanges_in(work: SequenceWork, needed: Sequence[StageExchange]) -> tuple[StageExchange, ...]:
    """The exchanges that were decided for a sequence; without a decision, the needed ones.

    GraphError if a needed group is missing or comes too late.
    """
    if work.exchanges is None:
        return tuple(needed)
    for each in needed:
        given = (one for one in work.exchanges if one.before <= each.before)
        if not any(replace(one, before=each.before) == each for one in given):
            stage = work.stages[each.before].name
            raise GraphError(
                [f"node '{stage}' needs an earlier {each.kind} of {each.symbol} along {each.axis}"]
            )
    return work.exchanges


EVERY_TYPE = tuple(DTYPES)

Cuts = Callable[[Target, Any], Iterable[Cut]]
"""The candidates for the cut of a work, promising ones first; not all of them need to fit."""

Check = Callable[[Call], str | None]
"""None if the lowering supports a call, else the requirement, with the value found."""


OnCore = Callable[[Call], bool]
"""True if the kernel core computes a call element by element; the function's docstring says for which
calls."""


class Engine(Enum):
    """The units of a tile that compute, besides the kernel core."""

    MATRIX = "matrix"
    VECTOR = "vector"
    DMA = "DMA"


@dataclass(frozen=True)
class Lowering:
    """The lowering of an operator to code; ``lower`` is None if the operator needs no code (``alias``).

    ``engines`` compute the result of a call, unless ``on_core`` says that the kernel core does. Engines that
    only change the layout of operands or round a result are not counted.
    """

    op: str
    lower: Callable[[Kernel, Any], None] | None
    order: Order
    check: Check | None = None
    types: tuple[str, ...] = FLOATS
    """Element types that it supports for operands and results."""
    cuts: Cuts | None = None
    details: Cuts | None = None
    """For a work with a cut: cuts that differ from it in details, tried once the division is decided."""
    anchor: bool = False
    """True if it applies the steps of a group."""
    blocked: bool = False
    """True if an operator of order CHANNELS_LAST supports BLOCKED tensors as well."""
    prefetch: bool = False
    """True if it calls ``Kernel.await_earlier_phases`` itself, before it uses data of other phases."""
    takes_fp32: bool = False
    """True if operands and result can be FP32 in DDR in any format of arithmetic (``Work.compute``)."""
    gives_fp32: bool = False
    """True if the result can be FP32 in DDR although the operands have another format."""
    engines: tuple[Engine, ...] = ()
    on_core: OnCore | None = None
    updates: bool = False
    """True if its result may have the memory of its first operand.

    Then it writes only the different elements.
    """
    stage: bool = False
    """True if it can be a stage of a stack, computed by rows of windows."""
    core_reads: bool = False
    """True if the kernel core reads operands, such as indices, which it can read in DDR only."""


LOWERINGS: dict[str, Lowering] = {}

_Work = TypeVar("_Work", bound=AnyWork)


def lowering(
    *ops: str,
    order: Order = Order.PLAIN,
    check: Check | None = None,
    types: tuple[str, ...] = FLOATS,
    cuts: Cuts | None = None,
    details: Cuts | None = None,
    anchor: bool = False,
    blocked: bool = False,
    prefetch: bool = False,
    takes_fp32: bool = False,
    gives_fp32: bool = False,
    engines: tuple[Engine, ...] = (),
    on_core: OnCore | None = None,
    updates: bool = False,
    stage: bool = False,
    core_reads: bool = False,
) -> Callable[[Callable[[Kernel, _Work], None]], Callable[[Kernel, _Work], None]]:
    """Decorator that registers the function as the lowering of these operators.

    ValueError if neither ``engines`` nor ``on_core`` says what computes them.
    """
    if not engines and on_core is None:
        raise ValueError(f"the lowering of {', '.join(ops)} does not say what computes it")

    def register(function: Callable[[Kernel, _Work], None]) -> Callable[[Kernel, _Work], None]:
        for op in ops:
            how = (order, check, types, cuts, details, anchor, blocked, prefetch)
            which = (takes_fp32, gives_fp32, engines, on_core, updates, stage, core_reads)
            _add(Lowering(op, function, *how, *which))
        return function

    return register


def laws_of(op: str) -> Law:
    """Return the laws of an operator; none for an operation that exists only in the dialect, such as a
    cast."""
    return OPERATORS[op].laws if op in OPERATORS else NO_LAWS


def always(call: Call) -> bool:
    """in every call"""
    return True


def of_integers(call: Call) -> bool:
    """for integers"""
    return call.tensor(0).dtype in INTEGERS


def alias(*ops: str) -> None:
    """Register operators that only reshape their first operand and need no code."""
    for op in ops:
        _add(Lowering(op, None, Order.PLAIN, types=EVERY_TYPE))


def _add(entry: Lowering) -> None:
    if entry.op in LOWERINGS:
        raise ValueError(f"operator {entry.op} has two lowerings")
    LOWERINGS[entry.op] = entry
