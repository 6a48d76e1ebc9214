"""A session: one program, bound to arrays and states, run step by step."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from operator import le
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

import numpy as np

from asm.image import Buffer
from emulator.chip.memories import Memories
from emulator.chip.options import RunOptions
from emulator.debug.snapshot.chip import program_digest
from emulator.memory.shapes import known_sizes, place_sizes, sized, sized_outputs, usual_sizes
from emulator.program import Array, Program, check_array
from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import interrupts_held
from tx8isa.tools.suggestions import hint

from .file import SavedStates, read, write
from .kept import KeptBytes
from .restart import Restart
from .tensors import BoundTensor


class SessionError(Tx8Error):
    """An error of a session: a name that the program does not have, or a step after its end."""


class ProgramSession:
    """A program that runs many times, in memories of its own; see docs/sessions.md.

    Every step begins as a run of the program does, except for its states, which are zeros at first and then
    what the last complete step left there, and for constants that were replaced. Steps are executed one after
    the other, also those of several threads. Options as for ``Program.run``; ``max_instructions`` of a tile
    in a step.
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
        self._restart, self._options = Restart(program.image, program.machine, self._memories), options
        self._lock = threading.RLock()
        self._queue: ThreadPoolExecutor | None = None
        self._closed = self._under_way = False
        self.steps = 0
        """Complete steps since the states were set; ``load`` and ``reset`` set it too."""
        self.cycles: int | None = None
        """Simulated cycles of the last step; None without simulated time."""
        pairs = program.states
        past, present = ({pair[at].name for pair in pairs} for at in (0, 1))
        self._inputs = {b.name: self._tensor(b) for b in program.inputs if b.name not in past}
        self._outputs = {b.name: self._tensor(b) for b in program.outputs if b.name not in present}
        self._states = {pair[0].name: self._tensor(pair[0]) for pair in pairs}
        self._constants = {b.name: self._tensor(b) for b in program.image.buffers if b.kind == "constant"}
        self._kept = {name: self._keep(tensor) for name, tensor in self._states.items()}
        self._replaced: dict[str, KeptBytes] = {}
        self._bound: dict[str, Array] = {}
        self._results: dict[str, Array] = {}
        self._first = {name: kept.saved.copy() for name, kept in self._kept.items()}

    # -- what is bound ---------------------------------------------------------------------------------

    def bind(self, arrays: Mapping[str, Array]) -> None:
        """Let every step read inputs from these arrays, and write outputs into them, by name.

        They stay the caller's: a step finds what they hold when it begins. SessionError for a name that is
        neither input nor output, InputError for an array of another shape or type.
        """
        bound: dict[str, Array] = {}
        results: dict[str, Array] = {}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise SessionError(f"'{name}' is bound to {type(array).__name__}; expected a NumPy array")
            tensor = self._named(name, {**self._outputs, **self._inputs}, "input or output")
            self._check(tensor, array)
            if tensor.buffer.kind == "output" and not array.flags.writeable:
                raise SessionError(f"output '{name}' is bound to an array that cannot be written")
            (bound if name in self._inputs else results)[name] = array
        with self._lock:
            self._bound |= bound
            self._results |= results

    def replace(self, constants: Mapping[str, Array]) -> None:
        """Give constants of the program other values, by name, for this session alone.

        SessionError for a name that is not a constant, InputError for an array of another shape or type; then
        none of them is changed.
        """
        packed = {
            name: self._named(name, self._constants, "constant").bytes_of(array)
            for name, array in constants.items()
        }
        with self._working():
            for name, data in packed.items():
                if name not in self._replaced:
                    self._replaced[name] = self._keep(self._constants[name])
                self._replaced[name].set(data)

    # -- states ----------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Array]:
        """Copies of the states after the last complete step, by the names of their inputs."""
        with self._lock:
            return {name: tensor.array_of(self._kept[name].saved) for name, tensor in self._states.items()}

    def set_state(self, arrays: Mapping[str, Array]) -> None:
        """Give states other values; SessionError and InputError as for ``replace``."""
        packed = {
            name: self._named(name, self._states, "state").bytes_of(array) for name, array in arrays.items()
        }
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

    def run(self, inputs: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """One step: the outputs that are not states, by name; those that are bound are the bound arrays.

        ``inputs`` are those that are not bound, or others for this step. InputError when they do not fit;
        Fault when the program stops, KeyboardInterrupt when it is interrupted: then the states are what they
        were before.
        """
        given = self._arrays(inputs or {})
        with self._working():
            return self._step(given)

    def submit(self, inputs: Mapping[str, Array] | None = None) -> Future[dict[str, Array]]:
        """Queue a step after those submitted before; inputs are copied, bound arrays are not.

        The result of the future is that of ``run``; outputs that are bound are those of the last step.
        """
        given = {name: array.copy() for name, array in self._checked(inputs or {}).items()}
        with self._working():
            if self._queue is None:
                self._queue = ThreadPoolExecutor(1, thread_name_prefix="session")
            return self._queue.submit(self.run, given)

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

    def _step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        self._under_way = True
        try:
            sizes = self.program.sizes_of(inputs)
            for name, array in inputs.items():
                self._sized(self._inputs[name], array.shape).fill(array)
            place_sizes(self.program.image, sizes, self._memories.ddr_area)
            system = self._restart.begin(**self._options)
            system.run(self._limit)
            self.cycles = system.cycles
            results = self._read()
        except BaseException:
            self._undo()
            raise
        with _uninterrupted():
            self._end(complete=True)
            self.steps += 1
        return results

    def _read(self) -> dict[str, Array]:
        """The outputs that are not states, after a step."""
        outputs = sized_outputs(self.program.image, self.program.outputs, self._memories.ddr_area)
        shapes = {buffer.name: buffer.shape for buffer in outputs}
        results = {}
        for name, whole in self._outputs.items():
            tensor, into = self._sized(whole, shapes[name]), self._results.get(name)
            if into is not None:
                tensor.check(into)
            results[name] = tensor.read(into)
        return results

    def _undo(self) -> None:
        """Make the memories what they were before the step that is under way."""
        with _uninterrupted():
            self._restart.forget()
            self._end(complete=False)

    def _end(self, complete: bool) -> None:
        """Bring the memories to what the next step begins with."""
        kept = [*self._kept.values(), *self._replaced.values()]
        for each in kept:
            (each.keep if complete else each.put_back)()
        self._memories.reset()
        for each in kept:
            each.after_reset()
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

    def _arrays(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """The array of every input; InputError or SessionError when one is missing or does not fit."""
        arrays = {**self._bound, **self._checked(given)}
        missing = [name for name in self._inputs if name not in arrays]
        if missing:
            raise SessionError(f"input '{missing[0]}' is missing: bind it, or give it to the step")
        return arrays

    def _checked(self, given: Mapping[str, Array]) -> dict[str, Array]:
        arrays = {}
        for name, value in given.items():
            if name in self._states:
                raise SessionError(
                    f"input '{name}' is a state, which the session keeps: set it with set_state"
                )
            array = arrays[name] = np.asarray(value)
            self._check(self._named(name, self._inputs, "input"), array)
        return arrays

    def _named(self, name: str, tensors: Mapping[str, BoundTensor], what: str) -> BoundTensor:
        if name not in tensors:
            known = f"{', '.join(tensors) or 'none'}{hint(name, tensors)}"
            raise SessionError(f"the program has no {what} '{name}'; known: {known}")
        return tensors[name]

    def _check(self, tensor: BoundTensor, array: Array) -> None:
        """InputError or SizeError unless an array fits; that an output has the right size shows at a step."""
        shapes, buffer = self.program.image.shapes, tensor.buffer
        if shapes is None or (buffer.kind, buffer.name) not in shapes.extents:
            tensor.check(array)
        elif buffer.kind == "input":
            sizes = usual_sizes(shapes) | known_sizes(shapes, [buffer], {buffer.name: array})
            check_array(sized(shapes, buffer, sizes), array)
        else:
            fits = len(buffer.shape) == array.ndim and all(map(le, array.shape, buffer.shape))
            check_array(replace(buffer, shape=array.shape) if fits else buffer, array)

    def _sized(self, tensor: BoundTensor, shape: tuple[int, ...]) -> BoundTensor:
        """The buffer with the shape that it has in a step."""
        if shape == tensor.buffer.shape:
            return tensor
        return self._tensor(replace(tensor.buffer, shape=shape))

    def _tensor(self, buffer: Buffer) -> BoundTensor:
        return BoundTensor(buffer, self._memories.ddr_area, *self.program.extent(buffer, self._memories))

    def _keep(self, tensor: BoundTensor) -> KeptBytes:
        return KeptBytes(self._memories.ddr_area, tensor.offset, tensor.size)


def _uninterrupted() -> AbstractContextManager[None]:
    """Let Ctrl-C, which only the main thread gets, wait until a step is complete or undone."""
    return interrupts_held() if threading.current_thread() is threading.main_thread() else nullcontext()
