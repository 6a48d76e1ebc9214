"""Sections and symbols while a program is read, and their final addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from asm.image.chips import OF_CHIPS
from asm.instructions.constants import low12
from asm.instructions.reach import PAIR_HIGH, PAIR_LOW
from asm.instructions.scalar import distance
from asm.syntax.expressions import (
    Address,
    Atom,
    CircularValue,
    Node,
    UnknownValue,
    Value,
    evaluate,
    number_of,
)
from asm.syntax.source import Source
from tx8isa.machine.description import Machine
from tx8isa.riscv.registers import REGISTERS
from tx8isa.tools.budget import BYTES, STEPS
from tx8isa.tools.files import Bytes
from tx8isa.tools.suggestions import did_you_mean

from .diagnostics import Fault

SECTION_GRAIN = 4096
"""Every section starts on a multiple of this DDR offset, so an alignment in a section cannot be larger."""

DDR = ".ddr"
"""Sections of this name, or beginning with it and a dot, are addressed in the engines' view."""

DDR_ZERO = ".ddr.bss"
"""Inputs and outputs: zeros that need no room in the file, wherever the text declares the constants."""

LOCAL = "\x02"
"""Separates number and count in the names of numeric labels."""


class Volume:
    """Counts the bytes by which a program exceeds the size of its files; Fault above the limit.

    So a short text cannot occupy the machine for minutes, nor fill its memory.
    """

    MOST_LINES = 200_000
    MOST_CHARACTERS = STEPS
    MOST_PARSED = STEPS // 2
    MOST_BYTES = BYTES

    def __init__(self) -> None:
        self.lines = self.characters = self.parsed = self.bytes = 0

    def expand(self, lines: Sequence[str]) -> None:
        """Count the lines that a macro, a repetition or a file included once more brings in."""
        self.lines += len(lines)
        self.characters += sum(map(len, lines))
        for found, most, what in (
            (self.lines, self.MOST_LINES, "lines"),
            (self.characters, self.MOST_CHARACTERS, "characters"),
        ):
            if found > most:
                raise VolumeFault(f"macros, repetitions and repeated files make more than {most} {what}")

    def parse(self, characters: int) -> None:
        """Count the operands with operators and parentheses in such lines, which take longest to parse."""
        self.parsed += characters
        if self.parsed > self.MOST_PARSED:
            message = f"macros and repetitions make more than {self.MOST_PARSED} characters of expressions"
            raise VolumeFault(message, "compute the value once, with .equ")

    def fill(self, size: int) -> None:
        """Count bytes of the image that come from no text and no file: filled or padded."""
        needed = self.bytes + size
        if needed > self.MOST_BYTES:
            message = f"fills and padding need {needed} bytes in the image; allowed are {self.MOST_BYTES}"
            raise Fault(message, None, "zeros at the end of a section need none: reserve them last")
        self.bytes = needed


class VolumeFault(Fault):
    """A program beyond its ``Volume``: the rest of the text is not read."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message, None, help)


@dataclass(eq=False)
class Section:
    """Bytes at one place. ``tail``: zero bytes after ``data`` that need no room in a file."""

    name: str
    flags: str
    nobits: bool = False
    data: bytearray = field(default_factory=bytearray)
    tail: int = 0
    base: int | None = None
    rows: list[int] = field(default_factory=list)
    """Offsets of the instructions; ``row_lines`` their lines."""
    row_lines: list[int] = field(default_factory=list)
    file: str | None = None
    row_files: list[tuple[int, str | None]] = field(default_factory=list)
    """(first row, file) at every change of the file; None: the rows have no line."""
    row_nodes: list[tuple[int, str]] = field(default_factory=list)
    """(first row, graph node) at every change of the node; an empty name for none."""
    marks: list[int] = field(default_factory=lambda: [-1, -1])
    """Start and end of each range that is not RISC-V code, after a pair that is not a range."""
    volume: Volume = field(default_factory=Volume)
    """Shared by all sections of a program."""
    view: memoryview | None = None
    """The bytes while they begin an included file, which is not copied; ``data`` is then empty."""

    @property
    def size(self) -> int:
        return len(self.content) + self.tail

    @property
    def content(self) -> bytearray | memoryview:
        """The bytes of the section that are in the file of the image."""
        return self.data if self.view is None else self.view

    @property
    def here(self) -> Address:
        return Address(self.name, self.size)

    @property
    def far(self) -> bool:
        """Return True if the section is addressed in the engines' view."""
        return self.name == DDR or self.name.startswith(DDR + ".")

    def reserve(self, size: int) -> None:
        """Append zero bytes."""
        self.mark_data(size)
        self.tail += size

    def append(self, data: Bytes) -> None:
        """Append bytes that are not instructions."""
        if self.nobits and any(data):
            raise Fault(f"section {self.name} holds no data", None, "use .space here, or another section")
        if self.nobits:
            self.tail += len(data)
            return
        self.flatten()
        self.mark_data(len(data))
        self.data += data

    def include(self, file: Bytes, begin: int, size: int) -> None:
        """Append bytes of an included file.

        Nothing is copied as long as the section is the beginning of the file. The bytes then have the same
        place in both, and the file has zeros where the section reserves bytes.
        """
        whole = memoryview(file).toreadonly()
        here, goes_on = len(self.content), begin == self.size and self.flags != "rx" and not self.nobits
        same = not self.data if self.view is None else self.view.obj is whole.obj
        if goes_on and same and not any(whole[here:begin]):
            self.view, self.tail = whole[: begin + size], 0
        else:
            self.append(whole[begin : begin + size])

    def flatten(self) -> None:
        """Replace the reserved bytes at the end by bytes of the file."""
        if self.view is not None:
            self.data, self.view = bytearray(self.view), None
        if self.tail:
            self.volume.fill(self.tail)
            self.data += bytes(self.tail)
            self.tail = 0

    def mark_data(self, size: int, here: int | None = None) -> None:
        """Mark bytes as no RISC-V code, by default the next ones."""
        here = self.size if here is None else here
        if self.flags == "rx" and size:
            if self.marks[-1] == here:
                self.marks[-1] = here + size
            else:
                self.marks += (here, here + size)


