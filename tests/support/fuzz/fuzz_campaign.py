"""Fuzzing for a given time: ``make fuzz SECONDS=N``.

    python tests/support/fuzz/fuzz_campaign.py 600             ten minutes more
    python tests/support/fuzz/fuzz_campaign.py 600 --jobs 2    with two processes side by side
    python tests/support/fuzz/fuzz_campaign.py 600 gdb states  of these kinds alone
    python tests/support/fuzz/fuzz_campaign.py --table         the counts so far, as a table
    python tests/support/fuzz/fuzz_campaign.py --page          the table into docs/reliability.md

An example depends only on its kind and its number (``fuzz_child.py``). ``build/fuzz/state.json`` holds the
next number of each kind, so every run resumes where the last one ended. If that file is missing or older, the
run resumes from the counts on the page, so no example runs twice. Batches of examples run in separate
processes, one kind after another. Hours are processor time of completed batches. If a process dies, hangs or
ends with an exception, its last line names the example. A file in ``build/fuzz/findings`` describes the
failure and the command that repeats it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from tqdm import tqdm

from documents import region, with_region
from fuzz_child import kinds
from paths import ROOT
from tx8isa.tools.files import write_whole

FOLDER = ROOT / "build" / "fuzz"
CHILD = Path(__file__).with_name("fuzz_child.py")
PAGE = ROOT / "docs" / "reliability.md"
REGION = "fuzz counts"
"""The region of the page that has the table."""
BATCH_SECONDS, LONGEST_SECONDS = 60, 300
ALONE_SECONDS = 3600
"""Seconds that a batch should take; seconds without an answer after which it counts as hanging."""
MOST_EXAMPLES = 20_000
"""Of a batch."""
OTHER_ENGINES = {"scalar": ("numba", "0"), "hot": ("numba",), "states": ("numba",), "gdb": ("numba",)}
"""Values of ``TX8_JIT`` with which some batches of these kinds run. Other kinds need hundreds of kernels, for
which Numba takes an hour; ``make long`` runs the tests of kernels with it."""
DIRECT = 14
"""Batches by the usual engine for each batch by one of the others."""
SLOWDOWN = 100
"""Plain Python runs so many times fewer examples in a batch."""
_EXECUTED = re.compile(r"(\d+) executed")
_SECONDS = re.compile(r"^([\d.]+) s of processor time$", re.MULTILINE)
"""The last line of standard error of a process that ended regularly."""
_ROW = re.compile(r"^\| (\w+) \| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \| ([\d,]+) \| ([\d,]+) \|$", re.MULTILINE)
"""A row of the table: kind, examples, instructions, hours, too large, findings."""


class Count(msgspec.Struct):
    """The counts of a kind."""

    following: int = 0
    """The number of the next example."""
    executed: int = 0
    """Engine instructions."""
    seconds: float = 0.0
    """Processor time of the examples."""
    too_large: int = 0
    """Networks that the compiler refused as too large for the chip that was drawn with them."""
    findings: int = 0


def read_state(folder: Path = FOLDER, page: Path = PAGE) -> dict[str, Count]:
    """Return the counts of all kinds, for each kind the larger one of the folder's and the page's."""
    path = folder / "state.json"
    state = msgspec.json.decode(path.read_bytes(), type=dict[str, Count]) if path.exists() else {}
    stated = counts_of(page.read_text(encoding="utf-8")) if page.exists() else {}
    return {kind: _further(state.get(kind, Count()), stated.get(kind, Count())) for kind in kinds()}


def _further(first: Count, second: Count) -> Count:
    return second if second.following > first.following else first


def counts_of(page: str) -> dict[str, Count]:
    """The counts in the table of a page, none if it has no table.

    Hours are rounded there, so those of the kinds are scaled to the sum in the last row.
    """
    rows = _ROW.findall((region(page, REGION) or "").replace(",", ""))
    found = {
        kind: Count(int(following), int(executed), 3600 * float(hours), int(too_large), int(findings))
        for kind, following, executed, hours, too_large, findings in rows
    }
    total, stated = found.pop("all", Count()), sum(count.seconds for count in found.values())
    for count in found.values():
        count.seconds *= total.seconds / stated if stated else 1.0
    return found


def write_state(state: dict[str, Count], folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "state.json", json.dumps(msgspec.to_builtins(state), indent=1).encode())


def engine(kind: str, number: int) -> str:
    """Draw the ``TX8_JIT`` of the batch of a kind that begins with an example."""
    return Random(f"{kind} {number} engine").choice((*["direct"] * DIRECT, *OTHER_ENGINES.get(kind, ())))


def batch(kind: str, count: Count, size: int, folder: Path = FOLDER, jit: str | None = None) -> None:
    """Run ``size`` examples in a separate process and add them to the count.

    ``jit``: ``TX8_JIT`` of the process, by default drawn; plain Python runs fewer. If they do not end,
    the last one runs again alone, because a busy machine may have been too slow.
    """
    jit = jit or engine(kind, count.following)
    size = size if jit != "0" else max(1, size // SLOWDOWN)
    command = [sys.executable, "-X", "faulthandler", str(CHILD), kind, str(count.following), str(size)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TX8_JIT": jit}
    ended, limit = True, LONGEST_SECONDS if size > 1 else ALONE_SECONDS
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env=environment, errors="replace"
        )
        count.seconds += sum(map(float, _SECONDS.findall(done.stderr)))
        output, fault = (
            done.stdout,
            f"exit status {done.returncode}\n{done.stderr[-4000:]}" if done.returncode else "",
        )
    except subprocess.TimeoutExpired as expired:
        output = (expired.stdout or b"").decode(errors="replace")
        fault = f"no end after {limit} s\n"
        ended = False
    begun = re.findall(rf"^{kind} (\d+) ", output, re.MULTILINE)
    count.executed += sum(map(int, _EXECUTED.findall(output)))
    count.too_large += len(re.findall(rf"^{kind} \d+ too large: ", output, re.MULTILINE))
    if not fault:
        count.following += size
        return
    number = int(begun[-1]) if begun else count.following
    if not ended and size > 1:
        count.following = number
        batch(kind, count, 1, folder, jit)
        return
    count.following, count.findings = number + 1, count.findings + 1
    _save_finding(kind, number, fault, folder, jit)


def _save_finding(kind: str, number: int, fault: str, folder: Path, jit: str) -> None:
    path = os.pathsep.join(sys.path)
    again = f"TX8_JIT={jit} PYTHONPATH={path} {sys.executable} {CHILD} {kind} {number} 1"
    (folder / "findings").mkdir(parents=True, exist_ok=True)
    write_whole(folder / "findings" / f"{kind}-{number}.txt", f"{again}\n\n{fault}".encode())


def campaign(
    seconds: float, chosen: list[str], jobs: int = 1, folder: Path = FOLDER, page: Path = PAGE
) -> int:
    """Fuzz for so many seconds with ``jobs`` parallel processes; return the number of new findings."""
    state = read_state(folder, page)
    before = sum(count.findings for count in state.values())
    with tqdm(total=round(seconds), unit="s", bar_format="{l_bar}{bar}| {n:.0f}/{total} s{postfix}") as line:
        progress = Progress(state, folder, time.monotonic() + seconds, seconds, line)
        with ThreadPoolExecutor(jobs) as pool:
            # Reading the results raises the exception of a thread that failed.
            list(pool.map(lambda job: _work(progress, chosen[job::jobs]), range(jobs)))
    return sum(count.findings for count in state.values()) - before


class Progress(msgspec.Struct):
    """The state of a running campaign, which its threads share; each thread has its own kinds."""

    state: dict[str, Count]
    folder: Path
    end: float
    """The time of ``time.monotonic`` from which no further batch begins."""
    seconds: float
    line: tqdm[Any]
    lock: threading.Lock = msgspec.field(default_factory=threading.Lock)

    def done(self, kind: str) -> None:
        """Write the state and draw the line after a batch of a kind."""
        with self.lock:
            write_state(self.state, self.folder)
            left = max(0.0, self.end - time.monotonic())
            self.line.n = round(self.seconds - left)
            self.line.set_postfix_str(f", {kind} {self.state[kind].following}, {_in_all(self.state)}")


def _work(progress: Progress, chosen: list[str]) -> None:
    """Run batches of some kinds in turn until the end."""
    sizes = {kind: first_size(progress.state[kind]) for kind in chosen}
    for kind in itertools.cycle(chosen):
        start = time.monotonic()
        if start >= progress.end:
            return
        batch(kind, progress.state[kind], sizes[kind], progress.folder)
        took = time.monotonic() - start
        sizes[kind] = _size(sizes[kind] * min(4.0, BATCH_SECONDS / took))
        progress.done(kind)


def first_size(count: Count) -> int:
    """Return the size of a kind's first batch, from the time that examples have taken so far."""
    return _size(BATCH_SECONDS * count.following / count.seconds) if count.seconds else 10


