"""Makes Numba write LLVM code and leave it at that.

Numba optimises every function, with all that it calls inlined, and turns it into machine code before it
compiles the caller: a loop five calls deep is optimised five times. Inside ``only_text`` functions stay as
Numba wrote them, and are linked into the module of their caller. This uses private methods of Numba; without
them everything works, in more time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import codegen
from numba.core.compiler_lock import global_compiler_lock


@contextmanager
def only_text() -> Iterator[None]:
    """Compile functions only to LLVM code, which can be linked but not called.

    Other threads, which may compile functions of their own with Numba, wait meanwhile.
    """
    original = {(owner, name): getattr(owner, name, None) for owner, name, _ in PATCHES}
    if None in original.values():
        yield
        return
    inherited = {(owner, name) for owner, name, _ in PATCHES if name not in vars(owner)}
    with global_compiler_lock:
        for owner, name, instead in PATCHES:
            setattr(owner, name, instead)
        try:
            yield
        finally:
            for (owner, name), method in original.items():
                if (owner, name) in inherited:
                    delattr(owner, name)
                else:
                    setattr(owner, name, method)


def _nothing(self: Any, *arguments: Any) -> None:
    pass


def _finalize(self: Any) -> None:
    self._finalized = True


def _no_address(self: Any, name: str) -> int:
    self._ensure_finalized()  # which links the functions that are called
    return 0


_library: Any = codegen.JITCodeLibrary
_target: Any = codegen.JITCPUCodegen
PATCHES: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (_library, "_optimize_final_module", _nothing),
    (_library, "_finalize_final_module", _finalize),
    (_library, "get_pointer_to_function", _no_address),
    (_target, "set_env", _nothing),
)
"""(class, method, its replacement)."""
