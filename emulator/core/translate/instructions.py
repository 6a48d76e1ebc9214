"""Predecoded words as LLVM text: the loop's source for each operation, specialised to the word.

The tile's registers are local variables of the function. They are loaded when it is entered, and stored when
it is left or when other code could see them. Instructions are counted by block. The function only begins a
block that ends within the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from emulator.core import loop as core
from emulator.core.accesses import call_check
from emulator.core.predecode import ENGINE, FLOAT, operation_records
from emulator.memory import state, stop
from emulator.native.direct.expressions import Environment
from emulator.native.direct.values import Known, Operand, State, Untranslatable, Value, typed
from emulator.native.direct.vocabulary import as_kind, integer
from emulator.native.inline import Names

from .frame import FLUSH, RELOAD, Frame, is_register
from .region import Layout, following
from .statements import Statements, parsed

_STATE = Value("i", "%state")


@cache
def _names() -> Names:
    names = Names()
    names.scope.update({function.__name__: function for function in core.USED})
    return names


@cache
def source_of(operation: int, checked: int = core.UNCHECKED) -> str:
    """Return the source that the loop executes for an operation; ``checked`` as in ``core.generate_run``."""
    if operation == FLOAT:
        return "break"
    if operation == ENGINE:
        return core.engine_source()
    record, length = operation_records()[operation]
    return "\n".join(core.statement(record, _names(), checked, length))


@cache
def translates(operation: int) -> bool:
    """Return True if everything an operation needs is known here; the interpreter executes the others."""
    word = operation | 5 << 8 | 6 << 16 | 7 << 24 | 8 << 32
    layout = Layout([word, 0, 0], ["nothing"] * 3, frozenset(), {}, [])
    try:
        Region(layout, {0: [0]}, {state.CODE_BASE: 0, state.CORE_CHECK: 0}).text()
    except Untranslatable:
        return False
    return True


class Region(Statements):
    """Writes the function of some blocks: (index of the first word, address of the state) -> reason.

    ``known`` holds words of the state that never change, by place.
    """

    def __init__(self, layout: Layout, blocks: Mapping[int, list[int]], known: Mapping[int, int]) -> None:
        super().__init__()
        self.layout, self.blocks, self.known = layout, blocks, known
        self.used: dict[int, bool] = {}
        """The registers used, by place: True if the register is written."""
        self._block = self._index = self._done = 0
        self._after = ""
        """Label after the instruction that is being written, if it has one."""

    # -- the state -------------------------------------------------------------------------------------

    def load_word(self, place: int) -> Known:
        if place == state.X:
            return 0
        if place in self.known:
            return self.known[place]
        if is_register(place):
            self.used.setdefault(place, False)
            return self._emit("i", f"load i64, ptr %r{place}")
        return self._emit("i", f"load i64, ptr {self._place(place)}")

    def store_word(self, place: int, value: Known) -> None:
        if place == state.SINK:
            return
        if is_register(place):
            self.used[place] = True
            self.writer.line(f"store {typed(value)}, ptr %r{place}")
        else:
            self.writer.line(f"store {typed(value)}, ptr {self._place(place)}")

    def call_kernel(self, address: Known, fields: Known, state: Known) -> Known:
        self.writer.lines.append(FLUSH)
        code = self._emit("i", f"inttoptr {typed(address)} to ptr")
        result = self._emit("i", f"call i64 {code.name}({typed(fields)}, {typed(state)})")
        self.writer.lines.append(RELOAD)
        return result

    def inline(self, function: Any, arguments: list[Operand]) -> Operand:
        """Write a call without storing the registers: the check of an access does not use them."""
        if function is not call_check:
            return super().inline(function, arguments)
        check, what, address = (typed(argument) for argument in arguments)
        code = self._emit("i", f"inttoptr {check} to ptr")
        return self._emit("i", f"call i64 {code.name}({what}, {address})")

    def _place(self, place: int) -> str:
        return self._emit("i", f"getelementptr i64, ptr %s, i64 {place}").name

    # -- control ---------------------------------------------------------------------------------------

    def leave(self, names: Environment) -> None:
        """Leave the function at this instruction; the floating-point unit executes its own."""
        reason = names["reason"]
        kind = self.layout.kinds[self._index]
        if kind == "float":
            self._call_unit()
            return
        self._count(self._done)
        self._leave_at(self._index, integer(self.writer, reason))  # type: ignore[arg-type]

    def _call_unit(self) -> None:
        word = self.layout.words[self._index]
        failed = self.call_kernel(self.load_word(state.FLOAT_UNIT), word, _STATE)
        self._after = self._after or self.writer.new_label("after")
        refused = self.writer.new_label("refused")
        wrong = self._emit("b", f"icmp ne {typed(failed)}, 0")
        self.writer.branch(wrong, refused, self._after)
        self.writer.start(refused)
        self._count(self._done)
        self._leave_at(self._index, stop.ILLEGAL)

    def go_on(self, names: Environment) -> None:
        """Continue at another instruction, after this one is done."""
        if "limit" in names:
            self.writer.line(f"store {typed(names['limit'])}, ptr %limit")
        self._count(self._done + 1)
        self._go_to(names["index"])  # type: ignore[arg-type]

    def _go_to(self, index: Known) -> None:
        if isinstance(index, Value):
            self.writer.line(f"store {typed(index)}, ptr %index")
            self.writer.jump("dispatch")
        elif index in self.blocks:
            self.writer.jump(f"block{index}")
        else:
            self._leave_at(index, stop.TRANSLATED)

    def _leave_at(self, index: Known, reason: Known) -> None:
        self.writer.line(f"store {typed(index)}, ptr %index")
        self.writer.line(f"store {typed(reason)}, ptr %reason")
        self.writer.jump("out")

    def _count(self, done: int) -> None:
        """Count the executed instructions, ``done`` of this block."""
        total = self._emit("i", f"add i64 %before{self._block}, {done}")
        self.writer.line(f"store {typed(total)}, ptr %n")

    # -- text ------------------------------------------------------------------------------------------

    def text(self) -> str:
        """Return the module that holds the function."""
        for first, block in self.blocks.items():
            self._write_block(first, block)
        frame = Frame(self.used, self.blocks, self.known[state.CODE_BASE])
        return frame.module(self.writer.lines)

    def _write_block(self, first: int, block: list[int]) -> None:
        writer, self._block = self.writer, first
        writer.start(f"block{first}")
        writer.line(f"%before{first} = load i64, ptr %n")
        writer.line(f"%limit{first} = load i64, ptr %limit")
        writer.line(f"%total{first} = add i64 %before{first}, {len(block)}")
        near = self._emit("b", f"icmp sgt i64 %total{first}, %limit{first}")
        writer.branch(near, f"near{first}", f"body{first}")
        writer.start(f"near{first}")
        self._leave_at(first, stop.NEAR_LIMIT)
        writer.start(f"body{first}")
        for self._done, self._index in enumerate(block):
            if not self._write_instruction():
                return
        self._count(len(block))
        self._go_to(following(self.layout, block[-1]))

    def _source(self, operation: int) -> str:
        return source_of(operation, core.HAZARDS) if self.known[state.CORE_CHECK] else source_of(operation)

    def _retired(self, operation: int) -> Known:
        """Return the instructions before this one; only the source of engine instructions uses it."""
        if operation != ENGINE:
            return 0
        return self._emit("i", f"add i64 %before{self._block}, {self._done}")

    def _write_instruction(self) -> bool:
        """Write the instruction at ``_index``; False when none follows it in this block."""
        word = self.layout.words[self._index]
        self._after = ""
        names: Environment = {
            "s": State(),
            "address": _STATE,
            "w": word,
            "d": word >> 8 & 255,
            "t": word >> 24 & 255,
            "a": as_kind("i", self.load_word(word >> 16 & 255)),
            "imm": word >> 32,
            "index": self._index,
            "n": self._retired(word & 255),
            "words": len(self.layout.words) - 1,
            "reason": stop.LIMIT,
        }
        found = self.run(parsed(self._source(word & 255)), names, _names().scope)
        if self._after:
            if found is not None:
                self.writer.jump(self._after)
            self.writer.start(self._after)
        return found is not None or bool(self._after)
