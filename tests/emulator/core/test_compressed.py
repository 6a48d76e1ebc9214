"""Compressed instructions on the kernel core: results by QEMU, reserved encodings by the manual."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import asm
from chip_bench import CODE, M64, final_registers
from machine_code import needs_jit
from qemu_runs import by_qemu, by_us, image_of, missing_qemu
from translated_runs import outcome, same
from tx8isa.riscv.compressed import Compressed
from tx8isa.riscv.format import Field
from tx8isa.table import compressed as rvc

RECORDS = rvc.compressed_by_mnemonic()


@pytest.fixture
def qemu() -> None:
    missing_qemu()


# -- every instruction, by QEMU ----------------------------------------------------------------------------

POINTERS = {2: 0, 8: 1024, 9: 2048}
"""sp, s0 and s1 point into the area of the data, at these places, and are never written."""
AREA = 4096
START = """
    la sp, input
    {loads}
    la sp, area
    la s0, area + 1024
    la s1, area + 2048
"""
END = """
    la sp, input
    {stores}
    li a7, 64
    li a0, 1
    la a1, input
    li a2, {size}
    ecall
    li a7, 93
    li a0, 0
    ecall
"""
INSIDE = ("c.nop", "c.ebreak", "c.jr", "c.jalr", "c.j", "c.beqz", "c.bnez", "c.addi16sp")
"""Instructions that end a straight line or move a pointer: they have places of their own."""


def value_of(field: Field, rng: random.Random) -> int:
    """A legal value; registers that are written are not pointers."""
    if field.modulus:
        return rng.choice((rng.randint(1, 31), field.modulus - rng.randint(1, 32)))
    legal = [v for v in range(field.minimum, field.maximum + 1) if not field.problem(v)]
    if field.name == "rd" and field.kind == "register":
        legal = [v for v in legal if v not in POINTERS]
    return rng.choice((legal[0], legal[-1], rng.choice(legal)))


def straight(record: Compressed, rng: random.Random) -> str:
    """One instruction whose memory operands stay in the area, as its 16 bits."""
    values = {field.name: value_of(field, rng) for field in record.fields}
    if "rs1" in values:
        values["rs1"] = rng.choice((8, 9))
    return f".half {record.encode(values):#06x}  # {record.mnemonic} {values}"


def jump(rng: random.Random, number: int) -> str:
    """A jump over some code, each kind at a place of either parity."""
    skipped = "\n".join(rng.choice(("c.addi a0, 1", "addi a1, a1, 3")) for _ in range(rng.randint(0, 3)))
    register = rng.choice(("a2", "a3", "s0"))
    kind = rng.choice(
        (
            "c.j 1f",
            f"c.beqz {register}, 1f",
            f"c.bnez {register}, 1f",
            "la t0, 1f\nc.jr t0",
            "la t1, 1f\nc.jalr t1",
            "jal t2, 1f",
            f"beq {register}, a4, 1f",
            "c.addi16sp sp, 16\nc.addi16sp sp, -16",
        )
    )
    loop = f"c.li a5, {rng.randint(1, 5)}\n2: c.add a4, a5\nc.addi a5, -1\nc.bnez a5, 2b"
    return f"{kind}\n{skipped}\n1: {loop if number % 7 == 0 else 'c.nop'}"


def random_program(seed: int, length: int) -> str:
    rng = random.Random(seed)
    words = [rng.choice((0, 1, M64, 1 << 31, rng.getrandbits(64), rng.getrandbits(6))) for _ in range(64)]
    free = [n for n in range(1, 32) if n not in POINTERS]
    loads = [f"ld x{n}, {8 * n}(sp)" for n in free] + [f"fld f{n}, {256 + 8 * n}(sp)" for n in range(32)]
    stores = [line.replace("ld ", "sd ", 1) for line in loads]
    records = [record for record in rvc.compressed_instructions() if record.mnemonic not in INSIDE]
    records = [*records, RECORDS["c.nop"]]
    order = [*records, *rng.choices(records, k=length)]
    rng.shuffle(order)
    lines = [
        ".option rvc",
        ".option push",
        ".option norvc",
        START.format(loads="\n".join(loads)),
        ".option pop",
    ]
    for number, record in enumerate(order):
        lines.append(straight(record, rng))
        if rng.random() < 0.1:
            lines.append(jump(rng, number))
    size = 512 + AREA
    lines += [".option norvc", END.format(stores="\n".join(stores), size=size)]
    area = "".join(f".dword {rng.getrandbits(64):#x}\n" for _ in range(AREA // 8))
    data = ", ".join(f"{word:#x}" for word in words)
    return "\n".join(lines) + f"\n.data\n.balign 16\ninput: .dword {data}\narea: {area}"


def check(seed: int, length: int, folder: Path) -> None:
    """The registers and the memory of QEMU, interpreted and translated."""
    expected = by_qemu(random_program(seed, length), folder, "rv64imfdc_zicsr_zifencei")
    assert len(expected) == 512 + AREA
    found = by_us(folder)
    wrong = [at for at in range(0, len(expected), 8) if expected[at : at + 8] != found[at : at + 8]]
    assert not wrong, f"seed {seed}: x or f register or memory {[at // 8 for at in wrong]}"


@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize("seed", range(8))
def test_random_programs_leave_the_registers_and_memory_of_qemu(seed: int, tmp_path: Path) -> None:
    check(seed, 300, tmp_path)


@needs_jit
@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize("seed", range(3))
def test_translated_they_do_the_same(seed: int, tmp_path: Path) -> None:
    expected = by_qemu(random_program(seed, 200), tmp_path, "rv64imfdc_zicsr_zifencei")
    shown: list[bytes] = []
    options = {"show": lambda _, data: shown.append(data)}
    outcome(image_of(tmp_path), {}, 1_000_000, translated=True, **options)
    assert b"".join(shown) == expected
    same(image_of(tmp_path), {})


@pytest.mark.long
@pytest.mark.usefixtures("qemu")
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_random_programs_leave_the_registers_and_memory_of_qemu(seed: int, tmp_path: Path) -> None:
    check(seed, 2000, tmp_path)


@pytest.mark.usefixtures("qemu")
def test_each_shape_of_program_is_drawn() -> None:
    text = "".join(random_program(seed, 300) for seed in range(8))
    assert not [record for record in RECORDS if record not in text and record != "c.ebreak"]


# -- the same, one by one: what the riscv-tests check of rv64uc, with expectations from the manual ----------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("li sp, 0x1234\nc.addi4spn a0, sp, 1020", 0x1234 + 1020),
        ("li sp, 0x1234\nc.addi16sp sp, 496\nmv a0, sp", 0x1234 + 496),
        ("li sp, 0x1234\nc.addi16sp sp, -512\nmv a0, sp", 0x1234 - 512),
        ("la a1, data\nc.lw a0, 4(a1)\nc.addi a0, 1\nc.sw a0, 4(a1)\nc.lw a0, 4(a1)", 0xFFFFFFFF_FEDCBA99),
        ("la a1, data\nc.ld a0, 0(a1)\nc.addi a0, 1\nc.sd a0, 0(a1)\nc.ld a0, 0(a1)", 0xFEDCBA98_76543211),
        (
            "la sp, data\nc.lwsp a0, 12(sp)\nc.addi a0, 1\nc.swsp a0, 12(sp)\nc.lwsp a0, 12(sp)",
            0xFFFFFFFF_FEDCBA99,
        ),
        (
            "la sp, data\nc.ldsp a0, 8(sp)\nc.addi a0, 1\nc.sdsp a0, 8(sp)\nc.ldsp a0, 8(sp)",
            0xFEDCBA98_76543211,
        ),
        ("li a0, 5\nc.addi a0, -16", M64 - 10),
        ("c.li a0, -16", M64 - 15),
        ("li a5, 0xabcd\nc.li a5, 31\nmv a0, a5", 31),
        ("c.lui s0, 0xfffe1\nc.srli s0, 12\nmv a0, s0", 0x000FFFFF_FFFFFFE1),
        ("c.lui s0, 0xfffe1\nc.srai s0, 12\nmv a0, s0", M64 - 30),
        ("li a0, 0xfffffffe\nc.andi a0, -16", 0xFFFFFFF0),
        ("li s1, 0x8000000000000000\nc.srli64 s1\nc.srai s1, 63\nmv a0, s1", M64),
        ("li s1, 18\nli a0, 20\nc.sub a0, s1", 2),
        ("li s1, 18\nli a0, 20\nc.xor a0, s1", 6),
        ("li s1, 18\nli a0, 20\nc.or a0, s1", 22),
        ("li s1, 18\nli a0, 20\nc.and a0, s1", 16),
        ("li s1, 1\nli a0, 0x80000000\nc.subw a0, s1", 0x7FFFFFFF),
        ("li s1, 1\nli a0, 0x7fffffff\nc.addw a0, s1", 0xFFFFFFFF_80000000),
        ("li a0, 0x7fffffff\nc.addiw a0, 1", 0xFFFFFFFF_80000000),
        ("li a0, 0x1234\nc.slli a0, 4", 0x12340),
        ("li a0, 0x1234\nc.slli a0, 63", 0),
        ("li a0, 1\nc.j 1f\nc.li a0, 2\n1: c.addi a0, 2", 3),
        ("li a0, 0\nc.beqz a0, 1f\nc.li a0, 2\n1: c.addi a0, 2", 2),
        ("li a0, 1\nc.bnez a0, 1f\nc.li a0, 2\n1: c.addi a0, 2", 3),
        ("li a0, 1\nc.beqz a0, 1f\nc.li a0, 2\n1: c.addi a0, 2", 4),
        ("li a0, 0\nc.bnez a0, 1f\nc.li a0, 4\n1: c.addi a0, 2", 6),
        ("la t0, 1f\nli ra, 0\nc.jr t0\nc.j 2f\n1: mv a0, ra\n2: nop", 0),
        ("la t0, 1f\nli ra, 0\nc.jalr t0\n2: c.j 3f\n1: la a1, 2b\nsub a0, ra, a1\n3: nop", 0),
        ("li s1, 77\nc.mv a0, s1", 77),
        ("li s1, 77\nli a0, 1\nc.add a0, s1", 78),
        ("la sp, data\nc.fldsp fa0, 8(sp)\nc.fsdsp fa0, 16(sp)\nc.ldsp a0, 16(sp)", 0xFEDCBA98_76543210),
        ("la a1, data\nc.fld fa0, 8(a1)\nc.fsd fa0, 16(a1)\nc.ld a0, 16(a1)", 0xFEDCBA98_76543210),
        (
            "li a0, 9\nc.nop 5\nc.li zero, 7\nc.lui zero, 3\nc.mv zero, a0\nc.add zero, a0\nc.slli64 zero\n"
            "add a0, a0, zero",
            9,
        ),
    ],
)
def test_what_an_instruction_does(body: str, expected: int) -> None:
    data = "ebreak\n.data\n.balign 16\ndata: .dword 0xfedcba9876543210, 0xfedcba9876543210, 0, 0"
    found = final_registers(f"_start: {body}\n{data}", 11)
    assert found[10] == expected and found[0] == 0


def test_an_instruction_of_four_bytes_across_two_pages() -> None:
    """Between multiples of 4, over the end of a page, entered from before it and by a jump."""
    text = "_start: la t0, 1f\nj 2f\n.balign 4096\n.space 4094 - 8\n2: li a0, 1\nnop\n1: li a0, 0x123\n"
    text += "bnez t0, 3f\nnop\n"
    text += "3: addi a1, a1, 1\nmv t1, t0\nli t0, 0\nbeqz t1, 4f\njr t1\n4: ebreak"
    image = asm.assemble(text)
    assert image.symbols["_start"].address == CODE
    found = final_registers(text, 12)
    assert found[10:12] == [0x123, 2]
