"""Reference of the vector instructions and converts."""

from __future__ import annotations

from collections.abc import Callable

from tx8isa.numbers.formats import EXPONENT_BITS, MANTISSA_BITS, Format, integer_from, round_to_odd
from tx8isa.records.meaning import Convert, Elementwise, Form

from .run import Run, float_of, pattern_of


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
        x = meaning.body_in(mode)(a, b)
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


RULES: dict[type, Callable[[Run], None]] = {Elementwise: _elementwise, Convert: _convert}
