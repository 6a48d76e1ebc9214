"""The slow reference: every instruction element by element in plain Python, straight from the records.

It shares with the kernels what the records define (bodies, folds, index functions, ``narrow``,
``element_offset``) and nothing of how the kernels go about it: no views, no planes, no fast conversions.
Tests compare the two byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tx8isa.formats import EXPONENT_BITS, MANTISSA_BITS, Format, integer_from, narrow, round_to_odd, widen
from tx8isa.layouts import element_offset
from tx8isa.meaning import (
    Convert,
    Elementwise,
    Fill,
    Form,
    Join,
    Load,
    Move,
    Nest,
    Pool,
    Reduce,
    Reduction,
    Store,
)
from tx8isa.record import Extent, Instruction

from .lfsr import random_bits, step

Memory = MutableSequence[int]
Shape = tuple[int, int, int, int]


@dataclass
class Run:
    """One instruction with its operands, on memories as they were before it."""

    instruction: Instruction
    fmt: Format | None
    values: dict[str, int]
    spm: Memory
    ddr: Memory
    before: bytes
    """The scratchpad before the instruction."""
    random: int

    @property
    def meaning(self) -> Any:
        return self.instruction.meaning

    @property
    def form(self) -> Format:
        assert self.fmt is not None
        return self.fmt

    def lanes(self, name: str) -> tuple[int, ...]:
        count = len(self.instruction.operand(name).lanes)
        return tuple(self.values[name] >> 16 * (count - 1 - k) & 0xFFFF for k in range(count))

    def shape(self, name: str) -> Shape:
        n, h, w, c = self.lanes(name)
        return n, h, w, c

    def read(self, at: int, size: int) -> int:
        """Unsigned pattern at an address, from before the instruction."""
        return int.from_bytes(self.before[at : at + size], "little")

    def write(self, at: int, pattern: int, size: int) -> None:
        for k, byte in enumerate((pattern & ((1 << 8 * size) - 1)).to_bytes(size, "little")):
            self.spm[at + k] = byte

    def draw(self, mode: int) -> int:
        """52 random bits for a rounding in mode 4; no other mode uses any."""
        if mode != 4:
            return 0
        self.random = step(self.random)
        return random_bits(self.random)

    def clear(self, name: str) -> None:
        """Zero all bytes of the extent of an operand."""
        extent = self.instruction.operand(name).extent
        assert extent is not None
        for k in range(self.extent_bytes(extent)):
            self.spm[self.values[name] + k] = 0

    def extent_bytes(self, extent: Extent) -> int:
        arguments = []
        for argument in extent.arguments:
            if isinstance(argument, int):
                arguments.append(argument)
            elif argument.startswith("@"):
                arguments.append(self.form.bits)
            else:
                name, _, lane = argument.partition(".")
                names = [entry.name for entry in self.instruction.operand(name).lanes]
                arguments.append(self.lanes(name)[names.index(lane)] if lane else self.values[name])
        return extent.length(*arguments)


def execute(
    instruction: Instruction,
    fmt: Format | None,
    values: Sequence[int],
    spm: Memory,
    ddr: Memory,
    random: int = 1,
) -> int:
    """Execute one instruction on byte arrays; the state of the random numbers afterwards.

    ``values`` are those of ``instruction.operands``, in order; DDR addresses are offsets into ``ddr``.
    ValueError for instructions of the matrix engine and those that move no data.
    """
    rule = _RULES.get(type(instruction.meaning))
    if rule is None:
        raise ValueError(f"{instruction.mnemonic}: no reference for {type(instruction.meaning).__name__}")
    names = [operand.name for operand in instruction.operands]
    named = dict(zip(names, values, strict=True))
    run = Run(instruction, fmt, named, spm, ddr, bytes(spm), random)
    rule(run)
    return run.random


def float_of(pattern: int, fmt: Format) -> float:
    """The number a stored pattern stands for; the low bits that TF32 does not use are ignored."""
    unused = fmt.bits - 1 - EXPONENT_BITS[fmt] - MANTISSA_BITS[fmt]
    pattern &= (1 << fmt.bits) - 1
    return widen(pattern >> unused, EXPONENT_BITS[fmt], MANTISSA_BITS[fmt])


def pattern_of(x: float, fmt: Format, mode: int = 0, random: int = 0) -> int:
    """The stored pattern of ``x`` rounded once."""
    unused = fmt.bits - 1 - EXPONENT_BITS[fmt] - MANTISSA_BITS[fmt]
    return narrow(x, EXPONENT_BITS[fmt], MANTISSA_BITS[fmt], mode, random) << unused


def _elementwise(run: Run) -> None:
    meaning: Elementwise = run.meaning
    fmt, size, values = run.form, run.form.bits // 8, run.values
    mode = values.get("rnd", 0)
    results = []
    for i in range(values["full"] if meaning.form is Form.VUV_LOOP else values["n"]):
        a = float_of(run.read(values["src0"] + i * size, size), fmt)
        if meaning.form is Form.V:
            results.append(pattern_of(meaning.body(a), fmt))
            continue
        b = float_of(_second(run, meaning.form, i, size), fmt)
        x = meaning.body(a, b)
        if meaning.error is not None:
            x = round_to_odd(x, meaning.error(a, b, x)) if mode else x
        results.append(pattern_of(x, fmt, mode, run.draw(mode)))
    for i, pattern in enumerate(results):
        run.write(values["dst"] + i * size, pattern, size)


def _second(run: Run, form: Form, i: int, size: int) -> int:
    values = run.values
    if form is Form.VS:
        return values["src1"]
    if form is Form.VUV:
        i %= values["unit"]
    elif form is Form.VUV_LOOP:
        group, inner = divmod(i, values["n"])
        i = group * values["unit"] + inner % values["unit"]
    return run.read(values["src1"] + i * size, size)


def _convert(run: Run) -> None:
    source, target = run.meaning.source, run.meaning.target
    mode = run.values.get("rnd", 0)
    for i in range(run.values["n"]):
        pattern = run.read(run.values["src0"] + i * source.bits // 8, source.bits // 8)
        result = converted(pattern, source, target, mode, run.draw(mode), run.values.get("zero", 0))
        run.write(run.values["dst"] + i * target.bits // 8, result, target.bits // 8)


def converted(pattern: int, source: Format, target: Format, mode: int, random: int, zero: int) -> int:
    """One element in another format."""
    if not source.is_float:
        value = pattern - (1 << source.bits) if pattern >> (source.bits - 1) else pattern
        return pattern_of(float(value - zero), target, mode, random)
    x = float_of(pattern, source)
    if not target.is_float:
        half = 1 << (target.bits - 1)
        return integer_from(x, mode, -half, half - 1, random)
    return _quieted(pattern, source, target) if x != x else pattern_of(x, target, mode, random)


def _quieted(pattern: int, source: Format, target: Format) -> int:
    """A NaN in another format: its payload, aligned at the top, cut or filled with zeros; quiet bit set."""
    kept = MANTISSA_BITS[source]
    unused = source.bits - 1 - EXPONENT_BITS[source] - kept
    payload = pattern >> unused & ((1 << kept) - 1)
    new = MANTISSA_BITS[target]
    payload = payload << (new - kept) if new >= kept else payload >> (kept - new)
    sign = pattern >> (source.bits - 1)
    exponent = (1 << EXPONENT_BITS[target]) - 1
    field = sign << (EXPONENT_BITS[target] + new) | exponent << new | 1 << (new - 1) | payload
    return field << (target.bits - 1 - EXPONENT_BITS[target] - new)


def _fold(fold: Reduction, numbers: Iterator[float], fmt: Format, count: int) -> int:
    total = fold.start
    for x in numbers:
        total = fold.step(total, x)
    return pattern_of(fold.finish(total, float(count)), fmt)


def _at(base: int, shape: Shape, bits: int, index: Shape) -> int:
    """Address of an element of an aligned NHWC tensor."""
    _, h, w, c = shape
    return base + element_offset(h * w, c, bits, index[0], index[1] * w + index[2], index[3])


def _reduce(run: Run) -> None:
    fmt, bits, shape = run.form, run.form.bits, run.shape("shape")
    axes = {0: (3,), 1: (2,), 2: (1,), 4: (1, 2)}[run.values["dims"]]
    result: Any = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    run.clear("dst")
    for index in product(*map(range, result)):
        inner: Any = product(*(range(shape[a]) if a in axes else (index[a],) for a in range(4)))
        elements = [
            float_of(run.read(_at(run.values["src0"], shape, bits, i), bits // 8), fmt) for i in inner
        ]
        pattern = _fold(run.meaning.fold, iter(elements), fmt, len(elements))
        place: Any = index
        run.write(_at(run.values["dst"], result, bits, place), pattern, bits // 8)


def _pool(run: Run) -> None:
    fmt, bits, shape, result = run.form, run.form.bits, run.shape("shape"), run.shape("dst_shape")
    top, _, left, _ = run.lanes("pad")
    kx, ky, sx, sy = run.lanes("window")
    run.clear("dst")

    def window(n: int, row: int, column: int, c: int) -> Iterator[float]:
        for y, x in product(
            range(row * sy - top, row * sy - top + ky), range(column * sx - left, column * sx - left + kx)
        ):
            if 0 <= y < shape[1] and 0 <= x < shape[2]:
                yield float_of(run.read(_at(run.values["src0"], shape, bits, (n, y, x, c)), bits // 8), fmt)
            elif run.meaning.outside:
                yield 0.0

    for n, y, x, c in product(*map(range, result)):
        pattern = _fold(run.meaning.fold, window(n, y, x, c), fmt, kx * ky)
        run.write(_at(run.values["dst"], result, bits, (n, y, x, c)), pattern, bits // 8)


def _move(run: Run) -> None:
    meaning: Move = run.meaning
    size, shape = run.form.bits // 8, run.shape("shape")
    n, h, w, c = run.shape("dst_shape")
    extents = (n, c, h, w) if meaning.channels_first else (n, h, w, c)
    top, _, left, _ = run.lanes("pad") if "pad" in run.values else (0, 0, 0, 0)
    run.clear("dst")
    for flat, (i, j, k, m) in enumerate(product(*map(range, extents))):
        source = meaning.source(i, j, k, m, *shape, top, left)
        to = run.values["dst"] + flat * size
        if meaning.aligned_result:
            to = _at(run.values["dst"], extents, run.form.bits, (i, j, k, m))
        pattern = 0
        if source >= 0:
            of = run.values["src0"] + source * size
            if meaning.aligned_source:
                of = _at(run.values["src0"], shape, run.form.bits, _unravel(source, shape))
            pattern = run.read(of, size)
        run.write(to, pattern, size)


def _unravel(flat: int, shape: Shape) -> Shape:
    rest, c = divmod(flat, shape[3])
    rest, w = divmod(rest, shape[2])
    n, h = divmod(rest, shape[1])
    return n, h, w, c


def _join(run: Run) -> None:
    bits, first, result = run.form.bits, run.shape("shape"), run.shape("dst_shape")
    axis = {0: 3, 1: 2, 2: 1}[run.values["dims"]]
    rest: Any = tuple(r - f if a == axis else f for a, (f, r) in enumerate(zip(first, result, strict=True)))
    run.clear("dst")
    for index in product(*map(range, result)):
        place: Any = index
        of = _at(run.values["src0"], first, bits, place)
        if index[axis] >= first[axis]:
            back: Any = tuple(k - first[axis] if a == axis else k for a, k in enumerate(index))
            of = _at(run.values["src1"], rest, bits, back)
        run.write(_at(run.values["dst"], result, bits, place), run.read(of, bits // 8), bits // 8)


def _places(run: Run, prefix: str, base: int, unit: Callable[[int], int]) -> Iterator[int]:
    """Addresses of the blocks of a loop nest, level 0 innermost."""
    stride = [unit(run.values[f"{prefix}stride{level}"]) for level in range(3)]
    trips = [run.values[f"{prefix}iter{level}"] for level in range(3)]
    for c, b, a in product(range(trips[2]), range(trips[1]), range(trips[0])):
        yield base + a * stride[0] + b * stride[1] + c * stride[2]


def _nest(run: Run) -> None:
    n = run.values["n"]
    sources = _places(run, "src_", run.values["src0"], int)
    targets = _places(run, "dst_", run.values["dst"], int)
    for of, to in zip(sources, targets, strict=True):
        for k in range(n):
            run.spm[to + k] = run.before[of + k]


def _fill(run: Run) -> None:
    size = run.form.bits // 8
    for base in _places(run, "", run.values["dst"], int):
        for k in range(run.values["n"]):
            run.write(base + k * size, run.values["value"], size)


def _transfer(run: Run) -> None:
    bits, loads = run.form.bits, isinstance(run.meaning, Load)
    block = -(-bits * run.values["n"] // 8)
    for k, place in enumerate(
        _places(run, "", run.values["src" if loads else "dst"], lambda s: bits * s // 8)
    ):
        compact = run.values["dst" if loads else "src"] + k * block
        for byte in range(block):
            if loads:
                run.spm[compact + byte] = run.ddr[place + byte]
            else:
                run.ddr[place + byte] = run.spm[compact + byte]


_RULES: dict[type, Callable[[Run], None]] = {
    Elementwise: _elementwise,
    Convert: _convert,
    Reduce: _reduce,
    Pool: _pool,
    Move: _move,
    Join: _join,
    Nest: _nest,
    Fill: _fill,
    Load: _transfer,
    Store: _transfer,
}
