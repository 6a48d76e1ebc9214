"""DTE copies: each mode against loops over single bytes, as instructions and through the registers."""

from __future__ import annotations

import copy
import random
import re
from typing import NamedTuple

import numpy as np
import pytest

from chip_bench import ONE, TX81, W, build
from dte_harness import DDR_ADDRESS, EXIT, FOUR, Memories, address, destination, fill, go, loops, only, ran
from emulator.chip.system import System
from emulator.tile.fault import Fault
from tx8isa.insns.move import dte as dte_records

SENDER = 1
SRC, USER_ID, MODE, LENGTH, DEST_NUM = 0x000, 0x010, 0x014, 0x018, 0x01C
SRC_LOOPS, CMD_VALID, DST_LOOPS = 0x020, 0x038, 0x1E0
UNICAST, SCATTER, BROADCAST, SHUFFLE = range(4)
SG, DIM, OUT_SLICE = 1 << 8, 1 << 16, 1 << 24
PMU = W.dte + 0x800
Bytes = list[tuple[tuple[int, int], tuple[int, int]]]


class Case(NamedTuple):
    """A copy in its two forms, and which byte goes where: pairs of (memory, offset)."""

    instruction: str
    registers: dict[int, int]
    moved: Bytes


def nested(levels: list[tuple[int, int]]) -> list[int]:
    """Offsets of a loop nest, level 0 innermost."""
    (s0, i0), (s1, i1), (s2, i2) = levels + [(0, 1)] * (3 - len(levels))
    return [a * s0 + b * s1 + c * s2 for c in range(i2) for b in range(i1) for a in range(i0)]


def side(in_ddr: bool, at: int) -> tuple[int, int]:
    """(address in operands, offset in the memory that tests compare)."""
    return (DDR_ADDRESS + at, at) if in_ddr else (at, at)


def unicast(n: int, from_ddr: bool = False, to_ddr: bool = False, tile: int = 2) -> Case:
    (src, a), (dst, b) = side(from_ddr, 0x101), side(to_ddr, 0x1203)
    text = f"dte.unicast dst={dst}, src={src}, tile={tile}, n={n}"
    registers = {**address(SRC, src), **destination(0, dst, tile), LENGTH: n, MODE: UNICAST}
    source, target = -1 if from_ddr else SENDER, -1 if to_ddr else tile
    return Case(text, registers, [((source, a + i), (target, b + i)) for i in range(n)])


def to_many(kind: int, tiles: list[int], n: int, from_ddr: bool = False) -> Case:
    src, a = side(from_ddr, 0x80)
    name, members = ("scatter", "broadcast")[kind - 1], sum(1 << tile for tile in tiles)
    text = f"dte.{name} dst=0x2000, src={src}, tiles={members:#x}, n={n}"
    registers = {**address(SRC, src), LENGTH: n, MODE: kind, DEST_NUM: len(tiles) - 1}
    moved: Bytes = []
    for number, tile in enumerate(tiles):
        registers |= destination(number, 0x2000, tile)
        piece = a + number * n * (kind == SCATTER)
        moved += [((-1 if from_ddr else SENDER, piece + i), (tile, 0x2000 + i)) for i in range(n)]
    return Case(text, registers, moved)


def strided(
    name: str,
    n: int,
    levels: list[tuple[int, int]],
    from_ddr: bool = False,
    to_ddr: bool = False,
    tile: int = 3,
    at: tuple[int, int] = (0x40, 0x2000),
) -> Case:
    """Shuffle and its like: strided source, consecutive target."""
    (src, a), (dst, b) = side(from_ddr, at[0]), side(to_ddr, at[1])
    operands = "".join(f", src_stride{i}={s}, src_iter{i}={t}" for i, (s, t) in enumerate(levels))
    text = f"dte.{name} dst={dst}, src={src}, tile={tile}, n={n}{operands}"
    mode = {"shuffle": SHUFFLE, "rdma": SHUFFLE, "gather": UNICAST | SG, "unicast2d": UNICAST | DIM}[name]
    registers = {**address(SRC, src), **destination(0, dst, tile), LENGTH: n, MODE: mode}
    registers |= loops(SRC_LOOPS, *levels)
    source, target = -1 if from_ddr else SENDER, -1 if to_ddr else tile
    bytes_read = [a + piece + i for piece in nested(levels) for i in range(n)]
    return Case(text, registers, [((source, x), (target, b + i)) for i, x in enumerate(bytes_read)])


