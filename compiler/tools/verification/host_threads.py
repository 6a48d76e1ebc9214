"""NumPy's matrix products on one thread of the host.

OpenBLAS divides even small products among all cores, and its threads wait for each other busily: on a host
that does other things, products of a proof took thirty times the processor time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

_MAPS = Path("/proc/self/maps")


@contextmanager
def one_thread() -> Iterator[None]:
    """Let OpenBLAS use one thread; without OpenBLAS nothing changes."""
    found = [_functions(path) for path in _libraries()]
    before = [(put, get()) for get, put in filter(None, found)]
    for put, _ in before:
        put(1)
    try:
        yield
    finally:
        for put, count in before:
            put(count)


def _libraries() -> list[str]:
    """The files of OpenBLAS that this process has loaded."""
    if not _MAPS.exists():
        return []
    paths = (line.split(maxsplit=5)[-1] for line in _MAPS.read_text("utf-8").splitlines())
    return sorted({path for path in paths if "openblas" in path})


def _functions(path: str) -> tuple[Any, Any] | None:
    """The functions of a library that read and set the number of threads; None if it has none."""
    library = ctypes.CDLL(path)
    for before, after in product(("scipy_", ""), ("64_", "")):
        names = (f"{before}openblas_{what}_num_threads{after}" for what in ("get", "set"))
        get, put = (getattr(library, name, None) for name in names)
        if get is not None and put is not None:
            return get, put
    return None
