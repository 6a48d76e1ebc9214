"""Finds code that PyTorch would execute when it reads a ``.pt2`` file, before it does.

Weights and constants are plain bytes in a zip archive. But pickled objects, expressions of sizes, the names
of operators and compiled code in it can make PyTorch call anything. So pickles are read as weights only, and
the rest must be what ``torch.export`` writes for tensors and arithmetic.
"""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compiler.graph import GraphError

TRUST = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
"""PyTorch's variable by which a user lets it unpickle any object."""
_WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"

_EXECUTED = (
    ("aotinductor", "compiled code"),
    ("opaque_obj_", "a pickled object"),
    ("custom_obj_", "an object"),
)
"""Parts of the names of files that PyTorch executes or unpickles, and their kinds."""
_OPERATORS = re.compile(
    r"torch\.ops\.(?!load_library|import_module)[a-zA-Z]\w*\.[a-zA-Z]\w*(\.[a-zA-Z]\w*)?"
    r"|torch\._?sym_\w+|math\.[a-z]\w*"
    r"|_operator\.(add|sub|mul|floordiv|truediv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|not_|getitem)"
)
_MODULES = ("torch", "_operator", "math", "#")
"""Beginnings of the names that PyTorch looks up; other names stay text."""
_ARITHMETIC = (
    *(ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Constant, ast.Load, ast.BinOp, ast.UnaryOp),
    *(ast.operator, ast.unaryop, ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop),
)


def is_trusted() -> bool:
    """Return True if the user lets PyTorch unpickle any object."""
    return os.environ.get(TRUST, "0").lower() in ("1", "y", "yes", "true")


def check_archive(path: Path) -> None:
    """Raise GraphError for a file from which PyTorch would execute more than its own operators.

    A file that is not an archive, or a damaged one, is left to PyTorch.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            found = next((what for info in archive.infolist() for what in _executed(archive, info)), None)
    except (OSError, zipfile.BadZipFile):
        return
    if found is not None:
        raise GraphError([f"{path}: {found}, which PyTorch would execute; {advice()}"])


def advice() -> str:
    """Return the advice for a file with more than tensors."""
    return f"export the program without it, or set {TRUST}=1 if you trust who wrote the file"


def pickled(error: pickle.UnpicklingError) -> str:
    """Name the object that PyTorch has refused to unpickle."""
    found = re.search(r"GLOBAL (\S+)", str(error))
    return f"a pickled object, made by {found[1]}" if found else "a pickled object that is not a tensor"


@contextmanager
def weights_only() -> Iterator[None]:
    """Make PyTorch unpickle only tensors and plain containers inside the block."""
    before = os.environ.get(_WEIGHTS_ONLY)
    os.environ[_WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_WEIGHTS_ONLY]
        else:
            os.environ[_WEIGHTS_ONLY] = before


def _executed(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[str]:
    """Yield the executable contents of a file in the archive."""
    name = info.filename
    yield from (f"it has {what}, {name!r}" for part, what in _EXECUTED if part in name)
    if name.endswith(".json") or "/models/" in f"/{name}":
        try:
            graph = json.loads(archive.read(info))
        except (ValueError, RecursionError):
            return
        yield from (f"{name!r} has {what}" for what in _calls(graph))


def _calls(value: Any) -> Iterator[str]:
    """Yield the expressions and operators below a value of JSON that are more than arithmetic."""
    if isinstance(value, list):
        yield from (what for each in value for what in _calls(each))
    if not isinstance(value, dict):
        return
    expression, operator = value.get("expr_str"), value.get("target")
    if isinstance(expression, str) and not _is_arithmetic(expression):
        yield f"the expression {expression[:80]!r}"
    if isinstance(operator, str) and operator.startswith(_MODULES) and not _OPERATORS.fullmatch(operator):
        yield f"the operator {operator[:80]!r}"
    yield from (what for each in value.values() for what in _calls(each))


def _is_arithmetic(text: str) -> bool:
    """Return True if an expression has only numbers, named sizes, operators and calls of SymPy's classes.

    Text may only be the name of a symbol.
    """
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    names = {id(node.args[0]) for node in calls if ast.unparse(node.func) == "Symbol" and node.args}
    texts = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)]
    return (
        all(isinstance(node, _ARITHMETIC) for node in nodes)
        and all(re.fullmatch(r"[A-Z]\w*", ast.unparse(node.func)) for node in calls)
        and all(id(node) in names and re.fullmatch(r"\w+", str(node.value)) for node in texts)
    )
