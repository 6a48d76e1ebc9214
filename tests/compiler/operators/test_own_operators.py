"""A custom operator is treated by its record, like any other: in bytes, on chips, in verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from compiler.evaluation.judgement import kind_of
from compiler.evaluation.reference import run_reference
from compiler.graph import Graph
from compiler.operators import OPERATORS
from compiler.operators.boxes.forms import beside_axis
from compiler.operators.domains.chips.collectives import ALL_GATHER, ALL_REDUCE
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.record import Call, Input, Law, Operator, Output
from compiler.operators.types import FLOAT
from compiler.quantise.places import Places
from compiler.rewrite import RewrittenGraph
from compiler.rewrite.quantised import TABLES
from compiler.search.chips import parsed_degrees, spread_graph
from compiler.search.chips.rules import ChipParts, DividedAxis, NeedsWhole, divided
from compiler_harness import NodeSpec, draw, graph
from tx8isa.machine.description import load_machine

OWN = "com.example.Own"
Registered = Callable[..., None]


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Registered:
    """Registers a record like another one under the name of the user's operator, until the test ends."""

    def register(like: str, **properties: Any) -> None:
        record = replace(OPERATORS[like], name=OWN, expansion=None, **properties)
        monkeypatch.setitem(OPERATORS, OWN, record)

    return register


# --- bytes -----------------------------------------------------------------------------------------------


def up_to_six(call: Call, x: Any) -> tuple[Any, ...]:
    return (np.clip(x, 0, 6),)


def quantised() -> Graph:
    """A convolution of bytes, the custom operator, and bytes again; 0.05 times 117 + 3 is 6."""
    known = {
        "s": np.float32(0.02),
        "z": np.int8(3),
        "t": np.float32(0.05),
        "u": np.int8(-3),
        "w": np.random.default_rng(1).integers(-90, 90, (4, 2, 3, 3)).astype(np.int8),
        "ws": np.full(4, 0.03, np.float32),
        "wz": np.zeros(4, np.int8),
    }
    nodes: list[NodeSpec] = [
        ("QuantizeLinear", ["x", "s", "z"], ["xq"], {}),
        ("DequantizeLinear", ["xq", "s", "z"], ["xd"], {}),
        ("DequantizeLinear", ["w", "ws", "wz"], ["wd"], {"axis": 0}),
        ("Conv", ["xd", "wd"], ["c"], {"pads": (1, 1, 1, 1)}),
        (OWN, ["c"], ["r"], {}),
        ("QuantizeLinear", ["r", "t", "u"], ["y"], {}),
    ]
    return graph(nodes, {"x": (1, 2, 5, 5)}, {name: np.asarray(value) for name, value in known.items()})


def of_bytes(made: Graph) -> Graph:
    for table in TABLES:
        made = RewrittenGraph(made).run(table)
    return made


def test_an_own_limit_belongs_to_a_product_of_bytes(registered: Registered) -> None:
    registered("Relu", reference=up_to_six, laws=Law.EXACT | Law.RISING)
    before = quantised()
    after = of_bytes(before)
    assert [node.op for node in after.nodes] == ["QuantizeLinear", "Int8Conv"]
    assert (after.nodes[-1].attrs["low"], after.nodes[-1].attrs["high"]) == (-3, 117)
    x = {"x": draw(1, 2, 5, 5)}
    found, wanted = (run_reference(each, x)["y"] for each in (after, before))
    assert wanted.max() == 117 and wanted.min() == -3
    assert np.abs(found.astype(int) - wanted).max() <= 1  # a quotient near a half


def test_an_own_function_without_these_laws_does_not(registered: Registered) -> None:
    registered("Relu", reference=up_to_six, laws=Law.RISING)
    assert OWN in [node.op for node in of_bytes(quantised()).nodes]


