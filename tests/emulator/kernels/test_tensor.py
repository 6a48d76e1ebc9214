"""Tensor instructions, moves, DMA: kernels against the slow reference, byte for byte, and against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asm
from chip_bench import ONE
from emulator.chip.system import System
from emulator.tile.fault import Fault
from kernel_bench import Tile, kernel_ident, pack, variants
from tensor_cases import COMPILED, DST, POOLS, SRC0, SRC1, check, pooled
from tx8isa.errors import Tx8Error
from tx8isa.numbers.formats import DMA_FORMATS, FLOATS, MOVE_FORMATS, Format

SHAPES = (
    (1, 3, 5, 3),
    (2, 2, 3, 64),
    (1, 4, 3, 65),
    (2, 3, 2, 100),
    (1, 2, 2, 200),
    (3, 1, 1, 1),
    (1, 1, 7, 130),
)


@COMPILED
@pytest.mark.parametrize("dims", [0, 1, 2, 4])
@pytest.mark.parametrize("name", ["sum", "avg", "max", "min"])
def test_reduce(name: str, dims: int, compiled: bool) -> None:
    for number, shape in enumerate(SHAPES if compiled else SHAPES[:3]):
        fmt = dict(zip(("sum", "avg", "max", "min"), FLOATS, strict=True))[name]
        check(f"ct.reduce.{name}", fmt, compiled, number, dst=DST, src0=SRC0, shape=pack(*shape), dims=dims)


@pytest.mark.long
@pytest.mark.parametrize("variant", [v for v in variants() if "reduce" in v[0].mnemonic], ids=kernel_ident)
def test_every_reduce(variant: Any) -> None:
    for dims in (0, 1, 2, 4):
        for shape in (*SHAPES, (1, 2, 70, 4), (1, 3, 30, 66), (1, 20, 20, 5)):
            check(
                variant[0].mnemonic, variant[1], True, dims, dst=DST, src0=SRC0, shape=pack(*shape), dims=dims
            )


@COMPILED
@pytest.mark.parametrize("dims", [0, 4])
def test_reduce_of_many_positions_and_lanes(dims: int, compiled: bool) -> None:
    """More positions than one piece of accumulators holds."""
    shape = pack(1, 2, 70, 5)
    check("ct.reduce.max", Format.FP32, compiled, dst=DST, src0=SRC0, shape=shape, dims=dims)
    check("ct.reduce.max", Format.FP32, compiled, dst=DST, src0=SRC0, shape=pack(1, 2, 20, 64), dims=2)


@COMPILED
@pytest.mark.parametrize("name", ["avg", "sum", "max", "min"])
def test_pool(name: str, compiled: bool) -> None:
    for number, case in enumerate(POOLS):
        fmt = {"avg": Format.FP16, "sum": Format.BF16, "max": Format.FP32, "min": Format.TF32}[name]
        check(f"ct.pool.{name}", fmt, compiled, number, dst=DST, src0=SRC0, **pooled(*case))


@pytest.mark.long
@pytest.mark.parametrize("variant", [v for v in variants() if "ct.pool" in v[0].mnemonic], ids=kernel_ident)
def test_every_pool(variant: Any) -> None:
    for number, case in enumerate(POOLS):
        second = {"dst1": DST + 0x4000} if variant[0].mnemonic.endswith("_idx") else {}
        check(variant[0].mnemonic, variant[1], True, number, dst=DST, src0=SRC0, **second, **pooled(*case))


JOINS = (
    ((1, 2, 3, 64), {0: 64, 1: 2, 2: 1}),
    ((2, 3, 2, 3), {0: 2, 1: 1, 2: 4}),
    ((1, 2, 2, 65), {0: 70, 1: 3, 2: 2}),
    ((2, 1, 3, 40), {0: 30, 1: 1, 2: 1}),
    ((1, 2, 1, 100), {0: 129, 1: 1, 2: 1}),
)


@COMPILED
@pytest.mark.parametrize("dims", [0, 1, 2])
def test_concat(dims: int, compiled: bool) -> None:
    for number, (shape, more) in enumerate(JOINS):
        fmt = Format.FP16 if compiled else (Format.FP16, Format.INT8, Format.FP32)[number % 3]
        axis = {0: 3, 1: 2, 2: 1}[dims]
        result = tuple(e + more[dims] if a == axis else e for a, e in enumerate(shape))
        values = {"shape": pack(*shape), "dst_shape": pack(*result), "dims": dims}
        check("ct.concat", fmt, compiled, number, dst=DST, src0=SRC0, src1=SRC1, **values)


@pytest.mark.long
@pytest.mark.parametrize("fmt", MOVE_FORMATS)
def test_every_concat(fmt: Format) -> None:
    for dims in (0, 1, 2):
        for number, (shape, more) in enumerate(JOINS):
            axis = {0: 3, 1: 2, 2: 1}[dims]
            result = tuple(e + more[dims] if a == axis else e for a, e in enumerate(shape))
            values = {"shape": pack(*shape), "dst_shape": pack(*result), "dims": dims}
            check("ct.concat", fmt, True, number, dst=DST, src0=SRC0, src1=SRC1, **values)


OVERLAPS = (0, 256, -256, 2)


@pytest.mark.parametrize("shift", OVERLAPS)
def test_overlapping_tensors_are_a_snapshot(shift: int) -> None:
    base = 0x2000
    places = {"src0": base, "dst": base + shift}
    shape = pack(1, 4, 3, 65)
    check("ct.reduce.max", Format.FP16, True, shape=shape, dims=1, **places)
    check("ct.pool.max", Format.FP16, True, **places, **pooled((1, 4, 4, 64), (1, 1, 1, 1), (3, 3, 1, 1)))
    joined = {"shape": shape, "dst_shape": pack(1, 4, 3, 130), "dims": 0}
    check("ct.concat", Format.FP16, True, **places, src1=0x8000, **joined)
    check("ct.concat", Format.FP16, True, src0=0x8000, src1=base, dst=base + shift, **joined)


def loops(prefix: str, *pairs: tuple[int, int]) -> dict[str, int]:
    """Strides and trips of the levels from 0 up."""
    values = {}
    for level, (stride, trips) in enumerate(pairs):
        values |= {f"{prefix}stride{level}": stride, f"{prefix}iter{level}": trips}
    return values


NESTS = (
    (1, loops("src_", (1, 60)), loops("dst_", (3, 60))),
    (2, loops("src_", (2, 64)), loops("dst_", (4, 64))),
    (4, loops("src_", (8, 6), (100, 10)), loops("dst_", (4, 10), (64, 6))),
    (4, loops("src_", (6, 6), (100, 10)), loops("dst_", (4, 60))),
    (100, loops("src_", (0, 4), (128, 3)), loops("dst_", (100, 12))),
    (130, loops("src_", (130, 2), (300, 3), (1000, 2)), loops("dst_", (131, 3), (0, 1), (500, 4))),
    (8, loops("src_", (8, 5)), loops("dst_", (0, 5))),
    (16, loops("src_", (16, 12)), loops("dst_", (4, 12))),
    (64, loops("src_", (64, 10)), loops("dst_", (80, 10))),
    (77, {}, {}),
    (64, loops("src_", (0, 1), (64, 5)), loops("dst_", (128, 5))),
    (4, loops("src_", (6, 3), (6, 5)), loops("dst_", (4, 5), (4, 3))),
)


@COMPILED
@pytest.mark.parametrize("number", range(len(NESTS)))
@pytest.mark.parametrize("dst", [0x8001, 0x1001, 0x1000, 0x0FFE], ids=hex)
def test_gatherscatter(number: int, dst: int, compiled: bool) -> None:
    """From 0x1000 to a separate place, one byte further, the same place, and just before."""
    n, source, target = NESTS[number]
    check("td.gatherscatter", None, compiled, number, dst=dst, src0=0x1000, n=n, **source, **target)


def random_loops(rng: np.random.Generator, prefix: str, n: int, trips: list[int]) -> dict[str, int]:
    """Three levels; the outer one often continues where the inner one ends."""
    pairs, carried = [], n
    for trip in rng.permutation(trips).tolist():
        stride = carried if rng.random() < 0.5 else int(rng.integers(0, 3 * n + 4))
        pairs.append((stride, trip))
        carried = stride * trip
    return loops(prefix, *pairs)


@COMPILED
@pytest.mark.parametrize("seed", range(20))
def test_nests_of_every_kind(seed: int, compiled: bool) -> None:
    """Source and destination have the same number of blocks in loops of other lengths."""
    rng = np.random.default_rng(seed)
    n, trips = int(rng.integers(1, 40)), rng.choice([[1, 4, 6], [2, 3, 4], [1, 1, 24], [8, 3, 1]]).tolist()
    source, target = (random_loops(rng, f"{name}_", n, trips) for name in ("src", "dst"))
    check("td.gatherscatter", None, compiled, seed, dst=0x4000, src0=0x1000, n=n, **source, **target)
    for fmt in (Format.INT8, Format.FP32):
        nest = random_loops(rng, "", n * fmt.bits // 8, trips)
        check("td.memset", fmt, compiled, seed, dst=0x4000, value=0x12345678, n=n, **nest)


@pytest.mark.parametrize("fmt", [Format.INT8, Format.FP16, Format.FP32])
def test_memset_of_blocks_of_every_length(fmt: Format) -> None:
    """They have gaps of a few bytes, which do not change; above 255 bytes, blocks are filled in another
    way."""
    for n in (*range(1, 18), 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 300):
        nest = loops("", (n * fmt.bits // 8 + 3, 4), (5000, 2))
        check("td.memset", fmt, True, n, dst=0x1003, value=0x89ABCDEF, n=n, **nest)


def test_a_stream_longer_than_scratch_needs_no_room() -> None:
    """A source stride of 0 repeats data without limit; here 16 MiB are written over each other."""
    values = loops("src_", (0, 1 << 18)) | loops("dst_", (0, 1 << 18))
    tile = Tile(1)
    expected = tile.spm.copy()
    expected[0x1010:0x1050] = expected[0x1000:0x1040]
    tile.run("td.gatherscatter", None, True, {"dst": 0x1010, "src0": 0x1000, "n": 64} | values)
    assert np.array_equal(tile.spm, expected)


@COMPILED
@pytest.mark.parametrize("fmt", MOVE_FORMATS)
def test_memset(fmt: Format, compiled: bool) -> None:
    size = fmt.bits // 8
    stepped, joined = loops("", (16, 5), (100, 4), (500, 2)), loops("", (4, 5), (4, 7), (20, 2))
    for n, nest in ((1, {}), (100, {}), (3, stepped), (2, loops("", (0, 3))), (4, joined)):
        values = {"dst": 0x1000 + size, "value": 0x89ABCDEF, "n": n}
        check("td.memset", fmt, compiled, **values, **nest)


DMA_LOOPS: tuple[tuple[int, dict[str, int]], ...] = (
    (1, {}),
    (1000, {}),
    (16, loops("", (32, 9))),
    (40, loops("", (40, 4), (200, 3))),
    (24, loops("", (48, 3), (152, 2), (400, 2))),
    (8, loops("", (0, 5))),
    (72, loops("", (80, 3), (8, 2))),
)


def check_dma(fmt: Format, compiled: bool) -> None:
    for number, (n, nest) in enumerate(DMA_LOOPS):
        check("rdma", fmt, compiled, number, dst=0x1004, src=0x2008, n=n, **nest)
        check("wdma", fmt, compiled, number, dst=0x2008, src=0x1004, n=n, **nest)


@pytest.mark.parametrize("fmt", DMA_FORMATS)
def test_interpreted_dma(fmt: Format) -> None:
    check_dma(fmt, False)


@pytest.mark.parametrize("fmt", [Format.BOOL, Format.FP16])
def test_compiled_dma(fmt: Format) -> None:
    check_dma(fmt, True)


@pytest.mark.long
@pytest.mark.parametrize("fmt", DMA_FORMATS)
def test_every_dma(fmt: Format) -> None:
    check_dma(fmt, True)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 513])
def test_bool_counts_are_bits(n: int) -> None:
    tile = Tile(2)
    expected = tile.spm.copy()
    size = (n + 7) // 8
    expected[0x100 : 0x100 + 2 * size] = np.concatenate([tile.ddr[0:size], tile.ddr[128 : 128 + size]])
    values = {"dst": 0x100, "src": 0, "n": n} | loops("", (1024, 2))
    tile.run("rdma", Format.BOOL, True, values)
    assert np.array_equal(tile.spm, expected)


def test_reduction_against_numpy() -> None:
    """Small integers add up exactly in any order."""
    tile = Tile(5)
    image = tile.rng.integers(-8, 9, (6, 7, 64)).astype(np.float16)
    tile.spm[: image.nbytes] = image.reshape(-1).view(np.uint8)
    values = {"dst": DST, "src0": SRC0, "shape": pack(1, 6, 7, 64)}
    tile.run("ct.reduce.sum", Format.FP16, True, values | {"dims": 4})
    assert np.array_equal(tile.spm[DST : DST + 128].view(np.float16), image.sum((0, 1), dtype=np.float32))
    tile.run("ct.reduce.sum", Format.FP16, True, values | {"dims": 0})
    found = tile.spm[DST : DST + 42 * 8].view(np.float16).reshape(42, 4)
    assert np.array_equal(found[:, 0], image.sum(2, dtype=np.float32).reshape(-1))
    assert not found[:, 1:].any()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "ct.concat.fp16 dst=0, src0=0x1000, src1=0x2000, shape=[1,2,2,4], dst_shape=[1,4,4,4], dims={}",
            "hw",
        ),
        ("ct.reduce.max.fp32 dst=0, src0=0x1000, shape=[2,2,2,4], dims={}", "n"),
    ],
)
def test_dimensions_that_stop_the_chip_are_refused_with_the_reason(line: str, reason: str) -> None:
    """By name, by number, and in a register, where only the emulator can check it."""
    number = {"hw": 4, "n": 3}[reason]
    for spelling in (reason, str(number)):
        with pytest.raises(Tx8Error, match=f"dims must not be {reason}: .* the chip"):
            asm.assemble(line.format(spelling) + "\n")
    image = asm.assemble(f"li t0, {number}\n" + line.format("t0") + "\nebreak\n")
    with pytest.raises(Fault, match=f"dims must not be {reason}: .* the chip"):
        System(image, ONE).run()


@pytest.mark.parametrize("dims", [5, 6, 7])
def test_other_dimensions_have_no_meaning(dims: int) -> None:
    with pytest.raises(Tx8Error, match="is not one of"):
        asm.assemble(f"ct.reduce.max.fp32 dst=0, src0=0x1000, shape=[2,2,2,4], dims={dims}\n")
