"""Random loads and stores of every width to the registers of every device, then to control registers."""

from __future__ import annotations

from random import Random

from chip_bench import EBREAK, W, word, words_image
from emulator.chip.registers.streams import REMOTE_BASE, UPDATE_BASE
from emulator.chip.system import System
from emulator.tile.fault import Fault
from fuzz_instructions import MACHINE, any_value, legal
from tx8isa.errors import Tx8Error
from tx8isa.numbers.primitives import s64
from tx8isa.records.record import Engine
from tx8isa.table.packets import PACKETS
from window_programs import contents

PLACES = (
    (W.ncc, 3 * W.ncc_stride),
    (W.ncc, 0x800),
    (W.ncc + W.ncc_stride, 0x800),
    (W.pmu, 0x300),
    (W.dte, 0xA00),
    (W.dte + W.dte_stride, 0x200),
    (0x620000, 0x2000),
    (UPDATE_BASE, 16),
    (REMOTE_BASE, 16),
    (REMOTE_BASE + UPDATE_BASE, 16),
)
"""(first address, bytes) of the devices."""
STORES, LOADS = ("sw", "sd", "sw", "sd", "sh", "sb"), ("lw", "ld", "lwu", "lh", "lb", "flw")
Access = tuple[str, int, int]
"""(instruction, address, value)."""


def anywhere(rng: Random) -> Access:
    base, size = rng.choice(PLACES)
    address = base + rng.randrange(size) // rng.choice((1, 4, 8, 16)) * rng.choice((1, 4, 8, 16))
    value = rng.choice((0, 1, 2, 0xFFFFFFFF, rng.getrandbits(64), rng.getrandbits(32), rng.getrandbits(8)))
    return rng.choice(STORES if rng.random() < 0.7 else LOADS), address, value


def dte_copy(rng: Random) -> list[Access]:
    """A nearly valid copy of the DTE, with its start."""
    block = W.dte + rng.randint(1, 3) * W.dte_stride
    size = rng.choice((0, 1, 1, 16, 16, 300, 300, 1 << 20, (1 << 32) - 1))
    found: list[Access] = [
        (
            "sw",
            block + 0x14,
            rng.choice((0, 0, 1, 2, 3, 1 << 8, 1 << 16 | 3, 1 << 24 | 3, rng.getrandbits(32))),
        )
    ]
    found += [
        ("sw", block + at, rng.choice((0, 0x8000, 0x1FF00, rng.getrandbits(17)))) for at in (0, 8, 0x50)
    ]
    found += [("sw", block + 4, rng.choice((0, 0, 2)))]
    found += [("sw", block + 0x0C, rng.choice((0, 0, 0, 2, 0x100))), ("sw", block + 0x54, 0)]
    found += [("sw", block + 0x18, size), ("sw", block + 0x1C, rng.choice((0, 0, 0, 1, 31)))]
    for at in (*range(0x20, 0x38, 4), *range(0x1E0, 0x1F8, 4)):
        if rng.random() < 0.25:
            found.append(("sw", block + at, rng.choice((0, 1, 3, 100, (1 << 32) - 1, 1 << 20))))
    return [*found, ("sw", block + 0x38, 1)]


def packet(rng: Random) -> list[Access]:
    """The registers of a legal instruction, some of them replaced; the control register is last."""
    while True:
        case = legal(rng)
        if case.record.engine in PACKETS and case.record.engine is not Engine.SCALAR:
            break
    form = PACKETS[case.record.engine]
    base = W.ncc + rng.choice((0, 0, 1, 2)) * W.ncc_stride
    if not case.record.formats:
        case.named["format"] = 0
    found = contents(case.record, case.named)
    for at in rng.sample(sorted(found), min(rng.choice((0, 1, 1, 3)), len(found))):
        if at != form.control:
            found[at] = any_value(rng.choice(case.record.operands), rng) & (1 << 64) - 1
    if rng.random() < 0.2:
        found[form.control] ^= 1 << rng.randrange(40)
    order = sorted(found, key=lambda at: (at == form.control, at))
    return [("sd", base + at, found[at]) for at in order]


def example(rng: Random) -> str:
    accesses: list[Access] = []
    for _ in range(rng.choice((1, 3, 10))):
        accesses += rng.choice((lambda rng: [anywhere(rng)], dte_copy, packet, packet))(rng)
    words, values = [], []
    for mnemonic, address, value in accesses:  # the pool of values lies in DDR: addresses and values by turns
        values += [address, value]
        words += [word("ld", rd=5, rs1=7, imm=0), word("ld", rd=6, rs1=7, imm=8)]
        target = {"rs2": 6} if mnemonic in STORES else {"rd": 6}
        words += [word(mnemonic, rs1=5, imm=0, **target), word("addi", rd=7, rs1=7, imm=16)]
    system = System(
        words_image([*words, EBREAK]),
        MACHINE,
        on_exception=rng.choice(("stop", "drop", "drop")),
        serial=rng.random() < 0.2,
    )
    pool = 0x20_0000
    data = b"".join(value.to_bytes(8, "little") for value in values)
    system.ddr[pool : pool + len(data)] = bytearray(data)
    system.tiles[0].set_register(7, s64(W.ddr_cached + pool))
    try:
        system.run(5000)
    except (Fault, Tx8Error) as error:
        return f"{len(accesses)} accesses, {int(system.tiles[0].counts[:, 0].sum())} executed, {error}"
    return "ended"
