"""Groups with several results: right results, reasons for growth, and reasons against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from compiler.dialect.group import StoreVarOp
from compiler.dialect.ops import GroupOp, TensorOperation
from compiler.driver import Program, compile_graph
from compiler.graph import Graph
from compiler.passes import PIPELINE
from compiler.passes.base import operations
from compiler.passes.ddr.placement import range_of
from compiler.passes.ddr.state_update import StateUpdatePass
from compiler.passes.groups import borders, group_stack
from compiler.passes.groups.dependences import RunOrder
from compiler.passes.groups.layer_cost import LayerCost
from compiler.passes.work import symbol_of
from compiler.search.plan import plan_text
from compiler.tools.run import Watch, check, random_inputs
from compiler_harness import NodeSpec, draw, graph, strict_outputs
from ir_text import after, context, node, outline, output, parsed, reparsed, source
from network_draws import drawn, inputs_of, problems, setting
from planned_cuts import plan_with_cut
from sliced_nets import siblings, stored_and_needed_whole, stored_and_read, stored_in_two_shapes

NETS: dict[str, Callable[[], Graph]] = {
    "stored and read": stored_and_read,
    "needed whole": stored_and_needed_whole,
    "two shapes": stored_in_two_shapes,
    "siblings": siblings,
}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every sequence saved time, and the larger a group the more."""
    monkeypatch.setattr(borders, "barrier_cycles", lambda machine: 10**9)
    monkeypatch.setattr(LayerCost, "gain", lambda self, joint: len(joint.work.stages))


def phases(program: Program) -> list[tuple[list[str], int]]:
    """The operators of each phase, and how many results it has."""
    assert program.report is not None
    return [
        ([member.operator for member in each.members], len(each.writes)) for each in program.report.phases
    ]


def cycles(program: Program) -> float:
    found = check(program, random_inputs(program.graph, {}, 1), Watch(timed=True)).cycles
    assert found is not None
    return found


# --- right results ------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("tiles", [16, 6, 1])
@pytest.mark.usefixtures("always")
def test_the_bytes_of_separate_phases(name: str, tiles: int) -> None:
    made = NETS[name]()
    grown, separate = (compile_graph(made, "fp16", tiles, residency=way) for way in ("on", "off"))
    assert any(results > 1 for _, results in phases(grown))
    assert all(results == 1 for _, results in phases(separate))
    assert strict_outputs(made, grown) == strict_outputs(made, separate)


@pytest.mark.parametrize("whole", ["computed", "dte", "ddr"])
@pytest.mark.parametrize(("tiles", "rows", "terms"), [(16, 48, 96), (14, 50, 97), (9, 50, 97), (6, 48, 5)])
@pytest.mark.usefixtures("always")
def test_a_result_that_all_tiles_need(whole: str, tiles: int, rows: int, terms: int, tmp_path: Path) -> None:
    """They exchange it and store it; one tile stores all of five rows, which six tiles cannot share."""
    made = stored_and_needed_whole(rows, terms)
    cut = {"tiles": {"slices": tiles}, "sizes": {"part": 1}, "choices": {"axis": "0", "whole": whole}}
    plan = plan_with_cut(made, "fp16", 16, "sliced", cut, tmp_path)
    program = compile_graph(made, "fp16", plan=plan)
    assert [results for _, results in phases(program)] == [2]
    assert strict_outputs(made, program) == strict_outputs(made, compile_graph(made, "fp16", residency="off"))
    assert ("dte.broadcast" in program.text) == (whole == "dte" and terms > tiles)


@pytest.mark.parametrize("seed", [1, 3, 13, 18, 23, 28, 54, 59, 64, 89, 97, 104])
@pytest.mark.usefixtures("always")
def test_random_networks(seed: int, tmp_path: Path) -> None:
    """Networks with branches (``network_draws``), whose groups grow as far as they can."""
    net, made = drawn(seed)
    found = problems(made, inputs_of(net), replace(setting(seed), search="fast"), tmp_path)
    assert not found


