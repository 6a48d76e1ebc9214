"""The cost of borders between phases, which a sequence has to beat, and tiles that start late."""

from __future__ import annotations

import msgspec
import pytest

from compiler.dialect.ops import GroupOp
from compiler.driver import Program, compile_graph
from compiler.graph import Graph
from compiler.passes.groups.borders import Borders
from compiler.search import Trial
from compiler_harness import NodeSpec, draw, graph
from time_bench import warm
from tx8isa.machine.description import load_machine


def members(program: Program) -> list[list[str]]:
    """The operators of each phase."""
    assert program.report is not None
    return [[member.operator for member in phase.members] for phase in program.report.phases]


def joined(axis: int) -> Graph:
    """A join of two tensors that are computed, between phases of rows."""
    nodes: list[NodeSpec] = [
        ("Softmax", ["x"], ["a"], {"axis": 1}),
        ("Softmax", ["z"], ["b"], {"axis": 1}),
        ("Concat", ["a", "b"], ["c"], {"axis": axis}),
        ("LayerNormalization", ["c", "s"], ["y"], {}),
    ]
    return graph(nodes, {"x": (64, 48), "z": (64, 48)}, {"s": draw(48 * (1 + axis))})


@pytest.mark.parametrize(("axis", "alone"), [(0, False), (1, True)])
def test_only_a_join_that_moves_something_counts(
    monkeypatch: pytest.MonkeyPatch, axis: int, alone: bool
) -> None:
    """Rows are computed one after another in the result; columns are copied by another phase, with a
    border."""
    seen: set[bool] = set()
    price = Borders.gain

    def gain(self: Borders, groups: list[GroupOp], trial: Trial) -> int:
        seen.update(not free for each, free in self.free.items() if each.members[0].op == "Concat")
        return price(self, groups, trial)

    monkeypatch.setattr(Borders, "gain", gain)
    compile_graph(joined(axis), "fp16")
    assert seen == {alone}


def test_both_ends_decide_where_a_sequence_just_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sequence becomes cheaper at the end where everything is slow, and nowhere else."""

    def cheaper(self: Borders, groups: list[GroupOp], trial: Trial) -> int:
        assert trial.cycles and trial.ends
        least, most = trial.ends
        ends = least, most // divisor
        return price(self, groups, Trial(trial.cut, trial.cycles, ends=ends))

    made = graph(
        [("MatMul", ["x", "w"], ["a"], {}), ("Softmax", ["a"], ["y"], {"axis": 1})],
        {"x": (64, 1536), "w": (1536, 64)},
    )
    price, divisor, machine = Borders.gain, 1, warm(load_machine(None))
    monkeypatch.setattr(Borders, "gain", cheaper)
    assert members(compile_graph(made, "fp16", machine=machine)) == [["MatMul"], ["Softmax"]]
    divisor = 2
    assert members(compile_graph(made, "fp16", machine=machine)) == [["MatMul", "Softmax"]]


@pytest.mark.parametrize(("first", "behind"), [(100.0, True), (100_000.0, False)])
def test_a_first_copy_begins_where_it_is_complete_in_time(first: float, behind: bool) -> None:
    """After the first phase if the phases until the next copy take long enough, otherwise at the start."""
    made = graph(
        [
            ("MaxPool", ["x"], ["p"], {"kernel_shape": (2, 2)}),
            ("Conv", ["p", "w"], ["y"], {"pads": (1, 1, 1, 1)}),
        ],
        {"x": (1, 256, 15, 15)},
        {"w": draw(256, 256, 3, 3, scale=0.02)},
    )
    machine = load_machine(None)
    replace = msgspec.structs.replace
    dte = replace(machine.timing.dte, first=replace(machine.timing.dte.first, value=first))
    machine = replace(machine, timing=replace(machine.timing, dte=dte))
    program = compile_graph(made, "fp16", machine=machine, residency="off")
    start, _, *others = program.text.split(".node ")
    assert "dte.broadcast" in program.text
    assert ("dte.unicast" in start) is not behind
    assert (others[0].startswith('""') and "dte.unicast" in others[0]) is behind
