"""The search for a cut of the work: its candidates and its choice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler.cli import main
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.dialect.orders import Order
from compiler.driver import compile_graph
from compiler.graph import Array, Graph, GraphError, Tensor
from compiler.lowering.record import (
    LOWERINGS,
    AnyWork,
    ChainNode,
    ChainWork,
    Cut,
    Lowering,
    SequenceWork,
    Step,
    Work,
)
from compiler.operators.record import Call
from compiler.search import EFFORTS, Effort, Search, Template, signature, template_key
from compiler_harness import draw, graph, small_machine
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format

TARGET = Target(4, 0x10000, Format.FP16)
SIZES = (64, 16, 4096, 1 << 20, 256)
"""The sizes in bytes that the lowering below proposes; the fourth does not fit."""


def copy(k: Kernel, work: Work) -> None:
    """A lowering that moves bytes in slices of a given size; its own rule is slices of 128."""
    size = 128 if work.cut is None else work.cut.size("bytes")
    with k.items(ceil_div(work.output.size, size)) as item:
        data = k.buffer("data", size)
        k.emit("rdma.int8", dst=data, src=work.input(0).at(item * size), n=size)
        k.emit("wdma.int8", dst=work.output.at(item * size), src=data, n=size)


def proposals(target: Target, work: Work) -> Iterator[Cut]:
    return (Cut(sizes=(("bytes", size),)) for size in SIZES)


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOWERINGS, "Copy", Lowering("Copy", copy, Order.PLAIN, cuts=proposals))
    monkeypatch.setitem(LOWERINGS, "Plain", Lowering("Plain", copy, Order.PLAIN))


def tensor(name: str, size: int = 8192, fmt: Format = Format.INT8) -> DdrTensor:
    return DdrTensor(name, fmt, (size,))


def template(op: str = "Copy", size: int = 8192, count: int = 1) -> Template:
    work = Work("node", op, (tensor("x", size),), tensor("y", size))
    return Template(template_key(signature(work, TARGET)), work, TARGET, count)


def slice_bytes(kernel: Kernel) -> int:
    """An estimator that prefers large slices."""
    return 100_000 - max(buffer.size for buffer in kernel.spm.buffers)


def test_the_cheapest_candidate_that_fits_is_kept() -> None:
    (found,) = Search(slice_bytes, Effort(100, 100, 100)).run([template()])
    assert found.best.cut == Cut(sizes=(("bytes", 4096),))
    assert [trial.cycles for trial in found.trials] == [99_872, 99_936, 99_984, 95_904, None, 99_744]
    assert "does not fit the 65536 bytes of SPM" in found.trials[4].problem


def test_the_rule_stays_when_nothing_is_better() -> None:
    (found,) = Search(lambda kernel: 7, Effort(100, 100, 100)).run([template()])
    assert found.best.cut is None


def largest(kernel: Kernel) -> int:
    return max(buffer.size for buffer in kernel.spm.buffers)


def test_the_best_over_the_range_is_kept() -> None:
    """Slices of 4096 gain 4 % at the values, 2 % and nothing at the ends; slices of 256 always gain 3 %."""
    gains = {4096: (980, 960, 1000), 256: (970, 970, 970)}

    def of(number: int) -> Callable[[Kernel], int]:
        return lambda kernel: gains.get(largest(kernel), (1000, 1000, 1000))[number]

    low, middle, high = of(0), of(1), of(2)
    search = Search(middle, Effort(100, 100, 100), at_ends=lambda kernel: (low(kernel), high(kernel)))
    (found,) = search.run([template()])
    assert found.best.cut == Cut(sizes=(("bytes", 256),))
    assert (found.best.cycles, found.best.ends) == (970, (970, 970))
    (alone,) = Search(middle, Effort(100, 100, 100)).run([template()])
    assert alone.best.cut == Cut(sizes=(("bytes", 4096),))
    assert alone.best.ends is None


def test_only_what_contends_is_priced_at_the_ends() -> None:
    """A candidate that is far slower at the values of the figures is not chosen for its ends."""
    cycles = {128: 1000, 64: 1199, 16: 1201, 4096: 500, 256: 601}
    asked: list[int] = []

    def at_ends(kernel: Kernel) -> tuple[int, int]:
        asked.append(largest(kernel))
        return 1, cycles[largest(kernel)] if largest(kernel) != 64 else 1

    search = Search(lambda kernel: cycles[largest(kernel)], Effort(100, 100, 100), at_ends=at_ends)
    (found,) = search.run([template()])
    assert asked == [128, 64, 4096]
    assert found.best.cut == Cut(sizes=(("bytes", 4096),))


def test_no_more_is_tried_than_the_effort_allows() -> None:
    (found,) = Search(slice_bytes, Effort(2, 0, 100)).run([template()])
    assert [trial.cut for trial in found.trials] == [None, *[Cut(sizes=(("bytes", n),)) for n in SIZES[:2]]]


def test_progress_is_called_for_every_candidate() -> None:
    heard: list[tuple[int, int, int]] = []
    search = Search(slice_bytes, Effort(2, 0, 100), progress=lambda *numbers: heard.append(numbers))
    found = search.run([template(), template(size=4096)])
    assert sum(len(each.trials) for each in found) == len(heard)
    assert [tried for _, _, tried in heard] == list(range(len(heard)))
    assert [done for done, _, _ in heard] == sorted(done for done, _, _ in heard)
    assert {total for _, total, _ in heard} == {2}
    assert heard[-1][0] == 1


def test_templates_share_the_effort_by_their_cycles() -> None:
    assert Effort(100, 3, 60).shares([10, 300, 690]) == [3, 30, 60]
    assert EFFORTS["off"].shares([5, 5]) == [0, 0]


def test_short_templates_are_not_worth_many_candidates() -> None:
    assert Effort(100, 4, 60, cycles_per_candidate=500).shares([300, 1700, 98_000]) == [0, 3, 60]


def test_a_lowering_without_proposals_is_tried_with_smaller_slices() -> None:
    seen: list[int] = []

    def price(kernel: Kernel) -> int:
        seen.append(kernel.budget)
        return kernel.budget

    (found,) = Search(price, Effort(100, 100, 100)).run([template("Plain", 1 << 20)])
    assert seen == [0x10000, 4096, 4096, 4096]
    assert found.best.cycles == 4096


def test_a_template_for_which_nothing_fits_is_an_error() -> None:
    tight = replace(template(), target=replace(TARGET, spm_bytes=8))
    with pytest.raises(GraphError, match=r"node 'node' \(Copy\): .* does not fit"):
        Search(slice_bytes, Effort(1, 1, 1)).run([tight])


def test_the_stop_by_the_clock_says_so(caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, 1.0, 2.0, 10_000.0, 10_000.0, 10_000.0])
    made = Search(slice_bytes, Effort(100, 100, 100), lambda: next(times))
    found = made.run([template(), template(size=4096)])
    assert [len(each.trials) for each in found] == [3, 1]
    assert "search stopped after 300 s: 2 of 2 templates were not searched to the end" in caplog.text


def call(value: float = 1.0, shape: tuple[int, ...] = (8,)) -> Call:
    from compiler.graph import Tensor

    return Call(20, {"alpha": value}, (Tensor("x", "float32", shape),), (None,), ("y",))


BASE = Work("n", "Copy", (tensor("x"),), tensor("y"), call=call())


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, op="Plain"),
        replace(BASE, call=call(2.0)),
        replace(BASE, call=call(1.0, (9,))),
        replace(BASE, inputs=(tensor("x", 4096),)),
        replace(BASE, inputs=(tensor("x", fmt=Format.FP16),)),
        replace(BASE, inputs=(tensor("y"),)),
        replace(BASE, inputs=(replace(tensor("x"), value=draw(8192)),)),
        replace(BASE, inputs=(replace(tensor("x"), blocked=True),)),
        replace(BASE, channels_last=True),
        replace(BASE, compute=Format.FP16),
        ChainWork("n", "Copy", BASE.inputs, BASE.output, nodes=(ChainNode("Relu", None, (0,), Format.FP16),)),
        replace(BASE, orders=(Order.PLAIN, Order.BLOCKED)),
        SequenceWork("n", "Copy", BASE.inputs, BASE.output, stages=(BASE,)),
        replace(BASE, steps=(Step("s", "Relu", call(), (None,), (0,)),)),
    ],
)
def test_what_makes_a_template_another(other: AnyWork) -> None:
    assert signature(other, TARGET) != signature(BASE, TARGET)


def test_names_and_values_of_constants_make_no_template_another() -> None:
    one = replace(BASE, inputs=(replace(tensor("x"), value=draw(8192)),))
    two = replace(one, name="m", inputs=(replace(tensor("z"), value=draw(8192, seed=6)),), output=tensor("w"))
    assert signature(one, TARGET) == signature(two, TARGET)
    assert template_key(signature(one, TARGET)) == template_key(signature(two, TARGET))


def chain(bias: Array) -> ChainWork:
    """A chain that adds a constant."""
    sizes = (Tensor("x", "float32", (8, 16)), Tensor("c", "float32", bias.shape))
    added = Call(20, {}, sizes, (None, bias), ("y",))
    nodes = (ChainNode("Add", added, (0, 1), Format.FP16),)
    return ChainWork("n", "Chain", BASE.inputs, BASE.output, nodes=nodes)


def test_numbers_in_the_code_of_a_chain_make_a_template_another_and_vectors_do_not() -> None:
    assert signature(chain(draw(16)), TARGET) == signature(chain(draw(16, seed=6)), TARGET)
    assert signature(chain(np.float32([1])), TARGET) != signature(chain(np.float32([2])), TARGET)


def attention(scale: float, chained: bool) -> AnyWork:
    """An attention by itself, and as a node of a chain."""
    found = Call(20, {"scale": scale}, (Tensor("x", "float32", (8,)),), (None,), ("y",))
    if not chained:
        return replace(BASE, op="FusedAttention", call=found)
    nodes = (ChainNode("FusedAttention", found, (0,), Format.FP16),)
    return ChainWork("n", "Chain", BASE.inputs, BASE.output, nodes=nodes)


@pytest.mark.parametrize("chained", [False, True])
def test_a_factor_makes_a_template_another_only_where_it_is_1(chained: bool) -> None:
    first, other, one = (signature(attention(scale, chained), TARGET) for scale in (0.3, 0.25, 1.0))
    assert first == other != one


def test_fewer_tiles_are_another_template() -> None:
    assert signature(BASE, TARGET) != signature(BASE, replace(TARGET, tiles=2))


def test_what_cannot_be_compared_is_not_taken_for_equal() -> None:
    with pytest.raises(TypeError, match="a work cannot be compared by"):
        signature(replace(BASE, call=replace(call(), attrs={"what": object()})), TARGET)


def network() -> Graph:
    nodes = [
        ("Softmax", ["x"], ["s"], {}),
        ("MatMul", ["s", "v"], ["a"], {}),
        ("Relu", ["a"], ["b"], {}),
        ("MatMul", ["b", "w"], ["c"], {}),
        ("Relu", ["c"], ["d"], {}),
        ("Softmax", ["d"], ["y"], {}),
    ]
    return graph(nodes, {"x": (200, 192)}, {"v": draw(192, 192), "w": draw(192, 192, seed=6)})


def test_the_search_is_deterministic() -> None:
    first, second = (compile_graph(network(), "fp16", search="full") for _ in range(2))
    assert first.text == second.text
    assert first.report is not None
    assert second.report is not None
    assert first.report.templates == second.report.templates


def test_equal_groups_are_searched_once() -> None:
    report = compile_graph(network(), "fp16", patterns="none").report
    assert report is not None
    counts = {entry.node: entry.groups for entry in report.templates}
    assert counts["n1"] == 2
    numbers = {phase.name: phase.template for phase in report.phases}
    assert numbers["n1"] == numbers["n3"]


def test_no_search_leaves_everything_to_the_rules() -> None:
    report = compile_graph(network(), "fp16", search="off").report
    assert report is not None
    assert all(phase.cut is None and phase.estimate is None for phase in report.phases)
    assert all(not entry.tried for entry in report.templates)


@pytest.mark.parametrize("effort", ["off", "fast", "full"])
def test_whatever_is_chosen_computes_the_same(effort: str) -> None:
    from compiler.tools.run import check, random_inputs

    made = network()
    program = compile_graph(made, "fp16", 4, small_machine(0x20000), search=effort)
    outcome = check(program, {name: 0.1 * x for name, x in random_inputs(made, {}, 1).items()})
    assert outcome.ok, outcome.verdicts


def test_an_unknown_effort() -> None:
    with pytest.raises(
        GraphError, match="unknown search 'fats'; allowed are off, fast, full; did you mean 'fast'"
    ):
        compile_graph(network(), "fp16", search="fats")


def graph_file(folder: Path) -> Path:
    node = {"op": "Softmax", "name": "soft", "inputs": ["x"], "outputs": ["y"]}
    given = {"name": "x", "dtype": "float32", "shape": [40, 30]}
    path = folder / "g.json"
    path.write_text(
        json.dumps({"name": "g", "opset": 20, "inputs": [given], "outputs": ["y"], "nodes": [node]})
    )
    return path


def test_the_report_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(graph_file(tmp_path)), "--dtype", "fp16", "--run", "--report", "-", "--no-cache"]
    assert main([*arguments, "--residency", "off"]) == 0
    report = json.loads(capsys.readouterr().out)
    names = [phase["name"] for phase in report["phases"]]
    assert names == ["x.cast", "soft"]
    for phase in report["phases"]:
        assert phase["estimate"] > 0
        assert phase["simulated"] > 0
        assert {region["name"] for region in phase["writes"]} <= {region["name"] for region in report["ddr"]}
        assert all(buffer["address"] + buffer["size"] <= 0x300000 for buffer in phase["spm"])
    assert [entry["groups"] for entry in report["templates"]] == [1, 1]
    assert all(entry["tried"][0]["cut"] is None for entry in report["templates"])


def test_report_and_plan_as_files(tmp_path: Path) -> None:
    path = graph_file(tmp_path)
    plan, report = tmp_path / "plan.json", tmp_path / "report.json"
    wanted = ["--report", str(report), "--save-plan", str(plan)]
    assert main([str(path), "-q", "-o", str(tmp_path / "a"), "--no-cache", *wanted]) == 0
    assert json.loads(report.read_text())["phases"][0]["simulated"] is None
    assert json.loads(report.read_text())["plan"] == json.loads(plan.read_text())
    assert main([str(path), "-q", "-o", str(tmp_path / "b"), "--plan", str(plan)]) == 0
    assert (tmp_path / "a" / "prog.bin").read_bytes() == (tmp_path / "b" / "prog.bin").read_bytes()


def test_a_plan_is_for_one_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(graph_file(tmp_path)), "other.json", "--plan", "plan.json"])
    assert caught.value.code == 2
    assert "--plan is for a single graph" in capsys.readouterr().err
