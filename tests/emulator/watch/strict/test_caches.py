"""Maintenance of the core's data cache: missing and unnecessary.

``Caches`` judges random programs of several tiles, which it follows step by step. It uses no clocks, and the
sanitizer no sets.
"""

from __future__ import annotations

from random import Random

import pytest

import asm
from chip_bench import ONE, build
from emulator import Fault
from emulator.chip.system import System
from tx8isa.machine.description import load_machine
from tx8isa.numbers.limits import CACHE_LINE

W = ONE.windows
DDR, AWAY = 0x280200000, W.ddr_uncached - W.ddr_cached
BASE = f"li s0, {W.ddr_cached + 0x200000}\n li s1, {W.ddr_uncached + 0x200000}\n"
LOAD = f"rdma.fp32 dst=0, src={DDR}, n=1"
STORE = f"wdma.fp32 dst={DDR}, src=0x1000, n=1\n ncc.wait"
FILL = "td.memset.fp32 dst=0x1000, value=1.0, n=64\n ncc.wait\n"


def found(text: str) -> list[tuple[int, int]]:
    """(first, last byte from ``DDR``) of a one-tile program's hazards, all of one kind."""
    system = build(f"_start: {FILL}{BASE}{text}\n ebreak", strict=True)
    assert system.sanitizer is not None
    system.sanitizer.loaded(DDR - W.ddr_engine, 1024)
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    hazards = system.sanitizer.hazards()
    assert {hazard.kind for hazard in hazards} <= {"cache"}
    return [(hazard.first - DDR, hazard.last - DDR) for hazard in hazards]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # a store, and an engine that reads DDR
        (f"sw t0, 0(s0)\n fence\n {LOAD}", [(0, 3)]),
        (f"sw t0, 0(s0)\n th.dcache.cva s0\n {LOAD}", [(0, 3)]),  # nothing waits for the cache
        (f"sw t0, 0(s0)\n fence\n th.dcache.cva s0\n {LOAD}", [(0, 3)]),
        (f"sw t0, 0(s0)\n th.dcache.cva s0\n fence\n {LOAD}", []),
        (f"sw t0, 0(s0)\n th.dcache.civa s0\n th.sync\n {LOAD}", []),
        (f"sw t0, 0(s0)\n th.dcache.call\n th.sync.s\n {LOAD}", []),
        (f"sw t0, 0(s0)\n th.dcache.call\n fence\n sw t0, 0(s0)\n {LOAD}", [(0, 3)]),
        (f"sw t0, 0(s0)\n th.dcache.iall\n fence\n {LOAD}", [(0, 3)]),
        (f"sw t0, 0(s1)\n fence\n {LOAD}", []),  # past the cache
        ("sh t0, 2(s0)\n sh t0, 6(s1)", [(6, 7)]),
        ("sh t0, 2(s0)\n lh t0, 2(s1)", [(2, 3)]),
        ("sh t0, 2(s1)\n lh t0, 2(s0)", [(2, 3)]),
        # lines of 64 bytes
        (f"sw t0, 0(s0)\n addi s2, s0, 63\n th.dcache.cva s2\n fence\n {LOAD}", []),
        (f"sw t0, 0(s0)\n addi s2, s0, 64\n th.dcache.cva s2\n fence\n {LOAD}", [(0, 3)]),
        (f"sw t0, 4(s0)\n {LOAD}", []),  # nothing reads the stored bytes
        (
            "sd t0, 60(s0)\n th.dcache.cva s0\n fence\n "
            + f"rdma.fp32 dst=0, src={DDR + 60}, n=1\n rdma.fp32 dst=0x100, src={DDR + 64}, n=1",
            [(64, 67)],
        ),
        # an engine writes to a line that the cache may write later
        (f"sw t0, 8(s0)\n {STORE}", [(0, 3)]),
        (f"sw t0, 8(s0)\n th.dcache.cva s0\n fence\n {STORE}", []),
        (f"sw t0, 64(s0)\n {STORE}", []),
        # an engine that writes, and a load
        (f"{STORE}\n lw t0, 0(s0)", [(0, 3)]),
        (f"{STORE}\n lh t0, 2(s0)", [(2, 3)]),
        (f"{STORE}\n th.dcache.iva s0\n lw t0, 0(s0)", []),
        (f"{STORE}\n th.dcache.civa s0\n lw t0, 0(s0)", []),
        (f"{STORE}\n th.dcache.ciall\n lw t0, 0(s0)", []),
        (f"{STORE}\n th.dcache.cva s0\n fence\n lw t0, 0(s0)", [(0, 3)]),
        (f"th.dcache.iva s0\n {STORE}\n lw t0, 0(s0)", [(0, 3)]),
        (f"th.dcache.iall\n {STORE}\n lw t0, 0(s0)", [(0, 3)]),
        (f"{STORE}\n addi s2, s0, 64\n th.dcache.iva s2\n lw t0, 0(s0)", [(0, 3)]),
        (f"{STORE}\n lw t0, 0(s1)", []),
        # a store whose line the cache may hold with old contents
        (f"{STORE}\n sw t0, 8(s0)", [(0, 3)]),
        (f"{STORE}\n sw t0, 0(s0)", []),
        (f"{STORE}\n th.dcache.iva s0\n sw t0, 8(s0)", []),
        # an invalidation that loses a store
        ("sw t0, 8(s0)\n th.dcache.iva s0", [(0, 63)]),
        ("sw t0, 8(s0)\n th.dcache.civa s0", []),
        ("sw t0, 8(s0)\n th.dcache.cva s0\n th.dcache.iva s0", []),
        ("sw t0, 72(s0)\n th.dcache.iva s0", []),
    ],
)
def test_one_tile(text: str, expected: list[tuple[int, int]]) -> None:
    assert found(text) == expected


