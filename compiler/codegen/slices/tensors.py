"""Tensors in DDR, and index spaces divided into slices that fit the scratchpad."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from compiler.codegen.expr import Address, Value, minimum
from compiler.codegen.kernel import Argument, Kernel
from compiler.dialect import planes
from compiler.evaluation.sizes import Size, always, chosen, ever, here, largest, least
from compiler.graph import Array, Shape
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import SMALLEST_TAIL, aligned_channels, tail_width

LEVELS = 3
"""Loops of a DMA instruction, each with a stride."""

BLOCK = planes.BLOCK
"""Channels of a plane."""


@dataclass(frozen=True)
class DdrTensor:
    """A tensor in DDR. ``shape`` is in the order of storage; ``value`` has the data of a constant.

    ``blocked``: it is stored in planes of channels (NCx, ``shape`` is [N, ..., C]); otherwise it is compact.
    ``base`` is its address if that is not the symbol: a part of a tensor, or a buffer in the scratchpad of
    the tile (``codegen/writing/moves.py``). ``channels_last``: axis 1 of the specification is the last.
    """

    symbol: str
    fmt: Format
    shape: Shape
    value: Array | None = None
    blocked: bool = False
    base: Value | None = None
    channels_last: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes_each(self) -> int:
        return self.fmt.bits // 8

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one index to the next, per axis."""
        return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    def at(self, element: Value) -> Value:
        """The address of an element, counted in the order of storage."""
        return (Address(self.symbol) if self.base is None else self.base) + element * self.bytes_each

    def viewed(self, *shape: int) -> DdrTensor:
        """This tensor with its elements in another shape."""
        return replace(self, shape=tuple(shape))


@dataclass(frozen=True)
class View:
    """Elements of a tensor: index i of an index space is element ``offset + sum(i * strides)``."""

    tensor: DdrTensor
    strides: tuple[int, ...]
    offset: int = 0


def broadcast_view(tensor: DdrTensor, shape: Shape) -> View:
    """A tensor as a view of a shape to which it broadcasts."""
    missing = len(shape) - len(tensor.shape)
    strides = [
        0 if always(size == 1) else step for size, step in zip(tensor.shape, tensor.strides, strict=True)
    ]
    return View(tensor, (0,) * missing + tuple(strides))


def whole(tensor: DdrTensor) -> View:
    """All elements of a tensor in their order."""
    return View(tensor, tensor.strides)


@dataclass(frozen=True)
class Space:
    """An index space and the views over it, with neighbouring axes merged where every view allows it."""

    sizes: tuple[int, ...]
    views: tuple[View, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)


def collapse(shape: Shape, views: Sequence[View]) -> Space:
    """Merge neighbouring axes of an index space where every view has one stride for both."""
    axes: list[tuple[int, tuple[int, ...]]] = []
    for axis, size in enumerate(shape):
        steps = tuple(view.strides[axis] for view in views)
        if always(size == 1):
            continue
        if axes and all(always(outer == step * size) for outer, step in zip(axes[-1][1], steps, strict=True)):
            axes[-1] = (axes[-1][0] * size, steps)
        else:
            axes.append((size, steps))
    axes = axes or [(1, (1,) * len(views))]
    merged = [replace(view, strides=tuple(steps[i] for _, steps in axes)) for i, view in enumerate(views)]
    return Space(tuple(size for size, _ in axes), tuple(merged))


def element_spaces(operands: Sequence[DdrTensor], target: DdrTensor) -> list[Space]:
    """Index spaces that together have all elements of the target, each with a view of every operand.

    The view of the target is the last. It is one space, except for a blocked target with operands that
    broadcast or are compact. Then the whole planes are one space and the remaining channels another.
    """
    tensors = (*operands, target)
    if not target.blocked:
        return [collapse(target.shape, [broadcast_view(tensor, target.shape) for tensor in tensors])]
    flat = _flat_space(tensors, target)
    return [flat] if flat is not None else _plane_spaces(tensors, target)


def _flat_space(tensors: Sequence[DdrTensor], target: DdrTensor) -> Space | None:
    """All stored elements in their order, if every tensor has the same number of them or a single one."""
    whole = [tensor for tensor in tensors if tensor.size > 1 or tensor is target]
    if any(not t.blocked or t.shape != target.shape or _batch(t) != _batch(target) for t in whole):
        return None
    views = [View(tensor, (int(tensor in whole),)) for tensor in tensors]
    used = math.prod(target.shape[1:-1]) * aligned_channels(target.shape[-1], BLOCK)
    return Space(((target.shape[0] - 1) * _batch(target) + used,), tuple(views))


