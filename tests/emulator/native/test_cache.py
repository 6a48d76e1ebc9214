"""The cache of kernels: loading without Numba, damaged files, several processes."""

from __future__ import annotations

import importlib
import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tx8isa.numbers.primitives as isa
from emulator import native
from emulator.native import loader, store
from emulator.native.by_numba import elf
from emulator.native.primitives.memory import copy_bytes
from machine_code import needs_jit
from native_kernels import closure, over, run_both, words
from paths import ROOT
from processes import run_python
from tx8isa.numbers.primitives import s64, u64

SCRIPT = """
import sys
from emulator import native
from emulator.native.primitives.memory import view_i64
from tx8isa.numbers.primitives import s64

def kernel(address, n):
    total = 0
    values = view_i64(address, n)
    for i in range(n):
        total += values[i]
    return total

def main():
    import ctypes
    values = (ctypes.c_int64 * 100)(*range(100))
    print(native.call(native.compile_kernel(kernel, "sum", 2), ctypes.addressof(values), 100))
    print("numba" in sys.modules)

if __name__ == "__main__":
    main()
"""


@needs_jit
def test_a_warm_start_does_not_import_numba(tmp_path):
    cache = {"TX8_CACHE_DIR": str(tmp_path / "c")}
    assert run_python(SCRIPT, cache).stdout.split() == ["4950", "True"]
    assert run_python(SCRIPT, cache).stdout.split() == ["4950", "False"]


def test_with_the_jit_off_nothing_is_compiled(tmp_path):
    result = run_python(SCRIPT, {"TX8_CACHE_DIR": str(tmp_path / "c"), "TX8_JIT": "0"})
    assert result.stdout.split() == ["4950", "False"]
    assert not (tmp_path / "c").exists()


@pytest.mark.long
@needs_jit
def test_two_processes_at_once(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TX8_CACHE_DIR": str(tmp_path / "c")}
    started = [
        subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate()[0].split()[0] for process in started] == ["4950", "4950"]
    assert [path.suffix for path in (tmp_path / "c" / "kernels-v2").iterdir()].count(".o") == 1


def triple(x):
    return 3 * x


def moves(x):
    copy_bytes(x, x + 8, 8)
    return 0


@needs_jit
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "text"])
def test_a_damaged_file_is_recompiled(own_cache, damage, caplog, monkeypatch):
    native.compile_kernel(triple, "triple", 1)
    (path,) = own_cache.glob("*.o")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    broken = {"flip": bytes(data), "truncate": bytes(data[:-100]), "empty": b"", "text": b"no kernel"}
    path.write_bytes(broken[damage])
    monkeypatch.setattr(native, "_loaded", {})
    assert native.call(native.compile_kernel(triple, "triple", 1), 14) == 42
    assert "is damaged, or another program wrote it; computed again" in caplog.text
    assert store.load(path.stem) is not None


@needs_jit
def test_kernels_whose_names_were_exchanged_are_not_executed(own_cache, caplog, monkeypatch):
    """A key represents the meaning of a kernel, because the code of another kernel would run with its
    arguments."""
    native.compile_kernel(triple, "triple", 1)
    native.compile_kernel(closure(9), "k", 2)
    one, two = own_cache.glob("*.o")
    data = one.read_bytes(), two.read_bytes()
    one.write_bytes(data[1])
    two.write_bytes(data[0])
    monkeypatch.setattr(native, "_loaded", {})
    monkeypatch.setattr("emulator.native.loader.load_object", _only_compiled(native))
    assert native.call(native.compile_kernel(triple, "triple", 1), 14) == 42
    assert caplog.text.count("another program wrote it") == 1


def _only_compiled(native):
    """As ``load_object``, for kernels that this process has just compiled."""
    from emulator.native.loader import load_object

    built, build = [], native._build

    def remembering(*arguments):
        built.append(build(*arguments))
        return built[-1]

    native._build = remembering

    def checked(kernel, name):
        native._build = build
        assert kernel in built, "code of the cache reached the loader"
        return load_object(kernel, name)

    return checked


