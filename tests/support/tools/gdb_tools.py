"""A program under ``tx8emu --gdb`` in a separate process, GDB itself, and a client of packets."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import asm
from asm.image import write_image
from paths import ROOT

GDB = "gdb-multiarch"
_CALL = "import sys; from emulator.cli import main; sys.exit(main(sys.argv[1:]))"
_SECONDS = 60


def needs_gdb(test):
    """Decorator: skip without GDB, but fail under CI."""
    if os.environ.get("CI") == "true":
        return test
    return pytest.mark.skipif(shutil.which(GDB) is None, reason=f"missing tool: {GDB}")(test)


def assembled(folder: Path, text: str, name: str = "prog") -> Path:
    """The image of an assembly text, next to its source ``name.s``."""
    (folder / f"{name}.s").write_text(text)
    path = folder / f"{name}.bin"
    path.write_bytes(write_image(asm.assemble(text, f"{name}.s")))
    return path


@dataclass
class Server:
    """A program that waits for a debugger."""

    process: subprocess.Popen[str]
    port: int

    def end(self) -> tuple[int, str, str]:
        """Exit status, what the program wrote, and messages, once it has ended."""
        out, messages = self.process.communicate(timeout=_SECONDS)
        return self.process.returncode, out, messages


@contextmanager
def serving(program: Path, *options: str) -> Iterator[Server]:
    """``tx8emu program --gdb 0`` in the program's folder, ready for a client."""
    command = [sys.executable, "-c", _CALL, program.name, "-q", "--gdb", "0", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command,
        cwd=program.parent,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert "waiting for a debugger: target remote 127.0.0.1:" in line, line + process.stderr.read()
            yield Server(process, int(line.rpartition(":")[2]))
        finally:
            process.kill()


def gdb(server: Server, program: Path, *commands: str) -> str:
    """Return GDB's output for commands on a served program."""
    script = ["set pagination off", "set width 0", f"target remote 127.0.0.1:{server.port}", *commands]
    arguments = [part for line in script for part in ("-ex", line)]
    done = subprocess.run(
        [GDB, "-nx", "-batch", *arguments, program.name],
        cwd=program.parent,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_SECONDS,
        check=False,
    )
    return done.stdout


class Client:
    """A client that sends whatever a test needs."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=_SECONDS)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def byte(self) -> bytes:
        """The next byte from the server, empty when it has closed the connection."""
        return self._socket.recv(1)

    def packet(self) -> bytes:
        """The next packet, without confirming it."""
        while self.byte() != b"$":
            pass
        data = b""
        while (byte := self.byte()) != b"#":
            assert byte, "the server closed the connection"
            data += byte
        assert int(self.byte() + self.byte(), 16) == sum(data) & 0xFF
        return data

    def ask(self, text: str | bytes) -> str:
        """The answer to a packet; console output before it is dropped."""
        return self._asked(text.encode() if isinstance(text, str) else text)[1]

    def monitor(self, command: str) -> str:
        """Return the output of a ``monitor`` command."""
        printed, answer = self._asked(b"qRcmd," + command.encode().hex().encode())
        assert answer == "OK"
        return printed

    def _asked(self, data: bytes) -> tuple[str, str]:
        """Console output and the answer to a packet."""
        printed = b""
        self.send(b"$" + data + b"#%02x" % (sum(data) & 0xFF))
        answer = self.packet()
        while answer[:1] == b"O" and answer != b"OK":
            printed += bytes.fromhex(answer[1:].decode())
            self.send(b"+")
            answer = self.packet()
        self.send(b"+")
        return printed.decode(), answer.decode("latin-1")