def wdma(n: int, levels: list[tuple[int, int]]) -> Case:
    operands = "".join(f", dst_stride{i}={s}, dst_iter{i}={t}" for i, (s, t) in enumerate(levels))
    text = f"dte.wdma dst={DDR_ADDRESS + 0x30}, src=0x40, n={n}{operands}"
    registers = {**address(SRC, 0x40), **destination(0, DDR_ADDRESS + 0x30, SENDER), LENGTH: n}
    registers |= {MODE: SHUFFLE | OUT_SLICE, **loops(DST_LOOPS, *levels)}
    written = [0x30 + piece + i for piece in nested(levels) for i in range(n)]
    return Case(text, registers, [((SENDER, 0x40 + i), (-1, x)) for i, x in enumerate(written)])


FAN_OUT = {2: [0, 5], 4: [2, 3, 9, 15], 8: list(range(2, 10)), 15: [t for t in range(16) if t != SENDER]}
CASES = {
    "unicast": unicast(256),
    "unicast-1": unicast(1),
    "unicast-to-itself": unicast(300, tile=SENDER),
    "unicast-from-ddr": unicast(77, from_ddr=True),
    "unicast-to-ddr": unicast(77, to_ddr=True),
    "unicast-ddr-to-ddr": unicast(777, True, True),
    **{f"scatter-{k}": to_many(SCATTER, tiles, 256) for k, tiles in FAN_OUT.items()},
    "scatter-from-ddr": to_many(SCATTER, FAN_OUT[4], 33, from_ddr=True),
    "scatter-1": to_many(SCATTER, [7], 5),
    **{f"broadcast-{k}": to_many(BROADCAST, tiles, 256) for k, tiles in FAN_OUT.items()},
    "broadcast-from-ddr": to_many(BROADCAST, FAN_OUT[4], 33, from_ddr=True),
    "broadcast-to-itself-too": to_many(BROADCAST, [0, SENDER, 2], 100),
    **{f"shuffle-{k}": strided("shuffle", 128, [(256, k)]) for k in (2, 4, 8, 15)},
    **{f"gather-{k}": strided("gather", 128, [(256, k)]) for k in (2, 15)},
    "shuffle-3": strided("shuffle", 5, [(7, 3), (64, 4), (501, 5)]),
    "shuffle-ddr-to-ddr": strided("shuffle", 64, [(100, 3), (1000, 4)], True, True),
    "shuffle-repeats": strided("shuffle", 2, [(0, 8), (6, 3), (0, 2)]),
    "shuffle-one-piece": strided("shuffle", 9, []),
    "gather-3": strided("gather", 4, [(8, 3), (64, 4), (512, 5)]),
    "unicast2d": strided("unicast2d", 100, [(130, 9)]),
    "rdma": strided("rdma", 16, [(32, 4), (256, 2), (1024, 3)], from_ddr=True),
    "wdma": wdma(16, [(32, 4), (256, 2), (1024, 3)]),
    "wdma-last-stays": wdma(8, [(3, 5), (0, 2)]),
}


@pytest.mark.parametrize("name", CASES)
def test_bytes_of_each_mode_in_both_forms(name: str) -> None:
    case, before = CASES[name], Memories.random(16, name)
    expected = copy.deepcopy(before)
    expected.copy(case.moved)
    texts = case.instruction + "\n dte.wait\n", go(2, case.registers)
    systems = [ran(only(SENDER, text), before) for text in texts]
    for system in systems:
        assert Memories.of(system) == expected
    assert systems[1].tiles[SENDER].register(18) == 1
    for tile in range(16):
        written = {at >> 8 for _, (memory, at) in case.moved if memory == tile}
        for system in systems:
            assert set(np.flatnonzero(system.tiles[tile].spm.lines)) == written


