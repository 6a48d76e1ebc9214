"""Runs a compiled program on the emulator in prime fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from asm.image import Buffer, Image, ddr_offset, named_place, read_again
from asm.image.types import Window
from compiler.driver import Program
from compiler.graph import Array
from compiler.tools.run import RunFault
from tx8isa.machine.description import Machine
from tx8isa.numbers.formats import Format
from tx8isa.numbers.prime_field import Elements, PrimeField

if TYPE_CHECKING:
    from emulator.watch.prove.results import Results


@dataclass(frozen=True)
class FieldOutcome:
    """The results of a run in prime fields."""

    outputs: Mapping[str, Elements]
    """The outputs of floats."""
    not_followed: Counter[str]
    """Instructions that were executed only in real numbers, with their counts."""
    computed: Results | None
    """All results of instructions; None unless requested."""
    writers: Mapping[str, npt.NDArray[np.int64]]
    """For each element of the outputs the number of the instruction that computed it; 0: none is known."""
    instructions: Sequence[str]
    """The instructions by these numbers, from 1, for people."""

    def instruction(self, number: int) -> str:
        """The instruction of a number, for people; empty for 0."""
        return self.instructions[number - 1] if number else ""


def run_in_field(
    program: Program,
    field: PrimeField,
    elements: Mapping[str, Elements],
    real: Mapping[str, Array],
    keep_results: bool = False,
) -> FieldOutcome:
    """Run a program on one chip; emulator.Fault when it stops.

    ``elements`` are the inputs of floats, ``real`` has numbers for all inputs, with the sizes of the run.
    """
    import emulator
    from emulator.memory.shapes import sized, sized_outputs

    loaded = emulator.Program(read_again(program.image, "prog.bin"), program.machine)
    system = loaded.start(real, field=field)
    run, windows = system.field_run, loaded.image.windows
    assert run is not None
    if keep_results:
        run.keep_results()
    sizes = loaded.sizes_of(real)
    for buffer in (sized(loaded.image.shapes, each, sizes) for each in loaded.inputs):
        if buffer.name in elements:
            size = Format.parse(buffer.format).bits // 8
            run.ddr.write(_places(buffer, windows), size, elements[buffer.name])
    system.run(None)
    run.check()
    found, writers = dict[str, Elements](), dict[str, npt.NDArray[np.int64]]()
    for buffer in sized_outputs(loaded.image, loaded.outputs, system.memories.ddr_area):
        fmt = Format.parse(buffer.format)
        if fmt.is_float:
            found[buffer.name] = run.ddr.read(_places(buffer, windows), fmt)
            writers[buffer.name] = run.ddr.writers(_places(buffer, windows))
    computed = run.results() if keep_results else None
    texts = [_described(loaded.image, *each) for each in run.issued]
    return FieldOutcome(found, run.not_followed, computed, writers, texts)


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


def _places(buffer: Buffer, windows: Sequence[Window]) -> npt.NDArray[np.int64]:
    """The offsets of the elements of a compact buffer, in its shape."""
    first = ddr_offset(buffer.address, windows)
    assert first is not None
    size = Format.parse(buffer.format).bits // 8
    return first + np.arange(int(np.prod(buffer.shape))).reshape(buffer.shape) * size
