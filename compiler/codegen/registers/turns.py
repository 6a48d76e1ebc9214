"""Loops that use two copies of buffers in turns, and the variables by which they choose one."""

from __future__ import annotations

from compiler.codegen.expr import Variable
from compiler.codegen.spm import Copies
from compiler.evaluation.sizes import always

from .values import Registers


class Turns:
    """The variables of the loops of a phase; ``copies``: the buffers that have second ones, if decided."""

    def __init__(self, registers: Registers, copies: Copies | None) -> None:
        self._registers, self._copies = registers, copies
        self._loops: dict[Variable, int] = {}

    def variable(self, loop: int, iterations: int) -> Variable | None:
        """A variable that is 0 and -1 in turns, or 0 and the distance of all second copies.

        None for a loop of at most one iteration, and for one that is known to need no copies.
        """
        if always(iterations < 2) or (self._copies is not None and loop not in self._copies.loops):
            return None
        variable = self._registers.turns()
        self._loops[variable] = loop
        return variable

    def of(self, symbol: str, variable: Variable | None) -> tuple[Variable | None, int]:
        """What chooses the copy of a buffer where loops have a variable, and the number of the loop.

        None for a buffer that has no second copy.
        """
        if variable is None or (self._copies is not None and symbol not in self._copies.doubled):
            return None, -1
        return variable, self._loops[variable]
