"""Loops that alternate between two copies of buffers, and the variables that choose the copy."""

from __future__ import annotations

from compiler.codegen.emitter import Emitter
from compiler.codegen.expr import Variable
from compiler.codegen.phase import Target
from compiler.codegen.registers.spilling import Spills
from compiler.codegen.spm import Copies
from compiler.evaluation.sizes import always

from .contents import RegisterContents
from .sums import Sums
from .values import Registers

_FAR = 1 << 40
"""Upper bound of the distance of two copies of a buffer."""


def registers_for(target: Target, out: Emitter, spills: Spills, copies: Copies | None) -> Registers:
    """The registers of a phase, with code as small as the target wants it."""
    if not target.small:
        return Registers(out, spills)
    contents = RegisterContents(out)
    return Registers(out, spills, contents, Sums(contents, copies))


class Turns:
    """The variables of the loops of a phase; ``copies``: the buffers with second copies, if decided."""

    def __init__(self, registers: Registers, copies: Copies | None) -> None:
        self._registers, self._copies = registers, copies
        self._distance = "" if copies is None else copies.apart
        self._loops: dict[Variable, int] = {}

    def variable(self, loop: int, iterations: int) -> Variable | None:
        """A variable that is 0 and -1 alternately, or 0 and the distance of all second copies.

        None for a loop of at most one iteration, and for one that is known to need no copies.
        """
        if always(iterations < 2) or (self._copies is not None and loop not in self._copies.loops):
            return None
        low, high = (-_FAR, _FAR) if self._distance else (-1, 0)
        variable = self._registers.counter(0, low, high)
        self._loops[variable] = loop
        return variable

    def change(self, variable: Variable | None) -> None:
        """Make a loop with such a variable switch to the other copies."""
        if variable is not None:
            self._registers.invert(variable, self._distance)

    def of(self, symbol: str, variable: Variable | None) -> tuple[Variable | None, int]:
        """The variable that chooses the copy of a buffer, if loops have one, and the number of the loop.

        None for a buffer that has no second copy.
        """
        if variable is None or (self._copies is not None and symbol not in self._copies.doubled):
            return None, -1
        return variable, self._loops[variable]
