"""Programs on several chips that the compiler makes: single exchanges, and networks."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

import compiler
from asm.image import read_image, write_image
from compiler.driver import Program, compile_graph
from compiler.evaluation.infer import build_graph
from compiler.evaluation.judgement import Judgement, judged
from compiler.evaluation.states import with_states
from compiler.graph import Array, Description, Graph, Node, Tensor
from compiler.operators.record import OPERATORS, resolve
from compiler.passes.compilation import context_of, run_passes, written
from compiler.search.chips import parsed_degrees
from compiler.tools.run import random_inputs
from compiler_harness import assert_in_order, draw, graph, ints
from emulator.program import Program as Loaded
from sharded_nets import Net
from tx8isa.machine.description import Machine, load_machine
from tx8isa.numbers.division import ceil_div, round_up


def exchange(op: str, shape: tuple[int, ...], dtype: str = "float32", **attrs: Any) -> Graph:
    """A graph of one exchange between chips, from ``x`` to ``y``."""
    x, node = Tensor("x", dtype, shape), Node(op, "n", ("x",), ("y",), attrs)
    call = resolve(node, 20, {"x": x}, {}, 1)
    wrong = [found for rule in OPERATORS[op].rules if (found := rule.check(call))]
    assert not wrong, wrong
    (y,) = OPERATORS[op].infer(call)
    return Graph("test", 20, (x,), (y,), {}, (node,), {"x": x, "y": y})


def small_chips(x: int, y: int) -> Machine:
    """Chips whose scratchpads have room for 64 KB of buffers, so that loops have several iterations."""
    machine = load_machine(None).of_chips(x, y)
    spm = msgspec.structs.replace(machine.spm, bytes=0x1_4000, reserved=0x1_0000)
    return msgspec.structs.replace(machine, spm=spm, name="small chips")


def exchanged(graph: Graph, machine: Machine, inputs: list[Array], dtype: str = "fp32") -> list[Array]:
    """The results of an exchange by chip; no hazard may be found."""
    context = context_of(graph, dtype, None, machine, spread=True)
    _, _, image = written(context, run_passes(context, {}, None))
    program = Loaded(read_image(write_image(image), "prog.bin"), machine)
    outputs = program.run({f"chip{chip}.x": x for chip, x in enumerate(inputs)}, strict=True)
    assert program.hazards == ()
    return [outputs[f"chip{chip}.y"] for chip in range(machine.chip_count)]


def growing_block() -> Graph:
    """The cast of the input becomes part of the first group, on chips with other constants, too."""
    nodes: list[Any] = [
        ("LayerNormalization", ["x", "g"], ["n"], {}),
        ("MatMul", ["n", "up"], ["h"], {}),
        ("Relu", ["h"], ["r"], {}),
        ("MatMul", ["r", "down"], ["d"], {}),
        ("Add", ["x", "d"], ["y"], {}),
    ]
    weights = {"g": np.ones(256, np.float32), "up": draw(256, 512), "down": draw(512, 256)}
    return graph(nodes, {"x": (32, 256, 256)}, weights)


def on_chips(graph: Graph, x: int, y: int, degrees: str, dtype: str = "fp16") -> Program:
    """A graph compiled for several chips."""
    machine = load_machine(None).of_chips(x, y)
    return compile_graph(graph, dtype, machine=machine, parallel=parsed_degrees(degrees))


def run_on_chips(program: Program, strict: bool = True) -> tuple[dict[str, Array], dict[str, Judgement]]:
    """Run a program; return the chips' outputs and the verdicts on the graph's. No hazard may be found."""
    assert program.spread is not None
    loaded = Loaded(read_image(write_image(program.image), "prog.bin"), program.machine)
    inputs = random_inputs(program.graph, {}, 3)
    outputs = loaded.run(program.spread.dealt(inputs), strict=strict)
    assert loaded.hazards == ()
    joined = program.spread.joined(outputs)
    assert_in_order(program, joined)
    return outputs, dict(judged(program.graph, program.dtype, joined, inputs))


def on_one(graph: Graph, dtype: str) -> dict[str, Array]:
    """The outputs of a graph on a single chip, for the same inputs."""
    program = compiler.compile(graph, dtype)
    return Loaded(program.image, program.machine).run(random_inputs(graph, {}, 3))


def ring_sum(parts: list[Array], ring: tuple[int, ...], dual: bool = False) -> Array:
    """Sums in the order of docs/exchanges.md: that of chunk c begins with member c + 1, ends with member c.

    In a dual ring the second half of each chunk is summed against the direction of the ring.
    """
    flat = [parts[chip].reshape(-1) for chip in ring]
    size, members = flat[0].size, len(ring)
    each = round_up(ceil_div(size, members), 128 if dual else 64)
    found = np.empty_like(flat[0])
    for chunk in range(members):
        for half in range(2 if dual else 1):
            length = each // 2 if dual else each
            part = slice(chunk * each + half * length, chunk * each + (half + 1) * length)
            step = -1 if half else 1
            total = flat[(chunk + step) % members][part]
            for after in range(2, members + 1):
                total = total + flat[(chunk + step * after) % members][part]
            found[part] = total
    return found.reshape(parts[0].shape)


def pair_sum(parts: list[Array]) -> Array:
    """The sum of both halves of the parts, each the sum of its halves in the same way."""
    half = len(parts) // 2
    return pair_sum(parts[:half]) + pair_sum(parts[half:]) if half else parts[0]


CACHES = {"keys": "new_keys", "values": "new_values"}


def decoder(heads: int = 4, groups: int = 2, depth: int = 16, room: int = 16, batch: int = 1) -> Graph:
    """A step of attention over caches, which are its states; writes a row of each at place ``at``.

    Queries, keys and values are columns of one product; ``groups`` of keys and values serve the heads.
    """
    columns, both = heads * depth, heads + 2 * groups
    sizes, cache = ints(*(n * depth for n in (heads, groups, groups))), (batch, groups, room, depth)
    nodes: list[tuple[str, list[str], list[str], dict[str, Any]]] = [
        ("MatMul", ["x", "qkv"], ["rows"], {}),
        ("Split", ["rows", "sizes"], ["q0", "k0", "v0"], {"axis": 2}),
    ]
    for part, count in (("q", heads), ("k", groups), ("v", groups)):
        nodes += [
            ("Reshape", [f"{part}0", f"apart{count}"], [f"{part}1"], {}),
            ("Transpose", [f"{part}1"], [part], {"perm": (0, 2, 1, 3)}),
        ]
    nodes += [
        ("TensorScatter", ["keys", "k", "at"], ["new_keys"], {"axis": 2}),
        ("TensorScatter", ["values", "v", "at"], ["new_values"], {"axis": 2}),
        ("Attention", ["q", "new_keys", "new_values"], ["seen"], {}),
        ("Transpose", ["seen"], ["together"], {"perm": (0, 2, 1, 3)}),
        ("Reshape", ["together", "flat"], ["mixed"], {}),
        ("MatMul", ["mixed", "o"], ["y"], {}),
    ]
    constants = {"qkv": draw(columns, both * depth), "o": draw(columns, columns, seed=2), "sizes": sizes}
    constants |= {f"apart{n}": ints(batch, 1, n, depth) for n in (heads, groups)}
    constants["flat"] = ints(batch, 1, columns)
    inputs = [Tensor(name, "float32", cache) for name in CACHES]
    inputs += [Tensor("x", "float32", (batch, 1, columns)), Tensor("at", "int64", (batch,))]
    made = [Node(op, f"n{at}", tuple(a), tuple(b), attrs) for at, (op, a, b, attrs) in enumerate(nodes)]
    outputs = ("y", *CACHES.values())
    described = Description("test", "decoder", 24, tuple(inputs), outputs, constants, tuple(made))
    return with_states(build_graph(described), CACHES)


def llama(rows: int = 32, columns: int = 128, heads: int = 8, keys: int = 4) -> Graph:
    """A block like Llama's: rotary embeddings, heads that share keys, a causal mask, a gated MLP."""
    net, depth = Net(rows, columns), columns // heads
    normal = net.normalization("x", columns, "RMSNormalization")
    angles = np.outer(np.arange(rows), 10000.0 ** (-np.arange(0, depth, 2) / depth))
    tables = [
        net.constant(np.asarray(np.tile(of(angles), 2), np.float32).reshape(1, 1, rows, depth))
        for of in (np.cos, np.sin)
    ]

    def split(count: int) -> str:
        shape = net.constant(ints(1, rows, count, depth))
        made = net.product(normal, columns, count * depth, bias=False)
        return net.node("Transpose", net.node("Reshape", made, shape), perm=(0, 2, 1, 3))

    def turned(x: str) -> str:
        first, second = (
            net.node("Slice", x, *(net.constant(ints(at)) for at in (begin, begin + depth // 2, 3)))
            for begin in (0, depth // 2)
        )
        other = net.node("Concat", net.node("Neg", second), first, axis=3)
        return net.node("Add", net.node("Mul", x, tables[0]), net.node("Mul", other, tables[1]))

    def repeated(x: str) -> str:
        more = net.node("Unsqueeze", x, net.constant(ints(2)))
        wide = net.node("Expand", more, net.constant(ints(1, keys, heads // keys, rows, depth)))
        return net.node("Reshape", wide, net.constant(ints(1, heads, rows, depth)))

    query, key, value = turned(split(heads)), repeated(turned(split(keys))), repeated(split(keys))
    scores = net.node("MatMul", query, net.node("Transpose", key, perm=(0, 1, 3, 2)))
    scaled = net.node("Mul", scores, net.constant(np.float32(depth**-0.5)))
    mask = net.constant(np.triu(np.full((rows, rows), -1e4, np.float32), 1))
    weights = net.node("Softmax", net.node("Add", scaled, mask), axis=-1)
    mixed = net.node("Transpose", net.node("MatMul", weights, value), perm=(0, 2, 1, 3))
    flat = net.node("Reshape", mixed, net.constant(ints(1, rows, columns)))
    middle = net.node("Add", "x", net.product(flat, columns, columns, bias=False))
    after = net.normalization(middle, columns, "RMSNormalization")
    gate = net.node("Swish", net.product(after, columns, 3 * columns, bias=False))
    both = net.node("Mul", net.product(after, columns, 3 * columns, bias=False), gate)
    net.node("Add", middle, net.product(both, 3 * columns, columns, bias=False))
    return net.graph()
