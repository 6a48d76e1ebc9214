"""One network of a session: its inputs and outputs, what is bound to them, and the chip that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from asm.image import Buffer
from emulator.chip.memories import Memories
from emulator.program import Array, Program
from tx8isa.errors import Tx8Error
from tx8isa.tools.suggestions import hint

from .restart import Restart
from .tensors import BoundTensor


class SessionError(Tx8Error):
    """An error of a session: a name that the program does not have, or a step after its end."""


class SessionEntry:
    """A network in the memories of a session; ``tensor`` finds the bytes of a buffer there."""

    def __init__(self, program: Program, memories: Memories, tensor: Callable[[Buffer], BoundTensor]) -> None:
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
        """Arrays as inputs and as outputs; SessionError for an unknown name or an array that cannot be bound,
        InputError for one of another shape or type."""
        bound: dict[str, Array] = {}
        results: dict[str, Array] = {}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise SessionError(f"'{name}' is bound to {type(array).__name__}; expected a NumPy array")
            tensor = named(name, {**self.outputs, **self.inputs}, "input or output")
            tensor.check(array)
            if tensor.buffer.kind == "output" and not array.flags.writeable:
                raise SessionError(f"output '{name}' is bound to an array that cannot be written")
            (bound if name in self.inputs else results)[name] = array
        return bound, results

    def arrays(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """The array of every input; InputError or SessionError when one is missing or does not fit."""
        arrays = {**self.bound, **self.checked(given)}
        missing = [name for name in self.inputs if name not in arrays]
        if missing:
            raise SessionError(f"input '{missing[0]}' is missing: bind it, or give it to the step")
        return arrays

    def checked(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """Inputs that are given, as arrays; errors as for ``arrays``."""
        arrays = {}
        for name, value in given.items():
            if name in self.states:
                raise SessionError(
                    f"input '{name}' is a state, which the session keeps: set it with set_state"
                )
            array = arrays[name] = np.asarray(value)
            named(name, self.inputs, "input").check(array)
        return arrays


def named(name: str, tensors: Mapping[str, BoundTensor], what: str) -> BoundTensor:
    """The tensor of a name; SessionError when the program has none."""
    if name not in tensors:
        known = f"{', '.join(tensors) or 'none'}{hint(name, tensors)}"
        raise SessionError(f"the program has no {what} '{name}'; known: {known}")
    return tensors[name]
