"""Chooses the words that are translated together: blocks reachable from a place, up to a size.

A block begins where control can arrive from elsewhere and ends before the next one. Branches that leave it
are side exits. The choice affects only speed: jumps that lead out of the blocks leave the translation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.core.predecode import (
    ENGINE,
    FIRST_COMPRESSED,
    FLOAT,
    FULL,
    NOTHING,
    PARCEL,
    Words,
    operation_records,
    parcels,
    shortened,
)
from emulator.memory import state

LONGEST_BLOCK = 64
"""Instructions of the longest block. A tile that is nearer than this to its limit is interpreted."""
LARGEST_REGION = 300
"""Instructions of the largest region; their translation takes about a tenth of a second."""
_SEEN = 2000
"""Instructions that are explored around a place."""
_LINK = 1
"""The register that calls and returns use (RISC-V ELF psABI, spec)."""
_CALLERS = 4
_TABLE_REACH = 400
"""A return is assumed to lead to at most this many calls, a jump through a table to at most this many parcels
ahead."""
_ENDS = ("jal", "jalr", "engine")
"""Kinds that end a block."""


class Layout(NamedTuple):
    """Facts about a program's words, by index. An instruction may begin at every parcel."""

    words: list[int]
    kinds: list[str]
    leaders: frozenset[int]
    calls: dict[int, list[int]]
    """The beginnings of functions that are called by name, and the returns of those calls."""
    starts: Sequence[bool]
    """True for words that are instructions when one follows the other from the beginning of the text."""


@cache
def operation_kinds() -> tuple[str, ...]:
    """Return the kind of each operation of a predecoded word: ``Scalar.kind``, "engine" or "nothing"."""
    kinds = ["nothing"] * 256
    for operation, (record, _) in operation_records().items():
        kinds[operation] = record.kind
    kinds[FLOAT], kinds[ENGINE] = "float", "engine"
    return tuple(kinds)


LEFT_OUT = frozenset(("nothing", "csr", "system", "fence.i"))
"""Kinds that Python executes: a block ends before them, and another begins after them."""


