"""Specifications of kernels: Python files that a user writes and names, and that the judge executes."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import ml_dtypes  # noqa: F401  gives NumPy the name bfloat16
import numpy as np

from asm.diagnostics import shortened
from emulator.cli.arrays import random_arrays
from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import one_line
from tx8isa.tools.suggestions import hint

from .outcome import Outcome

Array = np.ndarray[Any, np.dtype[Any]]
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Spec:
    """The specification of a kernel; the fields except ``path`` are names that the file defines."""

    path: str
    expected: Callable[..., Any]
    """The results, from the inputs that it names as parameters."""
    inputs: Mapping[str, Any] | Callable[[int], Mapping[str, Any]] = field(default_factory=dict)
    """Inputs, or the arguments of a launch in order; or a function of the seed."""
    tolerance: float = 0.0
    """The error that an element may have, absolute and relative to the expected value."""
    cycles: int | None = None
    """The most cycles that the kernel may take."""
    kernel: str | None = None
    """The function to launch; by default the one with the name of the kernel's file."""
    grid: int | Sequence[int] = 1
    defines: Mapping[str, int | str] = field(default_factory=dict)
    """Symbols for the assembler."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """A text for each outcome that a kernel may have, such as ``wrong``."""

    def arguments(self, seed: int) -> dict[str, Any]:
        """Return the inputs by name; Tx8Error for values that are no inputs."""
        given = self.inputs
        if callable(given):
            given = self.called(given, seed)
        if not isinstance(given, Mapping):
            raise Tx8Error(f"{self.path}: inputs is a {type(given).__name__}: expected values by name")
        kinds = {name: self._kind(name, value) for name, value in given.items() if isinstance(value, tuple)}
        drawn = random_arrays([(name, *kind) for name, kind in kinds.items()], {}, seed)
        return {name: drawn.get(name, value) for name, value in given.items()}

    def _kind(self, name: str, value: tuple[Any, ...]) -> tuple[tuple[int, ...], Any]:
        """Return shape and type of a random input that is given as ``(type, extent, ...)``."""
        try:
            return tuple(map(int, value[1:])), np.dtype(value[0])
        except (TypeError, ValueError, IndexError):
            wanted = "expected a type of NumPy and extents, such as ('float16', 16, 1000)"
            raise Tx8Error(f"{self.path}: input '{name}' is {value!r}: {wanted}") from None

    def results(self, inputs: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Array]:
        """Return the expected value of each output; Tx8Error when ``expected`` does not give them."""
        found = self.called(self.expected, **self._taken(inputs))
        if not isinstance(found, Mapping):
            listed = found if isinstance(found, tuple) else (found,)
            if len(listed) != len(outputs):
                text = f"expected() returns {len(listed)} results for the outputs {', '.join(outputs)}"
                raise Tx8Error(f"{self.path}: {text}: return one for each, or a dictionary by name")
            found = dict(zip(outputs, listed, strict=True))
        for name in found:
            if name not in outputs:
                known = ", ".join(outputs)
                text = (
                    f"expected() returns '{name}', which is no output{hint(name, outputs)}; outputs: {known}"
                )
                raise Tx8Error(f"{self.path}: {text}")
        if not found:
            raise Tx8Error(f"{self.path}: expected() returns no results")
        return {name: np.asarray(value) for name, value in found.items()}

    def _taken(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return copies of the inputs that ``expected`` has parameters for."""
        parameters = inspect.signature(self.expected).parameters.values()
        names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        every = len(names) < len(inspect.signature(self.expected).parameters)
        for name in names:
            if name not in inputs:
                known = ", ".join(inputs) or "none"
                text = f"expected() takes '{name}', which is no input{hint(name, inputs)}; inputs: {known}"
                raise Tx8Error(f"{self.path}: {text}")
        return {name: np.copy(value) for name, value in inputs.items() if every or name in names}

    def called(self, function: Callable[..., _Result], *arguments: Any, **named: Any) -> _Result:
        """Call a function of the file; Tx8Error with the line where it raises an exception."""
        try:
            return function(*arguments, **named)
        except (Exception, SystemExit) as error:
            raise raised(self.path, error) from None


_NAMES = tuple(each.name for each in fields(Spec) if each.name != "path")


def read_spec(path: str | Path) -> Spec:
    """Execute the file of a specification; Tx8Error for a file that is none."""
    file = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Tx8Error(f"{file}: {getattr(error, 'strerror', None) or 'not a text in UTF-8'}") from None
    module: dict[str, Any] = {"__name__": "tx8_spec", "__file__": file}
    try:
        exec(compile(text, file, "exec"), module)
    except (Exception, SystemExit) as error:
        raise raised(file, error) from None
    for name in _own_values(module):
        if near := hint(name, _NAMES):
            raise Tx8Error(f"{file}: '{name}' is no name of a specification{near}")
    if "expected" not in module:
        raise Tx8Error(f"{file}: no function expected(...), which computes the results from the inputs")
    return _checked(Spec(file, **{name: module[name] for name in _NAMES if name in module}))


def _own_values(module: Mapping[str, Any]) -> list[str]:
    """Return the names of values that the file defines for itself: no functions, modules or private names."""
    return [
        name
        for name, value in module.items()
        if not (name.startswith("_") or name in _NAMES or callable(value) or isinstance(value, ModuleType))
    ]


def _checked(spec: Spec) -> Spec:
    """Return the specification if its values have their types; otherwise Tx8Error."""
    for name, kinds, wanted in (
        ("expected", Callable, "a function of the inputs"),
        ("inputs", Mapping | Callable, "a dictionary, or a function of the seed"),
        ("tolerance", int | float, "a number"),
        ("cycles", int | None, "a number of cycles"),
        ("kernel", str | None, "the name of a function"),
        ("grid", int | Sequence, "one to three extents"),
        ("defines", Mapping, "numbers or texts by name"),
        ("hints", Mapping, "texts by outcome"),
    ):
        value = getattr(spec, name)
        if not isinstance(value, kinds) or isinstance(value, bool):  # type: ignore[arg-type]
            raise Tx8Error(f"{spec.path}: {name} is {value!r}: expected {wanted}")
    for outcome in spec.hints:
        if outcome not in list(Outcome):
            known = ", ".join(Outcome)
            raise Tx8Error(
                f"{spec.path}: hints has '{outcome}'{hint(outcome, list(Outcome))}; outcomes: {known}"
            )
    return spec


def raised(path: str, error: BaseException) -> Tx8Error:
    """Return the error about an exception in the file, with the last line of the file that it passed."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else lines[-1] if lines else None
    place = path if line is None else f"{path}:{line}"
    return Tx8Error(f"{place}: {type(error).__name__}: {shortened(one_line(str(error)))}")
