"""Streams: packets that other tiles send, their registers, updates and transport errors."""

from __future__ import annotations

import pytest

from chip_bench import build
from dte_harness import DDR_ADDRESS, EXIT, FOUR, Memories, address, destination, go, loops, only, ran
from emulator.tile.fault import Fault
from stream_programs import (
    BASE,
    CHECK,
    CONFIG,
    COUNT,
    DDR_STREAM,
    DEST_NUM,
    ENABLE,
    FSM,
    LENGTH,
    MODE,
    READY,
    REMOTE,
    SPM_STREAM,
    SRC,
    STATUS,
    UPDATE,
    USER_ID,
    config,
    fsm,
    look,
    pair,
    registers,
    send,
    user_id,
    wait,
)

FINISHED, ERROR = 1, 1 << 8


def word(stream: int, packet: int = 0) -> int:
    return 1 | packet << 4 | stream << 12


def update(tile: int, value: int) -> str:
    base = REMOTE + tile * 0x80_0000 + UPDATE
    return f" li t0, {base:#x}\n li t1, {value:#x}\n sw t1, 0(t0)\n"


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_packet_in_the_spm_becomes_ready_when_it_is_complete(threads: int) -> None:
    s, packet = SPM_STREAM, 2
    ready = fsm({CONFIG + 4 * s: config(48, 3)})
    sender = send(1, 0x800, 32, user_id(s, packet)) + " mv s4, s2\n" + send(1, 0x820, 16, user_id(s, packet))
    load = " li t0, 0x30400800\n lwu s6, 0(t0)\n"
    found = look(READY + 4 * s, COUNT + 4 * (32 * s + packet), STATUS, STATUS + 4)
    text = pair(sender, wait(s, packet) + found + load, ready)
    before = Memories.random(4, "stream")
    first_word = int.from_bytes(before.content[0][0x100:0x104], "little")
    assert registers(text, 1, 5, threads=threads) == [1 << packet, 48, 0, 1 << s - 32, first_word]
    assert registers(text, 0, 3)[::2] == [FINISHED, FINISHED]


def test_half_a_packet_is_counted_and_not_ready() -> None:
    s = SPM_STREAM
    text = pair(
        send(1, 0x800, 32, user_id(s)) + " ncc.barrier tiles=3\n",
        " ncc.barrier tiles=3\n" + look(READY + 4 * s, COUNT + 4 * 32 * s, STATUS + 4),
        fsm({CONFIG + 4 * s: config(48)}),
    )
    assert registers(text, 1, 3) == [0, 32, 0]


def test_a_packet_in_ddr_needs_the_update() -> None:
    """Its bytes are counted, and the word makes it ready."""
    s = DDR_STREAM
    sender = send(1, DDR_ADDRESS, 32, user_id(s, 1)) + " ncc.barrier tiles=3\n" + update(1, word(s, 1))
    receiver = " ncc.barrier tiles=3\n" + look(STATUS) + " mv s5, s2\n" + wait(s, 1)
    receiver += look(READY + 4 * s, COUNT + 4 * (32 * s + 1), STATUS)
    text = pair(sender, receiver, fsm({CONFIG + 4 * s: config(32, 2)}))
    assert registers(text, 1, 4) == [2, 32, 1 << s, 0]


def test_an_update_of_the_own_tile() -> None:
    s = DDR_STREAM
    own = f" li t0, {UPDATE:#x}\n li t1, {word(s, 3):#x}\n sw t1, 0(t0)\n"
    text = only(2, fsm({CONFIG + 4 * s: config(8, 4)}) + own + wait(s, 3) + look(READY + 4 * s))
    assert registers(text, 2, 1) == [8]


@pytest.mark.parametrize("cleared", [0, 1])
def test_counters_are_cleared_by_writing(cleared: int) -> None:
    s = SPM_STREAM
    packet_of = [COUNT + 4 * (32 * s + p) for p in (0, 1)]
    sender = send(1, 0x800, 16, user_id(s, 0)) + send(1, 0x810, 16, user_id(s, 1))
    clear = fsm({READY + 4 * s: 1 << cleared, packet_of[cleared]: 0xFFFFFFFF})
    text = pair(
        sender, wait(s, 1) + clear + look(READY + 4 * s, *packet_of), fsm({CONFIG + 4 * s: config(16, 2)})
    )
    assert registers(text, 1, 3) == [2 >> cleared, 16 * cleared, 16 * (1 - cleared)]


