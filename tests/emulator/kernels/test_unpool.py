"""Indexed pooling, unpool and bilinear resize: kernels against the slow reference, numpy and onnxruntime."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import asm
from emulator.kernels.tensor.unpool import make_unpool
from kernel_bench import RECORDS, Tile, pack
from tensor_cases import COMPILED, DST, POOLS, SRC0, SRC1, check, legal, pooled
from tx8isa.errors import Tx8Error
from tx8isa.numbers import packing
from tx8isa.numbers.formats import FLOATS, Format
from tx8isa.numbers.layouts import Layout
from tx8isa.records.meaning import Reduction, Unpool
from tx8isa.table.encoding import argument_values

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

DST1 = 0xC000
INDEX = {Format.FP16: np.uint16, Format.BF16: np.uint16, Format.FP32: np.uint32, Format.TF32: np.uint32}

UNPOOLS: tuple[tuple[Shape, Shape], ...] = (
    ((1, 4, 4, 64), (2, 2, 2, 2)),
    ((2, 5, 4, 3), (3, 2, 1, 2)),
    ((1, 5, 5, 65), (2, 3, 3, 1)),
    ((1, 3, 7, 100), (2, 2, 3, 1)),
    ((2, 3, 5, 130), (1, 3, 2, 1)),
    ((2, 3, 3, 1), (3, 3, 1, 1)),
    ((1, 6, 6, 4), (2, 2, 1, 1)),
    ((1, 5, 5, 65), (2, 2, 2, 2)),
    ((1, 8, 6, 3), (2, 2, 2, 3)),
    ((1, 4, 8, 3), (2, 2, 3, 2)),
    ((1, 4, 7, 3), (2, 2, 2, 2)),
    ((1, 7, 4, 3), (2, 2, 2, 2)),
)
"""Result and window (kx ky sx sy): adjacent, overlapping, with gaps, with a rest after the last one."""


def put(tile: Tile, at: int, array: Array, layout: Layout = Layout.NCX) -> None:
    formats = {"float16": Format.FP16, "float32": Format.FP32, "uint16": Format.UINT16}
    image = packing.pack(array, formats[array.dtype.name], layout)
    tile.spm[at : at + image.size] = image


def get(tile: Tile, at: int, shape: Shape, fmt: Format) -> Array:
    size = packing.pack(np.zeros(shape, packing.storage_dtype(fmt)), fmt, Layout.NCX).size
    return packing.unpack(tile.spm[at : at + size].copy(), fmt, shape, Layout.NCX)


# -- indexed pooling ---------------------------------------------------------------------------------------


@COMPILED
@pytest.mark.parametrize("name", ["max_idx", "min_idx"])
def test_indexed_pool(name: str, compiled: bool) -> None:
    for number, case in enumerate(POOLS):
        fmt = FLOATS[number % 4] if compiled else (Format.FP16, Format.FP32)[number % 2]
        check(f"ct.pool.{name}", fmt, compiled, number, dst=DST, dst1=DST1, src0=SRC0, **pooled(*case))


@pytest.mark.parametrize("channels", [1, 3, 4, 64, 65, 130])
@pytest.mark.parametrize("fmt", [Format.FP16, Format.FP32])
@pytest.mark.parametrize("name", ["max_idx", "min_idx"])
def test_indices_against_numpy(name: str, fmt: Format, channels: int) -> None:
    """Few different values, so that ties are common; numpy's argmax takes the first one too."""
    tile = Tile(channels)
    image = tile.rng.integers(-3, 4, (2, 3, 4, channels)).astype(packing.storage_dtype(fmt))
    put(tile, SRC0, image)
    places = {"dst": DST, "dst1": DST1, "src0": SRC0}
    tile.run(f"ct.pool.{name}", fmt, True, places | pooled(image.shape, (0,) * 4, (3, 2, 1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(image, (2, 3), (1, 2)).reshape(2, 2, 2, channels, 6)
    first = views.argmax(-1) if name == "max_idx" else views.argmin(-1)
    values = np.take_along_axis(views, first[..., None], -1)[..., 0]
    assert np.array_equal(get(tile, DST, first.shape, fmt), values)
    integer = Format.INT16 if fmt is Format.FP16 else Format.INT32
    assert np.array_equal(get(tile, DST1, first.shape, integer), first)


@COMPILED
@pytest.mark.parametrize(
    ("window", "value", "index"),
    [
        ((1.0, 1.0, 0.0, 1.0), 1.0, 0),
        ((-0.0, 0.0, -1.0, 0.0), -0.0, 0),
        ((np.nan, 1.0, np.nan, 2.0), 2.0, 3),
        ((2.0, np.nan, 2.0, 2.0), 2.0, 0),
        ((np.nan, -np.inf, np.nan, -np.inf), -np.inf, 1),
        ((np.nan,) * 4, np.nan, 0),
        ((-np.inf, np.nan, np.inf, np.inf), np.inf, 2),
    ],
)
def test_ties_and_nan(window: Shape, value: float, index: int, compiled: bool) -> None:
    for sign, name in ((1.0, "max_idx"), (-1.0, "min_idx")):
        tile = Tile(0)
        put(tile, SRC0, (sign * np.array(window, np.float32)).reshape(1, 2, 2, 1))
        case = pooled((1, 2, 2, 1), (0,) * 4, (2, 2, 1, 1))
        tile.run(f"ct.pool.{name}", Format.FP32, compiled, {"dst": DST, "dst1": DST1, "src0": SRC0} | case)
        found = tile.spm[DST : DST + 4].view(np.float32)
        assert np.array_equal(found, [np.float32(sign * value)], equal_nan=True)
        assert found.view(np.uint32)[0] in (0x7FC00000, np.float32(sign * value).view(np.uint32))
        assert tile.spm[DST1 : DST1 + 4].view(np.uint32)[0] == index


def test_a_window_outside_the_image_has_no_value() -> None:
    """NaN and index 0, next to windows that have numbers."""
    tile = Tile(1)
    put(tile, SRC0, np.full((1, 1, 1, 1), -2.0, np.float32))
    case = pooled((1, 1, 1, 1), (2, 0, 0, 0), (1, 2, 1, 1))
    tile.run("ct.pool.max_idx", Format.FP32, True, {"dst": DST, "dst1": DST1, "src0": SRC0} | case)
    found = tile.spm[DST : DST + 32].view(np.float32)[::4]
    assert np.isnan(found[0]) and found[1] == -2.0
    assert list(tile.spm[DST1 : DST1 + 32].view(np.uint32)[::4]) == [0, 1]


def test_every_result_may_lie_over_the_source() -> None:
    for places in ((0x2000, 0x6000), (0x6000, 0x2000), (0x2100, 0x1000), (0x1F00, 0x6000)):
        values = {"dst": places[0], "dst1": places[1], "src0": 0x2000}
        check(
            "ct.pool.max_idx",
            Format.FP16,
            True,
            **values,
            **pooled((1, 4, 4, 65), (1, 1, 1, 1), (3, 3, 1, 1)),
        )


@pytest.mark.parametrize(
    ("dst1", "fits"), [(DST + 256, True), (DST - 256, True), (DST + 252, False), (DST - 4, False)]
)
def test_two_results_must_not_overlap(dst1: int, fits: bool) -> None:
    values = {"dst": DST, "dst1": dst1, "src0": SRC0} | pooled((1, 2, 2, 4), (0,) * 4, (2, 2, 1, 1))
    assert legal("ct.pool.max_idx", Format.FP32, values) == fits


# -- unpool ------------------------------------------------------------------------------------------------


def unpooled(shape: Shape, window: Shape) -> Shape:
    n, h, w, c = shape
    return n, (h - window[1]) // window[3] + 1, (w - window[0]) // window[2] + 1, c


@COMPILED
@pytest.mark.parametrize("name", ["mask", "index"])
def test_unpool_by_index(name: str, compiled: bool) -> None:
    """Indices from 0 to just outside the window, and some far outside; padding lanes have arbitrary ones."""
    for number, (shape, window) in enumerate(UNPOOLS):
        fmt = FLOATS[number % 4]
        tile, places = Tile(number, fmt), window[0] * window[1]
        marks = tile.spm[SRC1 : SRC1 + 0x2000].view(np.uint16)
        marks[:] = tile.rng.choice([*range(places), places, 0xFFFF], marks.size)
        tile.check(
            f"ct.unpool.{name}",
            fmt,
            compiled,
            dst=DST,
            src0=SRC0,
            src1=SRC1,
            dst_shape=pack(*shape),
            window=pack(*window),
        )


@COMPILED
def test_unpool_of_means(compiled: bool) -> None:
    for number, (shape, window) in enumerate(UNPOOLS):
        values = {"dst_shape": pack(*shape), "window": pack(*window)}
        check("ct.unpool.avg", FLOATS[number % 4], compiled, number, dst=DST, src0=SRC0, **values)


LONG: tuple[tuple[Shape, Shape], ...] = (
    ((1, 1, 140, 64), (2, 1, 2, 1)),
    ((1, 1, 141, 64), (2, 1, 2, 1)),
    ((1, 2, 70, 64), (3, 2, 2, 1)),
    ((1, 1, 140, 64), (3, 1, 1, 1)),
    ((1, 1, 140, 64), (5, 1, 3, 1)),
    ((1, 1, 2100, 4), (2, 1, 2, 1)),
    ((1, 1, 2100, 4), (3, 1, 2, 1)),
)
"""Rows of the result or of the windows that are done in several pieces."""


@pytest.mark.parametrize("name", ["avg", "index"])
@pytest.mark.parametrize("number", range(len(LONG)))
def test_rows_in_pieces(name: str, number: int) -> None:
    """Also over the values and over the indices, which are copied to the scratch that the pieces are in."""
    shape, window = LONG[number]
    values = {"dst_shape": pack(*shape), "window": pack(*window)}
    for fmt, dst in ((Format.FP16, DST), (Format.BF16, 0x1100), (Format.BF16, SRC1 + 0x100)):
        tile = Tile(number, fmt)
        tile.spm[SRC1:DST].view(np.uint16)[:] = tile.rng.integers(0, window[0] * window[1] + 1, 0x2000)
        more = {"src1": SRC1} if name == "index" else {}
        tile.check(f"ct.unpool.{name}", fmt, True, dst=dst, src0=SRC0, **values, **more)


def test_a_sum_of_nothing_must_be_zero() -> None:
    """Positions between the windows are cleared."""
    record = RECORDS["ct.unpool.avg"]
    for wrong in (replace(record.meaning.spread, start=2.0), Reduction(math.nan, max)):
        with pytest.raises(ValueError, match="zero"):
            make_unpool(replace(record, meaning=Unpool(wrong)), Format.FP16)


@pytest.mark.long
@pytest.mark.parametrize("fmt", FLOATS)
def test_every_unpool(fmt: Format) -> None:
    for number, (shape, window) in enumerate(UNPOOLS):
        values = {"dst": DST, "src0": SRC0, "dst_shape": pack(*shape), "window": pack(*window)}
        check("ct.unpool.avg", fmt, True, number, **values)
        for name in ("mask", "index"):
            tile = Tile(number, fmt)
            tile.spm[SRC1 : SRC1 + 0x2000].view(np.uint16)[:] = tile.rng.integers(0, 10, 0x1000)
            tile.check(f"ct.unpool.{name}", fmt, True, **values, src1=SRC1)


def test_means_of_overlapping_windows_are_rounded_once() -> None:
    """Integers, whose sums are exact: the quotient is the float nearest to the fraction."""
    tile, window, shape = Tile(4), (3, 2, 1, 1), (1, 4, 5, 3)
    image = tile.rng.integers(-999, 1000, unpooled(shape, window)).astype(np.float32)
    put(tile, SRC0, image)
    values = {"dst": DST, "src0": SRC0, "dst_shape": pack(*shape), "window": pack(*window)}
    tile.run("ct.unpool.avg", Format.FP32, True, values)
    found = get(tile, DST, shape, Format.FP32)
    for y, x, c in np.ndindex(*shape[1:]):
        covering = image[0, max(y - 1, 0) : y + 1, max(x - 2, 0) : x + 1, c]
        exact = Fraction(int(covering.sum()), 6)
        assert found[0, y, x, c] == np.float32(exact.numerator / exact.denominator)


def test_the_last_of_several_values_stays() -> None:
    """Three windows of 3 with stride 1 that all name the position 2, and one index outside."""
    tile = Tile(5)
    put(tile, SRC0, np.array([1, 2, 3, 4], np.float16).reshape(1, 1, 4, 1))
    put(tile, SRC1, np.array([2, 1, 0, 3], np.uint16).reshape(1, 1, 4, 1))
    values = {"dst_shape": pack(1, 1, 6, 1), "window": pack(3, 1, 1, 1)}
    tile.run("ct.unpool.mask", Format.FP16, True, {"dst": DST, "src0": SRC0, "src1": SRC1} | values)
    assert list(get(tile, DST, (1, 1, 6, 1), Format.FP16).reshape(-1)) == [0, 0, 3, 0, 0, 0]


@pytest.mark.parametrize("name", ["avg", "mask"])
def test_unpool_over_its_operands_is_a_snapshot(name: str) -> None:
    shape, window = (1, 4, 6, 65), (2, 2, 2, 2)
    for dst in (0x2000, 0x2100, 0x1F00, 0x4000, 0x4080, 0x3800):
        tile = Tile(6, Format.FP16)
        tile.spm[0x4000:0x5000].view(np.uint16)[:] = tile.rng.integers(0, 5, 0x800)
        more = {"src1": 0x4000} if name == "mask" else {}
        values = {"dst": dst, "src0": 0x2000, "dst_shape": pack(*shape), "window": pack(*window)} | more
        tile.check(f"ct.unpool.{name}", Format.FP16, True, **values)


def test_extents_of_unpool() -> None:
    """The source has the pooled shape; its indices are 16 bits wide for 32-bit data too."""
    record = RECORDS["ct.unpool.mask"]
    values = [0] * len(record.operands)
    given = {"format": Format.FP32, "dst_shape": pack(2, 9, 7, 65), "window": pack(3, 2, 2, 2)}
    for name, value in given.items():
        values[record.index(name)] = int(value)
    found = {}
    for name in ("dst", "src0", "src1"):
        extent = record.operand(name).extent
        assert extent is not None
        found[name] = extent.length(*argument_values(record, extent.arguments, tuple(values)))
    assert found == {"dst": 2 * 17152, "src0": 2 * 3328, "src1": 2 * 1792}


@pytest.mark.parametrize("window", [(5, 1, 1, 1), (1, 5, 1, 1), (255, 255, 1, 1)])
def test_a_window_larger_than_the_result_is_refused(window: Shape) -> None:
    for name in ("avg", "mask", "index"):
        fits, wrong = ({"dst_shape": pack(1, 4, 4, 4), "window": pack(*k)} for k in ((4, 4, 1, 1), window))
        assert legal(f"ct.unpool.{name}", Format.FP16, fits)
        assert not legal(f"ct.unpool.{name}", Format.FP16, wrong)


# -- bilinear resize ---------------------------------------------------------------------------------------

RESIZES: tuple[tuple[Shape, Shape, int, int], ...] = (
    ((1, 4, 4, 64), (1, 8, 8, 64), 0x8000, 0x8000),
    ((2, 3, 5, 3), (2, 5, 3, 3), 0x1AAAA, 0x9999),
    ((1, 3, 3, 65), (1, 3, 3, 65), 0x10000, 0x10000),
    ((1, 2, 2, 130), (1, 3, 4, 130), 0xFFFFFFFF, 7),
    ((1, 1, 1, 1), (1, 3, 3, 1), 5555, 0),
)
"""Source, result, scale_x, scale_y: larger, smaller, equal, beyond the image, a single pixel."""


def resized(source: Shape, result: Shape, scale_x: int, scale_y: int) -> dict[str, int]:
    scales = {"scale_x": scale_x, "scale_y": scale_y}
    return {"dst": DST, "src0": SRC0, "shape": pack(*source), "dst_shape": pack(*result)} | scales


@COMPILED
@pytest.mark.parametrize("fmt", FLOATS)
def test_bilinear(fmt: Format, compiled: bool) -> None:
    for number, case in enumerate(RESIZES):
        check("ct.bilinear", fmt, compiled, number, **resized(*case))


def test_a_scale_of_one_copies() -> None:
    """Infinities, zeros of both signs and all other numbers; only NaN becomes canonical."""
    tile, shape = Tile(7, Format.FP16), (1, 5, 7, 64)
    image = get(tile, SRC0, shape, Format.FP16)
    tile.run("ct.bilinear", Format.FP16, True, resized(shape, shape, 1 << 16, 1 << 16))
    found = get(tile, DST, shape, Format.FP16).view(np.uint16)
    assert np.array_equal(found, np.where(np.isnan(image), 0x7E00, image.view(np.uint16)))
    assert np.isinf(image).any() and np.isnan(image).any()


def test_bilinear_against_fractions() -> None:
    """Small integers and quarter steps, so that everything is exact in binary32."""
    tile = Tile(8)
    image = tile.rng.integers(-64, 65, (1, 3, 4, 3)).astype(np.float32)
    put(tile, SRC0, image)
    tile.run("ct.bilinear", Format.FP32, True, resized(image.shape, (1, 9, 14, 3), 0x4000, 0x6000))
    found = get(tile, DST, (1, 9, 14, 3), Format.FP32)

    def between(values: list[Fraction], at: Fraction) -> Fraction:
        at = min(at, Fraction(len(values) - 1))
        low = int(at)
        return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (at - low)

    for y, x, c in np.ndindex(9, 14, 3):
        lines = [between([Fraction(int(v)) for v in line], Fraction(x, 4)) for line in image[0, :, :, c]]
        assert Fraction(float(found[0, y, x, c])) == between(lines, Fraction(3 * y, 8))


def test_bilinear_over_its_source_is_a_snapshot() -> None:
    values = resized((1, 4, 4, 65), (1, 6, 5, 65), 0xC000, 0xA000)
    for dst in (SRC0, 0x100):
        check("ct.bilinear", Format.FP16, True, **(values | {"dst": dst}))


@pytest.mark.parametrize("result", [(2, 4, 4, 3), (1, 4, 4, 4)])
def test_bilinear_keeps_images_and_channels(result: Shape) -> None:
    assert legal("ct.bilinear", Format.FP16, resized((1, 2, 2, 3), (1, 4, 4, 3), 0, 0))
    assert not legal("ct.bilinear", Format.FP16, resized((1, 2, 2, 3), result, 0, 0))


# -- another opinion ---------------------------------------------------------------------------------------


def needed(name: str) -> Any:
    """An outside oracle: missing is a reason to skip on a desk, a failure in CI."""
    return __import__(name) if os.environ.get("CI") == "true" else pytest.importorskip(name)


def onnx_run(op: str, feeds: dict[str, Array], outputs: int, **attributes: Any) -> list[Array]:
    """One node of ONNX in onnxruntime; inputs by name, an empty name is an absent one."""
    onnx, runtime = needed("onnx"), needed("onnxruntime")
    names = [f"y{k}" for k in range(outputs)]
    node = onnx.helper.make_node(op, list(feeds), names, **attributes)
    kinds = {np.dtype(np.float32): 1, np.dtype(np.int64): 7}
    inputs = [onnx.helper.make_tensor_value_info(k, kinds[v.dtype], v.shape) for k, v in feeds.items() if k]
    results = [onnx.helper.make_tensor_value_info(k, 7 if k == "y1" else 1, None) for k in names]
    graph = onnx.helper.make_graph([node], "g", inputs, results)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, {k: v for k, v in feeds.items() if k})
    return found


@pytest.mark.parametrize("channels", [3, 65])
def test_pool_and_unpool_against_onnxruntime(channels: int) -> None:
    """MaxPool's indices count the elements of an image, and MaxUnpool reads such indices."""
    tile, window = Tile(9), (2, 3, 2, 3)
    image = tile.rng.permutation(6 * 8 * channels).astype(np.float32).reshape(1, 6, 8, channels)
    put(tile, SRC0, image)
    case = pooled(image.shape, (0,) * 4, window)
    tile.run("ct.pool.max_idx", Format.FP32, True, {"dst": DST, "dst1": DST1, "src0": SRC0} | case)
    shape = unpooled(image.shape, window)
    values, places = get(tile, DST, shape, Format.FP32), get(tile, DST1, shape, Format.INT32)
    planes = np.ascontiguousarray(image.transpose(0, 3, 1, 2))
    kernel = {"kernel_shape": [3, 2], "strides": [3, 2]}
    expected, flat = onnx_run("MaxPool", {"x": planes}, 2, **kernel)
    assert np.array_equal(values.transpose(0, 3, 1, 2), expected)
    y = np.arange(2)[None, :, None, None] * 3 + places // 2
    x = np.arange(4)[None, None, :, None] * 2 + places % 2
    c = np.arange(channels)
    assert np.array_equal((c * 6 * 8 + y * 8 + x).transpose(0, 3, 1, 2), flat)
    put(tile, SRC0, values)
    put(tile, SRC1, places.astype(np.uint16))
    back = {"dst": DST, "src0": SRC0, "src1": SRC1, "dst_shape": pack(*image.shape), "window": pack(*window)}
    tile.run("ct.unpool.mask", Format.FP32, True, back)
    restored = onnx_run("MaxUnpool", {"x": expected, "i": flat}, 1, **kernel)[0]
    assert np.array_equal(get(tile, DST, image.shape, Format.FP32).transpose(0, 3, 1, 2), restored)


def test_bilinear_against_onnxruntime() -> None:
    """Resize, linear, asymmetric: the same sampling."""
    tile = Tile(10)
    image = tile.rng.normal(size=(1, 5, 6, 3)).astype(np.float32)
    put(tile, SRC0, image)
    tile.run("ct.bilinear", Format.FP32, True, resized(image.shape, (1, 10, 24, 3), 0x4000, 0x8000))
    feeds = {"x": np.ascontiguousarray(image.transpose(0, 3, 1, 2)), "": np.zeros(0, np.float32)}
    sizes = np.array([1, 1, 2, 4], np.float32)
    expected = onnx_run(
        "Resize", {**feeds, "scales": sizes}, 1, mode="linear", coordinate_transformation_mode="asymmetric"
    )[0]
    found = get(tile, DST, (1, 10, 24, 3), Format.FP32)
    assert np.allclose(found.transpose(0, 3, 1, 2), expected, rtol=0, atol=1e-6)


POOL_SHAPES = "shape=[1,2,2,4], dst_shape=[1,1,1,4]"


@pytest.mark.parametrize(
    ("mnemonic", "operands", "message"),
    [
        ("ct.pool.max_idx.fp16", f"dst1=128, {POOL_SHAPES}, window=[2,2,1,1]", "must not overlap"),
        ("ct.pool.max_idx.fp16", f"{POOL_SHAPES}, window=[2,2,1,1]", "dst1"),
        ("ct.pool.max.fp16", f"dst1=512, {POOL_SHAPES}, window=[2,2,1,1]", "dst1"),
        ("ct.pool.min.int8", f"{POOL_SHAPES}, window=[2,2,1,1]", "ct.pool.min has the formats"),
        ("ct.pool.min.fp16", f"{POOL_SHAPES}, window=[256,2,1,1]", "kx = 256 is outside 1..255"),
        ("ct.pool.min.fp16", f"{POOL_SHAPES}, window=[2,2,1024,1]", "sx = 1024 is outside 1..1023"),
        ("ct.unpool.mask.fp16", "dst_shape=[1,2,2,4], window=[2,2,2,2]", "src1"),
        ("ct.unpool.avg.fp16", "src1=0, dst_shape=[1,2,2,4], window=[2,2,2,2]", "src1"),
        ("ct.bilinear.fp16", f"{POOL_SHAPES}, scale_x=1", "scale_y"),
        ("ct.bilinear.fp16", f"{POOL_SHAPES}, scale_x=-1, scale_y=1", "scale_x"),
    ],
)
def test_messages(mnemonic: str, operands: str, message: str) -> None:
    with pytest.raises(Tx8Error, match=message):
        asm.assemble(f"{mnemonic} dst=0, src0=0x1000, {operands}\n")
