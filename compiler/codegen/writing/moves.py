"""Loads and stores of values that stay in the scratchpad, which are moves within it.

Lowerings read and write a value in the scratchpad of a tile like one in DDR, by ``rdma`` and ``wdma`` with
the address of its buffer in place of a DDR address. These engines reach the scratchpad on one side only. The
TDMA moves bytes within it, and its instructions have as many loops.
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.codegen.expr import Operation, Value, Variable, buffers_of, highest
from compiler.codegen.spm import SpmOverflow
from compiler.codegen.tree import Argument
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_COUNT, MOST_MOVES

_MOVE = "td.gatherscatter"
_LEVELS = 3
"""Loops of a load, a store and a move."""


def within_scratchpad(
    mnemonic: str, arguments: dict[str, Argument], kept: Mapping[Variable, Value]
) -> tuple[str, dict[str, Argument]]:
    """Turn a load or store between two places of the scratchpad into a move; others stay unchanged.

    ``kept`` are the values of variables. SpmOverflow if a move cannot have as many bytes or blocks; smaller
    slices have fewer.
    """
    engine, _, token = mnemonic.partition(".")
    if engine not in ("rdma", "wdma"):
        return mnemonic, arguments
    side, packed = ("src", "dst") if engine == "rdma" else ("dst", "src")
    outside = arguments[side]
    if not isinstance(outside, Value) or not _in_buffer(outside, kept):
        return mnemonic, arguments
    size = Format.parse(token).bits // 8
    count = _number(arguments["n"]) * size
    moved: dict[str, Argument] = {"dst": arguments["dst"], "src0": arguments["src"], "n": count}
    blocks: Value = 1
    for level in range(_LEVELS):
        trips = _number(arguments.get(f"iter{level}", 1))
        if trips != 1:
            blocks = blocks * trips
            step = _number(arguments.get(f"stride{level}", 0)) * size
            moved |= {f"{side}_stride{level}": step, f"{side}_iter{level}": trips}
    if highest(count) > LARGEST_COUNT or highest(blocks) > MOST_MOVES:
        raise SpmOverflow(
            f"a move of {highest(blocks)} blocks of {highest(count)} bytes; at most {MOST_MOVES} blocks of "
            f"{LARGEST_COUNT} bytes are possible"
        )
    return _MOVE, moved if blocks == 1 else moved | {f"{packed}_stride0": count, f"{packed}_iter0": blocks}


def _in_buffer(value: Value, kept: Mapping[Variable, Value]) -> bool:
    """True if an address is in a buffer of the scratchpad."""
    if isinstance(value, Operation):
        return _in_buffer(value.left, kept) or _in_buffer(value.right, kept)
    if isinstance(value, Variable) and value in kept:
        return _in_buffer(kept[value], kept)
    return any(buffers_of(value))


def _number(argument: Argument) -> Value:
    if not isinstance(argument, Value):
        raise TypeError(f"a count or a distance is expected; found {argument!r}")
    return argument
