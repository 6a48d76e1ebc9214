"""Runs a compiled program on the emulator for proofs: in prime fields, or to judge its order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from asm.image import Image, named_place, read_again
from compiler.driver import Program
from compiler.graph import Array
from compiler.tools.run import RunFault
from tx8isa.machine.description import Machine
from tx8isa.numbers.prime_field import Elements, PrimeField

if TYPE_CHECKING:
    from emulator.session.order import OrderProof
    from emulator.watch.prove.results import Results


@dataclass(frozen=True)
class FieldOutcome:
    """The results of a run, or of a step, in prime fields."""

    outputs: Mapping[str, Elements]
    """The outputs of floats, and other ones that follow from elements."""
    integers: Mapping[str, Array]
    """The numbers of outputs that are no floats."""
    not_followed: Counter[str]
    """Instructions that were executed only in real numbers, with their counts."""
    computed: Results | None
    """All results of instructions; None unless requested."""
    writers: Mapping[str, npt.NDArray[np.int64]]
    """For each element of ``outputs`` the number of the instruction that computed it; 0: none is known."""
    instructions: Sequence[str]
    """The instructions by these numbers, from 1, for people."""

    def instruction(self, number: int) -> str:
        """The instruction of a number, for people; empty for 0."""
        return self.instructions[number - 1] if number else ""


class FieldSteps:
    """The steps of a program on one chip; its states keep their elements from step to step."""

    def __init__(self, program: Program, field: PrimeField) -> None:
        import emulator
        from emulator.session.field_session import FieldSession

        loaded = emulator.Program(read_again(program.image, "prog.bin"), program.machine)
        self._session = FieldSession(loaded, field)

    def step(
        self, elements: Mapping[str, Elements], real: Mapping[str, Array], keep_results: bool = False
    ) -> FieldOutcome:
        """Run a step; emulator.Fault when it stops.

        ``elements`` are the inputs of floats, ``real`` has numbers for all inputs, with the sizes of the
        step. States are inputs of the first step only.
        """
        found = self._session.step(elements, real, keep_results)
        run, image = found.run, self._session.program.image
        computed = run.results() if keep_results else None
        texts = [_described(image, *each) for each in run.issued]
        return FieldOutcome(found.outputs, found.integers, run.not_followed, computed, found.writers, texts)


def order_of(program: Program) -> OrderProof:
    """What is proved of the order of a program's accesses."""
    import emulator
    from emulator.session.order import prove_order

    return prove_order(emulator.Program(read_again(program.image, "prog.bin"), program.machine))


@contextmanager
def told_faults() -> Iterator[None]:
    """Raise RunFault where a program stops with a fault."""
    import emulator

    try:
        yield
    except emulator.Fault as fault:
        raise RunFault(fault) from None


def image_of_file(path: Path, machine: Machine) -> Image:
    """Read an image that runs on a machine; Tx8Error for another file."""
    import emulator

    return emulator.load(path, machine).image


def _described(image: Image, tile: int, address: int, name: str) -> str:
    """An executed instruction: ``ne.gemm of tile 3 (prog.s:12, node 'conv1')``."""
    line = image.lines.get(address)
    place = named_place(f"{line[0]}:{line[1]}" if line else "", image.nodes.get(address))
    return f"{name} of tile {tile} ({place})" if place else f"{name} of tile {tile}"
