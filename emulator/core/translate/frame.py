"""The code around the blocks of a translated function: its variables, its entrances and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from emulator.core.predecode import PARCEL
from emulator.memory import state, stop
from emulator.native.direct.values import Value, Writer, typed
from emulator.native.direct.vocabulary import DECLARATIONS

ENTRY = "region"
FLUSH, RELOAD = "; registers to the state", "; registers from the state"
"""Placeholders for lines that are only known when all blocks are written."""


def is_register(place: int) -> bool:
    """Return True if a place of the state is kept in a variable."""
    return state.X <= place < state.SINK or state.F <= place < state.F + 32


class Frame:
    """``used`` says of each register whether it is written; ``blocks`` are the words that can be entered."""

    def __init__(self, used: Mapping[int, bool], blocks: Iterable[int], base: int) -> None:
        self.used, self.blocks, self.base = used, tuple(blocks), base
        self.writer = Writer("f")

    def module(self, body: list[str]) -> str:
        """Return the module of a function whose blocks have been written."""
        lines = [f"define i64 @{ENTRY}(i64 %first, i64 %state) {{", "entry:", *self._lines(self._head)]
        stand_for = {FLUSH: self._to_state, RELOAD: self._from_state}
        for line in body:
            lines += self._lines(stand_for[line]) if line in stand_for else [line]
        return "\n".join([*lines, *self._lines(self._out), "}", DECLARATIONS])

    def _lines(self, write: Callable[[], None]) -> list[str]:
        self.writer.lines = []
        write()
        return self.writer.lines

    def _head(self) -> None:
        """Set up the variables and jump to the requested block."""
        writer = self.writer
        writer.line("%s = inttoptr i64 %state to ptr")
        for name in (*(f"r{place}" for place in self.used), "n", "limit", "index", "reason"):
            writer.line(f"%{name} = alloca i64")
        self._load("n", state.RETIRED)
        self._load("limit", state.LIMIT)
        self._from_state()
        writer.line("store i64 %first, ptr %index")
        writer.jump("dispatch")
        writer.start("dispatch")
        index = self._variable("index")
        cases = " ".join(f"i64 {first}, label %block{first}" for first in self.blocks)
        writer.line(f"switch {typed(index)}, label %elsewhere [ {cases} ]")
        writer.start("elsewhere")
        writer.line(f"store i64 {stop.TRANSLATED}, ptr %reason")
        writer.jump("out")

    def _out(self) -> None:
        """Store everything and return."""
        writer = self.writer
        writer.start("out")
        self._to_state()
        distance = writer.make("i", f"mul {typed(self._variable('index'))}, {PARCEL}")
        self._store(state.PC, writer.make("i", f"add {typed(distance)}, {self.base}"))
        self._store(state.RETIRED, self._variable("n"))
        writer.line(f"ret {typed(self._variable('reason'))}")

    def _from_state(self) -> None:
        for place in self.used:
            self._load(f"r{place}", place)

    def _to_state(self) -> None:
        for place, written in self.used.items():
            if written:
                self._store(place, self._variable(f"r{place}"))

    def _variable(self, name: str) -> Value:
        return self.writer.make("i", f"load i64, ptr %{name}")

    def _pointer(self, place: int) -> str:
        return self.writer.make("i", f"getelementptr i64, ptr %s, i64 {place}").name

    def _load(self, variable: str, place: int) -> None:
        value = self.writer.make("i", f"load i64, ptr {self._pointer(place)}")
        self.writer.line(f"store {typed(value)}, ptr %{variable}")

    def _store(self, place: int, value: Value) -> None:
        self.writer.line(f"store {typed(value)}, ptr {self._pointer(place)}")
