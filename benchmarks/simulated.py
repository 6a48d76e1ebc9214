"""Measure the host time for simulating time, for large programs and for many small engine instructions.

    python benchmarks/simulated.py

Each program runs without simulated time, with it, and with a sink that counts slices. Networks run as
``import tx8`` runs them: without time, with time, and with time and a reading of their cycles. Then their
statistics are read. Times are processor times of all host threads together, the best of several runs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

import asm
import tx8
from _report import promise
from emulator import load
from emulator.cli.arrays import random_arrays
from emulator.memory.buffers import travel_dtype
from emulator.program import Program
from emulator.timing.slices import Batch
from host_time import image_of
from tx8isa.machine.description import load_machine

Result = TypeVar("Result")
ROUNDS = 5
COUNT = 100_000
DIGITS = Path(__file__).parent.parent / "examples" / "digits" / "digits.json"
LEAVE = "9: li a7, 93\n li a0, 0\n ecall\n"
ADD = "ct.add.vv.fp16 dst=0x3000, src0=0x1000, src1=0x2000, n=64"
FOUR = """rdma.fp32 dst=0x1000, src=0x280200000, n=64
    rdma.fp32 dst=0x2000, src=0x280201000, n=64
    ct.add.vv.fp32 dst=0x3000, src0=0x1000, src1=0x2000, n=64
    wdma.fp32 dst=0x280202000, src=0x3000, n=64"""


def gemms(turns: int) -> str:
    """The text of a program that multiplies matrices of 256 x 256, ``turns`` times on each tile of a chip."""
    return f"""_start: csrr s0, mhartid
    andi s0, s0, 15
    slli s1, s0, 20
    li s2, 0x290000000
    add s2, s2, s1
    li t1, {turns}
1:  rdma.fp16 dst=0x10000, src=s2, n=65536
    rdma.fp16 dst=0x40000, src=s2, n=65536
    ne.gemm.fp16 a=0x10000, b=0x40000, out=0x80000, m=256, k=256, n=256
    ct.add.vv.fp16 dst=0x80000, src0=0x80000, src1=0x10000, n=65536
    wdma.fp16 dst=s2, src=0x80000, n=65536
    addi t1, t1, -1
    bnez t1, 1b
    ncc.wait
{LEAVE}"""


class Count:
    """A sink that counts slices."""

    def __init__(self) -> None:
        self.slices = 0

    def take(self, batch: Batch) -> None:
        self.slices += len(batch.slices)

    def close(self, ends: Sequence[int]) -> None:
        pass


def loop(body: str, turns: int) -> Program:
    """A program in which one tile repeats some instructions."""
    text = f"_start: csrr t0, mhartid\n bnez t0, 9f\n li t1, {turns}\n1: {body}\n"
    text += f" addi t1, t1, -1\n bnez t1, 1b\n ncc.wait\n{LEAVE}"
    return Program(asm.assemble(text), load_machine(None))


def seconds(program: Program) -> list[float]:
    """The least processor times of runs in turn: without simulated time, with it, and with a sink."""
    inputs = {b.name: np.zeros(b.shape, travel_dtype(b)) for b in program.inputs}
    times: list[list[float]] = []
    for _ in range(2 * ROUNDS + 1):
        times.append([])
        for timed, sinks in ((False, []), (True, []), (True, [Count()])):
            system = program.start(inputs, timed=timed, sinks=sinks)
            start = time.process_time()
            system.run()
            _ = system.cycles
            times[-1].append(time.process_time() - start)
    return [min(each) for each in zip(*times[1:], strict=True)]  # the first runs compile kernels


def compare(what: str, program: Program, instructions: int) -> None:
    """Print the times of a program.

    ``instructions`` is not 0 for a program of small instructions; its goal is then the time per instruction.
    """
    off, clock, sink = seconds(program)
    print(f"{what:44} {1e3 * off:9.1f} ms without, {clock / off - 1:6.1%} clock, {sink / off - 1:6.1%} sink")
    if instructions:
        each = 1e6 * (sink - off) / instructions
        promise(f"{what}, time simulated, each", each, "us", at_most=1.0)
    else:
        promise(f"{what}, time simulated", sink / off - 1, "%", at_most=0.3)


def compare_network(name: str, folder: Path) -> None:
    """Print the times of a network as users run it, reading of cycles included, and of reading the statistics
    of a run whose cycles are known."""
    program = tx8.load(image_of(name, folder))
    inputs = random_arrays([(b.name, b.shape, travel_dtype(b)) for b in program.inputs], {}, 0)
    times: dict[str, float] = {}

    def least(what: str, work: Callable[[], Result]) -> Result:
        start = time.process_time()
        result = work()
        times[what] = min(times.get(what, 1e9), time.process_time() - start)
        return result

    def with_cycles() -> tx8.Run:
        run = program.run(inputs)
        _ = run.cycles
        return run

    program.run(inputs)  # compiles kernels
    for _ in range(2 * ROUNDS):
        least("off", lambda: program.run(inputs, timed=False))
        least("run", lambda: program.run(inputs))
        run = least("clock", with_cycles)
        least("statistics", partial(str, run.stats))
    off, read = times["off"], 1e3 * times["statistics"]
    against = f"a run without time: {1e3 * off:.1f} ms"
    promise(f"{name}: tx8.Program.run", times["run"] / off, "times", at_most=1.4, against=against)
    promise(f"{name}: with its cycles", times["clock"] / off, "times", at_most=1.25, against=against)
    promise(f"{name}: its statistics beyond that", read, "ms", at_most=3.0, against=against)
    print(name, {what: f"{1e3 * taken:.1f} ms" for what, taken in times.items()})


def digits(folder: Path) -> Program:
    """The digits example, compiled."""
    command = Path(sys.executable).with_name("tx8cc")
    subprocess.run([command, "-q", DIGITS, "--dtype", "fp16", "-o", folder], check=True)
    return load(folder / "prog.bin")


def main() -> None:
    compare(f"{COUNT:,} ct.add.vv.fp16 of 64 elements", loop(ADD, COUNT), COUNT)
    compare(f"{COUNT:,} of load, load, add, store", loop(FOUR, COUNT // 4), COUNT)
    with tempfile.TemporaryDirectory() as folder:
        compare("digits, 16 tiles", digits(Path(folder)), 0)
        for name in ("squeezenet", "resnet50", "encoder"):
            compare_network(name, Path(folder))
    compare("16 tiles, 960 GEMM of 256 x 256 x 256", Program(asm.assemble(gemms(60)), load_machine(None)), 0)


if __name__ == "__main__":
    main()
