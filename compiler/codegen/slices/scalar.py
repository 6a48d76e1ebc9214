"""Scalar code: the kernel core computes with elements of tensors in DDR.

It is for integers wider than those of the engines, and for accesses whose addresses depend on data. They go
through the cache of the core, which is not coherent: such code begins and ends with cache maintenance. A tile
works on whole blocks of elements, so that no two tiles write the same line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from compiler.codegen.expr import Address, Value, Variable, minimum
from compiler.codegen.kernel import Kernel
from compiler.evaluation.sizes import Size
from compiler.graph import Shape
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format

from .tensors import DdrTensor, Space, View, collapse, unravel

_BLOCK = 64
"""Elements of a block."""
_LOADS = {
    Format.INT8: "lb",
    Format.UINT8: "lbu",
    Format.INT16: "lh",
    Format.UINT16: "lhu",
    Format.INT32: "lw",
    Format.UINT32: "lwu",
    Format.INT64: "ld",
    Format.FP16: "lh",
    Format.BF16: "lh",
    Format.FP32: "lw",
    Format.TF32: "lw",
}
_STORES = {8: "sb", 16: "sh", 32: "sw", 64: "sd"}


@dataclass(frozen=True)
class ScalarCode:
    """Emits scalar instructions; values are in registers to the end of the enclosing scope."""

    kernel: Kernel

    @contextmanager
    def elements(self, count: int, block: int = _BLOCK, past_cache: bool = False) -> Iterator[Value]:
        """A loop over this tile's elements of ``count``, by their numbers; stores are complete after it.

        ``past_cache``: nothing is loaded, and all stores bypass the cache.
        """
        kernel = self.kernel
        kernel.on_core = True
        if not past_cache:
            self.acquire()
        with kernel.items(ceil_div(count, block)) as number:
            begin = kernel.let(number * block)
            end = kernel.let(minimum(begin + block, count))
            with kernel.loop(end, begin) as element:
                yield element
        if past_cache:
            self.emit("fence")
        else:
            self.publish()

    def begin(self) -> None:
        """Begin code that computes elements."""
        self.kernel.on_core = True
        self.acquire()

    def acquire(self) -> None:
        """Make earlier writes of engines and other tiles visible to the following loads."""
        self.kernel.maintained += 1
        self.emit("th.dcache.ciall")
        self.emit("th.sync")

    def publish(self) -> None:
        """Make stores visible to engines and other tiles; they are complete afterwards."""
        self.kernel.maintained += 1
        self.emit("th.dcache.call")
        self.emit("th.sync")

    def register(self) -> str:
        return self.kernel.registers.take()

    def emit(self, mnemonic: str, *operands: str) -> None:
        self.kernel.out.instruction(mnemonic, *operands)

    def number(self, value: int) -> str:
        """Load a known number, or a size of the run, into a register."""
        if isinstance(value, Size):
            return self.kernel.registers.compute(value)
        register = self.register()
        self.emit("li", register, str(value))
        return register

    def address(self, tensor: DdrTensor, element: Value, past_cache: bool = False) -> str:
        """Load the kernel core's address of an element into a register.

        Symbols have the engines' addresses.
        """
        windows = self.kernel.target.machine.windows
        window = windows.ddr_uncached if past_cache else windows.ddr_cached
        base = Address(tensor.symbol) + (window - windows.ddr_engine)
        value = base + element * tensor.bytes_each
        self.kernel.keep_alive(value)
        return self.kernel.registers.compute(value)

    def load(self, tensor: DdrTensor, element: Value) -> str:
        """The bits of an element, extended as its format says."""
        address = self.address(tensor, element)
        self.emit(_LOADS[tensor.fmt], address, f"0({address})")
        return address

    def store(self, tensor: DdrTensor, element: Value, register: str, past_cache: bool = False) -> None:
        """Store the low bits of a register to an element.

        Bypass the cache if tiles store to the same line.
        """
        at = self.address(tensor, element, past_cache)
        self.emit(_STORES[tensor.fmt.bits], register, f"0({at})")

    def store_in_scratchpad(self, place: Value, fmt: Format, register: str) -> None:
        """Store the low bits of a register to an element of a buffer that no engine uses at this time."""
        at = self.kernel.registers.compute(place + self.kernel.target.machine.windows.spm_strong)
        self.kernel.keep_alive(place)
        self.emit(_STORES[fmt.bits], register, f"0({at})")

    def index(self, register: str, size: int) -> Value:
        """An index that counts from the end when negative; the program stops when it is out of range."""
        sized = isinstance(size, Size)
        bound = self.number(size) if sized else self.register()
        self.emit("bgez", register, "1f")
        if not sized:
            self.emit("li", bound, str(size))
        self.emit("add", register, register, bound)
        self.kernel.out.label("1")
        if not sized:
            self.emit("li", bound, str(size))
        self.emit("bltu", register, bound, "1f")
        self.emit("ebreak")
        self.kernel.out.label("1")
        return Variable(register, 0, size - 1)


def element_of(view: View, space: Space, number: Value) -> Value:
    """The element of the view's tensor at a row-major number of the index space."""
    element: Value = view.offset
    for index, step in zip(unravel(number, space.sizes), view.strides, strict=True):
        element = element + index * step
    return element


def offset_of(index: Sequence[Value], strides: Sequence[int]) -> Value:
    """Element number of an index."""
    element: Value = 0
    for part, step in zip(index, strides, strict=True):
        element = element + part * step
    return element


def fill(kernel: Kernel, shape: Shape, view: View, value: int) -> None:
    """Write one integer to every element of a view; engines may write other elements of the same line."""
    core = ScalarCode(kernel)
    space = collapse(shape, (view,))
    with core.elements(math.prod(space.sizes), past_cache=True) as number:
        place = element_of(space.views[0], space, number)
        core.store(view.tensor, place, core.number(value), past_cache=True)
