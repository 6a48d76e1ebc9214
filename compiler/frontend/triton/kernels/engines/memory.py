"""Loads and stores of blocks: pointers along axes become strided copies of the box where the mask holds.

A transfer has consecutive bytes in the scratchpad. A box whose bytes are not consecutive in the block goes
through a buffer, from which the TDMA spreads it into the block, or into which it collects it. No byte outside
of the box is read or written. A box that may leave its array is checked before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from compiler.codegen.expr import Address, Value, bounds, maximum, minimum
from compiler.codegen.kernel import Argument
from compiler.codegen.slices.tensors import LEVELS, dma_loops
from compiler.frontend.triton.kernels.values import (
    ELEMENT_FORMATS,
    STILL,
    Indices,
    KernelValue,
    Pointers,
    Region,
    Shape,
    Span,
    Splat,
    SpmBlock,
    Steps,
    UnsupportedOperation,
    everywhere,
)
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_BLOCK_STRIDE, LARGEST_EXTENT, MOST_MOVES

from .blocks import BlockCode, strides_of
from .shapes import ShapeCode, turned

_WORD = 32
"""Bits of the widest element that the DMA moves."""


@dataclass(frozen=True)
class Transfer:
    """A box of a block and the place of its elements in DDR.

    ``pointers`` name the array; ``axes`` are the steps in elements from ``first``; ``region`` is the box.
    """

    pointers: Pointers
    first: Value
    axes: tuple[Steps, ...]
    region: Region

    @property
    def ends(self) -> tuple[Value, Value]:
        """Return the first and the last element of a box that is not empty, whose steps go forward."""
        first = last = self.first
        for axis, span in zip(self.axes, self.region.spans, strict=True):
            first, last = first + span.low * axis.step, last + (span.high - 1) * axis.step
        return first, last

    def narrowed(self, axis: int, span: Span, steps: Steps, first: Value) -> Transfer:
        """Return this transfer with other indices along one axis, the first of them at another address."""
        spans = tuple(span if at == axis else each for at, each in enumerate(self.region.spans))
        axes = tuple(steps if at == axis else each for at, each in enumerate(self.axes))
        return replace(self, first=first, axes=axes, region=replace(self.region, spans=spans))


def symbol_of(argument: str) -> str:
    """Return the symbol of the array that an argument of the kernel is."""
    return f"array.{argument}"


def start_of(pointers: Pointers) -> Value:
    """Return the address of the array to which pointers belong, in the engines' view."""
    return Address(symbol_of(pointers.argument)) if pointers.base is None else pointers.base


