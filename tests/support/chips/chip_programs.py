"""Random programs for several chips whose tiles send each other packets, and what they leave in the scratchpads.

Messages have an order: each tile does what concerns it in that order, so no program waits for ever. A message
is a copy of a slot of the sender's SPM to another slot of the receiver's; every message has a packet of its own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from chip_bench import W, chip
from dte_harness import EXIT, address, fill
from stream_programs import CONFIG, COUNT, FSM, LENGTH, READY, SRC, USER_ID, config, user_id
from tx8isa.machine.description import Machine

TILES = 2
SLOT, SLOTS = 64, 40
"""Bytes of a slot, and how many a tile has, from byte 0 of its SPM on."""
FIRST_STREAM, STREAMS, PACKETS = 32, 32, 32
OTHER_CHIP = 1 << 39


@dataclass(frozen=True)
class Message:
    """A copy from a hart's slot to another one's; the harts are numbers across chips."""

    sender: int
    source: int
    receiver: int
    target: int
    waits: bool = True
    """Whether the receiver waits for it before it goes on."""


def machine(x: int, y: int, tiles: int = TILES) -> Machine:
    """A few tiles on each of x times y chips."""
    return chip(tiles, 0x4000).of_chips(x, y)


def place_of(chips: Machine, hart: int, at: int) -> dict[int, int]:
    """The destination registers for byte ``at`` of the SPM of a hart of another chip."""
    number, tile = divmod(hart, chips.tiles)
    x, y = divmod(number, chips.chips.y)  # type: ignore[union-attr]
    return {0x008: at, 0x00C: (OTHER_CHIP | tile << 40 | y << 48 | x << 56) >> 32}


def messages(rng: random.Random, harts: int, count: int) -> list[Message]:
    """Random messages; slots are written once, and a slot is sent only if something has come to it, or it was
    filled at the start."""
    free = {hart: list(range(8, SLOTS)) for hart in range(harts)}
    filled = {hart: list(range(8)) for hart in range(harts)}
    found = []
    for _ in range(count):
        sender, receiver = rng.sample(range(harts), 2)
        if not free[receiver]:
            continue
        target = free[receiver].pop(rng.randrange(len(free[receiver])))
        found.append(Message(sender, rng.choice(filled[sender]), receiver, target))
        filled[receiver].append(target)
    return found


def final(chips: Machine, sent: Sequence[Message], start: Sequence[bytes]) -> list[bytes]:
    """The slots of all harts at the end; ``start``: their first 8 slots."""
    slots = [bytearray(first.ljust(SLOT * SLOTS, b"\xff")) for first in start]
    for message in sent:
        source, target = message.source * SLOT, message.target * SLOT
        slots[message.receiver][target : target + SLOT] = slots[message.sender][source : source + SLOT]
    return [bytes(one) for one in slots]


def program(chips: Machine, sent: Sequence[Message], rng: random.Random) -> str:
    """The text of the program: each hart jumps to its own part."""
    harts = chips.tiles * chips.chip_count
    numbers = {id(message): number for number, message in enumerate(sent)}
    parts = []
    for hart in range(harts):
        mine = [m for m in sent if hart in (m.sender, m.receiver)]
        lines = [f"h{hart}:"]
        for message in mine:
            if rng.random() < 0.3:
                lines.append(f" li t0, {rng.randrange(1, 2000)}\n1: addi t0, t0, -1\n bnez t0, 1b")
            stream, packet = divmod(numbers[id(message)], PACKETS)
            if message.sender == hart:
                lines.append(_send(chips, message, FIRST_STREAM + stream, packet))
            elif message.waits:
                lines.append(_wait(FIRST_STREAM + stream, packet))
        parts.append("\n".join([*lines, " j 9f" if hart == harts - 1 else " j finish"]))
    jumps = "".join(f" li t0, {hart}\n beq s0, t0, h{hart}\n" for hart in range(harts))
    body = "\n".join(parts).replace("j 9f", "j finish")
    return f"_start: csrr s0, mhartid\n{_streams(len(sent))}{jumps}{body}\nfinish:{EXIT}"


def _streams(count: int) -> str:
    """Enable the streams of all messages."""
    used = range(FIRST_STREAM, FIRST_STREAM + -(-count // PACKETS))
    values = {CONFIG + 4 * stream: config(SLOT, PACKETS) for stream in used}
    return "".join(
        f" li t0, {FSM + at:#x}\n li t1, {value:#x}\n sw t1, 0(t0)\n" for at, value in values.items()
    )


def _send(chips: Machine, message: Message, stream: int, packet: int) -> str:
    at = message.target * SLOT
    here = message.sender // chips.tiles == message.receiver // chips.tiles
    target = (
        address(0x008, at, message.receiver % chips.tiles)
        if here
        else place_of(chips, message.receiver, at)
    )
    values = {**address(SRC, message.source * SLOT), **target, LENGTH: SLOT, USER_ID: user_id(stream, packet)}
    start = " li t1, 1\n sw t1, 0x38(t0)\n"
    return f"{fill(1, values)}{start}2: lw t2, 0x40(t0)\n andi t1, t2, 1\n beqz t1, 2b"


def _wait(stream: int, packet: int) -> str:
    at = FSM + READY + 4 * stream
    return f" li t0, {at:#x}\n3: lw t1, 0(t0)\n srli t1, t1, {packet}\n andi t1, t1, 1\n beqz t1, 3b"


def fills(rng: random.Random, harts: int) -> list[bytes]:
    """Random first slots."""
    return [rng.randbytes(8 * SLOT) for _ in range(harts)]


COUNTS = COUNT, W
