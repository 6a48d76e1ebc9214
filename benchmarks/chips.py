"""Simulated time of networks on several chips: all-reduces beside the bound of the links, and a block.

    python benchmarks/chips.py [WIDTH [MB ...]]     the width of the block, megabytes of the all-reduces

The bound of an all-reduce over a ring of p chips is 2 (p - 1) latencies and 2 (p - 1) / p of its bytes at the
rate of a link. What the program takes besides is its start, loads and stores. The block runs on one chip and
on four.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx

from _report import promise, tabulate
from compiler.driver import compile_graph
from compiler.frontend import reader
from compiler.graph import Graph, Node, Tensor
from compiler.operators.domains.chips.collectives import ALL_REDUCE
from compiler.passes.compilation import context_of, run_passes, written
from compiler.search.chips import Degrees
from compiler.search.chips.degrees import ring_order
from emulator.program import Program
from tx8isa.machine.description import Machine, load_machine

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples/networks"))
from transformers import Size, transformer

CHIPS, TOKENS, WIDTH, HEAD = 4, 512, 1024, 64
MEGABYTES = (1, 4, 16, 64)


def all_reduce(machine: Machine, elements: int) -> float:
    """Simulated cycles of a program that adds up tensors in FP32."""
    ring = ring_order(machine.chips, tuple(range(CHIPS)))
    x, y = (Tensor(name, "float32", (elements,)) for name in ("x", "y"))
    node = Node(ALL_REDUCE, "sum", ("x",), ("y",), {"chips": ring, "members": CHIPS})
    graph = Graph("sum", 20, (x,), (y,), {}, (node,), {"x": x, "y": y})
    context = context_of(graph, "fp32", None, machine, search="off", spread=True)
    program = Program(written(context, run_passes(context, {}, None))[2], machine)
    mesh = program.start_chips({"x": np.ones(elements, np.float32)})
    mesh.run()
    assert all((array == CHIPS).all() for array in program.results_of_chips(mesh).values())
    return float(mesh.cycles)


def bound(machine: Machine, size: int) -> float:
    """Cycles in which a ring can add up so many bytes."""
    rate = machine.card.c2c_out.value / machine.engines.clock.value
    return 2 * (CHIPS - 1) * (machine.chips.latency.value + size / CHIPS / rate)


def block(width: int) -> tuple[float, float]:
    """Cycles of a transformer block on one chip and on four."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "block.onnx"
        onnx.save(transformer(Size(TOKENS, width, width // HEAD, 1)), path)
        graph = reader(path, {}, None, {})(path)
        x = np.random.default_rng(0).normal(0, 1, (1, TOKENS, width)).astype(np.float32)
        one = compile_graph(graph, "fp16")
        system = Program(one.image, one.machine).start({"x": x}, timed=True)
        system.run(None)
        machine = load_machine(None).of_chips(2, 2)
        several = compile_graph(graph, "fp16", machine=machine, parallel=Degrees(tp=CHIPS))
        mesh = Program(several.image, machine).start_chips({"x": x})
        mesh.run()
    return float(system.cycles or 0), float(mesh.cycles)


def main() -> int:
    """Print the table of all-reduces, and how much faster four chips are than one."""
    numbers = [int(text) for text in sys.argv[1:]]
    width, sizes = (numbers[0] if numbers else WIDTH), (numbers[1:] or MEGABYTES)
    machine, lines = load_machine(None).of_chips(2, 2), []
    for megabytes in sizes:
        cycles, least = all_reduce(machine, megabytes << 18), bound(machine, megabytes << 20)
        lines.append((f"{megabytes} MB", f"{cycles:,.0f}", f"{least:,.0f}", f"{cycles / least:.2f}"))
        print(*lines[-1], flush=True)
        what = f"all-reduce of {megabytes} MB on {CHIPS} chips"
        promise(what, cycles / least, "times", at_most=1.1, against=f"the links: {least:,.0f} cycles")
    one, four = block(width)
    what = f"a transformer block of {TOKENS} tokens, {width} wide, on {CHIPS} chips"
    promise(what, one / four, "times", at_least=2.8, against=f"one chip: {one:,.0f} cycles")
    tabulate(("all-reduce", "cycles", "bound of the links", "times the bound"), lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
