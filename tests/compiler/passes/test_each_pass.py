"""Each pass changes a program; its effect is shown by leaving it out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import emulator
import tx8
from compiler.driver import Program, compile_graph
from compiler.evaluation.states import with_states
from compiler.graph import Graph, GraphError
from compiler.passes import PIPELINE, compilation
from compiler.passes.groups import borders
from compiler.tools.run import check, random_inputs
from compiler_harness import NodeSpec, draw, graph
from range_models import perceptron
from sharded_nets import normalized_first
from stack_nets import bottleneck


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if barriers took so long that every sequence is worth it."""
    monkeypatch.setattr(borders, "barrier_cycles", lambda machine: 10**9)


def pooled() -> Graph:
    """Two convolutions with epilogues, a pool, and a product."""
    nodes: list[NodeSpec] = [
        ("Conv", ["x", "first"], ["a"], {"pads": (1, 1, 1, 1)}),
        ("Relu", ["a"], ["b"], {}),
        ("Conv", ["b", "second"], ["c"], {"pads": (1, 1, 1, 1)}),
        ("Add", ["c", "b"], ["d"], {}),
        ("GlobalAveragePool", ["d"], ["e"], {}),
        ("Flatten", ["e"], ["f"], {}),
        ("MatMul", ["f", "third"], ["y"], {}),
    ]
    constants = {"first": draw(64, 3, 3, 3), "second": draw(64, 64, 3, 3), "third": draw(64, 10)}
    return graph(nodes, {"x": (1, 3, 16, 16)}, constants)


def two_branches() -> Graph:
    """Each branch is two phases; they meet in the last one."""
    nodes: list[NodeSpec] = [
        ("Softmax", ["x"], ["a"], {}),
        ("LayerNormalization", ["a", "s"], ["b"], {}),
        ("Softmax", ["z"], ["c"], {}),
        ("LayerNormalization", ["c", "s"], ["d"], {}),
        ("MatMul", ["b", "d"], ["y"], {}),
    ]
    return graph(nodes, {"x": (64, 64), "z": (64, 64)}, {"s": draw(64)})


def remembering() -> Graph:
    """A state with a replaced row."""
    nodes: list[NodeSpec] = [("ScatterND", ["past", "at", "x"], ["y"], {})]
    made = graph(nodes, {"past": (4, 32), "x": (1, 32)}, {"at": np.array([[2]])})
    return with_states(made, {"past": "y"})


def large_product() -> Graph:
    return graph([("MatMul", ["x", "w"], ["y"], {})], {"x": (512, 512)}, {"w": draw(512, 512)})


def constants_of_two_sizes() -> Graph:
    """The second is larger than a bank of DDR for every tile."""
    nodes: list[NodeSpec] = [("Mul", ["x", "v"], ["a"], {}), ("Add", ["a", "w"], ["y"], {})]
    return graph(nodes, {"x": (512, 512)}, {"v": draw(512), "w": draw(512, 512)})


def added_constant() -> Graph:
    nodes: list[NodeSpec] = [
        ("Conv", ["x", "w"], ["a"], {"pads": (1, 1, 1, 1)}),
        ("Add", ["a", "k"], ["b"], {}),
        ("Relu", ["b"], ["y"], {}),
    ]
    return graph(nodes, {"x": (1, 64, 16, 16)}, {"w": draw(64, 64, 3, 3), "k": draw(64, 16, 16)})


def computed_twice() -> Graph:
    nodes: list[NodeSpec] = [("Exp", ["x"], [name], {}) for name in "ab"]
    nodes += [("Softmax", [name], [f"s{name}"], {"axis": -1}) for name in "ab"]
    return graph(nodes, {"x": (32, 64)}, outputs=("sa", "sb"))


def pointwise() -> Graph:
    """An epilogue of a product; one of its operators reuses a value."""
    nodes: list[NodeSpec] = [
        ("Softmax", ["x"], ["a"], {}),
        ("MatMul", ["a", "w"], ["b"], {}),
        ("Tanh", ["b"], ["c"], {}),
        ("Mul", ["c", "b"], ["d"], {}),
        ("Exp", ["d"], ["y"], {}),
    ]
    return graph(nodes, {"x": (64, 64)}, {"w": draw(64, 64)})


def lines(program: Program) -> int:
    return len(program.text.splitlines())


def phases(program: Program) -> int:
    assert program.report is not None
    return len(program.report.phases)


