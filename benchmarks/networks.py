"""Whole networks: compiled, run on the emulated chip beside onnxruntime, and what the chip takes for them.

    python benchmarks/networks.py [squeezenet] [resnet50]

Compilation is that of a process of its own with nothing cached; memory is the most that process had. Run
times are those of ``Program.run`` from the second run on, with two threads, and of onnxruntime in binary32
with two threads; they take turns, and the least of each counts: what else the machine does only adds to it.
"""

from __future__ import annotations

import os
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
from _light import NAMES, image, light_model
from _report import promise

from emulator import load
from emulator.program import Program
from emulator.stats.result import make_report
from emulator.stats.sink import Statistics

THREADS = 2
SECONDS = 4.0
"""How long the two sides take turns."""
DTYPES = ("fp16", "bf16")

Array = np.ndarray[Any, Any]
Inputs = dict[str, Array]
Peer = Callable[[], dict[str, Array]]


@dataclass(frozen=True)
class Goals:
    """``ratio``: time of a run by that of onnxruntime; ``seconds``: of compilation; ``reached``: share of the
    roofline, None where none was set."""

    ratio: float
    seconds: float
    reached: float | None = None


GOALS = {"squeezenet": Goals(4.0, 3.0), "resnet50": Goals(2.0, 20.0, 0.4)}
MEMORY = 6.0, 1e9
"""Most memory of a compilation: so many times the model's size, and so many bytes."""


def compiled(model: Path, dtype: str, folder: Path) -> tuple[float, float]:
    """Compile a model into ``folder``: seconds, and bytes of memory at the most."""
    tool = str(Path(sys.executable).with_name("tx8cc"))
    start = time.perf_counter()
    process = subprocess.Popen([tool, "-q", "--no-cache", model, "--dtype", dtype, "-o", folder])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"tx8cc {model.name} --dtype {dtype}: exit status {process.returncode}")
    return time.perf_counter() - start, usage.ru_maxrss * 1024.0


def onnxruntime_case(model: onnx.ModelProto, inputs: Inputs) -> Peer:
    """A run of the model by onnxruntime; outputs by name."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = THREADS, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda: dict(zip(names, session.run(names, inputs), strict=True))


def least(*cases: Callable[[], object]) -> list[float]:
    """Least seconds of each; they take turns, after a first run that does not count."""
    best = [float("inf")] * len(cases)
    for case in cases:
        case()
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for number, case in enumerate(cases):
            start = time.perf_counter()
            case()
            best[number] = min(best[number], time.perf_counter() - start)
    return best


def cosine(found: dict[str, Array], wanted: dict[str, Array]) -> float:
    """The least over all outputs."""
    pairs = [(found[name].ravel().astype(float), wanted[name].ravel()) for name in wanted]
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
    """What was measured of one network in one format; seconds, and bytes of memory."""

    ours: float
    theirs: float
    alike: float
    compilation: float
    memory: float
    cycles: float
    bound: str
    reached: float


def measured(path: Path, dtype: str, inputs: Inputs, peer: Peer) -> Figures:
    """Compile a model beside its file, and run it."""
    target = path.with_suffix(f".{dtype}")
    compilation, memory = compiled(path, dtype, target)
    program = load(target / "prog.bin")
    run = partial(program.run, inputs, threads=THREADS)
    ours, theirs = least(run, peer)
    alike = cosine(run(), peer())
    return Figures(ours, theirs, alike, compilation, memory, *simulated(program, inputs))


def state(what: str, found: Figures, goals: Goals, size: int) -> None:
    """Print the figures, and promise those that have a goal; ``size``: bytes of the model."""
    print(
        f"{what:16} run {1e3 * found.ours:7.1f} ms, onnxruntime {1e3 * found.theirs:6.1f} ms, "
        f"ratio {found.ours / found.theirs:.2f}, cosine {found.alike:.6f}; "
        f"compiled in {found.compilation:5.2f} s, {found.memory / 1e6:5.0f} MB; "
        f"{found.cycles:12,.0f} cycles, {found.reached:.0%} of the bound ({found.bound})",
        flush=True,
    )
    beside = "onnxruntime fp32, two threads each"
    promise(f"{what}: a warm run", found.ours / found.theirs, "times", at_most=goals.ratio, beside=beside)
    promise(f"{what}: compiled, cold cache", found.compilation, "s", at_most=goals.seconds)
    most = MEMORY[0] * size + MEMORY[1]
    promise(f"{what}: memory of the compiler", found.memory / 1e6, "MB", at_most=most / 1e6)
    if goals.reached is not None:
        beside = f"its bound, {found.bound}"
        promise(
            f"{what}: simulated, of the roofline", found.reached, "%", at_least=goals.reached, beside=beside
        )


def network(name: str, folder: Path) -> None:
    """Every figure of one network, in each format."""
    model, path = light_model(name), folder / f"{name}.onnx"
    onnx.save(model, path)
    inputs = image(model)
    peer = onnxruntime_case(model, inputs)
    for dtype in DTYPES:
        state(f"{name} {dtype}", measured(path, dtype, inputs, peer), GOALS[name], path.stat().st_size)


def main(names: list[str]) -> None:
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        raise SystemExit(f"no network '{unknown[0]}'; there are: {', '.join(NAMES)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names or NAMES:
            network(name, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
