"""Random programs for several chips whose tiles send each other packets, and their final memories.

Messages have a total order, in which each tile sends and receives its own, so no program waits for ever. A
message is a copy of a slot of the sender's SPM to a slot of the receiver's; each has its own stream. Harts
are the tiles of all chips, numbered across chips.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import asm
from asm.image import Image
from chip_bench import chip
from dte_harness import EXIT, address, fill
from emulator.chips.linked_chip import LinkedChip
from emulator.chips.mesh import ChipMesh
from emulator.program import Program, chip_name
from stream_programs import CONFIG, FSM, LENGTH, READY, SRC, USER_ID, config, user_id
from tx8isa.machine.chips import Chips
from tx8isa.machine.description import Machine

TILES = 2
SLOT, SLOTS, FILLED = 64, 40, 8
"""Bytes of a slot, slots of a tile from byte 0 of its SPM on, and slots that it loads at the start."""
FIRST_STREAM, MOST = 32, 32
"""The stream of message 0, and the largest number of messages."""
OTHER_CHIP = 1 << 39


@dataclass(frozen=True)
class Message:
    """A copy from a slot of a hart to a slot of another one."""

    sender: int
    source: int
    receiver: int
    target: int


def machine(x: int, y: int, tiles: int = TILES, shape: str = "mesh") -> Machine:
    """A few tiles on each of x times y chips."""
    import msgspec

    found = chip(tiles, 0x4000).of_chips(x, y)
    return msgspec.structs.replace(found, chips=msgspec.structs.replace(chips_of(found), shape=shape))


def chips_of(found: Machine) -> Chips:
    """The table of chips of a machine, which must have one."""
    assert isinstance(found.chips, Chips)
    return found.chips


def destination_of(found: Machine, hart: int, at: int) -> dict[int, int]:
    """The destination registers for an address of a hart of another chip."""
    number, tile = divmod(hart, found.tiles)
    x, y = chips_of(found).xy(number)
    whole = OTHER_CHIP | at | tile << 40 | y << 48 | x << 56
    return {0x008: whole & 0xFFFF_FFFF, 0x00C: whole >> 32}


def messages(rng: random.Random, harts: int, count: int) -> list[Message]:
    """Random messages; a slot is written once, and sent only if it was loaded or received."""
    free = {hart: list(range(FILLED, SLOTS)) for hart in range(harts)}
    filled = {hart: list(range(FILLED)) for hart in range(harts)}
    found = []
    for _ in range(count):
        sender, receiver = rng.sample(range(harts), 2)
        target = free[receiver].pop(rng.randrange(len(free[receiver])))
        found.append(Message(sender, rng.choice(filled[sender]), receiver, target))
        filled[receiver].append(target)
    return found


def final_slots(sent: Sequence[Message], start: Sequence[bytes]) -> list[bytes]:
    """All slots of the harts at the end; ``start`` has the loaded ones."""
    slots = [bytearray(first.ljust(SLOT * SLOTS, b"\xff")) for first in start]
    for message in sent:
        source, target = message.source * SLOT, message.target * SLOT
        slots[message.receiver][target : target + SLOT] = slots[message.sender][source : source + SLOT]
    return [bytes(one) for one in slots]


def program(found: Machine, sent: Sequence[Message], rng: random.Random, left_out: int | None = None) -> str:
    """Write the program: each hart jumps to its own part. ``left_out``: the message without a wait."""
    harts = found.tiles * found.chip_count
    parts = []
    for hart in range(harts):
        lines = [f"h{hart}:"]
        for number, message in enumerate(sent):
            if hart in (message.sender, message.receiver) and rng.random() < 0.3:
                lines.append(f" li t0, {rng.randrange(1, 2000)}\n1: addi t0, t0, -1\n bnez t0, 1b")
            if message.sender == hart:
                lines.append(_send(found, message, FIRST_STREAM + number))
            elif message.receiver == hart and number != left_out:
                lines.append(_wait(FIRST_STREAM + number))
        parts.append("\n".join([*lines, " j finish"]))
    jumps = "".join(f" li t0, {hart}\n beq s0, t0, h{hart}\n" for hart in range(harts))
    body = "\n".join(parts)
    head = f".input start, int8, {found.tiles}x{FILLED * SLOT}\n.text\n_start: csrr s0, mhartid\n"
    return f"{head}{_streams(len(sent))}{_load(found)}{jumps}{body}\nfinish:{EXIT}"


def _load(found: Machine) -> str:
    """Load the first slots of a tile from its chip's DDR."""
    return f""" li t0, {found.tiles}
 remu t0, s0, t0
 li t1, {FILLED * SLOT}
 mul t0, t0, t1
 la a0, start
 add a0, a0, t0
 rdma.int8 dst=0, src=a0, n={FILLED * SLOT}
 ncc.wait
"""


