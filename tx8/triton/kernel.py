"""Kernels of Triton from their TTIR: compiled for each launch, run on the emulated chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from compiler.frontend.triton.kernels.launch import DTYPES, KernelLaunch, name_behind, not_computed
from compiler.frontend.triton.kernels.program import compile_kernel
from compiler.frontend.triton.operations import TtirError, TtirKernel
from compiler.frontend.triton.reader import parse_kernels, read_kernels
from tx8.program import Program
from tx8.run import Run
from tx8isa.machine.description import Machine
from tx8isa.tools.suggestions import hint

Array = np.ndarray[Any, np.dtype[Any]]

_AXES = 3


class Addresses:
    """A list of the addresses of arrays, as ``int64``: the argument for a pointer to pointers.

    The arrays receive the kernel's stores; they may be tensors of PyTorch.
    """

    dtype = "int64"

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.arrays: list[Array] = [_as_array(array) for array in arrays]

    def data_ptr(self) -> int:
        """Return 0: the list is not in the host's memory, and Triton only asks for the alignment."""
        return 0

    @property
    def shape(self) -> tuple[int]:
        """The number of addresses."""
        return (len(self.arrays),)


class TritonKernel:
    """A kernel that can be launched any number of times, each time from the reset state of the chip.

    It is compiled once for each grid, each shape of its arrays and each value of its numbers.
    """

    def __init__(self, kernel: TtirKernel, machine: Machine | None = None) -> None:
        self.kernel, self.machine = kernel, machine
        self._programs: dict[tuple[object, ...], Program] = {}
        self._addresses: dict[Program, Mapping[str, int]] = {}

    @property
    def name(self) -> str:
        """The kernel's name in the text."""
        return self.kernel.name

    @property
    def arguments(self) -> dict[str, str]:
        """The names and types of the kernel's arguments, as in TTIR."""
        return {name: str(kind) for name, kind in self.kernel.parameters}

    def program(self, grid: int | Sequence[int], *arguments: Any, tiles: int | None = None) -> Program:
        """Return the program of a launch with these arguments; TtirError for what cannot be compiled.

        Programs differ by the shapes and types of arrays, and by the values of numbers. The inputs are the
        arrays that the kernel loads or stores, the outputs the arrays that it stores.
        """
        parameters = self.kernel.parameters
        arguments = tuple(map(_as_array, arguments))
        if len(arguments) != len(parameters):
            expected = f"{len(parameters)}: {', '.join(self.arguments)}"
            raise TtirError(f"{self.name}: {len(arguments)} arguments, expected {expected}")
        arrays: dict[str, tuple[int, ...]] = {}
        behind: dict[str, tuple[tuple[str, tuple[int, ...]], ...]] = {}
        numbers: dict[str, int | float] = {}
        for (name, kind), argument in zip(parameters, arguments, strict=True):
            if kind.pointer and isinstance(argument, Addresses):
                arrays[name], behind[name] = argument.shape, _behind(self.name, name, kind.element, argument)
            elif kind.pointer:
                arrays[name] = _checked(self.name, name, kind.element, argument).shape
            else:
                numbers[name] = _number(self.name, name, kind.element, argument)
        launch = KernelLaunch(_grid(self.name, grid), arrays, numbers, tiles, kept=True, behind=behind)
        key = (launch.grid, *(tuple(each.items()) for each in (arrays, numbers, behind)), tiles)
        if key not in self._programs:
            made = compile_kernel(self.kernel, launch, self.machine)
            self._programs[key] = Program(made.image, made.machine, self.name)
            self._addresses[self._programs[key]] = made.addresses
        return self._programs[key]

    def launch(
        self, grid: int | Sequence[int], *arguments: Any, tiles: int | None = None, **options: Any
    ) -> Run:
        """Run one program of the kernel for each place of a grid of up to three axes.

        Arrays, and tensors of PyTorch, receive the kernel's stores; their other elements do not change.
        ``tiles``: the number of tiles used, by default 16. ``options`` are those of ``tx8.Program.run``, such
        as ``threads`` and ``timed``. TtirError for arguments that do not fit, Fault when a program stops.
        """
        program, named = self.bound(grid, *arguments, tiles=tiles)
        run = program.run({buffer.name: _signed(named[buffer.name]) for buffer in program.inputs}, **options)
        for name, result in run.outputs.items():
            np.copyto(named[name], result.astype(named[name].dtype))
        return run

    def bound(
        self, grid: int | Sequence[int], *arguments: Any, tiles: int | None = None
    ) -> tuple[Program, dict[str, Any]]:
        """Return the program of a launch and the arrays by the names of its inputs and outputs."""
        arguments = tuple(map(_as_array, arguments))
        program = self.program(grid, *arguments, tiles=tiles)
        named = dict(zip(self.arguments, arguments, strict=True))
        for name, listed in list(named.items()):
            if isinstance(listed, Addresses):
                names = [name_behind(name, number) for number in range(len(listed.arrays))]
                named[name] = np.array([self._addresses[program][each] for each in names], np.int64)
                named |= dict(zip(names, listed.arrays, strict=True))
        return program, named

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}: {kind}" for name, kind in self.arguments.items())
        return f"<tx8.TritonKernel {self.name}({listed})>"