def test_a_broadcast_feeds_a_stream_in_every_destination() -> None:
    s = 33
    registers_of = {**address(SRC, 0x100), LENGTH: 24, MODE: 2, DEST_NUM: 2, USER_ID: user_id(s)}
    for number, tile in enumerate((1, 2, 3)):
        registers_of |= destination(number, 0x800, tile)
        registers_of[USER_ID if number == 0 else 0x148 + 4 * (number - 1)] = user_id(s, number)
    text = f"""_start: csrr s0, mhartid
        {fsm({CONFIG + 4 * s: config(24, 3)})}
        ncc.barrier
        beqz s0, 5f
        li t0, {FSM + READY + 4 * s:#x}
    4:  lw s2, 0(t0)
        beqz s2, 4b
        j 9f
    5:  {go(3, registers_of)}
    {EXIT}"""
    system = ran(text, Memories.random(4, "stream"), FOUR)
    assert [t.register(18) for t in system.tiles] == [1, 1, 2, 4]


def test_registers_after_a_reset_and_read_back() -> None:
    offsets = (CONFIG + 4 * 63, CHECK + 4, BASE + 8 * 63 + 4, BASE)
    assert registers(only(0, look(*offsets)), 0, 4) == [0, 0, 0, 0]
    values = [config(0x80_0000, 32), 0xF0000001, 0xAB, 0xFFFFFFFC]
    text = fsm(dict(zip(offsets, values, strict=True))) + look(*offsets)
    assert registers(only(0, text), 0, 4) == values


# -- transport errors --------------------------------------------------------------------------------------

CHECKED = {CONFIG + 4 * SPM_STREAM: config(48), CHECK + 4: 1 << SPM_STREAM - 32}


