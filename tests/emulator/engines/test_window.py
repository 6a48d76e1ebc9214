"""The packet registers: stores to a window are the wide instruction with the same operands, or refused."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chip_bench import ONE, W, build, chip
from emulator import native
from emulator.chip.system import System
from emulator.engines import queues
from emulator.tile.fault import Fault
from fault_programs import EXAMPLES, nothing, random_value, spell, verdict
from tx8isa.numbers.formats import Format
from tx8isa.records.record import Engine, Instruction
from tx8isa.table.encoding import argument_values, encoder
from tx8isa.table.packets import PACKETS
from tx8isa.table.registry import by_mnemonic, instructions
from window_programs import SWITCHES, contents, stores

BIG = chip()
RECORDS = [r for r in instructions() if r.engine in PACKETS]
every_record = pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.mnemonic)


def window(record: Instruction, values: dict[str, int], worker: int = 0) -> str:
    return stores(contents(record, values), PACKETS[record.engine], worker)


def example_values(record: Instruction) -> dict[str, int]:
    values = EXAMPLES[record.mnemonic].values
    return {o.name: value for o, value in zip(record.operands, values, strict=True)}


def run(text: str, machine: object = ONE, **options: object) -> System:
    system = build(f"_start: {text}\n ebreak", machine, **options)  # type: ignore[arg-type]
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    return system


def fault(text: str, **options: object) -> str:
    """The message without the place."""
    with pytest.raises(Fault) as found:
        build(f"_start: {text}\n ebreak", BIG, **options).run()
    assert "\n" not in str(found.value)
    return str(found.value).partition(": ")[2]


# -- the same instruction ----------------------------------------------------------------------------------


def entry(system: System, number: int) -> list[int]:
    """Return an instruction's entry in the queues: kernel, record, ranges, operands."""
    at = queues.entry_at(number)
    block = system.tiles[0].block(0)[at : at + queues.ENTRY].tolist()
    count = block[queues.E_RANGES] * queues.RANGE_WORDS
    ranges = block[queues.E_FIRST_RANGE : queues.E_FIRST_RANGE + count]
    return [block[queues.E_SLOT], block[queues.E_RECORD], *ranges, *block[queues.E_FIELDS :]]


def issued(text: str) -> System:
    """Return the system with the text's instructions in the queues, none executed."""
    system = build(f"_start: {text}1: j 1b", BIG)
    system.slots.fill = lambda slot: pytest.fail("nothing has to be executed")  # type: ignore[method-assign]
    system.engines.finish = lambda tile: -1  # type: ignore[method-assign]
    with pytest.raises(Fault, match="the limit given"):
        system.run(200)
    return system


def same(wide: str, window: str) -> None:
    """Both texts issue one instruction, and the queues hold the same of both."""
    system = issued(wide + window)
    assert system.tiles[0].pending() == 2
    assert entry(system, 0) == entry(system, 1)


@every_record
def test_the_entry_is_that_of_the_wide_instruction(record: Instruction) -> None:
    """The example, and one with other legal operands that obey the rules: kernel, ranges, operands."""
    if record.engine is Engine.SCALAR:
        pytest.skip("executes at once: test_emulator_scalar_unit.py")
    rng, case = random.Random(record.mnemonic), EXAMPLES[record.mnemonic]
    same(wide(record, example_values(record)), window(record, example_values(record)))
    skipped = [o for o in record.operands if o.is_address or o.hidden or o.lanes or o.field in SWITCHES]
    free = [o for o in record.operands if o not in skipped]
    for _ in range(200):
        other = case
        for operand in rng.sample(free, min(rng.randint(1, 2), len(free))):
            doubled = 2 * case.get(operand.name)  # totals of loop forms must fit each other
            values = [random_value(operand, rng), min(doubled, operand.high)]
            other = other.put(operand.name, rng.choice(values[: 1 if operand.choices else 2]))
        values = {o.name: value for o, value in zip(record.operands, other.values, strict=True)}
        if other != case and not verdict(other):
            same(wide(record, values), window(record, values))
            return
    assert not free or all(o.name == "format" for o in free)


def wide(record: Instruction, values: dict[str, int]) -> str:
    """The instruction as a list of words."""
    data = encoder(record).encode([values[o.name] for o in record.operands])
    words = ", ".join(hex(int.from_bytes(data[i : i + 4], "little")) for i in range(0, len(data), 4))
    return f".word {words}\n"


def numbers(system: System, first: int, count: int) -> list[float]:
    return system.tiles[0].spm.data[first : first + 4 * count].view(np.float32).tolist()