@pytest.mark.parametrize("seed", range(12))
def test_random_nests(seed: int) -> None:
    """Any strides, also overlapping pieces and a target inside the source: everything is read first."""
    rng = random.Random(seed)
    levels = [(rng.randrange(0, 200), rng.randrange(1, 5)) for _ in range(rng.randrange(4))]
    n = rng.choice([1, 2, 4, 8, 63, 64, 65])
    if seed % 3 == 2:
        case = wdma(n, levels)
    else:
        places = rng.randrange(0x1000), rng.randrange(0x1000)
        case = strided(rng.choice(["shuffle", "gather"]), n, levels, tile=SENDER, at=places)
    before = Memories.random(16, seed)
    expected = copy.deepcopy(before)
    expected.copy(case.moved)
    for text in (case.instruction + "\n dte.wait\n", go(1 + seed % 3, case.registers)):
        assert Memories.of(ran(only(SENDER, text), before)) == expected


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_fan_in_of_four(threads: int) -> None:
    """Four tiles each send their slice to tile 5."""
    text = """_start: csrr s0, mhartid
        li t0, 4
        bge s0, t0, 9f
        slli t1, s0, 7
        li t2, 0x3000
        add t2, t2, t1
        dte.unicast dst=t2, src=0x100, tile=5, n=128
        dte.wait
    """
    before = Memories.random(16, "fan-in")
    expected = copy.deepcopy(before)
    expected.copy([((t, 0x100 + i), (5, 0x3000 + 128 * t + i)) for t in range(4) for i in range(128)])
    assert Memories.of(ran(text + EXIT, before, threads=threads)) == expected


def test_all_to_all_does_not_depend_on_threads() -> None:
    """Each tile scatters 16 pieces, and tile t finds piece t of every tile, whoever ran when."""
    text = """_start: csrr s0, mhartid
        slli t1, s0, 6
        li t2, 0x2000
        add t2, t2, t1
        dte.scatter dst=t2, src=0x400, tiles=0xffff, n=64
        dte.wait
        ncc.barrier
    """
    before = Memories.random(16, "all-to-all")
    expected = copy.deepcopy(before)
    pairs = [
        ((s, 0x400 + 64 * t + i), (t, 0x2000 + 64 * s + i))
        for s in range(16)
        for t in range(16)
        for i in range(64)
    ]
    expected.copy(pairs)
    systems = [ran(text + EXIT, before, threads=threads) for threads in (1, 2, 4)]
    for system in systems:
        assert Memories.of(system) == expected
        assert [t.retired for t in system.tiles] == [t.retired for t in systems[0].tiles]
        assert all((a.counts == b.counts).all() for a, b in zip(system.tiles, systems[0].tiles, strict=True))


# -- the registers -----------------------------------------------------------------------------------------


def test_thirty_two_destinations_with_addresses_of_their_own() -> None:
    """Every destination register, on four tiles; the last two go to DDR."""
    before = Memories.random(4, "destinations")
    registers = {**address(SRC, 0x20), LENGTH: 24, MODE: SCATTER, DEST_NUM: 31}
    moved: Bytes = []
    for number in range(32):
        in_ddr, tile, at = number >= 30, number % 4, 0x1000 + 32 * number
        registers |= destination(number, (DDR_ADDRESS if in_ddr else 0) + at, tile)
        moved += [((3, 0x20 + 24 * number + i), (-1 if in_ddr else tile, at + i)) for i in range(24)]
    expected = copy.deepcopy(before)
    expected.copy(moved)
    assert Memories.of(ran(only(3, go(3, registers)), before, FOUR)) == expected


def test_out_slice_to_another_tile_s_spm() -> None:
    before = Memories.random(4, "out_slice")
    registers = {**address(SRC, 0x20), **destination(0, 0x800, 2), LENGTH: 10, MODE: SHUFFLE | OUT_SLICE}
    registers |= loops(SRC_LOOPS, (999, 77)) | loops(DST_LOOPS, (300, 3))
    expected = copy.deepcopy(before)
    expected.copy([((0, 0x20 + 10 * p + i), (2, 0x800 + 300 * p + i)) for p in range(3) for i in range(10)])
    assert Memories.of(ran(only(0, go(1, registers)), before, FOUR)) == expected


