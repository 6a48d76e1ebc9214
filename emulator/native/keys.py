"""Names a kernel in the cache by a hash of everything on which its machine code depends.

Numba's own cache looks at one source file, so it keeps stale code after a change in an imported function
(numba#9483). Here the hash runs over code objects, from the kernel through every function it reaches, so the
meaning of an instruction is part of the key wherever it was written.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numpy as np

from .bytecode import KernelError, References, global_value, references
from .choice import engine
from .primitives.names import PRIMITIVES
from .target import target

LIBRARIES = ("math", "numpy")
"""Modules that machine code knows itself; of other modules a kernel may read integers (``module.NAME``)."""


def kernel_key(function: Callable[..., int], name: str, arguments: int, compact: bool = False) -> str:
    """Return a hex digest that changes whenever the machine code of the kernel may change."""
    parts = [environment(), engine(), name, str(arguments), str(compact), describe(function, name)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class FixedMeaning:
    """Parts of a meaning that are described once: later questions pass the same object."""

    parts: tuple[Any, ...]


def generated_key(generate: Callable[[], Any], meaning: tuple[Any, ...], name: str, arguments: int) -> str:
    """Return a hex digest for a kernel whose source ``generate`` writes from the contents of ``meaning``.

    The contents of ``meaning`` count by their code, a ``FixedMeaning`` by its parts. The writer counts by its
    module and the emulator's modules that its functions use: their functions and plain constants. All of it
    is taken as this process imported it. The files may have been edited since, and machine code of the old
    text must not be kept under the name of the new text. So equal arguments always give the same key.
    """
    question = (engine(), generate, _identity(meaning), name, arguments)
    if question not in _answers:
        _answers[question] = _generated_key(generate, meaning, name, arguments)
    return _answers[question]


_answers: dict[tuple[Any, ...], str] = {}
"""Keys by question, because every chip asks for its loops, and their description takes milliseconds."""


def _identity(value: Any) -> Any:
    """Return a value that equals another only if both have the same description, unlike ``1 == True``."""
    if isinstance(value, tuple):
        return tuple(map(_identity, value))
    return value if isinstance(value, FunctionType | type | FixedMeaning) else (type(value), repr(value))


def _generated_key(generate: Callable[[], Any], meaning: tuple[Any, ...], name: str, arguments: int) -> str:
    parts = [environment(), engine(), name, str(arguments), *_writers(generate)]
    seen: dict[int, int] = {}
    for value in meaning:
        for part in value.parts if isinstance(value, FixedMeaning) else (value,):
            _describe(part, name, parts, seen)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def describe(function: Callable[..., Any], kernel: str) -> str:
    """Return the text of all code and constants a function reaches: equal texts, equal machine code."""
    parts: list[str] = []
    _describe(function, kernel, parts, {})
    return "\n".join(parts)


@cache
def environment() -> str:
    """Return versions, processor and primitives, on which every kernel of this process depends."""
    parts = [platform.python_version(), _numba(), llvmlite.__version__, np.__version__, *target()]
    parts += [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("NUMBA_")]
    return "\n".join([*parts, _compiler()])


def _numba() -> str:
    """Return the file with Numba's version, because importing it, or ``importlib.metadata``, takes long."""
    found = find_spec("numba")
    if found is None or found.origin is None:
        raise ImportError("Numba is not installed: pip install numba", name="numba")
    return Path(found.origin).with_name("_version.py").read_text(encoding="utf-8")


def compiler_is_the_same() -> bool:
    """Return True if the files of the compiler are those of ``environment``.

    They are imported when the first kernel is missing. If they have changed, this process must not keep code
    that it compiles, because its key is that of the old files.
    """
    return environment().endswith(_compiler())


def _compiler() -> str:
    """Return a digest of the files that turn kernels into machine code."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    folders = (sorted(here.glob(f"{name}/*.py")) for name in ("machine", "direct", "by_numba"))
    for source in (*chain(*folders), here / "inline.py", here / "llvm_module.py"):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _writers(generate: Callable[..., Any]) -> list[str]:
    """Return texts of the module that writes source, and of the emulator's modules that it names."""
    scope: dict[str, Any] = generate.__globals__
    defined = [value for _, value in _contents(scope, scope["__name__"]) if isinstance(value, FunctionType)]
    used = {name for function in defined for name in references(function.__code__).names}
    modules = {_module(scope[name]) for name in used if name in scope} - {scope["__name__"]}
    package = __name__.partition(".")[0]
    known = sorted(name for name in modules if name.partition(".")[0] == package and name in sys.modules)
    return [_text(scope), *(_text(vars(sys.modules[name])) for name in known)]


def _module(value: Any) -> str:
    """Return the name of a module, or of the one in which a function or class is defined."""
    return str(value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", ""))


def _text(scope: dict[str, Any]) -> str:
    """Return the functions of a module and its plain constants."""
    texts = []
    for name, value in _contents(scope, scope["__name__"]):
        plain = not isinstance(value, FunctionType)
        texts.append(f"{name}: {repr(value) if plain else references(value.__code__).text}")
    return "\n".join(texts)


def _contents(scope: Mapping[str, Any], module: str, in_class: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield a module's plain constants and functions by name, also in classes and decorated.

    Its other variables, in lower case, are not constants: their values differ from process to process.
    """
    for name, value in tuple(scope.items()):  # another thread may import meanwhile
        for wrapper in ("__wrapped__", "fget", "func"):  # caches, static methods, properties
            value = getattr(value, wrapper, value)
        if isinstance(value, type) and _module(value) == module:
            yield from ((f"{name}.{inner}", item) for inner, item in _contents(vars(value), module, True))
        own = isinstance(value, FunctionType) and _module(value) == module
        constant = name.isupper() or (in_class and not name.startswith("__"))
        if own or (constant and _is_plain(value)):
            yield name, value


def _is_plain(value: Any) -> bool:
    """Return True if the text of a value is the same in every process."""
    if isinstance(value, dict):
        return all(_is_plain(item) for pair in value.items() for item in pair)
    if isinstance(value, tuple | list):
        return all(_is_plain(item) for item in value)
    return isinstance(value, str | bytes | int | float | None)


def module_constants(module: ModuleType, name: str, used: References, kernel: str) -> dict[str, int]:
    """Return the integers that code reads as ``name.ATTRIBUTE`` from a module of the project."""
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
    """Return text that identifies a value of a kernel; KernelError when machine code cannot hold it."""
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