def test_an_own_limit_is_in_the_tail_of_a_product(registered: Registered) -> None:
    registered("Relu", reference=up_to_six, laws=Law.EXACT | Law.RISING)
    nodes: list[NodeSpec] = [("Conv", ["x", "w"], ["c"], {}), (OWN, ["c"], ["y"], {})]
    places = Places(graph(nodes, {"x": (1, 2, 5, 5)}, {"w": draw(4, 2, 3, 3)}))
    (conv,) = places.candidates.values()
    assert [node.op for node in places.tail(conv)] == [OWN]


def test_an_own_reordering_of_a_value_keeps_its_scale(registered: Registered) -> None:
    registered("Transpose")
    nodes: list[NodeSpec] = [
        ("Conv", ["x", "w"], ["a"], {}),
        (OWN, ["a"], ["b"], {"perm": (0, 1, 3, 2)}),
        ("Conv", ["b", "v"], ["y"], {}),
    ]
    places = Places(graph(nodes, {"x": (1, 2, 5, 5)}, {"w": draw(4, 2, 1, 1), "v": draw(4, 4, 1, 1)}))
    homes = places.values(places.candidates)
    assert homes["a"] == homes["b"]


# --- chips -----------------------------------------------------------------------------------------------


def test_an_own_operator_is_divided_where_it_is_uniform(registered: Registered) -> None:
    registered("Softmax", uniform=beside_axis)
    made = graph([(OWN, ["x"], ["y"], {"axis": -1})], {"x": (4, 6)})
    parts = ChipParts(made, 2, axes={"x": 0})
    assert divided(parts, made.nodes[0]).op == OWN
    assert parts.division("y") == DividedAxis(0)
    with pytest.raises(NeedsWhole, match="needs its operands whole"):
        divided(ChipParts(made, 2, axes={"x": 1}), made.nodes[0])


def test_an_own_operator_that_says_nothing_is_whole(registered: Registered) -> None:
    registered("Softmax", uniform=None)
    made = graph([(OWN, ["x"], ["y"], {"axis": -1})], {"x": (4, 6)})
    with pytest.raises(NeedsWhole, match="needs its operands whole"):
        divided(ChipParts(made, 2, axes={"x": 0}), made.nodes[0])


def cube(build: Builder, call: Call) -> tuple[str, ...]:
    x = call.name(0)
    return (build("Mul", build("Mul", x, x), x),)


@pytest.mark.parametrize("written_out", [True, False])
def test_own_elements_between_two_products_need_one_sum(
    written_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default a custom composite is written out; otherwise it also computes element by element."""
    monkeypatch.delitem(OPERATORS, OWN, raising=False)
    composite(
        name=OWN,
        since=1,
        summary="x * x * x",
        inputs=(Input("x", FLOAT),),
        outputs=(Output("y", FLOAT),),
        expansion=cube,
        written_out=written_out,
    )
    own: Operator = OPERATORS.pop(OWN)
    monkeypatch.setitem(OPERATORS, OWN, own)
    nodes: list[NodeSpec] = [
        ("MatMul", ["x", "w"], ["a"], {}),
        (OWN, ["a"], ["b"], {}),
        ("MatMul", ["b", "v"], ["y"], {}),
    ]
    constants = {"w": draw(64, 256), "v": draw(256, 64)}
    made = graph(nodes, {"x": (16, 64)}, constants)
    found = spread_graph(made, load_machine(None).of_chips(2, 1), parsed_degrees("tp=2"))
    ops = [node.op for node in found.graph_of((0, 0)).nodes]
    assert ops.count(ALL_REDUCE) == 1
    assert ALL_GATHER not in ops


# --- verdicts --------------------------------------------------------------------------------------------


def test_what_an_own_operator_only_moves_must_be_exact(registered: Registered) -> None:
    registered("Transpose")
    made = graph([(OWN, ["x"], ["y"], {"perm": (1, 0)})], {"x": (4, 6)})
    assert kind_of(made) == "movement"
    registered("Transpose", moves=False)
    assert kind_of(made) == "operator"
