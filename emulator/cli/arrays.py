"""Arrays as .npy files."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import IO, Any

import numpy as np

Array = np.ndarray[Any, Any]

_LONGEST_NAME = 200
"""The most letters of an output's name in a file name; file systems allow a few more."""


def write_array(array: Array, file: IO[bytes]) -> None:
    """Write one array in .npy form."""
    np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)


def random_arrays(
    wanted: Iterable[tuple[str, tuple[int, ...], Any]], given: Mapping[str, Array], seed: int
) -> dict[str, Array]:
    """Return the given arrays, and random ones for the other (name, shape, dtype) inputs, in order.

    Numbers of NumPy's ``default_rng(seed)``, normally distributed with mean 0 and deviation 1, rounded to the
    dtype (integers: toward zero). An input gets the same numbers even if others are given.
    """
    generator = np.random.default_rng(seed)
    arrays = dict(given)
    for name, shape, dtype in wanted:
        values = generator.standard_normal(shape)
        arrays.setdefault(name, np.asarray(values).astype(dtype))
    return arrays


def file_names(outputs: Iterable[str]) -> dict[str, str]:
    """Return the name of the .npy file of each output, no two alike.

    Anything but ``[A-Za-z0-9_.-]`` becomes ``_``, and long names are cut. A name that another output already
    has gets a number.
    """
    plain = {output: re.sub(r"[^A-Za-z0-9_.-]", "_", output)[:_LONGEST_NAME] for output in outputs}
    taken = {name for output, name in plain.items() if name == output}
    names: dict[str, str] = {}
    for output, name in plain.items():
        numbers = itertools.count(2)
        free = name
        while output != free and free in taken:
            free = f"{name}_{next(numbers)}"
        taken.add(free)
        names[output] = f"{free}.npy"
    return names
