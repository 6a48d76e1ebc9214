"""Colours of editors: the lexer agrees with the assembler on every example, and the files are up to date.

The oracle is the assembler itself: its labels, directives, instructions, operands and comments.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import asm.assembler
from asm.assembler import Assembler, assemble_text
from asm.diagnostics import Fault
from asm.directives.call import BLOCKS, HANDLERS
from asm.instructions import scalar
from asm.syntax.expressions import Atom, fraction, literal
from asm.syntax.source import Source, lines_of, statements
from paths import ROOT
from tx8.desktop import files
from tx8.desktop.lexer import TOKENS, Tx8Lexer
from tx8.desktop.rules import core_mnemonics, engine_mnemonics
from tx8isa.table import registry
from tx8isa.table.scalar import scalar_by_mnemonic

EXAMPLES = sorted((ROOT / "examples").rglob("*.s"))
KINDS = {token: kind for kind, token in TOKENS.items()}
HEADS = {"label", "symbol", "directive", "engine", "core", "macro"}

Place = tuple[int, int]
"""Line and column, from 0 on."""


def lexed(text: str) -> Iterator[tuple[Place, str, str]]:
    """Place, kind and text of each token; the kinds of ``rules``, and the name of Pygments for others."""
    line, begin = 0, 0
    for index, token, value in Tx8Lexer().get_tokens_unprocessed(text):
        if value and KINDS.get(token) != "blank":
            yield (line, index - begin), KINDS.get(token, str(token)), value
        if "\n" in value:
            line, begin = line + value.count("\n"), index + value.rindex("\n") + 1


class _Forgetful(dict[str, Any]):
    """Templates, or operands, that are never found again, so that every statement is parsed."""

    last: Any = None

    def get(self, key: str, default: Any = None) -> Any:
        return default

    def __setitem__(self, key: str, value: Any) -> None:
        self.last = value
        super().__setitem__(key, value)


class _Recorder(Assembler):
    """An assembler that records the kinds of the words of a text."""

    text: list[str]
    heads: dict[Place, str]
    words: dict[Place, str]
    visited: set[int]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.templates, self.shapes = _Forgetful(), _Forgetful()

    def _place(self, source: Source, index: int, at: int) -> Place | None:
        line = source.number(index) - 1
        return (line, at) if source.lines[index] == self.text[line] else None

    def note(self, found: dict[Place, str], source: Source, index: int, at: int, kind: str) -> None:
        place = self._place(source, index, at)
        if place is not None:
            found[place] = kind
            self.visited.add(place[0])

    def _statement(self, source: Source, index: int, text: str, start: int) -> int:
        at = start
        while label := asm.assembler.LABEL.match(text, at):
            self.note(self.heads, source, index, label.start(1), "label")
            at = label.end()
        head = asm.assembler.HEAD.match(text, at)
        if head is not None and head[1].lower() in self.assembly.macros:
            self.note(self.heads, source, index, head.start(1), "macro")
        elif head is not None and asm.assembler._ASSIGN.match(text, head.end()):
            self.note(self.heads, source, index, head.start(1), "symbol")
        elif head is not None and head[1].startswith("."):
            known = head[1].lower() in {*HANDLERS, *BLOCKS}
            self.note(self.heads, source, index, head.start(1), "directive" if known else "macro")
        return super()._statement(source, index, text, start)

    def _instruction(self, source: Source, index: int, name: str, text: str, after: int, at: int) -> None:
        kind = "engine" if registry.find(name) is not None else "core"
        super()._instruction(source, index, name, text, after, at)
        self.note(self.heads, source, index, at, kind)
        template, operands = self.templates.last, self.shapes.last
        assert operands.text == text
        for item in operands.items:
            if item.name:
                self.note(self.words, source, index, item.at, "operand")
        for slot in template.slots:
            if isinstance(slot.node, Atom):
                word = operands.atoms[slot.node.index]
                self.note(self.words, source, index, slot.node.at, _kind(slot, word))


def _kind(slot: Any, word: str) -> str:
    """Return the kind of a word in a field of an instruction."""
    try:
        special = slot.special(word, False)
    except Fault:
        special = None
    if special is not None and fraction(word) is None:
        choices = isinstance(slot, scalar.CsrSlot | scalar.RoundingSlot | scalar.OrderSlot)
        return "word" if choices or word in getattr(slot, "choices", ()) else "register"
    if word.startswith("'"):
        return "character"
    if re.fullmatch(r"\d+[fb]", word):
        return "label"
    return "number" if fraction(word) is not None or literal(word) is not None else "name"


def assembled(path: Path, monkeypatch: pytest.MonkeyPatch) -> _Recorder:
    """The recorder after it has assembled an example."""
    text = path.read_text(encoding="utf-8")
    made: list[_Recorder] = []

    def recorder(*arguments: Any) -> _Recorder:
        found = _Recorder(*arguments)
        found.text, found.heads, found.words, found.visited = lines_of(text), {}, {}, set()
        made.append(found)
        return found

    monkeypatch.setattr(asm.assembler, "Assembler", recorder)
    assemble_text(text, str(path), [path.parent], {}, None)
    return made[-1]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.relative_to(ROOT / "examples").as_posix())
def test_the_lexer_says_what_the_assembler_says(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = assembled(path, monkeypatch)
    tokens = {place: (kind, text) for place, kind, text in lexed(path.read_text(encoding="utf-8"))}
    assert found.words or not any(kind == "engine" for kind in found.heads.values())
    for place, kind in (found.heads | found.words).items():
        assert tokens[place][0] == kind, f"{path.name}:{place[0] + 1}:{place[1] + 1}: {tokens[place]}"
    first = {place for place, (kind, _) in tokens.items() if kind in HEADS - {"label"}}
    seen = {place for place in first if place[0] in found.visited}
    assert seen == {place for place, kind in found.heads.items() if kind != "label"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.relative_to(ROOT / "examples").as_posix())
def test_comments_begin_where_the_assembler_ends_a_line(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    comments = {place: value for place, kind, value in lexed(text) if kind == "comment"}
    for number, line in enumerate(lines_of(text)):
        end = statements(line)[-1][1]
        assert comments.get((number, end), "") == line[end:]


def test_examples_have_words_of_every_kind() -> None:
    kinds = {kind for path in EXAMPLES for _, kind, _ in lexed(path.read_text(encoding="utf-8"))}
    assert kinds >= HEADS - {"symbol"} | {"operand", "register", "word", "type", "number", "name", "comment"}
    assert "wrong" not in kinds
    assert "Token.Error" not in kinds


def kinds_of(text: str) -> list[tuple[str, str]]:
    return [(kind, value) for _, kind, value in lexed(text)]


def test_every_mnemonic_and_directive_has_its_kind() -> None:
    for kind, words in (
        ("engine", engine_mnemonics()),
        ("core", [*core_mnemonics(), *scalar_by_mnemonic()]),
        ("directive", [*HANDLERS, *BLOCKS]),
    ):
        for word in words:
            assert kinds_of(word) == [(kind, word)]
            assert kinds_of(f"x: {word.upper()}\n")[-1] == (kind, word.upper())


@pytest.mark.parametrize(
    "text", ["ct.add.vv.fp17", "ct.add", "addx", "add.x", ".worde", ".wor", "rdma.fp16x"]
)
def test_a_word_that_is_no_instruction_is_not_coloured_as_one(text: str) -> None:
    assert kinds_of(text) == [("macro", text)]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("csrr t0, time", "core register word"),
        ("la t0, time", "core register name"),
        ("fadd.s fa0, fa1, fa2, rtz", "core register register register word"),
        ("fence rw, io", "core word word"),
        ("ct.add.vv.fp16 dst=w, rnd = rne", "engine operand name operand word"),
        (".word a0", "directive name"),
        (".input x, fp16, 4x129", "directive name type number"),
        ("addi a0, a0, %lo(x)", "core register register function name"),
        ("N = 08", "symbol wrong"),
        ("1: j 1b; nop", "label core label core"),
    ],
)
def test_words_have_a_meaning_by_their_place(text: str, kinds: str) -> None:
    between = ("punctuation", "operator", "Token.Punctuation")
    assert [kind for kind, _ in kinds_of(text) if kind not in between] == kinds.split()


def test_strings_and_comments_of_several_lines() -> None:
    found = kinds_of('.asciz "a # \\n" /* 1\n2 */ # x\nnop // "\n')
    assert [value for kind, value in found if kind == "comment"] == ["# x", '// "']
    assert [value for kind, value in found if kind == "Token.Literal.String.Escape"] == ["\\n"]
    assert "".join(value for kind, value in found if kind == "Token.Comment.Multiline") == "/* 1\n2 */"
    assert ("core", "nop") in found


# --- the files ----------------------------------------------------------------------------


def test_the_files_are_what_the_records_say() -> None:
    assert files.stale(files.FOLDER) == [], "run python -m tx8.desktop.files"


def test_check_notices_stale_missing_and_surplus_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    assert files.main([]) == 0
    assert files.main(["--check"]) == 0
    (tmp_path / "vim/syntax/tx8.vim").write_text("edited")
    (tmp_path / "vim/ftdetect/tx8.vim").unlink()
    (tmp_path / "other").write_text("")
    assert files.main(["--check"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in told] == [
        *("editors/other", "editors/vim/ftdetect/tx8.vim", "editors/vim/syntax/tx8.vim")
    ]
    assert files.main(["--chek"]) == 2


class _TextMate:
    """As much of a TextMate tokenizer as the grammar needs: line by line, the first match of all patterns."""

    def __init__(self, grammar: dict[str, Any]) -> None:
        self.repository = grammar["repository"]
        self.stack: list[dict[str, Any]] = [grammar]

    def _patterns(self, holder: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for pattern in holder.get("patterns", ()):
            if "include" in pattern:
                yield from self._patterns(self.repository[pattern["include"].removeprefix("#")])
            else:
                yield pattern

    def line(self, text: str) -> Iterator[tuple[int, str, str]]:
        """Column, scope and text of each piece that has a scope."""
        at = 0
        while True:
            top = self.stack[-1]
            tried = [
                (p, re.compile(p.get("match") or p["begin"]).search(text, at)) for p in self._patterns(top)
            ]
            if "end" in top:
                tried.insert(0, (top, re.compile(top["end"]).search(text, at)))
            found = [(match.start(), order) for order, (_, match) in enumerate(tried) if match]
            if not found:
                break
            pattern, match = tried[min(found)[1]]
            assert match is not None
            if pattern is top:
                self.stack.pop()
            else:
                yield from self._scopes(pattern, match)
                if "begin" in pattern:
                    self.stack.append(pattern)
            at = match.end()

    def _scopes(self, pattern: dict[str, Any], match: re.Match[str]) -> Iterator[tuple[int, str, str]]:
        captures = pattern.get("captures") or pattern.get("beginCaptures") or {"0": pattern}
        for group, named in captures.items():
            if match[int(group)]:
                yield match.start(int(group)), named["name"], match[int(group)]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.relative_to(ROOT / "examples").as_posix())
def test_the_grammar_of_vs_code_says_what_the_lexer_says(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    kinds = {files.scope(kind): kind for kind in files.SCOPES}
    grammar = _TextMate(json.loads(files.files()["vscode/syntaxes/tx8.tmLanguage.json"]))
    found = [
        ((number, at), kinds[scope], word)
        for number, line in enumerate(text.split("\n"))
        for at, scope, word in grammar.line(line)
        if scope in kinds
    ]
    assert found == [token for token in lexed(text) if token[1] in files.SCOPES]


def test_vim_knows_every_word() -> None:
    known: dict[str, set[str]] = {}
    for group, words in re.findall(r"^syn keyword (\w+) (.*)$", files.vim_syntax(), re.MULTILINE):
        known.setdefault(group, set()).update(words.split())
    assert known["tx8Engine"] == set(engine_mnemonics())
    assert known["tx8Core"] == set(core_mnemonics())
    assert known["tx8Directive"] == {*HANDLERS, *BLOCKS}


def test_vim_detects_assembly_of_the_tx8() -> None:
    """Its pattern, translated to Python, matches the examples but not GCC's output."""
    (pattern,) = re.findall(r"search\('(.*)', 'nw'\)", files.vim_detection())
    for vim, python in (
        (r"\%(", "(?:"),
        (r"\|", "|"),
        (r"\)", ")"),
        (r"\+", "+"),
        (r"\?", "?"),
        (r"\>", r"\b"),
    ):
        pattern = pattern.replace(vim, python)
    here = re.compile(pattern, re.MULTILINE)
    for text in (path.read_text(encoding="utf-8") for path in EXAMPLES):
        ours = any(kind in ("engine", "type") for kind, _ in kinds_of(text))
        assert bool(here.search(text)) == ours
    assert not here.search("\t.text\n\t.globl main\nmain:\taddi sp, sp, -16\n\tcall next\n\t.word 1\n")


def test_vs_code_finds_its_files() -> None:
    folder = files.FOLDER / "vscode"
    contributes = json.loads((folder / "package.json").read_text())["contributes"]
    (language,), (grammar,) = contributes["languages"], contributes["grammars"]
    assert language["id"] == grammar["language"]
    json.loads((folder / language["configuration"]).read_text())
    assert json.loads((folder / grammar["path"]).read_text())["scopeName"] == grammar["scopeName"]


def test_pygments_finds_the_lexer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["pygments.lexers"]["tx8"].partition(":")
    assert getattr(import_module(module), name) is Tx8Lexer