def test_bytes_of_every_queue_and_worker() -> None:
    """memset, load, add and store on three workers, each of which is polled; numbers from plain
    arithmetic."""
    at = W.ddr_engine + 0x20_0000
    records = by_mnemonic()

    def issue(mnemonic: str, worker: int, **given: int) -> str:
        record = records[mnemonic]
        values = {o.name: o.default if isinstance(o.default, int) else 0 for o in record.operands}
        values |= {"format": Format.FP32, **given}
        poll = "1: ld t1, 0x740(t0)\n andi t1, t1, 0x100\n beqz t1, 1b\n"
        return window(record, values, worker) + poll

    text = issue("td.memset", 0, dst=0, value=0x40400000, n=64)
    text += issue("wdma", 1, dst=at, src=0, n=2, stride0=4, iter0=3)
    text += issue("rdma", 2, dst=0x200, src=at, n=1, stride0=4, iter0=3)
    text += issue("ct.add.vv", 1, dst=0x400, src0=0x200, src1=0, n=3)
    system = run(text)
    assert numbers(system, 0x200, 3) == [3.0] * 3 and numbers(system, 0x400, 3) == [6.0] * 3
    found = system.ddr[0x20_0000 : 0x20_0000 + 48].view(np.float32).tolist()
    assert found == [3, 3, 0, 0] * 3


# -- registers as memory -----------------------------------------------------------------------------------


def values_of(text: str) -> list[int]:
    """s0, s1, s2; the window of worker 1 in t0, -1 in t1."""
    tile = run(f"li t0, {W.ncc + W.ncc_stride}\n li t1, -1\n{text}").tiles[0]
    return [tile.register(n) & (1 << 64) - 1 for n in (8, 9, 18)]


def test_operand_registers_keep_what_is_stored() -> None:
    text = "sd t1, 0x070(t0)\n sw zero, 0x070(t0)\n ld s0, 0x070(t0)\n lwu s1, 0x074(t0)\n ld s2, 0x080(t0)"
    assert values_of(text) == [0xFFFFFFFF00000000, 0xFFFFFFFF, 0]


def test_windows_of_workers_are_apart() -> None:
    others = f"li t2, {W.ncc}\n ld s0, 0x10(t2)\n li t2, {W.ncc + 2 * W.ncc_stride}\n ld s1, 0x10(t2)\n"
    assert values_of(f"sd t1, 0x10(t0)\n{others} ld s2, 0x10(t0)") == [0, 0, (1 << 64) - 1]


def test_a_control_register_without_its_valid_bit_starts_nothing() -> None:
    text = f"li t2, {179 | 5 << 8}\n sd t2, 0x540(t0)\n ld s0, 0x540(t0)\n ld s1, 0x740(t0)"
    assert values_of(text)[:2] == [179 | 5 << 8, 0x100]


def test_the_valid_bit_clears_itself() -> None:
    record = by_mnemonic()["td.memset"]
    text = window(record, {**example_values(record), "dst": 0, "n": 4}, 1)
    assert values_of(f"{text} ld s0, 0x540(t0)\n ld s1, 0x740(t0)")[:2] == [179 | 2 << 8, 1]


@pytest.mark.parametrize(
    "access",
    [
        "sd t1, 0x1a0(t0)",
        "ld s0, 0x018(t0)",
        "ld s0, 0x1f0(t0)",
        "sd t1, 0x670(t0)",
        "ld s0, 0x6d0(t0)",
        "sb t1, 0x010(t0)",
        "sh t1, 0x010(t0)",
        "lbu s0, 0x010(t0)",
        "lw s0, 0x012(t0)",
        "ld s0, 0x014(t0)",
        "sw t1, 0x018(t0)",
        "sd t1, 0x130(t0)",
        "sw t1, 0x140(t0)",
        "sh t1, 0x540(t0)",
        "sw t1, 0x00c(t0)",
        "ld s0, 0x7f0(t0)",
    ],
)
def test_places_without_a_register_and_other_widths_are_faults(access: str) -> None:
    with pytest.raises(Fault, match=r"(load|store) of \d bytes at 0x1100[0-7]"):
        build(f"_start: li t0, {W.ncc + W.ncc_stride}\n li t1, 1\n {access}").run()


# -- refused -----------------------------------------------------------------------------------------------


def changed(mnemonic: str, registers: dict[int, int] | None = None, **operands: int) -> str:
    """The example of a record with other operands, or other registers."""
    record = by_mnemonic()[mnemonic]
    found = contents(record, {**example_values(record), **operands})
    return stores(found | (registers or {}), PACKETS[record.engine])


OPCODES = {
    packet.engine: {r.opcode for r in RECORDS if r.engine is packet.engine} for packet in PACKETS.values()
}


