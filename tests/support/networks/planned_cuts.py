"""Plans that divide the only sequence of a graph in a given way."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from compiler.driver import compile_graph
from compiler.graph import Graph
from compiler.passes import patterns
from compiler.search.plan import plan_text
from tx8isa.machine.description import Machine


@cache
def without_sliced() -> str:
    """A set of patterns without sliced sequences, which are faster than many small ones of other kinds."""
    path = Path(_FOLDER.name) / "others.toml"
    default = (Path(patterns.__file__).parent / "default.toml").read_text(encoding="utf-8")
    path.write_text(default.partition("[sliced]")[0], encoding="utf-8")
    return str(path)


_FOLDER = TemporaryDirectory()


def plan_with_cut(
    made: Graph,
    dtype: str,
    tiles: int,
    tag: str,
    cut: dict[str, Any],
    folder: Path,
    machine: Machine | None = None,
) -> Path:
    """A plan, in ``folder``, with a cut for the only group with a tag; the search decides everything else."""
    kinds = "default" if tag == "sliced" else without_sliced()
    found = compile_graph(made, dtype, tiles, machine, patterns=kinds).report
    assert found is not None
    plan = json.loads(plan_text(found.plan))
    (phase,) = (phase for phase in found.phases if phase.tag == tag)
    assert phase.template is not None
    plan["templates"][found.templates[phase.template].key]["cut"] = cut
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    return path


def cut_into_bands(made: Graph, tiles: int) -> dict[str, Any]:
    """The rows of the first output in bands, whose tiles exchange the rows at the edges."""
    rows = made.outputs[0].shape[2]
    size = -(-rows // tiles)
    return {"tiles": {"rows": -(-rows // size)}, "sizes": {"rows": size}, "choices": {"between": "halo"}}
