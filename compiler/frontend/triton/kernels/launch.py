"""A launch of a kernel: its grid, its arrays and its numbers, as they are known when it is compiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from compiler.codegen import DEFAULT_TILES
from compiler.frontend.triton.operations import TtirError, TtirKernel, TtirType
from tx8isa.machine.description import Machine
from tx8isa.tools.suggestions import hint

from .core.atomics import ATOMICS
from .values import ELEMENT_FORMATS, FLOAT_FORMATS, INTEGER_FORMATS, INTEGERS, TRUTH, Shape

DTYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "i1": "bool",
}
"""Types of arrays by the elements that a pointer points to."""

_MOST_PROGRAMS = 1 << 31


@dataclass(frozen=True)
class KernelLaunch:
    """The grid, the numbers and the arrays for which a kernel is compiled.

    ``grid``: the extents of its three axes, the first counting fastest. ``arrays``: the shapes of the
    arguments that are pointers. ``numbers``: the values of all others, floats for arguments of a float type.
    ``tiles``: the number of tiles; by default 16, or as many as the machine has, and one for a kernel with
    atomic operations. ``kept``: the arrays to which the kernel stores are inputs as well, so that elements
    that it does not store keep their values.
    """

    grid: tuple[int, int, int] = (1, 1, 1)
    arrays: Mapping[str, Shape] = field(default_factory=dict)
    numbers: Mapping[str, int | float] = field(default_factory=dict)
    tiles: int | None = None
    kept: bool = False
    behind: Mapping[str, tuple[tuple[str, Shape], ...]] = field(default_factory=dict)
    """Elements and shapes of the arrays whose addresses are in a list, by argument."""

    def listed(self) -> Iterator[tuple[str, str, Shape]]:
        """Yield name, element and shape of each array in a list of addresses."""
        for name, arrays in self.behind.items():
            for number, (element, shape) in enumerate(arrays):
                yield name_behind(name, number), element, shape


def name_behind(argument: str, number: int) -> str:
    """Return the name of an array whose address is element ``number`` of the list ``argument``."""
    return f"{argument}.{number}"


def not_computed(name: str, found: str) -> str:
    """Return why an array with elements of a type cannot be an argument, and what to pass."""
    found = "float64" if found == "f64" else found
    allowed = f"pass one of {', '.join(DTYPES.values())}, such as {name}.astype('float32')"
    return f"argument '{name}' is an array of {found}, which the chip does not compute with: {allowed}"


def check_launch(kernel: TtirKernel, launch: KernelLaunch, machine: Machine) -> int:
    """Return the number of tiles; TtirError for a launch that does not fit the kernel's parameters."""
    total = launch.grid[0] * launch.grid[1] * launch.grid[2]
    if min(launch.grid) < 1 or total > _MOST_PROGRAMS:
        found = "x".join(map(str, launch.grid))
        raise TtirError(
            f"{kernel.name}: grid {found}: expected extents of 1 and above, 2^31 programs at most"
        )
    names = [name for name, _ in kernel.parameters]
    for name in (*launch.arrays, *launch.numbers):
        if name not in names:
            known = ", ".join(names) or "none"
            raise TtirError(f"{kernel.name}: no argument '{name}'{hint(name, names)}; its arguments: {known}")
    for name, kind in kernel.parameters:
        _check_argument(kernel.name, name, kind, launch)
    tiles = min(DEFAULT_TILES, machine.tiles) if launch.tiles is None else launch.tiles
    if any(operation.name in ATOMICS for operation in kernel.body.walk()):
        if launch.tiles not in (None, 1):
            raise TtirError(
                f"{kernel.name}: {tiles} tiles: atomic operations run on one, in the programs' order"
            )
        tiles = 1
    if not 1 <= tiles <= machine.tiles:
        raise TtirError(f"{kernel.name}: {tiles} tiles: expected 1 to {machine.tiles}")
    return min(tiles, total)


def _check_argument(kernel: str, name: str, kind: TtirType, launch: KernelLaunch) -> None:
    if kind.pointer:
        if name not in launch.arrays:
            raise TtirError(
                f"{kernel}: argument '{name}' is an array of {kind.element}: its shape is missing"
            )
        if kind.element not in ELEMENT_FORMATS:
            raise TtirError(f"{kernel}: {not_computed(name, kind.element)}")
        return
    if kind.shape or kind.element not in (*INTEGERS, *FLOAT_FORMATS, TRUTH):
        allowed = f"pointers and numbers of {', '.join((*FLOAT_FORMATS, *INTEGER_FORMATS, TRUTH))}"
        raise TtirError(f"{kernel}: argument '{name}' of type {kind}; supported are {allowed}")
    if name not in launch.numbers:
        raise TtirError(f"{kernel}: argument '{name}' is a number of {kind.element}: its value is missing")
    number = launch.numbers[name]
    if kind.element in FLOAT_FORMATS:
        if not isinstance(number, float):
            raise TtirError(f"{kernel}: argument '{name}' is {number}: expected a float of {kind.element}")
        return
    bits = 1 if kind.element == TRUTH else int(kind.element[1:])
    if not isinstance(number, int) or not -(1 << (bits - 1)) <= number < 1 << bits:
        raise TtirError(f"{kernel}: argument '{name}' is {number}: expected an integer of {kind.element}")
