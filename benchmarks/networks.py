"""Whole networks: times of compiling, of runs compared with onnxruntime, and simulated cycles.

    python benchmarks/networks.py [squeezenet] [resnet50] [gemm4096] [attention]

Each compilation is a process of its own with an empty cache; its peak memory is measured too. Run times are
those of ``Program.run`` from the second run on and of onnxruntime in binary32, with two threads each, in
blocks of runs that take turns. The least time of each counts, because other load of the machine only
lengthens times; the median is printed too.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from _graphs import ATTENTION, GEMM, NAMES, Case, cases
from _report import promise
from emulator import load
from emulator.program import Program
from emulator.watch.stats.result import make_report
from emulator.watch.stats.sink import Statistics

THREADS = 2
SECONDS = 6.0
"""Seconds for which both sides run in turn."""
BLOCK = 0.4
"""Seconds that one side runs before the other does."""
PAUSE = 0.2
"""Seconds between blocks, after which the threads of the other side sleep."""

Array = np.ndarray[Any, Any]
Inputs = dict[str, Array]
Peer = Callable[[], dict[str, Array]]


@dataclass(frozen=True)
class Goals:
    """The goals of a model, or None."""

    first: int
    """Cycles of the first version of the compiler, which ran every operator alone; the goal is half of it."""
    ratio: float | None = None
    """Time of a run relative to onnxruntime."""
    seconds: float | None = None
    """Seconds of compilation with the default search."""
    unsearched: float | None = None
    """Seconds of compilation without search."""
    reached: float | None = None
    """Share of the roofline."""
    code: float | None = None
    """Bytes of prog.bin without the constants."""


GOALS = {
    "squeezenet": Goals(2_186_887, ratio=4.0, seconds=3.0, unsearched=1.0),
    "resnet50": Goals(3_346_899, ratio=2.0, seconds=20.0, unsearched=5.0, reached=0.4, code=2e6),
    GEMM: Goals(10_823_786, reached=0.6),
    ATTENTION: Goals(27_392_027, reached=0.5),
}
FEWER = 2.0
"""The goal for the cycles of the first version, relative to those of this one."""
MEMORY = 6.0, 1e9
"""The most memory that a compilation may take: a multiple of the model's size, and additional bytes."""


_WATCH = """
import resource, subprocess, sys, time
start = time.perf_counter()
status = subprocess.run(sys.argv[1:]).returncode
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""
"""Runs a command from a small process, because the peak memory of a child includes that of its parent."""


def compiled(model: Path, dtype: str, folder: Path, *options: str) -> tuple[float, float]:
    """Compile a model into ``folder``; returns the seconds and the peak memory in bytes."""
    tool = str(Path(sys.executable).with_name("tx8cc"))
    command = [tool, "-q", "--no-cache", str(model), "--dtype", dtype, "-o", str(folder), *options]
    watch = [sys.executable, "-c", _WATCH, *command]
    done = subprocess.run(watch, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"tx8cc {model.name} --dtype {dtype}: exit status {done.returncode}")
    seconds, kilobytes = done.stdout.split()
    return float(seconds), float(kilobytes) * 1024.0


def onnxruntime_case(model: onnx.ModelProto, inputs: Inputs) -> Peer:
    """A function that runs the model with onnxruntime and returns the outputs by name."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = THREADS, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda: dict(zip(names, session.run(names, inputs), strict=True))


def in_blocks(*runs: Callable[[], object]) -> list[list[float]]:
    """Seconds of the runs of each side; the sides run in turn, in blocks with pauses between.

    onnxruntime's threads spin for some time after a run before they sleep. If the sides alternated run by
    run, these threads would take up to half of the other side's time on a machine with two cores. The first
    run of a block does not count, because the caches hold the data of the other side.
    """
    found: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for seconds, run in zip(found, runs, strict=True):
            time.sleep(PAUSE)
            seconds += block(run)
    return found


def block(run: Callable[[], object]) -> list[float]:
    """Seconds of the runs of one block: at least one run after the first, which does not count."""
    run()
    seconds: list[float] = []
    end = time.perf_counter() + BLOCK
    while not seconds or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return seconds


def cosine(found: dict[str, Array], wanted: dict[str, Array]) -> float:
    """The least cosine of all outputs."""
    pairs = [(found[name].ravel().astype(float), wanted[name].ravel().astype(float)) for name in wanted]
    return min(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in pairs)


