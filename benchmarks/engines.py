"""Compares the engines that make machine code of kernels: `direct`, and Numba.

    python benchmarks/engines.py
    python benchmarks/summary.py engines            puts the tables into docs/benchmarks.md

Kernels by both are in one process and run in turn, as does ResNet-50; the least time counts. First runs are
of `examples/digits` in processes of their own, each with an empty cache of kernels, in turn. "Import" is the
processor time for importing what compiles, which is imported only when the cache lacks a kernel.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from _bench import Bench, Work, in_turn
from _operands import Case, all_cases
from _report import promise, tabulate
from emulator import load
from emulator.cli.arrays import random_arrays
from emulator.engines.slots import Slots
from emulator.memory.buffers import travel_dtype
from host_time import image_of

ENGINES = ("direct", "numba")
PASSES = 5
STARTS, FIRST_RUNS, WARM_RUNS = 5, 2, 20
MODULES = {"direct": "emulator.native.direct.compile", "numba": "emulator.native.by_numba.build"}
ROWS = (
    *("ct.add.vv.fp16", "ct.mul.vv.fp32", "ct.exp.v.fp32", "ct.sigmoid.v.fp16", "ct.reduce.sum.fp16"),
    *("ct.pool.max.fp16", "td.transpose.fp16", "ne.gemm.fp16", "ne.gemm.int8", "ne.conv.fp16"),
)
"""Beginnings of the names of ten cases; the first of each is measured."""
SLOWER = 1.05
"""The most that a kernel by Numba may take, in times of `direct`."""


@contextmanager
def engine(name: str) -> Iterator[None]:
    """Let an engine make the kernels."""
    before = os.environ.get("TX8_JIT")
    os.environ["TX8_JIT"] = name
    try:
        yield
    finally:
        del os.environ["TX8_JIT"]
        if before is not None:
            os.environ["TX8_JIT"] = before


def kernels(bench: Bench, case: Case) -> dict[str, Work]:
    """The kernel of a case by each engine."""
    works = {}
    for name in ENGINES:
        with engine(name):
            bench.slots = Slots()
            works[name] = bench.kernel(case)
    return works


def kernel_rows() -> list[tuple[str, dict[str, float]]]:
    """Seconds of ten kernels by each engine."""
    every, bench = all_cases(), Bench()
    found = []
    for row in ROWS:
        case = next(case for case in every if case.name.startswith(row))
        works = kernels(bench, case)
        passes = [in_turn(works) for _ in range(PASSES)]
        found.append((case.name, {name: min(s for each in passes for s in each[name]) for name in ENGINES}))
    return found


def least(work: Callable[[], object], times: int) -> float:
    """The least processor time of some calls."""
    taken = []
    for _ in range(times):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def warm_runs(image: Path) -> dict[str, float]:
    """Seconds of processor time of a run with ready kernels, by each engine."""
    programs, least_of = {}, dict.fromkeys(ENGINES, float("inf"))
    for name in ENGINES:
        with engine(name):
            programs[name] = load(image)
    wanted = [(each.name, each.shape, travel_dtype(each)) for each in programs["direct"].inputs]
    inputs = random_arrays(wanted, {}, 0)
    for _ in range(WARM_RUNS):
        for name in ENGINES:
            with engine(name):
                least_of[name] = min(least_of[name], least(lambda: programs[name].run(inputs), 1))  # noqa: B023
    return least_of


def child(command: list[str], **settings: str) -> tuple[float, float]:
    """Run a process; return its seconds on the clock, and its processor time with that of its children."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, **settings}, stdout=subprocess.DEVNULL)
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_runs(image: Path) -> dict[str, tuple[float, float]]:
    """Least seconds of a run without ready kernels: on the clock, of all processors."""
    tool = Path(sys.executable).with_name("tx8emu")
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ENGINES}
    for _ in range(FIRST_RUNS):
        for name in ENGINES:
            with tempfile.TemporaryDirectory() as cache:
                command = [str(tool), "-q", str(image), "--random", "0"]
                taken[name].append(child(command, TX8_JIT=name, TX8_CACHE_DIR=cache))
    return {name: (min(c for c, _ in each), min(p for _, p in each)) for name, each in taken.items()}


def starts() -> dict[str, float]:
    """Least seconds of processor time that the import of an engine adds."""
    taken: dict[str, list[float]] = {name: [] for name in ("", *ENGINES)}
    for _ in range(STARTS):
        for name, times in taken.items():
            module = MODULES.get(name, "emulator.native.loader")
            times.append(child([sys.executable, "-c", f"import {module}"])[1])
    return {name: min(taken[name]) - min(taken[""]) for name in ENGINES}


def main() -> int:
    start = starts()
    rows = kernel_rows()
    with tempfile.TemporaryDirectory() as folder:
        first = first_runs(image_of("digits", Path(folder)))
        warm = warm_runs(image_of("resnet50", Path(folder)))
    ratios = {case: times["numba"] / times["direct"] for case, times in rows}
    tabulate(
        ("engine", "import", "first run of digits", "of all processors", "ResNet-50 fp16, warm"),
        [
            (
                f"`{name}`",
                f"{start[name]:.2f} s",
                *(f"{seconds:.0f} s" for seconds in first[name]),
                f"{1e3 * warm[name]:.0f} ms",
            )
            for name in ENGINES
        ],
    )
    tabulate(
        ("kernel", *(f"by `{name}`" for name in ENGINES), "times"),
        [
            (f"`{case}`", *(f"{1e6 * t[name]:.1f} us" for name in ENGINES), f"{ratios[case]:.2f}")
            for case, t in rows
        ],
    )
    promise(
        "kernels by Numba, the slowest of ten",
        max(ratios.values()),
        "times",
        at_most=SLOWER,
        against="the time of `direct`'s",
    )
    promise(
        "resnet50 fp16 by Numba: a warm run",
        warm["numba"] / warm["direct"],
        "times",
        at_most=SLOWER,
        against="the processor time of `direct`'s",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
