"""Operands at the edges of every record: the largest extents, one element beyond the last byte."""

from __future__ import annotations

from functools import cache

import numpy as np

from emulator import native
from emulator.kernels import is_compact, kernel_name, make_kernel, make_table, ne
from emulator.kernels.reference import execute
from emulator.memory import state
from emulator.memory.areas import SCRATCH_BYTES, anonymous
from kernel_bench import Tile, patterns
from record_operands import DDR_BYTES, SPM_BYTES, Case
from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import Control, Convert, ScalarFunction
from tx8isa.records.record import Engine, Instruction
from tx8isa.table.registry import instructions

RECORDS = instructions()


WITHOUT_KERNEL = (Control, ScalarFunction)
"""Copies between tiles, waits, and the unit that writes a register: no reference, but other tests."""


KERNELS = [r for r in RECORDS if not isinstance(r.meaning, WITHOUT_KERNEL)]


_scratch = anonymous(SCRATCH_BYTES)


def formats(record: Instruction) -> tuple[Format | None, ...]:
    return record.formats or (None,)


def one_format(record: Instruction, turn: int = 0) -> tuple[Format | None, ...]:
    """One of the formats, another one for the next record."""
    all_formats = formats(record)
    return (all_formats[(RECORDS.index(record) + turn) % len(all_formats)],)


class Bench(Tile):
    """Memories and state words of a tile; the format of the numbers in memory is that of the instruction."""

    def __init__(self, case: Case, seed: int) -> None:
        super().__init__(seed)
        assert _scratch is not None
        self.spm, self.ddr = memory(case, SPM_BYTES, seed), memory(case, DDR_BYTES, seed + 1)
        self.state[state.SPM], self.state[state.SPM_BYTES] = self.spm.ctypes.data, SPM_BYTES
        self.state[state.DDR] = self.ddr.ctypes.data
        self.state[state.SCRATCH], self.state[state.SCRATCH_BYTES] = _scratch.ctypes.data, SCRATCH_BYTES

    def execute_kernel(self, case: Case, compiled: bool) -> None:
        record, nearest = case.record, case.named.get("rnd", 0) == 0
        table = None
        if record.engine is Engine.NE:
            kernel, name = ne.make_kernel(record, case.fmt, False), f"{record.mnemonic} {case.fmt!r}"
        else:
            kernel, name = make_kernel(record, case.fmt, nearest), kernel_name(record, case.fmt, nearest)
            table = make_table(record, case.fmt)
        fields = np.array([*case.values, 0 if table is None else table.ctypes.data], np.int64)
        where = fields.ctypes.data, self.state.ctypes.data
        with np.errstate(all="ignore"):
            if compiled:
                address = native.compile_kernel(kernel, name, 2, compact=is_compact(record))
                assert native.call(address, *where) == 0
            else:
                assert kernel(*where) == 0

    def execute_reference(self, case: Case) -> None:
        spm, ddr = bytearray(self.spm.tobytes()), bytearray(self.ddr.tobytes())
        write_back: list[int] = self.write_back.tolist()
        random = int(self.state[state.RANDOM])
        random = execute(case.record, case.fmt, case.values, spm, ddr, random, write_back)
        self.spm[:], self.ddr[:] = np.frombuffer(spm, np.uint8), np.frombuffer(ddr, np.uint8)
        self.write_back[:], self.state[state.RANDOM] = write_back, random

    def image(self) -> bytes:
        """All state that an instruction may change."""
        random = self.state[state.RANDOM : state.RANDOM + 1]
        return b"".join(part.tobytes() for part in (self.spm, self.ddr, self.write_back, random))


def memory(case: Case, size: int, seed: int) -> np.ndarray:
    """Numbers of the instruction's format, including special ones, or any bytes."""
    meaning = case.record.meaning
    return _memory(meaning.source if isinstance(meaning, Convert) else case.fmt, size, seed).copy()


@cache
def _memory(fmt: Format | None, size: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if fmt is None or fmt is Format.BOOL:
        return rng.integers(0, 256, size, dtype=np.uint8)
    return patterns(fmt, size * 8 // fmt.bits, rng).view(np.uint8)
