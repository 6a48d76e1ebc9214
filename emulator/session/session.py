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
"""By name: the chip that has it, its name there, and the tensor."""


class ProgramSession:
    """A program that runs many times, in memories of its own; see docs/sessions.md.

    Every step begins as a run of the program does, except for its states, which are zeros at first and then
    what the last complete step left there, and for constants that were replaced. Steps are executed one after
    the other, also those of several threads. Options as for ``Program.run``; ``max_instructions`` of a tile
    in a step.

    A program of several networks has a step for each of its entries, which ``entry`` names, by default the
    first. States of the same name are one state of all of them.

    On several chips the names are those of a run there: input or state ``x`` is that of every chip, and
    ``chip1.x`` that of chip 1; outputs and states that are asked for are those of the chips.
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
        """Complete steps since the states were set; ``load`` and ``reset`` set it too."""
        self.cycles: int | None = None
        """Simulated cycles of the last step; None without simulated time."""
        self._networks = {name: program.of_entry(name) for name in program.entries} or {"": program}
        self._chips = [SessionChip(program, self._networks, each) for each in _memories(program)]
        self._states = self._of_chips(lambda chip: chip.states)
        self._constants = self._of_chips(lambda chip: chip.constants)
        self._first = {name: chip.saved(own).copy() for name, (chip, own, _) in self._states.items()}
        self._lengths = StateLengths(program.image.shapes, _buffers(self._states))

    # -- what there is ---------------------------------------------------------------------------------

    def inputs(self, entry: str | None = None) -> dict[str, Buffer]:
        """The inputs of an entry that are not states, by name."""
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

    # -- what is bound ---------------------------------------------------------------------------------

    def bind(self, arrays: Mapping[str, Array], entry: str | None = None) -> None:
        """Let every step of an entry read inputs from these arrays, and write outputs into them, by name.

        They stay the caller's: a step finds what they hold when it begins. SessionError for a name that is
        neither input nor output, InputError for an array of another shape or type.
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
        """Give constants of the program other values, by name, for this session alone.

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
        """Copies of the states after the last complete step, by the names of their inputs."""
        with self._lock:
            return {
                name: self._lengths.valid(name, tensor.array_of(chip.saved(own)))
                for name, (chip, own, tensor) in self._states.items()
            }

    def set_state(self, arrays: Mapping[str, Array]) -> None:
        """Give states other values; SessionError and InputError as for ``replace``.

        SizeError for states that grow of a length that no step can begin with, or of different ones.
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
        """Give all states the values with which they began."""
        with self._working():
            for name, (chip, own, _) in self._states.items():
                chip.set_state(own, self._first[name])
            self._lengths.now = self._lengths.first
            self.steps = 0

    def save(self, path: str | Path) -> int:
        """Write the states to a file; its bytes. Tx8Error when that is not possible, or it is the program."""
        self.program.check_output("the saved states", path)
        with self._lock:
            states = {name: chip.saved(own).tobytes() for name, (chip, own, _) in self._states.items()}
            return write(path, SavedStates(self._digest, self.steps, states, self._lengths.now))

    def load(self, path: str | Path) -> None:
        """Go on from saved states; StateFileError for a file that holds none, or those of another program."""
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
        """One step: the outputs that are not states, by name; those that are bound are the bound arrays.

        ``inputs`` are those that are not bound, or others for this step. InputError when they do not fit;
        Fault when the program stops, KeyboardInterrupt when it is interrupted: then the states are what they
        were before.
        """
        network = self._entry(entry)
        arrays = [each.arrays(own) for each, own in self._given(network, inputs or {})]
        with self._working():
            return self._step(network, arrays)

    def submit(
        self, inputs: Mapping[str, Array] | None = None, entry: str | None = None
    ) -> Future[dict[str, Array]]:
        """Queue a step after those submitted before; inputs are copied, bound arrays are not.

        The result of the future is that of ``run``; outputs that are bound are those of the last step.
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
        """Run a network in the memories as they are; its cycles."""
        if len(self._chips) == 1:
            system = self._chips[0].entries[network].restart.begin(**self._options)
            system.run(self._limit)
            return system.cycles
        program, memories = self._networks[network], [chip.memories for chip in self._chips]
        mesh = ChipMesh(program.image, program.machine, memories=memories, **self._options)
        mesh.run(self._limit)
        return mesh.cycles

    def _undo(self) -> None:
        """Make the memories what they were before the step that is under way."""
        with _uninterrupted():
            for chip in self._chips:
                for each in chip.entries.values():
                    each.restart.forget()
            self._end(complete=False)

    def _end(self, complete: bool) -> None:
        """Bring the memories to what the next step begins with."""
        for chip in self._chips:
            chip.end(complete)
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

    def _entry(self, name: str | None) -> str:
        """The network of a name, by default the first."""
        if name is None:
            return next(iter(self._networks))
        if name not in self.program.entries:
            image_of_entry(self.program.image, name)  # says which there are
        return name

    def _of_chips(self, tensors: Callable[[SessionChip], Mapping[str, BoundTensor]]) -> Tensors:
        """Tensors of all chips, by the names that users know."""
        return self._named([{n: (chip, n, t) for n, t in tensors(chip).items()} for chip in self._chips])

    def _named(self, each: Sequence[Mapping[str, Found]]) -> dict[str, Found]:
        """What the chips have by name, with the number of the chip in the name if there are several."""
        if len(each) == 1:
            return dict(each[0])
        return {
            chip_name(number, name): found for number, own in enumerate(each) for name, found in own.items()
        }

    def _given(
        self, network: str, arrays: Mapping[str, Array]
    ) -> list[tuple[SessionEntry, dict[str, Array]]]:
        """The network on each chip, and the arrays that are for it; SessionError for the name of no chip."""
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
        """The bytes of arrays for states or constants, with the chips that get them."""
        found = []
        for name, array in arrays.items():
            own = [each for each in known.values() if each[1] == name] if name not in known else [known[name]]
            if not own:
                named(name, {key: tensor for key, (_, _, tensor) in known.items()}, what)
            found += [(chip, inner, tensor.bytes_of(array)) for chip, inner, tensor in own]
        return found


def _memories(program: Program) -> list[Memories]:
    """Memories with the program loaded, of each chip that it runs on."""
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