@needs_jit
def test_without_a_writable_folder_kernels_still_run(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(native, "_loaded", {})
    caplog.set_level(logging.INFO)
    assert native.call(native.compile_kernel(triple, "triple", 1), 14) == 42
    assert "kernel cache: cannot write to" in caplog.text


@needs_jit
def test_the_progress_hook_sees_compilations_and_no_loads(own_cache, monkeypatch):
    seen = []
    monkeypatch.setattr(native, "on_compile", lambda name, seconds: seen.append((name, seconds)))
    native.compile_kernel(triple, "ct.triple", 1)
    assert [name for name, _ in seen] == ["ct.triple"] * 2
    assert seen[0][1] is None
    assert seen[1][1] > 0
    monkeypatch.setattr(native, "_loaded", {})
    native.compile_kernel(triple, "ct.triple", 1)
    assert len(seen) == 2


@needs_jit
def test_the_same_kernel_is_loaded_once(own_cache):
    assert native.compile_kernel(closure(9), "k", 2) == native.compile_kernel(closure(9), "k", 2)


def test_the_default_folder_is_the_users(monkeypatch):
    monkeypatch.delenv("TX8_CACHE_DIR")
    assert store.folder().name == "kernels-v2"
    assert "tx8" in store.folder().parts


@needs_jit
def test_undefined_symbols_against_pyelftools(own_cache):
    elffile = pytest.importorskip("elftools.elf.elffile")
    native.compile_kernel(moves, "moves", 1)
    (path,) = own_cache.glob("*.o")
    kernel = store.load(path.stem)
    table = elffile.ELFFile(io.BytesIO(kernel)).get_section_by_name(".symtab")
    names = [s.name for s in table.iter_symbols() if s["st_shndx"] == "SHN_UNDEF" and s.name]
    assert elf.undefined_symbols(kernel) == names == ["memmove"]
    assert loader.ENTRY in [s.name for s in table.iter_symbols()]


_NUMBA_AFTERWARDS = """
from emulator import native
from tests_kernel import sums
native.compile_kernel(sums, "sums", 2)
import numba, numpy as np, sys
square = numba.njit(lambda x: x * x)
assert square(3) == 9 and square(np.arange(3.0))[2] == 4.0
first = numba.vectorize(["float32(uint16)"])(lambda x: np.float32(x))
assert first(np.arange(3, dtype=np.uint16)).sum() == 3
"""
_KERNEL_MODULE = """
from emulator.native.primitives.memory import view_i64
def sums(a, n):
    quotient, remainder = divmod(n, 3)
    return view_i64(a, n)[0] + quotient - remainder
"""


@pytest.mark.long
@needs_jit
def test_numba_still_works_in_a_process_that_loaded_kernels(own_cache, tmp_path):
    """The helpers supplied to kernels must not replace the ones that Numba supplies to its own code."""
    (tmp_path / "tests_kernel.py").write_text(_KERNEL_MODULE)
    path = os.pathsep.join([str(tmp_path), str(Path(native.__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": path}
    for _ in ("compiled here", "loaded from the cache"):
        subprocess.run([sys.executable, "-c", _NUMBA_AFTERWARDS], check=True, env=environment)


@needs_jit
@pytest.mark.parametrize("usable", [True, False])
def test_compiling_in_one_pass_leaves_numba_as_it_was(own_cache, monkeypatch, usable):
    """Without a private method of Numba the ordinary method is used."""
    codegen = importlib.import_module("numba.core.codegen")
    one_pass = importlib.import_module("emulator.native.by_numba.one_pass")
    before = vars(codegen.JITCodeLibrary).copy()
    if not usable:
        absent = (codegen.JITCodeLibrary, "a_method_of_another_release", None)
        monkeypatch.setattr(one_pass, "PATCHES", (*one_pass.PATCHES, absent))
    kernel = over(isa.u64, s64, u64, 1)
    machine, plain = run_both(kernel, f"pass.{usable}", [words(1)], "numba")
    assert (machine == plain).all()
    assert vars(codegen.JITCodeLibrary) == before
