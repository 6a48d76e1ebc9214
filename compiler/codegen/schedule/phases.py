"""The phases of a program one after another: heads begin in the phase before, buffers get their places.

While worker 0 of a tile executes a phase, the host, another worker executes the head of the next one, its
guest. The instructions of a guest are inserted at several places of the host, so that its loads fall into
times when the host loads little. The buffers of a guest avoid those that the host still uses, and those of
all phases that a tile may be executing at the beginning of the host.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import groupby

from asm.instructions.text import quote
from compiler.codegen.best_fit import first_gap
from compiler.codegen.expr import Key, Value, key_of
from compiler.codegen.kernel import Kernel
from compiler.codegen.registers.contents import own_lines
from compiler.codegen.spm import NONE_FIXED, FixedBuffers, SpmBuffer, SpmOverflow
from compiler.codegen.tree import Gap, Issue
from tx8isa.numbers.formats import Format
from tx8isa.records.record import Engine

from .head import EarlyInstruction, Head, find_head
from .lives import BufferUses, begins_of, directives, uses_of

_WORKERS = (2, 1)
"""The workers that execute heads."""

_WORTHWHILE = 16384
"""Least bytes of a head that begins early, since the wait for another worker takes some time."""
_PART_BYTES = 16384
"""Larger loads are divided, because a load that has begun delays the host's loads."""
_AT_ONCE = 6
"""Instructions that are inserted at one place: as many as a queue of an engine holds."""
_BYTES_AT_ONCE = 4 * _PART_BYTES
"""Most bytes that are loaded at one place, unless it is the last one."""
_FEW_PLACES = 3
"""Loads are divided if there are more places than this."""
_MOST_INSTRUCTIONS = 64
"""Instructions of a head."""


