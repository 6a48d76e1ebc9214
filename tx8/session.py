"""A program that runs step by step: bound arrays, states that persist between steps, a queue of steps."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from asm.image import Buffer
from emulator.memory.buffers import InputError
from emulator.session import ProgramSession, SessionError
from tx8.inputs.arrays import convert
from tx8.inputs.chips import SpreadSteps

from .program import Program

Array = np.ndarray[Any, np.dtype[Any]]


class Session:
    """A program with its own memories, in which every step reads the states that the last step wrote.

    ``state``: the first values of the states, by the names of their inputs; states that are not named are
    zeros. ``threads``: of the host. ``timed``: simulate time, so that ``cycles`` is the time of the last
    step. ``max_instructions``: of a tile in a step. A program of several networks has a step for each of its
    entries, which ``entry`` names, by default the first. States of the same name are one state. Several
    sessions of one program share the pages of its constants. docs/sessions.md is the tour.

    On several chips a session takes and returns whole inputs, outputs and states, and splits them among the
    chips. A program loaded from a file has only the shards, with names such as ``chip1.x``.
    """

    def __init__(
        self,
        program: Program,
        *,
        threads: int = 1,
        state: Mapping[str, Any] | None = None,
        timed: bool = False,
        max_instructions: int | None = None,
    ) -> None:
        if not isinstance(program, Program):
            raise SessionError(f"a session is one of a tx8.Program, not of {type(program).__name__}")
        self.program = program
        steps = ProgramSession(
            program.emulated, max_instructions=max_instructions, threads=threads, timed=timed or None
        )
        self._steps = steps if program.spreads is None else SpreadSteps(steps, program.spreads)
        if state:
            self._steps.begin_with(_converted(state, self._steps.states))

    @property
    def steps(self) -> int:
        """Number of complete steps since the states were set; a saved state keeps its own count."""
        return self._steps.steps

    @property
    def cycles(self) -> int | None:
        """Simulated cycles of the last step; None without ``timed``."""
        return self._steps.cycles

    @property
    def state(self) -> dict[str, Array]:
        """Copies of the states after the last complete step, by the names of their inputs."""
        return self._steps.state

    def bind(
        self, arrays: Mapping[str, Array] | None = None, *, entry: str | None = None, **named: Array
    ) -> None:
        """Let every step read these NumPy arrays as inputs and write these as outputs, by name.

        They need the exact shape and type, because they are not copied; each step reads their present
        contents.
        """
        self._steps.bind({**(arrays or {}), **named}, entry)

    def run(self, *inputs: Any, entry: str | None = None, **named: Any) -> dict[str, Array]:
        """Run one step and return the outputs that are not states, by name; bound outputs are filled.

        Inputs that are not bound are given by position, by name, or as one mapping; they are converted as by
        ``Program.run``. InputError for values that do not fit, Fault if the program stops. The states are
        then the same as before the step.
        """
        return self._steps.run(self._given(inputs, named, entry), entry)

    def submit(self, *inputs: Any, entry: str | None = None, **named: Any) -> Future[dict[str, Array]]:
        """Queue a step after the steps submitted earlier; the future has the result of ``run``."""
        return self._steps.submit(self._given(inputs, named, entry), entry)

    def set_state(self, arrays: Mapping[str, Any] | None = None, **named: Any) -> None:
        """Set the values of states, by the names of their inputs."""
        self._steps.set_state(_converted({**(arrays or {}), **named}, self._steps.states))

    def replace(self, arrays: Mapping[str, Any] | None = None, **named: Any) -> None:
        """Replace constants by name, in this session only (``tx8.compile(replaceable=...)``)."""
        self._steps.replace(_converted({**(arrays or {}), **named}, self._steps.constants))

    def reset(self) -> None:
        """Set the states back to their first values."""
        self._steps.reset()

    def save(self, path: str | Path) -> int:
        """Write the states to a file; return its number of bytes."""
        return self._steps.save(path)

    def load(self, path: str | Path) -> None:
        """Continue from the states in a file; StateFileError for one of another program, or a damaged one."""
        self._steps.load(path)

    def close(self, cancel: bool = False) -> None:
        """Wait for submitted steps, or with ``cancel`` drop those not begun; later steps are refused."""
        self._steps.close(cancel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(cancel=kind is not None)

    def __repr__(self) -> str:
        return f"<tx8.Session of {self.program.name}: step {self.steps}>"

    def _given(
        self, inputs: tuple[Any, ...], named: Mapping[str, Any], entry: str | None
    ) -> dict[str, Array]:
        """Return the inputs of a step by name; values by position are the inputs in order, without states."""
        if not inputs and not named:
            return {}
        trees = self.program.trees
        if trees is not None and not self.program.states:
            found = trees.inputs(inputs, named)
            inputs, named = (inputs, named) if found is None else ((), found)
        if not named and len(inputs) == 1 and isinstance(inputs[0], Mapping):
            named, inputs = inputs[0], ()
        known = self._steps.inputs(entry)
        names = [*known]
        if len(inputs) > len(names):
            raise InputError(
                f"{len(inputs)} inputs given; a step has {len(names)}: {', '.join(names) or 'none'}"
            )
        values = dict(zip(names, inputs, strict=False))
        twice = next((name for name in named if name in values), None)
        if twice is not None:
            raise InputError(f"input '{twice}' is given twice, by position and by name")
        return _converted({**values, **named}, known)


def _converted(values: Mapping[str, Any], buffers: Mapping[str, Buffer]) -> dict[str, Array]:
    """Convert values to the arrays of their buffers; the session reports unknown names."""
    return {
        name: convert(buffers[name], value) if name in buffers else np.asarray(value)
        for name, value in values.items()
    }