def simulated(program: Program, inputs: Inputs) -> tuple[float, str, float]:
    """Simulated cycles of a run, the name of its bound, and the share of this bound that it reaches."""
    statistics = Statistics(program.image, program.machine)
    system = program.start(inputs, threads=THREADS, sinks=[statistics])
    system.run()
    report = make_report(statistics, system.tiles)
    return report.cycles, report.bound or "nothing", report.reached


@dataclass(frozen=True)
class Figures:
    """The measurements of one model in one format, in seconds and bytes.

    ``ours`` and ``theirs`` are the seconds of all runs of tx8emu and of onnxruntime.
    """

    ours: list[float]
    theirs: list[float]
    alike: float
    compilation: float
    unsearched: float
    memory: float
    code: int
    cycles: float
    bound: str
    reached: float

    @property
    def ratio(self) -> float:
        """The ratio of the least times."""
        return min(self.ours) / min(self.theirs)

    @property
    def median_ratio(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.theirs)


def measured(path: Path, case: Case) -> Figures:
    """Compile a model, whose file is in the same folder, with and without search, and run the program made
    with search."""
    target = path.with_suffix(f".{case.dtype}")
    unsearched, _ = compiled(path, case.dtype, target, "--search", "off")
    compilation, memory = compiled(path, case.dtype, target)
    code = (target / "prog.bin").stat().st_size - (target / "prog.const").stat().st_size
    program = load(target / "prog.bin")
    run, peer = partial(program.run, case.inputs, threads=THREADS), onnxruntime_case(case.single, case.inputs)
    ours, theirs = in_blocks(run, peer)
    alike = cosine(run(), peer())
    times = simulated(program, case.inputs)
    return Figures(ours, theirs, alike, compilation, unsearched, memory, code, *times)


def state(what: str, found: Figures, goals: Goals, size: int) -> None:
    """Print the figures, with medians in brackets, and promise the figures that have a goal.

    ``size`` is that of the model in bytes.
    """
    print(
        f"{what:16} run {_milliseconds(found.ours)}, onnxruntime {_milliseconds(found.theirs)}, "
        f"ratio {found.ratio:.2f} ({found.median_ratio:.2f}), cosine {found.alike:.6f}; "
        f"compiled in {found.compilation:5.2f} s, without search {found.unsearched:5.2f} s, "
        f"{found.memory / 1e6:5.0f} MB, {found.code / 1e3:,.0f} kB of code; "
        f"{found.cycles:12,.0f} cycles, {found.reached:.0%} of the bound ({found.bound})",
        flush=True,
    )
    most = MEMORY[0] * size + MEMORY[1]
    against = f"onnxruntime fp32, two threads each; medians {found.median_ratio:.2f} times"
    rows = [
        (f"{what}: a warm run", found.ratio, "times", goals.ratio, against),
        (f"{what}: compiled, cold cache", found.compilation, "s", goals.seconds, ""),
        (f"{what}: compiled, without search", found.unsearched, "s", goals.unsearched, ""),
        (f"{what}: memory of the compiler", found.memory / 1e6, "MB", most / 1e6, ""),
        (f"{what}: prog.bin without constants", found.code / 1e6, "MB", goals.code and goals.code / 1e6, ""),
    ]
    for name, figure, unit, goal, against in rows:
        if goal is not None:
            promise(name, figure, unit, at_most=goal, against=against)
    if goals.reached is not None:
        against = f"its bound, {found.bound}"
        promise(f"{what}: of the roofline", found.reached, "%", at_least=goals.reached, against=against)
    against = f"cycles of the first version: {goals.first:,}"
    promise(f"{what}: cycles saved", goals.first / found.cycles, "times", at_least=FEWER, against=against)


def _milliseconds(seconds: list[float]) -> str:
    return f"{1e3 * min(seconds):6.1f} ({1e3 * statistics.median(seconds):6.1f}) ms"


def benchmark(name: str, folder: Path) -> None:
    """Measure a model in each of its cases."""
    for case in cases(name):
        path = folder / f"{name}.onnx"
        onnx.save(case.model, path)
        state(f"{case.name} {case.dtype}", measured(path, case), GOALS[name], path.stat().st_size)


def main(names: list[str]) -> None:
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        raise SystemExit(f"no model '{unknown[0]}'; there are: {', '.join(NAMES)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names or NAMES:
            benchmark(name, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
