"""Shared code of the tests of the DTE: programs that fill its registers, and memories as plain bytes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from chip_bench import W, build, chip
from emulator.chip.system import System
from emulator.tile.observer import Observer

FOUR, SIXTEEN = chip(4, 0x4000), chip(16, 0x4000)
SPM_BYTES, DDR, DDR_BYTES = 0x4000, 0x30_0000, 0x4000
"""Size of each SPM; offset and size of the piece of DDR that tests use."""
DDR_ADDRESS = W.ddr_engine + DDR
EXIT = "\n9: li a0, 0\n li a7, 93\n ecall\n"


def only(tile: int, text: str) -> str:
    """A program that one tile executes."""
    return f"_start: csrr s0, mhartid\n li t2, {tile}\n bne s0, t2, 9f\n{text}{EXIT}"


def fill(block: int, registers: Mapping[int, int]) -> str:
    """Store to registers of a DTE block, whose address stays in t0."""
    stores = "".join(f" li t1, {value:#x}\n sw t1, {at:#x}(t0)\n" for at, value in registers.items())
    return f" li t0, {W.dte + block * W.dte_stride:#x}\n{stores}"


def go(block: int, registers: Mapping[int, int]) -> str:
    """Fill the registers of a block, start the copy and poll its status, which ends up in s2."""
    start = " li t1, 1\n sw t1, 0x38(t0)\n"
    return f"{fill(block, registers)}{start}1: lw s2, 0x40(t0)\n andi t1, s2, 1\n beqz t1, 1b\n"


def address(at: int, value: int, tile: int = 0) -> dict[int, int]:
    """A pair of address registers."""
    return {at: value & 0xFFFF_FFFF, at + 4: value >> 32 | tile << 8}


def destination(number: int, value: int, tile: int) -> dict[int, int]:
    return address(0x008 if number == 0 else 0x050 + 8 * (number - 1), value, tile)


def loops(first: int, *levels: tuple[int, int]) -> dict[int, int]:
    """Stride and trip registers of some levels."""
    registers: dict[int, int] = {}
    for level, (stride, trips) in enumerate(levels):
        registers |= {first + 8 * level: stride, first + 8 * level + 4: trips - 1}
    return registers


@dataclass
class Memories:
    """All bytes that a test looks at: by tile, and DDR as -1."""

    content: dict[int, bytearray]

    @classmethod
    def random(cls, tiles: int, seed: object) -> Memories:
        rng = random.Random(repr(seed))
        memories = {tile: bytearray(rng.randbytes(SPM_BYTES)) for tile in range(tiles)}
        return cls(memories | {-1: bytearray(rng.randbytes(DDR_BYTES))})

    @classmethod
    def of(cls, system: System) -> Memories:
        found = {tile.number: bytearray(tile.spm.data.tobytes()) for tile in system.tiles}
        return cls(found | {-1: bytearray(system.ddr[DDR : DDR + DDR_BYTES].tobytes())})

    def into(self, system: System) -> None:
        for tile in system.tiles:
            tile.spm.data.data[:] = bytes(self.content[tile.number])
        system.ddr[DDR : DDR + DDR_BYTES].data[:] = bytes(self.content[-1])

    def copy(self, pairs: list[tuple[tuple[int, int], tuple[int, int]]]) -> None:
        """Single bytes from (memory, offset) to (memory, offset): all read before any is written."""
        read = [self.content[memory][at] for (memory, at), _ in pairs]
        for value, (_, (memory, at)) in zip(read, pairs, strict=True):
            self.content[memory][at] = value


def ran(
    text: str, memories: Memories, machine: object = SIXTEEN, *, observed: bool = False, **options: object
) -> System:
    """The system after a program that began with these memories; ``observed``: Python sees every round."""
    system = build(text, machine, **options)  # type: ignore[arg-type]
    system.observers += [Observer()] * observed
    memories.into(system)
    system.run()
    return system