@pytest.mark.parametrize(("engine", "bit"), [(Engine.CT, 8), (Engine.TDMA, 40)])
def test_every_opcode_without_an_instruction_is_an_exception(engine: Engine, bit: int) -> None:
    packet = PACKETS[engine]
    for opcode in sorted(set(range(256)) - OPCODES[engine])[::31]:
        text = stores({packet.control: opcode | 5 << 8 | 1 << packet.valid_bit}, packet)
        assert fault(text) == f"{engine.name} has no instruction with opcode {opcode}"
        system = run(f"{text} ld s0, 0x750(t0)", on_exception="drop")
        assert system.tiles[0].register(8) == 1 << bit


def test_an_unknown_scalar_operation_has_no_exception_bit_and_stops() -> None:
    text = stores({0x6A0: 6 | 5 << 8 | 1 << 12}, PACKETS[Engine.SCALAR])
    assert fault(text, on_exception="drop") == "SCALAR has no instruction with opcode 6"


@pytest.mark.parametrize(
    ("text", "message", "bit"),
    [
        (changed("ct.abs.v", {0x0: 0 | 13 << 8 | 1 << 16}), "operand 'format' from a register: 13", 8),
        (changed("ct.add.vv", {0x0: 14 | 5 << 8 | 9 << 12 | 1 << 16}), "operand 'rnd' from a register: 9", 8),
        (changed("ct.abs.v", {0xB0: 1 << 40}), "operand 'n' from a register: 1099511627776 is outside", 8),
        (changed("ct.abs.v", {0x10: 0x300000}), "'src0' reads 256 bytes from 0x300000, outside", 9),
        (changed("ct.abs.v", {0x30: 0xFFFFFFFF}), "operand 'dst' from a register: 4294967295 is outside", 9),
        (changed("ct.abs.v", {0x10: 0x10001}), "operand 'src0' = 0x10001 must be a multiple of 2", 8),
        (changed("ct.pool.max", {0x70: 0}), "operand 'shape' from a register: n = 0 is outside 1..4096", 8),
        (changed("ct.pool.max", dst_shape=1 << 48 | 3 << 32 | 2 << 16 | 64), "dst_shape.h must be", 8),
        (changed("td.memset", {0x610: 0}), "operand 'iter0' from a register: 0 is outside", 40),
        (changed("ct.abs.v", {0xB0: 0}), "operand 'n' from a register: 0 is outside", 8),
        (changed("td.memset", {0x5D0: 0}), "operand 'n' from a register: 0 is outside", 40),
        (changed("ne.gemm", {0x310: 0}), "operand 'm' from a register: 0 is outside", 16),
        (changed("rdma", {0x460: 0}), "operand 'n' from a register: 0 is outside", 27),
        (changed("wdma", {0x500: 0}), "operand 'n' from a register: 0 is outside", 35),
        (changed("rdma", {0x430: 3}), "'stride0' = 3 is not a multiple of the 2 bytes", 27),
        (changed("wdma", {0x4C0: 0x100}), "outside DDR", 33),
        (changed("rdma", {0x490: 0x10000}), "the end of 'dst' is 0x10000, its last byte is 0x11bff", 27),
        (changed("ct.add.vv", {0x170: 0x300FE}), "the end of 'dst0' is 0x300fe, its last byte is 0x300ff", 8),
    ],
)
def test_refused_in_one_line_and_dropped_with_its_bit(text: str, message: str, bit: int) -> None:
    assert message in fault(text)
    system = run(f"{text} ld s0, 0x750(t0)\n ld s1, 0x740(t0)", BIG, on_exception="drop")
    assert (system.tiles[0].register(8), system.tiles[0].register(9)) == (1 << bit, 0x100)
    assert not system.tiles[0].counts.any()


def ends_of(record: Instruction, values: dict[str, int]) -> Iterable[tuple[int, int]]:
    """(end register, last byte) of every operand that is touched."""
    ordered = [values[o.name] for o in record.operands]
    for address, end in PACKETS[record.engine].ends():
        for operand in record.operands:
            if operand.field == address.name and operand.extent is not None:
                length = operand.extent.length(*argument_values(record, operand.extent.arguments, ordered))
                if length:
                    yield end.register, values[operand.name] + length - 1


@every_record
def test_right_ends_are_taken_and_wrong_ones_refused(record: Instruction) -> None:
    values = example_values(record)
    right = dict(ends_of(record, values))
    if right:
        issued(stores(contents(record, values) | right, PACKETS[record.engine]))
    for wrong_by, (register, last) in enumerate(right.items(), -1):
        wrong = last + (wrong_by or 2)
        message = fault(stores(contents(record, values) | right | {register: wrong}, PACKETS[record.engine]))
        assert message.startswith(f"{spell(EXAMPLES[record.mnemonic])}: the end of '")
        assert message.endswith(f"is {wrong:#x}, its last byte is {last:#x}")


