"""Set up the memories of one tile with the emulator's kernels, and time alternatives in turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from _operands import DDR_BYTES, ENTRIES, Case
from emulator import native
from emulator.engines import tables
from emulator.engines.slots import Slots
from emulator.memory import state
from emulator.memory.areas import SCRATCH_BYTES, anonymous, make_scratchpads
from emulator.native.primitives.memory import call_kernel, copy_bytes, view_i64
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import s64
from tx8isa.records.meaning import (
    Bitwise,
    Compress,
    Convert,
    CountBits,
    Gather,
    MaskedCopy,
    Uniform,
    Unpack,
    Unpool,
)

ROUNDS = 5
SAMPLE_SECONDS = 1e-3
"""A sample repeats its work for at least this time, so that the overhead of calls and clock is small."""
_POOL = 1 << 16
_POSITIVE = ("ct.sqrt.v", "ct.rsqrt.v", "ct.log2.v", "ct.ln.v")
_BYTES = (Bitwise, CountBits, Unpack, Uniform)
"""Meanings whose sources are any bytes."""

Array = np.ndarray[Any, Any]
Work = Callable[[int], object]
"""Does its work the given number of times."""


def call_many(arguments: int, times: int) -> int:
    """Call a kernel ``times`` times with ``arguments``: its address, its fields, the state of the tile."""
    words = view_i64(arguments, 3)
    for _ in range(times):
        call_kernel(s64(words[0]), s64(words[1]), s64(words[2]))
    return 0


def copy_many(arguments: int, times: int) -> int:
    """Copy bytes ``times`` times; ``arguments`` are target, source and number of bytes."""
    words = view_i64(arguments, 3)
    for _ in range(times):
        copy_bytes(s64(words[0]), s64(words[1]), s64(words[2]))
    return 0


def in_turn(works: dict[str, Work]) -> dict[str, list[float]]:
    """``ROUNDS`` samples of the seconds of each work. Every round runs all works; the first runs do not
    count."""
    repeats = {}
    for name, work in works.items():
        work(1)
        start = time.perf_counter()
        work(1)
        repeats[name] = max(1, int(SAMPLE_SECONDS / max(time.perf_counter() - start, 1e-7)))
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            start = time.perf_counter()
            work(repeats[name])
            seconds[name].append((time.perf_counter() - start) / repeats[name])
    return seconds


def area(size: int) -> Array:
    """Zero bytes that begin at a page."""
    memory = anonymous(size)
    if memory is None:
        raise SystemExit(f"the host refuses {size} bytes for the benchmark")
    return memory


class Bench:
    """A tile whose kernels are called directly, without issue and queues."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.spm = make_scratchpads(load_machine(None))[0].data
        self.ddr, self.other, self.scratch = (area(size) for size in (DDR_BYTES, DDR_BYTES, SCRATCH_BYTES))
        self.state = np.zeros(state.SIZE, np.int64)
        self.write_back = np.zeros(2, np.int64)
        for word, memory in ((state.SPM, self.spm), (state.DDR, self.ddr), (state.SCRATCH, self.scratch)):
            self.state[word] = memory.ctypes.data
        self.state[state.SPM_BYTES], self.state[state.DDR_BYTES] = self.spm.size, self.ddr.size
        self.state[state.SCRATCH_BYTES], self.state[state.RANDOM] = self.scratch.size, 1
        self.state[state.WRITE_BACK] = self.write_back.ctypes.data
        self.slots = Slots()
        self.compiling = 0.0
        """Seconds spent on kernels that were not in the object cache, and on loading those that were."""
        self.caller = native.compile_kernel(call_many, "benchmark caller", 2)
        self.copier = native.compile_kernel(copy_many, "benchmark copier", 2)

    def memory(self, case: Case, operand: str, dtype: Any) -> Array:
        """The bytes that a case accesses through an address operand."""
        record = case.instruction.operand(operand)
        start, memory = case.value(operand), self.ddr if record.memory == "ddr" else self.spm
        return memory[start : start + case.extent(record)].view(dtype)

    def kernel(self, case: Case) -> Work:
        """The kernel of a case on its operands, which are filled first."""
        self.fill(case)
        slot = tables.numbers()[case.instruction.mnemonic] * tables.SLOTS_PER_RECORD
        slot += int(case.format) if case.format is not None else 0
        start = time.perf_counter()
        self.slots.fill(slot)
        self.compiling += time.perf_counter() - start
        code, table = self.slots.words[slot].tolist()
        fields = np.array([*case.values, table], np.int64)
        arguments = np.array([code, fields.ctypes.data, self.state.ctypes.data], np.int64)

        def work(times: int, _kept: Array = fields) -> None:
            native.call(self.caller, arguments.ctypes.data, times)

        return work

    def copy(self, size: int) -> Work:
        """A copy of ``size`` bytes by the C library, in other memory than that of the tile."""
        half = self.other.size // 2
        first = self.other.ctypes.data
        arguments = np.array([first, first + half, min(size, half)], np.int64)
        return lambda times: native.call(self.copier, arguments.ctypes.data, times)

    # -- values of operands ----------------------------------------------------------------

    def fill(self, case: Case) -> None:
        """Fill the operands that a case reads with ordinary numbers, valid indices and the like."""
        for operand in case.instruction.operands:
            if operand.is_address and operand.role != "write" and case.extent(operand):
                memory = self.memory(case, operand.name, np.uint8)
                memory[:] = np.resize(self.pool(case, operand.name).view(np.uint8), memory.size)

    def pool(self, case: Case, operand: str) -> Array:
        """64 k typical elements of an operand."""
        meaning, second = case.instruction.meaning, operand == "src1"
        if isinstance(meaning, _BYTES) or (isinstance(meaning, Compress) and second):
            return self.rng.integers(0, 256, _POOL, np.uint8)
        if isinstance(meaning, Gather) and second:
            bits = meaning.bits or (case.format.bits if case.format is not None else 0)
            entries = self.rng.integers(0, ENTRIES, _POOL)
            return (entries * (bits // 8 if meaning.in_bytes else 1)).astype(f"u{bits // 8}")
        if isinstance(meaning, Unpool) and second:
            return self.rng.integers(0, 4, _POOL).astype(np.uint16)
        fmt = meaning.source if isinstance(meaning, Convert) else case.format or Format.FP32
        if not fmt.is_float:
            return self.rng.integers(-100, 100, _POOL).astype(f"i{fmt.bits // 8}")
        numbers = self.rng.normal(0, 2, _POOL).astype(np.float32)
        if case.instruction.mnemonic in _POSITIVE:
            numbers = np.abs(numbers)
        if isinstance(meaning, MaskedCopy) and second:
            numbers = (numbers > 0).astype(np.float32)
        return stored(numbers, fmt)


def stored(numbers: Array, fmt: Format) -> Array:
    """FP32 numbers as the bytes of a float format, without the extra fraction bits."""
    if fmt is Format.FP16:
        return numbers.astype(np.float16)
    bits = numbers.view(np.uint32)
    if fmt is Format.BF16:
        return (bits >> 16).astype(np.uint16)
    return bits & np.uint32(0xFFFFE000) if fmt is Format.TF32 else bits
