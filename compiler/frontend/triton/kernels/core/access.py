"""Loads and stores whose places or masks are data.

Where each index of data selects a long row, the core computes where the row is and the DMA copies it;
otherwise the core copies single elements. Elements are in row-major order of the block, so the last of
several stores to one place stays. An element outside of its array stops the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, Variable, bounds
from compiler.frontend.triton.kernels.engines.blocks import strides_of
from compiler.frontend.triton.kernels.engines.memory import MemoryCode, Transfer, start_of
from compiler.frontend.triton.kernels.values import (
    ELEMENT_FORMATS,
    FLOAT_FORMATS,
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
"""Elements of a row from which on the DMA takes less time than the core."""


@dataclass(frozen=True)
class Access:
    """A load or a store of data; the core walks the first ``axes`` axes index by index."""

    pointers: Pointers
    region: Region
    conditions: list[KernelValue]
    axes: int

    @property
    def rows(self) -> bool:
        """Whether the DMA copies what an index selects."""
        return math.prod(self.pointers.shape[self.axes :]) >= FEWEST_ELEMENTS

    @property
    def parts(self) -> list[KernelValue]:
        """The values that the core reads for an element: its conditions, then the terms of its index."""
        return [*self.conditions, *([] if self.pointers.data is None else [self.pointers.data])]


Visit = Callable[[CoreLoop, Place, Value], None]
"""Writes the code for an index and the element of the array that it selects."""


def _is_even(pointers: Pointers) -> bool:
    """Whether the DMA knows the steps of the axes: they are known when compiling, and go forward."""
    return all(
        isinstance(axis.step, int) and 0 <= axis.step <= LARGEST_BLOCK_STRIDE
        for axis, extent in zip(pointers.indices.axes, pointers.shape, strict=True)
        if extent > 1
    )


class AccessCode:
    """Writes loads and stores. ``sizes`` are the elements of the arrays by their arguments."""

    def __init__(
        self, core: CoreCode, memory: MemoryCode, messages: MessageCode, sizes: Mapping[str, int]
    ) -> None:
        self.core, self.memory, self.messages, self.sizes = core, memory, messages, sizes
        self.kernel, self.blocks = core.kernel, core.blocks

    def load(
        self, pointers: Pointers, mask: KernelValue | None, other: KernelValue | None
    ) -> SpmBlock | Indices:
        """The elements where the mask holds, ``other`` elsewhere, 0 without it."""
        region, conditions = conditions_of(mask, pointers.shape)
        if not pointers.shape and pointers.element not in FLOAT_FORMATS:
            return self._single(pointers, region, other)
        if pointers.data is None and not conditions and _is_even(pointers):
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
        if pointers.data is None and not conditions and _is_even(pointers):
            self.memory.store(pointers, value, region)
            return
        self.memory.stored.add(pointers.argument)
        data = self.blocks.compact(self.memory.data_to_store(pointers, value))
        self._copied(self._access(pointers, region, conditions), data, storing=True)

    def _access(self, pointers: Pointers, region: Region, conditions: list[KernelValue]) -> Access:
        """Which axes are walked: those of data, and all if single elements are copied."""
        access = Access(pointers, region, conditions, 0)
        if not _is_even(pointers):
            return replace(access, axes=len(pointers.shape))
        parts = [varies(part) for part in access.parts]
        axes = max((axis + 1 for part in parts for axis, moves in enumerate(part) if moves), default=0)
        access = replace(access, axes=axes)
        return access if access.rows else replace(access, axes=len(pointers.shape))

    # --- walks ----------------------------------------------------------------------------------------------

    def _copied(self, access: Access, data: SpmBlock, storing: bool) -> None:
        """Copy what each index of the walked axes selects."""

        def visit(loop: CoreLoop, place: Place, element: Value) -> None:
            if access.rows:
                self._row(access, data, place, element, storing)
            else:
                self._element(loop, access.pointers, data, place, element, storing)

        self.walk(access, [data], visit)

    def walk(self, access: Access, blocks: Sequence[SpmBlock], visit: Visit) -> None:
        """Write what ``visit`` does with each element, or row, that is selected; it uses ``blocks``."""
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
        """All elements that a mask selects, one by one."""
        region, conditions = conditions_of(mask, pointers.shape)
        return Access(pointers, region, conditions, len(pointers.shape))

    @contextmanager
    def _selected(
        self, loop: CoreLoop, access: Access, parts: Sequence[KernelValue], place: Place
    ) -> Iterator[Value]:
        """The element of the array at an index, if the conditions hold there."""
        with loop.at(place, parts) as registers, ExitStack() as stack:
            for register in registers[: len(access.conditions)]:
                stack.enter_context(self.kernel.if_below(0, Variable(register, 0, 1)))
            element = formula_at(access.pointers.indices, place)
            data = access.pointers.data
            if data is not None:
                element = element + Variable(registers[-1], *range_of(data.element))
            yield self.kernel.let(element)

    def _element(
        self, loop: CoreLoop, pointers: Pointers, data: SpmBlock, place: Place, element: Value, storing: bool
    ) -> None:
        self.check(pointers, element)
        with self.kernel.registers.scope():
            far = self.address(pointers, element)
            near = loop.address(data, place)
            register = self.kernel.registers.take()
            source, target = (near, far) if storing else (far, near)
            loop.code.emit(LOADS[data.fmt.bits], register, f"0({source})")
            loop.code.emit(STORES[data.fmt.bits], register, f"0({target})")

    def address(self, pointers: Pointers, element: Value) -> str:
        """A register with the address of an element of an array."""
        size = ELEMENT_FORMATS[pointers.element].bits // 8
        windows = self.kernel.target.machine.windows
        base = start_of(pointers) + (windows.ddr_cached - windows.ddr_engine)
        at = base + element * size
        self.kernel.keep_alive(at)
        return self.kernel.registers.compute(at)

    def check(self, pointers: Pointers, element: Value) -> None:
        """Stop the program if an element is outside of its array, whose size is known of arguments alone."""
        if pointers.base is not None:
            return
        with self.kernel.registers.scope():
            register, bound = self.kernel.registers.compute(element), self.kernel.registers.take()
            self.kernel.out.instruction("li", bound, str(self.sizes[pointers.argument]))
            self.kernel.out.instruction("bltu", register, bound, "1f")
            self.kernel.registers.release(bound)
            array, size = pointers.argument, self.sizes[pointers.argument]
            text = f"element {SIGNED} of '{array}', which has {size}"
            self.messages.stop(text, [Variable(register, *bounds(element))])
            self.kernel.out.label("1")

    def _row(self, access: Access, data: SpmBlock, place: Place, element: Value, storing: bool) -> None:
        """Let the DMA copy the rest of the axes from an element on."""
        pointers, axes = access.pointers, access.axes
        steps, spans = pointers.indices.axes[axes:], access.region.spans[axes:]
        first = last = element
        for axis, span in zip(steps, spans, strict=True):
            first, last = first + span.low * axis.step, last + (span.high - 1) * axis.step
        for end in (first, last):
            self.check(pointers, end)
        at = data.address
        for index, step in zip(place, strides_of(data.kept), strict=False):
            at = at + index * (step * data.size)
        shape = pointers.shape[axes:]
        row = replace(data, address=self.kernel.let(at), shape=shape, stored=data.stored[axes:])
        box = Transfer(start_of(pointers), element, steps, Region(spans, (), shape))
        self.memory.move(box, row, storing)

    # --- single numbers -------------------------------------------------------------------------------------

    def _single(self, pointers: Pointers, region: Region, other: KernelValue | None) -> Indices:
        """An integer of an array, in a register of its own."""
        self.memory.loaded.add(pointers.argument)
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
