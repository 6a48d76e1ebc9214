"""Reference of the matrix engine: every sum term by term, from the shapes in the operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import batch_bytes, element_offset
from tx8isa.numbers.primitives import f32, fma32, s32
from tx8isa.records.meaning import Convolution, Direction, Matrix

from .run import Run, Shape, element_at, float_of, pattern_of

Terms = Iterator[tuple[float, float]]
"""Pairs of stored values, products in the order of the sum; None instead of A's outside an image."""


def _value(run: Run, at: int, fmt: Format) -> float:
    """A number, or an integer as a float: all of 32 bits are exact."""
    pattern = run.read(at, fmt.bits // 8)
    if fmt.is_float:
        return float_of(pattern, fmt)
    return float(pattern - (pattern >> fmt.bits - 1 << fmt.bits))


def _zero(run: Run, name: str) -> int:
    """A zero point: eight bits, two's complement."""
    value = run.values.get(name, 0)
    return value - (value >> 7 << 8)


class _Result:
    """The post-processing and storing of sums, by byte offset in the result and channel."""

    def __init__(self, run: Run, post: bool) -> None:
        self.run, self.post = run, post and run.form is not Format.INT8
        self.fmt = Format(run.values["out_format"])
        self.psum_format = Format(run.values["psum_format"])

    def clear(self, size: int) -> None:
        for k in range(size):
            self.run.spm[self.run.values["out"] + k] = 0

    def put(self, offset: Callable[[int], int], channel: int, terms: Terms) -> None:
        """Store a sum; ``offset(bits)`` is an element's offset in tensors of the result's shape."""
        run, values = self.run, self.run.values
        start = 0.0
        if values["inpsum_en"]:
            start = _value(run, values["psum"] + offset(self.psum_format.bits), self.psum_format)
        at = values["out"] + offset(self.fmt.bits)
        if run.form is Format.INT8:
            run.write(at, self._integer(int(start), channel, terms), self.fmt.bits // 8)
            return
        total = start
        for a, b in terms:
            total = fma32(a, b, total)
        run.write(at, pattern_of(self._process(total, channel), self.fmt), self.fmt.bits // 8)

    def _process(self, y: float, channel: int) -> float:
        if not self.post:
            return y
        values = self.run.values
        if values["bias_en"]:
            y = f32(y + self._vector("bias", channel, Format.FP32))
        if values["scale_en"]:
            y = f32(y * self._vector("scale_p" if y >= 0 else "scale_n", channel, Format.FP32))
        if values["relu"]:
            y = y if y > 0 else 0.0
        if values["lrelu"]:
            y = y if y >= 0 else f32(y * f32(0.01))
        return y

    def _vector(self, name: str, channel: int, fmt: Format) -> float:
        return _value(self.run, self.run.values[name] + channel * fmt.bits // 8, fmt)

    def _integer(self, total: int, channel: int, terms: Terms) -> int:
        values, left, right = self.run.values, _zero(self.run, "zp_a"), _zero(self.run, "zp_b")
        total += sum((int(a) - left) * (int(b) - right) for a, b in terms)
        if values["bias_en"]:
            total += int(self._vector("bias", channel, Format.INT32))
        o32 = s32(total)
        if self.fmt is Format.INT32:
            return o32
        o16 = _clip(o32 >> values["q1"], 16)
        scale = 1
        if values["scale_en"]:
            scale = int(self._vector("scale_p" if o16 >= 0 else "scale_n", channel, Format.INT16))
        o9 = _clip(o16 * scale >> values["q0"], 9)
        if values["relu"]:
            o9 = max(o9, 0)
        return _clip(o9 + _zero(self.run, "zp_out"), 8)


def _clip(value: int, bits: int) -> int:
    return min(max(value, -(1 << bits - 1)), (1 << bits - 1) - 1)


def _matrix_offset(rows: int, columns: int, index: tuple[int, int, int], bits: int) -> int:
    """Byte offset of element (batch, row, column) in a batch of aligned matrices."""
    return element_offset(rows, columns, bits, *index)


def _image_offset(shape: Shape, index: Shape, bits: int) -> int:
    return element_at(0, shape, bits, index)


def _gemm(run: Run, post: bool) -> None:
    v, fmt, result = run.values, run.form, _Result(run, post)
    m, k, n, size = v["m"], v["k"], v["n"], fmt.bits // 8

    def element(base: int, rows: int, columns: int, batch: int, row: int, column: int) -> float:
        return _value(run, base + element_offset(rows, columns, size * 8, batch, row, column), fmt)

    def terms(batch: int, row: int, column: int) -> Terms:
        left, right = batch % v["lb"], batch % v["rb"]
        for i in range(k):
            a = element(v["a"], k, m, left, i, row) if v["lt"] else element(v["a"], m, k, left, row, i)
            b = (
                element(v["b"], k, n, right, i, column)
                if v["rt"]
                else element(v["b"], n, k, right, column, i)
            )
            yield a, b

    batches = max(v["lb"], v["rb"])
    result.clear(batches * batch_bytes(m, n, result.fmt.bits))
    for index in product(range(batches), range(m), range(n)):
        result.put(partial(_matrix_offset, m, n, index), index[2], terms(*index))


class _Window:
    """The geometry of a convolution."""

    def __init__(self, run: Run) -> None:
        self.run, self.shape = run, run.shape("shape")
        (self.top, _, self.left, _), (self.utop, _, self.uleft, _) = run.lanes("pad"), run.lanes("unpad")
        self.kx, self.ky, self.sx, self.sy = run.lanes("window")
        self.d0, self.d1 = run.lanes("dilation") if "dilation" in run.values else (1, 1)

    def taps(self) -> Iterator[tuple[int, int]]:
        return product(range(self.ky), range(self.kx))

    def input(self, n: int, y: int, x: int, tap: tuple[int, int], channel: int) -> float:
        """Return the input of result (y, x) of image n at a tap: 0 outside, in INT8 the zero point."""
        row = (y + self.utop) * self.sy + tap[0] * self.d1 - self.top
        column = (x + self.uleft) * self.sx + tap[1] * self.d0 - self.left
        if not (0 <= row < self.shape[1] and 0 <= column < self.shape[2]):
            return float(_zero(self.run, "zp_a"))
        fmt, base = self.run.form, self.run.values["a"]
        return _value(self.run, element_at(base, self.shape, fmt.bits, (n, row, column, channel)), fmt)

    def result(self) -> tuple[int, int]:
        """Rows and columns of the forward result."""
        (top, bottom, left, right), (utop, ubottom, uleft, uright) = (
            self.run.lanes("pad"),
            self.run.lanes("unpad"),
        )
        high = self.shape[1] + top + bottom - (self.ky - 1) * self.d1 - 1
        wide = self.shape[2] + left + right - (self.kx - 1) * self.d0 - 1
        return high // self.sy + 1 - utop - ubottom, wide // self.sx + 1 - uleft - uright


def _convolve(run: Run, post: bool) -> None:
    if run.meaning.direction is Direction.BACKWARD:
        _backward(run)
        return
    v, fmt, window, result, shape = (
        run.values,
        run.form,
        _Window(run),
        _Result(run, post),
        run.shape("dst_shape"),
    )
    depthwise = run.meaning.direction is Direction.DEPTHWISE
    channels = window.shape[3]

    def weight(tap: tuple[int, int], o: int, i: int) -> float:
        number = tap[0] * window.kx + tap[1]
        rows, row = (
            (window.ky * window.kx, number)
            if depthwise
            else (window.ky * window.kx * shape[3], number * shape[3] + o)
        )
        return _value(run, v["w"] + element_offset(rows, channels, fmt.bits, 0, row, i), fmt)

    def terms(n: int, y: int, x: int, o: int) -> Terms:
        for tap in window.taps():
            for i in (o,) if depthwise else range(channels):
                yield window.input(n, y, x, tap, i), weight(tap, o, i)

    result.clear(shape[0] * batch_bytes(shape[1] * shape[2], shape[3], result.fmt.bits))
    for index in product(*map(range, shape)):
        place: Any = index
        result.put(partial(_image_offset, shape, place), index[3], terms(*place))


def _backward(run: Run) -> None:
    v, fmt, window, result = run.values, run.form, _Window(run), _Result(run, False)
    (high, wide), (ky, kx, maps, channels) = window.result(), run.shape("dst_shape")
    gradient: Shape = (window.shape[0], high, wide, maps)

    def terms(tap: tuple[int, int], o: int, i: int) -> Terms:
        for n, y, x in product(range(gradient[0]), range(high), range(wide)):
            dy = _value(run, element_at(v["dy"], gradient, fmt.bits, (n, y, x, o)), fmt)
            yield dy, window.input(n, y, x, tap, i)

    rows = ky * kx * maps
    result.clear(batch_bytes(rows, channels, result.fmt.bits))
    for row, i in product(range(rows), range(channels)):
        tap, o = divmod(row // maps, kx), row % maps
        result.put(partial(_matrix_offset, rows, channels, (0, row, i)), i, terms(tap, o, i))


RULES: dict[type, Callable[[Run], None]] = {
    Matrix: lambda run: _gemm(run, False),
    Convolution: lambda run: _convolve(run, False),
}
"""Bias, scale and activation of float formats ignored (board)."""
PROPOSED: dict[type, Callable[[Run], None]] = {
    Matrix: lambda run: _gemm(run, True),
    Convolution: lambda run: _convolve(run, True),
}
"""Bias, scale and activation of float formats applied (proposed)."""
