"""Busy times of the stages of a pipeline, against times by hand and emulated programs."""

from __future__ import annotations

import pytest

from chip_nets import on_chips
from compiler.driver import estimate_graph
from compiler.graph import Graph
from compiler.search.chips import EstimatedPhase, PipelineTimes, Receiving, Sending, parsed_degrees, timeline
from compiler.tools.run import random_inputs
from emulator.program import Program as Loaded
from stage_nets import layers
from tx8isa.machine.description import load_machine

PAIR = ((0, 1),)
LATENCY, RATE = 1000, 25
COMPUTE = 20_000
"""Cycles that a stage takes for a part of the batch, in these tests."""


def computes(cycles: int = COMPUTE) -> EstimatedPhase:
    return EstimatedPhase("compute", cycles, exchange=False)


def sends(
    part: int, parts: int, links: int, boxes: int = 2, pairs: tuple[tuple[int, int], ...] = PAIR
) -> EstimatedPhase:
    """A message for a part of the batch, in the background unless it is the last part; ``links`` carry it for
    this time."""
    last = part == parts - 1
    message = Sending(part % boxes, 0, links * RATE, pairs, part >= boxes, not last, part > 0)
    return EstimatedPhase("send", links + 2 * LATENCY if last else 0, exchange=True, message=message)


def receives(
    part: int, parts: int, cycles: int = 0, boxes: int = 2, pairs: tuple[tuple[int, int], ...] = PAIR
) -> EstimatedPhase:
    message = Receiving(part % boxes, pairs, part + boxes < parts)
    return EstimatedPhase("receive", cycles, exchange=True, message=message)


def two(parts: int, first: int, second: int, links: int) -> PipelineTimes:
    """Two stages that take ``first`` and ``second`` cycles for a part."""
    sender = [phase for part in range(parts) for phase in (computes(first), sends(part, parts, links))]
    receiver = [phase for part in range(parts) for phase in (receives(part, parts), computes(second))]
    return timeline([sender, receiver], load_machine(None).of_chips(2, 1))


@pytest.mark.parametrize(
    ("first", "second", "links", "cycles"),
    [
        (20_000, 20_000, 5_000, 5 * 20_000 + 5_000 + LATENCY),  # the other copies take no time of anybody
        (20_000, 10_000, 5_000, 4 * 20_000 + 5_000 + LATENCY + 10_000),  # the first stage decides
        (10_000, 20_000, 5_000, 10_000 + 5_000 + LATENCY + 4 * 20_000),  # the second one does
        (10_000, 10_000, 30_000, 10_000 + 4 * (30_000 + LATENCY) + 3 * LATENCY + 10_000),  # links do
    ],
)
def test_the_slowest_decides(first: int, second: int, links: int, cycles: int) -> None:
    found = two(4, first, second, links)
    assert found.cycles == cycles
    assert found.works == (4 * first + links + 2 * LATENCY, 4 * second)
    assert found.fill == first + links + LATENCY
    assert found.fill + found.drain <= found.cycles


def test_a_single_part_goes_through_one_stage_after_another() -> None:
    found = two(1, 20_000, 10_000, 5_000)
    assert found.cycles == 20_000 + 5_000 + LATENCY + 10_000
    assert (found.fill, found.drain) == (26_000, 9_000)  # the sender waits for the receipt


def test_a_sender_is_at_most_two_parts_ahead() -> None:
    """It sends a part when the receiver has copied the part before the last out of the inbox."""
    found = two(4, 1_000, 50_000, 100)
    begin = 1_000 + 100 + LATENCY
    taken = begin + 50_000  # the second part; the first part was copied when it arrived
    assert found.ends[0] == pytest.approx(taken + LATENCY + 100 + 2 * LATENCY)
    assert found.cycles == begin + 4 * 50_000


def test_messages_of_pairs_share_a_link() -> None:
    """Chips 0 and 1 of a row send to 2 and 3: the link in the middle carries both."""
    machine = load_machine(None).of_chips(4, 1)
    pairs = ((0, 2), (1, 3))
    phases = [[computes(), sends(0, 1, 5_000, pairs=pairs)], [receives(0, 1, pairs=pairs), computes()]]
    assert timeline(phases, machine).cycles == 2 * COMPUTE + 2 * 5_000 + 2 * LATENCY


def test_what_is_taken_out_of_an_inbox_takes_time_of_the_receiver() -> None:
    phases = [[computes(), sends(0, 1, 5_000)], [receives(0, 1, 700), computes()]]
    found = timeline(phases, load_machine(None).of_chips(2, 1))
    assert found.cycles == 2 * COMPUTE + 5_000 + LATENCY + 700
    assert found.longest == 0


def test_stages_that_wait_for_each_other_are_refused() -> None:
    phases = [[computes()], [receives(0, 1), computes()]]
    with pytest.raises(RuntimeError, match=r"stages of a pipeline wait for each other at phases \[1, 0\]"):
        timeline(phases, load_machine(None).of_chips(2, 1))


# -- networks ---------------------------------------------------------------------------------------------


def compared(made: Graph, mesh: tuple[int, int], degrees: str) -> float:
    """The estimate of a pipeline as a part of its emulated cycles."""
    program = on_chips(made, *mesh, degrees)
    assert program.spread is not None
    chips = Loaded(program.image, program.machine).start_chips(
        program.spread.dealt(random_inputs(made, {}, 3))
    )
    chips.run()
    machine = load_machine(None).of_chips(*mesh)
    found = estimate_graph(made, "fp16", machine=machine, parallel=parsed_degrees(degrees))
    return found.cycles / float(chips.cycles)


@pytest.mark.long
@pytest.mark.parametrize(
    ("batch", "mesh", "degrees"),
    [(6, (2, 1), "pp=2"), (4, (2, 2), "pp=4"), (4, (2, 2), "tp=2,pp=2"), (6, (2, 2), "dp=2,pp=2")],
)
def test_estimates_of_stages_are_near_to_what_is_emulated(
    batch: int, mesh: tuple[int, int], degrees: str
) -> None:
    assert compared(layers(8, batch, 1024, 256), mesh, degrees) == pytest.approx(1, abs=0.1)


def test_phases_of_a_pipeline_are_those_of_the_stage_with_most_to_do() -> None:
    """Together with the waiting times they are the whole time; no name is that of a part of the batch."""
    machine = load_machine(None).of_chips(2, 1)
    made = layers(3, 4, 32, 64)
    found = estimate_graph(made, "fp16", machine=machine, parallel=parsed_degrees("pp=2"))
    assert found.times is not None
    assert found.cycles == found.times.cycles
    assert found.parts == 4
    names = [phase.name for phase in found.phases]
    assert names[-1] == "waiting"
    assert len({*names}) == len(names)
    assert not any(".part" in name for name in names)
    assert sum(phase.cycles for phase in found.phases[:-1]) == max(found.times.works)
    assert 0 < found.exchanges < found.cycles
    assert 0 < found.bounds.links < found.cycles
    assert 0 < found.bounds.ddr < found.cycles
