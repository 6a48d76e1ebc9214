"""The server: it waits for GDB, and runs the program to its end when GDB leaves."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from emulator.chip.pause import UNLIMITED
from emulator.chip.system import System
from emulator.debug.gdb.run.reverse import ReverseExecution
from emulator.debug.gdb.run.scheduler import DebugScheduler
from emulator.tile.fault import Fault, FaultKind
from tx8isa.errors import Tx8Error
from tx8isa.tools.overwrite import Role

from .connection import ClientLost, Connection, user_of, warn
from .session import Ending, Session

_HOST = "127.0.0.1"


def debug(system: System, port: int, max_instructions: int | None = None, files: Sequence[Role] = ()) -> None:
    """Run a program to its end, controlled by a debugger at a port of this host; 0 is any free port.

    Everything else is as in ``System.run``, with one host thread until the debugger has left. The debugger
    may not overwrite ``files``, those of the run. Tx8Error when the port cannot be used.
    """
    limit = UNLIMITED if max_instructions is None else max_instructions
    with _listen(port) as listener:
        warn(f"waiting for a debugger: target remote {_HOST}:{listener.getsockname()[1]}")
        client = _accepted(listener)
    scheduler = DebugScheduler(system, limit)
    try:
        with client:
            _serve(scheduler, Connection(client), files)
    except Fault:
        system.ended()
        raise
    system.run(limit)


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((_HOST, port))
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise Tx8Error(f"--gdb {port}: cannot listen at {_HOST}:{port}: {why}") from None


def _accepted(listener: socket.socket) -> socket.socket:
    """Accept the first connection of this user or of root: a debugger writes files with these rights."""
    while True:
        client, _ = listener.accept()
        user = user_of(client)
        if user in (os.geteuid(), 0):
            return client
        client.close()
        warn(f"refused a connection of {'an unknown user' if user is None else f'user {user}'}")


def _serve(scheduler: DebugScheduler, connection: Connection, files: Sequence[Role]) -> None:
    """Serve the client, and leave the round in order when it has gone. Fault as in ``System.run``."""
    reverse = ReverseExecution(scheduler)
    session = Session(reverse, connection, files)
    try:
        ending = session.run()
    except ClientLost as lost:
        warn(f"the client is gone: {lost}; the program runs on without it")
        ending = Ending.DETACHED
    if ending is Ending.KILLED:
        raise Fault("killed by the debugger", FaultKind.KILLED)
    ended = session.ended or reverse.catch_up()
    if ended is None:
        scheduler.leave()
    elif ended.fault:
        raise ended.fault
