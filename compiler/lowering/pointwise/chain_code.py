"""The code of chains: loads of the inputs, all operators over a slab, the store of the result.

An input of the slab's shape is loaded unchanged. A tensor that repeats with a period of at most 64 elements
is the unit of a ``vuv`` instruction. For other inputs the load repeats elements, by strides of 0 along the
axes that broadcast. Inputs that are the same for all slabs are loaded before the loop over slabs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.integers import fp32_to_bytes, integers_to_fp32
from compiler.codegen.slices.tensors import (
    Slab,
    SlabPlan,
    Space,
    View,
    dma_format,
    element_spaces,
    load_slab,
    plan_slabs,
    slabs,
    store_slab,
)
from compiler.codegen.slices.vector import WIDE, Vector, convert, spread_rows
from compiler.dialect.orders import Order
from compiler.lowering.record import ChainNode, ChainWork, Engine, lowering
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_UNIT, MOST_MOVES

from .chain import CASTS, FLOATS_AND_BOOL, Chain, bytes_each, input_format, spm_format
from .record import POINTWISE, Combine, Operand, SliceVector, known_number

_TURNS = 4
"""Slabs of a tile that let loads, arithmetic and stores overlap."""
_ENOUGH = 16384
"""Least elements of a slab that takes longer to compute than to issue."""
_LONG_ROW = 8
"""Least repetitions of an element that the TDMA makes in less time than repeated reads of the DMA."""


@lowering("Chain", order=Order.FOLLOW, types=FLOATS_AND_BOOL, engines=(Engine.VECTOR,))
def lower_chain(kernel: Kernel, work: ChainWork) -> None:
    """Write the code of a chain, whose nodes are ``work.nodes``."""
    inputs = tuple(work.input(at) for at in range(len(work.inputs)))
    compute(kernel, Chain(inputs, work.nodes, work.output))


def compute(kernel: Kernel, chain: Chain) -> None:
    """Write the code of a chain over one index space, or several if the result is blocked and inputs
    repeat."""
    items = 0
    element_bytes = bytes_each(chain)
    for space in element_spaces(chain.inputs, chain.output):
        plan = _plan(kernel, space, element_bytes)
        loads = _Loads(kernel, chain, space, plan)
        with slabs(kernel, space, plan, items) as slab:
            result = _SlabCode(loads, slab).result()
            store_slab(kernel, space.views[-1], slab, result)
        items += plan.items


def _plan(kernel: Kernel, space: Space, element_bytes: int) -> SlabPlan:
    """The largest slabs that fit twice, or smaller ones if each tile then has several that overlap."""
    tiles = kernel.target.tiles
    largest = max(kernel.budget // element_bytes - 512, kernel.budget // (2 * element_bytes), 1)
    tile_elements = ceil_div(space.elements, tiles)
    if tile_elements <= min(largest, _ENOUGH):
        return plan_slabs(space.sizes, largest, tiles)
    capacity = max(min(largest // 2, max(ceil_div(tile_elements, _TURNS), _ENOUGH)), 1)
    equal = ceil_div(tile_elements, ceil_div(tile_elements, capacity))
    return plan_slabs(space.sizes, round_up(equal, 64), tiles)


@dataclass
class _ChainValue:
    """A value of the chain in one slab: a known number, or data."""

    fmt: Format
    addresses: dict[Format, Value] = field(default_factory=dict)
    """Addresses of the data by format."""
    number: float | None = None
    unit: int = 0
    """Number of elements that repeat; 0 if the data have one for each element of the slab."""
    shared: bool = False
    """True if other slabs use the data too, so this one must not overwrite it."""


class _Loads:
    """Loads of the inputs of a chain; inputs that all slabs share are loaded once, at the beginning."""

    def __init__(self, kernel: Kernel, chain: Chain, space: Space, plan: SlabPlan) -> None:
        self.kernel, self.chain, self.plan = kernel, chain, plan
        self.views = space.views
        self.inner = space.sizes[-1]
        self.spread = _spread_inputs(chain)
        self.shared: dict[int, _ChainValue] = {}
        for at, view in enumerate(space.views[:-1]):
            if known_number(chain.inputs[at]) is None and not any(view.strides[: 1 - plan.depth or None]):
                self.shared[at] = self._shared(at, view, space)

    def _shared(self, at: int, view: View, space: Space) -> _ChainValue:
        """The input for a whole slab; a shorter slab uses its beginning."""
        plan = self.plan
        extents = (plan.rows, *space.sizes[len(space.sizes) - plan.depth + 1 :])
        value = self._load(at, Slab(extents, (0,) * len(space.sizes)))
        value.shared = True
        return value

    def input(self, at: int, slab: Slab) -> _ChainValue:
        """Input number ``at`` in a slab."""
        number = known_number(self.chain.inputs[at])
        if number is not None:
            return _ChainValue(input_format(self.chain.inputs[at]), number=number)
        return self.shared[at] if at in self.shared else self._load(at, slab)

    def _unit(self, at: int) -> int:
        """The period with which an input repeats if an instruction can repeat it as its unit, else 0."""
        strides = self.views[at].strides[-self.plan.depth :]
        if at in self.spread:
            return 0
        if not any(strides):
            return 1
        fits = self.plan.depth > 1 and self.inner <= LARGEST_UNIT and strides[-1] == 1
        return self.inner if fits and not any(strides[:-1]) else 0

    def _repeats_in_rows(self, at: int) -> bool:
        """True if an input has one element for each row, and the TDMA shall repeat it along the rows."""
        strides = self.views[at].strides
        rows = self.plan.elements // self.inner
        return self.plan.depth > 1 and not strides[-1] and self.inner >= _LONG_ROW and rows <= MOST_MOVES

    def _load_rows(self, view: View, slab: Slab, data: Value) -> None:
        size = view.tensor.bytes_each
        rows = Slab((*slab.extents[:-1], 1), slab.origin)
        single = self.kernel.buffer("rows", self.plan.elements // self.inner * size)
        load_slab(self.kernel, view, rows, single)
        spread_rows(self.kernel, data, single, rows.elements, self.inner, size)

    def _load(self, at: int, slab: Slab) -> _ChainValue:
        kernel, view, unit = self.kernel, self.views[at], self._unit(at)
        tensor = view.tensor
        room, count = (unit, unit) if unit else (self.plan.elements, slab.elements)
        data: Value = kernel.buffer("unit" if unit else "x", room * tensor.bytes_each)
        if unit:
            token = dma_format(tensor.fmt).token
            kernel.emit(f"rdma.{token}", dst=data, src=tensor.at(slab.first(view)), n=unit)
        elif self._repeats_in_rows(at):
            self._load_rows(view, slab, data)
        else:
            load_slab(kernel, view, slab, data)
        fmt = spm_format(tensor.fmt)
        if fmt is not tensor.fmt:
            wide = kernel.buffer("truth", 4 * room)
            integers_to_fp32(kernel, wide, data, count, tensor.fmt)
            data = wide
        return _ChainValue(fmt, {fmt: data}, unit=unit)


def byte_range(fmt: Format) -> tuple[int, int]:
    """The smallest and the largest number of INT8 or UINT8."""
    return (0, 255) if fmt is Format.UINT8 else (-128, 127)


def _spread_inputs(chain: Chain) -> set[int]:
    """Inputs that some node needs at full size, with one element for each element of the slab."""
    found: set[int] = set()
    for node in chain.nodes:
        entry = POINTWISE.get(node.op)
        for position, value in enumerate(node.values):
            if entry is None or not entry.combines(position):
                found.add(value)
    return found


class _SlabCode:
    """Writes the code of a chain over one slab."""

    def __init__(self, loads: _Loads, slab: Slab) -> None:
        self.loads, self.slab = loads, slab
        self.kernel, self.chain, self.room = loads.kernel, loads.chain, loads.plan.elements
        self.values: dict[int, _ChainValue] = {}
        self.reads_left = Counter(value for node in self.chain.nodes for value in node.values)

    def result(self) -> Value:
        """Compute all nodes; the address of the result in the format of the output."""
        formats: dict[int, Format] = {}
        base = len(self.chain.inputs)
        for at, node in enumerate(self.chain.nodes):
            for value in node.values:
                if value not in self.values:
                    self.values[value] = self.loads.input(value, self.slab)
                formats[value] = self.values[value].fmt
            fmt = self.chain.computed_in(at, formats)
            data = self._node(node, fmt)
            if at < len(self.chain.nodes) - 1:
                self._limit(node, data)
            self.values[base + at] = _ChainValue(fmt, {fmt: data})
        return self._stored(self.values[base + len(self.chain.nodes) - 1])

    def _stored(self, value: _ChainValue) -> Value:
        """The address of the last value in the format of the output."""
        fmt = self.chain.output.fmt
        if fmt is not Format.UINT8:
            return self._in_format(value, fmt)
        data = self._buffer("bytes", fmt)
        fp32_to_bytes(self.kernel, data, value.addresses[Format.FP32], self.slab.elements, fmt)
        return data

    def _limit(self, node: ChainNode, data: Value) -> None:
        """Limit data to the range of bytes, except for the last value, which the store limits."""
        entry = POINTWISE.get(node.op)
        if entry is not None and entry.of_bytes and not node.fmt.is_float:
            low, high = byte_range(node.fmt)
            vector = Vector(self.kernel, Format.FP32, self.slab.elements)
            vector.vs("max", data, data, low)
            vector.vs("min", data, data, high)

    def _node(self, node: ChainNode, fmt: Format) -> Value:
        vector = SliceVector(self.kernel, fmt, self.slab.elements, lambda name: self._buffer(name, fmt))
        if node.op in CASTS:
            return self._cast(vector, node)
        operands = [self._operand(value, fmt, node.values) for value in node.values]
        self.reads_left.subtract(node.values)
        assert node.call is not None
        return POINTWISE[node.op].body(vector, operands, node.call)

    def _buffer(self, name: str, fmt: Format) -> Value:
        return self.kernel.buffer(name, fmt.bits // 8 * self.room)

    def _operand(self, number: int, fmt: Format, reads: Sequence[int]) -> Operand:
        """A value as an operand in a format, overwritable by its last reader."""
        value = self.values[number]
        if value.number is not None:
            return Operand(number=value.number)
        if value.unit:
            return Operand(combine=self._unit_instruction(value, fmt))
        last = self.reads_left[number] == 1 == reads.count(number)
        return Operand(data=self._in_format(value, fmt), overwritable=last and not value.shared)

    def _unit_instruction(self, value: _ChainValue, fmt: Format) -> Combine:
        data = value.addresses[value.fmt]
        if value.fmt is not fmt and not (fmt is Format.FP32 and value.fmt in WIDE):
            converted = self.kernel.buffer("converted", fmt.bits // 8 * value.unit)
            convert(self.kernel, converted, data, value.unit, value.fmt, fmt)
            data = converted
        vector = Vector(self.kernel, fmt, self.slab.elements)
        return lambda name, dst, a: vector.vuv(name, dst, a, data, value.unit)

    def _in_format(self, value: _ChainValue, fmt: Format) -> Value:
        """The address of the data of a value in a format; TF32 data are unchanged FP32 words."""
        if fmt is Format.FP32 and value.fmt in WIDE:
            return value.addresses[value.fmt]
        if fmt not in value.addresses:
            converted = self._buffer("narrow" if value.fmt is Format.FP32 else "wide", fmt)
            convert(self.kernel, converted, value.addresses[value.fmt], self.slab.elements, value.fmt, fmt)
            if value.shared:
                return converted
            value.addresses[fmt] = converted
        return value.addresses[fmt]

    def _cast(self, vector: SliceVector, node: ChainNode) -> Value:
        """The operand in the format of the node, in a separate buffer; conversion to BOOL makes all numbers
        but 0 a 1."""
        (number,) = node.values
        if node.fmt is Format.INT8 and self.values[number].fmt is not Format.INT8:
            operand = self._operand(number, Format.FP32, node.values)
            self.reads_left.subtract(node.values)
            result = vector.result_of(operand)
            vector.vs("ne", result, vector.data(operand), 0.0)
            return result
        operand = self._operand(number, spm_format(node.fmt), node.values)
        self.reads_left.subtract(node.values)
        return vector.writable(operand)
