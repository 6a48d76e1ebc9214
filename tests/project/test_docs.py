"""The documents are true: listings run, tables agree with the code, links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import asm.assembler
import asm.directives.call
import asm.instructions.pseudo
from c_tools import missing_tools
from compiler.passes import PIPELINE
from documents import (
    INSTALLED,
    ROOT,
    Block,
    Command,
    anchors,
    blocks,
    cells,
    commands,
    matches,
    run_block,
    run_command,
    updated,
)
from scripts import generator
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format
from tx8isa.records.record import Engine
from tx8isa.table import encoding
from tx8isa.table import scalar as rv
from tx8isa.table.registry import instructions

MANUAL = sorted((ROOT / "docs/isa").glob("*.md"))
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/decisions").glob("*.md")),
    *MANUAL,
    ROOT / "examples/assembly/README.md",
    ROOT / "examples/writer/README.md",
]

NEED_GCC = {"crt.md"}
"""Documents whose listings compile C."""


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def document_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# --- listings -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", DOCUMENTS, ids=document_name)
def test_listings_run(path: Path, tmp_path: Path, programs: Path) -> None:
    carry_out(path, tmp_path, programs)


@pytest.mark.long
@pytest.mark.parametrize("path", DOCUMENTS, ids=document_name)
def test_listings_run_as_a_reader_runs_them(path: Path, tmp_path: Path) -> None:
    """Every command in a process that has loaded nothing before it."""
    carry_out(path, tmp_path, INSTALLED)


def carry_out(path: Path, folder: Path, programs: Path) -> None:
    """All listings of a document, in their order and in one folder."""
    if path.name in NEED_GCC and missing_tools() and os.environ.get("CI") != "true":
        pytest.skip(missing_tools())
    (folder / "examples").symlink_to(ROOT / "examples")
    for block in blocks(path.read_text(encoding="utf-8")):
        run_block(block, folder, programs)


def test_documents_have_listings_of_every_kind() -> None:
    found = {block.language for path in DOCUMENTS for block in blocks(path.read_text(encoding="utf-8"))}
    assert {"console", "asm", "python"} <= found


def test_a_document_is_updated_where_it_is_wrong(tmp_path: Path) -> None:
    """Output that still matches keeps its dots; later commands see the files of earlier ones."""
    before = "a\n```console\n$ echo one > f\n$ echo two; echo 3\n...\n3\n$ cat ./f; exit 4\nzero\n```\nb\n"
    after = before.replace("zero\n", "one\n[4]\n")
    assert updated(before, tmp_path) == after
    assert updated(after, tmp_path) == after


def test_updating_refuses_a_broken_program(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="SyntaxError"):
        updated("```python\n1 +\n```\n", tmp_path)


def test_updating_refuses_a_program_that_is_missing(tmp_path: Path) -> None:
    """Otherwise the error line would replace the documented output; a pipe hides the status 127."""
    with pytest.raises(AssertionError, match="no-such-program: command not found"):
        updated("```console\n$ no-such-program | head -1\n```\n", tmp_path)


# --- the generated manual -----------------------------------------------------------------


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return generator()


def test_manual_is_what_the_records_say(generate: ModuleType) -> None:
    here = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs/isa").iterdir()}
    assert here == generate.pages(), "run python docs/generate.py"


def test_the_page_of_operators_is_what_the_records_say(generate: ModuleType) -> None:
    assert read("docs/operators.md") == generate.operators_page(), "run python docs/generate.py"


def test_check_notices_a_stale_page_of_operators(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "OPERATORS", tmp_path / "operators.md")
    monkeypatch.setattr(generate, "pages", lambda: {path.name: path.read_text() for path in MANUAL})
    assert generate.main(["--check"]) == 1
    generate.OPERATORS.write_text(generate.operators_page(), encoding="utf-8")
    assert generate.main(["--check"]) == 0
    with generate.OPERATORS.open("a") as page:
        page.write("### Another\n")
    capsys.readouterr()
    assert generate.main(["--check"]) == 1
    said = "operators.md differs from the records: run python docs/generate.py\n"
    assert capsys.readouterr().err == said


def test_check_notices_a_stale_table_of_passes(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = read("docs/compiler.md")
    copy = tmp_path / "compiler.md"
    copy.write_text(page.replace("| `barrier_opt` |", "| `barrier` |"), encoding="utf-8")
    monkeypatch.setattr(generate, "COMPILER", copy)
    monkeypatch.setattr(generate, "OPERATORS", tmp_path / "operators.md")
    generate.OPERATORS.write_text(generate.operators_page(), encoding="utf-8")
    monkeypatch.setattr(generate, "TARGET", tmp_path / "isa")
    monkeypatch.setattr(generate, "pages", dict)
    assert generate.main(["--check"]) == 1
    said = "compiler.md has other passes than the compiler: run python docs/generate.py\n"
    assert capsys.readouterr().err == said
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    assert copy.read_text(encoding="utf-8") == page
    with pytest.raises(ValueError, match=r"compiler\.md has no region <!-- passes -->"):
        generate.with_passes("a page without a table")


def test_a_pass_says_what_it_does(generate: ModuleType) -> None:
    """The file of every pass begins with its name, and the rest of the sentence is a row of the table."""
    for step in PIPELINE:
        assert f"| `{step.name}` | {generate.pass_summary(step)} |" in read("docs/compiler.md")
    with pytest.raises(ValueError, match=r"does not begin with 'Pass ``other``: \.\.\.'"):
        generate.pass_summary(_NamelessPass())


class _NamelessPass:
    name = "other"


def test_the_walk_comes_to_every_pass() -> None:
    """The walk names each pass, in the order of the pipeline, and shows its module."""
    walk = read("docs/walk.md")
    visited = [
        name
        for names in re.findall(r"^\*\*(\w[\w, ]*)\.\*\*", walk, re.MULTILINE)
        for name in names.split(", ")
    ]
    assert visited == [step.name for step in PIPELINE]
    shown = " ".join(re.findall(r"^\$ (?:sh show\.sh|for pass in) (.*)$", walk, re.MULTILINE))
    assert [step.name for step in PIPELINE if not re.search(rf"\b{step.name}\b", shown)] == []


def test_check_notices_a_stale_manual(
    generate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = {"README.md": "first\n", "other.md": "second\n"}
    monkeypatch.setattr(generate, "OPERATORS", tmp_path / "operators.md")
    generate.OPERATORS.write_text(generate.operators_page(), encoding="utf-8")
    monkeypatch.setattr(generate, "COMPILER", tmp_path / "compiler.md")
    generate.COMPILER.write_text(read("docs/compiler.md"), encoding="utf-8")
    monkeypatch.setattr(generate, "TARGET", tmp_path / "isa")
    monkeypatch.setattr(generate, "pages", lambda: pages)

    def complaints() -> list[str]:
        assert generate.main(["--check"]) == 1
        return [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()]

    assert complaints() == [f"isa/{name} differs from the records" for name in sorted(pages)]
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    (tmp_path / "isa/other.md").write_text("second, but edited\n")
    assert complaints() == ["isa/other.md differs from the records"]
    pages["other.md"] = "second, but edited\n"
    (tmp_path / "isa/old.md").write_text("of a family that is gone\n")
    assert complaints() == ["isa/old.md is a page too many"]
    assert generate.main([]) == 0
    assert sorted(path.name for path in (tmp_path / "isa").iterdir()) == ["README.md", "other.md"]
    assert generate.main(["--chek"]) == 2


def sections() -> dict[str, list[str]]:
    """Lines of each instruction's section of the manual."""
    found: dict[str, list[str]] = {}
    for path in MANUAL:
        parts = re.split(r"^## ([a-z]\S+)$", read(document_name(path)), flags=re.MULTILINE)
        found |= {name: body.splitlines() for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    return found


def test_manual_has_every_instruction() -> None:
    assert {i.mnemonic for i in instructions()} == set(sections())
    index, core = read("docs/isa/README.md"), read("docs/isa/core.md")
    assert [i.mnemonic for i in instructions() if f"[`{i.mnemonic}`](" not in index] == []
    scalar = [r.mnemonic for r in rv.scalar_instructions()]
    assert [name for name in scalar if f" `{name}` " not in index] == []
    assert [name for name in scalar if not re.search(rf"(?m)^\| `{re.escape(name)}[ `]", core)] == []


def test_manual_says_where_operands_stand() -> None:
    """The words and bits of each table, read in the words of the example, give the decoder's values."""
    found = sections()
    for instruction in instructions():
        lines = found[instruction.mnemonic]
        (shown,) = (re.findall(r"[0-9a-f]{8}", line) for line in lines if line.startswith("  is `"))
        words = [int(word, 16) for word in shown]
        data = b"".join(word.to_bytes(4, "little") for word in words)
        decoded = encoding.decode(data)
        assert isinstance(decoded, encoding.DecodedInstruction)
        assert decoded.instruction is instruction
        rows = [cells(line) for line in lines if line.startswith("| `")]
        assert [row[0].strip("`") for row in rows] == [o.name for o in instruction.operands]
        for row, value in zip(rows, decoded.values, strict=True):
            assert value_at(row[1], words) == value, f"{instruction.mnemonic} {row}"


def value_at(place: str, words: list[int]) -> int:
    """Return the value at a place: ``2, bits 11:8``, ``2, bit 7``, ``5, mark 1`` or ``6-7, mark 2``."""
    word, _, detail = place.partition(", ")
    first, _, last = word.partition("-")
    value = words[int(first)] | (words[int(last)] << 32 if last else 0)
    if detail.startswith("mark"):
        return value
    high, _, low = detail.split()[1].partition(":")
    return value >> int(low or high) & (1 << int(high) - int(low or high) + 1) - 1


# --- tables written by hand ---------------------------------------------------------------


def test_formats_of_the_chip_page() -> None:
    text = read("docs/isa.md").split("## Formats")[1].split("##")[0]
    rows = [cells(line) for line in text.splitlines() if re.match(r"\| \d+ \|", line)]
    found = {int(row[0]): row[1] for row in rows}
    assert found == {int(f): f.token for f in Format if f <= Format.BOOL}


def test_windows_of_the_chip_page() -> None:
    text = read("docs/isa.md").split("## Memories and addresses")[1]
    found = {int(address, 16) for address in re.findall(r"^\| (0x\w+) \+ a \|", text, re.MULTILINE)}
    w = load_machine(None).windows
    assert found == {w.spm_weak, w.spm_strong, w.ddr_cached, w.ddr_uncached, w.ddr_engine}


def test_families_of_the_chip_page() -> None:
    """The table of families names exactly the existing opcodes."""
    text = read("docs/isa.md").split("## What this version has")[1]
    rows = [cells(line) for line in text.splitlines() if re.match(r"\| \d+\.\.\d+ \|", line)]
    codes = {i.opcode: i.mnemonic for i in instructions() if i.engine in (Engine.CT, Engine.TDMA)}
    covered = 0
    for opcodes, _, here in rows:
        first, last = (int(n) for n in opcodes.split(".."))
        assert first == covered
        covered = last + 1
        present = {codes[code].split(".", 1)[1] for code in range(first, last + 1) if code in codes}
        if here == "yes":
            assert len(present) == last - first + 1, opcodes
        else:
            assert present == (set() if here == "no" else set(here.split(", "))), opcodes
    assert covered == 187


def test_every_directive_and_pseudo_instruction_is_described() -> None:
    text = read("docs/assembly.md")
    directives = {*asm.directives.call.HANDLERS, *asm.directives.call.BLOCKS}
    assert directives - set(re.findall(r"\.[a-z0-9_]+", text)) == set()
    paragraph = text.split("## Pseudo-instructions")[1].split("##")[0]
    assert set(asm.instructions.pseudo.NAMES) - set(re.findall(r"[a-z.]*[a-z]", paragraph)) == set()


@pytest.mark.parametrize(
    ("tool", "page"),
    [("tx8emu", "docs/emulator.md"), ("tx8as", "docs/assembly.md"), ("tx8dis", "docs/assembly.md")],
)
def test_every_option_is_described(tool: str, page: str) -> None:
    program = Path(sys.executable).with_name(tool)
    shown = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in shown.splitlines() if re.match(r"  -", line)]
    options = {words[0].strip(",") for words in lines} - {"-h", "--version"}
    assert options
    assert {option for option in options if f"`{option}" not in read(page)} == set()


