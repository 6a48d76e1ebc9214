"""Plans that do not fit, and files without a plan: one line names the mistake and its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.driver import compile_graph
from compiler.evaluation.states import with_states
from compiler.graph import Graph, GraphError
from compiler.search.chips import parsed_degrees
from compiler.search.plan import read_plan
from compiler_harness import draw, graph
from range_models import recurrent_cell
from replayed import FULL, Compile, on_chips, on_one, over_ranges, plan_of, without_search, written
from stage_nets import layers
from tx8isa.machine.description import load_machine

Plan = dict[str, Any]
Change = Callable[[Plan], object]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "plan.json: not a plan: Input data was truncated"),
        ('{"format": 2}', "plan.json: not a plan: Object missing required field `templates`"),
        ('{"templates": {}}', "plan.json: not a plan: Object missing required field `format`"),
        ('{"format": 1, "templates": {}}', "plan.json: plan of format 1; known is 2: write it again with"),
        (
            '{"format": 2, "templates": {"k": {"node": "n", "cut": {"tile": {}}}}}',
            "not a plan: Object contains unknown field `tile`",
        ),
        (
            '{"format": 2, "templates": {}, "versions": {"n": [{"number": 0, "at": {}, "way": "any"}]}}',
            "not a plan: Invalid enum value 'any'",
        ),
    ],
)
def test_files_that_hold_no_plan(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(GraphError, match=message):
        read_plan(path)


def refused(compiled: Compile, plan: Plan, folder: Path, message: str, by: Compile | None = None) -> None:
    """A plan is refused in one line, which begins with a message; ``by`` is another compilation."""
    with pytest.raises(GraphError) as caught:
        without_search(by or compiled, written(plan, folder))
    assert re.match(message, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


def rows(width: int = 64) -> Graph:
    """Rows through five operators; the first result is also an output."""
    nodes: list[Any] = [
        ("Softmax", ["x"], ["a"], {"axis": 1}),
        ("Softmax", ["a"], ["b"], {"axis": 1}),
        ("MatMul", ["b", "w"], ["c"], {}),
        ("Softmax", ["c"], ["y"], {"axis": 1}),
    ]
    return graph(nodes, {"x": (96, width)}, {"w": draw(width, width)}, ("a", "y"))


def sequence(*groups: str, kind: str = "sliced", **more: Any) -> Change:
    """The plan's sequences are only this one."""

    def change(plan: Plan) -> None:
        plan["sequences"] = [{"kind": kind, "groups": list(groups), **more}]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda plan: plan["templates"].clear(),
            "the plan has no entry for node '.*': it was made for another",
        ),
        (
            lambda plan: plan["templates"].update(k={"node": "old", "cut": None}),
            "the plan has an entry for node 'old' that nothing needs: it was made for another",
        ),
        (
            lambda plan: plan["sequences"].clear(),
            "the plan has no entry for node '.*': it was made for another",
        ),
        (
            sequence("n1", "soft"),
            r"the plan's sequence 1 \(sliced: n1, soft\) cannot be made: there is no group 'soft'",
        ),
        (
            sequence("n1", "n2", kind="sliding"),
            r".* cannot be made: kinds that .* allow: stack, sharded, pooled, sliced$",
        ),
        (
            sequence("n1", "n2", kind="stack"),
            ".* cannot be made: group 'n1' cannot be a part of it: it was made for",
        ),
        (sequence("n2", "n1"), ".* cannot be made: expected two groups or more, in the order of the program"),
        (sequence("n1", "n1"), ".* cannot be made: expected two groups or more, in the order of the program"),
        (sequence("n1"), ".* cannot be made: expected two groups or more, in the order of the program"),
        (
            sequence("n1", "n3"),
            ".* cannot be made: node 'n2' is between its groups and does not belong to it",
        ),
        (sequence("n0", "n1"), ".* cannot be made: others need what node 'n0' computes; expected grown"),
    ],
)
def test_decisions_that_do_not_fit(change: Change, message: str, tmp_path: Path) -> None:
    compiled = on_one(rows(), FULL)
    plan = plan_of(compiled(None))
    change(plan)
    refused(compiled, plan, tmp_path, message)


