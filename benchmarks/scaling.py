"""Measures how emulation scales: host threads on the tiles of one chip, ranks on the chips of a mesh.

    python benchmarks/scaling.py [COUNT ...]     of threads and ranks; by default 1, 2, 4, ... up to the cores

Threads: each network is compiled and loaded once; its runs with each number of threads alternate, and the
least time of each counts. Ranks: each of sixteen chips multiplies matrices by itself. ``mpiexec`` starts the
ranks with one thread each, and the time of the whole command counts, with its start. The most that the host
can give is what as many independent processes reach, each with one chip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import onnx

import asm
from _graphs import cases
from _report import promise, tabulate
from asm.image import write_image
from emulator import load
from networks import compiled
from simulated import gemms

NETWORKS = ("resnet50", "squeezenet")
ROUNDS = 5
CHIPS, MESH = 16, "4x4"
PRODUCTS = 600
"""Products that each tile of each chip computes: enough to keep a core of the host busy for seconds."""
CORES = 16
"""For a machine with so many cores there are goals."""
GOALS = {"resnet50": 8.0, "ranks": 9.0}
"""Least speed with that many, in multiples of the speed of one thread or rank."""


def doubled(most: int) -> list[int]:
    """1, 2, 4, ... up to ``most``, which is always the last."""
    found = [1]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return found if found[-1] == most else [*found, most]


def seconds_of(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def thread_times(name: str, counts: Sequence[int], folder: Path) -> list[float]:
    """The least seconds of a warm run of a network for each number of threads."""
    case = cases(name)[0]
    model = folder / f"{name}.onnx"
    onnx.save(case.model, model)
    compiled(model, case.dtype, folder / name)
    program = load(folder / name / "prog.bin")
    for threads in counts:
        program.run(case.inputs, threads=threads)
    rounds = [
        [seconds_of(partial(program.run, case.inputs, threads=threads)) for threads in counts]
        for _ in range(ROUNDS)
    ]
    return [min(each) for each in zip(*rounds, strict=True)]


def products(folder: Path) -> Path:
    """A program that multiplies matrices on all tiles of each chip."""
    program = folder / "products.bin"
    program.write_bytes(write_image(asm.assemble(gemms(PRODUCTS))))
    return program


def rank_times(program: Path, counts: Sequence[int]) -> list[float]:
    """The seconds of sixteen chips' products for each number of ranks."""
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if mpiexec is None:
        raise SystemExit("mpiexec is missing: pip install mpich mpi4py")
    work = [*command(program), "--chips", MESH]

    def run(ranks: int) -> None:
        subprocess.run([mpiexec, "-n", str(ranks), *work], check=True, stdout=subprocess.DEVNULL)

    return [seconds_of(partial(run, ranks)) for ranks in counts]


def process_times(program: Path, counts: Sequence[int]) -> list[float]:
    """The seconds for a chip on average, when so many processes run at the same time."""

    def run(processes: int) -> None:
        running = [subprocess.Popen(command(program)) for _ in range(processes)]
        statuses = [process.wait() for process in running]
        if any(statuses):
            raise SystemExit("tx8emu failed")

    run(1)
    return [seconds_of(partial(run, count)) / count for count in counts]


def command(program: Path) -> list[str]:
    return [str(Path(sys.executable).with_name("tx8emu")), str(program), "--threads", "1", "-q"]


def show(what: str, counts: Sequence[int], seconds: Sequence[float], unit: str) -> list[str]:
    """Print a curve and return its row of the table."""
    cells = []
    for count, each in zip(counts, seconds, strict=True):
        print(f"{what}: {count} {unit} {1e3 * each:8.1f} ms, {seconds[0] / each:5.2f} times one", flush=True)
        cells.append(f"{1e3 * each:.1f} ms ({seconds[0] / each:.2f})")
    return [what, *cells]


def main(arguments: Sequence[str]) -> int:
    most = len(os.sched_getaffinity(0))
    counts = [int(each) for each in arguments] or doubled(min(most, CHIPS))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for network in NETWORKS:
            seconds = thread_times(network, counts, folder)
            rows.append(show(f"{network} fp16, threads", counts, seconds, "threads"))
            if counts[-1] >= CORES and network in GOALS:
                judge(f"{network} fp16: {counts[-1]} threads", seconds, GOALS[network], "one thread")
        program = products(folder)
        seconds = process_times(program, counts)
        rows.append(
            show("a chip, products of matrices, processes without a link", counts, seconds, "processes")
        )
        seconds = rank_times(program, counts)
        rows.append(show("16 chips, products of matrices, ranks", counts, seconds, "ranks"))
        if counts[-1] >= CORES:
            judge(f"16 chips: {counts[-1]} ranks", seconds, GOALS["ranks"], "one rank")
    tabulate(["work", *map(str, counts)], rows)
    return 0


def judge(what: str, seconds: Sequence[float], goal: float, against: str) -> None:
    promise(what, seconds[0] / seconds[-1], "times", at_least=goal, against=against)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
