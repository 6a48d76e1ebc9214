"""From a kernel and its launch to a program: assembly, constants and image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import asm
from asm.image import Image, image_parts
from compiler.codegen import CONSTANTS_FILE, program, write_program
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.registers.spilling import OutOfRegisters, Spills, fitting
from compiler.codegen.registers.sums import Proofs
from compiler.codegen.schedule.phases import schedule
from compiler.codegen.spm import SpmOverflow
from compiler.frontend.triton.operations import TtirError, TtirKernel
from tx8isa.machine.description import Machine, load_machine
from tx8isa.numbers.formats import Format
from tx8isa.tools.command_line import one_line
from tx8isa.tools.files import Bytes

from .engines.memory import symbol_of
from .launch import DTYPES, KernelLaunch, check_launch
from .narrowing import narrowed
from .operations.handlers import HANDLERS
from .site import KernelSite, RunAhead
from .values import ELEMENT_FORMATS, TRUTH, Indices, KernelValue, Pointers, Shape, Splat, everywhere

_PREFIX = "k"
"""The first letter of the symbols in a kernel's code."""


@dataclass(frozen=True, repr=False)
class KernelProgram:
    """A compiled launch of a kernel. The text includes ``constants`` as the file ``prog.const``.

    ``addresses``: the arrays' places in DDR, in the engines' view, by the names of the arguments.
    """

    name: str
    text: str
    constants: Bytes
    image: Image
    machine: Machine
    addresses: Mapping[str, int]
    summary: str
    """The kernel, its grid, its numbers and the number of tiles."""

    def __str__(self) -> str:
        """One line: the kernel with its launch, and the size of its program."""
        lines = self.text.count("\n")
        return f"{self.summary}: {lines:,} lines of assembly, {len(self.constants):,} bytes of constants"

    @cached_property
    def image_file(self) -> Sequence[Bytes]:
        """Return the bytes of prog.bin in pieces."""
        return image_parts(self.image)

    def write(self, folder: Path, text_only: bool = False) -> None:
        """Write prog.s, prog.const, and prog.bin unless ``text_only``: all of them or none."""
        write_program(folder, self.text, self.constants, None if text_only else self.image_file)


def compile_kernel(kernel: TtirKernel, launch: KernelLaunch, machine: Machine | None = None) -> KernelProgram:
    """Compile one launch of a kernel.

    TtirError for arguments that do not fit the kernel's, for an operation that is not supported and for
    blocks that do not fit the scratchpad.
    """
    machine = machine if machine is not None else load_machine(None)
    tiles = check_launch(kernel, launch, machine)
    kernel = replace(kernel, body=narrowed(kernel.body))
    spm = min(machine.spm.reserved, machine.spm.bytes)
    target = Target(tiles, spm, Format.FP32, machine)
    sites: list[KernelSite] = []

    def made(ahead: RunAhead) -> Kernel:
        def make(spills: Spills) -> Kernel:
            code = Kernel(_PREFIX, target, spm, spills=spills)
            sites.append(_written(code, kernel, launch, ahead))
            code.place_buffers()
            return code

        return fitting(make)

    try:
        code = _first_that_fits(made)
    except (SpmOverflow, OutOfRegisters) as error:
        raise TtirError(f"{kernel.location}: {kernel.name}: {error}; use smaller blocks") from None
    return _Text(kernel, launch, sites[-1], code).made()


def _first_that_fits(made: Callable[[RunAhead], Kernel]) -> Kernel:
    """Return the code with the most work running ahead that fits."""
    for ahead in (RunAhead.PRODUCTS, RunAhead.LOADS):
        with suppress(SpmOverflow):
            return made(ahead)
    return made(RunAhead.NOTHING)


