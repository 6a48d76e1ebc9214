"""Makes Numba optimise and translate a kernel once, not once per function.

Numba turns every function into machine code of its own, with all that it calls inlined, before it compiles
the caller: a loop five calls deep is optimised five times. Only the last result is needed here. Inside
``only_entry`` the other functions remain unoptimised LLVM code, which is linked into the entry's module. This
uses private methods of the pinned Numba; without them everything works, in twice the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import codegen

ENTRY = "tx8_kernel_entry"
"""Name of the function whose library is optimised and translated."""


@contextmanager
def only_entry() -> Iterator[None]:
    """Compile functions other than ``ENTRY`` only to LLVM code, which can be linked but not called."""
    original = {(owner, name): getattr(owner, name, None) for owner, name, _ in PATCHES}
    if None in original.values():
        yield
        return
    inherited = {(owner, name) for owner, name, _ in PATCHES if name not in vars(owner)}
    for owner, name, instead in PATCHES:
        setattr(owner, name, instead(original[owner, name]))
    try:
        yield
    finally:
        for (owner, name), method in original.items():
            if (owner, name) in inherited:
                delattr(owner, name)
            else:
                setattr(owner, name, method)


def _nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    def optimize(self: Any) -> None:
        if self.name == ENTRY:
            original(self)

    return optimize


def _finalize(original: Callable[..., Any]) -> Callable[..., Any]:
    def finalize(self: Any) -> None:
        if self.name == ENTRY:
            original(self)
        else:
            self._finalize_dynamic_globals()
            self._finalized = True

    return finalize


def _no_address(original: Callable[..., Any]) -> Callable[..., Any]:
    def pointer(self: Any, name: str) -> int:
        if self.name == ENTRY:
            return int(original(self, name))
        self._ensure_finalized()
        return 0

    return pointer


def _set_env(original: Callable[..., Any]) -> Callable[..., Any]:
    def set_env(self: Any, env_name: str, env: Any) -> None:
        if self._engine.get_global_value_address(env_name):
            original(self, env_name, env)

    return set_env


_library: Any = codegen.JITCodeLibrary
_target: Any = codegen.JITCPUCodegen
PATCHES: tuple[tuple[Any, str, Any], ...] = (
    (_library, "_optimize_final_module", _nothing),
    (_library, "_finalize_final_module", _finalize),
    (_library, "get_pointer_to_function", _no_address),
    (_target, "set_env", _set_env),
)
"""(class, method, maker of its replacement)."""
