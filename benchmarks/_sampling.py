"""Samples of the host's program counter, and the functions and files that the addresses belong to.

A timer of the process's own time interrupts it; the handler is machine code that notes an address and
returns. So the emulator neither counts nor reads clocks, and costs the same as ever when no sampler runs.
"""

from __future__ import annotations

import ctypes
import io
import os
import platform
import signal
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding as llvm
import numpy as np
from elftools.elf.elffile import ELFFile

from emulator.native.loader import ENTRY, LoadedCode, initialize, loaded

PERIOD = 1e-3
"""Seconds of the process's time from one sample to the next; the kernel's tick may be longer."""
_MOST = 1 << 18
_STACK, _COUNTER = 160, 168
"""Offsets of stack pointer and program counter in the ``ucontext_t`` of Linux on x86-64 (glibc,
sys/ucontext.h: REG_RSP and REG_RIP of ``gregs``, which begins at byte 40)."""
_SIGINFO, _RESTART = 4, 0x10000000
"""Flags of sigaction: the handler gets the context; system calls go on."""
_HANDLER = """
define void @tx8_sample(i32 %signal, ptr %info, ptr %context) {{
    %at = getelementptr i8, ptr %context, i64 {counter}
    %address = load i64, ptr %at
    %below = getelementptr i8, ptr %context, i64 {stack}
    %top = load ptr, ptr %below
    %caller = load i64, ptr %top
    %count = inttoptr i64 {count} to ptr
    %number = atomicrmw add ptr %count, i64 1 monotonic
    %fits = icmp ult i64 %number, {most}
    br i1 %fits, label %keep, label %done
keep:
    %words = inttoptr i64 {words} to ptr
    %place = shl i64 %number, 1
    %word = getelementptr i64, ptr %words, i64 %place
    store i64 %address, ptr %word
    %next = getelementptr i64, ptr %word, i64 1
    store i64 %caller, ptr %next
    br label %done
done:
    ret void
}}
"""


class _Action(ctypes.Structure):
    """``struct sigaction`` of glibc on x86-64."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class Place(NamedTuple):
    """The owner of an address: a compiled kernel and a function in it, or a file without a function."""

    owner: str
    function: str


class Sampler:
    """Sample this process while ``running``; SystemExit on a host whose signal contexts are unknown."""

    def __init__(self) -> None:
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            raise SystemExit(f"host times are sampled on Linux and x86-64, this is {platform.platform()}")
        self._count, self._words = np.zeros(1, np.int64), np.zeros((_MOST, 2), np.int64)
        numbers = {"count": self._count.ctypes.data, "words": self._words.ctypes.data}
        text = _HANDLER.format(**numbers, counter=_COUNTER, stack=_STACK, most=_MOST)
        initialize()
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
        self._engine.finalize_object()
        self._handler = self._engine.get_function_address("tx8_sample")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Take samples meanwhile."""
        old, new = _Action(), _Action(handler=self._handler, flags=_SIGINFO | _RESTART)
        _install(new, old)
        signal.setitimer(signal.ITIMER_PROF, PERIOD, PERIOD)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            _install(old, new)

    @property
    def samples(self) -> list[tuple[int, int]]:
        """The program counters, and the words on top of the stack.

        In a function without a frame, such as a copy of the C library, that word is the return address.
        """
        return [(at, top) for at, top in self._words[: min(int(self._count[0]), _MOST)].tolist()]


def _install(new: _Action, old: _Action) -> None:
    if ctypes.CDLL(None, use_errno=True).sigaction(signal.SIGPROF, ctypes.byref(new), ctypes.byref(old)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@dataclass(frozen=True)
class _Range:
    first: int
    end: int
    place: Place


class Map:
    """The code in this process: functions of kernels, and mapped files."""

    def __init__(self) -> None:
        self._kernels = _Ranges([function for code in loaded for function in _functions(code)])
        self._files = _Ranges(list(_mapped()))

    def place(self, address: int, top: int = 0) -> Place:
        """The owner of an address; ``""`` if no file contains its code.

        A function of the C library belongs to the kernel that has called it, if it is ``top`` that says so.
        """
        found = self._kernels.find(address) or self._files.find(address) or Place("", "")
        caller = self._kernels.find(top) if found.owner.startswith("libc.") else None
        return caller or found


class _Ranges:
    def __init__(self, ranges: list[_Range]) -> None:
        self._ranges = sorted(ranges, key=lambda each: each.first)
        self._firsts = [each.first for each in self._ranges]

    def find(self, address: int) -> Place | None:
        at = bisect_right(self._firsts, address) - 1
        return self._ranges[at].place if at >= 0 and address < self._ranges[at].end else None


def _functions(code: LoadedCode) -> Iterator[_Range]:
    """The functions of a loaded kernel."""
    table = ELFFile(io.BytesIO(code.kernel)).get_section_by_name(".symtab")
    symbols = [each for each in table.iter_symbols() if each["st_info"]["type"] == "STT_FUNC"]
    (entry,) = (each["st_value"] for each in symbols if each.name == ENTRY)
    for symbol in symbols:
        first = code.address + symbol["st_value"] - entry
        yield _Range(first, first + symbol["st_size"], Place(code.name, symbol.name.partition(".")[0]))


def _mapped() -> Iterator[_Range]:
    """The files with code that are mapped into this process."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights, *_, last = line.split()
        if "x" in rights and last.startswith(("/", "[")):
            first, end = (int(address, 16) for address in addresses.split("-"))
            yield _Range(first, end, Place(Path(last).name, ""))
