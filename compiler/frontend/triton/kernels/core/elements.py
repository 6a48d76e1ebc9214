"""Code that computes single elements on the core: a value at one index of its block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from compiler.codegen.expr import Value, Variable, bounds
from compiler.codegen.kernel import Kernel
from compiler.frontend.triton.kernels.engines.blocks import strides_of
from compiler.frontend.triton.kernels.values import (
    TRUTH,
    Computed,
    Indices,
    KernelValue,
    Region,
    Shape,
    SpmBlock,
    UnsupportedOperation,
    bits_of,
    range_of,
)

from .arithmetic import TWO_OPERANDS, RegisterCode
from .nodes import leaves

LOADS = {8: "lb", 16: "lh", 32: "lw", 64: "ld"}
STORES = {8: "sb", 16: "sh", 32: "sw", 64: "sd"}
_ONE = 0x3F800000
"""The bits of 1 in FP32."""

Place = Sequence[Value]
"""The index of an element along each axis."""


class CoreLoop:
    """A loop of the core over elements of blocks.

    ``values`` are the values read, prepared by ``CoreCode.prepared``; their addresses are computed before it.
    """

    def __init__(self, kernel: Kernel, values: Sequence[KernelValue]) -> None:
        self.kernel, self.code = kernel, RegisterCode(kernel.out)
        window = kernel.target.machine.windows.spm_weak
        self.bases = {id(each): kernel.let(each.address + window) for each in _blocks(values)}

    @contextmanager
    def over(self, spans: Sequence[tuple[Value, Value]]) -> Iterator[Place]:
        """Yield the indices between the limits of each axis, the last axis counting fastest."""
        if not spans:
            yield ()
            return
        (low, high), *rest = spans
        with self.kernel.loop(high, low) as index, self.over(rest) as inner:
            yield (index, *inner)

    @contextmanager
    def at(self, place: Place, values: Sequence[KernelValue]) -> Iterator[list[str]]:
        """Yield registers with the elements of values at an index; only the code inside may use them."""
        with self.kernel.registers.scope():
            element = _Element(self, place, values)
            yield [element.register(value) for value in values]

    def address(self, block: SpmBlock, place: Place) -> str:
        """Return a register of its own with the address of an element of a block in the scratchpad."""
        at: Value = self.bases[id(block)]
        for index, step, extent in zip(place, strides_of(block.kept), block.kept, strict=True):
            if extent > 1:
                at = at + index * (step * block.size)
        return owned(self.kernel, at)


def owned(kernel: Kernel, value: Value) -> str:
    """Return a register with a value that nothing else uses."""
    register = kernel.registers.compute(value)
    if isinstance(value, Variable) and value.register == register:
        target = kernel.registers.take()
        kernel.out.instruction("mv", target, register)
        return target
    return register


def _blocks(values: Sequence[KernelValue]) -> list[SpmBlock]:
    found = {id(leaf): leaf for value in values for leaf in leaves(value) if isinstance(leaf, SpmBlock)}
    return list(found.values())


class _Element:
    """Code for values at one index: each is computed once, and its register is freed after its last use."""

    def __init__(self, loop: CoreLoop, place: Place, values: Sequence[KernelValue]) -> None:
        self.loop, self.place, self.code = loop, place, loop.code
        self.registers = loop.kernel.registers
        self.uses: Counter[tuple[int, str]] = Counter()
        self.found: dict[tuple[int, str], str] = {}
        for value in values:
            self._count(value, _own_type(value))

    def _count(self, value: KernelValue, source: str) -> None:
        key = (id(value), source)
        self.uses[key] += 1
        if self.uses[key] == 1 and isinstance(value, Computed):
            for operand in value.operands:
                self._count(operand, _source_of(operand, value))

    def register(self, value: KernelValue) -> str:
        """Return a register with the value; it stays until all its uses were given back."""
        return self._register(value, _own_type(value))

    def _register(self, value: KernelValue, source: str) -> str:
        key = (id(value), source)
        if key not in self.found:
            self.found[key] = self._made(value, source)
        return self.found[key]

    def _release(self, value: KernelValue, source: str) -> None:
        key = (id(value), source)
        self.uses[key] -= 1
        if self.uses[key] == 0:
            self.registers.release(self.found[key])

    def _made(self, value: KernelValue, source: str) -> str:
        if isinstance(value, Computed):
            return self._computed(value)
        if isinstance(value, SpmBlock):
            return self._loaded(value)
        if isinstance(value, Region):
            return self._inside(value)
        if isinstance(value, Indices):
            return self._formula(value, source)
        raise UnsupportedOperation("floats or pointers as integers")

    def _computed(self, value: Computed) -> str:
        first, *rest = [self._operand(each, value) for each in value.operands]
        target = self.registers.take()
        if value.operation == "select":
            self._select(target, first, *rest)
        elif value.operation in _CONVERSIONS:
            self._convert(value, target, first)
        else:
            TWO_OPERANDS[value.operation](self.code, target, first, rest[0], bits_of(value.source))
        for each in value.operands:
            self._release(each, _source_of(each, value))
        return target

    def _operand(self, operand: KernelValue, value: Computed) -> str:
        return self._register(operand, _source_of(operand, value))

    def _select(self, target: str, chosen: str, left: str, right: str) -> None:
        self.code.emit("mv", target, left)
        self.code.emit("bnez", chosen, "1f")
        self.code.emit("mv", target, right)
        self.code.out.label("1")

    def _convert(self, value: Computed, target: str, source: str) -> None:
        """Convert integers to other types, and between integers and floats of 32 bits."""
        operation, bits = value.operation, bits_of(value.source) if value.source[0] == "i" else 0
        if operation == "extui":
            self.code.unsigned(target, source, bits)
        elif operation == "extsi" and bits == 1:
            self.code.emit("neg", target, source)
        elif operation in ("extsi", "trunc"):
            self.code.emit("mv", target, source)
            if operation == "trunc":
                self.code.signed(target, bits_of(value.element))
        elif operation == "tofloat":
            self.code.emit("fcvt.s.l", "ft0", source)
            self.code.emit("fmv.x.w", target, "ft0")
        else:
            self.code.emit("fmv.w.x", "ft0", source)
            self.code.emit("fcvt.l.s", target, "ft0", "rtz")
            self.code.signed(target, bits_of(value.element))

    def _loaded(self, block: SpmBlock) -> str:
        register = self.loop.address(block, self.place)
        self.code.emit(LOADS[block.fmt.bits], register, f"0({register})")
        if block.element == TRUTH and block.fmt.is_float:
            self.code.emit("snez", register, register)
        return register

    def _inside(self, region: Region) -> str:
        """Return 1 where a region holds, else 0."""
        target = self.registers.take()
        conditions = list(region.conditions)
        for axis, span in enumerate(region.spans):
            if not region.whole(axis):
                conditions += [(span.low, self.place[axis] + 1), (self.place[axis], span.high)]
        self.code.emit("li", target, "0")
        for smaller, larger in conditions:
            if bounds(smaller)[1] < bounds(larger)[0]:
                continue
            with self.registers.scope():
                left, right = self.registers.compute(smaller), self.registers.compute(larger)
                self.code.emit("bge", left, right, "9f")
        self.code.emit("li", target, "1")
        self.code.out.label("9")
        return target

    def _formula(self, value: Indices, source: str) -> str:
        total = formula_at(value, self.place)
        register = owned(self.loop.kernel, total)
        low, high = bounds(total)
        least, most = range_of(source)
        if not least <= low <= high <= most:
            self.code.signed(register, bits_of(source))
        return register


_CONVERSIONS = ("extsi", "extui", "trunc", "tofloat", "tointeger")


def _source_of(operand: KernelValue, value: Computed) -> str:
    """Return the type as which an operation takes an operand."""
    if isinstance(operand, Indices):
        return value.source
    return _own_type(operand)


def _own_type(value: KernelValue) -> str:
    return value.element if isinstance(value, Computed | SpmBlock) else "i64"


def formula_at(value: Indices, place: Place) -> Value:
    """Return a formula at one index."""
    total = value.offset
    for axis, index, extent in zip(value.axes, place, value.shape, strict=True):
        if axis.modulus:
            total = total + (axis.start + index) % axis.modulus * axis.step
        elif extent > 1:
            total = total + index * axis.step
    return total


def store_element(loop: CoreLoop, target: SpmBlock, place: Place, register: str) -> None:
    """Write an element of a block; truth values as 1 and 0 of FP32."""
    with loop.kernel.registers.scope():
        if target.element == TRUTH:
            number = loop.kernel.registers.take()
            loop.code.emit("neg", number, register)
            one = loop.kernel.registers.take()
            loop.code.emit("li", one, hex(_ONE))
            loop.code.emit("and", number, number, one)
            register = number
        address = loop.address(target, place)
        loop.code.emit(STORES[target.fmt.bits], register, f"0({address})")


def loops_of(shape: Shape, stored: Sequence[bool]) -> list[tuple[Value, Value]]:
    """Return the limits of the stored indices of each axis."""
    return [(0, extent if kept else 1) for extent, kept in zip(shape, stored, strict=True)]
