"""``tx8emu --save-state`` and ``--load-state``: options, their mistakes, and the run up to the state."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from asm.image import ABSOLUTE, Image
from emulator.chip.pause import Pause
from tx8isa.machine.description import Machine
from tx8isa.tools.command_line import note
from tx8isa.tools.suggestions import hint

from .file import read, write
from .types import Snapshot, SnapshotError

if TYPE_CHECKING:
    from emulator.chip.system import System

_PART_OF_THE_STATE = ("input", "random", "serial", "on_exception", "write_span", "ne_post")
_WHOLE_RUNS = ("strict", "explore", "gdb")
"""Options that concern a run from its beginning to its end."""


def check_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with a usage error when options do not go together."""
    if options.at is not None and not options.save_state:
        parser.error("argument --at: it says where --save-state FILE is to save")
    if options.save_state and options.at is None and options.max_instructions is None:
        parser.error("argument --save-state: where? give --at N|LABEL, or --max-instructions N")
    for option, others, why in (
        ("save_state", _WHOLE_RUNS, "looks at whole runs"),
        ("load_state", ("strict", "explore"), "looks at whole runs"),
        ("load_state", _PART_OF_THE_STATE, "is part of the state"),
    ):
        given = [name for name in others if getattr(options, name) != parser.get_default(name)]
        if getattr(options, option) and given:
            name = given[0].replace("_", "-")
            parser.error(f"argument --{option.replace('_', '-')}: not with --{name}, which {why}")


def saved_state(options: argparse.Namespace, machine: Machine) -> Snapshot | None:
    """Return the state to continue from; SnapshotError for a file without a state that the machine can
    have."""
    return read(options.load_state, machine) if options.load_state else None


def saver(options: argparse.Namespace, image: Image) -> Saver | None:
    """Return the saver for ``--save-state``; SnapshotError for a wrong --at, OSError for a wrong file."""
    if not options.save_state:
        return None
    _check_file(Path(options.save_state))
    if options.at is None:
        pause, place = Pause(options.max_instructions), f"{options.max_instructions} instructions of a tile"
    else:
        pause, place = _pause(options.at, image)
    return Saver(options, pause, place)


def _pause(at: str, image: Image) -> tuple[Pause, str]:
    """Parse a number of instructions, or a label; return it with its name in messages."""
    try:
        count = int(at, 0)
    except ValueError:
        return Pause(addresses=frozenset((_address(at, image),))), f"{at}"
    if not 1 <= count < 1 << 62:
        raise SnapshotError(f"--at {at}: expected a number of instructions, at least 1, or a label")
    return Pause(count), f"{count} instructions of a tile"


def _address(label: str, image: Image) -> int:
    symbol = image.symbols.get(label)
    code = [segment for segment in image.segments if segment.flags == "rx"]
    if symbol is None:
        labels = [name for name, one in image.symbols.items() if one.section in {s.section for s in code}]
        raise SnapshotError(f"--at {label}: the program has no such label{hint(label, labels)}")
    inside = any(s.address <= symbol.address < s.address + len(s.data) for s in code)
    if symbol.section == ABSOLUTE or not inside:
        raise SnapshotError(f"--at {label}: 0x{symbol.address:x} is not in the code of the program")
    return symbol.address


def _check_file(path: Path) -> None:
    """Raise OSError now rather than at the end of a long run."""
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    if path.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(path))
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(13, "Permission denied", str(path))


class Saver:
    """Runs a program up to a place, and saves the state there."""

    def __init__(self, options: argparse.Namespace, pause: Pause, place: str) -> None:
        self.path, self.quiet, self.limit = options.save_state, options.quiet, options.max_instructions
        self.stops_by_limit = options.at is None
        self.pause, self.place = pause, place
        self.saved = False

    def run(self, system: System) -> None:
        """Run, and save the state. Fault; Tx8Error when it cannot be written."""
        from .chip import save

        done = max(tile.retired for tile in system.tiles)
        if done >= self.pause.instructions:
            raise SnapshotError(f"--at: {self.place}: a tile has executed {done} already")
        if not system.run(self.limit, self.pause):
            return
        size = write(self.path, save(system))
        self.saved = True
        if not self.quiet:
            note(f"tx8emu: {self.path}: the state at {self.place}, {size} bytes")
        if self.stops_by_limit:
            system.run(self.limit)  # which raises the fault
        else:
            system.ended()

    def status(self, status: int) -> int:
        """Return the exit status of a run that ended with ``status``; report when nothing was saved."""
        if self.saved:
            return status
        text = f"{self.path}: not written: the run ended before it came to {self.place}"
        note(f"tx8emu: error: {text}")
        return status or 1
