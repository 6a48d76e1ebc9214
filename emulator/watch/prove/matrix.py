"""The matrix engine in the field: products of matrices, convolutions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import batch_bytes
from tx8isa.numbers.prime_field import Elements, PrimeField
from tx8isa.records.meaning import Convolution, Direction, Matrix

from . import selections
from .memory import Places
from .step import FieldStep, NotFollowed, aligned

_ONE = 0x3F800000
"""The bits of 1 in TF32."""


def _stored(step: FieldStep, name: str, places: Places) -> Elements:
    """Return an operand less its zero point."""
    elements = step.read(places)
    zero = step.values.get(name, 0)
    zero -= zero >> 7 << 8
    return step.field.subtract(elements, np.full_like(elements, zero)) if zero else elements


def _finish(
    step: FieldStep,
    size: int,
    places: Callable[[Format], Places],
    compute: Callable[[], Elements],
    literal: bool,
) -> None:
    """Write a result of ``size`` bytes, with the partial sums before it and the bias of integers.

    Literals give literals where the result is exact.
    """
    values, target = step.values, Format(step.values["out_format"])
    total = compute()
    if values["inpsum_en"]:
        source = Format(values["psum_format"])
        total = step.field.add(total, step.read(values["psum"] + places(source), source))
    if step.form is Format.INT8 and values["bias_en"]:
        bias = step.read(values["bias"] + 4 * np.arange(total.shape[-1]), Format.INT32)
        total = step.field.add(total, bias.reshape(bias.shape[0], *(1,) * (total.ndim - 2), -1))
    if target is Format.INT8:
        total = _as_bytes(step, total)
    step.spm.clear(values["out"], size)
    if literal:
        step.computed = values["out"] + places(target), total, target
    else:
        step.write(values["out"] + places(target), total, target)


def _as_bytes(step: FieldStep, sums: Elements) -> Elements:
    """The engine's steps from sums to bytes. A shift cuts bits off: it rounds a number that is half less."""
    values, field = step.values, step.field
    q1, q0, zero = values["q1"], values["q0"], values.get("zp_out", 0)
    found = _shifted(field, sums, q1)
    if values["scale_en"]:
        if values["scale_n"] != values["scale_p"]:
            raise NotFollowed("sums made bytes by other scales below zero")
        scale = step.read(values["scale_p"] + 2 * np.arange(sums.shape[-1]), Format.INT16)
        found = field.multiply(found, scale.reshape(scale.shape[0], *(1,) * (sums.ndim - 2), -1))
    found = _shifted(field, found, q0)
    found = field.add(found, np.full_like(found, float(zero - (zero >> 7 << 8))))
    if values["relu"]:
        found = field.larger(found, np.full_like(found, float(zero - (zero >> 7 << 8))))
    return field.limited(found)


def _shifted(field: PrimeField, x: Elements, bits: int) -> Elements:
    """A number shifted to the right, before the bits after the point are rounded."""
    if not bits:
        return x
    numbers = field.of_numbers(np.array([2.0**-bits, 0.5]))
    part, half = (each.reshape(-1, *(1,) * (x.ndim - 1)) for each in numbers.T)
    return field.subtract(field.multiply(x, part), half)


def gemm(step: FieldStep) -> None:
    v, bits = step.values, step.form.bits
    m, k, n, left, right = v["m"], v["k"], v["n"], v["lb"], v["rb"]
    a = v["a"] + (aligned(left, k, m, bits).swapaxes(1, 2) if v["lt"] else aligned(left, m, k, bits))
    b = v["b"] + (aligned(right, k, n, bits) if v["rt"] else aligned(right, n, k, bits).swapaxes(1, 2))
    batches, target = max(left, right), Format(v["out_format"])
    size = batches * batch_bytes(m, n, target.bits)
    literal = _literal(step, a, b, lambda fmt: aligned(batches, m, n, fmt.bits))
    if literal and (not step.form.is_float or _adds_parts(step, b)):
        step.spm.clear(v["out"], size)
        return
    if selections.product(step, a, b, v["out"] + aligned(batches, m, n, target.bits)):
        return

    def compute() -> Elements:
        return _product(step.field, _stored(step, "zp_a", a), _stored(step, "zp_b", b))

    _finish(step, size, lambda fmt: aligned(batches, m, n, fmt.bits), compute, literal)


def _adds_parts(step: FieldStep, b: Places) -> bool:
    """True if an instruction makes a number of FP32, such as a ninth, of its two parts in TF32.

    The result means what it would mean as a constant in memory; the parts alone mean nothing.
    """
    v = step.values
    alone = step.form is Format.TF32 and v["k"] == 2 and not v["inpsum_en"]
    return (
        alone and v["out_format"] == Format.FP32 and bool((step.spm.patterns(b, Format.TF32) == _ONE).all())
    )


def _product(field: PrimeField, a: Elements, b: Elements) -> Elements:
    """A product, in which a matrix of ones and zeros moves the infinities of a mask, as it moves numbers."""
    if np.isfinite(a).all() or not ((b == 0.0) | (b == 1.0)).all() or (b.sum(-2) > 1.0).any():
        return field.product(a, b)
    batches = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    wide = np.broadcast_to(a, (*batches, *a.shape[-2:]))
    rows = np.broadcast_to(b.argmax(-2)[..., None, :], (*batches, a.shape[-2], b.shape[-1]))
    return np.where(np.asarray(b.any(-2))[..., None, :], np.take_along_axis(wide, rows, -1), 0.0)


