"""Compiles by the plan that the compilation itself has saved, and compares both programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from compiler.driver import Program, compile_graph
from compiler.evaluation.sizes.ranges import ranges_of
from compiler.evaluation.states import with_states
from compiler.graph import Graph
from compiler.passes.base import RangedSource
from compiler.search import Search
from compiler.search.chips import parsed_degrees
from compiler.search.plan import plan_text
from compiler_harness import small_machine
from network_draws import Setting
from time_bench import warm
from tx8.models import graph_of
from tx8isa.machine.description import load_machine

FULL = Setting("fp16", 16, 0x300000, "fast")
"""The whole chip."""
Compile = Callable[[Path | None], Program]
"""Compiles something by the plan in a file, or by a search."""


def on_one(made: Graph, how: Setting, **options: Any) -> Compile:
    """Compile a graph for one warm chip with its settings, so that small groups are joined."""
    machine = warm(small_machine(how.spm_bytes))

    def compiled(plan: Path | None) -> Program:
        return compile_graph(made, how.dtype, how.tiles, machine, search=how.search, plan=plan, **options)

    return compiled


def on_chips(made: Graph, mesh: tuple[int, int], degrees: str | None) -> Compile:
    """A graph on several chips; without degrees they are found, and a plan saves them."""
    machine = load_machine(None).of_chips(*mesh)
    parallel = None if degrees is None else parsed_degrees(degrees)

    def compiled(plan: Path | None) -> Program:
        given = parallel if plan is None else None
        return compile_graph(made, "fp16", machine=machine, plan=plan, parallel=given)

    return compiled


def over_ranges(
    model: Any, dims: Mapping[str, Sequence[int] | str], state: Mapping[str, str] | None = None
) -> Compile:
    """Compile a model for ranges of sizes and a warm chip."""
    ranges = ranges_of(dims, bool(state))

    def at(sizes: Mapping[str, int]) -> Graph:
        return with_states(graph_of(model, (), None, sizes=ranges.model_sizes(sizes)), state or {}, True)

    source = RangedSource(ranges, at)
    source = source.with_growth() if state else source
    made = source.graph_at(source.ranges.usual)

    def compiled(plan: Path | None) -> Program:
        return compile_graph(made, "fp16", machine=warm(load_machine(None)), plan=plan, ranges=source)

    return compiled


def plan_of(program: Program) -> dict[str, Any]:
    """The plan of a compilation, as its file has it."""
    assert program.report is not None
    found: dict[str, Any] = json.loads(plan_text(program.report.plan))
    return found


def written(plan: dict[str, Any], folder: Path) -> Path:
    """The file of a plan."""
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    return path


def without_search(compiled: Compile, path: Path) -> Program:
    """The program by a plan; AssertionError if anything is searched."""

    def searched(*given: object) -> object:
        raise AssertionError("a search in spite of the plan")

    with pytest.MonkeyPatch.context() as patched:
        for name in ("run", "search_stack", "trial", "with_ends"):
            patched.setattr(Search, name, searched)
        return compiled(path)


def assert_replayed(compiled: Compile, folder: Path) -> dict[str, Any]:
    """Return a compilation's plan, after a compilation by it has given the same program and plan."""
    found = compiled(None)
    plan = plan_of(found)
    again = without_search(compiled, written(plan, folder))
    assert again.text == found.text
    assert bytes(again.constants) == bytes(found.constants)
    assert b"".join(map(bytes, again.image_file)) == b"".join(map(bytes, found.image_file))
    assert plan_of(again) == plan
    return plan
