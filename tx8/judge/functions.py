"""Functions of Triton in a file of Python: Triton compiles one, and the judge receives its launch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tx8isa.errors import Tx8Error
from tx8isa.tools.suggestions import hint

from .spec import Spec, raised

if TYPE_CHECKING:
    from tx8.triton.measuring import HeldLaunch


def held_launch(path: Path, spec: Spec, arguments: Mapping[str, Any]) -> HeldLaunch:
    """Return the launch of a function with arguments by name; Tx8Error when Triton refuses it."""
    os.environ.setdefault("TRITON_DEFAULT_BACKEND", "tx8")
    try:
        import triton  # noqa: F401
    except ImportError:
        wanted = "pip install triton==3.9.0, or give the kernel's text, a file .ttir"
        raise Tx8Error(
            f"{path}: a function of Triton needs Triton, which is not installed: {wanted}"
        ) from None
    from tx8.triton.measuring import launches_held

    function = _function(path, spec)
    with launches_held() as held:
        try:
            function[_grid(spec)](**arguments)
        except Tx8Error:
            raise
        except Exception as error:
            raise raised(str(path), error) from None
    return held[0]


def _grid(spec: Spec) -> tuple[int, ...]:
    return (spec.grid,) if isinstance(spec.grid, int) else tuple(spec.grid)


def _function(path: Path, spec: Spec) -> Any:
    """Execute the file and return its function of Triton; Tx8Error if none or several can be meant."""
    found = spec_from_file_location("tx8_kernel_file", path)
    assert found is not None and found.loader is not None
    module = module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise raised(str(path), error) from None
    functions = {name: value for name, value in vars(module).items() if hasattr(value, "arg_names")}
    name = spec.kernel or (next(iter(functions)) if len(functions) == 1 else path.stem)
    if name not in functions:
        known = ", ".join(functions) or "none"
        raise Tx8Error(f"{path}: no function '{name}' of Triton{hint(name, functions)}; there are: {known}")
    return functions[name]
