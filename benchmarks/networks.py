"""Whole networks: compiled, run on the emulated chip beside onnxruntime, and what the chip takes for them.

    python benchmarks/networks.py [squeezenet] [resnet50] [gemm4096] [attention]

Compilation is that of a process of its own with nothing cached; memory is the most that process had. Run
times are those of ``Program.run`` from the second run on, with two threads, and of onnxruntime in binary32
with two threads; blocks of runs take turns. The least of each counts, because what else the machine does only
adds to it; the median stands beside it.
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
"""How long the two sides take turns."""
BLOCK = 0.4
"""Seconds that one side runs before the other does."""
PAUSE = 0.2
"""Seconds between blocks, until the threads of the side before sleep."""

Array = np.ndarray[Any, Any]
Inputs = dict[str, Array]
Peer = Callable[[], dict[str, Array]]


@dataclass(frozen=True)
class Goals:
    """What was set as a goal, None where nothing was. ``ratio``: time of a run by that of onnxruntime;
    ``seconds``, ``unsearched``: of compilation, with the default search and with none; ``reached``: share of
    the roofline; ``code``: bytes of prog.bin without the constants; ``first``: cycles of the first version,
    which ran every operator by itself, of which half are the goal."""

    first: int
    ratio: float | None = None
    seconds: float | None = None
    unsearched: float | None = None
    reached: float | None = None
    code: float | None = None


GOALS = {
    "squeezenet": Goals(2_186_887, ratio=4.0, seconds=3.0, unsearched=1.0),
    "resnet50": Goals(3_346_899, ratio=2.0, seconds=20.0, unsearched=5.0, reached=0.4, code=2e6),
    GEMM: Goals(10_823_786, reached=0.6),
    ATTENTION: Goals(27_392_027, reached=0.5),
}
FEWER = 2.0
"""How many times the cycles of the first version shall be those of this one."""
MEMORY = 6.0, 1e9
"""Most memory of a compilation: so many times the model's size, and so many bytes."""


_WATCH = """
import resource, subprocess, sys, time
start = time.perf_counter()
status = subprocess.run(sys.argv[1:]).returncode
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""
"""Runs a command in a small process: the memory of a child counts from that of its parent."""


def compiled(model: Path, dtype: str, folder: Path, *options: str) -> tuple[float, float]:
    """Compile a model into ``folder``: seconds, and bytes of memory at the most."""
    tool = str(Path(sys.executable).with_name("tx8cc"))
    command = [tool, "-q", "--no-cache", str(model), "--dtype", dtype, "-o", str(folder), *options]
    watch = [sys.executable, "-c", _WATCH, *command]
    done = subprocess.run(watch, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"tx8cc {model.name} --dtype {dtype}: exit status {done.returncode}")
    seconds, kilobytes = done.stdout.split()
    return float(seconds), float(kilobytes) * 1024.0


def onnxruntime_case(model: onnx.ModelProto, inputs: Inputs) -> Peer:
    """A run of the model by onnxruntime; outputs by name."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = THREADS, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda: dict(zip(names, session.run(names, inputs), strict=True))


def in_blocks(*runs: Callable[[], object]) -> list[list[float]]:
    """Seconds of the runs of each side, which take turns in blocks with pauses between.

    onnxruntime's threads look for work for some time after a run before they sleep. When the sides take turns
    run by run, a machine with two cores gives them half of the time of the other side, which then looks up to
    half as fast as it is. The first run of a block does not count: caches hold the data of the other side.
    """
    found: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for seconds, run in zip(found, runs, strict=True):
            time.sleep(PAUSE)
            seconds += block(run)
    return found


def block(run: Callable[[], object]) -> list[float]:
    """Seconds of the runs of one block; at least one, after one that does not count."""
    run()
    seconds = []
    end = time.perf_counter() + BLOCK
    while not seconds or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return seconds


def cosine(found: dict[str, Array], wanted: dict[str, Array]) -> float:
    """The least over all outputs."""
    pairs = [(found[name].ravel().astype(float), wanted[name].ravel().astype(float)) for name in wanted]
    return min(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in pairs)


def simulated(program: Program, inputs: Inputs) -> tuple[float, str, float]:
    """Simulated cycles of a run, what bounds it, and the share of that bound it reaches."""
    statistics = Statistics(program.image, program.machine)
    system = program.start(inputs, threads=THREADS, sinks=[statistics])
    system.run()
    report = make_report(statistics, system.tiles)
    return report.cycles, report.bound or "nothing", report.reached


@dataclass(frozen=True)
class Figures:
    """What was measured of one model in one format; seconds, and bytes of memory and of code.

    ``ours`` and ``theirs`` are those of all runs."""

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
        """Least time of ours by least time of theirs."""
        return min(self.ours) / min(self.theirs)

    @property
    def median_ratio(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.theirs)


def measured(path: Path, case: Case) -> Figures:
    """Compile a model beside its file, with and without search, and run what the search found."""
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
    """Print the figures, medians in brackets, and promise those with a goal; ``size``: bytes of the model."""
    print(
        f"{what:16} run {_milliseconds(found.ours)}, onnxruntime {_milliseconds(found.theirs)}, "
        f"ratio {found.ratio:.2f} ({found.median_ratio:.2f}), cosine {found.alike:.6f}; "
        f"compiled in {found.compilation:5.2f} s, without search {found.unsearched:5.2f} s, "
        f"{found.memory / 1e6:5.0f} MB, {found.code / 1e3:,.0f} kB of code; "
        f"{found.cycles:12,.0f} cycles, {found.reached:.0%} of the bound ({found.bound})",
        flush=True,
    )
    most = MEMORY[0] * size + MEMORY[1]
    beside = f"onnxruntime fp32, two threads each; medians {found.median_ratio:.2f} times"
    rows = [
        (f"{what}: a warm run", found.ratio, "times", goals.ratio, beside),
        (f"{what}: compiled, cold cache", found.compilation, "s", goals.seconds, ""),
        (f"{what}: compiled, without search", found.unsearched, "s", goals.unsearched, ""),
        (f"{what}: memory of the compiler", found.memory / 1e6, "MB", most / 1e6, ""),
        (f"{what}: prog.bin without constants", found.code / 1e6, "MB", goals.code and goals.code / 1e6, ""),
    ]
    for name, figure, unit, goal, beside in rows:
        if goal is not None:
            promise(name, figure, unit, at_most=goal, beside=beside)
    if goals.reached is not None:
        beside = f"its bound, {found.bound}"
        promise(f"{what}: of the roofline", found.reached, "%", at_least=goals.reached, beside=beside)
    beside = f"cycles of the first version: {goals.first:,}"
    promise(f"{what}: cycles saved", goals.first / found.cycles, "times", at_least=FEWER, beside=beside)


def _milliseconds(seconds: list[float]) -> str:
    return f"{1e3 * min(seconds):6.1f} ({1e3 * statistics.median(seconds):6.1f}) ms"


def benchmark(name: str, folder: Path) -> None:
    """Every figure of one model, in each of its forms."""
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
