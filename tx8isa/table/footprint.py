"""Computes the exact bytes that an address operand touches, from its extent (``record.Extent``).

A footprint is a set of equal *pieces*, contiguous bytes at the positions of three nested loops, and perhaps a
second set. The extent of most operands is one piece; loop nests have a piece for each block. An aligned
tensor is written as a whole, padding lanes and the gap after each batch with zeros, but only the lanes of
real channels are read (docs/isa.md, Layouts).

The functions on ints are plain ones, which the emulator compiles. They return ``Loops``, by position: bytes
of a piece, then stride and trips of each loop, innermost first; then for the second set its distance from the
first one, bytes of a piece (0 without a second set), strides and trips of two loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType
from typing import NamedTuple

from tx8isa.families import nest
from tx8isa.numbers.layouts import batch_bytes, block_channels, tail_width, used_bytes

Loops = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
WORDS = 13
SECOND = 8
"""Index of the second set's piece size in ``Loops``; its distance is before it."""
_POSITIONS, _CHANNELS = 16, 40
"""Lowest bits of the sums in ``_facts``; operands of less than 4 MiB do not overflow them."""


def one_run(size: int) -> Loops:
    """Loops of consecutive bytes."""
    return size, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1


def span(block: int, s0: int, i0: int, s1: int, i1: int, s2: int, i2: int) -> Loops:
    """Loops of blocks at all loop positions; strides in bytes."""
    return block, s0, i0, s1, i1, s2, i2, 0, 0, 0, 1, 0, 1


def element_span(bits: int, n: int, s0: int, i0: int, s1: int, i1: int, s2: int, i2: int) -> Loops:
    """The result of ``span`` for a block and strides in elements."""
    block = (bits * n + 7) >> 3
    return span(block, bits * s0 >> 3, i0, bits * s1 >> 3, i1, bits * s2 >> 3, i2)


def fill_span(bits: int, n: int, s0: int, i0: int, s1: int, i1: int, s2: int, i2: int) -> Loops:
    """The result of ``span`` for a fill: block in elements, strides in bytes."""
    return span((bits * n + 7) >> 3, s0, i0, s1, i1, s2, i2)


def aligned(facts: int, bits: int, write: int) -> Loops:
    """Loops of an aligned tensor, from its ``_facts``."""
    batches = facts & 0xFFFF
    if batches == 0:
        return one_run(0)
    hw = (facts >> _POSITIONS & 0xFFFFFF) // batches
    channels = (facts >> _CHANNELS) // batches
    stride = batch_bytes(hw, channels, bits)
    if write:
        return one_run(stride * batches)
    block, size = block_channels(bits), bits // 8
    rest = channels % block
    whole = hw * (channels - rest) * size
    width = block if 2 * rest > block else tail_width(channels, block)
    return whole, stride, batches, 0, 1, 0, 1, whole, rest * size, width * size, hw, stride, batches


def _facts(hw: int, channels: int, bits: int) -> int:
    """Stand-in for ``batch_bytes`` with which an extent adds up batches, positions and channels."""
    return 1 + (hw << _POSITIONS) + (channels << _CHANNELS)


class Plan(NamedTuple):
    """Computes a footprint from the arguments of an extent: ``loops(*arguments)``; for an aligned tensor
    ``aligned(facts(*arguments), bits, write)``, where bits is the first argument; else consecutive bytes."""

    loops: Callable[..., Loops] | None
    facts: Callable[..., int] | None


_NESTS: dict[Callable[..., int], Callable[..., Loops]] = {
    nest.span: span,
    nest.element_span: element_span,
    nest.fill_span: fill_span,
}


@cache
def plan(length: Callable[..., int]) -> Plan:
    """The plan for the extent function ``length``."""
    changed = _with_facts(length)
    return Plan(_NESTS.get(length), None if changed is length else changed)


@cache
def _with_facts(function: Callable[..., int]) -> Callable[..., int]:
    """Copy an extent function to add up ``_facts`` instead of bytes; itself when it has no aligned tensor.

    The copy is the same code with other globals, so it combines facts in the way in which the extent combines
    bytes.
    """
    if function is batch_bytes:
        return _facts
    if not isinstance(function, FunctionType):
        return function
    own, used = function.__globals__, function.__code__.co_names
    found = {name: _with_facts(own[name]) for name in used if isinstance(own.get(name), FunctionType)}
    if all(found[name] is own[name] for name in found):
        return function
    changed = FunctionType(function.__code__, {**own, **found}, function.__name__, function.__defaults__)
    changed.__module__ = function.__module__
    return changed


def footprint(length: Callable[..., int], arguments: tuple[int, ...], write: bool) -> Loops:
    """The bytes that an operand with the extent ``length(*arguments)`` touches."""
    how = plan(length)
    if how.loops is not None:
        return how.loops(*arguments)
    if how.facts is not None:
        return aligned(how.facts(*arguments), arguments[0], int(write))
    return one_run(length(*arguments))


def batch_gap(length: Callable[..., int], arguments: tuple[int, ...]) -> int:
    """Return the bytes between two batches of an aligned tensor with the extent ``length(*arguments)``.

    0 for a single batch, and for operands that are not aligned tensors.
    """
    how = plan(length)
    facts = 0 if how.facts is None else how.facts(*arguments)
    batches = facts & 0xFFFF
    if batches < 2:
        return 0
    hw, channels = (facts >> _POSITIONS & 0xFFFFFF) // batches, (facts >> _CHANNELS) // batches
    return batch_bytes(hw, channels, arguments[0]) - used_bytes(hw, channels, arguments[0])


def runs(loops: Loops) -> Iterator[tuple[int, int]]:
    """(offset, bytes) of every piece; pieces may touch or overlap each other."""
    piece, s0, i0, s1, i1, s2, i2, offset, tail, t0, n0, t1, n1 = loops
    for set_of in ((0, piece, (s0, i0), (s1, i1), (s2, i2)), (offset, tail, (t0, n0), (t1, n1), (0, 1))):
        first, size, inner, middle, outer = set_of
        if size:
            for k in range(outer[1]):
                for j in range(middle[1]):
                    for i in range(inner[1]):
                        yield first + i * inner[0] + j * middle[0] + k * outer[0], size
