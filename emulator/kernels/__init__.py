"""The emulator's kernels: one for each record, format and kind of rounding, made by families.

A kernel is a plain Python function ``(fields, state) -> 0`` for ``native.compile_kernel``. ``fields`` is the
address of int64 words: word i is the value of operand i of the record (registers replaced by their contents),
and the word after the last operand the address of the table from ``make_table``, or 0. ``state`` is the
address of the tile's words (``emulator.memory.state``). SPM addresses are byte offsets, DDR addresses byte
offsets from DDR byte 0. Kernels check nothing, because ranges, rules and alignment are checked at issue.

Every kernel reads all of its inputs before it writes (docs/isa.md, Number model, proposed). Operands that
overlap the result pass through scratch (``memory.rows``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from emulator.kernels.shared import Kernel
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
from emulator.kernels.vector.gather import make_compress, make_gather, make_masked_copy
from emulator.kernels.vector.peripheral import make_count, make_count_bits, make_extreme, make_split
from emulator.kernels.vector.random import make_dropout, make_uniform
from emulator.kernels.vector.relation import make_relation
from emulator.kernels.vector.scalar_unit import make_scalar
from emulator.kernels.vector.table import make_function, make_table, uses_table
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

__all__ = ["Kernel", "is_compact", "kernel_name", "make_kernel", "make_table"]


class Family(NamedTuple):
    """The maker of the kernels for one kind of meaning, and their variants."""

    make: Callable[..., Kernel]
    """(instruction, then the arguments selected by the following fields) -> kernel."""
    formats: bool = True
    """True if the maker takes the format, so that there is a kernel for each."""
    widths: bool = False
    """True if only the width of the format matters, so that formats of one width share a kernel."""
    rounded: bool = False
    """True if it takes ``nearest``, where False is the variant for every rounding mode but nearest even."""
    checked: bool = False
    """True if it takes ``checked``, where True is the variant that notes numeric exceptions."""
    compact: bool = False
    """True if its kernels are vector code and copies, as fast in compact code (``native.compile_kernel``)."""


FAMILIES: dict[type, Family] = {
    Bitwise: Family(make_bitwise, formats=False),
    Compress: Family(make_compress, widths=True),
    Convert: Family(make_convert, formats=False, rounded=True, checked=True),
    CountBits: Family(make_count_bits, formats=False),
    CountNonZero: Family(make_count),
    Dropout: Family(make_dropout, rounded=True),
    Elementwise: Family(make_function, rounded=True, checked=True),
    Extreme: Family(make_extreme),
    Fill: Family(make_memset, widths=True, compact=True),
    Gather: Family(make_gather, widths=True),
    Join: Family(make_join, widths=True, compact=True),
    Load: Family(make_dma, widths=True, compact=True),
    MaskedCopy: Family(make_masked_copy),
    Move: Family(make_move, widths=True, compact=True),
    Nest: Family(make_gatherscatter, formats=False),
    Pool: Family(watched_fold(make_pool), checked=True, compact=True),
    Reduce: Family(watched_fold(make_reduce), checked=True, compact=True),
    Relation: Family(make_relation),
    Resize: Family(make_resize),
    ScalarFunction: Family(make_scalar),
    Split: Family(make_split, formats=False),
    Store: Family(make_dma, widths=True, compact=True),
    Unfold: Family(make_unfold, widths=True, compact=True),
    Uniform: Family(make_uniform),
    Unpack: Family(make_unpack),
    Unpool: Family(make_unpool),
}
"""The families by meaning, except the matrix engine's, which are in ``ne``."""


def make_kernel(instruction: Instruction, fmt: Format | None, nearest: bool, checked: bool = False) -> Kernel:
    """Make the kernel of a record for one of its formats.

    ``nearest`` False is the variant for all other rounding modes, which it reads from the operand ``rnd``.
    Records without that operand have one variant. ``checked`` is the variant that records numeric exceptions,
    for families that have one. ValueError for a format that the record lacks, and for records whose meaning
    belongs to no family (matrix engine, control).
    """
    if fmt not in (instruction.formats or (None,)):
        raise ValueError(f"{instruction.mnemonic} has no format {fmt!r}")
    family = FAMILIES.get(type(instruction.meaning))
    if family is None:
        raise ValueError(f"{instruction.mnemonic}: no kernels for {type(instruction.meaning).__name__}")
    given = ((family.formats, fmt), (family.rounded, nearest), (family.checked, checked))
    return family.make(instruction, *(value for takes, value in given if takes))


def is_compact(instruction: Instruction) -> bool:
    """Return True if the kernels of a record are compiled to compact code, as the matrix engine's are."""
    family = FAMILIES.get(type(instruction.meaning))
    return family is None or family.compact


def kernel_name(instruction: Instruction, fmt: Format | None, nearest: bool, checked: bool = False) -> str:
    """Name a kernel in messages and in the cache: ``ct.add.vv.fp16``, ``ct.add.vv.fp16.rounded``.

    Kernels with the same code share a name, so that they are compiled once: data movement is named after the
    size of its elements (``td.pad.16bit``), and all functions that read a table are ``ct.lookup.v``.
    """
    family = FAMILIES.get(type(instruction.meaning))
    checked = checked and family is not None and family.checked
    if uses_table(instruction, fmt) and not checked:
        return "ct.lookup.v"
    parts = [instruction.mnemonic]
    if fmt is not None:
        parts.append(f"{fmt.bits}bit" if family is not None and family.widths else fmt.token)
    if not nearest:
        parts.append("rounded")
    if checked:
        parts.append("checked")
    return ".".join(parts)
