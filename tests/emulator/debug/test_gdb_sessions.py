"""``tx8emu --gdb`` with the real GDB: assembly and C programs stopped, looked at, changed, run to the end."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from gdb_session import in_order, session
from gdb_tools import assembled, needs_gdb

DOUBLE = """\
        .input  x, fp32, 4
        .output y, fp32, 4
_start: csrr    t0, mhartid
        bnez    t0, done
        la      a0, x
        la      a1, y
        addi    a2, zero, 5
load:   rdma.fp32 dst=0x10000, src=a0, n=4
add:    ct.add.vv.fp32 dst=0x10000, src0=0x10000, src1=0x10000, n=4
        wdma.fp32 dst=a1, src=0x10000, n=4
wait:   ncc.wait
done:   li      a0, 0
        li      a7, 93
        ecall
"""
"""Lines count from 1: the wait is line 11."""


@pytest.fixture
def double(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.float32([1, 2, 3, 4]))
    return assembled(tmp_path, DOUBLE)


def with_input(program: Path, *commands: str) -> tuple[str, int, str, str]:
    return session(program, *commands, options=("--input", "x=x.npy", "--output-dir", "out"))


# --- an assembly program ------------------------------------------------------------------


@needs_gdb
def test_breakpoints_at_labels_and_lines_list_and_steps(double: Path) -> None:
    printed, status, _, _ = with_input(
        double,
        "break load",
        "break prog.s:11",
        "continue",
        "info registers a2 mhartid pc",
        "list 7,9",
        "stepi",
        "step",
        "continue",
        "backtrace 1",
        "continue",
    )
    in_order(
        printed,
        "Breakpoint 1",
        "load () at prog.s:8",
        "a2             0x5",
        "mhartid        0x0",
        "<load>",
        "7\t        addi    a2, zero, 5",
        "9\tadd:",
        "add () at prog.s:9",
        "10\t        wdma.fp32",
        "Breakpoint 2, wait () at prog.s:11",
        "#0  wait () at prog.s:11",
        "exited normally",
    )
    assert status == 0
    assert np.load(double.parent / "out/y.npy").tolist() == [2, 4, 6, 8]


@pytest.mark.long
@needs_gdb
def test_registers_and_memory_that_are_changed_count(double: Path) -> None:
    printed, status, _, _ = with_input(
        double,
        "break wait",
        "continue",
        "set var *(float *)0x280001008 = 30.5",
        "print *(float *)0x80001008@2",
        "set $a2 = -7",
        "print $a2",
        "set $fa0.double = 2.5",
        "print $fa0",
        "set $fcsr = 0x61",
        "print $frm",
        "set $mscratch = 77",
        "print $mscratch",
        "print $mhartid = 3",
        "print $pc = 3",
        "print *(int *)0x01000740",
        "continue",
    )
    in_order(
        printed,
        "= {30.5, 4}",
        "= -7",
        "double = 2.5",
        "= 3",
        "= 77",
        "mhartid can only be read",
        "pc = 0x3: expected a multiple of 2",
        "Cannot access memory at address 0x1000740",
        "exited normally",
    )
    assert status == 0
    assert np.load(double.parent / "out/y.npy").tolist() == [2, 4, 61, 8]


@pytest.mark.long
@needs_gdb
def test_a_watchpoint_names_the_engine_instruction_that_wrote(double: Path) -> None:
    printed, status, _, _ = with_input(
        double,
        "watch *(float *)0x30410004",
        "continue",
        "monitor queues",
        "continue",
        "x/4fw 0x30810000",
        "monitor queues",
        "delete",
        "continue",
    )
    in_order(
        printed,
        "tile 0 at",
        "(prog.s:8): executed rdma.fp32 dst=0x10000, src=0x280001000",
        "Old value = -nan",
        "New value = 2",
        "wait () at prog.s:11",
        "tile 0 worker 0 CT: 1 pending",
        "(prog.s:9): ct.add.vv.fp32 dst=0x10000, src0=0x10000",
        "tile 0 worker 0 WDMA: 1 pending",
        "(prog.s:10): wdma.fp32 dst=0x280002000, src=0x10000",
        "(prog.s:9): executed ct.add.vv.fp32",
        "Old value = 2",
        "New value = 4",
        "0x30810000:\t2\t4\t6\t8",
        "WDMA: 1 pending",
        "exited normally",
    )
    assert "CT: 1 pending" not in printed[printed.index("0x30810000") :]
    assert status == 0
    assert np.load(double.parent / "out/y.npy").tolist() == [2, 4, 6, 8]


@pytest.mark.long
@needs_gdb
def test_watchpoints_see_the_core_and_copies_of_other_tiles(tmp_path: Path) -> None:
    program = assembled(
        tmp_path,
        """\
        csrr    t0, mhartid
        li      t1, 0x30420000
        bnez    t0, other
        li      t2, 7
        nop
        sw      t2, 4(t1)
        lw      t3, 4(t1)
        dte.unicast dst=0x20100, src=0x20004, tile=1, n=4
        dte.wait
