"""The integer registers of the kernel core, and expressions compiled to instructions that use them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tx8isa.errors import Tx8Error

from .emitter import Emitter
from .expr import Address, Operation, Slot, Value, Variable

TILE = "s11"
"""Holds the tile number throughout the program."""

_POOL = (
    tuple(f"t{i}" for i in range(7)) + tuple(f"a{i}" for i in range(8)) + tuple(f"s{i}" for i in range(11))
)
IMMEDIATES = range(-2048, 2048)
"""Numbers that an instruction of the core can contain (12 bits)."""


class OutOfRegisters(Tx8Error):
    """More values are alive at once than the core has registers: another way of dividing the work may do."""


class Registers:
    """Which registers are free; values are computed into the lowest free one."""

    def __init__(self, out: Emitter) -> None:
        self._out = out
        self._free = list(_POOL)

    def take(self) -> str:
        """A register nobody uses."""
        if not self._free:
            raise OutOfRegisters(f"all {len(_POOL)} registers of the kernel core hold values")
        return self._free.pop(0)

    def release(self, register: str) -> None:
        """Give a register back."""
        self._free.append(register)
        self._free.sort(key=_POOL.index)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Registers taken inside are free again behind it."""
        before = list(self._free)
        yield
        self._free = before

    def compute(self, value: Value) -> str:
        """The register with the value; a new one unless the value is that of a variable."""
        if isinstance(value, Variable):
            return value.register
        if isinstance(value, int):
            return self._load("li", str(value) if -4096 < value < 4096 else hex(value))
        if isinstance(value, Address):
            return self._load("li" if value.buffer else "la", value.text)
        if isinstance(value, Slot):
            target = self._load("li", value.buffer.distance_symbol)
            self._out.instruction("and", target, target, value.parity.register)
            return target
        if isinstance(value, Operation):
            return self._operation(value)
        raise TypeError(f"{value!r} is no expression")

    def _load(self, mnemonic: str, text: str) -> str:
        target = self.take()
        self._out.instruction(mnemonic, target, text)
        return target

    def _operation(self, value: Operation) -> str:
        left = self.compute(value.left)
        immediate = _with_immediate(value)
        if immediate is not None:
            target = self._reuse(value.left, left)
            self._out.instruction(immediate[0], target, left, str(immediate[1]))
            return target
        right = self.compute(value.right)
        target = self._reuse(value.left, left)
        if value.op in ("min", "max"):
            self._choose(value.op, target, left, right)
        else:
            self._out.instruction(_NAMES[value.op], target, left, right)
        if not isinstance(value.right, Variable):
            self.release(right)
        return target

    def _reuse(self, operand: Value, register: str) -> str:
        """The register of an operand that was computed for this purpose alone, else a new one."""
        return self.take() if isinstance(operand, Variable) else register

    def _choose(self, op: str, target: str, left: str, right: str) -> None:
        """The core has no minimum: keep ``left`` unless ``right`` is smaller (larger)."""
        if target != left:
            self._out.instruction("mv", target, left)
        first, second = (target, right) if op == "min" else (right, target)
        self._out.instruction("ble", first, second, "1f")
        self._out.instruction("mv", target, right)
        self._out.label("1")


_NAMES = {"add": "add", "sub": "sub", "mul": "mul", "div": "divu", "rem": "remu", "or": "or"}


def _with_immediate(value: Operation) -> tuple[str, int] | None:
    """The form of an operation whose right operand is part of the instruction; None if there is none."""
    right = value.right
    if not isinstance(right, int):
        return None
    if value.op == "shl":
        return "slli", right
    if value.op == "add" and right in IMMEDIATES:
        return "addi", right
    if value.op == "or" and right in IMMEDIATES:
        return "ori", right
    if right > 0 and right & (right - 1) == 0:
        shift = right.bit_length() - 1
        if value.op == "mul":
            return "slli", shift
        if value.op == "div":
            return "srli", shift
        if value.op == "rem" and right - 1 in IMMEDIATES:
            return "andi", right - 1
    return None
