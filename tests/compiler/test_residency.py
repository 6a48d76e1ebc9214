"""With all values in DDR, programs give equal bytes if sums have the same order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import emulator
from asm.image import read_image, write_image
from compiler.cli import main
from compiler.driver import Program, compile_graph
from compiler.graph import Graph, GraphError
from compiler.passes.groups import borders
from compiler.tools.run import check, random_inputs
from sharded_nets import mlp, normalized_first
from stack_nets import bottleneck, fire, fires, stem

SAME: dict[str, Callable[[], Graph]] = {
    "products": lambda: mlp(bias=False),
    "bottleneck": bottleneck,
    "fire": fire,
    "fires": fires,
    "stem": stem,
}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if barriers took so long that every sequence is worth it."""
    monkeypatch.setattr(borders, "barrier_cycles", lambda machine: 10**9)


def phases(program: Program) -> int:
    assert program.report is not None
    return len(program.report.phases)


def results(made: Graph, program: Program) -> dict[str, bytes]:
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    found = loaded.run(random_inputs(made, {}, 7), strict=True)
    assert loaded.hazards == ()
    return {name: value.tobytes() for name, value in found.items()}


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize(("dtype", "tiles"), [("fp16", 16), ("bf16", 5)])
def test_same_bytes(name: str, dtype: str, tiles: int) -> None:
    made = SAME[name]()
    resident, stored = (compile_graph(made, dtype, tiles, residency=way) for way in ("on", "off"))
    assert phases(resident) < phases(stored)
    assert results(made, resident) == results(made, stored)


def test_all_values_in_ddr_are_right_too() -> None:
    made = normalized_first()
    program = compile_graph(made, "fp16", residency="off")
    assert program.report is not None
    assert {phase.tag for phase in program.report.phases}.isdisjoint({"sharded", "stacked"})
    assert all(verdict.ok for verdict in check(program, random_inputs(made, {}, 3)).verdicts.values())


def test_what_is_neither_on_nor_off() -> None:
    with pytest.raises(GraphError, match="unknown residency 'of'; allowed are on, off; did you mean 'off'"):
        compile_graph(mlp(), "fp16", residency="of")


def test_the_option_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = Path("examples/mlp/mlp.json")
    assert main([str(graph), "--residency", "none", "-o", str(tmp_path)]) == 1
    assert "unknown residency 'none'; allowed are on, off" in capsys.readouterr().err
    assert main([str(graph), "--residency", "off", "-q", "-o", str(tmp_path)]) == 0
