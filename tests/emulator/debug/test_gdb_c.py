"""GDB on a program in C."""

from __future__ import annotations

from pathlib import Path

import pytest

from c_tools import MARCHES, compile_object, make, needs_gcc
from emulator import cli
from gdb_session import in_order, session
from gdb_tools import assembled, needs_gdb

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


@pytest.fixture(scope="module", params=MARCHES)
def c_program(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Without and with compressed instructions: GDB's breakpoints then have two lengths."""
    folder = tmp_path_factory.mktemp("gdb")
    compile_object(C_PROGRAM, folder, ["-O0", "-g", "-Wall", "-Werror", f"-march={request.param}"])
    make(folder, "program.elf", march=request.param)
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


@pytest.mark.long
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


@pytest.mark.long
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
