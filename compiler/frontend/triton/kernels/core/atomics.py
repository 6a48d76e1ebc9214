"""Atomic operations on arrays: the core reads an element, computes and writes it.

The core has no atomic instruction. So all programs of a kernel with atomic operations run on one tile, in the
order of their numbers, and go through a block in row-major order: results do not depend on chance.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.codegen.expr import Value
from compiler.frontend.triton.kernels.engines.memory import MemoryCode
from compiler.frontend.triton.kernels.values import (
    ELEMENT_FORMATS,
    KernelValue,
    Pointers,
    SpmBlock,
    UnsupportedOperation,
    bits_of,
)

from .access import AccessCode
from .arithmetic import TWO_OPERANDS, RegisterCode
from .elements import LOADS, STORES, CoreLoop, Place

ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas")

Combine = Callable[[RegisterCode, str, str, str], None]
"""Writes target = before op operand."""

_INTEGERS = {
    **{name: name for name in ("add", "and", "or", "xor")},
    **{"max": "maxsi", "min": "minsi", "umax": "maxui", "umin": "minui"},
}
_FLOATS = {"fadd": "fadd.s", "max": "fmax.s", "min": "fmin.s"}


def combination(name: str, element: str) -> Combine:
    """Return the code of an atomic operation; UnsupportedOperation if there is none for the type."""
    if name == "exch":
        return lambda core, target, before, operand: core.emit("mv", target, operand)
    if element == "f32" and name in _FLOATS:
        return lambda core, target, before, operand: _of_floats(core, _FLOATS[name], target, before, operand)
    if element.startswith("i") and name in _INTEGERS:
        code, bits = TWO_OPERANDS[_INTEGERS[name]], bits_of(element)
        return lambda core, target, before, operand: code(core, target, before, operand, bits)
    allowed = ", ".join((*_INTEGERS, "fadd", "exch"))
    raise UnsupportedOperation(
        f"'{name}' of {element}; supported are {allowed}, of integers and, but for the bitwise ones, of f32"
    )


def _of_floats(core: RegisterCode, name: str, target: str, before: str, operand: str) -> None:
    core.emit("fmv.w.x", "ft0", before)
    core.emit("fmv.w.x", "ft1", operand)
    core.emit(name, "ft0", "ft0", "ft1")
    core.emit("fmv.x.w", target, "ft0")


class AtomicCode:
    """Writes atomic operations with the accesses of a kernel."""

    def __init__(self, access: AccessCode, memory: MemoryCode) -> None:
        self.access, self.memory, self.kernel = access, memory, access.kernel

    def change(
        self, pointers: Pointers, operand: KernelValue, mask: KernelValue | None, combine: Combine
    ) -> SpmBlock:
        """Change the elements where the mask holds; return their old values, 0 elsewhere."""
        (data,), before = self._blocks(pointers, [operand])

        def visit(loop: CoreLoop, place: Place, element: Value) -> None:
            with self.kernel.registers.scope():
                at, old = self._read(loop, pointers, element)
                value = self._loaded(loop, data, place)
                new = self.kernel.registers.take()
                combine(loop.code, new, old, value)
                loop.code.emit(STORES[data.fmt.bits], new, f"0({at})")
                self._keep(loop, before, place, old)

        self.access.walk(self.access.elements(pointers, mask), [data, before], visit)
        return before

    def exchange(self, pointers: Pointers, expected: KernelValue, operand: KernelValue) -> SpmBlock:
        """Store the operand where an element has the expected bits; return the old elements."""
        (wanted, data), before = self._blocks(pointers, [expected, operand])

        def visit(loop: CoreLoop, place: Place, element: Value) -> None:
            with self.kernel.registers.scope():
                at, old = self._read(loop, pointers, element)
                compared, value = (self._loaded(loop, each, place) for each in (wanted, data))
                loop.code.emit("bne", old, compared, "1f")
                loop.code.emit(STORES[data.fmt.bits], value, f"0({at})")
                loop.code.out.label("1")
                self._keep(loop, before, place, old)

        self.access.walk(self.access.elements(pointers, None), [wanted, data, before], visit)
        return before

    def _blocks(self, pointers: Pointers, operands: list[KernelValue]) -> tuple[list[SpmBlock], SpmBlock]:
        """Return the operands with all their elements, and a block for the old values."""
        blocks, element = self.access.blocks, pointers.element
        self.memory.loaded.add(pointers.argument)
        self.memory.stored.add(pointers.argument)
        stored = [extent > 1 for extent in pointers.shape]
        found = [blocks.compact(blocks.spread(blocks.typed(each, element), stored)) for each in operands]
        before = blocks.empty(element, ELEMENT_FORMATS[element], pointers.shape, stored)
        blocks.fill(before, 0)
        return found, before

    def _read(self, loop: CoreLoop, pointers: Pointers, element: Value) -> tuple[str, str]:
        """Return registers with the address of an element and with the element."""
        self.access.check(pointers, element)
        at, old = self.access.address(pointers, element, past_cache=True), self.kernel.registers.take()
        loop.code.emit(LOADS[ELEMENT_FORMATS[pointers.element].bits], old, f"0({at})")
        return at, old

    def _loaded(self, loop: CoreLoop, data: SpmBlock, place: Place) -> str:
        register = loop.address(data, place)
        loop.code.emit(LOADS[data.fmt.bits], register, f"0({register})")
        return register

    def _keep(self, loop: CoreLoop, before: SpmBlock, place: Place, old: str) -> None:
        loop.code.emit(STORES[before.fmt.bits], old, f"0({loop.address(before, place)})")
