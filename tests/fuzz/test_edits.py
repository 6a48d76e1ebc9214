"""A process whose source files are edited while it runs keeps no machine code of the other text."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from emulator import native
from emulator.native import keys, store
from emulator.native.inline import Names
from machine_code import needs_jit

TEXT = '''
from __future__ import annotations

FACTOR = "3"


def twice(a: int) -> int:
    """Doc."""
    return 2 * a


def thrice(a: int) -> int:
    return 3 * a


def generate():
    scope = {}
    exec(f"def made(a):\\n    return a * {FACTOR}", scope)
    return scope["made"]
'''


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module that is imported; its file is ``__file__``."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # an edit within a second would not be noticed
    (tmp_path / "edited_writer.py").write_text(TEXT)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("edited_writer")
    del sys.modules["edited_writer"]


def rewrite(module: ModuleType, text: str) -> None:
    Path(str(module.__file__)).write_text(text)


def test_a_body_is_inlined(edited: ModuleType) -> None:
    assert Names().call(edited.twice, ["x"]) == "(2 * x)"
    assert Names().call(edited.thrice, ["x + 1"]) == "(3 * (x + 1))"


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("2 * a", "4 * a"),
        "#\n" * 5 + TEXT,  # the lines of twice now hold another function, or none
        TEXT.replace("from __future__", "#\n\n\n\n\nfrom __future__"),
        TEXT.replace('    """Doc."""\n', ""),
        "",
        "def twice(a):\n" * 20,
    ],
)
def test_text_that_was_not_imported_is_never_inlined(edited: ModuleType, text: str) -> None:
    rewrite(edited, text)
    names = Names()
    source = names.call(edited.twice, ["x"])
    assert eval(source, {**names.scope, "x": 21}) == 42
    assert source == "twice_0(x)"


def test_a_file_that_is_gone(edited: ModuleType) -> None:
    Path(str(edited.__file__)).unlink()
    assert Names().call(edited.thrice, ["x"]) == "thrice_0(x)"


def test_the_key_is_that_of_what_was_imported(edited: ModuleType) -> None:
    before = keys.generated_key(edited.generate, (), "k", 1)
    rewrite(edited, TEXT.replace('FACTOR = "3"', 'FACTOR = "5"'))
    assert keys.generated_key(edited.generate, (), "k", 1) == before
    importlib.reload(edited)
    assert keys.generated_key(edited.generate, (), "k", 1) != before


@pytest.mark.parametrize(
    "text",
    [TEXT.replace('"3"', '"5"'), TEXT.replace("{FACTOR}", "{FACTOR} + 1"), TEXT + "\nMORE = (1, 'a')\n"],
)
def test_constants_and_functions_of_the_writer_count(edited: ModuleType, text: str) -> None:
    before = keys.generated_key(edited.generate, (), "k", 1)
    rewrite(edited, text)
    importlib.reload(edited)
    assert keys.generated_key(edited.generate, (), "k", 1) != before


def test_lines_and_comments_do_not_count(edited: ModuleType) -> None:
    before = keys.generated_key(edited.generate, (), "k", 1)
    rewrite(edited, "# a remark\n" + TEXT)
    importlib.reload(edited)
    assert keys.generated_key(edited.generate, (), "k", 1) == before


@needs_jit
@pytest.mark.parametrize("changed", [False, True])
def test_nothing_is_stored_when_the_compiler_has_changed(
    edited: ModuleType, changed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path / "cache"))
    keys.environment()
    if changed:
        monkeypatch.setattr(keys, "_compiler", lambda: "another text")
    address = native.compile_generated(edited.generate, ("a meaning of its own", changed), "edited", 1)
    assert native.call(address, 14) == 42
    stored = list(store.folder().glob("*.o")) if store.folder().exists() else []
    assert len(stored) == (0 if changed else 1)


NUMBERS = """
WIDTH = 4


def unused():
    return 1
"""

USER = """
from functools import cache

import edited_numbers as numbers


@cache
def factors():
    return ("3", "5")


class Text:
    lines = 2

    @property
    def head(self):
        return f"def made(a): # {self.lines}"


def body():
    return f"    return a * {numbers.WIDTH}"


remembered = []


def generate():
    scope = {}
    exec(f"{Text().head}\\n{body()}", scope)
    return scope["made"]
"""


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A writer whose helper reads a constant of another module of the same package."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(keys, "__name__", "edited_numbers.keys")
    (tmp_path / "edited_numbers.py").write_text(NUMBERS)
    (tmp_path / "edited_user.py").write_text(USER)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("edited_user")
    del sys.modules["edited_user"], sys.modules["edited_numbers"]


@pytest.mark.parametrize(
    ("module", "before", "after"),
    [
        ("edited_numbers", "WIDTH = 4", "WIDTH = 8"),
        ("edited_numbers", "return 1", "return 2"),
        ("edited_user", '"5"', '"7"'),
        ("edited_user", "lines = 2", "lines = 3"),
        ("edited_user", "made(a): #", "made(a):  #"),
    ],
)
def test_what_helpers_of_the_writer_read_counts(
    writer: ModuleType, module: str, before: str, after: str
) -> None:
    key = keys.generated_key(writer.generate, (), "k", 1)
    edited = sys.modules[module]
    text = {"edited_numbers": NUMBERS, "edited_user": USER}[module]
    rewrite(edited, text.replace(before, after))
    importlib.reload(edited)
    assert keys.generated_key(importlib.reload(writer).generate, (), "k", 1) != key


def test_what_a_module_remembers_does_not_count(writer: ModuleType) -> None:
    before = keys._generated_key(writer.generate, (), "k", 1)
    writer.remembered.append("seen")
    assert keys._generated_key(writer.generate, (), "k", 1) == before
