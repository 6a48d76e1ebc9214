"""Pass group_stack, on modules as text and in whole compilations; groups that do not fit at any size."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.dialect.ops import GroupOp, LoadVarOp, StoreVarOp
from compiler.driver import compile_graph
from compiler.graph import Array, Graph, GraphError
from compiler.passes import PIPELINE
from compiler.passes.base import Context, operations
from compiler.passes.groups import borders, group_stack, sequences
from compiler.passes.groups.group_stack import GroupStackPass
from compiler.passes.patterns import PatternError, load_patterns
from compiler.search import SearchResult, Template, Trial
from compiler.search.cost import barrier_cycles
from compiler.search.plan import plan_text
from compiler_harness import NodeSpec, assert_right, draw, graph, small_machine
from ir_text import after, constant, context, node, outline, output, parsed, reparsed, source, zeros
from paths import ROOT
from planned_cuts import without_sliced
from stack_nets import bottleneck, fire
from time_bench import changed, warm
from tx8isa.machine.description import load_machine

S = "1x64x16x16"
W = "64x64x3x3"
PADS = 'auto_pad = "NOTSET", pads = [1 : i64, 1 : i64, 1 : i64, 1 : i64], group = 1 : i64'
FIRST, LAST = "layout_init", "group_load_store"


def stacked(module: ModuleOp, given: Context) -> list[str]:
    """The groups of a module after the passes up to group_load_store."""
    names = [step.name for step in PIPELINE]
    passes = PIPELINE[names.index(FIRST) : names.index(LAST) + 1]
    return [line for line in outline(after(module, given, *passes)) if line.startswith("group")]


def conv(name: str, value: str, operand: str) -> str:
    return node("conv", name, value, {operand: S, "w": W}, S, PADS)


def convolutions(count: int, *more: str) -> ModuleOp:
    """Convolutions c1, c2 ..., each reading the result of the previous one."""
    lines = [conv(f"c{i}", f"v{i}", f"v{i - 1}") for i in range(1, count + 1)]
    head = (source("x", "v0", S), constant("w", "w", W))
    return parsed("\n".join([*head, *lines, *more, output("y", f"v{count}", S)]))


def compilation(patterns: str = "default", search: str = "fast") -> Context:
    return context({"w": zeros(64, 64, 3, 3)}, patterns, search)


def priced(
    monkeypatch: pytest.MonkeyPatch, saved: Callable[[int], int], sliced: dict[int, int] | None = None
) -> None:
    """Replace the estimates: a stack of n groups saves ``saved(n)`` cycles, a single group takes 1000.

    A sliced sequence of n groups saves ``sliced[n]``. No other sequence is possible.
    """

    def decision(template: Template) -> SearchResult | None:
        count, kind = len(template.work.stages), template.work.op
        if kind != "Stack" and (kind != "Sliced" or count not in (sliced or {})):
            return None
        cycles = 1000 * count - (saved(count) if kind == "Stack" else (sliced or {})[count])
        trial = Trial(next(iter(template_cuts(template))), cycles)
        return SearchResult(template.key, trial, (trial,))

    monkeypatch.setattr(sequences, "stack_decisions", lambda context, groups: decision)
    monkeypatch.setattr(
        borders.Borders, "gain", lambda self, groups, trial: 1000 * len(groups) - trial.cycles
    )


def template_cuts(template: Template) -> list[object]:
    from compiler.lowering import LOWERINGS

    cuts = LOWERINGS[template.work.op].cuts
    assert cuts is not None
    return list(cuts(template.target, template.work))


def test_a_stack_is_one_group_with_its_own_loads_and_store() -> None:
    module, given = convolutions(2), compilation(without_sliced())
    assert stacked(module, given)[1:-1] == ["group stacked: c1 c2"]
    made = next(op for op in operations(module) if isinstance(op, GroupOp) and len(op.members) == 2)
    moves = [op for op in made.body.block.ops if isinstance(op, LoadVarOp | StoreVarOp)]
    assert [type(move) for move in moves] == [LoadVarOp, StoreVarOp]
    assert made.cut is not None
    assert made.estimate is not None
    assert made.template is not None
    assert given.templates[made.template.value.data].work.op == "Stack"
    assert len(given.templates) == len(given.results)
    assert outline(reparsed(module)) == outline(module)


def test_all_that_the_pass_needs_is_in_the_text() -> None:
    names = [step.name for step in PIPELINE]
    given = compilation(without_sliced())
    module = after(convolutions(2), given, *PIPELINE[names.index(FIRST) : names.index("group_cost") + 1])
    read, fresh = reparsed(module), compilation(without_sliced())
    fresh.constants = given.constants
    after(read, fresh, *PIPELINE[names.index("group_mapping") : names.index("group_mapping") + 1])
    for each, text in ((given, module), (fresh, read)):
        after(text, each, GroupStackPass())
    assert [line for line in outline(read) if "stacked" in line] == ["group stacked: c1 c2"]
    assert str(read) == str(module)


def test_what_was_tried_and_not_made_is_reported() -> None:
    program = compile_graph(PAIR, "fp16", 4, patterns=without_sliced())
    assert program.report is not None
    left = {report.node for report in program.report.templates if not report.groups}
    assert left == {"n0"}, "both groups, which are equal, went into the stack"
    assert all(report.tried for report in program.report.templates)


def test_a_value_with_other_users_leaves_the_scratchpad() -> None:
    other = node("relu", "r", "z", {"v1": S}, S)
    module = convolutions(2, other, output("z", "z", S))
    assert not any("stacked" in line for line in stacked(module, compilation()))


def test_a_stack_that_takes_longer_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    priced(monkeypatch, lambda count: -1)
    assert stacked(convolutions(3), compilation())[1:-1] == [f"group single: c{i}" for i in (1, 2, 3)]


@pytest.mark.parametrize(
    ("saved", "groups"),
    [
        ({2: 10, 3: 14, 4: 15}, ["c1 c2", "c3 c4"]),
        ({2: 10, 3: 24, 4: 23}, ["c1", "c2 c3 c4"]),
        ({2: 10, 3: 24, 4: 25}, ["c1 c2 c3 c4"]),
        ({2: -1, 3: 1, 4: -1}, ["c1", "c2 c3 c4"]),
    ],
)
def test_the_stacks_save_most_together(
    monkeypatch: pytest.MonkeyPatch, saved: dict[int, int], groups: list[str]
) -> None:
    priced(monkeypatch, saved.__getitem__)
    found = stacked(convolutions(4), compilation())[1:-1]
    assert [line.partition(": ")[2] for line in found] == groups


@pytest.mark.parametrize(
    ("saved", "kinds"),
    [
        ({2: 10, 3: 10, 4: 10, 5: 10}, ["single", "sliced", "sliced"]),
        ({2: 10, 3: 700, 4: 10, 5: 10}, ["single", "sliced", "stacked"]),
        ({2: 700, 3: 10, 4: 10, 5: 10}, ["single", "single", "single", "stacked", "stacked"]),
        ({2: 10, 3: 10, 4: 10, 5: 1300}, ["single", "single", "stacked"]),
    ],
)
def test_stacks_and_sliced_sequences_save_most_together(
    monkeypatch: pytest.MonkeyPatch, saved: dict[int, int], kinds: list[str]
) -> None:
    """Sliced sequences of three, the changes of layout at both ends included, save 600 cycles each."""
    priced(monkeypatch, saved.__getitem__, {3: 600})
    monkeypatch.setattr(group_stack, "grown", lambda *given: [])
    found = stacked(convolutions(5), compilation())
    assert sorted(line.split()[1].rstrip(":") for line in found) == kinds


def test_a_sliced_sequence_takes_the_place_of_a_stack() -> None:
    """It includes the changes of layout, so that there are fewer barriers, which are expensive here."""
    machine = changed(warm(load_machine(None)), "barrier", "fixed", 5000.0)
    either, stack = (
        compile_graph(PAIR, "fp16", 4, patterns=each, machine=machine)
        for each in ("default", without_sliced())
    )
    assert either.report is not None and stack.report is not None
    assert "sliced" in [phase.tag for phase in either.report.phases]
    assert "stacked" in [phase.tag for phase in stack.report.phases]
    cycles = [
        sum((phase.estimate or 0) + barrier_cycles(each.machine) for phase in each.report.phases)
        for each in (either, stack)
    ]
    assert cycles[0] < cycles[1]
    assert_right(PAIR, "fp16", 4)


def test_equal_stacks_are_one_template(monkeypatch: pytest.MonkeyPatch) -> None:
    priced(monkeypatch, {2: 10, 3: 0, 4: 0}.__getitem__)
    given = compilation()
    stacked(convolutions(4), given)
    assert [template.count for template in given.templates if template.work.op == "Stack"] == [2]


@pytest.mark.parametrize(("patterns", "search"), [("none", "fast"), ("default", "off")])
def test_nothing_is_stacked_without_patterns_or_search(patterns: str, search: str) -> None:
    lines = stacked(convolutions(2), compilation(patterns, search))
    assert lines[1:-1] == ["group single: c1", "group single: c2"]


PATTERN = '[[pattern]]\ntag = "t"\nsequence = ["Conv", "Relu"]\n'


@pytest.mark.parametrize(
    ("table", "groups"),
    [
        ("", ["single: c1", "single: c2", "single: c3"]),
        ('[stack]\ntag = "tower"\noperators = "Conv"\nmost = 8', ["tower: c1 c2 c3"]),
        ('[stack]\ntag = "t"\noperators = "MaxPool"\nmost = 8', ["single: c1", "single: c2", "single: c3"]),
    ],
)
def test_a_file_says_what_may_be_stacked(tmp_path: Path, table: str, groups: list[str]) -> None:
    (tmp_path / "mine.toml").write_text(PATTERN + table)
    lines = stacked(convolutions(3), compilation(str(tmp_path / "mine.toml")))
    assert lines[1:-1] == [f"group {text}" for text in groups]


def test_at_most_so_many_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    priced(monkeypatch, lambda count: count * count)
    (tmp_path / "mine.toml").write_text(PATTERN + '[stack]\ntag = "t"\noperators = "Conv"\nmost = 2')
    lines = stacked(convolutions(3), compilation(str(tmp_path / "mine.toml")))
    assert sorted(len(line.split()) - 2 for line in lines[1:-1]) == [1, 2]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("stack = 3", "stack: expected a table of tag, operators, most; found 3"),
        ('[stack]\ntag = "t"', "stack: expected a table of tag, operators, most; found {'tag': 't'}"),
        ('[stack]\ntag = ""\noperators = "Conv"\nmost = 2', "stack: tag must be a text; found ''"),
        (
            '[stack]\ntag = "t"\noperators = "Conv|Gemm"\nmost = 2',
            "operators must be some of AveragePool.Concat.Conv.Int8Conv.Int8Sum.MaxPool; found 'Conv.Gemm'",
        ),
        ('[stack]\ntag = "t"\noperators = "Conv"\nmost = 1', "most must be a number of groups, 2 or more"),
    ],
)
def test_mistakes_in_what_may_be_stacked(tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(
        f"{table}\n{PATTERN}" if table.startswith("stack") else PATTERN + table
    )
    with pytest.raises(PatternError, match=message) as caught:
        load_patterns(str(tmp_path / "mine.toml"))
    assert "\n" not in str(caught.value)


# --- whole compilations -----------------------------------------------------------------------------------


def pair(last: NodeSpec, **constants: Array) -> Graph:
    """A convolution and an operator after it."""
    first: NodeSpec = ("Conv", ["x", "w"], ["a"], {"pads": (1, 1, 1, 1)})
    return graph([first, last], {"x": (1, 64, 16, 16)}, {"w": draw(64, 64, 3, 3, scale=0.05), **constants})


PAIR = pair(("Conv", ["a", "w"], ["y"], {"pads": (1, 1, 1, 1)}))


@pytest.mark.parametrize(
    "last",
    [
        ("Conv", ["a", "v"], ["y"], {"group": 2}),
        ("AveragePool", ["a"], ["y"], {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}),
        ("Conv", ["a", "s"], ["y"], {}),
        ("GlobalAveragePool", ["a"], ["y"], {}),
    ],
)
def test_what_cannot_be_a_stage_stays_apart(monkeypatch: pytest.MonkeyPatch, last: NodeSpec) -> None:
    """Groups of channels, means of different numbers of elements, weights that are computed, no window."""
    monkeypatch.setattr(borders, "barrier_cycles", lambda machine: 10**9)
    inputs = {"x": (1, 32, 8, 8)} | ({"s": (32, 128, 1, 1)} if "s" in last[1] else {})
    constants = {"w": draw(128, 32, 1, 1, scale=0.1)} | ({"v": draw(128, 64, 1, 1)} if "v" in last[1] else {})
    program = assert_right(graph([("Conv", ["x", "w"], ["a"], {}), last], inputs, constants), "fp16", 4)
    assert program.report is not None
    assert "stacked" not in [phase.tag for phase in program.report.phases]


def test_a_piece_that_is_not_computed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A join with a tensor from outside cannot end a stack; the results are still right."""
    monkeypatch.setattr(borders, "barrier_cycles", lambda machine: 10**9)
    made = pair(("Concat", ["a", "x"], ["y"], {"axis": 1}))
    program = assert_right(made, "fp16", 4)
    assert program.report is not None
    assert "stacked" not in [phase.tag for phase in program.report.phases]


