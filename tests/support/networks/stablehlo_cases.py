"""The texts of StableHLO that tests/data/stablehlo/make.py wrote, with inputs and the results of JAX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from compiler.frontend.stablehlo import load_stablehlo
from compiler.graph import Array, Graph
from paths import ROOT

FOLDER = ROOT / "tests" / "data" / "stablehlo"
NETWORKS = tuple(sorted(path.stem for path in FOLDER.glob("*.mlir")))


def family_names() -> tuple[str, ...]:
    """The families of small cases."""
    return tuple(sorted(path.stem for path in (FOLDER / "cases").glob("*.mlir")))


@cache
def _family(family: str) -> tuple[dict[str, str], dict[str, Array]]:
    """The texts of a family by case, and its arrays."""
    parts = re.split(
        r"^// case (\w+)\n", (FOLDER / "cases" / f"{family}.mlir").read_text(), flags=re.MULTILINE
    )
    with np.load(FOLDER / "cases" / f"{family}.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    return dict(zip(parts[1::2], parts[2::2], strict=True)), arrays


def case_names() -> Iterator[tuple[str, str]]:
    """Family and name of every small case."""
    for family in family_names():
        yield from ((family, name) for name in _family(family)[0])


def case_text(family: str, name: str) -> str:
    return _family(family)[0][name]


def case_arrays(family: str, name: str) -> tuple[list[Array], list[Array]]:
    """Inputs and results of a case."""
    return _sides(_family(family)[1], f"{name}/")


def network_arrays(name: str) -> tuple[list[Array], list[Array]]:
    """Inputs and results of a network."""
    with np.load(FOLDER / f"{name}.npz") as archive:
        return _sides({key: archive[key] for key in archive.files}, "")


def _sides(arrays: Mapping[str, Array], prefix: str) -> tuple[list[Array], list[Array]]:
    sides: list[list[Array]] = []
    for side in ("in", "out"):
        count = sum(re.fullmatch(rf"{re.escape(prefix)}{side}\d+", name) is not None for name in arrays)
        sides.append([arrays[f"{prefix}{side}{at}"] for at in range(count)])
    return sides[0], sides[1]


def fed(graph: Graph, arrays: list[Array]) -> dict[str, Array]:
    """Arrays as the inputs of a graph, in their order."""
    return {tensor.name: array for tensor, array in zip(graph.inputs, arrays, strict=True)}


def graph_of_text(folder: Path, text: str) -> Graph:
    """The graph of a text, which is written into a file of a folder."""
    path = folder / "module.mlir"
    path.write_text(text)
    return load_stablehlo(path)


_NAMES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "bool": "i1"}


def type_text(array: Array) -> str:
    """The type of an array, as MLIR writes it."""
    name = array.dtype.name
    element = _NAMES.get(name, name.replace("uint", "ui").replace("int", "i"))
    return f"tensor<{''.join(f'{extent}x' for extent in array.shape)}{element}>"


def module_text(lines: str, inputs: list[str], results: list[str], returned: str) -> str:
    """A module whose function main has operations in the generic form, on ``%a0``, ``%a1``, ..."""
    given = ", ".join(f"%a{at}: {kind}" for at, kind in enumerate(inputs))
    signature = f"({', '.join(inputs)}) -> ({', '.join(results)})"
    return f"""\
"builtin.module"() ({{
  "func.func"() <{{function_type = {signature}, sym_name = "main"}}> ({{
  ^bb0({given}):
{lines}
    "func.return"({returned}) : ({", ".join(results)}) -> ()
  }}) : () -> ()
}}) : () -> ()
"""


def one_operation(
    name: str, inputs: list[Array], results: list[Array], attributes: str = "", region: str = ""
) -> str:
    """A module of one operation with properties and a region."""
    kinds, made = ([type_text(array) for array in arrays] for arrays in (inputs, results))
    names = ", ".join(f"%a{at}" for at in range(len(inputs)))
    properties = f" <{{{attributes}}}>" if attributes else ""
    body = f" ({{\n{region}\n    }})" if region else ""
    left = f"%r:{len(made)}" if len(made) > 1 else "%r"
    signature = f"({', '.join(kinds)}) -> ({', '.join(made)})"
    line = f'    {left} = "{name}"({names}){properties}{body} : {signature}'
    returned = ", ".join(f"%r#{at}" for at in range(len(made))) if len(made) > 1 else "%r"
    return module_text(line, kinds, made, returned)
