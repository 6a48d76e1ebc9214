"""Moves between shapes: kernels against the slow reference, byte for byte, and against numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asm
from emulator import native
from emulator.native.primitives.blocks import BLOCKS, ROW_BYTES
from emulator.native.primitives.memory import view_i64
from kernel_bench import RECORDS, Tile, pack
from machine_code import needs_jit
from tensor_cases import COMPILED, DST, SRC0, check, legal
from tx8isa.errors import Tx8Error
from tx8isa.numbers import packing
from tx8isa.numbers.formats import MOVE_FORMATS, Format
from tx8isa.numbers.layouts import Layout
from tx8isa.records.meaning import Move, Unfold

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

SHAPES: tuple[Shape, ...] = (
    (1, 3, 5, 3),
    (2, 2, 3, 64),
    (1, 4, 3, 65),
    (2, 2, 3, 4),
    (3, 1, 1, 1),
    (1, 1, 7, 130),
    (2, 9, 17, 1),
    (1, 35, 20, 1),
    (1, 17, 5, 2),
    (1, 2, 2, 100),
)
COMPACT: dict[str, Callable[[Array], Array]] = {
    "mirror": lambda x: np.flip(x, 2),
    "transpose": lambda x: x.transpose(0, 2, 1, 3),
    "rotate90": lambda x: np.rot90(x, -1, (1, 2)),
    "rotate180": lambda x: np.rot90(x, 2, (1, 2)),
    "rotate270": lambda x: np.rot90(x, 1, (1, 2)),
    "nchw2nhwc": lambda x: x.transpose(0, 2, 3, 1),
    "nhwc2nchw": lambda x: x.transpose(0, 3, 1, 2),
}
"""Each move as numpy does it; of nchw2nhwc the source is NCHW."""

TURNING = ("transpose", "rotate90", "rotate270")


def compact(name: str, shape: Shape) -> dict[str, int]:
    n, h, w, c = shape
    result = (n, w, h, c) if name in TURNING else shape
    return {"dst": DST, "src0": SRC0, "shape": pack(*shape), "dst_shape": pack(*result)}


def unfolded(
    name: str, shape: Shape, pad: Shape = (0, 0, 0, 0), window: Shape = (1, 1, 1, 1)
) -> dict[str, int]:
    """Operands of pad, channelnorm and img2col; pad is top bottom left right, window kx ky sx sy."""
    n, h, w, c = shape
    h, w = h + pad[0] + pad[1], w + pad[2] + pad[3]
    values = {"dst": DST, "src0": SRC0, "shape": pack(*shape)}
    if name != "channelnorm":
        values["pad"] = pack(*pad)
    if name == "img2col":
        places = ((h - window[1]) // window[3] + 1) * ((w - window[0]) // window[2] + 1)
        h, w, values["window"] = window[0] * window[1], places, pack(*window)
    return values | {"dst_shape": pack(n, h, w, c)}


WINDOWS: tuple[tuple[Shape, Shape, Shape], ...] = (
    ((1, 4, 4, 64), (0, 0, 0, 0), (2, 2, 1, 1)),
    ((2, 5, 4, 3), (1, 0, 2, 1), (3, 2, 1, 2)),
    ((1, 3, 3, 65), (1, 1, 1, 1), (3, 3, 2, 1)),
    ((1, 2, 2, 100), (3, 3, 3, 3), (2, 2, 3, 3)),
    ((2, 3, 3, 130), (0, 1, 0, 2), (1, 3, 2, 1)),
    ((1, 2, 3, 1), (2, 0, 0, 4), (1, 1, 2, 1)),
)


def test_the_names_are_all_there() -> None:
    moves = {m for m, record in RECORDS.items() if isinstance(record.meaning, Move)}
    assert moves == {f"td.{name}" for name in COMPACT}
    unfolds = {m for m, record in RECORDS.items() if isinstance(record.meaning, Unfold)}
    assert unfolds == {"td.pad", "td.channelnorm", "td.img2col"}


@COMPILED
@pytest.mark.parametrize("name", COMPACT)
def test_compact_moves(name: str, compiled: bool) -> None:
    for number, shape in enumerate(SHAPES if compiled else SHAPES[:7]):
        fmt = Format.FP16 if compiled else (Format.INT8, Format.FP16, Format.INT32)[number % 3]
        check(f"td.{name}", fmt, compiled, number, **compact(name, shape))


@COMPILED
@pytest.mark.parametrize("name", ["pad", "channelnorm", "img2col"])
def test_moves_into_the_aligned_layout(name: str, compiled: bool) -> None:
    for number, (shape, pad, window) in enumerate(WINDOWS if compiled else WINDOWS[:5]):
        fmt = Format.FP16 if compiled else (Format.INT8, Format.FP16, Format.INT32)[number % 3]
        around = pad if name != "channelnorm" else (0, 0, 0, 0)
        check(f"td.{name}", fmt, compiled, number, **unfolded(name, shape, around, window))


@pytest.mark.long
@pytest.mark.parametrize("fmt", MOVE_FORMATS)
@pytest.mark.parametrize("name", [*COMPACT, "pad", "channelnorm", "img2col"])
def test_every_move(name: str, fmt: Format) -> None:
    shapes = (*SHAPES, (1, 40, 35, 1), (2, 10, 1, 40), (1, 5, 9, 70), (1, 3, 3, 129), (2, 1, 2, 192))
    for number, shape in enumerate(shapes):
        values = compact(name, shape) if name in COMPACT else unfolded(name, shape)
        check(f"td.{name}", fmt, True, number, **values)
    for number, case in enumerate(WINDOWS if name in ("pad", "img2col") else ()):
        check(f"td.{name}", fmt, True, number, **unfolded(name, *case))


@pytest.mark.parametrize("fmt", [Format.INT8, Format.FP16, Format.FP32])
@pytest.mark.parametrize("name", COMPACT)
def test_compact_moves_against_numpy(name: str, fmt: Format) -> None:
    """Extents around the blocks of 16 bytes and the tiles of 64, one channel and several."""
    tile, dtype = Tile(1), np.dtype(f"u{fmt.bits // 8}")
    for shape in ((1, 65, 33, 1), (2, 16, 24, 2), (1, 7, 40, 3), (1, 8, 70, 4), (2, 5, 3, 66), (1, 9, 9, 16)):
        n, h, w, c = shape
        stored = (n, c, h, w) if name == "nchw2nhwc" else shape
        source = tile.rng.integers(0, 1 << fmt.bits, stored, dtype=np.uint64).astype(dtype)
        tile.spm[: source.nbytes] = source.reshape(-1).view(np.uint8)
        tile.spm[DST:] = 0xA5
        tile.run(f"td.{name}", fmt, True, compact(name, shape))
        found = tile.spm[DST : DST + source.nbytes].view(dtype)
        assert np.array_equal(found, COMPACT[name](source).reshape(-1)), (name, shape)
        assert (tile.spm[DST + source.nbytes :] == 0xA5).all()


@pytest.mark.parametrize("name", ["mirror", "rotate90", "nhwc2nchw"])
def test_runs_of_every_length(name: str) -> None:
    """Rows of each length are copied in a different way."""
    tile = Tile(2)
    for channels in (*range(1, 70), 127, 128, 129):
        shape = (1, 3, 5, channels)
        source = tile.spm[: 15 * channels].reshape(shape).copy()
        tile.run(f"td.{name}", Format.INT8, True, compact(name, shape))
        assert np.array_equal(tile.spm[DST : DST + source.size], COMPACT[name](source).reshape(-1)), channels


def aligned(array: Array, fmt: Format) -> Array:
    return packing.pack(array.view(packing.storage_dtype(fmt)), fmt, Layout.NCX)


@pytest.mark.parametrize("fmt", [Format.INT8, Format.FP16, Format.FP32])
@pytest.mark.parametrize("channels", [1, 3, 4, 64, 65, 130])
def test_aligned_moves_against_numpy(fmt: Format, channels: int) -> None:
    """The whole padded image: padding lanes and gaps are zero although memory was not."""
    tile, dtype = Tile(channels), np.dtype(f"u{fmt.bits // 8}")
    image = tile.rng.integers(0, 1 << fmt.bits, (2, 3, 3, channels), dtype=np.uint64).astype(dtype)
    padded = np.pad(image, ((0, 0), (1, 0), (2, 1), (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (2, 3), (1, 2))[:, :, ::2]  # N OH OW C ky kx
    columns = np.ascontiguousarray(views.transpose(0, 4, 5, 1, 2, 3)).reshape(2, 6, -1, channels)
    cases = {
        "channelnorm": (image.reshape(-1).view(np.uint8), image, {}),
        "pad": (aligned(image, fmt), padded, {"pad": (1, 0, 2, 1)}),
        "img2col": (aligned(image, fmt), columns, {"pad": (1, 0, 2, 1), "window": (3, 2, 2, 1)}),
    }
    for name, (source, result, more) in cases.items():
        expected = aligned(np.ascontiguousarray(result), fmt)
        tile.spm[: source.size] = source
        tile.spm[0x4000:] = 0xFF
        values = unfolded(name, image.shape, **more) | {"dst": 0x4000}
        tile.run(f"td.{name}", fmt, True, values)
        assert np.array_equal(tile.spm[0x4000 : 0x4000 + expected.size], expected), name
        assert (tile.spm[0x4000 + expected.size :] == 0xFF).all()


def test_img2col_spans_as_measured_on_the_board() -> None:
    """N2 H9 W11 C65 with a 3x2 window, stride 2x1, pads top 1 left 2: 27,136 bytes read, 88,576 written."""
    values = unfolded("img2col", (2, 9, 11, 65), (1, 0, 2, 0), (3, 2, 2, 1))
    assert values["dst_shape"] == pack(2, 6, 54, 65)
    record = RECORDS["td.img2col"]
    spans = []
    for operand, shape in (("src0", (2, 9, 11, 65)), ("dst", (2, 6, 54, 65))):
        extent = record.operand(operand).extent
        assert extent is not None
        spans.append(extent.length(16, *shape))
    assert spans == [27_136, 88_576]


@pytest.mark.parametrize("mnemonic", [f"td.{name}" for name in COMPACT])
@given(shape=st.tuples(*[st.integers(1, 4)] * 4))
@settings(max_examples=30)
def test_compact_moves_are_affine_permutations(mnemonic: str, shape: Shape) -> None:
    """The kernels rely on this (meaning.Move)."""
    name = mnemonic.removeprefix("td.")
    meaning, result = RECORDS[mnemonic].meaning, compact(name, shape)["dst_shape"]
    n, h, w, c = (result >> s & 0xFFFF for s in (48, 32, 16, 0))
    extents = (n, c, h, w) if meaning.channels_first else (n, h, w, c)
    places = list(itertools.product(*map(range, extents)))
    found = [meaning.source(*place, *shape) for place in places]
    assert sorted(found) == list(range(len(found)))
    for (i, j, k, m), flat in zip(places, found, strict=True):
        first = meaning.source(i, 0, 0, 0, *shape)
        steps = [meaning.source(i, *unit, *shape) - first for unit in ((1, 0, 0), (0, 1, 0), (0, 0, 1))]
        assert flat == first + j * steps[0] + k * steps[1] + m * steps[2]
        if name not in ("nchw2nhwc", "nhwc2nchw"):
            assert steps[2] == 1 and steps[0] % shape[3] == 0 and steps[1] % shape[3] == 0


@pytest.mark.parametrize("shift", [0, 256, -256, 2])
def test_overlapping_tensors_are_a_snapshot(shift: int) -> None:
    places = {"src0": 0x2000, "dst": 0x2000 + shift}
    for name in COMPACT:
        check(f"td.{name}", Format.FP16, True, **(compact(name, (1, 4, 9, 20)) | places))
    check("td.channelnorm", Format.FP16, True, **(unfolded("channelnorm", (1, 4, 3, 65)) | places))
    check("td.pad", Format.FP16, True, **(unfolded("pad", (1, 4, 3, 65), (1, 1, 1, 1)) | places))
    values = unfolded("img2col", (1, 4, 3, 65), (1, 1, 1, 1), (2, 2, 1, 1))
    check("td.img2col", Format.FP16, True, **(values | places))


@pytest.mark.parametrize(
    ("mnemonic", "change"),
    [
        ("td.mirror", {"dst_shape": pack(1, 4, 3, 3)}),
        ("td.rotate180", {"dst_shape": pack(1, 4, 3, 3)}),
        ("td.transpose", {"dst_shape": pack(1, 3, 4, 3)}),
        ("td.rotate90", {"dst_shape": pack(1, 3, 4, 3)}),
        ("td.rotate270", {"dst_shape": pack(1, 4, 3, 4)}),
        ("td.nchw2nhwc", {"dst_shape": pack(1, 3, 3, 4)}),
        ("td.nhwc2nchw", {"dst_shape": pack(2, 3, 4, 3)}),
        ("td.pad", {"pad": pack(0, 1, 0, 0)}),
        ("td.pad", {"pad": pack(0, 0, 1, 0)}),
        ("td.pad", {"dst_shape": pack(1, 3, 4, 4)}),
        ("td.channelnorm", {"dst_shape": pack(1, 4, 3, 3)}),
        ("td.channelnorm", {"dst_shape": pack(2, 3, 4, 3)}),
        ("td.img2col", {"dst_shape": pack(1, 2, 6, 3)}),
        ("td.img2col", {"dst_shape": pack(1, 4, 5, 3)}),
        ("td.img2col", {"dst_shape": pack(1, 4, 6, 4)}),
        ("td.img2col", {"window": pack(5, 1, 1, 1)}),
        ("td.img2col", {"window": pack(2, 2, 1, 3)}),
    ],
)
def test_shapes_that_do_not_fit_are_refused(mnemonic: str, change: dict[str, int]) -> None:
    name, shape = mnemonic.removeprefix("td."), (1, 3, 4, 3)
    good = compact(name, shape) if name in COMPACT else unfolded(name, shape, (0,) * 4, (2, 2, 1, 1))
    assert legal(mnemonic, Format.FP16, good)
    assert not legal(mnemonic, Format.FP16, good | change)


@pytest.mark.parametrize(
    ("mnemonic", "operands", "message"),
    [
        ("td.mirror.bool", "shape=[1,1,8,1], dst_shape=[1,1,8,1]", "td.mirror has the formats"),
        ("td.mirror.fp16", "shape=[1,1,0,1], dst_shape=[1,1,0,1]", "w = 0 is outside 1..4096"),
        ("td.mirror.fp16", "shape=[1,1,1,16385], dst_shape=[1,1,1,1]", "outside 1..16384"),
        ("td.pad.fp16", "shape=[1,1,1,1], dst_shape=[1,1,1,1], pad=[1024,0,0,0]", "outside 0..1023"),
        ("td.rotate90.fp16", "shape=[1,2,3,1], dst_shape=[1,2,3,1]", "h and w exchanged"),
        ("td.img2col.fp16", "shape=[1,2,3,1], dst_shape=[1,2,3,1], window=[2,2,1,1]", r"kx \* ky"),
    ],
)
def test_messages(mnemonic: str, operands: str, message: str) -> None:
    with pytest.raises(Tx8Error, match=message):
        asm.assemble(f"{mnemonic} dst=0, src0=0x1000, {operands}\n")


@needs_jit
@pytest.mark.parametrize("size", BLOCKS)
@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
def test_blocks_are_transposed(size: int, compiled: bool) -> None:
    """Pitches of either sign, addresses that are not aligned to a row."""
    block, lanes = BLOCKS[size], ROW_BYTES // size

    def kernel(words: int, unused: int) -> int:
        values = view_i64(words, 4)
        block(values[0], values[1], values[2], values[3])
        return 0

    run = native.compile_kernel(kernel, f"block of {size}", 2)
    memory = np.random.default_rng(3).integers(0, 256, 4096, dtype=np.uint8)
    dtype = np.dtype(f"u{size}")
    for target_pitch, source_pitch in ((16, 16), (48, 40), (-24, 32), (56, -16)):
        source = 1024 + size
        rows = [memory[source + i * source_pitch :][:ROW_BYTES].view(dtype).copy() for i in range(lanes)]
        words = [memory.ctypes.data + 3072 + size, target_pitch, memory.ctypes.data + source, source_pitch]
        arguments = np.array(words, np.int64)
        if compiled:
            native.call(run, arguments.ctypes.data, 0)
        else:
            kernel(arguments.ctypes.data, 0)
        for j in range(lanes):
            found = memory[3072 + size + j * target_pitch :][:ROW_BYTES].view(dtype)
            assert np.array_equal(found, [row[j] for row in rows])
