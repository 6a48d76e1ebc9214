"""Writes JAX's output for ``networks.py`` and ``cases.py``: texts in MLIR's generic form, inputs, results.

    python tests/data/stablehlo/make.py

needs JAX, and runs it on the CPU. Each network becomes ``NAME.mlir`` and ``NAME.npz``; the cases of a family
stand one after the other in ``cases/FAMILY.mlir`` behind lines ``// case NAME``. In an archive ``in0`` is the
first argument and ``out0`` the first result, of cases with the name of the case before; ``jax`` is the
version that computed them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"

import cases
import jax
import numpy as np

import networks

HERE = Path(__file__).parent


def text_of(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """The module of a function in the generic form."""
    module = jax.jit(function, keep_unused=True).lower(*arguments).compiler_ir("stablehlo")
    return str(module.operation.get_asm(print_generic_op_form=True))


def arrays_of(
    function: Callable[..., Any], arguments: tuple[Any, ...], prefix: str = ""
) -> dict[str, np.ndarray]:
    """Arguments and results of a function as arrays, in float32 where NumPy lacks their type."""
    results = jax.tree_util.tree_leaves(jax.jit(function)(*arguments))
    named = {f"in{at}": value for at, value in enumerate(arguments)}
    named |= {f"out{at}": value for at, value in enumerate(results)}
    return {prefix + name: np.asarray(value) for name, value in named.items()}


def save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    np.savez_compressed(path, **{"jax": np.array(jax.__version__), **arrays})


def main() -> None:
    for name, make in networks.NETWORKS.items():
        function, arguments = make()
        (HERE / f"{name}.mlir").write_text(text_of(function, arguments))
        save(HERE / f"{name}.npz", arrays_of(function, arguments))
    (HERE / "cases").mkdir(exist_ok=True)
    for family, members in cases.FAMILIES.items():
        texts = [f"// case {name}\n{text_of(*case)}" for name, case in members.items()]
        (HERE / "cases" / f"{family}.mlir").write_text("".join(texts))
        arrays = [arrays_of(*case, f"{name}/") for name, case in members.items()]
        save(HERE / "cases" / f"{family}.npz", {key: value for part in arrays for key, value in part.items()})


if __name__ == "__main__":
    main()
