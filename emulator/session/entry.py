"""One network of a session: its inputs and outputs, the arrays bound to them, and its chip."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import le

import numpy as np

from asm.image import Buffer
from emulator.chip.memories import Memories
from emulator.chip.restart import Restart
from emulator.memory.buffers import Array, check_array
from emulator.memory.shapes import Sizes, fitting, place_sizes, sized_outputs
from emulator.program import Program
from tx8isa.errors import Tx8Error
from tx8isa.tools.suggestions import hint

from .tensors import BoundTensor


class SessionError(Tx8Error):
    """An error of a session: a name that the program does not have, or a step after its end."""


class SessionEntry:
    """A network in the memories of a session; ``tensor`` finds the bytes of a buffer there."""

    def __init__(self, program: Program, memories: Memories, tensor: Callable[[Buffer], BoundTensor]) -> None:
        self._program, self._memories, self._tensor = program, memories, tensor
        pairs = program.states
        past, present = ({pair[at].name for pair in pairs} for at in (0, 1))
        self.restart = Restart(program.image, program.machine, memories)
        self.inputs = {b.name: tensor(b) for b in program.inputs if b.name not in past}
        self.outputs = {b.name: tensor(b) for b in program.outputs if b.name not in present}
        self.states = {pair[0].name: tensor(pair[0]) for pair in pairs}
        self.bound: dict[str, Array] = {}
        """Inputs that every step reads."""
        self.results: dict[str, Array] = {}
        """Outputs that every step fills."""

    def bindings(self, arrays: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
        """Split arrays into inputs and outputs.

        SessionError for an unknown name or an array that cannot be bound, InputError for another shape or
        type.
        """
        bound: dict[str, Array] = {}
        results: dict[str, Array] = {}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise SessionError(f"'{name}' is bound to {type(array).__name__}; expected a NumPy array")
            tensor = named(name, {**self.outputs, **self.inputs}, "input or output")
            self._check(tensor, array)
            if tensor.buffer.kind == "output" and not array.flags.writeable:
                raise SessionError(f"output '{name}' is bound to an array that cannot be written")
            (bound if name in self.inputs else results)[name] = array
        return bound, results

    def arrays(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """Return the array of every input; InputError or SessionError when one is missing or does not fit."""
        arrays = {**self.bound, **self.checked(given)}
        missing = [name for name in self.inputs if name not in arrays]
        if missing:
            raise SessionError(f"input '{missing[0]}' is missing: bind it, or give it to the step")
        return arrays

    def checked(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """Return given inputs as arrays; errors as for ``arrays``."""
        arrays = {}
        for name, value in given.items():
            if name in self.states:
                raise SessionError(
                    f"input '{name}' is a state, which the session keeps: set it with set_state"
                )
            array = arrays[name] = np.asarray(value)
            self._check(named(name, self.inputs, "input"), array)
        return arrays

    def fill(self, arrays: Mapping[str, Array], lengths: Sizes) -> None:
        """Write the inputs of a step, and the sizes; SizeError if they disagree, or none is known.

        ``lengths`` are the lengths of growing states.
        """
        sizes = self._program.sizes_of(arrays, [tensor.buffer for tensor in self.inputs.values()], lengths)
        for name, array in arrays.items():
            self._sized(self.inputs[name], array.shape).fill(array)
        place_sizes(self._program.image, sizes, self._memories.ddr_area)

    def outputs_of_step(self) -> dict[str, Buffer]:
        """Return the outputs with their shapes after a step; states by the names of their inputs."""
        outputs = sized_outputs(self._program.image, self._program.outputs, self._memories.ddr_area)
        names = {present.name: past.name for past, present in self._program.states}
        return {names.get(buffer.name, buffer.name): buffer for buffer in outputs}

    def read(self) -> dict[str, Array]:
        """Return the outputs that are not states, after a step."""
        outputs = sized_outputs(self._program.image, self._program.outputs, self._memories.ddr_area)
        shapes = {buffer.name: buffer.shape for buffer in outputs}
        results = {}
        for name, whole in self.outputs.items():
            tensor, into = self._sized(whole, shapes[name]), self.results.get(name)
            if into is not None:
                tensor.check(into)
            results[name] = tensor.read(into)
        return results

    def _check(self, tensor: BoundTensor, array: Array) -> None:
        """Raise InputError or SizeError unless an array fits.

        A step shows if an output has the right size.
        """
        shapes, buffer = self._program.image.shapes, tensor.buffer
        if shapes is None or (buffer.kind, buffer.name) not in shapes.extents:
            tensor.check(array)
        elif buffer.kind == "input":
            check_array(fitting(shapes, buffer, array), array)
        else:
            fits = len(buffer.shape) == array.ndim and all(map(le, array.shape, buffer.shape))
            check_array(replace(buffer, shape=array.shape) if fits else buffer, array)

    def _sized(self, tensor: BoundTensor, shape: tuple[int, ...]) -> BoundTensor:
        """Return the buffer with its shape in a step."""
        if shape == tensor.buffer.shape:
            return tensor
        return self._tensor(replace(tensor.buffer, shape=shape))


def named(name: str, tensors: Mapping[str, BoundTensor], what: str) -> BoundTensor:
    """Return the tensor of a name; SessionError when the program has none."""
    if name not in tensors:
        known = f"{', '.join(tensors) or 'none'}{hint(name, tensors)}"
        raise SessionError(f"the program has no {what} '{name}'; known: {known}")
    return tensors[name]
