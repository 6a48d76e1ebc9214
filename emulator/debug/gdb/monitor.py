"""The command ``monitor`` of GDB, for the parts of the chip that GDB does not know."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from emulator.chip.system import System
from emulator.chip.tensors import SPEC, TensorView, check_file, find_tensor, tensor_file_bytes
from emulator.debug.gdb.run.watchpoints import Origin
from emulator.memory.dump import hex_dump
from emulator.tile.events import Side
from emulator.tile.fault import place
from emulator.tile.tile import Status, Tile
from tx8isa.errors import Tx8Error
from tx8isa.records.record import Engine
from tx8isa.tools.files import write_whole
from tx8isa.tools.overwrite import Role, check_outputs, identity

from .pending import PendingInstruction, describe, pending

_HELP = (
    "monitor queues [TILE]                instructions issued and not executed, and copies under way",
    "monitor spm [TILE]                   ranges of the scratchpads that were written",
    "monitor spm TILE ADDRESS BYTES       hex dump; the address is that of the engines, from 0",
    "monitor tensor SPEC [FILE.npy]       a tensor, shown or saved: NAME of a buffer,",
    "                                     TILE:ADDRESS:FORMAT:SHAPE[:LAYOUT], or ddr: for TILE",
    "monitor where                        every tile: address, source line, graph node, what it does",
    "monitor help                         this list",
)


class Usage(Exception):
    """A command that is wrong; ``str`` is one line."""


class Monitor:
    """The commands.

    ``copies`` are copies that the DTE has not carried out. ``files`` are files that the run reads or writes.
    """

    def __init__(
        self, system: System, copies: Callable[[], Iterable[Origin]], files: Sequence[Role] = ()
    ) -> None:
        self.system, self._copies, self._files = system, copies, files
        self._saved: set[object] = set()
        """The files that tensors were saved in."""

    def answer(self, line: str) -> str:
        """Return the text for a command line."""
        name, *arguments = line.split() or ["help"]
        commands: dict[str, Callable[[Sequence[str]], Iterable[str]]] = {
            "queues": self._queues,
            "spm": self._spm,
            "tensor": self._tensor,
            "where": self._where,
            "help": lambda _: _HELP,
        }
        try:
            if name not in commands:
                raise Usage(f"no command '{name}'; there are {', '.join(commands)}")
            return "\n".join(commands[name](arguments))
        except Usage as wrong:
            return f"monitor: {wrong}"

    def _where(self, arguments: Sequence[str]) -> Iterator[str]:
        if arguments:
            raise Usage("'where' takes no arguments")
        for tile in self.system.tiles:
            yield f"{place(self.system.image, tile, tile.pc)}: {status(tile)}"

    def _queues(self, arguments: Sequence[str]) -> Iterator[str]:
        if len(arguments) > 1:
            raise Usage("'queues' takes one tile at most")
        tiles = self._tiles(arguments)
        lines = [line for tile in tiles for line in self._queues_of(tile)]
        lines += [self._copy(origin) for origin in self._copies() if self.system.tiles[origin.tile] in tiles]
        yield from lines or ["nothing is pending"]

    def _queues_of(self, tile: Tile) -> Iterator[str]:
        entries = list(pending(tile))
        for worker in range(tile.workers):
            for engine in Engine:
                mine = [e for e in entries if (e.worker, e.engine) == (worker, engine)]
                if mine:
                    yield f"tile {tile.number} worker {worker} {engine.name}: {len(mine)} pending"
                    yield from (self._entry(tile, entry) for entry in mine)

    def _entry(self, tile: Tile, entry: PendingInstruction) -> str:
        return f"  {place(self.system.image, tile, entry.pc)}: {describe(tile, entry)}"

    def _copy(self, origin: Origin) -> str:
        copy = origin.copy
        ddr = self.system.machine.windows.ddr_engine
        sources = ", ".join(_side(side, origin.tile, ddr) for side in copy.sources)
        targets = ", ".join(_side(target.side, target.tile, ddr) for target in copy.targets)
        where = origin.where(self.system)
        return f"{where}: DTE copies {copy.pieces.total} bytes from {sources} to {targets}"

    def _spm(self, arguments: Sequence[str]) -> Iterator[str]:
        if len(arguments) == 3:
            (tile,) = self._tiles(arguments[:1])
            yield from self._dump(tile, _number(arguments[1]), _number(arguments[2]))
            return
        if len(arguments) > 1:
            raise Usage("'spm' takes nothing, a tile, or a tile, an address and a number of bytes")
        for tile in self._tiles(arguments):
            ranges = ", ".join(f"0x{first:x}..0x{end - 1:x}" for first, end in tile.spm.written())
            yield f"tile {tile.number}: {ranges or 'nothing written'}"

    def _dump(self, tile: Tile, address: int, count: int) -> Iterator[str]:
        size = tile.spm.data.size
        if address + count > size:
            raise Usage(f"0x{address:x}:{count} is outside the SPM (0x0..0x{size - 1:x})")
        return hex_dump(tile.spm.data[address : address + count], address)

    def _tensor(self, arguments: Sequence[str]) -> Iterator[str]:
        if not 1 <= len(arguments) <= 2:
            raise Usage(f"'tensor' takes {SPEC}, and a file if it is to be saved")
        try:
            view = find_tensor(arguments[0], self.system.image, self.system.machine)
            if len(arguments) == 2:
                self._save(view, arguments[1])
                yield f"{view.title} saved in {arguments[1]}"
            else:
                yield from view.lines(self.system)
        except Tx8Error as error:
            raise Usage(str(error)) from None

    def _save(self, view: TensorView, file: str) -> None:
        """Save a tensor; Tx8Error for a file of the run, and for an existing one that was not saved here."""
        check_file(file)
        check_outputs([("the tensor", file)], self._files)
        if os.path.lexists(file) and identity(file) not in self._saved:
            raise Tx8Error(
                f"{file}: exists, and the debugger replaces only files that it saved; name another file"
            )
        write_whole(file, tensor_file_bytes(view, self.system))
        self._saved.add(identity(file))

    def _tiles(self, arguments: Sequence[str]) -> Sequence[Tile]:
        if not arguments:
            return self.system.tiles
        number, count = _number(arguments[0]), len(self.system.tiles)
        if number >= count:
            raise Usage(f"tile {number} is outside 0..{count - 1}")
        return [self.system.tiles[number]]


def status(tile: Tile) -> str:
    """Return the status of a tile, in a few words."""
    if tile.status is Status.BARRIER:
        return f"{tile.status.value} of tiles 0x{tile.group:x}"
    if tile.status is Status.EXITED:
        return f"{tile.status.value} with status {tile.exit_code}"
    text: str = tile.status.value
    return text


def _side(side: Side, tile: int, ddr: int) -> str:
    """Return the place where a copy reads or writes; ``ddr``: address of DDR in the engines' view."""
    return f"DDR 0x{ddr + side.start:x}" if side.in_ddr else f"tile {tile} SPM 0x{side.start:x}"


def _number(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if value < 0:
        raise Usage(f"'{text}' is not a number")
    return value
