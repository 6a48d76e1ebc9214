"""The timeline of a pipeline: when stages compute, send and wait, from cycles of their phases and links.

The phases of a stage come one after another. A member that receives waits until the bytes are in its inbox. A
phase that sends waits until the inbox is empty and its channel is free. In the background its copy then
continues while the stage computes. The copies of a stage use the links one after another.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from compiler.lowering.movement.chips.routes import SendPrice
from compiler.lowering.movement.chips.trees import Groups
from tx8isa.machine.description import Machine


class Sending(msgspec.Struct, frozen=True):
    """The message of a phase: ``size`` bytes to an inbox of each receiver of ``pairs``, through a channel."""

    inbox: int
    channel: int
    size: int
    pairs: Groups
    full: bool
    """True if the inbox may contain a message that the receiver has not copied yet."""
    background: bool
    """True if the phase ends before all data is sent."""
    after: bool
    """True if the channel may still be busy."""


class Receiving(msgspec.Struct, frozen=True):
    """A phase that empties an inbox of each receiver of ``pairs``.

    ``again``: the sender waits until the inbox is empty.
    """

    inbox: int
    pairs: Groups
    again: bool


class EstimatedPhase(msgspec.Struct, frozen=True):
    """A phase that was only priced. ``exchange``: chips exchange values in it.

    ``message``: the message that it sends to another stage of a pipeline, or receives.
    """

    name: str
    cycles: int
    exchange: bool
    message: Sending | Receiving | None = None


@dataclass(frozen=True)
class PipelineTimes:
    """The times when stages are busy, in cycles from the common start."""

    begins: tuple[float, ...]
    """By stage: the time at which the first message is in its inbox; 0 without messages."""
    ends: tuple[float, ...]
    works: tuple[int, ...]
    """Cycles of the phases of each stage; it waits for others in the rest of the time."""

    @property
    def cycles(self) -> int:
        """Cycles until the last stage has ended."""
        return round(max(self.ends))

    @property
    def longest(self) -> int:
        """The stage with the most work; of equal ones the first."""
        return self.works.index(max(self.works))

    @property
    def fill(self) -> int:
        """Cycles until the last stage can begin."""
        return round(max(self.begins))

    @property
    def drain(self) -> int:
        """Cycles after the end of the first stage, or after the earliest begin of the last stage if that is
        later."""
        return self.cycles - max(round(self.ends[0]), self.fill)


@dataclass
class _Stage:
    """The state of a stage: its next phase, and the times that other stages wait for."""

    phases: Sequence[EstimatedPhase]
    at: int = 0
    now: float = 0.0
    begin: float | None = None
    links: float = 0.0
    """The time at which the links have carried everything that it has sent."""
    channels: dict[int, float] = field(default_factory=dict)
    """The times at which the sender knows that the last copy of each channel is done."""
    arrived: defaultdict[int, deque[float]] = field(default_factory=lambda: defaultdict(deque))
    """By inbox: the times at which messages are in it."""
    emptied: defaultdict[int, deque[float]] = field(default_factory=lambda: defaultdict(deque))
    """By inbox: the times at which the sender knows that it is empty."""

    @property
    def done(self) -> bool:
        return self.at == len(self.phases)


def timeline(stages: Sequence[Sequence[EstimatedPhase]], machine: Machine) -> PipelineTimes:
    """The times of stages with these phases on a machine; each stage sends only to the next one.

    RuntimeError for a deadlock of stages, which no program has.
    """
    each = [_Stage(phases) for phases in stages]
    before: list[int] = []
    while before != (places := [stage.at for stage in each]):
        before = places
        for number, stage in enumerate(each):
            other = each[number - 1], each[number + 1] if number + 1 < len(each) else stage
            while not stage.done and _happens(stage, *other, machine):
                stage.at += 1
    if not all(stage.done for stage in each):
        raise RuntimeError(f"stages of a pipeline wait for each other at phases {before}")
    works = tuple(sum(phase.cycles for phase in stage.phases) for stage in each)
    return PipelineTimes(tuple(s.begin or 0.0 for s in each), tuple(s.now for s in each), works)


def _happens(stage: _Stage, before: _Stage, after: _Stage, machine: Machine) -> bool:
    """Advance a stage by a phase; False if it waits for an event that has not happened yet."""
    phase = stage.phases[stage.at]
    message = phase.message
    if isinstance(message, Receiving):
        return _received(stage, before, phase.cycles, message, machine)
    if isinstance(message, Sending):
        return _sent(stage, after, phase.cycles, message, machine)
    stage.now += phase.cycles
    return True


def _received(stage: _Stage, before: _Stage, cycles: int, message: Receiving, machine: Machine) -> bool:
    if not stage.arrived[message.inbox]:
        return False
    there = stage.arrived[message.inbox].popleft()
    if stage.begin is None:
        stage.begin = there
    stage.now = max(stage.now, there) + cycles
    if message.again:
        latency = SendPrice(machine, message.pairs, 0).latency
        before.emptied[message.inbox].append(stage.now + latency)
    return True


def _sent(stage: _Stage, after: _Stage, cycles: int, message: Sending, machine: Machine) -> bool:
    if message.full:
        if not stage.emptied[message.inbox]:
            return False
        stage.now = max(stage.now, stage.emptied[message.inbox].popleft())
    if message.after:
        stage.now = max(stage.now, stage.channels.get(message.channel, 0.0))
    price = SendPrice(machine, message.pairs, message.size)
    own = cycles if message.background else 0
    waited = max(stage.links - stage.now - own, 0.0)
    stage.links = stage.now + own + waited + price.links
    there = stage.links + price.latency
    after.arrived[message.inbox].append(there)
    stage.channels[message.channel] = there + price.latency
    stage.now += cycles if message.background else waited + cycles
    return True
