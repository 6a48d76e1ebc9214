"""One emulation over ranks, which are threads here: nothing depends on their number or speed."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence

import pytest

from chip_programs import Case, final_slots, machine
from chip_senders import copy, loaded, parts, ready, wait
from emulator.chips.mesh import ChipMesh
from emulator.chips.ranks.letters import Letter, Sending
from emulator.chips.ranks.mesh import RankMesh
from emulator.chips.ranks.outlook import Outlook
from emulator.chips.ranks.placement import placed
from emulator.program import Program
from emulator.tile.fault import Fault
from rank_threads import ThreadsPost, chips_in_order, run_ranks
from tx8isa.errors import Tx8Error


def times(chips: Sequence[object]) -> list[object]:
    """Return for each chip the times when its tiles end, and its rounds."""
    return [(chip.time.ends, chip.rounds) for chip in chips]  # type: ignore[attr-defined]


def over_ranks(case: Case, size: int, placement: str, slow: int | None = None) -> list[RankMesh]:
    """The ranks after a run of a random program."""
    ranks = placed(placement, case.machine.chip_count, size)

    def made(post: ThreadsPost) -> RankMesh:
        def make(*args: object, **options: object) -> RankMesh:
            return RankMesh(*args, post=post, ranks=ranks, **options)  # type: ignore[arg-type]

        found = Program(case.image, case.machine).start_chips(case.inputs, make=make)
        assert isinstance(found, RankMesh)
        return found

    return run_ranks(made, size, slow)


@pytest.mark.parametrize(("size", "placement"), [(2, "block"), (2, "cyclic"), (4, "block"), (2, "1,0,0,0")])
def test_nothing_depends_on_ranks_and_placement(size: int, placement: str) -> None:
    case = Case.random(size, machine(2, 2))
    plain, ranked = case.run(), over_ranks(case, size, placement)
    chips = chips_in_order(ranked)
    assert times(chips) == times(plain.chips)
    assert case.slots_of(chips) == case.slots(plain) == final_slots(case.sent, case.start)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 20))])
def test_nothing_depends_on_how_long_letters_take(seed: int) -> None:
    case = Case.random(seed, machine(4, 2, shape="torus"))
    plain, ranked = case.run(), over_ranks(case, random.Random(seed).choice((2, 4)), "cyclic", seed)
    assert times(chips_in_order(ranked)) == times(plain.chips)
    assert case.slots_of(chips_in_order(ranked)) == case.slots(plain)


def small_ranks(text: str, limit: int | None = None) -> list[RankMesh]:
    """Run a program on two chips, each on its own rank; Fault as in a run."""
    one = loaded(text)

    def made(post: ThreadsPost) -> RankMesh:
        return RankMesh(one.image, one.machine, post=post, ranks=[0, 1])

    return run_ranks(made, 2)


@pytest.mark.parametrize(
    "text",
    [
        parts(h1=ready() + wait(), h2=ready() + wait()),
        parts(h0=" ebreak", h3=" li t0, 9\n2: addi t0, t0, -1\n bnez t0, 2b\n ebreak"),
        parts(h0=" li t0, 9\n2: addi t0, t0, -1\n bnez t0, 2b\n ebreak", h3=" ebreak"),
        parts(h0=copy(), h3=" ebreak"),
    ],
    ids=["deadlock", "chip 0 fails first", "chip 1 fails first", "the receiver fails"],
)
def test_the_same_fault_from_every_rank(text: str) -> None:
    """A run ends with the fault that comes first in simulated time, wherever it is found first."""
    with pytest.raises(Fault) as alone:
        loaded(text).run()
    with pytest.raises(Fault) as ranked:
        small_ranks(text)
    assert str(ranked.value) == str(alone.value)


def test_the_first_fault_is_the_one_of_the_earliest_time() -> None:
    after = " dte.unicast dst=0x800, src=0x100, tile={0}, n={1}\n dte.wait\n ebreak"
    for first, sizes in ((0, (64, 4096)), (1, (4096, 64))):
        text = parts(h0=after.format(1, sizes[0]), h3=after.format(0, sizes[1]))
        with pytest.raises(Fault, match=rf"^chip {first}: tile {first} .*ebreak"):
            loaded(text).run()


def test_letters_are_plain_data() -> None:
    mesh = small_ranks(parts(h0=copy(), h3=ready() + wait()))[0]
    post = mesh._post
    assert isinstance(post, ThreadsPost)
    letters = [item for item in post.sent if isinstance(item, Letter) and item.hops]
    assert letters
    for letter in letters:
        again = pickle.loads(pickle.dumps(letter))
        assert bytes(again.hops[0].message.data) == bytes(letter.hops[0].message.data)
        assert again.promises == letter.promises


# --- the outlook of a rank ------------------------------------------------------------------


def test_what_is_under_way_counts_until_its_receiver_has_it() -> None:
    """Rank 2 is informed of rank 0's messages to rank 1, in whatever order the two write to it."""
    outlook = Outlook([0, 1, 2])
    for rank, promise in enumerate((50, 900, 900)):
        outlook.promised(rank, [promise])
    outlook.sent(0, Sending(1, 1, 70))
    outlook.promised(0, [800])
    assert outlook.times.tolist() == [800, 70, 900]
    outlook.promised(1, [75])
    outlook.received(1, [1, 0, 0])
    assert outlook.times.tolist() == [800, 75, 900]
    outlook.received(1, [2, 0, 0])  # the letter of rank 0 about the second one arrives later
    outlook.promised(1, [500])
    outlook.sent(0, Sending(1, 1, 60))
    assert outlook.times.tolist() == [800, 500, 900]


