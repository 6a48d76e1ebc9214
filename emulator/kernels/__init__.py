"""The emulator's kernels: one for each record, format and kind of rounding, made from a few moulds.

A kernel is a plain Python function ``(fields, state) -> 0`` for ``native.compile_kernel``. ``fields`` is
the address of int64 words: word i is the value of operand i of the record (registers replaced by their
contents), and the word behind the last operand the address of the table that ``make_table`` gives, or 0.
``state`` is the address of the tile's words (``emulator.state``). SPM addresses are byte offsets, DDR
addresses byte offsets from DDR byte 0. Ranges, rules and alignment have been checked before: kernels check
nothing.

Every kernel reads all of its inputs before it writes (docs/isa.md, Number model, proposed). Operands that
overlap the result pass through scratch (``SCRATCH_BYTES``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tx8isa.formats import Format
from tx8isa.meaning import Convert, Elementwise, Fill, Join, Load, Move, Nest, Pool, Reduce, Store
from tx8isa.record import Instruction

from .convert import make_convert
from .dma import make_dma
from .elementwise import make_elementwise
from .join import make_join
from .move import make_move
from .nest import make_gatherscatter, make_memset
from .pool import make_pool
from .reduce import make_reduce
from .rows import SCRATCH_BYTES
from .table import make_lookup, make_table, uses_table

__all__ = ["SCRATCH_BYTES", "Kernel", "kernel_name", "make_kernel", "make_table"]

Kernel = Callable[[int, int], int]

_OF_FORMAT: dict[type, Callable[[Instruction, Format], Kernel]] = {
    Reduce: make_reduce,
    Pool: make_pool,
    Move: make_move,
    Join: make_join,
    Fill: make_memset,
    Load: make_dma,
    Store: make_dma,
}

_MOVEMENT = (Move, Join, Fill, Load, Store)


def make_kernel(instruction: Instruction, fmt: Format | None, nearest: bool) -> Kernel:
    """The kernel of a record for one of its formats.

    ``nearest`` False is the variant for every rounding mode but nearest even, which it reads from the
    operand ``rnd``; records without that operand have one variant. ValueError for a format the record does
    not have, and for records that no mould here covers (matrix engine, control).
    """
    if fmt not in (instruction.formats or (None,)):
        raise ValueError(f"{instruction.mnemonic} has no format {fmt!r}")
    meaning: Any = instruction.meaning
    if isinstance(meaning, Convert):
        return make_convert(instruction, nearest)
    if isinstance(meaning, Nest):
        return make_gatherscatter(instruction)
    if fmt is None or type(meaning) not in (Elementwise, *_OF_FORMAT):
        raise ValueError(f"{instruction.mnemonic}: no mould for {type(meaning).__name__}")
    if uses_table(instruction, fmt):
        return make_lookup(instruction)
    if isinstance(meaning, Elementwise):
        return make_elementwise(instruction, fmt, nearest)
    return _OF_FORMAT[type(meaning)](instruction, fmt)


def kernel_name(instruction: Instruction, fmt: Format | None, nearest: bool) -> str:
    """The name of a kernel in messages and in the cache: ``ct.add.vv.fp16``, ``ct.add.vv.fp16.rounded``.

    Kernels with the same code share a name, so that they are compiled once: data movement is named after the
    size of its elements (``td.pad.16bit``), and all functions that read a table are ``ct.lookup.v``.
    """
    if uses_table(instruction, fmt):
        return "ct.lookup.v"
    parts = [instruction.mnemonic]
    if fmt is not None:
        parts.append(f"{fmt.bits}bit" if isinstance(instruction.meaning, _MOVEMENT) else fmt.token)
    if not nearest:
        parts.append("rounded")
    return ".".join(parts)