def barriers(program: Program) -> int:
    return program.text.count("ncc.barrier")


def constant_bytes(program: Program) -> int:
    return len(program.constants)


def place_of_the_largest(program: Program) -> int:
    """Return the offset of the largest constant in the file of constants."""
    found = re.findall(r'\.const \S+ \w+, ([\dx]+), "prog.const", (\d+)', program.text)
    places = {math.prod(map(int, shape.split("x"))): int(place) for shape, place in found}
    return places[max(places)]


def cycles(program: Program) -> float:
    """Simulated cycles of a run."""
    inputs = random_inputs(program.graph, {}, 3)
    system = emulator.Program(program.image, program.machine).start(inputs, timed=True)
    system.run()
    assert system.cycles is not None
    return system.cycles


def wrong(program: Program) -> int:
    """Count the wrong outputs."""
    verdicts = check(program, random_inputs(program.graph, {}, 3)).verdicts.values()
    return sum(not verdict.ok for verdict in verdicts)


@dataclass(frozen=True)
class Effect:
    """A graph whose program shrinks because of a pass."""

    graph: Callable[[], Graph]
    less: Callable[[Program], float]
    residency: str = "on"
    """True if values stay in the scratchpads, where small graphs become a single phase."""


EFFECTS = {
    "rewrite": Effect(normalized_first, lines),
    "cast": Effect(pooled, constant_bytes),
    "layout_init": Effect(pooled, cycles),
    "layout_transmit": Effect(pooled, phases, "off"),
    "layout_align": Effect(pooled, wrong),
    "align_opt": Effect(pooled, phases, "off"),
    "cse": Effect(computed_twice, cycles),
    "move_const": Effect(constants_of_two_sizes, place_of_the_largest),
    "const_norm": Effect(added_constant, phases, "off"),
    "cast_fusion": Effect(large_product, phases, "off"),
    "group_pattern": Effect(pooled, phases),
    "group_opt": Effect(pointwise, phases, "off"),
    "group_mapping": Effect(large_product, cycles),
    "group_cost": Effect(large_product, cycles),
    "group_stack": Effect(bottleneck, phases),
    "group_order": Effect(two_branches, barriers, "off"),
    "barrier_opt": Effect(two_branches, wrong, "off"),
}
NEEDED = {
    "import": (AssertionError, normalized_first),
    "group_load_store": (GraphError, normalized_first),
    "state_update": (GraphError, remembering),
    "ddr_reorder": (ValueError, normalized_first),
}
"""Required passes, with the exceptions that are raised without them."""


def without(monkeypatch: pytest.MonkeyPatch, name: str, made: Graph, residency: str = "on") -> Program:
    """The program of a compilation that leaves out a pass."""
    monkeypatch.setattr(compilation, "PIPELINE", tuple(step for step in PIPELINE if step.name != name))
    return compile_graph(made, "fp16", 16, residency=residency)


def test_every_pass_is_here() -> None:
    assert {*EFFECTS, *NEEDED, "sizes", "codegen"} == {step.name for step in PIPELINE}


@pytest.mark.parametrize("name", EFFECTS)
def test_something_is_less_with_the_pass(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    effect = EFFECTS[name]
    program = compile_graph(effect.graph(), "fp16", 16, residency=effect.residency)
    other = without(monkeypatch, name, effect.graph(), effect.residency)
    assert effect.less(program) < effect.less(other)


@pytest.mark.parametrize("name", NEEDED)
def test_there_is_no_program_without_the_pass(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    raised, made = NEEDED[name]
    with pytest.raises(raised):
        without(monkeypatch, name, made())


def test_a_program_runs_one_size_without_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, dims = np.zeros((5, 96), np.float32), {"rows": (1, 64, 200)}
    assert tx8.compile(perceptron(), dims=dims).run(rows)[0].shape == (5, 96)
    monkeypatch.setattr(compilation, "PIPELINE", tuple(step for step in PIPELINE if step.name != "sizes"))
    with pytest.raises(tx8.Error, match="the size of rows is unknown"):
        tx8.compile(perceptron(), dims=dims).run(rows)


def test_codegen_writes_the_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    engines = re.compile(r"^ +(ne|ct|rdma|wdma)\.", re.MULTILINE)
    assert engines.search(compile_graph(pointwise(), "fp16", 16).text)
    assert not engines.search(without(monkeypatch, "codegen", pointwise()).text)
