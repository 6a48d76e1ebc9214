"""Layouts and packing: golden vectors, an oracle written as plain loops, round trips, and refusals."""

from __future__ import annotations

import csv
import itertools
import random
import re
import subprocess
import sys
from math import prod
from types import FunctionType
from typing import Any

import ml_dtypes
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paths import TESTS
from tx8isa.numbers import layouts
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import ChannelSplit, Layout, LayoutError, Placement, channel_split, place
from tx8isa.numbers.packing import pack, storage_dtype, unpack

TABLE = TESTS / "data" / "layout_vectors.csv"
VECTORS = list(csv.DictReader(TABLE.read_text().splitlines()))
"""The published vectors: geometry, and byte offsets of single elements as ``index:offset``."""

EDGES = [1, 3, 4, 5, 31, 32, 33, 63, 64, 65, 96, 97, 127, 128, 129, 192, 193, 255, 256, 257]
ELEMENT_BYTES = {"int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "fp16": 2, "bf16": 2}
ELEMENT_BYTES |= dict.fromkeys(["int32", "uint32", "fp32", "tf32"], 4)
"""Formats with a blocked placement."""


Index = tuple[int, ...]


def loops_oracle(token: str, shape: Index, layout: Layout) -> tuple[int, dict[Index, int]]:
    """Total bytes and the offset of every element, by walking the planes in storage order.

    It counts addresses up (batch, plane, position, lane) instead of computing them.
    """
    size = ELEMENT_BYTES[token]
    channels = shape[-1]
    widths = []
    step = 128 if token in ["int8", "uint8"] else 64
    remaining = channels
    while remaining > step // 2:
        widths.append(step)
        remaining -= step
    if remaining > 0:
        widths.append(next(w for w in (4, 8, 16, 32, 64) if w >= remaining))
    ncx = layout is Layout.NCX
    middle = shape[1:-1] if ncx else shape[:-1]
    offsets = {}
    at = 0
    for n in range(shape[0] if ncx else 1):
        at += -at % 256
        first = 0
        for width in widths:
            for position in itertools.product(*(range(extent) for extent in middle)):
                for lane in range(width):
                    if first + lane < channels:
                        offsets[(n,) * ncx + position + (first + lane,)] = at
                    at += size
            first += width
    return at + -at % 256, offsets


def placed(row: dict[str, str]) -> Placement:
    shape = [int(extent) for extent in row["shape"].split("x")]
    return place(Format.parse(row["format"]), shape, Layout.parse(row["layout"]))


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: row["number"])
def test_golden_geometry(row: dict[str, str]) -> None:
    p = placed(row)
    for name in ("aligned", "full_blocks", "tail"):
        assert getattr(p.split, name) == int(row[name]), name
    for name in ("hw", "batches", "used_bytes", "batch_stride", "total_bytes", "logical_bytes"):
        assert getattr(p, name) == int(row[name]), name


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: row["number"])
def test_golden_offsets(row: dict[str, str]) -> None:
    p = placed(row)
    for entry in row["offsets"].split():
        index_text, offset = entry.split(":")
        index = tuple(int(i) for i in index_text.split("."))
        assert p.offset(index) == int(offset), index
        assert p.index_at(int(offset)) == index


def test_placement_is_a_value() -> None:
    a, b = (place(Format.BF16, [2, 3, 5, 33], Layout.NCX) for _ in range(2))
    assert a == b and hash(a) == hash(b) and str(a) == "bf16 2x3x5x33 ncx"


def test_golden_table_is_whole() -> None:
    assert [row["number"] for row in VECTORS] == [str(n) for n in range(1, 21)]
    assert sum(len(row["offsets"].split()) for row in VECTORS) == 213