@pytest.mark.parametrize(
    ("ready", "sent", "why"),
    [
        ({}, {}, "a stream that is not enabled"),
        ({CONFIG + 4 * SPM_STREAM: 48}, {}, "prepared, and not enabled"),
        ({CONFIG + 4 * 61: config(48)}, {}, "another stream"),
        (
            {CONFIG + 4 * SPM_STREAM: config(48, 2)},
            {"user": user_id(SPM_STREAM, 2)},
            "a packet beyond the last",
        ),
        ({CONFIG + 4 * SPM_STREAM: config(31)}, {}, "more bytes than the packet has"),
        (
            {
                CONFIG + 4 * SPM_STREAM: config(48),
                CHECK + 4: 1 << SPM_STREAM - 32,
                BASE + 8 * SPM_STREAM: 0x801,
            },
            {},
            "below the stream's base address",
        ),
        (
            {
                CONFIG + 4 * SPM_STREAM: config(48),
                CHECK + 4: 1 << SPM_STREAM - 32,
                BASE + 8 * SPM_STREAM: 0x7EF,
            },
            {},
            "beyond the stream's last packet",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_transport_errors(ready: dict[int, int], sent: dict[str, int], why: str) -> None:
    """Nothing arrives, nothing is counted, and the sender's status shows that."""
    text = pair(send(1, 0x800, 32, sent.get("user", user_id(SPM_STREAM))), "", fsm(ready))
    before = Memories.random(4, "stream")
    system = ran(text, before, FOUR)
    assert system.tiles[0].register(18) == FINISHED | ERROR
    assert Memories.of(system) == before
    assert not any(tile.spm.lines.any() for tile in system.tiles)


def test_an_address_inside_the_checked_range_is_accepted() -> None:
    s = SPM_STREAM
    ready = {CONFIG + 4 * s: config(32, 2), CHECK + 4: 1 << s - 32, BASE + 8 * s: 0x7E0}
    for at, status in ((0x7E0, FINISHED), (0x800, FINISHED), (0x801, FINISHED | ERROR)):
        assert registers(pair(send(1, at, 32, user_id(s, 1)), "", fsm(ready)), 0, 1) == [status]


def test_the_base_of_a_stream_in_ddr_is_an_engines_address() -> None:
    s, high = DDR_STREAM, DDR_ADDRESS >> 32
    ready = {CONFIG + 4 * s: config(32), CHECK: 1 << s, BASE + 8 * s + 4: high}
    for low, status in ((DDR_ADDRESS, FINISHED), (DDR_ADDRESS + 1, FINISHED | ERROR)):
        text = pair(send(1, DDR_ADDRESS, 32, user_id(s)), "", fsm(ready | {BASE + 8 * s: low & 0xFFFF_FFFF}))
        assert registers(text, 0, 1) == [status]


def test_an_error_in_one_destination_is_one_of_the_whole_copy() -> None:
    registers_of = {
        **address(SRC, 0x100),
        **destination(0, 0x800, 1),
        **destination(1, 0x900, 2),
        LENGTH: 24,
        MODE: 2,
        DEST_NUM: 1,
        0x148: user_id(40),
    }
    before = Memories.random(4, "stream")
    system = ran(only(0, go(1, registers_of)), before, FOUR)
    assert system.tiles[0].register(18) == FINISHED | ERROR
    assert Memories.of(system) == before


@pytest.mark.parametrize(("length", "status"), [(48, FINISHED), (47, FINISHED | ERROR)])
def test_two_destinations_that_share_a_packet(length: int, status: int) -> None:
    s = SPM_STREAM
    registers_of = {
        **address(SRC, 0x100),
        **destination(0, 0x800, 1),
        **destination(1, 0x900, 1),
        LENGTH: 24,
        MODE: 2,
        DEST_NUM: 1,
        USER_ID: user_id(s),
        0x148: user_id(s),
    }
    text = pair(go(1, registers_of), "", fsm({CONFIG + 4 * s: config(length)}))
    assert registers(text, 0, 1) == [status]


def test_a_strided_destination_is_checked_to_its_end() -> None:
    s = SPM_STREAM
    for base, status in ((0x800, FINISHED), (0x7F8, FINISHED | ERROR)):
        ready = {CONFIG + 4 * s: config(48), CHECK + 4: 1 << s - 32, BASE + 8 * s: base}
        registers_of = {**address(SRC, 0), **destination(0, 0x800, 1), LENGTH: 8, MODE: 3 | 1 << 24}
        registers_of |= {USER_ID: user_id(s), **loops(0x1E0, (40, 2))}
        assert registers(pair(go(1, registers_of), "", fsm(ready)), 0, 1) == [status]


def test_after_an_error_the_channel_works_again() -> None:
    text = send(1, 0x800, 32, user_id(40)) + " li t1, 0x101\n sw t1, 0x40(t0)\n lw s3, 0x40(t0)\n"
    text += " mv s4, s2\n" + send(1, 0x800, 32, 0)
    assert registers(only(0, text), 0, 3) == [FINISHED, 0, FINISHED | ERROR]


# -- what is refused ---------------------------------------------------------------------------------------


def refusal(text: str) -> str:
    with pytest.raises(Fault) as fault:
        ran(only(0, text), Memories.random(4, "stream"), FOUR)
    return str(fault.value)


@pytest.mark.parametrize("value", [ENABLE, config(0x80_0001), 1 << 29 | 5, 1 << 30 | config(5), 0x80_0001])
def test_configurations_that_make_no_sense(value: int) -> None:
    found = refusal(fsm({CONFIG + 4 * 40: value}))
    allowed = "expected a packet length (bits 23:0) of 1..0x800000 and bits 30:29 zero"
    assert found.endswith(f"STREAM_CFG of stream 40: found {value:#x}, {allowed}")


def test_a_count_is_only_cleared() -> None:
    found = refusal(fsm({COUNT + 4 * (32 * 40 + 3): 1}))
    assert found.endswith("PACKET_CNT of stream 40, packet 3: found 0x1, expected all ones, which clear it")


@pytest.mark.parametrize("value", [0, word(3) & ~1, word(3) | 2, word(3) | 1 << 9, word(63) | 1 << 18])
def test_words_that_are_no_update(value: int) -> None:
    found = refusal(update(1, value))
    assert found.endswith(f"packet counter update: found {value:#x}, expected 1 | packet << 4 | stream << 12")


def test_an_update_of_a_tile_that_is_not_there() -> None:
    assert refusal(update(4, word(3))).endswith("packet counter update of tile 4, expected 0..3")


@pytest.mark.parametrize("ready", ["", fsm({CONFIG + 4 * 3: 8}), fsm({CONFIG + 4 * 3: config(8, 2)})])
def test_an_update_of_a_packet_that_is_not_there(ready: str) -> None:
    """The fault names the store, although the update arrives later."""
    with pytest.raises(
        Fault, match=r"tile 0 at 0x800000\w+ \(<text>:\d+\): packet counter update: .* no packet 2"
    ):
        ran(pair(update(1, word(3, 2)), "", ready), Memories.random(4, "stream"), FOUR)


@pytest.mark.parametrize(
    ("base", "access"),
    [
        (FSM, "lw t1, 0(t0)"),
        (FSM + CONFIG, "ld t1, 0(t0)"),
        (FSM + CONFIG, "sb t1, 0(t0)"),
        (FSM + STATUS, "sw t1, 0(t0)"),
        (FSM + COUNT + 4 * 2048, "lw t1, 0(t0)"),
        (FSM + CONFIG, "lw t1, 2(t0)"),
        (UPDATE, "lw t1, 0(t0)"),
        (UPDATE, "sd t1, 0(t0)"),
        (UPDATE, "sw t1, 4(t0)"),
        (REMOTE + FSM + CONFIG, "lw t1, 0(t0)"),
        (REMOTE + FSM + CONFIG, "sw t1, 0(t0)"),
    ],
)
def test_where_there_is_no_register(base: int, access: str) -> None:
    assert "where the kernel core sees no memory" in refusal(f" li t0, {base:#x}\n {access}\n")


def test_a_receiver_that_waits_in_vain_is_named_at_the_limit() -> None:
    text = pair("", wait(SPM_STREAM), fsm({CONFIG + 4 * SPM_STREAM: config(8)}))
    system = build(text, FOUR)
    with pytest.raises(Fault, match=r"tile 1 .* limit given; its last poll was of PACKET_STA of stream 60"):
        system.run(1000)