@dataclass(eq=False)
class SymbolEntry:
    """A name. ``value`` None: declared only, or the value of ``node`` with ``atoms`` where it was defined."""

    value: Value | None = None
    node: Node | None = None
    atoms: Sequence[str] = ()
    place: Spot | None = None
    size: int = 0
    kind: str = "notype"
    binding: str = "local"
    variable: bool = False
    where: str = ""
    source: Source | None = None
    index: int = 0
    """Line of ``source`` that defines it by an expression."""
    busy: bool = False

    @property
    def defined(self) -> bool:
        return self.value is not None or self.node is not None


@dataclass(slots=True, eq=False)
class Spot:
    """The scope of a statement's expressions: the program, and the address of the statement."""

    program: Program
    at: Address

    @property
    def here(self) -> Value:
        return self.program.settle(self.at)

    def is_far(self, section: str) -> bool:
        return self.program.sections[section].far

    def is_weak(self, name: str) -> bool:
        symbol = self.program.symbols.get(name)
        return symbol is not None and symbol.binding == "weak"

    def is_missing(self, name: str) -> bool:
        symbol, others = self.program.symbols.get(name), {name}
        while symbol is not None and isinstance(symbol.node, Atom):  # it represents another one
            name = symbol.atoms[symbol.node.index]
            symbol = self.program.symbols.get(name) if name not in others else None
            others.add(name)
        return symbol is not None and symbol.binding == "weak" and not symbol.where

    def is_number(self, name: str) -> bool:
        symbol = self.program.symbols.get(name)
        return symbol is not None and isinstance(symbol.value, int)

    def value_of(self, name: str, at: int) -> Value:
        return self.here if name == "." else self.program.lookup(name, at)

    def apply(self, function: str, argument: Value, at: int) -> Value:
        program = self.program
        if function not in FUNCTIONS:
            raise _unknown_function(function, at)
        if function.startswith(("pcrel_", "tprel_")) and not program.closed:
            raise UnknownValue("the distance to a symbol", at)
        if function == "pcrel_hi":
            return program.keep_distance(number_of(self.here), distance(argument, self.here, 0), at)
        value = number_of(argument, at)
        if function == "pcrel_lo":
            return low12(program.distance_from(value, at))
        if function.startswith("tprel_"):
            value, function = value - program.thread_base(), function.removeprefix("tprel_")
        if function == "hi":
            return upper20(value, at)
        return low12(value) if function == "lo" else program.other_view(function, value, at)


def upper20(value: int, at: int) -> int:
    """The operand of lui that a signed 12-bit immediate completes; Fault beyond 32 signed bits."""
    if not -(1 << 31) <= value + 0x800 < 1 << 31:
        help = "use la, or %pcrel_hi with auipc"
        raise Fault(f"%hi: {value:#x} is beyond lui, which reaches 32 signed bits", at, help)
    return value + 0x800 >> 12 & 0xFFFFF


FUNCTIONS = ("hi", "lo", "pcrel_hi", "pcrel_lo", "tprel_hi", "tprel_lo", "ncc", "core")
_TABLES = ("got_pcrel_hi", "tls_ie_pcrel_hi", "tls_gd_pcrel_hi")


def _unknown_function(function: str, at: int) -> Fault:
    if function == "plt":
        return Fault("@plt belongs to the target of call and tail", at)
    if function in _TABLES:
        message = f"%{function} is a place in a table of addresses, which an image does not have"
        return Fault(message, at, "compile without -fPIC and with -ftls-model=local-exec")
    known = [f"%{name}" for name in FUNCTIONS]
    return Fault(
        f"unknown function %{function}",
        at,
        did_you_mean("%" + function, known) or f"known: {' '.join(known)}",
    )


