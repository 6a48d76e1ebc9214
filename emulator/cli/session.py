"""``tx8emu --session SCRIPT.json``: the steps of a session (docs/sessions.md)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from emulator.chip.options import RunOptions
from emulator.cli.arrays import read_array, write_array
from emulator.memory.buffers import Array
from emulator.program import Program
from emulator.session import ProgramSession
from emulator.tile.fault import Fault
from tx8isa.errors import Tx8Error
from tx8isa.tools.files import read_bytes, write_together

Files = dict[str, str]
"""An .npy file for each name."""


class ScriptError(Tx8Error):
    """A script that no session can follow."""


class Runs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Runs of the program. ``each`` are arrays with an axis in front, along which every run takes its part.

    ``outputs`` are written when all runs are done; those of several runs get an axis in front. ``entry`` is
    the network that runs, by default the first.
    """

    entry: str | None = None
    inputs: Files = {}
    each: Files = {}
    outputs: Files = {}
    repeat: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step of a script: exactly one of these. ``write`` writes states as .npy files."""

    run: Runs | None = None
    reset: bool = False
    save: str | None = None
    load: str | None = None
    write: Files | None = None

    @property
    def kinds(self) -> list[str]:
        """The fields that are given."""
        return [name for name in self.__struct_fields__ if getattr(self, name) not in (None, False)]


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A session: what its states are at first, what every run reads, constants to be replaced, and steps."""

    steps: list[Step]
    state: Files = {}
    bind: Files = {}
    constants: Files = {}


def read_script(path: str) -> Script:
    """The script in a file; ScriptError says where it is wrong."""
    try:
        script = msgspec.json.decode(read_bytes(path), type=Script)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ScriptError(f"{path}: {error}") from None
    for number, step in enumerate(script.steps):
        if len(step.kinds) != 1:
            found = " and ".join(step.kinds) or "nothing"
            raise ScriptError(
                f"{path}: step {number} has {found}; expected one of {', '.join(step.__struct_fields__)}"
            )
    return script


def run_script(options: argparse.Namespace, program: Program, run: RunOptions) -> int:
    """Run a script; the exit status of the command."""
    script = read_script(options.session)
    with ProgramSession(program, max_instructions=options.max_instructions, **run) as session:
        session.begin_with(_arrays(script.state))
        session.bind(_arrays(script.bind))
        session.replace(_arrays(script.constants))
        for number, step in enumerate(script.steps):
            try:
                _follow(session, step, f"{options.session}: step {number}")
            except Fault as fault:
                print(f"{options.program}: fault: step {number}: {fault}", file=sys.stderr)
                return 3
        if not options.quiet:
            print(f"tx8emu: {session.steps} runs since the states were set", file=sys.stderr)
    return 0


def _follow(session: ProgramSession, step: Step, where: str) -> None:
    if step.run is not None:
        _run(session, step.run, where)
    elif step.reset:
        session.reset()
    elif step.save is not None:
        session.save(step.save)
    elif step.load is not None:
        session.load(step.load)
    elif step.write is not None:
        _write(step.write, session.state, f"{where}: the program has no state")


def _run(session: ProgramSession, runs: Runs, where: str) -> None:
    """Run the program as often as a step says, and write its outputs."""
    same, each = _arrays(runs.inputs), _arrays(runs.each)
    found = [session.run({**same, **part}, runs.entry) for part in _parts(each, runs.repeat, where)]
    several = bool(each) or runs.repeat is not None
    outputs = {
        name: np.stack([one[name] for one in found]) if several else found[0][name] for name in found[0]
    }
    _write(runs.outputs, outputs, f"{where}: the program has no output")


def _parts(each: Mapping[str, Array], repeat: int | None, where: str) -> Iterator[dict[str, Array]]:
    """The inputs of every run that are different in each."""
    counts = {name: array.shape[0] if array.ndim else 0 for name, array in each.items()}
    if repeat is not None:
        counts["repeat"] = repeat
    if len(set(counts.values())) > 1 or 0 in counts.values():
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise ScriptError(f"{where}: numbers of runs differ, or are 0: {listed}")
    for number in range(next(iter(counts.values()), 1)):
        yield {name: array[number] for name, array in each.items()}


def _write(files: Files, arrays: Mapping[str, Array], missing: str) -> None:
    """Write arrays, all of them or none; ScriptError for an unknown name."""
    wrong = next((name for name in files if name not in arrays), None)
    if wrong is not None:
        raise ScriptError(f"{missing} '{wrong}'; there are: {', '.join(arrays) or 'none'}")
    contents: dict[Path, Callable[..., None]] = {
        Path(file): partial(write_array, arrays[name]) for name, file in files.items()
    }
    if contents:
        write_together(contents)


def _arrays(files: Files) -> dict[str, Array]:
    return {name: read_array(file) for name, file in files.items()}
