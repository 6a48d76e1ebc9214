"""The port of a chip: messages of its tiles to other chips that are not confirmed yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.chip.copies import Channel, Dte
from emulator.chip.stream import Update
from emulator.tile.events import Copy
from emulator.tile.observer import Observer
from emulator.tile.tile import Tile
from tx8isa.machine.chips import Chips

from .linked_time import Departure, LinkedSimulator
from .messages import MessageOrigin, Receipt, RemoteCopy, RemoteUpdate, Sent

if TYPE_CHECKING:
    from emulator.watch.prove.observer import FieldRun
    from emulator.watch.strict.sanitizer import Sanitizer
    from emulator.watch.strict.stamps import Stamp


@dataclass
class _Copying:
    """A copy to other chips that is not done."""

    tile: Tile
    copy: Copy
    channel: Channel | None
    left: int
    """Targets that have not confirmed the copy."""
    error: bool = False


class Departures:
    """A ``Port``: keeps messages until their time has come, and copies until they are done."""

    def __init__(
        self,
        number: int,
        chips: Chips,
        dte: Dte,
        time: LinkedSimulator,
        observers: list[Observer],
        sanitizer: Sanitizer | None,
        field_run: FieldRun | None,
    ) -> None:
        self.number, self.chips = number, chips
        self._dte, self._time, self._observers, self._sanitizer = dte, time, observers, sanitizer
        self._field_run = field_run
        self._tickets = [0] * len(dte.tiles)
        self._waiting: dict[tuple[int, int], Sent] = {}
        """Messages that have not departed, by tile and ticket."""
        self._copying: dict[tuple[int, int], _Copying] = {}
        """Keyed by tile and ticket of each target that has not confirmed its copy."""
        self._positions: dict[tuple[int, int], int] = {}
        """The position of a departed copy in simulated time, by tile and ticket."""

    def send(self, tile: Tile, copy: Copy, channel: Channel | None) -> None:
        """See ``Port``."""
        stamp = self._stamp(tile)
        copying = _Copying(tile, copy, channel, len(copy.targets))
        elements = self._field_run.leaving(tile, copy) if self._field_run else [None] * len(copy.targets)
        for target, data, own in zip(copy.targets, self._dte.collect(tile, copy), elements, strict=True):
            assert target.chip is not None
            origin = self._origin(tile)
            message = RemoteCopy(origin, target.chip, target, copy.pieces, data, stamp, own)
            self._waiting[tile.number, origin.ticket] = message
            self._copying[tile.number, origin.ticket] = copying
        self._time.outstanding[tile.number] += len(copy.targets)

    def post(self, tile: Tile, update: Update) -> None:
        """See ``Port``."""
        assert update.chip is not None
        origin = self._origin(tile)
        self._waiting[tile.number, origin.ticket] = RemoteUpdate(
            origin, update.chip, update, self._stamp(tile)
        )

    def awaits(self, tile: Tile) -> bool:
        """See ``Port``."""
        return bool(self._time.outstanding[tile.number])

    def depart(self, departure: Departure) -> Sent:
        """Return the message that simulated time has released."""
        key = departure.tile, departure.ticket
        message = self._waiting.pop(key)
        if key in self._copying:
            self._positions[key] = departure.position
        return message

    def confirm(self, receipt: Receipt) -> None:
        """Record that a target has received a copy, or has refused it."""
        key = receipt.origin.tile, receipt.origin.ticket
        copying = self._copying.pop(key)
        self._time.copy_finished(copying.tile.number, self._positions.pop(key))
        copying.left -= 1
        copying.error |= receipt.error
        if copying.left == 0:
            self._dte.finish(copying.tile, copying.copy, copying.channel, copying.error)
            if self._sanitizer:
                block = copying.channel.block if copying.channel else None
                self._sanitizer.copy_confirmed(copying.tile, block)
            for observer in self._observers:
                observer.copy_done(copying.tile, copying.copy, copying.error)

    def _origin(self, tile: Tile) -> MessageOrigin:
        ticket = self._tickets[tile.number]
        self._tickets[tile.number] += 1
        return MessageOrigin(self.number, tile.number, ticket)

    def _stamp(self, tile: Tile) -> Stamp | None:
        return self._sanitizer.take_stamp(tile) if self._sanitizer else None
