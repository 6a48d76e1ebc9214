"""Chains: pointwise operators that are computed together, each slice loaded once and stored once.

An operator by itself is a chain of one. The elements of the result are cut into slabs. An operand of the
slab's shape is loaded as it is; one that repeats with a period of at most 64 elements is the unit of a vuv
instruction; any other is spread by the strides of the DMA, 0 where it broadcasts. What is the same for all
slabs is loaded before their loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import (
    DdrTensor,
    Slab,
    SlabPlan,
    Space,
    View,
    element_spaces,
    load_slab,
    plan_slabs,
    slabs,
    store_slab,
)
from compiler.codegen.slices.vector import WIDE, Vector, convert, spread_rows
from compiler.dialect.orders import Order
from compiler.graph import FLOATS
from compiler.lowering.record import ChainNode, Work, lowering
from compiler.operators.elements.casting import cast_dtype
from compiler.operators.record import Call
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_UNIT, MOST_MOVES

from .pointwise import POINTWISE, Combine, Formula, Operand, Pointwise, define, known_number

FLOATS_AND_BOOL = (*FLOATS, "bool")
CASTS = ("Cast", "tx8be.cast")
"""Operations whose result has the values of their operand in another format; 1 or 0 as a truth value."""

_TURNS = 4
"""Slabs of a tile that let loads, arithmetic and stores overlap, if each has enough elements to hide how
long its instructions take to issue."""
_ENOUGH = 16384
_LONG_ROW = 8
"""Elements from which on repeating one in the scratchpad takes less time than reading it again and again."""


@dataclass(frozen=True)
class Chain:
    """Pointwise operators; the last is the result. Each has the result's shape, to which inputs broadcast."""

    inputs: tuple[DdrTensor, ...]
    nodes: tuple[ChainNode, ...]
    output: DdrTensor

    def computed_in(self, at: int, formats: dict[int, Format]) -> Format:
        """The format in which node ``at`` is computed, given those of earlier values."""
        node = self.nodes[at]
        if node.op in CASTS:
            return _held_format(node.fmt)
        words = Format.FP32 in (formats[value] for value in node.values)
        return Format.FP32 if POINTWISE[node.op].wide or words else _held_format(node.fmt)


def _held_format(fmt: Format) -> Format:
    """How a value is kept in the scratchpad: truth values in FP32."""
    return Format.FP32 if fmt is Format.INT8 else fmt


def chainable(op: str, call: Call | None) -> bool:
    """Whether an operator can be a node of a chain, its shapes aside."""
    if op not in POINTWISE and op not in CASTS:
        return False
    if call is not None and op == "Cast" and cast_dtype(call) not in FLOATS_AND_BOOL:
        return False
    return call is None or all(t is None or t.dtype in FLOATS_AND_BOOL for t in call.inputs)


@lowering("Chain", order=Order.FOLLOW, types=FLOATS_AND_BOOL)
def lower_chain(kernel: Kernel, work: Work) -> None:
    """The nodes of the work, slab by slab."""
    inputs = tuple(work.input(at) for at in range(len(work.inputs)))
    compute(kernel, Chain(inputs, work.nodes, work.output))


def lower_single(kernel: Kernel, work: Work) -> None:
    """A pointwise operator by itself."""
    # A part of a tensor that begins where it does has its symbol, so the shape counts too.
    inputs = {(tensor.symbol, tensor.shape): tensor for tensor in work.inputs if tensor is not None}
    numbers = {key: number for number, key in enumerate(inputs)}
    operands = tuple(None if t is None else numbers[t.symbol, t.shape] for t in work.inputs)
    node = ChainNode(work.op, work.call, operands, work.output.fmt)
    compute(kernel, Chain(tuple(inputs.values()), (node,), work.output))


def operator(entry: Pointwise, types: tuple[str, ...] = FLOATS_AND_BOOL) -> None:
    """Define a pointwise operator and register its lowering."""
    define(entry)
    lowering(entry.op, order=Order.FOLLOW, types=types)(lower_single)


def compute(kernel: Kernel, chain: Chain) -> None:
    """The whole result, from one index space or, if it is blocked and operands repeat, from several."""
    dealt = 0
    each = bytes_each(chain)
    for space in element_spaces(chain.inputs, chain.output):
        plan = _plan(kernel, space, each)
        loads = _Loads(kernel, chain, space, plan)
        with slabs(kernel, space, plan, dealt) as slab:
            result = _Slice(loads, slab).result()
            store_slab(kernel, space.views[-1], slab, result)
        dealt += plan.items


