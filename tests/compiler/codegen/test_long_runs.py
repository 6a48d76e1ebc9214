"""Slices of compact tensors, loaded in long runs and reordered if that is faster, with the same results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import Grid, Place, load_aligned, load_slice, store_aligned, store_slice
from compiler.codegen.slices.long_runs import CompactSlice, ddr_cycles, reorders
from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array
from phase_harness import run_phase
from tx8isa.numbers.formats import Format

SPM = 0x2F0000
FORMATS = [Format.FP16, Format.BF16, Format.FP32]


def numbers(*shape: int) -> Array:
    """Different small integers, which all formats have."""
    return (np.arange(np.prod(shape)) % 251).reshape(shape).astype(np.float32)


def copied(rows: int, first: int, channels: int, fmt: Format, tiles: int = 16) -> tuple[list[str], bool]:
    """Copy some channels of all rows; return the numbers of loads, moves and stores, and True if it is right.

    Every tile copies the same: they write the same numbers.
    """
    shape = (rows, first + channels + 3) if first else (rows, channels)
    source, target = DdrTensor("x", fmt, shape), DdrTensor("y", fmt, shape)
    data = numbers(*shape)

    def lower(kernel: Kernel) -> None:
        slice_ = load_aligned(kernel, "a", source, first, shape[1], Grid(rows, 1, rows), channels)
        store_aligned(kernel, slice_, target, first, shape[1])

    got, lines = run_phase(lower, {"x": data}, [source], target, tiles)
    want = data.astype(got.dtype)
    right = np.array_equal(got[:, first : first + channels], want[:, first : first + channels])
    return [line.strip() for line in lines if "dma" in line or "td." in line], right


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("channels", [128, 192 + 20, 448 + 32, 130])
def test_many_short_rows_are_one_run(channels: int, fmt: Format) -> None:
    lines, right = copied(64, 0, channels, fmt)
    dma = [line for line in lines if "dma" in line]
    assert right and len(dma) == 2 and not any("iter" in line for line in dma)
    parted = "td.gatherscatter" if channels % 64 == 0 else "td.channelnorm"  # whole planes in one move
    assert parted in lines[1] and "td.gatherscatter" in lines[2]


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("channels", [256, 256 + 7])
def test_part_of_the_columns_is_a_run_for_each_row(channels: int, fmt: Format) -> None:
    lines, right = copied(64, 32, channels, fmt)
    load = next(line for line in lines if "rdma" in line)
    assert right and f"n={channels}" in load and "iter0=64" in load and "iter1" not in load


@pytest.mark.parametrize("fmt", FORMATS)
def test_few_rows_are_loaded_plane_by_plane(fmt: Format) -> None:
    lines, right = copied(2, 0, 128, fmt)
    assert right and len(lines) == 2 and all("n=64" in line for line in lines)


@pytest.mark.parametrize("channels", [64, 32, 16])
def test_a_single_plane_needs_no_reordering(channels: int) -> None:
    lines, right = copied(64, 0, channels, Format.FP16)
    assert right and len(lines) == 2 and "td." not in "".join(lines)


@pytest.mark.parametrize("row_step", [1, 2])
def test_rows_of_an_image(row_step: int) -> None:
    """Every row, or every second one, of an image [5, 9, 130]."""
    source, target = DdrTensor("x", Format.FP16, (1, 8, 9, 130)), DdrTensor("y", Format.FP16, (1, 4, 9, 130))
    data = numbers(1, 8, 9, 130)

    def lower(kernel: Kernel) -> None:
        grid = Grid(4, 9, 4)
        slice_ = load_slice(kernel, "a", source, Place(0, 0, row_step=row_step), grid, 130)
        store_slice(kernel, slice_, target, Place(0, 0))

    got, lines = run_phase(lower, {"x": data}, [source], target, 16)
    assert np.array_equal(got, data[:, : 4 * row_step : row_step].astype(got.dtype))
    assert any("td.channelnorm" in line for line in lines)


def test_without_reordering_the_same_is_loaded_plane_by_plane() -> None:
    """As where the scratchpad has no room for a second copy."""
    source = DdrTensor("x", Format.FP16, (64, 128))

    def loads(reordering: bool) -> list[str]:
        kernel = Kernel("p0", Target(16, SPM, Format.FP16), SPM, reordering=reordering)
        load_aligned(kernel, "a", source, 0, 128, Grid(64, 1, 64), 128)
        assert kernel.reordered == reordering
        return [line for line in kernel.out.lines if "rdma" in line]

    assert "n=8192" in loads(True)[0] and "n=64" in loads(False)[0]


REFUSED: list[Callable[[], CompactSlice]] = [
    lambda: CompactSlice(64, 1, 64, 2, 1),
    lambda: CompactSlice(2, 1, 128, 2, 2),
    lambda: CompactSlice(4097, 1, 128, 2, 4097),
    lambda: CompactSlice(4096, 1, 5 * 64, 2, 4096),
    lambda: CompactSlice(4, 1, 16384 + 64, 2, 4),
]


@pytest.mark.parametrize(
    "made", REFUSED, ids=["a plane", "few rows", "extent", "watchdog of the TDMA", "channels"]
)
def test_what_is_not_reordered(made: Callable[[], CompactSlice]) -> None:
    kernel = Kernel("p0", Target(16, SPM, Format.FP16), SPM)
    assert not reorders(kernel, made(), loading=True) and not kernel.reordered


def test_a_run_costs_all_tiles() -> None:
    """16 tiles take 5.2 cycles of DDR for each row, plus its bytes; one tile takes 22 cycles of its engine,
    plus the bytes."""
    sixteen, one = (Target(tiles, SPM, Format.FP16) for tiles in (16, 1))
    assert ddr_cycles(sixteen, 128, 1) == pytest.approx(16 * (5.2 + 128 / 150))
    assert ddr_cycles(one, 128 * 10, 10) == pytest.approx(10 * (22 + 128 / 37))