def test_strides_without_their_mode_mean_nothing() -> None:
    """A unicast with sg_flag and without strides is a linear one, and stale strides do not affect others."""
    for mode, stale in ((SG, ()), (0, ((5, 9),)), (BROADCAST | SG, ((5, 9),)), (SCATTER | SG, ((5, 9),))):
        before = Memories.random(4, mode)
        registers = {**address(SRC, 0x20), **destination(0, 0x800, 2), LENGTH: 50, MODE: mode | 1 << 4}
        expected = copy.deepcopy(before)
        expected.copy([((0, 0x20 + i), (2, 0x800 + i)) for i in range(50)])
        text = go(1, registers | loops(SRC_LOOPS, *stale))
        assert Memories.of(ran(only(0, text), before, FOUR)) == expected


def test_three_channels_are_independent() -> None:
    """Both are started together; each has separate data and status."""
    blocks = {b: {**address(SRC, 0x100 * b), **destination(0, 0x900, b), LENGTH: 64} for b in (1, 2, 3)}
    start = "".join(fill(b, blocks[b] | {CMD_VALID: 1}) for b in blocks)
    look = f" li t0, {W.dte}\n lw s1, 0x240(t0)\n lw s2, 0x440(t0)\n lw s3, 0x640(t0)\n"
    clear = " li t1, 1\n sw t1, 0x440(t0)\n lw s4, 0x440(t0)\n lw s5, 0x240(t0)\n"
    before = Memories.random(4, "channels")
    expected = copy.deepcopy(before)
    expected.copy([((0, 0x100 * b + i), (b, 0x900 + i)) for b in blocks for i in range(64)])
    system = ran(only(0, start + look + clear), before, FOUR)
    assert Memories.of(system) == expected
    assert [system.tiles[0].register(n) for n in (9, 18, 19, 20, 21)] == [0, 1, 1, 0, 1]


def test_wait_instruction_covers_the_registers_too() -> None:
    registers = {**address(SRC, 0), **destination(0, 0x40, 0), LENGTH: 64, CMD_VALID: 1}
    text = fill(2, registers) + " dte.wait\n lw s2, 0x40(t0)\n"
    assert ran(only(0, text), Memories.random(4, 0), FOUR).tiles[0].register(18) == 1


def test_polling_gives_the_round_to_others() -> None:
    """There is no busy loop: the first poll says busy, the next one finished."""
    registers = {**address(SRC, 0), **destination(0, 0x40, 1), LENGTH: 64}
    system = ran(only(0, go(1, registers)), Memories.random(4, 0), FOUR)
    assert system.tiles[0].retired < 60


def test_registers_after_a_reset_and_read_back() -> None:
    offsets = [0x00, 0x1C, 0x24, 0x38, 0x40, 0x1C0, 0x1D4, 0x1D8, 0x1DC, 0x1F4]
    loads = "".join(f" lw s{2 + i}, {at:#x}(t0)\n" for i, at in enumerate(offsets))
    tile = ran(only(0, fill(1, {}) + loads), Memories.random(4, 0), FOUR).tiles[0]
    assert [tile.register(18 + i) for i in range(10)] == [0, 0, 0, 0, 0, 0, 0x1010, 1, 0, 0]
    values = [0x89ABCDEF, 31, 9, 0, 0, 0xFFFF, 0x2020, 7, 0, 0xFFFFFFFF]
    stores = {at: value for at, value in zip(offsets, values, strict=True) if at != 0x40}
    tile = ran(only(0, fill(1, stores) + loads), Memories.random(4, 0), FOUR).tiles[0]
    assert [tile.register(18 + i) & 0xFFFFFFFF for i in range(10)] == values


# -- what is refused ---------------------------------------------------------------------------------------

GOOD = {**address(SRC, 0x100), **destination(0, 0x200, 1), LENGTH: 16, MODE: UNICAST}
OUTSIDE_SPM = r"outside the SPM \(0x0\.\.0x3fff\)"