def _plan(kernel: Kernel, space: Space, each: int) -> SlabPlan:
    """Slabs as large as fit, two at a time; several turns for a tile where they can overlap."""
    tiles = kernel.target.tiles
    most = max(kernel.budget // each - 512, kernel.budget // (2 * each), 1)
    share = ceil_div(space.elements, tiles)
    if share <= min(most, _ENOUGH):
        return plan_slabs(space.sizes, most, tiles)
    capacity = max(min(most // 2, max(ceil_div(share, _TURNS), _ENOUGH)), 1)
    even = ceil_div(share, ceil_div(share, capacity))
    return plan_slabs(space.sizes, round_up(even, 64), tiles)


def bytes_each(chain: Chain) -> int:
    """Scratchpad bytes that a chain needs for an element of its result."""
    base = len(chain.inputs)
    formats = {at: _input_format(tensor) for at, tensor in enumerate(chain.inputs)}
    sizes = {at: _input_bytes(tensor) for at, tensor in enumerate(chain.inputs)}
    begin = {base + at: at for at in range(len(chain.nodes))}
    end = dict(begin)
    for at, node in enumerate(chain.nodes):
        for value in node.values:
            begin.setdefault(value, at)
            end[value] = at
    most = 0
    for at, node in enumerate(chain.nodes):
        fmt = formats[base + at] = chain.computed_in(at, formats)
        sizes[base + at] = fmt.bits // 8
        for value in node.values:
            if formats[value] not in WIDE and fmt is Format.FP32 and sizes[value]:
                sizes[value] = formats[value].bits // 8 + 4
        alive = sum(size for value, size in sizes.items() if begin.get(value, at + 1) <= at <= end[value])
        entry = POINTWISE.get(node.op)
        made = 1 + (entry.temporaries if entry else 0)
        most = max(most, alive + made * fmt.bits // 8)
    return most


def _input_format(tensor: DdrTensor) -> Format:
    """How an input is kept; a known number has no format of its own, INT8 says so."""
    return Format.INT8 if known_number(tensor) is not None else _held_format(tensor.fmt)


def _input_bytes(tensor: DdrTensor) -> int:
    if known_number(tensor) is not None:
        return 0
    return tensor.bytes_each if tensor.fmt.is_float else tensor.bytes_each + 4


@dataclass
class _Held:
    """A value of the chain in one slab: a known number, or data, whose ``places`` are by format.

    Only the first ``unit`` elements if that is not 0; the others repeat them. ``shared``: other slabs need it
    too.
    """

    fmt: Format
    places: dict[Format, Value] = field(default_factory=dict)
    number: float | None = None
    unit: int = 0
    shared: bool = False


class _Loads:
    """How each input of a chain comes into the scratchpad; what all slabs share is loaded at once."""

    def __init__(self, kernel: Kernel, chain: Chain, space: Space, plan: SlabPlan) -> None:
        self.kernel, self.chain, self.plan = kernel, chain, plan
        self.views = space.views
        self.inner = space.sizes[-1]
        self.spread = _spread_inputs(chain)
        self.shared: dict[int, _Held] = {}
        for at, view in enumerate(space.views[:-1]):
            if known_number(chain.inputs[at]) is None and not any(view.strides[: 1 - plan.depth or None]):
                self.shared[at] = self._shared(at, view, space)

    def _shared(self, at: int, view: View, space: Space) -> _Held:
        """The operand of a whole slab, from which a shorter one takes the beginning."""
        plan = self.plan
        extents = (plan.rows, *space.sizes[len(space.sizes) - plan.depth + 1 :])
        held = self._load(at, Slab(extents, (0,) * len(space.sizes)))
        held.shared = True
        return held

    def input(self, at: int, slab: Slab) -> _Held:
        """An input in a slab."""
        number = known_number(self.chain.inputs[at])
        if number is not None:
            return _Held(_input_format(self.chain.inputs[at]), number=number)
        return self.shared[at] if at in self.shared else self._load(at, slab)

    def _unit(self, at: int) -> int:
        """The period with which an input repeats if that is the unit of an instruction, else 0."""
        strides = self.views[at].strides[-self.plan.depth :]
        if at in self.spread:
            return 0
        if not any(strides):
            return 1
        fits = self.plan.depth > 1 and self.inner <= LARGEST_UNIT and strides[-1] == 1
        return self.inner if fits and not any(strides[:-1]) else 0

    def _one_for_each_row(self, at: int) -> bool:
        """Whether an input repeats along the innermost axis, long enough for the TDMA to spread it."""
        strides = self.views[at].strides
        rows = self.plan.elements // self.inner
        return self.plan.depth > 1 and not strides[-1] and self.inner >= _LONG_ROW and rows <= MOST_MOVES

    def _load_rows(self, view: View, slab: Slab, data: Value) -> None:
        size = view.tensor.bytes_each
        rows = Slab((*slab.extents[:-1], 1), slab.origin)
        single = self.kernel.buffer("rows", self.plan.elements // self.inner * size)
        load_slab(self.kernel, view, rows, single)
        spread_rows(self.kernel, data, single, rows.elements, self.inner, size)

    def _load(self, at: int, slab: Slab) -> _Held:
        kernel, view, unit = self.kernel, self.views[at], self._unit(at)
        tensor = view.tensor
        room, count = (unit, unit) if unit else (self.plan.elements, slab.elements)
        data: Value = kernel.buffer("unit" if unit else "x", room * tensor.bytes_each)
        if unit:
            kernel.emit(f"rdma.{tensor.fmt.token}", dst=data, src=tensor.at(slab.first(view)), n=unit)
        elif self._one_for_each_row(at):
            self._load_rows(view, slab, data)
        else:
            load_slab(kernel, view, slab, data)
        fmt = _held_format(tensor.fmt)
        if fmt is not tensor.fmt:
            wide = kernel.buffer("truth", 4 * room)
            convert(kernel, wide, data, count, tensor.fmt, fmt)
            data = wide
        return _Held(fmt, {fmt: data}, unit=unit)


def _spread_inputs(chain: Chain) -> set[int]:
    """Inputs that some node needs with an element for each of the slab."""
    found: set[int] = set()
    for node in chain.nodes:
        entry = POINTWISE.get(node.op)
        for position, value in enumerate(node.values):
            if entry is None or not entry.combines(position):
                found.add(value)
    return found


class _Slice:
    """The chain in one slab."""

    def __init__(self, loads: _Loads, slab: Slab) -> None:
        self.loads, self.slab = loads, slab
        self.kernel, self.chain, self.room = loads.kernel, loads.chain, loads.plan.elements
        self.held: dict[int, _Held] = {}
        self.left = Counter(value for node in self.chain.nodes for value in node.values)

    def result(self) -> Value:
        """Compute all nodes; where the result is, in the output's format."""
        formats: dict[int, Format] = {}
        base = len(self.chain.inputs)
        for at, node in enumerate(self.chain.nodes):
            for value in node.values:
                if value not in self.held:
                    self.held[value] = self.loads.input(value, self.slab)
                formats[value] = self.held[value].fmt
            fmt = self.chain.computed_in(at, formats)
            data = self._node(node, fmt)
            self.held[base + at] = _Held(fmt, {fmt: data})
        return self._in_format(self.held[base + len(self.chain.nodes) - 1], self.chain.output.fmt)

    def _node(self, node: ChainNode, fmt: Format) -> Value:
        formula = Formula(Vector(self.kernel, fmt, self.slab.elements), lambda name: self._buffer(name, fmt))
        if node.op in CASTS:
            return self._cast(formula, node)
        operands = [self._operand(value, fmt, node.values) for value in node.values]
        self.left.subtract(node.values)
        assert node.call is not None
        return POINTWISE[node.op].body(formula, operands, node.call)

    def _buffer(self, name: str, fmt: Format) -> Value:
        return self.kernel.buffer(name, fmt.bits // 8 * self.room)

    def _operand(self, value: int, fmt: Format, reads: Sequence[int]) -> Operand:
        """A value as an operand in a format; it may be overwritten where it is needed no more."""
        held = self.held[value]
        if held.number is not None:
            return Operand(number=held.number)
        if held.unit:
            return Operand(combine=self._unit_instruction(held, fmt))
        mine = not held.shared and self.left[value] == 1 == reads.count(value)
        return Operand(data=self._in_format(held, fmt), mine=mine)

    def _unit_instruction(self, held: _Held, fmt: Format) -> Combine:
        data = held.places[held.fmt]
        if held.fmt is not fmt and not (fmt is Format.FP32 and held.fmt in WIDE):
            converted = self.kernel.buffer("converted", fmt.bits // 8 * held.unit)
            convert(self.kernel, converted, data, held.unit, held.fmt, fmt)
            data = converted
        v = Vector(self.kernel, fmt, self.slab.elements)
        return lambda name, dst, a: v.vuv(name, dst, a, data, held.unit)

    def _in_format(self, held: _Held, fmt: Format) -> Value:
        """The data of a value in a format; FP32 words of the compute format are FP32 as they are."""
        if fmt is Format.FP32 and held.fmt in WIDE:
            return held.places[held.fmt]
        if fmt not in held.places:
            place = self._buffer("narrow" if held.fmt is Format.FP32 else "wide", fmt)
            convert(self.kernel, place, held.places[held.fmt], self.slab.elements, held.fmt, fmt)
            if held.shared:
                return place
            held.places[fmt] = place
        return held.places[fmt]

    def _cast(self, formula: Formula, node: ChainNode) -> Value:
        """The operand in the node's format, in a place of its own; a truth value says whether it is not 0."""
        (value,) = node.values
        held = self.held[value]
        if node.fmt is Format.INT8 and held.fmt is not Format.INT8:
            operand = self._operand(value, Format.FP32, node.values)
            self.left.subtract(node.values)
            place = formula.place(operand)
            formula.v.vs("ne", place, formula.data(operand), 0.0)
            return place
        operand = self._operand(value, _held_format(node.fmt), node.values)
        self.left.subtract(node.values)
        return formula.own(operand)
