"""Runs a compiled program on the emulator in prime fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asm.image import Buffer, ddr_offset, read_again
from asm.image.types import Window
from compiler.driver import Program
from compiler.graph import Array
from compiler.tools.run import RunFault
from tx8isa.numbers.formats import Format
from tx8isa.numbers.prime_field import Elements, PrimeField


@dataclass(frozen=True)
class FieldOutcome:
    """What a run in prime fields gives."""

    outputs: Mapping[str, Elements]
    """The outputs of floats."""
    not_followed: Counter[str]
    """What was executed in real numbers alone, with how often."""
    computed: npt.NDArray[np.uint64] | None
    """The keys (``PrimeField.keys``) of all results of instructions; None unless they were asked for."""


def run_in_field(
    program: Program,
    field: PrimeField,
    elements: Mapping[str, Elements],
    real: Mapping[str, Array],
    keep_results: bool = False,
) -> FieldOutcome:
    """Run a program of one size on one chip; RunFault when it stops with a fault.

    ``elements`` are the inputs of floats, ``real`` has numbers for all inputs.
    """
    import emulator

    loaded = emulator.Program(read_again(program.image, "prog.bin"), program.machine)
    system = loaded.start(real, field=field)
    run, windows = system.field_run, loaded.image.windows
    assert run is not None
    run.keep_results = keep_results
    for buffer in loaded.inputs:
        if buffer.name in elements:
            size = Format.parse(buffer.format).bits // 8
            run.ddr.write(_places(buffer, windows), size, elements[buffer.name])
    try:
        system.run(None)
    except emulator.Fault as fault:
        raise RunFault(str(fault)) from None
    run.check()
    found = {}
    for buffer in loaded.outputs:
        fmt = Format.parse(buffer.format)
        if fmt.is_float:
            found[buffer.name] = run.ddr.read(_places(buffer, windows), fmt)
    return FieldOutcome(found, run.not_followed, run.results() if keep_results else None)


def _places(buffer: Buffer, windows: Sequence[Window]) -> npt.NDArray[np.int64]:
    """The offsets of the elements of a compact buffer, in its shape."""
    first = ddr_offset(buffer.address, windows)
    assert first is not None
    size = Format.parse(buffer.format).bits // 8
    return first + np.arange(int(np.prod(buffer.shape))).reshape(buffer.shape) * size
