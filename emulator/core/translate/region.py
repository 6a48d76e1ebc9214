"""Which words are translated together: the blocks that can be reached from a place, up to a size.

A block begins where control can come from elsewhere and ends before the next one; branches inside are left to
the side. What is found here decides speed alone: jumps that lead out of the blocks leave the translation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from emulator.core.predecode import ENGINE, FIRST_SCALAR, FLOAT, NOTHING, Words
from emulator.memory import state
from tx8isa.table import scalar as rv

LONGEST_BLOCK = 64
"""Instructions of the longest block. A tile that is nearer than this to its limit is interpreted."""
LARGEST_REGION = 300
"""Instructions of the largest region; their translation takes about a tenth of a second."""
_SEEN = 2000
"""Instructions that are explored around a place."""
_LINK = 1
"""The register that calls and returns use (RISC-V ELF psABI, spec)."""
_CALLERS = 4
_TABLE_REACH = 200
"""To how many calls a return is taken to lead, and within how many words a jump by a table."""
_ENDS = ("jal", "jalr", "engine")
"""Kinds that end a block."""


class Layout(NamedTuple):
    """Facts about a program's words, by index."""

    words: list[int]
    kinds: list[str]
    leaders: frozenset[int]
    calls: dict[int, list[int]]
    """Where functions begin that are called by name, and where those calls return to."""


@cache
def operation_kinds() -> tuple[str, ...]:
    """Kind by operation of a predecoded word: ``Scalar.kind``, "engine" or "nothing"."""
    kinds = ["nothing"] * 256
    for number, record in enumerate(rv.scalar_instructions()):
        kinds[FIRST_SCALAR + number] = record.kind
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
    immediates, lengths = words >> 32, words >> 8 & 0xFF
    index = np.arange(len(words))
    jumps = np.isin(kinds, ("branch", "jal"))
    ends = np.isin(kinds, ("jal", "jalr", *LEFT_OUT)) & (words & 0xFF != NOTHING)
    engines = kinds == "engine"
    targets = ((index + (immediates >> 2))[jumps], index[ends] + 1, (index + lengths)[engines])
    leaders = frozenset(np.concatenate(targets).tolist())
    calls: dict[int, list[int]] = {}
    for at in np.flatnonzero((kinds == "jal") & (words >> 8 & 0xFF == state.X + _LINK)).tolist():
        calls.setdefault(at + int(immediates[at] >> 2), []).append(at + 1)
    return Layout(words.tolist(), kinds.tolist(), leaders, calls)


def block_at(layout: Layout, first: int) -> list[int]:
    """The words of the block that begins at ``first``; none when nothing there is translated."""
    block: list[int] = []
    index = first
    while len(block) < LONGEST_BLOCK and layout.kinds[index] not in LEFT_OUT:
        if index != first and index in layout.leaders:
            break
        block.append(index)
        if layout.kinds[index] in _ENDS:
            break
        index += 1
    return block


def exits(layout: Layout, block: list[int], link: int) -> list[int]:
    """Where control may go from a block, as far as that is known or likely.

    ``link`` is where the last call returns to.
    """
    found = []
    for index in block:
        word, kind = layout.words[index], layout.kinds[index]
        if kind in ("branch", "jal"):
            found.append(index + (word >> 34))
        if kind in ("jal", "jalr") and word >> 8 & 0xFF != state.SINK:
            found.append(index + 1)
        elif kind == "jalr":
            returns = word >> 16 & 0xFF == state.X + _LINK
            found += [link, *_callers(layout, index)] if returns else _cases(layout, index)
        if kind == "engine":
            found.append(index + (word >> 8 & 0xFF))
    if layout.kinds[block[-1]] not in _ENDS:
        found.append(block[-1] + 1)
    return found


def _callers(layout: Layout, index: int) -> list[int]:
    """Where a return at ``index`` may lead: after a few calls of the nearest function that begins above."""
    begin = max((entry for entry in layout.calls if entry <= index), default=-1)
    return layout.calls.get(begin, [])[:_CALLERS]


def _cases(layout: Layout, index: int) -> list[int]:
    """Where a jump by a table may lead: to the blocks after it."""
    after = range(index + 1, min(index + _TABLE_REACH, len(layout.words)))
    return [at for at in after if at in layout.leaders]


def region_at(layout: Layout, index: int, link: int) -> dict[int, list[int]]:
    """Blocks by their first word, nearest first; empty when nothing can be translated at ``index``.

    They are the loops around ``index``, those of callers included; without a loop, what comes next.
    """
    first = index
    while first > 0 and first not in layout.leaders and layout.kinds[first - 1] not in LEFT_OUT:
        first -= 1
    first += (index - first) // LONGEST_BLOCK * LONGEST_BLOCK
    if index not in block_at(layout, first):
        return {}
    blocks, ways = _explore(layout, first, link)
    loop = _leading_to(first, ways)
    if first not in loop:
        return nearest(blocks, LONGEST_BLOCK)
    return nearest({at: block for at, block in blocks.items() if at in loop}, LARGEST_REGION)


def _explore(layout: Layout, first: int, link: int) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Blocks reached from ``first``, nearest first, and for each where control comes from."""
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
    """The blocks from which ``first`` is reached; itself only when it is in a loop."""
    found: set[int] = set()
    waiting = [first]
    while waiting:
        for source in ways.get(waiting.pop(), ()):
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found


def nearest(blocks: dict[int, list[int]], size: int) -> dict[int, list[int]]:
    """The first blocks that have no more instructions together, at least one."""
    taken: dict[int, list[int]] = {}
    for at, block in blocks.items():
        size -= len(block)
        if taken and size < 0:
            break
        taken[at] = block
    return taken