def refusal(text: str, machine: object = FOUR, **options: object) -> str:
    """Return the fault of a program that has moved nothing."""
    before = Memories.random(4, "refused")
    system: System = build(only(0, text), machine, **options)  # type: ignore[arg-type]
    before.into(system)
    with pytest.raises(Fault) as fault:
        system.run()
    assert Memories.of(system) == before
    message = str(fault.value)
    assert message.startswith("tile 0 at 0x800000") and "\n" not in message
    return message


@pytest.mark.parametrize(
    ("registers", "message"),
    [
        ({LENGTH: 0}, "length: found 0, expected at least 1"),
        ({SRC: 0x3FF1}, f"src reads 16 bytes from 0x3ff1, {OUTSIDE_SPM}"),
        ({0x008: 0x3FF1}, f"dst 0 writes 16 bytes from 0x3ff1, {OUTSIDE_SPM}"),
        ({LENGTH: 0xFFFFFFFF}, "src reads 4294967295 bytes from 0x100, outside the SPM"),
        (destination(0, 0x200, 4), r"dst 0: tile 4, expected 0\.\.3"),
        (destination(0, 0x200, 0xFFFF), r"dst 0: tile 65535, expected 0\.\.3"),
        (destination(0, 1 << 39 | 0x200, 1), "dst 0: 0x18000000200 is on another card"),
        (address(SRC, W.ddr_engine - 8), "src reads 16 bytes from 0x27ffffff8, outside the SPM"),
        (
            address(SRC, W.ddr_engine + TX81.ddr.bytes - 8),
            r"src reads 16 bytes from 0x127ffffff8, outside DDR \(0x280000000\.\.0x127fffffff\)",
        ),
        (address(SRC, W.ddr_cached), ".*it is a kernel-core address"),
        ({MODE: SCATTER | DIM}, r"dim_flag is for mode 0 \(unicast\)"),
        ({MODE: SHUFFLE | DIM}, r"dim_flag is for mode 0 \(unicast\)"),
        ({MODE: UNICAST | OUT_SLICE}, r"out_slice is for mode 3 \(shuffle\)"),
        ({MODE: BROADCAST | OUT_SLICE}, r"out_slice is for mode 3 \(shuffle\)"),
        ({DEST_NUM: 1}, r"dest_num: found 1, expected 0 \(one destination\) in mode 0"),
        ({DEST_NUM: 31, MODE: SHUFFLE}, "dest_num: found 31, expected 0"),
        ({MODE: SCATTER, DEST_NUM: 1, **destination(1, 0x3FF8, 2)}, "dst 1 writes 16 bytes from 0x3ff8"),
        ({MODE: BROADCAST, DEST_NUM: 1, **destination(1, 0, 9)}, r"dst 1: tile 9, expected 0\.\.3"),
        ({MODE: SCATTER, DEST_NUM: 1, SRC: 0x3FE8}, "src reads 32 bytes from 0x3fe8"),
        (
            {MODE: SHUFFLE, **loops(SRC_LOOPS, (0x1000, 4), (0xF00, 2))},
            "src reads 16144 bytes from 0x100, outside the SPM",
        ),
        ({MODE: SHUFFLE, **loops(SRC_LOOPS, (0, 1020))}, "dst 0 writes 16320 bytes from 0x200"),
        (
            {MODE: SHUFFLE, **loops(SRC_LOOPS, (0, 1 << 32), (0, 1 << 32), (0, 1 << 32))},
            f"dst 0 writes {1 << 100} bytes from 0x200",
        ),
        ({MODE: UNICAST | DIM, **loops(SRC_LOOPS, (0xFFFFFFFF, 2))}, "src reads 4294967311 bytes"),
        ({MODE: SHUFFLE | OUT_SLICE, **loops(DST_LOOPS, (0x3E00, 2))}, "dst 0 writes 15888 bytes from 0x200"),
        ({MODE: SHUFFLE | OUT_SLICE, **loops(DST_LOOPS, (0, 0x400))}, "src reads 16384 bytes from 0x100"),
    ],
)
def test_copies_that_are_not_started(registers: dict[int, int], message: str) -> None:
    assert re.search(f"DTE block 1: {message}", refusal(fill(1, GOOD | registers | {CMD_VALID: 1})))


