"""The group passes: small modules as text, their results, and groups that verifiers refuse."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.dialect.ops import GroupOp
from compiler.driver import compile_graph
from compiler.graph import Graph
from compiler.passes.base import operations
from compiler.passes.ddr.barrier_opt import BarrierOptPass
from compiler.passes.ddr.ddr_reorder import DdrReorderPass
from compiler.passes.ddr.group_order import GroupOrderPass
from compiler.passes.ddr.placement import result_range
from compiler.passes.groups.group_load_store import GroupLoadStorePass
from compiler.passes.groups.group_mapping import GroupMappingPass
from compiler.passes.groups.group_opt import GroupOptPass
from compiler.passes.groups.group_pattern import GroupPatternPass
from compiler.passes.patterns import PatternError, PatternTrie, load_patterns
from compiler.passes.work import work_of
from compiler.tools.run import check, random_inputs
from compiler_harness import draw, graph
from ir_text import after, constant, context, node, outline, output, parsed, reparsed, source, zeros
from tx8isa.numbers.formats import Format

S = "4x64"
W = {"x": S, "w": "64x64"}
PAIR = {"a": S, "b": S}


def body(*lines: str) -> str:
    return "\n".join(lines)


def groups(module: ModuleOp) -> list[GroupOp]:
    return [operation for operation in operations(module) if isinstance(operation, GroupOp)]


PRODUCT = [source("x", "x", S), constant("w", "w", "64x64"), node("mat_mul", "m", "a", W, S)]
ACTIVATED = body(*PRODUCT, node("relu", "r", "b", {"a": S}, S), output("y", "b", S))
DIAMOND = body(
    source("x", "x", S),
    node("sigmoid", "s", "a", {"x": S}, S),
    node("exp", "e", "b", {"a": S}, S),
    node("mul", "m", "c", PAIR, S),
    output("y", "c", S),
)
"""e and m use s, and m uses e: one chain, although s has two users."""
RESIDUAL = body(
    source("x", "x", S),
    constant("w", "w", "64x64"),
    node("mat_mul", "left", "a", W, S),
    node("mat_mul", "right", "b", W, S),
    node("add", "sum", "c", PAIR, S),
    node("relu", "act", "d", {"c": S}, S),
    output("y", "d", S),
)


def test_a_pattern_takes_an_anchor_and_its_activation() -> None:
    module = after(parsed(ACTIVATED), context({"w": zeros(64, 64)}), GroupPatternPass())
    assert outline(module) == ["input x", "load_const w", "group activated: m r", "output y"]


def test_of_two_anchors_the_later_takes_the_sum() -> None:
    module = after(parsed(RESIDUAL), context({"w": zeros(64, 64)}), GroupPatternPass())
    lines = outline(module)
    assert lines[2:4] == ["group single: left", "group added: right sum act"]


def test_without_patterns_every_operation_is_alone() -> None:
    given = context({"w": zeros(64, 64)}, patterns="none")
    module = after(parsed(RESIDUAL), given, GroupPatternPass(), GroupOptPass())
    assert [line for line in outline(module) if line.startswith("group")] == [
        "group single: left",
        "group single: right",
        "group single: sum",
        "group single: act",
    ]


def test_a_value_with_two_users_stays_an_output() -> None:
    text = body(*PRODUCT, node("relu", "r", "b", {"a": S}, S), output("y", "b", S), output("z", "a", S))
    module = after(parsed(text), context({"w": zeros(64, 64)}), GroupPatternPass(), GroupOptPass())
    assert "group single: m" in outline(module)
    assert "group single: r" in outline(module)


def test_what_patterns_missed_follows_its_anchor() -> None:
    steps = [
        node("relu", "r", "b", {"a": S}, S),
        node("exp", "e", "c", {"b": S}, S),
        node("neg", "n", "d", {"c": S}, S),
    ]
    text = body(*PRODUCT, *steps, output("y", "d", S))
    module = after(parsed(text), context({"w": zeros(64, 64)}), GroupPatternPass(), GroupOptPass())
    assert outline(module)[2] == "group fused: m r e n"


def test_the_format_of_the_output_needs_no_phase() -> None:
    cast = '%c = "tx8be.cast"(%b) {node = "y"} : (tensor<4x64xf16>) -> tensor<4x64xf32>'
    text = body(*PRODUCT, node("relu", "r", "b", {"a": S}, S), cast, output("y", "c", S, "f32"))
    given = context({"w": zeros(64, 64)})
    module = after(parsed(text), given, GroupPatternPass(), GroupOptPass())
    assert outline(module)[2] == "group activated: m r y"
    work = work_of(given, groups(module)[0], lambda value: "v")
    assert [step.op for step in work.steps] == ["Relu"]
    assert work.output.fmt is Format.FP32
    assert work.compute is Format.FP16


def test_a_step_with_another_shape_is_no_step() -> None:
    text = body(
        source("x", "x", S),
        constant("w", "w", "64x1"),
        source("k", "k", S),
        node("mat_mul", "m", "a", {"x": S, "w": "64x1"}, "4x1"),
        node("add", "grow", "b", {"a": "4x1", "k": S}, S),
        output("y", "b", S),
    )
    module = after(parsed(text), context({"w": zeros(64, 1)}), GroupPatternPass(), GroupOptPass())
    assert outline(module)[-3:] == ["group single: m", "group single: grow", "output y"]


def test_pointwise_operations_with_inner_users_are_one_chain() -> None:
    module = after(parsed(DIAMOND), context(), GroupPatternPass(), GroupOptPass())
    assert outline(module) == ["input x", "group chain: s e m", "output y"]


def test_an_anchor_between_two_uses_keeps_the_chain_apart() -> None:
    """The product and the operation after it both use s: in one group they would wait for each other."""
    text = body(
        source("x", "x", "64x64"),
        node("sigmoid", "s", "a", {"x": "64x64"}, "64x64"),
        node("mat_mul", "m", "b", {"a": "64x64", "x": "64x64"}, "64x64"),
        node("mul", "u", "c", {"a": "64x64", "b": "64x64"}, "64x64"),
        output("y", "c", "64x64"),
    )
    module = after(parsed(text), context(), GroupPatternPass(), GroupOptPass())
    assert outline(module)[1:3] == ["group single: s", "group activated: m u"]


def test_loads_and_stores_show_what_leaves_the_scratchpad() -> None:
    passes = (GroupPatternPass(), GroupOptPass(), GroupLoadStorePass())
    module = after(parsed(ACTIVATED), context({"w": zeros(64, 64)}), *passes)
    inside = [op.name for op in groups(module)[0].body.block.ops]
    assert inside == [f"tx8be.{name}" for name in ("load_var", "load_const", "mat_mul", "relu", "store_var")]
    assert str(reparsed(module)) == str(module)


def test_the_work_of_a_group_has_its_steps() -> None:
    passes = (GroupPatternPass(), GroupOptPass(), GroupLoadStorePass())
    given = context({"w": zeros(64, 64)})
    module = after(parsed(RESIDUAL), given, *passes)
    work = work_of(given, groups(module)[1], lambda value: str(getattr(value.owner, "node", None)))
    assert (work.op, [step.op for step in work.steps]) == ("MatMul", ["Add", "Relu"])
    assert work.steps[0].running == (1,)
    left = work.steps[0].operands[0]
    assert left is not None
    assert left.shape == (4, 64)
    assert work.inputs[1] is not None
    assert work.inputs[1].value is not None
    assert work.inputs[0] is not None
    assert work.inputs[0].value is None


def test_equal_groups_get_one_template_number() -> None:
    text = body(
        source("x", "x", S),
        constant("v", "v", "64x64"),
        constant("w", "w", "64x64"),
        node("mat_mul", "m1", "a", {"x": S, "v": "64x64"}, S),
        node("mat_mul", "m2", "b", {"a": S, "w": "64x64"}, S),
        node("softmax", "s", "c", {"b": S}, S, "axis = -1 : i64"),
        node("softmax", "t", "d", {"c": S}, S, "axis = 0 : i64"),
        output("y", "d", S),
    )
    given = context({"v": zeros(64, 64), "w": zeros(64, 64) + 1})
    passes = (GroupPatternPass(), GroupLoadStorePass(), GroupMappingPass())
    module = after(parsed(text), given, *passes)
    numbers = {g.node.data: g.template.value.data for g in groups(module) if g.template is not None}
    assert numbers == {"m1": 0, "m2": 0, "s": 1, "t": 2}
    assert [template.count for template in given.templates] == [2, 1, 1]


TWO_BRANCHES = body(
    source("x", "x", S),
    node("softmax", "s1", "a", {"x": S}, S, "axis = -1 : i64"),
    node("softmax", "s2", "b", {"a": S}, S, "axis = -1 : i64"),
    node("softmax", "t1", "c", {"x": S}, S, "axis = -1 : i64"),
    node("softmax", "t2", "d", {"c": S}, S, "axis = -1 : i64"),
    output("y", "b", S),
    output("z", "d", S),
)


def barriers(module: ModuleOp) -> list[str]:
    return [operation.node.data for operation in operations(module) if operation.barrier is not None]


def test_groups_of_one_layer_share_a_barrier() -> None:
    passes = (GroupPatternPass(), GroupOrderPass(), DdrReorderPass(), BarrierOptPass())
    module = after(parsed(TWO_BRANCHES), context(), *passes)
    assert [line for line in outline(module) if line.startswith("group")] == [
        "group single: s1",
        "group single: t1",
        "group single: s2",
        "group single: t2",
    ]
    assert barriers(module) == ["s2"]


def test_in_the_order_of_the_graph_each_branch_would_wait() -> None:
    passes = (GroupPatternPass(), DdrReorderPass(), BarrierOptPass())
    module = after(parsed(TWO_BRANCHES), context(), *passes)
    assert barriers(module) == ["s2", "t2"]


def test_bytes_that_are_used_again_need_a_barrier() -> None:
    """In a small DDR t1 writes where s2 reads: other tiles may still be executing s2."""
    passes = (GroupPatternPass(), DdrReorderPass(), BarrierOptPass())
    given = context()
    ddr = msgspec.structs.replace(given.machine.ddr, bytes=4096)
    given.machine = msgspec.structs.replace(given.machine, ddr=ddr)
    module = after(parsed(TWO_BRANCHES), given, *passes)
    places = {group.node.data: result_range(group) for group in groups(module)}
    assert places["t1"] == places["s1"]
    assert "t1" in barriers(module)


def pattern_file(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_patterns_from_a_file(tmp_path: Path) -> None:
    text = '[[pattern]]\ntag = "mine"\npriority = 1\nsequence = ["MatMul|Gemm", "*", "Exp"]\n'
    given = context({"w": zeros(64, 64)}, patterns=pattern_file(tmp_path, text))
    steps = [node("neg", "n", "b", {"a": S}, S), node("exp", "e", "c", {"b": S}, S)]
    module = after(parsed(body(*PRODUCT, *steps, output("y", "c", S))), given, GroupPatternPass())
    assert outline(module)[2] == "group mine: m n e"


def test_priority_goes_before_length(tmp_path: Path) -> None:
    text = """