def test_unused_registers_do_not_matter() -> None:
    """A dilation that is not switched on, a missing psum, and ends of empty operands."""
    gemm = {0x230: 0xFFFFFFFF, 0x390: 7, 0x3C0: 9, 0x2D0: 0}
    issued(changed("ne.gemm", gemm, psum_format=5, psum=0))
    conv = by_mnemonic()["ne.conv"]
    registers = contents(conv, example_values(conv)) | {0x2D0: 5 << 16 | 5}
    registers[0x200] &= ~(1 << 2 | 15 << 16)
    same(wide(conv, example_values(conv)), stores(registers, PACKETS[Engine.NE]))


def test_a_program_with_a_trap_handler_does_not_get_refused_instructions() -> None:
    """They are the engines' exceptions, not the core's."""
    text = f"la t2, 9f\n csrw mtvec, t2\n{changed('rdma', {0x460: 0})} 9: j 9b"
    assert "operand 'n' from a register: 0 is outside" in fault(text)


CONTENTS = st.one_of(
    st.sampled_from([0, 1, 2, 64, 0x100, 0x1000, (1 << 64) - 1, 1 << 63, (1 << 32) - 1, 0x0001000100010001]),
    st.integers(0, (1 << 64) - 1),
    st.integers(0, 0x3000),
)


@pytest.mark.long
@settings(max_examples=40)
@given(st.data())
def test_no_register_contents_do_harm(data: st.DataObject) -> None:
    """Any operands and opcodes: executed by kernels that do nothing, or dropped with one bit; nothing else
    happens."""
    lines = [f"li t0, {W.ncc}\n li t3, {1 << 49}"]
    for _ in range(10):
        engine = data.draw(st.sampled_from(sorted(OPCODES)))
        packet = PACKETS[engine]
        operands = {
            at: data.draw(CONTENTS) for at in packet.registers if at not in (packet.control, 0x130, 0x140)
        }
        control = data.draw(st.integers(0, 0xFFFFFF)) & ~0xFF | data.draw(
            st.sampled_from(sorted(OPCODES[engine]))
        )
        lines.append(stores(operands | {packet.control: control | 1 << packet.valid_bit}, packet))
        lines.append("ld t1, 0x750(t0)\n addi t4, t1, -1\n and t1, t1, t4\n or s0, s0, t1\n sd t3, 0x770(t0)")
    system = build("_start: " + "\n".join(lines) + "\n ebreak", on_exception="drop")
    system.slots.words[:, 0] = native.compile_kernel(nothing, "nothing", 2)
    before = system.tiles[0].spm.data.copy()
    refusals = r"ebreak|SCALAR has no instruction|sc.* operand 'format' from a register"
    with pytest.raises(Fault, match=refusals):
        system.run()
    assert system.tiles[0].register(8) == 0
    np.testing.assert_array_equal(system.tiles[0].spm.data, before)


# -- write-back registers ----------------------------------------------------------------------------------

POLL = "1: ld s0, 0x130(t0)\n srli t1, s0, 32\n andi t1, t1, 1\n beqz t1, 1b\n ld s1, 0x140(t0)\n"


def returning(worker: int, wait: str) -> list[int]:
    """s0 and s1 after an argmax of 1, 2, 3, 3 on a worker, with 7 left in the registers of the others."""
    fill = "".join(f"td.memset.fp32 dst={4 * k}, value={min(k, 2) + 1}.0, n=1\n" for k in range(4))
    text = f"{fill} ncc.wait\n li t0, {W.ncc + worker * W.ncc_stride}\n"
    text += f"ct.argmax.fp32 src0=0, n=4, worker={worker}\n{wait}"
    tile = run(text).tiles[0]
    return [tile.register(n) for n in (8, 9)]


@pytest.mark.parametrize("worker", range(3))
@pytest.mark.parametrize("polled", [False, True])
def test_returned_values_by_waiting_and_by_polling(worker: int, polled: bool) -> None:
    wait = POLL if polled else f"ncc.wait worker={worker}\n ld s0, 0x130(t0)\n ld s1, 0x140(t0)"
    assert returning(worker, wait) == [1 << 32 | 0x40400000, 1 << 32 | 2]


def test_the_valid_bits_go_when_another_one_is_issued() -> None:
    """A read executes one instruction: two fills are before the second argmax."""
    wait = "ncc.wait\n td.memset.fp32 dst=0, value=9.0, n=1\n td.memset.fp32 dst=0x100, value=9.0, n=1\n"
    again = "ct.argmax.fp32 src0=0, n=4\n ld s0, 0x130(t0)\n ncc.wait\n ld s1, 0x140(t0)"
    assert returning(0, wait + again) == [0, 1 << 32]