def test_a_block_that_is_busy() -> None:
    found = refusal(fill(1, GOOD | {CMD_VALID: 1}) + " sw t1, 0x38(t0)\n")
    assert found.endswith("DTE block 1: cmd_valid while a copy is busy: wait for bit 0 of dma_status")


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (MODE, 1 << 2, "register 'mode': found 0x4, expected no bits beyond 0x1010113"),
        (MODE, 1 << 31, "register 'mode': found 0x80000000"),
        (DEST_NUM, 32, "register 'dest_num': found 0x20, expected no bits beyond 0x1f"),
        (0x004, 0x100, "register 'src high': found 0x100, expected no bits beyond 0xff"),
        (0x0DC, 1 << 24, "register 'dst 18 high': found 0x1000000"),
        (USER_ID, 1 << 16, "register 'user_id 0': found 0x10000"),
        (0x1C0, 1 << 16, "register 'user_id 31': found 0x10000"),
        (0x1DC, 1, "register 'mem_read_turbo': found 0x1"),
        (0x038, 2, "register 'cmd_valid': found 0x2"),
    ],
)
def test_bits_that_a_register_does_not_have(at: int, value: int, message: str) -> None:
    assert message in refusal(fill(3, {at: value}))


@pytest.mark.parametrize("access", ["lw t1, 0x40(t0)", "sw t1, 0(t0)", "sw t1, 0x38(t0)"])
def test_block_zero_is_not_for_programs(access: str) -> None:
    found = refusal(fill(0, {}) + f" {access}\n")
    assert found.endswith("DTE block 0 belongs to the special core; programs use blocks 1..3")


@pytest.mark.parametrize(
    "access",
    [
        "ld t1, 0(t0)",
        "sd t1, 0x18(t0)",
        "lh t1, 0x14(t0)",
        "sb t1, 0x14(t0)",
        "lw t1, 2(t0)",
        "lw t1, 0x3c(t0)",
        "sw t1, 0x44(t0)",
        "lw t1, 0x1c4(t0)",
        "sw t1, 0x1f8(t0)",
    ],
)
def test_where_there_is_no_register(access: str) -> None:
    assert "where the kernel core sees no memory" in refusal(fill(1, {}) + f" {access}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dte.scatter dst=0, src=0, tiles=0x10, n=1", "operand 'tiles' = 0x10, expected a set inside 0xf"),
        ("li t1, 0x80000001\n dte.broadcast dst=0, src=0, tiles=t1, n=1", "operand 'tiles' = 0x80000001"),
        ("dte.scatter dst=0, src=0x3f00, tiles=3, n=0x90", "'src' reads 288 bytes from 0x3f00, outside the"),
        ("dte.broadcast dst=0x3f00, src=0, tiles=3, n=0x101", "'dst' writes 257 bytes from 0x3f00"),
        ("li t1, 0\n dte.broadcast dst=0, src=0, tiles=t1, n=1", "'tiles' from a register: 0 is outside"),
        ("dte.shuffle dst=0, src=0, tile=4, n=1", "operand 'tile' = 4, expected 0..3"),
        ("dte.shuffle dst=0, src=0, tile=0, n=16, src_stride0=0x3ff1, src_iter0=2", "reads 16385 bytes"),
        ("dte.gather dst=0x3f00, src=0, tile=0, n=16, src_iter0=4, src_iter1=5", "'dst' writes 320 bytes"),
        ("li t1, 0\n dte.shuffle dst=0, src=0, tile=0, n=t1", "operand 'n' from a register: 0 is outside"),
        (
            "li t1, 0xffffff\n dte.shuffle dst=0, src=0, tile=0, n=2, "
            "src_iter0=t1, src_iter1=t1, src_iter2=t1",
            "must be at most 2**32",
        ),
        ("li t1, 0x1000000\n dte.gather dst=0, src=0, tile=0, n=2, src_iter0=t1", "is outside 1..16777215"),
        ("dte.unicast2d dst=0, src=0, tile=0, n=4, src_stride0=0x3ffd, src_iter0=2", "reads 16385 bytes"),
        ("dte.unicast2d dst=0, src=0, tile=0, n=4, src_iter0=0x1001", "'dst' writes 16388 bytes"),
        ("li t1, 0\n dte.rdma dst=0, src=t1, tile=0, n=4", "'src' reads 4 bytes from 0x0, outside DDR"),
        ("li t1, 0x280000000\n dte.rdma dst=t1, src=t1, tile=0, n=4", "'dst' writes 4 bytes from 0x28000000"),
        ("li t1, 0\n dte.wdma dst=t1, src=0, n=4", "'dst' writes 4 bytes from 0x0, outside DDR"),
        ("dte.wdma dst=0x280000000, src=0, n=4, dst_iter0=0x1001", "'src' reads 16388 bytes"),
        ("li t1, 0x8000000000\n dte.unicast dst=t1, src=0, tile=0, n=4", "bit 39 means another card"),
    ],
)
def test_instructions_that_are_not_started(text: str, message: str) -> None:
    assert message in refusal(f" {text}\n")


