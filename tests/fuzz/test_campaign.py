"""Fuzzing in batches: it goes on where it ended, and what ends a process is saved with the way to it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fuzz_campaign
from fuzz_campaign import Count, batch, campaign, main, read_state, table, write_state
from fuzz_child import kinds

CHILD = """
import os, sys, time
kind, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for number in range(first, first + count):
    print(kind, number, end=" ", flush=True)
    if number == 7:
        {}
    print("3 executed", flush=True)
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process that is called as the real one; what it does with example 7 is to be filled in."""
    path = tmp_path / "child.py"
    path.write_text(CHILD.format("pass"))
    monkeypatch.setattr(fuzz_campaign, "CHILD", path)
    return path


def test_what_was_done_is_counted(child: Path, tmp_path: Path) -> None:
    count = Count(following=20)
    batch("gdb", count, 5, tmp_path)
    assert (count.following, count.executed, count.findings) == (25, 15, 0)
    assert count.seconds > 0
    assert not (tmp_path / "findings").exists()


@pytest.mark.parametrize(
    ("end", "fault"),
    [
        ("os.abort()", "exit status -6\nFatal Python error: Aborted"),
        ("raise ValueError(number)", "ValueError: 7"),
        ("time.sleep(60)", "no end after 3 s"),
    ],
)
def test_what_ends_a_process_is_saved(
    child: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, fault: str
) -> None:
    child.write_text(CHILD.format(end))
    monkeypatch.setattr(fuzz_campaign, "LONGEST_SECONDS", 3)
    count = Count(following=5)
    batch("gdb", count, 10, tmp_path)
    assert (count.following, count.executed, count.findings) == (8, 6, 1)
    (finding,) = (tmp_path / "findings").iterdir()
    text = finding.read_text()
    assert finding.name == "gdb-7.txt" and fault in text
    assert re.match(rf"PYTHONPATH=.* {re.escape(str(child))} gdb 7 1\n", text)
    batch("gdb", count, 2, tmp_path)
    assert (count.following, count.findings) == (10, 1)


def test_a_campaign_goes_on_where_the_last_one_ended(child: Path, tmp_path: Path) -> None:
    assert campaign(0.5, ["gdb", "states"], tmp_path) == 0
    first = read_state(tmp_path)
    assert first["gdb"].following >= 10
    assert campaign(0.5, ["gdb"], tmp_path) == 0
    second = read_state(tmp_path)
    assert second["gdb"].following >= first["gdb"].following + 10
    assert second["states"] == first["states"]
    assert set(second) == set(kinds())


def test_the_table_of_counts(tmp_path: Path) -> None:
    write_state({"gdb": Count(1200, 0, 1800.0, 1), "orders": Count(7, 5_000_000, 3600.0)}, tmp_path)
    lines = table(read_state(tmp_path)).splitlines()
    assert "| gdb | 1,200 | 0 | 0.50 | 1 |" in lines
    assert lines[-1] == "| all | 1,207 | 5,000,000 | 1.50 | 1 |"


@pytest.mark.parametrize("arguments", [[], ["ten"], ["5", "nothing"], ["-5"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: fuzz_campaign.py SECONDS [instructions | ")


def test_the_page_has_a_row_for_each_kind() -> None:
    page = fuzz_campaign.PAGE.read_text(encoding="utf-8")
    counts = page.partition(fuzz_campaign.BEGIN)[2].partition(fuzz_campaign.END)[0]
    assert re.findall(r"^\| (\w+) \|", counts, re.MULTILINE) == ["kind", *kinds(), "all"]
