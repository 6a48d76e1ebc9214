"""Runs a compiled program on the emulator for proofs: in prime fields, or to judge its order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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

from .tables import NO_FUNCTIONS, Functions

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
    """The steps of a program; its states keep their elements from step to step.

    Inputs and outputs are those of the whole graph, which several chips get and give in parts. ``finds``: the
    graph finds integers in floats and computes nothing else, so real numbers decide.
    """

    def __init__(
        self, program: Program, field: PrimeField, functions: Functions = NO_FUNCTIONS, finds: bool = False
    ) -> None:
        import emulator
        from emulator.session.field_session import FieldSession

        loaded = emulator.Program(read_again(program.image, "prog.bin"), program.machine)
        self._session, self._spread = FieldSession(loaded, field, functions, finds), program.spread

    def step(
        self, elements: Mapping[str, Elements], real: Mapping[str, Array], keep_results: bool = False
    ) -> FieldOutcome:
        """Run a step; emulator.Fault when it stops.

        ``elements`` are the inputs of floats, ``real`` has numbers for all inputs, with the sizes of the
        step. States are inputs of the first step only.
        """
        spread = self._spread
        if spread is not None:
            elements, real = of_residues(spread.dealt, elements), spread.dealt(real)
        found = self._session.step(elements, real, keep_results)
        run, image = found.runs[0], self._session.program.image
        reserves = sum((each.not_followed for each in found.runs), Counter[str]())
        computed = run.results() if keep_results else None
        texts = [_described(image, *each) for each in run.issued]
        outputs, integers, writers = found.outputs, found.integers, found.writers
        if spread is not None:
            names = sorted({name.partition(".")[2] for name in outputs})
            whole = sorted({name.partition(".")[2] for name in integers})
            outputs = of_residues(partial(spread.joined, names=names), outputs)
            integers, writers = spread.joined(integers, whole), spread.joined(writers, names)
        return FieldOutcome(outputs, integers, reserves, computed, writers, texts)


def of_residues(
    function: Callable[[Mapping[str, Array]], Mapping[str, Array]], elements: Mapping[str, Elements]
) -> dict[str, Elements]:
    """Apply a function that deals or joins arrays to elements, for each residue."""
    count = len(next(iter(elements.values()), ()))
    each = [function({name: x[at] for name, x in elements.items()}) for at in range(count)]
    return {name: np.stack([own[name] for own in each]) for name in (each[0] if each else ())}


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


def _described(image: Image, tile: str, address: int, name: str) -> str:
    """An executed instruction: ``ne.gemm of tile 3 (prog.s:12, node 'conv1')``."""
    line = image.lines.get(address)
    place = named_place(f"{line[0]}:{line[1]}" if line else "", image.nodes.get(address))
    return f"{name} of {tile} ({place})" if place else f"{name} of {tile}"