class Program:
    """All sections and symbols of a program."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.volume = Volume()
        self.sections: dict[str, Section] = {".text": Section(".text", "rx", volume=self.volume)}
        self.symbols: dict[str, SymbolEntry] = {}
        self.counts: dict[str, int] = {}
        self.closed = False
        """True once the layout is final."""
        self._distances: dict[int, int] = {}
        self._deep = 0
        self._found: dict[SymbolEntry, Value] = {}
        """Values of symbols that one expression needs; each is computed once, however often it is named."""

    def settle(self, address: Address) -> Value:
        """A place as a number, once the layout is final."""
        if not self.closed:
            return address
        return (self.sections[address.section].base or 0) + address.offset

    def lookup(self, name: str, at: int | None = None) -> Value:
        """Value of a symbol; UnknownValue if it may be defined later, Fault if it is never defined."""
        symbol = self.symbols.get(name)
        if symbol is None or not symbol.defined:
            shown = (
                name.split(LOCAL)[1] + ("f" if name.split(LOCAL)[2] != "0" else "b")
                if LOCAL in name
                else name
            )
            if name in REGISTERS:
                raise Fault(f"register {name} cannot be used in an expression", at)
            if not self.closed:
                raise UnknownValue(f"{shown}, which is not defined above", at)
            raise Fault(f"undefined symbol {shown}", at, lambda: did_you_mean(name, self.known()))
        if symbol.value is None:
            return self._deferred(name, symbol, at)
        return self.settle(symbol.value) if isinstance(symbol.value, Address) else symbol.value

    def known(self) -> list[str]:
        """Names that a message may suggest."""
        return [name for name, symbol in self.symbols.items() if symbol.defined and LOCAL not in name]

    def _deferred(self, name: str, symbol: SymbolEntry, at: int | None) -> Value:
        try:
            return self.defined_value(symbol)
        except Fault as fault:
            raise Fault(f"symbol {name}: {fault.message}", at, f"defined at {symbol.where}") from None

    def defined_value(self, symbol: SymbolEntry) -> Value:
        """Value of a symbol that is defined by an expression."""
        if symbol.busy:
            raise CircularValue
        if symbol in self._found:
            return self._found[symbol]
        assert symbol.node is not None
        assert symbol.place is not None
        symbol.busy, self._deep = True, self._deep + 1
        try:
            value = self._found[symbol] = evaluate(symbol.node, symbol.atoms, symbol.place)
        finally:
            symbol.busy, self._deep = False, self._deep - 1
            if not self._deep:
                self._found.clear()
        if self.closed:
            symbol.value = value
        return value

    def local_name(self, text: str) -> str:
        """Unique name of the label that ``1f`` or ``1b`` means here."""
        number, count = text[:-1], self.counts.get(text[:-1], 0)
        return f"{LOCAL}{number}{LOCAL}{count + (text[-1] == 'f')}"

    def thread_base(self) -> int:
        """Return the start of the thread's variables: the first section .tdata or .tbss."""
        threads = (s for s in self.sections.values() if s.name.startswith((".tdata", ".tbss")) and s.size)
        return min((section.base or 0 for section in threads), default=0)

    def keep_distance(self, here: int, value: int, at: int) -> int:
        """Record the distance of a %pcrel_hi at ``here``; returns its upper part."""
        if not PAIR_LOW <= value <= PAIR_HIGH:
            raise Fault(f"%pcrel_hi: the address is {value} bytes away; auipc reaches 2 GiB", at)
        self._distances[here] = value
        return value + 0x800 >> 12 & 0xFFFFF

    def distance_from(self, address: int, at: int) -> int:
        """The distance of the %pcrel_hi at an address."""
        if address not in self._distances:
            raise Fault(f"%pcrel_lo: no %pcrel_hi stands at {address:#x}", at, "name the label of the auipc")
        return self._distances[address]

    def other_view(self, function: str, value: int, at: int) -> int:
        """The address of the same DDR byte in the engines' view (``ncc``) or the core's (``core``)."""
        windows, size = self.machine.windows, self.machine.windows.ddr_core_bytes
        core, ncc = windows.ddr_cached, windows.ddr_engine
        source, target = (core, ncc) if function == "ncc" else (ncc, core)
        if not source <= value <= source + size:
            message = f"%{function}: {value:#x} is outside {source:#x}..{source + size:#x}"
            raise Fault(message, at)
        return value - source + target

    def lay_out(self) -> None:
        """Give every section its address: first .text, last the sections that engines address."""
        windows, offset = self.machine.windows, 0
        sections = list(self.sections.values())
        for section in sorted(sections, key=lambda section: (section.far, section.name.startswith(OF_CHIPS))):
            window = windows.ddr_engine if section.far else windows.ddr_cached
            of_chips = section.name.startswith(OF_CHIPS) and DDR in self.sections
            if section.base is None and not section.flags:
                section.base = 0  # of sections that only tools read
            if section.base is None:
                section.base = (self.sections[DDR].base or 0) if of_chips else window + offset
            if section.size and section.flags and not of_chips:
                start = section.base - (windows.ddr_engine if section.base >= windows.ddr_engine else window)
                offset = -(-(start + section.size) // SECTION_GRAIN) * SECTION_GRAIN
        self.closed = True
