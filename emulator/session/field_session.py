"""Sessions in prime fields, which proofs run: states carry their elements from step to step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from asm.image import Buffer
from emulator.chip.system import System
from emulator.chips.mesh import ChipMesh
from emulator.memory.buffers import Array
from emulator.memory.shapes import in_room, sized_outputs
from emulator.program import Program, chip_name
from emulator.watch.prove.memory import Places
from emulator.watch.prove.observer import FieldRun
from emulator.watch.prove.step import Functions
from tx8isa.numbers.formats import Format
from tx8isa.numbers.prime_field import Elements, PrimeField

from .session import ProgramSession

_BYTE, _LONGEST = 8, 32
"""Bits of the shortest and the longest numbers that have elements."""


@dataclass(frozen=True)
class FieldStepResult:
    """The results of a step; outputs include the new values of states, with their sizes in the step."""

    outputs: Mapping[str, Elements]
    """The outputs of floats, and others that have elements."""
    integers: Mapping[str, Array]
    """The numbers of outputs that are no floats."""
    writers: Mapping[str, npt.NDArray[np.int64]]
    """For each element of ``outputs`` the number of the instruction that computed it; 0: none is known."""
    runs: Sequence[FieldRun]
    """The run of each chip."""


class FieldSession(ProgramSession):
    """A session of a program, executed in prime fields too; on several chips names are those of sessions.

    ``functions`` are those that the program may read from tables. With ``finds`` kernel cores may find places
    in elements, by their real numbers.

    Each step runs on numbers and on elements. Only the bytes of the states stay in DDR until the next step,
    together with their elements and marks; all else is as after loading.
    """

    def __init__(
        self,
        program: Program,
        field: PrimeField,
        functions: Functions = MappingProxyType({}),
        finds: bool = False,
    ) -> None:
        super().__init__(program, field=field)
        self.field, self._functions, self._finds = field, functions, finds
        self._kept: dict[str, npt.NDArray[np.float32]] = {}
        self._placed: Mapping[str, Elements] = {}
        self._keeps_results = False
        self._result: FieldStepResult | None = None

    def step(
        self, elements: Mapping[str, Elements], real: Mapping[str, Array], keep_results: bool = False
    ) -> FieldStepResult:
        """Run a step; ``elements`` are those of inputs of floats, ``real`` has numbers for all inputs.

        States among them replace the states of the step before. Fault when the program stops; InputError,
        SessionError and SizeError for arrays that do not fit.
        """
        states = {name: self._whole(name, array) for name, array in real.items() if name in self._states}
        if states:
            self.set_state(states)
            self._kept.clear()
        self._placed, self._keeps_results = elements, keep_results
        self.run({name: array for name, array in real.items() if name not in states})
        assert self._result is not None
        return self._result

    def _whole(self, name: str, array: Array) -> Array:
        """Return an array with the room of a state whose first axis is free; growing ones have lengths."""
        buffer, shapes = self._states[name][2].buffer, self.program.image.shapes
        grows = shapes is not None and (buffer.kind, buffer.name) in shapes.room
        return array if grows else in_room(buffer, array)

    def _run(self, network: str) -> int | None:
        running = self._begun(network)
        systems = [running] if isinstance(running, System) else running.chips
        runs = [run for each in systems if (run := each.field_run) is not None]
        for number, run in enumerate(runs):
            self._prepare(run, number, runs[0])
        running.run(self._limit)
        for run in runs:
            run.check()
        self._result = self._joined([self._read(*pair) for pair in zip(systems, runs, strict=True)])
        self._kept = {
            name: runs[self._chips.index(chip)].ddr.kept(each.offset, each.size)
            for name, (chip, _, each) in self._states.items()
        }
        return running.cycles

    def _begun(self, network: str) -> System | ChipMesh:
        """The chips at the beginning of a step."""
        if len(self._chips) == 1:
            return self._chips[0].entries[network].restart.begin(**self._options)
        memories = [chip.memories for chip in self._chips]
        return ChipMesh(self.program.image, self.program.machine, memories=memories, **self._options)

    def _prepare(self, run: FieldRun, number: int, first: FieldRun) -> None:
        """Put the elements of states and inputs into the memory of a chip."""
        alone = len(self._chips) == 1
        run.functions = self._functions
        if self._finds:
            run.find_places()
        for name, (chip, _, each) in self._states.items():
            if chip is self._chips[number] and name in self._kept:
                run.ddr.put_back(each.offset, self._kept[name])
        for buffer in self.program.inputs:
            name = buffer.name if alone else chip_name(number, buffer.name)
            if (given := self._placed.get(name)) is not None:
                places = self._places(buffer, given.shape[1:])
                run.ddr.write(places, Format.parse(buffer.format), given)
        if self._keeps_results:  # from here on, because no instruction has computed the inputs
            run.keep_results("" if alone else f" of chip {number}", None if run is first else first)

    def _joined(self, each: Sequence[FieldStepResult]) -> FieldStepResult:
        """The results of all chips, by the names that they have there."""
        return FieldStepResult(
            self._named([own.outputs for own in each]),
            self._named([own.integers for own in each]),
            self._named([own.writers for own in each]),
            [run for own in each for run in own.runs],
        )

    def _elements(self, run: FieldRun, places: Places, fmt: Format) -> Elements:
        """Return the elements of an output; integers too long for elements are unknown."""
        if fmt.bits > _LONGEST:
            return np.full((self.field.residues, *places.shape), np.nan)
        return run.ddr.read(places, fmt)

    def _places(self, buffer: Buffer, shape: tuple[int, ...]) -> Places:
        """Return the offsets in DDR of the elements of an input or output that has a shape in this step."""
        declared, first = self.program.image.shapes, self.program.offset(buffer)
        room = declared is not None and (buffer.kind, buffer.name) in declared.room
        whole = buffer.shape if room else shape
        numbers = np.arange(int(np.prod(whole))).reshape(whole)[tuple(map(slice, shape))]
        return first + numbers * (Format.parse(buffer.format).bits // 8)

    def _read(self, system: System, run: FieldRun) -> FieldStepResult:
        """Return the outputs, before the memories are prepared for the next step."""
        results = self.program.results(system)
        outputs, writers = dict[str, Elements](), dict[str, npt.NDArray[np.int64]]()
        sized = sized_outputs(self.program.image, self.program.outputs, system.memories.ddr_area)
        for whole, buffer in zip(self.program.outputs, sized, strict=True):
            fmt, places = Format.parse(buffer.format), self._places(whole, buffer.shape)
            if fmt.bits >= _BYTE and (fmt.is_float or run.ddr.has_elements(places)):
                outputs[buffer.name] = self._elements(run, places, fmt)
                writers[buffer.name] = run.ddr.writers(places)
        formats = {buffer.name: Format.parse(buffer.format) for buffer in sized}
        integers = {name: array for name, array in results.items() if not formats[name].is_float}
        return FieldStepResult(outputs, integers, writers, [run])
