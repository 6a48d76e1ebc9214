"""``tx8emu --gdb`` with the real GDB: assembly and C programs stopped, looked at, changed, run to the end."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from c_tools import compile_object, make, needs_gcc
from emulator import cli
from gdb_tools import assembled, gdb, needs_gdb, serving

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


def session(program: Path, *commands: str, options: tuple[str, ...] = ()) -> tuple[str, int, str, str]:
    """What GDB printed; then exit status, output and messages of the emulator."""
    with serving(program, *options) as server:
        printed = gdb(server, program, *commands)
        return printed, *server.end()


def in_order(text: str, *parts: str) -> None:
    """Every part occurs, behind the one before."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        assert found >= 0, f"no '{part}' behind character {at} of\n{text}"
        at = found + len(part)


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
        "print $pc = 2",
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
        "pc = 0x2: expected a multiple of 4",
        "Cannot access memory at address 0x1000740",
        "exited normally",
    )
    assert status == 0
    assert np.load(double.parent / "out/y.npy").tolist() == [2, 4, 61, 8]


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
        "no command 'dance'; there are queues, spm, where, help",
        "nothing is pending",
    )


# --- a C program --------------------------------------------------------------------------

C_PROGRAM = """\
#include <stdio.h>
#include <tx8.h>

static int total;

static int add(int a, int b)
{
    int sum = a + b;
    total += sum;
    return sum;
}

int main(void)
{
    if (tx8_tile() != 0)
        return 0;
    for (int i = 0; i < 3; i++)
        add(i, 10 * i);
    printf("total %d\\n", total);
    return 0;
}
"""


@pytest.fixture(scope="module")
def c_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gdb")
    compile_object(C_PROGRAM, folder, ["-O0", "-g", "-Wall", "-Werror"])
    make(folder, "program.elf")
    return folder / "program.elf"


@needs_gdb
@needs_gcc
def test_a_c_program(c_program: Path) -> None:
    printed, status, out, _ = session(
        c_program,
        "break add if a == 2",
        "continue",
        "backtrace",
        "print a * b",
        "next",
        "print sum",
        "list 8,8",
        "finish",
        "watch total",
        "continue",
        "set var total = 1000",
        "delete",
        "continue",
    )
    in_order(
        printed,
        "add (a=2, b=20) at",
        "program.c:8",
        "#1  0x",
        "main () at",
        "= 40",
        "= 22",
        "8\t    int sum",
        "main () at",
        "Value returned is $3 = 22",
    )
    assert (status, out) == (0, "total 33\n")


@needs_gdb
@needs_gcc
def test_a_c_variable_is_watched_and_changed(c_program: Path) -> None:
    printed, status, out, _ = session(
        c_program,
        "break main if $mhartid == 0",
        "continue",
        "watch total",
        "continue",
        "continue",
        "set var total = 1000",
        "delete",
        "continue",
    )
    in_order(printed, "main () at", "Old value = 0", "New value = 11", "Old value = 11", "New value = 33")
    assert (status, out) == (0, "total 1000\n")


@needs_gdb
def test_watchpoints_on_ddr_see_engines_and_copies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = assembled(
        tmp_path,
        """\
        .output y, int32, 4
        csrr    t0, mhartid
        bnez    t0, done
        la      a1, y
        li      t1, 0x30420000
        li      t2, 7
        sw      t2, 0(t1)
        ncc.wait
        wdma.int32 dst=a1, src=0x20000, n=1
        ncc.wait
        li      t2, 8
        sw      t2, 0(t1)
        dte.unicast dst=a1, src=0x20000, tile=0, n=4
        dte.wait
done:   seqz    a0, t0
        slli    a0, a0, 2
        li      a7, 93
        ecall
""",
    )
    printed, status, _, messages = session(
        program, "watch *(int *)0x280001000", "continue", "continue", "delete", "continue"
    )
    in_order(
        printed,
        "(prog.s:9): executed wdma.int32",
        "Old value = 0",
        "New value = 7",
        "(prog.s:13): its copy wrote to DDR",
        "Old value = 7",
        "New value = 8",
        "exited with code 04",
    )
    assert status == cli.main([str(program), "-q"]) == 3
    plain = capsys.readouterr().err
    assert messages.partition("fault: ")[2] == plain.partition("fault: ")[2] != "", "as without a debugger"
