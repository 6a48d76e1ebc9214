"""Packets of GDB's remote protocol on a connection (GDB manual, Remote Protocol, Overview)."""

from __future__ import annotations

import select
import socket
import sys
from pathlib import Path

from tx8isa.tools.command_line import note

PACKET_BYTES = 0x4000
"""The longest packet, as the client is told."""
_MOST_WAITING = 4 * PACKET_BYTES
"""The most bytes that a client may send ahead: any byte of a packet may be escaped."""
_MOST_DAMAGED = 4
"""The most damaged packets in a row that are requested again."""
_INTERRUPT, _BEGIN, _END, _ESCAPE, _FLIP = 0x03, b"$", b"#", 0x7D, 0x20
_SPECIAL = b"#$}*"
"""Bytes that must be escaped in a packet."""
_CHECKSUM_DIGITS = 2
_CONNECTIONS, _CONNECTIONS_OF_VERSION_6 = Path("/proc/net/tcp"), Path("/proc/net/tcp6")
_ESTABLISHED = "01"
"""The state of a connection in that file which no end has closed."""


class ClientLost(Exception):
    """The client has gone or sends something unknown; ``str`` gives the reason."""


def warn(text: str) -> None:
    """Tell the user at the terminal about the debugger's connection."""
    if sys.stderr is not None:
        note(f"tx8emu: gdb: {text}")


def user_of(client: socket.socket) -> int | None:
    """Return the user whose process has the other end of a connection on this host; None when it has gone.

    The kernel lists every end of such a connection, with addresses as words of the host.
    """
    ends = (client.getpeername(), client.getsockname())
    wanted = [
        f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}" for host, port in ends
    ]
    for table in (_CONNECTIONS, _CONNECTIONS_OF_VERSION_6):
        for line in table.read_text().splitlines()[1:]:
            _, local, other, state, *_, user = line.split()[:8]
            if state == _ESTABLISHED and local.endswith(wanted[0]) and other.endswith(wanted[1]):
                return int(user)
    return None


class Connection:
    """A connection to one client."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.acknowledges = True
        """True while each side confirms received packets; the client may end that."""
        self._connection = connection
        self._waiting = bytearray()
        self._sent = b""
        self._damaged = 0

    def receive(self) -> bytes:
        """Return the next packet, unescaped.

        ClientLost. Interrupts are ignored, as the program has stopped.
        """
        while True:
            packet = self._packet()
            if packet is not None:
                return packet
            self._read()

    def interrupted(self) -> bool:
        """Return True if the client wants the program to stop, without waiting. ClientLost."""
        if select.select([self._connection], [], [], 0)[0]:
            self._read()
        self._skip_acknowledgements()
        if self._waiting[:1] != bytes([_INTERRUPT]):
            return False
        del self._waiting[0]
        return True

    def send(self, payload: bytes) -> None:
        """Send a packet; ``payload`` may hold any bytes. ClientLost."""
        escaped = b"".join(
            bytes([_ESCAPE, byte ^ _FLIP]) if byte in _SPECIAL else bytes([byte]) for byte in payload
        )
        self._sent = _BEGIN + escaped + _END + b"%02x" % (sum(escaped) & 0xFF)
        self._write(self._sent)

    def _packet(self) -> bytes | None:
        """Return the packet that the waiting bytes begin with, or None until it is complete."""
        self._skip_acknowledgements()
        while self._waiting[:1] == bytes([_INTERRUPT]):
            del self._waiting[0]
        if not self._waiting:
            return None
        if self._waiting[:1] != _BEGIN:
            found = f"0x{self._waiting[0]:02x}"
            raise ClientLost(f"it sent {found} where a packet begins with '$'; this is not gdb")
        end = self._waiting.find(_END)
        if end < 0 or len(self._waiting) < end + 1 + _CHECKSUM_DIGITS:
            if len(self._waiting) >= _MOST_WAITING:
                raise ClientLost(f"it sent a packet of more than {PACKET_BYTES} bytes")
            return None
        payload = bytes(self._waiting[1:end])
        digits = bytes(self._waiting[end + 1 : end + 1 + _CHECKSUM_DIGITS])
        del self._waiting[: end + 1 + _CHECKSUM_DIGITS]
        return _unescape(payload) if self._accept(payload, digits) else None

    def _accept(self, payload: bytes, digits: bytes) -> bool:
        """Confirm a packet, or ask for it again when it was damaged in transmission."""
        expected = b"%02x" % (sum(payload) & 0xFF)
        good = digits.lower() == expected
        if not good:
            self._damaged += 1
            text = f"a packet has checksum '{digits.decode('latin-1')}', its bytes give {expected.decode()}"
            if not self.acknowledges or self._damaged >= _MOST_DAMAGED:
                raise ClientLost(text)
            warn(f"{text}; asked for it again")
        else:
            self._damaged = 0
        if self.acknowledges:
            self._write(b"+" if good else b"-")
        return good

    def _skip_acknowledgements(self) -> None:
        while self._waiting and self._waiting[0] in b"+-":
            if self._waiting[0] == ord("-"):
                self._write(self._sent)
            del self._waiting[0]

    def _read(self) -> None:
        try:
            data = self._connection.recv(PACKET_BYTES)
        except OSError as error:
            raise ClientLost(f"the connection broke: {error.strerror}") from None
        if not data:
            raise ClientLost("it closed the connection")
        self._waiting += data
        if len(self._waiting) > _MOST_WAITING + PACKET_BYTES:
            raise ClientLost(f"it sent more than {_MOST_WAITING} bytes without waiting for an answer")

    def _write(self, data: bytes) -> None:
        try:
            self._connection.sendall(data)
        except OSError as error:
            raise ClientLost(f"the connection broke: {error.strerror}") from None


def _unescape(payload: bytes) -> bytes:
    plain = bytearray()
    escaped = False
    for byte in payload:
        if not escaped and byte == _ESCAPE:
            escaped = True
            continue
        plain.append(byte ^ _FLIP if escaped else byte)
        escaped = False
    return bytes(plain)
