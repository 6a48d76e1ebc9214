"""A session with GDB: one packet after the other (GDB manual, Remote Protocol, Packets)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from xml.sax.saxutils import quoteattr

from emulator.debug.gdb.run.reverse import ReverseExecution
from emulator.debug.gdb.run.scheduler import Action
from emulator.debug.gdb.run.stops import Ended, Stop
from emulator.debug.gdb.run.watchpoints import Kind
from emulator.tile.tile import Tile
from tx8isa.tools.overwrite import Role

from . import memory_view, registers
from .connection import PACKET_BYTES, Connection, warn
from .monitor import Monitor, status

_OK, _UNKNOWN = b"OK", b""
_NO_MEMORY = b"E0e"
"""EFAULT; also for device registers, see ``memory_view``. GDB does not accept a text in answer to a read."""
_FEATURES = (
    f"PacketSize={PACKET_BYTES:x}",
    "QStartNoAckMode+",
    "vContSupported+",
    "qXfer:features:read+",
    "qXfer:threads:read+",
    "swbreak+",
    "hwbreak+",
    "ReverseStep+",
    "ReverseContinue+",
)
_BREAKPOINTS = ("0", "1")
_ANY_THREAD = ("0", "-1")
_MOST_TEXT = PACKET_BYTES // 2 - 16
"""The most bytes of text in one packet, two digits for each."""


class Ending(Enum):
    """The end of a session."""

    DETACHED = "the program runs on"
    KILLED = "the program is to end here"
    FINISHED = "the program has ended"


class Malformed(Exception):
    """A packet that this server cannot follow; ``str`` tells why."""


class Session:
    """The state of a session: the selected tile, and the last stop."""

    def __init__(self, reverse: ReverseExecution, connection: Connection, files: Sequence[Role] = ()) -> None:
        self.reverse, self.connection, self.system = reverse, connection, reverse.system
        self._marks, self._watches = reverse.steps.marks, reverse.steps.watches
        self.monitor = Monitor(self.system, self._watches.copies.values, files)
        self.ended: Ended | None = None
        self._tile = self.system.tiles[0]
        self._going: Tile | None = None
        """The only tile that continues with ``c`` and ``s``; None: all do."""
        self._last = Stop(0)
        self._ending: Ending | None = None
        self._commands: dict[str, Callable[[str, bytes], bytes]] = {
            "?": lambda text, data: self._stop_reply(self._last),
            "H": self._select,
            "T": self._alive,
            "g": self._read_registers,
            "G": self._write_registers,
            "p": self._read_register,
            "P": self._write_register,
            "m": self._read_memory,
            "M": self._write_memory,
            "X": self._write_binary,
            "Z": self._insert,
            "z": self._remove,
            "b": self._back,
            "v": self._verbose,
            "q": self._query,
            "Q": self._set,
            "D": self._detach,
            "k": self._kill,
        }
        for kind in ("c", "C", "s", "S"):
            self._commands[kind] = partial(self._plain, kind)

    def run(self) -> Ending:
        """Serve the client until it leaves or the program ends. ClientLost."""
        while self._ending is None:
            packet = self.connection.receive()
            text = packet.decode("latin-1")
            command = self._commands.get(text[:1])
            try:
                answer = command(text[1:], packet[1:]) if command else _UNKNOWN
            except Malformed as wrong:
                warn(f"packet '{text[:60]}': {wrong}")
                answer = _error(str(wrong))
            if text[:1] != "k":
                self.connection.send(answer)
            if text == "QStartNoAckMode":
                self.connection.acknowledges = False
        return self._ending

    # -- threads ---------------------------------------------------------------------------------------

    def _thread(self, text: str) -> Tile:
        number = _hex(text)
        if not 1 <= number <= len(self.system.tiles):
            raise Malformed(f"thread {number}, expected 1..{len(self.system.tiles)}: tile + 1")
        return self.system.tiles[number - 1]

    def _select(self, text: str, data: bytes) -> bytes:
        tile = None if text[1:] in _ANY_THREAD else self._thread(text[1:])
        if text[:1] == "c":
            self._going = tile
        elif tile is not None:
            self._tile = tile
        return _OK

    def _alive(self, text: str, data: bytes) -> bytes:
        self._thread(text)
        return _OK

    def _threads(self) -> bytes:
        lines = (
            f'<thread id="{tile.number + 1:x}" name={quoteattr(_name(tile))}/>' for tile in self.system.tiles
        )
        return "\n".join(("<threads>", *lines, "</threads>\n")).encode()

    # -- registers and memory --------------------------------------------------------------------------

    def _read_registers(self, text: str, data: bytes) -> bytes:
        values = (registers.read(self.system, self._tile, number) for number in registers.general())
        return b"".join(values).hex().encode()

    def _write_registers(self, text: str, data: bytes) -> bytes:
        values, at = _bytes(text), 0
        for number in registers.general():
            size = registers.size(number)
            self._write_one(number, values[at : at + size])
            at += size
        return _OK

    def _number(self, text: str) -> int:
        number = _hex(text)
        if not registers.size(number):
            raise Malformed(f"there is no register {number}")
        return number

    def _read_register(self, text: str, data: bytes) -> bytes:
        return registers.read(self.system, self._tile, self._number(text)).hex().encode()

    def _write_register(self, text: str, data: bytes) -> bytes:
        number, _, value = text.partition("=")
        self._write_one(self._number(number), _bytes(value))
        return _OK

    def _write_one(self, number: int, value: bytes) -> None:
        if len(value) != registers.size(number):
            size = registers.size(number)
            raise Malformed(f"{len(value)} bytes for register {number}, which has {size}")
        tile = self._tile
        wrong = registers.write(tile, number, value)
        if wrong:
            raise Malformed(wrong)
        self.reverse.changed(lambda: registers.write(tile, number, value))

    def _read_memory(self, text: str, data: bytes) -> bytes:
        address, size = _pair(text)
        found = memory_view.bytes_at(self.system, self._tile, address, min(size, _MOST_TEXT))
        return _NO_MEMORY if found is None else found.tobytes().hex().encode()

    def _write_memory(self, text: str, data: bytes) -> bytes:
        head, _, digits = text.partition(":")
        return self._store(head, _bytes(digits))

    def _write_binary(self, text: str, data: bytes) -> bytes:
        head, _, tail = data.partition(b":")
        return self._store(head.decode("latin-1"), tail)

    def _store(self, head: str, values: bytes) -> bytes:
        address, size = _pair(head)
        if size != len(values):
            raise Malformed(f"{len(values)} bytes follow, {size} were announced")
        system, tile = self.system, self._tile
        if not memory_view.store(system, tile, address, values):
            return _NO_MEMORY
        self.reverse.changed(lambda: memory_view.store(system, tile, address, values))
        return _OK

    # -- breakpoints and watchpoints -------------------------------------------------------------------

    def _insert(self, text: str, data: bytes) -> bytes:
        kind, address, size = _point(text)
        if kind in _BREAKPOINTS:
            code = self.system.codes[self._tile.number]
            if code.index(address) is None:
                return _error(f"no instruction at 0x{address:x}")
            self._marks.set(address)
            return _OK
        added = self._watches.add(Kind(int(kind)), self._tile, address, size)
        return _OK if added else _NO_MEMORY

    def _remove(self, text: str, data: bytes) -> bytes:
        kind, address, _ = _point(text)
        if kind in _BREAKPOINTS:
            self._marks.clear(address)
        else:
            self._watches.remove(Kind(int(kind)), address)
        return _OK

    # -- going on --------------------------------------------------------------------------------------

    def _verbose(self, text: str, data: bytes) -> bytes:
        if text == "Cont?":
            return b"vCont;c;C;s;S;r"
        if text.startswith("Kill"):
            self._ending = Ending.KILLED
            return _OK
        return self._go(_split(text)) if text.startswith("Cont;") else _UNKNOWN

    def _plain(self, kind: str, text: str, data: bytes) -> bytes:
        """Answer the packets before vCont: ``c [addr]``, ``C sig[;addr]``, and the same with ``s``.

        They apply to the thread that ``Hc`` chose. Without one they apply to all, and the last one to stop is
        stepped.
        """
        signal, _, address = text.partition(";") if kind in "CS" else ("", "", text)
        tile = self._going or self.system.tiles[self._last.tile]
        action = kind + signal
        _action(action)
        if address:
            self._tile = tile
            self._write_one(registers.PC, (_hex(address) & (1 << 64) - 1).to_bytes(8, "little"))
        parts = [(action, f"{tile.number + 1:x}")]
        return self._go(parts if self._going else [*parts, ("c", "")])

    def _back(self, text: str, data: bytes) -> bytes:
        """Answer ``bs`` and ``bc``."""
        tile = self._going or self.system.tiles[self._last.tile]
        if text == "s":
            return self._stopped(self.reverse.step_back(tile))
        if text == "c":
            return self._stopped(self.reverse.go_back(tile, self.connection.interrupted))
        return _UNKNOWN

    def _go(self, parts: list[tuple[str, str]]) -> bytes:
        """Carry out the parts of a vCont packet: for each tile the first one that names it."""
        actions: dict[int, Action] = {}
        for what, thread in parts:
            named = self.system.tiles if thread in ("", *_ANY_THREAD) else [self._thread(thread)]
            if self._dies(what):
                self._ending = Ending.FINISHED
                return b"X%02x" % self._last.signal
            for tile in named:
                actions.setdefault(tile.number, _action(what))
        found = self.reverse.resume(actions, self.connection.interrupted)
        if isinstance(found, Ended):
            self.ended, self._ending = found, Ending.FINISHED
            self._show(str(found.fault or ""))
            return b"W%02x" % found.code
        return self._stopped(found)

    def _stopped(self, found: Stop) -> bytes:
        self._last, self._tile = found, self.system.tiles[found.tile]
        self._show(found.text)
        return self._stop_reply(found)

    def _dies(self, what: str) -> bool:
        """Return True if a tile continues with the signal of the fault it has stopped with."""
        return what[:1] in ("C", "S") and self._last.fatal and _hex(what[1:]) == self._last.signal

    def _stop_reply(self, last: Stop) -> bytes:
        why = "replaylog:begin;" if last.oldest else f"{last.watch};" if last.watch else ""
        pc = registers.read(self.system, self.system.tiles[last.tile], registers.PC).hex()
        return f"T{last.signal:02x}{why}{registers.PC:02x}:{pc};thread:{last.tile + 1:x};".encode()

    def _show(self, text: str) -> None:
        """Let GDB print something."""
        data = f"{text}\n".encode() if text else b""
        for at in range(0, len(data), _MOST_TEXT):
            self.connection.send(b"O" + data[at : at + _MOST_TEXT].hex().encode())

    def _detach(self, text: str, data: bytes) -> bytes:
        self._ending = Ending.DETACHED
        return _OK

    def _kill(self, text: str, data: bytes) -> bytes:
        self._ending = Ending.KILLED
        return _OK

    # -- questions -------------------------------------------------------------------------------------

    def _set(self, text: str, data: bytes) -> bytes:
        return _OK if text == "StartNoAckMode" else _UNKNOWN

    def _query(self, text: str, data: bytes) -> bytes:
        name = text.partition(":")[0].partition(",")[0]
        if name == "Supported":
            return ";".join(_FEATURES).encode()
        if name == "C":
            return f"QC{self._last.tile + 1:x}".encode()
        if name == "Attached":
            return b"1"  # GDB detaches when it is left, so that results are not lost
        if name == "fThreadInfo":
            return b"m" + ",".join(f"{tile.number + 1:x}" for tile in self.system.tiles).encode()
        if name == "sThreadInfo":
            return b"l"
        if name == "ThreadExtraInfo":
            return _name(self._thread(text.partition(",")[2])).encode().hex().encode()
        if name == "Rcmd":
            line = _bytes(text.partition(",")[2]).decode("utf-8", "replace")
            self._show(self.monitor.answer(line))
            return _OK
        return self._transfer(text) if name == "Xfer" else _UNKNOWN

    def _transfer(self, text: str) -> bytes:
        """Return a part of a document: ``Xfer:features:read:target.xml:0,ffb``."""
        kind, _, rest = text.removeprefix("Xfer:").partition(":read:")
        annex, _, window = rest.partition(":")
        if (kind, annex) == ("features", "target.xml"):
            document = registers.description().encode()
        elif (kind, annex) == ("threads", ""):
            document = self._threads()
        else:
            return _UNKNOWN
        offset, size = _pair(window)
        part = document[offset : offset + min(size, _MOST_TEXT)]
        return (b"m" if offset + len(part) < len(document) else b"l") + part


def _name(tile: Tile) -> str:
    return f"tile {tile.number}: {status(tile)}"


def _error(text: str) -> bytes:
    return f"E.{text}".encode()


def _hex(text: str) -> int:
    try:
        number = int(text, 16)
    except ValueError:
        raise Malformed(f"'{text[:20]}' is not a hexadecimal number") from None
    if not -(1 << 63) <= number < 1 << 64:
        raise Malformed(f"'{text[:20]}...' has more than 64 bits")
    return number


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise Malformed(f"'{text[:20]}' is not a sequence of hexadecimal bytes") from None


def _pair(text: str) -> tuple[int, int]:
    """Parse ``addr,length``."""
    first, _, second = text.partition(",")
    address, size = _hex(first), _hex(second)
    if address < 0 or size < 0:
        raise Malformed(f"'{text}': expected ADDRESS,LENGTH")
    return address, size


def _point(text: str) -> tuple[str, int, int]:
    """Parse ``type,addr,kind`` of a breakpoint or watchpoint."""
    kind, _, rest = text.partition(",")
    if kind not in (*_BREAKPOINTS, *(str(int(known)) for known in Kind)):
        raise Malformed(f"a breakpoint of type '{kind}', expected 0..4")
    return (kind, *_pair(rest.partition(";")[0]))


def _split(text: str) -> list[tuple[str, str]]:
    """Split a vCont packet into parts: the action, and the thread or nothing."""
    pairs = [part.partition(":") for part in text.split(";")[1:]]
    return [(what, thread) for what, _, thread in pairs]


def _action(what: str) -> Action:
    if what[:1] in ("c", "C"):
        return Action()
    if what[:1] in ("s", "S"):
        return Action(steps=True)
    if what[:1] == "r":
        first, end = _pair(what[1:])
        return Action(True, first, end)
    raise Malformed(f"action '{what}', expected c, C, s, S or r")
