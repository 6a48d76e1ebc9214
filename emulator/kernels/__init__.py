"""The emulator's kernels: one for each record, format and kind of rounding, made from a few moulds.

A kernel is a plain Python function ``(fields, state) -> 0`` for ``native.compile_kernel``. ``fields`` is
the address of int64 words: word i is the value of operand i of the record (registers replaced by their
contents), and the word behind the last operand the address of the table that ``make_table`` gives, or 0.
``state`` is the address of the tile's words (``emulator.memory.state``). SPM addresses are byte offsets, DDR
addresses byte offsets from DDR byte 0. Ranges, rules and alignment have been checked before: kernels check
nothing.

Every kernel reads all of its inputs before it writes (docs/isa.md, Number model, proposed). Operands that
overlap the result pass through scratch (``SCRATCH_BYTES``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emulator.kernels.tensor.bilinear import make_resize
from emulator.kernels.tensor.checked_fold import watched_fold
from emulator.kernels.tensor.dma import make_dma
from emulator.kernels.tensor.join import make_join
from emulator.kernels.tensor.move import make_move
from emulator.kernels.tensor.nest import make_gatherscatter, make_memset
from emulator.kernels.tensor.pool import make_pool
from emulator.kernels.tensor.reduce import make_reduce
from emulator.kernels.tensor.unfold import make_unfold
from emulator.kernels.tensor.unpool import make_unpool
from emulator.kernels.vector.bitwise import make_bitwise, make_unpack
from emulator.kernels.vector.convert import make_convert
from emulator.kernels.vector.elementwise import make_elementwise
from emulator.kernels.vector.gather import make_compress, make_gather, make_masked_copy
from emulator.kernels.vector.peripheral import make_count, make_count_bits, make_extreme, make_split
from emulator.kernels.vector.random import make_dropout, make_uniform
from emulator.kernels.vector.relation import make_relation
from emulator.kernels.vector.scalar_unit import make_scalar
from emulator.kernels.vector.table import make_lookup, make_table, uses_table
from emulator.memory.rows import SCRATCH_BYTES
from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import (
    Bitwise,
    Compress,
    Convert,
    CountBits,
    CountNonZero,
    Dropout,
    Elementwise,
    Extreme,
    Fill,
    Gather,
    Join,
    Load,
    MaskedCopy,
    Move,
    Nest,
    Pool,
    Reduce,
    Relation,
    Resize,
    ScalarFunction,
    Split,
    Store,
    Unfold,
    Uniform,
    Unpack,
    Unpool,
)
from tx8isa.records.record import Instruction

__all__ = ["SCRATCH_BYTES", "Kernel", "kernel_name", "make_kernel", "make_table"]

Kernel = Callable[[int, int], int]

_OF_FORMAT: dict[type, Callable[[Instruction, Format], Kernel]] = {
    Reduce: make_reduce,
    Pool: make_pool,
    Move: make_move,
    Unfold: make_unfold,
    Unpool: make_unpool,
    Resize: make_resize,
    Join: make_join,
    Fill: make_memset,
    Load: make_dma,
    Store: make_dma,
    Relation: make_relation,
    Unpack: make_unpack,
    MaskedCopy: make_masked_copy,
    Compress: make_compress,
    CountNonZero: make_count,
    Extreme: make_extreme,
    Uniform: make_uniform,
    ScalarFunction: make_scalar,
}

_WITHOUT_FORMAT: dict[type, Callable[[Instruction], Kernel]] = {CountBits: make_count_bits, Split: make_split}

CHECKED = (Elementwise, Convert, Reduce, Pool)
"""Meanings whose kernels have a variant that notes numeric exceptions."""

_MOVEMENT = (Move, Unfold, Join, Fill, Load, Store, Gather, Compress)


def make_kernel(instruction: Instruction, fmt: Format | None, nearest: bool, checked: bool = False) -> Kernel:
    """The kernel of a record for one of its formats.

    ``nearest`` False is the variant for every rounding mode but nearest even, which it reads from the
    operand ``rnd``; records without that operand have one variant. ``checked`` is the variant that notes
    numeric exceptions; meanings beyond ``CHECKED`` have none. ValueError for a format the record does not
    have, and for records that no mould here covers (matrix engine, control).
    """
    if fmt not in (instruction.formats or (None,)):
        raise ValueError(f"{instruction.mnemonic} has no format {fmt!r}")
    meaning: Any = instruction.meaning
    if isinstance(meaning, Convert):
        return make_convert(instruction, nearest, checked)
    if isinstance(meaning, Nest):
        return make_gatherscatter(instruction)
    if isinstance(meaning, Bitwise):
        return make_bitwise(instruction)
    if isinstance(meaning, Gather):
        return make_gather(instruction, fmt)
    if type(meaning) in _WITHOUT_FORMAT:
        return _WITHOUT_FORMAT[type(meaning)](instruction)
    if isinstance(meaning, Dropout) and fmt is not None:
        return make_dropout(instruction, fmt, nearest)
    if fmt is None or type(meaning) not in (Elementwise, *_OF_FORMAT):
        raise ValueError(f"{instruction.mnemonic}: no mould for {type(meaning).__name__}")
    if uses_table(instruction, fmt) and not checked:
        return make_lookup(instruction)
    if isinstance(meaning, Elementwise):
        return make_elementwise(instruction, fmt, nearest, checked)
    kernel = _OF_FORMAT[type(meaning)](instruction, fmt)
    if checked and isinstance(meaning, Reduce | Pool):
        return watched_fold(instruction, fmt, kernel)
    return kernel


def kernel_name(instruction: Instruction, fmt: Format | None, nearest: bool, checked: bool = False) -> str:
    """The name of a kernel in messages and in the cache: ``ct.add.vv.fp16``, ``ct.add.vv.fp16.rounded``.

    Kernels with the same code share a name, so that they are compiled once: data movement is named after the
    size of its elements (``td.pad.16bit``), and all functions that read a table are ``ct.lookup.v``.
    """
    checked = checked and isinstance(instruction.meaning, CHECKED)
    if uses_table(instruction, fmt) and not checked:
        return "ct.lookup.v"
    parts = [instruction.mnemonic]
    if fmt is not None:
        parts.append(f"{fmt.bits}bit" if isinstance(instruction.meaning, _MOVEMENT) else fmt.token)
    if not nearest:
        parts.append("rounded")
    if checked:
        parts.append("checked")
    return ".".join(parts)
