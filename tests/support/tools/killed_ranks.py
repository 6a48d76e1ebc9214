"""Runs tx8emu over two ranks and kills one of them, then checks everything that remains.

    python tests/support/tools/killed_ranks.py [RUNS [SEED]]     by default 1,000 runs

A rank is killed at a random moment of a run, as soon as it has begun, or as soon as files are being written.
Then all must end within seconds. The tool must have named the rank in one line. Or mpiexec must have reported
its end, if that came before all ranks had loaded MPI or after the rank had left. Output files must be
complete, with the same bytes as without a kill. No temporary file and no process may remain, and no shared
memory either if the tool has named the rank. Segments that MPI leaves before that are counted.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mpi_tools import MPIEXEC, SECONDS, rank_processes

RING = Path(__file__).resolve().parents[3] / "examples/assembly/ring.s"
OF_MPIEXEC = ("BAD TERMINATION", "[mpiexec@")
"""Messages of mpiexec about such an end of a process, the second one if it occurs during its own start."""
SHARED, SEGMENTS = Path("/dev/shm"), ("mpich_shm_", "ucx_shm_posix_")
RUNS = 1000
MOST_SECONDS = 20.0
"""From a kill to the end of all, on a busy machine; the sentinel of a run waits two seconds."""
MARK = "TX8_KILLED_RUN"
"""A variable by which the processes of a run are known."""
TRACE = "run.json"
OPTIONS = ("--chips", "2x2", "--random", "0", "-q", "--output-dir", "out", "--trace", TRACE)


@dataclass(frozen=True)
class KilledRun:
    """The result of a run. ``late``: the rank had ended, or finished its work, before it was killed."""

    victim: int
    moment: str
    late: bool
    named: bool
    """True if the tool has named the rank; otherwise only mpiexec has."""
    seconds: float
    """From the kill to the end."""
    problems: tuple[str, ...]
    segments: int
    """Of shared memory that MPI has left."""


class KilledRuns:
    """Runs of one program in separate folders."""

    def __init__(self, folder: Path, seed: int = 1) -> None:
        self._folder, self._random, self._number = folder, random.Random(seed), 0
        tool = Path(sys.executable).with_name("tx8as")
        subprocess.run([tool, "-q", RING, "-o", folder / "ring.bin"], check=True)
        for _ in range(2):  # the first one fills the cache of kernels
            begin = time.monotonic()
            with self._started(whole := folder / f"whole{_}") as run:
                assert run.wait(timeout=SECONDS) == 0
            self._seconds = time.monotonic() - begin
        self._files = _files(whole)

    def one(self) -> KilledRun:
        """A run one rank of which is killed."""
        self._number += 1
        folder, shared = self._folder / f"run{self._number}", left_segments()
        victim, moment = self._random.randrange(2), self._random.choice(("any", "any", "begin", "writing"))
        wait = self._random.uniform(0, 1.1 * self._seconds)
        with self._started(folder) as run:
            begun = time.monotonic()
            _until(lambda: len(rank_processes(run.pid)) == 2, run)
            ranks = rank_processes(run.pid)
            if moment == "any":
                time.sleep(max(0.0, begun + wait - time.monotonic()))
            elif moment == "writing":
                _until(lambda: _writes(folder), run)
            late = len(ranks) < 2 or not _is_alive(ranks[victim])
            if not late:
                os.kill(ranks[victim], signal.SIGKILL)
            killed = time.monotonic()
            printed, errors = run.communicate(timeout=SECONDS)
        seconds = time.monotonic() - killed
        late = late or (run.returncode == 0 and _files(folder) == self._files)  # it was about to exit
        lines = [line for line in errors.splitlines() if line.startswith("tx8emu")]
        found = self._problems(folder, victim, late, lines, run.returncode)
        if not lines and not late and not any(text in printed + errors for text in OF_MPIEXEC):
            found = [*found, f"nobody tells of rank {victim}: {printed + errors!r}"]
        segments = sorted(left_segments() - shared)
        if segments and lines:
            found = [*found, f"shared memory stays: {', '.join(segments)}"]
        if seconds > MOST_SECONDS:
            found = [*found, f"ended after {seconds:.0f} s"]
        return KilledRun(victim, moment, late, bool(lines), seconds, tuple(found), len(segments))

    def _started(self, folder: Path) -> subprocess.Popen[str]:
        folder.mkdir()
        tool = Path(sys.executable).with_name("tx8emu")
        command = [str(MPIEXEC), "-n", "2", str(tool), "../ring.bin", *OPTIONS]
        return subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, MARK: str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _problems(self, folder: Path, victim: int, late: bool, lines: list[str], status: int) -> list[str]:
        """Return the mistakes after a run."""
        found, files = [], _files(folder)
        arrays = {name for name in self._files if name != TRACE}
        if not arrays <= files.keys() and not arrays.isdisjoint(files):
            found.append(f"a part of the outputs: {', '.join(sorted(files))}")
        found += [f"'{name}' is not whole" for name in files if files[name] != self._files.get(name)]
        if lines and not any(f"rank {victim} (" in line for line in lines):
            found.append(f"not rank {victim} is named: {lines[0]}")
        if len(lines) > 1:
            found.append(f"{len(lines)} lines: {lines}")
        if status == 0 and (files != self._files or not late):
            found.append(f"exit status 0 with {sorted(files)}")
        if not _until(lambda: not _processes(folder), seconds=MOST_SECONDS):
            found.append(f"processes {_processes(folder)} stay")
        return found


def left_segments() -> set[str]:
    """Names of MPI's shared memory that no process maps; mapped ones belong to other runs."""
    names = {path.name for path in SHARED.iterdir() if path.name.startswith(SEGMENTS)}
    for maps in Path("/proc").glob("[0-9]*/maps") if names else ():
        with suppress(OSError):
            text = maps.read_text()
            names = {name for name in names if f"{SHARED}/{name}\n" not in text}
    return names


