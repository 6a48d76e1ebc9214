"""The progress line: on a terminal only, its counts, removed at the end."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import asm
import emulator
from asm.image import write_image
from emulator.cli.progress import Progress, short, show_progress
from emulator.tile.tile import Status
from terminals import Clock, Terminal
from tx8isa.machine.description import load_machine

MAIN = [sys.executable, "-c", "import sys; from emulator.cli import main; sys.exit(main())"]
COLUMNS = 120
LONG = """
_start: csrr t0, mhartid
    li t1, {loops}
    .node "first"
1:  ct.add.vv.fp16 dst=0x200, src0=0x100, src1=0x100, n=4
    addi t1, t1, -1
    bnez t1, 1b
    .node "second"
    li t1, {loops}
2:  ct.add.vv.fp16 dst=0x200, src0=0x100, src1=0x100, n=4
    addi t1, t1, -1
    bnez t1, 2b
    .node "third"
    ncc.wait
    li a0, 0
    li a7, 93
    ecall
"""


def started(loops: int = 3) -> emulator.program.System:
    image = asm.assemble(LONG.format(loops=loops), name="p.s")
    return emulator.Program(image, load_machine(None)).start({}, timed=True)


def watched(system: emulator.program.System, step: float) -> tuple[Terminal, Progress]:
    terminal = Terminal()
    progress = Progress(system.image.nodes, lambda: system.cycles, 1e9, terminal, Clock(step))
    system.observers.append(progress)
    return terminal, progress


def lines(terminal: Terminal) -> list[str]:
    """Return the texts of the line in order, without sequences that only clear it."""
    return [text.strip() for text in terminal.getvalue().split("\r") if text.strip()]


def at(system: emulator.program.System, *nodes: str) -> None:
    """Put the first tiles at the nodes and let all others be done."""
    places = {name: address for address, name in sorted(system.image.nodes.items(), reverse=True)}
    for tile in system.tiles:
        tile.status = Status.EXITED
    for tile, node in zip(system.tiles, nodes, strict=False):
        tile.status, tile.pc = Status.RUNNING, places[node]


def test_the_slowest_tile_says_how_many_nodes_are_done() -> None:
    system = started()
    terminal, progress = watched(system, 2.0)
    for nodes in (("first", "third"), ("second", "third"), ("third",)):
        at(system, *nodes)
        progress.round_ended(system.tiles)
    said = lines(terminal)
    assert [re.search(r"^(\d+)%", line).group(1) for line in said] == ["0", "33", "67"]  # type: ignore[union-attr]
    assert "node 1 of 3 'first'" in said[0] and "node 2 of 3 'second'" in said[1]
    assert all(f"{instructions} instructions" in said[0] for instructions in (0,))


def test_code_of_no_node_does_not_go_back() -> None:
    system = started()
    terminal, progress = watched(system, 2.0)
    at(system, "second")
    progress.round_ended(system.tiles)
    system.tiles[0].pc = system.image.entry
    progress.round_ended(system.tiles)
    assert [line[:3] for line in lines(terminal)] == ["33%", "33%"]


def test_an_estimate_of_the_rest_appears_with_the_first_node() -> None:
    system = started()
    terminal, progress = watched(system, 2.0)
    at(system, "first")
    progress.round_ended(system.tiles)
    at(system, "second")
    progress.round_ended(system.tiles)
    first, second = lines(terminal)
    assert "+ ?" in first and re.search(r"\+ \d\d:\d\d ", second)


def test_a_real_run_counts_and_leaves_nothing() -> None:
    system = started(loops=3)
    terminal, _ = watched(system, 2.0)
    system.run()
    said = lines(terminal)
    retired = sum(tile.retired for tile in system.tiles)
    assert f"{short(retired)} instructions" in said[-1] and "ms simulated" in said[-1]
    assert "engine instructions/s" in said[-1]
    assert terminal.getvalue().endswith("\r") and terminal.getvalue().split("\r")[-2].strip() == ""


def test_a_quick_run_shows_nothing() -> None:
    system = started()
    terminal, progress = watched(system, 0.001)
    system.run()
    progress.round_ended(system.tiles)
    assert terminal.getvalue() == ""


def test_it_is_not_written_more_often_than_it_can_be_read() -> None:
    system = started()
    terminal, progress = watched(system, 0.01)
    at(system, "first")
    for _ in range(1000):
        progress.round_ended(system.tiles)
    # Every look at the clock takes 10 ms: a thousand rounds are ten seconds or more.
    assert 20 <= len(lines(terminal)) <= 110


def test_what_the_program_writes_passes_by_the_line() -> None:
    system = started()
    shown: list[bytes] = []
    system.show = lambda number, data: shown.append(data)
    terminal = Terminal()
    show_progress(system, terminal)
    progress = system.observers[-1]
    assert isinstance(progress, Progress)
    progress._next = 0.0
    at(system, "first")
    progress.round_ended(system.tiles)
    system.show(1, b"hello")
    assert shown == [b"hello"] and terminal.getvalue().endswith("\r")


@pytest.mark.parametrize("file", [io.StringIO(), None])
def test_nothing_is_watched_in_a_pipe(file: io.StringIO | None) -> None:
    system = started()
    observers = list(system.observers)
    show_progress(system, file)
    assert system.observers == observers


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1234, "1.2 k"), (5.67e7, "56.7 M"), (2e9, "2.0 G"), (3e12, "3.0 T")],
)
def test_short_counts(number: float, text: str) -> None:
    assert short(number) == text


# --- the command line on a terminal -------------------------------------------------------


def on_a_terminal(arguments: list[str]) -> tuple[str, str, int]:
    """Return standard output, standard error on a terminal, and exit status."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, COLUMNS, 0, 0))
    with subprocess.Popen([*MAIN, *arguments], stdout=subprocess.PIPE, stderr=slave, text=True) as run:
        os.close(slave)
        seen = b""
        while True:
            try:
                data = os.read(master, 4096)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            seen += data
        out = run.stdout.read() if run.stdout else ""
        status = run.wait(timeout=60)
    os.close(master)
    return out, seen.decode(), status


@pytest.fixture(scope="module")
def long_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("progress") / "long.bin"
    path.write_bytes(write_image(asm.assemble(LONG.format(loops=1_600_000), name="p.s")))
    return str(path)


@pytest.mark.long
def test_a_long_run_on_a_terminal(long_program: str) -> None:
    out, seen, status = on_a_terminal([long_program])
    assert (out, status) == ("", 0)
    assert "engine instructions/s" in seen and "of 3 '" in seen and "%" in seen
    assert seen.split("\r")[-1].strip() == ""
    assert max(map(len, seen.split("\r"))) <= COLUMNS


@pytest.mark.long
def test_quiet_and_short_runs_on_a_terminal(long_program: str, tmp_path: Path) -> None:
    assert on_a_terminal([long_program, "-q"]) == ("", "", 0)
    path = tmp_path / "short.bin"
    path.write_bytes(write_image(asm.assemble(LONG.format(loops=2), name="p.s")))
    assert on_a_terminal([str(path)]) == ("", "", 0)


def test_the_library_is_not_loaded_before_it_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "short.bin"
    path.write_bytes(write_image(asm.assemble(LONG.format(loops=2), name="p.s")))
    program = (
        f"import sys; from emulator.cli import main; main([{str(path)!r}]); print('tqdm' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stdout.strip() == "False", run.stderr
