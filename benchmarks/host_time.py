"""Measures the host's time by kind of work while networks run on the emulated chip.

    python benchmarks/host_time.py [NETWORK ...]
    python benchmarks/summary.py host_time          puts the table into docs/benchmarks.md

Each network is compiled, loaded and run repeatedly on one thread. Meanwhile a timer of the process's own time
samples where the processor is (``_sampling.py``). Symbols of their machine code distinguish the functions of
the emulator's kernels. The time of a kind is its share of the samples times the processor time of a run. Code
inlined into the entry of a kernel of the matrix engine counts as reading operands, because most of it is.
Copies by the C library count for the kernel that calls them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from _report import tabulate
from _sampling import Map, Place, Sampler
from emulator import load
from emulator.cli.arrays import random_arrays
from emulator.memory.buffers import travel_dtype

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 10.0
"""Seconds for which a network is sampled."""
NETWORKS = ("resnet50", "squeezenet", "encoder", "digits")

OPERANDS = "matrix engine: reading operands"
PRODUCTS = "matrix engine: products and their sums"
RESULTS = "matrix engine: initial sums and results"
DEPTHWISE = "matrix engine: depthwise convolutions"
VECTOR = "vector engine (CT)"
DDR = "loads and stores of DDR (RDMA, WDMA)"
MOVES = "moves in the scratchpad (TDMA)"
COPIES = "copies between tiles (DTE), rounds of tiles"
CORE = "kernel core"
ISSUE = "issuing, queues"
RESET = "memories back to their first contents"
PYTHON = "Python: what compiled code leaves to it, inputs and outputs"
OTHER = "the host's system, others"
KINDS = (
    *(OPERANDS, PRODUCTS, RESULTS, DEPTHWISE, VECTOR, DDR, MOVES, COPIES),
    *(CORE, ISSUE, RESET, PYTHON, OTHER),
)
"""The rows of the table."""

_PREFIXES = {
    "ne.dwconv.": DEPTHWISE,
    "ct.": VECTOR,
    "sc.": VECTOR,
    "rdma.": DDR,
    "wdma.": DDR,
    "td.": MOVES,
    "DTE copy": COPIES,
    "kernel core": CORE,
    "checked kernel core": CORE,
    "float unit": CORE,
    "engine issue": ISSUE,
    "rounds of tiles": COPIES,  # its machine code has that of the copies inlined
    "reset of memories": RESET,
}
"""Kinds by the beginnings of kernels' names."""
_MATRIX = ("ne.gemm.", "ne.conv.", "ne.bwconv.")
_OF_RESULTS = ("load", "store", "start", "finish", "_chain", "used_bytes", "result_at", "psum_at")
"""Functions of these kernels in ``emulator/kernels/ne`` that begin sums, round and store them."""
_PYTHON = ("libpython", "python", "_multiarray", "libffi", "_ctypes", "libc.", "libm.", "ld-linux")
"""Beginnings of the names of files whose code Python executes."""


def kind_of(place: Place) -> str:
    """The row of the table for an address in the code."""
    owner, function = place
    if owner.startswith(_MATRIX):
        if function == "multiply":
            return PRODUCTS
        return RESULTS if function in _OF_RESULTS else OPERANDS
    for prefix, kind in _PREFIXES.items():
        if owner.startswith(prefix):
            return kind
    if not owner:  # code that is in no file, and no kernel: hot parts of programs (emulator/core/translate)
        return CORE
    return PYTHON if owner.startswith(_PYTHON) or ".cpython-" in owner else OTHER


@dataclass(frozen=True)
class HostTime:
    """Seconds of the host for a network: of compiled kernels and the first run, of a warm run by kind."""

    loading: float
    first: float
    warm: float
    kinds: dict[str, float]
    samples: int


def image_of(name: str, folder: Path) -> Path:
    """The program of a network in FP16."""
    model = ROOT / "examples" / "digits" / "digits.json"
    if name != "digits":
        maker = ROOT / "examples" / "networks" / "make.py"
        subprocess.run([sys.executable, maker, name, folder], check=True)
        model = folder / f"{name}.onnx"
    tool = Path(sys.executable).with_name("tx8cc")
    command = [tool, "-q", "--no-cache", model, "--dtype", "fp16", "-o", folder / name]
    subprocess.run(command, check=True)
    return folder / name / "prog.bin"


def measured(image: Path) -> HostTime:
    """Load a program, and run it for ``SECONDS`` after a first run, which fills the cache of kernels."""
    start = time.process_time()
    program = load(image)
    loading = time.process_time() - start
    inputs = random_arrays([(each.name, each.shape, travel_dtype(each)) for each in program.inputs], {}, 0)
    start = time.process_time()
    program.run(inputs)
    first = time.process_time() - start
    sampler, runs, start = Sampler(), 0, time.process_time()
    with sampler.running():
        while time.process_time() - start < SECONDS:
            program.run(inputs)
            runs += 1
        warm = (time.process_time() - start) / runs
    found, where = sampler.samples, Map()
    counts = Counter(kind_of(where.place(*sample)) for sample in found)
    shares = {kind: warm * counts[kind] / max(len(found), 1) for kind in KINDS}
    return HostTime(loading, first, warm, shares, len(found))


def rows(times: Sequence[HostTime]) -> list[list[str]]:
    """The cells of the table, a column for each network."""
    lines = [
        [kind, *(f"{1e3 * each.kinds[kind]:.1f} ms, {each.kinds[kind] / each.warm:.0%}" for each in times)]
        for kind in KINDS
        if any(each.kinds[kind] for each in times)
    ]
    return [
        *lines,
        ["**a warm run**", *(f"**{1e3 * each.warm:.1f} ms**" for each in times)],
        ["reading the image", *(f"{1e3 * each.loading:.1f} ms" for each in times)],
        ["the first run: kernels and memories", *(f"{1e3 * each.first:.1f} ms" for each in times)],
        ["samples", *(f"{each.samples:,}" for each in times)],
    ]


def main() -> int:
    """Measure the named networks, by default all."""
    names = sys.argv[1:] or list(NETWORKS)
    if unknown := [name for name in names if name not in NETWORKS]:
        print(f"no network {unknown[0]}; there are {', '.join(NETWORKS)}", file=sys.stderr)
        return 2
    times = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            times.append(measured(image_of(name, Path(folder))))
    tabulate(("processor time of the host, one thread, fp16", *names), rows(times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
