"""Degrees that are found if only the chips are given: the best ones, and ones that are pruned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest

from chip_nets import decoder, on_chips, on_one, run_on_chips
from compiler.driver import EstimatedProgram, compile_entries, compile_graph, estimate_graph
from compiler.driver.estimates import _Prices
from compiler.evaluation.states import with_states
from compiler.graph import Graph, GraphError
from compiler.passes.base import Context
from compiler.passes.compilation import context_of
from compiler.search.chips import (
    Cost,
    Degrees,
    EstimatedPhase,
    PipelinedGraph,
    parsed_degrees,
    pipelined_graph,
    stage_form,
)
from compiler.search.chips.candidates import choose_degrees
from compiler.tools.run import random_inputs
from compiler_harness import draw, graph, ints
from emulator.program import Program as Loaded
from stage_nets import layers
from tx8isa.machine.description import Machine, load_machine


def chips(x: int, y: int) -> Machine:
    return load_machine(None).of_chips(x, y)


def estimated(made: Graph, x: int, y: int) -> EstimatedProgram:
    return estimate_graph(made, "fp16", machine=chips(x, y))


def tried_of(found: EstimatedProgram) -> dict[str, str]:
    assert found.chosen is not None
    return {each.degrees: str(each).partition(": ")[2] for each in found.chosen.tried}


# -- what the estimates say --------------------------------------------------------------------------------


def test_stages_win_where_neither_batch_nor_rows_can_be_dealt() -> None:
    """Three samples of 1023 rows, on two chips; sums of products by rows take longer than the products."""
    found = estimated(layers(2, 3, 1023, 64), 2, 1)
    assert found.chosen is not None
    assert found.chosen.degrees == Degrees(pp=2)
    assert found.parts == 3
    cycles = {each.degrees: each.cycles for each in found.chosen.tried}
    assert found.cycles == cycles["pp=2"]
    assert cycles["dp=2"] is None
    assert cycles["tp=2"] is not None
    assert found.cycles < cycles["tp=2"]


def test_stages_do_not_win_where_the_batch_can_be_dealt() -> None:
    """The first stage alone takes longer, so the second one is not priced."""
    found = estimated(layers(2, 4, 63, 64), 2, 1)
    assert found.chosen is not None
    assert found.chosen.degrees == Degrees(dp=2)
    assert tried_of(found)["pp=2"].startswith("at least ")


def test_stages_do_not_win_where_the_batch_has_no_parts() -> None:
    found = estimated(layers(2, 1, 255, 128), 2, 1)
    assert found.chosen is not None
    assert found.chosen.degrees == Degrees(tp=2)
    assert tried_of(found)["pp=2"] == "the batch has no parts, so the stages would take turns"


def test_stages_do_not_win_where_there_are_too_few() -> None:
    made = graph([("MatMul", ["x", "w"], ["y"], {})], {"x": (3, 7, 64)}, {"w": draw(64, 64)})
    found = tried_of(estimated(made, 2, 1))
    assert found["pp=2"] == "graph 'test' has only 1 places for a stage to begin"


@pytest.mark.long
def test_pipelines_side_by_side_win_on_four_chips() -> None:
    found = estimated(layers(4, 6, 255, 64), 2, 2)
    assert found.chosen is not None
    assert found.chosen.degrees == Degrees(dp=2, pp=2)
    assert {*tried_of(found)} >= {"dp=4", "tp=4", "dp=2,pp=2", "tp=2,pp=2", "pp=4"}


@pytest.mark.long
def test_a_pipeline_that_was_found_is_right_and_faster() -> None:
    made = layers(2, 3, 1023, 128)
    program = compile_graph(made, "fp16", machine=chips(2, 1))
    assert program.spread is not None
    assert program.spread.degrees == Degrees(pp=2)
    assert program.report is not None
    assert [each.degrees for each in program.report.degrees or ()] == ["dp=2", "tp=2", "sp=2", "pp=2"]
    assert program.text == on_chips(made, 2, 1, "pp=2").text
    outputs, judgements = run_on_chips(program)
    assert all(found.as_the_format_allows for found in judgements.values())
    joined, alone = program.spread.joined(outputs), on_one(made, "fp16")
    np.testing.assert_allclose(joined["y"], alone["y"], rtol=0.02, atol=0.02)
    cycles = []
    for each in (program, on_chips(made, 2, 1, "tp=2")):
        assert each.spread is not None
        mesh = Loaded(each.image, each.machine).start_chips(each.spread.dealt(random_inputs(made, {}, 3)))
        mesh.run()
        cycles.append(mesh.cycles)
    assert cycles[0] < cycles[1]


@pytest.mark.long
def test_degrees_of_several_networks_are_found_together() -> None:
    """A step of a decoder has one part for each of three samples, which no other degrees can share."""
    graphs = {"one": decoder(batch=3), "other": decoder(batch=3)}
    program = compile_entries(graphs, dtype="fp16", machine=chips(2, 1))
    assert [each.degrees for each in program.tried] == ["dp=2", "tp=2", "sp=2", "pp=2"]
    assert program.spreads is not None
    fewest = min((each for each in program.tried if each.cycles), key=lambda each: each.cycles or 0)
    assert {str(spread.degrees) for spread in program.spreads.values()} == {fewest.degrees}


# -- what is priced --------------------------------------------------------------------------------


@dataclass
class GivenPrices:
    """Prices that a test gives, by degrees; a pipeline is priced to the end if it can be the best."""

    graph: Graph
    machine: Machine
    shared: list[int]
    staged: Mapping[str, int]
    asked: list[str] = field(default_factory=list)

    def of_chip(self, local: Graph) -> Cost:
        return Cost(self.shared.pop(0), 1)

    def in_stages(self, degrees: Degrees) -> dict[str, PipelinedGraph]:
        made = pipelined_graph(self.graph, self.machine, degrees, 2, 16, lambda _: {})
        return {"": made}

    def of_pipelines(self, pipelines: Mapping[str, PipelinedGraph], most: float) -> Cost:
        degrees = str(pipelines[""].degrees)
        self.asked.append(f"{degrees} below {most:g}")
        cycles = self.staged[degrees]
        return Cost(cycles, 2) if cycles < most else Cost(round(most) + 5, 0, least=True)


def chosen(shared: list[int], staged: Mapping[str, int]) -> tuple[str, list[str], list[str]]:
    """The best degrees of four layers on 2x2 chips, the messages, and the priced degrees."""
    made, machine = layers(4, 8, 3, 64), chips(2, 2)
    prices = GivenPrices(made, machine, shared, staged)
    found = choose_degrees({"": made}, machine, None, 2, 16, prices)
    return str(found.degrees), [*map(str, found.tried)], prices.asked


def test_the_fewest_cycles_win() -> None:
    best, tried, asked = chosen([100, 90, 110], {"dp=2,pp=2": 80, "tp=2,pp=2": 85, "pp=4": 70})
    assert best == "pp=4"
    assert tried[0] == "dp=4: 100 cycles, 1 of them exchanges"
    assert tried[3].startswith("dp=2,sp=2: sp=2: input 'x0' is 4x3x64; its rows")
    assert tried[5:] == [
        "dp=2,pp=2: 80 cycles, 2 of them exchanges",
        "tp=2,pp=2: at least 85 cycles",
        "pp=4: 70 cycles, 2 of them exchanges",
    ]
    assert asked == ["dp=2,pp=2 below 90", "tp=2,pp=2 below 80", "pp=4 below 80"]


def test_of_equal_cycles_the_degrees_without_stages_win() -> None:
    best, tried, _ = chosen([100, 90, 110], dict.fromkeys(("dp=2,pp=2", "tp=2,pp=2", "pp=4"), 90))
    assert best == "dp=2,tp=2"
    assert [line.partition(": ")[2] for line in tried[5:]] == ["at least 95 cycles"] * 3


def test_a_pipeline_is_refused_with_the_others_if_nothing_fits() -> None:
    made = graph([("Relu", ["x"], ["y"], {})], {"x": (5, 7, 64)})
    with pytest.raises(GraphError) as error:
        compile_graph(made, machine=chips(2, 1))
    (message,) = error.value.messages
    assert message.startswith(
        "graph 'test': no degrees of parallelism fit the chips: dp=2: input 'x' is 5x7x64"
    )
    assert message.endswith("pp=2: the batch has no parts, so the stages would take turns")


def test_a_state_of_the_whole_batch_leaves_one_part() -> None:
    nodes = [
        ("MatMul", ["x", "w"], ["a"], {}),
        ("Add", ["s", "b"], ["n"], {}),
        ("Mul", ["a", "n"], ["y"], {}),
    ]
    made = graph(nodes, {"x": (3, 8), "s": (1, 8)}, {"w": draw(8, 8), "b": draw(8)}, ("y", "n"))
    with pytest.raises(GraphError, match="pp=2: the batch has no parts, so the stages would take turns"):
        compile_graph(with_states(made, {"s": "n"}), machine=chips(2, 1))


# -- stages that are alike --------------------------------------------------------------------------------


def in_stages(made: Graph, machine: Machine, degrees: str) -> PipelinedGraph:
    prices = {node.name: 1000.0 for node in made.nodes}
    return pipelined_graph(made, machine, parsed_degrees(degrees), 2, 16, lambda _: prices)


def forms(made: Graph, machine: Machine, degrees: str) -> list[tuple[object, ...]]:
    found = in_stages(made, machine, degrees)
    return [stage_form(found.first_graph(stage), machine) for stage in range(found.stages)]


def test_stages_in_the_middle_are_alike() -> None:
    first, *middle, last = forms(layers(4, 8, 3, 64), chips(2, 2), "pp=4")
    assert middle[0] == middle[1]
    assert len({first, *middle, last}) == 3


def test_a_longer_way_makes_another_stage() -> None:
    machine = chips(4, 1)
    stage = in_stages(layers(4, 8, 3, 64), machine, "pp=4").first_graph(1)

    def between(first: int, second: int) -> Graph:
        nodes = (
            replace(node, attrs={**node.attrs, "chips": (first, second)}) if "chips" in node.attrs else node
            for node in stage.nodes
        )
        return replace(stage, nodes=tuple(nodes))

    near, other, far = (stage_form(between(*pair), machine) for pair in ((0, 1), (2, 3), (0, 3)))
    assert near == other
    assert near != far


def test_other_shapes_and_small_constants_make_another_stage() -> None:
    one = graph([("Reshape", ["x", "s"], ["y"], {})], {"x": (4, 6)}, {"s": ints(3, 8)})
    machine = chips(2, 1)
    for other in (
        graph([("Reshape", ["x", "s"], ["y"], {})], {"x": (4, 6)}, {"s": ints(8, 3)}),
        graph([("Reshape", ["x", "s"], ["y"], {})], {"x": (24, 1)}, {"s": ints(3, 8)}),
        graph([("Reshape", ["x", "s"], ["y"], {"allowzero": 1})], {"x": (4, 6)}, {"s": ints(3, 8)}),
    ):
        assert stage_form(one, machine) != stage_form(other, machine)
    renamed = graph([("Reshape", ["a", "b"], ["c"], {})], {"a": (4, 6)}, {"b": ints(3, 8)}, ("c",))
    assert stage_form(one, machine) == stage_form(renamed, machine)


def test_stages_that_are_alike_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, machine = layers(4, 8, 3, 64), chips(2, 2)
    found, compiled = in_stages(made, machine, "pp=4"), list[str]()

    def priced(context: Context) -> list[EstimatedPhase]:
        compiled.append(context.graph.name)
        return []

    monkeypatch.setattr("compiler.driver.estimates._priced", priced)
    begin = partial(context_of, dtype="fp16", tiles=None, machine=machine)
    prices = _Prices({"": made}, machine, begin)
    for stage in range(4):
        prices.of_stage(found, stage)
    assert len(compiled) == 3
