"""Sessions of programs on several chips, with the arrays of whole networks.

Every chip has a shard of an input, an output or a state. A session here splits whole arrays into shards and
joins the shards of results, so that callers use it like a session on a single chip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from asm.image import Buffer
from emulator.memory.buffers import check_array
from emulator.program import chip_name
from emulator.session import ProgramSession, SessionError
from tx8isa.tools.suggestions import hint

from .arrays import bind

if TYPE_CHECKING:
    from compiler.graph import Tensor
    from compiler.search.chips import SharedGraph

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]


class SpreadSteps:
    """``ProgramSession`` with whole arrays; ``spreads``: the sharding of each network, by entry."""

    def __init__(self, session: ProgramSession, spreads: Mapping[str, SharedGraph]) -> None:
        self._session, self._spreads = session, spreads
        self._results: dict[tuple[str, str], Array] = {}
        """Arrays that are bound to outputs, by entry and name."""
        self.reset, self.close, self.save, self.load = (
            session.reset,
            session.close,
            session.save,
            session.load,
        )

    @property
    def steps(self) -> int:
        return self._session.steps

    @property
    def cycles(self) -> int | None:
        """Simulated cycles of the chip that ends last."""
        return self._session.cycles

    def inputs(self, entry: str | None = None) -> dict[str, Buffer]:
        """Return the inputs of an entry as whole buffers, without states."""
        spread, known = self._spread(entry), self._session.inputs(entry)
        found = {tensor.name: tensor for tensor in spread.graph.inputs}
        return {name: _whole(known[chip_name(0, name)], found[name]) for name in found if _has(known, name)}

    @property
    def states(self) -> dict[str, Buffer]:
        """Return the states as whole buffers, by the names of their inputs."""
        known = self._session.states
        tensors = {tensor.name: tensor for each in self._spreads.values() for tensor in each.graph.inputs}
        return {name: _whole(known[chip_name(0, name)], tensors[name]) for name in self._of_states()}

    @property
    def constants(self) -> dict[str, Buffer]:
        """Return the named constants of each chip."""
        return self._session.constants

    @property
    def state(self) -> dict[str, Array]:
        """Return copies of the whole states after the last complete step."""
        saved = self._session.state
        return {name: spread.joined(saved, [name])[name] for name, spread in self._of_states().items()}

    def bind(self, arrays: Arrays, entry: str | None = None) -> None:
        """Bind arrays as ``ProgramSession.bind`` does; chips read and write their shards of the arrays."""
        spread, inputs = self._spread(entry), self.inputs(entry)
        presents = {present for _, present in spread.graph.states}
        outputs = {each.name: each for each in spread.graph.outputs if each.name not in presents}
        _check_names(arrays, [*inputs, *outputs], "input or output")
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise SessionError(f"'{name}' is bound to {type(array).__name__}; expected a NumPy array")
            buffer = self._outputs(entry)[name] if name in outputs else inputs[name]
            check_array(buffer, array)
        self._session.bind(spread.views(arrays), entry)
        self._results |= {(self._name(entry), name): arrays[name] for name in arrays if name in outputs}

    def run(self, inputs: Arrays | None = None, entry: str | None = None) -> dict[str, Array]:
        """Run one step, with whole inputs and outputs."""
        return self._joined(self._session.run(self._dealt(inputs or {}, entry), entry), entry)

    def submit(self, inputs: Arrays | None = None, entry: str | None = None) -> Future[dict[str, Array]]:
        """Queue a step."""
        done: Future[dict[str, Array]] = Future()
        inner = self._session.submit(self._dealt(inputs or {}, entry), entry)
        inner.add_done_callback(lambda step: _pass_on(step, done, lambda found: self._joined(found, entry)))
        return done

    def set_state(self, arrays: Arrays) -> None:
        """Set the values of states."""
        self._session.set_state(self._dealt_states(arrays))

    def begin_with(self, arrays: Arrays) -> None:
        """Set states, and let ``reset`` return to these values."""
        self._session.begin_with(self._dealt_states(arrays))

    def replace(self, constants: Arrays) -> None:
        """Replace constants of chips, by names such as ``chip1.w``."""
        self._session.replace(constants)

    # -- whole arrays and their shards -------------------------------------------------------------------

    def _name(self, entry: str | None) -> str:
        return next(iter(self._spreads)) if entry is None else entry

    def _spread(self, entry: str | None) -> SharedGraph:
        """Return the sharding of an entry; ImageError for an unknown name."""
        self._session.inputs(entry)
        return self._spreads[self._name(entry)]

    def _outputs(self, entry: str | None) -> dict[str, Buffer]:
        program = self._session.program
        buffers = (program.of_entry(self._name(entry)) if program.entries else program).outputs
        return {buffer.name: buffer for buffer in whole(buffers, self._spread(entry).graph.outputs)}

    def _of_states(self) -> dict[str, SharedGraph]:
        """Return, for each state, a network that has it."""
        pairs = [(past, each) for each in self._spreads.values() for past, _ in each.graph.states]
        return {past: each for past, each in pairs if _has(self._session.states, past)}

    def _dealt(self, arrays: Arrays, entry: str | None) -> dict[str, Array]:
        spread, known = self._spread(entry), self.inputs(entry)
        kept = next((name for name in arrays if name in dict(spread.graph.states)), None)
        if kept is not None:
            raise SessionError(f"input '{kept}' is a state, which the session keeps: set it with set_state")
        _check_names(arrays, known, "input")
        for name, array in arrays.items():
            check_array(known[name], array)
        return spread.dealt(arrays)

    def _dealt_states(self, arrays: Arrays) -> dict[str, Array]:
        known, spreads = self.states, self._of_states()
        _check_names(arrays, known, "state")
        found: dict[str, Array] = {}
        for name, array in arrays.items():
            check_array(known[name], array)
            found |= spreads[name].dealt({name: array})
        return found

    def _joined(self, results: Arrays, entry: str | None) -> dict[str, Array]:
        spread, presents = self._spread(entry), {present for _, present in self._spread(entry).graph.states}
        names = [tensor.name for tensor in spread.graph.outputs if tensor.name not in presents]
        found = spread.joined(results, names)
        return {name: self._results.get((self._name(entry), name), found[name]) for name in names}


def _has(known: Mapping[str, Buffer], name: str) -> bool:
    return chip_name(0, name) in known


def whole(buffers: Iterable[Buffer], tensors: Iterable[Tensor]) -> tuple[Buffer, ...]:
    """Return the buffers of a chip with the shapes of the whole network."""
    named = {tensor.name: tensor for tensor in tensors}
    return tuple(_whole(buffer, named[buffer.name]) for buffer in buffers)


def bind_to_chips(
    buffers: Sequence[Buffer], chips: int, given: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Array]:
    """Assign values to the inputs of all chips: ``chip1.x`` is chip 1's, ``x`` every chip's; otherwise as
    ``bind``."""
    if not named and len(given) == 1 and isinstance(given[0], Mapping):
        named, given = given[0], ()
    numbers, names = range(chips), [each.name for each in buffers]
    common = {chip_name(n, name): named[name] for n in numbers for name in names if name in named}
    others = {name: value for name, value in named.items() if name not in names}
    every = [replace(each, name=chip_name(n, each.name)) for n in numbers for each in buffers]
    return bind(every, given, common | others)


def _whole(buffer: Buffer, tensor: Tensor) -> Buffer:
    """Return the buffer of a chip with the tensor's shape in the whole network."""
    return replace(buffer, shape=tensor.shape)


def _check_names(arrays: Arrays, known: Iterable[str], what: str) -> None:
    names = list(known)
    wrong = next((name for name in arrays if name not in names), None)
    if wrong is not None:
        listed = f"{', '.join(names) or 'none'}{hint(wrong, names)}"
        raise SessionError(f"the program has no {what} '{wrong}'; known: {listed}")


def _pass_on(
    step: Future[dict[str, Array]],
    done: Future[dict[str, Array]],
    joined: Callable[[Arrays], dict[str, Array]],
) -> None:
    """Resolve the future ``done`` with the joined result, or the error, of ``step``."""
    if step.cancelled():
        done.cancel()
    elif (error := step.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(joined(step.result()))