class MemoryCode:
    """Writes loads and stores with the blocks of a kernel."""

    def __init__(self, blocks: BlockCode) -> None:
        self.blocks, self.kernel, self.shapes = blocks, blocks.kernel, ShapeCode(blocks)
        self.loaded: set[str] = set()
        """The arguments from which the kernel loads."""
        self.stored: set[str] = set()
        """The arguments to which it stores."""
        self.check: Callable[[Pointers, Value, Value], None]
        """Stops the program unless the elements from one to another are in their array."""

    def load(self, pointers: Pointers, mask: KernelValue | None, other: KernelValue | None) -> SpmBlock:
        """Load the elements where the mask holds, ``other`` elsewhere, 0 without it."""
        self.loaded.add(pointers.argument)
        if _runs_down(pointers.indices):
            return turned(self._loaded(*self._turned(pointers, mask, other)))
        return self._loaded(pointers, mask, other)

    def _loaded(self, pointers: Pointers, mask: KernelValue | None, other: KernelValue | None) -> SpmBlock:
        region = _region(mask, pointers.shape)
        transfer = _transfer(pointers, region)
        stored = [
            extent > 1 and not (axis.constant and region.whole(number))
            for number, (axis, extent) in enumerate(zip(transfer.axes, pointers.shape, strict=True))
        ]
        fmt = _format(pointers.element)
        data = self.blocks.landed(pointers.element, fmt, pointers.shape, stored)
        self._fill_rest(data, region, other)
        if not region.nowhere:
            with self.blocks.inside(region):
                self.move(transfer, data, storing=False)
        return data

    def store(self, pointers: Pointers, value: KernelValue, mask: KernelValue | None) -> None:
        """Write the elements where the mask holds."""
        self.stored.add(pointers.argument)
        if _runs_down(pointers.indices):
            value = self.shapes.transpose(value, (1, 0))
            pointers, mask, _ = self._turned(pointers, mask, None)
        region = _region(mask, pointers.shape)
        if region.nowhere:
            return
        data = self.data_to_store(pointers, value)
        data = self.blocks.compact(data)
        with self.blocks.inside(region):
            self.move(_transfer(pointers, region), data, storing=True)

    def _turned(
        self, pointers: Pointers, mask: KernelValue | None, other: KernelValue | None
    ) -> tuple[Pointers, KernelValue | None, KernelValue | None]:
        """Return the operands with their two axes exchanged, so that neighbours in DDR are in one row."""
        turned = self.shapes.transpose(pointers, (1, 0))
        assert isinstance(turned, Pointers)
        rest = [None if each is None else self.shapes.transpose(each, (1, 0)) for each in (mask, other)]
        return turned, rest[0], rest[1]

    def data_to_store(self, pointers: Pointers, value: KernelValue) -> SpmBlock:
        """Return a value with all its elements, as a store takes it."""
        whole = (True,) * len(pointers.shape)
        if isinstance(value, Splat):
            return self.blocks.full(value)
        if not isinstance(value, SpmBlock):
            raise UnsupportedOperation("integers that are computed from positions cannot be stored")
        if value.fmt is not _format(pointers.element):
            raise UnsupportedOperation(f"a value of {value.element} to a pointer to {pointers.element}")
        return self.blocks.spread(self.blocks.straight(value), whole)

    def _fill_rest(self, data: SpmBlock, region: Region, other: KernelValue | None) -> None:
        """Fill the block outside of the box, if there may be anything."""
        if region.everywhere:
            return
        spans = [(axis, span) for axis, span in enumerate(region.spans) if not region.whole(axis)]
        conditional = not region.conditions and len(spans) == 1
        shorter = [(spans[0][1].high - spans[0][1].low, data.shape[spans[0][0]])] if conditional else []
        source = None if other is None or _known_number(other) is not None else self._full(other, data)
        with self.blocks.when(shorter):
            if source is not None:
                self.blocks.copy(data, source)
            else:
                self.blocks.fill(data, _known_number(other) or 0)

    def _full(self, other: KernelValue, data: SpmBlock) -> SpmBlock:
        """Return the numbers outside of the box, with the axes of the block written out."""
        return self.blocks.compact(self.blocks.spread(self.blocks.typed(other, data.element), data.stored))

    def fill_whole(self, data: SpmBlock, other: KernelValue | None) -> None:
        """Fill a whole block with the elements of ``other``, 0 without it."""
        number = 0 if other is None else _known_number(other)
        if number is None:
            assert other is not None
            self.blocks.copy(data, self._full(other, data))
        else:
            self.blocks.fill(data, number)

    # --- boxes --------------------------------------------------------------------------------------------

    def move(self, transfer: Transfer, data: SpmBlock, storing: bool) -> None:
        """Move a box, in pieces where positions wrap around."""
        wrapped = next((at for at, axis in enumerate(transfer.axes) if axis.modulus), None)
        if wrapped is None:
            self._move_box(transfer, data, storing)
            return
        axis, span = transfer.axes[wrapped], transfer.region.spans[wrapped]
        modulus, start = axis.modulus, self.kernel.let(axis.start)
        first, end = (start + span.low) // modulus, (start + span.high + (modulus - 1)) // modulus
        with self.kernel.loop(end, first) as turn:
            begin = self.kernel.let(turn * modulus - start)
            piece = Span(
                self.kernel.let(maximum(span.low, begin)),
                self.kernel.let(minimum(span.high, begin + modulus)),
            )
            at = transfer.first - begin * axis.step
            self.move(transfer.narrowed(wrapped, piece, Steps(axis.step), at), data, storing)

    def _move_box(self, transfer: Transfer, data: SpmBlock, storing: bool) -> None:
        """Move a box, directly if its bytes follow each other in the block."""
        self.check(transfer.pointers, *transfer.ends)
        region = transfer.region
        kept = [axis for axis, extent in enumerate(data.kept) if extent > 1]
        inner = [axis for axis in kept[1:] if not region.whole(axis)]
        if not inner:
            self._transfer(transfer, data, storing)
            return
        lengths = {axis: region.spans[axis].high - region.spans[axis].low for axis in inner}
        if len(inner) == 1:
            (axis,) = inner
            extent = data.shape[axis]
            with self.blocks.when([(extent - 1, lengths[axis])]):
                filled = transfer.narrowed(axis, Span(0, extent), transfer.axes[axis], transfer.first)
                self._transfer(filled, data, storing)
            with self.blocks.when([(lengths[axis], extent)]):
                self._transfer_packed(transfer, data, storing)
        else:
            self._transfer_packed(transfer, data, storing)

    def _transfer(self, transfer: Transfer, data: SpmBlock, storing: bool) -> None:
        """Write one instruction; all axes of the block except the first have their whole extent."""
        spans, place = transfer.region.spans, data.address
        kept = [axis for axis, extent in enumerate(data.kept) if extent > 1]
        steps = strides_of(data.kept)
        for axis in kept[:1]:
            place = place + spans[axis].low * (steps[axis] * data.size)
        self._emit(transfer, kept, data, place, storing)

    def _transfer_packed(self, transfer: Transfer, data: SpmBlock, storing: bool) -> None:
        """Write one instruction to or from a buffer without gaps, and a move between it and the block."""
        kept = [axis for axis, extent in enumerate(data.kept) if extent > 1]
        buffer = self.kernel.buffer("box", data.count * data.size)
        if not storing:
            self._emit(transfer, kept, data, buffer, storing)
        moves = _moves(transfer.region, data, kept)
        in_block = ("src", "src0") if storing else ("dst", "dst")
        packed = ("dst", "dst") if storing else ("src", "src0")
        operands: dict[str, Argument] = {
            in_block[1]: moves.place,
            packed[1]: buffer,
            "n": moves.run * data.size,
        }
        pitch: Value = moves.run * data.size
        for level, (extent, stride) in enumerate(moves.loops):
            operands |= {f"{in_block[0]}_stride{level}": stride, f"{in_block[0]}_iter{level}": extent}
            operands |= {f"{packed[0]}_stride{level}": pitch, f"{packed[0]}_iter{level}": extent}
            pitch = pitch * extent
        self.kernel.emit("td.gatherscatter", **operands)
        if storing:
            self._emit(transfer, kept, data, buffer, storing)

    def _emit(
        self, transfer: Transfer, kept: Sequence[int], data: SpmBlock, place: Value, storing: bool
    ) -> None:
        """Write the instruction that moves a box between DDR and consecutive bytes from ``place``."""
        spans = transfer.region.spans
        steps = [known_step(transfer.axes[axis]) for axis in kept]
        extents = [spans[axis].high - spans[axis].low for axis in kept]
        token = Format.INT32.token if data.fmt.bits > _WORD else data.fmt.token
        try:
            loops = copy_loops(data.fmt, steps, extents)
        except ValueError:
            found = f"steps {', '.join(map(str, steps))} of {len(kept)} axes"
            raise UnsupportedOperation(f"{found}; a copy has a run of elements and {LEVELS} loops") from None
        at = start_of(transfer.pointers) + transfer.ends[0] * data.size
        if storing:
            self.kernel.emit(f"wdma.{token}", dst=at, src=place, **loops)
        else:
            self.kernel.emit(f"rdma.{token}", dst=place, src=at, **loops)