@pytest.mark.usefixtures("always")
def test_mean_and_deviation_of_a_layer_normalization() -> None:
    """They are computed in addition to the normalization; the expansion normalizes too, which nothing
    needs."""
    node: NodeSpec = ("LayerNormalization", ["x", "w"], ["y", "m", "d"], {})
    made = graph([node], {"x": (3, 4)}, {"w": draw(4)}, ("y", "m", "d"))
    grown, separate = (compile_graph(made, "fp32", 4, residency=way) for way in ("on", "off"))
    assert any(results > 1 for _, results in phases(grown))
    assert strict_outputs(made, grown) == strict_outputs(made, separate)


@pytest.mark.usefixtures("always")
def test_known_integers_are_not_shared() -> None:
    """A tile's share of them is unknown when compiling, so the kernel core would have to compare them."""
    made = graph(
        [("Less", ["at", "most"], ["u"], {}), ("LessOrEqual", ["rows", "at"], ["y"], {})],
        {"at": ()},
        {"most": np.array(0, np.int32), "rows": np.arange(12, dtype=np.int32)},
        ("u", "y"),
        "int32",
    )
    program = compile_graph(made, "fp16")
    assert strict_outputs(made, program) == strict_outputs(made, compile_graph(made, "fp16", residency="off"))


@pytest.mark.usefixtures("always")
def test_a_plan_makes_the_same_program(tmp_path: Path) -> None:
    """It has the decisions for groups on the way to larger ones, too."""
    made, path = stored_in_two_shapes(), tmp_path / "plan.json"
    program = compile_graph(made, "fp16")
    assert program.report is not None
    path.write_text(plan_text(program.report.plan))
    assert compile_graph(made, "fp16", search="off", plan=path).text == program.text


# --- what grows ---------------------------------------------------------------------------


def test_a_value_that_is_used_twice_is_computed_and_used_in_one_phase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = stored_and_read()
    grown = compile_graph(made, "fp16")
    assert [results for _, results in phases(grown)] == [3]
    monkeypatch.setattr(group_stack, "grown", lambda *given: [])
    before = compile_graph(made, "fp16")
    assert len(phases(before)) > 1
    assert cycles(grown) < cycles(before)


def test_phases_that_only_overlap_stay_apart() -> None:
    """Without a barrier between them, joining them saves no time."""
    nodes: list[NodeSpec] = [("Exp", ["x"], ["y"], {}), ("Tanh", ["x"], ["z"], {})]
    made = graph(nodes, {"x": (256, 512)}, {}, ("y", "z"), "float16")
    assert [results for _, results in phases(compile_graph(made, "fp16"))] == [1, 1]


@pytest.mark.usefixtures("always")
def test_what_is_between_two_groups_keeps_them_apart() -> None:
    """A gather cannot be in a group, so its operand's group cannot have the reader of its result."""
    nodes: list[NodeSpec] = [
        ("Softmax", ["x"], ["a"], {"axis": 1}),
        ("GatherElements", ["a", "i"], ["b"], {"axis": 1}),
        ("Softmax", ["b"], ["c"], {"axis": 1}),
        ("Mul", ["a", "c"], ["y"], {}),
    ]
    made = graph(nodes, {"x": (64, 64)}, {"i": np.arange(4096).reshape(64, 64) % 63})
    program = compile_graph(made, "fp16")
    assert not any(
        {"Softmax", "Mul"} <= set(members) and "GatherElements" in members for members, _ in phases(program)
    )
    strict_outputs(made, program)


def test_operations_between() -> None:
    """Values b and d of a, c of b and e of d; then d waits for b, too."""
    S, reads = "4x64", {"a": "x", "b": "a", "c": "b", "d": "a", "e": "d"}
    lines = [
        source("x", "x", S),
        *(node("exp", name, name, {operand: S}, S) for name, operand in reads.items()),
        *(output(f"y{name}", name, S) for name in "ce"),
    ]
    found = list(operations(parsed("\n".join(lines))))
    by_name = {each.node.data: each for each in found}
    order = RunOrder(found, {each: set[TensorOperation]() for each in found})

    def between(names: str) -> str:
        return "".join(sorted(each.node.data for each in order.between({by_name[name] for name in names})))

    assert [between(names) for names in ("ac", "bd", "ace", "ce")] == ["b", "", "bd", ""]
    order = RunOrder(found, {each: set[TensorOperation]() for each in found} | {by_name["d"]: {by_name["b"]}})
    assert [between(names) for names in ("ae", "be", "cd")] == ["bd", "d", ""]
    waits = {each: set[TensorOperation]() for each in found} | {by_name["b"]: {by_name["c"]}}
    order = RunOrder(found, waits)
    assert between("ac") == "b", "b and c wait for each other, so what was to come before does not count"


