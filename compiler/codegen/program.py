"""The text of a program: data in DDR, the prologue that gives every tile its number, the phases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from asm.instructions.text import quote
from asm.place import SECTION_GRAIN
from asm.syntax.source import checksum
from compiler.codegen import CONSTANTS_FILE
from compiler.graph import Array, Shape
from tx8isa.machine.description import Machine
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES
from tx8isa.tools.files import Bytes
from tx8isa.tools.growing import GrowingBytes

from .emitter import Emitter
from .phase import Source
from .registers import TILE

START = "_start"
"""Symbol of the first instruction."""
SHAPE_BLOCK = "io.shapes"
"""The symbol of the shape block: sizes of a run, which its inputs or the program decide."""
SHAPE_WORD = 8
"""Bytes of a size in the shape block."""
_STAGES = "chips.stages"
"""Symbol of the table that has the stage of each chip."""
_FIRST_COPY = "first.copy"
"""Symbol of the DDR for ``first_copy``: a line that all tiles read, and one that each tile writes."""


@dataclass
class Data:
    """The directives of DDR data and the bytes of the constants' file."""

    bank: int
    """Bytes of a DDR bank; variables and large constants begin at one."""
    large: int = 0
    """Bytes from which a constant is large; 0: as many as a bank has."""
    out: Emitter = field(default_factory=Emitter)
    _bytes: GrowingBytes = field(default_factory=GrowingBytes)
    """The bytes of the constants' file."""
    _known: dict[tuple[Format, bytes], list[tuple[str, int]]] = field(default_factory=dict)
    """Symbols and file offsets of constants by a key that equal ones share."""
    _sources: dict[Source, str] = field(default_factory=dict)
    """Symbols of constants by the identity of their data."""
    _shared: dict[str, int] = field(default_factory=dict)
    """Bytes of the memory that several phases and networks have, by its symbol."""

    @property
    def blob(self) -> Bytes:
        """The constants' file. It is the section .ddr as well, so neither assembler nor image copy it."""
        return self._bytes.read_only()

    def space(self, symbol: str, size: int) -> None:
        """DDR for values that the program computes, zero at the start."""
        self.out.directive(".section .ddr.bss")
        self.out.directive(f".balign {self.bank}")
        self.out.label(symbol)
        self.out.directive(f".space {size}")

    def share(self, symbol: str, size: int) -> None:
        """Reserve DDR that several phases and networks share, as large as the largest of them needs.

        ``shared_spaces`` writes it.
        """
        self._shared[symbol] = max(self._shared.get(symbol, 0), size)

    def shared_spaces(self) -> None:
        """Write the directives of the shared memory."""
        for symbol, size in self._shared.items():
            self.space(symbol, size)

    def part(self, symbol: str, base: str, offset: int) -> None:
        """A symbol for an address after another symbol."""
        self.out.directive(f".equ {symbol}, {base}{offset:+#x}")

    def constant(self, symbol: str, fmt: Format, shape: Shape, data: Array, own: bool = False) -> None:
        """Append constant data to the constants' file unless it has them already; with ``own``, in any case.

        The assembler puts them at the same offset in the section .ddr as in the file.
        """
        alike = [] if own else self._known.setdefault((fmt, sample(data)), [])
        first = next((other for other, begin in alike if self._has(begin, data)), None)
        if first is not None:
            self.part(symbol, first, 0)
            return
        if data.nbytes >= (self.large or self.bank):
            self.out.directive(".section .ddr")
            self.out.directive(f".balign {self.bank}")
        self._bytes.extend(-len(self._bytes) % SECTION_GRAIN)
        offset = len(self._bytes)
        alike.append((symbol, offset))
        self._bytes.extend(data.nbytes).view(data.dtype).reshape(data.shape)[...] = data
        self.out.directive(f'.const {symbol}, {fmt.token}, {extents(shape)}, "{CONSTANTS_FILE}", {offset}')

    def made(self, symbol: str, fmt: Format, key: Source | None, make: Callable[[], Array]) -> None:
        """Constant data that ``make`` computes, unless there is a constant with the same ``key`` already."""
        first = self._sources.get(key) if key else None
        if first is not None:
            self.part(symbol, first, 0)
            return
        if key:
            self._sources[key] = symbol
        data = make()
        self.constant(symbol, fmt, data.shape, data)

    def _has(self, begin: int, data: Array) -> bool:
        """True if the file has these elements at a place; keeps no view, because a file with views cannot
        grow."""
        return same_bits(self._bytes.view(begin, data.nbytes).view(data.dtype), data)


def checksums(constants: Bytes) -> list[str]:
    """Lines by which the assembler refuses constants that were not written with the text."""
    return [f'    .checksum "{CONSTANTS_FILE}", "{checksum(constants)}"'] if constants else []


_SAMPLES = 64
_COMPARED = 1 << 20
"""Elements that are compared at a time, so that an early difference is found early."""


