"""Constructors of operand kinds, from which records are made (docs/isa.md, Packed operands and ranges)."""

from __future__ import annotations

from collections.abc import Callable

from tx8isa.numbers.formats import Format, Rounding
from tx8isa.numbers.limits import (
    DDR_ADDRESS_BITS,
    LANE_BITS,
    LARGEST_CHANNELS,
    LARGEST_COUNT,
    LARGEST_DILATION,
    LARGEST_EXTENT,
    LARGEST_KERNEL,
    LARGEST_PAD,
    LARGEST_STRIDE,
    SPM_ADDRESS_BITS,
)

from .record import Extent, Lane, Operand, Rule


def spm(
    name: str, field: str, role: str, length: Callable[..., int], *arguments: str | int, switched_by: str = ""
) -> Operand:
    """An SPM byte address that touches ``length(*arguments)`` bytes."""
    return Operand(
        name,
        field,
        1,
        32,
        0,
        (1 << SPM_ADDRESS_BITS) - 1,
        memory="spm",
        role=role,
        extent=Extent(length, arguments),
        switched_by=switched_by,
        default=0 if switched_by else None,
    )


def ddr(name: str, field: str, role: str, length: Callable[..., int], *arguments: str | int) -> Operand:
    """A DDR byte address in the engines' view."""
    return Operand(
        name,
        field,
        2,
        DDR_ADDRESS_BITS,
        0,
        (1 << DDR_ADDRESS_BITS) - 1,
        memory="ddr",
        role=role,
        extent=Extent(length, arguments),
    )


def count(
    name: str, field: str, low: int = 1, high: int = LARGEST_COUNT, default: int | None = None
) -> Operand:
    """A number of elements, bytes or trips; no engine takes an instruction that does nothing."""
    return Operand(name, field, 1, high.bit_length(), low, high, default=default)


def control(name: str, field: str, at: int, width: int, high: int, default: int | None = 0) -> Operand:
    """A small number in the control word."""
    return Operand(name, field, 0, width, 0, high, at=at, default=default)


def scalar(name: str, field: str) -> Operand:
    """Raw bits of one element of the instruction's format (docs/isa.md, Vector forms)."""
    return Operand(name, field, 1, 32, 0, (1 << 32) - 1, scalar=True)


def lanes(name: str, field: str, *lane: Lane, default: int | None = None) -> Operand:
    """Four (or two) 16-bit numbers in one 64-bit word."""
    width = LANE_BITS * len(lane)
    return Operand(name, field, 2, width, 0, (1 << width) - 1, lanes=lane, default=default)


def shape(name: str, field: str) -> Operand:
    """A packed nhwc shape."""
    extents = (Lane(letter, 1, LARGEST_EXTENT) for letter in "nhw")
    return lanes(name, field, *extents, Lane("c", 1, LARGEST_CHANNELS))


def pads(name: str, field: str) -> Operand:
    """Packed top, bottom, left, right."""
    names = ("top", "bottom", "left", "right")
    return lanes(name, field, *(Lane(n, 0, LARGEST_PAD) for n in names), default=0)


def window(name: str = "window", field: str = "swr") -> Operand:
    """Packed kernel and stride: Kx, Ky, Sx, Sy."""
    kernel = (Lane(n, 1, LARGEST_KERNEL) for n in ("kx", "ky"))
    stride = (Lane(n, 1, LARGEST_STRIDE) for n in ("sx", "sy"))
    return lanes(name, field, *kernel, *stride)


def dilation() -> Operand:
    """Packed dilation along w and h: d0, d1; 1 and 1 by default."""
    names = ("d0", "d1")
    return lanes(
        "dilation", "dilation", *(Lane(n, 1, LARGEST_DILATION) for n in names), default=(1 << LANE_BITS) | 1
    )


def format_suffix(formats: tuple[Format, ...], field: str = "src0_format", at: int = 8) -> Operand:
    """The element format, written as the mnemonic's suffix."""
    names = tuple((f.token, int(f)) for f in formats)
    return Operand("format", field, 0, 4, 0, 15, at=at, choices=names)


def format_choice(name: str, field: str, at: int, formats: tuple[Format, ...], default: int | str) -> Operand:
    """Another element format of the instruction, named in the text."""
    names = tuple((f.token, int(f)) for f in formats)
    return Operand(name, field, 0, 4, 0, 15, at=at, choices=names, default=default)


def rounding(at: int = 12) -> Operand:
    """The rounding mode of one instruction."""
    names = tuple((r.name.lower(), int(r)) for r in Rounding)
    return Operand("rnd", "rnd_mode", 0, 4, 0, 4, at=at, choices=names, default=0)


def dims(names: tuple[tuple[str, int], ...]) -> Operand:
    """Dimension selector (docs/isa.md, Packed operands and ranges)."""
    return Operand("dims", "dims", 1, 3, 0, 7, choices=names)


def flag(name: str, field: str, at: int, hidden: bool = False) -> Operand:
    """One bit of the control word."""
    return Operand(name, field, 0, 1, 0, 1, at=at, default=0, hidden=hidden)


def rule(*arguments: str | int) -> Callable[[Callable[..., bool]], Rule]:
    """Decorator: a condition between the named operands; its docstring is the message."""

    def wrap(holds: Callable[..., bool]) -> Rule:
        return Rule(holds, arguments)

    return wrap


def linear(bits: int, n: int) -> int:
    """Bytes of n packed elements."""
    return (bits * n + 7) >> 3


def results_apart(
    bits: str | int, n: str | int, bits1: str | int, n1: str | int, bits2: str | int, n2: str | int
) -> tuple[Rule, ...]:
    """Make the rules that the results ``dst``, ``dst1`` and ``dst2`` must not overlap.

    Each result has its bits per element and its number of elements. Overlapping results are refused, because
    no source says which of them remains (proposed).
    """
    first, second, third = ("dst", bits, n), ("dst1", bits1, n1), ("dst2", bits2, n2)
    return tuple(rule(*a, *b)(_apart) for a, b in ((first, second), (first, third), (second, third)))


def _apart(at: int, bits: int, n: int, other: int, other_bits: int, other_n: int) -> bool:
    """dst, dst1 and dst2 must not overlap"""
    return at + linear(bits, n) <= other or other + linear(other_bits, other_n) <= at