def _plane_spaces(tensors: Sequence[DdrTensor], target: DdrTensor) -> list[Space]:
    channels = target.shape[-1]
    blocks, rest = divmod(channels, BLOCK)
    spaces = []
    if blocks:
        sizes = (target.shape[0], blocks, *target.shape[1:-1], BLOCK)
        spaces.append(collapse(sizes, [_plane_view(t, target, 0, BLOCK) for t in tensors]))
    if rest:
        compact = any(not tensor.blocked and tensor.size > 1 for tensor in tensors)
        width = tail_width(channels, BLOCK) or BLOCK
        sizes = (target.shape[0], 1, *target.shape[1:-1], rest if compact else width)
        spaces.append(collapse(sizes, [_plane_view(t, target, blocks, width) for t in tensors]))
    return spaces


def _plane_view(tensor: DdrTensor, target: DdrTensor, first: int, width: int) -> View:
    """A view of a tensor over [N, planes, positions ..., lanes], with the planes from ``first``.

    They are ``width`` lanes wide if the tensor has as many channels as the target.
    """
    rank = len(target.shape)
    shape = (1,) * (rank - len(tensor.shape)) + tensor.shape
    steps = DdrTensor(tensor.symbol, tensor.fmt, (1, *shape[1:-1])).strides
    lanes = int(shape[-1] > 1 or target.shape[-1] == 1)
    if not tensor.blocked:
        compact = broadcast_view(tensor, target.shape).strides
        return View(tensor, (compact[0], BLOCK * lanes, *compact[1:]), first * BLOCK * lanes)
    positions = math.prod(shape[1:-1])
    stored = width if lanes else SMALLEST_TAIL
    inner = [
        step * stored if ever(size > 1) else 0 for step, size in zip(steps[1:], shape[1:-1], strict=False)
    ]
    batch = _batch(tensor) if ever(shape[0] > 1) else 0
    plane = positions * BLOCK * lanes
    return View(tensor, (batch, plane, *inner, lanes), first * plane)


def _batch(tensor: DdrTensor) -> int:
    """Stored elements of a batch of a blocked tensor, the gap at its end included."""
    positions = math.prod(tensor.shape[1:-1])
    return planes.image_bytes(positions, tensor.shape[-1], tensor.fmt.bits) // tensor.bytes_each


@dataclass(frozen=True)
class SlabPlan:
    """Divides an index space into slabs: all of its last ``depth`` axes, ``rows`` of the first of these at a
    time."""

    depth: int
    rows: int
    inner: int
    outer: int
    blocks: int

    @property
    def items(self) -> int:
        return self.outer * self.blocks

    @property
    def elements(self) -> int:
        """Elements of the largest slab."""
        return self.rows * self.inner


_GRAIN = 64
"""A space of one axis is divided at multiples of this many elements."""


def plan_slabs(sizes: tuple[int, ...], capacity: int, tiles: int) -> SlabPlan:
    """Return the largest slabs that leave no tile without work; ``capacity`` limits the elements of a slab.

    Slabs are as equal as the grain allows, because nothing overlaps with a short last one.
    """
    best = _plan(sizes, 1, capacity, tiles)
    for depth in range(2, min(LEVELS, len(sizes)) + 1):
        if here(math.prod(sizes[1 - depth :])) > capacity:
            break
        plan = _plan(sizes, depth, capacity, tiles)
        # Larger transfers are worth some idle tiles, but not more than half of them.
        if 2 * min(here(plan.items), tiles) >= min(here(best.items), tiles):
            best = plan
    return best


