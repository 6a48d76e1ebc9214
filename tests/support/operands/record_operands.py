"""Legal operands of every engine record, drawn at random: small shapes, all rules kept, ranges inside memory.

Ranges of operands, touched bytes and rules come from the record. A solver for each kind of meaning makes the
operands consistent. A meaning without a solver raises an error, so that no new record is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tx8isa.numbers.formats import STORAGE_BITS, Format
from tx8isa.numbers.layouts import LINE_BYTES
from tx8isa.records import meaning as m
from tx8isa.records.meaning import Direction, Form
from tx8isa.records.record import Instruction, Operand
from tx8isa.table.encoding import argument_values, pack_lanes, unpack_lanes, value_error

SPM_BYTES = 1 << 17
DDR_BYTES = 1 << 16


@dataclass
class Case:
    """One instruction with operands; DDR addresses are offsets."""

    record: Instruction
    fmt: Format | None
    named: dict[str, int]

    @property
    def values(self) -> list[int]:
        return [self.named[operand.name] for operand in self.record.operands]

    def get(self, name: str) -> list[int]:
        """Lanes of a packed operand."""
        return list(unpack_lanes(self.record.operand(name), self.named[name]))

    def put(self, **changes: int | list[int]) -> None:
        """Set operands the record has; a list is packed."""
        for name, value in changes.items():
            if name in self.named:
                self.named[name] = pack_lanes(value) if isinstance(value, list) else value

    def length(self, operand: Operand) -> int:
        assert operand.extent is not None
        return operand.extent.length(*argument_values(self.record, operand.extent.arguments, self.values))

    def align(self, operand: Operand) -> int:
        """Bytes of the elements an address points to."""
        assert operand.extent is not None
        first = operand.extent.arguments[0]
        if isinstance(first, int):
            return max(first // 8, 1)
        return max(STORAGE_BITS[self.named[first[1:]]] // 8, 1) if first.startswith("@") else 1

    def addresses(self, role: str = "", memory: str = "") -> list[Operand]:
        """Address operands that touch something."""
        return [
            o
            for o in self.record.operands
            if o.is_address and role in o.role and memory in o.memory and self.length(o)
        ]

    def problem(self) -> str:
        """Return the mistake, except in ranges; empty if there is none."""
        for operand in self.record.operands:
            error = value_error(operand, self.named[operand.name])
            if error:
                return f"{operand.name}: {error}"
        for rule in self.record.rules:
            if not rule.holds(*argument_values(self.record, rule.arguments, self.values)):
                return rule.text
        return ""

    def moved(self, **changes: int) -> Case:
        return Case(self.record, self.fmt, {**self.named, **changes})


# --- solvers ------------------------------------------------------------------------------


def scalar_bits(operand: Operand, value: int) -> int:
    """The bits that an operand takes from a register; a scalar extended by its sign is a word.

    ``value`` may be the register's signed or its unsigned value.
    """
    extended = operand.scalar and not operand.lanes and value >> 31 in (-1, (1 << 33) - 1)
    return value & 0xFFFFFFFF if extended else value


def _vector(case: Case, size: int, rng: Random) -> None:
    form = getattr(case.record.meaning, "form", None)
    case.put(n=size, unit=rng.randint(1, 64), entries=rng.randint(1, 99))
    if form is Form.VUV_LOOP:
        n, groups = 64 * max(size // 64, 1) * rng.randint(1, 2), rng.randint(1, 3)
        case.put(n=n, unit=64, full=n * groups, full_unit=64 * groups)


def _shape(case: Case, channels: int, rng: Random) -> list[int]:
    shape = [rng.randint(1, 2), rng.randint(1, 4), rng.randint(1, 4), channels]
    case.put(shape=shape)
    return shape


def _tensor(case: Case, size: int, rng: Random) -> None:
    n, h, w, c = _shape(case, size, rng)
    swapped = [n, w, h, c]
    case.put(dst_shape=[n, h, w, c])
    if case.problem():
        case.put(dst_shape=swapped)


def _window(case: Case, rng: Random) -> tuple[list[int], list[int]]:
    window, pad = [rng.randint(1, 3) for _ in range(4)], [rng.randint(0, 2) for _ in range(4)]
    case.put(window=window, pad=pad)
    return window, pad


def _places(extent: int, kernel: int, stride: int) -> int:
    return (extent - kernel) // stride + 1


def _pool(case: Case, size: int, rng: Random) -> None:
    n, h, w, c = _shape(case, size, rng)
    (kx, ky, sx, sy), (top, bottom, left, right) = _window(case, rng)
    case.put(
        dst_shape=[n, max(_places(h + top + bottom, ky, sy), 0), max(_places(w + left + right, kx, sx), 0), c]
    )


def _unpool(case: Case, size: int, rng: Random) -> None:
    _window(case, rng)
    case.put(dst_shape=[rng.randint(1, 2), rng.randint(1, 5), rng.randint(1, 5), size])


def _resize(case: Case, size: int, rng: Random) -> None:
    n, _, _, c = _shape(case, size, rng)
    case.put(dst_shape=[n, rng.randint(1, 4), rng.randint(1, 4), c])
    case.put(scale_x=rng.randint(0, 3 << 16), scale_y=rng.randint(0, 3 << 16))


def _join(case: Case, size: int, rng: Random) -> None:
    result, dims = _shape(case, size, rng), rng.choice((0, 1, 2))
    result[3 - dims] += rng.randint(1, 70 if dims == 0 else 3)
    case.put(dims=dims, dst_shape=result)


def _unfold(case: Case, size: int, rng: Random) -> None:
    n, h, w, c = _shape(case, size, rng)
    (kx, ky, sx, sy), (top, bottom, left, right) = _window(case, rng)
    if "pad" in case.named:
        h, w = h + top + bottom, w + left + right
    if "window" in case.named:
        h, w = kx * ky, max(_places(h, ky, sy), 0) * max(_places(w, kx, sx), 0)
    case.put(dst_shape=[n, h, w, c])


def _loops(case: Case, sides: tuple[str, ...], unit: int, rng: Random) -> None:
    trips = [rng.randint(1, 3) for _ in range(3)]
    for side in sides:
        rng.shuffle(trips)
        for level in range(3):
            stride = unit * rng.randint(0, 40)
            case.put(**{f"{side}stride{level}": stride, f"{side}iter{level}": trips[level]})


def _nest(case: Case, size: int, rng: Random) -> None:
    case.put(n=size)
    _loops(case, ("src_", "dst_"), 1, rng)


def _fill(case: Case, size: int, rng: Random) -> None:
    case.put(n=size)
    _loops(case, ("",), case.align(case.record.operand("dst")), rng)


def _dma(case: Case, size: int, rng: Random) -> None:
    case.put(n=size)
    _loops(case, ("",), 8 if case.fmt is Format.BOOL else 1, rng)


def _engine(case: Case, rng: Random) -> None:
    """Formats and options of the matrix engine."""
    integer = case.fmt is Format.INT8
    floats = [Format.FP16, Format.BF16, Format.FP32, Format.TF32]
    out = rng.choice((case.fmt, Format.INT32 if integer else Format.FP32))
    case.put(out_format=int(out or 0), psum_format=int(Format.INT32 if integer else rng.choice(floats)))
    chain = integer and out is Format.INT8
    relu = rng.randint(0, 1) if chain or not integer else 0
    case.put(relu=relu, lrelu=0 if relu or integer else rng.randint(0, 1), sparse=0)
    for name in ("q0", "q1"):
        case.put(**{name: rng.randint(0, 12) if chain else 0})
    for name in ("zp_a", "zp_b", "zp_out"):
        case.put(**{name: rng.randint(0, 255) if integer else 0})
    case.put(inpsum_en=rng.randint(0, 1), bias_en=rng.randint(0, 1))
    case.put(scale_en=rng.randint(0, 1) if chain or not integer else 0)


def _gemm(case: Case, size: int, rng: Random) -> None:
    lb, rb = rng.choice(((1, 1), (2, 2), (1, 2), (2, 1)))
    case.put(m=rng.randint(1, 3), k=size, n=rng.choice((1, 5, size)), lb=lb, rb=rb)
    _engine(case, rng)


def _convolution(case: Case, size: int, rng: Random) -> None:
    _engine(case, rng)
    n, h, w, c = _shape(case, size, rng)
    (kx, ky, sx, sy), (top, bottom, left, right) = _window(case, rng)
    dx, dy = (rng.randint(1, 2), rng.randint(1, 2)) if "dilation" in case.named else (1, 1)
    cut = [rng.randint(0, 1) if rng.random() < 0.3 else 0 for _ in range(4)]
    case.put(unpad=cut, dilation=[dx, dy])
    high = _places(h + top + bottom, (ky - 1) * dy + 1, sy) - cut[0] - cut[1]
    wide = _places(w + left + right, (kx - 1) * dx + 1, sx) - cut[2] - cut[3]
    direction = case.record.meaning.direction
    if direction is Direction.BACKWARD:
        case.put(dst_shape=[ky, kx, rng.randint(1, 5), c])
    else:
        out = c if direction is Direction.DEPTHWISE else rng.randint(1, 5)
        case.put(dst_shape=[n, max(high, 0), max(wide, 0), out])


def _control(case: Case, size: int, rng: Random) -> None:
    case.put(n=size, tile=0, tiles=1)
    _loops(case, ("src_", "dst_"), 1, rng)


def _scalar(case: Case, size: int, rng: Random) -> None:
    """Nothing depends on anything."""


SOLVERS: dict[type, Callable[[Case, int, Random], None]] = {
    m.Elementwise: _vector,
    m.Relation: _vector,
    m.Bitwise: _vector,
    m.Convert: _vector,
    m.Unpack: _vector,
    m.MaskedCopy: _vector,
    m.Gather: _vector,
    m.Compress: _vector,
    m.CountNonZero: _vector,
    m.CountBits: _vector,
    m.Extreme: _vector,
    m.Split: _vector,
    m.Uniform: _vector,
    m.Dropout: _vector,
    m.Reduce: _tensor,
    m.Move: _tensor,
    m.Pool: _pool,
    m.Unpool: _unpool,
    m.Resize: _resize,
    m.Join: _join,
    m.Unfold: _unfold,
    m.Nest: _nest,
    m.Fill: _fill,
    m.Load: _dma,
    m.Store: _dma,
    m.Matrix: _gemm,
    m.Convolution: _convolution,
    m.Control: _control,
    m.ScalarFunction: _scalar,
}


# --- drawing ------------------------------------------------------------------------------


def _first_value(operand: Operand, fmt: Format | None, rng: Random) -> int:
    if operand.name == "format":
        return int(fmt or 0)
    if operand.is_address or operand.hidden:
        return 0
    if operand.choices:
        return rng.choice(operand.choices)[1]
    if operand.lanes:
        return pack_lanes([rng.randint(lane.low, min(lane.low + 3, lane.high)) for lane in operand.lanes])
    if operand.scalar and fmt is not None:
        return rng.getrandbits(fmt.bits)
    return rng.choice((operand.low, rng.randint(operand.low, operand.high)))


def _switch(case: Case) -> None:
    """An unnamed operand is 0, and so is one that depends on it."""
    for operand in case.record.operands:
        if operand.switched_by and not case.named[operand.switched_by]:
            case.named[operand.name] = 0


def _place(case: Case, rng: Random) -> bool:
    """Place the ranges one after another with gaps, each on a boundary of its elements."""
    order, at = case.addresses(), {"spm": 0, "ddr": 0, "any": 0}
    rng.shuffle(order)
    for operand in order:
        align = case.align(operand)
        first = at[operand.memory] + rng.choice((0, 1, 7, 100))
        first += -first % align
        case.named[operand.name] = first
        # a separate line for every result, because the engines may write to its end
        at[operand.memory] = -(-(first + case.length(operand)) // LINE_BYTES) * LINE_BYTES
    return at["spm"] <= SPM_BYTES // 2 and at["any"] <= SPM_BYTES // 2 and at["ddr"] <= DDR_BYTES


def draw(record: Instruction, fmt: Format | None, size: int, rng: Random) -> Case | None:
    """Operands for ``size`` elements, channels or bytes; None when the record's rules allow no such size."""
    solver: Any = SOLVERS[type(record.meaning)]
    for _ in range(300):
        case = Case(record, fmt, {o.name: _first_value(o, fmt, rng) for o in record.operands})
        solver(case, size, rng)
        _switch(case)
        if _place(case, rng) and not case.problem():
            return case
    return None
