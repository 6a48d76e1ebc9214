"""``tx8emu --session SCRIPT.json``: the steps of a session (docs/sessions.md)."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from emulator.chip.options import RunOptions
from emulator.cli.arrays import write_array
from emulator.memory.buffers import Array
from emulator.program import Program
from emulator.session import ProgramSession
from emulator.tile.fault import Fault
from tx8isa.errors import Tx8Error
from tx8isa.tools.arrays import read_npy
from tx8isa.tools.command_line import note
from tx8isa.tools.files import read_bytes, write_together
from tx8isa.tools.overwrite import Role, check_name, check_outputs, identity

Files = dict[str, str]
"""An .npy file for each name."""


_MOST_BYTES = 1 << 32
"""The most bytes of an output of all runs of a step: as many as the largest possible tensor has."""


class ScriptError(Tx8Error):
    """A script that no session can follow."""


class Runs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Runs of the program. ``each`` are arrays with a leading axis, along which every run takes its part.

    ``outputs`` are written when all runs are done; outputs of several runs get a leading axis. ``entry`` is
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
        """Return the fields that are given."""
        return [name for name in self.__struct_fields__ if getattr(self, name) not in (None, False)]

    def reads(self, number: int) -> list[Role]:
        """Return the files that the step of this number reads."""
        given = [] if self.run is None else [self.run.inputs, self.run.each]
        arrays = [role for files in given for role in _roles(f"an input of step {number}", files)]
        return [(f"the states of step {number}", self.load), *arrays]

    def writes(self, number: int) -> list[Role]:
        """Return the files that the step of this number writes."""
        outputs = None if self.run is None else self.run.outputs
        return [
            (f"'save' of step {number}", self.save),
            *_roles(f"an output of step {number}", outputs),
            *_roles(f"a state of step {number}", self.write),
        ]


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A session: first values of states, arrays that every run reads, constants to replace, and steps."""

    steps: list[Step]
    state: Files = {}
    bind: Files = {}
    constants: Files = {}


def read_script(path: str) -> Script:
    """Read the script of a file; ScriptError names the wrong place."""
    try:
        script: Script = msgspec.json.decode(read_bytes(path), type=Script)
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
    """Run a script; return the exit status of the command."""
    script = read_script(options.session)
    _check_files(script, options)
    with ProgramSession(program, max_instructions=options.max_instructions, **run) as session:
        session.begin_with(_arrays(script.state))
        session.bind(_arrays(script.bind))
        session.replace(_arrays(script.constants))
        for number, step in enumerate(script.steps):
            try:
                _follow(session, step, f"{options.session}: step {number}")
            except Fault as fault:
                note(f"{options.program}: fault: step {number}: {fault}")
                return 3
        if not options.quiet:
            note(f"tx8emu: {session.steps} runs since the states were set")
    return 0


def _check_files(script: Script, options: argparse.Namespace) -> None:
    """Raise Tx8Error when a step would replace a file that another step, or something else, reads or writes.

    A step may read a file that an earlier step has written.
    """
    inputs: list[Role] = [("the program", options.program), ("the script", options.session)]
    inputs.append(("the machine description", options.machine))
    for kind in ("state", "bind", "constants"):
        inputs += _roles(f"an array of '{kind}'", getattr(script, kind))
    outputs: list[Role] = []
    for number, step in enumerate(script.steps):
        made = {identity(file) for _, file in outputs}
        inputs += [role for role in step.reads(number) if identity(role[1]) not in made]
        outputs += step.writes(number)
    for _, file in inputs:
        check_name(file)
    check_outputs(outputs, inputs)


def _roles(what: str, files: Files | None) -> list[Role]:
    return [(f"{what}, '{name}'", file) for name, file in (files or {}).items()]


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
        state = session.state
        _check_names(step.write, state, f"{where}: the program has no state")
        _write(step.write, state)


def _run(session: ProgramSession, runs: Runs, where: str) -> None:
    """Run the program as often as a step says, and write its outputs."""
    same, each = _arrays(runs.inputs), _arrays(runs.each)
    count = _count(each, runs.repeat, where)
    several = bool(each) or runs.repeat is not None
    kept: dict[str, Array] = {}
    for number in range(count):
        part = {name: array[number] for name, array in each.items()}
        found = session.run({**same, **part}, runs.entry)
        _check_names(runs.outputs, found, f"{where}: the program has no output")
        if not several:
            kept = found
            continue
        for name in runs.outputs:
            if not number:
                kept[name] = _room(found[name], count, f"{where}: output '{name}'")
            kept[name][number] = found[name]
    _write(runs.outputs, kept)


def _room(result: Array, count: int, what: str) -> Array:
    """Return an array for a result of every run; ScriptError if it is larger than any tensor may be."""
    if count * result.nbytes > _MOST_BYTES:
        found = f"{count} runs of {result.nbytes} bytes"
        raise ScriptError(f"{what}: {found}; at most {_MOST_BYTES} are kept in one step: use several steps")
    return np.empty((count, *result.shape), result.dtype)


def _count(each: Mapping[str, Array], repeat: int | None, where: str) -> int:
    """Return the number of runs of a step."""
    counts = {name: array.shape[0] if array.ndim else 0 for name, array in each.items()}
    if repeat is not None:
        counts["repeat"] = repeat
    if len(set(counts.values())) > 1 or 0 in counts.values():
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise ScriptError(f"{where}: numbers of runs differ, or are 0: {listed}")
    return next(iter(counts.values()), 1)


def _check_names(files: Files, arrays: Mapping[str, Array], missing: str) -> None:
    """Raise ScriptError for a name that does not exist."""
    wrong = next((name for name in files if name not in arrays), None)
    if wrong is not None:
        raise ScriptError(f"{missing} '{wrong}'; there are: {', '.join(arrays) or 'none'}")


def _write(files: Files, arrays: Mapping[str, Array]) -> None:
    """Write arrays, all of them or none."""
    contents: dict[Path, Callable[..., None]] = {
        Path(file): partial(write_array, arrays[name]) for name, file in files.items()
    }
    if contents:
        write_together(contents)


def _arrays(files: Files) -> dict[str, Array]:
    return {name: read_npy(file) for name, file in files.items()}
