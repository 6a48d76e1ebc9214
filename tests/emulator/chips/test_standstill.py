"""Programs on several chips that hang for ever: the message names chips, tiles, counters and links."""

from __future__ import annotations

import pytest

from chip_senders import copy, loaded, parts, ran, ready, wait
from emulator.tile.fault import Fault

PLACE = r"tile {} at 0x[0-9a-f]+ \(<text>:[0-9]+\)"


@pytest.mark.parametrize("strict", [False, True])
def test_two_chips_wait_for_each_other(strict: bool) -> None:
    both = ready() + wait()
    with pytest.raises(Fault) as fault:
        ran(parts(h1=both, h2=both), strict=strict)
    text = str(fault.value)
    assert text.startswith("the program can never go on: chip 0: tile 1 at 0x")
    assert text.count("polls PACKET_STA of stream 60, which no other tile will change") == 2
    assert "; chip 1: tile 0 at 0x" in text
    assert text.endswith("; no link has anything to carry (none has carried anything)")


def test_what_the_links_have_carried_is_named() -> None:
    with pytest.raises(Fault, match=r"\(0 -> 1 has carried 1\)$"):
        ran(parts(h0=copy(user=0), h3=ready() + wait()))


def test_a_barrier_that_a_tile_never_comes_to() -> None:
    with pytest.raises(Fault, match=r"chip 1: tile 0 at .* waits at barrier 0x3 for tile 1 \(exited\);"):
        ran(parts(h0=copy(), h2=" ncc.barrier tiles=3\n", h3=ready() + wait()))


def test_a_loop_that_counts_its_polls_ends() -> None:
    """No tile sends anything; the program gives up after 40 polls, and is not a deadlock."""
    counted = ready() + " li t0, 0x620898\n li s4, 40\n6: lw s3, 0(t0)\n addi s4, s4, -1\n bnez s4, 6b\n"
    mesh = ran(parts(h3=counted))
    assert mesh.chips[1].tiles[1].register(20) == 0


def test_who_gives_up_and_sends_then_is_heard() -> None:
    """After enough failed polls a tile sends the message that another chip waits for."""
    counted = " li t0, 0x620898\n li s4, 10\n6: lw s3, 0(t0)\n addi s4, s4, -1\n bnez s4, 6b\n"
    mesh = ran(parts(h0=ready() + counted + copy(), h3=ready() + wait()))
    assert mesh.chips[1].tiles[1].register(19) == 1


def test_a_strict_run_names_a_loop_over_memory() -> None:
    """The loop polls no register, and a flag that arrives ends it."""
    loop = " li t0, 0x30400800\n8: lw t1, 0(t0)\n li t2, 0x04030201\n bne t1, t2, 8b\n"
    with pytest.raises(Fault, match=r"chip 1: tile 1 at .* loops without progress; no link"):
        loaded(parts(h3=loop), strict=True).run(1 << 24)
    flagged = loaded(parts(h0=copy(user=0), h3=loop), strict=True)
    flagged.run(1 << 24)
    assert flagged.chips[1].tiles[1].exit_code == 0
