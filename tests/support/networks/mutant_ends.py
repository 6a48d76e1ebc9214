"""Judges a mistake in a program: the proof, ``--strict``, a fault or tolerances find it, or nothing does."""

from __future__ import annotations

from enum import StrEnum
from functools import cache

import emulator
from compiler.driver import Program
from compiler.graph import Array, GraphError
from compiler.tools.run import RunFault, check, execute, random_inputs
from compiler.tools.verification.field_run import order_of
from compiler.tools.verification.prove import prove
from program_mutants import Mutant

_SEEDS = (1, 2, 3)
"""Seeds of the inputs that must give the same bytes, if a mistake is without effect."""


class End(StrEnum):
    """The first check that finds a mistake, or why none has to."""

    PROOF = "found by the proof"
    OPEN = "left open by the proof"
    STRICT = "by `--strict`"
    ORDER = "by `--prove-order`"
    FAULT = "by assembler or emulator"
    ROUNDING = "rounds in another way"
    """Exact numbers are equal, and floats within the tolerances for several inputs."""
    NOTHING = "without effect"
    RUN = "only by tolerances"
    """Floats are beyond the tolerances, and nothing else finds it: a hole of the proof, unless exact numbers
    are equal."""


class Judge:
    """Judges the mutants of one program, which has no mistake itself."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._inputs = [random_inputs(program.graph, {}, seed) for seed in _SEEDS]
        self._right = cache(lambda at: _bytes(program, self._inputs[at]))

    def end(self, mutant: Mutant) -> End:
        """Judge a mistake by what finds it first."""
        try:
            wrong = mutant.of(self.program)
            proof = prove(wrong, explain=False)
        except (GraphError, emulator.Fault):
            return End.FAULT
        assert proof.same_code, f"{mutant}: its twin has the same mistake"
        if proof.differences:
            return End.PROOF
        if self._has_hazards(wrong):
            return End.STRICT
        if not proof.holds:
            return End.OPEN
        if not order_of(wrong).holds:
            return End.ORDER
        if all(_bytes(wrong, given) == self._right(at) for at, given in enumerate(self._inputs)):
            return End.NOTHING
        return End.ROUNDING if all(check(wrong, each).ok for each in self._inputs) else End.RUN

    def found_by_tolerances(self, mutant: Mutant) -> bool:
        """True if the outputs of a run with a mistake are beyond the tolerances, or it has none."""
        try:
            return not check(mutant.of(self.program), self._inputs[0]).ok
        except (GraphError, RunFault):
            return True

    def _has_hazards(self, wrong: Program) -> bool:
        loaded = emulator.Program(wrong.image, wrong.machine)
        try:
            loaded.run(self._inputs[0], strict=True)
        except emulator.Fault:
            return True
        return bool(loaded.hazards)


def _bytes(program: Program, inputs: dict[str, Array]) -> dict[str, bytes]:
    """The outputs of a run."""
    return {name: found.tobytes() for name, found in execute(program, inputs)[0].items()}
