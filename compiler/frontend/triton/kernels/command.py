"""Kernels of Triton on the command line of tx8cc: grid and arguments from its options."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from compiler.frontend.triton.operations import TtirError, TtirKernel
from compiler.frontend.triton.reader import read_kernels
from tx8isa.machine.description import Machine
from tx8isa.tools.suggestions import hint

from .launch import KernelLaunch
from .program import KernelProgram, compile_kernel
from .values import FLOAT_FORMATS, Shape

_AXES = 3


def compile_launch(path: Path, options: argparse.Namespace, machine: Machine) -> KernelProgram:
    """Compile the launch that the options describe; TtirError for options that do not fit, OSError."""
    kernels = read_kernels(path)
    if len(kernels) > 1:
        raise TtirError(f"{path}: {len(kernels)} kernels; expected one")
    (kernel,) = kernels
    shapes, numbers = _arguments(kernel, options.arguments)
    launch = KernelLaunch(_grid(options.grid), shapes, numbers, options.tiles)
    return compile_kernel(kernel, launch, machine)


def _grid(text: str | None) -> tuple[int, int, int]:
    if text is None:
        return 1, 1, 1
    extents = _extents(text)
    if extents is None or len(extents) > _AXES:
        raise TtirError(f"--grid {text}: expected one to three extents of 1 and above, as in 4x2")
    across, down, deep = (*extents, *(1,) * (_AXES - len(extents)))
    return across, down, deep


def _extents(text: str) -> Shape | None:
    """Parse the extents in ``64x32``; None for another text."""
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text):
        return None
    return tuple(map(int, text.split("x")))


def _arguments(kernel: TtirKernel, texts: list[str]) -> tuple[dict[str, Shape], dict[str, int | float]]:
    """Return the shapes of arrays and the values of numbers by the names of the arguments."""
    shapes: dict[str, Shape] = {}
    numbers: dict[str, int | float] = {}
    kinds = dict(kernel.parameters)
    for text in texts:
        name, _, value = text.partition("=")
        if name not in kinds:
            known = ", ".join(kinds) or "none"
            raise TtirError(f"--arg {text}: no argument '{name}'{hint(name, kinds)}; there are {known}")
        if name in shapes or name in numbers:
            raise TtirError(f"--arg {text}: argument '{name}' is given twice")
        if kinds[name].pointer:
            extents = _extents(value)
            if extents is None:
                raise TtirError(f"--arg {text}: '{name}' is an array; expected its shape, as in 64x32")
            shapes[name] = extents
        else:
            numbers[name] = _number(text, value, kinds[name].element)
    return shapes, numbers


def _number(text: str, value: str, element: str) -> int | float:
    try:
        return float(value) if element in FLOAT_FORMATS else int(value, 0)
    except ValueError:
        kind = "a number" if element in FLOAT_FORMATS else "an integer"
        raise TtirError(f"--arg {text}: expected {kind} of {element}") from None
