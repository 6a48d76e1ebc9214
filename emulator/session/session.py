"""A session: one program, bound to arrays and states, run step by step."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

import numpy as np

from asm.image import Buffer, image_of_entry
from emulator.chip.memories import Memories
from emulator.chip.options import RunOptions
from emulator.debug.snapshot.chip import program_digest
from emulator.memory.buffers import Array
from emulator.memory.keeping import AFTER_RESET, KEEP, PUT_BACK, Keeping
from emulator.program import Program
from tx8isa.tools.command_line import interrupts_held

from .entry import SessionEntry, SessionError, named
from .file import SavedStates, read, write
from .kept import KeptBytes
from .tensors import BoundTensor


class ProgramSession:
    """A program that runs many times, in memories of its own; see docs/sessions.md.

    Every step begins as a run of the program does, except for its states, which are zeros at first and then
    what the last complete step left there, and for constants that were replaced. Steps are executed one after
    the other, also those of several threads. Options as for ``Program.run``; ``max_instructions`` of a tile
    in a step.

    A program of several networks has a step for each of its entries, which ``entry`` names, by default the
    first. States of the same name are one state of all of them.
    """

    def __init__(
        self, program: Program, *, max_instructions: int | None = None, **options: Unpack[RunOptions]
    ) -> None:
        if program.chips > 1:
            raise SessionError(f"a session runs on one chip, the program on {program.chips}")
        if options.get("strict"):
            raise SessionError(
                "the sanitizer looks at single runs: tx8emu --strict, or Program.run(strict=True)"
            )
        self.program, self._limit = program, max_instructions
        self._memories = Memories(program.image, program.machine, pages=program.pages)
        self._options = options
        self._lock = threading.RLock()
        self._queue: ThreadPoolExecutor | None = None
        self._closed = self._under_way = False
        self.steps = 0
        """Complete steps since the states were set; ``load`` and ``reset`` set it too."""
        self.cycles: int | None = None
        """Simulated cycles of the last step; None without simulated time."""
        networks = {name: program.of_entry(name) for name in program.entries} or {"": program}
        self._entries = {
            name: SessionEntry(each, self._memories, self._tensor) for name, each in networks.items()
        }
        self._states = {name: found for each in self._entries.values() for name, found in each.states.items()}
        self._constants = {b.name: self._tensor(b) for b in program.image.buffers if b.kind == "constant"}
        self._kept = {name: self._keep(tensor) for name, tensor in self._states.items()}
        self._replaced: dict[str, KeptBytes] = {}
        self._keeping = self._all_kept()
        self._first = {name: kept.saved.copy() for name, kept in self._kept.items()}

    # -- what there is ---------------------------------------------------------------------------------

    def inputs(self, entry: str | None = None) -> dict[str, Buffer]:
        """The inputs of an entry that are not states, by name."""
        return {name: tensor.buffer for name, tensor in self._entry(entry).inputs.items()}

    @property
    def states(self) -> dict[str, Buffer]:
        """The states, by the names of their inputs."""
        return {name: tensor.buffer for name, tensor in self._states.items()}

    @property
    def constants(self) -> dict[str, Buffer]:
        """The constants that the program names."""
        return {name: tensor.buffer for name, tensor in self._constants.items()}

    # -- what is bound ---------------------------------------------------------------------------------

    def bind(self, arrays: Mapping[str, Array], entry: str | None = None) -> None:
        """Let every step of an entry read inputs from these arrays, and write outputs into them, by name.

        They stay the caller's: a step finds what they hold when it begins. SessionError for a name that is
        neither input nor output, InputError for an array of another shape or type.
        """
        found = self._entry(entry)
        bound, results = found.bindings(arrays)
        with self._lock:
            found.bound |= bound
            found.results |= results

    def replace(self, constants: Mapping[str, Array]) -> None:
        """Give constants of the program other values, by name, for this session alone.

        SessionError for a name that is not a constant, InputError for an array of another shape or type; then
        none of them is changed.
        """
        packed = {
            name: named(name, self._constants, "constant").bytes_of(array)
            for name, array in constants.items()
        }
        with self._working():
            for name, data in packed.items():
                if name not in self._replaced:
                    self._replaced[name] = self._keep(self._constants[name])
                    self._keeping = self._all_kept()
                self._replaced[name].set(data)

    # -- states ----------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Array]:
        """Copies of the states after the last complete step, by the names of their inputs."""
        with self._lock:
            return {name: tensor.array_of(self._kept[name].saved) for name, tensor in self._states.items()}

    def set_state(self, arrays: Mapping[str, Array]) -> None:
        """Give states other values; SessionError and InputError as for ``replace``."""
        packed = {name: named(name, self._states, "state").bytes_of(array) for name, array in arrays.items()}
        with self._working():
            for name, data in packed.items():
                self._kept[name].set(data)

    def begin_with(self, arrays: Mapping[str, Array]) -> None:
        """Set states as ``set_state`` does, and let ``reset`` return to these values."""
        self.set_state(arrays)
        self._first |= {name: self._kept[name].saved.copy() for name in arrays}

    def reset(self) -> None:
        """Give all states the values with which they began."""
        with self._working():
            for name, kept in self._kept.items():
                kept.set(self._first[name])
            self.steps = 0

    def save(self, path: str | Path) -> int:
        """Write the states to a file; its bytes. Tx8Error when that is not possible."""
        with self._lock:
            states = {name: kept.saved.tobytes() for name, kept in self._kept.items()}
            return write(path, SavedStates(self._digest, self.steps, states))

    def load(self, path: str | Path) -> None:
        """Go on from saved states; StateFileError for a file that holds none, or those of another program."""
        saved = read(path, self._digest, {name: kept.saved.size for name, kept in self._kept.items()})
        with self._working():
            for name, data in saved.states.items():
                self._kept[name].set(np.frombuffer(data, np.uint8))
            self.steps = saved.steps

    @cached_property
    def _digest(self) -> str:
        return program_digest(self.program.image)

    # -- steps -----------------------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, Array] | None = None, entry: str | None = None) -> dict[str, Array]:
        """One step: the outputs that are not states, by name; those that are bound are the bound arrays.

        ``inputs`` are those that are not bound, or others for this step. InputError when they do not fit;
        Fault when the program stops, KeyboardInterrupt when it is interrupted: then the states are what they
        were before.
        """
        found = self._entry(entry)
        given = found.arrays(inputs or {})
        with self._working():
            return self._step(found, given)

    def submit(
        self, inputs: Mapping[str, Array] | None = None, entry: str | None = None
    ) -> Future[dict[str, Array]]:
        """Queue a step after those submitted before; inputs are copied, bound arrays are not.

        The result of the future is that of ``run``; outputs that are bound are those of the last step.
        """
        checked = self._entry(entry).checked(inputs or {})
        given = {name: array.copy() for name, array in checked.items()}
        with self._working():
            if self._queue is None:
                self._queue = ThreadPoolExecutor(1, thread_name_prefix="session")
            return self._queue.submit(self.run, given, entry)

    def close(self, cancel: bool = False) -> None:
        """Wait for what was submitted, or ``cancel`` what has not begun; later steps are refused."""
        if self._queue is not None:
            self._queue.shutdown(wait=True, cancel_futures=cancel)
        with self._lock:
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(cancel=kind is not None)

    def _step(self, entry: SessionEntry, inputs: Mapping[str, Array]) -> dict[str, Array]:
        self._under_way = True
        try:
            entry.fill(inputs)
            system = entry.restart.begin(**self._options)
            system.run(self._limit)
            self.cycles = system.cycles
            results = entry.read()
        except BaseException:
            self._undo()
            raise
        with _uninterrupted():
            self._end(complete=True)
            self.steps += 1
        return results

    def _undo(self) -> None:
        """Make the memories what they were before the step that is under way."""
        with _uninterrupted():
            for each in self._entries.values():
                each.restart.forget()
            self._end(complete=False)

    def _end(self, complete: bool) -> None:
        """Bring the memories to what the next step begins with."""
        self._keeping.follow(KEEP if complete else PUT_BACK)
        self._memories.reset()
        self._keeping.follow(AFTER_RESET)
        self._under_way = False

    @contextmanager
    def _working(self) -> Iterator[None]:
        """The session for the caller alone; SessionError when it is closed."""
        with self._lock:
            if self._closed:
                raise SessionError("the session is closed")
            if self._under_way:  # Ctrl-C came when a step had ended and was not complete
                self._undo()
            yield

    # -- names -----------------------------------------------------------------------------------------

    def _entry(self, name: str | None) -> SessionEntry:
        """The network of a name, by default the first."""
        if name is None:
            return next(iter(self._entries.values()))
        if name not in self.program.entries:
            image_of_entry(self.program.image, name)  # says which there are
        return self._entries[name]

    def _tensor(self, buffer: Buffer) -> BoundTensor:
        return BoundTensor(buffer, self._memories.ddr_area, *self.program.extent(buffer, self._memories))

    def _all_kept(self) -> Keeping:
        kept = (*self._kept.values(), *self._replaced.values())
        return Keeping(self._memories.ddr_area, [(each.offset, each.saved) for each in kept])

    def _keep(self, tensor: BoundTensor) -> KeptBytes:
        return KeptBytes(self._memories.ddr_area, tensor.offset, tensor.size)


def _uninterrupted() -> AbstractContextManager[None]:
    """Let Ctrl-C, which only the main thread gets, wait until a step is complete or undone."""
    return interrupts_held() if threading.current_thread() is threading.main_thread() else nullcontext()
