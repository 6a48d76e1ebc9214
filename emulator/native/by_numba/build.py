"""Compile a kernel with Numba, which is imported only here and only on a cache miss."""

from __future__ import annotations

from collections.abc import Callable
from types import CellType, FunctionType, ModuleType
from typing import Any

import llvmlite.binding as llvm
from numba import njit, types
from numba.core import config
from numba.core.errors import NumbaError

from emulator.native.bytecode import KernelError, global_value, references
from emulator.native.keys import describe, describe_constant, is_project_module, module_constants
from emulator.native.llvm_module import emit_object
from emulator.native.loader import ENTRY
from emulator.native.primitives.names import PRIMITIVES

from .elf import undefined_symbols
from .intrinsics import INTRINSICS
from .one_pass import only_text
from .typing_rules import check_types

_OPTIONS: Any = {
    **{"error_model": "numpy", "boundscheck": False},
    **{"no_cpython_wrapper": True, "no_cfunc_wrapper": True},
}
"""Without wrappers, because compiling them would take as long as the functions."""

# Numba reads settings from `.numba_config.yaml` in the current folder, which may have come with a model.
config._config_fname = ""
config.reload_config()  # type: ignore[no-untyped-call]

_parts: dict[str, Any] = {}
"""Functions compiled by this process, by meaning, because the kernels of a family differ in few of them."""

_CALLED = "tx8_called"
"""Name of the function that the C function calls."""
_C_FUNCTION = """
define i64 @{entry}({parameters}) nounwind {{
  %result = alloca i64
  %exception = alloca ptr
  %status = call i32 @"{called}"({arguments})
  %well = icmp eq i32 %status, 0
  br i1 %well, label %returned, label %raised
returned:
  %value = load i64, ptr %result
  ret i64 %value
raised:
  call void @abort()
  unreachable
}}
declare void @abort() noreturn nounwind
"""
"""A call as Numba's compiled functions call each other; no kernel raises (``typing_rules``)."""


def build(function: Callable[..., int], name: str, arguments: int, compact: bool) -> bytes:
    """Return the object of ``function``; KernelError names the kernel and the offending line.

    ``compact`` as in ``native.compile_kernel``.
    """
    checked = {meaning: len(part.overloads) for meaning, part in _parts.items()}
    try:
        entry = _Lifter(name).lift(function)
        with only_text():
            called: Any = njit(**_OPTIONS)(_forward(entry, arguments))
            called.compile((types.int64,) * arguments)
        for meaning, part in _parts.items():
            check_types(list(part.overloads.values())[checked.get(meaning, 0) :], name)
    except BaseException as error:
        _parts.clear()  # some are half compiled, or were never checked
        if isinstance(error, NumbaError):
            raise KernelError(f"kernel {name}: {error}") from error
        raise
    return _emit(called, name, compact)


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
        compiled: Any = njit(**_OPTIONS)
        return compiled(copy)


def _forward(entry: Any, arguments: int) -> Callable[..., int]:
    """Return a function of a fixed number of parameters that calls ``entry`` and returns a signed word."""
    names = ", ".join(f"a{i}" for i in range(arguments))
    scope: dict[str, Any] = {"entry": entry, "s64": INTRINSICS["s64"]}
    exec(f"def {_CALLED}({names}):\n    return s64(entry({names}))\n", scope)
    return scope[_CALLED]  # type: ignore[no-any-return]


def _emit(called: Any, name: str, compact: bool) -> bytes:
    """Optimise what Numba has written; only the C function is seen from outside."""
    (signature,) = called.signatures
    text = called.inspect_llvm(signature)
    written = llvm.parse_assembly(text)
    (native,) = (f.name for f in written.functions if _CALLED in f.name and not f.is_declaration)
    parameters = [f"i64 %a{i}" for i in range(len(signature))]
    call = _C_FUNCTION.format(
        entry=ENTRY,
        called=native,
        parameters=", ".join(parameters),
        arguments=", ".join(["ptr %result", "ptr %exception", *parameters]),
    )
    module = llvm.parse_assembly(text + call)
    for function in module.functions:
        if not function.is_declaration and function.name != ENTRY:
            function.linkage = llvm.Linkage.internal
    code = emit_object(module, compact)
    for symbol in undefined_symbols(code):
        if symbol.startswith(("NRT_", "numba_", "Py")):
            raise KernelError(f"kernel {name}: allocates ('{symbol}'); no arrays, lists or dictionaries")
        if llvm.address_of_symbol(symbol) is None:
            raise KernelError(f"kernel {name}: its code calls '{symbol}', which no library here defines")
    return code
