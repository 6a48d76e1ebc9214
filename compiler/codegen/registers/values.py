"""The registers of the kernel core that are free, and expressions compiled to its instructions."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from contextlib import AbstractContextManager

from compiler.codegen.emitter import Emitter
from compiler.codegen.expr import (
    Address,
    Key,
    Operation,
    Slot,
    SpilledVariable,
    Value,
    Variable,
    bounds,
    key_of,
)
from compiler.codegen.registers.spilling import (
    LARGEST_FRAME,
    TURNS,
    WORD,
    OutOfRegisters,
    Shortage,
    Spills,
    frame_bytes,
    is_cheap,
)
from compiler.evaluation.sizes import Size

from .contents import RegisterContents
from .forms import Forms
from .names import IMMEDIATES, ORDER, POOL, STACK, ZERO, with_immediate
from .size_load import SizeLoad

_State = tuple[list[str], int, int, int, dict[str, int], int]
"""Free registers, the number of missing ones, live spilled values, the number of kept values, further uses of
registers, and the number of variables with known values."""


class Registers:
    """The free registers; values are computed into the first of them.

    Values that are kept to the end of a scope are in registers unless ``spills`` says otherwise. Without a
    free register, ``spills`` records a shortage, and the code is discarded.

    ``contents``: operands that a register still holds are reused. That takes fewer instructions and no more
    registers, because a register that only holds a remembered value counts as free. ``forms`` chooses how
    values are computed.
    """

    def __init__(
        self,
        out: Emitter,
        spills: Spills,
        contents: RegisterContents | None = None,
        forms: Forms | None = None,
    ) -> None:
        self.out = out
        self._free = list(POOL)
        self.spills = spills
        self.contents = contents
        """Contents of registers; None if they are not remembered."""
        self.forms = Forms() if forms is None else forms
        self._uses: dict[str, int] = {}
        """The number of uses beyond the first of registers with reused values."""
        self.depth = 0
        """Loops around the current position."""
        self.frame = 0
        """Bytes of stack for the spilled values."""
        self._missing = 0
        """Number of registers in use beyond the existing ones."""
        self._words = 0
        """Spilled values that are alive."""
        self._kept: list[int] = []
        """Numbers of the values that are kept in registers here."""
        self._numbers: dict[Variable, int] = {}
        self._count = 0

    @property
    def free(self) -> tuple[str, ...]:
        """The registers that hold no value."""
        return tuple(self._free)

    def limit(self, free: tuple[str, ...]) -> None:
        """Use only some registers; none may hold a value yet."""
        self._free = list(free)

    def take(self) -> str:
        """Allocate a free register; if none is free, return an invented name and note the shortage."""
        if self._free:
            at = 0 if self.contents is None else self.contents.least_needed(self._free)
            return self._free.pop(at)
        self._missing += 1
        self.spills.shortages.append(Shortage(len(POOL), self._missing, tuple(self._kept)))
        return f"missing{self._missing}"

    def release(self, register: str) -> None:
        """Give a register back."""
        if register == ZERO:
            return
        if register not in ORDER:
            self._missing -= 1
            return
        if self._uses.get(register):
            self._uses[register] -= 1
            return
        insort(self._free, register, key=ORDER.__getitem__)

    def scope(self) -> AbstractContextManager[None]:
        """Registers that are allocated inside are free again after it."""
        return _Scope(self)

    def _state(self) -> _State:
        kept, uses = len(self._kept), dict(self._uses)
        return list(self._free), self._missing, self._words, kept, uses, self.forms.mark

    def _restore(self, state: _State) -> None:
        self._free, self._missing, self._words, kept, self._uses, known = state
        del self._kept[kept:]
        self.forms.forget_since(known)

    # --- values that are kept to the end of a scope ------------------------------------------------------

    def keep(self, value: Value, once: bool = False) -> Value:
        """The value in a register to the end of the scope; variables unchanged.

        A spilled value is in the stack. A spilled value that is cheap, or used only ``once``, is returned
        unchanged, to be computed at its use.
        """
        if isinstance(value, Variable):
            return value
        if (number := self.forms.number(value)) is not None:
            return number
        if not self._is_spilled():
            kept = self._keep(Variable(self.operand(value), *bounds(value)))
        elif once or is_cheap(value):
            return value
        else:
            kept = self._store(self.compute(self.forms.simplest(value)), *bounds(value))
        self.forms.define(kept, value)
        return kept

    def counter(self, start: Value, low: int, high: int) -> Variable:
        """A variable of its own that begins with ``start`` and is changed, from ``low`` to ``high``."""
        spilled, register = self._is_spilled(), self.take()
        if isinstance(start, int):
            self.out.instruction("li", register, str(start))
        else:
            with self.scope():
                self.out.instruction("mv", register, self.operand(start))
        return self._store(register, low, high) if spilled else self._keep(Variable(register, low, high))

    def hold(self, register: str, low: int, high: int) -> Variable:
        """A variable with the content of a register, which does not change any more."""
        if self._is_spilled():
            return self._store(register, low, high)
        return self._keep(Variable(register, low, high))

    def assign(self, variable: Variable, value: Value) -> None:
        """Give a variable of its own another value."""
        with self.scope():
            register = self.operand(value)
            if isinstance(variable, SpilledVariable):
                self.out.instruction("sd", register, variable.register)
            else:
                self.out.instruction("mv", variable.register, register)
        self._forget(variable)

    def add(self, variable: Variable, step: int) -> None:
        """Add a number to a variable."""
        if isinstance(step, int) and step in IMMEDIATES:
            self._change(variable, "addi", str(step))
            return
        with self.scope():
            self._change(variable, "add", self.operand(step))

    def invert(self, variable: Variable, number: str = "") -> None:
        """Invert all bits of a variable, or the bits that are set in ``number``."""
        if not number:
            self._change(variable, "not")
            return
        with self.scope():
            self._change(variable, "xor", self._load("li", number))

    def _change(self, variable: Variable, mnemonic: str, *operands: str) -> None:
        with self.scope():
            register = self.compute(variable)
            self.out.instruction(mnemonic, register, register, *operands)
            if isinstance(variable, SpilledVariable):
                self.out.instruction("sd", register, variable.register)
        self._forget(variable)

    def _forget(self, variable: Variable) -> None:
        if self.contents is not None:
            self.contents.forget(variable)
        self.forms.forget(variable)

    def _is_spilled(self) -> bool:
        """True if the next kept value leaves the registers."""
        self._count += 1
        return self._count in self.spills.chosen

    def _keep(self, variable: Variable) -> Variable:
        """Record that a variable is in a register to the end of the scope."""
        self._numbers[variable] = self._count
        self._kept.append(self._count)
        return variable

    def _store(self, register: str, low: int, high: int) -> SpilledVariable:
        """Store a register to the next free word of the stack and release it; returns the variable."""
        variable = SpilledVariable(f"{self._words * WORD}({STACK})", low, high)
        self.out.instruction("sd", register, variable.register)
        self.release(register)
        self._words += 1
        self.frame = max(self.frame, frame_bytes(self._words))
        self._check_frame(LARGEST_FRAME)
        return variable

    def _check_frame(self, room: int) -> None:
        if self.frame > room:
            found = f"{self.frame} bytes; allowed are {room}"
            raise OutOfRegisters(f"values that the core's registers do not hold need a stack of {found}")

    def more_spills(self, stack: int) -> frozenset[int]:
        """Further values to spill; OutOfRegisters if none helps or the stack is too small."""
        self._check_frame(stack)
        return self.spills.more()

    def with_frame(self, lines: list[str]) -> list[str]:
        """Lines of code with room for the spilled values in the stack around them, if there are any."""
        if not self.frame:
            return lines
        code = Emitter()
        code.instruction("addi", STACK, STACK, str(-self.frame))
        code.lines.extend(lines)
        code.instruction("addi", STACK, STACK, str(self.frame))
        return code.lines

    # --- labels that are reached from elsewhere ----------------------------------------------------------

    def label_after_jump(self, name: str) -> None:
        """A label that is reached only from the branch before the last instruction, or from a branch past
        instructions that change only a register that is being computed."""
        if self.contents is None:
            self.out.label(name)
        else:
            self.contents.label(name)

    def label_of_loop(self, name: str) -> None:
        """A label at the beginning or the end of a loop; the loop does not change values in use there."""
        if self.contents is None:
            self.out.label(name)
        else:
            self.contents.label(name, unless=self._free)

    def state(self) -> dict[Key, str]:
        """The present register contents, as far as they are remembered."""
        return {} if self.contents is None else self.contents.state()

    def join(self, name: str, other: Mapping[Key, str]) -> None:
        """A label that is also reached from a place whose ``state`` was ``other``."""
        if self.contents is None:
            self.out.label(name)
        else:
            self.contents.join(name, other)

    def forget_all(self) -> None:
        """Forget all register contents."""
        if self.contents is not None:
            self.contents.clear()

    # --- values that are used in the next instruction ----------------------------------------------------

    def operand(self, value: Value) -> str:
        """The register that holds the value, for instructions that read it."""
        return self._read(self.forms.simplest(value))

    def _read(self, value: Value) -> str:
        if self.contents is None or (isinstance(value, Variable) and not isinstance(value, SpilledVariable)):
            return self.compute(value)
        if isinstance(value, int) and value == 0:
            return ZERO
        key = key_of(value)
        register = self.contents.find(key)
        if register is None:
            register = self.compute(value)
            self.contents.note(register, key)
            return register
        if register in self._free:
            self._free.remove(register)
        else:
            self._uses[register] = self._uses.get(register, 0) + 1
        return register

    def compute(self, value: Value) -> str:
        """The register that holds the value: a variable's own, or a new one, which may be changed."""
        if isinstance(value, Operation):
            return self._operation(value)
        if isinstance(value, SpilledVariable):
            return self._load("ld", value.register)
        if isinstance(value, Variable):
            if value in self._numbers:
                self.spills.weights[self._numbers[value]] += TURNS**self.depth
            return value.register
        if isinstance(value, int):
            return self._load("li", str(value) if -4096 < value < 4096 else hex(value))
        if isinstance(value, Address):
            return self._load("li" if value.buffer else "la", value.text)
        if isinstance(value, Slot):
            return self._slot(value)
        if isinstance(value, Size):
            target = self.take()
            self.out.add(SizeLoad(target, value))
            return target
        raise TypeError(f"{value!r} is not an expression")

    def _slot(self, value: Slot) -> str:
        target = self._load("li", value.buffer.distance_symbol)
        parity = self._read(value.parity)
        self.out.instruction("and", target, target, parity)
        self._release(value.parity, parity)
        return target

    def _load(self, mnemonic: str, text: str) -> str:
        target = self.take()
        self.out.instruction(mnemonic, target, text)
        return target

    def _operation(self, value: Operation) -> str:
        left = self._read(value.left)
        immediate = with_immediate(value.op, value.right)
        if immediate is not None:
            target = self._target(value.left, left)
            self.out.instruction(immediate[0], target, left, str(immediate[1]))
            return target
        right = self._read(value.right)
        target = self._target(value.left, left, value.op in ("min", "max"))
        if value.op in ("min", "max"):
            self._choose(value.op, target, left, right)
        else:
            self.out.instruction(_NAMES[value.op], target, left, right)
        self._release(value.right, right)
        return target

    def _target(self, operand: Value, register: str, same: bool = False) -> str:
        """A register for the result: a temporary operand's, or a new one if the operand is a variable.

        Where contents are remembered, it is a new one if any is free, unless the ``same`` one is better.
        """
        if _is_kept(operand):
            return self.take()
        if self.contents is None:
            return register
        if (same or not self._free) and register != ZERO and not self._uses.get(register):
            self.contents.drop(register)
            return register
        target = self.take()
        self.release(register)
        return target

    def _release(self, operand: Value, register: str) -> None:
        """Give the register of a temporary operand back."""
        if not _is_kept(operand):
            self.release(register)

    def _choose(self, op: str, target: str, left: str, right: str) -> None:
        """Minimum or maximum by a branch, because the core has no instruction for them."""
        if target != left:
            self.out.instruction("mv", target, left)
        first, second = (target, right) if op == "min" else (right, target)
        self.out.instruction("ble", first, second, "1f")
        self.out.instruction("mv", target, right)
        self.label_after_jump("1")


class _Scope(AbstractContextManager[None]):
    """The context manager of ``Registers.scope``. It is a class because a generator takes most of the time of
    a short scope."""

    __slots__ = ("_registers", "_state")

    def __init__(self, registers: Registers) -> None:
        self._registers = registers

    def __enter__(self) -> None:
        self._state = self._registers._state()

    def __exit__(self, *error: object) -> None:
        self._registers._restore(self._state)


def _is_kept(operand: Value) -> bool:
    """True if the register of an operand holds a value that is needed later."""
    return isinstance(operand, Variable) and not isinstance(operand, SpilledVariable)


_NAMES = {"add": "add", "sub": "sub", "mul": "mul", "div": "divu", "rem": "remu", "or": "or"}
