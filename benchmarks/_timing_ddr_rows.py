"""Loads and stores in whole programs on a card, where all tiles load at once; see ``_timing_rows.py``."""

from __future__ import annotations

from _timing_programs import WAIT, WARM, Figure, Row, lines, rdma, wdma
from emulator.timing.slices import Track

TILES = 16


def _rows(size: int, count: int) -> str:
    """Every tile loads rows of ``size`` bytes, twice ``size`` apart; all tiles load at once."""
    load = f" rdma.fp16 dst=0x10000, src=0x280400000, n={size // 2}, stride0={size}, iter0={count}"
    return lines(WARM, " ncc.barrier", load, WAIT)


def _each(count: int) -> Figure:
    """Cycles of a row."""
    return lambda run: run.busy(Track.RDMA) / count


def _rate(size: int) -> Figure:
    """GB/s of the card when a tile loads ``size`` bytes, since one byte a cycle of the tile is one GB/s."""
    return lambda run: TILES * size / run.busy(Track.RDMA)


def ddr_rows() -> list[Row]:
    """Rows of DDR, short and long, and commands of 64 KiB in an attention program."""
    wide = lines(WARM, " ncc.barrier", rdma(1 << 20), WAIT)
    stores = "two published figures contradict: 31 to 35 bytes a cycle for 2 MiB, 36 to 39 here"
    return [
        Row(
            "DMA",
            "rows of 128 B, 16 tiles: each",
            (74, 91, 105, 128),
            _rows(128, 4096),
            _each(4096),
            tiles=TILES,
        ),
        Row(
            "DMA",
            "long rows, here 4 KiB, 16 tiles",
            (100, 142),
            _rows(4096, 128),
            _rate(4096 * 128),
            unit="GB/s",
            tiles=TILES,
        ),
        Row("DMA", "wide loads, 16 tiles", (136, 164), wide, _rate(1 << 20), unit="GB/s", tiles=TILES),
        Row("DMA", "RDMA 64 KiB in a program", (1780, 2065), lines(rdma(65536), WAIT), _busy(Track.RDMA)),
        Row(
            "DMA",
            "WDMA 64 KiB in a program",
            (1669, 1857),
            lines(wdma(65536), WAIT),
            _busy(Track.WDMA),
            reason=stores,
        ),
    ]


def _busy(track: Track) -> Figure:
    return lambda run: run.busy(track)
