"""From a plain Python function to cached machine code.

``compile_kernel`` takes a plain function of 64-bit integers and gives the address of a C function that does
the same. The first use compiles it and keeps the object code on disk; later processes only load that.
``TX8_JIT`` chooses the engine: ``direct`` writes LLVM text for all functions of the emulator, and leaves
functions with other constructs, or functions that break the rules below, to Numba, which is only then
imported; ``numba`` compiles everything with Numba (``by_numba``); ``0`` (or ``NUMBA_DISABLE_JIT=1``) lets
kernels stay Python functions with pseudo addresses: slow. All give the same results.

A primitive is a function with two implementations: in ``primitives/`` in plain Python, which is the
definition, and in ``machine/`` as LLVM instructions. ``primitives/names.py`` lists them all.

    scalar.py    words of 64 bits and binary64; in plain Python in ``tx8isa/numbers/primitives.py``
    float32.py   stored formats from and to binary32
    memory.py    views, single words, copies, calls of kernels
    products.py  products and taps of the matrix engine
    int8.py      the same for INT8, requantisation
    blocks.py    transposition of small blocks
    flags.py     bytes to bits and back
    threads.py   atomic words, waiting

Rules for a kernel and the functions it calls, so that both executions agree:

* Integers are 64-bit. Keep every value inside them with ``s64`` or ``u64``; ``u64`` is the unsigned type,
  all other primitives give signed values. One signed operand makes ``+ - * // % & | ^`` signed. Write
  ``u64(a) >> b`` for a logical shift, with a count of 0 to 63, and divide two ``u64`` for an unsigned
  quotient. Nothing divides by zero.
* Wrap values read from an integer view in ``s64`` or ``u64`` before calculating with them.
* Index with ``u64`` values (``for i in range(u64(n))``): a signed index is tested for being negative and the
  loop is not vectorised as well. Never index outside a view.
* Binary32 and binary64 do not mix: constants of binary32 expressions are ``single(0.5)``. A variable has one
  type. Mixed arithmetic is refused when the kernel is compiled.
* No exceptions, no recursion, no containers but tuples, no strings. Functions are imported by name; integers
  may also be read as ``module.NAME``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from emulator.native.primitives.interpreted import call

from . import store
from .bytecode import KernelError
from .choice import DIRECT, NUMBA, engine, jit_enabled
from .keys import FixedMeaning, compiler_is_the_same, generated_key, kernel_key
from .primitives import interpreted

__all__ = [
    "FixedMeaning",
    "KernelError",
    "Missing",
    "cached_only",
    "call",
    "compile_generated",
    "compile_kernel",
    "compile_once",
    "engine",
    "import_compiler",
    "jit_enabled",
    "on_compile",
]

log = logging.getLogger(__name__)

on_compile: Callable[[str, float | None], None] | None = None
"""Called with (name, None) before a kernel is compiled, and with (name, seconds) afterwards."""


class Missing(Exception):
    """The cache lacks a kernel, and compiling is not allowed."""


_cached_only = ContextVar("cached only", default=False)
_loaded: dict[Hashable, int] = {}
_lock = threading.RLock()


@contextmanager
def cached_only() -> Iterator[None]:
    """Compile nothing: ``Missing`` for a kernel that the cache lacks."""
    token = _cached_only.set(True)
    try:
        yield
    finally:
        _cached_only.reset(token)


def compile_kernel(function: Callable[..., int], name: str, arguments: int, compact: bool = False) -> int:
    """Return the address of a C function ``int64 f(int64 x arguments)`` that does what ``function`` does.

    ``name`` appears in messages and progress. ``compact``: by LLVM with few functions inlined and no loops
    unrolled. That compiles in half the time, and is as fast for vectors and copies. Raises KernelError when
    the source breaks the rules above.
    """
    if not jit_enabled():
        return interpreted.register(function)
    key = kernel_key(function, name, arguments, compact)
    with _lock:
        address = _loaded.get(key)
        if address is None:
            address = _loaded[key] = _obtain(lambda: function, name, arguments, key, compact)
        return address


def compile_once(function: Callable[..., int], name: str, arguments: int, compact: bool = False) -> int:
    """``compile_kernel`` for a function of a module; this process describes its meaning only once.

    It takes milliseconds to describe everything that a large function reaches, which every run would spend.
    """
    if not jit_enabled():
        return interpreted.register(function)
    use = (function, name, arguments, compact)
    address = _loaded.get((engine(), use))
    if address is None:
        address = _loaded[engine(), use] = compile_kernel(*use)
    return address


def compile_generated(
    generate: Callable[[], Callable[..., int]], meaning: tuple[Any, ...], name: str, arguments: int
) -> int:
    """Return the address of a C function whose source ``generate()`` writes; called only on a cache miss.

    It is compiled as by ``compile_kernel``. ``meaning`` holds the functions and constants from which the text
    is made. It and ``generate`` are the key, see ``keys.generated_key``.
    """
    if not jit_enabled():
        return interpreted.register(generate())
    key = generated_key(generate, meaning, name, arguments)
    with _lock:
        address = _loaded.get(key)
        if address is None:
            address = _loaded[key] = _obtain(generate, name, arguments, key, False)
        return address


def import_compiler() -> None:
    """Import the chosen engine, which is otherwise imported when the first kernel is missing."""
    if engine() == NUMBA:
        from .by_numba import build  # noqa: F401
    else:
        from .direct import compile  # noqa: F401


def _obtain(
    generate: Callable[[], Callable[..., int]], name: str, arguments: int, key: str, compact: bool
) -> int:
    from .loader import load_object

    kernel = store.load(key)
    if kernel is None:
        if _cached_only.get():
            raise Missing(name)
        kernel = _build(generate(), name, arguments, compact)
        if compiler_is_the_same():
            store.save(key, kernel)
    return load_object(kernel, name)


def _build(function: Callable[..., int], name: str, arguments: int, compact: bool) -> bytes:
    if on_compile:
        on_compile(name, None)
    start = time.perf_counter()
    kernel = _translate(function, arguments, compact) if engine() == DIRECT else None
    if kernel is None:
        from .by_numba.build import build

        kernel = build(function, name, arguments, compact)
    if on_compile:
        on_compile(name, time.perf_counter() - start)
    return kernel


def _translate(function: Callable[..., int], arguments: int, compact: bool) -> bytes | None:
    """Return an object made without Numba; None for a function that ``direct`` does not know."""
    from .direct.compile import compile_directly
    from .direct.values import Untranslatable

    try:
        return compile_directly(function, arguments, compact)
    except Untranslatable as reason:
        log.info("%s is compiled with Numba: %s", function.__qualname__, reason)
        return None