def _literal(step: FieldStep, a: Places, b: Places, places: Callable[[Format], Places]) -> bool:
    """True if a result comes from literals only."""
    if not step.literal(a, b) or _rounds(step):
        return False
    if not step.values["inpsum_en"]:
        return True
    source = Format(step.values["psum_format"])
    return step.literal(step.values["psum"] + places(source))


def _rounds(step: FieldStep) -> bool:
    """True if the engine makes bytes of sums by steps that round."""
    steps = ("q1", "q0", "scale_en")
    return step.values["out_format"] == Format.INT8 and any(step.values.get(name, 0) for name in steps)


def convolution(step: FieldStep) -> None:
    if step.meaning.direction is Direction.BACKWARD:
        raise NotFollowed("a gradient of weights")
    v, depthwise = step.values, step.meaning.direction is Direction.DEPTHWISE
    shape, result = step.shape("shape"), step.shape("dst_shape")
    kx, ky = step.lanes("window")[:2]
    image = step.tensor("a", shape)
    rows = ky * kx if depthwise else ky * kx * result[3]
    weights = v["w"] + aligned(1, rows, shape[3], step.form.bits)[0]
    size = result[0] * batch_bytes(result[1] * result[2], result[3], Format(v["out_format"]).bits)

    def places(fmt: Format) -> Places:
        return aligned(result[0], result[1] * result[2], result[3], fmt.bits).reshape(result)

    literal = _literal(step, image, weights, places)
    if literal and not step.form.is_float:
        step.spm.clear(v["out"], size)
        return

    select = selections.depthwise if depthwise else selections.windows
    plain = selections.is_plain(step)
    if plain and select(step, _tap_places(step, image, result), weights, v["out"] + places(step.form)):
        return

    def compute() -> Elements:
        taps = _stored(step, "zp_b", weights).reshape(step.field.residues, ky * kx, -1, shape[3])
        return _convolved(step, _stored(step, "zp_a", image), taps, result)

    _finish(step, size, places, compute, literal)


def _taps(
    step: FieldStep, image: npt.NDArray[Any], result: tuple[int, int, int, int]
) -> Iterator[npt.NDArray[Any]]:
    """For each tap, the elements of an image [..., n, rows, columns, channels] for the results.

    Zeros outside.
    """
    (top, _, left, _), (utop, _, uleft, _) = step.lanes("pad"), step.lanes("unpad")
    kx, ky, sx, sy = step.lanes("window")
    d0, d1 = step.lanes("dilation") if "dilation" in step.values else (1, 1)
    rows = _Axis(utop * sy - top, result[1], sy, ky, d1, image.shape[-3])
    columns = _Axis(uleft * sx - left, result[2], sx, kx, d0, image.shape[-2])
    pads = [(0, 0)] * (image.ndim - 3) + [rows.pad, columns.pad, (0, 0)]
    wide = np.pad(image, pads) if rows.pad != (0, 0) or columns.pad != (0, 0) else image
    for y, x in product(range(ky), range(kx)):
        yield wide[..., rows.tap(y), columns.tap(x), :]


@dataclass(frozen=True)
class _Axis:
    """An axis of an image under windows; the first window begins at ``first``."""

    first: int
    count: int
    stride: int
    kernel: int
    dilation: int
    extent: int

    @property
    def pad(self) -> tuple[int, int]:
        """Zeros before and after the image."""
        last = self.first + (self.count - 1) * self.stride + (self.kernel - 1) * self.dilation
        return max(0, -self.first), max(0, last + 1 - self.extent)

    def tap(self, number: int) -> slice:
        """The positions of the padded image under a tap."""
        first = self.first + self.pad[0] + number * self.dilation
        return slice(first, first + (self.count - 1) * self.stride + 1, self.stride)


def _tap_places(step: FieldStep, image: Places, result: tuple[int, int, int, int]) -> Places:
    """The places of the elements at each tap; -1 outside."""
    return np.stack(list(_taps(step, image + 1, result))) - 1


def _convolved(
    step: FieldStep, image: Elements, weights: Elements, result: tuple[int, int, int, int]
) -> Elements:
    """Sums over the taps of a window; positions outside are zeros. ``weights``: [residues, taps, maps, c]."""
    taps = list(_taps(step, image, result))
    if step.meaning.direction is Direction.DEPTHWISE:
        factors = weights[:, :, 0, None, None, None]
        terms = (step.field.multiply(part, factors[:, at]) for at, part in enumerate(taps))
        return reduce(step.field.add, terms)
    rows = taps[0] if len(taps) == 1 else np.stack(taps, -2)
    inner = len(taps) * image.shape[-1]
    columns = weights.transpose(0, 2, 1, 3).reshape(weights.shape[0], -1, inner).swapaxes(1, 2)
    return step.field.product(rows.reshape(rows.shape[0], -1, inner), columns).reshape(-1, *result)


RULES: dict[type, Callable[[FieldStep], None]] = {Matrix: gemm, Convolution: convolution}
