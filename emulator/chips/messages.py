"""Messages between chips. A message is plain data, so that chips need not be in one process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.chip.stream import Update
from emulator.memory.areas import Bytes
from emulator.tile.events import Pieces, Target
from emulator.watch.strict.stamps import Stamp


class MessageOrigin(NamedTuple):
    """The sender of a message: a tile of a chip, and the number of its earlier messages to other chips."""

    chip: int
    tile: int
    ticket: int


@dataclass(frozen=True, slots=True)
class RemoteCopy:
    """The bytes of a copy for one target."""

    origin: MessageOrigin
    chip: int
    """The chip that the message goes to."""
    target: Target
    pieces: Pieces
    data: Bytes
    """The bytes of all pieces, one after another."""
    stamp: Stamp | None
    """Orders the sender's accesses; only in a strict run."""
    elements: npt.NDArray[np.float32] | None = None
    """Elements and marks [rows, pieces, bytes] of the bytes; only in a proof, None if they have none."""

    @property
    def size(self) -> int:
        """Bytes on a link."""
        return self.pieces.total


@dataclass(frozen=True, slots=True)
class RemoteUpdate:
    """A packet counter update. It needs no time on a link (proposed), and overtakes nothing."""

    origin: MessageOrigin
    chip: int
    update: Update
    stamp: Stamp | None

    @property
    def size(self) -> int:
        """Bytes on a link."""
        return 0


@dataclass(frozen=True, slots=True)
class Receipt:
    """Confirms to a sender that its copy is in the target's memory, or was refused there.

    It takes the latency of the links and does not wait for other messages on them (proposed).
    """

    origin: MessageOrigin
    """The origin of the copy that this message confirms."""
    error: bool


Sent = RemoteCopy | RemoteUpdate
Message = Sent | Receipt
