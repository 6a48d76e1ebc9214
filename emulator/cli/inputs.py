"""The arrays of a run's inputs: those of --input, and random ones."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from emulator.memory.buffers import Array, InputError, travel_dtype
from emulator.memory.shapes import known_sizes, sized, usual_sizes
from emulator.program import Program, chip_name
from tx8isa.errors import Tx8Error
from tx8isa.tools.arrays import read_npy
from tx8isa.tools.command_line import named_file, note

from .arrays import random_arrays
from .options import make_parser


def read_inputs(options: argparse.Namespace, program: Program, say: bool = False) -> dict[str, Array]:
    """Return the arrays of --input, and with --random random ones for the other inputs."""
    given = _given(options.input, program)
    shapes = program.image.shapes  # random arrays have the usual sizes, or the sizes of the given ones
    sizes = usual_sizes(shapes) | (known_sizes(shapes, program.inputs, given) if shapes else {})
    buffers = [sized(shapes, buffer, sizes) for buffer in program.inputs]
    wanted = [(buffer.name, buffer.shape, travel_dtype(buffer)) for buffer in buffers]
    if program.chips > 1:  # each chip gets arrays of its own
        kept = [(chip, one) for chip in range(program.chips) for one in wanted if one[0] not in given]
        wanted = [(chip_name(chip, name), shape, dtype) for chip, (name, shape, dtype) in kept]
    missing = [name for name, _, _ in wanted if name not in given]
    if options.random is None or not missing:
        return given
    if say and not options.quiet:
        note(f"tx8emu: random inputs (seed {options.random}): {', '.join(missing)}")
    return random_arrays(wanted, given, options.random)


def _given(arguments: Iterable[str], program: Program) -> dict[str, Array]:
    known = [buffer.name for buffer in program.inputs]
    known += program.names_of_chips(known)
    inputs: dict[str, Array] = {}
    for argument in arguments:
        found = named_file(argument, known)
        if found is None:
            make_parser().error(f"argument --input: '{argument}' is not NAME=FILE.npy")
        name, file = found
        if name in inputs:
            raise InputError(f"input '{name}' is given twice")
        inputs[name] = read_npy(file)
    return inputs


def chosen_entry(options: argparse.Namespace, program: Program) -> Program:
    """Return the network that ``--entry`` names.

    All for a session, whose steps choose; Tx8Error without one.
    """
    if options.entry is not None:
        return program.of_entry(options.entry)
    if program.entries and not options.session:
        raise Tx8Error(f"{options.program} has the entries {', '.join(program.entries)}: --entry chooses one")
    return program
