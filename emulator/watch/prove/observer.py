"""Executes a run in the field, instruction by instruction."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from emulator.engines import queues, tables
from emulator.memory import state
from emulator.memory.areas import Bytes
from emulator.native.primitives.memory import view_i64
from emulator.tile.engines import Engines
from emulator.tile.events import Copy, Pieces, Side, Target
from emulator.tile.observer import Observer
from emulator.tile.tile import Tile
from tx8isa.numbers.formats import Format
from tx8isa.numbers.prime_field import PrimeField, Words
from tx8isa.records.meaning import CountBits, CountNonZero, Extreme
from tx8isa.records.record import Instruction

from . import matrix, tensors, transfers, vectors
from .core import CoreMoves
from .memory import FieldMemory, Places, Taken
from .results import Results
from .step import FieldStep, Functions, NotFollowed

RULES: dict[type, Callable[[FieldStep], None]] = {
    **vectors.RULES,
    **tensors.RULES,
    **matrix.RULES,
    **transfers.RULES,
}
_READS_ONLY = (CountBits, CountNonZero, Extreme)
"""Meanings whose results the core reads; they stay the results of the real numbers."""
_HOOK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class FieldRun(Observer):
    """Observes the tiles of a chip, from before they run. They run on one host thread."""

    def __init__(self, tiles: Sequence[Tile], engines: Engines, ddr: Bytes, field: PrimeField) -> None:
        self.field, self._engines = field, engines
        self.functions: Functions = {}
        """Functions that programs read from tables."""
        self.ddr = FieldMemory(ddr, field)
        self.scratchpads = [FieldMemory(tile.spm.data, field) for tile in tiles]
        self.not_followed: Counter[str] = Counter()
        """Instructions that were executed in real numbers only, with their counts."""
        self.issued: list[tuple[str, int, str]] = []
        """Tile, address and name of every instruction that was executed, if results are kept."""
        self._finds, self._keeps, self._chip = False, False, ""
        self._failure: BaseException | None = None
        self._results: list[tuple[int, Words]] = []
        self._tiles = {tile.words.ctypes.data: tile for tile in tiles}
        self._records = tables.records()
        self._hook = _HOOK(self._executed)  # kept: compiled code calls it
        self._check = _HOOK(self._accessed)
        check = ctypes.cast(self._check, ctypes.c_void_p).value
        self._cores: dict[int, CoreMoves] = {}
        for tile, spm in zip(tiles, self.scratchpads, strict=True):
            tile.words[state.SANITIZER_HOOK] = ctypes.cast(self._hook, ctypes.c_void_p).value
            self._cores[tile.words.ctypes.data] = CoreMoves(tile, spm, self.ddr, check or 0)

    def find_places(self) -> None:
        """Let real numbers decide relations of elements, and the places that kernel cores find."""
        self._finds = True
        for core in self._cores.values():
            core.finds = True

    def keep_results(self, chip: str = "", first: FieldRun | None = None) -> None:
        """Keep the results of instructions, each with the instruction that computed it.

        ``first``: the run of another chip of the same program, whose lists are used too.
        """
        self._keeps, self._chip = True, chip
        if first is not None:
            self.issued, self._results = first.issued, first._results
        for memory in (self.ddr, *self.scratchpads):
            memory.writer = 1

    def _executed(self, what: int, address: int) -> int:
        """Handle the issue of an instruction: all before it are executed, in the order of the program."""
        if what < 16 or self._failure is not None:
            return 0
        try:
            self._follow(self._tiles[address], what)
        except BaseException as error:  # an exception does not pass through compiled code
            self._failure = error
        return 0

    def _accessed(self, what: int, address: int) -> int:
        """Handle a load or store that the core of a tile is about to execute."""
        if self._failure is None:
            try:
                if not self._cores[address].follow(what):
                    self.not_followed["stores of the kernel core: computed from elements"] += 1
            except BaseException as error:
                self._failure = error
        return 0

    def _follow(self, tile: Tile, entry: int) -> None:
        record = self._records[_word(entry, queues.E_RECORD)]
        names = [operand.name for operand in record.operands]
        words = view_i64(entry + 8 * queues.E_FIELDS, len(names))
        values = dict(zip(names, words.tolist(), strict=True))
        fmt = Format(values["format"]) if record.formats else None
        spm = self.scratchpads[tile.number]
        step = FieldStep(record, fmt, values, spm, self.ddr, self.field, self.functions, self._finds)
        if self._keeps:
            place = f"tile {tile.number}{self._chip}"
            self.issued.append((place, int(tile.words[state.PC]), record.mnemonic))
            step.spm.writer = step.ddr.writer = len(self.issued)
        rule = RULES.get(type(record.meaning))
        try:
            if rule is not None:
                rule(step)
            elif not isinstance(record.meaning, _READS_ONLY):
                raise NotFollowed("no rule")
        except NotFollowed as reason:
            self._unknown(step, record, str(reason))
        if step.decided:
            self.not_followed[f"{record.mnemonic}: real numbers decide"] += 1
        self._engines.finish(tile)
        if step.computed is not None:
            vectors.settle(step)
        self._keep(step)

    def _unknown(self, step: FieldStep, record: Instruction, reason: str) -> None:
        """Make the results of an instruction without a rule unknown."""
        self.not_followed[f"{record.mnemonic}: {reason}"] += 1
        for operand in record.operands:
            if operand.role in ("write", "update"):
                step.spm.forget(step.values[operand.name], step.length(operand.name))

    def check(self) -> None:
        """Raise the exception of an instruction's execution, if there was one."""
        if self._failure is not None:
            raise self._failure

    def _keep(self, step: FieldStep) -> None:
        if self._keeps and step.written is not None:
            self._results.append((len(self.issued), np.unique(self.field.keys(step.written))))

    def results(self) -> Results:
        """Return all results of instructions, if they were kept."""
        return Results(self._results)

    def copy_done(self, tile: Tile, copy: Copy, error: bool) -> None:
        if error or copy.away:
            return
        for target, taken in zip(copy.targets, self.leaving(tile, copy), strict=True):
            self.arrived(target, copy.pieces, taken)

    def leaving(self, tile: Tile, copy: Copy) -> list[Taken | None]:
        """Return, for each target of a copy, the elements and marks of its bytes; None if they have none."""
        sources = [(self._memory(tile.number, side), _blocks(copy.pieces, side)) for side in copy.sources]
        taken = [memory.taken(places, copy.pieces.size) for memory, places in sources]
        return [taken[copy.source_of(number)] for number in range(len(copy.targets))]

    def arrived(self, target: Target, pieces: Pieces, taken: Taken | None) -> None:
        """Store the elements and marks of the bytes that have arrived at a target."""
        self._memory(target.tile, target.side).put(_blocks(pieces, target.side), pieces.size, taken)

    def _memory(self, tile: int, side: Side) -> FieldMemory:
        return self.ddr if side.in_ddr else self.scratchpads[tile]


def _word(entry: int, at: int) -> int:
    return int(view_i64(entry + 8 * at, 1)[0])


def _blocks(pieces: Pieces, side: Side) -> Places:
    """Return the first bytes of the pieces of a side."""
    inner, middle, outer = (
        np.arange(trips) * stride for trips, stride in zip(pieces.trips, side.strides, strict=True)
    )
    return side.start + (outer.reshape(-1, 1, 1) + middle.reshape(-1, 1) + inner).ravel()
