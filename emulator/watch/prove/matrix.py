"""What the matrix engine means in the field: products of matrices, convolutions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import batch_bytes
from tx8isa.numbers.prime_field import Elements
from tx8isa.records.meaning import Convolution, Direction, Matrix

from . import selections
from .memory import Places
from .step import FieldStep, NotFollowed, aligned


def _stored(step: FieldStep, name: str, places: Places) -> Elements:
    """An operand, less its zero point."""
    elements = step.read(places)
    zero = step.values.get(name, 0)
    zero -= zero >> 7 << 8
    return step.field.subtract(elements, np.full_like(elements, zero)) if zero else elements


def _finish(
    step: FieldStep, size: int, places: Callable[[Format], Places], compute: Callable[[], Elements]
) -> None:
    """Write a result of ``size`` bytes, with the partial sums before it and the bias of integers."""
    values, target = step.values, Format(step.values["out_format"])
    if target is Format.INT8:
        raise NotFollowed("sums made bytes by the matrix engine")
    total = compute()
    if values["inpsum_en"]:
        source = Format(values["psum_format"])
        total = step.field.add(total, step.read(values["psum"] + places(source), source))
    if step.form is Format.INT8 and values["bias_en"]:
        bias = step.read(values["bias"] + 4 * np.arange(total.shape[-1]), Format.INT32)
        total = step.field.add(total, bias.reshape(bias.shape[0], *(1,) * (total.ndim - 2), -1))
    step.spm.clear(values["out"], size)
    step.write(values["out"] + places(target), total, target.bits // 8)


def gemm(step: FieldStep) -> None:
    v, bits = step.values, step.form.bits
    m, k, n, left, right = v["m"], v["k"], v["n"], v["lb"], v["rb"]
    a = v["a"] + (aligned(left, k, m, bits).swapaxes(1, 2) if v["lt"] else aligned(left, m, k, bits))
    b = v["b"] + (aligned(right, k, n, bits) if v["rt"] else aligned(right, n, k, bits).swapaxes(1, 2))
    batches, target = max(left, right), Format(v["out_format"])
    size = batches * batch_bytes(m, n, target.bits)
    if _literal(step, a, b, lambda fmt: aligned(batches, m, n, fmt.bits)):
        step.spm.clear(v["out"], size)
        return
    if selections.product(step, a, b, v["out"] + aligned(batches, m, n, target.bits)):
        return

    def compute() -> Elements:
        return step.field.product(_stored(step, "zp_a", a), _stored(step, "zp_b", b))

    _finish(step, size, lambda fmt: aligned(batches, m, n, fmt.bits), compute)


def _literal(step: FieldStep, a: Places, b: Places, places: Callable[[Format], Places]) -> bool:
    """Whether all that a result comes from are literals."""
    if not step.literal(a, b):
        return False
    if not step.values["inpsum_en"]:
        return True
    source = Format(step.values["psum_format"])
    return step.literal(step.values["psum"] + places(source))


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

    if _literal(step, image, weights, places):
        step.spm.clear(v["out"], size)
        return

    select = selections.depthwise if depthwise else selections.windows
    plain = selections.is_plain(step)
    if plain and select(step, _tap_places(step, image, result), weights, v["out"] + places(step.form)):
        return

    def compute() -> Elements:
        taps = _stored(step, "zp_b", weights).reshape(step.field.residues, ky * kx, -1, shape[3])
        return _convolved(step, _stored(step, "zp_a", image), taps, result)

    _finish(step, size, places, compute)


def _positions(step: FieldStep, result: tuple[int, int, int, int]) -> Iterator[tuple[Places, Places]]:
    """For each tap the rows and columns of the image that the results meet."""
    (top, _, left, _), (utop, _, uleft, _) = step.lanes("pad"), step.lanes("unpad")
    kx, ky, sx, sy = step.lanes("window")
    d0, d1 = step.lanes("dilation") if "dilation" in step.values else (1, 1)
    rows = (np.arange(result[1]) + utop) * sy - top
    columns = (np.arange(result[2]) + uleft) * sx - left
    for y, x in product(range(ky), range(kx)):
        yield rows + y * d1, columns + x * d0


def _tap_places(step: FieldStep, image: Places, result: tuple[int, int, int, int]) -> Places:
    """The places of the elements at each tap; -1 outside."""
    found = [_at(image[None] + 1, rows, columns)[0] - 1 for rows, columns in _positions(step, result)]
    return np.stack(found)


def _convolved(
    step: FieldStep, image: Elements, weights: Elements, result: tuple[int, int, int, int]
) -> Elements:
    """Sums over the taps of a window; positions outside are zeros."""
    total: Any = None
    for number, (rows, columns) in enumerate(_positions(step, result)):
        part = _at(image, rows, columns)
        if step.meaning.direction is Direction.DEPTHWISE:
            term = step.field.multiply(part, weights[:, number, 0][:, None, None, None])
        else:
            flat = part.reshape(part.shape[0], -1, part.shape[-1])
            term = step.field.product(flat, weights[:, number].swapaxes(1, 2))
            term = term.reshape(part.shape[0], *result)
        total = term if total is None else step.field.add(total, term)
    return np.asarray(total)


def _at(image: npt.NDArray[Any], rows: Places, columns: Places) -> npt.NDArray[Any]:
    inside_rows = (rows >= 0) & (rows < image.shape[2])
    inside_columns = (columns >= 0) & (columns < image.shape[3])
    found = image[:, :, np.clip(rows, 0, image.shape[2] - 1)][
        :, :, :, np.clip(columns, 0, image.shape[3] - 1)
    ]
    found *= inside_rows.reshape(-1, 1, 1) & inside_columns.reshape(-1, 1)
    return found


RULES: dict[type, Callable[[FieldStep], None]] = {Matrix: gemm, Convolution: convolution}