def find_layout(words: Words, translates: Callable[[int], bool]) -> Layout:
    """Analyse a program once; ``translates`` says which operations can be translated at all."""
    by_operation = np.array(operation_kinds())
    used = set(np.unique(words & 0xFF).tolist())
    left_out = [op for op in used if by_operation[op] not in LEFT_OUT and not translates(op)]
    by_operation[left_out] = "nothing"
    kinds = by_operation[words & 0xFF]
    immediates, lengths = words >> 32, _lengths(words)
    starts = _starts(lengths)
    index = np.arange(len(words))
    jumps = np.isin(kinds, ("branch", "jal")) & starts
    ends = np.isin(kinds, ("jal", "jalr", *LEFT_OUT)) & (words & 0xFF != NOTHING) & starts
    engines = kinds == "engine"
    after = index + lengths
    leaders = frozenset(
        np.concatenate(((index + immediates // PARCEL)[jumps], after[ends | engines])).tolist()
    )
    calls: dict[int, list[int]] = {}
    for at in np.flatnonzero((kinds == "jal") & (words >> 8 & 0xFF == state.X + _LINK) & starts).tolist():
        calls.setdefault(at + int(immediates[at]) // PARCEL, []).append(int(after[at]))
    return Layout(words.tolist(), kinds.tolist(), leaders, calls, starts.tolist())


def _lengths(words: Words) -> Words:
    """Return the parcels of the instruction of each word."""
    operations = words & 0xFF
    short = (operations >= FIRST_COMPRESSED) & (operations < FIRST_COMPRESSED + len(shortened()))
    return np.where(operations == ENGINE, words >> 8 & 0xFF, np.where(short, 1, FULL))


def _starts(lengths: Words) -> npt.NDArray[np.bool_]:
    """Return True for the words of instructions that are reached by going from each instruction to the next,
    beginning with the first word.

    Between instructions of an odd length these are every second word.
    """
    starts = np.zeros(len(lengths), dtype=bool)
    odd = np.flatnonzero(lengths & 1)
    by_parity = [odd[odd & 1 == parity].tolist() for parity in (0, 1)]
    position, at = [0, 0], 0
    while at < len(lengths):
        parity = at & 1
        places = by_parity[parity]
        position[parity] = bisect_left(places, at, position[parity])
        here = position[parity]
        last = places[here] if here < len(places) else len(lengths)
        starts[at : last + 1 : 2] = True
        at = last + 1
    return starts


def following(layout: Layout, index: int) -> int:
    """Return the place after the instruction at ``index``."""
    return index + parcels(layout.words[index])


def _before(layout: Layout, index: int) -> int | None:
    """Return the instruction that ends at ``index``, if it is a scalar one."""
    for length in (1, FULL):
        at = index - length
        if at >= 0 and layout.starts[at] and parcels(layout.words[at]) == length:
            return at
    return None


def block_at(layout: Layout, first: int) -> list[int]:
    """Return the words of the block that begins at ``first``; none if nothing there can be translated."""
    block: list[int] = []
    index = first
    while len(block) < LONGEST_BLOCK and layout.kinds[index] not in LEFT_OUT:
        if index != first and index in layout.leaders:
            break
        block.append(index)
        if layout.kinds[index] in _ENDS:
            break
        index = following(layout, index)
    return block


def exits(layout: Layout, block: list[int], link: int) -> list[int]:
    """Return the places where control may continue after a block, as far as known or likely.

    ``link`` is the return of the last call.
    """
    found = []
    for index in block:
        word, kind = layout.words[index], layout.kinds[index]
        if kind in ("branch", "jal"):
            found.append(index + (word >> 32) // PARCEL)
        if kind in ("jal", "jalr") and word >> 8 & 0xFF != state.SINK:
            found.append(following(layout, index))
        elif kind == "jalr":
            returns = word >> 16 & 0xFF == state.X + _LINK
            found += [link, *_callers(layout, index)] if returns else _cases(layout, index)
        if kind == "engine":
            found.append(following(layout, index))
    if layout.kinds[block[-1]] not in _ENDS:
        found.append(following(layout, block[-1]))
    return found


def _callers(layout: Layout, index: int) -> list[int]:
    """Return the places to which a return at ``index`` may lead: after a few calls of the nearest function
    before it."""
    begin = max((entry for entry in layout.calls if entry <= index), default=-1)
    return layout.calls.get(begin, [])[:_CALLERS]


def _cases(layout: Layout, index: int) -> list[int]:
    """Return the places to which a jump through a table may lead: the blocks after it."""
    after = range(index + 1, min(index + _TABLE_REACH, len(layout.words)))
    return [at for at in after if at in layout.leaders]


def region_at(layout: Layout, index: int, link: int) -> dict[int, list[int]]:
    """Return blocks by their first word, nearest first; empty when nothing is translated at ``index``.

    They are the loops around ``index``, also of callers; without a loop, the following blocks.
    """
    first = _block_around(layout, index)
    if index not in block_at(layout, first):
        return {}
    blocks, ways = _explore(layout, first, link)
    loop = _leading_to(first, ways)
    if first not in loop:
        return nearest(blocks, LONGEST_BLOCK)
    return nearest({at: block for at, block in blocks.items() if at in loop}, LARGEST_REGION)


def _block_around(layout: Layout, index: int) -> int:
    """Return the first word of the block that contains ``index``."""
    way = [index]
    while way[-1] not in layout.leaders:
        before = _before(layout, way[-1])
        if before is None or layout.kinds[before] in LEFT_OUT:
            break
        way.append(before)
    return way[(len(way) - 1) % LONGEST_BLOCK]


def _explore(layout: Layout, first: int, link: int) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Return blocks reached from ``first``, nearest first, and the origins of control for each."""
    blocks: dict[int, list[int]] = {}
    ways: dict[int, list[int]] = {}
    waiting, size = deque([first]), 0
    while waiting and size < _SEEN:
        at = waiting.popleft()
        if at in blocks or not 0 <= at < len(layout.words):
            continue
        block = block_at(layout, at)
        if block:
            blocks[at] = block
            size += len(block)
            for target in exits(layout, block, link):
                ways.setdefault(target, []).append(at)
                waiting.append(target)
    return blocks, ways


def _leading_to(first: int, ways: dict[int, list[int]]) -> set[int]:
    """Return the blocks from which ``first`` is reached; ``first`` is included only if it is in a loop."""
    found: set[int] = set()
    waiting = [first]
    while waiting:
        for source in ways.get(waiting.pop(), ()):
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found


def nearest(blocks: dict[int, list[int]], size: int) -> dict[int, list[int]]:
    """Return the first blocks that are small enough together, at least one."""
    taken: dict[int, list[int]] = {}
    for at, block in blocks.items():
        size -= len(block)
        if taken and size < 0:
            break
        taken[at] = block
    return taken
