"""Compile a kernel with Numba: the only part of the emulator that imports it, and only on a cache miss."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import CellType, FunctionType, ModuleType
from typing import Any

import llvmlite.binding as llvm
import numba
from numba import cfunc, njit, types
from numba.core import config
from numba.core.errors import NumbaError

from .bytecode import KernelError, global_value, references
from .elf import renamed, undefined_symbols
from .keys import describe, describe_constant, is_project_module, module_constants
from .machine.for_numba import INTRINSICS
from .one_pass import ENTRY, only_entry
from .primitives.names import PRIMITIVES
from .store import Compiled
from .typing_rules import check_types

_OPTIONS: Any = {"error_model": "numpy", "boundscheck": False}
_INNER: Any = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only compiled code calls, because compiling wrappers would take as long as the
functions."""
_RUNTIME = re.compile(
    "Py.*|NRT_(Allocate|Free|MemInfo_alloc|MemInfo_call_dtor)"
    "|numba_(gil_ensure|gil_release|unpickle|do_raise|runtime_build_excinfo_struct)"
)
"""Symbols that the loader supplies: allocation, and helpers that only a raised exception reaches."""


# Numba reads settings from `.numba_config.yaml` in the current folder, which may have come with a model.
config._config_fname = ""
config.reload_config()  # type: ignore[no-untyped-call]

_parts: dict[str, Any] = {}
"""Functions compiled by this process, by meaning, because the kernels of a family differ in few of them."""


def build(function: Callable[..., int], name: str, arguments: int) -> Compiled:
    """Return machine code of ``function``; KernelError names the kernel and the offending line."""
    checked = {meaning: len(part.overloads) for meaning, part in _parts.items()}
    try:
        entry = _Lifter(name).lift(function)
        with only_entry():
            compiled = cfunc(types.int64(*[types.int64] * arguments), **_OPTIONS)(_forward(entry, arguments))
        for meaning, part in _parts.items():
            check_types(list(part.overloads.values())[checked.get(meaning, 0) :], name)
    except BaseException as error:
        _parts.clear()  # some are half compiled, or were never checked
        if isinstance(error, NumbaError):
            raise KernelError(f"kernel {name}: {error}") from error
        raise
    return _extract(compiled, name)


class _Lifter:
    """Copies of plain functions whose globals are the machine's versions."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel

    def lift(self, value: Any) -> Any:
        """Return the machine's version of anything a kernel may refer to."""
        if not isinstance(value, FunctionType):
            if isinstance(value, tuple):
                return tuple(self.lift(item) for item in value)
            describe_constant(value, self.kernel)
            return value
        if value in PRIMITIVES:
            return INTRINSICS[PRIMITIVES[value]]
        meaning = describe(value, self.kernel)  # closures made twice from the same parts are one function
        if meaning not in _parts:
            _parts[meaning] = None
            _parts[meaning] = self._copy(value)
        if _parts[meaning] is None:
            raise KernelError(f"kernel {self.kernel}: '{value.__qualname__}' calls itself; use a loop")
        return _parts[meaning]

    def _copy(self, function: FunctionType) -> Any:
        names: dict[str, Any] = {"__name__": function.__module__}
        used = references(function.__code__)
        for name in used.names:
            value = global_value(function, name, self.kernel)
            if is_project_module(value):
                names[name] = ModuleType(value.__name__)
                vars(names[name]).update(module_constants(value, name, used, self.kernel))
            else:
                names[name] = self.lift(value)
        cells = tuple(CellType(self.lift(cell.cell_contents)) for cell in function.__closure__ or ())
        copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
        copy.__qualname__ = function.__qualname__
        compiled: Any = njit(**_INNER)
        return compiled(copy)


def _forward(entry: Any, arguments: int) -> Callable[..., int]:
    """Return a function of a fixed number of parameters that calls ``entry``, for the C wrapper."""
    names = ", ".join(f"a{i}" for i in range(arguments))
    scope: dict[str, Any] = {"entry": entry}
    exec(f"def {ENTRY}({names}):\n    return entry({names})\n", scope)
    return scope[ENTRY]  # type: ignore[no-any-return]


def _extract(compiled: Any, name: str) -> Compiled:
    library = compiled._library
    if not hasattr(library, "_get_compiled_object"):
        raise KernelError(
            f"kernel {name}: Numba {numba.__version__} does not give out its object code; "
            "install numba==0.68.1"
        )
    code = bytes(library._get_compiled_object())
    runtime = []
    for symbol in undefined_symbols(code):
        if _RUNTIME.fullmatch(symbol):
            runtime.append(symbol)
        elif symbol.startswith(("NRT_", "numba_")):
            raise KernelError(f"kernel {name}: allocates ('{symbol}'); no arrays, lists or dictionaries")
        elif llvm.address_of_symbol(symbol) is None:
            raise KernelError(f"kernel {name}: its code calls '{symbol}', which no library here defines")
    own = {symbol: own_name(symbol) for symbol in runtime}
    return Compiled(compiled.native_name, tuple(own.values()), renamed(code, own))


def own_name(symbol: str) -> str:
    """Return the name under which the loader supplies a helper of Numba's or Python's.

    Numba gives the real ones to LLVM only if the name is still free. Taking the name would break every
    function that the process compiles with Numba later.
    """
    return f"tx8{symbol[3:]}"
