"""Copies of tensors with their axes in another order, box by box, in long runs of DDR on both sides.

Elements that are adjacent on one side have gaps between them on the other. A box has some of both: it is
loaded in the order of the source, the TDMA moves its elements to the order of the target, and it is stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Argument, Kernel, Target
from compiler.graph import Shape
from tx8isa.cost.rates import ddr_rate
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.limits import MOST_MOVES

from .tensors import Space, View, dma_format, dma_loops, unravel

_LONG = 256
"""Bytes of a run of DDR; longer ones save little."""
_MOST_AXES = 3
"""Loops of a move."""
_COPIES = 4
"""Buffers of a box: as loaded and as stored, each twice."""


@dataclass(frozen=True)
class _Price:
    """The cost of boxes: the time of DDR for all tiles, and the time of a tile."""

    target: Target
    space: Space
    orders: tuple[list[int], list[int]]
    """The axes of the space from the innermost outwards, in the source and in the target."""

    def __call__(self, box: Shape) -> float:
        machine, timing = self.target.machine, self.target.machine.timing
        each, elements = self.space.views[0].tensor.bytes_each, math.prod(box)
        runs = [elements // _run(box, self.space.sizes, order) for order in self.orders]
        count = math.prod(map(ceil_div, self.space.sizes, box))
        rate = ddr_rate(machine)
        ddr = count * (sum(runs) * timing.ddr.run.value + 2 * elements * each / rate)
        parts = [
            elements * each / engine.rate.value + number * engine.run.value + engine.fixed.value
            for engine, number in zip((timing.rdma, timing.wdma), runs, strict=True)
        ]
        parts.append(
            elements // _block(box, self.orders) * timing.tdma.transfer.value + timing.tdma.fixed.value
        )
        return max(ddr, ceil_div(count, self.target.tiles) * max(parts)) + sum(parts)


def box_plans(target: Target, space: Space) -> Iterator[Shape]:
    """Promising boxes of a space (source, target), the best first; none where runs are long."""
    orders = _orders(space)
    each = space.views[0].tensor.bytes_each
    if orders is None or _block(space.sizes, orders) * each >= _LONG:
        return
    found = {box for axes in _axes(orders) for box in _boxes(space.sizes, axes, orders)}
    room = target.spm_bytes // (_COPIES * each)
    fitting = [b for b in found if math.prod(b) <= room and math.prod(b) // _block(b, orders) <= MOST_MOVES]
    yield from sorted(fitting, key=lambda box: (_Price(target, space, orders)(box), box))


def _orders(space: Space) -> tuple[list[int], list[int]] | None:
    """The axes of both sides from the innermost outwards; None if a side repeats elements or is not dense."""
    found = []
    for view in space.views:
        order = sorted(range(len(space.sizes)), key=lambda axis: view.strides[axis])
        dense = 1
        for axis in order:
            if view.strides[axis] != dense:
                return None
            dense *= space.sizes[axis]
        found.append(order)
    return found[0], found[1]


def _axes(orders: tuple[list[int], list[int]]) -> set[tuple[int, ...]]:
    """The axes that boxes may have: the innermost of both sides, and others next to these."""
    source, target = orders
    ways = set()
    for deep in (source[:2] + target[:1], source[:1] + target[:2], source[:2] + target[:2]):
        axes = tuple(dict.fromkeys(deep))
        if len(axes) - (source[0] == target[0]) <= _MOST_AXES:
            ways.add(axes)
    return ways


def _boxes(sizes: Shape, axes: tuple[int, ...], orders: tuple[list[int], list[int]]) -> Iterator[Shape]:
    """Boxes with powers of two or whole extents along these axes; the innermost axis of both sides is
    whole."""
    choices = []
    for axis in axes:
        powers = {1 << power for power in range(1, sizes[axis].bit_length()) if 1 << power <= _LONG}
        same = axis == orders[0][0] == orders[1][0]
        choices.append([sizes[axis]] if same else sorted(powers | {min(sizes[axis], 2 * _LONG)}))
    for chosen in itertools.product(*choices):
        box = dict(zip(axes, chosen, strict=True))
        yield tuple(box.get(axis, 1) for axis in range(len(sizes)))


def _run(box: Shape, sizes: Shape, order: list[int]) -> int:
    """Number of elements of a box that are adjacent on the side with this order of axes."""
    run = 1
    for axis in order:
        run *= box[axis]
        if box[axis] < sizes[axis]:
            break
    return run


def _block(box: Shape, orders: tuple[list[int], list[int]]) -> int:
    """Number of adjacent elements that are moved as one block."""
    return box[orders[0][0]] if orders[0][0] == orders[1][0] else 1


def copy_boxes(kernel: Kernel, space: Space, box: Shape) -> None:
    """Copy a space (source, target) in boxes, which ``box_plans`` proposed."""
    orders = _orders(space)
    if orders is None or len(box) != len(space.sizes):
        raise ValueError(f"boxes {box} of a space {space.sizes}")
    counts = [ceil_div(size, extent) for size, extent in zip(space.sizes, box, strict=True)]
    source, target = space.views
    elements, each = math.prod(box), source.tensor.bytes_each
    token = dma_format(source.tensor.fmt).token
    with kernel.items(math.prod(counts)) as item:
        begins = [
            kernel.let(number * extent) for number, extent in zip(unravel(item, counts), box, strict=True)
        ]
        extents: list[Value] = [
            extent if size % extent == 0 else kernel.let(minimum(extent, size - begin))
            for size, extent, begin in zip(space.sizes, box, begins, strict=True)
        ]
        data, arranged = (kernel.buffer(name, elements * each) for name in ("box", "arranged"))
        loops = _loops(source, extents, orders[0])
        kernel.emit(f"rdma.{token}", dst=data, src=source.tensor.at(_first(source, begins)), **loops)
        _arrange(kernel, (data, arranged), extents, orders, each)
        loops = _loops(target, extents, orders[1])
        kernel.emit(f"wdma.{token}", dst=target.tensor.at(_first(target, begins)), src=arranged, **loops)


def _first(view: View, begins: list[Value]) -> Value:
    element: Value = view.offset
    for begin, stride in zip(begins, view.strides, strict=True):
        element = element + begin * stride
    return element


def _loops(view: View, extents: list[Value], order: list[int]) -> dict[str, Argument]:
    axes = [axis for axis in reversed(order) if extents[axis] != 1]
    return dma_loops([view.strides[axis] for axis in axes], [extents[axis] for axis in axes])


def _arrange(
    kernel: Kernel,
    places: tuple[Value, Value],
    extents: list[Value],
    orders: tuple[list[int], list[int]],
    each: int,
) -> None:
    """Move the elements of a box from the order of the source to that of the target."""
    source, target = orders
    steps: dict[int, Value] = {}
    step: Value = each
    for axis in source:
        steps[axis] = step
        step = step * extents[axis]
    same = source[0] == target[0]
    block: Value = extents[source[0]] * each if same else each
    moved = [axis for axis in target if extents[axis] != 1 and not (same and axis == target[0])]
    loops: dict[str, Argument] = {"n": block}
    total: Value = 1
    for level, axis in enumerate(moved):
        loops |= {f"src_stride{level}": steps[axis], f"src_iter{level}": extents[axis]}
        total = total * extents[axis]
    if moved:
        loops |= {"dst_stride0": block, "dst_iter0": total}
    kernel.emit("td.gatherscatter", dst=places[1], src0=places[0], **loops)
