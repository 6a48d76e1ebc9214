"""The traffic of the links between chips: totals, as ``--stats`` prints them, and events of a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from emulator.timing.slices import TICKS
from emulator.watch.stats.types import Report
from emulator.watch.trace.file import PartOfTrace
from tx8isa.machine.chips import MOST_CHIPS

from .links import Passage
from .mesh import ChipMesh
from .messages import RemoteCopy

_MOST_SHOWN = 16
_LINKS_PROCESS = 1_000_000
"""Process number of the links in a trace, above the chips' numbers."""

Count = Annotated[int, Meta(ge=0)]


class LinkUse(msgspec.Struct, frozen=True):
    """One direction between two chips; times are cycles."""

    source: Count
    target: Count
    messages: Count
    bytes: Count
    busy: Annotated[float, Meta(ge=0, description="Carried something.")]
    waited: Annotated[float, Meta(ge=0, description="Of all messages, because it carried another one.")]


class ChipsReport(msgspec.Struct, frozen=True):
    """Statistics of a run on several chips."""

    cycles: float
    milliseconds: float
    last_chip: Count
    chips: list[Report]
    links: list[LinkUse]
    version: int = 1


def link_uses(mesh: ChipMesh) -> list[LinkUse]:
    """Return the used links from chips that are emulated here."""
    return [
        LinkUse(chip.number, to, link.messages, link.bytes, link.busy / TICKS, link.waited / TICKS)
        for chip in mesh.chips
        for to, link in chip.links.links.items()
        if link.messages
    ]


def chips_report(reports: Sequence[Report], uses: Iterable[LinkUse]) -> ChipsReport:
    """Return the statistics of a finished run; ``reports`` by chip, ``uses`` of all links."""
    last = max(range(len(reports)), key=lambda number: reports[number].cycles)
    links = sorted(uses, key=lambda use: (-use.busy, use.source, use.target))  # the busiest first
    return ChipsReport(reports[last].cycles, reports[last].milliseconds, last, list(reports), links)


def describe_chips(report: ChipsReport) -> Iterator[str]:
    """The lines of ``--stats`` about all chips."""
    clock = report.chips[report.last_chip].clock
    time = f"{report.milliseconds * 1e3:,.3f} us at {clock / 1e9:g} GHz"
    yield f"time      {int(report.cycles):,} cycles = {time}; chip {report.last_chip} ends last"
    yield ""
    yield f"{'chip':<28}{'cycles':>14}{'instructions':>16}{'bound':>8}{'reached':>9}"
    for number, chip in enumerate(report.chips):
        cells = (
            f"{int(chip.cycles):>14,}{chip.instructions:>16,}{chip.bound or 'none':>8}{chip.reached:>9.1%}"
        )
        yield f"{number:<28}{cells}"
    if not report.links:
        return
    yield ""
    yield f"{'link':<28}{'messages':>14}{'bytes':>16}{'busy':>8}{'waited, cycles':>17}"
    for link in report.links[:_MOST_SHOWN]:
        share = link.busy / report.cycles if report.cycles else 0.0
        cells = f"{link.messages:>14,}{link.bytes:>16,}{share:>8.1%}{int(link.waited):>17,}"
        yield f"{f'{link.source} -> {link.target}':<28}{cells}"
    if len(report.links) > _MOST_SHOWN:
        yield f"{len(report.links) - _MOST_SHOWN} more links have carried less"


class LinkTracks:
    """Writes the passages over a chip's links into its part of a trace, with a track for each direction."""

    def __init__(self, part: PartOfTrace, microseconds: float) -> None:
        self._part, self._microseconds = part, microseconds
        self._named: set[int] = set()

    def add(self, passage: Passage) -> None:
        """Write a passage."""
        message, track = passage.message, passage.source * MOST_CHIPS + passage.chip
        if track not in self._named:
            self._part.add_numbered([_track_name(track, passage)])
            self._named.add(track)
        kind = "copy" if isinstance(message, RemoteCopy) else "update"
        sender = f"tile {message.origin.tile} of chip {message.origin.chip}"
        begin, length = (t * self._microseconds for t in (passage.begin, passage.end - passage.begin))
        arguments = (
            f'"bytes":{message.size},"to chip":{message.chip},"waited (cycles)":{passage.waited / TICKS:.3f}'
        )
        head = f'"ph":"X","pid":{_LINKS_PROCESS},"tid":{track},"ts":{begin:.6f},"dur":{length:.6f}'
        event = f'{{{head},"cat":"link","name":"{kind} from {sender}","args":{{{arguments}}}}}'
        self._part.add_numbered([event])


def links_name() -> str:
    """Return the event that names the process whose tracks are links."""
    name = '"name":"process_name","args":{"name":"links between chips"}'
    return f'{{"ph":"M","pid":{_LINKS_PROCESS},"tid":0,{name}}}'


def _track_name(track: int, passage: Passage) -> str:
    head = f'"ph":"M","pid":{_LINKS_PROCESS},"tid":{track}'
    name = f"chip {passage.source} to chip {passage.chip}"
    return f'{{{head},"name":"thread_name","args":{{"name":"{name}"}}}}'