[[pattern]]
tag = "long"
sequence = ["MatMul", "Neg", "Exp"]
[[pattern]]
tag = "short"
priority = 5
sequence = ["MatMul", "Neg"]
"""
    given = context({"w": zeros(64, 64)}, patterns=pattern_file(tmp_path, text))
    steps = [node("neg", "n", "b", {"a": S}, S), node("exp", "e", "c", {"b": S}, S)]
    module = after(parsed(body(*PRODUCT, *steps, output("y", "c", S))), given, GroupPatternPass())
    assert outline(module)[2:4] == ["group short: m n", "group single: e"]


def test_the_sets_that_need_no_file() -> None:
    assert load_patterns("none") is None
    assert isinstance(load_patterns("default"), PatternTrie)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[pattern]", "Expected ']]' at the end of an array declaration"),
        (
            "[other]",
            r"tables \[\[pattern\]\], at most one \[stack\] and one \[sharded\] and .*; found 'other'",
        ),
        ("", r"tables \[\[pattern\]\], at most one \[stack\] and one \[sharded\] and .*; found none"),
        ('[[pattern]]\nsequence = ["Conv", "Relu"]', "pattern 1: tag must be a text; found None"),
        ('[[pattern]]\ntag = "t"\nsequence = ["Conv"]', r"pattern 1 \('t'\): sequence must list 2 or more"),
        (
            '[[pattern]]\ntag = "t"\nsequence = ["Conf", "Relu"]',
            r"pattern 1 \('t'\): unknown operator 'Conf'; did you mean 'Conv'",
        ),
        (
            '[[pattern]]\ntag = "t"\nsequence = ["Conv", "Relu"]\npriority = "high"',
            "priority must be an integer; found 'high'",
        ),
        ('[[pattern]]\ntag = "t"\norder = 1', "unknown key 'order'; allowed are tag, sequence, priority"),
        ('[[pattern]]\ntag = "t"\nsequence = ["Conv", 3]', "unknown operator '3'"),
        (
            '[[pattern]]\ntag = "t"\nsequence = ["MatMul", "Softmax"]',
            r"pattern 1 \('t'\): can never match, because of Softmax: only operators",
        ),
        (
            '[[pattern]]\ntag = "t"\nsequence = ["Softmax|Transpose", "Relu"]',
            r"because of Softmax or Transpose: several operators in one phase begin with .*Conv, .*",
        ),
        (
            '[[pattern]]\ntag = "t"\nsequence = ["Conv", "*", "Clip"]',
            r"because of Clip \(which is written as other operators before\): only operators",
        ),
        ("pattern = [3]", "pattern 1: expected a table; found 3"),
    ],
)
def test_mistakes_in_a_file_of_patterns(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PatternError, match=message) as caught:
        load_patterns(pattern_file(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_an_unknown_set_of_patterns() -> None:
    with pytest.raises(PatternError, match=r"unknown patterns 'defalt'; .*; did you mean 'default'"):
        load_patterns("defalt")


def test_results_do_not_depend_on_the_groups() -> None:
    nodes = [
        ("MatMul", ["x", "w"], ["a"], {}),
        ("Relu", ["a"], ["b"], {}),
        ("Mul", ["b", "b"], ["c"], {}),
        ("Softmax", ["c"], ["d"], {}),
        ("Sub", ["d", "x2"], ["e"], {}),
        ("Exp", ["e"], ["y"], {}),
    ]
    made = graph(nodes, {"x": (20, 70), "x2": (20, 33)}, {"w": draw(70, 33, scale=0.1)})
    inputs = {name: 0.3 * array for name, array in random_inputs(made, {}, 3).items()}
    phases = {}
    for patterns in ("default", "none"):
        program = compile_graph(made, "fp16", patterns=patterns)
        outcome = check(program, inputs)
        assert outcome.ok, outcome.verdicts
        phases[patterns] = program.text.count(".node")
    assert phases["default"] < phases["none"]


def random_graph(seed: int) -> Graph:
    """Products, softmaxes and pointwise operators on 16x16 values, with random users."""
    chance = np.random.default_rng(seed)
    values, nodes = ["x", "z"], []
    for number in range(14):
        op = str(chance.choice(["MatMul", "Softmax", "Add", "Mul", "Sub", "Relu", "Tanh", "Neg", "Max"]))
        count = 2 if op in ("MatMul", "Add", "Mul", "Sub", "Max") else 1
        operands = [values[-1 - int(chance.integers(min(4, len(values))))] for _ in range(count)]
        nodes.append((op, operands, [f"v{number}"], {}))
        values.append(f"v{number}")
        # Growing values are brought back to -1 .. 1.
        if op in ("MatMul", "Add", "Mul", "Sub"):
            nodes.append(("Tanh", [values[-1]], [f"t{number}"], {}))
            values[-1] = f"t{number}"
    outputs = (values[-1], str(chance.choice(values[2:-1])))
    return graph(nodes, {"x": (16, 16), "z": (16, 16)}, {}, outputs)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    """Random graphs: the groups are valid, every phase waits for what it reads, and results are right."""
    made = random_graph(seed)
    program = compile_graph(made, "fp32", 3)
    outcome = check(program, random_inputs(made, {}, seed))
    assert outcome.ok, outcome.verdicts
    assert program.report is not None
    members = [member.node for phase in program.report.phases for member in phase.members]
    assert len(members) == len(set(members))
