"""Blocks and numbers that the core computes: integers, truth values, conversions without an engine."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.expr import Variable
from compiler.frontend.triton.kernels.engines.blocks import BlockCode
from compiler.frontend.triton.kernels.values import (
    FLOAT_FORMATS,
    INTEGER_FORMATS,
    TRUTH,
    Computed,
    Indices,
    KernelValue,
    Region,
    SpmBlock,
    UnsupportedOperation,
    range_of,
    varies,
)
from tx8isa.numbers.formats import Format

from .elements import LOADS, CoreLoop, loops_of, store_element
from .nodes import all_viewed, leaves

FORMATS = {**FLOAT_FORMATS, **INTEGER_FORMATS, TRUTH: Format.FP32}
"""Formats of the core's results; truth values are 1 and 0 of FP32."""


class CoreCode:
    """Writes code of the core with the blocks of a kernel."""

    def __init__(self, blocks: BlockCode) -> None:
        self.blocks, self.kernel = blocks, blocks.kernel
        self.made: dict[tuple[int, str], tuple[KernelValue, SpmBlock]] = {}
        """Blocks of values computed at this place of the code, by the value's identity and the element.

        The element is part of the key because a formula can be data of several types.
        """
        self._waited: tuple[object, ...] = ()

    # --- order ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Wait for the engines, unless they got no work since the last wait in this piece of code."""
        self.kernel.on_core = True
        if self._waited != self._here():
            self.kernel.emit("ncc.wait")
            self._waited = self._here()

    def _here(self) -> tuple[object, ...]:
        """Return the place in the code: a wait under a condition does not hold for code after it."""
        return self.kernel.scope, len(self.kernel.spm.loops), self.kernel.count

    def end(self) -> None:
        """Make the core's stores visible to the engines."""
        self.kernel.out.instruction("fence")

    # --- blocks ---------------------------------------------------------------------------------------------

    def prepared(self, values: Sequence[KernelValue]) -> list[KernelValue]:
        """Return values whose blocks are row-major, as the core reads them, and are known to be computed."""
        known = [self._known(each, each.element if isinstance(each, Computed) else "") for each in values]
        return all_viewed(known, self._row_major)

    def _known(self, value: KernelValue, element: str) -> KernelValue:
        known = self.made.get((id(value), element))
        return value if known is None else known[1]

    def _row_major(self, value: KernelValue) -> KernelValue:
        return self.blocks.compact(self.blocks.straight(value)) if isinstance(value, SpmBlock) else value

    def block(self, value: KernelValue, element: str) -> SpmBlock:
        """Return integers or truth values of a type as data."""
        known = self._known(value, element)
        if isinstance(known, SpmBlock):
            return known
        (made,) = self.made_blocks([value], [element])
        self.made[id(value), element] = value, made
        return made

    def made_blocks(self, values: Sequence[KernelValue], elements: Sequence[str]) -> list[SpmBlock]:
        """Return values of one shape as data, computed in one loop."""
        values = [
            value if isinstance(value, Computed) else self.typed(value, element)
            for value, element in zip(values, elements, strict=True)
        ]
        values = self.prepared(values)
        shape, parts = values[0].shape, [varies(value) for value in values]
        stored = [any(part[axis] for part in parts) for axis in range(len(shape))]
        targets = [self.blocks.empty(each, FORMATS[each], shape, stored) for each in elements]
        self.begin()
        with self.kernel.registers.scope():
            loop = CoreLoop(self.kernel, [*values, *targets])
            with loop.over(loops_of(shape, stored)) as place, loop.at(place, values) as registers:
                for target, register in zip(targets, registers, strict=True):
                    store_element(loop, target, place, register)
        self.end()
        self.alive([*values, *targets])
        return targets

    def typed(self, value: KernelValue, element: str) -> Computed:
        """Return a formula or a region as a computed value of a type."""
        if not isinstance(value, Indices | Region | SpmBlock):
            raise UnsupportedOperation("needs integers")
        return Computed("trunc", (value,), element, element, value.shape, varies(value))

    def alive(self, values: Sequence[KernelValue]) -> None:
        """Keep the buffers of values in use up to here."""
        for value in values:
            for leaf in leaves(value):
                if isinstance(leaf, SpmBlock):
                    self.kernel.keep_alive(leaf.address)

    # --- numbers --------------------------------------------------------------------------------------------

    def scalar(self, value: Computed) -> Indices:
        """Return an integer that is the same for the whole block, in a register of its own."""
        (ready,) = self.prepared([value])
        register = self.kernel.registers.take()
        if any(isinstance(each, SpmBlock) for each in leaves(ready)):
            self.begin()
        with self.kernel.registers.scope():
            loop = CoreLoop(self.kernel, [ready])
            with loop.at((0,) * len(value.shape), [ready]) as (found,):
                loop.code.emit("mv", register, found)
        self.alive([ready])
        held = self.kernel.registers.hold(register, *range_of(value.element))
        return Indices(held)

    def of_block(self, data: SpmBlock) -> Variable:
        """Return the first element of a block of integers or truth values, in a register of its own."""
        register = self.kernel.registers.take()
        self.begin()
        with self.kernel.registers.scope():
            window = self.kernel.target.machine.windows.spm_weak
            at = self.kernel.registers.compute(data.address + window)
            self.kernel.out.instruction(LOADS[data.fmt.bits], register, f"0({at})")
            if data.element == TRUTH:
                self.kernel.out.instruction("snez", register, register)
        self.kernel.keep_alive(data.address)
        return self.kernel.registers.hold(register, *range_of(data.element))
