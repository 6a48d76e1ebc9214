"""Copies that compiled code records and executes, compared with copies that Python executes one by one.

For an observer that needs the ends of rounds, Python makes every copy (``dte``), which ``test_dte`` compares
with plain bytes.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chip_bench import build, chip
from dte_harness import DDR_ADDRESS, EXIT, FOUR, Memories, address, destination, fill, loops, only, ran
from emulator.chip import sends
from emulator.chip.sends import MOST, Sends, kinds
from emulator.chip.traffic import Traffic
from emulator.engines import tables
from emulator.tile.fault import Fault
from machine_code import needs_jit
from round_programs import outcome
from time_bench import Keep

PLAIN = {
    "dte.unicast": "tile={tile}",
    "dte.broadcast": "tiles={group}",
    "dte.scatter": "tiles={group}",
    "dte.shuffle": "tile={tile}, src_stride0={s0}, src_iter0={i0}, src_stride1={s1}, src_iter1={i1}",
    "dte.gather": "tile={tile}, src_stride0={s0}, src_iter0={i0}, src_stride2={s1}, src_iter2={i1}",
    "dte.unicast2d": "tile={tile}, src_stride0={s0}, src_iter0={i0}",
    "dte.rdma": "tile={tile}, src_stride1={s0}, src_iter1={i0}",
    "dte.wdma": "dst_stride0={s0}, dst_iter0={i0}, dst_stride1={s1}, dst_iter1={i1}",
}


def random_send(rng: random.Random, room: int) -> str:
    """An instruction that sends; with little ``room`` copies overlap each other's reads and writes."""
    name = rng.choice([*PLAIN, "dte.broadcast", "dte.scatter"])
    values = {"tile": rng.randrange(4), "group": rng.randrange(1, 16), "s0": rng.randrange(200)}
    values |= {"i0": rng.randrange(1, 4), "s1": rng.randrange(400), "i1": rng.randrange(1, 3)}
    n = rng.choice([1, 2, 7, 16, 33, 64, 100])
    to_ddr, from_ddr = name == "dte.wdma", name == "dte.rdma" or (name != "dte.wdma" and rng.random() < 0.2)
    target = DDR_ADDRESS + rng.randrange(0x1000) if to_ddr else 0x2000 + rng.randrange(room)
    source = DDR_ADDRESS + 0x2000 + rng.randrange(0x1000) if from_ddr else rng.randrange(room)
    named = PLAIN[name].format(**values)
    return f" li t0, {target:#x}\n li t1, {source:#x}\n {name} dst=t0, src=t1, n={n}, {named}\n"


def schedule(rng: random.Random, room: int) -> str:
    """In every round each tile sends some, and waits for its copies, at a barrier, or for both."""
    text = "_start: csrr s0, mhartid\n"
    for number in range(4):
        for tile in range(4):
            text += f" li t2, {tile}\n bne s0, t2, {20 + 4 * number + tile}f\n"
            text += "".join(random_send(rng, room) for _ in range(rng.randrange(3)))
            text += " dte.wait\n" if rng.random() < 0.7 else ""
            text += f"{20 + 4 * number + tile}:\n"
        text += " ncc.barrier\n" if rng.random() < 0.8 else ""
    return text + EXIT


@settings(max_examples=20)
@given(st.integers(0, 1 << 30), st.sampled_from([0x40, 0x1000, 0x1E00]), st.integers(1, 4))
def test_any_sends_as_with_an_observer(seed: int, room: int, threads: int) -> None:
    rng = random.Random(seed)
    text, before = schedule(rng, room), Memories.random(4, seed)
    watched, found = Keep(), Keep()
    wanted = ran(text, before, FOUR, observed=True, sinks=[watched])
    for options in ({}, {"sinks": [found]}):
        compiled = ran(text, before, FOUR, threads=threads, **options)
        assert outcome(compiled) == outcome(wanted)
        assert Memories.of(compiled) == Memories.of(wanted)
    assert found.ends == watched.ends
    assert found.slices.tobytes() == watched.slices.tobytes()
    assert found.ranges.tobytes() == watched.ranges.tobytes()
    assert found.fields.tobytes() == watched.fields.tobytes()


def made_by_python(monkeypatch: pytest.MonkeyPatch, text: str, **options: Any) -> int:
    """Count the copies of a program that Python executes."""
    made, carry_out = [], Traffic._carry_out

    def count(traffic: Traffic, *work: Any) -> None:
        made.append(0)
        carry_out(traffic, *work)

    monkeypatch.setattr(Traffic, "_carry_out", count)
    ran(text, Memories.random(4, 0), FOUR, **options)
    return len(made)