def test_a_cut_that_is_not_possible(tmp_path: Path) -> None:
    compiled = on_one(rows(), FULL, residency="off")
    plan = plan_of(compiled(None))
    for entry in plan["templates"].values():
        entry["cut"] = {"sizes": {"elephants": 3}}
    message = r"the plan's entry for node '.*' \(.*\) cannot be used: its lowering does not know"
    refused(compiled, plan, tmp_path, message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"residency": "off"}, "the plan's sequence 1 .* cannot be made: kinds that .* allow: none$"),
        ({"patterns": "none"}, "the plan's sequence 1 .* cannot be made: "),
    ],
)
def test_options_with_which_nothing_is_joined(options: Any, message: str, tmp_path: Path) -> None:
    compiled = on_one(rows(), FULL)
    refused(compiled, plan_of(compiled(None)), tmp_path, message, on_one(rows(), FULL, **options))


@pytest.mark.parametrize(
    ("made", "how"),
    [(rows(), replace(FULL, tiles=4)), (rows(), replace(FULL, dtype="bf16")), (rows(width=48), FULL)],
)
def test_a_plan_for_something_else(made: Graph, how: Any, tmp_path: Path) -> None:
    compiled = on_one(rows(), FULL)
    message = "the plan has no entry for node '.*': it was made for another graph or other options$"
    refused(compiled, plan_of(compiled(None)), tmp_path, message, on_one(made, how))


def test_a_sequence_that_its_kind_does_not_allow(tmp_path: Path) -> None:
    nodes: list[Any] = [("Conv", ["x", "w"], ["a"], {}), ("Conv", ["a", "w"], ["y"], {})]
    compiled = on_one(graph(nodes, {"x": (1, 64, 9, 9)}, {"w": draw(64, 64, 1, 1)}), FULL)
    plan = plan_of(compiled(None))
    sequence("n0", "n1", kind="pooled")(plan)
    refused(compiled, plan, tmp_path, r"the plan's sequence 1 \(pooled: n0, n1\) cannot be made: ")
    sequence("n0", "n1", kind="stack", grown=True)(plan)
    refused(compiled, plan, tmp_path, ".* cannot be made: sequences of this kind do not grow$")


def test_a_new_value_of_a_state_does_not_grow(tmp_path: Path) -> None:
    nodes: list[Any] = [("Softmax", ["x"], ["new"], {}), ("Softmax", ["new"], ["y"], {})]
    made = with_states(graph(nodes, {"x": (96, 64)}, {}, ("new", "y")), {"x": "new"})
    compiled = on_one(made, FULL)
    plan = plan_of(compiled(None))
    sequence("n0", "n1", grown=True)(plan)
    refused(compiled, plan, tmp_path, ".* cannot be made: group 'n0' cannot be a part of it")


# --- ranges of sizes --------------------------------------------------------------------------------------


def cell() -> Compile:
    """A phase of two versions, for streams up to 11 and for more."""
    return over_ranges(recurrent_cell(), {"streams": (1, 8, 300)})


def parts(*ends: int) -> list[Plan]:
    """Parts of a sequence, one after another."""
    return [{"begin": begin, "end": end, "cut": None} for begin, end in zip((0, *ends), ends, strict=False)]


