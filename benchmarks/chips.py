"""Measure simulated time of several chips: all-reduces compared with the bound of the links, and networks.

    python benchmarks/chips.py [WIDTH [MB ...]]     the width of the block, megabytes of the all-reduces

The bound of an all-reduce is the sum of the latencies of its rounds, and of the bytes on the busiest link at
the rate of a link. Its cycles are the difference between a program with two of them and a program with one;
the second has code of its own, whose first execution counts, but no kind of command that is new.
For a small one on eight chips the cycles of every algorithm are printed. The block, 512 tokens with seeded
weights, runs on one chip and with tensor parallelism on four; half as wide, with 16 tokens, on eight.
ResNet-50 runs on one chip and, data parallel, on eight. Eight layers, whose weights load faster than a part
of the batch computes, run on one chip and on four. The four divide the batch, the products, or the layers.
The cycles that the compiler estimates are printed too.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx

from _report import promise, tabulate
from compiler.driver import compile_graph, estimate_graph
from compiler.frontend.onnx.importer import graph_of_bytes
from compiler.graph import Graph, Node, Tensor
from compiler.lowering.movement.chips.routes import LinkPrice
from compiler.operators.domains.chips.collectives import ALL_REDUCE, WAYS
from compiler.passes.compilation import context_of, run_passes, written
from compiler.search.chips import Degrees
from compiler.search.chips.degrees import ring_order
from compiler.tools.run import random_inputs
from emulator.program import Program
from tx8isa.machine.description import Machine, load_machine

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples/networks"))
from batch import set_batch
from light import light_model
from transformers import Size, transformer

TOKENS, FEW_TOKENS, WIDTH, HEAD = 512, 16, 4096, 128
CARDS, MESH, SMALL_BYTES = 8, (4, 2), 1 << 13
LAYERS = (8, 32, 256, 256)
"""Layers, and their batch, rows and columns."""
MEGABYTES = (1, 4, 16, 64)


def all_reduces(machine: Machine, price: LinkPrice, way: str, count: int) -> float:
    """Simulated cycles of a program that adds up a tensor in FP32 so many times."""
    elements = price.size // 4
    names = ["x", *(f"sum{number}" for number in range(1, count)), "y"]
    tensors = {name: Tensor(name, "float32", (elements,)) for name in names}
    (ring,) = price.groups
    attrs = {"chips": ring, "members": len(ring), "way": way}
    nodes = tuple(Node(ALL_REDUCE, f"to_{to}", (of,), (to,), attrs) for of, to in pairwise(names))
    graph = Graph("sums", 20, (tensors["x"],), (tensors["y"],), {}, nodes, tensors)
    context = context_of(graph, "fp32", None, machine, search="off", spread=True)
    program = Program(written(context, run_passes(context, {}, None))[2], machine)
    mesh = program.start_chips({"x": np.ones(elements, np.float32)})
    mesh.run()
    wanted = len(ring) ** count
    assert all((array == wanted).all() for array in program.results_of_chips(mesh).values())
    return float(mesh.cycles)


def measure_all_reduces(sizes: list[int]) -> None:
    """Print a row for each number of megabytes."""
    machine, lines = load_machine(None).of_chips(2, 2), []
    ring = ring_order(machine.chips, (0, 1, 2, 3))
    for megabytes in sizes:
        price = LinkPrice(machine, ALL_REDUCE, (ring,), megabytes << 20, machine.tiles)
        way = price.best()
        one = all_reduces(machine, price, way, 1)
        cycles = all_reduces(machine, price, way, 2) - one
        least, single = price.bound(way), price.bound("ring")
        cells = (f"{megabytes} MB", way, *(f"{value:,.0f}" for value in (cycles, least, single, one)))
        lines.append((*cells, f"{cycles / least:.2f}"))
        print(*lines[-1], flush=True)
        what = f"all-reduce of {megabytes} MB on 4 chips"
        promise(what, cycles / least, "times", at_most=1.1, against=f"the links: {least:,.0f} cycles")
    headings = (
        "all-reduce",
        "way",
        "cycles",
        "bound of the way",
        "bound of one ring",
        "with program and start",
    )
    tabulate((*headings, "times the bound"), lines)


def measure_ways() -> None:
    """Print the cycles of a small all-reduce with every algorithm, and its price."""
    machine = load_machine(None).of_chips(*MESH)
    ring = ring_order(machine.chips, tuple(range(CARDS)))
    price, lines = LinkPrice(machine, ALL_REDUCE, (ring,), SMALL_BYTES, machine.tiles), []
    for way in WAYS:
        cycles = all_reduces(machine, price, way, 2) - all_reduces(machine, price, way, 1)
        chosen = "taken" if way == price.best() else ""
        lines.append((way, f"{cycles:,.0f}", f"{price.cycles(way):,.0f}", f"{price.bound(way):,.0f}", chosen))
    what = f"all-reduce of {SMALL_BYTES >> 10} KB on {CARDS} chips"
    tabulate((what, "cycles", "price", "bound of the way", ""), lines)


def layers(count: int, batch: int, rows: int, width: int) -> onnx.ModelProto:
    """Layers of a normalization and two products, with residuals, for a batch of rows."""
    random, nodes, weights = np.random.default_rng(0), [], {"scale": np.ones(width, np.float32)}
    for at in range(count):
        x, y = f"x{at}", f"x{at + 1}"
        weights |= {
            name: np.float32(random.normal(0, 0.05, shape))
            for name, shape in ((f"up{at}", (width, 2 * width)), (f"down{at}", (2 * width, width)))
        }
        nodes += [
            onnx.helper.make_node("LayerNormalization", [x, "scale"], [f"normal{at}"]),
            onnx.helper.make_node("MatMul", [f"normal{at}", f"up{at}"], [f"inner{at}"]),
            onnx.helper.make_node("Relu", [f"inner{at}"], [f"active{at}"]),
            onnx.helper.make_node("MatMul", [f"active{at}", f"down{at}"], [f"new{at}"]),
            onnx.helper.make_node("Add", [x, f"new{at}"], [y]),
        ]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (batch, rows, width))
        for name in ("x0", f"x{count}")
    ]
    constants = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = onnx.helper.make_graph(nodes, "layers", ends[:1], ends[1:], constants)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)


def measure_pipelines() -> None:
    """Print what four chips gain by each division of the same layers, and what the compiler estimates."""
    graph = read(layers(*LAYERS))
    alone, lines = cycles_on(graph, (1, 1), None), []
    for degrees in (Degrees(dp=4), Degrees(tp=4), Degrees(pp=4), Degrees(dp=2, pp=2), Degrees(tp=2, pp=2)):
        several, priced = cycles_on(graph, (2, 2), degrees), estimated_on(graph, (2, 2), degrees)
        ratios = f"{alone / several:.2f}", f"{priced:,}", f"{priced / several:.2f}"
        lines.append((str(degrees), f"{several:,.0f}", *ratios))
        print(*lines[-1], flush=True)
    headings = ("cycles", "times as fast as one chip", "estimated", "of the cycles")
    tabulate((f"{LAYERS[0]} layers on 4 chips", *headings), lines)


def estimated_on(graph: Graph, mesh: tuple[int, int], degrees: Degrees) -> int:
    """Estimated cycles of a network in FP16 on some chips."""
    return estimate_graph(graph, "fp16", machine=load_machine(None).of_chips(*mesh), parallel=degrees).cycles


def cycles_on(graph: Graph, mesh: tuple[int, int], degrees: Degrees | None) -> float:
    """Simulated cycles of a network in FP16 on some chips."""
    machine = load_machine(None)
    if degrees is not None:
        machine = machine.of_chips(*mesh)
    compiled = compile_graph(graph, "fp16", machine=machine, parallel=degrees)
    program, inputs = Program(compiled.image, machine), random_inputs(graph, {}, 0)
    if compiled.spread is None:
        system = program.start(inputs, timed=True)
        system.run(None)
        return float(system.cycles or 0)
    chips = program.start_chips(compiled.spread.dealt(inputs))
    chips.run()
    return float(chips.cycles)


def read(model: onnx.ModelProto, batch: int | None = None) -> Graph:
    """The graph of a model; ``batch`` is the first axis of inputs, outputs and constant shapes."""
    if batch is not None:
        set_batch(model, batch)
    return graph_of_bytes(model.SerializeToString(), "model.onnx")


def measure_networks(width: int) -> None:
    """Print how much faster several chips are than one."""
    block = read(transformer(Size(TOKENS, width, width // HEAD, 1)))
    one, four = cycles_on(block, (1, 1), None), cycles_on(block, (2, 2), Degrees(tp=4))
    what = f"a block of {TOKENS} tokens, {width} wide, tensor parallel on 4 chips"
    promise(what, one / four, "times", at_least=2.8, against=f"one chip: {one:,.0f} cycles")
    lines = [(f"block of {width} columns, tp=4", one, four, one / four)]
    block = read(transformer(Size(FEW_TOKENS, width // 2, width // 2 // HEAD, 1)))
    one, many = cycles_on(block, (1, 1), None), cycles_on(block, MESH, Degrees(tp=CARDS))
    lines.append((f"block of {width // 2} columns, {FEW_TOKENS} tokens, tp={CARDS}", one, many, one / many))
    for images in (1, 16):
        several, some = (read(light_model("resnet50"), count) for count in (CARDS * images, images))
        alone, dealt = cycles_on(several, (1, 1), None), cycles_on(several, MESH, Degrees(dp=CARDS))
        lines.append((f"ResNet-50, {CARDS * images} images, dp={CARDS}", alone, dealt, alone / dealt))
        single = cycles_on(some, (1, 1), None)
        what = f"ResNet-50, data parallel on {CARDS} chips, images per second with {images} for each"
        against = f"one chip with as many: {single:,.0f} cycles"
        promise(what, CARDS * single / dealt, "times", at_least=7.5, against=against)
    headings = ("network", "cycles on one chip", "on several", "times as fast")
    tabulate(headings, [(what, f"{a:,.0f}", f"{b:,.0f}", f"{ratio:.2f}") for what, a, b, ratio in lines])


def main() -> int:
    """Print the table of all-reduces, and how much faster several chips are than one."""
    numbers = [int(text) for text in sys.argv[1:]]
    measure_all_reduces(numbers[1:] or list(MEGABYTES))
    measure_ways()
    measure_networks(numbers[0] if numbers else WIDTH)
    measure_pipelines()
    return 0


if __name__ == "__main__":
    sys.exit(main())
