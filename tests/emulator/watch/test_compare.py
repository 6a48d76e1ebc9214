"""Two compared runs: by hand-made reports, as an option, from Python, in the page."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

import asm
import tx8
from asm.image import write_image
from emulator.cli import main
from emulator.timing.slices import TICKS
from emulator.watch.stats.compare import FigureChange, compare, read_report
from emulator.watch.stats.types import NodeTime, Report
from machine_files import warm_machine
from made_statistics import batch, counted, ct, image, report_of
from report_page import embedded
from square_program import square_program
from tx8.views.html import ComparisonView
from tx8isa.errors import Tx8Error

Capture = pytest.CaptureFixture[str]


def report(cycles: int = 1000, **changes: object) -> Report:
    made = report_of(counted(image({}), [batch(ct(ended=cycles))], [cycles * TICKS]))
    changed: Report = msgspec.structs.replace(made, **changes)
    return changed


def node(name: str, cycles: float) -> NodeTime:
    return NodeTime(name, cycles, 0.5, None, 0.0, {}, {}, 1, 0, 0)


@pytest.fixture
def programs(tmp_path: Path) -> list[list[str]]:
    """Arguments for a program that squares once, and for one that does so three times."""
    np.save(tmp_path / "x.npy", np.ones((16, 2048), dtype=np.float16))
    found = []
    for times in (1, 3):
        path = tmp_path / f"p{times}.bin"
        path.write_bytes(write_image(asm.assemble(square_program(times), name="p.s")))
        found.append([str(path), "--input", f"x={tmp_path / 'x.npy'}", "--machine", warm_machine(tmp_path)])
    return found


# --- reports ------------------------------------------------------------------------------


def test_equal_reports_differ_in_nothing() -> None:
    (run,) = compare(report(), report()).tables
    assert run.title == "run" and all(change.difference == 0 for change in run.changes)


def test_differences_are_sorted_and_those_left_out_are_counted() -> None:
    before = [node(f"n{number}", 100.0) for number in range(30)] + [node("same", 7.0), node("gone", 4000.0)]
    after = [node(f"n{number}", 100.0 - number) for number in range(30)] + [node("same", 7.0), node("", 50.0)]
    found = compare(report(nodes=before), report(900, nodes=after))
    (nodes,) = [table for table in found.tables if table.title == "nodes, cycles"]
    assert [change.name for change in nodes.changes[:4]] == ["gone", "(no node)", "n29", "n28"]
    assert nodes.changes[0] == FigureChange("gone", 4000.0, None) and nodes.changes[0].difference == -4000
    assert len(nodes.changes) + nodes.left_out == 29 + 2
    assert found["cycles"].cells() == ("1,000", "900", "-100", "-10.0%")
    with pytest.raises(KeyError, match="no figure 'same' in the comparison"):
        found["same"]


def test_names_do_not_break_lines_and_lines_are_short() -> None:
    after = report(nodes=[node("a\nlong " + "name " * 40, 9e15)])
    lines = str(compare(report(), after)).splitlines()
    assert all(len(line) <= 110 for line in lines)
    assert sum(line.startswith("a long name") for line in lines) == 1


def test_html_shows_names_as_text() -> None:
    after = report(nodes=[node("<script>", 5.0)])
    page = ComparisonView(compare(report(), after).tables)._repr_html_()
    assert "&lt;script&gt;" in page and "<script>" not in page


# --- files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no statistics of a run: Input data was truncated"),
        ("[1]", "no statistics of a run: Expected `object`, got `array`"),
        ('{"cycles": 5}', "no statistics of a run: Object missing required field"),
        ('{"run": 5}', "no statistics of a run: Expected `object`, got `int`"),
        ('{"last_chip": 3, "chips": [{}]}', "no statistics of a run: list index out of range"),
        ('{"last_chip": 0, "chips": [{}], "version": 2}', "no statistics of a run: Invalid enum value 2"),
    ],
)
def test_a_file_without_statistics_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(Tx8Error) as refused:
        read_report(path)
    assert str(refused.value).startswith(f"{path}: {message}")
    assert "expected what tx8emu --stats=json prints" in str(refused.value)


def test_fields_of_another_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_bytes(msgspec.json.encode(report()).replace(b'"version":1', b'"version":2'))
    with pytest.raises(Tx8Error, match=r"no statistics of a run: Invalid enum value 2 - at `\$.version`"):
        read_report(path)


def test_a_file_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(Tx8Error, match=r"1,073,741,824 bytes; allowed are 67,108,864"):
        read_report(path)


def test_of_several_chips_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    chips = [msgspec.to_builtins(report(cycles)) for cycles in (10, 70)]
    path.write_text(json.dumps({"last_chip": 1, "chips": chips, "links": [], "cycles": 70, "version": 1}))
    assert read_report(path).cycles == 70


# --- the option ---------------------------------------------------------------------------


def test_a_run_beside_an_earlier_one(programs: list[list[str]], tmp_path: Path, capsys: Capture) -> None:
    """Two more squares of 2,048 elements on each of sixteen tiles, and no other work of engines."""
    once, thrice = programs
    old = tmp_path / "old.json"
    assert main([*once, "--report", str(old)]) == 0
    earlier = json.loads(old.read_text())["run"]
    assert main([*thrice, "--against", str(old)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = {row[0]: row[-4:] for row in lines if row}
    assert rows["run"] == ["run", "before", "after", "difference"]
    assert rows["cycles"][0] == f"{earlier['cycles']:,.0f}" and rows["cycles"][2].startswith("+")
    assert ["engine", "instructions", "80", "112", "+32", "+40.0%"] in lines
    assert rows["ct.mul.vv"] == ["16", "48", "+32", "+200.0%"]
    assert "rdma" not in rows and "square" in rows and "+200.0%" in rows["CT"]


def test_stats_come_before_the_comparison(programs: list[list[str]], tmp_path: Path, capsys: Capture) -> None:
    once, _ = programs
    old = tmp_path / "old.json"
    assert main([*once, "--stats=json"]) == 0
    old.write_text(capsys.readouterr().out)
    assert main([*once, "--stats"]) == 0
    alone = capsys.readouterr().out
    assert main([*once, "--stats", "--against", str(old)]) == 0
    both = capsys.readouterr().out
    assert both.startswith(alone) and both[len(alone) :].startswith("run ")


def test_the_page_shows_the_comparison(programs: list[list[str]], tmp_path: Path, capsys: Capture) -> None:
    once, thrice = programs
    old, page, plain = (tmp_path / name for name in ("old.json", "new.html", "plain.html"))
    assert main([*once, "--report", str(old), "--html", str(plain)]) == 0
    assert main([*thrice, "--html", str(page), "--against", str(old)]) == 0
    assert embedded(plain.read_text())[0]["against"] == []
    tables = {table["title"]: table["rows"] for table in embedded(page.read_text())[0]["against"]}
    assert ["ct.mul.vv", "16", "48", "+32", "+200.0%"] in tables["instructions executed"]
    assert tables["run"][0][0] == "cycles"


@pytest.mark.parametrize(
    ("more", "status", "message"),
    [
        (["--stats=json", "--against", "{old}"], 2, "argument --against: not with --stats=json"),
        (["--json", "--against", "{old}"], 2, "argument --json: not with --against"),
        (["--against", "{missing}"], 1, "missing.json: cannot be read: No such file or directory"),
        (["--against", "{old}", "--report", "{old}"], 1, "old.json"),
    ],
)
def test_refusals(
    programs: list[list[str]], tmp_path: Path, capsys: Capture, more: list[str], status: int, message: str
) -> None:
    old = tmp_path / "old.json"
    assert main([*programs[0], "--report", str(old)]) == 0
    before = old.read_bytes()
    files = {"old": old, "missing": tmp_path / "missing.json"}
    try:
        found = main([*programs[0], *(word.format(**files) for word in more)])
    except SystemExit as left:
        found = int(left.code or 0)
    assert (found, old.read_bytes()) == (status, before)
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_of_chips_those_that_end_last_are_compared(
    programs: list[list[str]], tmp_path: Path, capsys: Capture
) -> None:
    old = tmp_path / "old.json"
    once, thrice = ([name, "--chips", "2x1", "--random", "1"] for name, *_ in programs)
    assert main([*once, "--report", str(old)]) == 0
    capsys.readouterr()
    assert main([*thrice, "--against", str(old)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["ct.mul.vv", "16", "48", "+32", "+200.0%"] in lines


def test_a_session_has_no_earlier_run(programs: list[list[str]], tmp_path: Path, capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main([programs[0][0], "--session", "steps.json", "--against", "old.json"])
    assert "argument --session: not with --against" in capsys.readouterr().err


# --- from Python --------------------------------------------------------------------------


def test_runs_are_compared_from_python(programs: list[list[str]], tmp_path: Path) -> None:
    once, thrice = (tx8.load(arguments[0]) for arguments in programs)
    x = np.ones((16, 2048), np.float16)
    before, after = once.run(x=x), thrice.run(x=x)
    found = after.compare(before)
    assert found["cycles"].before == before.cycles and found["cycles"].after == after.cycles
    assert found["ct.mul.vv"].difference == 32
    before.report(tmp_path / "old.json")
    assert str(after.compare(tmp_path / "old.json")) == str(found)
    assert before.compare(after)["cycles"].difference == -found["cycles"].difference
    with pytest.raises(Tx8Error, match=r"cannot be read"):
        after.compare(tmp_path / "missing.json")
