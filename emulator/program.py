"""Programs as a user handles them: load an image, give it arrays, get arrays back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from asm.image import Buffer, Image, ddr_offset, read_image
from tx8isa.errors import Tx8Error
from tx8isa.formats import Format
from tx8isa.layouts import Layout, place
from tx8isa.machine import Machine, load_machine
from tx8isa.packing import pack, storage_dtype, unpack

from .system import System

Array = np.ndarray[Any, Any]


class InputError(Tx8Error):
    """An input that is missing, unknown, or not of the declared shape or type."""


class Program:
    """A program image ready to run; each ``run`` starts from the reset state."""

    def __init__(self, image: Image, machine: Machine) -> None:
        self.image, self.machine = image, machine

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return tuple(b for b in self.image.buffers if b.kind == "input")

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        return tuple(b for b in self.image.buffers if b.kind == "output")

    def start(
        self, inputs: Mapping[str, Array], *, serial: bool = False, threads: int = 1,
        show: Callable[[bytes], None] = lambda data: None,
    ) -> System:  # fmt: skip
        """A system with the program loaded and the inputs in place; InputError when they do not fit."""
        packed = [(buffer, _packed(buffer, inputs)) for buffer in self.inputs]
        unknown = sorted(set(inputs) - {b.name for b in self.inputs})
        if unknown:
            names = ", ".join(b.name for b in self.inputs) or "none"
            raise InputError(f"the program has no input '{unknown[0]}'; its inputs: {names}")
        system = System(self.image, self.machine, serial=serial, threads=threads, show=show)
        for buffer, data in packed:
            at = self._at(buffer)
            system.ddr[at : at + data.size] = data
        return system

    def results(self, system: System) -> dict[str, Array]:
        """The outputs of a finished system, by name."""
        return {buffer.name: self._unpacked(buffer, system) for buffer in self.outputs}

    def run(
        self, inputs: Mapping[str, Array] | None = None, *, serial: bool = False, threads: int = 1,
        max_instructions: int | None = None,
    ) -> dict[str, Array]:  # fmt: skip
        """Run to the end on the given inputs; outputs by name. InputError, or Fault from the program."""
        system = self.start(inputs or {}, serial=serial, threads=threads)
        system.run(max_instructions)
        return self.results(system)

    def _at(self, buffer: Buffer) -> int:
        offset = ddr_offset(buffer.address, self.image.windows)
        if offset is None:
            raise AssertionError("an image's addresses were checked when it was read")
        return offset

    def _unpacked(self, buffer: Buffer, system: System) -> Array:
        fmt, layout = Format.parse(buffer.format), Layout.parse(buffer.layout)
        at = self._at(buffer)
        size = place(fmt, buffer.shape or (1,), layout).total_bytes
        array = unpack(system.ddr[at : at + size], fmt, buffer.shape, layout)
        return array.astype(travel_dtype(buffer))


def travel_dtype(buffer: Buffer) -> np.dtype[Any]:
    """The dtype of the array (and .npy file) a buffer is filled from or read into.

    NumPy files do not know bfloat16: it travels as float32.
    """
    if buffer.dtype is not None and buffer.dtype != "bfloat16":
        return np.dtype(buffer.dtype)
    if buffer.dtype == "bfloat16" or Format.parse(buffer.format) is Format.BF16:
        return np.dtype(np.float32)
    return storage_dtype(Format.parse(buffer.format))


def _packed(buffer: Buffer, inputs: Mapping[str, Array]) -> Array:
    expected = travel_dtype(buffer)
    wanted = f"{_shape(buffer.shape)} {expected}"
    if buffer.name not in inputs:
        raise InputError(f"input '{buffer.name}' ({wanted}) is missing: give --input {buffer.name}=FILE.npy")
    array = np.asarray(inputs[buffer.name])
    if array.shape != buffer.shape or array.dtype != expected:
        raise InputError(f"input '{buffer.name}' is {_shape(array.shape)} {array.dtype}, expected {wanted}")
    fmt, layout = Format.parse(buffer.format), Layout.parse(buffer.layout)
    return pack(array.astype(storage_dtype(fmt)), fmt, layout)


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(str(extent) for extent in shape) if shape else "scalar"


def load(path: str | Path, machine: Machine | None = None) -> Program:
    """Read a program image; ImageError when it is not one or was damaged."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Tx8Error(f"{path}: cannot be read: {error.strerror}") from None
    return Program(read_image(data, str(path)), machine or load_machine(None))