# --- placement ------------------------------------------------------------------------------


def test_placements() -> None:
    assert placed("block", 8, 2) == [0, 0, 0, 0, 1, 1, 1, 1]
    assert placed("cyclic", 8, 4) == [0, 1, 2, 3, 0, 1, 2, 3]
    assert placed("2,0,1,0", 4, 3) == [2, 0, 1, 0]


@pytest.mark.parametrize(
    ("placement", "chips", "ranks", "message"),
    [
        ("block", 4, 3, r"3 ranks for 4 chips: expected a number that divides them \(1, 2, 4\), or the rank"),
        ("cyclic", 4, 8, r"8 ranks for 4 chips: expected one of 1, 2, 4$"),
        ("block", 1, 2, r"2 ranks for 1 chip: expected one of 1$"),
        ("0,0,1", 4, 2, r"--placement 0,0,1: found 3 ranks, expected one for each of 4$"),
        ("0,0,1,2", 4, 2, r"--placement 0,0,1,2: found rank 2, expected 0\.\.1$"),
        ("0,0,0,0", 4, 2, r"--placement 0,0,0,0: rank 1 has no chip, expected one for each rank$"),
        ("blocks", 4, 2, r"--placement blocks: expected block, cyclic or numbers of ranks such as 0,0,1,1$"),
        ("0,,1,1", 4, 2, r"--placement 0,,1,1: expected block"),
    ],
)
def test_placements_that_do_not_fit(placement: str, chips: int, ranks: int, message: str) -> None:
    with pytest.raises(Tx8Error, match=message):
        placed(placement, chips, ranks)


def test_what_programs_print_comes_in_the_order_of_time() -> None:
    """Chip 1 prints before chip 0, which is emulated first; both do within the latency of a link."""
    word = " li a0, 1\n la a1, {0}\n li a2, 2\n li a7, 64\n ecall\n"
    late = " dte.unicast dst=0x800, src=0x100, tile=1, n=4096\n dte.wait\n"
    data = '\n .section .rodata\nfirst: .ascii "0\\n"\nsecond: .ascii "1\\n"\n .text\n'
    text = parts(h0=late + word.format("first"), h3=word.format("second")) + data
    shown: list[bytes] = []
    mesh = loaded(text, show=lambda _, written: shown.append(written))
    mesh.run()
    assert type(mesh) is ChipMesh
    assert b"".join(shown) == b"1\n0\n"