def _plan(sizes: tuple[int, ...], depth: int, capacity: int, tiles: int) -> SlabPlan:
    inner = math.prod(sizes[len(sizes) - depth + 1 :])
    outer = math.prod(sizes[:-depth])
    size = sizes[-depth]
    wanted = ceil_div(size, largest(1, tiles // outer))
    grain = _GRAIN if inner == 1 else 1
    rows = least(round_up(wanted, grain), largest(capacity // inner, 1), size)
    if grain > 1:
        rows = chosen(rows < size, chosen(rows > grain, rows // grain * grain, rows), rows)
    rows = least(rows, round_up(ceil_div(size, ceil_div(size, rows)), grain))
    return SlabPlan(depth, rows, inner, outer, ceil_div(size, rows))


@dataclass(frozen=True)
class Slab:
    """One slice of a space. ``extents`` are its sizes, ``origin`` the index of its first element."""

    extents: tuple[Value, ...]
    origin: tuple[Value, ...]

    @property
    def elements(self) -> Value:
        product: Value = 1
        for extent in self.extents:
            product = product * extent
        return product

    def first(self, view: View) -> Value:
        """Element of the view's tensor at which the slab begins."""
        element: Value = view.offset
        for index, stride in zip(self.origin, view.strides, strict=True):
            element = element + index * stride
        return element


@contextmanager
def slabs(kernel: Kernel, space: Space, plan: SlabPlan, first: int = 0) -> Iterator[Slab]:
    """Code for each slab of this tile; tile ``first`` has the first of all."""
    with kernel.items(plan.items, first) as item:
        outer, block = item // plan.blocks, item % plan.blocks
        axis = len(space.sizes) - plan.depth
        begin = kernel.let(block * plan.rows)
        rows = kernel.let(minimum(plan.rows, space.sizes[axis] - begin))
        origin = [*unravel(outer, space.sizes[:axis]), begin, *(0,) * (plan.depth - 1)]
        yield Slab((rows, *space.sizes[axis + 1 :]), tuple(origin))


def unravel(number: Value, sizes: Sequence[Value]) -> list[Value]:
    """The index of a row-major number, which must be in range."""
    index: list[Value] = []
    for axis, size in enumerate(sizes):
        below = math.prod(sizes[axis + 1 :])
        part = number // below
        index.append(part % size if axis else part)
    return index


def dma_loops(strides: Sequence[int], extents: Sequence[Value]) -> dict[str, Argument]:
    """The operands n, stride0, iter0, ... of a DMA instruction for these axes, the last one innermost.

    Strides are in elements.
    """
    axes = [(extent, step) for extent, step in zip(extents, strides, strict=True) if not always(extent == 1)]
    block: Value = 1
    while axes and isinstance(block, int | Size) and always(axes[-1][1] == block):
        block = axes.pop()[0] * block
    operands: dict[str, Argument] = {"n": block}
    if len(axes) > LEVELS:
        raise ValueError(f"{len(axes)} loops, a DMA instruction has {LEVELS}")
    for level, (extent, step) in enumerate(reversed(axes)):
        operands |= {f"stride{level}": step, f"iter{level}": extent}
    return operands


_SIGNED = {Format.UINT8: Format.INT8, Format.UINT16: Format.INT16, Format.UINT32: Format.INT32}


def dma_format(fmt: Format) -> Format:
    """The format in which the DMA moves elements of at most 32 bits: integers as unsigned ones."""
    return _SIGNED.get(fmt, fmt)


def zero_of(fmt: Format) -> float:
    """Zero as the operand of a fill: a whole number for integers."""
    return 0.0 if fmt.is_float else 0


def load_slab(kernel: Kernel, view: View, slab: Slab, target: Value) -> None:
    """Read a slab of a view into consecutive scratchpad bytes."""
    strides = view.strides[len(view.strides) - len(slab.extents) :]
    tensor = view.tensor
    loops = dma_loops(strides, slab.extents)
    kernel.emit(f"rdma.{dma_format(tensor.fmt).token}", dst=target, src=tensor.at(slab.first(view)), **loops)


def store_slab(kernel: Kernel, view: View, slab: Slab, source: Value) -> None:
    """Write consecutive scratchpad bytes to a slab of a view."""
    strides = view.strides[len(view.strides) - len(slab.extents) :]
    tensor = view.tensor
    loops = dma_loops(strides, slab.extents)
    kernel.emit(f"wdma.{dma_format(tensor.fmt).token}", dst=tensor.at(slab.first(view)), src=source, **loops)


def in_dma_elements(shape: Shape, views: Sequence[View]) -> tuple[Shape, list[View]]:
    """View the bytes in a format that the DMA moves: INT64 as pairs of INT32."""
    fmt = views[0].tensor.fmt
    if fmt is not Format.INT64:
        return shape, [replace(v, tensor=replace(v.tensor, fmt=dma_format(fmt))) for v in views]
    return (*shape, 2), [
        View(
            replace(v.tensor, fmt=Format.INT32, shape=(*v.tensor.shape, 2)),
            (*(2 * step for step in v.strides), 1),
            2 * v.offset,
        )
        for v in views
    ]


def copy_views(kernel: Kernel, shape: Shape, source: View, target: View) -> None:
    """Move the elements of one view to another of the same index space and element type."""
    shape, (source, target) = in_dma_elements(shape, (source, target))
    space = collapse(shape, (source, target))
    capacity = kernel.budget // (2 * source.tensor.bytes_each)
    plan = plan_slabs(space.sizes, capacity, kernel.target.tiles)
    with slabs(kernel, space, plan) as slab:
        data = kernel.buffer("data", plan.elements * source.tensor.bytes_each)
        load_slab(kernel, space.views[0], slab, data)
        store_slab(kernel, space.views[1], slab, data)


@dataclass(frozen=True)
class Stretch:
    """Equal blocks of an axis: ``count`` blocks of ``size``, from index ``start``."""

    start: int
    size: int
    count: int


def stretches(extent: int, size: int) -> list[Stretch]:
    """An axis as blocks of ``size``, and a shorter one for the rest.

    Where the extent depends on the sizes of a run, the last block is the rest, also if it is not shorter.
    """
    if isinstance(extent, Size):
        before = (extent - 1) // size
        last = Stretch(before * size, extent - before * size, 1)
        return [Stretch(0, size, before), last] if ever(before > 0) else [last]
    whole_blocks, rest = divmod(extent, size)
    parts = []
    if whole_blocks:
        parts.append(Stretch(0, size, whole_blocks))
    if rest:
        parts.append(Stretch(whole_blocks * size, rest, 1))
    return parts