def repeated(send: str, times: int = 50) -> str:
    """Every tile sends the same data repeatedly; t1 has the next tile's number."""
    return f"""_start: csrr s0, mhartid
        addi t1, s0, 1
        andi t1, t1, 3
        li s1, {times}
     1: {send}
        dte.wait
        ncc.barrier
        addi s1, s1, -1
        bnez s1, 1b
    {EXIT}"""


@needs_jit
@pytest.mark.parametrize("threads", [1, 3])
def test_copies_that_are_apart_need_no_python(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    text = repeated("dte.broadcast dst=0x1000, src=0, tiles=0xf, n=0x900")
    assert made_by_python(monkeypatch, text, threads=threads) == 0
    text = repeated("dte.gather dst=0x100, src=0x3000, tile=t1, n=16, src_stride0=32, src_iter0=4")
    assert made_by_python(monkeypatch, text, threads=threads) == 0
    place = f"li t3, {DDR_ADDRESS + 0x1000:#x}\n slli t4, s0, 8\n add t3, t3, t4\n li t4, {DDR_ADDRESS:#x}\n"
    text = repeated(place + "dte.unicast dst=t3, src=t4, tile=t1, n=256")  # within DDR, adjacent
    assert made_by_python(monkeypatch, text, threads=threads) == 0


@needs_jit
@pytest.mark.parametrize(
    "send",
    [
        "dte.unicast dst=0x40, src=0x20, tile=t1, n=0x21",  # the last byte read is written
        "dte.unicast dst=0x20, src=0x40, tile=t1, n=0x21",
        "dte.gather dst=0x4f, src=0, tile=t1, n=16, src_stride0=32, src_iter0=3",  # in the last piece
        f"li t3, {DDR_ADDRESS:#x}\n dte.unicast dst=t3, src=0, tile=t1, n=4",  # all to one place of DDR
        f"li t3, {DDR_ADDRESS:#x}\n add t4, t3, s0\n dte.unicast dst=t4, src=t3, tile=t1, n=1",  # read by all
    ],
)
def test_python_makes_copies_whose_order_counts(monkeypatch: pytest.MonkeyPatch, send: str) -> None:
    assert made_by_python(monkeypatch, repeated(send, 5)) == 20


@needs_jit
def test_a_scatter_reads_one_piece_for_each_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    assert made_by_python(monkeypatch, repeated("dte.scatter dst=0x40, src=0, tiles=0xf, n=16", 5)) == 0
    assert made_by_python(monkeypatch, repeated("dte.scatter dst=0x3f, src=0, tiles=0xf, n=16", 5)) == 20


@needs_jit
@pytest.mark.parametrize(
    ("target", "python"), [(0x1000, 0), (0x1FF0, 0), (0x1FF1, 10), (0x1F, 10), (0x20, 0)]
)
def test_between_what_two_copies_read(monkeypatch: pytest.MonkeyPatch, target: int, python: int) -> None:
    """The copies of a tile read bytes 0x10 to 0x1f and from 0x2000; arriving data are between them."""
    low, high = (f"dte.unicast dst={target:#x}, src={source}, tile=t1, n=16" for source in (0x10, 0x2000))
    assert made_by_python(monkeypatch, repeated(f"{low}\n{high}", 5)) == 4 * python


@needs_jit
def test_python_makes_copies_for_observers(monkeypatch: pytest.MonkeyPatch) -> None:
    text = repeated("dte.unicast dst=0x100, src=0, tile=t1, n=16")
    assert made_by_python(monkeypatch, text, observed=True) == 200


@needs_jit
def test_simulated_time_needs_no_python_for_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    text = repeated("dte.unicast dst=0x100, src=0, tile=t1, n=16")
    assert made_by_python(monkeypatch, text, timed=True) == 0


def test_more_copies_than_there_is_room_for() -> None:
    """Later copies overwrite earlier ones."""
    one = "".join(
        f" li t0, {0x1000 + 8 * (i % 5)}\n dte.unicast dst=t0, src={4 * i}, tile=2, n=12\n" for i in range(90)
    )
    text, before = only(1, one + " dte.wait\n"), Memories.random(4, 0)
    assert 2 * MOST < 90
    compiled, watched = ran(text, before, FOUR), ran(text, before, FOUR, observed=True)
    assert outcome(compiled) == outcome(watched)
    content = Memories.of(compiled).content
    assert content[2][0x1020:0x102C] == before.content[1][4 * 89 : 4 * 89 + 12]


def test_instructions_and_registers_in_one_round_keep_their_order() -> None:
    """Four copies to one place, the second one by registers; only the last one remains, with its marks."""
    registers = fill(1, {**address(0, 0x20), **destination(0, 0x1000, 3), 0x18: 24} | loops(0x20))
    start = " li t1, 1\n sw t1, 0x38(t0)\n"
    for last in range(4):
        sent = [f" dte.unicast dst=0x1000, src={0x100 * (i + 1)}, tile=3, n=24\n" for i in range(3)]
        sent.insert(last, registers + start)
        text, before = only(0, "".join(sent) + " dte.wait\n"), Memories.random(4, last)
        source = 0x20 if last == 3 else 0x300
        found = ran(text, before, FOUR)
        assert Memories.of(found).content[3][0x1000:0x1018] == before.content[0][source : source + 24]
        assert outcome(found) == outcome(ran(text, before, FOUR, observed=True))


def test_a_tile_that_waits_for_nothing_goes_on() -> None:
    text = "_start: csrr s0, mhartid\n dte.wait\n dte.wait\n addi s2, s0, 5\n" + EXIT
    assert [tile.register(18) for tile in ran(text, Memories.random(4, 0), FOUR).tiles] == [5, 6, 7, 8]


def test_tiles_whose_set_is_no_positive_word() -> None:
    """Tile 63 and its neighbours send each other."""
    machine = chip(64, 0x4000)
    text = f"""_start: csrr s0, mhartid
        addi t1, s0, 1
        andi t1, t1, 63
        dte.unicast dst=0x1000, src=0x10, tile=t1, n=32
        dte.unicast dst=0x2000, src=0x10, tile=s0, n=32
        dte.wait
    {EXIT}"""
    before = Memories.random(64, 0)
    after = Memories.of(ran(text, before, machine, threads=2)).content
    for tile in range(64):
        assert after[(tile + 1) % 64][0x1000:0x1020] == before.content[tile][0x10:0x30]
        assert after[tile][0x2000:0x2020] == before.content[tile][0x10:0x30]


@pytest.mark.parametrize(
    ("send", "message"),
    [
        ("li t2, 70\n dte.unicast dst=0, src=0, tile=t2, n=4", "'tile' = 70, expected 0..3"),
        (
            "li t2, 17\n dte.broadcast dst=0, src=0, tiles=t2, n=4",
            "'tiles' = 0x11, expected a set inside 0xf",
        ),
        ("dte.unicast dst=0x3ffe, src=0, tile=t1, n=4", "'dst' writes 4 bytes from 0x3ffe"),
        ("li t2, 0\n dte.unicast dst=0, src=0, tile=t1, n=t2", "operand 'n' from a register: 0 is outside"),
    ],
)
def test_what_is_refused_after_good_copies(send: str, message: str) -> None:
    text = repeated(f"dte.unicast dst=0x100, src=0, tile=t1, n=4\n {send}")
    for options in ({}, {"threads": 2}, {"timed": True}):
        with pytest.raises(Fault, match=message):
            ran(text, Memories.random(4, 0), FOUR, **options)


def test_the_notes_of_a_fault_are_not_made() -> None:
    """The round never ends, so copies that were started in it stay undone, as in Python."""
    text = only(2, " dte.unicast dst=0x1000, src=0, tile=1, n=4\n ebreak\n")
    before, systems = Memories.random(4, 0), []
    for options in ({}, {"timed": True}):
        system = build(text, FOUR, **options)
        before.into(system)
        with pytest.raises(Fault, match="ebreak"):
            system.run()
        systems.append(system)
    assert Memories.of(systems[0]) == Memories.of(systems[1]) == before


def test_copies_that_were_taken_are_gone() -> None:
    notes = Sends(2)
    log = notes.logs[1]
    log[sends.COUNT] = 2
    log[sends.HEAD :].reshape(MOST, sends.ENTRY)[0, : sends.ENTRY] = [
        8,
        8,
        8,
        16,
        16,
        16,
        8,
        1,
        1,
        1,
        5,
        0,
        8,
        0x40,
        0b101,
        8,
        0,
    ]
    first = notes.take(1)[0]
    assert [source.start for source in first.sources] == [5, 13]
    assert [target.tile for target in first.targets] == [0, 2]
    assert notes.take(1) == [] and log[sends.ROOM] == 0
    notes.begin()
    assert log[sends.ROOM] == MOST


def test_every_send_of_the_architecture_has_a_kind() -> None:
    first, words = kinds()
    rows = [words[i : i + sends.KIND] for i in range(0, len(words), sends.KIND)]
    assert len(rows) == len(PLAIN) and all(row[sends.K_BYTES] for row in rows)
    assert sum(row[sends.K_SCATTER] for row in rows) == 1
    assert first == min(tables.numbers()[name] for name in PLAIN)