def test_a_poll_that_never_ends_is_named_at_the_limit() -> None:
    with pytest.raises(
        Fault, match="200 instructions, the limit given; its last poll was of dma_status of DTE block 2"
    ):
        build(only(0, fill(2, {}) + "1: lw t1, 0x40(t0)\n beqz t1, 1b\n"), ONE).run(200)


def test_extents_of_the_records() -> None:
    rng = random.Random(5)
    for _ in range(50):
        n, stride, trips = rng.randrange(1, 99), rng.randrange(99), rng.randrange(1, 9)
        tiles = rng.getrandbits(32)
        touched = {k * stride + i for k in range(trips) for i in range(n)}
        assert dte_records.rows_span(8, n, stride, trips) == max(touched) + 1
        assert dte_records.rows_stream(8, n, trips) == n * trips
        assert dte_records.scattered(8, n, tiles) == n * bin(tiles).count("1")


# -- counters ----------------------------------------------------------------------------------------------


def counters(text: str) -> list[int]:
    """Successes of two channels, failures, bytes of two channels after a program of tile 0."""
    offsets = (0x14, 0x18, 0x1C, 0x20, 0x24, 0x28, 0x2C)
    loads = f" li t0, {PMU:#x}\n" + "".join(f" lw s{2 + i}, {at:#x}(t0)\n" for i, at in enumerate(offsets))
    tile = ran(only(0, text + loads), Memories.random(4, 0), FOUR).tiles[0]
    return [tile.register(18 + i) for i in range(len(offsets))]


ENABLE = f" li t3, {PMU:#x}\n li t1, 1\n sw t1, 0(t3)\n"


def test_counters_count_while_enabled() -> None:
    one = go(1, GOOD)
    two = go(2, GOOD | {MODE: SCATTER, DEST_NUM: 2})
    three = go(3, GOOD | {MODE: SHUFFLE, **loops(SRC_LOOPS, (16, 3))})
    failing = go(2, GOOD | {MODE: UNICAST, DEST_NUM: 0, USER_ID: 1 << 15})
    instruction = " dte.unicast dst=0, src=0, tile=2, n=5\n dte.wait\n"
    text = one + ENABLE + one + two + three + failing + instruction + " sw zero, 0(t3)\n" + two
    assert counters(text) == [2, 2, 1, 3 * 16 + 5, 0, 16 + 48, 0]
    assert counters(ENABLE + two + " li t1, 1\n sw t1, 4(t3)\n" + one) == [0, 1, 0, 0, 0, 16, 0]


@pytest.mark.parametrize("access", ["lw t1, 8(t3)", "sw t1, 0x14(t3)", "lw t1, 0x30(t3)", "ld t1, 0x20(t3)"])
def test_counters_that_are_not_there(access: str) -> None:
    assert "where the kernel core sees no memory" in refusal(ENABLE + f" {access}\n")


def test_times_are_zero() -> None:
    loads = " lw s2, 0x0c(t3)\n lw s3, 0x40(t3)\n lw s4, 0x64(t3)\n"
    tile = ran(only(0, ENABLE + go(2, GOOD) + loads), Memories.random(4, 0), FOUR).tiles[0]
    assert [tile.register(n) for n in (18, 19, 20)] == [0, 0, 0]