def _written(code: Kernel, kernel: TtirKernel, launch: KernelLaunch, ahead: RunAhead) -> KernelSite:
    """Write the code of all programs of the grid that a tile runs, one after the other."""
    across, down, deep = launch.grid
    code.registers.forms = Proofs()
    with code.items(across * down * deep) as number:
        place = (number % across, number // across % down, number // (across * down))
        held = (code.let(place[0]), code.let(place[1]), code.let(place[2]))
        kinds = dict(kernel.parameters)
        sizes = {name: _bytes(shape, kinds[name].element) for name, shape in launch.arrays.items()}
        sizes |= {name: _bytes(shape, element) for name, element, shape in launch.listed()}
        uses = Counter(name for each in kernel.body.walk() for name in each.operands)
        site = KernelSite(code, HANDLERS, held, launch.grid, sizes, uses=uses, ahead=ahead)
        site.python = kernel.location.python is not None
        site.locate(kernel.location)
        for name, kind in kernel.parameters:
            site.values[name] = _argument(name, kind.element, launch)
        site.run(kernel.body.operations)
        site.access.settle()
        site.locate(kernel.location)
    return site


def _argument(name: str, element: str, launch: KernelLaunch) -> KernelValue:
    if name in launch.arrays:
        return Pointers(name, element, Indices(0))
    number = launch.numbers[name]
    if element == TRUTH:
        return replace(everywhere(()), conditions=() if number else ((0, 0),))
    return Splat(float(number), element) if isinstance(number, float) else Indices(number)


class _Text:
    """The assembly of a launch, and its image."""

    def __init__(self, kernel: TtirKernel, launch: KernelLaunch, site: KernelSite, code: Kernel) -> None:
        self.kernel, self.launch, self.site, self.code = kernel, launch, site, code
        self.elements = {name: kind.element for name, kind in kernel.parameters if kind.pointer}

    def made(self) -> KernelProgram:
        """Return the program."""
        machine = self.code.target.machine
        data = program.Data(bank=machine.ddr.bank_bytes)
        for constant in self.code.constants:
            data.made(constant.symbol, constant.fmt, constant.key, constant.compute)
        for name, shape in self.launch.arrays.items():
            data.space(symbol_of(name), max(1, _bytes(shape, self.elements[name])))
        for name, element, shape in self.launch.listed():
            data.space(symbol_of(name), max(1, _bytes(shape, element)))
        constants = data.blob
        text = self._text(data)
        image = asm.assemble(text, "prog.s", machine=machine, given={CONSTANTS_FILE: constants})
        names = [*self.launch.arrays, *(name for name, *_ in self.launch.listed())]
        addresses = {name: image.symbols[symbol_of(name)].address for name in names}
        return KernelProgram(self.kernel.name, text, constants, image, machine, addresses, self._summary())

    def _text(self, data: program.Data) -> str:
        target, code = self.code.target, self.code
        names = {constant.symbol for constant in code.constants}
        (phase,) = schedule([(self.kernel.name, code)], names)
        parts: list[Sequence[str]] = [
            [f"# {one_line(self._summary())}; made by tx8cc", ""],
            [*data.out.lines, ""],
            program.prologue(target.tiles, target.machine.tiles),
            [*program.phase(phase.name, phase.lines()), ""],
            program.epilogue(),
            self.site.messages.lines(),
            self.site.addresses.lines(),
            [*self._records()],
            program.checksums(data.blob),
        ]
        return "\n".join(line for part in parts for line in part) + "\n"

    def _summary(self) -> str:
        grid = " x ".join(map(str, self.launch.grid))
        numbers = ", ".join(f"{name} = {number}" for name, number in self.launch.numbers.items())
        tiles = f"{self.code.target.tiles} tiles"
        return ", ".join(part for part in (self.kernel.name, f"grid {grid}", numbers, tiles) if part)

    def _records(self) -> Iterator[str]:
        """Yield the directives for arrays: a loaded one is an input, a stored one an output."""
        memory = self.site.memory
        inputs = memory.loaded | (memory.stored if self.launch.kept else set())
        for kind, names in (("input", inputs), ("output", memory.stored)):
            for name, shape in self.launch.arrays.items():
                if name in names:
                    yield _record(kind, name, self.elements[name], shape)
            for name, element, shape in self.launch.listed():
                yield _record(kind, name, element, shape)


def _record(kind: str, name: str, element: str, shape: Shape) -> str:
    return program.interface(kind, name, ELEMENT_FORMATS[element], shape, DTYPES[element], symbol_of(name))


def _bytes(shape: Shape, element: str) -> int:
    size = ELEMENT_FORMATS[element].bits // 8
    for extent in shape:
        size *= extent
    return size