def test_a_loop_of_loads_is_checked_in_every_line() -> None:
    """A load that was checked in one line does not count as checked in the next."""
    ends = f"wdma.fp32 dst={DDR}, src=0x1000, n=64\n ncc.wait\n"
    loop = "li t2, 8\n1: lw t0, 0(s0)\n addi s0, s0, 32\n addi t2, t2, -1\n bnez t2, 1b"
    lines = "mv s2, s0\n" + "th.dcache.iva s2\n addi s2, s2, 64\n" * 3
    assert found(f"{ends}{lines}{loop}") == [(192, 227)]
    assert found(f"{ends}th.dcache.iall\n{loop}") == []


LINES = """
_start: csrr    t0, mhartid
        li      t1, 2
        bgeu    t0, t1, done
        la      t2, data
        slli    t3, t0, {shift}
        add     t2, t2, t3
        {first}
done:   li      a0, 0
        li      a7, 93
        ecall
        .data
        .balign 64
data:   .space  128
"""


@pytest.mark.parametrize(
    ("first", "shift", "expected"),
    [
        ("sw t0, 0(t2)", 2, 2),  # each would overwrite the other's element by its old value: two views
        ("sw t0, 0(t2)\n th.dcache.cva t2\n fence", 2, 2),
        ("sw t0, 0(t2)", 6, 0),
        ("lw t4, 0(t2)", 2, 0),
    ],
)
def test_tiles_that_store_to_one_line_at_the_same_time(first: str, shift: int, expected: int) -> None:
    system = System(asm.assemble(LINES.format(first=first, shift=shift)), load_machine(None), strict=True)
    system.run()
    assert system.sanitizer is not None
    hazards = system.sanitizer.hazards()
    assert {(h.kind, h.at.tile, h.other and h.other.tile) for h in hazards} <= {("cache", 1, 0)}
    assert len(hazards) == expected


def test_a_store_beside_what_an_engine_is_writing() -> None:
    """The worker has not been waited for, and writes another element of the line."""
    assert found(f"wdma.fp32 dst={DDR}, src=0x1000, n=1\n sw t0, 8(s0)\n ncc.wait") == [(0, 3)]
    assert found(f"wdma.fp32 dst={DDR}, src=0x1000, n=1\n sw t0, 64(s0)\n ncc.wait") == []


# --- random programs of several tiles ---------------------------------------------------------------------

TILES, WORDS = 3, 8
APART = 20
"""Bytes from one word to the next: four are in a line, and none in two."""


def line_of(word: int) -> int:
    return word * APART // CACHE_LINE


