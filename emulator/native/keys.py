"""The name of a kernel in the cache: a hash of everything its machine code depends on.

Numba's own cache looks at one source file; a change in an imported function keeps stale code (numba#9483).
Here the hash runs over code objects, from the kernel through every function it reaches, so the meaning of an
instruction is part of the key wherever it was written.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable
from enum import Enum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from .bytecode import KernelError, References, global_value, references
from .target import target
from .vocabulary import PRIMITIVES

LIBRARIES = ("math", "numpy")
"""Modules that machine code knows itself; of others a kernel may read integers, as ``module.NAME``."""


def kernel_key(function: Callable[..., int], name: str, arguments: int) -> str:
    """Hex digest that changes whenever the machine code of the kernel may change."""
    parts = [environment(), name, str(arguments), describe(function, name)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def generated_key(generate: Callable[[], Any], meaning: tuple[Any, ...], name: str, arguments: int) -> str:
    """The same for a kernel whose source ``generate`` writes from what is in ``meaning``.

    What is in ``meaning`` counts by its code; the writer by the whole source file it stands in.
    """
    writer = hashlib.sha256(Path(generate.__code__.co_filename).read_bytes()).hexdigest()
    parts = [environment(), name, str(arguments), writer]
    seen: dict[int, int] = {}
    for value in meaning:
        _describe(value, name, parts, seen)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def describe(function: Callable[..., Any], kernel: str) -> str:
    """Text of all code and constants a function reaches: equal texts, equal machine code."""
    parts: list[str] = []
    _describe(function, kernel, parts, {})
    return "\n".join(parts)


@cache
def environment() -> str:
    """Versions, processor and primitives: what every kernel of this process depends on."""
    parts = [platform.python_version(), version("numba"), version("llvmlite"), np.__version__, *target()]
    parts += [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("NUMBA_")]
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for source in sorted(here.glob("machine/*.py")):
        digest.update(source.read_bytes())
    for name in ("build.py", "one_pass.py"):
        digest.update((here / name).read_bytes())
    return "\n".join([*parts, digest.hexdigest()])


def module_constants(module: ModuleType, name: str, used: References, kernel: str) -> dict[str, int]:
    """The integers that code reads as ``name.ATTRIBUTE`` from a module of the project."""
    found = {}
    for attribute in used.attributes_of(name):
        value = getattr(module, attribute, None)
        if not isinstance(value, int):
            raise KernelError(
                f"kernel {kernel}: '{name}.{attribute}' is not an integer constant; "
                "import functions and other values by name"
            )
        found[attribute] = value
    return found


def is_project_module(value: Any) -> bool:
    return isinstance(value, ModuleType) and value.__name__ not in LIBRARIES


def _describe(value: Any, kernel: str, parts: list[str], seen: dict[int, int]) -> None:
    if isinstance(value, FunctionType) and value not in PRIMITIVES:
        _describe_function(value, kernel, parts, seen)
    elif isinstance(value, tuple):
        parts.append(f"tuple {len(value)}")
        for item in value:
            _describe(item, kernel, parts, seen)
    elif isinstance(value, str):
        parts.append(repr(value))
    else:
        parts.append(describe_constant(value, kernel))


def _describe_function(function: FunctionType, kernel: str, parts: list[str], seen: dict[int, int]) -> None:
    if id(function) in seen:
        parts.append(f"function {seen[id(function)]}")
        return
    seen[id(function)] = len(seen)
    used = references(function.__code__)
    parts.append(used.text)
    for name in used.names:
        parts.append(name)
        value = global_value(function, name, kernel)
        if is_project_module(value):
            parts.append(repr(module_constants(value, name, used, kernel)))
        else:
            _describe(value, kernel, parts, seen)
    for cell in function.__closure__ or ():
        _describe(cell.cell_contents, kernel, parts, seen)
    for default in function.__defaults__ or ():
        _describe(default, kernel, parts, seen)


def describe_constant(value: Any, kernel: str) -> str:
    """Text that identifies a value a kernel refers to; KernelError when machine code cannot hold it."""
    if isinstance(value, FunctionType):
        return f"primitive {PRIMITIVES[value]}"
    if isinstance(value, bool | int | float | np.generic | np.dtype) or value is None:
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, ModuleType) and value.__name__ in LIBRARIES:
        return f"module {value.__name__}"
    if isinstance(value, type) and issubclass(value, Enum):
        return f"enum {[(m.name, m.value) for m in value]}"
    if isinstance(value, type | BuiltinFunctionType | np.ufunc):
        return f"builtin {getattr(value, '__module__', '')}.{value.__name__}"
    raise KernelError(
        f"kernel {kernel}: a value of type {type(value).__name__} cannot become machine code; allowed are "
        "int, float, bool, None, tuples of them, numpy scalars and dtypes, plain functions and primitives"
    )