@pytest.mark.parametrize(
    ("token", "shape", "layout", "total"),
    [
        ("fp16", (2, 7, 9, 65), Layout.NTENSOR, 16380),
        ("fp16", (2, 7, 9, 65), Layout.NCX, 17408),
        ("fp16", (2, 9, 11, 65), Layout.NCX, 27136),
        ("fp16", (2, 6, 54, 65), Layout.NCX, 88576),
        ("fp16", (1, 2, 8, 1), Layout.NCX, 256),
        ("fp16", (1, 16), Layout.CX, 256),
        ("fp16", (1, 65), Layout.CX, 256),
    ],
)
def test_spans_seen_on_the_board(token: str, shape: Index, layout: Layout, total: int) -> None:
    assert place(Format.parse(token), shape, layout).total_bytes == total


def test_stored_channels_agree_with_a_second_compiler() -> None:
    assert [channel_split(c, Format.FP16).aligned for c in (65, 96, 97, 1000)] == [68, 96, 128, 1024]
    assert [channel_split(c, Format.INT8).aligned for c in (129, 192, 193)] == [132, 192, 256]
    assert channel_split(131, Format.UINT8) == ChannelSplit(full_blocks=1, tail=4, block=128, aligned=132)


@pytest.mark.parametrize("token", ELEMENT_BYTES)
def test_channel_rule_is_minimal_and_covers(token: str) -> None:
    """Every extent up to three blocks against the wording of the rule, as inequalities."""
    block = 128 if token in ["int8", "uint8"] else 64
    for channels in range(1, 3 * block + 1):
        split = channel_split(channels, Format.parse(token))
        rest = channels - split.full_blocks * block
        assert split.block == block
        assert split.aligned == split.full_blocks * block + split.tail >= channels
        if split.tail:
            assert 0 < rest <= block // 2
            assert split.tail in (4, 8, 16, 32, 64)
            assert split.tail == 4 or split.tail // 2 < rest <= split.tail
        else:
            assert -block // 2 < rest <= 0


@st.composite
def blocked_tensors(draw: st.DrawFn) -> tuple[str, Index, Layout]:
    layout = draw(st.sampled_from([Layout.CX, Layout.NCX]))
    outer = draw(st.lists(st.integers(1, 4), min_size=1 if layout is Layout.NCX else 0, max_size=5))
    channels = draw(st.one_of(st.sampled_from(EDGES), st.integers(1, 300)))
    while prod(outer) * channels > 3000:
        outer[outer.index(max(outer))] -= 1
    return draw(st.sampled_from(list(ELEMENT_BYTES))), (*outer, channels), layout


@given(blocked_tensors())
@settings(max_examples=120)
def test_blocked_map_equals_loops(tensor: tuple[str, Index, Layout]) -> None:
    token, shape, layout = tensor
    p = place(Format.parse(token), shape, layout)
    total, offsets = loops_oracle(token, shape, layout)
    size = ELEMENT_BYTES[token]
    assert p.total_bytes == total
    assert p.logical_bytes == prod(shape) * size
    assert len(set(offsets.values())) == len(offsets) == prod(shape)
    owner: dict[int, Index] = {}
    for index, offset in offsets.items():
        assert p.offset(index) == offset
        assert offset % size == 0
        batch = index[0] if layout is Layout.NCX else 0
        assert batch * p.batch_stride <= offset <= batch * p.batch_stride + p.used_bytes - size
        owner |= dict.fromkeys(range(offset, offset + size), index)
    for byte in range(0, total, 1 if total < 2000 else 7):
        assert p.index_at(byte) == owner.get(byte)


