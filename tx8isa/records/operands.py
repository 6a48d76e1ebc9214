"""Constructors of the operand kinds that records are made of (docs/isa.md, Packed operands and ranges)."""

from __future__ import annotations

from collections.abc import Callable

from tx8isa.numbers.formats import Format, Rounding

from .record import Extent, Lane, Operand, Rule

SPM_ADDRESS_BITS = 22
"""An SPM byte address; the exact bound is the machine's SPM size, checked with the extent at run time."""

_COUNT_MAX = (1 << 24) - 1


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
        name, field, 2, 40, 0, (1 << 40) - 1, memory="ddr", role=role, extent=Extent(length, arguments)
    )


def count(name: str, field: str, low: int = 0, high: int = _COUNT_MAX, default: int | None = None) -> Operand:
    """A number of elements, bytes or trips."""
    return Operand(name, field, 1, high.bit_length(), low, high, default=default)


def control(name: str, field: str, at: int, width: int, high: int, default: int | None = 0) -> Operand:
    """A small number in the control word."""
    return Operand(name, field, 0, width, 0, high, at=at, default=default)


def scalar(name: str, field: str) -> Operand:
    """Raw bits of one element of the instruction's format (docs/isa.md, Vector forms)."""
    return Operand(name, field, 1, 32, 0, (1 << 32) - 1, scalar=True)


def lanes(name: str, field: str, *lane: Lane, default: int | None = None) -> Operand:
    """Four (or two) 16-bit numbers in one 64-bit word."""
    return Operand(name, field, 2, 16 * len(lane), 0, (1 << 16 * len(lane)) - 1, lanes=lane, default=default)


def shape(name: str, field: str) -> Operand:
    """A packed nhwc shape."""
    return lanes(name, field, Lane("n", 1, 4096), Lane("h", 1, 4096), Lane("w", 1, 4096), Lane("c", 1, 16384))


def pads(name: str, field: str) -> Operand:
    """Packed top, bottom, left, right."""
    names = ("top", "bottom", "left", "right")
    return lanes(name, field, *(Lane(n, 0, 1023) for n in names), default=0)


def window(name: str = "window", field: str = "swr") -> Operand:
    """Packed kernel and stride: Kx, Ky, Sx, Sy."""
    return lanes(
        name, field, Lane("kx", 1, 255), Lane("ky", 1, 255), Lane("sx", 1, 1023), Lane("sy", 1, 1023)
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