def _size(examples: float) -> int:
    return max(1, min(MOST_EXAMPLES, round(examples)))


def _in_all(state: dict[str, Count]) -> str:
    findings = sum(count.findings for count in state.values())
    return f"{findings} findings, {sum(count.too_large for count in state.values())} too large"


def table(state: dict[str, Count]) -> str:
    """The counts as Markdown."""
    lines = [
        "| kind | examples | engine instructions executed | hours | too large | findings |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    total = Count()
    for kind, count in state.items():
        lines.append(_row(kind, count))
        total.following += count.following
        total.executed += count.executed
        total.seconds += count.seconds
        total.too_large += count.too_large
        total.findings += count.findings
    return "\n".join([*lines, _row("all", total)]) + "\n"


def _row(kind: str, count: Count) -> str:
    hours = f"{count.seconds / 3600:.2f}"
    cells = (
        f"{count.following:,}",
        f"{count.executed:,}",
        hours,
        f"{count.too_large:,}",
        f"{count.findings:,}",
    )
    return f"| {' | '.join((kind, *cells))} |"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "fuzz_campaign.py", description="Fuzz for a while, on from where the last run ended."
    )
    parser.add_argument("seconds", nargs="?", type=int, help="for how long to fuzz")
    parser.add_argument("kinds", nargs="*", metavar="kind", help=f"of {', '.join(kinds())}; all of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--table", action="store_true", help="print the counts so far")
    parser.add_argument("--page", action="store_true", help="write the counts into docs/reliability.md")
    return parser


def main(arguments: list[str]) -> int:
    """Return exit status 1 if something was found; wrong usage ends with 2."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.table:
        print(table(read_state()), end="")
        return 0
    if options.page:
        made = with_region(PAGE.read_text(encoding="utf-8"), REGION, lambda _: table(read_state()).rstrip())
        PAGE.write_text(made, encoding="utf-8")
        return 0
    chosen = options.kinds or kinds()
    if options.seconds is None or options.seconds < 0:
        parser.error("say for how many seconds")
    if unknown := [kind for kind in chosen if kind not in kinds()]:
        parser.error(f"no kind is called {unknown[0]!r}; there are {', '.join(kinds())}")
    if not 1 <= options.jobs <= len(chosen):
        parser.error(f"--jobs must be from 1 to the number of kinds, {len(chosen)}")
    found = campaign(options.seconds, chosen, options.jobs)
    print(f"{found} new findings in {FOLDER / 'findings'}" if found else "nothing was found")
    print(f"in all: {_in_all(read_state())}")
    return int(found > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