# --- links --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", DOCUMENTS, ids=document_name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), f"{document_name(path)}: {target}"
        if anchor:
            assert anchor in anchors(linked.read_text(encoding="utf-8")), f"{document_name(path)}: {target}"


def test_files_that_documents_name_exist() -> None:
    """Paths in backticks with a folder of ours in front."""
    pattern = re.compile(r"`((?:tx8isa|asm|emulator|compiler|tests|examples|benchmarks|docs)/[\w./*-]*)`")
    ours = [path for path in DOCUMENTS if path.name != "sources.md"]  # which names files of other projects
    named = {(document_name(path), name) for path in ours for name in pattern.findall(path.read_text())}
    assert len(named) > 30
    assert [(document, name) for document, name in sorted(named) if not list(ROOT.glob(name))] == []


def uncited(text: str, headings: list[str]) -> list[str]:
    """Return texts after ``docs/isa.md,`` in a source that are not the title of a section or topic."""
    titles = "|".join(re.escape(heading) for heading in headings)
    cited = re.sub(r"\s+#?\s*", " ", text)
    return re.findall(rf"docs/isa\.md(?!, (?:{titles})(?!\w)).{{0,40}}", cited)


def test_citations_in_the_code_name_a_section() -> None:
    page = read("docs/isa.md")  # which also links to the topics of the chip's other pages
    topics = r"\[([A-Z][^]]*)\]\((?:engines|registers|tile_copies)\.md"
    titles = re.findall(r"^#+ (.*)$", page, re.MULTILINE) + re.findall(topics, page)
    folders = ("tx8isa", "asm", "emulator", "compiler", "tests", "benchmarks")
    sources = {path: path.read_text(encoding="utf-8") for f in folders for path in (ROOT / f).rglob("*.py")}
    del sources[Path(__file__)]
    assert sum(text.count("docs/isa.md") for text in sources.values()) > 20
    wrong = {document_name(path): uncited(text, titles) for path, text in sources.items()}
    assert {path: found for path, found in wrong.items() if found} == {}


