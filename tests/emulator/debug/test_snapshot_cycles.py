"""Simulated time continues from saved states: the cycles, and the range of the machine's figures."""

from __future__ import annotations

import pytest

from emulator.chip import system as rounds
from emulator.chip.pause import Pause
from emulator.debug.snapshot.chip import restore, save
from emulator.timing import layout
from emulator.timing.chip import tile_places
from emulator.timing.replay import TimeRange
from saved_runs import PROGRAMS, build, cut, longest, through_file, whole


@pytest.mark.parametrize("name", ["ring", "workers", "stream"])
@pytest.mark.parametrize("quantum", [5, 17, rounds.QUANTUM])
def test_cycles_do_not_depend_on_a_cut(name: str, quantum: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With small quanta the simulation has engines at work, copies on the mesh and transfers in progress."""
    monkeypatch.setattr(rounds, "QUANTUM", quantum)
    expected = whole(name, timed=True)
    end = longest(expected)
    for place in range(1, end, max(end // 6, 1)):
        assert cut(name, place, timed=True) == expected, place


def ranged(name: str, place: int | None) -> tuple[float | int | None, ...]:
    """Least and most cycles, those of the C runtime and of the run; the run is cut at a place, or whole."""
    text, machine = PROGRAMS[name]
    wanted = TimeRange()
    system = build(text, machine, timed=True, sinks=[wanted])
    if place is not None:
        assert system.run(pause=Pause(place))
        saved, wanted = through_file(system), TimeRange()
        system = build(text, machine, timed=True, sinks=[wanted])
        restore(system, saved)
        assert save(system).simulated == saved.simulated
    system.run()
    return wanted.least, wanted.most, wanted.c_runtime, system.cycles


@pytest.mark.parametrize("name", ["ring", "workers", "stream"])
@pytest.mark.parametrize("quantum", [5, 17])
def test_a_range_goes_on(name: str, quantum: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "QUANTUM", quantum)
    expected = ranged(name, None)
    for place in (3, 20, 40):
        assert ranged(name, place) == expected, place


@pytest.mark.long
@pytest.mark.parametrize("name", ["ring", "workers", "stream", "busy"])
@pytest.mark.parametrize("quantum", [5, 17])
def test_a_range_that_begins_in_the_middle_executes_no_rows_of_its_own(
    name: str, quantum: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On other machines that have the figures of the run each is the run, instruction by instruction."""
    monkeypatch.setattr("emulator.timing.chip.others", lambda machine: [machine] * 3)
    monkeypatch.setattr(rounds, "QUANTUM", quantum)
    text, machine = PROGRAMS[name]
    for place in range(4, 66, 6):
        system = build(text, machine, timed=True)
        if not system.run(pause=Pause(place)):
            break
        snapshot = through_file(system)
        wanted = TimeRange()
        system = build(text, machine, timed=True, sinks=[wanted])
        restore(system, snapshot)
        system.run()
        assert wanted.least == wanted.most == wanted.c_runtime is not None, "it simulates to the last row"
        assert system.simulator is not None
        state = system.simulator.save()
        places = tile_places(state.run.chip)
        for word in (layout.P_NUMBER, layout.P_CLOCK, layout.P_LAST_END, layout.P_CORE):
            expected = state.run.chip[places + word].tolist()
            assert [one.chip[places + word].tolist() for one in state.replays] == [expected] * 3, place