other:  li      a0, 0
        li      a7, 93
        ecall
""",
    )
    printed, status, _, _ = session(
        program,
        "watch *(int *)0x30420004",
        "continue",
        "rwatch *(int *)0x30420004",
        "delete 1",
        "continue",
        "delete",
        "watch *(int *)0x30420100",
        "continue",
        "print $_thread",
        "print *(int *)0x30420100",
        "delete",
        "continue",
    )
    in_order(
        printed,
        "Old value = -1",
        "New value = 7",
        "prog.s:7",
        "Value = 7",
        "prog.s:8",
        "tile 0 at",
        "(prog.s:8): its copy wrote to the SPM of tile 1",
        "New value = 7",
        "= 2",
        "= 7",
        "exited normally",
    )
    assert status == 0


@needs_gdb
def test_tiles_are_threads(double: Path) -> None:
    printed, status, _, _ = with_input(
        double,
        "break wait",
        "continue",
        "thread 4",
        "print $mhartid",
        "stepi",
        "info threads",
        "monitor where",
        "set scheduler-locking on",
        "thread 6",
        "stepi 4",
        "print $pc",
        "thread 1",
        "stepi",
        "set scheduler-locking off",
        "continue",
    )
    assert re.search(r'4 +Thread 4 "tile 3: running"', printed), printed
    in_order(
        printed,
        "Switching to thread 4",
        "= 3",
        "4\t        bnez    t0, done",
        "tile 0 at 0x800000c8 (prog.s:12): running",
        "tile 1 at 0x80000000 (prog.s:3): running",
        "tile 3 at 0x80000004 (prog.s:4): running",
        "Switching to thread 6",
        "ecall",
        "<done+8>",
        "Switching to thread 1",
        "li      a7, 93",
        "exited normally",
    )
    assert status == 0


@pytest.mark.long
@needs_gdb
def test_a_fault_stops_like_a_signal_and_ends_the_program_when_it_goes_on(tmp_path: Path) -> None:
    program = assembled(
        tmp_path,
        """\
        csrr    t0, mhartid
        bnez    t0, done
        ebreak
        li      t1, 0x1234
bad:    lw      t2, 0(t1)
done:   li      a0, 0
        li      a7, 93
        ecall
