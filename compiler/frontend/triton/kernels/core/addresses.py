"""Finds the array of an address that a kernel loads, and the bytes from there to both ends of the array."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.frontend.triton.kernels.engines.memory import symbol_of

from .messages import HEXADECIMAL, MessageCode

_TABLE = "addresses.table"
_ROW = 16
"""Bytes to which the beginning and the end of an array are aligned."""


class AddressCode:
    """Writes the search for the array of an address. ``sizes``: bytes of all arrays by their names."""

    def __init__(self, kernel: Kernel, messages: MessageCode, sizes: Mapping[str, int]) -> None:
        self.kernel, self.messages, self.sizes = kernel, messages, sizes
        self.used = False

    def room(self, address: Value) -> tuple[Value, Value]:
        """Return the bytes of its array before and after an address; the program stops if it is in none."""
        self.used = True
        registers, emit = self.kernel.registers, self.kernel.out.instruction
        before, after = registers.take(), registers.take()
        with registers.scope():
            at, row, left = registers.compute(address), registers.take(), registers.take()
            emit("la", row, _TABLE)
            emit("li", left, str(len(self.sizes)))
            self.kernel.out.label("2")
            emit("ld", before, f"0({row})")
            emit("ld", after, f"8({row})")
            emit("bltu", at, before, "3f")
            emit("bltu", at, after, "1f")
            self.kernel.out.label("3")
            emit("addi", row, row, str(_ROW))
            emit("addi", left, left, "-1")
            emit("bnez", left, "2b")
            self.messages.stop(f"0x{HEXADECIMAL} was loaded as an address, but is in no array", [address])
            self.kernel.out.label("1")
            emit("sub", before, at, before)
            emit("sub", after, after, at)
        most = max(self.sizes.values())
        return registers.hold(before, 0, most), registers.hold(after, 1, most)

    def lines(self) -> list[str]:
        """Return the table of all arrays, if a search reads it."""
        if not self.used:
            return []
        rows = [f".dword {symbol_of(name)}, {symbol_of(name)} + {size}" for name, size in self.sizes.items()]
        return ["        .section .rodata", "        .balign 8", f"{_TABLE}:", *rows]
