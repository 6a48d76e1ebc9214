"""Packets of GDB's remote protocol: known ones with other arguments, and any bytes."""

from __future__ import annotations

from random import Random

import asm
from chip_bench import chip
from emulator.chip.system import System
from emulator.debug.gdb.connection import ClientLost
from emulator.debug.gdb.run.reverse import ReverseExecution
from emulator.debug.gdb.run.scheduler import DebugScheduler
from emulator.debug.gdb.session import Session
from emulator.tile.fault import Fault

MACHINE = chip(2, 0x4000)
TEXT = """_start: li a0, 3
1:      addi a0, a0, -1
        bnez a0, 1b
        td.memset.fp32 dst=0, value=1.0, n=8
        ncc.wait
        li a7, 93
        ecall
"""
_KNOWN = (
    *(
        "?",
        "g",
        "qC",
        "qSupported",
        "qfThreadInfo",
        "qsThreadInfo",
        "vCont?",
        "bs",
        "bc",
        "c",
        "s",
        "vCont;c",
        "vCont;s:1",
    ),
    *(
        "Hg1",
        "Hc-1",
        "T2",
        "p20",
        "P20=0000000000000000",
        "m80000000,10",
        "M0,4:00000000",
        "X0,4:abcd",
        "Z0,80000004,4",
    ),
    *(
        "z0,80000004,4",
        "Z2,0,8",
        "z2,0,8",
        "qXfer:features:read:target.xml:0,fff",
        "qXfer:threads:read::0,fff",
        "QStartNoAckMode",
    ),
    *(
        "qRcmd,737461747573",
        "qRcmd,68656c70",
        "vMustReplyEmpty",
        "D",
        "k",
        "G" + "00" * 520,
        "vKill;1",
        "qAttached",
    ),
)


class Script:
    """A client that sends these packets and leaves."""

    def __init__(self, packets: list[bytes]) -> None:
        self.packets, self.acknowledges = packets, True
        self.answers = 0

    def receive(self) -> bytes:
        if not self.packets:
            raise ClientLost("the packets are sent")
        return self.packets.pop(0)

    def send(self, payload: bytes) -> None:
        self.answers += 1

    def interrupted(self) -> bool:
        return False


def packet(rng: Random) -> bytes:
    """A known packet, perhaps with some of its bytes changed."""
    data = bytearray(rng.choice(_KNOWN).encode())
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(3)
        if kind == 0 and at < len(data):
            data[at] = rng.choice((rng.randrange(256), rng.choice(b"0123456789abcdef,:;=-")))
        elif kind == 1:
            data[at:at] = rng.choice((b"ffffffffffffffff", b"-", b"0", b",", b":", b";", b"1" * 40, bytes(3)))
        else:
            del data[at : at + rng.randint(1, 4)]
    return bytes(data)


def example(rng: Random) -> str:
    """A session of some packets; the program continues afterwards."""
    system = System(asm.assemble(TEXT, machine=MACHINE), MACHINE)
    script = Script([packet(rng) for _ in range(rng.randint(1, 30))])
    session = Session(ReverseExecution(DebugScheduler(system, 10_000)), script)  # type: ignore[arg-type]
    try:
        ending = str(session.run())
    except (ClientLost, Fault) as left:
        ending = str(left)
    return f"{script.answers} answers, {ending}"
