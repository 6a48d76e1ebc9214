"""Copies between tiles (docs/isa.md, Copies between tiles).

Opcodes 0..5 are the software modes of the chip's driver (spec); the others are proposed by this project. For
several destinations at different addresses, a program writes the registers of the DTE instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tx8isa.families.nest import element_span, element_stream
from tx8isa.numbers.limits import LARGEST_BLOCK_STRIDE, TILE_SET_BITS
from tx8isa.records.meaning import Action, Control
from tx8isa.records.operands import count, ddr, linear
from tx8isa.records.record import Engine, Instruction, Operand, register


def scattered(bits: int, n: int, tiles: int) -> int:
    """Bytes of one piece for each tile of a set."""
    pieces = 0
    for tile in range(TILE_SET_BITS):
        pieces += (tiles >> tile) & 1
    return linear(bits, n) * pieces


def rows_span(bits: int, n: int, stride: int, trips: int) -> int:
    """Bytes from the first to the last touched by one loop over pieces; stride in bytes."""
    return linear(bits, n) + (trips - 1) * stride


def rows_stream(bits: int, n: int, trips: int) -> int:
    """Bytes of these pieces one after another."""
    return linear(bits, n) * trips


def _address(name: str, role: str, memory: str, length: Callable[..., int], *arguments: str | int) -> Operand:
    """A byte address in the SPM (``spm``), in DDR in the engines' view (``ddr``) or in either (``any``)."""
    field = "dst 0" if name == "dst" else "src"
    return replace(ddr(name, field, role, length, 8, "n", *arguments), memory=memory)


def _loops(side: str, levels: int) -> tuple[Operand, ...]:
    """Stride (bytes) and plain trip count of each level."""
    return tuple(
        operand
        for level in range(levels)
        for operand in (
            count(f"{side}stride{level}", f"{side}stride{level}", 0, LARGEST_BLOCK_STRIDE, default=0),
            count(f"{side}iter{level}", f"{side}iteration{level}", 1, default=1),
        )
    )


def _strides(side: str) -> tuple[str, ...]:
    return tuple(o.name for o in _loops(side, 3))


def _trips(side: str) -> tuple[str, ...]:
    return tuple(o.name for o in _loops(side, 3) if "iter" in o.name)


_TILE = count("tile", "dst 0", 0, 0xFFFF)
_TILES = count("tiles", "dest_num", 1, (1 << TILE_SET_BITS) - 1)
_N = count("n", "length", high=(1 << 32) - 1)
_TO_TILE = (
    _address("dst", "write", "any", element_stream, *_trips("src_")),
    _address("src", "read", "any", element_span, *_strides("src_")),
    _TILE,
    _N,
    *_loops("src_", 3),
)


def _copy(
    opcode: int,
    mnemonic: str,
    operands: tuple[Operand, ...],
    doc: str,
    example: str,
    evidence: str,
    action: Action = Action.SEND,
) -> None:
    register(
        Instruction(Engine.DTE, opcode, mnemonic, operands, (), Control(action), doc, example, evidence),
        __name__,
    )


_copy(
    0,
    "dte.unicast",
    (_address("dst", "write", "any", linear), _address("src", "read", "any", linear), _TILE, _N),
    "Start a copy of n bytes from src of this tile to dst of another tile; DDR addresses "
    "mean the shared DDR. "
    "The copy is complete when dte.wait returns.",
    "dte.unicast dst=0x20000, src=0x10000, tile=3, n=256",
    "spec and board",
)

_copy(
    1,
    "dte.scatter",
    (_address("dst", "write", "spm", linear), _address("src", "read", "any", scattered, "tiles"), _TILES, _N),
    "Start a copy of n bytes to dst of each tile of a set, bit t of tiles for tile t: the lowest tile gets "
    "the first n bytes from src, the next tile the next n bytes.",
    "dte.scatter dst=0x20000, src=0x10000, tiles=0b1110, n=256",
    "spec and board; one address for all tiles: proposed",
    Action.SCATTER,
)

_copy(
    2,
    "dte.broadcast",
    (_address("dst", "write", "spm", linear), _address("src", "read", "any", linear), _TILES, _N),
    "Start a copy of the same n bytes to dst of each tile of a set, bit t of tiles for tile t.",
    "dte.broadcast dst=0x20000, src=0x10000, tiles=0xffff, n=256",
    "spec and board; one address for all tiles: proposed",
)

_copy(
    3,
    "dte.shuffle",
    _TO_TILE,
    "Start a copy of pieces of n bytes, read through three nested loops, to consecutive bytes from dst of "
    "another tile on; strides in bytes, level 0 innermost.",
    "dte.shuffle dst=0x20000, src=0x10000, tile=3, n=128, src_stride0=256, src_iter0=8",
    "spec and board; n as the length of a piece: proposed",
)

_copy(
    4,
    "dte.rdma",
    (
        _address("dst", "write", "spm", element_stream, *_trips("src_")),
        _address("src", "read", "ddr", element_span, *_strides("src_")),
        _TILE,
        _N,
        *_loops("src_", 3),
    ),
    "Start a load by the DTE: pieces of n bytes of DDR, read through three nested loops, to consecutive "
    "bytes of the SPM of a tile.",
    "dte.rdma dst=0x20000, src=0x280001000, tile=0, n=128, src_stride0=256, src_iter0=8",
    "spec; n as the length of a piece: proposed",
)

_copy(
    5,
    "dte.wdma",
    (
        _address("dst", "write", "ddr", element_span, *_strides("dst_")),
        _address("src", "read", "spm", element_stream, *_trips("dst_")),
        _N,
        *_loops("dst_", 3),
    ),
    "Start a store by the DTE: consecutive bytes of this tile's SPM, written as pieces of n bytes through "
    "three nested loops over DDR.",
    "dte.wdma dst=0x280001000, src=0x10000, n=128, dst_stride0=256, dst_iter0=8",
    "spec; n as the length of a piece: proposed",
)

_copy(
    8,
    "dte.unicast2d",
    (
        _address("dst", "write", "any", rows_stream, "src_iter0"),
        _address("src", "read", "any", rows_span, "src_stride0", "src_iter0"),
        _TILE,
        _N,
        *_loops("src_", 1),
    ),
    "Start a copy of pieces of n bytes, a stride apart in this tile, to consecutive bytes from dst of "
    "another tile on.",
    "dte.unicast2d dst=0x20000, src=0x10000, tile=3, n=128, src_stride0=256, src_iter0=8",
    "spec; what it does: proposed",
)

_copy(
    9,
    "dte.gather",
    _TO_TILE,
    "The same copy as dte.shuffle, in the register mode of a unicast with sg_flag.",
    "dte.gather dst=0x20000, src=0x10000, tile=3, n=128, src_stride0=256, src_iter0=8",
    "spec; n as the length of a piece: proposed",
)

register(
    Instruction(
        Engine.DTE,
        15,
        "dte.wait",
        (),
        (),
        Control(Action.SEND_WAIT),
        "Wait until every copy this tile has started is complete.",
        "dte.wait",
        "inferred: the polling loop over dma_status as one instruction",
    ),
    __name__,
)