# --- the module ---------------------------------------------------------------------------


def grown_module(last: str) -> list[TensorOperation]:
    """The operations of a module whose only group has three results, after all passes up to one."""
    names = [step.name for step in PIPELINE]
    shape, given = "96x64", context(search="fast")
    lines = [
        source("x", "x", shape),
        node("softmax", "a", "a", {"x": shape}, shape, "axis = 1 : i64"),
        node("softmax", "b", "b", {"a": shape}, shape, "axis = 1 : i64"),
        node("softmax", "c", "c", {"a": shape}, shape, "axis = 1 : i64"),
        *(output(name, value, shape) for name, value in (("y", "a"), ("z", "b"), ("u", "c"))),
    ]
    steps = PIPELINE[names.index("group_pattern") : names.index(last) + 1]
    module = after(parsed("\n".join(lines)), given, *steps)
    assert outline(reparsed(module)) == outline(module)
    return list(operations(module))


def only_group(found: list[TensorOperation]) -> GroupOp:
    (group,) = (each for each in found if isinstance(each, GroupOp))
    return group


def test_every_result_is_stored_and_has_a_place_of_its_own() -> None:
    group = only_group(grown_module("barrier_opt"))
    assert [value.owner.node.data for value in group.made if isinstance(value.owner, TensorOperation)] == [
        *("a", "b", "c")
    ]
    stores = [each.node.data for each in group.body.block.ops if isinstance(each, StoreVarOp)]
    assert stores == ["a", "b", "c"]
    assert [symbol_of(value) for value in group.results] == ["y", "z", "u"]
    assert [range_of(value).size for value in group.results] == [96 * 64 * 2] * 3


def test_values_that_are_no_outputs_share_memory_without_overlapping() -> None:
    made = graph(
        [
            ("Softmax", ["x"], ["a"], {"axis": 1}),
            ("Softmax", ["a"], ["b"], {"axis": 1}),
            ("Concat", ["a", "b"], ["c"], {"axis": 1}),
            ("Conv", ["c", "w"], ["y"], {}),
        ],
        {"x": (1, 32, 40, 40)},
        {"w": draw(8, 64, 1, 1)},
    )
    program = compile_graph(made, "fp16")
    assert program.report is not None
    for phase in program.report.phases:
        places = sorted((each.address or 0, each.size) for each in phase.writes)
        assert all(a + size <= b for (a, size), (b, _) in pairwise(places))
    strict_outputs(made, program)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([0], r"results_at \[0\] are not two or more of its members 0 to 2"),
        ([2], "are not two or more"),
        ([0, 1], "the last one among them"),
        ([1, 0, 2], "in order"),
        ([0, 0, 2], "in order"),
        ([-1, 2], "in order"),
        ([0, 3], "in order"),
        ([0, 2], "the result of member 'b' is not used"),
    ],
)
def test_results_that_a_group_cannot_have(numbers: list[int], said: str) -> None:
    group = only_group(grown_module("group_stack"))
    group.attributes["results_at"] = DenseArrayBase.from_list(i64, numbers)
    with pytest.raises(VerifyException, match=said):
        group.verify()


def test_a_group_must_store_its_results_in_order() -> None:
    group = only_group(grown_module("group_load_store"))
    first, second, _ = (each for each in group.body.block.ops if isinstance(each, StoreVarOp))
    values = first.operands[0], second.operands[0]
    second.operands[0], first.operands[0] = values
    with pytest.raises(
        VerifyException, match="stores something else than what its members 'a', 'b', 'c' give"
    ):
        group.verify()


def test_a_state_is_no_result_of_a_group_that_grows() -> None:
    """A group with several results does not write into the memory of a state: the new value is copied."""
    found = grown_module("group_order")
    past, state = found[0], next(each for each in found if each.node.data == "z")
    state.attributes["state"] = past.node
    module: Operation | None = state
    while module is not None and module.parent_op() is not None:
        module = module.parent_op()
    given = context()
    StateUpdatePass().run(given, module)  # type: ignore[arg-type]
    (update,) = given.updates
    assert update.copied == "node 'a' is computed in one phase with other results"
