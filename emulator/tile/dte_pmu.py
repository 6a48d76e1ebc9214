"""Performance counters of a tile's DTE (docs/isa.md, Registers of the DTE)."""

from __future__ import annotations

ENABLE, CLEAR = 0x00, 0x04
_SUCCESSES, _FAILURES, _BYTES = (0x14, 0x18), 0x1C, (0x20, 0x28)
_TIMES = (0x0C, 0x10, *range(0x40, 0x68, 4))
"""Clock, idle and execution times read as 0, with simulated time too.

On the board the execution time is not monotonic, so its meaning is not known.
"""
_CHANNELS = 2
_WORD = (1 << 32) - 1


def _channel(block: int | None) -> int:
    """Return the channel that counts the copies of a register block; None: copies of instructions.

    The chip has four blocks and counters of two channels; their assignment is proposed.
    """
    return 0 if block is None else block % _CHANNELS


class DtePmu:
    """Copies and bytes by channel, counted while enabled. Offsets are from the first counter register."""

    def __init__(self) -> None:
        self.enabled = False
        self._clear()

    def _clear(self) -> None:
        self.successes, self.bytes, self.failures = [0] * _CHANNELS, [0] * _CHANNELS, 0

    def note(self, block: int | None, written: int, success: bool) -> None:
        """Count an ended copy, with the bytes it wrote to all targets (proposed: these bytes)."""
        if not self.enabled:
            return
        if success:
            self.successes[_channel(block)] += 1
            self.bytes[_channel(block)] += written
        else:
            self.failures += 1

    def load(self, offset: int) -> int | None:
        """Return a 32-bit register, None if there is none. Counts wrap; bytes have a low and a high word."""
        if offset == ENABLE:
            return int(self.enabled)
        if offset == _FAILURES:
            return self.failures & _WORD
        if offset in _TIMES:
            return 0
        if offset in _SUCCESSES:
            return self.successes[_SUCCESSES.index(offset)] & _WORD
        for channel, first in enumerate(_BYTES):
            if offset in (first, first + 4):
                return self.bytes[channel] >> 8 * (offset - first) & _WORD
        return None

    def store(self, offset: int, value: int) -> bool:
        """Write enable or clear (bit 0); False for a register that is read-only or does not exist."""
        if offset == ENABLE:
            self.enabled = bool(value & 1)
        elif offset == CLEAR and value & 1:
            self._clear()
        return offset in (ENABLE, CLEAR)
