"""Fuzzing in batches: it resumes where it ended, and saves a finding with the command that repeats it."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

import fuzz_campaign
import fuzz_networks
from compiler.graph import CapacityError, GraphError
from documents import region
from fuzz_campaign import (
    BATCH_SECONDS,
    MOST_EXAMPLES,
    REGION,
    Count,
    batch,
    campaign,
    counts_of,
    first_size,
    main,
    read_state,
    table,
    write_state,
)
from fuzz_child import kinds
from network_draws import Setting

BEGIN, END = f"<!-- {REGION} -->", f"<!-- end of {REGION} -->"

CHILD = """
import os, sys, time
kind, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for number in range(first, first + count):
    print(kind, number, end=" ", flush=True)
    if number == 7:
        {}
    print("3 executed", flush=True)
print("1.25 s of processor time", file=sys.stderr)
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A substitute for the process; the test fills in its behaviour for example 7."""
    path = tmp_path / "child.py"
    path.write_text(CHILD.format("pass"))
    monkeypatch.setattr(fuzz_campaign, "CHILD", path)
    return path


def test_what_was_done_is_counted(child: Path, tmp_path: Path) -> None:
    count = Count(following=20)
    batch("gdb", count, 5, tmp_path)
    assert (count.following, count.executed, count.findings) == (25, 15, 0)
    assert count.seconds == 1.25
    assert count.too_large == 0
    assert not (tmp_path / "findings").exists()


def test_engines_are_drawn_and_named_in_findings(
    child: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = {kind: {fuzz_campaign.engine(kind, number) for number in range(200)} for kind in kinds()}
    others = fuzz_campaign.OTHER_ENGINES
    assert drawn == {kind: {"direct", *others.get(kind, ())} for kind in kinds()}
    monkeypatch.setattr(fuzz_campaign, "engine", lambda kind, number: "0")
    child.write_text(CHILD.format("sys.exit(os.environ['TX8_JIT'])"))
    count = Count(following=7)
    batch("scalar", count, 250, tmp_path)
    assert count.following == 8
    text = (tmp_path / "findings" / "scalar-7.txt").read_text()
    assert text.startswith("TX8_JIT=0 PYTHONPATH=") and text.endswith("\n0\n")
    batch("scalar", count, 250, tmp_path)
    assert count.following == 10, "plain Python runs a hundredth of the examples"


def test_networks_that_are_too_large_are_counted_apart(child: Path, tmp_path: Path) -> None:
    child.write_text(CHILD.format("print(\"too large: node 'n4' (AveragePool): too large: twice\")"))
    count = Count()
    batch("networks", count, 9, tmp_path)
    assert (count.following, count.too_large, count.findings) == (9, 1, 0)


@pytest.mark.parametrize(
    ("end", "fault"),
    [
        ("os.abort()", "exit status -6\nFatal Python error: Aborted"),
        ("raise ValueError(number)", "ValueError: 7"),
        ("time.sleep(60)", "no end after 1 s"),
    ],
)
def test_what_ends_a_process_is_saved(
    child: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, fault: str
) -> None:
    child.write_text(CHILD.format(end))
    monkeypatch.setattr(fuzz_campaign, "LONGEST_SECONDS", 2)
    monkeypatch.setattr(fuzz_campaign, "ALONE_SECONDS", 1)
    count = Count(following=5)
    batch("gdb", count, 10, tmp_path)
    assert (count.following, count.executed, count.findings) == (8, 6, 1)
    (finding,) = (tmp_path / "findings").iterdir()
    text = finding.read_text()
    assert finding.name == "gdb-7.txt" and fault in text
    assert re.match(rf"TX8_JIT=\w+ PYTHONPATH=.* {re.escape(str(child))} gdb 7 1\n", text)
    batch("gdb", count, 2, tmp_path)
    assert (count.following, count.findings) == (10, 1)


@pytest.mark.long
def test_examples_that_had_no_time_are_no_finding(
    child: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child.write_text(CHILD.format("time.sleep(60 if count > 1 else 0)"))
    monkeypatch.setattr(fuzz_campaign, "LONGEST_SECONDS", 3)
    monkeypatch.setattr(fuzz_campaign, "ALONE_SECONDS", 4)
    count = Count(following=5)
    batch("gdb", count, 10, tmp_path)
    assert (count.following, count.executed, count.findings) == (8, 9, 0)
    assert not (tmp_path / "findings").exists()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_campaign_goes_on_where_the_last_one_ended(child: Path, tmp_path: Path, jobs: int) -> None:
    page = tmp_path / "no_page.md"
    assert campaign(0.5, ["gdb", "states"], jobs, tmp_path, page) == 0
    first = read_state(tmp_path, page)
    assert first["gdb"].following >= 10 and first["states"].following >= 10
    assert campaign(0.5, ["gdb"], 1, tmp_path, page) == 0
    second = read_state(tmp_path, page)
    assert second["gdb"].following >= first["gdb"].following + 10
    assert second["states"] == first["states"]
    assert set(second) == set(kinds())


STATE = {"gdb": Count(1200, 0, 1800.0, 0, 1), "networks": Count(1007, 5_000_000, 3600.0, 2)}


def test_the_table_of_counts(tmp_path: Path) -> None:
    write_state(STATE, tmp_path)
    lines = table(read_state(tmp_path, tmp_path / "no_page.md")).splitlines()
    assert "| gdb | 1,200 | 0 | 0.50 | 0 | 1 |" in lines
    assert lines[-1] == "| all | 2,207 | 5,000,000 | 1.50 | 2 | 1 |"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page that states the counts of ``STATE`` between other texts."""
    path = tmp_path / "page.md"
    path.write_text(
        f"| other | 1 | 2 | 3 | 4 | 5 |\n{BEGIN}\n{table(STATE)}{END}\n| more | 1 | 2 | 3 | 4 | 5 |\n"
    )
    return path