""",
    )
    printed, status, _, messages = session(
        program, "continue", "continue", "print/x $t1", "monitor where", "continue"
    )
    in_order(
        printed,
        "prog.s:3): ebreak",
        "SIGTRAP",
        "tile 0 at",
        "(prog.s:5): load of 4 bytes at 0x1234",
        "SIGSEGV",
        "= 0x1234",
        "tile 0 at 0x80000014 (prog.s:5): running",
        "terminated with signal SIGSEGV",
    )
    assert status == 3
    assert "fault: tile 0 at 0x80000014 (prog.s:5): load of 4 bytes at 0x1234, where" in messages


@pytest.mark.long
@needs_gdb
def test_a_program_can_be_mended_after_a_fault(tmp_path: Path) -> None:
    program = assembled(
        tmp_path,
        "        li      t1, 0x1234\nbad:    lw      t2, 0(t1)\n        li      a0, 0\n"
        "        li      a7, 93\n        ecall\n",
    )
    printed, status, _, _ = session(
        program, "break bad", "continue", "delete", "continue", "set $t1 = 0x30400000", "signal 0"
    )
    in_order(
        printed,
        "Breakpoint 1, bad",
        'Thread 1 "tile 0: running" received signal SIGSEGV',
        'Thread 2 "tile 1: running" received signal SIGSEGV',
    )
    assert status == 3  # the other tiles fault once GDB has left


@pytest.mark.long
@needs_gdb
def test_exit_status_deadlock_and_limit(tmp_path: Path) -> None:
    exits = assembled(tmp_path, "        li      a0, 5\n        li      a7, 93\n        ecall\n", "exits")
    printed, status, _, messages = session(exits, "continue")
    in_order(printed, "the program exited with status 5", "exited with code 05")
    assert (status, "exited with status 5" in messages) == (3, True)
    stuck = assembled(
        tmp_path,
        "        csrr    t0, mhartid\n        beqz    t0, end\n        ncc.barrier\n"
        "end:    li      a0, 0\n        li      a7, 93\n        ecall\n",
        "stuck",
    )
    printed, status, _, messages = session(stuck, "continue", "info threads", "continue")
    in_order(
        printed,
        "the program can never go on",
        "SIGABRT",
        "tile 0: exited with status 0",
        "tile 1: waiting at a barrier of tiles 0xffff",
        "terminated with signal SIGABRT",
    )
    assert (status, "can never go on" in messages) == (3, True)
    endless = assembled(tmp_path, "loop:   j       loop\n", "endless")
    printed, status, _, messages = session(
        endless, "continue", "continue", options=("--max-instructions", "3000000")
    )
    in_order(printed, "stopped after 3000000 instructions", "SIGXCPU", "terminated with signal SIGXCPU")
    assert (status, "stopped after 3000000 instructions" in messages) == (3, True)


@pytest.mark.long
@needs_gdb
def test_held_tiles_are_named_instead_of_waiting_for_ever(tmp_path: Path) -> None:
    program = assembled(
        tmp_path, "        ncc.barrier\n        li      a0, 0\n        li      a7, 93\n        ecall\n"
    )
    printed, status, _, _ = session(
        program, "set scheduler-locking on", "continue", "set scheduler-locking off", "continue"
    )
    in_order(printed, "tile 1 is held by the debugger: set scheduler-locking off", "exited normally")
    assert status == 0


@pytest.mark.long
@needs_gdb
def test_detach_lets_the_program_run_on_and_kill_ends_it(double: Path) -> None:
    printed, status, _, _ = with_input(double, "break wait", "continue", "detach")
    assert "detached" in printed
    assert status == 0
    assert np.load(double.parent / "out/y.npy").tolist() == [2, 4, 6, 8]
    (double.parent / "out/y.npy").unlink()
    printed, status, _, messages = with_input(double, "break wait", "continue", "kill")
    assert (status, "fault: killed by the debugger" in messages) == (3, True)
    assert not (double.parent / "out/y.npy").exists()


@pytest.mark.long
@needs_gdb
def test_monitor_commands(double: Path) -> None:
    printed, _, _, _ = with_input(
        double,
        "break done if $mhartid == 0",
        "continue",
        "monitor",
        "monitor spm 0",
        "monitor spm 0 0x10000 16",
        "monitor spm 5",
        "monitor spm 16",
        "monitor spm 0 0x2fffff 2",
        "monitor spm 0 x 2",
        "monitor spm 1 2",
        "monitor queues 0 1",
        "monitor where 1",
        "monitor tensor y",
        "monitor tensor 0:0x10000:fp32:2x2 saved.npy",
        "monitor tensor",
        "monitor tensor q",
        "monitor dance",
        "monitor queues 0",
    )
    in_order(
        printed,
        "monitor queues [TILE]",
        "tile 0: 0x10000..0x100ff",
        "00010000  00 00 00 40 00 00 80 40  00 00 c0 40 00 00 00 41",
        "tile 5: nothing written",
        "tile 16 is outside 0..15",
        "0x2fffff:2 is outside the SPM (0x0..0x2fffff)",
        "'x' is not a number",
        "'spm' takes nothing, a tile, or",
        "'queues' takes one tile at most",
        "'where' takes no arguments",
        "DDR 0x28000",
        "[2. 4. 6. 8.]",
        "tile 0 SPM 0x10000: 2x2 fp32, tensor saved in saved.npy",
        "'tensor' takes NAME, TILE:ADDRESS:FORMAT:SHAPE[:LAYOUT]",
        "no tensor 'q'",
        "no command 'dance'; there are queues, spm, tensor, where, help",
        "nothing is pending",
    )
