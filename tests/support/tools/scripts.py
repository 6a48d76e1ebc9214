"""Scripts of the project outside of packages, imported for a test: benchmarks/ and those of docs/."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

from paths import ROOT


@contextmanager
def benchmark_modules(*names: str) -> Iterator[SimpleNamespace]:
    """Modules of ``benchmarks/`` by their names without underscores; forgotten afterwards."""
    folder = str(ROOT / "benchmarks")
    sys.path.insert(0, folder)
    try:
        yield SimpleNamespace(**{name.strip("_"): __import__(name) for name in names})
    finally:
        sys.path.remove(folder)
        for name in names:
            sys.modules.pop(name, None)


def generator() -> ModuleType:
    """``docs/generate.py`` as a module of its own."""
    return _script("docs/generate.py")


def site_script(name: str) -> ModuleType:
    """A script of ``docs/site`` as a module of its own."""
    return _script(f"docs/site/{name}.py")


def _script(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.rpartition("/")[2].removesuffix(".py"), ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
