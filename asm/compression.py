"""What ``.option rvc`` decides while a text is read: which instructions become compressed ones.

How long a jump to a label further down must be is known when the label is. So the text is read again and
again, each time with the labels where the last reading had them, until no jump changes its length. The first
time, such a label counts as the beginning of its section. GNU as goes the same way to the same lengths, which
matters where a jump is short if another one is, or where padding takes what a jump grows.
"""

from __future__ import annotations

from asm.syntax.expressions import Address
from tx8isa.riscv.format import Field

from .diagnostics import Fault

_PATIENCE = 30
"""Readings after which jumps only grow, so that there is an end."""


class Compression:
    """The options in one reading of a text, and its jumps to labels further down, in their order."""

    def __init__(self, last: Compression | None = None) -> None:
        self.on = False
        self.used = False
        """Whether an instruction begins or ends between multiples of 4 bytes."""
        self.targets: dict[int, Address | None] = {}
        """The address that each jump goes to, by the jump's number; None for one that is in no section."""
        self._last = last
        self._readings: int = last._readings + 1 if last is not None else 0
        self._short: list[bool] = []
        self._saved: list[bool] = []

    @property
    def settled(self) -> bool:
        """Whether all jumps are as long as in the reading before, where the labels were the same then."""
        return not self._short or (self._last is not None and self._short == self._last._short)

    def push(self) -> None:
        """Remember the option."""
        self._saved.append(self.on)

    def pop(self) -> None:
        """Restore what ``push`` remembered; Fault when it was not called."""
        if not self._saved:
            raise Fault(".option pop without .option push")
        self.on = self._saved.pop()

    def choose(self, field: Field, here: Address) -> tuple[int, bool]:
        """Number of the next jump to a label further down, and whether it is short.

        ``field`` is that of the target in the short form, ``here`` the address of the jump.
        """
        number, last = len(self._short), self._last
        target: Address | None = Address(here.section, 0)
        if last is not None:
            target = last.targets.get(number)
        reaches = target is not None and target.section == here.section
        short = reaches and target is not None and not field.problem(target.offset - here.offset)
        if last is not None and self._readings > _PATIENCE:
            short = short and number < len(last._short) and last._short[number]
        self._short.append(short)
        return number, short
