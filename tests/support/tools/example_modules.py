"""Modules of a folder of examples, which is not a package."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace


@contextmanager
def example_modules(folder: Path, names: Sequence[str]) -> Iterator[SimpleNamespace]:
    """The modules of these names, which no other import finds afterwards."""
    sys.path.insert(0, str(folder))
    try:
        yield SimpleNamespace(**{name: import_module(name) for name in names})
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name)
