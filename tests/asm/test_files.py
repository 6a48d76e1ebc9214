"""The programs in tests/assembly: each judges one behaviour with expectations on its own lines.

``# = 0011aabb``   the bytes the line makes (with those of the macros and repetitions it starts); empty: none
``# error: text``  the line is reported with a message that contains the text; all errors are expected ones
``# col 7``        ... at this column       ``# help: text``, ``# note: text``   ... with such a line below
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import asm
from asm.assembler import assemble_text
from asm.diagnostics import AsmError, Diagnostic
from asm.image import write_image
from asm.output import image_of, row_bytes
from paths import TESTS

FOLDER = TESTS / "asm" / "programs"
_KNOWN = re.compile(r"(=|error:|col|help:|note:)(?:\s+(.*))?$")
_SUSPICIOUS = re.compile(r"=|\w+\s*:|col\b")


@dataclass
class Expected:
    data: bytes | None = None
    errors: list[dict[str, str]] = field(default_factory=list)


def expectations(text: str) -> dict[int, Expected]:
    """Return expectations by line number; AssertionError for a comment that only resembles one."""
    found: dict[int, Expected] = {}
    for number, line in enumerate(text.split("\n"), 1):
        expected = Expected()
        for comment in re.split(r"\s#\s", f" {line}")[1:]:
            match = _KNOWN.match(comment.strip())
            if match is None:
                assert not _SUSPICIOUS.match(comment.strip()), f"line {number}: no expectation: {comment}"
                continue
            kind, value = match[1].rstrip(":"), (match[2] or "").strip()
            if kind == "=":
                assert expected.data is None, f"line {number}: two expectations of bytes"
                expected.data = bytes.fromhex(value)
            elif kind == "error":
                expected.errors.append({"error": value})
            else:
                assert expected.errors, f"line {number}: '{kind}' without an error before it"
                assert kind not in expected.errors[-1], f"line {number}: two of '{kind}'"
                expected.errors[-1][kind] = value
        if expected.data is not None or expected.errors:
            found[number] = expected
    return found


def check_bytes(path: Path) -> None:
    text = path.read_text()
    assembler = assemble_text(text, str(path), (), {}, None, listing=True)
    made: dict[int, bytes] = defaultdict(bytes)
    for row in assembler.listing or ():
        if row.source.file == str(path):
            made[row.source.row_line(row.index)] += row_bytes(row)
    wanted = {n: e for n, e in expectations(text).items() if e.data is not None}
    assert wanted, "the program expects nothing"
    for number, expected in wanted.items():
        assert made[number].hex() == (expected.data or b"").hex(), f"{path.name}:{number}"
    if any(section.rows for section in assembler.program.sections.values()):
        write_image(image_of(assembler))


def matches(diagnostic: Diagnostic, wanted: dict[str, str]) -> bool:
    return (
        wanted["error"] in diagnostic.message
        and int(wanted.get("col", diagnostic.column)) == diagnostic.column
        and all(
            any(note.startswith(kind) and wanted[kind] in note for note in diagnostic.notes)
            for kind in ("help", "note")
            if kind in wanted
        )
    )


def check_errors(path: Path) -> None:
    text = path.read_text()
    with pytest.raises(AsmError) as caught:
        image_of(assemble_text(text, str(path), (), {}, None))
    left = list(caught.value.diagnostics)
    wanted = [(n, error) for n, expected in expectations(text).items() for error in expected.errors]
    assert wanted, "the program expects no error"
    for number, error in wanted:
        hit = next((d for d in left if d.line == number and matches(d, error)), None)
        assert hit is not None, f"{path.name}:{number}: expected {error}, found\n{caught.value}"
        left.remove(hit)
    assert not left, f"unexpected: {left}"
    assert str(caught.value).startswith(f"{path}:")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("ok_*.s")), ids=lambda path: path.stem)
def test_program_assembles_to_the_bytes_it_names(path: Path) -> None:
    check_bytes(path)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("err_*.s")), ids=lambda path: path.stem)
def test_program_is_refused_as_it_says(path: Path) -> None:
    check_errors(path)


def test_there_are_about_as_many_refusals_as_successes() -> None:
    good, bad = len(list(FOLDER.glob("ok_*.s"))), len(list(FOLDER.glob("err_*.s")))
    assert good > 20
    assert bad > 20
    assert abs(good - bad) < max(good, bad) / 2


@pytest.mark.parametrize(
    "text",
    [
        "nop # eror: x",
        "nop # =13000000",
        "nop # errors: x",
        "nop # col 5",
        "nop # error: x # col 1 # col 2",
        "nop # = 13 # = 13",
        "nop # help: x",
        "nop # Error: x",
    ],
)
def test_a_comment_that_only_looks_like_an_expectation_is_refused(text: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        expectations(text)


@pytest.mark.parametrize(
    "text", ["nop # = 00000000\n", "nop # = 1300\n", "nop # = \n", "foo: nop\n", "# nothing\n"]
)
def test_a_wrong_expectation_of_bytes_fails(text: str, tmp_path: Path) -> None:
    path = tmp_path / "ok_wrong.s"
    path.write_text(text)
    with pytest.raises(AssertionError):
        check_bytes(path)


@pytest.mark.parametrize(
    "text",
    [
        "bogus # error: something else\n",
        "bogus # error: unknown # col 3\n",
        "bogus\nbogus # error: unknown\n",
        "bogus # error: unknown # help: no such help\n",
        "bogus\n",
    ],
)
def test_a_wrong_expectation_of_errors_fails(text: str, tmp_path: Path) -> None:
    path = tmp_path / "err_wrong.s"
    path.write_text(text)
    with pytest.raises(AssertionError):
        check_errors(path)


def test_bytes_that_are_given_need_no_file(tmp_path: Path) -> None:
    """They have priority over a file of that name; other names are looked up as before."""
    (tmp_path / "w.bin").write_bytes(b"file")
    text = 'nop\n.const w, int8, 4, "w.bin", 2\n.data\n.incbin "w.bin", 1, 3\n'
    given = {"w.bin": b"0123456"}
    image = asm.assemble(text, str(tmp_path / "p.s"), given=given)
    data = {segment.section: segment.data for segment in image.segments}
    assert (data[".ddr"], data[".data"]) == (b"2345", b"123")
    with pytest.raises(AsmError, match=r"file v\.bin not found in"):
        asm.assemble(text.replace("w.bin", "v.bin"), str(tmp_path / "p.s"), given=given)
    with pytest.raises(AsmError, match=r"w\.bin has 3 bytes, bytes 2\.\.6 are needed"):
        asm.assemble(text, str(tmp_path / "p.s"), given={"w.bin": b"012"})


def test_a_section_that_is_the_beginning_of_a_file_is_not_copied(tmp_path: Path) -> None:
    """Constants at the places that they have in the section, and zeros between them."""
    given = {"w.bin": bytes(range(1, 9)) + bytes(4096 - 8) + b"next"}
    text = 'nop\n.const w, int8, 8, "w.bin", 0\n.const v, int8, 4, "w.bin", 4096\n'
    image = asm.assemble(text, str(tmp_path / "p.s"), given=given)
    (data,) = (segment.data for segment in image.segments if segment.section == ".ddr")
    assert isinstance(data, memoryview)
    assert data.obj is given["w.bin"]
    assert data == given["w.bin"]


@pytest.mark.parametrize(
    ("gap", "second"), [(b"\1", 4096), (b"\0", 4097)], ids=["no zeros between", "another place"]
)
def test_other_parts_of_a_file_are_copied(tmp_path: Path, gap: bytes, second: int) -> None:
    given = {"w.bin": b"12345678" + gap + bytes(4096 - 9) + b"-next"}
    text = f'nop\n.const w, int8, 8, "w.bin", 0\n.const v, int8, 4, "w.bin", {second}\n'
    image = asm.assemble(text, str(tmp_path / "p.s"), given=given)
    (data,) = (segment.data for segment in image.segments if segment.section == ".ddr")
    assert isinstance(data, bytes)
    assert data == b"12345678" + bytes(4096 - 8) + given["w.bin"][second : second + 4]
