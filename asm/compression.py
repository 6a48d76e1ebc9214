"""Chooses the lengths of instructions: which are compressed, and the form of each jump.

The length of a jump forward depends on its label's address, which is not known yet. So the text is read
several times, each time with the labels of the reading before, until every jump fits its label. The first
reading assumes that a branch reaches its label; under ``.option rvc`` the label counts as the beginning of
its section. GNU as iterates in the same way and reaches the same lengths. That matters if one jump is short
only because another one is, or if padding absorbs the growth of a jump.
"""

from __future__ import annotations

from asm.instructions.jumps import JumpForms
from asm.syntax.expressions import Address

from .diagnostics import Fault

_PATIENCE = 30
"""Readings after which jumps only grow, so that the iteration ends."""


class Compression:
    """The options in one reading of a text, and its jumps forward, in order.

    ``reverse``: a branch that does not reach its label becomes the opposite branch around a jump.
    """

    def __init__(self, last: Compression | None = None, *, reverse: bool = True) -> None:
        self.on = False
        self.used = False
        """True when an instruction begins or ends between multiples of 4 bytes."""
        self.reverse: bool = reverse if last is None else last.reverse
        self.targets: dict[int, Address | None] = {}
        """The target address of each jump, by the jump's number; None for a target outside of sections."""
        self._last = last
        self._readings: int = last._readings + 1 if last is not None else 0
        self._jumps: list[tuple[JumpForms, Address]] = []
        self._chosen: list[int] = []
        self.sizes: dict[int, int] = {}
        """The bytes that each datum of variable length needs, by its number."""
        self._sized: list[int] = []
        self._saved: list[bool] = []

    @property
    def settled(self) -> bool:
        """True when no jump needs another length, or every jump keeps the length of the last reading."""
        wanted = [forms.form(self.targets.get(n), here) for n, (forms, here) in enumerate(self._jumps)]
        same = self._last is not None and self._chosen == self._last._chosen
        return (self._chosen == wanted or same) and self._sized == [
            self.sizes.get(number, size) for number, size in enumerate(self._sized)
        ]

    def size(self) -> tuple[int, int]:
        """Return the number of the next datum of variable length, and the bytes it takes in this reading."""
        number = len(self._sized)
        self._sized.append(self._last.sizes.get(number, 1) if self._last is not None else 1)
        return number, self._sized[-1]

    def push(self) -> None:
        """Save the option (``.option push``)."""
        self._saved.append(self.on)

    def pop(self) -> None:
        """Restore the option that ``push`` saved; Fault without a ``push``."""
        if not self._saved:
            raise Fault(".option pop without .option push")
        self.on = self._saved.pop()

    def choose(self, forms: JumpForms, here: Address) -> tuple[int, int]:
        """Return the number of the next jump forward, at ``here``, and the index of its form."""
        number, last = len(self._jumps), self._last
        if last is not None:
            index = forms.form(last.targets.get(number), here)
        else:
            index = forms.form(Address(here.section, 0), here) if self.on else 0
        if last is not None and self._readings > _PATIENCE:
            index = (
                max(index, last._chosen[number]) if number < len(last._chosen) else len(forms.templates) - 1
            )
        self._jumps.append((forms, here))
        self._chosen.append(index)
        return number, index