def version(number: int, **changes: Any) -> Change:
    """Change a version of the only phase."""

    def change(plan: Plan) -> None:
        (versions,) = plan["versions"].values()
        versions[number].update(changes)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda plan: plan["versions"].clear(),
            ".*: 0 of them are for streams=1, expected 1: it was made for",
        ),
        (version(1, used_for=[[20, 300]]), ".*: 0 of them are for streams=12, expected 1"),
        (version(1, used_for=[[5, 300]]), ".*: 2 of them are for streams=6, expected 1"),
        (
            version(1, used_for=[[11, 301]]),
            ".*: combinations of sizes 11 to 301 are not among the 300 of the",
        ),
        (
            version(1, at={"streams": 301}),
            ".*: one is made for streams=301, expected 1 to 300: it was made for",
        ),
        (version(1, at={"rows": 4}), ".*: one is made for streams=None, expected 1 to 300: it was made for"),
        (version(1, right_for=[[0, 9]]), ".*: one is not right for the sizes that it is made for, "),
        (version(0, right_for=[[0, 9]]), ".*: one is used for sizes for which its code is not right"),
        (version(1, parts=parts(9)), r".* 'searched', is not possible: parts \[\(0, 9\)\], expected all"),
        (version(1, parts=parts(2)), ".* 'searched', is not possible: .* expected all of its 4 stages"),
        (version(1, parts=parts(2, 2, 4)), ".* 'searched', is not possible: parts"),
        (version(1, parts=parts(4, 2, 4)), ".* 'searched', is not possible: parts"),
        (version(1, way="together", cut={"choices": {"axis": "7"}}, parts=[]), ".* 'together', is not"),
    ],
)
def test_versions_that_do_not_fit(change: Change, message: str, tmp_path: Path) -> None:
    plan = plan_of(cell()(None))
    change(plan)
    refused(cell(), plan, tmp_path, f"the plan's versions of phase 'matmul0' cannot be used{message}")


def test_sizes_that_do_not_fit(tmp_path: Path) -> None:
    plan = plan_of(cell()(None))
    plan["sizes"][0] = "(rows ceil 8)"
    refused(
        cell(),
        plan,
        tmp_path,
        r"the plan's sizes cannot be used: '\(rows ceil 8\)' is no size of streams: it",
    )


def test_a_plan_of_a_range_for_one_size(tmp_path: Path) -> None:
    compiled = on_one(rows(), FULL)
    plan = plan_of(compiled(None)) | {"versions": {"n0": []}}
    plan["versions"]["n0"] = [{"number": 0, "at": {"rows": 1}, "way": "rule"}]
    refused(
        compiled, plan, tmp_path, "the plan is for a range of sizes, and the program for one: it was made for"
    )


# --- several chips ----------------------------------------------------------------------------------------


def stages() -> Graph:
    return layers(2, 2, 8, 64)


def test_chips_that_a_plan_is_not_for(tmp_path: Path) -> None:
    alone, shared = on_one(stages(), FULL), on_chips(stages(), (2, 1), "tp=2")
    refused(alone, plan_of(alone(None)), tmp_path, "the plan is for one chip; here are several: ", shared)
    plan = plan_of(shared(None))
    refused(
        shared, plan, tmp_path, "the plan is for chips that share the graph by tp=2; here is one chip$", alone
    )
    plan["parallel"] = "tp=4"
    refused(shared, plan, tmp_path, "--parallel tp=4: is for 4 chips; 2x1 chips are 2")
    with pytest.raises(
        GraphError, match="--parallel dp=2: the plan is for tp=4: give the same, or leave it out"
    ):
        machine = load_machine(None).of_chips(2, 1)
        path = written(plan, tmp_path)
        compile_graph(stages(), "fp16", machine=machine, plan=path, parallel=parsed_degrees("dp=2"))


@pytest.mark.parametrize(
    "change",
    [{"cuts": [0, 9]}, {"cuts": [0, 5, 4, 8]}, {"cuts": [1, 4, 8]}, {"cuts": [0, 4, 9]}, {"stages": []}],
)
def test_stages_that_do_not_fit(change: Plan, tmp_path: Path) -> None:
    compiled = on_chips(stages(), (2, 1), "pp=2")
    plan = plan_of(compiled(None))
    message = (
        r"the plan's cuts \[.*\] with [02] plans: expected 2 stages from node 0 to 8, and a plan of each: it"
    )
    refused(compiled, plan | change, tmp_path, message)
    moved = plan | {"cuts": [0, 5, 8]}
    refused(compiled, moved, tmp_path, "the plan has no entry for node |the plan's sequence ")