def test_the_counts_go_into_the_page(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time nothing changes; a page without the region stays as it is."""
    monkeypatch.setattr(fuzz_campaign, "PAGE", page)
    monkeypatch.setattr(fuzz_campaign, "read_state", lambda: {"gdb": Count(7)})
    around = [page.read_text().splitlines()[at] for at in (0, -1)]
    assert main(["--page"]) == 0
    made = page.read_text()
    assert region(made, REGION) == table({"gdb": Count(7)}).rstrip()
    assert [made.splitlines()[at] for at in (0, -1)] == around
    assert main(["--page"]) == 0 and page.read_text() == made
    page.write_text("no table")
    with pytest.raises(SystemExit, match="the page has no region <!-- fuzz counts -->"):
        main(["--page"])
    assert page.read_text() == "no table"


def test_without_a_state_the_page_says_where_to_go_on(child: Path, tmp_path: Path, page: Path) -> None:
    assert read_state(tmp_path, page) == {kind: STATE.get(kind, Count()) for kind in kinds()}
    child.write_text(CHILD.replace("number == 7", "number < 1200").format("raise ValueError"))
    assert campaign(0.1, ["gdb"], 1, tmp_path, page) == 0, "an example of the page ran again"
    assert read_state(tmp_path, page)["gdb"].following >= 1210


def test_a_state_behind_the_page_is_not_taken(tmp_path: Path, page: Path) -> None:
    behind, ahead = Count(100, 9, 10.0, 0, 3), Count(2000, 7, 7200.0, 4, 0)
    write_state({"gdb": behind, "networks": ahead}, tmp_path)
    state = read_state(tmp_path, page)
    assert state["gdb"] == STATE["gdb"] and state["networks"] == ahead


def test_rounded_hours_of_a_page_keep_their_sum() -> None:
    """Each kind took 0.004 h, which the table shows as 0.00 for them and 0.07 for all; one took 0.01."""
    state = {kind: Count(1, 0, 14.4) for kind in kinds()}
    state["gdb"].seconds = 36.0
    again = counts_of(f"{BEGIN}\n{table(state)}{END}")
    assert table(again).splitlines()[-1] == table(state).splitlines()[-1]


@pytest.mark.parametrize("text", ["", "no table", f"{BEGIN}\n| gdb | many | 0 | 0.5 | 0 | 1 |\n{END}"])
def test_a_page_without_counts_states_none(text: str) -> None:
    assert counts_of(text) == {}


@pytest.mark.parametrize(
    ("spm_bytes", "error"),
    [(0x8000, CapacityError), (0x300000, None), (0x8000, GraphError), (0x300000, GraphError)],
)
def test_what_of_a_network_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, spm_bytes: int, error: type[GraphError] | None
) -> None:
    """A network too large for a small scratchpad is no finding; one too large for the chip's, or another
    refusal, is."""

    def refused(*_: object) -> list[str]:
        raise (error or CapacityError)(["node 'n' does not fit"])

    monkeypatch.setattr(fuzz_networks, "problems", refused)
    monkeypatch.setattr(fuzz_networks, "setting", lambda _: Setting("fp16", 1, spm_bytes, "off"))
    if error is CapacityError:
        assert fuzz_networks.example(Random(1)) == "too large: node 'n' does not fit"
    else:
        with pytest.raises(GraphError, match="node 'n' does not fit"):
            fuzz_networks.example(Random(1))


def test_a_pool_that_is_too_large_is_refused_as_such() -> None:
    """The network that the campaign found refused first."""
    assert fuzz_networks.example(Random("networks 153")).startswith(
        "too large: node 'n4' (AveragePool): one row"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say for how many seconds"),
        (["ten"], "invalid int value: 'ten'"),
        (["5", "nothing"], "no kind is called 'nothing'; there are instructions, "),
        (["5", "gdb", "--jobs", "2"], "--jobs must be from 1 to the number of kinds, 1"),
        (["5", "--jobs", "0"], "--jobs must be from 1 to the number of kinds, 20"),
        (["-5"], "say for how many seconds"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    assert message in capsys.readouterr().err


def test_the_page_has_a_row_for_each_kind() -> None:
    page = fuzz_campaign.PAGE.read_text(encoding="utf-8")
    counts = region(page, REGION)
    assert counts is not None
    assert re.findall(r"^\| (\w+) \|", counts, re.MULTILINE) == ["kind", *kinds(), "all"]


def test_the_first_batch_is_as_large_as_the_time_of_earlier_ones_says() -> None:
    assert first_size(Count()) == 10
    assert first_size(Count(following=600, seconds=30.0)) == 600 / 30 * BATCH_SECONDS
    assert first_size(Count(following=3, seconds=900.0)) == 1
    assert first_size(Count(following=10**6, seconds=1.0)) == MOST_EXAMPLES
