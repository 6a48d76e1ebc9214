"""Fuzzing for as long as wanted: ``make fuzz SECONDS=N``.

    python tests/support/fuzz/fuzz_campaign.py 600             ten minutes more
    python tests/support/fuzz/fuzz_campaign.py 600 gdb states  of these kinds alone
    python tests/support/fuzz/fuzz_campaign.py --table         the counts so far, as a table
    python tests/support/fuzz/fuzz_campaign.py --page          the table into docs/reliability.md

An example follows from its kind and its number alone (``fuzz_child.py``), and ``build/fuzz/state.json`` holds
the next number of each kind, so every run goes on where the last one ended. Where that file is missing or
behind, the counts on the page are where it goes on, so no example runs twice. Examples run in processes of
their own, a batch at a time and one kind after another. When a process dies, hangs or ends with an exception,
its last line names the example: a file in ``build/fuzz/findings`` says what happened and how to see it again.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from tqdm import tqdm

from fuzz_child import kinds
from paths import ROOT
from tx8isa.tools.files import write_whole

FOLDER = ROOT / "build" / "fuzz"
CHILD = Path(__file__).with_name("fuzz_child.py")
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- fuzz counts -->", "<!-- end of fuzz counts -->"
"""Around the table on the page."""
BATCH_SECONDS, LONGEST_SECONDS = 20, 300
"""How long a batch should take; after how long without an answer it hangs."""
_EXECUTED = re.compile(r"(\d+) executed")
_ROW = re.compile(r"^\| (\w+) \| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \| ([\d,]+) \| ([\d,]+) \|$", re.MULTILINE)
"""A row of the table: kind, examples, instructions, hours, too large, findings."""


class Count(msgspec.Struct):
    """What was done of a kind."""

    following: int = 0
    """The number of the next example."""
    executed: int = 0
    """Engine instructions."""
    seconds: float = 0.0
    too_large: int = 0
    """Networks that the compiler refused as too large for the chip that was drawn with them."""
    findings: int = 0


def read_state(folder: Path = FOLDER, page: Path = PAGE) -> dict[str, Count]:
    """The counts of all kinds, for each kind where more was done: in the folder or on the page."""
    path = folder / "state.json"
    state = msgspec.json.decode(path.read_bytes(), type=dict[str, Count]) if path.exists() else {}
    stated = counts_of(page.read_text(encoding="utf-8")) if page.exists() else {}
    return {kind: _further(state.get(kind, Count()), stated.get(kind, Count())) for kind in kinds()}


def _further(first: Count, second: Count) -> Count:
    return second if second.following > first.following else first


def counts_of(page: str) -> dict[str, Count]:
    """The counts in the table of a page, none if it has no table.

    Hours are rounded there; those of the kinds are scaled so that their sum is that of the last row.
    """
    rows = _ROW.findall(page.partition(BEGIN)[2].partition(END)[0].replace(",", ""))
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


def batch(kind: str, count: Count, size: int, folder: Path = FOLDER) -> None:
    """Run ``size`` examples in a process of its own and add them to the count."""
    command = [sys.executable, "-X", "faulthandler", str(CHILD), kind, str(count.following), str(size)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    start = time.monotonic()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            env=environment,
            errors="replace",
        )
        output, fault = (
            done.stdout,
            f"exit status {done.returncode}\n{done.stderr[-4000:]}" if done.returncode else "",
        )
    except subprocess.TimeoutExpired as expired:
        output = (expired.stdout or b"").decode(errors="replace")
        fault = f"no end after {LONGEST_SECONDS} s\n"
    count.seconds += time.monotonic() - start
    begun = re.findall(rf"^{kind} (\d+) ", output, re.MULTILINE)
    count.executed += sum(map(int, _EXECUTED.findall(output)))
    count.too_large += len(re.findall(rf"^{kind} \d+ too large: ", output, re.MULTILINE))
    if not fault:
        count.following += size
        return
    number = int(begun[-1]) if begun else count.following
    count.following, count.findings = number + 1, count.findings + 1
    _save_finding(kind, number, fault, folder)


def _save_finding(kind: str, number: int, fault: str, folder: Path) -> None:
    again = f"PYTHONPATH={os.pathsep.join(sys.path)} {sys.executable} {CHILD} {kind} {number} 1"
    (folder / "findings").mkdir(parents=True, exist_ok=True)
    write_whole(folder / "findings" / f"{kind}-{number}.txt", f"{again}\n\n{fault}".encode())


def campaign(seconds: float, chosen: list[str], folder: Path = FOLDER, page: Path = PAGE) -> int:
    """Fuzz for that long; the number of new findings."""
    state = read_state(folder, page)
    sizes = dict.fromkeys(chosen, 10)
    before, end = sum(count.findings for count in state.values()), time.monotonic() + seconds
    with tqdm(total=round(seconds), unit="s", bar_format="{l_bar}{bar}| {n:.0f}/{total} s{postfix}") as line:
        while time.monotonic() < end:
            for kind in chosen:
                count, start = state[kind], time.monotonic()
                batch(kind, count, sizes[kind], folder)
                took = time.monotonic() - start
                sizes[kind] = max(1, min(5000, round(sizes[kind] * min(4.0, BATCH_SECONDS / took))))
                write_state(state, folder)
                line.update(round(took))
                line.set_postfix_str(f", {kind} {count.following}, {_in_all(state)}")
                if time.monotonic() >= end:
                    break
    return sum(count.findings for count in state.values()) - before


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


def main(arguments: list[str]) -> int:
    """Exit status 1 when something was found, 2 for wrong usage."""
    if arguments == ["--table"]:
        print(table(read_state()), end="")
        return 0
    if arguments == ["--page"]:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{table(read_state())}{END}{after}", encoding="utf-8")
        return 0
    chosen = arguments[1:] or kinds()
    unknown = [kind for kind in chosen if kind not in kinds()]
    if not arguments or not arguments[0].isdecimal() or unknown:
        print(f"usage: fuzz_campaign.py SECONDS [{' | '.join(kinds())}] | --table | --page", file=sys.stderr)
        return 2
    found = campaign(float(arguments[0]), chosen)
    print(f"{found} new findings in {FOLDER / 'findings'}" if found else "nothing was found")
    print(f"in all: {_in_all(read_state())}")
    return int(found > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
