"""A session: one program, bound to arrays and states, run step by step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, Unpack

import numpy as np

from asm.image import Buffer, image_of_chip, image_of_entry
from emulator.chip.memories import Memories
from emulator.chip.options import RunOptions
from emulator.chips.mesh import ChipMesh
from emulator.debug.snapshot.chip import program_digest
from emulator.memory.areas import Bytes
from emulator.memory.buffers import Array
from emulator.program import Program, chip_name
from tx8isa.tools.command_line import interrupts_held

from .chip import SessionChip
from .entry import SessionEntry, SessionError, named
from .file import SavedStates, read, write
from .lengths import StateLengths
from .tensors import BoundTensor

Found = TypeVar("Found")
Tensors = dict[str, tuple[SessionChip, str, BoundTensor]]
"""By name: the chip that has the tensor, its name there, and the tensor."""


class ProgramSession:
    """A program that runs many times, in separate memories that persist; see docs/sessions.md.

    Every step begins like a run of the program, except for its states and replaced constants. States are
    zeros at first, and then have the values of the last complete step. Steps are executed one after the
    other, even if several threads start them. Options as for ``Program.run``; ``max_instructions`` of a tile
    in a step.

    A program of several networks has a step for each of its entries, which ``entry`` names, by default the
    first. States of the same name are one state of all of them.

    On several chips the names are the same as for a run: input or state ``x`` is given to every chip,
    ``chip1.x`` to chip 1. Returned outputs and states are those of each chip.
    """

    def __init__(
        self, program: Program, *, max_instructions: int | None = None, **options: Unpack[RunOptions]
    ) -> None:
        if options.get("strict"):
            raise SessionError(
                "the sanitizer looks at single runs: tx8emu --strict, or Program.run(strict=True)"
            )
        if not options.get("data", True):
            raise SessionError("a session keeps data from step to step: Program.run(data=False) has none")
        self.program, self._limit = program, max_instructions
        self._options = options
        self._lock = threading.RLock()
        self._queue: ThreadPoolExecutor | None = None
        self._closed = self._under_way = False
        self.steps = 0
        """Number of complete steps since the states were set; ``load`` and ``reset`` set it too."""
        self.cycles: int | None = None
        """Simulated cycles of the last step; None without simulated time."""
        self._networks = {name: program.of_entry(name) for name in program.entries} or {"": program}
        self._chips = [SessionChip(program, self._networks, each) for each in _memories(program)]
        self._states = self._of_chips(lambda chip: chip.states)
        self._constants = self._of_chips(lambda chip: chip.constants)
        self._first = {name: chip.saved(own).copy() for name, (chip, own, _) in self._states.items()}
        self._lengths = StateLengths(program.image.shapes, _buffers(self._states))

    # -- contents ---------------------------------------------------------------------------------------

    def inputs(self, entry: str | None = None) -> dict[str, Buffer]:
        """Return the inputs of an entry that are not states, by name."""
        found = self._entry(entry)
        return _buffers(self._of_chips(lambda chip: chip.entries[found].inputs))

    @property
    def states(self) -> dict[str, Buffer]:
        """The states, by the names of their inputs."""
        return _buffers(self._states)

    @property
    def constants(self) -> dict[str, Buffer]:
        """The constants that the program names."""
        return _buffers(self._constants)

    # -- bindings ---------------------------------------------------------------------------------------

    def bind(self, arrays: Mapping[str, Array], entry: str | None = None) -> None:
        """Let every step of an entry read inputs from these arrays, and write outputs into them, by name.

        The arrays are not copied; a step reads their contents at its beginning. SessionError for a name that
        is neither input nor output, InputError for an array of another shape or type.
        """
        network = self._entry(entry)
        for name in arrays if len(self._chips) > 1 else ():
            if name in self._chips[0].entries[network].outputs:
                raise SessionError(f"every chip has an output '{name}': bind {chip_name(0, name)} or another")
        found = [each.bindings(own) for each, own in self._given(network, arrays)]
        with self._lock:
            for chip, (bound, results) in zip(self._chips, found, strict=True):
                chip.entries[network].bound |= bound
                chip.entries[network].results |= results

    def replace(self, constants: Mapping[str, Array]) -> None:
        """Replace constants of the program by name, in this session only.

        SessionError for a name that is not a constant, InputError for an array of another shape or type; then
        none of them is changed.
        """
        packed = self._packed(constants, self._constants, "constant")
        with self._working():
            for chip, name, data in packed:
                chip.replace(name, data)

    # -- states ----------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Array]:
        """Return copies of the states after the last complete step, by the names of their inputs."""
        with self._lock:
            return {
                name: self._lengths.valid(name, tensor.array_of(chip.saved(own)))
                for name, (chip, own, tensor) in self._states.items()
            }

    def set_state(self, arrays: Mapping[str, Array]) -> None:
        """Set states; SessionError and InputError as for ``replace``.

        SizeError for growing states of a length that no step can begin with, or of different ones.
        """
        with self._working():
            lengths = self._lengths.of(arrays)
            whole = {name: self._lengths.whole(name, array) for name, array in arrays.items()}
            for chip, name, data in self._packed(whole, self._states, "state"):
                chip.set_state(name, data)
            self._lengths.now = lengths

    def begin_with(self, arrays: Mapping[str, Array]) -> None:
        """Set states as ``set_state`` does, and let ``reset`` return to these values."""
        self.set_state(arrays)
        for name, (chip, own, _) in self._states.items():
            if name in arrays or own in arrays:
                self._first[name] = chip.saved(own).copy()
        self._lengths.first = self._lengths.now

    def reset(self) -> None:
        """Set all states back to their first values."""
        with self._working():
            for name, (chip, own, _) in self._states.items():
                chip.set_state(own, self._first[name])
            self._lengths.now = self._lengths.first
            self.steps = 0

    def save(self, path: str | Path) -> int:
        """Write the states to a file.

        Return its bytes. Tx8Error if that is impossible, or for the program's file.
        """
        self.program.check_output("the saved states", path)
        with self._lock:
            states = {name: chip.saved(own).tobytes() for name, (chip, own, _) in self._states.items()}
            return write(path, SavedStates(self._digest, self.steps, states, self._lengths.now))

    def load(self, path: str | Path) -> None:
        """Continue from saved states; StateFileError for a file without states, or of another program."""
        sizes = {name: chip.saved(own).size for name, (chip, own, _) in self._states.items()}
        saved = read(path, self._digest, sizes, self._lengths.most)
        with self._working():
            for name, data in saved.states.items():
                chip, own, _ = self._states[name]
                chip.set_state(own, np.frombuffer(data, np.uint8))
            self._lengths.now = saved.lengths
            self.steps = saved.steps

    @cached_property
    def _digest(self) -> str:
        return program_digest(self.program.image)

    # -- steps -----------------------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, Array] | None = None, entry: str | None = None) -> dict[str, Array]:
        """Run one step; return the outputs that are not states, by name; bound ones are the bound arrays.

        ``inputs`` are the inputs that are not bound, or replacements for this step. InputError if they do not
        fit; Fault if the program stops, KeyboardInterrupt if it is interrupted. In all cases the states are
        as before.
        """
        network = self._entry(entry)
        arrays = [each.arrays(own) for each, own in self._given(network, inputs or {})]
        with self._working():
            return self._step(network, arrays)

    def submit(
        self, inputs: Mapping[str, Array] | None = None, entry: str | None = None
    ) -> Future[dict[str, Array]]:
        """Queue a step after the steps submitted earlier; inputs are copied, bound arrays are not.

        The future has the result of ``run``; bound outputs are those of the last step.
        """
        network = self._entry(entry)
        for each, own in self._given(network, inputs or {}):
            each.checked(own)
        given = {name: np.array(array) for name, array in (inputs or {}).items()}
        with self._working():
            if self._queue is None:
                self._queue = ThreadPoolExecutor(1, thread_name_prefix="session")
            return self._queue.submit(self.run, given, entry)

    def close(self, cancel: bool = False) -> None:
        """Wait for submitted steps, or with ``cancel`` drop those that have not begun; later steps are
        refused."""
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

    def _step(self, network: str, inputs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        self._under_way = True
        entries = [chip.entries[network] for chip in self._chips]
        try:
            self._lengths.check()
            for entry, own in zip(entries, inputs, strict=True):
                entry.fill(own, self._lengths.now)
            self.cycles = self._run(network)
            results = self._named([entry.read() for entry in entries])
            lengths = self._lengths.after(entries[0].outputs_of_step()) if self._lengths.most else {}
        except BaseException:
            self._undo()
            raise
        with _uninterrupted():
            self._end(complete=True)
            self._lengths.now = lengths
            self.steps += 1
        return results

    def _run(self, network: str) -> int | None:
        """Run a network in the present memories; return its cycles."""
        if len(self._chips) == 1:
            system = self._chips[0].entries[network].restart.begin(**self._options)
            system.run(self._limit)
            return system.cycles
        program, memories = self._networks[network], [chip.memories for chip in self._chips]
        mesh = ChipMesh(program.image, program.machine, memories=memories, **self._options)
        mesh.run(self._limit)
        return mesh.cycles

    def _undo(self) -> None:
        """Restore the memories to their state before the step under way."""
        with _uninterrupted():
            for chip in self._chips:
                for each in chip.entries.values():
                    each.restart.forget()
            self._end(complete=False)

    def _end(self, complete: bool) -> None:
        """Prepare the memories for the next step."""
        for chip in self._chips:
            chip.end(complete)
        self._under_way = False

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Reserve the session for the caller; SessionError when it is closed."""
        with self._lock:
            if self._closed:
                raise SessionError("the session is closed")
            if self._under_way:  # Ctrl-C came when a step had ended and was not complete
                self._undo()
            yield

    # -- names -----------------------------------------------------------------------------------------

    def _entry(self, name: str | None) -> str:
        """Return the network of a name, by default the first."""
        if name is None:
            return next(iter(self._networks))
        if name not in self.program.entries:
            image_of_entry(self.program.image, name)  # names the existing ones
        return name

    def _of_chips(self, tensors: Callable[[SessionChip], Mapping[str, BoundTensor]]) -> Tensors:
        """Return tensors of all chips, by the names that users know."""
        return self._named([{n: (chip, n, t) for n, t in tensors(chip).items()} for chip in self._chips])

    def _named(self, each: Sequence[Mapping[str, Found]]) -> dict[str, Found]:
        """Return the chips' objects by name, with the number of the chip in the name if there are several."""
        if len(each) == 1:
            return dict(each[0])
        return {
            chip_name(number, name): found for number, own in enumerate(each) for name, found in own.items()
        }

    def _given(
        self, network: str, arrays: Mapping[str, Array]
    ) -> list[tuple[SessionEntry, dict[str, Array]]]:
        """Return the network on each chip, and its arrays.

        SessionError for a name that belongs to no chip.
        """
        entries = [chip.entries[network] for chip in self._chips]
        if len(entries) == 1:
            return [(entries[0], dict(arrays))]
        tensors = [{*each.inputs, *each.outputs, *each.states} for each in entries]
        known = self._named([dict.fromkeys(sorted(names), ()) for names in tensors])
        wrong = next((name for name in arrays if name not in known and name not in tensors[0]), None)
        if wrong is not None:
            names = ", ".join(entries[0].inputs) or "none"
            raise SessionError(f"the program has no input or output '{wrong}'; inputs of every chip: {names}")
        return [
            (entry, {n: arrays[key] for n in names for key in (n, chip_name(number, n)) if key in arrays})
            for number, (entry, names) in enumerate(zip(entries, tensors, strict=True))
        ]

    def _packed(
        self, arrays: Mapping[str, Array], known: Tensors, what: str
    ) -> list[tuple[SessionChip, str, Bytes]]:
        """Return the bytes of arrays for states or constants, with the chips that receive them."""
        found = []
        for name, array in arrays.items():
            own = [each for each in known.values() if each[1] == name] if name not in known else [known[name]]
            if not own:
                named(name, {key: tensor for key, (_, _, tensor) in known.items()}, what)
            found += [(chip, inner, tensor.bytes_of(array)) for chip, inner, tensor in own]
        return found


def _memories(program: Program) -> list[Memories]:
    """Return memories with the program loaded, for each chip that it runs on."""
    found: list[Memories] = []
    for number in range(program.chips):
        image = image_of_chip(program.image, number) if program.chips > 1 else program.image
        found.append(Memories(image, program.machine, found[0] if found else None, program.pages))
    return found


def _buffers(tensors: Tensors) -> dict[str, Buffer]:
    return {name: tensor.buffer for name, (_, _, tensor) in tensors.items()}


def _uninterrupted() -> AbstractContextManager[None]:
    """Let Ctrl-C, which only the main thread gets, wait until a step is complete or undone."""
    return interrupts_held() if threading.current_thread() is threading.main_thread() else nullcontext()