def triton_kernel(
    source: str | Path, name: str | None = None, machine: Machine | None = None
) -> TritonKernel:
    """Read a kernel from TTIR: a file, or the text itself if it has more than one line.

    ``name`` chooses one of several. TtirError for a text that is not TTIR and for a kernel that is not there.
    """
    text = str(source)
    kernels = parse_kernels(text) if "\n" in text else _read(Path(source))
    names = [kernel.name for kernel in kernels]
    if name is None and len(kernels) > 1:
        raise TtirError(f"several kernels: {', '.join(names)}; choose one by its name")
    if name is not None and name not in names:
        raise TtirError(f"no kernel '{name}'{hint(name, names)}; there are {', '.join(names)}")
    return TritonKernel(kernels[0 if name is None else names.index(name)], machine)


def _read(path: Path) -> tuple[TtirKernel, ...]:
    try:
        return read_kernels(path)
    except OSError as error:
        raise TtirError(f"{path}: {error.strerror or error}") from None


def _as_array(value: Any) -> Any:
    """Return a tensor of PyTorch as an array of NumPy in the same memory; other values unchanged."""
    if not hasattr(value, "detach"):
        return value
    import torch

    tensor = value.detach()
    if tensor.device.type != "cpu":
        raise TtirError(f"a tensor on the device '{tensor.device}': expected one on the CPU")
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(bfloat16)
    return tensor.numpy()


def _behind(
    kernel: str, name: str, element: str, listed: Addresses
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the elements and shapes of the arrays in a list of addresses."""
    if element != "i64":
        raise TtirError(f"{kernel}: argument '{name}' points to {element}: addresses are i64")
    if not listed.arrays:
        raise TtirError(f"{kernel}: argument '{name}' is an empty list of addresses: expected one at least")
    elements = {dtype: element for element, dtype in DTYPES.items()}
    found = []
    for number, array in enumerate(listed.arrays):
        if not isinstance(array, np.ndarray) or _signed(array).dtype.name not in elements:
            kind = array.dtype.name if isinstance(array, np.ndarray) else type(array).__name__
            allowed = ", ".join(elements)
            what = f"array {number} of argument '{name}' is {kind}"
            raise TtirError(f"{kernel}: {what}; supported are {allowed}")
        own = elements[_signed(array).dtype.name]
        found.append((own, _checked(kernel, name_behind(name, number), own, array).shape))
    return tuple(found)


def _checked(kernel: str, name: str, element: str, array: Any) -> Array:
    """Check that the kernel can load from an array and store to it."""
    if not isinstance(array, np.ndarray):
        raise TtirError(
            f"{kernel}: argument '{name}' is a {type(array).__name__}: expected an array of NumPy or a tensor"
        )
    if element not in DTYPES:
        raise TtirError(f"{kernel}: {not_computed(name, element)}")
    expected = DTYPES[element]
    if _signed(array).dtype.name != expected:
        raise TtirError(f"{kernel}: argument '{name}' is an array of {array.dtype.name}: expected {expected}")
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise TtirError(f"{kernel}: argument '{name}' has gaps or is read-only: give a copy")
    return array


def _signed(array: Array) -> Array:
    """View an array of unsigned integers as signed ones, since TTIR's types have no sign."""
    return array.view(array.dtype.name[1:]) if array.dtype.kind == "u" else array


def _number(kernel: str, name: str, element: str, value: Any) -> int | float:
    """Convert a number to the type of an argument."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, int | float):
        raise TtirError(f"{kernel}: argument '{name}' is a {type(value).__name__}: expected a number")
    return float(value) if element.startswith(("f", "b")) else value


def _grid(kernel: str, grid: int | Sequence[int]) -> tuple[int, int, int]:
    extents = (grid,) if isinstance(grid, int) else tuple(grid)
    if not 1 <= len(extents) <= _AXES:
        raise TtirError(f"{kernel}: grid {grid}: expected one to three extents")
    across, down, deep = (*extents, *(1,) * (_AXES - len(extents)))
    return across, down, deep
