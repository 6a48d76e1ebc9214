"""GDB with commands on a program, and what both print."""

from __future__ import annotations

from pathlib import Path

from gdb_tools import gdb, serving


def session(program: Path, *commands: str, options: tuple[str, ...] = ()) -> tuple[str, int, str, str]:
    """Return the output of GDB; then exit status, output and messages of the emulator."""
    with serving(program, *options) as server:
        printed = gdb(server, program, *commands)
        return printed, *server.end()


def in_order(text: str, *parts: str) -> None:
    """Assert that all parts occur, in this order."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        assert found >= 0, f"no '{part}' behind character {at} of\n{text}"
        at = found + len(part)
