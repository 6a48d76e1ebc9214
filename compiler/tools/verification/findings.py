"""The findings of a proof, and their lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from compiler.evaluation.field.byte_rules import of_integers
from compiler.evaluation.field.rules import is_elements
from compiler.evaluation.field.run import Value, Values
from compiler.graph import Array, Node, Tensor
from tx8isa.numbers.prime_field import PrimeField
from tx8isa.tools.command_line import one_line

from .field_run import FieldOutcome


@dataclass(frozen=True)
class Difference:
    """The first element of an output that differs from the graph's."""

    output: str
    index: tuple[int, ...]
    count: int
    """Number of elements that differ."""
    size: int
    by: str = ""
    """The instruction that computed it."""
    instead: str = ""
    """The program's value there, if it is 0 or one other element of the graph."""


@dataclass(frozen=True)
class Proof:
    """The findings of a proof."""

    proved: Mapping[str, int]
    """Outputs that are right, with the number of their elements."""
    differences: tuple[Difference, ...]
    unknown: Mapping[str, int]
    """Outputs with elements about which nothing is known, and the number of these."""
    reserves: Mapping[str, int]
    """Instructions that were executed only in real numbers, with their counts."""
    not_followed: Mapping[str, str]
    """Nodes without a meaning in the field, and the effect of each."""
    by_recipe: frozenset[str]
    """Operators whose meaning is defined by their own programs."""
    same_code: bool
    """True if the twin's program, which was run, has the instructions of the given one."""
    blamed: Node | None = None
    """The first node whose result no instruction computes, though its operands are there."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The sizes of the run, for a program of a range."""
    mistake: str = ""
    """The missing or surplus terms of the first wrong sum, if such a mistake explains the wrong output."""
    step: int = 0
    """The number of the step, from 1, for a program with states."""
    before: tuple[Proof, ...] = ()
    """The proofs of the steps before this one."""

    @property
    def holds(self) -> bool:
        """Return True if every output is proved, of this step and those before it."""
        own = self.same_code and not self.differences and not self.unknown
        return own and all(each.holds for each in self.before)

    def __str__(self) -> str:
        return "\n".join(lines(self))


def compared(outputs: Sequence[Tensor], field: PrimeField, got: FieldOutcome, values: Values) -> Proof:
    """Compare the outputs of a run, in the shapes that they have there, with the values of the graph."""
    proved, unknown, differences = dict[str, int](), dict[str, int](), list[Difference]()
    for tensor in outputs:
        if not tensor.size:
            continue
        wrong, nothing = _differing(tensor, field, got, values[tensor.name])
        if nothing.any():
            unknown[tensor.name] = int(nothing.sum())
        if wrong.any():
            index = tuple(int(at) for at in np.argwhere(wrong)[0])
            differences.append(Difference(tensor.name, index, int(wrong.sum()), tensor.size))
        elif not nothing.any():
            proved[tensor.name] = tensor.size
    return Proof(proved, tuple(differences), unknown, {}, {}, frozenset(), True)


def _differing(tensor: Tensor, field: PrimeField, got: FieldOutcome, value: Value) -> tuple[Array, Array]:
    """Where an output is wrong, and where nothing is known; ``value`` may have room for more."""
    name, part = tensor.name, tuple(map(slice, tensor.shape))
    if value is None:
        return np.zeros(tensor.shape, np.bool_), np.ones(tensor.shape, np.bool_)
    if name in got.integers and not is_elements(value):
        wrong: Array = got.integers[name] != value[part]
        return wrong, np.zeros(tensor.shape, np.bool_)
    wanted = value[(slice(None), *part)] if is_elements(value) else of_integers(field, value[part])
    found = got.outputs[name] if name in got.outputs else of_integers(field, got.integers[name])
    first, second = field.canonical(found), field.canonical(wanted)
    nothing = np.isnan(first).any(0) | np.isnan(second).any(0)
    return np.asarray((first != second).any(0) & ~nothing), np.asarray(nothing)


def lines(proof: Proof) -> list[str]:
    """The findings of a proof as lines for people, those of earlier steps first."""
    place = [f"{name}={size}" for name, size in proof.sizes.items()]
    place += [f"step {proof.step}"] if proof.step else []
    at = f"at {', '.join(place)}: " if place else ""
    earlier = [line for each in proof.before for line in lines(each)]
    return [*earlier, *(one_line(f"{at}{line}") for line in _own_lines(proof))]


def _own_lines(proof: Proof) -> Iterator[str]:
    """The findings, without sizes and steps."""
    yield from (f"proved: {name}, {count:,} elements" for name, count in proof.proved.items())
    for each in proof.differences:
        place = f"{each.output}[{', '.join(map(str, each.index))}]"
        yield (
            f"WRONG: {each.count:,} of {each.size:,} elements of {each.output}; the first is {place}"
            + (f", which is {each.instead}" if each.instead else "")
            + (f", computed by {each.by}" if each.by else "")
        )
    if proof.mistake:
        yield proof.mistake
    elif proof.blamed is not None:
        yield f"{proof.blamed}: no instruction computes its result, though all its operands are there"
    for name, count in proof.unknown.items():
        yield f"open: {name}, nothing is known of {count:,} elements"
    yield from (f"node '{name}' is not followed: {what}" for name, what in proof.not_followed.items())
    yield from (f"but for {what}, {count:,} times" for what, count in proof.reserves.items())
    if proof.by_recipe:
        yield f"functions as their own programs compute them: {', '.join(sorted(proof.by_recipe))}"
    if not proof.same_code:
        yield "open: with short constants the program has other instructions"