def test_a_plan_makes_the_same_stacks(tmp_path: Path) -> None:
    program = compile_graph(PAIR, "fp16", 4, patterns=without_sliced())
    assert program.report is not None
    assert [phase.tag for phase in program.report.phases].count("stacked") == 1
    (tmp_path / "plan.json").write_text(plan_text(program.report.plan))
    planned = compile_graph(PAIR, "fp16", 4, patterns=without_sliced(), plan=tmp_path / "plan.json")
    assert planned.text == program.text


def test_a_plan_whose_cut_of_a_stack_is_wrong(tmp_path: Path) -> None:
    program = compile_graph(PAIR, "fp16", 4, patterns=without_sliced())
    assert program.report is not None
    plan = json.loads(plan_text(program.report.plan))
    for decision in plan["templates"].values():
        if decision["cut"] is not None and "maps" not in decision["cut"].get("tiles", {"maps": 1}):
            decision["cut"]["sizes"] = {"lines": 1}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(GraphError, match=r"node '.*' \(Stack\) cannot be used: .*'rows'"):
        compile_graph(PAIR, "fp16", 4, patterns=without_sliced(), plan=tmp_path / "plan.json")


# --- groups that fit nowhere ------------------------------------------------------------------------------

POOLED: tuple[NodeSpec, NodeSpec] = (
    ("AveragePool", ["x"], ["a"], {"kernel_shape": (3, 3)}),
    ("PRelu", ["a", "slope"], ["y"], {}),
)