class Caches:
    """The stores that each tile's cache may hold back, and its outdated bytes."""

    def __init__(self) -> None:
        lines = range(line_of(WORDS) + 1)
        self.held: list[dict[int, set[int]]] = [{line: set() for line in lines} for _ in range(TILES)]
        self.cleaned: list[set[int]] = [set() for _ in range(TILES)]
        self.stale: list[set[int]] = [set() for _ in range(TILES)]

    def step(self, tile: int, what: str, word: int) -> bool:
        """Follow an instruction of a tile; return True if it is a hazard."""
        others = [other for other in range(TILES) if other != tile]
        line = line_of(word)
        if what in ("read", "load past"):
            return any(word in self.held[each][line] for each in range(TILES))
        if what in ("write", "store past"):
            wrong = any(self.held[each][line] for each in range(TILES))
            for each in range(TILES):
                self.stale[each].add(word)
            return wrong
        if what == "load":
            return word in self.stale[tile] or any(word in self.held[each][line] for each in others)
        if what == "store":
            return self._store(tile, word, line, others)
        return self._maintain(tile, what, line)

    def _store(self, tile: int, word: int, line: int, others: list[int]) -> bool:
        wrong = any(self.held[each][line] for each in others)
        wrong |= any(line_of(each) == line and each != word for each in self.stale[tile])
        if line in self.cleaned[tile]:
            self.cleaned[tile].remove(line)
            self.held[tile][line].clear()
        self.held[tile][line].add(word)
        self.stale[tile].discard(word)
        for each in others:
            self.stale[each].add(word)
        return wrong

    def _maintain(self, tile: int, what: str, line: int) -> bool:
        held, cleaned = self.held[tile], self.cleaned[tile]
        if what == "fence":
            for each in cleaned:
                held[each].clear()
            cleaned.clear()
            return False
        lines = [each for each in held if what.endswith("all") or each == line]
        if what in ("clean", "clean all", "flush", "flush all"):
            cleaned |= {each for each in lines if held[each]}
        lost = what == "drop" and bool(held[line]) and line not in cleaned
        if what in ("drop", "flush", "drop all", "flush all"):
            self.stale[tile] = {word for word in self.stale[tile] if line_of(word) not in lines}
        return lost


CODE = {
    "read": "rdma.fp32 dst=0, src={far}, n=1",
    "write": "wdma.fp32 dst={far}, src=0x1000, n=1",
    "load": "lw t1, {at}(s0)",
    "store": "sw t1, {at}(s0)",
    "load past": "lw t1, {at}(s1)",
    "store past": "sw t1, {at}(s1)",
    "clean": "addi s2, s0, {at}\n th.dcache.cva s2",
    "drop": "addi s2, s0, {at}\n th.dcache.iva s2",
    "flush": "addi s2, s0, {at}\n th.dcache.civa s2",
    "clean all": "th.dcache.call",
    "flush all": "th.dcache.ciall",
    "fence": "th.sync",
}
OFTEN = ["read", "write", "load", "store", "load", "store", "clean", "flush", "fence", "fence", *CODE]


def random_program(random: Random) -> tuple[str, int | None]:
    """A program whose tiles meet after every instruction, and the first step with a mistake."""
    caches, wrong = Caches(), None
    lines = [f"_start: csrr s3, mhartid\n {FILL}{BASE} ncc.barrier"]
    for step in range(14):
        tile, what, word = random.randrange(TILES), random.choice(OFTEN), random.randrange(WORDS)
        at = word * APART
        code = CODE[what].format(at=at, far=DDR + at)
        lines.append(f"li t0, {tile}\n bne s3, t0, 1f\n .loc_{step}: {code}\n ncc.wait\n1: ncc.barrier")
        if caches.step(tile, what, word):
            wrong = step
            break
    return "\n".join([*lines, "li a0, 0\n li a7, 93\n ecall"]), wrong


def first_mistake(text: str) -> int | None:
    """The step of the first instruction that the sanitizer accuses."""
    image = asm.assemble(text)
    system = System(image, load_machine(None), strict=True)
    assert system.sanitizer is not None
    system.sanitizer.loaded(DDR - W.ddr_engine, 256)
    system.run()
    labels = ((s.address, name) for name, s in image.symbols.items() if name.startswith(".loc_"))
    steps = sorted((address, int(name[5:])) for address, name in labels)
    places = [hazard.at.pc for hazard in system.sanitizer.hazards() if hazard.kind == "cache"]
    return max(step for address, step in steps if address <= min(places)) if places else None


def test_random_programs_are_judged_as_by_the_model() -> None:
    random, verdicts = Random(15), []
    for _ in range(80):
        text, wrong = random_program(random)
        assert first_mistake(text) == wrong, text
        verdicts.append(wrong)
    assert 10 <= verdicts.count(None) <= 70
