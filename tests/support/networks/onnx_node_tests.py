"""The operator tests of the onnx package, made on demand.

Importing one of its modules computes the expected values of all tests in it, some of them in plain Python.
All modules together take twelve seconds.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx.backend.test.case.node as package

FOLDER = Path(package.__path__[0])


def modules() -> list[str]:
    """The names of the modules in the package; each has the tests of an operator."""
    found = pkgutil.walk_packages([str(FOLDER)])
    return sorted(module.name for module in found if not module.ispkg)


@functools.cache
def node_tests_of(module: str) -> tuple[Any, ...]:
    """The tests of a module. Their inputs are random: the seed makes them the same each time."""
    cases = package._NodeTestCases
    before, state = len(cases), np.random.get_state()
    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(f"{package.__name__}.{module}")
    np.random.set_state(state)
    return tuple(cases[before:])


def base_name(test: str) -> str:
    """test_x_expanded, test_x_expanded_ver18 -> test_x: the same test, its operator written out."""
    return re.sub(r"_expanded(_ver\d+)?$", "", test)


@functools.cache
def node_test(name: str) -> Any:
    """The test of a name; KeyError when the onnx package has none."""
    for module in _candidates(f'"{base_name(name)}"'):
        for test in node_tests_of(module):
            if test.name == name:
                return test
    raise KeyError(name)


def _candidates(quoted: str) -> Iterator[str]:
    """All modules, beginning with those whose text has a name, because some tests have composed names."""
    texts = {module: (FOLDER / f"{module.replace('.', '/')}.py").read_text("utf-8") for module in modules()}
    return iter(sorted(texts, key=lambda module: quoted not in texts[module]))
