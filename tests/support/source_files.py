"""The source files of the project and their imports, for the rules of the house."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from paths import ROOT

PACKAGES = ("tx8isa", "asm", "emulator", "compiler", "tx8", "tx8_entry", "pytest_tx8")


def package_sources() -> list[tuple[str, str]]:
    """(path from the root, text) of every Python file of our packages."""
    return [
        (path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    ]


def texts() -> Iterator[tuple[str, str]]:
    """(path from the root, text) of every text file that belongs to the project."""
    made_here = ("build", "dist", "__pycache__")
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = [
            s
            for s in sorted(subfolders)
            if s == ".ci" or not (s.startswith(".") or s in made_here or s.endswith(".egg-info"))
        ]
        for name in sorted(set(names) - {".git"}):  # a file in a linked worktree
            path = Path(folder, name)
            data = path.read_bytes()
            if not name.startswith(".coverage") and b"\0" not in data and not path.is_symlink():
                yield path.relative_to(ROOT).as_posix(), data.decode("utf-8", errors="replace")


def dynamic_import(node: ast.AST) -> str | None:
    """The module named by a call of ``__import__`` or ``import_module`` with a constant."""
    if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
        return None
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    return str(node.args[0].value) if name in ("__import__", "import_module") else None


@cache
def imports(path: str, text: str) -> tuple[tuple[int, str], ...]:
    """Return (line, dotted name) of every import of the file, at any depth; relative imports are resolved."""
    return tuple(_imports(path, text))


def _imports(path: str, text: str) -> Iterator[tuple[int, str]]:
    package = path.split("/")[:-1]
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = [*base, *([node.module] if node.module else [])]
            yield from ((node.lineno, ".".join([*module, alias.name])) for alias in node.names)
        elif (name := dynamic_import(node)) is not None:
            yield node.lineno, name  # type: ignore[attr-defined]
