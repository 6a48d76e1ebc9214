"""StableHLO, which JAX writes: modules in MLIR's generic form, and with jaxlib in its other forms.

xDSL alone reads the generic form; ``conversion`` makes it from the pretty form, from portable artifacts and
from functions of JAX (``jitted``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compiler.evaluation.survey import Survey
from compiler.graph import Graph, GraphError

from .jitted import JaxFunction, open_jax
from .text import SourceModule, parsed, without_locations

__all__ = ["JaxFunction", "from_jax", "load_stablehlo", "open_jax"]

_BYTECODE = b"ML\xefR"
_GENERIC = re.compile(
    r'(\s*(//|#|!)[^\n]*\n)*\s*"?(builtin\.module"\s*\(|func\.func"\s*\(|stablehlo\.\w+"\s*\()'
)


def load_stablehlo(path: Path | str, survey: Survey | None = None) -> Graph:
    """Read and check a module of StableHLO, in any of its forms.

    GraphError names the file, the operations that are not supported with their lines, or the packages to
    install. ``survey`` receives the fate of each operation.
    """
    from .importer import graph_of_module

    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise GraphError([f"{path}: cannot be read: {error.strerror}"]) from None
    return graph_of_module(_module(data, str(path)), path.stem, survey)


def from_jax(function: Any, examples: Sequence[Any]) -> Graph:
    """Return the graph of a function of JAX; the arguments are those of ``open_jax``."""
    return open_jax(function, examples).graph()


def _module(data: bytes, source: str) -> SourceModule:
    from . import conversion

    if data.startswith(_BYTECODE):
        return conversion.of_bytecode(data, source)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise GraphError([f"{source}: not a module of MLIR: it is not UTF-8 text"]) from None
    if _GENERIC.match(without_locations(text)):
        return parsed(text, source)
    if "stablehlo" not in text and "func.func" not in text:
        raise GraphError([f"{source}: a module of MLIR without operations of StableHLO"])
    return conversion.of_text(text, source)
