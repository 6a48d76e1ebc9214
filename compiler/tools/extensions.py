"""Python files of the user: operators from outside of the source tree, and metrics.

docs/custom_operators.md explains how a file of operators is written. The registries take long to load, so
they are imported only when there is a file.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tx8isa.errors import Tx8Error
from tx8isa.tools.suggestions import hint


class OperatorFileError(Tx8Error):
    """A Python file of the user that cannot be used."""


def load_all(files: Sequence[str]) -> None:
    """Execute the files of ``--operators``; OperatorFileError as ``load_operators``."""
    for file in files:
        load_operators(file)


def load_operators(path: str | Path) -> list[str]:
    """Execute a file and return its new operators.

    OperatorFileError when it cannot be read, fails, or registers nothing.
    """
    file = Path(path)
    before = set(_names())
    _executed(file, f"tx8_operators_{file.stem}", "operators are")
    found = sorted(set(_names()) - before)
    if not found:
        raise OperatorFileError(f"{file}: registers no operator and no lowering")
    return found


def load_function(text: str) -> Callable[..., Any]:
    """Return the function that ``FILE.py:FUNCTION`` names.

    OperatorFileError when the file cannot be read or fails, or has no such function.
    """
    path, _, function = text.rpartition(":")
    module = _executed(Path(path), f"tx8_metric_{Path(path).stem}", "a metric is")
    found = getattr(module, function, None)
    if not callable(found):
        raise OperatorFileError(f"{path}: has no function '{function}'{hint(function, vars(module))}")
    return found  # type: ignore[no-any-return]


def _executed(file: Path, name: str, what: str) -> ModuleType:
    """Execute a file as a module under a name; OperatorFileError when that fails."""
    spec = importlib.util.spec_from_file_location(name, file)
    if file.suffix != ".py" or spec is None or spec.loader is None:
        raise OperatorFileError(f"{file}: {what} read from Python files, whose names end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        if error.filename is None or Path(error.filename).absolute() != file.absolute():
            raise OperatorFileError(_failure(file, error)) from None
        raise OperatorFileError(f"{file}: cannot be read: {error.strerror}") from None
    except Exception as error:
        raise OperatorFileError(_failure(file, error)) from None
    return module


def _names() -> list[str]:
    """Return the operators that files have added so far."""
    import compiler.lowering
    import compiler.operators

    return compiler.operators.added() + compiler.lowering.added()


def _failure(file: Path, error: Exception) -> str:
    """Put an error into words, with the last line of the file that took part."""
    if isinstance(error, SyntaxError) and Path(error.filename or "") == file.absolute():
        return f"{file}:{error.lineno}:{error.offset}: {error.msg}"
    line = _line_in(file, error)
    where = str(file) if line is None else f"{file}:{line}"
    return f"{where}: {type(error).__name__}: {error}"


def failure_in(files: Sequence[str], error: Exception) -> str | None:
    """Describe an error of a compilation in which one of these files took part; None for any other error."""
    for file in map(Path, files):
        if _line_in(file, error) is not None:
            return _failure(file, error)
    return None


def _line_in(file: Path, error: Exception) -> int | None:
    """Return the last line of a file that took part in an error."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == file.absolute()]
    return lines[-1] if lines else None
