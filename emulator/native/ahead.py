"""Compiles kernels side by side, in processes that end when all are in the cache.

Compiling is Python's work, so threads would take turns.
"""

from __future__ import annotations

import os
import signal
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from emulator import native

from . import store

Job = Callable[[], object]
_NUMBER = struct.Struct("<I")
_AT_ONCE = 1000
"""Numbers that a pipe holds before its writer waits for a reader."""


def possible() -> bool:
    """Return True if processes can help: several processors, a cache to write to, and no other thread.

    Only the thread that forks continues in the new process; locks of other threads stay locked there.
    """
    several = len(os.sched_getaffinity(0)) > 1
    return several and threading.active_count() == 1 and store.is_kept()


def prepare(jobs: Sequence[Job]) -> None:
    """Compile the kernels of jobs, in parallel if that is possible and the cache lacks some of them."""
    if len(jobs) < 2 or not native.jit_enabled() or not possible():
        return
    with native.cached_only():
        try:
            for job in jobs:
                job()
            return
        except native.Missing:
            pass
    if native.on_compile:
        native.on_compile(f"{len(jobs)} kernels, side by side", None)
    run_all(jobs)


def run_all(jobs: Sequence[Job], done: Callable[[], None] | None = None) -> None:
    """Run jobs that leave their results in the cache, in one process for each processor.

    ``done`` is called after each. A job that fails is skipped: its result is computed when it is needed, and
    the failure appears then.
    """
    native.import_compiler()  # once, not in each process
    for first in range(0, len(jobs), _AT_ONCE):
        _run_some(jobs[first : first + _AT_ONCE], done)


def _run_some(jobs: Sequence[Job], done: Callable[[], None] | None) -> None:
    numbers, take = os.pipe(), os.pipe()
    os.write(numbers[1], b"".join(_NUMBER.pack(number) for number in range(len(jobs))))
    os.close(numbers[1])
    children = [_child(jobs, numbers[0], take) for _ in range(min(len(os.sched_getaffinity(0)), len(jobs)))]
    os.close(numbers[0])
    os.close(take[1])
    try:
        while os.read(take[0], 1):
            if done:
                done()
    except BaseException:
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        raise
    finally:
        os.close(take[0])
        for child in children:
            os.waitpid(child, 0)


def _child(jobs: Sequence[Job], numbers: int, finished: tuple[int, int]) -> int:
    """Start a process that runs one job after another; return its number."""
    child = os.fork()
    if child:
        return child
    try:
        os.close(finished[0])
        while number := os.read(numbers, _NUMBER.size):
            with suppress(Exception):
                jobs[_NUMBER.unpack(number)[0]]()
            os.write(finished[1], b".")
    finally:
        os._exit(0)