@given(
    st.sampled_from(list(Format)),
    st.lists(st.integers(1, 6), min_size=1, max_size=6),
    st.sampled_from([Layout.TENSOR, Layout.NTENSOR]),
)
@settings(max_examples=120)
def test_compact_map_is_row_major(fmt: Format, shape: list[int], layout: Layout) -> None:
    p = place(fmt, shape, layout)
    bits = {"bool": 1, "int64": 64, "uint64": 64}.get(fmt.token) or ELEMENT_BYTES[fmt.token] * 8
    count = prod(shape)
    assert p.total_bytes == p.used_bytes == p.batch_stride == p.logical_bytes == -(-count * bits // 8)
    assert (p.batches, p.hw, p.split.aligned) == (1, count // shape[-1], shape[-1])
    numbered = list(itertools.product(*(range(extent) for extent in shape)))
    for number, index in enumerate(numbered):
        assert p.offset(index) == number * bits // 8
    for byte in range(min(p.total_bytes, 500)):
        assert p.index_at(byte) == numbered[byte * 8 // bits]


@pytest.mark.parametrize("token", ["fp16", "int8", "fp32"])
@pytest.mark.parametrize("channels", EDGES)
def test_cx_equals_ncx_of_one_batch(token: str, channels: int) -> None:
    cx = place(Format.parse(token), (3, channels), Layout.CX)
    ncx = place(Format.parse(token), (1, 3, channels), Layout.NCX)
    assert cx.total_bytes == ncx.total_bytes
    for row, c in itertools.product(range(3), range(channels)):
        assert cx.offset((row, c)) == ncx.offset((0, row, c))


def random_elements(token: str, shape: Index, seed: int = 1) -> np.ndarray:
    """Arbitrary bit patterns, NaNs with payload and subnormals included."""
    dtype = storage_dtype(Format.parse(token))
    rng = np.random.default_rng(seed)
    if token == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
    return raw.view(dtype).reshape(shape)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def check_pack(token: str, shape: Index, layout: Layout) -> None:
    fmt = Format.parse(token)
    array = random_elements(token, shape)
    data = pack(array, fmt, layout)
    total, offsets = loops_oracle(token, shape, layout)
    expected = bytearray(total)
    size = ELEMENT_BYTES[token]
    for index, offset in offsets.items():
        expected[offset : offset + size] = array[index].tobytes()
    assert data.dtype == np.uint8 and data.tobytes() == bytes(expected)
    dirty = np.full(total, 0xFF, np.uint8)
    for offset in offsets.values():
        dirty[offset : offset + size] = data[offset : offset + size]
    assert same_bits(unpack(dirty, fmt, shape, layout), array)


@pytest.mark.parametrize("channels", EDGES)
@pytest.mark.parametrize("token", ELEMENT_BYTES)
def test_pack_channel_edges(token: str, channels: int) -> None:
    check_pack(token, (2, 3, channels), Layout.NCX)
    check_pack(token, (3, channels), Layout.CX)


@pytest.mark.parametrize("rank", range(1, 7))
@pytest.mark.parametrize("channels", [5, 64, 97, 131])
def test_pack_any_rank(rank: int, channels: int) -> None:
    shape = (*(2, 1, 3, 2, 1)[: rank - 1], channels)
    for layout in [Layout.CX] + [Layout.NCX] * (rank > 1):
        check_pack("bf16", shape, layout)


@given(blocked_tensors())
@settings(max_examples=60)
def test_pack_blocked_equals_loops(tensor: tuple[str, Index, Layout]) -> None:
    check_pack(*tensor)


@pytest.mark.parametrize("fmt", list(Format), ids=lambda fmt: fmt.token)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 3, 1, 4), (1, 2, 1, 3, 2, 5)], ids=str)
def test_pack_compact(fmt: Format, shape: Index) -> None:
    array = random_elements(fmt.token, shape)
    for layout in (Layout.TENSOR, Layout.NTENSOR):
        data = pack(array, fmt, layout)
        if fmt is Format.BOOL:
            number = sum(int(bit) << k for k, bit in enumerate(array.reshape(-1)))
            assert data.tobytes() == number.to_bytes((array.size + 7) // 8, "little")
        else:
            assert data.tobytes() == array.tobytes()
        assert same_bits(unpack(data, fmt, shape, layout), array)


@pytest.mark.parametrize("layout", [Layout.NTENSOR, Layout.NCX])
def test_pack_follows_the_index_not_the_memory_order(layout: Layout) -> None:
    base = random_elements("fp16", (70, 4, 3))
    turned = base.transpose(2, 1, 0)[:, ::-1]
    assert not turned.flags.c_contiguous
    assert pack(turned, Format.FP16, layout).tobytes() == pack(turned.copy(), Format.FP16, layout).tobytes()
    spaced = np.zeros(2 * place(Format.FP16, turned.shape, layout).total_bytes, np.uint8)[::2]
    spaced[...] = pack(turned, Format.FP16, layout)
    assert same_bits(unpack(spaced, Format.FP16, turned.shape, layout), np.ascontiguousarray(turned))


@pytest.mark.parametrize("layout", list(Layout), ids=lambda layout: layout.token)
def test_pack_and_unpack_do_not_share_memory(layout: Layout) -> None:
    array = random_elements("fp32", (2, 5))
    data = pack(array, Format.FP32, layout)
    back = unpack(data, Format.FP32, array.shape, layout)
    assert not np.shares_memory(array, data)
    assert not np.shares_memory(data, back)
    assert data.flags.writeable and back.flags.writeable


def test_storage_dtypes() -> None:
    assert storage_dtype(Format.BF16) == ml_dtypes.bfloat16
    assert storage_dtype(Format.TF32) == np.float32
    assert storage_dtype(Format.BOOL) == np.bool_
    for fmt in set(Format) - {Format.BF16, Format.TF32, Format.BOOL}:
        name = fmt.token.replace("fp", "float")
        assert storage_dtype(fmt) == np.dtype(name)


def refused(message: str) -> pytest.RaisesExc[LayoutError]:
    return pytest.raises(LayoutError, match=f"^{re.escape(message)}")


@pytest.mark.parametrize("token", ["bool", "int64", "uint64"])
@pytest.mark.parametrize("layout", [Layout.CX, Layout.NCX])
def test_formats_without_blocked_placement(token: str, layout: Layout) -> None:
    fmt = Format.parse(token)
    allowed = "int8 int16 fp16 bf16 int32 fp32 tf32 uint8 uint16 uint32"
    message = f"format {token} has no channel-blocked placement: expected one of {allowed}; keep it in"
    with refused(message):
        place(fmt, (2, 3), layout)
    with refused(message):
        channel_split(3, fmt)
    with refused("channel extent 0: expected at least 1"):
        channel_split(0, Format.FP16)
    with refused(message):
        pack(np.zeros((2, 3), storage_dtype(fmt)), fmt, layout)


@pytest.mark.parametrize(
    ("shape", "layout", "message"),
    [
        ((), Layout.CX, "shape () has rank 0: layout cx needs rank 1 or more"),
        ((), Layout.NCX, "shape () has rank 0: layout ncx needs rank 2 or more"),
        ((5,), Layout.NCX, "shape 5 has rank 1: layout ncx needs rank 2 or more"),
        ((2, 0, 3), Layout.NCX, "shape 2x0x3: extent 0 of dimension 1, expected at least 1"),
        ((2, -4), Layout.TENSOR, "shape 2x-4: extent -4 of dimension 1, expected at least 0"),
        ((0,), Layout.CX, "shape 0: extent 0 of dimension 0"),
        ((2, 1.5), Layout.NTENSOR, "shape 2x1.5: expected integer extents"),
    ],
)
def test_shapes_that_are_refused(shape: Index, layout: Layout, message: str) -> None:
    with refused(message):
        place(Format.FP16, shape, layout)


@pytest.mark.parametrize("layout", list(Layout), ids=lambda layout: layout.token)
def test_elements_outside_are_refused(layout: Layout) -> None:
    p = place(Format.FP16, (2, 3, 65), layout)
    where = f"in fp16 2x3x65 {layout.token}"
    with refused(f"index 3 on dimension 1: expected 0..2 {where}"):
        p.offset((0, 3, 0))
    with refused(f"index -1 on dimension 2: expected 0..64 {where}"):
        p.offset((0, 0, -1))
    with refused(f"index (0, 0) has rank 2: expected 3 {where}"):
        p.offset((0, 0))
    for byte in (-1, p.total_bytes):
        with refused(f"byte offset {byte}: expected 0..{p.total_bytes - 1} {where}"):
            p.index_at(byte)


def test_pack_refuses_another_dtype_and_an_empty_array() -> None:
    with refused("array of dtype float64 packed as fp16: expected float16; convert it first"):
        pack(np.zeros((2, 3)), Format.FP16, Layout.NCX)
    with refused("array of dtype >f2 packed as fp16: expected float16"):
        pack(np.zeros((2, 3), ">f2"), Format.FP16, Layout.NTENSOR)
    with refused("array of dtype uint8 packed as bool: expected bool"):
        pack(np.zeros((2, 3), np.uint8), Format.BOOL, Layout.TENSOR)
    with refused("shape 0x3: extent 0 of dimension 0"):
        pack(np.zeros((0, 3), np.float16), Format.FP16, Layout.NCX)


@pytest.mark.parametrize("layout", [Layout.TENSOR, Layout.NTENSOR])
def test_compact_tensors_may_be_empty(layout: Layout) -> None:
    p = place(Format.INT64, (2, 0, 3), layout)
    assert (p.shape, p.total_bytes, p.used_bytes) == ((2, 0, 3), 0, 0)
    packed = pack(np.zeros((2, 0, 3), np.int64), Format.INT64, layout)
    assert packed.size == 0 and unpack(packed, Format.INT64, (2, 0, 3), layout).shape == (2, 0, 3)


@pytest.mark.parametrize("data", [np.zeros(255, np.uint8), np.zeros(257, np.uint8), np.zeros(256, np.int8)])
def test_unpack_refuses_another_size_or_type(data: np.ndarray) -> None:
    found = f"memory image of dtype {data.dtype} and shape ({data.size},)"
    with refused(f"{found}: expected 256 bytes of uint8 for fp16 1x65 cx"):
        unpack(data, Format.FP16, (1, 65), Layout.CX)


def test_layout_names_and_vendor_numbers() -> None:
    numbers = {"tensor": 0, "cx": 33, "ntensor": 34, "ncx": 35}
    assert {layout.token: int(layout) for layout in Layout} == numbers
    assert [Layout.parse(token) for token in numbers] == [Layout(number) for number in numbers.values()]
    assert {layout.token for layout in Layout if layout.blocked} == {"cx", "ncx"}
    with refused("unknown layout 'nhwc': expected one of tensor cx ntensor ncx"):
        Layout.parse("nhwc")


@pytest.mark.long
def test_integer_functions_compile_unchanged() -> None:
    """Numba gives the plain functions' results; their callees are replaced by their compiled versions."""
    compiled: dict[str, Any] = dict(vars(layouts))
    callees_first = "block_channels full_blocks tail_width aligned_channels used_bytes"
    for name in [*callees_first.split(), "batch_bytes", "element_offset"]:
        compiled[name] = numba.njit(FunctionType(vars(layouts)[name].__code__, compiled, name))
    draw = random.Random(7)
    for _ in range(300):
        hw, bits = draw.randint(1, 5000), draw.choice([8, 16, 32])
        channels = draw.choice([*EDGES, draw.randint(1, 16384)])
        element = (draw.randint(0, 4095), draw.randrange(hw), draw.randrange(channels))
        tensor = (hw, channels, bits)
        assert compiled["element_offset"](*tensor, *element) == layouts.element_offset(*tensor, *element)
        assert compiled["batch_bytes"](*tensor) == layouts.batch_bytes(*tensor)


def test_layouts_do_not_load_numpy() -> None:
    program = "import sys, tx8isa.numbers.layouts; print('numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