def sample(data: Array) -> bytes:
    """A key of an array, equal for equal arrays: dtype, size and some of the elements."""
    size = data.size
    some = data.flat[:: max(1, size // _SAMPLES)] if size else data.reshape(-1)
    return f"{data.dtype.str} {size} ".encode() + np.ascontiguousarray(some).tobytes()


def same_bits(one: Array, other: Array) -> bool:
    """True if two arrays have the same elements bit by bit; their shapes do not matter."""
    if one.dtype != other.dtype or one.size != other.size:
        return False
    if one.shape == other.shape and one.strides == other.strides and one.ctypes.data == other.ctypes.data:
        return True  # the same memory: several networks read a constant from one file
    bits = np.dtype(f"u{one.dtype.itemsize}")
    flat = [np.ascontiguousarray(array).reshape(-1).view(bits) for array in (one, other)]
    return all(
        np.array_equal(flat[0][begin : begin + _COMPARED], flat[1][begin : begin + _COMPARED])
        for begin in range(0, one.size, _COMPARED)
    )


def interface(kind: str, name: str, fmt: Format, shape: Shape, dtype: str, place: str | None) -> str:
    """The directive of an input or output that begins at a symbol, its ``place``, and may have any name.

    Without a place the directive reserves memory, whose symbol is the name.
    """
    form = f"{fmt.token}, {extents(shape)}, {layout_of(shape)}, {dtype}"
    if place is None:
        return f"        .{kind} {name}, {form}"
    return f"        .buffer {kind}, {quote(name)}, {form}, {place}"


def entry_record(name: str) -> str:
    """The directive that records where one of several networks starts; its buffers follow."""
    return f"        .entry_point {quote(name)}, {name}.{START}"


def layout_of(shape: Shape) -> str:
    """The name of the compact layout for a shape."""
    return "ntensor" if len(shape) > 1 and shape[0] > 1 else "tensor"


def extents(shape: Shape) -> str:
    """A shape as assembly text."""
    return "x".join(map(str, shape)) or "scalar"


def prologue(tiles: int, machine_tiles: int, scope: str = "") -> list[str]:
    """Puts the tile's number into its register, and ends all tiles that the program does not use.

    ``scope`` is the prefix of the symbols of a program that is one of several networks.
    """
    out = Emitter()
    out.directive(".text")
    out.directive(f".globl {scope}{START}")
    out.label(f"{scope}{START}")
    out.instruction("csrr", TILE, "mhartid")
    out.instruction("li", "t0", str(machine_tiles))
    out.instruction("remu", TILE, TILE, "t0")
    if tiles < machine_tiles:
        out.instruction("li", "t0", str(tiles))
        out.instruction("bltu", TILE, "t0", "1f")
        _exit(out)
        out.label("1")
    return out.lines


_PRIORITY = 0x760
"""Register of a worker: the smallest number is served first (docs/isa.md, Registers of the NCC)."""


def dispatch(stages: Sequence[int], tiles: int, scopes: Sequence[str], scope: str = "") -> list[str]:
    """The start of a program whose chips begin at different places; ``stages`` has the stage of each chip.

    ``scopes`` are the prefixes of the stages' symbols, ``scope`` is that of one of several networks.
    """
    out = Emitter()
    out.directive(".section .rodata")
    out.directive(".balign 4")
    out.label(scope + _STAGES)
    out.directive(f".word {', '.join(map(str, stages))}")
    out.directive(".text")
    out.directive(f".globl {scope}{START}")
    out.label(scope + START)
    out.instruction("csrr", "t0", "mhartid")
    out.instruction("li", "t1", str(tiles))
    out.instruction("divu", "t0", "t0", "t1")
    out.instruction("slli", "t0", "t0", "2")
    out.instruction("la", "t1", scope + _STAGES)
    out.instruction("add", "t1", "t1", "t0")
    out.instruction("lw", "t0", "0(t1)")
    for number, place in enumerate(scopes):
        out.instruction("li", "t1", str(number))
        out.instruction("bne", "t0", "t1", "1f")
        out.instruction("la", "t2", f"{place}{START}")
        out.instruction("jr", "t2")
        out.label("1")
    _exit(out)
    return out.lines


def background_workers(machine: Machine) -> list[str]:
    """Let engines take the instructions of workers other than 0 when worker 0 has none for them."""
    out = Emitter()
    out.instruction("li", "t0", "1")
    for worker in range(1, machine.tile.workers):
        register = machine.windows.ncc + worker * machine.windows.ncc_stride + _PRIORITY
        out.instruction("li", "t1", hex(register))
        out.instruction("sd", "t0", "0(t1)")
    return out.lines


def first_copy(data: Data, tiles: int, scope: str = "") -> list[str]:
    """Let the DTE of every tile copy a line of DDR; no tile waits for the copy.

    The first copy of a tile takes several times as long as later ones; this one overlaps with the first
    phases.
    """
    data.space(scope + _FIRST_COPY, (tiles + 1) * LINE_BYTES)
    out = Emitter()
    out.instruction("la", "t0", scope + _FIRST_COPY)
    out.instruction("addi", "t1", TILE, "1")
    out.instruction("slli", "t1", "t1", str(LINE_BYTES.bit_length() - 1))
    out.instruction("add", "t1", "t1", "t0")
    out.instruction("dte.unicast", f"dst=t1, src=t0, tile=0, n={LINE_BYTES}")
    return out.lines


def _exit(out: Emitter) -> None:
    """End the tile with status 0 (the RISC-V Linux system call exit)."""
    out.instruction("li", "a0", "0")
    out.instruction("li", "a7", "93")
    out.instruction("ecall")


def epilogue() -> list[str]:
    """Waits for the last stores and ends the tile with status 0."""
    out = Emitter()
    out.instruction("ncc.wait")
    _exit(out)
    return out.lines


def phase(node: str, lines: Iterable[str]) -> list[str]:
    """The code of one graph node."""
    return ["", node_line(node), *lines]


def node_line(node: str) -> str:
    """The directive by which the instructions after it count for a graph node."""
    return f"        .node {quote(node)}"