def test_nothing_cites_a_file_that_is_not_here() -> None:
    """Names of Markdown files in the code are files of the repository."""
    here = {path.name for path in ROOT.rglob("*.md") if ".venv" not in path.parts}
    for folder in ("tx8isa", "asm", "emulator", "compiler", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            named = set(re.findall(r"[\w-]+\.md\b", path.read_text(encoding="utf-8")))
            assert named - here == set(), document_name(path)


# --- the tests find what they forbid ------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        (["a", "..."], ["a", "b", "c"], True),
        (["...", "c"], ["a", "b", "c"], True),
        (["..."], [], True),
        ([], [], True),
        ([], ["a"], False),
        (["a"], [], False),
        (["...", "b"], ["a"], False),
        (["at 0x..."], ["at 0x10"], True),
        (["at 0x..."], ["in 0x10"], False),
        (["a ... pass"], ["a 3e-7 pass"], True),
        (["a ... pass"], ["a 3e-7 fail"], False),
        (["a.b"], ["axb"], False),
        (["a", "...", "d"], ["a", "b", "c"], False),
    ],
)
def test_ellipsis(expected: list[str], found: list[str], same: bool) -> None:
    assert matches(expected, found) is same


def test_commands_of_a_console_block() -> None:
    found = commands("$ echo a\na\n$ false\n[1]\n$ true\n")
    assert found == [Command("echo a", ["a"], 0), Command("false", [], 1), Command("true", [], 0)]
    with pytest.raises(ValueError, match="begins with a command"):
        commands("output\n$ true\n")