@dataclass
class ScheduledPhase:
    """A phase of the program: its name in reports and its code.

    ``head`` begins in the phase before, executed by ``worker``. ``guests``: text of the next phase's head, by
    the lines of this phase at which it is inserted. ``uses``: the purposes of its buffers. ``mirrored``: its
    addresses count from the end of the scratchpad.
    """

    name: str
    kernel: Kernel
    uses: BufferUses
    mirrored: bool = False
    head: Head = field(default_factory=Head)
    worker: int = _WORKERS[0]
    guests: dict[int, list[str]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The text of the phase without its head, with the head of the next phase."""
        code, early = self.kernel.out.lines, self.head.instructions
        contents = self.kernel.registers.contents
        removed = {line for each in early for line in own_lines(contents, each.issue.lines)}
        definitions = [] if early else self.kernel.spm.definitions()
        found: list[str] = []
        live = directives(self.kernel, self.uses, self.name, self.head.buffers, removed)
        for number in range(len(code) + 1):
            if early and number == self.wait_line:
                found.append(f"        {'ncc.wait':<23} worker={self.worker}")
            found += live.ends.get(number, [])
            found += self.guests.get(number, [])
            found += live.begins.get(number, [])
            if number < len(code) and code[number] and number not in removed:
                found.append(code[number])
        return definitions + self.kernel.with_frame(found)

    @property
    def wait_line(self) -> int:
        """The line before which the phase waits for its head."""
        wait = self.head.wait
        return self.kernel.out.count if wait is None else wait.line


def schedule(
    phases: Sequence[tuple[str, Kernel]],
    constants: Set[str],
    before: Sequence[ScheduledPhase] = (),
    alone: bool = True,
) -> list[ScheduledPhase]:
    """Place the buffers of all phases, and let heads begin early if there is room.

    ``constants`` are the symbols of constant data in DDR. ``before`` are the phases that a tile may still be
    executing when the first of these begins. If not ``alone``, it may be executing phases whose buffers are
    unknown. Then no head begins until the tiles have met. The buffers of each phase must fit by themselves.
    """
    found: list[ScheduledPhase] = []
    running: list[ScheduledPhase] = []
    for number, (name, kernel) in enumerate(phases):
        phase = ScheduledPhase(name, kernel, uses_of(kernel, constants), mirrored=number % 2 == 1)
        guest = _Guest(phase, running, before, constants) if running and alone else None
        fixed = NONE_FIXED if guest is None else guest.place()
        _place(phase, fixed)
        if running and not phase.head.instructions:
            running[-1].guests = {}
        elif phase.head.instructions:
            first = min(running[-1].guests)
            running[-1].guests[first] = kernel.spm.definitions() + running[-1].guests[first]
        if kernel.met_at is not None:
            running, before, alone = [], (), True
        running.append(phase)
        found.append(phase)
    return found


def still_running(phases: Sequence[ScheduledPhase]) -> Sequence[ScheduledPhase]:
    """The last phases that a tile may still be executing when another tile has finished all of them."""
    met = [at for at, phase in enumerate(phases) if phase.kernel.met_at is not None]
    return phases[met[-1] :] if met else phases


def _place(phase: ScheduledPhase, fixed: FixedBuffers) -> None:
    """Place the buffers of a phase. Odd phases count addresses from the end, so that the first loads of one
    do not wait for the last buffers of another. A head whose buffers leave no room is dropped."""
    kernel = phase.kernel
    capacity = kernel.target.spm_bytes
    try:
        kernel.spm.place(capacity, fixed.mirrored(capacity) if phase.mirrored else fixed)
    except SpmOverflow:
        phase.head = Head()
        kernel.spm.place(capacity)
    if phase.mirrored:
        kernel.mirror()


@dataclass(frozen=True)
class _Place:
    """A place of the host; all its instructions before number ``complete`` are complete there."""

    gap: Gap
    complete: int


class _Guest:
    """The head of a phase while it is inserted into the last of the ``running`` phases."""

    def __init__(
        self,
        phase: ScheduledPhase,
        running: Sequence[ScheduledPhase],
        before: Sequence[ScheduledPhase],
        constants: Set[str],
    ) -> None:
        self.phase, self.host, self.constants = phase, running[-1], constants
        self.others = [area for other in (*before, *running[:-1]) for area in other.kernel.spm.areas()]
        busy = {self.host.worker} if self.host.head.instructions else set[int]()
        own, released = self.host.kernel.workers, self.host.kernel.released
        idle = [worker for worker in _WORKERS if worker not in own]
        idle += sorted(released, key=released.__getitem__)
        self.possible = bool(idle)
        """True if the host leaves a worker free for heads, from the start or from a later line."""
        self.worker = next((worker for worker in (*idle, *_WORKERS) if worker not in busy), _WORKERS[0])
        self.addresses: dict[SpmBuffer, int] = {}
        self.at: list[tuple[Gap, int, EarlyInstruction]] = []
        self.begun: set[SpmBuffer] = set()
        """Buffers whose live ranges have begun in the text so far."""

    def place(self) -> FixedBuffers:
        """Insert the head into the host as far as there is room; returns the addresses of its buffers."""
        if not self.possible:
            return NONE_FIXED
        kernel = self.phase.kernel
        whole = find_head(kernel, self.constants, _MOST_INSTRUCTIONS).instructions
        places = list(_places(self.host, self.worker))
        divided = len(places) > _FEW_PLACES
        waiting = deque(
            (number, part)
            for number, each in enumerate(whole)
            for part in (_parts(each) if divided else [each])
        )
        for place in places:
            self._insert(waiting, place, last=place is places[-1])
        placed = waiting[0][0] if waiting else len(whole)
        self._remove_from(placed, whole)
        if sum(buffer.size for buffer in self.addresses) < _WORTHWHILE:
            return NONE_FIXED
        guests = {
            gap.line: self._text([part for at, _, part in self.at if at is gap], gap)
            for gap in dict.fromkeys(gap for gap, _, _ in self.at)
        }
        found = {line: text for line, text in guests.items() if text is not None}
        if len(found) < len(guests):
            return NONE_FIXED
        self.host.guests = found
        self.phase.worker = self.worker
        head = self.phase.head = find_head(kernel, self.constants, placed)
        return FixedBuffers(self.addresses, head.wait.number if head.wait is not None else kernel.count)

    def _insert(self, waiting: deque[tuple[int, EarlyInstruction]], place: _Place, last: bool) -> None:
        """Take as many instructions from the front of ``waiting`` as may be inserted at a place."""
        count = moved = 0
        while waiting and count < _AT_ONCE:
            number, part = waiting[0]
            moved += _bytes(part)
            if (count and moved > _BYTES_AT_ONCE and not last) or not self._room_for(part, place):
                return
            self.at.append((place.gap, number, part))
            waiting.popleft()
            count += 1

    def _remove_from(self, placed: int, whole: Sequence[EarlyInstruction]) -> None:
        """Remove the parts of an instruction that was not inserted completely."""
        self.at = [entry for entry in self.at if entry[1] < placed]
        kept = {buffer for early in whole[:placed] for buffer in early.buffers}
        self.addresses = {buffer: place for buffer, place in self.addresses.items() if buffer in kept}

    def _room_for(self, early: EarlyInstruction, place: _Place) -> bool:
        """True if the buffers of an instruction have places, or get them at this line.

        Places are taken from the end at which the addresses of their phase begin, so that the remaining room
        is contiguous.
        """
        new = [buffer for buffer in early.buffers if buffer not in self.addresses]
        areas = [*self.others, *self.host.kernel.spm.areas(place.complete)]
        areas += [(address, address + buffer.span) for buffer, address in self.addresses.items()]
        found: dict[SpmBuffer, int] = {}
        for buffer in dict.fromkeys(new):
            address = self._first_gap(areas, buffer.span)
            if address is None:
                return False
            found[buffer] = address
            areas.append((address, address + buffer.span))
        self.addresses |= found
        return True

    def _first_gap(self, areas: Sequence[tuple[int, int]], size: int) -> int | None:
        """The first gap between areas, in the direction in which the phase counts addresses."""
        capacity = self.phase.kernel.target.spm_bytes
        if not self.phase.mirrored:
            return first_gap(areas, size, capacity)
        address = first_gap([(capacity - end, capacity - begin) for begin, end in areas], size, capacity)
        return None if address is None else capacity - size - address

    def _text(self, parts: Sequence[EarlyInstruction], gap: Gap) -> list[str] | None:
        """The code of some instructions, in registers that are free at the place.

        None if these are too few.
        """
        original = self.phase.kernel
        kernel = Kernel(
            f"{original.prefix}.head{gap.item}", original.target, original.budget, worker=self.worker
        )
        kernel.registers.limit(gap.free)
        kernel.out.directive(f".node {quote(self.phase.name)}")
        for several in _together(parts) if kernel.target.small else ([part] for part in parts):
            for buffer in dict.fromkeys(buffer for part in several for buffer in part.buffers):
                if buffer not in self.begun:
                    self.begun.add(buffer)
                    kernel.out.lines.extend(begins_of(buffer, self.phase.uses, self.phase.name))
            _emit(kernel, several, several[0].conditions)
        kernel.out.directive(f".node {quote(self.host.name)}")
        return None if kernel.spills.shortages else [line for line in kernel.out.lines if line]


def _places(host: ScheduledPhase, worker: int) -> Iterator[_Place]:
    """The places for a guest: where the core of the host waits for copies, and at its end.

    There it costs little time to issue the guest's instructions.
    """
    kernel, complete = host.kernel, 0
    begin = max(kernel.met_at or 0, kernel.released.get(worker, 0))
    if host.head.instructions and host.worker == worker:
        begin = max(begin, host.wait_line)
    for gap in kernel.gaps:
        item = kernel.tree[gap.item]
        if not isinstance(item, Issue):
            continue
        if item.mnemonic == "dte.wait" and gap.line >= begin:
            yield _Place(gap, complete)
        if item.mnemonic == "ncc.wait" and not item.worker:
            complete = item.number
    yield _Place(Gap(len(kernel.tree), kernel.out.count, kernel.count, kernel.registers.free), complete)


def _bytes(early: EarlyInstruction) -> int:
    """Bytes that a load without loops brings; 0 for other instructions."""
    count = early.arguments.get("n")
    if early.issue.record.engine is not Engine.RDMA or not isinstance(count, int):
        return 0
    return count * Format.parse(early.issue.mnemonic.rpartition(".")[2]).bits // 8


def _parts(early: EarlyInstruction) -> Iterator[EarlyInstruction]:
    """Divide a large contiguous load into several; other instructions stay whole."""
    size = _bytes(early)
    if size <= _PART_BYTES or "iter0" in early.arguments:
        yield early
        return
    count = early.arguments["n"]
    assert isinstance(count, int)
    each = size // count
    step = _PART_BYTES // each
    for first in range(0, count, step):
        moved = {name: _moved(early.arguments[name], first * each) for name in ("dst", "src")}
        arguments = early.arguments | moved | {"n": min(step, count - first)}
        yield replace(early, arguments=arguments)


def _moved(address: object, distance: int) -> Value:
    assert isinstance(address, Value)
    return address + distance


def _together(parts: Sequence[EarlyInstruction]) -> Iterator[list[EarlyInstruction]]:
    """Instructions in order, grouped by the condition under which they are executed."""

    def case(part: EarlyInstruction) -> list[tuple[Key, Key]]:
        return [(key_of(index), key_of(below)) for index, below in part.conditions]

    return (list(several) for _, several in groupby(parts, case))


def _emit(
    kernel: Kernel, several: Sequence[EarlyInstruction], conditions: Sequence[tuple[Value, Value]]
) -> None:
    if not conditions:
        for early in several:
            kernel.emit(early.issue.mnemonic, **early.arguments)
        return
    (index, below), *others = conditions
    with kernel.if_below(index, below):
        _emit(kernel, several, others)