def copy_loops(fmt: Format, steps: Sequence[int], extents: Sequence[Value]) -> dict[str, Argument]:
    """Return the loops of a copy, of words for elements of 64 bits; ValueError if there are too many."""
    words = fmt.bits // _WORD
    if words > 1:
        steps, extents = [*(step * words for step in steps), 1], [*extents, words]
    return dma_loops(steps, extents)


@dataclass(frozen=True)
class _Moves:
    """The place of a box in its block: first address, elements of a run, and loops from the inside."""

    place: Value
    run: Value
    loops: list[tuple[Value, int]]


def _moves(region: Region, data: SpmBlock, kept: Sequence[int]) -> _Moves:
    steps, place = strides_of(data.kept), data.address
    loops: list[tuple[Value, int]] = []
    for axis in kept:
        span, stride = region.spans[axis], steps[axis] * data.size
        place = place + span.low * stride
        loops.insert(0, (span.high - span.low, stride))
    run = loops.pop(0)[0]
    if len(loops) > LEVELS:
        raise UnsupportedOperation(f"a masked block of {len(loops) + 1} axes; at most {LEVELS + 1}")
    if math.prod(bounds(extent)[1] for extent, _ in loops) > MOST_MOVES:
        raise UnsupportedOperation(f"a masked block of more than {MOST_MOVES} rows")
    return _Moves(place, run, loops)


def _known_number(value: KernelValue | None) -> float | int | None:
    """Return the number that all elements equal, if it is known at compile time."""
    if isinstance(value, Splat):
        return value.number
    if isinstance(value, Indices) and value.uniform and isinstance(value.offset, int):
        return value.offset
    return None


def _runs_down(indices: Indices) -> bool:
    """Return True if the elements of a column are neighbours in DDR, and those of a row are not."""
    if len(indices.shape) != 2 or min(indices.shape) == 1 or max(indices.shape) > LARGEST_EXTENT:
        return False
    down, across = (axis.step for axis in indices.axes)
    return down == 1 and across not in (0, 1)


def _region(mask: KernelValue | None, shape: Shape) -> Region:
    if mask is None:
        return everywhere(shape)
    if isinstance(mask, Region):
        return mask
    raise UnsupportedOperation(
        "a mask must compare positions along one axis at a time; this one is not a box of indices"
    )


def _transfer(pointers: Pointers, region: Region) -> Transfer:
    indices = pointers.indices
    axes = tuple(
        STILL if extent == 1 else axis for axis, extent in zip(indices.axes, indices.shape, strict=True)
    )
    first = indices.offset
    for axis, extent in zip(indices.axes, indices.shape, strict=True):
        if extent == 1 and axis.modulus:
            first = first + axis.start * axis.step
    return Transfer(pointers, first, axes, region)


def known_step(axis: Steps) -> int:
    """Return the step of an axis of a copy; UnsupportedOperation if the DMA does not take it."""
    step = axis.step
    if not isinstance(step, int):
        raise UnsupportedOperation("a stride that is not known when compiling")
    if not 0 <= step <= LARGEST_BLOCK_STRIDE:
        raise UnsupportedOperation(f"a stride of {step} elements; allowed are 0..{LARGEST_BLOCK_STRIDE}")
    return step


def _format(element: str) -> Format:
    if element not in ELEMENT_FORMATS:
        raise UnsupportedOperation(f"elements of type {element}; supported are {', '.join(ELEMENT_FORMATS)}")
    return ELEMENT_FORMATS[element]