@pytest.mark.parametrize(
    "command", [Command("echo a", ["b"], 0), Command("echo a", ["a"], 1), Command("false", [], 0)]
)
def test_a_wrong_transcript_is_seen(command: Command, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run_command(command, tmp_path)


def test_a_shown_file_is_made(tmp_path: Path) -> None:
    run_block(Block("console", "$ cat a.txt\none\n\ntwo\n$ wc -l < a.txt\n3\n", 1), tmp_path)
    assert (tmp_path / "a.txt").read_text() == "one\n\ntwo\n"


def test_a_wrong_listing_is_seen(tmp_path: Path) -> None:
    with pytest.raises(Tx8Error, match="unknown instruction"):
        run_block(Block("asm", "        ct.adddd.vv dst=0\n", 1), tmp_path)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_block(Block("python", "1 / 0\n", 1), tmp_path)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("(docs/isa.md, Layouts, spec)", 0),
        ("as docs/isa.md,\n    # Layouts says", 0),
        ("(docs/isa.md, Layout, spec)", 1),
        ("(docs/isa.md, Layoutses)", 1),
        ("see docs/isa.md", 1),
    ],
)
def test_a_wrong_citation_is_seen(text: str, count: int) -> None:
    assert len(uncited(text, ["Layouts", "GEMM"])) == count


DECISIONS = ("Question", "Decision", "Why", "Turned down", "Cost", "What would change our mind")
"""The headings of each record of a decision, in this order."""


def test_records_of_decisions_are_complete_and_listed() -> None:
    records = sorted((ROOT / "docs/decisions").glob("0*.md"))
    index = read("docs/decisions/README.md")
    assert len(records) >= 12
    assert [int(path.name[:3]) for path in records] == list(range(1, len(records) + 1))
    for path in records:
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {path.name[:3]} ")
        assert f"]({path.name})" in index
        headings = re.findall(r"^\*\*([^*]+)\.\*\*", text.replace("?**", ".**"), re.MULTILINE)
        assert tuple(name for name in headings if name != "State") == DECISIONS, path.name


def test_headings_become_anchors() -> None:
    assert anchors("# A b\n## `x` and y.z\n```\n# no\n```\n") == {"a-b", "x-and-yz"}
