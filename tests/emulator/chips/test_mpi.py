"""tx8emu under mpiexec: the same output as in one process, one line for a failure, and a killed rank."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import asm
from asm.image import write_image
from killed_ranks import KilledRuns, left_segments
from mpi_tools import MPIEXEC, SECONDS, emulate, needs_mpi, rank_processes
from paths import ROOT

RING = (ROOT / "examples/assembly/ring.s").read_text(encoding="utf-8")
HASTY = RING.replace("        call    receive\n", "")
MESH = ["ring.bin", "--chips", "2x2", "--random", "0", "-q"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the ring of four chips, and with a version that forgets to wait."""
    for name, text in (("ring", RING), ("hasty", HASTY)):
        (tmp_path / f"{name}.bin").write_bytes(write_image(asm.assemble(text, f"{name}.s")))
    return tmp_path


def everything(folder: Path, ranks: int, *options: str) -> tuple[object, ...]:
    """Return everything that a run of the ring prints and writes."""
    out = f"out{ranks}{''.join(options)}"
    files = ["--output-dir", out, "--trace", f"{out}.json"]
    done = emulate(ranks, *MESH, *files, "--stats=json", *options, folder=folder)
    arrays = {path.name: path.read_bytes() for path in sorted((folder / out).iterdir())}
    events = json.loads((folder / f"{out}.json").read_text())
    return done.stdout, done.stderr, done.returncode, arrays, events


@pytest.mark.long
@needs_mpi
def test_two_ranks_write_what_one_process_does(folder: Path) -> None:
    one = everything(folder, 1)
    assert one[1:3] == ("", 0)
    assert len(json.loads(str(one[0]))["chips"]) == 4
    assert everything(folder, 2) == one


@needs_mpi
@pytest.mark.long
def test_the_same_for_every_number_of_ranks_and_placement(folder: Path) -> None:
    one = everything(folder, 1)
    for placement in ("cyclic", "1,0,0,1"):
        assert everything(folder, 2, "--placement", placement, "--threads", "2") == one
    for placement in ("block", "3,1,0,2"):
        assert everything(folder, 4, "--placement", placement) == one


@needs_mpi
@pytest.mark.long
def test_each_rank_makes_the_pages_of_its_chips(folder: Path) -> None:
    assert emulate(2, *MESH, "--html", "run.html", folder=folder).returncode == 0
    for chip in range(4):
        assert f"chip {chip}" in (folder / f"run.chip{chip}.html").read_text(encoding="utf-8")


@needs_mpi
@pytest.mark.parametrize(
    ("options", "status"),
    [
        pytest.param(
            ["hasty.bin", "--chips", "2x2", "--random", "0", "--strict", "-q"], 3, marks=pytest.mark.long
        ),
        ([*MESH, "--max-instructions", "700"], 3),
        pytest.param([*MESH, "--json", "--strict", "--chip", "3"], 0, marks=pytest.mark.long),
        pytest.param([*MESH, "--dump-tensor", "y", "--chip", "3"], 0, marks=pytest.mark.long),
    ],
    ids=["hazards", "a fault", "the verdict", "a dump of another rank"],
)
def test_what_is_found_is_the_same(options: list[str], status: int, folder: Path) -> None:
    one, two = (emulate(ranks, *options, folder=folder) for ranks in (1, 2))
    assert one.returncode == two.returncode == status
    assert one.stdout + one.stderr != ""
    assert (two.stdout, two.stderr) == (one.stdout, one.stderr)


@needs_mpi
@pytest.mark.parametrize(
    ("ranks", "options", "status", "message"),
    [
        (3, MESH, 1, "3 ranks for 4 chips: expected a number that divides them (1, 2, 4)"),
        pytest.param(2, MESH[:3], 1, "input 'x' (16x1024 float32) is missing", marks=pytest.mark.long),
        pytest.param(2, ["ring.bin"], 1, "2 ranks for 1 chip: expected one of 1", marks=pytest.mark.long),
        pytest.param(2, ["none.bin"], 1, "none.bin: cannot be read: No such file", marks=pytest.mark.long),
        pytest.param(
            2, [*MESH, "--placement", "0,0,0,0"], 1, "--placement 0,0,0,0: rank 1 has", marks=pytest.mark.long
        ),
    ],
)
def test_a_refusal_is_one_line_of_one_rank(
    ranks: int, options: list[str], status: int, message: str, folder: Path
) -> None:
    done = emulate(ranks, *options, folder=folder)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (status, "")
    assert line.startswith(f"tx8emu: error: {message}")


MISSING = "sys.modules['mpi4py'] = None"
NO_LIBRARY = """
def load(name): raise RuntimeError('cannot load MPI library\\nlibmpi.so: no such file')
sys.modules['mpi4py'] = types.ModuleType('mpi4py'); sys.modules['mpi4py'].__getattr__ = load
"""


@pytest.mark.parametrize("without", [MISSING, NO_LIBRARY], ids=["mpi4py", "the library"])
def test_mpi_that_is_not_installed(without: str, folder: Path) -> None:
    """One line with the command that installs it, from rank 0 alone."""
    start = f"import sys, types\n{without}\nfrom emulator.cli import main; sys.exit(main())"
    for rank, lines in ((0, 1), (1, 0)):
        done = subprocess.run(
            [sys.executable, "-c", start, *MESH],
            cwd=folder,
            env={**os.environ, "PMI_RANK": str(rank), "PMI_SIZE": "2"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", lines)
        if lines:
            assert done.stderr.startswith("tx8emu: error: mpiexec has started 2 ranks, and mpi4py cannot be")
            assert done.stderr.endswith("install it with: pip install mpi4py mpich\n")


ENDLESS = """
_start: li      a0, 1
        la      a1, word
        li      a2, 6
        li      a7, 64
        csrr    t0, mhartid
        bnez    t0, loop
        ecall
loop:   dte.unicast dst=0x800, src=0x100, tile=1, n=64
        dte.wait
        j       loop
        .section .rodata
word:   .ascii  "begun\\n"
"""


@needs_mpi
@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.long), 1])
def test_a_rank_that_is_killed_ends_all_with_one_line(victim: int, tmp_path: Path) -> None:
    (tmp_path / "endless.bin").write_bytes(write_image(asm.assemble(ENDLESS)))
    files = ["--output-dir", "out", "--trace", "run.json", "--html", "run.html"]
    tool = str(Path(sys.executable).with_name("tx8emu"))
    command = [str(MPIEXEC), "-n", "2", tool, "endless.bin", "--chips", "2x1", "-q", *files]
    segments = left_segments()
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None and run.stdout.readline() == "begun\n"
        ranks = rank_processes(run.pid)
        assert len(ranks) == 2
        os.kill(ranks[victim], signal.SIGKILL)
        killed = time.monotonic()
        _, errors = run.communicate(timeout=SECONDS)
        assert time.monotonic() - killed < 10
    lines = [line for line in errors.splitlines() if line.startswith("tx8emu")]
    assert lines == [
        f"tx8emu: error: rank {victim} (process {ranks[victim]}, chips {victim}) "
        "has died, and the run with it"
    ]
    assert run.returncode != 0
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["endless.bin"]
    assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)
    assert left_segments() <= segments, "shared memory of MPI stays"


@needs_mpi
@pytest.mark.long
def test_a_rank_killed_at_any_time(tmp_path: Path) -> None:
    """No incomplete file is left and no rank hangs; most kills come when the tool can name the rank."""
    runs = KilledRuns(tmp_path)
    done = [runs.one() for _ in range(20)]
    assert [problem for run in done for problem in run.problems] == []
    assert any(run.named for run in done)
