"""Programs that send packets of streams, and the register writes that set the streams up."""

from __future__ import annotations

from dte_harness import EXIT, FOUR, Memories, address, destination, go, ran

FSM, UPDATE, REMOTE = 0x62_0000, 0x67_0000, 0x80_0000_0000


CONFIG, CHECK, BASE, STATUS, READY, COUNT = 0x0E8, 0x1E8, 0x1F0, 0x6A8, 0x7A8, 0x8A8


ENABLE = 1 << 31


SRC, USER_ID, MODE, LENGTH, DEST_NUM = 0x000, 0x010, 0x014, 0x018, 0x01C


SPM_STREAM, DDR_STREAM = 60, 28
"""The first streams, in the scratchpad and in DDR, that the chip gives to programs."""


def config(length: int, packets: int = 1) -> int:
    return ENABLE | packets - 1 << 24 | length


def user_id(stream: int, packet: int = 0) -> int:
    return 1 << 15 | packet << 10 | stream


def fsm(registers: dict[int, int]) -> str:
    """Store to stream registers; those above 2047 bytes need a separate address."""
    return "".join(
        f" li t0, {FSM + at:#x}\n li t1, {value:#x}\n sw t1, 0(t0)\n" for at, value in registers.items()
    )


def look(*offsets: int) -> str:
    """Load stream registers into s2, s3, ..."""
    return "".join(f" li t0, {FSM + at:#x}\n lwu s{2 + i}, 0(t0)\n" for i, at in enumerate(offsets))


def send(tile: int, at: int, size: int, user: int, block: int = 1) -> str:
    registers = {**address(SRC, 0x100), **destination(0, at, tile), LENGTH: size, USER_ID: user}
    return go(block, registers)


def pair(sender: str, receiver: str, ready: str = "") -> str:
    """Tile 1 gets ready, then tile 0 sends and tile 1 receives; all others only pass the barrier."""
    return f"""_start: csrr s0, mhartid
        li t2, 1
        bne s0, t2, 2f
        {ready}
    2:  ncc.barrier
        beqz s0, 3f
        li t2, 1
        bne s0, t2, 9f
        {receiver}
        j 9f
    3:  {sender}
    {EXIT}"""


def wait(stream: int, packet: int = 0) -> str:
    """Poll the packet's ready bit."""
    at = FSM + READY + 4 * stream
    return f" li t0, {at:#x}\n4: lw t1, 0(t0)\n srli t1, t1, {packet}\n andi t1, t1, 1\n beqz t1, 4b\n"


def registers(text: str, tile: int, count: int, **options: object) -> list[int]:
    """s2, s3, ... of a tile after the program."""
    system = ran(text, Memories.random(4, "stream"), FOUR, **options)
    return [system.tiles[tile].register(18 + i) for i in range(count)]
