"""What ``.option rvc`` decides while a text is read: which instructions become compressed ones.

A jump to a label further down is taken to be short at first. When the label turns out to be too far, its
number is noted in ``grown`` and the text is read once more, with that jump long; so the assembler goes on
until every jump reaches its label. Jumps only grow, as with GNU as.
"""

from __future__ import annotations

from collections.abc import Set

from .diagnostics import Fault


class Compression:
    """The state of the options, and the jumps to labels further down, numbered in the order of the text."""

    def __init__(self, long_jumps: Set[int] = frozenset()) -> None:
        self.on = False
        self.used = False
        """Whether an instruction begins or ends between multiples of 4 bytes."""
        self.long_jumps = frozenset(long_jumps)
        self.grown: set[int] = set()
        self._saved: list[bool] = []
        self._jumps = 0

    def push(self) -> None:
        """Remember the option."""
        self._saved.append(self.on)

    def pop(self) -> None:
        """Restore what ``push`` remembered; Fault when it was not called."""
        if not self._saved:
            raise Fault(".option pop without .option push")
        self.on = self._saved.pop()

    def next_jump(self) -> int:
        """The number of a jump to a label further down."""
        self._jumps += 1
        return self._jumps
