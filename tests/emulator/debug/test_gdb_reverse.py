"""Reverse execution under the debugger: with the real GDB, and compared with a run that only goes forward."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator import cli, program
from emulator.debug.gdb.run.reverse import ReverseExecution
from emulator.debug.gdb.run.scheduler import Action, DebugScheduler
from emulator.debug.gdb.run.stops import Ended
from gdb_tools import Client, assembled, gdb, needs_gdb, serving

FAULTS = """\
        csrr    t0, mhartid
        bnez    t0, done
        li      t1, 0x30410000
        td.memset.fp32 dst=0x10000, value=1.5, n=4
        ct.add.vv.fp32 dst=0x10000, src0=0x10000, src1=0x10000, n=4
        ncc.wait
        li      a0, 1
        la      a1, text
        li      a2, 3
        li      a7, 64
        ecall
        li      t3, 30000
loop:   addi    t3, t3, -1
        bnez    t3, loop
        sw      t3, 4(t1)
        li      t1, 0x1234
bad:    lw      t2, 0(t1)
done:   li      a0, 0
        li      a7, 93
        ecall
        .data
text:   .byte 'h', 'i', 10
"""
RING = """\
        csrr    t0, mhartid
        li      t1, 0x30420000
        li      t5, 40
next:   sw      t5, 0(t1)
        addi    t2, t0, 1
        andi    t2, t2, 15
        dte.unicast dst=0x20100, src=0x20000, tile=t2, n=4
        dte.wait
        lw      t3, 0x100(t1)
        add     t4, t4, t3
        addi    t5, t5, -1
        bnez    t5, next
        ncc.barrier
        li      a0, 0
        li      a7, 93
        ecall
"""


@pytest.mark.long
@needs_gdb
def test_back_from_a_fault_to_what_wrote_a_value(tmp_path: Path) -> None:
    image = assembled(tmp_path, FAULTS)
    with serving(image) as server:
        printed = gdb(
            server,
            image,
            "continue",
            "reverse-stepi",
            "print/x $t1",
            "watch *(float *)0x30410004",
            "reverse-continue",
            "reverse-continue",
            "monitor queues 0",
            "reverse-continue",
            "delete",
            "reverse-continue",
            "stepi",
            "reverse-stepi",
            "break loop",
            "continue",
            "detach",
        )
        status, out, messages = server.end()
    at = 0
    for part in (
        "SIGSEGV",
        "li      t1, 0x1234",
        "= 0x1000",
        "Old value = 0",
        "New value = 3",
        "sw      t3,",
        "before this: tile 0 at",
        "executed ct.add.vv.fp32",
        "Old value = 3",
        "New value = 1.5",
        "CT: 1 pending",
        "executed td.memset.fp32",
        "Old value = 1.5",
        "New value = -nan",
        "No more reverse-execution history",
        "bnez    t0",
        "csrr    t0",
        "Breakpoint 2, loop",
    ):
        found = printed.find(part, at)
        assert found >= 0, f"no '{part}' behind character {at} of\n{printed}"
        at = found + len(part)
    assert out == "hi\n", "what the program writes is shown once"
    assert (status, "(prog.s:17): load of 4 bytes at 0x1234" in messages) == (3, True)


@pytest.mark.parametrize("timed", [False, True])
def test_what_was_gone_back_over_happens_again(tmp_path: Path, timed: bool) -> None:
    """Memories, counts and simulated time equal those of a run that never went back."""
    loaded = program.load(assembled(tmp_path, RING))
    plain, debugged = loaded.start({}, timed=timed), loaded.start({}, timed=timed)
    plain.run()
    reverse = ReverseExecution(DebugScheduler(debugged, 1 << 40))
    everyone = {tile.number: Action() for tile in debugged.tiles}
    loop = loaded.image.symbols["next"].address
    reverse.steps.marks.set(loop)
    for _ in range(100):
        found = reverse.resume(everyone, lambda: False)
        assert not isinstance(found, Ended)
        reverse.steps.marks.clear(loop)
        reverse.resume({**everyone, found.tile: Action(steps=True)}, lambda: False)
        reverse.steps.marks.set(loop)
    tile = debugged.tiles[7]
    retired = tile.retired
    for count in range(1, 4):
        assert not reverse.step_back(tile).oldest
        assert tile.retired == retired - count
    assert debugged.tiles[reverse.go_back(tile, lambda: False).tile].pc == loop
    reverse.steps.marks.clear(loop)
    assert isinstance(reverse.resume(everyone, lambda: False), Ended)
    debugged.ended()
    results, expected = (
        [(t.retired, t.register(29), t.spm.data.tobytes()) for t in system.tiles]
        for system in (debugged, plain)
    )
    assert results == expected and debugged.cycles == plain.cycles


@pytest.mark.long
def test_the_beginning_changes_by_hand_and_the_packets_before_vcont(tmp_path: Path) -> None:
    with serving(assembled(tmp_path, RING)) as server, Client(server) as client:
        supported = client.ask("qSupported")
        assert "ReverseStep+" in supported and "ReverseContinue+" in supported
        assert client.ask("bs") == "T05replaylog:begin;20:0000008000000000;thread:1;"
        assert client.ask("Hc3") == "OK"
        assert client.ask("s") == "T0520:0400008000000000;thread:3;"
        assert client.ask("P1e=2a00000000000000") == "OK"
        assert client.ask("S05").startswith("T0520:") and client.ask("bs").startswith("T0520:")
        assert client.ask("p1e") == "2a00000000000000", "what was changed there is part of the place"
        assert client.ask("bs") == "T0520:0000008000000000;thread:3;"
        assert client.ask("p1e") == "00" * 8
        assert client.ask("bs").startswith("T05replaylog:begin;")
        assert client.ask("s80000004").endswith("thread:3;")
        assert "not a hexadecimal number" in client.ask("cx") and client.ask("bx") == ""
        assert client.ask("Hc-1") == "OK"
        assert client.ask("c") == "W00"
        assert server.end()[0] == 0


@pytest.mark.long
def test_a_saved_state_is_debugged_on(tmp_path: Path) -> None:
    image = assembled(tmp_path, RING)
    assert cli.main([str(image), "-q", "--save-state", str(tmp_path / "state"), "--at", "100"]) == 0
    with serving(image, "--load-state", "state") as server, Client(server) as client:
        assert client.ask("?") != "T0520:0000008000000000;thread:1;", "it is not at the beginning"
        assert client.ask("s") == client.ask("?") and client.ask("bs").startswith("T0520:")
        assert client.ask("c") == "W00"
        assert server.end()[0] == 0


@pytest.mark.long
def test_no_way_back_where_others_watch(tmp_path: Path) -> None:
    with serving(assembled(tmp_path, RING), "--stats") as server, Client(server) as client:
        client.ask("s")
        assert client.ask("bs").startswith("T05replaylog:begin;20:0400")
        assert client.ask("C00") == "W00"
        assert server.end()[0] == 0
