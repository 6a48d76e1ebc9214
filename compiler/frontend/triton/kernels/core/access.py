"""Loads and stores whose places or masks are data.

If each index in the data selects a long row, the core computes the row's place and the DMA copies it;
otherwise the core copies single elements. It goes through the elements of the block in row-major order, so
the last of several stores to one place remains. An element outside of its array stops the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, Variable
from compiler.codegen.slices.scalar import ScalarCode
from compiler.frontend.triton.kernels.engines.blocks import strides_of
from compiler.frontend.triton.kernels.engines.memory import (
    MemoryCode,
    Transfer,
    copy_loops,
    known_step,
    start_of,
)
from compiler.frontend.triton.kernels.values import (
    ELEMENT_FORMATS,
    FLOAT_FORMATS,
    STILL,
    Computed,
    Indices,
    KernelValue,
    Pointers,
    Region,
    SpmBlock,
    range_of,
    varies,
)
from tx8isa.numbers.limits import LARGEST_BLOCK_STRIDE

from .compute import CoreCode
from .elements import LOADS, STORES, CoreLoop, Place, formula_at
from .messages import SIGNED, MessageCode
from .nodes import conditions_of

FEWEST_ELEMENTS = 16
"""The fewest elements of a row for which the DMA takes less time than the core."""


@dataclass(frozen=True)
class Access:
    """A load or a store of data; the core walks the first ``axes`` axes index by index."""

    pointers: Pointers
    region: Region
    conditions: list[KernelValue]
    axes: int

    @property
    def rows(self) -> bool:
        """True if the DMA copies the elements that an index selects."""
        return math.prod(self.pointers.shape[self.axes :]) >= FEWEST_ELEMENTS

    @property
    def walked(self) -> Indices:
        """The formula of the place with only the steps of the walked axes."""
        indices = self.pointers.indices
        still = (STILL,) * (len(indices.axes) - self.axes)
        return replace(indices, axes=(*indices.axes[: self.axes], *still))

    @property
    def parts(self) -> list[KernelValue]:
        """The values that the core reads for an element: first its conditions, then the terms of its
        index."""
        return [*self.conditions, *([] if self.pointers.data is None else [self.pointers.data])]


Visit = Callable[[CoreLoop, Place, Value], None]
"""Writes the code for an index and the element of the array that it selects."""


def _is_even(pointers: Pointers) -> bool:
    """Return True if the DMA takes the steps of the axes: known at compile time, and going forward."""
    return all(
        isinstance(axis.step, int) and 0 <= axis.step <= LARGEST_BLOCK_STRIDE
        for axis, extent in zip(pointers.indices.axes, pointers.shape, strict=True)
        if extent > 1
    )


def _outer_axes(pointers: Pointers, region: Region) -> int:
    """Count the first axes for which a copy of the DMA has no loop, with the mask and without it."""
    axes, spans = pointers.indices.axes, region.spans
    element = ELEMENT_FORMATS[pointers.element]
    long = [number for number, extent in enumerate(pointers.shape) if extent > 1]
    for number, first in enumerate(long):
        steps = [known_step(axes[axis]) for axis in long[number:]]
        masked = [spans[axis].high - spans[axis].low for axis in long[number:]]
        with suppress(ValueError):
            copy_loops(element, steps, masked)
            copy_loops(element, steps, [pointers.shape[axis] for axis in long[number:]])
            return first if number else 0
    return 0


def _is_copy(pointers: Pointers, region: Region, conditions: list[KernelValue]) -> bool:
    """Return True if one copy of the DMA moves all elements."""
    known = pointers.data is None and not conditions and _is_even(pointers)
    return known and not _outer_axes(pointers, region)


class AccessCode:
    """Writes loads and stores. ``sizes`` are the bytes of the arrays by their arguments."""

    def __init__(
        self, core: CoreCode, memory: MemoryCode, messages: MessageCode, sizes: Mapping[str, int]
    ) -> None:
        self.core, self.memory, self.messages, self.sizes = core, memory, messages, sizes
        self.kernel, self.blocks = core.kernel, core.blocks
        self._acquired: list[tuple[int, Pointers]] = []
        """The lines of code after which the cache is invalidated, and the loads that follow."""
        memory.check = self.check

    def load(
        self, pointers: Pointers, mask: KernelValue | None, other: KernelValue | None
    ) -> SpmBlock | Indices:
        """Load the elements where the mask holds, ``other`` elsewhere, 0 without it."""
        region, conditions = conditions_of(mask, pointers.shape)
        if not pointers.shape and pointers.element not in FLOAT_FORMATS:
            return self._single(pointers, region, other)
        if _is_copy(pointers, region, conditions):
            return self.memory.load(pointers, region, other)
        self.memory.loaded.add(pointers.argument)
        access = self._access(pointers, region, conditions)
        stored = [extent > 1 for extent in pointers.shape]
        data = self.blocks.empty(pointers.element, ELEMENT_FORMATS[pointers.element], pointers.shape, stored)
        if conditions or not region.everywhere:
            self.memory.fill_whole(data, other)
        self._copied(access, data, storing=False)
        return data

    def store(self, pointers: Pointers, value: KernelValue, mask: KernelValue | None) -> None:
        """Write the elements where the mask holds."""
        region, conditions = conditions_of(mask, pointers.shape)
        if isinstance(value, Indices | Computed):
            value = self.core.block(value, pointers.element)
        if _is_copy(pointers, region, conditions):
            self.memory.store(pointers, value, region)
            return
        self.memory.stored.add(pointers.argument)
        data = self.blocks.compact(self.memory.data_to_store(pointers, value))
        self._copied(self._access(pointers, region, conditions), data, storing=True)

    def _access(self, pointers: Pointers, region: Region, conditions: list[KernelValue]) -> Access:
        """Chooses the walked axes: of data, or beyond a copy's loops; all if the core copies elements."""
        access = Access(pointers, region, conditions, 0)
        if not _is_even(pointers):
            return replace(access, axes=len(pointers.shape))
        parts = [varies(part) for part in access.parts]
        moving = (axis + 1 for part in parts for axis, moves in enumerate(part) if moves)
        axes = max((*moving, _outer_axes(pointers, region)))
        access = replace(access, axes=axes)
        return access if access.rows else replace(access, axes=len(pointers.shape))

    # --- walks ----------------------------------------------------------------------------------------------

    def _copied(self, access: Access, data: SpmBlock, storing: bool) -> None:
        """Copy the elements that each index of the walked axes selects."""

        def visit(loop: CoreLoop, place: Place, element: Value) -> None:
            if access.rows:
                self._row(access, data, place, element, storing)
            else:
                self._element(loop, access.pointers, data, place, element, storing)

        if not storing and not access.rows:
            self._acquire(access.pointers)
        self.walk(access, [data], visit)

    def walk(self, access: Access, blocks: Sequence[SpmBlock], visit: Visit) -> None:
        """Write the code of ``visit`` for each selected element, or row; it uses ``blocks``."""
        if access.region.nowhere:
            return
        core = self.core
        parts = core.prepared(access.parts)
        core.begin()
        with self.blocks.inside(access.region), self.kernel.registers.scope():
            loop = CoreLoop(self.kernel, [*parts, *blocks])
            limits = [(span.low, span.high) for span in access.region.spans[: access.axes]]
            with loop.over(limits) as place:
                whole = (*place, *(0 for _ in access.region.spans[access.axes :]))
                with self._selected(loop, access, parts, whole) as element:
                    visit(loop, place, element)
        core.end()
        core.alive([*parts, *blocks])

    def elements(self, pointers: Pointers, mask: KernelValue | None) -> Access:
        """Return the access to all elements that a mask selects, one by one."""
        region, conditions = conditions_of(mask, pointers.shape)
        return Access(pointers, region, conditions, len(pointers.shape))

    @contextmanager
    def _selected(
        self, loop: CoreLoop, access: Access, parts: Sequence[KernelValue], place: Place
    ) -> Iterator[Value]:
        """Yield the element of the array at an index, if the conditions hold there."""
        with loop.at(place, parts) as registers, ExitStack() as stack:
            for register in registers[: len(access.conditions)]:
                stack.enter_context(self.kernel.if_below(0, Variable(register, 0, 1)))
            element = formula_at(access.walked, place)
            data = access.pointers.data
            if data is not None:
                element = element + Variable(registers[-1], *range_of(data.element))
            yield self.kernel.let(element)

    def _element(
        self, loop: CoreLoop, pointers: Pointers, data: SpmBlock, place: Place, element: Value, storing: bool
    ) -> None:
        self.check(pointers, element)
        with self.kernel.registers.scope():
            far = self.address(pointers, element, past_cache=storing)
            near = loop.address(data, place)
            register = self.kernel.registers.take()
            source, target = (near, far) if storing else (far, near)
            loop.code.emit(LOADS[data.fmt.bits], register, f"0({source})")
            loop.code.emit(STORES[data.fmt.bits], register, f"0({target})")

    def address(self, pointers: Pointers, element: Value, past_cache: bool = False) -> str:
        """Return a register with the address of an element of an array.

        Stores bypass the cache of the core: tiles store to elements of the same line.
        """
        size = ELEMENT_FORMATS[pointers.element].bits // 8
        windows = self.kernel.target.machine.windows
        window = windows.ddr_uncached if past_cache else windows.ddr_cached
        base = start_of(pointers) + (window - windows.ddr_engine)
        at = base + element * size
        self.kernel.keep_alive(at)
        return self.kernel.registers.compute(at)

    def _acquire(self, pointers: Pointers) -> None:
        """Invalidate the cache, if the kernel stores to the array: see ``settle``."""
        self.core.begin()
        self._acquired.append((self.kernel.out.count, pointers))
        ScalarCode(self.kernel).acquire()

    def settle(self) -> None:
        """Erase the invalidations before loads from arrays to which the kernel does not store after all.

        The contents of such an array are in no cache, as they are older than the kernel.
        """
        for line, pointers in self._acquired:
            known = pointers.base is None
            if not (pointers.argument in self.memory.stored if known else self.memory.stored):
                self.kernel.out.erase(line, line + 2)

    def check(self, pointers: Pointers, *elements: Value) -> None:
        """Stop the program if an element is outside of its array; write no code if none can be."""
        first, end = self._limits(pointers)
        forms, registers, out = self.kernel.registers.forms, self.kernel.registers, self.kernel.out
        loaded = pointers.base is not None
        array = "the array at an address that was loaded" if loaded else f"'{pointers.argument}'"
        for element in elements:
            if forms.is_below(first - 1, element) and forms.is_below(element, end):
                continue
            with registers.scope():
                place, size = registers.compute(element - first), registers.compute(end - first)
                out.instruction("bltu", place, size, "1f")
            found = [element - first, end - first]
            self.messages.stop(f"element {SIGNED} of {array}, which has {SIGNED}", found)
            out.label("1")

    def _limits(self, pointers: Pointers) -> tuple[Value, Value]:
        """Returns the first element of an array and the one after its last."""
        size = ELEMENT_FORMATS[pointers.element].bits // 8
        if pointers.base is None:
            return 0, self.sizes[pointers.argument] // size
        before, after = pointers.room
        return 0 - before // size, after // size

    def _row(self, access: Access, data: SpmBlock, place: Place, element: Value, storing: bool) -> None:
        """Write the DMA's copy of the remaining axes; it begins at an element."""
        pointers, axes = access.pointers, access.axes
        steps, spans = pointers.indices.axes[axes:], access.region.spans[axes:]
        at = data.address
        for index, step in zip(place, strides_of(data.kept), strict=False):
            at = at + index * (step * data.size)
        shape = pointers.shape[axes:]
        row = replace(data, address=self.kernel.let(at), shape=shape, stored=data.stored[axes:])
        box = Transfer(pointers, element, steps, Region(spans, (), shape))
        self.memory.move(box, row, storing)

    # --- single numbers -------------------------------------------------------------------------------------

    def _single(self, pointers: Pointers, region: Region, other: KernelValue | None) -> Indices:
        """Load an integer of an array into a register of its own."""
        self.memory.loaded.add(pointers.argument)
        self._acquire(pointers)
        element, bits = pointers.element, ELEMENT_FORMATS[pointers.element].bits
        register = self.kernel.registers.take()
        number = other.offset if isinstance(other, Indices) else 0
        self.core.begin()
        with self.kernel.registers.scope():
            self.kernel.out.instruction("mv", register, self.kernel.registers.compute(number))
            with self.blocks.when(region.conditions):
                self.check(pointers, pointers.indices.offset)
                at = self.address(pointers, pointers.indices.offset)
                self.kernel.out.instruction(LOADS[bits], register, f"0({at})")
        return Indices(self.kernel.registers.hold(register, *range_of(element)))
