"""The dependencies of a cached kernel's key."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from emulator import native
from emulator.native import keys
from machine_code import needs_jit
from native_kernels import closure
from processes import run_python

HELPER = "SCALE = 3\n\ndef scaled(x):\n    return x * SCALE\n"
USER = "from {helper} import scaled\n\ndef kernel(x):\n    return scaled(x) + 1\n"


@pytest.fixture
def edited(tmp_path, monkeypatch):
    """``edited(helper_source)`` writes and imports a helper module and a kernel that calls it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(source: str, user: str = USER):
        for name, text in (("tx8_test_helper", source), ("tx8_test_user", user)):
            (tmp_path / f"{name}.py").write_text(text.format(helper="tx8_test_helper"))
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("tx8_test_user").kernel

    yield load
    for name in ("tx8_test_helper", "tx8_test_user"):
        sys.modules.pop(name, None)


@needs_jit
@pytest.mark.parametrize("change", [("x * SCALE", "x + SCALE"), ("SCALE = 3", "SCALE = 4")])
def test_an_edit_of_an_imported_function_reaches_its_callers(edited, own_cache, change):
    before = edited(HELPER)
    assert native.call(native.compile_kernel(before, "k", 1), 5) == before(5) == 16
    after = edited(HELPER.replace(*change))
    assert keys.kernel_key(after, "k", 1) != keys.kernel_key(before, "k", 1)
    assert native.call(native.compile_kernel(after, "k", 1), 5) == after(5) != 16


def read_module(x):
    return x * memory_map.SCALE + memory_map.OFFSET  # noqa: F821


def test_integers_of_a_module_are_part_of_the_key(monkeypatch, own_cache):
    constants = ModuleType("constants")
    constants.SCALE, constants.OFFSET, constants.unused = 3, 4, {}
    monkeypatch.setitem(globals(), "memory_map", constants)
    assert native.call(native.compile_kernel(read_module, "k", 1), 5) == 19
    constants.SCALE = 7
    assert native.call(native.compile_kernel(read_module, "k", 1), 5) == 39


@pytest.mark.parametrize(
    "same", ["# a comment\n\n\n" + HELPER, HELPER.replace("(x)", "(value)").replace("x *", "value *")]
)
def test_comments_lines_and_local_names_do_not_change_the_key(edited, same):
    assert keys.kernel_key(edited(HELPER), "k", 1) == keys.kernel_key(edited(same), "k", 1)


@pytest.mark.parametrize(
    "other",
    [
        closure(3),
        closure(2.0),
        closure(2, (1, 3)),
        closure(2, (1, (2,))),
        closure(2, default=6),
        closure(True),
    ],
)
def test_captured_values_are_part_of_the_key(other):
    assert keys.kernel_key(other, "k", 2) != keys.kernel_key(closure(2), "k", 2)
    assert keys.kernel_key(closure(2), "k", 2) == keys.kernel_key(closure(2), "k", 2)


def test_name_and_arity_are_part_of_the_key():
    base = keys.kernel_key(closure(2), "k", 2)
    assert len({base, keys.kernel_key(closure(2), "l", 2), keys.kernel_key(closure(2), "k", 1)}) == 3


def test_the_processor_is_part_of_the_key():
    code = "from emulator.native.keys import environment; print(hash(environment()) and environment())"
    outputs = set()
    for extra in ({"NUMBA_CPU_NAME": "haswell"}, {"NUMBA_CPU_NAME": "skylake"}, {"NUMBA_OPT": "1"}):
        outputs.add(run_python(code, extra).stdout)
    assert len(outputs) == 3


def test_generated_kernels_are_keyed_by_their_meaning(own_cache):
    made = []

    def times(factor):
        def generate():
            made.append(factor)
            return lambda x: factor * x

        return native.compile_generated(generate, (factor,), "times", 1)

    assert [native.call(times(factor), 5) for factor in (3, 4)] == [15, 20]
    if native.jit_enabled():
        native._loaded.clear()
        assert native.call(times(3), 5) == 15
        assert made == [3, 4]