def _files(folder: Path) -> dict[str, bytes]:
    """All files of a run."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _writes(folder: Path) -> bool:
    """Return True if there is any file of a run, also a temporary one."""
    return any(entry.is_file() for place in (folder, folder / "out") for entry in _scanned(place))


def _scanned(folder: Path) -> Iterator[os.DirEntry[str]]:
    with suppress(FileNotFoundError):
        yield from os.scandir(folder)


def _until(
    true: Callable[[], bool], run: subprocess.Popen[str] | None = None, seconds: float = SECONDS
) -> bool:
    """Wait for a condition; return True if it holds before the run has ended or the time is over."""
    last = time.monotonic() + seconds
    while time.monotonic() < last and (run is None or run.poll() is None):
        if true():
            return True
    return False


def _is_alive(process: int) -> bool:
    """Return True if a process runs; a zombie does not."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def _processes(folder: Path) -> list[int]:
    """The processes that belong to a run."""
    mark, found = f"{MARK}={folder}".encode(), []
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with suppress(OSError):
                if mark in Path(entry.path, "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def main(arguments: list[str]) -> int:
    """Print the results of this many runs; return status 1 if anything is wrong with one of them."""
    count, seed = ([int(text) for text in arguments] + [RUNS, 1][len(arguments) :])[:2]
    counts: Counter[str] = Counter()
    longest = 0.0
    with tempfile.TemporaryDirectory() as name:
        runs = KilledRuns(Path(name), seed)
        for number in range(count):
            run = runs.one()
            counts[f"rank {run.victim}, {'too late' if run.late else run.moment}"] += 1
            counts["named by the tool"] += run.named
            counts["segments of shared memory left"] += run.segments
            longest = max(longest, run.seconds)
            for problem in run.problems:
                counts["problems"] += 1
                print(f"run {number}: rank {run.victim}, {run.moment}: {problem}", flush=True)
            if number % 50 == 49:
                print(f"{number + 1} runs, the longest end {longest:.1f} s", dict(counts), flush=True)
    print(f"{count} runs, the longest end {longest:.1f} s", dict(counts))
    return 1 if counts["problems"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
