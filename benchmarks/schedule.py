"""Compare simulated cycles and DDR traffic of whole networks with those of the programs of an earlier
compiler.

    python benchmarks/schedule.py [NETWORK ...]
    python benchmarks/summary.py schedule           puts the table into docs/benchmarks.md

The earlier compiler is revision 4bc808f, which ran every group of operators in a phase of its own. It is
taken from the repository's history and compiles the same models. The programs of both run on this emulator,
under the same coefficients of time. For today's program there are also the cycles at both ends of their
ranges, and those if the vendor's C runtime submits the commands.
"""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from _graphs import attention, gemm
from _report import promise, tabulate
from emulator import load
from emulator.memory.buffers import size_of

ROOT = Path(__file__).resolve().parent.parent
EARLIER = "4bc808f"


@dataclass(frozen=True)
class Network:
    """A model: its format, and goals as multiples of the earlier cycles and of the bytes it must move."""

    dtype: str
    cycles: float | None = None
    moved: float | None = None
    most: int | None = None
    """Cycles of the card, where they are published."""
    make: Callable[[], onnx.ModelProto] | None = None
    """Makes the model; None for one of examples/networks."""


def product(m: int, k: int, n: int) -> onnx.ModelProto:
    """A product with a constant matrix [k, n]."""
    weights = np.random.default_rng(0).normal(0, k**-0.5, (k, n)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [m, k]), ("y", [m, n]))
    ]
    graph = helper.make_graph([node], "product", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


NETWORKS = {
    "resnet50": Network("fp16", cycles=0.6, moved=1.1),
    "squeezenet": Network("fp16", cycles=0.6),
    "transformer-128x256": Network("fp16", cycles=0.4),
    "transformer-512x768": Network("fp16", cycles=0.6),
    "encoder": Network("fp16", cycles=0.5),
    "gemm4096": Network("bf16", most=6_010_000, make=lambda: gemm(TensorProto.FLOAT)),
    "attention": Network("bf16", most=2_680_000, make=lambda: attention(TensorProto.FLOAT)),
    "gemm1024x256x512": Network("fp16", make=lambda: product(1024, 256, 512)),
    "gemm1025x257x513": Network("fp16", make=lambda: product(1025, 257, 513)),
}
TAILS = "gemm1025x257x513", "gemm1024x256x512", 1.15
"""A product whose sizes do not divide, beside one whose sizes do."""


def sources_of(revision: str, folder: Path) -> Path:
    """Write the sources of a revision into a folder; SystemExit if the history does not have it."""
    found = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=False)
    if found.returncode:
        sys.exit(f"revision {revision} is not in the history of {ROOT}: {found.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def write_model(name: str, network: Network, folder: Path) -> Path:
    """The model as a file."""
    path = folder / f"{name}.onnx"
    if network.make is not None:
        onnx.save(network.make(), path)
    else:
        maker = ROOT / "examples" / "networks" / "make.py"
        subprocess.run([sys.executable, maker, name, folder], check=True)
    return path


def compiled(sources: Path, model: Path, dtype: str, folder: Path, *options: str) -> Path:
    """The program that the compiler in ``sources`` makes, as an image.

    This tree assembles it, because an earlier assembler writes images of a format that this emulator does not
    read.
    """
    command = [
        sys.executable,
        "-m",
        "compiler.cli",
        str(model),
        "--dtype",
        dtype,
        "--no-cache",
        "-q",
        "-o",
        folder,
        *options,
    ]
    subprocess.run(command, check=True, cwd=sources, env=os.environ | {"PYTHONPATH": str(sources)})
    tx8as = Path(sys.executable).with_name("tx8as")
    subprocess.run([tx8as, "-q", "prog.s", "-o", "prog.bin"], check=True, cwd=folder)
    return folder / "prog.bin"


@dataclass(frozen=True)
class Run:
    """A simulated run: its cycles, the bytes that DDR moved, and the cycles with other figures of time."""

    cycles: float
    moved: int
    others: dict[str, float]
    """The cycles by name: at the ends of the ranges, and with the submissions of the C runtime."""


def simulated(image: Path) -> Run:
    """A run of an image with random inputs."""
    tx8emu = Path(sys.executable).with_name("tx8emu")
    command = [tx8emu, image, "--random", "0", "--stats=json", "-q"]
    found = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    statistics = json.loads(found.stdout)
    (ddr,) = (path["bytes"] for path in statistics["paths"] if path["path"] == "DDR, all engines")
    return Run(statistics["cycles"], ddr, statistics["cycles_range"])


def least_bytes(model: Path, image: Path) -> int:
    """Bytes that DDR must move: constants as the program has them, inputs and outputs."""
    graph = onnx.load(model).graph
    ends = [value.type.tensor_type for value in (*graph.input, *graph.output)]
    sizes = (math.prod(size.dim_value for size in end.shape.dim) for end in ends)
    named = (each for each in load(image).image.buffers if each.kind == "constant")
    constants = sum(size_of(each.format, each.shape, each.layout) for each in named)
    return constants + 4 * sum(sizes)


HEADINGS = (
    *("network", "format", f"cycles, {EARLIER}", "cycles now", "times", "least", "most", "by the C runtime"),
    *(f"DDR MB, {EARLIER}", "DDR MB now", "DDR MB at least", "times the least"),
)


@dataclass(frozen=True)
class Comparison:
    """Runs of both programs of a network, and the bytes that DDR must move."""

    before: Run
    now: Run
    least: int

    @property
    def ratio(self) -> float:
        """The cycles now, as a multiple of the earlier ones."""
        return self.now.cycles / self.before.cycles

    def cells(self, name: str, dtype: str) -> list[str]:
        """The row of the table, under ``HEADINGS``."""
        megabytes = (f"{moved / 1e6:.1f}" for moved in (self.before.moved, self.now.moved, self.least))
        cycles = f"{self.before.cycles:,.0f}", f"{self.now.cycles:,.0f}", f"{self.ratio:.2f}"
        others = (f"{self.now.others[key]:,.0f}" for key in ("least", "most", "c_runtime"))
        return [name, dtype, *cycles, *others, *megabytes, f"{self.now.moved / self.least:.2f}"]


def compared(name: str, sources: dict[str, Path], folder: Path) -> Comparison:
    """Compile a network with both compilers, and run both programs."""
    network = NETWORKS[name]
    model = write_model(name, network, folder)
    images = {k: compiled(v, model, network.dtype, folder / name / k) for k, v in sources.items()}
    before, now = simulated(images["then"]), simulated(images["now"])
    return Comparison(before, now, least_bytes(model, images["now"]))


def judge(found: dict[str, Comparison]) -> None:
    """Record the figures that have goals."""
    for name, runs in found.items():
        network, what = NETWORKS[name], f"{name} {NETWORKS[name].dtype}"
        against = f"{runs.before.cycles:,.0f} cycles of revision {EARLIER}"
        if network.cycles is not None:
            promise(f"{what}: cycles", runs.ratio, "times", at_most=network.cycles, against=against)
        if network.moved is not None:
            moved, least = runs.now.moved / runs.least, "constants, inputs, outputs"
            promise(f"{what}: DDR bytes", moved, "times", at_most=network.moved, against=least)
        if network.most is not None:
            card = "the card, another compiler"
            promise(f"{what}: cycles", runs.now.cycles, "cycles", at_most=network.most, against=card)
    odd, even, most = TAILS
    if odd in found and even in found:
        ratio = found[odd].now.cycles / found[even].now.cycles
        promise(f"{odd}: cycles", ratio, "times", at_most=most, against=even)


def main() -> int:
    """Compare the named networks, by default all."""
    names = sys.argv[1:] or list(NETWORKS)
    if unknown := [name for name in names if name not in NETWORKS]:
        print(f"no network {unknown[0]}; there are {', '.join(NETWORKS)}", file=sys.stderr)
        return 2
    found = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        sources = {"then": sources_of(EARLIER, folder / "sources"), "now": ROOT}
        for name in names:
            found[name] = compared(name, sources, folder)
            print(" ".join(found[name].cells(name, NETWORKS[name].dtype)), flush=True)
    tabulate(HEADINGS, [runs.cells(name, NETWORKS[name].dtype) for name, runs in found.items()])
    judge(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
