"""Reference of masked moves, tables, counts, argmax and argmin, factorize, and random numbers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import copysign

from emulator.kernels.vector.gather import BEYOND_SPM
from emulator.kernels.vector.random import GENERATORS
from tx8isa.numbers.formats import MANTISSA_BITS, Format
from tx8isa.records.meaning import (
    Compress,
    CountBits,
    CountNonZero,
    Dropout,
    Extreme,
    Gather,
    MaskedCopy,
    Split,
    Uniform,
)

from .run import Run, float_of, pattern_of


def _bit(run: Run, name: str, i: int) -> int:
    return run.read(run.values[name] + i // 8, 1) >> i % 8 & 1


def _masked_copy(run: Run) -> None:
    size = run.form.bits // 8
    for i in range(run.values["n"]):
        if float_of(run.read(run.values["src1"] + i * size, size), run.form) != 0.0:
            run.write(run.values["dst"] + i * size, run.read(run.values["src0"] + i * size, size), size)


def _gather(run: Run) -> None:
    meaning: Gather = run.meaning
    size = (meaning.bits or run.form.bits) // 8
    for i in range(run.values["n"]):
        index = run.read(run.values["src1"] + i * size, size)
        at = run.values["src0"] + (index if meaning.in_bytes else index * size)
        word = run.read(at, size) if at + size <= len(run.before) else BEYOND_SPM
        run.write(run.values["dst"] + i * size, word, size)


def _compress(run: Run) -> None:
    size = run.form.bits // 8
    chosen = [i for i in range(run.values["n"]) if _bit(run, "src1", i)]
    for to, of in enumerate(chosen):
        run.write(run.values["dst"] + to * size, run.read(run.values["src0"] + of * size, size), size)


def _count(run: Run) -> None:
    size = run.form.bits // 8
    places = range(run.values["src0"], run.values["src0"] + run.values["n"] * size, size)
    run.put_result(0, sum(float_of(run.read(at, size), run.form) != 0.0 for at in places))


def _count_bits(run: Run) -> None:
    run.put_result(0, sum(_bit(run, "src0", i) for i in range(run.values["n"])))


def _extreme(run: Run) -> None:
    size, sign = run.form.bits // 8, 1.0 if run.meaning.largest else -1.0
    best = 0
    numbers = []
    for i in range(run.values["n"]):
        x = float_of(run.read(run.values["src0"] + i * size, size), run.form)
        numbers.append((sign * x, sign * copysign(1.0, x)))  # the sign tells the zeros apart
        if x == x and (numbers[best][0] != numbers[best][0] or numbers[i] > numbers[best]):
            best = i
    pattern = run.read(run.values["src0"] + best * size, size)
    run.put_result(0, pattern & ~0x1FFF if run.form is Format.TF32 else pattern)
    run.put_result(1, best)


def _split(run: Run) -> None:
    for i in range(run.values["n"]):
        x = float_of(run.read(run.values["src0"] + 4 * i, 4), Format.FP32)
        for target, part in zip(run.meaning.targets, run.meaning.parts, strict=True):
            run.write(run.values[target] + 4 * i, pattern_of(part(x), Format.FP32), 4)


def _uniform(run: Run) -> None:
    meaning: Uniform = run.meaning
    fmt, size = run.form, run.form.bits // 8
    a = [run.read(run.values["src0"] + 8 * k, 8) for k in range(GENERATORS)]
    b = [run.read(run.values["src1"] + 8 * k, 8) for k in range(GENERATORS)]
    for i in range(run.values["n"]):
        k = i % GENERATORS
        bits = meaning.draw(a[k], b[k])
        a[k], b[k] = b[k], meaning.following(a[k], b[k])
        if fmt.is_float:
            precision = MANTISSA_BITS[fmt] + 1
            pattern = pattern_of(float(Fraction(bits >> 64 - precision, 1 << precision)), fmt)
        else:
            pattern = bits >> 64 - fmt.bits
        run.write(run.values["dst2"] + i * size, pattern, size)
    for k in range(GENERATORS):
        run.write(run.values["dst"] + 8 * k, a[k], 8)
        run.write(run.values["dst1"] + 8 * k, b[k], 8)


def _dropout(run: Run) -> None:
    meaning: Dropout = run.meaning
    fmt, size, mode = run.form, run.form.bits // 8, run.values["rnd"]
    scale, p = float_of(run.values["src1"], fmt), float_of(run.values["p"], Format.FP32)
    for i in range(run.values["n"]):
        u = run.draw(4) / 2.0**52
        x = meaning.body(float_of(run.read(run.values["src0"] + i * size, size), fmt), scale)
        kept = pattern_of(x, fmt, mode, run.draw(mode))
        run.write(run.values["dst"] + i * size, 0 if meaning.dropped(u, p) else kept, size)


RULES: dict[type, Callable[[Run], None]] = {
    MaskedCopy: _masked_copy,
    Gather: _gather,
    Compress: _compress,
    CountNonZero: _count,
    CountBits: _count_bits,
    Extreme: _extreme,
    Split: _split,
    Uniform: _uniform,
    Dropout: _dropout,
}
