"""Stacks of convolutions, pools and sums of bytes: the integers of separate phases, without hazards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emulator
from asm.image import read_image, write_image
from compiler.driver import Program, compile_graph
from compiler.graph import Array, Graph
from compiler.passes.groups import group_stack
from compiler.tools import run
from onnx_models import imported
from planned_cuts import plan_with_cut
from quantised_nets import bottlenecks

GATHER = {"tiles": {"channels": 16}, "choices": {"between": "gather"}}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if barriers took so long that every stack is worth it."""
    monkeypatch.setattr(group_stack, "barrier_cycles", lambda machine: 10**9)


def halo(rows: int, size: int) -> dict[str, Any]:
    return {"tiles": {"rows": rows}, "sizes": {"rows": size}, "choices": {"between": "halo"}}


def bands(rows: int, size: int) -> dict[str, Any]:
    return {"tiles": {"images": 1, "rows": rows}, "sizes": {"rows": size}, "choices": {"share": "weights"}}


def stacked(made: Graph, cut: dict[str, Any], folder: Path) -> Program:
    plan = plan_with_cut(made, "fp16", 16, "stacked", cut, folder)
    return compile_graph(made, "fp16", 16, plan=plan)


def outputs_of(program: Program, feeds: dict[str, Array]) -> dict[str, Array]:
    """The outputs; no hazards, and the same where engines write lines to their ends."""
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    found = dict(loaded.run(feeds, strict=True))
    assert loaded.hazards == ()
    hostile = dict(loaded.run(feeds, write_span="hostile"))
    for name, values in found.items():
        np.testing.assert_array_equal(hostile[name], values)
    return found


@pytest.mark.parametrize(
    ("cut", "sizes"),
    [
        (GATHER, (256, 64, 7, 9)),
        (GATHER, (1024, 256, 6, 6, 2)),
        (GATHER, (2048, 512, 5, 4, 2)),
        (halo(14, 1), (128, 64, 14, 6)),
        (halo(7, 2), (256, 128, 28, 9, 2)),
        (bands(13, 1), (200, 72, 13, 5)),
        (bands(5, 2), (96, 24, 19, 8, 2)),
    ],
)
def test_blocks_with_sums(cut: dict[str, Any], sizes: tuple[int, ...], tmp_path: Path) -> None:
    seed = sum(sizes)
    model, shape = bottlenecks(seed, *sizes)
    made = imported(model, tmp_path)
    feeds = {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}
    want = run.execute(compile_graph(made, "fp16", 16, residency="off"), feeds)[0]
    found = outputs_of(stacked(made, cut, tmp_path), feeds)
    for name, values in want.items():
        np.testing.assert_array_equal(found[name], values)