def _streams(count: int) -> str:
    values = {CONFIG + 4 * (FIRST_STREAM + number): config(SLOT) for number in range(count)}
    return "".join(
        f" li t0, {FSM + at:#x}\n li t1, {value:#x}\n sw t1, 0(t0)\n" for at, value in values.items()
    )


def _send(found: Machine, message: Message, stream: int) -> str:
    at, tiles = message.target * SLOT, found.tiles
    target = destination_of(found, message.receiver, at)
    if message.sender // tiles == message.receiver // tiles:
        target = address(0x008, at, message.receiver % tiles)
    values = {**address(SRC, message.source * SLOT), **target, LENGTH: SLOT, USER_ID: user_id(stream)}
    start = " li t1, 1\n sw t1, 0x38(t0)\n"
    return f"{fill(1, values)}{start}2: lw t2, 0x40(t0)\n andi t1, t2, 1\n beqz t1, 2b"


def _wait(stream: int) -> str:
    return f" li t0, {FSM + READY + 4 * stream:#x}\n3: lw t1, 0(t0)\n beqz t1, 3b"


class OtherOrders(ChipMesh):
    """Chips that advance in random order, and not as far as they could, as if emulated elsewhere."""

    rng = random.Random(0)

    def _go_on(self, limit: int) -> bool:
        worked = False
        for one in self.rng.sample(self.chips, len(self.chips)):
            bound, least = self._bound(one), int(self._promises.min()) + int(self._ways.min())
            if least < bound and self.rng.random() < 0.7:
                bound = self.rng.randrange(least, min(bound, least + 10**9) + 1)
            outgoing = one.step(bound, limit)
            self._promises[one.number] = one.promise
            self._dispatch(outgoing)
            worked |= outgoing.worked
        return worked


@dataclass
class Case:
    """A random program and its messages."""

    machine: Machine
    sent: list[Message]
    start: list[bytes]
    text: str

    @classmethod
    def random(cls, seed: int, found: Machine, count: int = 30, left_out: int | None = None) -> Case:
        rng, harts = random.Random(seed), found.tiles * found.chip_count
        sent = messages(rng, harts, count)
        start = [rng.randbytes(FILLED * SLOT) for _ in range(harts)]
        return cls(found, sent, start, program(found, sent, rng, left_out))

    @property
    def image(self) -> Image:
        """The program."""
        return asm.assemble(self.text)

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """The data that the tiles of each chip load at the start."""
        tiles = self.machine.tiles
        return {
            chip_name(number, "start"): np.frombuffer(
                b"".join(self.start[number * tiles :][:tiles]), dtype=np.int8
            ).reshape(tiles, -1)
            for number in range(self.machine.chip_count)
        }

    def run(self, kind: type[ChipMesh] = ChipMesh, **options: object) -> ChipMesh:
        """The chips at the end."""
        made = Program(self.image, self.machine).start_chips(self.inputs, **options)  # type: ignore[arg-type]
        made.__class__ = kind
        made.run()
        return made

    def slots(self, mesh: ChipMesh) -> list[bytes]:
        """The slots of all harts."""
        return self.slots_of(mesh.chips)

    def slots_of(self, chips: Sequence[LinkedChip]) -> list[bytes]:
        """The slots of the harts of some chips."""
        return [tile.spm.data[: SLOT * SLOTS].tobytes() for one in chips for tile in one.tiles]

    def racing_sends(self, left_out: int) -> int:
        """Count the sends that read the data of the message without a wait, unordered after its arrival.

        Order follows from two facts: a send is complete before its tile continues, and a wait ends after the
        arrival.
        """
        after: dict[object, set[object]] = {}
        last: dict[int, object] = {}
        for number, message in enumerate(self.sent):
            for hart, waits in ((message.sender, True), (message.receiver, number != left_out)):
                begin = (hart, number)
                after.setdefault(last.get(hart, hart), set()).add(begin)
                last[hart] = begin
                if hart == message.sender:
                    after.setdefault(begin, set()).add(("arrival", number))
                    last[hart] = (hart, number, "done")
                    after.setdefault(("arrival", number), set()).add(last[hart])
                elif waits:
                    after.setdefault(("arrival", number), set()).add(begin)
        message, seen, to_do = self.sent[left_out], set[object](), [("arrival", left_out)]
        while to_do:
            for node in after.get(to_do.pop(), ()):
                if node not in seen:
                    seen.add(node)
                    to_do.append(node)  # type: ignore[arg-type]
        uses = [
            (one.sender, number)
            for number, one in enumerate(self.sent)
            if (one.sender, one.source) == (message.receiver, message.target)
        ]
        return sum(use not in seen for use in uses)