@pytest.mark.parametrize("search", ["off", "fast"])
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_a_group_that_fits_nowhere_is_computed_by_its_members(search: str, dtype: str) -> None:
    made = graph(POOLED, {"x": (1, 200, 12, 11)}, {"slope": draw(200, 1, 1)})
    program = compile_graph(made, dtype, 4, small_machine(), search=search)
    assert program.report is not None
    assert "between" in program.text
    assert "fused" in [phase.tag for phase in program.report.phases]
    assert_right(made, dtype, 4, small_machine())


def test_steps_with_operands_that_fit_nowhere() -> None:
    steps: list[NodeSpec] = [
        ("Conv", ["x", "w"], ["a"], {}),
        ("Sigmoid", ["a"], ["b"], {}),
        ("Mul", ["b", "z"], ["c"], {}),
        ("Mish", ["c"], ["d"], {}),
        ("Sub", ["z", "d"], ["y"], {}),
    ]
    shape = (1, 70, 9, 9)
    made = graph(steps, {"x": shape, "z": shape}, {"w": draw(70, 70, 1, 1, scale=0.1)})
    assert "between" in assert_right(made, "fp16", 2, small_machine(0x1400)).text


def test_a_member_that_fits_nowhere_is_refused() -> None:
    wide: NodeSpec = ("AveragePool", ["x"], ["a"], {"kernel_shape": (30, 30)})
    made = graph([wide, POOLED[1]], {"x": (1, 70, 40, 40)}, {"slope": draw(70, 1, 1)})
    with pytest.raises(GraphError, match=r"'n0' \(AveragePool\): .*do not fit"):
        compile_graph(made, "fp32", 4, small_machine())


@pytest.mark.long
def test_a_program_does_not_depend_on_what_was_compiled_before() -> None:
    """Works and prices cached by one compilation give another one the same program."""
    programs = [compile_graph(made, "fp16") for made in (fire(), bottleneck(), fire(), bottleneck())]
    command = (
        "import hashlib\nfrom compiler.driver import compile_graph\nfrom stack_nets import bottleneck\n"
        "print(hashlib.sha256(compile_graph(bottleneck(), 'fp16').text.encode()).hexdigest())"
    )
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support" / "networks")])
    alone = subprocess.run(
        [sys.executable, "-c", command],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert programs[0].text == programs[2].text and programs[1].text == programs[3].text
    assert alone.stdout.strip() == hashlib.sha256(programs[1].text.encode()).hexdigest()
